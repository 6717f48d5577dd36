//go:build linux

package main

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernel makes the calls that break-outs are made of. Where one would succeed it
// does as little as can be.
func kernel() []attempt {
	call := func(name string, number uintptr, args ...uintptr) attempt {
		return attempt{name, func() (string, error) {
			var a [6]uintptr
			copy(a[:], args)
			r, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
			if errno != 0 {
				return "", errno
			}
			if name == "be in a new user namespace by clone" && r == 0 {
				unix.Exit(0) // the child
			}
			return "done", nil
		}}
	}
	text := func(s string) uintptr {
		b, _ := unix.BytePtrFromString(s)
		return uintptr(unsafe.Pointer(b)) //nolint:gosec // memory for the kernel
	}
	tmp, none := text("/tmp"), text("none")
	return []attempt{
		{"mount a file system", func() (string, error) { return "mounted", unix.Mount("none", "/tmp", "tmpfs", 0, "") }},
		{"mount writable", func() (string, error) { return "mounted", unix.Mount("", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND, "") }},
		{"unmount", func() (string, error) { return "unmounted", unix.Unmount("/proc", unix.MNT_DETACH) }},
		{"change the root", func() (string, error) { return "changed", unix.Chroot("/tmp") }},
		{"swap the root", func() (string, error) { return "swapped", unix.PivotRoot("/tmp", "/tmp") }},
		{"open a file system", func() (string, error) {
			fd, err := unix.Fsopen("tmpfs", 0)
			if err == nil {
				_ = unix.Close(fd)
			}
			return "opened", err
		}},
		{"be in a new user namespace", func() (string, error) { return "it is", unix.Unshare(unix.CLONE_NEWUSER) }},
		{"be in a new network", func() (string, error) { return "it is", unix.Unshare(unix.CLONE_NEWNET) }},
		call("be in a new user namespace by clone", unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD)),
		call("make a process that no filter sees", unix.SYS_CLONE3),
		{"enter a namespace", func() (string, error) {
			fd, err := unix.Open("/proc/1/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return "", err
			}
			defer func() { _ = unix.Close(fd) }()
			return "entered", unix.Setns(fd, 0)
		}},
		{"use the kernel's keys", func() (string, error) {
			_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
			return "used", err
		}},
		{"keep a key in the kernel", func() (string, error) {
			_, err := unix.AddKey("user", "evil", []byte("evil"), unix.KEY_SPEC_PROCESS_KEYRING)
			return "kept", err
		}},
		call("load a program into the kernel", unix.SYS_BPF, 5, 0, 0),
		call("handle page faults", unix.SYS_USERFAULTFD, 0),
		call("watch the processor", unix.SYS_PERF_EVENT_OPEN, 0, 0, ^uintptr(0), ^uintptr(0), 0),
		call("queue calls past the filter", unix.SYS_IO_URING_SETUP, 1, 0),
		call("load a module", unix.SYS_INIT_MODULE, tmp, 0, none),
		call("load a kernel", unix.SYS_KEXEC_LOAD, 0, 0, 0, 0),
		call("open a file by its handle", unix.SYS_OPEN_BY_HANDLE_AT, ^uintptr(99), tmp, 0),
		call("read the kernel's log", unix.SYS_SYSLOG, 10, 0, 0),
		call("watch all files", unix.SYS_FANOTIFY_INIT, 0, 0),
		{"set the clock", func() (string, error) {
			var now unix.Timespec
			if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
				return "", err
			}
			return "set", errnoOf(unix.SYS_CLOCK_SETTIME, unix.CLOCK_REALTIME, uintptr(unsafe.Pointer(&now))) //nolint:gosec // memory for the kernel
		}},
		{"name the machine", func() (string, error) { return "named", unix.Sethostname([]byte("evil")) }},
		{"press keys", func() (string, error) {
			key := byte('\n')
			// What no filter of 64 bits sees: the kernel looks at 32 of the number.
			err := errnoOf(unix.SYS_IOCTL, 0, unix.TIOCSTI|1<<32, uintptr(unsafe.Pointer(&key))) //nolint:gosec // memory for the kernel
			if errors.Is(err, unix.EPERM) {
				err = errnoOf(unix.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(unsafe.Pointer(&key))) //nolint:gosec // memory for the kernel
			}
			if err != nil && !errors.Is(err, unix.EPERM) {
				return "the filter lets it pass: " + err.Error(), nil
			}
			return "pressed", err
		}},
	}
}

func errnoOf(number uintptr, args ...uintptr) error {
	var a [3]uintptr
	copy(a[:], args)
	if _, _, errno := unix.Syscall(number, a[0], a[1], a[2]); errno != 0 {
		return errno
	}
	return nil
}
