package mcpclient

import (
	"bytes"
	"encoding/binary"
	"sync"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// filter is the seccomp program of the sandbox, as the kernel takes it. What it
// denies is of no use to a server and has been of use to those who broke out:
// other processes' memory, mounts and namespaces, keys of the kernel, its
// programs and modules, its clocks, and kinds of sockets that no network
// namespace holds. All else is allowed.
var filter = sync.OnceValues(func() ([]byte, error) {
	info, err := arch.GetInfo("")
	if err != nil {
		return nil, err
	}
	has := func(name string) bool { _, ok := info.SyscallNames[name]; return ok }
	named := func(names ...string) (out []string) {
		for _, name := range names {
			if has(name) { // others do not exist on this architecture
				out = append(out, name)
			}
		}
		return out
	}
	policy := seccomp.Policy{
		DefaultAction: seccomp.ActionAllow,
		Syscalls: []seccomp.SyscallGroup{
			{
				Action: seccomp.ActionErrno, // EPERM
				Names: named(
					// Other processes.
					"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "kcmp", "pidfd_getfd",
					// Mounts and namespaces.
					"mount", "umount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount", "fspick",
					"mount_setattr", "setns", "unshare", "open_by_handle_at", "name_to_handle_at", "fanotify_init", "quotactl", "quotactl_fd",
					// The kernel.
					"keyctl", "add_key", "request_key", "bpf", "userfaultfd", "perf_event_open", "kexec_load", "kexec_file_load",
					"init_module", "finit_module", "delete_module", "reboot", "swapon", "swapoff", "acct", "syslog", "lookup_dcookie",
					"iopl", "ioperm", "vhangup", "nfsservctl", "uselib", "sethostname", "setdomainname",
					// Its clocks.
					"settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "stime",
				),
				NamesWithCondtions: []seccomp.NameWithConditions{
					{Name: "clone", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.BitsSet, Value: namespaces}}},
					// Keys pressed into the terminal; the kernel looks at 32 bits of the number.
					{Name: "ioctl", Conditions: seccomp.ArgumentConditions{{Argument: 1, Operation: seccomp.Equal, Value: unix.TIOCSTI}}},
					{Name: "ioctl", Conditions: seccomp.ArgumentConditions{{Argument: 1, Operation: seccomp.GreaterThan, Value: 1<<32 - 1}}},
				},
			},
			{
				Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS),
				// What programs can do without: clone3 has its flags where no filter
				// can read them.
				Names: named("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register"),
			},
			{
				Action:             seccomp.ActionErrno | seccomp.Action(unix.EAFNOSUPPORT),
				NamesWithCondtions: []seccomp.NameWithConditions{families("socket"), families("socketpair")},
			},
		},
	}
	program, err := policy.Assemble()
	if err != nil {
		return nil, err
	}
	// A call in the way of another architecture has other numbers. The policy would
	// let it pass. So has one of x32, which says that it is of amd64 and is known by a
	// bit of its number.
	own := []bpf.Instruction{
		bpf.LoadAbsolute{Off: 4, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(info.ID), SkipTrue: 1},
		bpf.RetConstant{Val: uint32(seccomp.ActionKillProcess)},
	}
	if info.ID == arch.X86_64.ID {
		own = append(own,
			bpf.LoadAbsolute{Off: 0, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: x32, SkipFalse: 1},
			bpf.RetConstant{Val: uint32(seccomp.ActionKillProcess)},
		)
	}
	raw, err := bpf.Assemble(append(own, program...))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, i := range raw { // struct sock_filter
		if err := binary.Write(&out, binary.NativeEndian, struct {
			Op     uint16
			Jt, Jf uint8
			K      uint32
		}{i.Op, i.Jt, i.Jf, i.K}); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
})

// x32 is the bit of the numbers of its calls.
const x32 = 0x40000000

// namespaces are the flags of clone that make one.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// families denies all kinds of sockets but those that programs need. Sockets of
// virtual machines (AF_VSOCK) lead out of every network namespace.
func families(call string) seccomp.NameWithConditions {
	var others seccomp.ArgumentConditions
	for _, family := range []uint64{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK} {
		others = append(others, seccomp.Condition{Argument: 0, Operation: seccomp.NotEqual, Value: family})
	}
	return seccomp.NameWithConditions{Name: call, Conditions: others}
}
