package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"countersign/registry"
)

// Case is a test of a bundle: one input and what of its verdict is expected. A bundle can carry its own, so that who
// changes a rule sees what else changes.
type Case struct {
	Name     string        `json:"name"`
	Approval *ApprovalCase `json:"approval,omitzero"` // exactly one of these three
	Drift    *DriftCase    `json:"drift,omitzero"`
	Call     *CallCase     `json:"call,omitzero"`
	Expect   Expectation   `json:"expect"`
}

// ApprovalCase is an approval and those who gave it.
type ApprovalCase struct {
	Server    Server    `json:"server,omitzero"`
	Requester string    `json:"requester,omitzero"`
	Items     []Item    `json:"items,omitzero"` // none: the empty set
	Approvers []Voter   `json:"approvers,omitzero"`
	Now       time.Time `json:"now,omitzero"` // CaseTime when left out
}

// Voter is somebody who approved.
type Voter struct {
	Subject string          `json:"subject"`
	Roles   []registry.Role `json:"roles,omitzero"`
	Comment string          `json:"comment,omitzero"`
	At      time.Time       `json:"at,omitzero"` // the case's now when left out
}

// DriftCase is a bound tool that drifted.
type DriftCase struct {
	Server Server    `json:"server,omitzero"`
	Item   Item      `json:"item,omitzero"`
	Now    time.Time `json:"now,omitzero"`
}

// CallCase is a call.
type CallCase struct {
	Server    Server         `json:"server,omitzero"`
	ToolID    string         `json:"tool_id,omitzero"`
	Tool      string         `json:"tool,omitzero"`
	Class     registry.Class `json:"class,omitzero"`
	Agent     string         `json:"agent,omitzero"`
	Workspace string         `json:"workspace,omitzero"`
	Now       time.Time      `json:"now,omitzero"`
}

// Expectation is what a test expects; what it leaves out may be anything.
type Expectation struct {
	Status       registry.TallyStatus  `json:"status,omitzero"`    // of an approval: approved, needs_approvals, refused
	Approvers    *int                  `json:"approvers,omitzero"` // so many are needed
	NotRequester *bool                 `json:"not_requester,omitzero"`
	Roles        map[registry.Role]int `json:"roles,omitzero"`
	Comment      *bool                 `json:"comment,omitzero"` // is demanded
	Expires      *Duration             `json:"expires,omitzero"` // due so long after the approval; 0s: never
	Counted      []string              `json:"counted,omitzero"` // of the approvers
	Keeps        *bool                 `json:"keeps,omitzero"`   // of drift
	Allowed      *bool                 `json:"allowed,omitzero"` // of a call
	Rule         string                `json:"rule,omitzero"`    // that refuses, keeps or denies
	Reason       registry.Reason       `json:"reason,omitzero"`
}

// CaseTime is the time of a test that names none: a Monday at noon, UTC.
var CaseTime = time.Date(2026, time.January, 5, 12, 0, 0, 0, time.UTC)

// Result is what became of a test.
type Result struct {
	Case  string   `json:"case"`
	Diffs []string `json:"diffs,omitempty"` // what is not as expected; none: passed
}

// Passed says whether everything was as expected.
func (r Result) Passed() bool { return len(r.Diffs) == 0 }

// Test runs tests against a policy: those of its bundle, or others that ParseCases has read.
func Test(p *Policy, cases []Case) []Result {
	results := make([]Result, len(cases))
	for i := range cases {
		c := &cases[i]
		results[i].Case = c.Name
		switch {
		case c.Approval != nil:
			results[i].Diffs = c.approval(p)
		case c.Drift != nil:
			results[i].Diffs = c.drift(p)
		case c.Call != nil:
			results[i].Diffs = c.call(p)
		default:
			results[i].Diffs = []string{"there is nothing to test"}
		}
	}
	return results
}

// diffs collects what is not as expected.
type diffs []string

func differ[T comparable](d *diffs, what string, got, want T) {
	if got != want {
		*d = append(*d, fmt.Sprintf("%s is %v, expected %v", what, got, want))
	}
}

func differIf[T comparable](d *diffs, what string, got T, want *T) {
	if want != nil {
		differ(d, what, got, *want)
	}
}

func (d *diffs) why(gotRule string, gotReason registry.Reason, want Expectation) {
	if want.Rule != "" {
		differ(d, "rule", gotRule, want.Rule)
	}
	if want.Reason != "" {
		differ(d, "reason", gotReason, want.Reason)
	}
}

func (c *Case) approval(p *Policy) []string {
	const review, content = "sha256:review", "sha256:content"
	in := Approval{
		Review: review, Content: content, Server: c.Approval.Server, Requester: c.Approval.Requester, Items: c.Approval.Items,
		Now: at(c.Approval.Now, CaseTime),
	}
	for _, a := range c.Approval.Approvers {
		in.Votes = append(in.Votes, registry.Vote{
			Verb: registry.VerbApprove, Review: review, Content: content, Subject: a.Subject, Roles: a.Roles, Comment: a.Comment,
			At: at(a.At, in.Now),
		})
	}
	v := p.Approve(in)
	tally := v.Tally(in.Votes)
	var d diffs
	if c.Expect.Status != "" && tally.Status != c.Expect.Status {
		d = append(d, fmt.Sprintf("status is %s, expected %s (%s)", tally.Status, c.Expect.Status, tally))
	}
	differIf(&d, "approvers", v.Needed, c.Expect.Approvers)
	differIf(&d, "not_requester", v.DistinctFromRequester, c.Expect.NotRequester)
	if c.Expect.Roles != nil && !maps.Equal(v.Roles, c.Expect.Roles) {
		d = append(d, fmt.Sprintf("roles are %v, expected %v", v.Roles, c.Expect.Roles))
	}
	differIf(&d, "comment", len(v.CommentDemandedBy) > 0, c.Expect.Comment)
	if c.Expect.Expires != nil {
		differ(&d, "expires", v.Expiry.After, time.Duration(*c.Expect.Expires))
	}
	if c.Expect.Counted != nil && !slices.Equal(tally.Counted, c.Expect.Counted) {
		d = append(d, fmt.Sprintf("counted are %v, expected %v", tally.Counted, c.Expect.Counted))
	}
	var refusal registry.PolicyRefusal
	if tally.Refusal != nil {
		refusal = *tally.Refusal
	}
	d.why(refusal.Rule, refusal.Reason, c.Expect)
	return d
}

func (c *Case) drift(p *Policy) []string {
	v := p.Drift(Drift{Server: c.Drift.Server, Item: c.Drift.Item, Now: at(c.Drift.Now, CaseTime)})
	var d diffs
	differIf(&d, "keeps", v.Keeps(c.Drift.Item.Drift), c.Expect.Keeps)
	d.why(v.Rule, v.Reason, c.Expect)
	return d
}

func (c *Case) call(p *Policy) []string {
	v := p.Call(Call{
		Server: &c.Call.Server, ToolID: c.Call.ToolID, Tool: c.Call.Tool, Class: c.Call.Class, Agent: c.Call.Agent,
		Workspace: c.Call.Workspace, Now: at(c.Call.Now, CaseTime),
	})
	var d diffs
	differIf(&d, "allowed", v.Denial() == nil, c.Expect.Allowed)
	d.why(v.Rule, v.Reason, c.Expect)
	return d
}

func at(t, otherwise time.Time) time.Time {
	if t.IsZero() {
		return otherwise
	}
	return t
}

// checkTests finds tests that cannot be run, or that could not fail.
func (b *Bundle) checkTests() []Problem {
	var problems []Problem
	if len(b.Tests) > MaxTests {
		return append(problems, b.problem("", 0, "tests", "there are %d tests, the limit is %d", len(b.Tests), MaxTests))
	}
	names := map[string]bool{}
	for i := range b.Tests {
		c := &b.Tests[i]
		fault := func(field, format string, args ...any) {
			problems = append(problems, b.problem("tests", i, field, format, args...))
		}
		if strings.TrimSpace(c.Name) == "" || len(c.Name) > MaxText {
			fault("name", "must be a text of at most %d bytes", MaxText)
		}
		if names[c.Name] {
			fault("name", "another test has this name")
		}
		names[c.Name] = true
		c.check(fault)
	}
	return problems
}

func (c *Case) check(fault func(field, format string, args ...any)) {
	e := c.Expect
	ofApproval := e.Status != "" || e.Approvers != nil || e.NotRequester != nil || e.Roles != nil || e.Comment != nil || e.Expires != nil || e.Counted != nil
	ofDrift, ofCall := e.Keeps != nil, e.Allowed != nil
	inputs := 0
	for _, part := range []struct {
		name             string
		given            bool
		expects, foreign bool
	}{
		{"approval", c.Approval != nil, ofApproval, ofDrift || ofCall},
		{"drift", c.Drift != nil, ofDrift, ofApproval || ofCall},
		{"call", c.Call != nil, ofCall, ofApproval || ofDrift},
	} {
		if !part.given {
			continue
		}
		inputs++
		if part.foreign {
			fault("expect", "names what a verdict about %s does not have", part.name)
		}
		if !part.expects && e.Rule == "" && e.Reason == "" {
			fault("expect", "expects nothing, so the test could not fail")
		}
	}
	if inputs != 1 {
		fault("", "needs one of approval, drift and call")
	}
	word := func(field, got string, known []string) {
		if got != "" && !slices.Contains(known, got) {
			fault(field, "is never %q; it is one of %q", got, known)
		}
	}
	server := func(field string, s Server) {
		word(field+".direction", string(s.Direction), words["server.direction"])
		word(field+".transport", string(s.Transport), words["server.transport"])
		word(field+".authentication", string(s.Authentication), words["server.authentication"])
		word(field+".state", string(s.State), words["server.state"])
	}
	item := func(field string, it Item) {
		word(field+".kind", string(it.Kind), words["kind"])
		word(field+".class", string(it.Class), words["class"])
		word(field+".approved_class", string(it.ApprovedClass), words["class"])
		word(field+".drift.severity", it.Drift.Severity, words["drift.severity"])
	}
	roles := func(field string, list []registry.Role) {
		for _, role := range list {
			word(field, string(role), words["approver.roles"])
		}
	}
	if a := c.Approval; a != nil {
		server("approval.server", a.Server)
		for i, it := range a.Items {
			item(fmt.Sprintf("approval.items[%d]", i), it)
		}
		for i, voter := range a.Approvers {
			if voter.Subject == "" {
				fault(fmt.Sprintf("approval.approvers[%d].subject", i), "is required")
			}
			roles(fmt.Sprintf("approval.approvers[%d].roles", i), voter.Roles)
		}
	}
	if c.Drift != nil {
		server("drift.server", c.Drift.Server)
		item("drift.item", c.Drift.Item)
	}
	if c.Call != nil {
		server("call.server", c.Call.Server)
		word("call.class", string(c.Call.Class), words["class"])
	}
	roles("expect.roles", slices.Sorted(maps.Keys(e.Roles)))
	word("expect.status", string(e.Status), texts([]registry.TallyStatus{registry.TallyApproved, registry.TallyNeeds, registry.TallyRefused}))
	if e.Reason != "" && e.Reason.Means() == "" {
		fault("expect.reason", "there is no reason %q", string(e.Reason))
	}
}
