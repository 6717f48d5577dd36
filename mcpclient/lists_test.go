package mcpclient_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/mcpclient"
	"countersign/mcptest"
	"countersign/registry"
)

var eras = map[string]mcptest.Era{"2026-07-28": mcptest.Modern, "2025-11-25": mcptest.Legacy}

// TestEmptyCursors is H11: in 2026-07-28 an empty cursor is one, before it ends
// the list.
func TestEmptyCursors(t *testing.T) {
	t.Parallel()
	a, b := mcptest.Tool("a"), mcptest.Tool("b")
	for _, tt := range []struct {
		name   string
		list   mcptest.List
		modern registry.Reason
		tools  map[string][]string
	}{
		{
			"the second page ends the list", mcptest.Cursors(mcptest.Page{Items: []string{a}, Next: new("")}, map[string]mcptest.Page{"": {Items: []string{b}}}), "",
			map[string][]string{"2026-07-28": {a, b}, "2025-11-25": {a}},
		},
		{
			"always the same page", mcptest.Endless(func(int) []string { return []string{a} }, func(int) string { return "" }), registry.ReasonCursorLoop,
			map[string][]string{"2025-11-25": {a}},
		},
		{
			"always an empty page", mcptest.Endless(func(int) []string { return nil }, func(int) string { return "" }), registry.ReasonCursorLoop,
			map[string][]string{"2025-11-25": nil},
		},
		{
			"always a new page", mcptest.Endless(func(n int) []string { return []string{mcptest.Tool("tool" + strconv.Itoa(n))} }, func(int) string { return "" }), registry.ReasonTooMany,
			map[string][]string{"2025-11-25": {mcptest.Tool("tool1")}},
		},
	} {
		for version, era := range eras {
			for _, framing := range []mcptest.Framing{mcptest.JSON, mcptest.SSE} {
				t.Run(fmt.Sprintf("%s %s %d", tt.name, version, framing), func(t *testing.T) {
					t.Parallel()
					script := mcptest.Script{Era: era, Framing: framing, Sessions: true}
					script.List("tools/list", tt.list)
					s := mcptest.New(t, script)
					surface, _, err := discover(t, client(func(l *registry.Limits) { l.Pages = 20 }), s, "")
					if era == mcptest.Modern && tt.modern != "" {
						if registry.ReasonOf(err) != tt.modern || surface.Tools != nil {
							t.Errorf("%v: %+v", err, surface)
						}
						if tt.modern == registry.ReasonTooMany && s.Count("tools/list") != 20 {
							t.Errorf("%d pages were read", s.Count("tools/list"))
						}
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					var quirks []string
					if era == mcptest.Legacy {
						quirks = []string{"empty_cursor_is_end"}
					}
					if diff := cmp.Diff([][]string{tt.tools[version], quirks}, [][]string{texts(surface.Tools), surface.Quirks}); diff != "" {
						t.Error(diff)
					}
					settled(t, s)
				})
			}
		}
	}
	t.Run("the cursor is sent as it came", func(t *testing.T) {
		t.Parallel()
		script := mcptest.Script{Era: mcptest.Modern}
		const odd = " \u0000ü"
		script.List("tools/list", mcptest.Cursors(mcptest.Page{Next: new("")}, map[string]mcptest.Page{"": {Next: new(odd)}, odd: {}}))
		s := mcptest.New(t, script)
		if _, _, err := discover(t, client(nil), s, ""); err != nil {
			t.Fatal(err)
		}
		var cursors []*string
		for _, call := range s.Calls("tools/list") {
			cursors = append(cursors, call.Cursor())
		}
		if diff := cmp.Diff([]*string{nil, new(""), new(odd)}, cursors); diff != "" {
			t.Error(diff)
		}
	})
}

// TestListsThatDoNotEndFailWhole, in both eras.
func TestListsThatDoNotEndFailWhole(t *testing.T) {
	t.Parallel()
	one := func(int) []string { return []string{mcptest.Tool("a")} }
	fresh := func(n int) []string { return []string{mcptest.Tool("t" + strconv.Itoa(n))} }
	for _, tt := range []struct {
		name  string
		list  mcptest.List
		want  registry.Reason
		pages int // read at most
	}{
		{"one cursor, one page", mcptest.Endless(one, func(int) string { return "x" }), registry.ReasonCursorLoop, 2},
		{"new cursors, one page", mcptest.Endless(one, strconv.Itoa), registry.ReasonCursorLoop, 2},
		{"two pages in turn", mcptest.Endless(func(n int) []string { return fresh(n % 2) }, func(n int) string { return strconv.Itoa(n % 2) }), registry.ReasonCursorLoop, 3},
		{"one cursor, new pages", mcptest.Endless(fresh, func(int) string { return "x" }), registry.ReasonTooMany, 30},
		{"new cursors, new pages", mcptest.Endless(fresh, strconv.Itoa), registry.ReasonTooMany, 30},
		{"new cursors, empty pages", mcptest.Endless(func(int) []string { return nil }, strconv.Itoa), registry.ReasonTooMany, 30},
		{"one cursor, empty pages", mcptest.Endless(func(int) []string { return nil }, func(int) string { return "x" }), registry.ReasonCursorLoop, 2},
		{"more items than allowed", mcptest.Endless(func(n int) []string { return mcptest.Tools(n * 10) }, strconv.Itoa), registry.ReasonTooMany, 5},
		{"more bytes than allowed", mcptest.Endless(func(n int) []string {
			return []string{`{"name":"t` + strconv.Itoa(n) + strings.Repeat("x", 300_000) + `"}`}
		}, strconv.Itoa), registry.ReasonTooLarge, 4},
		{"a page larger than allowed", mcptest.Items(`{"name":"` + strings.Repeat("x", 600_000) + `"}`), registry.ReasonTooLarge, 1},
		{"the cursor is no string", mcptest.Raw(`{"tools":[],"nextCursor":5}`), registry.ReasonMalformedList, 1},
	} {
		for version, era := range eras {
			t.Run(tt.name+" "+version, func(t *testing.T) {
				t.Parallel()
				script := mcptest.Script{Era: era}
				script.List("tools/list", tt.list)
				s := mcptest.New(t, script)
				began := time.Now()
				surface, report, err := discover(t, client(func(l *registry.Limits) {
					l.Lists, l.Pages, l.Items, l.PageBytes, l.TotalBytes = patience, 30, 100, 500_000, 1_000_000
				}), s, "")
				e, ok := registry.AsError(err)
				checkTime(t, began, false, 0)
				if !ok || e.Reason != tt.want {
					t.Fatal(err)
				}
				if surface.ProtocolVersion != "" || surface.Tools != nil || report.ProtocolVersion != version {
					t.Errorf("%+v, %+v", surface, report)
				}
				if n := s.Count("tools/list"); n > tt.pages || e.Fact("list") != "tools/list" || e.Fact("page") == "" || e.Fact("phase") != "lists" {
					t.Errorf("%d pages, %+v", n, e.Facts)
				}
				checkPrintable(t, e)
			})
		}
	}
}

// TestEnvelopes is H12: what refuses a list, and what is for others to judge.
func TestEnvelopes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		result string
		want   registry.Reason
		items  int
	}{
		{`null`, registry.ReasonMalformedList, 0},
		{`[]`, registry.ReasonMalformedList, 0},
		{`"tools"`, registry.ReasonMalformedList, 0},
		{`{}`, registry.ReasonMalformedList, 0},
		{`{"tools":null}`, registry.ReasonMalformedList, 0},
		{`{"tools":{}}`, registry.ReasonMalformedList, 0},
		{`{"tools":"none"}`, registry.ReasonMalformedList, 0},
		{`{"Tools":[]}`, registry.ReasonMalformedList, 0},
		{`{"tools":[],"TOOLS":[]}`, registry.ReasonMalformedList, 0},
		{`{"toolſ":[],"tools":[]}`, registry.ReasonMalformedList, 0},
		{`{"tools":[],"tools":[{"name":"a"}]}`, registry.ReasonMalformedList, 0},
		{`{"tools":[],"nextCursor":"a","nextcursor":"b"}`, registry.ReasonMalformedList, 0},
		{`{"tools":[null]}`, registry.ReasonMalformedList, 0},
		{`{"tools":[{"name":"a"},"b"]}`, registry.ReasonMalformedList, 0},
		{`{"tools":[[{"name":"a"}]]}`, registry.ReasonMalformedList, 0},
		{`{"tools":[{}]}`, registry.ReasonMalformedList, 0},
		{`{"tools":[{"name":""}]}`, registry.ReasonMalformedList, 0},
		{`{"tools":[{"name":null}]}`, registry.ReasonMalformedList, 0},
		{`{"tools":[{"name":7}]}`, registry.ReasonMalformedList, 0},
		{`{"tools":[{"Name":"a"}]}`, registry.ReasonMalformedList, 0},
		{`{"tools":[{"name":"a","name":""}]}`, registry.ReasonMalformedList, 0},
		{`{"resultType":"input_required","inputRequests":{}}`, registry.ReasonMalformedList, 0},

		{`{"tools":[]}`, "", 0},
		{`{"tools":[],"nextCursor":null}`, "", 0},
		{`{"ttlMs":1,"tools":[{"name":"a"}],"_meta":{},"ttlMs":2}`, "", 1},
		{`{"tools":[{"name":"x"},{"name":"x"}]}`, "", 2},
		{`{"tools":[{"name":"a","inputSchema":null},{"name":"b","inputSchema":true},{"name":"c","annotations":{"readOnlyHint":"yes"}}]}`, "", 3},
		{`{"tools":[{"name":"","name":"b"}]}`, "", 1},
		{`{"tools":[{"name":"\ud800"},{"name":"\u0000"}]}`, "", 2},
		{`{"tools":[{"name":"deep","x":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}]}`, "", 1},
		{`{"tools":[{"name":"deeper","x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}]}`, registry.ReasonListFailed, 0},
	} {
		for version, era := range eras {
			t.Run(tt.result[:min(len(tt.result), 60)]+" "+version, func(t *testing.T) {
				t.Parallel()
				script := mcptest.Script{Era: era}
				script.List("tools/list", mcptest.Raw(tt.result))
				surface, _, err := discover(t, client(nil), mcptest.New(t, script), "")
				switch {
				case tt.want == "" && (err != nil || len(surface.Tools) != tt.items):
					t.Errorf("%v: %q", err, surface.Tools)
				case tt.want != "" && (registry.ReasonOf(err) != tt.want || surface.Tools != nil):
					t.Errorf("%v: %q", err, surface.Tools)
				}
			})
		}
	}
	for method, item := range map[string]string{"resources/list": "uri", "resources/templates/list": "uriTemplate", "prompts/list": "name"} {
		key, _, _ := strings.Cut(method, "/")
		if method == "resources/templates/list" {
			key = "resourceTemplates"
		}
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			script := mcptest.Script{Capabilities: `{"resources":{},"prompts":{}}`}
			for _, m := range []string{"resources/list", "resources/templates/list", "prompts/list"} {
				script.List(m, mcptest.Items())
			}
			s := mcptest.New(t, script)
			for result, want := range map[string]registry.Reason{
				`{"` + key + `":[{"` + item + `":"a"}]}`: "", `{"` + key + `":[{"title":"a"}]}`: registry.ReasonMalformedList, `{}`: registry.ReasonMalformedList,
			} {
				s.Edit(func(script *mcptest.Script) { script.List(method, mcptest.Raw(result)) })
				_, _, err := discover(t, client(nil), s, "")
				if want == "" && err != nil || want != "" && registry.ReasonOf(err) != want {
					t.Errorf("%s: %v", result, err)
				}
			}
		})
	}
}

// TestAListFailsWithAReason while the handshake is fine.
func TestAListFailsWithAReason(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		fault mcptest.Fault
		want  registry.Reason
		facts map[string]string
	}{
		{"an error", mcptest.Error(200, -32603, "upstream\x1b away", ""), registry.ReasonListFailed, map[string]string{"rpc_code": "-32603", "rpc_message": `upstream\x1b away`}},
		{"an error without an id", mcptest.Body("application/json", `{"jsonrpc":"2.0","error":{"code":-32000,"message":"x"}}`), registry.ReasonListFailed, map[string]string{"rpc_code": "-32000"}},
		{"401", mcptest.Status(401, nil, ""), registry.ReasonAuthRequired, map[string]string{"status": "401"}},
		{"403", mcptest.Status(403, nil, ""), registry.ReasonForbidden, nil},
		{"429", mcptest.Status(429, http.Header{"Retry-After": {"9"}}, ""), registry.ReasonRateLimited, map[string]string{"retry_after_seconds": "9"}},
		{"503", mcptest.Status(503, nil, "busy"), registry.ReasonListFailed, map[string]string{"cause": "unreachable", "status": "503", "excerpt": "busy"}},
		{"404, the session is lost", mcptest.Error(404, -32001, "Session not found", ""), registry.ReasonListFailed, map[string]string{"rpc_code": "-32001"}},
		{"404 of a proxy", mcptest.Status(404, nil, "gone"), registry.ReasonListFailed, map[string]string{"cause": "not_mcp", "status": "404"}},
		{"html", mcptest.Body("text/html", "<html>"), registry.ReasonListFailed, map[string]string{"cause": "not_mcp", "excerpt": "<html>"}},
		{"garbage", mcptest.Body("application/json", "{"), registry.ReasonListFailed, map[string]string{"cause": "protocol_error"}},
		{"202", mcptest.Status(202, nil, ""), registry.ReasonListFailed, map[string]string{"cause": "protocol_error"}},
		{"another id", mcptest.Message(`{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`), registry.ReasonListFailed, map[string]string{"cause": "protocol_error"}},
		{"a string as id", mcptest.Message(`{"jsonrpc":"2.0","id":"$ID","result":{"tools":[]}}`), registry.ReasonListFailed, map[string]string{"cause": "protocol_error"}},
		{"events that end", mcptest.Events(": bye\n\n", false), registry.ReasonListFailed, map[string]string{"cause": "protocol_error", "excerpt": ": bye"}},
		{"events with garbage", mcptest.Events("data: {\n\n", false), registry.ReasonListFailed, map[string]string{"cause": "protocol_error"}},
		{"a closed connection", mcptest.Reset(), registry.ReasonListFailed, map[string]string{"cause": "unreachable"}},
		{"silence", mcptest.Hang(), registry.ReasonListFailed, map[string]string{"cause": "timeout"}},
		{"a trickle", mcptest.Drip("application/json", strings.Repeat(" ", 1e6), 10*time.Millisecond), registry.ReasonListFailed, map[string]string{"cause": "slow"}},
		{"comments for ever", mcptest.Drip("text/event-stream", strings.Repeat(": hm\n", 1e6), 10*time.Millisecond), registry.ReasonListFailed, map[string]string{"cause": "slow"}},
		{"bytes for ever", mcptest.Forever("application/json", strings.Repeat(" ", 1<<16)), registry.ReasonTooLarge, map[string]string{"limit_bytes": "1048576", "scope": "response"}},
		{"events for ever", mcptest.Forever("text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n"), registry.ReasonTooLarge, nil},
		{"errors for ever", forever(500), registry.ReasonListFailed, map[string]string{"status": "500"}},
		{"a gzip bomb", mcptest.Bomb(16 << 20), registry.ReasonTooLarge, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			script := mcptest.Script{Era: mcptest.Legacy, Sessions: true}
			script.List("tools/list", mcptest.Items(mcptest.Tool("a")))
			script.Fault("tools/list", tt.fault)
			s := mcptest.New(t, script)
			waits := tt.facts["cause"] == "timeout" || tt.facts["cause"] == "slow"
			c := client(func(l *registry.Limits) {
				l.Lists, l.PageBytes, l.TotalBytes = patience, 1<<20, 4<<20
				if waits {
					l.Lists = time.Second
				}
			})
			began := time.Now()
			result, err := c.Probe(t.Context(), target(s.URL), mcpclient.EraLegacy)
			e, ok := registry.AsError(err)
			checkTime(t, began, waits, time.Second)
			if !ok || e.Reason != tt.want {
				t.Fatal(err)
			}
			for key, want := range map[string]string{"phase": "lists", "list": "tools/list", "page": "1"} {
				if got := e.Fact(key); got != want {
					t.Errorf("%s is %q", key, got)
				}
			}
			for key, want := range tt.facts {
				if got := e.Fact(key); got != want {
					t.Errorf("%s is %q, not %q", key, got, want)
				}
			}
			checkPrintable(t, e)
			if result.ProtocolVersion == "" || result.Listed || result.Tools != nil {
				t.Errorf("%+v", result)
			}
			t.Log(e.Message)
			settled(t, s)
		})
	}
}

// TestAForgottenCursorStartsTheListOver, once.
func TestAForgottenCursorStartsTheListOver(t *testing.T) {
	t.Parallel()
	forgets := func(times int) mcptest.Fault {
		return func(x *mcptest.Exchange) bool {
			return x.Call.Cursor() != nil && x.Call.Nth <= 2*times && mcptest.Error(400, -32602, "Invalid cursor", "")(x)
		}
	}
	for times, want := range map[int]registry.Reason{1: "", 2: registry.ReasonListFailed} {
		script := mcptest.Script{}
		script.List("tools/list", mcptest.Pages([]string{mcptest.Tool("a")}, []string{mcptest.Tool("b")}))
		script.Fault("tools/list", forgets(times))
		s := mcptest.New(t, script)
		surface, _, err := discover(t, client(nil), s, "")
		if want == "" && (err != nil || len(surface.Tools) != 2) || want != "" && registry.ReasonOf(err) != want || s.Count("tools/list") != 4 {
			t.Errorf("%d times: %v, %d tools, %d calls", times, err, len(surface.Tools), s.Count("tools/list"))
		}
	}
}

// TestAnswersAmongOtherMessages: the answer is found wherever a stream has it.
func TestAnswersAmongOtherMessages(t *testing.T) {
	t.Parallel()
	note := `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`
	answer := `{"jsonrpc":"2.0","id":$ID,"result":{"tools":[{"name":"a"}]}}`
	other := `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"other"}]}}`
	for name, stream := range map[string]string{
		"alone":             "data: " + answer + "\n\n",
		"named":             "event: message\nid: 5\nretry: 10\ndata:" + answer + "\n\n",
		"after others":      "data: " + note + "\n\ndata: " + other + "\n\n: c\nevent: ping\ndata: 12\n\ndata: " + answer + "\n\n",
		"by CR":             "data: " + note + "\r\rdata: " + answer + "\r\r",
		"by CRLF":           "data: " + note + "\r\n\r\ndata: " + answer + "\r\n\r\n",
		"in lines":          "data: " + strings.ReplaceAll(answer, `,"result"`, ",\ndata: \"result\"") + "\n\n",
		"behind a mark":     "\ufeffdata: " + answer + "\n\n",
		"after a bare word": "data\nnonsense\ndata: " + answer + "\n\n",
		"cut at the end":    "data: " + answer,
	} {
		for _, open := range []bool{false, true} {
			if open && name == "cut at the end" {
				continue
			}
			script := mcptest.Script{Era: mcptest.Modern}
			script.List("tools/list", mcptest.Items())
			script.Fault("tools/list", mcptest.Events(stream, open))
			s := mcptest.New(t, script)
			surface, _, err := discover(t, client(nil), s, "")
			if err != nil || len(surface.Tools) != 1 || string(surface.Tools[0]) != `{"name":"a"}` {
				t.Errorf("%s, open %v: %v, %q", name, open, err, surface.Tools)
			}
			settled(t, s)
		}
	}
}

// TestSizes is H22 as far as it is ours: what is large but within the limits
// comes through whole, in both framings.
func TestSizes(t *testing.T) {
	big := func(name string, size int) string {
		return `{"name":"` + name + `","inputSchema":{"type":"object","description":"` + strings.Repeat("x", size) + `"}}`
	}
	var many [][]string
	for p := range 40 {
		var page []string
		for i := range 10 {
			page = append(page, big(fmt.Sprintf("tool_%d_%d", p, i), 12<<10))
		}
		many = append(many, page)
	}
	for _, tt := range []struct {
		name  string
		list  mcptest.List
		tools int
		bytes int
	}{
		{"one schema of 1.9 MB", mcptest.Items(big("a", 1_900_000)), 1, 1_900_000},
		{"one schema of 2.1 MB", mcptest.Items(big("a", 2_100_000)), 1, 2_100_000},
		{"4.8 MB over pages", mcptest.Pages(many...), 400, 4_800_000},
		{"10,000 tools", mcptest.Items(mcptest.Tools(10_000)...), 10_000, 1_000_000},
	} {
		for _, framing := range []mcptest.Framing{mcptest.JSON, mcptest.SSE} {
			t.Run(fmt.Sprintf("%s %d", tt.name, framing), func(t *testing.T) {
				script := mcptest.Script{Framing: framing}
				script.List("tools/list", tt.list)
				s := mcptest.New(t, script)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				began := time.Now()
				surface, report, err := discover(t, client(func(l *registry.Limits) { l.Lists = patience }), s, "")
				if err != nil || len(surface.Tools) != tt.tools {
					t.Fatalf("%v, %d tools", err, len(surface.Tools))
				}
				took := time.Since(began)
				runtime.ReadMemStats(&after)
				size := 0
				for _, tool := range surface.Tools {
					size += len(tool)
				}
				if size < tt.bytes || report.Steps[len(report.Steps)-1].Bytes == 0 {
					t.Errorf("%d bytes", size)
				}
				t.Logf("%d tools, %d bytes, %s, %d MB allocated in all", tt.tools, size, took.Round(time.Millisecond), (after.TotalAlloc-before.TotalAlloc)>>20)
			})
		}
	}
	t.Run("10,001 tools", func(t *testing.T) {
		script := mcptest.Script{}
		script.List("tools/list", mcptest.Items(mcptest.Tools(10_001)...))
		_, _, err := discover(t, client(nil), mcptest.New(t, script), "")
		e, _ := registry.AsError(err)
		if e == nil || e.Reason != registry.ReasonTooMany || e.Fact("limit_items") != "10000" || e.Fact("seen_items") != "10001" {
			t.Errorf("%v", err)
		}
	})
}

// TestSessionsDoNotMix: two visits at once with the same ids get their own
// answers (threats B16).
func TestSessionsDoNotMix(t *testing.T) {
	t.Parallel()
	c := client(nil)
	done := make(chan error)
	const peers = 8
	for i := range peers {
		name := "only_" + strconv.Itoa(i)
		script := mcptest.Script{Era: mcptest.Legacy, Sessions: true}
		script.List("tools/list", mcptest.Items(mcptest.Tool(name)))
		script.Fault("tools/list", mcptest.Delay(time.Duration(i*10)*time.Millisecond))
		s := mcptest.New(t, script)
		go func() {
			surface, _, err := c.Discover(t.Context(), target(s.URL), "", nil)
			if err == nil && (len(surface.Tools) != 1 || string(surface.Tools[0]) != mcptest.Tool(name)) {
				err = fmt.Errorf("%s got %q", name, surface.Tools)
			}
			done <- err
		}()
	}
	for range peers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
