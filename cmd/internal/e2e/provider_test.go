package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"countersign/mcptest"
	"countersign/registry"
)

// page is what an extension answers, path by path.
type page struct {
	status   int
	kind     string
	body     string
	location string
}

// changing is an extension whose answers a test changes.
type changing struct {
	*httptest.Server

	mu    sync.Mutex
	pages map[string]page
	asked []string
}

func newChanging(t *testing.T) *changing {
	t.Helper()
	c := &changing{pages: map[string]page{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asked = append(c.asked, r.URL.Path)
		p, known := c.pages[r.URL.Path]
		if !known {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", p.kind)
		if p.location != "" {
			w.Header().Set("Location", p.location)
		}
		w.WriteHeader(p.status)
		_, _ = w.Write([]byte(p.body))
	}))
	t.Cleanup(c.Close)
	return c
}

// shows sets the answer of one path, and of no other.
func (c *changing) shows(path string, p page) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pages, c.asked = map[string]page{path: p}, nil
}

const (
	aepPath   = "/.well-known/aep"
	aliasPath = "/.well-known/agentstration"
)

// described is a descriptor with servers and contributions.
func described(version, id string, servers [][2]string, tools [][3]string) page {
	type object = map[string]any
	list, contributed := []object{}, []object{}
	for _, s := range servers {
		list = append(list, object{"id": s[0], "endpoint": s[1]})
	}
	for _, c := range tools {
		contributed = append(contributed, object{"id": c[0], "displayName": "The " + c[0], "mcp": object{"server": c[1], "tool": c[2]}, "inputSchema": object{"type": "string"}})
	}
	raw, _ := json.Marshal(object{
		"protocolVersion": version, "extension": object{"id": id, "name": "Two", "version": "1"}, "capabilities": nil,
		"contributions": object{"tools": contributed}, "mcp": object{"servers": list},
	})
	return page{status: http.StatusOK, kind: "application/json", body: string(raw)}
}

// The sample extension through the product, the demo of the development process
// with a token, and one with two servers of which something is always wrong.
func TestExtensionsAreProviders(t *testing.T) {
	t.Parallel()
	d := newDev(t)
	d.start(t)
	c := d.terminal(first, registry.RolePlatformAdmin)

	// The sample as a program of its own.
	sample := address(t)
	launch(t, "countersign-utilities", nil, "--listen", sample)
	c.json(t, "provider", "create", "utilities", "--aep", "http://"+sample, "--extension", "countersign.utilities", "--auth", "none", "--reason", "a demo")
	refreshed := c.json(t, "provider", "refresh", "utilities", "--wait-for", "30s")
	for _, want := range []string{`"totalTools":3`, `"hash.compute"`, `"utilities.json.compact"`, `"done":true`} {
		if !strings.Contains(compact(t, refreshed), want) {
			t.Errorf("the refresh says nothing of %s: %s", want, refreshed)
		}
	}
	c.server(t, "server", "approve", "utilities-utilities", "--all", "--class", "read", "--exception-expires", "1h", "--yes")
	resolved := compact(t, c.json(t, "tools", "resolve", "utilities.hash.compute"))
	if !strings.Contains(resolved, `"callable":true`) || !strings.Contains(resolved, `"toolName":"hash_compute"`) {
		t.Errorf("%s", resolved)
	}
	c.json(t, "provider", "disable", "utilities")
	if resolved := compact(t, c.json(t, "tools", "resolve", "utilities.hash.compute")); !strings.Contains(resolved, `"tool_provider_disabled"`) {
		t.Errorf("%s", resolved)
	}

	// The demo, with a token.
	c.json(t, "provider", "create", "inside", "--aep", "http://"+d.demo, "--extension", "countersign.utilities", "--auth", "oauth2")
	c.run(t, "provider", "refresh", "inside", "--wait-for", "30s") // which finds that the server wants a token
	if s := c.server(t, "server", "update", "inside-utilities", "--connection", "demo", "--yes"); s.GetEndpointRef() == "" {
		t.Errorf("%v", s)
	}
	c.json(t, "provider", "refresh", "inside", "--wait-for", "30s")
	c.server(t, "server", "approve", "inside-utilities", "--all", "--class", "read", "--yes")
	if resolved := compact(t, c.json(t, "tools", "resolve", "inside.text.upper")); !strings.Contains(resolved, `"callable":true`) {
		t.Errorf("%s", resolved)
	}

	d.anotherExtension(t, c)
}

func compact(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func (d *dev) anotherExtension(t *testing.T, c terminal) {
	t.Helper()
	const version, id = "2026-08-01", "acme.two"
	ext, away := newChanging(t), httptest.NewServer(mcptest.NewDemo())
	t.Cleanup(away.Close)
	beside := mcptest.NewDemo()
	inner := ext.Config.Handler
	ext.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/base/mcp" {
			r = r.Clone(r.Context())
			r.URL.Path = "/mcp"
			beside.ServeHTTP(w, r)
			return
		}
		inner.ServeHTTP(w, r)
	})
	servers := [][2]string{{"near", "mcp"}, {"far", away.URL + "/mcp"}}
	tools := [][3]string{{"hash", "near", "hash_compute"}, {"broken", "near", "no_such"}, {"upper", "far", "text_upper"}}
	ext.shows(aepPath, described(version, id, servers, tools))
	c.json(t, "provider", "create", "two", "--aep", ext.URL+"/base", "--extension", id, "--auth", "none", "--reason", "a demo")
	good := compact(t, c.json(t, "provider", "refresh", "two", "--wait-for", "30s"))
	for _, want := range []string{`"two.hash"`, `"two.upper"`, `"mcp_tool_not_found"`, `"totalTools":2`, ext.URL + "/base/mcp", away.URL + "/mcp"} {
		if !strings.Contains(good, want) {
			t.Errorf("the refresh says nothing of %s: %s", want, good)
		}
	}
	definition := compact(t, c.json(t, "tools", "get", "two.hash"))
	if strings.Contains(definition, `\"type\":\"string\"},\"name\"`) || !strings.Contains(definition, "The hash") {
		t.Errorf("%s", definition)
	}

	// Each of these changes nothing.
	before := compact(t, c.json(t, "provider", "get", "two"))
	for name, bad := range map[string]struct {
		at     string
		page   page
		reason registry.Reason
	}{
		"another version":  {aepPath, described("2026-08-02", id, servers, tools), registry.ReasonProtocolIncompatible},
		"another identity": {aepPath, described(version, "acme.other", servers, tools), registry.ReasonIdentityMismatch},
		"HTML":             {aepPath, page{status: 200, kind: "text/html", body: "<html>log in</html>"}, registry.ReasonInvalidResponse},
		"a redirect":       {aepPath, page{status: 302, kind: "text/plain", location: away.URL + "/.well-known/aep"}, registry.ReasonInvalidResponse},
		"a broken rule":    {aepPath, described(version, id, servers, [][3]string{{"x", "nobody", "y"}}), registry.ReasonDescriptorInvalid},
		"no server":        {aepPath, described(version, id, nil, nil), registry.ReasonDescriptorInvalid},
		"forbidden":        {aepPath, page{status: 403, kind: "text/plain"}, registry.ReasonInvalidResponse},
		"nothing":          {"/elsewhere", page{}, registry.ReasonInvalidResponse},
	} {
		ext.shows(bad.at, bad.page)
		if code, reason := c.fails(t, "provider", "refresh", "two", "--wait-for", "30s"); code != 1 || reason != bad.reason {
			t.Errorf("%s: exit code %d, %s", name, code, reason)
		}
		ext.mu.Lock()
		alias := strings.Contains(strings.Join(ext.asked, " "), aliasPath)
		ext.mu.Unlock()
		if alias != (name == "nothing") {
			t.Errorf("%s: the older path was asked: %t", name, alias)
		}
		after := compact(t, c.json(t, "provider", "get", "two"))
		if cutRefresh(t, before) != cutRefresh(t, after) {
			t.Errorf("%s changed something:\n%s\n%s", name, before, after)
		}
	}

	// The older path, where there is no other; and a server that is declared no more.
	ext.shows(aliasPath, described(version, id, servers[:1], tools[:1]))
	if last := compact(t, c.json(t, "provider", "refresh", "two", "--wait-for", "30s")); !strings.Contains(last, aliasPath) || strings.Contains(last, `"two-far"`) {
		t.Errorf("%s", last)
	}
	if _, reason := c.fails(t, "provider", "delete", "two", "--yes"); reason != registry.ReasonProviderInUse {
		t.Errorf("%s", reason)
	}
}

// cutRefresh leaves out how the last refresh went.
func cutRefresh(t *testing.T, text string) string {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	delete(v, "refresh")
	return compact(t, mustJSON(t, v))
}

func mustJSON(t *testing.T, v any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// providerCrashes are the points of a provider's creation and refresh.
var providerCrashes = []string{
	"create_provider.before_commit", "create_provider.after_commit", "plan_refresh.before_commit", "plan_refresh.after_commit",
	"end_refresh.before_commit", "end_refresh.after_commit",
}

// The process dies at each of them; after the restart there are one provider, one
// server and three tools.
func TestAProviderGoesOnAfterACrash(t *testing.T) {
	t.Parallel()
	for _, point := range providerCrashes {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			sample := address(t)
			launch(t, "countersign-utilities", nil, "--listen", sample)
			d, hit := newDev(t), filepath.Join(t.TempDir(), "hit")
			create := []string{
				"provider", "create", "utilities", "--aep", "http://" + sample, "--extension", "countersign.utilities", "--auth", "none",
				"--reason", "a demo", "--idempotency-key", "k",
			}
			d.launch(t, "COUNTERSIGN_FAILPOINT="+point, "COUNTERSIGN_FAILPOINT_LOG="+hit)
			if d.awaitReady(t) {
				_, _, _ = d.terminal(first, registry.RolePlatformAdmin).run(t, create...) // it may be dying just now
			}
			d.awaitKilled(t)
			if name, err := os.ReadFile(hit); err != nil || string(name) != point {
				t.Fatalf("the process died, but not at the failpoint: %s, %v", name, err)
			}
			d.start(t)
			c := d.terminal(first, registry.RolePlatformAdmin)
			ctx, cancel := context.WithTimeout(t.Context(), longPatience)
			defer cancel()
			var got string
			err := eventually(ctx, func() error {
				if _, log, code := c.run(t, create...); code != 0 {
					return fmt.Errorf("created again: exit code %d: %s", code, log)
				}
				out, log, code := c.run(t, "provider", "refresh", "utilities", "--wait-for", "30s", "-o", "json")
				if got = out; code != 0 {
					return fmt.Errorf("refreshed: exit code %d: %s", code, log)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if said := compact(t, json.RawMessage(got)); !strings.Contains(said, `"totalTools":3`) || !strings.Contains(said, `"serverCount":1`) {
				t.Errorf("%s", got)
			}
			if servers, tools := c.list(t, "server", "list"), c.list(t, "tools", "list"); len(servers) != 1 || len(tools) != 3 {
				t.Errorf("%d servers, %d tools", len(servers), len(tools))
			}
		})
	}
}
