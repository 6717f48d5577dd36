package supervisor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cgroup gives the directory of an empty cgroup: a real one where this machine lets
// us make one, else a folder that looks like one.
func cgroup(t *testing.T) (dir string, genuine bool) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if len(fields) < 5 || !strings.HasPrefix(after, "cgroup2 ") {
			continue
		}
		dir := filepath.Join(fields[4], "countersign-test-"+strconv.Itoa(os.Getpid())+"-"+strconv.FormatInt(time.Now().UnixNano(), 36))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		if _, err := os.Stat(dir + "/cgroup.kill"); err == nil {
			t.Cleanup(func() { removeGroup(dir) })
			return dir, true
		}
		_ = os.Remove(dir)
	}
	t.Log("no cgroup of version 2 with cgroup.kill can be made here: a folder stands for one, in which nothing is killed")
	return t.TempDir(), false
}

func holds(t *testing.T, file, want string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil || strings.TrimSpace(string(raw)) != want {
		t.Errorf("%s: %q %v, not %q", filepath.Base(file), raw, err, want)
	}
}

// TestACommandIsInItsCgroup with all that it starts; it is killed and removed with
// the last of them.
func TestACommandIsInItsCgroup(t *testing.T) {
	t.Parallel()
	dir, genuine := cgroup(t)
	r, err := grouped(t, dir, Usage{}, `setsid sleep 1000 & echo $!; cat /proc/self/cgroup | tr '\n' ' '; exec sleep 1000`)
	if err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 4096)
	n, err := r.output.Read(said)
	for err == nil && !strings.Contains(string(said[:n]), "0::") {
		var more int
		more, err = r.output.Read(said[n:])
		n += more
	}
	first, groups, _ := strings.Cut(string(said[:n]), "\n")
	child, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	if genuine {
		if !strings.Contains(groups, "0::/"+filepath.Base(dir)+" ") {
			t.Errorf("it is in %q, not in %s", groups, dir)
		}
		raw, err := os.ReadFile(dir + "/cgroup.procs")
		if inside := strings.Fields(string(raw)); err != nil || !slices.Contains(inside, first) || slices.Contains(inside, strconv.Itoa(r.child.Pid)) {
			t.Errorf("there are %q %v", raw, err)
		}
	} else {
		holds(t, dir+"/cgroup.procs", "0")
	}
	r.Kill()
	r.End()
	r.Wait()
	if err := syscall.Kill(child, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("%d lives: %v", child, err)
	}
	if genuine {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the cgroup is there: %v", err)
		}
	} else {
		holds(t, dir+"/cgroup.kill", "1")
	}
}

// TestTheKernelSaysWhatWasTooMuch: what stands in the cgroup's files of events is
// why a command was ended.
func TestTheKernelSaysWhatWasTooMuch(t *testing.T) {
	t.Parallel()
	most := Usage{Memory: 64 << 20, Tasks: 30}
	for name, tt := range map[string]struct {
		files  map[string]string
		script string
		want   Usage
		ended  bool // by a signal, ours or its own
	}{
		"nothing":                 {map[string]string{"memory.events": "max 3\noom 0\noom_kill 0\n", "pids.events": "max 0\n"}, "exit 3", Usage{}, false},
		"no files":                {nil, "exit 3", Usage{}, false},
		"a task":                  {map[string]string{"pids.events": "max 2\n"}, "exec sleep 1000", Usage{Tasks: 31}, true},
		"memory":                  {map[string]string{"memory.events": "oom 1\noom_kill 7\noom_group_kill 1\n"}, "exec sleep 1000", Usage{Memory: 64 << 20}, true},
		"memory, and how much":    {map[string]string{"memory.events": "oom_kill 1\n", "memory.peak": "67112960\n"}, "kill -KILL $$", Usage{Memory: 67112960}, true},
		"memory, seen at the end": {map[string]string{"memory.events": "oom_kill 1\n"}, "exit 0", Usage{Memory: 64 << 20}, false},
	} {
		dir := t.TempDir()
		for file, text := range tt.files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r, err := grouped(t, dir, most, tt.script)
		if err != nil {
			t.Fatal(err)
		}
		end, known := r.End()
		if !known || end.Over != tt.want || tt.ended && !end.Status.Signaled() {
			t.Errorf("%s: %+v %t", name, end, known)
		}
		r.Wait()
	}
}

// TestWithoutItsCgroupACommandDoesNotRun.
func TestWithoutItsCgroupACommandDoesNotRun(t *testing.T) {
	t.Parallel()
	r, err := grouped(t, "/nowhere", Usage{}, "echo started")
	if !errors.Is(err, syscall.ENOENT) {
		t.Errorf("%v", err)
	}
	r.End()
	r.Wait()
	said := make([]byte, 16)
	if n, _ := r.output.Read(said); n > 0 {
		t.Errorf("%s", said[:n])
	}
}

// TestADeadSupervisorLeavesNothingOfItsSession: without a sandbox, its command dies
// with it, and what the command started is killed by who waits.
func TestADeadSupervisorLeavesNothingOfItsSession(t *testing.T) {
	t.Parallel()
	r, err := under(t, "/", "", "/bin/sh", "-c", `sleep 1000 & echo $!; sh -c 'sleep 1000 & echo $!; exec sleep 1000' & echo $!; wait`)
	if err != nil {
		t.Fatal(err)
	}
	var pids [3]int
	for i := range pids {
		pids[i] = readNumber(t, r.output)
	}
	if err := syscall.Kill(r.child.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, known := r.End(); known {
		t.Error("a dead supervisor knows how the command ended")
	}
	if own := r.Wait(); own.Signal() != syscall.SIGKILL {
		t.Errorf("the supervisor ends with %v", own)
	}
	for _, pid := range pids {
		for deadline := time.Now().Add(10 * time.Second); lives(pid); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d lives", pid)
			}
		}
	}
}

// lives says whether a process has not ended, or was not waited for.
func lives(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestWhoIsAliveInASession(t *testing.T) {
	t.Parallel()
	for stat, want := range map[string]bool{
		"7 (sh) S 5 7 9 0":      true,
		"7 (a) Z 1 9) R 5 7 9 ": true,
		"7 (sh) Z 5 7 9 0":      false,
		"7 (sh) S 5 9 7 0":      false,
		"7 (sh) S 5":            false,
		"":                      false,
	} {
		if got := alive(stat, "9"); got != want {
			t.Errorf("%q: %t", stat, got)
		}
	}
}
