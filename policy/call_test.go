package policy_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/policy"
	"countersign/registry"
)

const callRules = `name: calls
version: 1
timezone: Europe/Berlin
approval:
- {name: all, when: 'true', approvers: 1}
calls:
- {name: weekend, when: 'class == "publication" && local.weekday in ["saturday", "sunday"]', deny: nothing is published on a weekend}
- {name: night, when: 'class in ["shared_write", "publication"] && (local.hour < 7 || local.hour >= 19)', deny: nothing is written at night}
- {name: freeze, when: 'local.date >= "2026-12-20" && local.date <= "2027-01-06" && class != "read"', deny: a freeze is on}
- {name: agents, when: 'class == "publication" && !(agent.id in ["release-bot", "docs-bot"])', deny: this agent publishes nothing}
- {name: named, when: 'class != "read" && agent.id == ""', deny: an agent must be named}
- {name: workspace, when: 'server.labels[?"workspace"].orValue(workspace) != workspace', deny: this server is for another workspace}
- {name: stdio, when: 'server.transport == "stdio" && server.labels[?"tier"].orValue("") == "experimental" && workspace.startsWith("prod")', deny: experiments stay out of production}
- {name: legacy, when: 'server.authentication == "none_exception" && class != "read"', deny: nothing is written without authentication}
- {name: names, when: 'tool.name.matches("^(drop|truncate)_")', deny: this name is not for agents}
- {name: switch, when: 'now >= timestamp("2030-01-01T00:00:00Z")', deny: this policy has ended}
`

func TestCallsAreAllowedUnlessARuleDenies(t *testing.T) {
	t.Parallel()
	p := load(t, callRules)
	monday := time.Date(2026, 3, 2, 11, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		call policy.Call
		rule string
	}{
		"a read without an agent":        {policy.Call{Class: registry.ClassRead, Now: monday}, ""},
		"a write by an agent":            {policy.Call{Class: registry.ClassSharedWrite, Agent: "a", Now: monday}, ""},
		"a write by nobody":              {policy.Call{Class: registry.ClassSharedWrite, Now: monday}, "named"},
		"a publication by the right one": {policy.Call{Class: registry.ClassPublication, Agent: "docs-bot", Now: monday}, ""},
		"a publication by another":       {policy.Call{Class: registry.ClassPublication, Agent: "a", Now: monday}, "agents"},
		"on a saturday":                  {policy.Call{Class: registry.ClassPublication, Agent: "docs-bot", Now: monday.AddDate(0, 0, 5)}, "weekend"},
		"at seven in Berlin":             {policy.Call{Class: registry.ClassSharedWrite, Agent: "a", Now: time.Date(2026, 3, 2, 6, 0, 0, 0, time.UTC)}, ""},
		"before":                         {policy.Call{Class: registry.ClassSharedWrite, Agent: "a", Now: time.Date(2026, 3, 2, 5, 59, 59, 0, time.UTC)}, "night"},
		"in the freeze":                  {policy.Call{Class: registry.ClassSandbox, Agent: "a", Now: time.Date(2026, 12, 19, 23, 0, 0, 0, time.UTC)}, "freeze"},
		"in its workspace":               {policy.Call{Server: &policy.Server{Labels: map[string]string{"workspace": "w"}}, Class: registry.ClassRead, Workspace: "w", Now: monday}, ""},
		"in another workspace":           {policy.Call{Server: &policy.Server{Labels: map[string]string{"workspace": "w"}}, Class: registry.ClassRead, Workspace: "v", Now: monday}, "workspace"},
		"a name":                         {policy.Call{Tool: "drop_table", Class: registry.ClassRead, Now: monday}, "names"},
	} {
		if c.call.Server == nil {
			c.call.Server = &policy.Server{}
		}
		v := p.Call(c.call)
		if v.Rule != c.rule || v.Bundle != p.Digest() || v.Policy != "calls@1" {
			t.Errorf("%s: got %+v, want rule %q", name, v, c.rule)
		}
		d := v.Denial()
		if c.rule == "" && d != nil || c.rule != "" && (d == nil || d.Reason != registry.ReasonPolicyDenied || d.Detail == "") {
			t.Errorf("%s: got the denial %+v", name, d)
		}
	}
}

func TestACallRuleThatFailsDenies(t *testing.T) {
	t.Parallel()
	thousand := "[" + strings.Repeat("1,", 999) + "1]"
	for name, c := range map[string]struct {
		when string
		want registry.CallVerdict
	}{
		"an error": {`server.labels["team"] == "a"`, registry.CallVerdict{Reason: registry.ReasonPolicyError, Rule: "one-call", Message: "rule one-call failed: no such key: team"}},
		"too many steps": {
			thousand + `.all(a, [1, 2, 3, 4].all(b, a + b + size(tool.name) > 0))`,
			registry.CallVerdict{Reason: registry.ReasonPolicyError, Rule: "one-call", Message: "rule one-call failed: operation cancelled: actual cost limit exceeded"},
		},
	} {
		b := parse(t, bundle("", ""))
		b.Calls = []policy.CallRule{{Name: "one-call", When: c.when, Deny: "no"}}
		p, problems := policy.Compile(b)
		if len(problems) > 0 {
			t.Fatal(name, problems)
		}
		c.want.Bundle, c.want.Policy = p.Digest(), "x@1"
		if diff := cmp.Diff(c.want, p.Call(policy.Call{Server: &policy.Server{}, Now: noon})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestRulesTogetherHaveABudget(t *testing.T) {
	t.Parallel()
	b := parse(t, bundle("", ""))
	for i := range policy.MaxRules - 1 {
		b.Calls = append(b.Calls, policy.CallRule{
			Name: fmt.Sprintf("call-%d", i), When: "[" + strings.Repeat("1,", 499) + "1].exists(a, a + size(tool.name) == 0)", Deny: "no",
		})
	}
	p, problems := policy.Compile(b)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	start := time.Now()
	v := p.Call(policy.Call{Server: &policy.Server{}, Now: noon})
	if v.Reason != registry.ReasonPolicyError || !strings.Contains(v.Message, "the rules together cost more") {
		t.Errorf("got %+v", v)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestPoliciesAreCompiledOnce(t *testing.T) {
	t.Parallel()
	first, second := parse(t, small), parse(t, callRules)
	reads := 0
	read := func(b *policy.Bundle) func() ([]byte, error) {
		return func() ([]byte, error) { reads++; return b.Canonical(), nil }
	}
	c := policy.NewCache(1)
	for i, want := range []struct {
		bundle *policy.Bundle
		reads  int
	}{{first, 1}, {first, 1}, {second, 2}, {second, 2}, {first, 3}, {policy.Default().Bundle(), 3}} {
		p, err := c.Get(want.bundle.Digest(), read(want.bundle))
		if err != nil || p.Digest() != want.bundle.Digest() || reads != want.reads {
			t.Errorf("%d: %v, %d reads, want %d", i, err, reads, want.reads)
		}
	}
	gone := errors.New("gone")
	if _, err := c.Get("sha256:x", func() ([]byte, error) { return nil, gone }); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
	for name, document := range map[string][]byte{"another bundle": first.Canonical(), "a broken one": []byte("{")} {
		if _, err := c.Get("sha256:x", func() ([]byte, error) { return document, nil }); registry.ReasonOf(err) != registry.ReasonPolicyError {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestPoliciesAreForManyAtOnce(t *testing.T) {
	t.Parallel()
	c, b := policy.NewCache(2), parse(t, callRules)
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			for j := range 50 {
				p, err := c.Get(b.Digest(), func() ([]byte, error) { return b.Canonical(), nil })
				if err != nil {
					t.Error(err)
					return
				}
				agent := fmt.Sprintf("agent-%d", i)
				v := p.Call(policy.Call{Server: &policy.Server{}, Class: registry.ClassPublication, Agent: agent, Now: time.Date(2026, 3, 2, 11, j, 0, 0, time.UTC)})
				if v.Rule != "agents" {
					t.Errorf("got %+v", v)
				}
			}
		})
	}
	group.Wait()
}

// Rules that can never cost much are not counted, unless a call is larger than any should be. Both ways say the same.
func TestALargeCallIsJudgedAsASmallOne(t *testing.T) {
	t.Parallel()
	p := load(t, callRules)
	manyLabels := map[string]string{"workspace": "w"}
	for i := range registry.MaxLabels {
		manyLabels[fmt.Sprint("k", i)] = ""
	}
	large := []func(c *policy.Call){
		func(c *policy.Call) { c.Server.Owner = strings.Repeat("x", 300) },
		func(c *policy.Call) { c.Server.Labels["x"] = strings.Repeat("x", 300) },
		func(c *policy.Call) { c.Server.Labels = manyLabels },
		func(c *policy.Call) { c.ToolID = strings.Repeat("x", 300) },
	}
	for _, class := range registry.Classes() {
		for _, agent := range []string{"", "a", "docs-bot"} {
			for hour := range 200 {
				call := policy.Call{Class: class, Agent: agent, Workspace: "w", Tool: "get", Now: time.Date(2026, 12, 12, hour, 0, 0, 0, time.UTC)}
				call.Server = &policy.Server{Labels: map[string]string{"workspace": "w"}}
				want := p.Call(call)
				call.Server = &policy.Server{Labels: map[string]string{"workspace": "w"}}
				large[hour%len(large)](&call)
				if diff := cmp.Diff(want, p.Call(call)); diff != "" {
					t.Fatalf("%+v: %s", call, diff)
				}
			}
		}
	}
}

// A name as long as it likes costs no more than a rule may.
func TestAHugeNameIsNoWayAround(t *testing.T) {
	t.Parallel()
	b := parse(t, bundle("", "calls: [{name: two, when: 'tool.name.matches(\"^a*b$\")', deny: no}]"))
	p, problems := policy.Compile(b)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	v := p.Call(policy.Call{Server: &policy.Server{}, Tool: strings.Repeat("a", 1<<20)})
	if v.Reason != registry.ReasonPolicyError {
		t.Errorf("got %+v", v)
	}
}
