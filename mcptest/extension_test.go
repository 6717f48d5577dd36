package mcptest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"countersign/mcptest"
)

// TestTheDemoIsAnExtension (Appendix A, R109): both paths have the same bytes, the
// health says so, errors have their form, and every contribution is a tool of the
// MCP server.
func TestTheDemoIsAnExtension(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(mcptest.NewDemo())
	t.Cleanup(s.Close)
	ask := func(method, path string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		if err != nil || resp.Header.Get("Content-Type") != "application/json" {
			t.Fatalf("%s %s answers %s, %v", method, path, resp.Header.Get("Content-Type"), err)
		}
		return resp.StatusCode, string(raw)
	}
	_, first := ask(http.MethodGet, "/.well-known/aep")
	if _, alias := ask(http.MethodGet, "/.well-known/agentstration"); alias != first {
		t.Error("the two paths differ")
	}
	var document struct {
		Contributions struct {
			Tools []struct {
				MCP struct {
					Tool string `json:"tool"`
				} `json:"mcp"`
			} `json:"tools"`
		} `json:"contributions"`
	}
	if err := json.Unmarshal([]byte(first), &document); err != nil {
		t.Fatal(err)
	}
	list, err := connect(t, s.URL+"/mcp", "2026-07-28").ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, tool := range list.Tools {
		there[tool.Name] = true
	}
	for _, tool := range document.Contributions.Tools {
		if !there[tool.MCP.Tool] {
			t.Errorf("there is no tool %q", tool.MCP.Tool)
		}
	}
	if len(document.Contributions.Tools) != len(list.Tools) {
		t.Errorf("%d contributions, %d tools", len(document.Contributions.Tools), len(list.Tools))
	}
	if status, health := ask(http.MethodGet, "/aep/health"); status != 200 || health != `{"status":"available","details":null}` {
		t.Errorf("health: %d %s", status, health)
	}
	for _, tt := range []struct {
		method, path string
		want         int
	}{{http.MethodPost, "/.well-known/aep", 405}, {http.MethodGet, "/aep/more", 404}} {
		status, body := ask(tt.method, tt.path)
		var fault struct {
			Error map[string]any `json:"error"`
		}
		if err := json.Unmarshal([]byte(body), &fault); err != nil || status != tt.want || fault.Error["target"] != tt.path || len(fault.Error) != 4 {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, status, body)
		}
	}
}
