package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"countersign/policy"
	"countersign/registry"
)

// bundle makes a bundle of one rule for approval, from line 4 on, and what else is given.
func bundle(rule, more string) string {
	return "name: x\nversion: 1\napproval:\n- {name: one, when: 'true', approvers: 1}\n" + rule + "\n" + more
}

func TestFaultsOfABundle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ document, want string }{
		"no rule at all":            {"name: x\nversion: 1\n", "1:1: approval: there are no rules"},
		"no name":                   {"version: 1\napproval: [{name: a, when: 'true', approvers: 1}]", "1:1: name: must be 1 to 63"},
		"a name in capitals":        {"name: Payments\nversion: 1", "1:7: name: must be 1 to 63 lower-case letters"},
		"no version":                {"name: x\n", "version: must be a number from 1"},
		"version 0":                 {"name: x\nversion: 0\n", "2:10: version: must be a number from 1"},
		"an unknown time zone":      {bundle("", "timezone: Europe/Atlantis"), "6:11: timezone: is no time zone"},
		"the machine's time zone":   {bundle("", "timezone: Local"), "timezone: is no time zone"},
		"a file for a time zone":    {bundle("", "timezone: ../../etc/passwd"), "timezone: is no time zone"},
		"two rules of one name":     {bundle("- {name: one, when: 'true', approvers: 1}", ""), "5:10: rule one: approval[1].name: another rule is called one"},
		"two in other sections":     {bundle("", "drift: [{name: one, when: 'true'}]"), "rule one: drift[0].name: another rule is called one"},
		"a rule without a name":     {bundle("- {when: 'true', approvers: 1}", ""), "5:3: approval[1].name: must be 1 to 63"},
		"a rule without when":       {bundle("- {name: two, approvers: 1}", ""), "5:3: rule two: approval[1].when: is required"},
		"an empty when":             {bundle("- {name: two, when: ' ', approvers: 1}", ""), "5:21: rule two: approval[1].when: is required"},
		"a rule that asks nothing":  {bundle("- {name: two, when: 'true'}", ""), "5:3: rule two: approval[1]: asks for nothing"},
		"minus one approver":        {bundle("- {name: two, when: 'true', approvers: -1}", ""), "approvers: must be a number from 1 to 20"},
		"too many approvers":        {bundle("- {name: two, when: 'true', approvers: 21}", ""), "approvers: must be a number from 1 to 20"},
		"an unknown role":           {bundle("- {name: two, when: 'true', roles: {Admin: 1}}", ""), `5:36: rule two: approval[1].roles: there is no role "Admin"`},
		"none of a role":            {bundle("- {name: two, when: 'true', roles: {Auditor: 0}}", ""), "roles: so many of a role"},
		"an expiry without after":   {bundle("- {name: two, when: 'true', expiry: {grace: 1d}}", ""), "5:37: rule two: approval[1].expiry.after: is required"},
		"recertified before":        {bundle("- {name: two, when: 'true', expiry: {after: 1d, recertify: 1d}}", ""), "expiry.recertify: must be shorter than after"},
		"too much grace":            {bundle("- {name: two, when: 'true', expiry: {after: 1d, grace: 2d}}", ""), "expiry.grace: must not be longer than after"},
		"a reminder before":         {bundle("- {name: two, when: 'true', expiry: {after: 1d, remind: [1h, 2d]}}", ""), "expiry.remind[1]: must be shorter than after"},
		"a request reminded later":  {bundle("", "requests: {expire: 1h, remind: [30m, 1h]}"), "6:38: requests.remind[1]: must be more than nothing and less than what it reminds of"},
		"a reminder after a week":   {bundle("", "requests: {remind: [8d]}"), "requests.remind[0]: must be more than nothing"},
		"an exception's at once":    {bundle("", "exceptions: {remind: [0s]}"), "exceptions.remind[0]: must be more than nothing"},
		"a long comment":            {bundle("- {name: two, when: 'true', comment: "+strings.Repeat("x", 2000)+"}", ""), "comment: is longer than 1024 bytes"},
		"a denial that says no why": {bundle("", "calls: [{name: two, when: 'true'}]"), "6:9: rule two: calls[0].deny: must say why"},
		"too many rules":            {bundle(strings.Repeat("- {}\n", 200), ""), "there are 201 rules, the limit is 200"},
		"a test of nothing":         {bundle("", "tests: [{name: t, expect: {allowed: true}}]"), "6:9: rule t: tests[0]: needs one of approval, drift and call"},
		"a test of two things":      {bundle("", "tests: [{name: t, call: {}, drift: {}, expect: {allowed: true}}]"), "needs one of approval, drift and call"},
		"a test that cannot fail":   {bundle("", "tests: [{name: t, call: {}}]"), "expects nothing, so the test could not fail"},
		"a test of something else":  {bundle("", "tests: [{name: t, call: {}, expect: {keeps: true}}]"), "names what a verdict about call does not have"},
		"a test without a name":     {bundle("", "tests: [{call: {}, expect: {allowed: true}}]"), "tests[0].name: must be a text"},
		"two tests of one name":     {bundle("", "tests: [{name: t, call: {}, expect: {allowed: true}}, {name: t, call: {}, expect: {allowed: true}}]"), "another test has this name"},
		"a test with a false word":  {bundle("", "tests: [{name: t, approval: {items: [{class: write}]}, expect: {status: approved}}]"), `6:46: rule t: tests[0].approval.items[0].class: is never "write"`},
		"a test with a false role":  {bundle("", "tests: [{name: t, approval: {approvers: [{subject: a, roles: [Boss]}]}, expect: {status: approved}}]"), `is never "Boss"`},
		"a test by nobody":          {bundle("", "tests: [{name: t, approval: {approvers: [{}]}, expect: {status: approved}}]"), "approvers[0].subject: is required"},
		"a test with a false end":   {bundle("", "tests: [{name: t, approval: {}, expect: {status: accepted}}]"), `expect.status: is never "accepted"`},
		"a test with no reason":     {bundle("", "tests: [{name: t, call: {}, expect: {reason: because}}]"), `there is no reason "because"`},
	} {
		b, problems := policy.Parse([]byte(c.document))
		if len(problems) > 0 {
			t.Errorf("%s: cannot be read: %s", name, problems)
			continue
		}
		if got := fmt.Sprint(policy.Check(b)); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
		if _, err := policy.Load([]byte(c.document)); registry.ReasonOf(err) != registry.ReasonInvalidPolicy {
			t.Errorf("%s: loading it gives %v", name, err)
		}
	}
}

func TestFaultsOfAnExpression(t *testing.T) {
	t.Parallel()
	for when, want := range map[string]string{
		`class = "read"`:                              "Syntax error",
		`classs == "read"`:                            "undeclared reference to 'classs'",
		`server.nmae == "x"`:                          "undeclared reference to 'server'",
		`server == null`:                              "undeclared reference to 'server'",
		`approver.subject == "ann"`:                   "undeclared reference to 'approver'",
		`agent.id == "a"`:                             "undeclared reference to 'agent'",
		`class`:                                       "must be true or false, this is string",
		`1`:                                           "must be true or false, this is int",
		`class == 1`:                                  "no matching overload for '_==_'",
		`class == "sharedwrite"`:                      `class is never "sharedwrite"; it is one of ["read" "sandbox" "shared_write" "publication" ""]`,
		`"raed" != class`:                             `class is never "raed"`,
		`class in ["read", "write"]`:                  `class is never "write"`,
		`drift.severity == "minor"`:                   `drift.severity is never "minor"`,
		`"schema" in drift.moved`:                     `drift.moved is never "schema"`,
		`local.weekday == "Sunday"`:                   `local.weekday is never "Sunday"`,
		`server.state == "up"`:                        `server.state is never "up"`,
		`tool.name.matches("(")`:                      "invalid matches argument",
		`tool.name.matches("(?=a)")`:                  "invalid matches argument",
		`tool.name.matches(tool.title)`:               "the pattern must be a literal",
		`matches(tool.name, tool.title)`:              "the pattern must be a literal",
		`tool.name.matches("a{900}b{900}")`:           "the pattern is too large",
		`now.getHours("Europe/Berlin") > 8`:           "getHours takes no time zone",
		`now.getDayOfWeek("UTC") == 0`:                "getDayOfWeek takes no time zone",
		`{"a": 1}.exists(k, k == "a")`:                "only lists, and the maps among the variables",
		`{"a": 1}.map(k, k)[0] == "a"`:                "only lists, and the maps among the variables",
		`[{"a": 1}].exists(m, m.exists(k, k == "a"))`: "only lists",
		`dyn({"a": 1}).exists(k, k == "a")`:           "only lists",
		`google.protobuf.Struct{fields: {"a": null}}.exists(k, k == "a")`: "only lists",
		`[1, "a"].size() == 2`:                                             "expected type",
		`[1].all(a, [1].all(b, [1].all(c, a + b + c > 0)))`:                "comprehension exceeds nesting limit",
		`timestamp("yesterday") < now`:                                     "invalid timestamp argument",
		`duration("1 week") > duration("1h")`:                              "invalid duration argument",
		`now() == now`:                                                     "undeclared reference to 'now'",
		`env("HOME") == ""`:                                                "undeclared reference to 'env'",
		`tool.name.replace("a", "b") == ""`:                                "undeclared reference to 'replace'",
		`has(server.labels)`:                                               "undeclared reference to 'server'",
		strings.Repeat("(", 100) + "true" + strings.Repeat(")", 100):       "recursion limit",
		"tool.name == '" + strings.Repeat("x", policy.MaxExpression) + "'": "code point size exceeds limit",
		`tool.hints[0]`:                                                    "must be true or false, this is string",
		`tool.annotations["destructiveHint"] ? "a" : "b"`:                  "must be true or false, this is string",
		`optional.of(true)`:                                                "must be true or false, this is optional",
		`type(class)`:                                                      "must be true or false, this is type",
		`tool.hints.exists(h, h == 1)`:                                     "no matching overload",
		`server.labels.team == 1`:                                          "no matching overload",
		`local.hour > "8"`:                                                 "no matching overload",
		`drift.moved == ["text"] && drift.moved.size() > "1"`:              "no matching overload",
		`requester.roles.size() > 0`:                                       "undeclared reference to 'requester'",
		`workspace == "a"`:                                                 "undeclared reference to 'workspace'",
		`tool.hints.map(h, h).exists(h, h == "a") && server.labels.map(k, 1).exists(k, k == "")`: "no matching overload",
	} {
		b := parse(t, bundle("", ""))
		b.Approval[0].When = when
		problems := policy.Check(b)
		if got := fmt.Sprint(problems); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", when, got, want)
		}
		for _, p := range problems {
			if p.Rule != "one" || p.Path != "approval[0].when" {
				t.Errorf("%s: the problem is of %q, %q", when, p.Rule, p.Path)
			}
		}
	}
}

func TestWhatExpressionsCanSay(t *testing.T) {
	t.Parallel()
	for _, when := range []string{
		`server.labels["team"] == "payments"`,
		`server.labels.team == "payments"`,
		`"team" in server.labels && server.labels[?"team"].orValue("") != ""`,
		`server.labels.exists(k, k.startsWith("pci-"))`,
		`server.labels.map(k, server.labels[k]).exists(v, v == "x")`,
		`tool.annotations.exists(k, tool.annotations[k])`,
		`has(server.labels.team)`,
		`tool.text.matches("(?i)ignore (all|previous)")`,
		`size(tool.hints) > 0 || tool.hints.exists_one(h, h == "a")`,
		`class in ["shared_write", "publication"] && tool.approved_class == ""`,
		`now < timestamp("2027-01-01T00:00:00Z") && now - duration("24h") > timestamp("2020-01-01T00:00:00Z")`,
		`now.getHours() >= 8 && now.getDayOfWeek() != 0`,
		`local.weekday == "friday" && local.hour >= 15 && local.date >= "2026-12-24"`,
		`server.transport == "stdio" ? drift.severity != "" : kind == "tool"`,
		`[1, 2, 3].exists(n, n > size(tool.name))`,
	} {
		b := parse(t, bundle("", ""))
		b.Approval[0].When = when
		if problems := policy.Check(b); len(problems) > 0 {
			t.Errorf("%s: %s", when, problems)
		}
	}
}

func TestFaultsOfExpressionsPointIntoTheDocument(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ document, want string }{
		"plain":             {bundle("- name: two\n  approvers: 1\n  when: class == classs", ""), "7:18: rule two: approval[1].when: undeclared reference to 'classs'"},
		"after a wide rune": {bundle("- name: two\n  approvers: 1\n  when: \"'ä' == classs\"", ""), "7:17: rule two"},
		"in quotes":         {bundle("- {name: two, approvers: 1, when: 'true && classs'}", ""), "5:44: rule two"},
		"a block":           {bundle("- name: two\n  approvers: 1\n  when: |\n    true\n\n    && classs", ""), "10:8: rule two: approval[1].when: undeclared reference to 'classs'"},
		"a block of Windows": {
			strings.ReplaceAll(bundle("- name: two\n  approvers: 1\n  when: |\n    true\n    && classs", ""), "\n", "\r\n"), "9:8: rule two",
		},
		"folded":         {bundle("- name: two\n  approvers: 1\n  when: >\n    true &&\n    classs", ""), "7:9: rule two: approval[1].when: undeclared reference to 'classs' (in container '') (line 1, column 9 of the expression)"},
		"with escapes":   {bundle("- {name: two, approvers: 1, when: \"\\x74rue && classs\"}", ""), "5:35: rule two: approval[1].when: undeclared reference to 'classs' (in container '') (line 1, column 9 of the expression)"},
		"JSON":           {"{\"name\": \"x\", \"version\": 1,\n\t\"approval\": [{\"name\": \"two\", \"approvers\": 1, \"when\": \"true && classs\"}]}", "2:64: rule two"},
		"from":           {bundle("- {name: two, when: 'true', approvers: 1, from: aprover}", ""), "5:49: rule two: approval[1].from: undeclared reference"},
		"drift":          {bundle("", "drift: [{name: two, when: classs}]"), "6:27: rule two: drift[0].when"},
		"calls":          {bundle("", "calls: [{name: two, when: kind == '', deny: no}]"), "6:27: rule two: calls[0].when: undeclared reference to 'kind'"},
		"a syntax error": {bundle("- {name: two, approvers: 1, when: 'true &&'}", ""), "5:43: rule two: approval[1].when: Syntax error"},
	} {
		b := parse(t, c.document)
		problems := policy.Check(b)
		if len(problems) != 1 || !strings.HasPrefix(problems[0].String(), c.want) {
			t.Errorf("%s: got %s, want %s", name, problems, c.want)
		}
	}
	b := &policy.Bundle{Name: "x", Version: 1, Approval: []policy.ApprovalRule{{Name: "one", Approvers: 1, When: "true &&\n classs"}}}
	if got := policy.Check(b); len(got) != 1 || got[0].Line != 2 || got[0].Column != 2 {
		t.Errorf("a bundle made in Go: got %s, want line 2, column 2 of the expression", got)
	}
}

func TestRefusalsNameEachFault(t *testing.T) {
	t.Parallel()
	_, err := policy.Load([]byte(bundle("- {name: two, approvers: 30, when: classs}", "timezone: Nowhere")))
	e, ok := registry.AsError(err)
	if !ok || e.Code != registry.CodeInvalid || len(e.Fields) != 3 {
		t.Fatalf("got %#v", err)
	}
	for i, want := range []registry.Field{
		{Path: "approval[1].approvers", Message: "5:26: rule two: must be a number from 1 to 20"},
		{Path: "approval[1].when", Message: "5:36: rule two: undeclared reference to 'classs' (in container '')"},
		{Path: "timezone", Message: "6:11: is no time zone of the IANA database, such as Europe/Berlin"},
	} {
		if e.Fields[i] != want {
			t.Errorf("fault %d: got %v, want %v", i, e.Fields[i], want)
		}
	}
	if want := "the policy bundle has 3 faults; the first: 5:26: rule two: approval[1].approvers: must be a number from 1 to 20"; e.Message != want {
		t.Errorf("got %q, want %q", e.Message, want)
	}
}

// Whatever is written as a rule is either refused with a reason or can be evaluated, and neither stops the process.
func FuzzExpression(f *testing.F) {
	for _, when := range []string{
		`class == "read"`, `server.labels[?"a"].orValue("") == "b"`, `tool.name.matches("a{2,3}")`, `tool.hints.exists(h, h == "a")`,
		`now - duration("1h") < timestamp("2026-01-01T00:00:00Z")`, `[1, 2].map(a, a * 2).size() > 0 ? true : 1 / 0 == 0`, `b"\x00" == bytes(tool.text)`,
		`{"a": optional.of(1)}[?"a"].hasValue()`, `type(class) == string`, "tool.title\n  != ''",
	} {
		f.Add(when)
	}
	f.Fuzz(func(t *testing.T, when string) {
		b := &policy.Bundle{
			Name: "x", Version: 1, Approval: []policy.ApprovalRule{{Name: "one", When: when, Approvers: 1}},
			Calls: []policy.CallRule{{Name: "two", When: when, Deny: "no"}},
		}
		p, problems := policy.Compile(b)
		for _, problem := range problems {
			if problem.Message == "" || strings.Contains(problem.Message, "the compiler failed") {
				t.Errorf("%q: %s", when, problem)
			}
		}
		if p == nil {
			b.Calls = nil
			if p, _ = policy.Compile(b); p == nil {
				return
			}
		}
		item := policy.Item{Name: "get", Text: "text", Hints: []string{"a"}, Annotations: map[string]bool{"readOnlyHint": true}}
		in := policy.Approval{Review: "r", Content: "c", Items: []policy.Item{item}, Now: policy.CaseTime}
		first, second := p.Approve(in), p.Approve(in)
		if fmt.Sprintf("%+v", first.Refusal) != fmt.Sprintf("%+v", second.Refusal) && (first.Refusal == nil || second.Refusal == nil || *first.Refusal != *second.Refusal) {
			t.Errorf("%q: %+v, then %+v", when, first.Refusal, second.Refusal)
		}
		call := policy.Call{Server: &policy.Server{Labels: map[string]string{"a": "b", "c": "d"}}, Now: policy.CaseTime}
		if one, two := p.Call(call), p.Call(call); one != two {
			t.Errorf("%q: %+v, then %+v", when, one, two)
		}
	})
}
