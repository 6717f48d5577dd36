package mcpclient

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"countersign/registry"
)

// Cgroups, version 2. Below the cgroup that was delegated a worker has one of its
// own, and in it each process one, with all that it starts:
//
//	DELEGATED/countersign-workers            the worker, where it had to leave DELEGATED itself
//	DELEGATED/countersign-ID/N               memory.max pids.max cpu.max

// noteCgroup is the kind of line that has the directory of a worker's cgroup.
const noteCgroup = "cgroup"

func groupName(id string) string { return "countersign-" + id }

// delegate makes the worker's cgroup, or notes why there is none. Errors are those
// of a directory that was named. proc is /proc/self.
func (k *Keeper) delegate(configured, proc string) error {
	base := configured
	switch configured {
	case CgroupNone:
		k.why = "worker.cgroup is none"
		return nil
	case "":
		if base, k.why = ownGroup(proc); k.why != "" {
			return nil
		}
	}
	err := k.makeGroup(base)
	if err == nil {
		return nil
	}
	k.group = ""
	if configured != "" {
		return fmt.Errorf("worker.cgroup: %w", err)
	}
	k.why = err.Error()
	return nil
}

func (k *Keeper) makeGroup(base string) error {
	has, err := os.ReadFile(filepath.Join(base, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("%s is no cgroup of version 2: %w", base, err)
	}
	controllers := strings.Fields(string(has))
	if !slices.Contains(controllers, "memory") || !slices.Contains(controllers, "pids") {
		return fmt.Errorf("the cgroup %s has no controllers memory and pids", base)
	}
	k.cpu = slices.Contains(controllers, "cpu")
	enable := "+memory +pids"
	if k.cpu {
		enable += " +cpu"
	}
	err = write(base, "cgroup.subtree_control", enable)
	if errors.Is(err, unix.EBUSY) { // processes may be in leaves only
		if err = move(base); err == nil {
			err = write(base, "cgroup.subtree_control", enable)
		}
		if errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("the cgroup %s has other processes than the worker in it", base)
		}
	}
	if err != nil {
		return fmt.Errorf("the cgroup %s is not delegated: %w", base, err)
	}
	k.group = filepath.Join(base, groupName(k.id))
	if err := k.remember(noteCgroup, k.group); err != nil {
		return err
	}
	if err := os.Mkdir(k.group, 0o755); err != nil { //nolint:gosec // as the kernel makes them
		return fmt.Errorf("the cgroup %s is not delegated: %w", base, err)
	}
	if err := write(k.group, "cgroup.subtree_control", enable); err != nil {
		_ = removeGroup(k.group)
		return fmt.Errorf("the cgroup %s cannot hold limits: %w", base, err)
	}
	return nil
}

// move moves this process out of the way, into a leaf.
func move(base string) error {
	leaf := filepath.Join(base, "countersign-workers")
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // as the kernel makes them
		return err
	}
	return write(leaf, "cgroup.procs", "0") // 0 is who writes
}

func write(dir, file, text string) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600)
}

// forProcess makes the cgroup of one process; its directory is empty when there
// are none.
func (k *Keeper) forProcess(l registry.CommandLimits) (dir string, err error) {
	if k == nil || k.group == "" {
		return "", nil
	}
	dir = filepath.Join(k.group, strconv.FormatInt(k.count.Add(1), 10))
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // as the kernel makes them
		return "", err
	}
	for _, limit := range k.groupLimits(l) {
		if err := write(dir, limit[0], limit[1]); err != nil && !(limit[0] == "memory.swap.max" && errors.Is(err, fs.ErrNotExist)) {
			_ = removeGroup(dir)
			return "", err
		}
	}
	return dir, nil
}

// cpuPeriod is the time, in microseconds, of which processors are given shares.
const cpuPeriod = 100_000

// groupLimits are the files of a cgroup and what is written into them.
func (k *Keeper) groupLimits(l registry.CommandLimits) [][2]string {
	out := [][2]string{
		{"memory.max", strconv.FormatInt(l.Memory, 10)},
		{"memory.swap.max", "0"}, // machines without swap have no such file
		{"memory.oom.group", "1"},
		{"pids.max", strconv.Itoa(l.Tasks + sandboxTasks)},
	}
	if k.cpu {
		out = append(out, [2]string{"cpu.max", fmt.Sprintf("%d %d", int64(l.CPUs*cpuPeriod), cpuPeriod)})
	}
	return out
}

// removeGroup kills what is in a cgroup and those below it, and removes them. It
// waits at most 2 s for the kernel.
func removeGroup(dir string) error {
	var err error
	for pause := time.Millisecond; pause < 2*time.Second; pause *= 2 {
		killGroup(dir)
		children, _ := os.ReadDir(dir)
		for _, child := range children {
			if child.IsDir() {
				_ = unix.Rmdir(filepath.Join(dir, child.Name()))
			}
		}
		if err = unix.Rmdir(dir); err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			break
		}
		time.Sleep(pause)
	}
	return fmt.Errorf("the cgroup %s: %w", dir, err)
}

// killGroup kills all processes in a cgroup and in those right below it. Kernels
// before 5.14 are told each.
func killGroup(dir string) {
	if write(dir, "cgroup.kill", "1") == nil {
		return
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*", "cgroup.procs"))
	for _, file := range append(files, filepath.Join(dir, "cgroup.procs")) {
		raw, _ := os.ReadFile(file)
		for field := range bytes.FieldsSeq(raw) {
			if pid, err := strconv.Atoi(string(field)); err == nil && pid > 1 {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
	}
}

// ownGroup gives the directory of this process's cgroup when it was delegated: by
// systemd, which marks it, or since it is the root, as in a container that has the
// hierarchy to itself. Otherwise it says why there is none. proc is /proc/self.
func ownGroup(proc string) (dir, why string) {
	path := ""
	raw, _ := os.ReadFile(filepath.Join(proc, "cgroup"))
	for line := range strings.Lines(string(raw)) {
		if after, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			path = after
		}
	}
	mount := ""
	raw, _ = os.ReadFile(filepath.Join(proc, "mountinfo"))
	for line := range strings.Lines(string(raw)) {
		// 35 24 0:30 ROOT MOUNTPOINT rw,... - cgroup2 none rw
		before, after, _ := strings.Cut(line, " - ")
		if fields := strings.Fields(before); len(fields) > 4 && fields[3] == "/" && strings.HasPrefix(after, "cgroup2 ") && mount == "" {
			mount = fields[4]
		}
	}
	if path == "" || mount == "" {
		return "", "the machine has no cgroups of version 2"
	}
	dir = filepath.Join(mount, path)
	if path != "/" && !marked(dir) {
		return "", "the worker's cgroup " + dir + " was not delegated to it"
	}
	return dir, ""
}

// marked says whether systemd marked a cgroup as delegated.
func marked(dir string) bool {
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		value := make([]byte, 8)
		if n, err := unix.Getxattr(dir, name, value); err == nil && string(value[:n]) == "1" {
			return true
		}
	}
	return false
}
