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

// Start starts a program that needs no environment and no directory, as
// bubblewrap does. argv begins with its absolute path; everybody on the machine
// can read it. The process gets the files as its standard input, output and error
// and its descriptor 3, an environment without variables, "/" as its directory,
// and a process group of its own.
func Start(argv []string, files [4]*os.File) (*Process, error) {
	return start(argv, files)
}

// StartIn starts a program in a directory. Its environment is what the last of the
// files holds: NAME=value, each ended by NUL. The program does not get that file.
func StartIn(dir string, argv []string, files [4]*os.File) (*Process, error) {
	return start(append([]string{self, nameLauncher, dir}, argv...), files)
}

func start(argv []string, files [4]*os.File) (*Process, error) {
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
	child, err := os.StartProcess(self, append([]string{nameSupervisor}, argv...), &os.ProcAttr{
		Dir: "/", Env: []string{"GOMAXPROCS=1"},
		Files: []*os.File{files[0], files[1], files[2], theirs, files[3], begins},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		_, _ = control.Close(), begun.Close()
		return nil, err
	}
	return &Process{control: control, begun: begun, child: child}, nil
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

// Status waits for the end of the command, be it that others still live, and says
// how it ended. It is false when nobody knows: the supervisor was killed, or the
// lifeline closed.
func (p *Process) Status() (syscall.WaitStatus, bool) {
	status, err := number(p.control)
	return syscall.WaitStatus(status), err == nil
}

// Wait waits, after Status, until the supervisor is gone, and with it the command
// and all its descendants. It gives the supervisor's own status.
func (p *Process) Wait() syscall.WaitStatus {
	_, _ = io.Copy(io.Discard, p.control)
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
