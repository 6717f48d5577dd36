package main

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"countersign/mcptest"
	"countersign/registry"
)

func TestAServerIsMetTwiceAndToldOfInOneLine(t *testing.T) {
	t.Parallel()
	demo := httptest.NewServer(mcptest.NewDemo())
	t.Cleanup(demo.Close)
	var out strings.Builder
	if err := run(t.Context(), scenario{name: "initialize"}, []string{"-x", demo.URL + "/mcp"}, &out); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "2026-07-28: 3 tools, 0 resources, 0 templates, 0 prompts\n"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}

// The suite does not look at how a client ends, so scripts/conformance.sh reads what it says.
func TestWhatGoesWrongIsAnError(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, args := range [][]string{nil, {gone.URL}} {
		if err := run(t.Context(), scenario{name: "initialize"}, args, t.Output()); err == nil {
			t.Errorf("with %q it ends well", args)
		}
	}
}

func TestCallsSayWhatIsKeptOfTheList(t *testing.T) {
	t.Parallel()
	// 2^53+1 and the order of the keys show that nobody decoded it.
	const schema = `{"type":"object","$defs":{"b":{"const":9007199254740993},"a":{}}}`
	surface := registry.Surface{Tools: [][]byte{
		[]byte(`{"name":"json_schema_2020_12_tool","inputSchema":` + schema + `}`),
		[]byte(`{"name":"json_schema_echo","inputSchema":{"type":"object"}}`),
		[]byte(`{"name":"without_schema"}`),
	}}
	for _, tt := range []struct {
		scenario string
		want     []string
	}{
		{"tools_call", nil},
		{"http-invalid-tool-headers", []string{"json_schema_2020_12_tool {}", "json_schema_echo {}"}},
		{"json-schema-2020-12-preservation", []string{`json_schema_echo {"schema":` + schema + `}`}},
	} {
		calls, err := callsOf(tt.scenario, surface)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, call := range calls {
			got = append(got, said(t, call))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.scenario, diff)
		}
	}
}

func said(t *testing.T, call *mcp.CallToolParams) string {
	t.Helper()
	arguments, err := json.Marshal(call.Arguments)
	if err != nil {
		t.Fatal(err)
	}
	return call.Name + " " + string(arguments)
}
