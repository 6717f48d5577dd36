package supervisor

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// self is this program, also when its file was replaced.
const self = "/proc/self/exe"

// Process is a supervised command.
type Process struct {
	control *os.File // our end of the lifeline
	begun   *os.File // tells what keeps the command from being started, or ends
	child   *os.Process
}

// Command is what is supervised.
type Command struct {
	// Argv is the program, by its absolute path, and its arguments. Everybody on
	// the machine can read them.
	Argv []string
	// Dir is its directory; "/" when empty.
	Dir string
	// Files are its standard input, output and error.
	Files [3]*os.File
	// Env holds its environment: NAME=value, each ended by NUL. It does not get the
	// file. Without one it has no variables.
	Env *os.File
	// More are its descriptors 3 and following.
	More []*os.File
	// Rlimits are set before the program runs.
	Rlimits []Rlimit
	// Owner is a word that tells whose the supervisor is, without NUL characters.
	Owner string
	// Group is the directory of an empty cgroup (version 2) with limits. The program
	// is put in it, and it is removed when all has ended. With one, the kernel keeps
	// the limits; without, what is used is looked at. The supervisor is outside, so
	// that it is not among those who are killed for want of memory.
	Group string
	// Most is what all processes together may use.
	Most Usage
}

// Rlimit is a limit of the kernel for each process, hard and soft.
type Rlimit struct {
	Resource int
	Max      uint64
}

// Usage is what the processes below a supervisor use together. As a limit, 0 is
// none.
type Usage struct {
	Memory int64 // bytes that are theirs alone or shared in memory, in memory or swapped out
	Tasks  int64 // processes and threads
}

// Start starts a command. The process has a process group of its own.
func Start(c Command) (*Process, error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	theirs := os.NewFile(uintptr(pair[1]), "control")
	defer func() { _ = theirs.Close() }()
	if err := syscall.SetNonblock(pair[0], true); err != nil { // so that closing it ends a read
		_ = syscall.Close(pair[0])
		return nil, err
	}
	control := os.NewFile(uintptr(pair[0]), "control")
	begun, begins, err := os.Pipe()
	if err != nil {
		_ = control.Close()
		return nil, err
	}
	defer func() { _ = begins.Close() }()
	more := append([]*os.File{}, c.More...)
	if c.Env != nil {
		more = append(more, c.Env)
	}
	args := told{c.orders(), c.Owner, c.Group, c.Argv}.args()
	child, err := os.StartProcess(self, append([]string{nameSupervisor}, args...), &os.ProcAttr{
		Dir: "/", Env: []string{"GOMAXPROCS=1"},
		Files: append([]*os.File{c.Files[0], c.Files[1], c.Files[2], theirs, begins}, more...),
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		_, _ = control.Close(), begun.Close()
		return nil, err
	}
	return &Process{control: control, begun: begun, child: child}, nil
}

func (c Command) orders() orders {
	dir := c.Dir
	if dir == "" {
		dir = "/"
	}
	return orders{more: len(c.More), env: c.Env != nil, most: c.Most, rlimits: c.Rlimits, dir: dir}
}

// Begun waits until the program runs. The error is what keeps it from running (a
// [syscall.Errno]), or that of the context. It is called once, by one goroutine.
func (p *Process) Begun(ctx context.Context) error {
	defer func() { _ = p.begun.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = p.begun.SetReadDeadline(time.Now()) })
	defer stop()
	errno, err := number(p.begun)
	switch {
	case err == nil:
		return syscall.Errno(errno)
	case errors.Is(err, io.EOF):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return err
}

// Terminate sends SIGTERM to the process group of the command.
func (p *Process) Terminate() { p.ask(askTerminate) }

// Kill ends the command and all its descendants.
func (p *Process) Kill() { p.ask(askKill) }

// Whoever cannot be asked has ended.
func (p *Process) ask(request byte) { _, _ = p.control.Write([]byte{request}) }

// End is how a command ended.
type End struct {
	Status syscall.WaitStatus
	// Over has what was too much, when it was ended for that.
	Over Usage
}

// End waits for the end of the command, be it that others still live, and says
// how it ended. It is false when nobody knows: the supervisor was killed, or the
// lifeline closed.
func (p *Process) End() (End, bool) {
	var b [20]byte
	if _, err := io.ReadFull(p.control, b[:]); err != nil {
		return End{}, false
	}
	return End{
		Status: syscall.WaitStatus(binary.NativeEndian.Uint32(b[:])),
		Over: Usage{
			Memory: int64(binary.NativeEndian.Uint64(b[4:])),
			Tasks:  int64(binary.NativeEndian.Uint64(b[12:])),
		},
	}, true
}

// Wait waits, after End, until the supervisor is gone, and with it the command
// and all its descendants. It gives the supervisor's own status. When somebody
// killed it, those are killed that are still in its session.
func (p *Process) Wait() syscall.WaitStatus {
	_, _ = io.Copy(io.Discard, p.control)
	if killed(p.child.Pid) {
		endSession(p.child.Pid)
	}
	state, err := p.child.Wait()
	if err != nil {
		return 0
	}
	status, _ := state.Sys().(syscall.WaitStatus)
	return status
}

// Close closes the lifeline: whatever still lives is killed.
func (p *Process) Close() { _ = p.control.Close() }

// number reads a number as the supervisor writes it.
func number(r io.Reader) (uint32, error) {
	var b [4]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, err
	}
	return binary.NativeEndian.Uint32(b[:]), nil
}
