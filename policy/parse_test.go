package policy_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"countersign/policy"
	"countersign/registry"
)

// small is a bundle with a little of everything.
const small = `name: payments
version: 3
timezone: Europe/Berlin
approval:
  - name: all
    when: class != "publication"
    approvers: 1
    not_requester: true
    roles: {PlatformAdmin: 1}
    from: approver.subject != server.owner
    comment: say why
    expiry: {after: 180d, recertify: 30d, grace: 7d, remind: [30d, 24h]}
drift:
  - name: wording
    when: drift.severity == "text"
calls:
  - name: weekend
    when: |
      class == "publication" &&
        local.weekday in ["saturday", "sunday"]
    deny: not on a weekend
tests:
  - name: saturday
    call: {class: publication, now: 2026-01-03T12:00:00+02:00}
    expect: {allowed: false, rule: weekend}
`

func parse(t *testing.T, document string) *policy.Bundle {
	t.Helper()
	b, problems := policy.Parse([]byte(document))
	if len(problems) > 0 {
		t.Fatalf("%s\n%s", problems, document)
	}
	return b
}

func load(t testing.TB, document string) *policy.Policy {
	t.Helper()
	p, err := policy.Load([]byte(document))
	if err != nil {
		t.Fatalf("%s\n%s", err, document)
	}
	return p
}

func TestABundleIsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	allowed := false
	want := &policy.Bundle{
		Name: "payments", Version: 3, Timezone: "Europe/Berlin",
		Approval: []policy.ApprovalRule{{
			Name: "all", When: `class != "publication"`, Approvers: 1, NotRequester: true, Roles: map[registry.Role]int{registry.RolePlatformAdmin: 1},
			From: "approver.subject != server.owner", Comment: "say why",
			Expiry: policy.Expiry{After: days(180), Recertify: days(30), Grace: days(7), Remind: []policy.Duration{days(30), days(1)}},
		}},
		Drift: []policy.DriftRule{{Name: "wording", When: `drift.severity == "text"`}},
		Calls: []policy.CallRule{{
			Name: "weekend", When: "class == \"publication\" &&\n  local.weekday in [\"saturday\", \"sunday\"]\n", Deny: "not on a weekend",
		}},
		Tests: []policy.Case{{
			Name: "saturday", Call: &policy.CallCase{Class: registry.ClassPublication, Now: time.Date(2026, 1, 3, 10, 0, 0, 0, time.UTC)},
			Expect: policy.Expectation{Allowed: &allowed, Rule: "weekend"},
		}},
	}
	got := parse(t, small)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(policy.Bundle{})); diff != "" {
		t.Error(diff)
	}
	if problems := policy.Check(got); len(problems) > 0 {
		t.Error(problems)
	}
	for _, r := range policy.Test(load(t, small), got.Tests) {
		if !r.Passed() {
			t.Error(r)
		}
	}
}

func days(n int) policy.Duration { return policy.Duration(n) * policy.Duration(24*time.Hour) }

func TestTheDigestIsOfWhatABundleSays(t *testing.T) {
	t.Parallel()
	b := parse(t, small)
	for name, document := range map[string]string{
		"its canonical form":        string(b.Canonical()),
		"indented JSON, with tabs":  strings.ReplaceAll(string(b.Canonical()), `,"`, ",\n\t\t\""),
		"comments and blank lines":  strings.ReplaceAll(small, "drift:\n", "\n# more\ndrift:   # here\n"),
		"keys in another order":     strings.Replace(strings.Replace(small, "version: 3\n", "", 1), "drift:\n", "version: 3\ndrift:\n", 1),
		"quotes":                    strings.Replace(small, "name: payments", `"name": 'payments'`, 1),
		"durations in another unit": strings.ReplaceAll(small, "7d", "168h"),
		"a time in another zone":    strings.ReplaceAll(small, "2026-01-03T12:00:00+02:00", `"2026-01-03T10:00:00Z"`),
		"line ends of Windows":      strings.ReplaceAll(small, "\n", "\r\n"),
	} {
		if got := parse(t, document); got.Digest() != b.Digest() {
			t.Errorf("%s changes the digest:\n%s\n%s", name, b.Canonical(), got.Canonical())
		}
	}
	for name, document := range map[string]string{
		"version":     strings.Replace(small, "version: 3", "version: 4", 1),
		"rule":        strings.Replace(small, `== "text"`, `== "cosmetic"`, 1),
		"requirement": strings.Replace(small, "approvers: 1", "approvers: 2", 1),
		"message":     strings.Replace(small, "say why", "say how", 1),
		"test":        strings.Replace(small, "allowed: false", "allowed: true", 1),
	} {
		if got := parse(t, document); got.Digest() == b.Digest() {
			t.Errorf("another %s does not change the digest", name)
		}
	}
}

func TestWhatADocumentMayNotHold(t *testing.T) {
	t.Parallel()
	edit := func(old, replacement string) string {
		if !strings.Contains(small, old) {
			t.Fatalf("the document has no %q", old)
		}
		return strings.Replace(small, old, replacement, 1)
	}
	for name, c := range map[string]struct{ document, want string }{
		"nothing":               {"", "the document is empty"},
		"only a comment":        {"# x\n", "the document is empty"},
		"a list":                {"- a\n", "1:1: must be an object"},
		"a text":                {"a", "1:1: must be an object"},
		"null":                  {"null", "1:1: must be an object"},
		"broken YAML":           {"name: [", "did not find expected node content"},
		"two documents":         {small + "---\nname: x\n", "there is a second document"},
		"an unknown field":      {edit("version: 3", "version: 3\nvresion: 4"), "3:1: vresion: there is no such field here; there are approval, calls, description, drift, exceptions, name, requests, tests, timezone, version"},
		"one in a rule":         {edit("approvers: 1", "aprovers: 1"), "7:5: rule all: approval[0].aprovers: there is no such field here"},
		"a field of Go":         {edit("version: 3", "version: 3\nmarks: {}"), "marks: there is no such field here"},
		"a field in capitals":   {edit("version: 3", "Version: 3"), "Version: there is no such field here"},
		"a repeated field":      {edit("version: 3", "version: 3\nversion: 4"), "3:1: version: stands twice"},
		"a repeated JSON field": {`{"name": "a",` + "\n\t" + `"name": "b"}`, "2:2: name: stands twice"},
		"a number for a name":   {edit("name: payments", "name: 12"), "1:7: name: must be a text; write it in quotes"},
		"a text for a number":   {edit("version: 3", `version: "3"`), "2:10: version: must be a whole number"},
		"a fraction":            {edit("version: 3", "version: 3.5"), "version: must be a whole number"},
		"a huge number":         {edit("version: 3", "version: 33333333333333333333"), "version: must be a whole number"},
		"a text for a boolean":  {edit("not_requester: true", "not_requester: yes"), "rule all: approval[0].not_requester: must be true or false"},
		"no value":              {edit("approvers: 1", "approvers:"), "must be a whole number"},
		"null for a list":       {edit("timezone: Europe/Berlin\napproval:", "approval: null\nx:"), "approval: must be a list"},
		"an object for a list":  {edit("remind: [30d, 24h]", "remind: {a: b}"), "expiry.remind: must be a list"},
		"a list for a text":     {edit("when: drift.severity == \"text\"", "when: [a]"), "rule wording: drift[0].when: must be a text"},
		"a duration in weeks":   {edit("180d", "26w"), "such as 180d, 12h, 30m or 45s"},
		"a duration alone":      {edit("180d", "180"), "such as 180d"},
		"a negative duration":   {edit("180d", "-180d"), "such as 180d"},
		"eleven years":          {edit("180d", "4015d"), "up to ten years"},
		"a time that is none":   {edit("2026-01-03T12:00:00+02:00", "tomorrow"), "rule saturday: tests[0].call.now: must be a time such as 2026-01-31T08:00:00Z"},
		"an anchor":             {edit("name: payments", "name: &a payments"), "anchors and aliases are not understood"},
		"an alias":              {edit("comment: say why", "comment: *a"), "unknown anchor"},
		"a tag":                 {edit("name: payments", "name: !secret payments"), "name: must be a text"},
		"a merge":               {edit("version: 3", "version: 3\n<<: {name: x}"), "a field's name must be a text"},
		"a number as a field":   {edit("version: 3", "version: 3\n4: x"), "a field's name must be a text"},
		"bytes that are no UTF": {edit("say why", "say \xff"), "not UTF-8"},
		"too many bytes":        {small + strings.Repeat("#", policy.MaxDocument), "the limit is 262144"},
		"broken JSON":           {"{\n  \"name\": x}", "2:11: this is not JSON"},
		"half of JSON":          {`{"name": "a"`, "this is not JSON"},
		"two JSON documents":    {`{"name": "a"} {}`, "this is not JSON"},
		"deep JSON":             {`{"a": ` + strings.Repeat("[", 5000), "nested too deeply"},
		"deep YAML":             {"a: " + strings.Repeat("[", 20_000), "exceeded max depth"},
	} {
		_, problems := policy.Parse([]byte(c.document))
		if got := fmt.Sprint(problems); len(problems) == 0 || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestTestsCanBeAFileOfTheirOwn(t *testing.T) {
	t.Parallel()
	cases, problems := policy.ParseCases([]byte("tests: [{name: a, call: {class: read}, expect: {allowed: true}}]"))
	if len(problems) > 0 || len(cases) != 1 {
		t.Fatal(cases, problems)
	}
	results := policy.Test(load(t, small), cases)
	if len(results) != 1 || !results[0].Passed() {
		t.Error(results)
	}
	for document, want := range map[string]string{
		"name: x": "there is no such field here; there are tests",
		"tests: [{name: a, call: {class: reed}, expect: {allowed: true}}]": `1:33: rule a: tests[0].call.class: is never "reed"`,
	} {
		if _, problems := policy.ParseCases([]byte(document)); !strings.Contains(fmt.Sprint(problems), want) {
			t.Errorf("got %s, want %s", problems, want)
		}
	}
}

// A bundle that is read again from its canonical form is the same one; nothing that is read makes the reader fail.
func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	f.Add(policy.DefaultDocument())
	f.Add(policy.Default().Bundle().Canonical())
	f.Add([]byte(`{"name":"a","version":1,"approval":[{"name":"b","when":"true","approvers":1}],"tests":[{"expect":{"counted":[],"roles":{}}}]}`))
	f.Add([]byte("name: >\n  folded\n  text\nversion: 0x1\napproval: [{name: \"\\x41\", when: 'tr''ue'}]"))
	f.Add([]byte("tests: [{approval: {items: [{annotations: {a: true}}]}}]"))
	f.Fuzz(func(t *testing.T, document []byte) {
		b, problems := policy.Parse(document)
		if len(problems) > 0 {
			for _, p := range problems {
				if p.Message == "" {
					t.Error("a problem without a message")
				}
			}
			return
		}
		canonical := b.Canonical()
		again, problems := policy.Parse(canonical)
		if len(problems) > 0 {
			t.Fatalf("the canonical form is refused: %s\n%s", problems, canonical)
		}
		if !bytes.Equal(again.Canonical(), canonical) || again.Digest() != b.Digest() {
			t.Fatalf("the canonical form has another:\n%s\n%s", canonical, again.Canonical())
		}
		if policy.Check(b) == nil {
			// Whatever compiles can be asked anything.
			p, _ := policy.Compile(b)
			p.Approve(policy.Approval{})
			p.Drift(policy.Drift{})
			p.Call(policy.Call{Server: &policy.Server{}})
			policy.Test(p, b.Tests)
		}
	})
}
