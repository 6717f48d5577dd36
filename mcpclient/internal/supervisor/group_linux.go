package supervisor

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// enter puts this process into a cgroup, with all that it will start.
func enter(group string) error {
	err := os.WriteFile(group+"/cgroup.procs", []byte("0"), 0) // 0 is who writes
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return err
}

// killGroup kills whatever is in a cgroup, at once and whoever is its parent.
// Kernels before 5.14 cannot; there the children are killed one by one.
func killGroup(group string) {
	if group != "" {
		_ = os.WriteFile(group+"/cgroup.kill", []byte("1"), 0)
	}
}

// removeGroup removes a cgroup whose processes have ended. The kernel may need a
// moment to see it.
func removeGroup(group string) {
	for pause := time.Millisecond; group != "" && pause < time.Second; pause *= 2 {
		if err := syscall.Rmdir(group); !errors.Is(err, syscall.EBUSY) {
			return
		}
		killGroup(group)
		time.Sleep(pause)
	}
}

// judge asks the kernel whether the cgroup ran into its limits: whether one was
// killed for want of memory, which kills all, or a new task was refused.
func (s *supervisor) judge() {
	if s.group == "" || s.over != (Usage{}) {
		return
	}
	if event(s.group+"/memory.events", "oom_kill") > 0 {
		s.over.Memory = max(s.most.Memory, peak(s.group+"/memory.peak"))
	}
	if event(s.group+"/pids.events", "max") > 0 {
		s.over.Tasks = s.most.Tasks + 1 // those that it asked for
	}
}

// event reads how often something happened: lines of NAME NUMBER.
func event(file, name string) int64 {
	raw, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == name {
			n, _ := strconv.ParseInt(fields[1], 10, 64)
			return n
		}
	}
	return 0
}

// peak reads the most that was ever used; 0 where the kernel does not say (before
// 5.19).
func peak(file string) int64 {
	raw, _ := os.ReadFile(file)
	n, _ := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
	return n
}
