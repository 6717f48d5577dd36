package mcpclient

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"countersign/mcpclient/internal/supervisor"
	"countersign/registry"
)

// delegated gives a folder that looks like a delegated cgroup.
func delegated(t *testing.T, controllers string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "cgroup.controllers"), []byte(controllers+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func open(t *testing.T, o KeeperOptions) *Keeper {
	t.Helper()
	k, err := OpenKeeper(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// contents gives what stands in the files of a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if raw, err := os.ReadFile(filepath.Join(dir, e.Name())); err == nil {
			out[e.Name()] = string(raw)
		}
	}
	return out
}

// TestProcessesGetCgroupsWithLimits where there is a delegated one, with the
// controllers that it has.
func TestProcessesGetCgroupsWithLimits(t *testing.T) {
	t.Parallel()
	limits := registry.CommandLimits{Memory: 64 << 20, Tasks: 30, CPUs: 0.5}
	want := map[string]string{"memory.max": "67108864", "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "32"}
	for controllers, more := range map[string]map[string]string{
		"cpuset cpu io memory pids": {"cpu.max": "50000 100000"},
		"memory pids":               {},
	} {
		base := delegated(t, controllers)
		k := open(t, KeeperOptions{StateDir: t.TempDir(), Cgroup: base})
		held, how := k.Bounds()
		if !held || !strings.Contains(how, base) || strings.Contains(how, "no controller") != (len(more) == 0) {
			t.Errorf("%s: %t %q", controllers, held, how)
		}
		enabled := map[bool]string{true: "+memory +pids +cpu", false: "+memory +pids"}[len(more) > 0]
		for _, dir := range []string{base, k.group} {
			if got := contents(t, dir)["cgroup.subtree_control"]; got != enabled {
				t.Errorf("%s: %s enables %q", controllers, dir, got)
			}
		}
		first, err := k.forProcess(limits.Defaults())
		if err != nil {
			t.Fatal(err)
		}
		second, err := k.forProcess(limits.Defaults())
		if err != nil || first == second || filepath.Dir(first) != k.group {
			t.Errorf("%s and %s, %v", first, second, err)
		}
		maps.Copy(more, want)
		if diff := cmp.Diff(more, contents(t, first)); diff != "" {
			t.Errorf("%s: %s", controllers, diff)
		}
	}
}

// TestAProcessRunsInItsCgroup: the whole of a command's life, in a sandbox and
// without.
func TestAProcessRunsInItsCgroup(t *testing.T) {
	t.Parallel()
	for _, sandbox := range []registry.Sandbox{registry.SandboxBubblewrap, registry.SandboxNone} {
		k := open(t, KeeperOptions{StateDir: t.TempDir(), Cgroup: delegated(t, "cpu memory pids")})
		p, fault := start(t.Context(), k, &Command{Argv: []string{"/bin/sleep", "1000"}, Sandbox: sandbox}, registry.DefaultLimits())
		if fault != nil {
			t.Fatal(fault, fault.Facts)
		}
		files := contents(t, p.kept.group)
		if p.kept.group == "" || files["cgroup.procs"] != "0" || files["memory.max"] != "1073741824" || files["cgroup.kill"] != "" {
			t.Errorf("%s: %q %v", sandbox, p.kept.group, files)
		}
		p.stop(false)
		p.close(t.Context())
		if got := contents(t, p.kept.group)["cgroup.kill"]; got != "1" {
			t.Errorf("%s: it was not killed: %q", sandbox, got)
		}
	}
}

// TestWithoutItsCgroupNothingIsStarted: who was promised limits of the kernel gets
// no process without.
func TestWithoutItsCgroupNothingIsStarted(t *testing.T) {
	t.Parallel()
	base := delegated(t, "memory pids")
	k := open(t, KeeperOptions{StateDir: t.TempDir(), Cgroup: base})
	if err := os.RemoveAll(base); err != nil {
		t.Fatal(err)
	}
	marker := filepath.Join(t.TempDir(), "started")
	_, fault := start(t.Context(), k, &Command{Argv: []string{"/bin/sh", "-c", "echo > " + marker}, Sandbox: registry.SandboxNone}, registry.DefaultLimits())
	if fault == nil || fault.Reason != registry.ReasonSandboxUnavailable || fault.Next == "" {
		t.Errorf("%v", fault)
	}
	if _, err := os.Stat(marker); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was started: %v", err)
	}
}

// TestACgroupThatCannotBeUsed: one that is named keeps the worker from starting,
// another is said to be none.
func TestACgroupThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for dir, want := range map[string]string{
		t.TempDir():                "no cgroup of version 2",
		"/nowhere":                 "no cgroup of version 2",
		delegated(t, "hugetlb io"): "no controllers memory and pids",
	} {
		states := t.TempDir()
		if k, err := OpenKeeper(t.Context(), KeeperOptions{StateDir: states, Cgroup: dir}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "worker.cgroup") {
			t.Errorf("%s: %v %v", dir, k, err)
		}
		if left := contents(t, states); len(left) > 0 {
			t.Errorf("%s: it leaves %v", dir, left)
		}
	}
	k := open(t, KeeperOptions{StateDir: t.TempDir(), Cgroup: CgroupNone})
	if held, how := k.Bounds(); held || !strings.Contains(how, "none") {
		t.Errorf("%t %q", held, how)
	}
	if dir, err := k.forProcess(registry.CommandLimits{}); dir != "" || err != nil {
		t.Errorf("%q %v", dir, err)
	}
}

// TestACgroupWithoutControllersHoldsNothing: one that is the worker's own and has no
// controllers for memory and tasks, as where version 1 has them, is as none. The worker
// starts and says why; limits are looked at.
func TestACgroupWithoutControllersHoldsNothing(t *testing.T) {
	t.Parallel()
	for _, controllers := range []string{"", "hugetlb", "cpu pids", "cpu memory"} {
		base, proc := delegated(t, controllers), t.TempDir()
		mount := "35 24 0:30 / " + base + " rw - cgroup2 none rw\n"
		if err := errors.Join(os.WriteFile(proc+"/cgroup", []byte("0::/\n"), 0o600), os.WriteFile(proc+"/mountinfo", []byte(mount), 0o600)); err != nil {
			t.Fatal(err)
		}
		k := &Keeper{}
		if err := k.delegate("", proc); err != nil {
			t.Errorf("%q: %v", controllers, err)
		}
		if held, how := k.Bounds(); held || !strings.Contains(how, base+" has no controllers memory and pids") || k.how() != "limits looked at every 50 ms" {
			t.Errorf("%q: %t %q, %s", controllers, held, how, k.how())
		}
		if dir, err := k.forProcess(registry.CommandLimits{}); dir != "" || err != nil {
			t.Errorf("%q: %q %v", controllers, dir, err)
		}
		if got := contents(t, base); len(got) != 1 {
			t.Errorf("%q: it writes %v", controllers, got)
		}
	}
}

// TestItsOwnCgroupIsFound as /proc has it.
func TestItsOwnCgroupIsFound(t *testing.T) {
	t.Parallel()
	unmarked := t.TempDir()
	if err := os.Mkdir(filepath.Join(unmarked, "a.service"), 0o700); err != nil {
		t.Fatal(err)
	}
	const mount = "35 24 0:30 / %s rw,nosuid - cgroup2 none rw,nsdelegate\n"
	for _, tt := range []struct{ name, cgroup, mounts, dir, why string }{
		{"the root of a container", "0::/\n", strings.Replace(mount, "%s", "/sys/fs/cgroup", 1), "/sys/fs/cgroup", ""},
		{"both versions", "4:memory:/x\n1:cpu:/\n0::/\n", "36 24 0:31 / /sys/fs/cgroup/memory rw - cgroup none rw,memory\n" + strings.Replace(mount, "%s", "/sys/fs/cgroup/unified", 1), "/sys/fs/cgroup/unified", ""},
		{"a service that has none of its own", "0::/a.service\n", strings.Replace(mount, "%s", unmarked, 1), "", "was not delegated"},
		{"the first version only", "4:memory:/x\n", "36 24 0:31 / /sys/fs/cgroup/memory rw - cgroup none rw,memory\n", "", "no cgroups of version 2"},
		{"a part of the hierarchy", "0::/\n", "35 24 0:30 /docker/x /sys/fs/cgroup rw - cgroup2 none rw\n", "", "no cgroups of version 2"},
		{"nothing", "", "", "", "no cgroups of version 2"},
	} {
		proc := t.TempDir()
		if err := errors.Join(os.WriteFile(proc+"/cgroup", []byte(tt.cgroup), 0o600), os.WriteFile(proc+"/mountinfo", []byte(tt.mounts), 0o600)); err != nil {
			t.Fatal(err)
		}
		dir, why := ownGroup(proc)
		if dir != tt.dir || (why == "") != (tt.why == "") || !strings.Contains(why, tt.why) {
			t.Errorf("%s: %q %q", tt.name, dir, why)
		}
	}
}

// TestWhatADeadWorkerLeftIsRemoved, and nothing of one that lives.
func TestWhatADeadWorkerLeftIsRemoved(t *testing.T) {
	t.Parallel()
	states, base := t.TempDir(), delegated(t, "memory pids")
	alive := open(t, KeeperOptions{StateDir: states, Cgroup: base})
	dead, err := OpenKeeper(t.Context(), KeeperOptions{StateDir: states, Cgroup: base})
	if err != nil {
		t.Fatal(err)
	}
	// A supervisor that somebody stopped ends nothing when its worker dies; one of
	// another worker likewise, but it is none of our business.
	began := func(owner string) (*supervisor.Process, int) {
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		p, err := supervisor.Start(supervisor.Command{Argv: []string{"/bin/sleep", "1000"}, Files: [3]*os.File{null, null, null}, Owner: owner})
		if err == nil {
			err = p.Begun(t.Context())
		}
		pids := supervisor.Of(owner)
		if err != nil || len(pids) != 1 {
			t.Fatal(err, pids)
		}
		return p, pids[0]
	}
	orphan, pid := began(dead.id)
	other, otherPID := began(alive.id)
	if err := errors.Join(unix.Kill(pid, unix.SIGSTOP), unix.Kill(otherPID, unix.SIGSTOP)); err != nil {
		t.Fatal(err)
	}
	for _, k := range []*Keeper{alive, dead} {
		dir, err := k.forProcess(registry.CommandLimits{}.Defaults())
		if err != nil {
			t.Fatal(err)
		}
		// A cgroup is removed with its files; of a folder that stands for one they go before.
		if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700), os.RemoveAll(k.group+"/cgroup.subtree_control")); err != nil {
			t.Fatal(err)
		}
	}
	orphan.Close()
	other.Close()
	_ = dead.note.Close() // the lock is gone, as when the process is

	var said bytes.Buffer
	next := open(t, KeeperOptions{StateDir: states, Cgroup: base, Log: slog.New(slog.NewTextHandler(&said, nil))})
	for deadline := time.Now().Add(20 * time.Second); len(supervisor.Of(dead.id)) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the supervisor lives: %s", said.String())
		}
		// What another test starts just now has our lock until it is another program.
		next.Close()
		next = open(t, KeeperOptions{StateDir: states, Cgroup: base, Log: slog.New(slog.NewTextHandler(&said, nil))})
	}
	orphan.Wait()
	if left := supervisor.Of(alive.id); len(left) != 1 || !stopped(left[0]) { // it waits for its worker, whatever becomes of it
		t.Errorf("the other's was touched: %v", left)
	}
	entries, err := os.ReadDir(base)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	want := []string{groupName(alive.id), groupName(next.id)}
	slices.Sort(want)
	killed, _ := os.ReadFile(filepath.Join(base, groupName(dead.id), "cgroup.kill"))
	if diff := cmp.Diff(want, slices.DeleteFunc(names, func(name string) bool { return name == groupName(dead.id) && string(killed) == "1" })); diff != "" {
		t.Errorf("cgroups: %s\n%s", diff, said.String())
	}
	_ = unix.Kill(otherPID, unix.SIGCONT)
	other.Wait()
}

func stopped(pid int) bool {
	out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.HasPrefix(string(out), "T")
}

// TestALockEndsWithItsWorker and no sooner: another that looks takes nothing.
func TestALockEndsWithItsWorker(t *testing.T) {
	t.Parallel()
	states := t.TempDir()
	k, err := OpenKeeper(t.Context(), KeeperOptions{StateDir: states, Cgroup: CgroupNone})
	if err != nil {
		t.Fatal(err)
	}
	path := k.note.Name()
	for range 2 {
		open(t, KeeperOptions{StateDir: states, Cgroup: CgroupNone})
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("the note of one that lives is gone: %v", err)
		}
	}
	k.Close()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// TestANoteOfAnotherIsNotObeyed: a directory that others can write to is not taken,
// and a line that names anything but the dead worker's own does nothing.
func TestANoteOfAnotherIsNotObeyed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	loose := filepath.Join(dir, "loose")
	if err := errors.Join(os.Mkdir(loose, 0o700), os.Chmod(loose, 0o777), os.Symlink(t.TempDir(), dir+"/link"), os.WriteFile(dir+"/file", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		loose: "can be written by others", dir + "/link": "is no directory", dir + "/file": "cannot be made", "states": "no absolute path",
	} {
		if k, err := OpenKeeper(t.Context(), KeeperOptions{StateDir: path}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "worker.state_dir") {
			t.Errorf("%s: %v %v", path, k, err)
		}
	}
	victim := filepath.Join(dir, "victim")
	states := t.TempDir()
	if err := errors.Join(os.Mkdir(victim, 0o700), os.WriteFile(states+"/0011.worker", []byte("cgroup "+victim+"\ncgroup ../x\nother x\nnonsense\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	open(t, KeeperOptions{StateDir: states, Cgroup: CgroupNone})
	if _, err := os.Stat(victim); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(states + "/0011.worker"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the note is there: %v", err)
	}
}

// TestATreeIsKilledWhole, with who left the session.
func TestATreeIsKilledWhole(t *testing.T) {
	t.Parallel()
	mark := "1000." + strconv.Itoa(os.Getpid())
	tree := exec.Command("/bin/sh", "-c", "setsid sleep "+mark+" & sh -c 'setsid sleep "+mark+" & wait' & wait")
	if err := tree.Start(); err != nil {
		t.Fatal(err)
	}
	count := func() int {
		n := 0
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range files {
			raw, _ := os.ReadFile(file)
			if strings.HasPrefix(string(raw), "sleep\x00"+mark) {
				n++
			}
		}
		return n
	}
	for deadline := time.Now().Add(10 * time.Second); count() < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not start")
		}
	}
	killTree(tree.Process.Pid)
	_ = tree.Wait()
	if state, _ := tree.ProcessState.Sys().(syscall.WaitStatus); state.Signal() != syscall.SIGKILL {
		t.Errorf("%v", tree.ProcessState)
	}
	for deadline := time.Now().Add(10 * time.Second); count() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("something lives")
		}
	}
}
