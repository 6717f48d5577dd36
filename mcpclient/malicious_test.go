package mcpclient_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"countersign/mcpclient"
	"countersign/mcptest"
	"countersign/registry"
)

// malicious is the program that tries to get out.
var malicious = sync.OnceValues(func() (string, error) {
	program, err := peerProgram() // its folder is removed at the end
	if err != nil {
		return "", err
	}
	return mcptest.BuildMalicious(context.Background(), filepath.Dir(program))
})

// attacker gives a command of it, and its mark.
func attacker(t *testing.T, args ...string) (mcpclient.Command, string) {
	t.Helper()
	needBubblewrap(t)
	path, err := malicious()
	if err != nil {
		t.Fatal(err)
	}
	mark := fmt.Sprintf("mark-malicious-%d-%d", os.Getpid(), time.Now().UnixNano())
	return mcpclient.Command{Argv: append([]string{path, "-mark", mark}, args...), Start: patience}, mark
}

// machine is what a process may not change: mounts, cgroups, files where it could
// put some.
func machine(t *testing.T) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for line := range strings.Lines(string(mounts)) {
		if !strings.Contains(line, t.TempDir()) {
			b.WriteString(line)
		}
	}
	for _, pattern := range []string{"/tmp/taken-*", "/tmp/out-*", "/var/tmp/taken-*", "/dev/shm/taken-*", "/evil", "/etc/evil", "/usr/bin/evil", "/dev/evil"} {
		found, _ := filepath.Glob(pattern)
		b.WriteString(strings.Join(found, "\n"))
	}
	return b.String()
}

// TestAMaliciousServerIsDenied everything (threat B9): files, sockets, other
// processes, the kernel, and more than it may take.
func TestAMaliciousServerIsDenied(t *testing.T) {
	dir := t.TempDir()
	secret, database := filepath.Join(dir, "secret"), filepath.Join(dir, "registry.db")
	for _, path := range []string{secret, database} {
		if err := os.WriteFile(path, []byte("a secret"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	canary, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer canary.Close()
	socket, err := net.Listen("unix", filepath.Join(dir, "service.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	nameless, err := net.Listen("unix", "@countersign-canary-"+strconv.Itoa(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer nameless.Close()
	called := make(chan string, 3)
	for _, l := range []net.Listener{canary, socket, nameless} {
		go func() {
			if _, err := l.Accept(); err == nil {
				called <- l.Addr().String()
			}
		}()
	}
	before := machine(t)
	command, mark := attacker(t,
		"-read", strings.Join([]string{secret, database, dir, "/proc/" + strconv.Itoa(os.Getpid()) + "/environ"}, ","),
		"-write", secret,
		"-connect", strings.Join([]string{canary.Addr().String(), socket.Addr().String(), nameless.Addr().String()}, ","),
		"-kill", fmt.Sprintf("%d,%d", os.Getpid(), os.Getppid()),
	)
	command.Limits.Tmp = 16 << 20
	surface, _, err := starter(command, nil).Discover(t.Context(), overStdio, "", nil)
	if err != nil {
		e, _ := registry.AsError(err)
		t.Fatalf("%v %v", err, e.Facts)
	}
	names := map[string]bool{}
	for _, raw := range surface.Tools {
		var tool struct {
			Name        string `json:"name"`
			Description string `json:"description"`
		}
		var outcome struct {
			Attempt string `json:"attempt"`
			Detail  string `json:"detail"`
			Denied  bool   `json:"denied"`
		}
		if err := json.Unmarshal(raw, &tool); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(tool.Description), &outcome); err != nil {
			t.Fatal(err)
		}
		names[outcome.Attempt] = true
		if !outcome.Denied {
			t.Errorf("%s: %s", outcome.Attempt, outcome.Detail)
		}
	}
	if len(names) < 100 || !names["read /etc/shadow"] || !names["be in a new user namespace"] || !names["connect to 169.254.169.254:80"] {
		t.Errorf("only %d attempts: %v", len(names), names)
	}
	noneLeft(t, mark)
	if after := machine(t); after != before {
		t.Errorf("the machine was\n%s\nand is\n%s", before, after)
	}
	select {
	case address := <-called:
		t.Errorf("it reached %s", address)
	default:
	}
}

// TestWithoutASandboxItWouldBeDone shows that the attempts are made: without a
// sandbox, as whoever runs the tests, some of them come true.
func TestWithoutASandboxItWouldBeDone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("a secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	canary, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer canary.Close()
	path, err := malicious()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"read " + secret, "connect to " + canary.Addr().String(), "see other processes", "write " + secret} {
		outcome := exec.Command(path, "-try", want, "-read", secret, "-write", secret, "-connect", canary.Addr().String())
		out, err := outcome.Output()
		if err != nil || !strings.Contains(string(out), `"denied":false`) {
			t.Errorf("%s: %s %v", want, out, err)
		}
	}
}

// TestWhoTakesTooMuchIsEnded: too many processes, memory and files without end. The
// worker is as it was before, and nothing is left.
func TestWhoTakesTooMuchIsEnded(t *testing.T) {
	take := func(what string) (*registry.Error, string) {
		command, mark := attacker(t, "-at-start", what)
		command.Limits = registry.CommandLimits{Memory: 256 << 20, Tasks: 64, Tmp: 8 << 20}
		_, _, err := starter(command, nil).Discover(t.Context(), overStdio, mcpclient.EraModern, nil)
		e, _ := registry.AsError(err)
		return e, mark
	}
	_, _ = take("tasks") // what is made once is there then
	before, around := measure(t), machine(t)
	for what, want := range map[string]struct{ key, limit string }{
		"tasks": {"limits.tasks", "64"}, "memory": {"limits.memory_mib", "256"},
	} {
		e, mark := take(what)
		if e == nil || e.Reason != registry.ReasonProcessLimit || e.Fact("limit") != want.key || e.Fact("limit_value") != want.limit || !strings.Contains(e.Next, want.key) {
			t.Errorf("%s: %v %+v", what, e, e)
		}
		noneLeft(t, mark)
	}
	e, mark := take("files")
	if e != nil {
		t.Errorf("files: %v", e) // it is told that there is no more room, and goes on
	}
	noneLeft(t, mark)
	var after footprint
	for deadline := time.Now().Add(slack); ; time.Sleep(50 * time.Millisecond) {
		after = measure(t)
		if after.routines <= before.routines && after.descriptors <= before.descriptors && after.children <= before.children &&
			(raceDetector || after.resident < before.resident+20<<20) {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("before: %s; after: %s", before, after)
			break
		}
	}
	if now := machine(t); now != around {
		t.Errorf("the machine was\n%s\nand is\n%s", around, now)
	}
}

// TestADeadWorkerLeavesNothingOfAMaliciousServer: it is killed, or the supervisor
// is, while the server has many processes in sessions of their own.
func TestADeadWorkerLeavesNothingOfAMaliciousServer(t *testing.T) {
	path, err := malicious()
	if err != nil {
		t.Fatal(err)
	}
	for _, victim := range []string{"worker", "supervisor", "both"} {
		command, mark := peer(t, "host of another")
		before := machine(t)
		host := exec.Command(command.Argv[0], append(command.Argv[1:], path)...)
		if err := host.Start(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(patience); len(processes(mark)) < 24; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("only %v", processes(mark))
			}
		}
		if victim != "worker" {
			supervisors := slices.DeleteFunc(processes(mark), func(p string) bool { return !strings.Contains(p, " countersign-supervisor ") })
			if len(supervisors) != 1 {
				t.Fatalf("%v", supervisors)
			}
			pid, err := strconv.Atoi(strings.Split(supervisors[0], "/")[2])
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		if victim != "supervisor" {
			_ = host.Process.Kill()
		}
		_ = host.Wait()
		noneLeft(t, mark)
		if after := machine(t); after != before {
			t.Errorf("%s: the machine was\n%s\nand is\n%s", victim, before, after)
		}
	}
}
