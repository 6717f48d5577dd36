package mcpclient_test

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"countersign/mcpclient"
	"countersign/mcptest"
)

// BenchmarkCPU is what a handshake and a list of tools cost this process, by our
// client and by the bare SDK: cpu-µs/op is user and system time together. The
// server is another process, and every meeting has a connection of its own.
//
//	go test ./mcpclient -run '^$' -bench CPU -benchtime 2s
func BenchmarkCPU(b *testing.B) {
	dir := b.TempDir()
	program, err := mcptest.Build(b.Context(), dir)
	if err != nil {
		b.Fatal(err)
	}
	for _, era := range []string{mcpclient.EraModern, mcpclient.EraLegacy} {
		for _, n := range []int{10, 100, 1000} {
			url := apart(b, program, fmt.Sprintf(`{"about":"x","era":%q,"sessions":%t,"lists":{"tools/list":{"plain":%d}}}`, era, era == mcpclient.EraLegacy, n))
			b.Run(fmt.Sprintf("%s/%d_tools/ours", era, n), func(b *testing.B) {
				c := client(nil)
				perOperation(b, func() (int, error) {
					surface, _, err := c.Discover(b.Context(), target(url), era, nil)
					return len(surface.Tools), err
				}, n)
			})
			b.Run(fmt.Sprintf("%s/%d_tools/sdk", era, n), func(b *testing.B) {
				perOperation(b, func() (int, error) { return bare(b, url, era) }, n)
			})
		}
	}
}

// bare does the same by the SDK alone.
func bare(b *testing.B, url, era string) (int, error) {
	b.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	var options *mcp.ClientSessionOptions
	if era == mcpclient.EraLegacy {
		options = &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"}
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "bare", Version: "0"}, nil).
		Connect(b.Context(), &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: transport}}, options)
	if err != nil {
		return 0, err
	}
	defer func() { _ = session.Close() }()
	count, params := 0, &mcp.ListToolsParams{}
	for {
		page, err := session.ListTools(b.Context(), params)
		if err != nil {
			return 0, err
		}
		count += len(page.Tools)
		if params.Cursor = page.NextCursor; params.Cursor == "" {
			return count, nil
		}
	}
}

// perOperation runs the benchmark and reports the time of the processor.
func perOperation(b *testing.B, f func() (int, error), want int) {
	b.Helper()
	b.ReportAllocs()
	before := processorTime(b)
	for b.Loop() {
		if got, err := f(); err != nil || got != want {
			b.Fatalf("%d tools, %v", got, err)
		}
	}
	b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
}

// processorTime is what this process has used, in user and system mode.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// apart serves a script in a process of its own, and gives its URL.
func apart(b *testing.B, program, script string) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "script.json")
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		b.Fatal(err)
	}
	server := exec.CommandContext(b.Context(), program, "-script", path)
	out, err := server.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(url)
}
