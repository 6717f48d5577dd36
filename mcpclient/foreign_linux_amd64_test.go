package mcpclient_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"countersign/mcpclient"
	"countersign/registry"
)

// tinyProgram writes a program that is nothing but this machine code.
func tinyProgram(t *testing.T, path string, code []byte) {
	t.Helper()
	const base, headers = 0x400000, 64 + 56
	var b bytes.Buffer
	for _, part := range []any{
		[]byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
		uint16(2), uint16(62), uint32(1), // a program, for x86-64
		uint64(base + headers), uint64(64), uint64(0), // where it begins, where its segments are told
		uint32(0), uint16(64), uint16(56), uint16(1), uint16(0), uint16(0), uint16(0),
		uint32(1), uint32(5), // one segment, read and executed
		uint64(0), uint64(base), uint64(base), uint64(headers + len(code)), uint64(headers + len(code)), uint64(0x1000),
		code,
	} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, b.Bytes(), 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestCallsOfAnotherArchitectureKill: their numbers are others, so a filter that
// knows ours would let through what it denies.
func TestCallsOfAnotherArchitectureKill(t *testing.T) {
	t.Parallel()
	needBubblewrap(t)
	program, err := peerProgram()
	if err != nil {
		t.Fatal(err)
	}
	leave := []byte{ // exit 42
		0xbf, 42, 0, 0, 0, // mov edi, 42
		0xb8, 60, 0, 0, 0, // mov eax, exit
		0x0f, 0x05, // syscall
	}
	for name, tt := range map[string]struct {
		code   []byte
		signal string // that ends it in the sandbox
	}{
		"ours": {[]byte{
			0xb8, 39, 0, 0, 0, // mov eax, getpid
			0x0f, 0x05, // syscall
		}, ""},
		"i386": {[]byte{
			0xb8, 20, 0, 0, 0, // mov eax, getpid
			0xcd, 0x80, // int 0x80
		}, "SIGSYS"},
		"x32": {[]byte{
			0xb8, 39, 0, 0, 0x40, // mov eax, getpid of x32
			0x0f, 0x05, // syscall
		}, "SIGSYS"},
	} {
		path := filepath.Join(filepath.Dir(program), "tiny-"+name+"-"+strconv.Itoa(os.Getpid()))
		tinyProgram(t, path, append(tt.code, leave...))
		ends := map[registry.Sandbox]string{}
		for _, sandbox := range bothSandboxes {
			_, err := starter(mcpclient.Command{Argv: []string{path}, Sandbox: sandbox, Start: patience}, nil).Probe(t.Context(), overStdio, mcpclient.EraModern)
			e, _ := registry.AsError(err)
			if ends[sandbox] = cmp.Or(e.Fact("signal"), "exit code "+e.Fact("exit_code")); e == nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		want := cmp.Or(tt.signal, "exit code 42")
		switch outside := ends[registry.SandboxNone]; {
		case outside == "SIGSEGV" && name == "i386":
			// The kernel ends it before any filter sees it: see TestTheFilterJudgesCalls.
			t.Logf("%s: this machine's kernel has no such calls", name)
			want = "SIGSEGV"
		case outside != "exit code 42":
			t.Errorf("%s: without a sandbox it ends with %s", name, outside)
		}
		if got := ends[registry.SandboxBubblewrap]; got != want {
			t.Errorf("%s: in the sandbox it ends with %s, not %s", name, got, want)
		}
	}
}
