package mcpclient_test

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"countersign/mcpclient"
	"countersign/mcptest"
	"countersign/registry"
)

// TestAHandshakeFailsWithAReason is the table of reasons, each within its time.
func TestAHandshakeFailsWithAReason(t *testing.T) {
	t.Parallel()
	login := mcptest.Status(200, http.Header{"Content-Type": {"text/html; charset=utf-8"}}, "<html>\x1b[2J<body>Sign in</body></html>")
	challenge := http.Header{"WWW-Authenticate": {`Bearer resource_metadata="https://as.example/.well-known/oauth-protected-resource", scope="mcp:read", error="invalid_token"`}}
	for _, tt := range []struct {
		name  string
		era   mcptest.Era
		fault mcptest.Fault
		want  registry.Reason
		facts map[string]string
		// calls is how many requests the server gets at most; 0 = does not matter.
		calls int
		// waits is set where only the deadline can end it.
		waits bool
	}{
		{name: "401", fault: mcptest.Status(401, challenge, ""), want: registry.ReasonAuthRequired, calls: 3, facts: map[string]string{
			"status": "401", "scheme": "bearer", "resource_metadata": "https://as.example/.well-known/oauth-protected-resource", "scope": "mcp:read", "error": "invalid_token", "phase": "handshake",
		}},
		{name: "401 without a challenge", fault: mcptest.Status(401, nil, "no"), want: registry.ReasonAuthRequired, calls: 3, facts: map[string]string{"excerpt": "no", "scope": ""}},
		{name: "401 with a garbled challenge", fault: mcptest.Status(401, http.Header{"WWW-Authenticate": {`Bearer scope="a, ,=,`}}, ""), want: registry.ReasonAuthRequired, calls: 3},
		{
			name: "403", fault: mcptest.Status(403, http.Header{"WWW-Authenticate": {`Bearer error="insufficient_scope", scope="more"`}}, ""), want: registry.ReasonForbidden, calls: 2,
			facts: map[string]string{"error": "insufficient_scope", "scope": "more"},
		},
		{name: "429", fault: mcptest.Status(429, http.Header{"Retry-After": {"120"}}, ""), want: registry.ReasonRateLimited, calls: 1, facts: map[string]string{"retry_after_seconds": "120"}},
		{name: "429 with a date", fault: mcptest.Status(429, http.Header{"Retry-After": {"Wed, 21 Oct 2015 07:28:00 GMT"}}, ""), want: registry.ReasonRateLimited, facts: map[string]string{"retry_after_seconds": "0"}},
		{name: "429 with nonsense", fault: mcptest.Status(429, http.Header{"Retry-After": {"soon"}}, ""), want: registry.ReasonRateLimited, facts: map[string]string{"retry_after_seconds": ""}},
		{name: "307", fault: mcptest.Redirect("https://elsewhere.example/mcp/"), want: registry.ReasonRedirected, calls: 1, facts: map[string]string{"status": "307", "location": "https://elsewhere.example/mcp/"}},
		{name: "302 with a password", fault: mcptest.Status(302, http.Header{"Location": {"https://a:b@elsewhere.example/"}}, ""), want: registry.ReasonRedirected, calls: 1, facts: map[string]string{"location": ""}},
		{name: "500", fault: mcptest.Status(500, nil, "oops"), want: registry.ReasonUnreachable, calls: 2, facts: map[string]string{"status": "500", "excerpt": "oops"}},
		{name: "503", fault: mcptest.Status(503, http.Header{"Retry-After": {"7"}}, ""), want: registry.ReasonUnreachable, calls: 1, facts: map[string]string{"status": "503", "retry_after_seconds": "7"}},
		{name: "503 with an error object", fault: mcptest.Error(503, -32000, "overloaded", ""), want: registry.ReasonUnreachable, calls: 1},
		{name: "404", fault: mcptest.Status(404, nil, "404 page not found"), want: registry.ReasonNotMCP, calls: 3, facts: map[string]string{"status": "404", "excerpt": "404 page not found"}},
		{name: "405", fault: mcptest.Status(405, nil, ""), want: registry.ReasonNotMCP, calls: 3},
		{name: "a login page", fault: login, want: registry.ReasonNotMCP, calls: 2, facts: map[string]string{
			"content_type": "text/html; charset=utf-8", "excerpt": `<html>\x1b[2J<body>Sign in</body></html>`,
		}},
		{name: "another JSON service", fault: mcptest.Body("application/json", `{"hello":"world"}`), want: registry.ReasonNotMCP, facts: map[string]string{"excerpt": `{"hello":"world"}`}},
		{name: "garbage", fault: mcptest.Body("application/json", "{\"jsonrpc\":\x00\x1b"), want: registry.ReasonProtocolError, facts: map[string]string{"excerpt": `{"jsonrpc":\x00\x1b`}},
		{name: "long garbage", fault: mcptest.Body("application/json", strings.Repeat("x", 1000)), want: registry.ReasonProtocolError, facts: map[string]string{"excerpt": strings.Repeat("x", 200) + "…"}},
		{name: "a byte order mark", fault: mcptest.Message("\ufeff" + `{"jsonrpc":"2.0","id":$ID,"result":{}}`), want: registry.ReasonProtocolError},
		{name: "trailing bytes", fault: mcptest.Message(`{"jsonrpc":"2.0","id":$ID,"result":{}} x`), want: registry.ReasonProtocolError},
		{name: "a batch", fault: mcptest.Message(`[{"jsonrpc":"2.0","id":$ID,"result":{}}]`), want: registry.ReasonProtocolError},
		{name: "neither result nor error", fault: mcptest.Message(`{"jsonrpc":"2.0","id":$ID}`), want: registry.ReasonProtocolError},
		{name: "result and error", fault: mcptest.Message(`{"jsonrpc":"2.0","id":$ID,"result":{},"error":{"code":1,"message":""}}`), want: registry.ReasonProtocolError},
		{name: "an error that is none", fault: mcptest.Message(`{"jsonrpc":"2.0","id":$ID,"error":"no"}`), want: registry.ReasonProtocolError},
		{name: "a key in two cases", fault: mcptest.Message(`{"jsonrpc":"2.0","id":$ID,"Result":{},"result":{}}`), want: registry.ReasonProtocolError},
		{name: "JSON-RPC 1", fault: mcptest.Message(`{"jsonrpc":"1.0","id":$ID,"result":{}}`), want: registry.ReasonProtocolError},
		{name: "202 without a message", fault: mcptest.Status(202, nil, ""), want: registry.ReasonProtocolError, facts: map[string]string{"status": "202"}},
		{name: "200 without a message", fault: mcptest.Body("application/json", ""), want: registry.ReasonProtocolError},
		{name: "a result as plain text", fault: plain, want: registry.ReasonProtocolError, facts: map[string]string{"content_type": "text/plain"}},
		{name: "events that end", fault: mcptest.Events("event: message\ndata: \n\n", false), want: registry.ReasonProtocolError},
		{name: "events that are garbage", fault: mcptest.Events("data: {garbage\n\n", false), want: registry.ReasonProtocolError},
		{name: "an error object", fault: mcptest.Error(200, -32603, "in\u202eternal", ""), want: registry.ReasonProtocolError, facts: map[string]string{"rpc_code": "-32603", "rpc_message": `in\u202eternal`}},
		{name: "a capability is demanded", fault: mcptest.Error(400, -32021, "sampling", ""), want: registry.ReasonCapabilityRequired, calls: 1},
		{name: "headers do not match", fault: mcptest.Error(400, -32020, "mismatch", ""), want: registry.ReasonProtocolError, calls: 1},
		{
			name: "only a future version", fault: mcptest.Error(400, -32022, "no", `{"supported":["2099-01-01"],"requested":"2026-07-28"}`), want: registry.ReasonUnsupportedVersion, calls: 1,
			facts: map[string]string{"offered": "2099-01-01", "supported": "2026-07-28, 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05"},
		},
		{
			name: "an old version in another way", era: mcptest.Legacy, fault: when("initialize", mcptest.Error(200, -32602, "Unsupported protocol version", `{"supported":["2020-01-01"]}`)),
			want: registry.ReasonUnsupportedVersion, facts: map[string]string{"offered": "2020-01-01"},
		},
		{
			name: "an unknown version is settled on", era: mcptest.Legacy, fault: when("initialize", mcptest.Result(`{"protocolVersion":"2031-01-01","capabilities":{},"serverInfo":{"name":"x","version":"1"}}`)),
			want: registry.ReasonUnsupportedVersion, facts: map[string]string{"offered": "2031-01-01"},
		},
		{name: "no version is settled on", era: mcptest.Legacy, fault: when("initialize", mcptest.Result(`{}`)), want: registry.ReasonProtocolError},
		{name: "discover offers only the future", era: mcptest.Modern, fault: when("server/discover", mcptest.Result(`{"supportedVersions":["2099-01-01"],"capabilities":{}}`)), want: registry.ReasonUnsupportedVersion},
		{name: "a handshake of the wrong types", era: mcptest.Legacy, fault: when("initialize", mcptest.Result(`{"protocolVersion":"2025-11-25","capabilities":[],"serverInfo":5}`)), want: registry.ReasonProtocolError},
		{name: "instructions twice", era: mcptest.Modern, fault: when("server/discover", mcptest.Result(`{"supportedVersions":["2026-07-28"],"capabilities":{},"instructions":"a","instructions":"b"}`)), want: registry.ReasonProtocolError},
		{name: "instructions with NUL", era: mcptest.Modern, fault: when("server/discover", mcptest.Result(`{"supportedVersions":["2026-07-28"],"capabilities":{},"instructions":"a\u0000"}`)), want: registry.ReasonProtocolError},
		{name: "endless instructions", era: mcptest.Modern, fault: when("server/discover", mcptest.Result(`{"supportedVersions":["2026-07-28"],"capabilities":{},"instructions":"`+strings.Repeat("x", 1<<19)+`"}`)), want: registry.ReasonProtocolError},
		{name: "initialized is refused", era: mcptest.Legacy, fault: when("notifications/initialized", mcptest.Status(400, nil, "no")), want: registry.ReasonNotMCP},
		{name: "the connection is closed", fault: mcptest.Reset(), want: registry.ReasonUnreachable},
		{name: "silence", fault: mcptest.Hang(), want: registry.ReasonTimeout, facts: map[string]string{"limit_seconds": "2"}, waits: true},
		{name: "a trickle", fault: mcptest.Drip("application/json", strings.Repeat(" ", 1e6), 20*time.Millisecond), want: registry.ReasonSlow, facts: map[string]string{"status": "200", "limit_seconds": "2"}, waits: true},
		{name: "comments for ever", fault: mcptest.Drip("text/event-stream", strings.Repeat(": still here\n\n", 1e5), 5*time.Millisecond), want: registry.ReasonSlow, waits: true},
		{name: "an id of another type", fault: mcptest.Message(`{"jsonrpc":"2.0","id":"$ID","result":{}}`), want: registry.ReasonProtocolError, waits: true},
		{name: "bytes for ever", fault: mcptest.Forever("application/json", strings.Repeat(" ", 1<<16)), want: registry.ReasonProtocolError, facts: map[string]string{"limit_bytes": "1048576"}},
		{name: "errors for ever", fault: forever(400), want: registry.ReasonNotMCP},
		{name: "a gzip bomb", fault: mcptest.Bomb(16 << 20), want: registry.ReasonProtocolError, facts: map[string]string{"limit_bytes": "1048576"}},
		{name: "too much together", fault: mcptest.Body("text/plain", strings.Repeat("x", 1<<19)), want: registry.ReasonNotMCP},
		{name: "headers for ever", fault: mcptest.Status(200, http.Header{"X": {strings.Repeat("x", 1<<20)}}, ""), want: registry.ReasonProtocolError},
		{name: "deep nesting", fault: mcptest.Body("application/json", strings.Repeat("[", 100_000)), want: registry.ReasonProtocolError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			script := mcptest.Script{Era: tt.era}
			script.Fault(mcptest.Any, tt.fault)
			s := mcptest.New(t, script)
			c := client(func(l *registry.Limits) {
				l.Connect, l.PageBytes, l.TotalBytes = patience, 1<<20, 4<<20
				if tt.waits {
					l.Connect = 2 * time.Second
				}
			})
			began := time.Now()
			surface, report, err := discover(t, c, s, "")
			checkTime(t, began, tt.waits, 2*time.Second)
			e, ok := registry.AsError(err)
			if !ok || e.Reason != tt.want {
				t.Fatalf("%v", err)
			}
			for key, want := range tt.facts {
				if got := e.Fact(key); got != want {
					t.Errorf("%s is %q, not %q", key, got, want)
				}
			}
			checkPrintable(t, e)
			if n := len(s.Calls()); tt.calls > 0 && n > tt.calls {
				t.Errorf("%d requests: %v", n, s.Methods())
			}
			if last := report.Steps[len(report.Steps)-1]; last.OK || last.Reason == "" {
				t.Errorf("the last step is %+v", last)
			}
			if surface.ProtocolVersion != "" || report.ProtocolVersion != "" || report.Era != "" {
				t.Errorf("a failed handshake says %+v, %+v", surface, report)
			}
			t.Log(e.Message)
			settled(t, s)
		})
	}
}

// patience is a limit that only a busy machine comes near, and far more than
// what is no question of time may take.
const patience = 30 * time.Second

// checkTime makes sure that what waits for a deadline ends there, and that
// nothing else waits.
func checkTime(t *testing.T, began time.Time, waits bool, limit time.Duration) {
	t.Helper()
	took := time.Since(began)
	if waits && (took < limit || took > limit+patience/3) || !waits && took > patience/2 {
		t.Errorf("it took %s", took)
	}
}

// plain answers rightly under the wrong content type.
func plain(x *mcptest.Exchange) bool {
	x.W.Header().Set("Content-Type", "text/plain")
	_, _ = fmt.Fprintf(x.W, `{"jsonrpc":"2.0","id":%s,"result":{}}`, x.Call.ID)
	return true
}

// forever answers a status with an endless body.
func forever(status int) mcptest.Fault {
	return func(x *mcptest.Exchange) bool {
		x.W.WriteHeader(status)
		return mcptest.Forever("text/plain", strings.Repeat("x", 1<<16))(x)
	}
}

func when(method string, fault mcptest.Fault) mcptest.Fault {
	return mcptest.When(func(c mcptest.Call) bool { return c.Method == method }, fault)
}

// checkPrintable makes sure that nothing of a server leaves unescaped or long.
func checkPrintable(t *testing.T, e *registry.Error) {
	t.Helper()
	texts := []string{e.Message, e.Next}
	for _, f := range e.Facts {
		texts = append(texts, f.Value)
	}
	for _, text := range texts {
		if len(text) > 1000 {
			t.Errorf("%d bytes leave", len(text))
		}
		for _, r := range text {
			if !strconv.IsPrint(r) {
				t.Errorf("%q holds %U", text, r)
			}
		}
	}
	seen := map[string]bool{}
	for _, f := range e.Facts {
		if seen[f.Key] {
			t.Errorf("the fact %s comes twice", f.Key)
		}
		seen[f.Key] = true
	}
}

func TestConnectionsFailWithAReason(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + closed.Addr().String() + "/mcp"
	_ = closed.Close()
	secure := httptest.NewUnstartedServer(mcptest.Handler(mcptest.Script{}))
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	plain := mcptest.New(t, mcptest.Script{})
	ssh, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ssh.Close() })
	go func() {
		for {
			conn, err := ssh.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1024))
			_, _ = io.WriteString(conn, "SSH-2.0-OpenSSH_9.2\r\n")
			_ = conn.Close()
		}
	}()
	for _, tt := range []struct {
		name, url string
		want      registry.Reason
		fact      string
		steps     int
	}{
		{"nobody listens", nobody, registry.ReasonUnreachable, "address", 1},
		{"the name is unknown", "http://nowhere.invalid/mcp", registry.ReasonDNS, "host", 1},
		{"the certificate is not trusted", secure.URL, registry.ReasonTLS, "certificate_not_after", 1},
		{"there is no TLS", strings.Replace(plain.URL, "http:", "https:", 1), registry.ReasonTLS, "phase", 1},
		{"it is not HTTP", "http://" + ssh.Addr().String(), registry.ReasonNotMCP, "phase", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			began := time.Now()
			_, report, err := client(nil).Discover(t.Context(), target(tt.url), "", nil)
			e, ok := registry.AsError(err)
			if !ok || e.Reason != tt.want || e.Fact(tt.fact) == "" || time.Since(began) > patience/2 {
				t.Errorf("%v, %+v after %s", err, e, time.Since(began))
			}
			checkPrintable(t, e)
			if tt.steps > 0 && len(report.Steps) != tt.steps {
				t.Errorf("%+v", report.Steps)
			}
		})
	}
}

// TestRedirectsAreNotFollowed, with the request that a redirect would repeat.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	script := mcptest.Script{}
	script.List("tools/list", mcptest.Items())
	other := mcptest.New(t, script)
	for _, method := range []string{"server/discover", "tools/list"} {
		script.Faults = map[string]mcptest.Fault{method: mcptest.Redirect(other.URL)}
		s := mcptest.New(t, script)
		_, _, err := discover(t, client(nil), s, "")
		want := registry.ReasonRedirected
		if method == "tools/list" {
			want = registry.ReasonListFailed
		}
		e, _ := registry.AsError(err)
		if e == nil || e.Reason != want || e.Fact("location") != other.URL {
			t.Errorf("%v", err)
		}
	}
	if ever, _ := other.Connections(); ever != 0 {
		t.Errorf("%d connections", ever)
	}
}

// TestServersWithOddHandshakesAreMetAllTheSame: each has been seen in the wild.
func TestServersWithOddHandshakesAreMetAllTheSame(t *testing.T) {
	t.Parallel()
	notify := `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hi"}}`
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	result := `{"jsonrpc":"2.0","id":$ID,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"odd","version":"1"}}}`
	modern := `{"jsonrpc":"2.0","id":$ID,"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}}`
	for _, tt := range []struct {
		name    string
		era     mcptest.Era
		method  string
		fault   mcptest.Fault
		version string
	}{
		{"silent on discover", mcptest.Legacy, "server/discover", mcptest.Hang(), "2025-11-25"},
		{"html on discover", mcptest.Legacy, "server/discover", mcptest.Body("text/html", "<html>"), "2025-11-25"},
		{"500 on discover", mcptest.Legacy, "server/discover", mcptest.Status(500, nil, "boom"), "2025-11-25"},
		{"404 on discover", mcptest.Legacy, "server/discover", mcptest.Error(404, -32001, "Invalid session ID", ""), "2025-11-25"},
		{"parse error on discover", mcptest.Legacy, "server/discover", mcptest.Error(400, -32700, "Parse error", ""), "2025-11-25"},
		{"method not found on discover", mcptest.Legacy, "server/discover", mcptest.Error(200, -32601, "Method not found", ""), "2025-11-25"},
		{"hangs up on discover", mcptest.Legacy, "server/discover", mcptest.Reset(), "2025-11-25"},
		{"garbage on discover", mcptest.Legacy, "server/discover", mcptest.Body("application/json", "{"), "2025-11-25"},
		{"discover says the versions are old", mcptest.Legacy, "server/discover", mcptest.Error(400, -32022, "no", `{"supported":["2025-11-25","2025-06-18"]}`), "2025-11-25"},
		{"discover offers old versions", mcptest.Legacy, "server/discover", mcptest.Result(`{"supportedVersions":["2025-11-25"],"capabilities":{}}`), "2025-11-25"},
		{"notifications before the answer", mcptest.Legacy, "initialize", mcptest.Events("id: 1\ndata:\n\n: hm\ndata: "+notify+"\n\ndata: "+ping+"\n\nevent: message\ndata: "+result+"\n\n", false), "2025-11-25"},
		{"a stream that stays open", mcptest.Legacy, "initialize", mcptest.Events("data: "+result+"\n\n", true), "2025-11-25"},
		{"a modern stream that stays open", mcptest.Modern, "server/discover", mcptest.Events("data: "+modern+"\n\n", true), "2026-07-28"},
		{"slow but modern", mcptest.Modern, "server/discover", mcptest.Delay(2500 * time.Millisecond), "2026-07-28"},
		{"200 for initialized", mcptest.Legacy, "notifications/initialized", mcptest.Body("application/json", "{}"), "2025-11-25"},
		{"text for initialized", mcptest.Legacy, "notifications/initialized", mcptest.Status(202, http.Header{"Content-Type": {"text/plain"}}, "Accepted"), "2025-11-25"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			script := mcptest.Script{Era: tt.era}
			script.List("tools/list", mcptest.Items(mcptest.Tool("a")))
			script.Fault(tt.method, tt.fault)
			s := mcptest.New(t, script)
			began := time.Now()
			surface, report, err := discover(t, client(func(l *registry.Limits) { l.Lists = patience }), s, "")
			if err != nil || surface.ProtocolVersion != tt.version || len(surface.Tools) != 1 {
				t.Errorf("%v: %+v", err, report.Steps)
			}
			checkTime(t, began, false, 0)
			if tries := s.Count("server/discover"); tt.name == "slow but modern" && tries != 2 {
				t.Errorf("%d tries", tries)
			}
			settled(t, s)
		})
	}
}

// TestASlowGoodbyeIsCut: a server that does not hear of the end of its session
// does not hold us.
func TestASlowGoodbyeIsCut(t *testing.T) {
	t.Parallel()
	script := mcptest.Script{Era: mcptest.Legacy, Sessions: true}
	script.List("tools/list", mcptest.Items())
	script.Fault("DELETE", mcptest.Hang())
	s := mcptest.New(t, script)
	const goodbye = 5 * time.Second
	began := time.Now()
	_, report, err := discover(t, client(nil), s, mcpclient.EraLegacy)
	if err != nil || time.Since(began) > patience/2 || report.Duration > goodbye {
		t.Errorf("%v after %s, %s of it the discovery", err, time.Since(began), report.Duration)
	}
}

// TestMemoryIsBounded: what a server sends beyond its limits is not kept (threats B19).
func TestMemoryIsBounded(t *testing.T) {
	script := mcptest.Script{Era: mcptest.Modern}
	script.List("tools/list", mcptest.Items())
	bomb := mcptest.Bomb(64 << 20)
	for _, method := range []string{"server/discover", "tools/list"} {
		for name, fault := range map[string]mcptest.Fault{
			"bomb": bomb, "json": mcptest.Forever("application/json", strings.Repeat(" ", 1<<16)),
			"one event": mcptest.Forever("text/event-stream", "data: "+strings.Repeat("x", 1<<16)), "events": mcptest.Forever("text/event-stream", "data: x\n: c\n\n"),
		} {
			t.Run(method+" "+name, func(t *testing.T) {
				script.Faults = map[string]mcptest.Fault{method: fault}
				s := mcptest.New(t, script)
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				_, _, err := discover(t, client(func(l *registry.Limits) { l.Connect, l.Lists = patience, patience }), s, mcpclient.EraModern)
				runtime.ReadMemStats(&after)
				if err == nil {
					t.Error("it was accepted")
				}
				if kept := int64(after.HeapSys) - int64(before.HeapSys); kept > 100<<20 {
					t.Errorf("the heap grew by %d bytes", kept)
				}
				settled(t, s)
			})
		}
	}
}
