package mcpclient_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"countersign/mcpclient"
	"countersign/registry"
)

// A peer is the test's own program, started again as
//
//	peer BEHAVIOUR MARK
//
// to be a server over standard input and output. The mark makes it known among
// the processes of the machine.

func isPeer() bool {
	if len(os.Args) < 4 || os.Args[1] != "peer" {
		return false
	}
	behave(os.Args[2], os.Args[3])
	return true
}

// peerProgram is a copy of this program at a place that the sandbox shows: /tmp is
// empty there.
var peerProgram = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("/var/tmp", "mcpclient-test-")
	if err != nil {
		return "", err
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	from, err := os.Open(self)
	if err != nil {
		return "", err
	}
	defer func() { _ = from.Close() }()
	path := filepath.Join(dir, "peer")
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o700)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(to, from)
	if closed := to.Close(); err == nil {
		err = closed
	}
	peerDir = dir
	return path, err
})

var peerDir string

func removePeer() {
	if peerDir != "" {
		_ = os.RemoveAll(peerDir)
	}
}

// peer gives the command of a peer, and its mark.
func peer(t *testing.T, behaviour string) (mcpclient.Command, string) {
	t.Helper()
	needBubblewrap(t)
	path, err := peerProgram()
	if err != nil {
		t.Fatal(err)
	}
	mark := fmt.Sprintf("mark-%d-%d", os.Getpid(), time.Now().UnixNano())
	return mcpclient.Command{Argv: []string{path, "peer", behaviour, mark}, Start: patience}, mark
}

// staticImage makes a root with one program in it that needs nothing else.
func staticImage(t *testing.T) string {
	t.Helper()
	image := t.TempDir()
	for _, dir := range []string{"data", "dev", "proc", "tmp"} {
		if err := os.Mkdir(filepath.Join(image, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-o", filepath.Join(image, "server"), "./testdata/image")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return image
}

func shell(script string) mcpclient.Command {
	return mcpclient.Command{Argv: []string{"/bin/sh", "-c", script}, Start: patience}
}

func needBubblewrap(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Fatal("these tests need bubblewrap; install it: apt-get install bubblewrap")
	}
}

// starter gives a client that starts this command for every target.
func starter(command mcpclient.Command, change func(*registry.Limits)) *mcpclient.Client {
	c := client(change)
	c.Commands = func(context.Context, registry.Target) (mcpclient.Command, error) { return command, nil }
	return c
}

var overStdio = registry.Target{Transport: registry.TransportStdio, Authentication: registry.AuthNoneException}

// processes gives the processes whose arguments hold the mark.
func processes(mark string) []string {
	var out []string
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		line, _ := os.ReadFile(path)
		if strings.Contains(string(line), mark) {
			out = append(out, path+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return out
}

// noneLeft waits until no process has the mark.
func noneLeft(t *testing.T, mark string) {
	t.Helper()
	var left []string
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if left = processes(mark); len(left) == 0 {
			return
		}
	}
	t.Errorf("left: %s", strings.Join(left, "\n"))
}

// behave is the peer's main.
func behave(behaviour, mark string) {
	era := "legacy"
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(os.Stdout, format+"\n", args...) }
	switch behaviour {
	case "modern":
		era = "modern"
	case "slow":
		time.Sleep(200 * time.Millisecond)
	case "noise":
		say("Starting...\n\n\x1b[2J\x1b[31mred\x1b[0m")
		say(`{"name":"elastic-otel-node","level":30}`)
		say(`{"jsonrpc":"1.0","id":1,"result":{}}`)
		say(`[1,2]`)
		say(`{"jsonrpc":"2.0","method":"notifications/message","params":{}}`)
	case "long line":
		chunk := strings.Repeat("x", 1<<20)
		for range 20 {
			_, _ = io.WriteString(os.Stdout, chunk)
		}
		select {}
	case "endless noise":
		for {
			say("%s", strings.Repeat("noise ", 1000))
		}
	case "stderr flood":
		go func() {
			for i := 0; ; i++ {
				_, _ = fmt.Fprintf(os.Stderr, "%d \x1b[31m%s\n", i, strings.Repeat("e", 1000))
			}
		}()
	case "ignores SIGTERM", "never":
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE)
		if behaviour == "never" {
			select {}
		}
	case "reads nothing":
		select {}
	case "double fork", "child in the group":
		child := exec.Command(os.Args[0], "peer", "never", mark)
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: behaviour == "double fork"}
		child.Stdout, child.Stderr = os.Stdout, os.Stderr // it holds the pipes open
		if err := child.Start(); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(9)
		}
	case "host of another": // likewise, of a program that takes what it can get
		command := mcpclient.Command{Argv: []string{os.Args[4], "-mark", mark, "-at-start", "tasks"}, Start: patience}
		command.Limits.Tasks = 1000
		say("starting")
		_, _, _ = starter(command, nil).Discover(context.Background(), overStdio, "", nil)
		return
	case "host", "host without a sandbox": // runs a client of its own, which starts a peer that never answers
		command := mcpclient.Command{Argv: []string{os.Args[0], "peer", "double fork and never", mark}}
		if behaviour == "host without a sandbox" {
			command.Sandbox = registry.SandboxNone
		}
		c := starter(command, nil)
		say("starting")
		_, _, _ = c.Discover(context.Background(), overStdio, "", nil)
		return
	case "double fork and never":
		child := exec.Command(os.Args[0], "peer", "never", mark)
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		_ = child.Start()
		signal.Ignore(syscall.SIGTERM)
		select {}
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			if behaviour == "ignores SIGTERM" {
				select {}
			}
			return
		}
		var call struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		_ = json.Unmarshal(line, &call)
		result := ""
		switch call.Method {
		case "server/discover":
			switch behaviour {
			case "exits on discover":
				_, _ = fmt.Fprintln(os.Stderr, "unexpected message")
				os.Exit(7)
			case "silent on discover":
				continue
			}
			if era == "modern" {
				result = `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"peer","version":"1"}}}`
			}
		case "initialize":
			if era == "legacy" {
				result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"peer","version":"1"}}`
			}
		case "tools/list":
			switch behaviour {
			case "dies in a list":
				_, _ = fmt.Fprintln(os.Stderr, "out of luck\x1b[2J")
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			case "silent in a list":
				continue
			case "environment":
				names, _ := json.Marshal(os.Environ())
				result = fmt.Sprintf(`{"tools":[{"name":"env","env":%s}]}`, names)
			case "sandbox":
				result = fmt.Sprintf(`{"tools":[{"name":"sandbox","writes":%t,"connects":%t,"fds":%q}]}`, writes(mark), connects(os.Getenv("CANARY")), list("/proc/self/fd"))
			case "large":
				result = `{"tools":[{"name":"` + strings.Repeat("x", 9<<20) + `"}]}`
			default:
				result = `{"tools":[{"name":"a","big":9007199254740993}]}`
			}
		}
		switch {
		case call.ID == nil:
		case result == "":
			say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, call.ID)
		default:
			say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, call.ID, result)
		}
	}
}

func connects(address string) bool {
	conn, err := net.Dial("tcp", address)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

func list(dir string) string {
	entries, _ := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		to, _ := os.Readlink(dir + "/" + e.Name())
		names = append(names, e.Name()+"="+to)
	}
	return strings.Join(names, " ")
}

// writes says whether anything of the machine's can be written.
func writes(name string) bool {
	for _, dir := range []string{"/", "/usr", "/etc", "/var", "/dev"} {
		if os.WriteFile(filepath.Join(dir, name), nil, 0o600) == nil {
			return true
		}
	}
	program, err := os.OpenFile(os.Args[0], os.O_WRONLY, 0)
	if err == nil {
		_ = program.Close()
	}
	return err == nil
}
