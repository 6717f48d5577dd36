//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// processes tries to see, stop and read others. pids are numbers that they have
// outside.
func processes(pids []string) []attempt {
	out := []attempt{
		{"see other processes", func() (string, error) {
			entries, err := os.ReadDir("/proc")
			if err != nil {
				return "", err
			}
			var foreign []string
			for _, e := range entries {
				if _, err := strconv.Atoi(e.Name()); err != nil {
					continue
				}
				line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
				if len(line) > 0 && !strings.Contains(string(line), os.Args[0]) {
					foreign = append(foreign, strings.ReplaceAll(string(line), "\x00", " "))
				}
			}
			if len(foreign) == 0 {
				return "", errNothing
			}
			return strings.Join(foreign, "; "), nil
		}},
		{"end the one above", func() (string, error) {
			err := unix.Kill(os.Getppid(), unix.SIGKILL)
			if err == nil && unix.Kill(os.Getppid(), 0) == nil {
				err = errors.New("it lives on")
			}
			return "killed", err
		}},
		{"trace the one above", func() (string, error) { return "traced", unix.PtraceAttach(os.Getppid()) }},
		{"read the memory of the one above", func() (string, error) {
			b := make([]byte, 8)
			_, err := unix.ProcessVMReadv(os.Getppid(), []unix.Iovec{{Base: &b[0], Len: 8}}, []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&b[0])), Len: 8}}, 0) //nolint:gosec // memory for the kernel
			return "read", err
		}},
		{"take a descriptor of the one above", func() (string, error) {
			fd, err := unix.PidfdOpen(os.Getppid(), 0)
			if err != nil {
				return "", err
			}
			defer func() { _ = unix.Close(fd) }()
			taken, err := unix.PidfdGetfd(fd, 0, 0)
			if err == nil {
				_ = unix.Close(taken)
			}
			return "taken", err
		}},
		{"become the superuser", func() (string, error) {
			err := unix.Setresuid(0, 0, 0)
			return "it is", err
		}},
		{"have capabilities", func() (string, error) {
			status, err := os.ReadFile("/proc/self/status")
			if err != nil {
				return "", err
			}
			for line := range strings.Lines(string(status)) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
				switch {
				case strings.HasPrefix(name, "Cap") && strings.Trim(value, "0") != "":
					return name + " " + value, nil
				case name == "NoNewPrivs" && value != "1", name == "Seccomp" && value != "2":
					return name + " " + value, nil
				}
			}
			return "", errNothing
		}},
	}
	for _, text := range pids {
		pid, err := strconv.Atoi(text)
		if err != nil {
			continue
		}
		out = append(out, attempt{"end process " + text, func() (string, error) {
			if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && strings.Contains(string(line), os.Args[0]) {
				return "", errors.New("the number is its own")
			}
			return "there is one", unix.Kill(pid, 0)
		}})
	}
	return out
}
