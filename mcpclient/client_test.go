package mcpclient_test

import (
	"context"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"countersign/mcpclient"
	"countersign/mcptest"
	"countersign/outbound"
	"countersign/registry"
)

func TestMain(m *testing.M) {
	if isPeer() {
		return
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		removePeer()
		os.Exit(code)
	}))
}

// client gives a client that may dial loopback, with the limits of
// the tests.
func client(change func(*registry.Limits)) *mcpclient.Client {
	limits := registry.DefaultLimits()
	limits.Connect, limits.Lists = 6*time.Second, patience
	if change != nil {
		change(&limits)
	}
	return &mcpclient.Client{
		Guard:  outbound.NewGuard(outbound.Options{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}),
		Limits: func() registry.Limits { return limits },
	}
}

func target(url string) registry.Target {
	return registry.Target{Transport: registry.TransportStreamableHTTP, URL: url, Authentication: registry.AuthNoneException}
}

func discover(t *testing.T, c *mcpclient.Client, s *mcptest.Server, era string) (registry.Surface, mcpclient.Report, error) {
	t.Helper()
	return c.Discover(t.Context(), target(s.URL), era, nil)
}

// settled waits until the server has no connection and no session any more.
func settled(t *testing.T, s *mcptest.Server) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if _, open := s.Connections(); open == 0 && s.OpenSessions() == 0 {
			return
		}
	}
	_, open := s.Connections()
	t.Errorf("%d connections and %d sessions stay open", open, s.OpenSessions())
}

func texts(items [][]byte) []string {
	var out []string
	for _, item := range items {
		out = append(out, string(item))
	}
	return out
}

// awkward are tools whose bytes must come through untouched: big integers,
// unknown fields, key order, explicit false, escapes, duplicate keys, odd types.
var awkward = []string{
	`{"z":1,"name":"big","inputSchema":{"maximum":9007199254740993,"minimum":1e400}}`,
	`{"name":"odd","inputSchema":true,"annotations":{"readOnlyHint":"yes","destructiveHint":false},"execution":{"taskSupport":"forbidden"}}`,
	`{ "name" : "\u0061\ud800", "description":5, "icons":"x", "description":"twice" }`,
	`{"name":"null schema","inputSchema":null}`,
	`{"name":"same"}`, `{"name":"same"}`,
	`{"name":"\u0000"}`,
	`{"name":"first","name":"last"}`,
}

// TestASurfaceIsWholeInEveryEraAndFraming is the main path.
func TestASurfaceIsWholeInEveryEraAndFraming(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		script  mcptest.Script
		known   string
		version string
		steps   []string
	}{
		{"both eras", mcptest.Script{}, "", "2026-07-28", []string{"connect", "server/discover"}},
		{"modern", mcptest.Script{Era: mcptest.Modern}, "", "2026-07-28", []string{"connect", "server/discover"}},
		{"modern in events", mcptest.Script{Era: mcptest.Modern, Framing: mcptest.SSE}, "", "2026-07-28", []string{"connect", "server/discover"}},
		{"modern, known", mcptest.Script{Era: mcptest.Modern}, mcpclient.EraModern, "2026-07-28", []string{"connect", "server/discover"}},
		{"modern, known as legacy", mcptest.Script{Era: mcptest.Modern}, mcpclient.EraLegacy, "2026-07-28", []string{"connect", "initialize", "server/discover"}},
		{"legacy", mcptest.Script{Era: mcptest.Legacy}, "", "2025-11-25", []string{"connect", "server/discover", "initialize"}},
		{"legacy with sessions", mcptest.Script{Era: mcptest.Legacy, Sessions: true}, "", "2025-11-25", []string{"connect", "server/discover", "initialize"}},
		{"legacy with sessions in events", mcptest.Script{Era: mcptest.Legacy, Sessions: true, Framing: mcptest.SSE}, "", "2025-11-25", []string{"connect", "server/discover", "initialize"}},
		{"legacy, known", mcptest.Script{Era: mcptest.Legacy, Sessions: true}, mcpclient.EraLegacy, "2025-11-25", []string{"connect", "initialize"}},
		{"legacy, known as modern", mcptest.Script{Era: mcptest.Legacy}, mcpclient.EraModern, "2025-11-25", []string{"connect", "server/discover", "initialize"}},
		{"oldest", mcptest.Script{Era: mcptest.Legacy, Version: "2024-11-05"}, "", "2024-11-05", []string{"connect", "server/discover", "initialize"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.script.Instructions = "be \"kind\" é\u202e"
			tt.script.List("tools/list", mcptest.Pages(awkward[:3], awkward[3:5], awkward[5:]))
			tt.script.List("resources/list", mcptest.Items(`{"uri":"file:///a"}`))
			tt.script.List("resources/templates/list", mcptest.Items(`{"uriTemplate":"file:///{x}"}`))
			tt.script.List("prompts/list", mcptest.Items(`{"name":"p"}`))
			s := mcptest.New(t, tt.script)
			var progress []string
			surface, report, err := client(nil).Discover(t.Context(), target(s.URL), tt.known, func(step string) { progress = append(progress, step) })
			if err != nil {
				t.Fatal(err)
			}
			want := registry.Surface{
				ProtocolVersion: tt.version, Name: "mcptest", Version: "1.0.0", Instructions: "be \"kind\" é\u202e",
				Kinds: []string{"prompts", "resources", "tools"},
			}
			got := surface
			got.Tools, got.Resources, got.Templates, got.Prompts = nil, nil, nil, nil
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([][]string{awkward, {`{"uri":"file:///a"}`}, {`{"uriTemplate":"file:///{x}"}`}, {`{"name":"p"}`}},
				[][]string{texts(surface.Tools), texts(surface.Resources), texts(surface.Templates), texts(surface.Prompts)}); diff != "" {
				t.Error(diff)
			}
			lists := []string{"tools/list", "tools/list", "tools/list", "resources/list", "resources/templates/list", "prompts/list"}
			var steps []string
			for _, step := range report.Steps {
				steps = append(steps, step.Name)
				if step.OK && step.Detail == "" {
					t.Errorf("step %s says nothing", step.Name)
				}
			}
			if diff := cmp.Diff(append(tt.steps, lists...), steps); diff != "" {
				t.Error(diff)
			}
			wantProgress := strings.Split(strings.Join(append(tt.steps[1:], lists...), " ")+" ", " ")
			wantProgress = wantProgress[:len(wantProgress)-1]
			n := len(tt.steps) - 1
			wantProgress[n+1], wantProgress[n+2] = "tools/list page 2", "tools/list page 3"
			if diff := cmp.Diff(wantProgress, progress); diff != "" {
				t.Error(diff)
			}
			if report.Era != mcpclient.EraOf(tt.version) || report.ProtocolVersion != tt.version || report.Duration <= 0 {
				t.Errorf("%+v", report)
			}
			if s.Count("GET") != 0 {
				t.Error("a GET stream was asked for")
			}
			for _, call := range s.Calls() {
				if agent := call.Header.Get("User-Agent"); agent != "countersign/0" {
					t.Errorf("%s came from %q", call.Method, agent)
				}
			}
			settled(t, s)
		})
	}
}

func TestAProbeReadsTheToolsOnly(t *testing.T) {
	t.Parallel()
	script := mcptest.Script{Era: mcptest.Legacy, Sessions: true}
	script.List("tools/list", mcptest.Items(mcptest.Tools(2)...))
	script.List("prompts/list", mcptest.Items(`{"name":"p"}`))
	s := mcptest.New(t, script)
	result, err := client(nil).Probe(t.Context(), target(s.URL), mcpclient.EraLegacy)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{mcptest.Tools(2), "2025-11-25", "legacy", true, []string{"prompts", "tools"}, 3},
		[]any{texts(result.Tools), result.ProtocolVersion, result.Era, result.Listed, result.Kinds, len(result.Steps)}); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"initialize", "notifications/initialized", "tools/list", "DELETE"}, s.Methods()); diff != "" {
		t.Error(diff)
	}
	settled(t, s)
}

func TestAProbeWithABadListTellsOfTheHandshake(t *testing.T) {
	t.Parallel()
	script := mcptest.Script{}
	script.List("tools/list", mcptest.Raw(`{"tools":null}`))
	s := mcptest.New(t, script)
	result, err := client(nil).Probe(t.Context(), target(s.URL), "")
	if registry.ReasonOf(err) != registry.ReasonMalformedList || result.ProtocolVersion != "2026-07-28" || result.Era != mcpclient.EraModern || result.Listed || result.Tools != nil {
		t.Errorf("%v: %+v", err, result)
	}
}

// TestOnlyAdvertisedListsAreRead, with what real servers say instead of the truth.
func TestOnlyAdvertisedListsAreRead(t *testing.T) {
	t.Parallel()
	tools := mcptest.Items(mcptest.Tool("a"))
	for _, tt := range []struct {
		name         string
		capabilities string
		lists        map[string]mcptest.List
		kinds        []string
		quirks       []string
		tools        int
		calls        []string
	}{
		{"tools", `{"tools":{}}`, map[string]mcptest.List{"tools/list": tools}, []string{"tools"}, nil, 1, []string{"tools/list"}},
		{
			"resources only", `{"resources":{},"logging":{}}`,
			map[string]mcptest.List{"tools/list": tools, "resources/list": mcptest.Items(), "resources/templates/list": mcptest.Items()},
			[]string{"resources"},
			nil, 0,
			[]string{"resources/list", "resources/templates/list"},
		},
		{"nothing, but there are tools", `{}`, map[string]mcptest.List{"tools/list": tools}, nil, []string{"nothing_advertised"}, 1, []string{"tools/list"}},
		{"nothing, and there is nothing", `{}`, nil, nil, []string{"nothing_advertised"}, 0, []string{"tools/list"}},
		{"null", `null`, map[string]mcptest.List{"tools/list": tools}, nil, []string{"nothing_advertised"}, 1, []string{"tools/list"}},
		{"tools null", `{"tools":null}`, map[string]mcptest.List{"tools/list": tools}, nil, []string{"nothing_advertised"}, 1, []string{"tools/list"}},
		{
			"everything, but only tools are there", `{"tools":{},"resources":{},"prompts":{}}`,
			map[string]mcptest.List{"tools/list": tools},
			[]string{"prompts", "resources", "tools"},
			[]string{"prompts_list_unknown", "resources_list_unknown", "templates_list_unknown"},
			1,
			[]string{"tools/list", "resources/list", "resources/templates/list", "prompts/list"},
		},
		{"tools, but there are none", `{"tools":{}}`, nil, []string{"tools"}, []string{"tools_list_unknown"}, 0, []string{"tools/list"}},
	} {
		for _, era := range []mcptest.Era{mcptest.Modern, mcptest.Legacy} {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				s := mcptest.New(t, mcptest.Script{Era: era, Capabilities: tt.capabilities, Lists: tt.lists, ServerInfo: "-"})
				surface, _, err := discover(t, client(nil), s, "")
				if err != nil {
					t.Fatal(err)
				}
				var calls []string
				for _, call := range s.Calls() {
					if strings.HasSuffix(call.Method, "/list") {
						calls = append(calls, call.Method)
					}
				}
				quirks := slices.Sorted(slices.Values(append([]string{"no_server_info"}, tt.quirks...)))
				if diff := cmp.Diff([]any{tt.kinds, quirks, tt.tools, tt.calls}, []any{surface.Kinds, surface.Quirks, len(surface.Tools), calls}); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

func TestLimitsAreAskedOncePerCall(t *testing.T) {
	t.Parallel()
	s := mcptest.New(t, mcptest.Script{})
	c := client(nil)
	asked := 0
	inner := c.Limits
	c.Limits = func() registry.Limits { asked++; return inner() }
	for range 2 {
		if _, _, err := discover(t, c, s, ""); err != nil {
			t.Fatal(err)
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
}

func TestTheCallersEndIsNotTheServersFault(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"server/discover", "tools/list"} {
		script := mcptest.Script{Era: mcptest.Modern}
		script.List("tools/list", mcptest.Items())
		script.Fault(method, mcptest.Hang())
		s := mcptest.New(t, script)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		began := time.Now()
		_, _, err := client(nil).Discover(ctx, target(s.URL), "", nil)
		if registry.ReasonOf(err) != registry.ReasonDeadline || !strings.Contains(err.Error(), "stopped") || time.Since(began) > 5*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err = client(nil).Probe(ctx, target(s.URL), "")
		cancel()
		if registry.ReasonOf(err) != registry.ReasonDeadline {
			t.Errorf("%v", err)
		}
		settled(t, s)
	}
}

func TestTargetsThatCannotBeMetAreRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		target registry.Target
		want   registry.Reason
	}{
		{registry.Target{Transport: registry.TransportStdio}, registry.ReasonTransportUnsupported},
		{target("ftp://example.com"), registry.ReasonInvalidArgument},
		{target("http://user:secret@example.com/"), registry.ReasonSecretInRequest},
		{registry.Target{Transport: registry.TransportStreamableHTTP, URL: "http://example.com/", DialAddress: "nowhere"}, registry.ReasonInvalidArgument},
		{target("http://127.0.0.1.nip.invalid./"), registry.ReasonDNS},
		{target("http://10.0.0.1/mcp"), registry.ReasonBlockedAddress},
		{target("http://169.254.169.254/latest/meta-data"), registry.ReasonBlockedAddress},
		{target("http://2130706433:1/"), registry.ReasonBlockedAddress},
		{target("http://[::1]:1/"), registry.ReasonBlockedAddress},
		{target("http://[64:ff9b::7f00:1]:1/"), registry.ReasonBlockedAddress},
	} {
		_, _, err := client(nil).Discover(t.Context(), tt.target, "", nil)
		if registry.ReasonOf(err) != tt.want {
			t.Errorf("%s: %v", tt.target.URL, err)
		}
	}
}

func TestTheDialAddressIsUsed(t *testing.T) {
	t.Parallel()
	s := mcptest.New(t, mcptest.Script{Lists: map[string]mcptest.List{"tools/list": mcptest.Items()}})
	where := target("http://mcp.example.com/mcp")
	where.DialAddress = strings.TrimSuffix(strings.TrimPrefix(s.URL, "http://"), "/mcp")
	if _, _, err := client(nil).Discover(t.Context(), where, "", nil); err != nil {
		t.Fatal(err)
	}
	for _, call := range s.Calls() {
		if call.Host != "mcp.example.com" {
			t.Errorf("%s asked for the host %s", call.Method, call.Host)
		}
	}
}
