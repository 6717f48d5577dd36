package mcpclient_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"countersign/mcpclient"
	"countersign/mcptest"
	"countersign/outbound"
	"countersign/registry"
)

// TestServersOfAnSDKAreDiscovered: the demo server, and one with sessions, pages
// and all kinds of lists.
func TestServersOfAnSDKAreDiscovered(t *testing.T) {
	t.Parallel()
	demo := httptest.NewServer(mcptest.NewDemo())
	t.Cleanup(demo.Close)
	full := mcp.NewServer(&mcp.Implementation{Name: "full", Version: "2"}, &mcp.ServerOptions{PageSize: 7, Instructions: "hi"})
	for i := range 20 {
		full.AddTool(&mcp.Tool{Name: fmt.Sprintf("tool_%02d", i), InputSchema: map[string]any{"type": "object"}},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{}, nil
			})
		full.AddPrompt(&mcp.Prompt{Name: fmt.Sprintf("prompt_%02d", i)}, nil)
		full.AddResource(&mcp.Resource{Name: "r", URI: fmt.Sprintf("file:///%02d", i)}, nil)
		full.AddResourceTemplate(&mcp.ResourceTemplate{Name: "t", URITemplate: fmt.Sprintf("file:///%02d/{x}", i)}, nil)
	}
	mounted := func(o *mcp.StreamableHTTPOptions) string {
		s := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return full }, o))
		t.Cleanup(s.Close)
		return s.URL
	}
	for _, tt := range []struct {
		name, url, version string
		counts             []int
	}{
		{"demo", demo.URL + "/mcp", "2026-07-28", []int{3, 0, 0, 0}},
		{"stateless", mounted(&mcp.StreamableHTTPOptions{Stateless: true}), "2026-07-28", []int{20, 20, 20, 20}},
		{"with sessions", mounted(nil), "2025-11-25", []int{20, 20, 20, 20}},
		{"with sessions, in JSON", mounted(&mcp.StreamableHTTPOptions{JSONResponse: true}), "2025-11-25", []int{20, 20, 20, 20}},
	} {
		for _, era := range []string{"", mcpclient.EraModern, mcpclient.EraLegacy} {
			t.Run(tt.name+" "+era, func(t *testing.T) {
				surface, report, err := client(nil).Discover(t.Context(), target(tt.url), era, nil)
				if err != nil {
					t.Fatal(err)
				}
				want := tt.version
				if era == mcpclient.EraLegacy {
					want = "2025-11-25" // such a server speaks both
				}
				counts := []int{len(surface.Tools), len(surface.Resources), len(surface.Templates), len(surface.Prompts)}
				if diff := cmp.Diff([]any{want, tt.counts, []string(nil)}, []any{surface.ProtocolVersion, counts, surface.Quirks}); diff != "" {
					t.Error(diff)
				}
				if report.Era != mcpclient.EraOf(want) {
					t.Errorf("%+v", report)
				}
			})
		}
	}
}

// TestHTTP2IsSpoken, over TLS with an authority of the operator's.
func TestHTTP2IsSpoken(t *testing.T) {
	t.Parallel()
	script := mcptest.Script{Era: mcptest.Legacy, Sessions: true, Framing: mcptest.SSE}
	script.List("tools/list", mcptest.Pages(mcptest.Tools(3), mcptest.Tools(2)))
	peer := mcptest.Handler(script)
	var protocols sync.Map
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protocols.Store(r.Proto, true)
		peer.ServeHTTP(w, r)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	c := client(nil)
	c.Guard = outbound.NewGuard(outbound.Options{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, RootCAs: pool})
	surface, _, err := c.Discover(t.Context(), target(s.URL), "", nil)
	if err != nil || len(surface.Tools) != 5 || peer.OpenSessions() != 0 {
		t.Errorf("%v, %d tools, %d sessions", err, len(surface.Tools), peer.OpenSessions())
	}
	if _, ok := protocols.Load("HTTP/2.0"); !ok {
		t.Error("it was not HTTP/2")
	}
	peer.Edit(func(script *mcptest.Script) {
		script.Fault("tools/list", mcptest.Forever("application/json", strings.Repeat(" ", 1<<16)))
	})
	if _, _, err := c.Discover(t.Context(), target(s.URL), "", nil); registry.ReasonOf(err) != registry.ReasonTooLarge {
		t.Error(err)
	}
}

func TestAStoppedDemoIsUnreachable(t *testing.T) {
	t.Parallel()
	demo := httptest.NewServer(mcptest.NewDemo())
	t.Cleanup(demo.Close)
	post := func(path string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, demo.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := demo.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	first, err := client(nil).Probe(t.Context(), target(demo.URL+"/mcp"), "")
	if err != nil {
		t.Fatal(err)
	}
	post("/demo/stop")
	began := time.Now()
	if _, err := client(nil).Probe(t.Context(), target(demo.URL+"/mcp"), first.Era); registry.ReasonOf(err) != registry.ReasonUnreachable || time.Since(began) > patience/2 {
		t.Errorf("%v after %s", err, time.Since(began))
	}
	post("/demo/start")
	second, err := client(nil).Probe(t.Context(), target(demo.URL+"/mcp"), first.Era)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(texts(first.Tools), texts(second.Tools)); diff != "" {
		t.Error(diff)
	}
}

// BenchmarkProbe is one handshake and one tools list against a server in the
// same process, connection included.
func BenchmarkProbe(b *testing.B) {
	for _, n := range []int{10, 100} {
		for name, script := range map[string]mcptest.Script{
			"modern": {Era: mcptest.Modern}, "legacy": {Era: mcptest.Legacy, Sessions: true}, "events": {Era: mcptest.Modern, Framing: mcptest.SSE},
		} {
			b.Run(fmt.Sprintf("%s/%d_tools", name, n), func(b *testing.B) {
				script.List("tools/list", mcptest.Items(mcptest.Tools(n)...))
				s := mcptest.New(b, script)
				c := client(nil)
				era := mcpclient.EraModern
				if script.Era == mcptest.Legacy {
					era = mcpclient.EraLegacy
				}
				b.ReportAllocs()
				for b.Loop() {
					result, err := c.Probe(b.Context(), target(s.URL), era)
					if err != nil || len(result.Tools) != n {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
