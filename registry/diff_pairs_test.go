package registry_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"countersign/registry"
)

// tools are those of a captured list, as texts.
func tools(t testing.TB, name string) []string {
	t.Helper()
	var out []string
	for _, raw := range captured(t, name).Tools {
		out = append(out, string(raw))
	}
	return out
}

// Published servers, an older and a newer version of each, counted by hand.
var pairs = []struct {
	from, to string
	counts   registry.DiffCounts
	severity registry.Severity
	contract string // tools whose contract moved, when few
	renamed  string
}{
	{"notion@2.2.1", "notion", registry.DiffCounts{Added: 2, Changed: 22, Contract: 22, Text: 22}, registry.SeverityNarrowing, "*", ""},
	{"brave@2.0", "brave", registry.DiffCounts{Changed: 2, Unchanged: 6, Contract: 1, Text: 1}, registry.SeverityWidening, "brave_place_search", ""},
	{"context7@2.x", "context7", registry.DiffCounts{Changed: 2, Text: 2}, registry.SeverityText, "", ""},
	{"context7", "context7-http", registry.DiffCounts{Unchanged: 2}, registry.SeverityNone, "", ""},
	{"playwright@0.0.76", "playwright", registry.DiffCounts{Added: 2, Changed: 8, Unchanged: 15, Contract: 1, Text: 8}, registry.SeverityBreaking, "browser_take_screenshot", ""},
	{
		"everything@0.6.2", "everything@2026.1.26",
		registry.DiffCounts{Added: 12, Removed: 4, Renamed: 3, Changed: 1, Text: 1},
		registry.SeverityBreaking, "",
		"longRunningOperation trigger-long-running-operation, getTinyImage get-tiny-image, add get-sum",
	},
}

func TestPublishedServersChangedAsCounted(t *testing.T) {
	t.Parallel()
	for _, p := range pairs {
		t.Run(p.from+" to "+p.to, func(t *testing.T) {
			t.Parallel()
			d := lists(t, tools(t, p.from), tools(t, p.to))
			if diff := cmp.Diff(p.counts, d.Tools.Counts); diff != "" {
				t.Error(diff)
			}
			if d.Severity != p.severity {
				t.Errorf("severity %q, want %q", d.Severity, p.severity)
			}
			var contract, renamed []string
			for _, item := range d.Tools.Items {
				if item.Contract {
					contract = append(contract, item.Name)
				}
				for _, change := range item.Changes {
					if change.Kind == registry.ChangeOther || change.Kind == registry.ChangeTooComplex {
						t.Errorf("%s: %s at %s is not explained", item.Name, change.Kind, change.Path)
					}
				}
			}
			if got := strings.Join(contract, " "); p.contract != "*" && got != p.contract {
				t.Errorf("contracts of %s, want %s", got, p.contract)
			}
			for _, r := range d.Tools.Renamed {
				renamed = append(renamed, r.From+" "+r.To)
			}
			if got := strings.Join(renamed, ", "); got != p.renamed {
				t.Errorf("renamed %s, want %s", got, p.renamed)
			}
		})
	}
}
