package mcpclient

import (
	"bytes"
	"math"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"countersign/mcpclient/internal/supervisor"
	"countersign/registry"
)

// rlimits are the kernel's limits for each process of a command. They hold at once
// and everywhere; what all processes use together is for the cgroup, or for the
// supervisor to look at.
func rlimits(l registry.CommandLimits) []supervisor.Rlimit {
	limits := []supervisor.Rlimit{
		{Resource: unix.RLIMIT_CORE, Max: 0},
		{Resource: unix.RLIMIT_NOFILE, Max: uint64(l.OpenFiles)},
		{Resource: unix.RLIMIT_FSIZE, Max: uint64(l.Tmp)},
		{Resource: unix.RLIMIT_CPU, Max: uint64(math.Ceil(l.CPUTime.Seconds()))},
		{Resource: unix.RLIMIT_DATA, Max: uint64(2 * l.Memory)}, // twice: much that can be written never is
		{Resource: unix.RLIMIT_NPROC, Max: uint64(ourTasks.count() + spareTasks + l.Tasks)},
	}
	if l.AddressSpace > 0 {
		limits = append(limits, supervisor.Rlimit{Resource: unix.RLIMIT_AS, Max: uint64(l.AddressSpace)})
	}
	return limits
}

// spareTasks is how many tasks the user may have besides those that there are and
// those of one command. The kernel counts the user's, not the sandbox's, so this
// only stops an avalanche until it is noticed; it does not count the superuser's.
const spareTasks = 1024

// ourTasks are those of our user, as they were at most a second ago: all processes
// of the machine are looked at to count them, which takes longer than all else that
// is done here for a start.
var ourTasks recent

// recent remembers a count for a second.
type recent struct {
	mu   sync.Mutex
	at   time.Time
	last int
}

func (r *recent) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.IsZero() || time.Since(r.at) > time.Second {
		r.last, r.at = tasksOf(os.Getuid()), time.Now()
	}
	return r.last
}

// tasksOf counts the processes and threads of a user.
func tasksOf(uid int) int {
	n := 0
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return n
	}
	field := func(status []byte, name string) string {
		_, rest, _ := bytes.Cut(status, []byte("\n"+name+":\t"))
		value, _, _ := bytes.Cut(rest, []byte("\n"))
		first, _, _ := bytes.Cut(value, []byte("\t"))
		return string(first)
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		status, err := os.ReadFile("/proc/" + e.Name() + "/status")
		if err != nil || field(status, "Uid") != strconv.Itoa(uid) {
			continue
		}
		threads, _ := strconv.Atoi(field(status, "Threads"))
		n += threads
	}
	return n
}
