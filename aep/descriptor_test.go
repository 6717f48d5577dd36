package aep

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"countersign/registry"
)

// sound is the descriptor of requirements.md, Appendix A, with a second server.
const sound = `{"protocolVersion":"2026-08-01",
 "extension":{"id":"countersign.utilities","name":"Deterministic utilities","version":"1.0.0","description":"d"},
 "capabilities":{"aep.health":{"version":"1.0","endpoint":"/aep/health","metadata":null},
                 "aep.tools":{"version":"1.0","endpoint":null,"metadata":null}},
 "contributions":{"modelProviders":[],"tools":[
   {"id":"hash.compute","displayName":"Compute SHA-256","mcp":{"server":"utilities","tool":"hash_compute"},"description":"h","metadata":null,
    "inputSchema":{"type":"string"},"schema":7},
   {"id":"text.upper","displayName":"Uppercase text","mcp":{"server":"far","tool":"text_upper"},"description":null}]},
 "mcp":{"servers":[{"id":"utilities","endpoint":"/mcp"},{"id":"far","endpoint":"https://far.example/x/mcp"}]}}`

const (
	base = "http://ext.example/base"
	id   = "countersign.utilities"
)

func TestASoundDescriptorIsRead(t *testing.T) {
	t.Parallel()
	got, err := Parse([]byte(sound), base, id)
	if err != nil {
		t.Fatal(err)
	}
	want := Descriptor{
		Extension:    Extension{id, "Deterministic utilities", "1.0.0", "d"},
		Capabilities: map[string]Capability{"aep.health": {"1.0", "/aep/health"}, "aep.tools": {"1.0", ""}},
		Tools: []Contribution{
			{"hash.compute", "Compute SHA-256", "h", "utilities", "hash_compute"},
			{"text.upper", "Uppercase text", "", "far", "text_upper"},
		},
		Servers: []Server{{"utilities", "/mcp", "http://ext.example/mcp"}, {"far", "https://far.example/x/mcp", "https://far.example/x/mcp"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// edited gives the sound descriptor with one member set, or with null taken away.
func edited(t *testing.T, path, value string) []byte {
	t.Helper()
	var top any
	if err := json.Unmarshal([]byte(sound), &top); err != nil {
		t.Fatal(err)
	}
	var set any
	if value != "" {
		if err := json.Unmarshal([]byte(value), &set); err != nil {
			t.Fatalf("%s: %v", value, err)
		}
	}
	at := top
	steps := strings.Split(path, "/")
	for i, step := range steps {
		switch node := at.(type) {
		case map[string]any:
			switch {
			case i < len(steps)-1:
				at = node[step]
			case value == "":
				delete(node, step)
			default:
				node[step] = set
			}
		case []any:
			n := int(step[0] - '0')
			if i == len(steps)-1 {
				node[n] = set
			}
			at = node[n]
		}
	}
	raw, err := json.Marshal(top)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Each rule of Appendix A, broken alone.
func TestEachRuleHasItsFault(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		path, value string
		reason      registry.Reason // aep_descriptor_invalid when empty
		field       string
	}{
		{"protocolVersion", "", "", "protocolVersion"},
		{"protocolVersion", `null`, "", "protocolVersion"},
		{"protocolVersion", `"2026-08-02"`, registry.ReasonProtocolIncompatible, "protocolVersion"},
		{"protocolVersion", `"2026-08-01 "`, registry.ReasonProtocolIncompatible, "protocolVersion"},
		{"extension", "", "", "extension"},
		{"extension/id", "", "", "extension.id"},
		{"extension/id", `"other"`, registry.ReasonIdentityMismatch, "extension.id"},
		{"extension/id", `"Countersign.utilities"`, registry.ReasonIdentityMismatch, "extension.id"},
		{"extension/name", `""`, "", "extension.name"},
		{"extension/version", `" "`, "", "extension.version"},
		{"mcp/servers/0/id", "", "", "mcp.servers[0].id"},
		{"mcp/servers/1/id", `"utilities"`, "", "mcp.servers[1].id"},
		{"mcp/servers/0/endpoint", "", "", "mcp.servers[0].endpoint"},
		{"mcp/servers/0/endpoint", `"ftp://x/mcp"`, "", "mcp.servers[0].endpoint"},
		{"mcp/servers/0/endpoint", `"http://u:p@x/mcp"`, "", "mcp.servers[0].endpoint"},
		{"mcp/servers/0/endpoint", `"file:///etc/passwd"`, "", "mcp.servers[0].endpoint"},
		{"contributions/tools/0/id", `""`, "", "contributions.tools[0].id"},
		{"contributions/tools/1/id", `"hash.compute"`, "", "contributions.tools[1].id"},
		{"contributions/tools/0/displayName", "", "", "contributions.tools[0].displayName"},
		{"contributions/tools/0/mcp", "", "", "contributions.tools[0].mcp"},
		{"contributions/tools/0/mcp/tool", `""`, "", "contributions.tools[0].mcp.tool"},
		{"contributions/tools/0/mcp/server", `"nobody"`, "", "contributions.tools[0].mcp.server"},
		{"contributions/tools/0/id", `"a\u202eb"`, "", "contributions.tools[0].id"},
		{"capabilities/aep.health", `{}`, "", `capabilities["aep.health"].version`},
		{"capabilities/acme.more", `{"version":""}`, "", `capabilities["acme.more"].version`},
		{"contributions/tools", `{}`, "", "contributions.tools"},
		{"extension/name", `7`, "", "extension.name"},
	} {
		_, err := Parse(edited(t, tt.path, tt.value), base, id)
		want := tt.reason
		if want == "" {
			want = registry.ReasonDescriptorInvalid
		}
		e, ok := registry.AsError(err)
		if !ok || e.Reason != want {
			t.Errorf("%s = %s: %v", tt.path, tt.value, err)
			continue
		}
		found := false
		for _, f := range e.Fields {
			found = found || f.Path == tt.field
		}
		if !found {
			t.Errorf("%s = %s: no fault of %s in %v", tt.path, tt.value, tt.field, e.Fields)
		}
	}
}

func TestWhatRulesAllow(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ path, value, warning string }{
		{"contributions/tools", `null`, ""},
		{"contributions", "", ""},
		{"capabilities", `null`, ""},
		{"capabilities/aep.unheard", `{"version":"9"}`, ""},
		{"capabilities/acme.more", `{"version":"1"}`, `capabilities["acme.more"]`},
		{"more", `{"unknown":true}`, ""},
	} {
		d, err := Parse(edited(t, tt.path, tt.value), base, id)
		if err != nil {
			t.Errorf("%s = %s: %v", tt.path, tt.value, err)
			continue
		}
		if tt.warning != "" && (len(d.Warnings) != 1 || d.Warnings[0].Path != tt.warning) || tt.warning == "" && len(d.Warnings) > 0 {
			t.Errorf("%s = %s warns of %v", tt.path, tt.value, d.Warnings)
		}
	}
	// A descriptor without servers contributes nothing.
	d, err := Parse([]byte(`{"protocolVersion":"2026-08-01","extension":{"id":"a","name":"n","version":"1"},"mcp":null}`), base, "a")
	if err != nil || len(d.Servers)+len(d.Tools) != 0 {
		t.Errorf("%v, %v", d, err)
	}
}

func TestAllFaultsAreReported(t *testing.T) {
	t.Parallel()
	_, err := Parse([]byte(`{"protocolVersion":"1","extension":{"id":"x"},"capabilities":{"aep.a":{}},
"contributions":{"tools":[{"mcp":{"server":"s","tool":""}},7]},"mcp":{"servers":[{"endpoint":"gopher://x"},{"id":"a","endpoint":"/"},{"id":"a"}]}}`), base, id)
	e, ok := registry.AsError(err)
	if !ok || e.Reason != registry.ReasonProtocolIncompatible {
		t.Fatal(err)
	}
	var paths []string
	for _, f := range e.Fields {
		paths = append(paths, f.Path)
	}
	want := []string{
		"protocolVersion", "extension.name", "extension.version", `capabilities["aep.a"].version`, "mcp.servers[0].id", "mcp.servers[0].endpoint",
		"mcp.servers[2].id", "mcp.servers[2].endpoint", "contributions.tools[0].id", "contributions.tools[0].displayName",
		"contributions.tools[0].mcp.tool", "contributions.tools[0].mcp.server", "contributions.tools[1]", "extension.id",
	}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsNoDescriptorIsAnInvalidResponse(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"", "[]", "null", "7", "<html>", `{"a":1`, sound + "x", `{"protocolVersion":"2026-08-01","protocolVersion":"1"}`} {
		if _, err := Parse([]byte(raw), base, id); registry.ReasonOf(err) != registry.ReasonInvalidResponse {
			t.Errorf("%.40q: %v", raw, err)
		}
	}
}

func TestTooMuchIsAFault(t *testing.T) {
	t.Parallel()
	servers := strings.TrimSuffix(strings.Repeat(`{"id":"x","endpoint":"/"},`, MaxServers+1), ",")
	if _, err := Parse(edited(t, "mcp/servers", "["+servers+"]"), base, id); registry.ReasonOf(err) != registry.ReasonDescriptorInvalid {
		t.Error(err)
	}
	if _, err := Parse(edited(t, "extension/id", `"`+strings.Repeat("x", MaxIDLength+1)+`"`), base, id); registry.ReasonOf(err) != registry.ReasonDescriptorInvalid {
		t.Error(err)
	}
}

// TestEndpointsFollowTheBase (R105).
func TestEndpointsFollowTheBase(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ base, endpoint, want string }{
		{"http://ext/base/", "/mcp", "http://ext/mcp"},
		{"http://ext/base/", "mcp", "http://ext/base/mcp"},
		{"http://ext/base", "mcp", "http://ext/base/mcp"},
		{"http://ext/base//", "mcp", "http://ext/base/mcp"},
		{"http://ext", "mcp", "http://ext/mcp"},
		{"http://ext/a/b", "../mcp", "http://ext/a/mcp"},
		{"http://ext/a", "https://other/mcp?x=1", "https://other/mcp?x=1"},
		{"https://ext/a", "//other/mcp", "https://other/mcp"},
		{"http://ext/a?q=1", "mcp", "http://ext/a/mcp"},
		{"http://ext/a", "mailto:x", ""},
		{"http://ext/a", "mcp#x", ""},
		{"http://ext/a", "mcp?token=x", ""},
		{"http://ext/a", ":", ""},
	} {
		got, err := Resolve(tt.base, tt.endpoint)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s with %s gives %s, %v", tt.base, tt.endpoint, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(sound))
	f.Add([]byte(`{"protocolVersion":"2026-08-01","extension":{"id":"countersign.utilities","name":"n","version":"1"},"mcp":{"servers":[null]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := Parse(raw, base, id)
		if err != nil {
			if _, ours := registry.AsError(err); !ours {
				t.Fatal(err)
			}
			return
		}
		for _, s := range d.Servers {
			if registry.CheckEndpoint(s.URL) != nil || s.ID == "" {
				t.Errorf("%+v was taken", s)
			}
		}
		for _, c := range d.Tools {
			if c.ID == "" || c.DisplayName == "" || c.Tool == "" || c.Server == "" {
				t.Errorf("%+v was taken", c)
			}
		}
	})
}
