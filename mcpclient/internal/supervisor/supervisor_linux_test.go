package supervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// run is a command under a supervisor, with its output.
type run struct {
	*Process

	output *os.File // read end
}

func under(t *testing.T, dir, env string, argv ...string) (run, error) {
	t.Helper()
	return within(t, nil, Usage{}, dir, env, argv...)
}

func within(t *testing.T, limits []Rlimit, most Usage, dir, env string, argv ...string) (run, error) {
	t.Helper()
	return started(t, env, Command{Argv: argv, Dir: dir, Rlimits: limits, Most: most})
}

// grouped runs a script in a cgroup.
func grouped(t *testing.T, group string, most Usage, script string) (run, error) {
	t.Helper()
	return started(t, "PATH=/usr/bin:/bin\x00", Command{Argv: []string{"/bin/sh", "-c", script}, Group: group, Most: most})
}

func started(t *testing.T, env string, c Command) (run, error) {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	data := filepath.Join(t.TempDir(), "environment")
	if err := os.WriteFile(data, []byte(env), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(data)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c.Files, c.Env = [3]*os.File{null, w, w}, file
	p, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Close()
		r.Close()
	})
	return run{p, r}, p.Begun(t.Context())
}

func TestTheEndOfACommandIsReportedAsItIs(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"exit 0":         "exit 0",
		"exit 7":         "exit 7",
		"exit 137":       "exit 137",
		"kill -SEGV $$":  "segmentation fault",
		"kill -KILL $$":  "killed",
		"kill -TERM $$":  "terminated",
		"sleep 1000 & :": "exit 0", // it leaves something behind
	} {
		r, err := under(t, "/", "", "/bin/sh", "-c", script)
		if err != nil {
			t.Fatal(err)
		}
		end, known := r.End()
		status := end.Status
		got := "exit " + strconv.Itoa(status.ExitStatus())
		if status.Signaled() {
			got = status.Signal().String()
		}
		if !known || got != want {
			t.Errorf("%s: %s, %t", script, got, known)
		}
		if own := r.Wait(); own != 0 {
			t.Errorf("%s: the supervisor ends with %v", script, own)
		}
		if _, err := io.ReadAll(r.output); err != nil { // it ends: nobody holds it
			t.Error(err)
		}
	}
}

func TestWhatKeepsACommandFromRunningIsReported(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		dir, program string
		want         error
	}{
		{"/nowhere", "/bin/sh", syscall.ENOENT},
		{"/etc/passwd", "/bin/sh", syscall.ENOTDIR},
		{"/", "/nowhere", syscall.ENOENT},
		{"/", "/etc/passwd", syscall.EACCES},
	} {
		r, err := under(t, tt.dir, "", tt.program)
		if !errors.Is(err, tt.want) {
			t.Errorf("%s in %s: %v", tt.program, tt.dir, err)
		}
		r.End()
		r.Wait()
	}
}

func TestACommandGetsWhatIsItsOwnAndNothingElse(t *testing.T) {
	t.Parallel()
	// Not closed on exec, like what a program may be started with.
	loose, err := syscall.Open("/etc/passwd", syscall.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(loose)
	r, err := under(t, "/etc", "A=1 2\x00B=\x00", "/bin/sh", "-c", `pwd; /usr/bin/env; cd /proc/self/fd; echo *; cat /proc/$PPID/comm; ps -o pgid= -p $$ | tr -d ' '; echo $$`)
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r.output)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) < 3 || lines[len(lines)-1] != lines[len(lines)-2] {
		t.Errorf("it is not the first of its group: %s", out)
	}
	// 3 is the directory that the shell looks at.
	if diff := cmp.Diff([]string{"/etc", "A=1 2", "B=", "PWD=/etc", "0 1 2 3", "countersign-sup"}, lines[:len(lines)-2]); diff != "" {
		t.Error(diff)
	}
	r.End()
	r.Wait()
}

// TestTheEnvironmentIsNotInTheSupervisor: not in its memory, its own environment or
// its arguments.
func TestTheEnvironmentIsNotInTheSupervisor(t *testing.T) {
	t.Parallel()
	secret := "canary" + strconv.Itoa(os.Getpid()) + "-of-the-environment"
	r, err := under(t, "/", "TOKEN="+secret+"\x00", "/bin/sh", "-c", `echo "$TOKEN"; exec sleep 1000`)
	if err != nil {
		t.Fatal(err)
	}
	said := make([]byte, len(secret))
	if _, err := io.ReadFull(r.output, said); err != nil || string(said) != secret {
		t.Fatalf("%q %v", said, err)
	}
	proc := "/proc/" + strconv.Itoa(r.child.Pid)
	looked := 0
	for _, name := range []string{"/cmdline", "/environ"} {
		raw, err := os.ReadFile(proc + name)
		if err != nil || bytes.Contains(raw, []byte(secret)) {
			t.Errorf("%s: %v %q", name, err, raw)
		}
	}
	maps, err := os.ReadFile(proc + "/maps")
	if err != nil {
		t.Fatal(err)
	}
	memory, err := os.Open(proc + "/mem")
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var rights string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights); err != nil || !strings.HasPrefix(rights, "rw") {
			continue
		}
		part := make([]byte, min(to-from, 64<<20))
		n, _ := memory.ReadAt(part, from)
		looked += n
		if bytes.Contains(part[:n], []byte(secret)) {
			t.Errorf("it is in %s", line)
		}
	}
	if looked < 1<<20 {
		t.Errorf("only %d bytes can be looked at", looked)
	}
	r.Kill()
	r.End()
	r.Wait()
}

func TestTheEndOfTheLifelineKillsAll(t *testing.T) {
	t.Parallel()
	r, err := under(t, "/", "", "/bin/sh", "-c", `trap "" TERM HUP; (trap "" TERM; setsid sleep 1000 & echo $!; setsid sh -c 'setsid sleep 1000 & echo $!; exec sleep 1000' & echo $!; wait)`)
	if err != nil {
		t.Fatal(err)
	}
	var pids [3]int
	for i := range pids {
		pids[i] = readNumber(t, r.output)
	}
	r.Terminate()
	r.Close()
	r.Wait()
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("%d lives: %v", pid, err)
		}
	}
}

func readNumber(t *testing.T, from io.Reader) int {
	t.Helper()
	var n int
	if _, err := fmt.Fscanln(from, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestWaitingForTheBeginningEnds(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	p := &Process{begun: r}
	if err := p.Begun(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestAParentIsFoundWhateverTheName(t *testing.T) {
	t.Parallel()
	for stat, want := range map[string]string{
		"7 (sh) S 5 7 7 0":          "5",
		"7 (a) S 1 (b) c)) Z 5 7 7": "5",
		"7 () S 5":                  "5",
		"7 (sh":                     "",
		"":                          "",
	} {
		if got := parent(stat); got != want {
			t.Errorf("%q: %q", stat, got)
		}
	}
}

// TestItsInitIsAmongTheFirst: packages are initialized when all that they import
// is, in the order of their paths.
func TestItsInitIsAmongTheFirst(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*_linux.go")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	few := "context encoding/binary errors io math os os/signal strconv strings syscall time unsafe "
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			if path, err := strconv.Unquote(i.Path.Value); err != nil || !strings.Contains(few, path+" ") {
				t.Errorf("%s imports %s", name, path)
			}
		}
	}
}

// TestLimitsHoldForACommand that its program cannot raise again.
func TestLimitsHoldForACommand(t *testing.T) {
	t.Parallel()
	limits := []Rlimit{{syscall.RLIMIT_NOFILE, 64}, {syscall.RLIMIT_CORE, 0}, {syscall.RLIMIT_CPU, 7}, {syscall.RLIMIT_FSIZE, 1 << 20}}
	r, err := within(t, limits, Usage{}, "/", "", "/bin/sh", "-c", "ulimit -Hn; ulimit -Sn; ulimit -Hc; ulimit -Ht; ulimit -Hf")
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r.output)
	if err != nil || string(out) != "64\n64\n0\n7\n2048\n" { // blocks of 512 bytes
		t.Errorf("%q %v", out, err)
	}
	r.End()
	r.Wait()
}

// TestWhoUsesTooMuchIsEnded with all others, and that is why.
func TestWhoUsesTooMuchIsEnded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		most   Usage
		script string
	}{
		"tasks":                     {Usage{Tasks: 30}, `trap "" TERM; i=0; while [ $i -lt 40 ]; do setsid sleep 1000 & i=$((i+1)); done; exec sleep 1000`},
		"memory":                    {Usage{Memory: 64 << 20}, `a=x; while :; do a=$a$a; done`},
		"memory, of another in all": {Usage{Memory: 64 << 20}, `setsid sh -c 'a=x; while [ ${#a} -lt 40000000 ]; do a=$a$a; done; sleep 1000' & setsid sh -c 'a=x; while [ ${#a} -lt 40000000 ]; do a=$a$a; done; sleep 1000' & exec sleep 1000`},
	} {
		r, err := within(t, nil, tt.most, "/", "", "/bin/sh", "-c", tt.script)
		if err != nil {
			t.Fatal(err)
		}
		end, known := r.End()
		if !known || !end.Status.Signaled() || (end.Over.Memory > tt.most.Memory) != (tt.most.Memory > 0) || (end.Over.Tasks > tt.most.Tasks) != (tt.most.Tasks > 0) {
			t.Errorf("%s: %+v %t", name, end, known)
		}
		r.Wait()
		if _, err := io.ReadAll(r.output); err != nil { // it ends: nobody holds it
			t.Error(err)
		}
	}
}

func TestWhatAProcessUsesIsRead(t *testing.T) {
	t.Parallel()
	own := usage("self")
	if own.Memory < 1<<20 || own.Tasks < 2 {
		t.Errorf("%+v", own)
	}
	got := parseUsage("Name:\tRssAnon: 7\nRssAnon:\t 1024 kB\nRssFile:\t 5 kB\nRssShmem:\t   3 kB\nVmSwap:\t 1 kB\nThreads:\t12\n")
	if got != (Usage{Memory: 1028 << 10, Tasks: 12}) {
		t.Errorf("%+v", got)
	}
	if got := usage("nobody"); got != (Usage{}) {
		t.Errorf("%+v", got)
	}
}

// TestOrdersAreReadAsWritten.
func TestOrdersAreReadAsWritten(t *testing.T) {
	t.Parallel()
	want := orders{more: 2, env: true, most: Usage{Memory: 1 << 40, Tasks: 9}, rlimits: []Rlimit{{7, 1 << 63}, {4, 0}}, dir: "/a:b,c=d"}
	got, err := parseOrders(want.String())
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != want.String() || got.files() != 3 || got.dir != want.dir || len(got.rlimits) != 2 {
		t.Errorf("%+v", got)
	}
	for _, bad := range []string{"", "1:2:3", "x:0:0:0::/", "1:0:0:0:a=b:/", "1:0:0:0:1=b:/"} {
		if _, err := parseOrders(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
