//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// errNothing says that something is there, and nothing in it.
var errNothing = errors.New("nothing is there")

// files tries to read and write what is not its own.
func files(reads, writes []string) []attempt {
	var out []attempt
	for _, path := range append([]string{
		"/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssl/private", "/etc/ssh", "/root", "/home", "/run", "/var/run", "/var/lib", "/var/log",
		"/boot", "/sys/kernel", "/sys/fs/cgroup", "/proc/1/root/etc/shadow", "/proc/1/root/root", "/proc/1/environ", "/proc/1/mem", "/proc/kcore",
		"/proc/kmsg", "/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/vda", "/dev/fuse", "/dev/kvm",
	}, reads...) {
		out = append(out, attempt{"read " + path, func() (string, error) { return read(path) }})
	}
	own, _ := os.Executable()
	for _, path := range append([]string{
		own, "/usr/bin/evil", "/etc/evil", "/evil", "/var/evil", "/dev/evil", "/lib/evil", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger",
		"/proc/sys/kernel/hostname", "/sys/kernel/evil",
	}, writes...) {
		out = append(out, attempt{"write " + path, func() (string, error) { return "written", write(path) }})
	}
	return append(out,
		attempt{"follow a link out", func() (string, error) { return followOut(reads) }},
		attempt{"know who is on the machine", func() (string, error) {
			raw, err := os.ReadFile("/etc/passwd")
			if err == nil && strings.Count(string(raw), "\n") < 3 {
				err = errNothing
			}
			return string(raw), err
		}},
	)
}

// read gains a file that has something in it, or a folder that has.
func read(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		entries, err := os.ReadDir(path)
		if err == nil && len(entries) == 0 {
			err = errNothing
		}
		return fmt.Sprintf("%d entries", len(entries)), err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	b := make([]byte, 64)
	n, err := f.Read(b)
	if errors.Is(err, io.EOF) {
		err = errNothing
	}
	return fmt.Sprintf("%d bytes", n), err
}

// write opens a file for writing, and writes nothing to what is there already.
func write(path string) error {
	flags := os.O_WRONLY
	if _, err := os.Stat(path); err != nil {
		flags |= os.O_CREATE
	}
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// followOut reads what is outside through links that it makes.
func followOut(reads []string) (string, error) {
	var last error
	for i, path := range append([]string{"/etc/shadow", "/root/.ssh", "../../../../etc/shadow", "/proc/1/root/etc/shadow"}, reads...) {
		link := filepath.Join(os.TempDir(), fmt.Sprintf("out-%d", i))
		_ = os.Remove(link)
		if last = os.Symlink(path, link); last != nil {
			return "", last
		}
		gained, err := read(link)
		if err == nil {
			return path + ": " + gained, nil
		}
		last = err
	}
	return "", last
}
