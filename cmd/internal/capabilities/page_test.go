package capabilities_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"countersign/cmd/internal/capabilities"
	"countersign/registry"
)

var update = flag.Bool("update", false, "write docs/capabilities.md and the reports in testdata")

// seen is what a published server showed, without what the table does not ask
// about.
type seen struct {
	Reported       string              `json:"reported"`
	ServerVersion  string              `json:"serverVersion"`
	ProductVersion string              `json:"productVersion"`
	Protocol       string              `json:"protocol"`
	Tools          map[string][]string `json:"tools"`
}

// resolved gives the built-in table as it is for each published server, in the
// order of their names.
func resolved(t *testing.T) (names []string, models map[string]registry.CapabilityModel) {
	t.Helper()
	table, err := capabilities.Load("")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/seen/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	models = map[string]registry.CapabilityModel{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var s seen
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		names = append(names, name)
		models[name] = table.Resolve(registry.CapabilityFacts{
			Reported: s.Reported, ServerVersion: s.ServerVersion, ProductVersion: s.ProductVersion, Protocol: s.Protocol, Tools: s.Tools,
		})
	}
	return names, models
}

// R80: what the table makes of published servers, old and new.
func TestPublishedServersCanWhatTheirVersionsCan(t *testing.T) {
	t.Parallel()
	names, models := resolved(t)
	for _, name := range names {
		m := models[name]
		if len(m.Known) != 1 {
			t.Errorf("%s is known as %+v", name, m.Known)
			continue
		}
		if off := m.Blocked(); len(off) > 0 {
			t.Errorf("%s: %v are switched off", name, off)
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%s: server %s, product %s, protocol %s\n", m.Known[0].Title, cmp.Or(m.Facts.ServerVersion, "-"), cmp.Or(m.Known[0].ProductVersion, "-"), m.Facts.Protocol)
		for _, s := range m.States {
			if s.Available {
				fmt.Fprintf(&b, "✓ %s\n", s.Row.Key)
			} else {
				fmt.Fprintf(&b, "✗ %s: %s: %s\n", s.Row.Key, s.BlockedBy, s.Why)
			}
		}
		golden(t, "testdata/seen/"+name+".txt", b.String())
	}
}

// docs/capabilities.md is made of the built-in table.
func TestThePageOfCapabilitiesIsCurrent(t *testing.T) {
	t.Parallel()
	table, err := capabilities.Load("")
	if err != nil {
		t.Fatal(err)
	}
	const path = "../../../docs/capabilities.md"
	head, err := os.ReadFile("page.md")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.Write(head)
	for _, k := range table.Servers() {
		fmt.Fprintf(&b, "\n### %s\n\n`%s`: a server that %s.\n", k.Title, k.ID, named(k))
		if k.Product != "" {
			fmt.Fprintf(&b, "Its product's version, unless declared, is what `%s` finds in the version that the server gives itself.\n", k.Product)
		}
		b.WriteString("\n| capability | what it is | since | needs | switches off | note |\n|---|---|---|---|---|---|\n")
		for _, r := range k.Rows {
			since := "all versions"
			switch {
			case !r.Available:
				since = "**not available**"
			case r.Since.Axis != "":
				since = fmt.Sprintf("%s %s", r.Since.Axis, r.Since.Version)
			}
			needs := codes(r.RequiresTools)
			for _, a := range r.RequiresArgs {
				needs = append(needs, fmt.Sprintf("`%s` with `%s`", a.Tool, a.Arg))
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", r.Key, r.Feature, since, strings.Join(needs, ", "), strings.Join(codes(r.Gates), ", "), r.Note)
		}
	}
	b.WriteString("\n## What published servers can\n\n| server | can | cannot |\n|---|---|---|\n")
	names, models := resolved(t)
	for _, name := range names {
		var can, cannot []string
		for _, s := range models[name].States {
			_, short, _ := strings.Cut(s.Row.Key, ".")
			if s.Available {
				can = append(can, short)
			} else {
				cannot = append(cannot, fmt.Sprintf("%s (%s)", short, s.BlockedBy))
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, strings.Join(can, ", "), strings.Join(cannot, ", "))
	}
	golden(t, path, b.String())
}

func named(k registry.KnownServer) string {
	var ways []string
	if len(k.Reported) > 0 {
		ways = append(ways, "calls itself "+strings.Join(codes(k.Reported), " or "))
	}
	if len(k.Registered) > 0 {
		ways = append(ways, "is registered as "+strings.Join(codes(k.Registered), " or "))
	}
	return strings.Join(ways, " and ")
}

func codes(list []string) []string {
	var out []string
	for _, s := range list {
		out = append(out, "`"+s+"`")
	}
	return out
}

func golden(t *testing.T, path, text string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(got), text); diff != "" {
		t.Errorf("%s is not current; look at the difference and run go test ./cmd/internal/capabilities -update: %s", path, diff)
	}
}
