package mcptest_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"countersign/mcptest"
)

func connect(t *testing.T, url, version string) *mcp.ClientSession {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url, MaxRetries: -1, DisableStandaloneSSE: true},
		&mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func TestTheDemoToolsAreDeterministicInBothEras(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(mcptest.NewDemo())
	t.Cleanup(s.Close)
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		session := connect(t, s.URL+"/mcp", version)
		if got := session.InitializeResult().ProtocolVersion; got != version {
			t.Errorf("it speaks %s, not %s", got, version)
		}
		for _, tt := range []struct {
			tool, parameter, in, want string
			fails                     bool
		}{
			{"hash_compute", "text", "agentstration", "cc57cfcbfd7ffe69d011575e2c22096098db73f06d6e0b1c76ec353c459c3b82", false},
			{"hash_compute", "text", "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", false},
			{"json_compact", "json", "{ \"b\" : 1,\n \"a\" : [ 1, 2 ] }", `{"b":1,"a":[1,2]}`, false},
			{"json_compact", "json", "{", "unexpected end of JSON input", true},
			{"text_upper", "text", "straße é", "STRAßE É", false},
			{"text_upper", "wrong", "x", "", true},
		} {
			result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tt.tool, Arguments: map[string]any{tt.parameter: tt.in}})
			if err != nil {
				t.Fatalf("%s %s: %v", version, tt.tool, err)
			}
			text := result.Content[0].(*mcp.TextContent).Text
			if result.IsError != tt.fails || tt.want != "" && text != tt.want {
				t.Errorf("%s %s(%q) gives %q, error %v", version, tt.tool, tt.in, text, result.IsError)
			}
		}
	}
}

// What drifts is one tool, in contract and text, and it comes back as it was.
func TestTheDemoDriftsAndSettles(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(mcptest.NewDemo())
	t.Cleanup(s.Close)
	tools := func() map[string]string {
		list, err := connect(t, s.URL+"/mcp", "2026-07-28").ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, tool := range list.Tools {
			schema, err := json.Marshal(tool.InputSchema)
			if err != nil {
				t.Fatal(err)
			}
			out[tool.Name] = tool.Description + string(schema)
		}
		return out
	}
	post := func(path string) {
		r, err := http.Post(s.URL+path, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		if r.StatusCode != http.StatusOK {
			t.Errorf("%s answers %d", path, r.StatusCode)
		}
	}
	usual := tools()
	post("/demo/drift")
	drifted := tools()
	if hash := drifted["hash_compute"]; !strings.Contains(hash, "id_rsa") || !strings.Contains(hash, `"required":["text","context"]`) {
		t.Errorf("hash_compute is %s", hash)
	}
	for name, is := range drifted {
		if name != "hash_compute" && is != usual[name] {
			t.Errorf("%s drifted, too: %s", name, is)
		}
	}
	post("/demo/settle")
	if diff := cmp.Diff(usual, tools()); diff != "" {
		t.Errorf("it settles as %s", diff)
	}
}

// A protected one wants a token of its issuer with its scope, says where there are
// such, and has an endpoint that wants none.
func TestAProtectedDemoWantsAToken(t *testing.T) {
	t.Parallel()
	var demo http.Handler
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { demo.ServeHTTP(w, r) }))
	t.Cleanup(s.Close)
	demo = mcptest.NewProtectedDemo(mcptest.Protection{
		Resource: s.URL + "/mcp", Issuer: "https://issuer.example", Scope: "tools",
		Check: func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
			switch token {
			case "good":
				return &auth.TokenInfo{Scopes: []string{"tools"}, Expiration: time.Now().Add(time.Minute)}, nil
			case "narrow":
				return &auth.TokenInfo{Expiration: time.Now().Add(time.Minute)}, nil
			}
			return nil, auth.ErrInvalidToken
		},
	})
	ask := func(path, token string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp
	}
	const metadata = "/.well-known/oauth-protected-resource/mcp"
	for token, status := range map[string]int{"": 401, "bad": 401, "narrow": 403, "good": 415} { // 415: it misses the content type
		resp := ask("/mcp", token)
		if pointed := strings.Contains(resp.Header.Get("WWW-Authenticate"), `resource_metadata="`+s.URL+metadata+`"`); resp.StatusCode != status || pointed != (status < 415) {
			t.Errorf("%q comes to %s %v", token, resp.Status, resp.Header)
		}
	}
	resp, err := http.Get(s.URL + metadata)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var said struct {
		Resource string   `json:"resource"`
		Issuers  []string `json:"authorization_servers"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&said); err != nil || said.Resource != s.URL+"/mcp" || len(said.Issuers) != 1 || said.Issuers[0] != "https://issuer.example" {
		t.Errorf("%+v: %v", said, err)
	}
	if got := connect(t, s.URL+"/open/mcp", "2026-07-28").InitializeResult().ServerInfo.Name; got != "countersign-demo" {
		t.Errorf("the open endpoint is %s", got)
	}
	ask("/demo/stop", "")
	if status := ask("/open/mcp", "").StatusCode; status != http.StatusServiceUnavailable {
		t.Errorf("stopped, the open endpoint answers %d", status)
	}
}

func TestTheDemoIsStoppedAndStartedOnItsPort(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(mcptest.NewDemo())
	t.Cleanup(s.Close)
	do := func(method, path string) (int, map[string]any) {
		req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, _ := io.ReadAll(resp.Body)
		var out map[string]any
		_ = json.Unmarshal(body, &out)
		return resp.StatusCode, out
	}
	type step struct {
		method, path string
		status       int
		running      any
	}
	for _, want := range []step{
		{"GET", "/demo", 200, true},
		{"POST", "/demo/stop", 200, false},
		{"POST", "/mcp", 503, nil},
		{"GET", "/demo", 200, false},
		{"POST", "/demo/start", 200, true},
		{"GET", "/demo/stop", 405, nil},
		{"POST", "/mcp", 415, nil}, // alive again: it misses the content type
	} {
		status, body := do(want.method, want.path)
		if diff := cmp.Diff(want, step{want.method, want.path, status, body["running"]}, cmp.AllowUnexported(step{})); diff != "" {
			t.Error(diff)
		}
	}
}
