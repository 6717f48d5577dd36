package mcptest_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/mcptest"
)

// child is a script that runs as a process.
type child struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *tailBuffer
	record string
	gone   chan struct{} // closed when the process has ended
}

// tailBuffer keeps the first bytes and counts the rest.
type tailBuffer struct {
	first []byte
	n     int
}

func (b *tailBuffer) Write(p []byte) (int, error) {
	b.first = append(b.first, p[:min(len(p), max(0, 1<<10-len(b.first)))]...)
	b.n += len(p)
	return len(p), nil
}

func spawn(t *testing.T, program, script string) *child {
	t.Helper()
	c := &child{t: t, stderr: &tailBuffer{}, record: filepath.Join(t.TempDir(), "record"), gone: make(chan struct{})}
	c.cmd = exec.CommandContext(t.Context(), program, "-script", script, "-stdio", "-record", c.record)
	c.cmd.Env = []string{"CANARY=7f3a"}
	c.cmd.Stderr = c.stderr
	c.cmd.WaitDelay = 5 * time.Second
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, in, err := os.Pipe() // StdoutPipe would be closed by Wait
	if err != nil {
		t.Fatal(err)
	}
	c.out, c.cmd.Stdout = bufio.NewReader(out), in
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	_ = out.SetReadDeadline(time.Now().Add(3 * patience))
	go func() {
		_ = c.cmd.Wait()
		close(c.gone)
	}()
	t.Cleanup(func() {
		_ = c.in.Close()
		_ = c.cmd.Process.Kill()
		<-c.gone
		_ = out.Close()
	})
	return c
}

func (c *child) send(method string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, request(method, "{}")+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *child) line() string {
	c.t.Helper()
	text, err := c.out.ReadString('\n')
	if err != nil {
		c.t.Fatalf("%.100q %v", text, err)
	}
	return strings.TrimSuffix(text, "\n")
}

func (c *child) says(want string) {
	c.t.Helper()
	if got := c.line(); !strings.Contains(got, want) {
		c.t.Errorf("%.300q does not contain %q", got, want)
	}
}

// honest wants an answer to tools/list.
func (c *child) honest() {
	c.t.Helper()
	c.send("tools/list")
	c.says(`{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"tool_0000"`)
}

// ends wants the process to end by itself, with this code.
func (c *child) ends(code int) {
	c.t.Helper()
	select {
	case <-c.gone:
	case <-time.After(patience):
		c.t.Fatal("it lives on")
	}
	if got := c.cmd.ProcessState.ExitCode(); got != code {
		c.t.Errorf("exit code %d, not %d: %s", got, code, c.stderr.first)
	}
}

func (c *child) lives(d time.Duration) {
	c.t.Helper()
	select {
	case <-c.gone:
		c.t.Errorf("it ended: %v", c.cmd.ProcessState)
	case <-time.After(d):
	}
}

// silent wants nothing on stdout for a while.
func (c *child) silent() {
	c.t.Helper()
	read := make(chan string, 1)
	go func() {
		first, err := c.out.Peek(1)
		if err == nil {
			read <- string(first)
		}
	}()
	select {
	case got := <-read:
		c.t.Errorf("it says %q", got)
	case <-time.After(300 * time.Millisecond):
	}
}

// events gives what the process recorded, "call" with its method.
func (c *child) events() (out []string, all []mcptest.Record) {
	c.t.Helper()
	all, err := mcptest.ReadRecords(c.record)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, r := range all {
		name := r.Event
		if r.Call != nil {
			name += " " + r.Call.Method
		}
		if r.Signal != "" {
			name += " " + r.Signal
		}
		out = append(out, name)
	}
	return out, all
}

func (c *child) recorded(want ...string) {
	c.t.Helper()
	got, _ := c.events()
	if diff := cmp.Diff(want, got); diff != "" {
		c.t.Error(diff)
	}
}

// orphan gives the process that was left behind, and ends it after the test.
func (c *child) orphan() *os.Process {
	c.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(c.record); err != nil {
			continue
		}
		_, all := c.events()
		for _, r := range all {
			if r.Event == "orphan" {
				p, err := os.FindProcess(r.PID)
				if err != nil {
					c.t.Fatal(err)
				}
				c.t.Cleanup(func() { _ = p.Kill() })
				return p
			}
		}
	}
	c.t.Fatal("there is none")
	return nil
}

func alive(p *os.Process) bool { return p.Signal(syscall.Signal(0)) == nil }

// stdioFixtures shows, for every script for stdio, that it does what it says.
var stdioFixtures = map[string]func(*child){
	"stdio-honest": func(c *child) {
		c.honest()
		_, _ = io.WriteString(c.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n\n")
		_ = c.in.Close()
		c.ends(0)
		c.recorded("start", "call tools/list", "call notifications/initialized", "eof")
		_, all := c.events()
		if diff := cmp.Diff([]string{"CANARY=7f3a"}, all[0].Env); diff != "" {
			c.t.Error(diff)
		}
		if got := string(all[1].Call.Body); got != request("tools/list", "{}") {
			c.t.Error(got)
		}
	},
	"stdio-banner": func(c *child) { c.says("Starting..."); c.honest() },
	"stdio-ansi":   func(c *child) { c.says("\x1b[2J"); c.honest() },
	"stdio-json-logs": func(c *child) {
		c.says(`"name":"elastic-otel-node"`)
		c.send("tools/list")
		c.says(`"msg":"request"`)
		c.says("tool_0002")
	},
	"stdio-long-line": func(c *child) {
		n, err := io.CopyN(io.Discard, c.out, 20<<20)
		if err != nil {
			c.t.Fatal(n, err)
		}
		c.honest() // on the same line
	},
	"stdio-endless-line": func(c *child) {
		var got bytes.Buffer
		if _, err := io.CopyN(&got, c.out, 30<<20); err != nil || bytes.ContainsRune(got.Bytes(), '\n') {
			c.t.Error(err)
		}
	},
	"stdio-stderr-flood": func(c *child) {
		c.honest()
		_ = c.in.Close()
		c.ends(0)
		if c.stderr.n < 64<<10 || !strings.HasPrefix(string(c.stderr.first), "a warning that nobody reads\n") {
			c.t.Errorf("%d bytes: %q", c.stderr.n, c.stderr.first)
		}
	},
	"stdio-ignore-term": func(c *child) {
		c.honest()
		_ = c.in.Close()
		_ = c.cmd.Process.Signal(syscall.SIGTERM)
		c.lives(300 * time.Millisecond)
		if got, _ := c.events(); !slices.Contains(got, "signal terminated") || !slices.Contains(got, "eof") {
			c.t.Error(got)
		}
	},
	"stdio-ignore-eof": func(c *child) {
		c.honest()
		_ = c.in.Close()
		c.lives(300 * time.Millisecond)
		_ = c.cmd.Process.Signal(syscall.SIGTERM)
		<-c.gone
		if status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGTERM {
			c.t.Error(c.cmd.ProcessState)
		}
	},
	"stdio-double-fork": func(c *child) {
		c.honest()
		orphan := c.orphan()
		_ = c.in.Close()
		c.ends(0)
		if _, err := c.out.ReadByte(); !errors.Is(err, io.EOF) {
			c.t.Errorf("stdout is not at its end: %v", err)
		}
		if !alive(orphan) {
			c.t.Error("it is not left behind")
		}
	},
	"stdio-double-fork-output": func(c *child) {
		c.honest()
		orphan := c.orphan()
		_ = c.in.Close()
		<-c.gone
		_ = orphan.Signal(syscall.SIGTERM)
		c.silent() // stdout is still open
		if !alive(orphan) {
			c.t.Error("it did not ignore SIGTERM")
		}
	},
	"stdio-exit": func(c *child) {
		c.ends(1)
		if got := string(c.stderr.first); got != "missing API_KEY\n" {
			c.t.Errorf("%q", got)
		}
		c.recorded("start", "exit")
	},
	"stdio-exit-on-discover": func(c *child) {
		c.send("initialize")
		c.says("protocolVersion")
		c.send("server/discover")
		c.ends(3)
		if got := string(c.stderr.first); got != "unknown method\n" {
			c.t.Errorf("%q", got)
		}
	},
	"stdio-silent": func(c *child) {
		c.send("initialize")
		c.silent()
		_ = c.in.Close()
		c.ends(0)
		c.recorded("start", "call initialize", "eof")
	},
	"stdio-deaf": func(c *child) {
		c.send("initialize")
		_ = c.in.Close()
		c.silent()
		c.lives(100 * time.Millisecond)
		c.recorded("start")
	},
	"stdio-silent-discover": func(c *child) { c.send("server/discover"); c.silent() },
	"stdio-slow-start": func(c *child) {
		begin := time.Now()
		c.honest()
		if took := time.Since(begin); took < 1500*time.Millisecond {
			c.t.Errorf("it took only %s", took)
		}
	},
	"stdio-drip": func(c *child) {
		begin := time.Now()
		c.honest()
		if took := time.Since(begin); took < time.Second {
			c.t.Errorf("it took only %s", took)
		}
	},
	"stdio-id-wrong": func(c *child) { c.send("tools/list"); c.says(`"id":987654321,"result"`) },
	"stdio-notifications-first": func(c *child) {
		c.send("initialize")
		c.says("notifications/message")
		c.says("protocolVersion")
	},
}

// TestFixturesOverStdio starts every script for stdio as a process.
func TestFixturesOverStdio(t *testing.T) {
	t.Parallel()
	program, err := mcptest.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("scripts", func(t *testing.T) { // the program stays until all have ended
		var names []string
		for _, name := range mcptest.Fixtures() {
			file, err := mcptest.Fixture(name)
			if err != nil {
				t.Fatal(err)
			}
			if file.Transport != mcptest.OverStdio {
				continue
			}
			names = append(names, name)
			show := stdioFixtures[name]
			if show == nil {
				t.Errorf("nothing shows what %s does", name)
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				show(spawn(t, program, name))
			})
		}
		if diff := cmp.Diff(names, slices.Sorted(maps.Keys(stdioFixtures))); diff != "" {
			t.Errorf("scripts and what shows them (-scripts +shown):\n%s", diff)
		}
	})
}

func TestTheProgramServesAScriptOverHTTP(t *testing.T) {
	t.Parallel()
	program, err := mcptest.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	record := filepath.Join(t.TempDir(), "record")
	cmd := exec.CommandContext(t.Context(), program, "-script", "redirect-canary", "-record", record)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	address, _ := lines.ReadString('\n')
	canary, _ := lines.ReadString('\n')
	p := &peer{Server: &mcptest.Server{URL: strings.TrimSpace(address)}, t: t, client: &http.Client{Transport: &http.Transport{}}}
	got := p.list() // follows
	p.client.CloseIdleConnections()
	p.is("the canary's answer", got.status == http.StatusOK, got)
	if !strings.HasPrefix(canary, "canary http://127.0.0.1:") {
		t.Errorf("%q", canary)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it does not end in order: %v", err)
	}
	c := &child{t: t, record: record}
	c.recorded("start", "call tools/list", "call tools/list")

	text, err := exec.CommandContext(t.Context(), program, "-list").Output()
	if err != nil || strings.Count(string(text), "\n") != len(mcptest.Fixtures()) {
		t.Errorf("%s %v", text, err)
	}
	for _, args := range [][]string{{}, {"-script", "none"}, {"-script", "honest", "-stdio"}, {"-script", "stdio-honest"}, {"-odd"}} {
		var failure *exec.ExitError
		if err := exec.CommandContext(t.Context(), program, args...).Run(); !errors.As(err, &failure) || failure.ExitCode() != 2 {
			t.Errorf("%q: %v", args, err)
		}
	}
}
