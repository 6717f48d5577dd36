package mcptest_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"countersign/mcptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestAnHonestServerSatisfiesAnSDK in every era and framing.
func TestAnHonestServerSatisfiesAnSDK(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		script  mcptest.Script
		version string
		calls   []string
	}{
		{"modern", mcptest.Script{Era: mcptest.Modern}, "2026-07-28", []string{"server/discover", "tools/list", "tools/list"}},
		{"modern in events", mcptest.Script{Era: mcptest.Modern, Framing: mcptest.SSE}, "2026-07-28", []string{"server/discover", "tools/list", "tools/list"}},
		{"legacy", mcptest.Script{Era: mcptest.Legacy}, "2025-11-25", []string{"server/discover", "initialize", "notifications/initialized", "tools/list", "tools/list"}},
		{"old legacy", mcptest.Script{Era: mcptest.Legacy, Version: "2025-03-26"}, "2025-03-26", []string{"server/discover", "initialize", "notifications/initialized", "tools/list", "tools/list"}},
		{
			"legacy with sessions in events",
			mcptest.Script{Era: mcptest.Legacy, Framing: mcptest.SSE, Sessions: true},
			"2025-11-25",
			[]string{"server/discover", "initialize", "notifications/initialized", "tools/list", "tools/list", "DELETE"},
		},
		{"both", mcptest.Script{}, "2026-07-28", []string{"server/discover", "tools/list", "tools/list"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.script.Instructions = "be kind"
			tt.script.List("tools/list", mcptest.Pages(mcptest.Tools(2), []string{mcptest.Tool("last")}))
			s := mcptest.New(t, tt.script)
			session := connect(t, s.URL, "")
			var names []string
			for tool, err := range session.Tools(t.Context(), nil) {
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, tool.Name)
			}
			_ = session.Close()
			init := session.InitializeResult()
			if diff := cmp.Diff([]any{tt.version, "be kind", "mcptest", []string{"tool_0000", "tool_0001", "last"}, tt.calls},
				[]any{init.ProtocolVersion, init.Instructions, init.ServerInfo.Name, names, s.Methods()}); diff != "" {
				t.Error(diff)
			}
			if n := s.OpenSessions(); n != 0 {
				t.Errorf("%d sessions stayed open", n)
			}
		})
	}
}

func TestFaultsMeetTheCallsTheyAreFor(t *testing.T) {
	t.Parallel()
	s := mcptest.New(t, mcptest.Script{Era: mcptest.Legacy})
	post := func(body string) string {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return "no answer"
		}
		defer func() { _ = resp.Body.Close() }()
		text, _ := io.ReadAll(resp.Body)
		return resp.Status[:3] + " " + string(text)
	}
	list := `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`
	for _, step := range []struct {
		name  string
		fault mcptest.Fault
		want  string
	}{
		{"unknown list", nil, `200 {"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"Method not found"}}`},
		{"status", mcptest.Status(418, nil, "teapot"), "418 teapot"},
		{"result", mcptest.Result("null"), `200 {"jsonrpc":"2.0","id":7,"result":null}`},
		{"message", mcptest.Message(`[$ID]`), "200 [7]"},
		{"error", mcptest.Error(400, -32602, "no", `{"a":1}`), `400 {"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no","data":{"a":1}}}`},
		{"reset", mcptest.Reset(), "no answer"},
		{"not yet", mcptest.After(100, mcptest.Hang()), `200 {"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"Method not found"}}`},
		{"no more", mcptest.Times(1, mcptest.Hang()), `200 {"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"Method not found"}}`},
		{"drip", mcptest.Drip("text/plain", "abc", time.Millisecond), "200 abc"},
		{"redirect", mcptest.When(func(c mcptest.Call) bool { return string(c.ID) == "7" }, mcptest.Status(308, nil, "x")), "308 x"},
	} {
		s.Edit(func(script *mcptest.Script) { script.Fault("tools/list", step.fault) })
		if got := post(list); got != step.want {
			t.Errorf("%s: %s", step.name, got)
		}
	}
	if n := s.Count("tools/list"); n != 10 {
		t.Errorf("%d calls were recorded", n)
	}
}

func TestCursorsAndPages(t *testing.T) {
	t.Parallel()
	call := func(params string, nth int) mcptest.Call { return mcptest.Call{Params: []byte(params), Nth: nth} }
	endless := mcptest.Endless(mcptest.Tools, func(n int) string { return strings.Repeat("x", n) })
	loop := mcptest.Cursors(mcptest.Page{Next: new("")}, map[string]mcptest.Page{"": {Raw: "{}"}})
	if got := endless(call(`{"cursor":"xx"}`, 3)); len(got.Items) != 3 || *got.Next != "xxx" {
		t.Errorf("%+v", got)
	}
	if got := loop(call(`{}`, 1)); *got.Next != "" {
		t.Errorf("%+v", got)
	}
	if got := loop(call(`{"cursor":""}`, 2)); got.Raw != "{}" {
		t.Errorf("%+v", got)
	}
	if got := mcptest.Pages([]string{"1"}, []string{"2"})(call(`{"cursor":"1"}`, 2)); got.Next != nil || got.Items[0] != "2" {
		t.Errorf("%+v", got)
	}
}
