package capabilities_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"countersign/cmd/internal/capabilities"
	"countersign/registry"
)

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "our.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, text string) *registry.CapabilityTable {
	t.Helper()
	table, err := capabilities.Load(file(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestTheBuiltInTableIsValid(t *testing.T) {
	t.Parallel()
	table, err := capabilities.Load("")
	if err != nil {
		t.Fatal(err)
	}
	if len(table.Servers()) < 3 {
		t.Errorf("it knows %d servers", len(table.Servers()))
	}
}

// An update of the product must not take a tool away that somebody approved.
func TestTheBuiltInTableSwitchesNothingOff(t *testing.T) {
	t.Parallel()
	table, err := capabilities.Load("")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range table.Servers() {
		for _, row := range k.Rows {
			always := row.Available && row.Since == (registry.Since{}) && len(row.RequiresArgs) == 0 && slices.Equal(row.RequiresTools, row.Gates)
			if len(row.Gates) > 1 || len(row.Gates) == 1 && !always {
				t.Errorf("%s can switch off tools of whoever has approved them", row.Key)
			}
		}
	}
}

func TestAFileAddsAndReplaces(t *testing.T) {
	t.Parallel()
	table := load(t, `
servers:
  - id: context7
    capabilities:
      - key: context7.docs
        feature: Documentation
        available: false
        gates: [query-docs]
        note: not here
      - key: context7.ours
        feature: Ours
        available: true
        since: {axis: server, version: 2.0}
  - id: studio
    title: Our studio
    match: {registered: [studio], reported: [studio-mcp]}
    product: '^([0-9.]+)'
    foreign: ["far__*"]
    capabilities:
      - {key: studio.flow, feature: Makes flows, available: true, since: {axis: protocol, version: 2026-07-28}, requires_args: [{tool: make, arg: kind}]}
`)
	m := table.Resolve(registry.CapabilityFacts{
		Registered: "docs", Reported: "Context7", ServerVersion: "2.3.0", Protocol: "2025-11-25",
		Tools: map[string][]string{"resolve-library-id": nil, "query-docs": nil},
	})
	can := map[string]bool{}
	for _, s := range m.States {
		can[s.Row.Key] = s.Available
	}
	want := map[string]bool{
		"context7.docs": false, "context7.ours": true, "context7.one_topic_queries": false, "context7.prompts": false,
		"context7.resources": false, "context7.stateless": false,
	}
	if diff := cmp.Diff(want, can); diff != "" {
		t.Error(diff)
	}
	if m.Blocks("query-docs") != "context7.docs" || m.Blocks("resolve-library-id") != "" {
		t.Error("the gates are those of the file")
	}
	for _, k := range table.Servers() {
		if k.ID == "context7" && (k.Title != "Context7" || len(k.Reported) != 1) {
			t.Errorf("what the file does not speak of stays: %+v", k)
		}
		if k.ID == "studio" {
			want := registry.KnownServer{
				ID: "studio", Title: "Our studio", Registered: []string{"studio"}, Reported: []string{"studio-mcp"}, Product: "^([0-9.]+)",
				Foreign: []string{"far__*"}, Rows: []registry.CapabilityRow{{
					Key: "studio.flow", Feature: "Makes flows", Available: true, Since: registry.Since{Axis: registry.AxisProtocol, Version: "2026-07-28"},
					RequiresArgs: []registry.ToolArg{{Tool: "make", Arg: "kind"}},
				}},
			}
			if diff := cmp.Diff(want, k); diff != "" {
				t.Error(diff)
			}
		}
	}
}

// R89: what holds since a later version, or at last, is one edit of a file.
func TestALimitIsLiftedByOneEdit(t *testing.T) {
	t.Parallel()
	const limit = `
servers:
  - id: studio
    title: Our studio
    match: {reported: [studio]}
    capabilities:
      - key: studio.flow
        feature: Makes flows
        available: false
        gates: [make_flow]
        note: refused so far
`
	facts := registry.CapabilityFacts{Reported: "studio", ServerVersion: "11.12", Tools: map[string][]string{"make_flow": nil}}
	if m := load(t, limit).Resolve(facts); m.Can("studio.flow") || m.Blocks("make_flow") != "studio.flow" {
		t.Error("the limit does not stand")
	}
	lifted := strings.Replace(limit, "available: false", "available: true\n        since: {axis: server, version: 11.12}", 1)
	if m := load(t, lifted).Resolve(facts); !m.Can("studio.flow") || m.Blocks("make_flow") != "" {
		t.Error("the limit is not lifted")
	}
}

func TestFaultsAreToldByLine(t *testing.T) {
	t.Parallel()
	const good = `servers:
  - id: studio
    title: Our studio
    match: {reported: [studio]}
    capabilities:
      - key: studio.flow
        feature: Makes flows
        available: true
        since:
          axis: server
          version: 11.12
        gates:
          - make_flow
`
	load(t, good)
	for name, c := range map[string]struct {
		old, replaced string
		want          []string
	}{
		"no YAML":            {"servers:", "servers: [", []string{":"}},
		"empty":              {good, "# nothing\n", []string{": is empty"}},
		"an unknown field":   {"feature:", "featur:", []string{":7: field featur not found"}},
		"two unknown fields": {"feature: Makes flows\n        available:", "featur: x\n        gatez:", []string{":7: field featur", ":8: field gatez"}},
		"a wrong type":       {"available: true", "available: perhaps", []string{":8: cannot unmarshal"}},
		"a key twice":        {"    title: Our studio\n", "    title: x\n    title: y\n", []string{":4: mapping key \"title\" already defined at line 3"}},
		"a second document":  {"          - make_flow\n", "          - make_flow\n---\nservers: []\n", []string{":14: there is a second document"}},
		"not said whether":   {"        available: true\n", "", []string{":6: available: is required"}},
		"no match":           {"match: {reported: [studio]}", "match: {}", []string{":4: match: must name"}},
		"a bad match":        {"[studio]", "[studio, studio]", []string{`:4: match.reported[1]: "studio" is there twice`}},
		"a bad key":          {"key: studio.flow", "key: Studio Flow", []string{":6: key: must be"}},
		"a bad axis":         {"axis: server", "axis: time", []string{":10: since.axis: must be server, product or protocol"}},
		"a bad version":      {"version: 11.12", "version: v11", []string{":11: since.version: must be dotted numbers"}},
		"two faults":         {"axis: server\n          version: 11.12\n        gates:\n          - make_flow", "axis: server\n          version: v11\n        gates:\n          - ''", []string{":11: since.version", ":13: gates[0]: is empty"}},
		"no title":           {"    title: Our studio\n", "", []string{":2: title: is required"}},
		"a server twice":     {good, good + "  - id: studio\n", []string{`:14: there are two servers of the id "studio"`}},
		"a row twice":        {good, good + "      - {key: studio.flow, feature: x, available: true}\n", []string{`:14: key: there are two of the key "studio.flow"`}},
		"a key of another":   {"key: studio.flow", "key: context7.docs", []string{`:6: key: there are two of the key "context7.docs"`}},
		"a bad product":      {"    match:", "    product: '('\n    match:", []string{":4: product: is no regular expression"}},
		"a bad pattern":      {"    match:", "    foreign: ['[']\n    match:", []string{":4: foreign[0]: is no pattern"}},
	} {
		text := strings.Replace(good, c.old, c.replaced, 1)
		path := file(t, text)
		_, err := capabilities.Load(path)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		for i, line := range strings.Split(err.Error(), "\n") {
			if i >= len(c.want) || !strings.HasPrefix(line, path+c.want[i]) {
				t.Errorf("%s: line %d is %q, want %q", name, i, line, c.want)
			}
		}
	}
	if _, err := capabilities.Load("/nonexistent"); err == nil {
		t.Error("a missing file is accepted")
	}
}
