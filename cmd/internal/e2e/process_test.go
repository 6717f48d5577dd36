package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Times to wait. What is waited for takes a fraction of them on a machine that
// has nothing else to do.
const (
	patience = 90 * time.Second
	// longPatience is for what goes on after the timeout of a dead process.
	longPatience = 3 * time.Minute
	pause        = 50 * time.Millisecond // between two looks
)

// final is a fault that does not go away.
type final struct{ error }

// eventually looks until it sees no fault, at most until the context is over,
// and then gives the last fault; a final one at once.
func eventually(ctx context.Context, look func() error) error {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		err := look()
		if err == nil {
			return nil
		}
		if end, ok := errors.AsType[final](err); ok {
			return end.error
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}

// until ends the test if a fault does not go away.
func until(t testing.TB, what string, limit time.Duration, look func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	begin := time.Now()
	if err := eventually(ctx, look); err != nil {
		t.Fatalf("%s: not within %s: %v", what, limit, err)
	}
	if took := time.Since(begin); took > 15*time.Second {
		t.Logf("%s: took %s", what, took.Round(time.Second))
	}
}

// record is what a process writes, to be read meanwhile.
type record struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buffer.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buffer.String()
}

// process is one run of one of the programs. It ends with the test, and when
// the test itself is killed.
type process struct {
	out, log record // standard output and standard error
	cmd      *exec.Cmd
	ended    chan struct{}
}

// launch starts a program with nothing of our environment but what it is
// given.
func launch(t testing.TB, program string, env []string, args ...string) *process {
	t.Helper()
	return execute(t, filepath.Join(programs, program), env, args...)
}

// execute starts a program of others in the same way.
func execute(t testing.TB, path string, env []string, args ...string) *process {
	t.Helper()
	p := &process{ended: make(chan struct{})}
	p.cmd = exec.Command(path, args...)
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = t.TempDir(), &p.out, &p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	starter() <- func() { started <- p.cmd.Start() }
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in its state
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s %s wrote:\n%s%s", filepath.Base(path), strings.Join(args, " "), tail(p.out.String()), tail(p.log.String()))
		}
	})
	return p
}

// starter runs functions on a thread that lives as long as this process: the
// kernel kills a child when the thread ends that started it.
var starter = sync.OnceValue(func() chan<- func() {
	todo := make(chan func())
	go func() {
		runtime.LockOSThread()
		for do := range todo {
			do()
		}
	}()
	return todo
})

func tail(text string) string {
	const most = 6000
	if len(text) > most {
		return "…" + text[len(text)-most:]
	}
	return text
}

// kill sends SIGKILL and waits for the end.
func (p *process) kill() {
	select {
	case <-p.ended:
	default:
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // it may just have ended
		<-p.ended
	}
}

func (p *process) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// await waits for the end and gives the exit code, -1 after a signal.
func (p *process) await(t testing.TB) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatalf("%s did not end within %s", p.cmd.Path, patience)
	}
	return p.cmd.ProcessState.ExitCode()
}

// stop sends SIGTERM and wants a clean end.
func (p *process) stop(t testing.TB) {
	t.Helper()
	p.end(t, syscall.SIGTERM)
}

func (p *process) end(t testing.TB, s syscall.Signal) {
	t.Helper()
	p.signal(t, s)
	if code := p.await(t); code != 0 {
		t.Fatalf("exit code %d after %s (%s)", code, s, p.cmd.ProcessState)
	}
}

// awaitKilled wants the process to have died by SIGKILL.
func (p *process) awaitKilled(t testing.TB) {
	t.Helper()
	p.await(t)
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Fatalf("the process ended by itself: %s", p.cmd.ProcessState)
	}
}

// over says whether the process has ended.
func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Ports are below those that Linux hands out by itself and below those that
// the embedded Temporal takes, so that a process finds its own free when it
// comes back.
const firstPort, lastPort = 10000, 20000

var ports atomic.Uint32

func init() { ports.Store(rand.Uint32N(lastPort - firstPort)) } //nolint:gochecknoinits // where to begin is no test's choice

// address gives a free host:port.
func address(t testing.TB) string {
	t.Helper()
	for range lastPort - firstPort {
		port := firstPort + int(ports.Add(1)%(lastPort-firstPort))
		at := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if l, err := net.Listen("tcp", at); err == nil {
			_ = l.Close()
			return at
		}
	}
	t.Fatal("no port is free")
	return ""
}
