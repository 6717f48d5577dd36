package supervisor

import (
	"os"
	"strconv"
	"strings"
)

// Of gives the supervisors of an owner that live, by their numbers.
func Of(owner string) []int {
	var out []int
	names, _ := os.ReadDir("/proc")
	for _, name := range names {
		pid, err := strconv.Atoi(name.Name())
		if err != nil {
			continue
		}
		raw, err := os.ReadFile("/proc/" + name.Name() + "/cmdline")
		if err != nil {
			continue
		}
		// COUNTERSIGN-SUPERVISOR ORDERS OWNER ...; of one that has ended there is nothing to read
		if args := strings.SplitN(string(raw), "\x00", 4); len(args) == 4 && args[0] == nameSupervisor && args[2] == owner {
			out = append(out, pid)
		}
	}
	return out
}
