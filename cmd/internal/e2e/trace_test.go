package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

var updateTrace = flag.Bool("update-trace", false, "write the trace that docs/telemetry.md shows")

// spans is an OTLP endpoint that keeps what it is sent.
type spans struct {
	*httptest.Server

	mu   sync.Mutex
	all  []*otlp.Span
	body bytes.Buffer // all of it, as sent
}

func collectSpans(t *testing.T) *spans {
	t.Helper()
	s := &spans{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			unzipped, err := gzip.NewReader(body)
			if err != nil {
				t.Error(err)
				return
			}
			body = unzipped
		}
		raw, err := io.ReadAll(body)
		var sent collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(raw, &sent)
		}
		if err != nil {
			t.Error(err)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.body.Write(raw)
		for _, resource := range sent.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				s.all = append(s.all, scope.GetSpans()...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(s.Close)
	return s
}

// sent gives all of it as it came.
func (s *spans) sent() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.body.Bytes())
}

// env makes a process send its spans here, besides what else its environment says.
func (s *spans) env(more ...string) []string {
	return append(more,
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="+s.URL+"/v1/traces", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf",
		"OTEL_BSP_SCHEDULE_DELAY=100",
	)
}

// of gives the spans of the trace that has a root of this name, in the order in which
// they began.
func (s *spans) of(root string) []*otlp.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*otlp.Span
	for _, top := range s.all {
		if top.GetName() != root || len(top.GetParentSpanId()) != 0 {
			continue
		}
		for _, span := range s.all {
			if bytes.Equal(span.GetTraceId(), top.GetTraceId()) {
				out = append(out, span)
			}
		}
		break
	}
	slices.SortStableFunc(out, func(a, b *otlp.Span) int { return int(a.GetStartTimeUnixNano()) - int(b.GetStartTimeUnixNano()) })
	return out
}

// tree gives the paths of a trace, each once, as lines of a tree.
func tree(trace []*otlp.Span) []string {
	below := map[string][]*otlp.Span{}
	for _, span := range trace {
		above := hex.EncodeToString(span.GetParentSpanId())
		below[above] = append(below[above], span)
	}
	var lines []string
	var walk func(level int, spans []*otlp.Span)
	walk = func(level int, spans []*otlp.Span) {
		var names []string
		same := map[string][]*otlp.Span{}
		for _, span := range spans {
			if same[span.GetName()] == nil {
				names = append(names, span.GetName())
			}
			same[span.GetName()] = append(same[span.GetName()], below[hex.EncodeToString(span.GetSpanId())]...)
			if same[span.GetName()] == nil {
				same[span.GetName()] = []*otlp.Span{}
			}
		}
		for _, name := range names {
			lines = append(lines, strings.Repeat("  ", level)+name)
			walk(level+1, same[name])
		}
	}
	walk(0, below[""])
	return lines
}

// paths makes a set of the paths of a tree: which of two things that go on at once
// began first is chance.
func paths(lines []string) map[string]bool {
	out := map[string]bool{}
	var at []string
	for _, line := range lines {
		name := strings.TrimLeft(line, " ")
		at = append(at[:(len(line)-len(name))/2], name)
		out[strings.Join(at, " > ")] = true
	}
	return out
}

const (
	traceBegins = "<!-- trace of a registration -->\n```\n"
	traceEnds   = "```\n"
)

// One trace leads from the API call through the workflows and activities to the
// requests to the server, and is the one that docs/telemetry.md shows.
func TestARegistrationIsOneTrace(t *testing.T) {
	t.Parallel()
	told := collectSpans(t)
	d := newDev(t)
	d.start(t, told.env("COUNTERSIGN_EVENTS_LOG=true")...)
	bring(t, d.admin(), "traced", d.demoURL(), verified)

	const root = "countersign.registry.v1.McpServerService/RegisterMcpServer"
	page := filepath.Join("..", "..", "..", "docs", "telemetry.md")
	written, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(written), traceBegins)
	shown, after, closed := strings.Cut(rest, traceEnds)
	if !found || !closed {
		t.Fatalf("%s shows no trace", page)
	}
	var lines []string
	until(t, "the trace is whole", patience, func() error {
		lines = tree(told.of(root))
		got, want := paths(lines), paths(strings.Split(strings.TrimSpace(shown), "\n"))
		for path := range want {
			if !got[path] && !*updateTrace {
				return fmt.Errorf("there is no %s in\n%s", path, strings.Join(lines, "\n"))
			}
		}
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.TrimLeft(line, " ") == "tools/list" }) {
			return fmt.Errorf("no tool was listed in\n%s", strings.Join(lines, "\n"))
		}
		return nil
	})
	time.Sleep(2 * time.Second) // until what begins after that has ended as well
	lines = tree(told.of(root))
	if *updateTrace {
		if err := os.WriteFile(page, []byte(before+traceBegins+strings.Join(lines, "\n")+"\n"+traceEnds+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for path := range paths(lines) {
		if !paths(strings.Split(strings.TrimSpace(shown), "\n"))[path] && !*updateTrace {
			t.Errorf("docs/telemetry.md does not show %s; -update-trace writes it", path)
		}
	}

	// Its events lead back to it (R160).
	trace := hex.EncodeToString(told.of(root)[0].GetTraceId())
	until(t, "the events of the registration are delivered", patience, func() error {
		for line := range strings.Lines(d.log.String()) {
			if strings.Contains(line, "mcp-server-registered") && strings.Contains(line, "traceparent=00-"+trace) {
				return nil
			}
		}
		return fmt.Errorf("none has the trace %s", trace)
	})

	// Spans say whose they are and what they are about.
	about := map[string]string{}
	for _, span := range told.of(root) {
		for _, a := range span.GetAttributes() {
			if v, ok := a.GetValue().GetValue().(*common.AnyValue_StringValue); ok {
				about[span.GetName()+" "+a.GetKey()] = v.StringValue
			}
		}
	}
	for key, want := range map[string]string{
		root + " countersign.tenant": first,
		"tools/list mcp.method.name": "tools/list",
		"POST server.address":        d.demo,
		"POST http.request.method":   http.MethodPost,
	} {
		if got := about[key]; got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}
