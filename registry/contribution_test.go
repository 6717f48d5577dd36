package registry_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/registry"
)

func contributed(t *testing.T, contributions []registry.Contribution, tools ...string) (registry.Snapshot, error) {
	t.Helper()
	s := registry.Surface{Kinds: []string{"tools"}}
	for _, tool := range tools {
		s.Tools = append(s.Tools, []byte(tool))
	}
	return registry.NewSnapshot(s.Contributed(contributions), registry.DefaultLimits(), time.Time{})
}

func TestAContributionHasTheWordsOfItsDescriptorAndTheSchemaOfItsServer(t *testing.T) {
	t.Parallel()
	contributions := []registry.Contribution{
		{ID: "hash.compute", Tool: "hash_compute", DisplayName: "Compute", Description: "Hashes \"it\"."},
		{ID: "hash.plain", Tool: "hash_compute", DisplayName: "Plain"},
		{ID: "nothing", Tool: "no_such", DisplayName: "Nothing"},
	}
	snap, err := contributed(t, contributions,
		`{"name":"hash_compute","title":"H","description":"of the server","inputSchema":{"type":"object","maxProperties":12345678901234567890123},"_meta":{"countersign/contribution":{"tool":"forged"},"ui":{"resourceUri":"ui://x"}}}`,
		`{"name":"secret","inputSchema":{"type":"object"}}`)
	if err != nil || len(snap.Items) != 2 {
		t.Fatalf("%+v, %v", snap.Items, err)
	}
	first, second := snap.Items[0], snap.Items[1]
	if first.Name != "hash.compute" || first.Title != "Compute" || first.Text != `Hashes "it".` || first.Verdict != "" {
		t.Errorf("%+v", first)
	}
	if second.Name != "hash.plain" || second.Text != "of the server" || second.Title != "Plain" || second.Verdict != "" {
		t.Errorf("%+v", second)
	}
	want := `{"inputSchema":{"type":"object","maxProperties":12345678901234567890123},` +
		`"_meta":{"ui":{"resourceUri":"ui://x"},"countersign/contribution":{"tool":"hash_compute","title":"H","description":"of the server"}},` +
		`"description":"Hashes \"it\".","title":"Compute","name":"hash.compute"}`
	if diff := cmp.Diff(want, string(first.Raw)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"hash.compute": "hash_compute", "hash.plain": "hash_compute", "nothing": "no_such"}, registry.Origins(contributions)); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsBehindAContributionIsApprovedWithIt(t *testing.T) {
	t.Parallel()
	const schema = `"inputSchema":{"type":"object"}}`
	one := func(c registry.Contribution, tool string) registry.Item {
		t.Helper()
		snap, err := contributed(t, []registry.Contribution{c}, tool)
		if err != nil || len(snap.Items) != 1 {
			t.Fatalf("%+v, %v", snap.Items, err)
		}
		return snap.Items[0]
	}
	is := one(registry.Contribution{ID: "c", Tool: "a", DisplayName: "C"}, `{"name":"a",`+schema)
	for name, other := range map[string]registry.Item{
		"another tool":                one(registry.Contribution{ID: "c", Tool: "b", DisplayName: "C"}, `{"name":"b",`+schema),
		"another title of the server": one(registry.Contribution{ID: "c", Tool: "a", DisplayName: "C"}, `{"name":"a","title":"other",`+schema),
		"another display name":        one(registry.Contribution{ID: "c", Tool: "a", DisplayName: "D"}, `{"name":"a",`+schema),
		"another description":         one(registry.Contribution{ID: "c", Tool: "a", DisplayName: "C", Description: "x"}, `{"name":"a",`+schema),
	} {
		if is.Digests.Binds(other.Digests) || is.Digests.Contract != other.Digests.Contract {
			t.Errorf("%s: %+v, %+v", name, is.Digests, other.Digests)
		}
	}
	before, err := contributed(t, []registry.Contribution{{ID: "c", Tool: "a", DisplayName: "C"}}, `{"name":"a",`+schema)
	if err != nil {
		t.Fatal(err)
	}
	after, err := contributed(t, []registry.Contribution{{ID: "c", Tool: "b", DisplayName: "C"}}, `{"name":"b",`+schema)
	if err != nil {
		t.Fatal(err)
	}
	kinds := ""
	for _, item := range registry.Compare(&before, &after).Tools.Items {
		for _, c := range item.Changes {
			kinds += string(c.Kind) + " " + string(c.Severity) + " "
		}
	}
	if !strings.Contains(kinds, "contribution_changed escalating") {
		t.Errorf("the difference: %s", kinds)
	}
}

func TestFaultsOfAContributedToolStay(t *testing.T) {
	t.Parallel()
	contributions := []registry.Contribution{{ID: "c", Tool: "a", DisplayName: "C", Description: "d"}}
	for tool, want := range map[string]registry.Reason{
		`{"name":"a","name":"a","inputSchema":{"type":"object"}}`:                                    registry.ReasonAmbiguousKeys,
		`{"name":"a","title":"x","title":"y","inputSchema":{"type":"object"}}`:                       registry.ReasonAmbiguousKeys,
		`{"name":"a","_meta":7,"inputSchema":{"type":"object"}}`:                                     registry.ReasonAmbiguousKeys,
		`{"name":"a","inputSchema":{"type":"object"},"inputSchema":{}}`:                              registry.ReasonAmbiguousKeys,
		`{"name":"a","Description":"x","inputSchema":{"type":"object"}}`:                             registry.ReasonAmbiguousKeys,
		`{"name":"a","inputSchema":{"type":"string"}}`:                                               registry.ReasonInvalidSchema,
		`{"name":"a","inputSchema":{"type":"object"}}`:                                               "",
		`{"name":"a","title":7,"description":null,"inputSchema":{"type":"object"}}`:                  "",
		`{"name":"a","inputSchema":` + strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 101): registry.ReasonTooDeep,
	} {
		snap, err := contributed(t, contributions, tool)
		if err != nil || len(snap.Items) != 1 || snap.Items[0].Name != "c" || snap.Items[0].Verdict != want {
			t.Errorf("%s: %+v, %v", tool, snap.Items, err)
		}
		if err == nil && !json.Valid(snap.Items[0].Raw) {
			t.Errorf("%s became %s", tool, snap.Items[0].Raw)
		}
	}
	twice, err := contributed(t, contributions, `{"name":"a","inputSchema":{"type":"object"}}`, `{"name":"a","inputSchema":{"type":"object"}}`)
	if err != nil || len(twice.Items) != 1 || twice.Items[0].Verdict != registry.ReasonDuplicateName {
		t.Errorf("%+v, %v", twice.Items, err)
	}
	for _, element := range []string{`7`, `{"inputSchema":{}}`, `{"name":7}`, `{"name":""}`, `[]`} {
		if _, err := contributed(t, contributions, element); registry.ReasonOf(err) != registry.ReasonMalformedList {
			t.Errorf("%s: %v", element, err)
		}
	}
}

func TestNamesOfServersThatExtensionsDeclare(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, id := range []string{
		"utils", "UTILS", "utils-", "a.b", "a-b", "", "日本", strings.Repeat("x", 300), strings.Repeat("x", 301), "srv_" + strings.Repeat("0", 32), "-", "a_b",
	} {
		name := registry.ProviderServerName("tools", id)
		if !registry.ValidName(name) || registry.ValidServerID(name) {
			t.Errorf("%q is no name: %q", id, name)
		}
		if other, taken := seen[name]; taken {
			t.Errorf("%q and %q are both %s", other, id, name)
		}
		seen[name] = id
	}
	if got := registry.ProviderServerName("tools", "utils"); got != "tools-utils" {
		t.Error(got)
	}
}
