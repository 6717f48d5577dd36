package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"countersign/policy"
	"countersign/registry"
)

const review, content = "sha256:r", "sha256:c"

var noon = policy.CaseTime

func vote(subject string, roles ...registry.Role) registry.Vote {
	return registry.Vote{
		DecisionID: "dec_" + subject, Verb: registry.VerbApprove, Review: review, Content: content, Subject: subject, Roles: roles,
		Comment: "why", At: noon,
	}
}

func approval(votes []registry.Vote, items ...policy.Item) policy.Approval {
	return policy.Approval{Review: review, Content: content, Requester: "ann", Items: items, Votes: votes, Now: noon}
}

func TestTheStrictestOfAllRulesCounts(t *testing.T) {
	t.Parallel()
	p := load(t, `name: x
version: 2
approval:
- {name: reads, when: class == "read", approvers: 1, expiry: {after: 365d}}
- {name: writes, when: class == "shared_write", approvers: 3, roles: {PlatformAdmin: 1, Operator: 1}, expiry: {after: 90d, grace: 10d, remind: [1d, 7d]}}
- {name: pci, when: 'server.labels[?"scope"].orValue("") == "pci"', approvers: 2, not_requester: true, roles: {PlatformAdmin: 2}, comment: which ticket}
- {name: never, when: tool.name == "eval", refuse: nobody may call this}
`)
	read := policy.Item{Name: "get", Class: registry.ClassRead}
	write := policy.Item{Name: "set", Class: registry.ClassSharedWrite}
	in := approval(nil, read, write, read)
	in.Server.Labels = map[string]string{"scope": "pci"}
	got := p.Approve(in)
	want := registry.ApprovalVerdict{
		Bundle: p.Digest(), Policy: "x@2", Review: review, Content: content, Requester: "ann", EvaluatedAt: noon,
		Needed: 3, DistinctFromRequester: true, Roles: map[registry.Role]int{registry.RolePlatformAdmin: 2, registry.RoleOperator: 1},
		Expiry:            registry.Expiry{After: 90 * 24 * time.Hour, Grace: 10 * 24 * time.Hour, Remind: []time.Duration{7 * 24 * time.Hour, 24 * time.Hour}},
		CommentDemandedBy: []registry.CommentDemand{{Rule: "pci", Message: "which ticket"}},
		Matched:           []registry.MatchedRule{{Rule: "pci", Items: 3, First: "get"}, {Rule: "reads", Items: 2, First: "get"}, {Rule: "writes", Items: 1, First: "set"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got = p.Approve(approval(nil, read, policy.Item{Name: "eval", Class: registry.ClassRead}))
	if got.Refusal == nil || *got.Refusal != (registry.PolicyRefusal{Reason: registry.ReasonPolicyDenied, Rule: "never", Message: "nobody may call this"}) {
		t.Errorf("got %+v", got.Refusal)
	}
}

func TestRulesSeeEverythingThatTheyAreTold(t *testing.T) {
	t.Parallel()
	in := policy.Approval{
		Review: review, Content: content, Requester: "ann", Now: time.Date(2026, 12, 26, 23, 30, 0, 0, time.UTC),
		Server: policy.Server{
			Name: "wiki", Owner: "team-a", Labels: map[string]string{"team": "a"}, Direction: registry.DirectionConsumed,
			Transport: registry.TransportStdio, Authentication: registry.AuthWorkloadIdentity, State: registry.StateActive,
		},
		Items: []policy.Item{{
			Name: "get", ID: "wiki.get", Title: "Get", Text: "Gets aaa.", Class: registry.ClassSandbox, ApprovedClass: registry.ClassRead, Hints: []string{"mixed_script"},
			Annotations: map[string]bool{"readOnlyHint": false}, Drift: registry.Moved{Text: true, Behaviour: true, Severity: "widening"},
		}},
		Votes: []registry.Vote{vote("bob", registry.RoleOperator)},
	}
	for _, when := range []string{
		`server.name == "wiki" && server.owner == "team-a" && server.labels["team"] == "a" && server.labels == {"team": "a"}`,
		`server.direction == "consumed" && server.transport == "stdio" && server.authentication == "workload_identity" && server.state == "active"`,
		`class == "sandbox" && kind == "tool" && tool.name == "get" && tool.id == "wiki.get" && tool.title == "Get" && tool.approved_class == "read"`,
		`tool.text.matches("^Gets a{2,3}[.]$") && tool.hints == ["mixed_script"] && !tool.annotations["readOnlyHint"] && size(tool.annotations) == 1`,
		`drift.severity == "widening" && drift.moved == ["text", "behaviour"]`,
		`requester.subject == "ann" && approver.subject == "bob" && approver.roles == ["Operator"] && approver.time == timestamp("2026-01-05T12:00:00Z")`,
		`now == timestamp("2026-12-26T23:30:00Z") && now.getHours() == 23`,
		`local.date == "2026-12-27" && local.weekday == "sunday" && local.hour == 0 && local.minute == 30`,
		`server.labels.map(k, k) == ["team"] && has(server.labels.team) && !has(server.labels.other)`,
	} {
		b := parse(t, bundle("- {name: two, when: 'true', from: x}", "timezone: Europe/Berlin"))
		b.Approval[1].From = when
		p, problems := policy.Compile(b)
		if len(problems) > 0 {
			t.Errorf("%s: %s", when, problems)
			continue
		}
		if v := p.Approve(in); !slices.Equal(v.Eligible, []string{"bob"}) {
			t.Errorf("%s: %+v", when, v.Ineligible)
		}
	}
}

func TestAMapIsWalkedInTheOrderOfItsKeys(t *testing.T) {
	t.Parallel()
	labels := map[string]string{}
	for i := range 50 {
		labels[fmt.Sprintf("k%02d", 49-i)] = "v"
	}
	b := parse(t, bundle("", "calls: [{name: first, when: 'server.labels.map(k, k)[0] == \"k00\" && server.labels.filter(k, true)[49] == \"k49\"', deny: seen}]"))
	p, problems := policy.Compile(b)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for range 50 {
		if v := p.Call(policy.Call{Server: &policy.Server{Labels: labels}}); v.Rule != "first" || v.Reason != registry.ReasonPolicyDenied {
			t.Fatalf("got %+v", v)
		}
	}
}

func TestWhoMayApproveIsAskedForEachPerson(t *testing.T) {
	t.Parallel()
	p := load(t, `name: x
version: 1
approval:
- {name: all, when: 'true', approvers: 2}
- {name: own, when: 'true', from: approver.subject != server.owner}
- {name: mail, when: 'true', from: '"mail" in server.labels && approver.subject.endsWith(server.labels["mail"])'}
- {name: role, when: tool.name == "set", from: 'approver.roles[0] == "PlatformAdmin"'}
`)
	in := approval([]registry.Vote{vote("olga@a.example", registry.RolePlatformAdmin), vote("ann@a.example", registry.RolePlatformAdmin), vote("bob@b.example", registry.RolePlatformAdmin), vote("cleo@a.example"), vote("dan@a.example", registry.RolePlatformAdmin)},
		policy.Item{Name: "get", Class: registry.ClassRead}, policy.Item{Name: "set", Class: registry.ClassRead})
	in.Server = policy.Server{Owner: "olga@a.example", Labels: map[string]string{"mail": "@a.example"}}
	v := p.Approve(in)
	if diff := cmp.Diff([]string{"ann@a.example", "dan@a.example"}, v.Eligible); diff != "" {
		t.Error(diff)
	}
	want := []registry.IneligibleVote{
		{Subject: "bob@b.example", Rule: "mail", Reason: registry.ReasonNotEligible},
		{Subject: "cleo@a.example", Rule: "role", Reason: registry.ReasonPolicyError, Message: "index out of bounds: 0"},
		{Subject: "olga@a.example", Rule: "own", Reason: registry.ReasonNotEligible},
	}
	if diff := cmp.Diff(want, v.Ineligible); diff != "" {
		t.Error(diff)
	}
	if tally := v.Tally(in.Votes); tally.Status != registry.TallyApproved || !slices.Equal(tally.Counted, v.Eligible) {
		t.Errorf("got %+v", tally)
	}
	// Somebody whom the policy was not asked about does not count.
	if err := v.Admit(vote("eve@a.example", registry.RolePlatformAdmin)); registry.ReasonOf(err) != registry.ReasonNotEligible {
		t.Errorf("got %v", err)
	}
}

func TestARuleThatFailsRefuses(t *testing.T) {
	t.Parallel()
	deep := `[` + strings.Repeat("1,", 500) + `1]`
	for name, c := range map[string]struct{ when, want string }{
		"a missing key":     {`server.labels["team"] == "a"`, "no such key: team"},
		"a division":        {`1 / size(server.owner) == 1`, "division by zero"},
		"an index":          {`tool.hints[3] == "a"`, "index out of bounds: 3"},
		"a conversion":      {`int(tool.text) == 1`, "type conversion error from 'string' to 'int'"},
		"a stranger's word": {`server.labels[tool.text] == "a"`, `no such key: a\x00b\u202e`},
		"too many steps":    {deep + `.all(a, ` + deep + `.all(b, a + b + 1 > 0 && tool.text != "zzz"))`, "cost limit"},
		"an overflow":       {`9223372036854775807 + size(tool.text) > 0`, "integer overflow"},
		"an error in a map": {`server.labels.all(k, k == "a")  || server.labels["b"] == "c"`, "no such key"},
	} {
		b := parse(t, bundle("", ""))
		b.Approval[0].When = c.when
		b.Drift = []policy.DriftRule{{Name: "two", When: c.when}}
		p, problems := policy.Compile(b)
		if len(problems) > 0 {
			t.Errorf("%s: %s", name, problems)
			continue
		}
		item := policy.Item{Name: "get", Class: registry.ClassRead, Text: "a\x00b\u202e", Drift: registry.Moved{Text: true, Severity: "text"}}
		in := approval([]registry.Vote{vote("bob", registry.RolePlatformAdmin)}, item)
		in.Server.Labels = map[string]string{"x": "y"}
		v := p.Approve(in)
		if v.Refusal == nil || v.Refusal.Reason != registry.ReasonPolicyError || v.Refusal.Rule != "one" || !strings.Contains(v.Refusal.Message, c.want) {
			t.Errorf("%s: got %+v, want %s", name, v.Refusal, c.want)
		}
		if tally := v.Tally(in.Votes); tally.Status != registry.TallyRefused || tally.Refusal.Reason != registry.ReasonPolicyError {
			t.Errorf("%s: got %+v", name, tally)
		}
		if strings.ContainsAny(v.Refusal.Message, "\x00\u202e\n") {
			t.Errorf("%s: the message holds what cannot be seen: %q", name, v.Refusal.Message)
		}
		d := p.Drift(policy.Drift{Server: in.Server, Item: item, Now: noon})
		if d.Keeps(item.Drift) || d.Reason != registry.ReasonPolicyError || d.Rule != "two" {
			t.Errorf("%s: got %+v", name, d)
		}
	}
}

func TestNoPolicyRefuses(t *testing.T) {
	t.Parallel()
	var p *policy.Policy
	votes := []registry.Vote{vote("bob", registry.RolePlatformAdmin)}
	v := p.Approve(approval(votes))
	if tally := v.Tally(votes); tally.Status != registry.TallyRefused || tally.Refusal.Reason != registry.ReasonPolicyError {
		t.Errorf("got %+v", tally)
	}
	moved := registry.Moved{Text: true, Severity: "cosmetic"}
	if d := p.Drift(policy.Drift{Item: policy.Item{Drift: moved}}); d.Keeps(moved) || d.Reason != registry.ReasonPolicyError {
		t.Errorf("got %+v", d)
	}
	if d := p.Call(policy.Call{Server: &policy.Server{}}).Denial(); d == nil || d.Reason != registry.ReasonPolicyError {
		t.Errorf("got %+v", d)
	}
}

func TestDriftIsRelaxedOnlyAsFarAsC5Lets(t *testing.T) {
	t.Parallel()
	p := load(t, bundle("", "drift: [{name: all, when: 'true'}]"))
	for _, c := range []struct {
		moved registry.Moved
		keeps bool
	}{
		{registry.Moved{Text: true, Severity: "text"}, true},
		{registry.Moved{Text: true, Severity: "cosmetic"}, true},
		{registry.Moved{Behaviour: true, Severity: "narrowing"}, true},
		{registry.Moved{Text: true, Behaviour: true, Severity: "widening"}, true},
		{registry.Moved{Behaviour: true, Severity: "escalating"}, false},
		{registry.Moved{Text: true, Severity: "escalating"}, false},
		{registry.Moved{Behaviour: true}, false},
		{registry.Moved{Text: true, Severity: "harmless"}, false},
		{registry.Moved{Contract: true, Severity: "widening"}, false},
		{registry.Moved{Contract: true, Text: true, Severity: "cosmetic"}, false},
		{registry.Moved{Text: true, Target: true, Severity: "text"}, false},
		{registry.Moved{}, false},
	} {
		v := p.Drift(policy.Drift{Item: policy.Item{Name: "get", Class: registry.ClassRead, Drift: c.moved}, Now: noon})
		if v.Keeps(c.moved) != c.keeps || v.Reason != "" {
			t.Errorf("%+v: got %+v", c.moved, v)
		}
		if v.Keep = true; v.Keeps(c.moved) != c.keeps {
			t.Errorf("%+v: a verdict alone lets it pass", c.moved)
		}
	}
	silent := load(t, bundle("", "drift: [{name: reads, when: class == \"read\"}]"))
	moved := registry.Moved{Text: true, Severity: "text"}
	for class, keeps := range map[registry.Class]bool{registry.ClassRead: true, registry.ClassPublication: false} {
		if v := silent.Drift(policy.Drift{Item: policy.Item{Class: class, Drift: moved}}); v.Keeps(moved) != keeps {
			t.Errorf("%s: got %+v", class, v)
		}
	}
}

func TestARecordIsPutToThePolicy(t *testing.T) {
	t.Parallel()
	raw := []byte(`{"name":"get","description":"Gets.","inputSchema":{"type":"object","properties":{}},"annotations":{"destructiveHint":true,"readOnlyHint":null,"other":true}}`)
	snapshot, err := registry.NewSnapshot(registry.Surface{
		Tools: [][]byte{raw}, Resources: [][]byte{[]byte(`{"uri":"file:///a","name":"a","title":"A"}`)},
		Templates: [][]byte{[]byte(`{"uriTemplate":"file:///{x}","name":"x"}`)}, Prompts: [][]byte{[]byte(`{"name":"greet","description":"Greets."}`)},
	}, registry.DefaultLimits(), noon)
	if err != nil {
		t.Fatal(err)
	}
	item, _ := snapshot.Find(registry.KindTool, "get")
	r := &registry.Record{
		Server: registry.Server{Name: "wiki", Owner: "o", CreatedBy: "ann", TargetDigest: "t2", Review: registry.Review{RequestedBy: "system:probe"}},
		Tools:  map[string]*registry.Tool{"get": {ToolID: "wiki.get", Title: "", Description: "Gets.", Digests: item.Digests}},
		Bindings: map[string]*registry.ToolBinding{"get": {
			SchemaHash: item.Digests.Contract, Text: "old", Behaviour: item.Digests.Behaviour, Target: "t1", DeclaredClass: registry.ClassRead,
		}},
		Snapshot: &snapshot,
	}
	a := registry.Approval{
		Digest: "d", Tools: []registry.ToolLine{{Tool: "get", Class: registry.ClassSandbox}}, Prompts: []registry.PromptLine{{Prompt: "greet", SkillID: "s"}},
		Resources: []registry.ResourceLine{{URI: "file:///a"}, {URI: "file:///{x}"}},
	}
	want := policy.Approval{
		Review: "d", Content: a.ContentDigest(), Server: policy.Server{Name: "wiki", Owner: "o"}, Requester: "ann", Now: noon,
		Items: []policy.Item{
			{
				Kind: registry.KindTool, Name: "get", ID: "wiki.get", Text: "Gets.", Class: registry.ClassSandbox, ApprovedClass: registry.ClassRead,
				Annotations: map[string]bool{"destructiveHint": true}, Drift: registry.Moved{Text: true, Target: true},
			},
			{Kind: registry.KindResource, Name: "file:///a", Title: "A"},
			{Kind: registry.KindTemplate, Name: "file:///{x}"},
			{Kind: registry.KindPrompt, Name: "greet", Text: "Greets."},
		},
	}
	if diff := cmp.Diff(want, policy.ApprovalOf(r, a, nil, noon)); diff != "" {
		t.Error(diff)
	}
	r.Server.Review.RequestedBy = "bob"
	if got := policy.Requester(&r.Server); got != "bob" {
		t.Errorf("the requester is %s, want who triggered the discovery", got)
	}
}

// drawn makes one of the rules, people and items that the properties are tried with.
var (
	drawnWhen = rapid.SampledFrom([]string{
		"true", "false", `class == "read"`, `class in ["shared_write", "publication"]`, `server.labels["team"] == "a"`, `size(tool.hints) > 0`,
		`1 / size(tool.hints) == 1`, `kind != "tool"`,
	})
	drawnFrom = rapid.SampledFrom([]string{
		"", "", "true", "approver.subject != requester.subject", `"PlatformAdmin" in approver.roles`, `approver.roles[0] == "Operator"`, "false",
	})
	drawnPeople = rapid.SampledFrom([]string{"ann", "bob", "cleo", "dan", "eve"})
	drawnRoles  = rapid.SliceOfN(rapid.SampledFrom(registry.Roles()), 0, 2)
	drawnItem   = rapid.Custom(func(t *rapid.T) policy.Item {
		return policy.Item{
			Name: rapid.SampledFrom([]string{"get", "set"}).Draw(t, "name"), Class: rapid.SampledFrom(registry.Classes()).Draw(t, "class"),
			Hints: rapid.SliceOfN(rapid.Just("hint"), 0, 1).Draw(t, "hints"),
		}
	})
	drawnVote = rapid.Custom(func(t *rapid.T) registry.Vote {
		v := vote(drawnPeople.Draw(t, "who"), drawnRoles.Draw(t, "roles")...)
		v.Content = rapid.SampledFrom([]string{content, content, content, "sha256:other"}).Draw(t, "content")
		v.Comment = rapid.SampledFrom([]string{"", "why"}).Draw(t, "comment")
		return v
	})
	drawnRule = rapid.Custom(func(t *rapid.T) policy.ApprovalRule {
		return policy.ApprovalRule{
			When: drawnWhen.Draw(t, "when"), From: drawnFrom.Draw(t, "from"), Approvers: rapid.IntRange(1, 3).Draw(t, "approvers"),
			NotRequester: rapid.Bool().Draw(t, "not requester"), Comment: rapid.SampledFrom([]string{"", "say why"}).Draw(t, "comment"),
			Roles: rapid.MapOfN(rapid.SampledFrom(registry.Roles()), rapid.IntRange(1, 2), 0, 1).Draw(t, "needs"),
		}
	})
)

func drawPolicy(t *rapid.T) *policy.Policy {
	b := &policy.Bundle{Name: "x", Version: 1, Approval: rapid.SliceOfN(drawnRule, 1, 4).Draw(t, "rules")}
	for i := range b.Approval {
		b.Approval[i].Name = fmt.Sprintf("rule-%d", i)
	}
	p, problems := policy.Compile(b)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return p
}

var ranks = []registry.TallyStatus{registry.TallyRefused, registry.TallyNeeds, registry.TallyApproved}

func TestAnotherApproverNeverMakesItLessApproved(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy(t)
		items := rapid.SliceOfN(drawnItem, 0, 3).Draw(t, "items")
		votes := rapid.SliceOfN(drawnVote, 0, 4).Draw(t, "votes")
		labels := rapid.SampledFrom([]map[string]string{nil, {"team": "a"}}).Draw(t, "labels")
		ask := func(votes []registry.Vote) registry.Tally {
			in := approval(votes, items...)
			in.Server.Labels = labels
			return p.Approve(in).Tally(votes)
		}
		before := ask(votes)
		another := drawnVote.Draw(t, "another")
		another.Subject = "zoe"
		after := ask(append(slices.Clone(votes), another))
		if slices.Index(ranks, after.Status) < slices.Index(ranks, before.Status) || after.People > before.People {
			t.Fatalf("before: %+v\nafter: %+v", before, after)
		}
		for _, who := range before.Counted {
			if !slices.Contains(after.Counted, who) {
				t.Fatalf("%s counted before and no longer: %+v", who, after)
			}
		}
	})
}

func TestAPolicyErrorNeverAllows(t *testing.T) {
	t.Parallel()
	fails := `1 / size(server.owner) == 1` // nobody owns the server
	rapid.Check(t, func(t *rapid.T) {
		rules := append(rapid.SliceOfN(drawnRule, 0, 3).Draw(t, "rules"), policy.ApprovalRule{When: "true", Approvers: 1})
		at := rapid.IntRange(0, len(rules)).Draw(t, "at")
		inFrom := rapid.Bool().Draw(t, "in from")
		bad := policy.ApprovalRule{When: fails, Approvers: 1}
		if inFrom {
			bad = policy.ApprovalRule{When: "true", From: fails}
		}
		b := &policy.Bundle{Name: "x", Version: 1, Approval: slices.Insert(rules, at, bad)}
		for i := range b.Approval {
			b.Approval[i].Name = fmt.Sprintf("rule-%d", i)
		}
		b.Drift = []policy.DriftRule{{Name: "keeps", When: "true"}, {Name: "fails", When: fails}}
		b.Calls = []policy.CallRule{{Name: "call-fails", When: fails, Deny: "no"}}
		p, problems := policy.Compile(b)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		votes := rapid.SliceOfN(drawnVote, 0, 5).Draw(t, "votes")
		in := approval(votes, rapid.SliceOfN(drawnItem, 0, 3).Draw(t, "items")...)
		if tally := p.Approve(in).Tally(votes); tally.Status == registry.TallyApproved || len(tally.Counted) > 0 {
			t.Fatalf("approved: %+v", tally)
		}
		moved := registry.Moved{Text: true, Severity: "text"}
		if v := p.Drift(policy.Drift{Item: policy.Item{Drift: moved}}); v.Keeps(moved) {
			t.Fatalf("kept: %+v", v)
		}
		if d := p.Call(policy.Call{Server: &policy.Server{}}).Denial(); d == nil || d.Reason != registry.ReasonPolicyError {
			t.Fatalf("callable: %+v", d)
		}
	})
}

func TestTheOrderOfItemsAndRulesDoesNotCount(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rules := rapid.SliceOfN(drawnRule, 1, 4).Draw(t, "rules")
		for i := range rules {
			rules[i].Name = fmt.Sprintf("rule-%d", i)
		}
		items := rapid.SliceOfN(drawnItem, 1, 3).Draw(t, "items")
		votes := rapid.SliceOfN(drawnVote, 0, 4).Draw(t, "votes")
		ask := func(rules []policy.ApprovalRule, items []policy.Item) registry.Tally {
			p, problems := policy.Compile(&policy.Bundle{Name: "x", Version: 1, Approval: rules})
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			return p.Approve(approval(votes, items...)).Tally(votes)
		}
		got := ask(rapid.Permutation(rules).Draw(t, "other rules"), rapid.Permutation(items).Draw(t, "other items"))
		want := ask(rules, items)
		got.Refusal, want.Refusal = nil, nil // which of several is named may differ
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}
