package mcpclient_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"countersign/mcpclient"
	"countersign/mcptest"
	"countersign/outbound"
	"countersign/registry"
)

// outcome is what has to come of a meeting.
type outcome struct {
	era    string          // of the report; "" when no handshake comes about
	want   registry.Reason // "" when all goes well
	facts  facts           // besides those that its reason always has
	tools  int
	others [3]int // resources, templates and prompts, which only a discovery reads
	quirks []string
	asked  []string // quirks that only a discovery finds
}

type facts map[string]string

// knob is one script of the fault server, and what has to come of it.
type knob struct {
	script string
	how    string // this row differs from the script's first one by this
	outcome
	// legacy is what comes of it when the server is known as one of initialize
	// and speaks both eras; like the other but for the era when nil.
	legacy *outcome
	// waits is set where only the deadline can end it.
	waits bool
	// heap is set for scripts that send more than anybody should keep: how much
	// the heap may grow, in MB.
	heap   int
	limits func(*registry.Limits)
	change func(*mcpclient.Client)
	target func(*registry.Target)
	gone   bool // the server ended before
}

func met(era string, tools int, quirks ...string) outcome {
	return outcome{era: era, tools: tools, quirks: quirks}
}

func refused(reason registry.Reason, f facts) outcome { return outcome{want: reason, facts: f} }

// badList is a handshake that is fine and a list that is not, for a cause.
func badList(era string, cause registry.Reason) outcome {
	return outcome{era: era, want: registry.ReasonListFailed, facts: facts{"cause": string(cause)}}
}

func bad(era string, reason registry.Reason, f facts) outcome {
	return outcome{era: era, want: reason, facts: f}
}

const (
	modern = mcpclient.EraModern
	legacy = mcpclient.EraLegacy
	sse    = mcpclient.EraSSE
)

// knobs is acceptance by faults: every script has its rows here.
var knobs = []knob{
	// Honest servers.
	{script: "honest", outcome: met(modern, 3)},
	{script: "honest-modern", outcome: met(modern, 3), legacy: new(met(modern, 3))},
	{script: "honest-legacy", outcome: met(legacy, 3)},
	{script: "all-kinds", outcome: outcome{era: modern, tools: 3, others: [3]int{2, 1, 2}}},
	{script: "pages", outcome: met(modern, 4)},
	{script: "reencoded", outcome: met(modern, 3)},
	{script: "versions-by-count", outcome: met(modern, 1)},
	{script: "versions-by-time", outcome: met(modern, 1)},
	{script: "versions-by-user-agent", outcome: met(modern, 1)},
	{script: "gzip", outcome: met(modern, 3)},
	{script: "sse-honest", outcome: met(sse, 3)},
	{script: "stdio-honest", outcome: met(modern, 3)},

	// Peculiarities that are tolerated.
	{script: "get-405", outcome: met(legacy, 3)},
	{script: "get-empty-stream", outcome: met(legacy, 3)},
	{script: "get-silent", outcome: met(legacy, 3)},
	{script: "html-discover", outcome: met(legacy, 3)},
	{script: "silent-discover", outcome: met(legacy, 3), limits: func(l *registry.Limits) { l.Connect = 6 * time.Second }},
	{script: "no-server-info", outcome: met(modern, 3, "no_server_info", "nothing_advertised")},
	{script: "unadvertised", outcome: outcome{era: modern, tools: 3, asked: []string{"resources_list_unknown", "templates_list_unknown"}}},
	{script: "notifications-first", outcome: met(modern, 3)},
	{script: "storm", outcome: met(modern, 3), heap: 32},
	{script: "storm-get", outcome: met(legacy, 3)},
	{script: "storm-listen", outcome: met(modern, 3)},
	{script: "stream-stays-open", outcome: met(modern, 3)},
	{script: "id-twice", outcome: met(modern, 3)},
	{script: "delay", outcome: met(modern, 3)},
	{script: "pause", outcome: met(modern, 3)},
	{script: "status-every-third", outcome: met(modern, 3)},

	// Tools that are quarantined later, each alone.
	{script: "tools-twice", outcome: met(modern, 3)},
	{script: "schemas", outcome: met(modern, 5)},
	{script: "deep-tool", outcome: met(modern, 1)},
	{script: "big-tool", outcome: met(modern, 2)},

	// No handshake.
	{script: "honest", how: "gone", gone: true, outcome: refused(registry.ReasonUnreachable, facts{"phase": "connect", "address": "*"})},
	{script: "unavailable", outcome: refused(registry.ReasonUnreachable, facts{"status": "503", "retry_after_seconds": "3"})},
	{script: "honest", how: "under an unknown name", outcome: refused(registry.ReasonDNS, facts{"phase": "dns", "host": "nowhere.example"}), target: named("nowhere.example")},
	{script: "honest", how: "at a forbidden address", outcome: refused(registry.ReasonBlockedAddress, facts{"address": "127.0.0.1"}), change: guarded(outbound.Options{})},
	{
		script: "honest", how: "under a name that leads to a forbidden address", outcome: refused(registry.ReasonBlockedAddress, facts{"address": "10.0.0.1"}),
		target: named("inside.example"),
	},
	{script: "tls-self-signed", outcome: refused(registry.ReasonTLS, facts{"certificate_subject": "CN=mcptest self-signed"})},
	{script: "tls-expired", outcome: refused(registry.ReasonTLS, facts{"certificate_not_after": "*"})},
	{script: "tls-other-host", outcome: refused(registry.ReasonTLS, facts{"certificate_names": "other.example"})},
	{script: "hang", waits: true, outcome: refused(registry.ReasonTimeout, facts{"limit_seconds": "2"})},
	{script: "drip-all", waits: true, outcome: refused(registry.ReasonSlow, facts{"limit_seconds": "3", "status": "200"}), limits: func(l *registry.Limits) { l.Connect = 3 * time.Second }},
	{script: "html", outcome: refused(registry.ReasonNotMCP, facts{"content_type": "text/html", "excerpt": "<!doctype html><title>Log in</title>"})},
	{script: "redirect", outcome: refused(registry.ReasonRedirected, facts{"status": "307", "location": "*"})},
	{script: "redirect-chain", outcome: refused(registry.ReasonRedirected, facts{"status": "307", "location": "*"})},
	{script: "redirect-canary", outcome: refused(registry.ReasonRedirected, facts{"status": "307", "location": "*"})},
	{script: "forbidden", outcome: refused(registry.ReasonForbidden, facts{"excerpt": "no entry"})},
	{script: "host-rule", outcome: refused(registry.ReasonForbidden, nil)},
	{script: "host-rule", how: "by the right name", outcome: met(modern, 3), target: named("localhost")},
	{script: "rate-limited", outcome: refused(registry.ReasonRateLimited, facts{"status": "429", "retry_after_seconds": "7"})},
	{script: "version-old", outcome: refused(registry.ReasonUnsupportedVersion, facts{"offered": "2023-01-01"})},
	{script: "version-future", outcome: refused(registry.ReasonUnsupportedVersion, facts{"offered": "2099-01-01"})},
	{script: "version-unsupported", outcome: refused(registry.ReasonUnsupportedVersion, facts{"offered": "2027-01-01"}), legacy: new(met(legacy, 3))},
	{script: "version-missing", outcome: refused(registry.ReasonProtocolError, facts{"status": "200", "excerpt": "*"})},
	{script: "sse-cross-origin", outcome: refused(registry.ReasonProtocolError, facts{"endpoint_origin": "*"})},
	{script: "sse-no-endpoint", outcome: refused(registry.ReasonNotMCP, facts{"status": "405"}), limits: func(l *registry.Limits) { l.Connect = 3 * time.Second }},
	{script: "sse-wrong-event", outcome: refused(registry.ReasonNotMCP, facts{"status": "405"}), limits: func(l *registry.Limits) { l.Connect = 3 * time.Second }},

	// Credentials are wanted; what the server says about them is for discoveries.
	{script: "auth-challenge", outcome: refused(registry.ReasonAuthRequired, facts{"scheme": "bearer", "scope": "tools", "resource_metadata": "*", "?issuer": "https://issuer.example"})},
	{script: "auth-no-challenge", outcome: refused(registry.ReasonAuthRequired, facts{"scheme": "", "?issuer": "https://issuer.example"})},
	{script: "auth-root-metadata", outcome: refused(registry.ReasonAuthRequired, facts{"?issuer": "https://issuer.example"})},
	{script: "auth-html-metadata", outcome: refused(registry.ReasonAuthRequired, facts{"issuer": "", "metadata": ""})},
	{script: "auth-canary", outcome: refused(registry.ReasonAuthRequired, facts{"resource_metadata": "*", "issuer": ""})},
	{script: "auth-metadata-canary", outcome: refused(registry.ReasonAuthRequired, facts{"?issuer": "*"})},
	{script: "auth-token", outcome: refused(registry.ReasonAuthRequired, facts{"scheme": "bearer", "issuer": ""})},

	// The handshake is fine, and a list is not to be had.
	{script: "status-503", outcome: badList(modern, registry.ReasonUnreachable)},
	{script: "close", outcome: badList(modern, registry.ReasonUnreachable)},
	{script: "reset", outcome: badList(modern, registry.ReasonUnreachable)},
	{script: "reset-in-body", outcome: badList(modern, registry.ReasonUnreachable)},
	{script: "half-close", outcome: badList(modern, registry.ReasonUnreachable)},
	{script: "truncated", outcome: badList(modern, registry.ReasonUnreachable)},
	{script: "not-http", outcome: badList(modern, registry.ReasonNotMCP)},
	{script: "accepted-without-body", outcome: badList(modern, registry.ReasonProtocolError)},
	{script: "malformed-json", outcome: badList(modern, registry.ReasonProtocolError)},
	{script: "bom", outcome: badList(modern, registry.ReasonProtocolError)},
	{script: "tail", outcome: badList(modern, registry.ReasonProtocolError)},
	{script: "batch", outcome: badList(modern, registry.ReasonProtocolError)},
	{script: "neither", outcome: badList(modern, registry.ReasonProtocolError)},
	{script: "no-content-type", outcome: badList(modern, registry.ReasonProtocolError)},
	{script: "id-wrong", outcome: badList(modern, registry.ReasonProtocolError)},
	{script: "id-missing", outcome: badList(modern, registry.ReasonProtocolError)},
	{script: "id-null", outcome: badList(modern, registry.ReasonProtocolError)},
	{script: "id-other-type", outcome: badList(modern, registry.ReasonProtocolError)},
	{script: "drip", waits: true, outcome: badList(modern, registry.ReasonSlow), limits: func(l *registry.Limits) { l.Lists = 3 * time.Second }},
	{script: "comments-only", waits: true, outcome: badList(modern, registry.ReasonSlow)},
	{script: "slow-pages", waits: true, outcome: badList(modern, registry.ReasonSlow)},
	{script: "delay", how: "and no time", waits: true, outcome: badList(modern, registry.ReasonTimeout), limits: func(l *registry.Limits) { l.Lists = 200 * time.Millisecond }},
	{script: "error", outcome: bad(modern, registry.ReasonListFailed, facts{"rpc_code": "-32603", "rpc_message": "the database is away"})},
	{script: "session-lost", outcome: bad(legacy, registry.ReasonListFailed, facts{"rpc_code": "-32001", "page": "2"})},
	{script: "session-lost-once", outcome: met(legacy, 2)},
	{script: "sse-post-500", outcome: badList(sse, registry.ReasonUnreachable)},
	{script: "sse-hang", waits: true, outcome: badList(sse, registry.ReasonTimeout)},
	{script: "sse-id-wrong", waits: true, outcome: badList(sse, registry.ReasonProtocolError)},
	{script: "sse-drip", waits: true, outcome: badList(sse, registry.ReasonSlow)},

	// Lists that are no lists.
	{script: "tools-null", outcome: bad(modern, registry.ReasonMalformedList, nil)},
	{script: "tools-missing", outcome: bad(modern, registry.ReasonMalformedList, nil)},
	{script: "tools-null-element", outcome: bad(modern, registry.ReasonMalformedList, nil)},
	{script: "tools-without-name", outcome: bad(modern, registry.ReasonMalformedList, nil)},

	// Lists without end.
	{script: "cursor-alternate", outcome: bad(modern, registry.ReasonCursorLoop, facts{"page": "3"})},
	{script: "cursor-repeat-ttl", outcome: bad(modern, registry.ReasonCursorLoop, facts{"page": "2"})},
	{script: "cursor-empty-loop", outcome: bad(modern, registry.ReasonCursorLoop, facts{"page": "2"}), legacy: new(met(legacy, 1, "empty_cursor_is_end"))},
	{script: "cursor-empty-page", outcome: met(modern, 2), legacy: new(met(legacy, 1, "empty_cursor_is_end"))},
	{script: "cursor-repeat", outcome: bad(modern, registry.ReasonTooMany, facts{"limit_pages": "256", "page": "257"})},
	{script: "cursor-empty-pages", outcome: bad(modern, registry.ReasonTooMany, facts{"limit_pages": "256", "page": "257"})},
	{script: "cursor-endless", heap: 32, outcome: bad(modern, registry.ReasonTooMany, facts{"limit_pages": "256", "page": "257"})},
	{
		script: "cursor-endless", how: "and few items allowed", outcome: bad(modern, registry.ReasonTooMany, facts{"limit_items": "100", "seen_items": "105"}),
		limits: func(l *registry.Limits) { l.Items = 100 },
	},
	{
		script: "cursor-endless", how: "and few bytes allowed", outcome: bad(modern, registry.ReasonTooLarge, facts{"limit_bytes": "20000", "scope": "total"}),
		limits: func(l *registry.Limits) { l.TotalBytes = 20_000 },
	},

	// More than anybody should keep.
	{script: "many-tools", heap: 32, outcome: bad(modern, registry.ReasonTooMany, facts{"limit_items": "10000"})},
	{script: "huge-page", heap: 96, outcome: bad(modern, registry.ReasonTooLarge, facts{"limit_bytes": "8388608", "scope": "response"})},
	{script: "large-body", heap: 64, outcome: bad(modern, registry.ReasonTooLarge, facts{"limit_bytes": "8388608", "scope": "response"})},
	{script: "endless-body", heap: 64, outcome: bad(modern, registry.ReasonTooLarge, facts{"limit_bytes": "8388608", "scope": "response"})},
	{script: "gzip-bomb", heap: 64, outcome: bad(modern, registry.ReasonTooLarge, facts{"limit_bytes": "8388608", "scope": "response"})},
	{script: "huge-header", heap: 32, outcome: bad(modern, registry.ReasonTooLarge, facts{"limit_bytes": "65536", "scope": "headers"})},
	{script: "endless-headers", outcome: bad(modern, registry.ReasonTooLarge, facts{"limit_bytes": "65536", "scope": "headers"})},
	{script: "endless-1xx", heap: 16, outcome: bad(modern, registry.ReasonTooLarge, facts{"limit_bytes": "65536", "scope": "headers"})},

	// Processes.
	{script: "stdio-banner", outcome: met(modern, 3, "stdout_noise")},
	{script: "stdio-ansi", outcome: met(modern, 3, "stdout_noise")},
	{script: "stdio-json-logs", outcome: met(modern, 3, "stdout_noise")},
	{script: "stdio-notifications-first", outcome: met(modern, 3)},
	{script: "stdio-stderr-flood", heap: 16, outcome: met(modern, 3)},
	{script: "stdio-slow-start", outcome: met(modern, 3)},
	{script: "stdio-silent-discover", outcome: met(legacy, 3), limits: start(8 * time.Second)},
	{script: "stdio-exit-on-discover", outcome: met(legacy, 3)},
	{script: "stdio-ignore-eof", outcome: met(modern, 3)},
	{script: "stdio-ignore-term", outcome: met(modern, 3)},
	{script: "stdio-double-fork", outcome: met(modern, 3)},
	{script: "stdio-double-fork-output", outcome: met(modern, 3)},
	{script: "stdio-exit", outcome: refused(registry.ReasonUnreachable, facts{"exit_code": "1", "stderr": "missing API_KEY"})},
	{script: "stdio-silent", waits: true, outcome: refused(registry.ReasonTimeout, facts{"limit_seconds": "6"}), limits: start(6 * time.Second)}, // of which making the sandbox may take some
	{script: "stdio-deaf", waits: true, outcome: refused(registry.ReasonTimeout, facts{"limit_seconds": "6"}), limits: start(6 * time.Second)},
	{script: "stdio-long-line", heap: 96, outcome: refused(registry.ReasonProtocolError, facts{"limit_bytes": "16777216", "scope": "line"})},
	{script: "stdio-endless-line", heap: 96, outcome: refused(registry.ReasonProtocolError, facts{"limit_bytes": "16777216", "scope": "line"})},
	{script: "stdio-id-wrong", waits: true, outcome: badList(modern, registry.ReasonProtocolError), limits: start(patience)},
	{script: "stdio-drip", waits: true, outcome: badList(modern, registry.ReasonSlow), limits: start(patience)},
}

// start bounds the start of a process, which Limits.Connect is for here.
func start(d time.Duration) func(*registry.Limits) {
	return func(l *registry.Limits) { l.Connect = d }
}

// named reaches the server under another name.
func named(name string) func(*registry.Target) {
	return func(t *registry.Target) { t.URL = strings.Replace(t.URL, "127.0.0.1", name, 1) }
}

func guarded(o outbound.Options) func(*mcpclient.Client) {
	return func(c *mcpclient.Client) { c.Guard = outbound.NewGuard(o) }
}

// nameService resolves the names of these tests.
type nameService map[string][]string

func (n nameService) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	var out []netip.Addr
	for _, addr := range n[host] {
		out = append(out, netip.MustParseAddr(addr))
	}
	if out == nil {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return out, nil
}

// always are the facts that an error of a reason has, one of each group.
var always = map[registry.Reason][][]string{
	registry.ReasonUnreachable:        {{"status", "address", "exit_code"}},
	registry.ReasonDNS:                {{"host"}},
	registry.ReasonTLS:                {{"certificate_sha256"}},
	registry.ReasonTimeout:            {{"limit_seconds"}},
	registry.ReasonSlow:               {{"limit_seconds"}},
	registry.ReasonNotMCP:             {{"status"}},
	registry.ReasonRedirected:         {{"status"}, {"location"}},
	registry.ReasonAuthRequired:       {{"status"}},
	registry.ReasonForbidden:          {{"status"}},
	registry.ReasonRateLimited:        {{"status"}, {"retry_after_seconds"}},
	registry.ReasonUnsupportedVersion: {{"offered"}, {"supported"}},
	registry.ReasonProtocolError:      {{"status", "limit_bytes", "endpoint"}},
	registry.ReasonTooLarge:           {{"list"}, {"page"}, {"limit_bytes"}, {"scope"}},
	registry.ReasonTooMany:            {{"list"}, {"page"}, {"limit_pages", "limit_items"}},
	registry.ReasonCursorLoop:         {{"list"}, {"page"}},
	registry.ReasonListFailed:         {{"list"}, {"page"}, {"cause", "rpc_code"}},
	registry.ReasonMalformedList:      {{"list"}, {"page"}},
	registry.ReasonBlockedAddress:     {{"address"}},
}

// meeting is one call for one row.
type meeting struct {
	knob
	file  *mcptest.File
	probe bool
	known string
}

func (m meeting) String() string {
	call := "Discover"
	if m.probe {
		call = "Probe"
	}
	return fmt.Sprintf("%s %s: %s of a server known as %q", m.script, m.how, call, m.known)
}

// expected is the outcome for what was known of the server.
func (m meeting) expected() outcome {
	want := m.outcome
	switch {
	case m.known == "" || m.known == sse || want.era == sse:
	case m.legacy != nil:
		return *m.legacy
	case want.era == modern:
		want.era = legacy
	}
	return want
}

// meetings are all of a row: both calls, and the server known and not.
func meetings(t *testing.T, k knob) []meeting {
	t.Helper()
	file, err := mcptest.Fixture(k.script)
	if err != nil {
		t.Fatal(err)
	}
	known := []string{"", legacy}
	if file.Transport == mcptest.OverSSE {
		known = append(known, sse)
	}
	var out []meeting
	for _, era := range known {
		for _, probe := range []bool{false, true} {
			out = append(out, meeting{k, file, probe, era})
		}
	}
	return out
}

// slack is what a busy machine may add to a limit.
const slack = 5 * time.Second

// TestEveryFaultHasItsOutcome drives the client over every script of the fault
// server: the reason with its facts and a next step, or what was found; the
// time; the memory; and nothing half or left behind.
func TestEveryFaultHasItsOutcome(t *testing.T) {
	program := faulty(t)
	rows := map[string]bool{}
	reasons := map[registry.Reason]bool{}
	var light []meeting
	routines := runtime.NumGoroutine()
	for _, k := range knobs {
		rows[k.script] = true
		reasons[k.want] = true
		all := meetings(t, k)
		if k.heap == 0 {
			light = append(light, all...)
			continue
		}
		for _, m := range all { // alone, since memory is everybody's
			runtime.GC()
			peak := heapPeak(func() { m.run(t, program) })
			t.Logf("%s: %d MB", m, peak>>20)
			if peak > uint64(k.heap)<<20 {
				t.Errorf("%s: the heap grew by %d MB, not at most %d", m, peak>>20, k.heap)
			}
		}
	}
	if diff := cmp.Diff(mcptest.Fixtures(), slices.Sorted(maps.Keys(rows))); diff != "" {
		t.Errorf("scripts and rows (-scripts +rows):\n%s", diff)
	}
	delete(reasons, "")
	if diff := cmp.Diff(slices.Sorted(maps.Keys(always)), slices.Sorted(maps.Keys(reasons))); diff != "" {
		t.Errorf("reasons that must have a row, and those of the rows:\n%s", diff)
	}
	var group errgroup.Group
	group.SetLimit(12) // most of them wait
	for _, m := range light {
		group.Go(func() error {
			m.run(t, program)
			return nil
		})
	}
	_ = group.Wait()
	for deadline := time.Now().Add(slack); runtime.NumGoroutine() > routines; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("%d goroutines became %d", routines, runtime.NumGoroutine())
			break
		}
	}
}

// faulty builds the fault server where a sandbox shows it.
func faulty(t *testing.T) string {
	t.Helper()
	needBubblewrap(t)
	dir, err := os.MkdirTemp("/var/tmp", "mcpclient-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program, err := mcptest.Build(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// process gives the command of a script for stdio, and the mark of its
// processes: the program gets a name of its own.
func process(program, script string) (mcpclient.Command, string, error) {
	mark := filepath.Join(filepath.Dir(program), fmt.Sprintf("mark-%d", time.Now().UnixNano()))
	if err := os.Link(program, mark); err != nil {
		return mcpclient.Command{}, "", err
	}
	return mcpclient.Command{Argv: []string{mark, "-script", script, "-stdio"}}, mark, nil
}

// heapPeak gives how much more the heap held at most while f ran.
func heapPeak(f func()) uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	before, peak := sample[0].Value.Uint64(), uint64(0)
	done := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for tick := time.NewTicker(time.Millisecond); ; {
			metrics.Read(sample)
			peak = max(peak, sample[0].Value.Uint64())
			select {
			case <-done:
				tick.Stop()
				return
			case <-tick.C:
			}
		}
	})
	f()
	close(done)
	watcher.Wait()
	return max(peak, before) - before
}

// run makes the meeting and judges it.
func (m meeting) run(t *testing.T, program string) {
	t.Helper()
	limits := registry.DefaultLimits()
	limits.Connect, limits.Lists = patience, patience
	if m.waits {
		limits.Connect, limits.Lists = 2*time.Second, 2*time.Second
	}
	if m.knob.limits != nil {
		m.knob.limits(&limits)
	}
	c := client(func(l *registry.Limits) { *l = limits })
	c.Guard = outbound.NewGuard(outbound.Options{
		AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Resolver:      nameService{"localhost": {"127.0.0.1"}, "inside.example": {"127.0.0.1", "10.0.0.1"}},
	})
	var after func()
	to := overStdio
	if m.file.Transport == mcptest.OverStdio {
		command, mark, err := process(program, m.script)
		if err != nil {
			t.Error(err)
			return
		}
		command.Start = limits.Connect
		c.Commands = func(context.Context, registry.Target) (mcpclient.Command, error) { return command, nil }
		after = func() { noneLeft(t, mark) }
	} else {
		s, err := m.file.Start()
		if err != nil {
			t.Error(err)
			return
		}
		defer s.Close()
		to = target(s.URL)
		after = func() { m.quiet(t, s) }
		if m.gone {
			s.Close()
		}
	}
	if m.change != nil {
		m.change(c)
	}
	if m.target != nil {
		m.target(&to)
	}
	began := time.Now()
	surface, report, err := m.call(t, c, to)
	took := time.Since(began)
	m.timely(t, took, limits)
	m.judge(t, surface, report, err)
	after()
}

// call makes the call; the report of a probe has its era.
func (m meeting) call(t *testing.T, c *mcpclient.Client, to registry.Target) (registry.Surface, mcpclient.Report, error) {
	t.Helper()
	if !m.probe {
		return c.Discover(t.Context(), to, m.known, nil)
	}
	result, err := c.Probe(t.Context(), to, m.known)
	if err != nil && (result.Listed || result.Tools != nil) {
		t.Errorf("%s: a failed probe lists %d tools", m, len(result.Tools))
	}
	if err != nil && result.Era == "" != (result.ProtocolVersion == "") {
		t.Errorf("%s: era %q and version %q", m, result.Era, result.ProtocolVersion)
	}
	surface := result.Surface
	if err != nil {
		surface = registry.Surface{} // what was learnt before it failed
	}
	return surface, mcpclient.Report{Era: result.Era, ProtocolVersion: result.ProtocolVersion, Duration: result.Duration, Steps: result.Steps}, err
}

// timely checks the time: what waits for a deadline ends there, and nothing
// else comes near one.
func (m meeting) timely(t *testing.T, took time.Duration, limits registry.Limits) {
	t.Helper()
	limit := limits.Connect
	if m.expected().want == registry.ReasonListFailed {
		limit = limits.Lists
	}
	if m.waits && (took < limit || took > limit+slack) || !m.waits && took > patience/2 {
		t.Errorf("%s: it took %s", m, took)
	}
}

// judge checks what came of it.
func (m meeting) judge(t *testing.T, surface registry.Surface, report mcpclient.Report, err error) {
	t.Helper()
	want := m.expected()
	if report.Era != want.era {
		t.Errorf("%s: era %q, not %q", m, report.Era, want.era)
	}
	if len(report.Steps) == 0 {
		t.Errorf("%s: no steps", m)
	}
	if want.want == "" {
		if err != nil {
			t.Errorf("%s: %v", m, err)
			return
		}
		quirks := slices.Concat(want.asked, want.quirks)
		others := want.others
		if m.probe {
			quirks, others = want.quirks, [3]int{}
		}
		got := []any{len(surface.Tools), [3]int{len(surface.Resources), len(surface.Templates), len(surface.Prompts)}, slices.Clone(surface.Quirks)}
		if diff := cmp.Diff([]any{want.tools, others, slices.Clone(quirks)}, got); diff != "" {
			t.Errorf("%s:\n%s", m, diff)
		}
		return
	}
	if diff := cmp.Diff(registry.Surface{}, surface); diff != "" {
		t.Errorf("%s: a part of a surface comes with an error:\n%s", m, diff)
	}
	e, ok := registry.AsError(err)
	if !ok || e.Reason != want.want {
		t.Errorf("%s: %v %+v", m, err, e)
		return
	}
	checkPrintable(t, e)
	phase := map[bool]string{true: "handshake", false: "lists"}[want.era == ""]
	if got := e.Fact("phase"); got != phase && (phase == "lists" || got != "dns" && got != "connect" && got != "tls") || e.Next == "" || e.Message == "" {
		t.Errorf("%s: phase %q, next step %q: %+v", m, got, e.Next, e)
	}
	for _, group := range always[e.Reason] {
		if !slices.ContainsFunc(group, func(key string) bool { return e.Fact(key) != "" }) {
			t.Errorf("%s: none of the facts %q: %+v", m, group, e.Facts)
		}
	}
	for key, value := range want.facts {
		name, onlyDiscovered := strings.CutPrefix(key, "?")
		if onlyDiscovered && m.probe {
			value = ""
		}
		if got := e.Fact(name); value == "*" && got == "" || value != "*" && got != value {
			t.Errorf("%s: %s is %q, not %q", m, name, got, value)
		}
	}
}

// quiet checks that the server is left as it was, and its canary untouched.
func (m meeting) quiet(t *testing.T, s *mcptest.Server) {
	t.Helper()
	for deadline := time.Now().Add(slack); ; time.Sleep(5 * time.Millisecond) {
		_, open := s.Connections()
		// A session that the server itself has forgotten is not open either.
		if open == 0 && s.OpenSessions() == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("%s: %d connections and %d sessions stay open", m, open, s.OpenSessions())
			break
		}
	}
	if m.file.Transport == mcptest.OverHTTP && s.Count("GET") != wellKnownGets(s) {
		t.Errorf("%s: a GET stream was asked for: %v", m, s.Methods())
	}
	if s.Canary != nil {
		if ever, _ := s.Canary.Connections(); ever != 0 {
			t.Errorf("%s: %d connections to another origin", m, ever)
		}
	}
}

// wellKnownGets counts the requests for metadata, the only GET there is over
// streamable HTTP.
func wellKnownGets(s *mcptest.Server) int {
	n := 0
	for _, call := range s.Calls("GET") {
		if strings.HasPrefix(call.Path, "/.well-known/") {
			n++
		}
	}
	return n
}
