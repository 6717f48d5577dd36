package mcpclient

import (
	"encoding/binary"
	"runtime"
	"testing"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// TestTheFilterJudgesCalls as the kernel would run it: of another architecture each
// kills, whatever its number.
func TestTheFilterJudgesCalls(t *testing.T) {
	t.Parallel()
	raw, err := filter()
	if err != nil {
		t.Fatal(err)
	}
	var program []bpf.Instruction
	for i := 0; i < len(raw); i += 8 {
		program = append(program, bpf.RawInstruction{
			Op: binary.NativeEndian.Uint16(raw[i:]), Jt: raw[i+2], Jf: raw[i+3], K: binary.NativeEndian.Uint32(raw[i+4:]),
		}.Disassemble())
	}
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	own, err := arch.GetInfo("")
	if err != nil {
		t.Fatal(err)
	}
	kill, allow := uint32(seccomp.ActionKillProcess), uint32(seccomp.ActionAllow)
	deny := uint32(seccomp.ActionErrno) | uint32(unix.EPERM)
	type call struct {
		name   string
		arch   uint32
		number uint32
		want   uint32
	}
	calls := []call{
		{"getpid", uint32(own.ID), unix.SYS_GETPID, allow},
		{"ptrace", uint32(own.ID), unix.SYS_PTRACE, deny},
		{"mount", uint32(own.ID), unix.SYS_MOUNT, deny},
		{"one that is not known yet", uint32(own.ID), 4000, allow},
	}
	for _, foreign := range []*arch.Info{arch.I386, arch.X86_64, arch.ARM, arch.AARCH64} {
		if foreign.ID != own.ID {
			for number := range uint32(500) {
				calls = append(calls, call{"of " + foreign.Name, uint32(foreign.ID), number, kill})
			}
		}
	}
	if runtime.GOARCH == "amd64" {
		for number := range uint32(600) {
			calls = append(calls, call{"of x32", uint32(own.ID), x32 | number, kill})
		}
	}
	for _, c := range calls {
		// struct seccomp_data; the machine of this test reads numbers big end first
		data := binary.BigEndian.AppendUint32(nil, c.number)
		data = binary.BigEndian.AppendUint32(data, c.arch)
		data = append(data, make([]byte, 8+6*8)...)
		got, err := vm.Run(data)
		if err != nil || uint32(got) != c.want {
			t.Fatalf("%s, %d: %#x %v, not %#x", c.name, c.number, uint32(got), err, c.want)
		}
	}
}
