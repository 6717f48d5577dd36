package mcpclient

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"countersign/mcpclient/internal/supervisor"
)

// graceOrphans is how long supervisors of a dead worker may take to end what they
// supervise, which they do by themselves.
const graceOrphans = 5 * time.Second

// endSupervisors waits for the supervisors of a dead worker, wakes those that
// somebody stopped, and kills whole trees that are still there. It says which were.
func endSupervisors(owner string) ([]string, error) {
	var removed []string
	for deadline := time.Now().Add(graceOrphans); ; time.Sleep(10 * time.Millisecond) {
		pids := supervisor.Of(owner)
		if len(pids) == 0 {
			return removed, nil
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGCONT)
		}
		if time.Now().Before(deadline) {
			continue
		}
		for _, pid := range pids {
			if name := "process " + strconv.Itoa(pid); !slices.Contains(removed, name) {
				removed = append(removed, name)
			}
			killTree(pid)
		}
		if time.Now().After(deadline.Add(graceKill)) {
			return removed, os.ErrDeadlineExceeded
		}
	}
}

// killTree stops a process and all below it, so that nothing moves, and kills them.
func killTree(root int) {
	tree := []int{root}
	for i := 0; i < len(tree); i++ {
		_ = unix.Kill(tree[i], unix.SIGSTOP)
		tree = append(tree, childrenOf(tree[i])...)
	}
	for _, pid := range tree {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

func childrenOf(pid int) []int {
	var out []int
	files, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	for _, file := range files {
		raw, _ := os.ReadFile(file)
		for field := range strings.FieldsSeq(string(raw)) {
			if child, err := strconv.Atoi(field); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}
