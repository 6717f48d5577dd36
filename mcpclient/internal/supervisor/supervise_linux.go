package supervisor

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The names by which this program knows what it was started for.
const (
	nameSupervisor = "countersign-supervisor" // ORDERS OWNER GROUP PROGRAM ARGUMENTS...
	nameLauncher   = "countersign-launcher"   // likewise
)

// The descriptors of the supervisor after the three of the command.
const (
	fdControl = 3
	fdBegins  = 4 // what goes wrong before the program runs is written here
	fdMore    = 5 // the command's descriptors 3 and following, its environment
)

// What is asked over the lifeline. Its end asks for the same as askKill.
const (
	askTerminate = 'T'
	askKill      = 'K'
)

// What package syscall has no names for. The numbers are those of all
// architectures.
const (
	prSetChildSubreaper = 36
	sysCloseRange       = 436
	closeRangeCloexec   = 4
	waitAll             = 0x40000000 // __WALL: also children that end without SIGCHLD
)

//nolint:gochecknoinits // it must come before main, and cannot be forgotten
func init() {
	if len(os.Args) == 0 {
		return
	}
	switch os.Args[0] {
	case nameSupervisor:
		supervise(os.Args[1:])
	case nameLauncher:
		launch(os.Args[1:])
	}
}

// supervise is the whole life of a supervisor. It runs in an init, so on the first
// thread, which is there as long as the process: death signals are about threads.
func supervise(args []string) {
	closeOnExec()
	_ = os.WriteFile("/proc/self/comm", []byte(nameSupervisor), 0) // else lists of processes have it as "exe"
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0, 0, 0, 0); errno != 0 {
		fail(fdBegins, errno)
	}
	// All signals only wake. None is ignored, which the command would inherit.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals)
	o, command := begin(args)
	s := supervisor{pid: command, most: o.most, group: o.group}
	requests := make(chan byte)
	go listen(requests)
	var again <-chan time.Time
	pause := time.Millisecond
	look := s.looks()
	for {
		select {
		case <-signals:
		case <-again:
		case <-look:
			look = nil
			if !s.ending {
				look = s.look()
			}
		case request := <-requests:
			if request == askTerminate {
				s.signal(syscall.SIGTERM)
				continue
			}
			s.ending = true
			s.signal(syscall.SIGKILL)
		}
		if s.reap() {
			removeGroup(s.group)
			syscall.Exit(0) // at once: os.Exit has work to do, a second of it under the race detector
		}
		if s.ending {
			killGroup(s.group)
			killChildren()
			// A killed child wakes us. A child that was overlooked, since it was
			// just being adopted, does not.
			again, pause = time.After(pause), min(2*pause, time.Second)
		}
	}
}

// begin starts the command, and keeps nothing of what is the command's.
func begin(args []string) (told, int) {
	o, err := parseArgs(args)
	if err != nil {
		fail(fdBegins, err)
	}
	null, err := syscall.Open(os.DevNull, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		fail(fdBegins, err)
	}
	files := []uintptr{0, 1, 2}
	for fd := range o.files() {
		files = append(files, uintptr(fdMore+fd))
	}
	pid, err := syscall.ForkExec(self, append([]string{nameLauncher}, args...), &syscall.ProcAttr{ //nolint:gosec // starting what it is told to is what it is for
		Env: []string{"GOMAXPROCS=1"}, Files: append(files, fdBegins), // of the launcher; the command's is in its file
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		fail(fdBegins, err)
	}
	for fd := range 3 {
		_ = syscall.Dup3(null, fd, 0)
	}
	for fd := range o.files() {
		_ = syscall.Close(fdMore + fd)
	}
	_, _ = syscall.Close(null), syscall.Close(fdBegins)
	return o, pid
}

// listen hands on what is asked. An end of the lifeline is the last request.
func listen(requests chan<- byte) {
	b := []byte{0}
	for {
		n, err := syscall.Read(fdControl, b)
		switch {
		case n == 1:
			requests <- b[0]
		case !errors.Is(err, syscall.EINTR):
			requests <- askKill
			return
		}
	}
}

// supervisor is what it knows of the command.
type supervisor struct {
	pid    int // also of its group; 0 when it is reaped
	ending bool
	most   Usage
	over   Usage  // what was too much
	group  string // directory of the command's cgroup; empty: it has none
}

// signal signals the group of the command, while its number cannot be another's.
func (s *supervisor) signal(sig syscall.Signal) {
	if s.pid > 0 {
		_ = syscall.Kill(-s.pid, sig)
	}
}

// reap takes all children that ended, and says whether there are no others. The
// end of the command is reported at once.
func (s *supervisor) reap() bool {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|waitAll, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return true // ECHILD
		case pid == 0:
			return false
		case pid == s.pid:
			s.pid, s.ending = 0, true
			s.judge()
			b := binary.NativeEndian.AppendUint32(nil, uint32(status))
			b = binary.NativeEndian.AppendUint64(b, uint64(s.over.Memory))
			b = binary.NativeEndian.AppendUint64(b, uint64(s.over.Tasks))
			_, _ = syscall.Write(fdControl, b)
		}
	}
}

// killChildren kills every child, as /proc has them.
func killChildren() {
	proc, err := os.Open("/proc")
	if err != nil {
		return
	}
	defer func() { _ = proc.Close() }()
	names, _ := proc.Readdirnames(-1)
	self := strconv.Itoa(os.Getpid())
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if stat, err := os.ReadFile("/proc/" + name + "/stat"); err == nil && parent(string(stat)) == self {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// parent finds the parent in /proc/PID/stat: PID (NAME) STATE PARENT ... The name
// may be anything.
func parent(stat string) string {
	end := strings.LastIndexByte(stat, ')')
	fields := strings.Fields(stat[end+1:])
	if end < 0 || len(fields) < 2 {
		return ""
	}
	return fields[1]
}

// fail says what keeps the program from running, and ends.
func fail(fd int, err error) {
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		errno = syscall.EIO
	}
	tell(fd, uint32(errno))
	syscall.Exit(127)
}

func tell(fd int, number uint32) {
	_, _ = syscall.Write(fd, binary.NativeEndian.AppendUint32(nil, number))
}

// closeOnExec keeps from the command what the program was itself started with and
// may not know of: descriptors that are not closed on exec.
func closeOnExec() {
	if _, _, errno := syscall.RawSyscall(sysCloseRange, fdControl, math.MaxInt32, closeRangeCloexec); errno == 0 {
		return
	}
	fds, _ := os.ReadDir("/proc/self/fd") // kernels before 5.11
	for _, fd := range fds {
		if n, err := strconv.Atoi(fd.Name()); err == nil && n >= fdControl {
			syscall.CloseOnExec(n)
		}
	}
}
