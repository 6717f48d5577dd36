package supervisor

import (
	"encoding/binary"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// killed waits for the end of a child, without taking it, and says whether a
// signal ended it.
func killed(pid int) bool {
	const (
		byPID                 = 1
		exited, leave         = 4, 0x01000000 // WEXITED, WNOWAIT
		endedBySignal, dumped = 2, 3          // CLD_KILLED, CLD_DUMPED
	)
	var info [128]byte // siginfo_t: signal, errno, code, ...
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, byPID, uintptr(pid), uintptr(unsafe.Pointer(&info[0])), exited|leave, 0, 0) //nolint:gosec // the kernel writes there
		if errors.Is(errno, syscall.EINTR) {
			continue
		}
		code := binary.NativeEndian.Uint32(info[8:])
		return errno == 0 && (code == endedBySignal || code == dumped)
	}
}

// endSession kills who is left in the session of a supervisor that was killed: of
// a command without a sandbox what did not leave it. The supervisor was not waited
// for yet, so the number of its session is nobody else's.
func endSession(session int) {
	for range 100 {
		left := 0
		names, _ := os.ReadDir("/proc")
		for _, name := range names {
			pid, err := strconv.Atoi(name.Name())
			if err != nil || pid == session {
				continue
			}
			stat, err := os.ReadFile("/proc/" + name.Name() + "/stat")
			if err == nil && alive(string(stat), strconv.Itoa(session)) {
				left++
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		if left == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// alive says whether the process of a /proc/PID/stat is of a session and has not
// ended: PID (NAME) STATE PARENT GROUP SESSION ...
func alive(stat, session string) bool {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	return len(fields) > 3 && fields[0] != "Z" && fields[0] != "X" && fields[3] == session
}
