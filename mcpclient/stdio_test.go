package mcpclient_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/mcpclient"
	"countersign/registry"
)

var bothSandboxes = map[string]registry.Sandbox{"bubblewrap": registry.SandboxBubblewrap, "none": registry.SandboxNone}

// TestAProcessIsDiscovered in both eras, whatever was known, in a sandbox and
// without, and nothing is left of it.
func TestAProcessIsDiscovered(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		behaviour, known, era string
		quirks                []string
	}{
		{"modern", "", mcpclient.EraModern, nil},
		{"modern", mcpclient.EraModern, mcpclient.EraModern, nil},
		{"modern", mcpclient.EraLegacy, mcpclient.EraModern, nil},
		{"legacy", "", mcpclient.EraLegacy, nil},
		{"legacy", mcpclient.EraSSE, mcpclient.EraLegacy, nil},
		{"legacy", mcpclient.EraLegacy, mcpclient.EraLegacy, nil},
		{"exits on discover", "", mcpclient.EraLegacy, nil},
		{"silent on discover", "", mcpclient.EraLegacy, nil},
		{"noise", "", mcpclient.EraLegacy, []string{"stdout_noise"}},
		{"stderr flood", "", mcpclient.EraLegacy, nil},
		{"ignores SIGTERM", mcpclient.EraLegacy, mcpclient.EraLegacy, nil},
		{"child in the group", mcpclient.EraLegacy, mcpclient.EraLegacy, nil},
	} {
		for name, sandbox := range bothSandboxes {
			t.Run(tt.behaviour+" known as "+tt.known+" in "+name, func(t *testing.T) {
				t.Parallel()
				command, mark := peer(t, tt.behaviour)
				command.Sandbox = sandbox
				if tt.behaviour == "silent on discover" {
					command.Start = 6 * time.Second
				}
				surface, report, err := starter(command, nil).Discover(t.Context(), overStdio, tt.known, nil)
				if err != nil {
					e, _ := registry.AsError(err)
					t.Fatalf("%v %v", err, e.Facts)
				}
				version := map[string]string{mcpclient.EraModern: "2026-07-28", mcpclient.EraLegacy: "2025-11-25"}[tt.era]
				if diff := cmp.Diff(registry.Surface{
					ProtocolVersion: version, Name: "peer", Version: "1", Kinds: []string{"tools"}, Quirks: tt.quirks,
					Tools: [][]byte{[]byte(`{"name":"a","big":9007199254740993}`)},
				}, surface); diff != "" {
					t.Error(diff)
				}
				if report.Era != tt.era || report.ProtocolVersion != version {
					t.Errorf("%+v", report)
				}
				for _, step := range report.Steps {
					if step.OK && step.Detail == "" {
						t.Errorf("step %s says nothing", step.Name)
					}
				}
				noneLeft(t, mark)
			})
		}
	}
}

// TestAProcessFailsWithAReason, its facts, and within its time.
func TestAProcessFailsWithAReason(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		behaviour string // of a peer, or a script of a shell
		sandbox   registry.Sandbox
		want      registry.Reason
		facts     map[string]string
		waits     bool
	}{
		{"it exits at once", "$echo 'missing API_KEY' >&2; printf '\\033[2J' >&2; exit 3", "", registry.ReasonUnreachable, map[string]string{"exit_code": "3", "stderr": `missing API_KEY\n\x1b[2J`, "phase": "handshake", "signal": ""}, false},
		{"it exits at once, without a sandbox", "$echo 'missing API_KEY' >&2; exit 1", "none", registry.ReasonUnreachable, map[string]string{"exit_code": "1", "stderr": `missing API_KEY`}, false},
		{"it is killed", "$kill -SEGV $$", "none", registry.ReasonUnreachable, map[string]string{"signal": "SIGSEGV", "exit_code": ""}, false},
		{"it never answers", "never", "", registry.ReasonTimeout, map[string]string{"limit_seconds": "3", "exit_code": "", "signal": ""}, true},
		{"it never answers, without a sandbox", "never", "none", registry.ReasonTimeout, nil, true},
		{"it closes its output and stays", "$exec >&-; sleep 100", "none", registry.ReasonUnreachable, map[string]string{"exit_code": ""}, false},
		{"it writes one long line", "long line", "", registry.ReasonProtocolError, map[string]string{"limit_bytes": "16777216", "scope": "line"}, false},
		{"it writes noise for ever", "endless noise", "", registry.ReasonProtocolError, map[string]string{"limit_bytes": "33554432", "scope": "total", "noise": strings.Repeat("noise ", 33) + "no…"}, false},
		{"it writes noise and nothing else", "$printf 'Starting...\\n\\033[2J\\n'; exec cat >/dev/null", "", registry.ReasonTimeout, map[string]string{"noise": "Starting...", "noise_lines": "2"}, true},
		{"a page is too large", "large", "", registry.ReasonTooLarge, nil, false},
		{"it dies in a list", "dies in a list", "none", registry.ReasonListFailed, map[string]string{"cause": "unreachable", "signal": "SIGKILL", "stderr": `out of luck\x1b[2J`, "phase": "lists"}, false},
		{"it dies in a list, in a sandbox", "dies in a list", "", registry.ReasonListFailed, map[string]string{"cause": "unreachable", "signal": "SIGKILL", "exit_code": "137", "stderr": `out of luck\x1b[2J`}, false},
		{"it is silent in a list", "silent in a list", "", registry.ReasonListFailed, map[string]string{"cause": "timeout"}, true},
		{"the program is missing", "/nowhere/program", "none", registry.ReasonUnreachable, map[string]string{"phase": "start", "program": "/nowhere/program"}, false},
		{"the program is missing in the sandbox", "/nowhere/program", "", registry.ReasonUnreachable, map[string]string{"exit_code": "1"}, false},
		{"the program is no program", "/etc/passwd", "none", registry.ReasonUnreachable, map[string]string{"phase": "start"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			command, mark := peer(t, tt.behaviour)
			if script, ok := strings.CutPrefix(tt.behaviour, "$"); ok {
				command = shell("# " + mark + "\n" + script)
			} else if strings.HasPrefix(tt.behaviour, "/") {
				command.Argv = []string{tt.behaviour}
			}
			command.Sandbox = tt.sandbox
			lists := patience
			if tt.waits {
				command.Start, lists = 3*time.Second, 2*time.Second
			}
			if tt.name == "it is silent in a list" {
				command.Start = patience
			}
			began := time.Now()
			surface, report, err := starter(command, func(l *registry.Limits) { l.Lists = lists }).Discover(t.Context(), overStdio, "", nil)
			checkTime(t, began, tt.waits, 2*time.Second)
			e, ok := registry.AsError(err)
			if !ok || e.Reason != tt.want {
				t.Fatalf("%v: %+v", err, e)
			}
			for key, want := range tt.facts {
				if got := e.Fact(key); got != want {
					t.Errorf("%s is %q, not %q", key, got, want)
				}
			}
			checkPrintable(t, e)
			if surface.Tools != nil || len(report.Steps) == 0 {
				t.Errorf("%+v %+v", surface, report)
			}
			t.Log(e.Message, "|", e.Next)
			noneLeft(t, mark)
		})
	}
}

// TestTheEndOfStandardErrorIsKept: at most 4 KiB of it.
func TestTheEndOfStandardErrorIsKept(t *testing.T) {
	t.Parallel()
	needBubblewrap(t)
	_, _, err := starter(shell(`i=0; while [ $i -lt 2000 ]; do echo "line $i" >&2; i=$((i+1)); done; exit 1`), nil).Discover(t.Context(), overStdio, "", nil)
	e, _ := registry.AsError(err)
	if got := e.Fact("stderr"); len(got) > 5000 || len(got) < 4000 || !strings.HasSuffix(got, `line 1998\nline 1999`) {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

// TestAProcessGetsItsOwnEnvironmentOnly (threats B10).
func TestAProcessGetsItsOwnEnvironmentOnly(t *testing.T) {
	t.Setenv("COUNTERSIGN_CANARY", "must not be seen")
	for name, sandbox := range bothSandboxes {
		command, mark := peer(t, "environment")
		command.Sandbox, command.Env = sandbox, []string{"TOKEN=a b\nc=d", "EMPTY="}
		surface, _, err := starter(command, nil).Discover(t.Context(), overStdio, mcpclient.EraLegacy, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.ReplaceAll(string(surface.Tools[0]), `,"PWD=/"`, "") // bubblewrap adds where it is
		if want := `{"name":"env","env":["TOKEN=a b\nc=d","EMPTY="]}`; got != want {
			t.Errorf("%s: %s", name, got)
		}
		noneLeft(t, mark)
	}
}

// TestSecretsAreNotAmongTheArguments of any process, where everybody on the
// machine can read them.
func TestSecretsAreNotAmongTheArguments(t *testing.T) {
	t.Parallel()
	command, mark := peer(t, "never")
	secret := "secret-of-" + mark
	command.Env, command.Start = []string{"TOKEN=" + secret}, 2*time.Second
	seen := make(chan []string, 1)
	c := starter(command, nil)
	go func() {
		for len(processes(mark)) < 4 && t.Context().Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		seen <- processes(secret)
	}()
	if _, err := c.Probe(t.Context(), overStdio, ""); err == nil {
		t.Error("it was accepted")
	}
	if found := <-seen; len(found) > 0 {
		t.Error(found)
	}
	noneLeft(t, mark)
}

// TestTheSandboxHolds: no writing, no network, no descriptors but its own.
func TestTheSandboxHolds(t *testing.T) {
	t.Parallel()
	canary, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = canary.Close() })
	for _, network := range []bool{false, true} {
		command, mark := peer(t, "sandbox")
		command.Network, command.Env = network, []string{"CANARY=" + canary.Addr().String()}
		surface, _, err := starter(command, nil).Discover(t.Context(), overStdio, mcpclient.EraLegacy, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := string(surface.Tools[0])
		if !strings.Contains(got, fmt.Sprintf(`"writes":false,"connects":%t`, network)) {
			t.Error(got)
		}
		for fd := range strings.FieldsSeq(strings.Split(got, `"fds":"`)[1]) {
			number, to, _ := strings.Cut(fd, "=")
			// What a Go program opens for itself: its poller, limits of its cgroup, this directory.
			own := to == "" || strings.HasPrefix(to, "anon_inode:") || strings.HasPrefix(to, "/sys/fs/cgroup/") || strings.HasPrefix(to, "/proc/")
			if n, _ := strconv.Atoi(number); n > 2 && !own {
				t.Errorf("the process has %s", fd)
			}
		}
		noneLeft(t, mark)
	}
}

// TestAGrandchildIsGone, even one in a session of its own that holds our pipes.
func TestAGrandchildIsGone(t *testing.T) {
	t.Parallel()
	command, mark := peer(t, "double fork")
	began := time.Now()
	if _, _, err := starter(command, nil).Discover(t.Context(), overStdio, mcpclient.EraLegacy, nil); err != nil {
		t.Fatal(err)
	}
	noneLeft(t, mark)
	checkTime(t, began, false, 0)
}

// TestAChainOfForksIsGone: every process starts the next one, in a session of its
// own, and ends.
func TestAChainOfForksIsGone(t *testing.T) {
	t.Parallel()
	needBubblewrap(t)
	for name, sandbox := range bothSandboxes {
		mark := fmt.Sprintf("mark-chain-%s-%d", name, os.Getpid())
		link := `setsid sh -c "$0" "$0" ` + mark + ` &`
		command := mcpclient.Command{Argv: []string{"/bin/sh", "-c", link, link, mark}, Sandbox: sandbox, Start: patience}
		began := time.Now()
		_, _, err := starter(command, nil).Discover(t.Context(), overStdio, "", nil)
		e, _ := registry.AsError(err)
		if e == nil || e.Reason != registry.ReasonUnreachable || e.Fact("exit_code") != "0" {
			t.Errorf("%s: %v", name, err)
		}
		noneLeft(t, mark)
		checkTime(t, began, false, 0)
	}
}

// TestASupervisorIsNotToldToLeave: signals to everybody are not its business.
func TestASupervisorIsNotToldToLeave(t *testing.T) {
	t.Parallel()
	command, mark := peer(t, "modern")
	c := starter(command, nil)
	c.Commands = func(context.Context, registry.Target) (mcpclient.Command, error) { return command, nil }
	all := []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGALRM}
	_, _, err := c.Discover(t.Context(), overStdio, mcpclient.EraModern, func(step string) {
		if step != "tools/list" {
			return
		}
		for _, p := range processes(mark) {
			path, line, _ := strings.Cut(p, " ")
			if pid, err := strconv.Atoi(strings.Split(path, "/")[2]); err == nil && strings.HasPrefix(line, "countersign-supervisor ") {
				for _, signal := range all {
					_ = syscall.Kill(pid, signal)
				}
				all = nil
			}
		}
	})
	if err != nil || all != nil {
		t.Errorf("%v, signals left: %v", err, all)
	}
	noneLeft(t, mark)
}

// TestAnImageIsTheRoot of the sandbox, and read-only.
func TestAnImageIsTheRoot(t *testing.T) {
	t.Parallel()
	needBubblewrap(t)
	image := staticImage(t)
	command := mcpclient.Command{Argv: []string{"/server"}, Dir: "/data", Image: image, Start: patience}
	surface, _, err := starter(command, nil).Discover(t.Context(), overStdio, mcpclient.EraLegacy, nil)
	if err != nil {
		e, _ := registry.AsError(err)
		t.Fatalf("%v %v", err, e.Facts)
	}
	if got := string(surface.Tools[0]); got != `{"name":"image","root":["data","dev","proc","server","tmp"],"dir":"/data","writes":false}` {
		t.Error(got)
	}
}

// TestABadImageIsTold.
func TestABadImageIsTold(t *testing.T) {
	t.Parallel()
	needBubblewrap(t)
	dir := t.TempDir()
	for _, sub := range []string{"/bare/dev", "/bare/proc", "/linked/dev", "/linked/proc"} {
		if err := os.MkdirAll(dir+sub, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(dir+"/file", nil, 0o600), os.Symlink("/tmp", dir+"/linked/tmp")); err != nil {
		t.Fatal(err)
	}
	for image, want := range map[string]string{
		dir + "/nowhere": "does not exist",
		dir + "/file":    "is no directory",
		dir + "/bare":    "has no directory tmp",
		dir + "/linked":  "has no directory tmp",
	} {
		command := shell("exit 0")
		command.Image = image
		_, _, err := starter(command, nil).Discover(t.Context(), overStdio, "", nil)
		e, ok := registry.AsError(err)
		if !ok || e.Reason != registry.ReasonSandboxUnavailable || !strings.Contains(e.Message, want) || e.Next == "" {
			t.Errorf("%s: %v", image, err)
		}
	}
}

// TestTheCallersEndEndsTheProcess.
func TestTheCallersEndEndsTheProcess(t *testing.T) {
	t.Parallel()
	for _, behaviour := range []string{"never", "silent in a list", "reads nothing"} {
		command, mark := peer(t, behaviour)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(500*time.Millisecond, cancel)
		_, _, err := starter(command, nil).Discover(ctx, overStdio, "", nil)
		if registry.ReasonOf(err) != registry.ReasonDeadline {
			t.Errorf("%s: %v", behaviour, err)
		}
		noneLeft(t, mark)
	}
}

// TestOurDeathEndsTheProcess, and what it started: a client in another process is
// killed while its server runs.
func TestOurDeathEndsTheProcess(t *testing.T) {
	t.Parallel()
	for behaviour, count := range map[string]int{
		"host":                   6, // itself, the supervisor, two of the sandbox, the peer and its child
		"host without a sandbox": 4,
	} {
		command, mark := peer(t, behaviour)
		host := exec.Command(command.Argv[0], command.Argv[1:]...)
		if err := host.Start(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(patience); len(processes(mark)) < count; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("only %v", processes(mark))
			}
		}
		_ = host.Process.Kill()
		_ = host.Wait()
		noneLeft(t, mark)
	}
}

// TestOurDeathAtAnyMomentEndsTheProcess: also while its supervisor starts, or the
// sandbox is being made.
func TestOurDeathAtAnyMomentEndsTheProcess(t *testing.T) {
	t.Parallel()
	for _, behaviour := range []string{"host", "host without a sandbox"} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			command, mark := peer(t, behaviour)
			for range 20 {
				moment := rand.N(50 * time.Millisecond)
				host := exec.Command(command.Argv[0], command.Argv[1:]...)
				said, err := host.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := host.Start(); err != nil {
					t.Fatal(err)
				}
				_, _ = bufio.NewReader(said).ReadString('\n') // it starts now
				time.Sleep(moment)
				_ = host.Process.Kill()
				_ = host.Wait()
				noneLeft(t, mark)
				if t.Failed() {
					t.Fatalf("killed after %s", moment)
				}
			}
			noneLeft(t, mark)
		})
	}
}

func TestWithoutBubblewrapNothingIsStarted(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	marker := t.TempDir() + "/started"
	command := shell("echo > " + marker)
	_, _, err := starter(command, nil).Discover(t.Context(), overStdio, "", nil)
	e, ok := registry.AsError(err)
	if !ok || e.Reason != registry.ReasonSandboxUnavailable || !strings.Contains(e.Next, "apt-get install bubblewrap") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("it was started")
	}
	command.Sandbox = registry.SandboxNone
	_, _, err = starter(command, nil).Discover(t.Context(), overStdio, "", nil)
	if registry.ReasonOf(err) != registry.ReasonUnreachable {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(marker); err != nil {
		t.Error("it was not started")
	}
}

func TestCommandsThatCannotBeStartedAreRefused(t *testing.T) {
	t.Parallel()
	for _, command := range []mcpclient.Command{
		{},
		{Argv: []string{"sh"}},
		{Argv: []string{"./sh"}},
		{Argv: []string{"/bin/sh", "a\x00b"}},
		{Argv: []string{"/bin/sh"}, Dir: "tmp"},
		{Argv: []string{"/bin/sh"}, Env: []string{"secret"}},
		{Argv: []string{"/bin/sh"}, Env: []string{"=secret"}},
		{Argv: []string{"/bin/sh"}, Sandbox: "docker"},
		{Argv: []string{"/bin/sh"}, Image: "images/node"},
		{Argv: []string{"/bin/sh"}, Image: "/", Sandbox: registry.SandboxNone},
		{Argv: []string{"/bin/sh"}, Env: []string{"A=" + strings.Repeat("x", 1<<20)}},
	} {
		_, _, err := starter(command, nil).Discover(t.Context(), overStdio, "", nil)
		if registry.ReasonOf(err) != registry.ReasonInvalidArgument || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v", err)
		}
	}
	c := client(nil)
	c.Commands = func(context.Context, registry.Target) (mcpclient.Command, error) {
		return mcpclient.Command{}, registry.Errorf(registry.ReasonPermissionDenied, "not approved")
	}
	if _, err := c.Probe(t.Context(), overStdio, ""); registry.ReasonOf(err) != registry.ReasonPermissionDenied {
		t.Error(err)
	}
}

// TestProcessesWaitForEachOther: no more than allowed run at once.
func TestProcessesWaitForEachOther(t *testing.T) {
	t.Parallel()
	command, mark := peer(t, "slow")
	command.Sandbox = registry.SandboxNone
	c := starter(command, nil)
	c.Processes = 2
	var most atomic.Int64
	done := make(chan struct{})
	var watcher, all sync.WaitGroup
	watcher.Go(func() {
		for {
			peers := slices.DeleteFunc(processes(mark), func(p string) bool { return strings.Contains(p, " countersign-") }) // its supervisor
			most.Store(max(most.Load(), int64(len(peers))))
			select {
			case <-done:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	})
	for range 8 {
		all.Go(func() {
			if _, err := c.Probe(t.Context(), overStdio, mcpclient.EraLegacy); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	close(done)
	watcher.Wait()
	if n := most.Load(); n > 2 || n == 0 {
		t.Errorf("%d ran at once", n)
	}
}

// TestAHundredFailuresLeaveNothing: no process, no descriptor, no goroutine.
func TestAHundredFailuresLeaveNothing(t *testing.T) {
	needBubblewrap(t)
	mark := fmt.Sprintf("mark-hundred-%d", os.Getpid())
	descriptors := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	run := func(n int) {
		for i := range n {
			command := shell(": " + mark + "\n" + []string{"exit 1", "exec sleep 100", "sleep 100 & echo noise", "kill -9 $$", "exec >&-; sleep 100"}[i%5])
			if i%2 == 0 {
				command.Sandbox = registry.SandboxNone
			}
			command.Start = time.Duration(20+i) * time.Millisecond // also in the middle of the making of the sandbox
			if _, err := starter(command, nil).Probe(t.Context(), overStdio, ""); err == nil {
				t.Error("it was accepted")
			}
		}
	}
	run(4)
	before, routines := descriptors(), runtime.NumGoroutine()
	run(100)
	noneLeft(t, mark)
	if after := descriptors(); after > before {
		t.Errorf("%d descriptors became %d", before, after)
	}
	for deadline := time.Now().Add(patience); runtime.NumGoroutine() > routines; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("%d goroutines became %d", routines, runtime.NumGoroutine())
			break
		}
	}
}
