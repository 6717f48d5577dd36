//go:build linux

package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const gib = 1 << 30

// limits tries to take more than it may, where that can be tried and given back.
func limits() []attempt {
	return []attempt{
		{"allocate 4 GB", func() (string, error) {
			memory, err := unix.Mmap(-1, 0, 4*gib, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
			if err == nil {
				_ = unix.Munmap(memory)
			}
			return "allocated", err
		}},
		{"write a file of 10 GB", func() (string, error) {
			path := filepath.Join(os.TempDir(), "large")
			f, err := os.Create(path)
			if err != nil {
				return "", err
			}
			defer func() { _, _ = f.Close(), os.Remove(path) }()
			return "written", f.Truncate(10 * gib)
		}},
		{"fill the memory with files", func() (string, error) {
			if took := takeFiles(); took < 4*gib {
				return "", fmt.Errorf("it took %d bytes", took)
			}
			return "more than 4 GB", nil
		}},
		{"open 100,000 files", func() (string, error) {
			var open []*os.File
			defer func() {
				for _, f := range open {
					_ = f.Close()
				}
			}()
			for range 100_000 {
				f, err := os.Open("/dev/null")
				if err != nil {
					return "", err
				}
				open = append(open, f)
			}
			return "opened", nil
		}},
		{"leave an image of its memory", func() (string, error) {
			var limit unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_CORE, &limit); err != nil {
				return "", err
			}
			if limit.Max == 0 {
				return "", errors.New("no byte of it")
			}
			return "it could", nil
		}},
		{"raise a limit", func() (string, error) {
			return "raised", unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: math.MaxInt32, Max: math.MaxInt32})
		}},
	}
}

// takeFiles writes files wherever it can until it cannot, at most 4 GB of them.
func takeFiles() int64 {
	var took int64
	chunk := make([]byte, 1<<20)
	var paths []string
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm", "/dev", "/"} {
		for i := range 1000 {
			path := filepath.Join(dir, fmt.Sprintf("taken-%d", i))
			f, err := os.Create(path)
			if err != nil {
				break
			}
			paths = append(paths, path)
			wrote := int64(0)
			for took < 4*gib {
				n, err := f.Write(chunk)
				wrote, took = wrote+int64(n), took+int64(n)
				if err != nil {
					break
				}
			}
			_ = f.Close()
			if wrote < int64(len(chunk)) {
				break
			}
		}
	}
	for _, path := range paths {
		_ = os.Remove(path)
	}
	return took
}

// takeTasks starts company processes in sessions of their own, which stay for a
// minute. They start none themselves: a machine that does not stop them lives on.
func takeTasks(others int) {
	for range others {
		args := append(slices.Clone(os.Args[1:]), "-at-start", "stay")
		child := exec.Command("/proc/self/exe", args...) //nolint:gosec,noctx // its own program
		child.SysProcAttr = &unix.SysProcAttr{Setsid: true}
		_ = child.Start()
	}
	time.Sleep(time.Minute)
}

// takeMemory fills memory without end.
func takeMemory() {
	debug.SetGCPercent(-1)
	var kept [][]byte
	for {
		part := make([]byte, 1<<20)
		for i := 0; i < len(part); i += 4096 {
			part[i] = 1
		}
		kept = append(kept, part)
		_ = kept
	}
}
