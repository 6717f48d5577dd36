package supervisor

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// How often is looked at what the processes use. A cgroup would not have to look;
// this is for machines that give none.
const lookEvery = 50 * time.Millisecond

// looks begins to look, where there is something to look for.
func (s *supervisor) looks() <-chan time.Time {
	if s.most == (Usage{}) {
		return nil
	}
	return time.After(lookEvery)
}

// look ends everything when it uses more than it may.
func (s *supervisor) look() <-chan time.Time {
	began := time.Now()
	if s.group != "" {
		if s.judge(); s.over != (Usage{}) {
			s.ending = true
			s.signal(syscall.SIGKILL)
			return nil
		}
		return time.After(lookEvery)
	}
	used := used(os.Getpid(), s.most)
	if s.most.Memory > 0 && used.Memory > s.most.Memory {
		s.over.Memory = used.Memory
	}
	if s.most.Tasks > 0 && used.Tasks > s.most.Tasks {
		s.over.Tasks = used.Tasks
	}
	if s.over != (Usage{}) {
		s.ending = true
		s.signal(syscall.SIGKILL)
		return nil
	}
	return time.After(max(lookEvery, 10*time.Since(began))) // at most a tenth of a processor
}

// used sums up what the descendants of a process use. It goes no further than is
// needed to know that it is too much.
func used(pid int, most Usage) Usage {
	var sum Usage
	seen := map[string]bool{}
	next := children(strconv.Itoa(pid))
	for len(next) > 0 {
		child := next[len(next)-1]
		next = next[:len(next)-1]
		if seen[child] {
			continue
		}
		seen[child] = true
		own := usage(child)
		sum.Memory, sum.Tasks = sum.Memory+own.Memory, sum.Tasks+own.Tasks
		if most.Tasks > 0 && sum.Tasks > most.Tasks {
			return sum
		}
		next = append(next, children(child)...)
	}
	return sum
}

// children gives the children of all threads of a process.
func children(pid string) []string {
	tasks, err := os.ReadDir("/proc/" + pid + "/task")
	if err != nil {
		return nil
	}
	var out []string
	for _, task := range tasks {
		raw, _ := os.ReadFile("/proc/" + pid + "/task/" + task.Name() + "/children")
		out = append(out, strings.Fields(string(raw))...)
	}
	return out
}

// usage is what one process uses.
func usage(pid string) Usage {
	raw, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return Usage{}
	}
	return parseUsage(string(raw))
}

// parseUsage reads /proc/PID/status. Sizes are in kB; a process that has ended has
// none.
func parseUsage(status string) Usage {
	var u Usage
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		if len(fields) == 0 {
			continue
		}
		n, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			continue
		}
		switch name {
		case "RssAnon", "RssShmem", "VmSwap":
			u.Memory += n << 10
		case "Threads":
			u.Tasks = n
		}
	}
	return u
}
