package policy

import (
	"fmt"
	"time"

	"countersign/registry"
)

// Governance lets a record ask the policy. A nil policy refuses everything.
//
// What rules see as hints is what an item's own bytes say; what only the names of
// other servers' tools show is for people.
func (p *Policy) Governance() registry.Governance {
	return registry.Governance{Approve: p.approveOf, Drift: p.driftOf, Deadlines: p.deadlines()}
}

// deadlines gives what the bundle says of requests and exceptions.
func (p *Policy) deadlines() registry.Deadlines {
	if p == nil {
		return registry.Deadlines{}
	}
	r, e := p.bundle.Requests, p.bundle.Exceptions
	return registry.Deadlines{Request: time.Duration(r.Expire), RemindRequest: durations(r.Remind), RemindExceptions: durations(e.Remind)}
}

// durations gives nil for a list that a document does not have.
func durations(list []Duration) []time.Duration {
	if list == nil {
		return nil
	}
	out := make([]time.Duration, len(list))
	for i, d := range list {
		out[i] = time.Duration(d)
	}
	return out
}

// approveOf puts an approval of a record to the policy. The bytes of what it
// names, or what they state, must be in the record's snapshot.
func (p *Policy) approveOf(r *registry.Record, a registry.Approval, votes []registry.Vote, now time.Time) registry.ApprovalVerdict {
	in := ApprovalOf(r, a, votes, now)
	for i := range in.Items {
		item := &in.Items[i]
		if seen, found := find(r.Snapshot, item.Kind, item.Name); found {
			said := seen.Says()
			item.Hints, item.Annotations = said.Hints, said.Annotations
		}
	}
	return p.Approve(in)
}

// driftOf puts the drift of a bound tool to the policy, which sees it as it is
// now.
func (p *Policy) driftOf(r *registry.Record, seen registry.Item, m registry.Moved, now time.Time) registry.DriftVerdict {
	said := seen.Says()
	item := Item{
		Kind: registry.KindTool, Name: seen.Name, Title: seen.Title, Text: seen.Text, Annotations: said.Annotations, Hints: said.Hints, Drift: m,
	}
	if b := r.Bindings[seen.Name]; b != nil {
		item.Class, item.ApprovedClass = b.DeclaredClass, b.DeclaredClass
	}
	if tool := r.Tools[seen.Name]; tool != nil {
		item.ID = tool.ToolID
	}
	return p.Drift(Drift{Server: ServerOf(&r.Server), Item: item, Now: now})
}

// Of gives the policy that governs a record's server, as far as the reference
// can be followed: nil, which refuses everything, when it names no bundle that
// there is. The error says what is wrong with a bundle that is there; the policy
// is nil then, too.
func (c *Cache) Of(r *registry.Record) (*Policy, error) {
	return c.ByRef(r.Server.GovernancePolicyRef, r.Bundle)
}

// ByRef gives the policy that a reference names: the built-in one, or the
// published bundle that the caller found under it; nil, which refuses everything,
// when there is none.
func (c *Cache) ByRef(ref string, published *registry.PolicyBundle) (*Policy, error) {
	if p := Builtin(ref); p != nil || published == nil {
		return p, nil
	}
	return c.Get(published.Digest, func() ([]byte, error) { return published.Document, nil })
}

// Builtin gives the built-in policy when a reference names it, nil otherwise.
func Builtin(ref string) *Policy {
	named, err := registry.ParsePolicyRef(ref)
	if err != nil || named.Name != registry.PolicyDefault || named.Version != 0 && named.Version != Default().Bundle().Version {
		return nil
	}
	return Default()
}

// Stored gives what is kept of a policy when it is published.
func (p *Policy) Stored() registry.PolicyBundle {
	b := p.bundle
	return registry.PolicyBundle{
		Name: b.Name, Version: b.Version, Ref: b.Ref(), Digest: p.digest, Description: b.Description, Document: b.Canonical(),
	}
}

// Publishable gives the policy of a document that may be published: one that can
// be compiled, has another name than the built-in one, and whose own tests pass.
// The error names each fault.
func Publishable(document []byte) (*Policy, error) {
	p, err := Load(document)
	if err != nil {
		return nil, err
	}
	if p.bundle.Name == registry.PolicyDefault {
		return nil, Refusal([]Problem{p.bundle.problem("", 0, "name", "the built-in policy has this name: choose another")})
	}
	if err := Failures(Test(p, p.bundle.Tests)); err != nil {
		return nil, err
	}
	return p, nil
}

// Failures gives the tests that failed as the error that callers get, nil when
// there are none.
func Failures(results []Result) error {
	failed := 0
	e := registry.Errorf(registry.ReasonPolicyTests, "")
	for i, r := range results {
		if r.Passed() {
			continue
		}
		if failed++; failed <= maxFields {
			e.WithField(fmt.Sprintf("tests[%d]", i), "%s: %s", r.Case, r.Diffs[0])
		}
	}
	if failed == 0 {
		return nil
	}
	e.Message = fmt.Sprintf("%d of %d tests of the policy bundle fail; the first: %s", failed, len(results), e.Fields[0].Message)
	return e
}
