package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// machine tells where it was measured: ratios of one run can be compared with
// those of another machine, times cannot.
func machine() string {
	return fmt.Sprintf("%s, %d processors, %s memory, %s %s/%s, GOMAXPROCS %d, load %s",
		field("/proc/cpuinfo", "model name"), runtime.NumCPU(), field("/proc/meminfo", "MemTotal"),
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), loadAverage())
}

// field gives the value of a line "name: value" of a file of the kernel.
func field(path, name string) string {
	f, err := os.Open(path)
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// loadAverage is the machine's load of the last minute: what else ran meanwhile.
func loadAverage() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(raw), " ")
	return first
}
