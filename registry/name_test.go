package registry_test

import (
	"strings"
	"testing"

	"countersign/registry"
)

func TestNamesOfServers(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"a": true, "github": true, "git-hub_2": true, "0": true, strings.Repeat("a", 63): true,
		"": false, "A": false, "a.b": false, "-a": false, "a-": false, "_a": false, "a/b": false, "a b": false,
		"gіthub": false, // Cyrillic і
		" a":     false, "a\n": false, strings.Repeat("a", 64): false,
	} {
		if got := registry.ValidName(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}

func TestTenants(t *testing.T) {
	t.Parallel()
	for tenant, want := range map[string]bool{
		"default": true, "a-b": true, "7": true, "": false, "-a": false, "A": false, "a_b": false, strings.Repeat("x", 64): false,
	} {
		if got := registry.ValidTenant(tenant); got != want {
			t.Errorf("%q: %v, want %v", tenant, got, want)
		}
	}
}

// Appendix B.
func TestCanonicalToolIDs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ external, want string }{
		{"hash_compute", "p.hash_compute"},
		{"b/c", "p.b-c-b9e2beb9"},
		{"Read", "p.Read"},
		{"read", "p.read"},
		{"", "p.tool-e3b0c442"},
		{"a.b-c_d", "p.a.b-c_d"},
		{"größe", "p.gr--e-d353a267"},
		{"天気", "p.---bc79d84d"},
		{"greet (with Icons)", "p.greet--with-Icons--2b5dcb66"},
	} {
		got := registry.ToolID("p", c.external)
		if c.external == "greet (with Icons)" {
			if !strings.HasPrefix(got, "p.greet--with-Icons--") || len(got) != len("p.greet--with-Icons--")+8 {
				t.Errorf("%q: %q", c.external, got)
			}
			continue
		}
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.external, got, c.want)
		}
	}
	// A hostile name that equals what the rule makes of another one.
	if registry.ToolID("p", "b-c-b9e2beb9") == registry.ToolID("p", "b/c") {
		t.Error("a name can be chosen so that it takes another tool's id")
	}
	// H4: provider and tool cannot be read in two ways, since names have no dots.
	if registry.ToolID("a", "b.c") == registry.ToolID("a.b", "c") && registry.ValidName("a.b") {
		t.Error("two pairs of provider and tool have one id")
	}
}

func TestEtags(t *testing.T) {
	t.Parallel()
	for etag, ok := range map[string]bool{"": true, `"3"`: true, "3": true, `"2"`: false, "x": false} {
		err := registry.CheckEtag(etag, 3)
		if (err == nil) != ok {
			t.Errorf("%q: %v", etag, err)
		}
		if err != nil && (registry.CodeOf(err) != registry.CodeAborted || registry.ReasonOf(err) != registry.ReasonStaleEtag) {
			t.Errorf("%q: %v is not a stale etag", etag, err)
		}
	}
}

// R10, R21.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]registry.Reason{
		"https://mcp.example.com/mcp":            "",
		"http://127.0.0.1:8090/mcp":              "",
		"https://h/mcp?region=eu":                "",
		"file:///etc/passwd":                     registry.ReasonInvalidArgument,
		"ftp://h/":                               registry.ReasonInvalidArgument,
		"/mcp":                                   registry.ReasonInvalidArgument,
		"https://":                               registry.ReasonInvalidArgument,
		"https://h/mcp#x":                        registry.ReasonInvalidArgument,
		"https://user:pass@h/mcp":                registry.ReasonSecretInRequest,
		"https://h/mcp?token=x":                  registry.ReasonSecretInRequest,
		"https://h/mcp?api_key=x":                registry.ReasonSecretInRequest,
		"https://h/mcp?X-Access-Key=x":           registry.ReasonSecretInRequest,
		"https://h/" + strings.Repeat("a", 2048): registry.ReasonInvalidArgument,
		"http://h\x00/":                          registry.ReasonInvalidArgument,
	} {
		err := registry.CheckEndpoint(url)
		if want == "" && err != nil || want != "" && registry.ReasonOf(err) != want {
			t.Errorf("%.60q: %v, want %q", url, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "pass") || strings.Contains(err.Error(), "=x")) {
			t.Errorf("%q: the error repeats the secret: %v", url, err)
		}
	}
	if !registry.LooksLikeKey("https://h/s/a8f5f167f44f4964e6c998dee827110c/mcp") || registry.LooksLikeKey("https://h/a-rather-long-path-of-words/mcp") {
		t.Error("LooksLikeKey")
	}
}
