package registry_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/registry"
)

// demands is a policy that wants the same of every approval, and keeps nothing.
func demands(v registry.ApprovalVerdict) registry.Governance {
	return registry.Governance{Approve: func(r *registry.Record, a registry.Approval, _ []registry.Vote, now time.Time) registry.ApprovalVerdict {
		v := v
		v.Bundle, v.Policy, v.EvaluatedAt = "sha256:bundle", "test@1", now
		v.Review, v.Content, v.Requester = a.Digest, a.ContentDigest(), r.Server.Review.RequestedBy
		return v
	}}
}

func maintainer(name string) registry.Actor {
	return registry.Actor{Subject: name, Roles: []registry.Role{registry.RoleAssetMaintainer}}
}

// reasonIn is the reason of an error, empty when there is none.
func reasonIn(err error) registry.Reason {
	if err == nil {
		return ""
	}
	return registry.ReasonOf(err)
}

// votes approves tools as somebody.
func (l *life) votes(by registry.Actor, comment string, tools ...string) error {
	return l.do(func(now time.Time) error {
		op, g := l.op("approve"), approval(l.r.Server.Review.Digest, tools...)
		op.Actor, g.Comment = by, comment
		return l.r.Decide(g, op, now)
	})
}

func TestWithoutAPolicyNothingIsApproved(t *testing.T) {
	t.Parallel()
	for name, g := range map[string]registry.Governance{
		"none": {},
		"one of nothing": {Approve: func(*registry.Record, registry.Approval, []registry.Vote, time.Time) registry.ApprovalVerdict {
			return registry.ApprovalVerdict{}
		}},
		"one for another": {Approve: func(*registry.Record, registry.Approval, []registry.Vote, time.Time) registry.ApprovalVerdict {
			return registry.ApprovalVerdict{Needed: 1, Review: "r", Content: "c"}
		}},
	} {
		l := newLife(t, nil)
		l.sees("a")
		l.r.Governance = g
		if err := l.votes(admin, "", "a"); err == nil {
			t.Errorf("%s: approved", name)
		}
		if d := l.r.Refused(); d == nil || d.Applied || d.Reason == "" || d.Evidence == nil {
			t.Errorf("%s: recorded as %+v", name, d)
		}
		if l.r.Server.State != registry.StateVerified || len(l.r.Bindings) > 0 {
			t.Errorf("%s: %s, %v", name, l.r.Server.State, l.r.Bindings)
		}
	}
}

func TestApprovalsAreCollectedUntilThePolicyIsMet(t *testing.T) {
	t.Parallel()
	l := newLife(t, nil)
	l.r.Governance = demands(registry.ApprovalVerdict{
		Needed: 2, DistinctFromRequester: true, Roles: map[registry.Role]int{registry.RolePlatformAdmin: 1},
		CommentDemandedBy: []registry.CommentDemand{{Rule: "why", Message: "say why"}},
	})
	l.sees("a", "b")
	l.r.Server.Review.RequestedBy = "rita"
	for _, c := range []struct {
		by      registry.Actor
		comment string
		want    registry.Reason
	}{
		{maintainer("rita"), "mine", registry.ReasonRequesterApproves},
		{maintainer("bob"), "", registry.ReasonCommentRequired},
		{registry.Actor{Subject: "olga", Roles: []registry.Role{registry.RoleOperator}}, "x", registry.ReasonPermissionDenied},
		{maintainer("bob"), "good", ""},
		{maintainer("bob"), "good", ""}, // again: nothing more
		{maintainer("carl"), "good", ""},
	} {
		if err := l.votes(c.by, c.comment, "a"); reasonIn(err) != c.want {
			t.Fatalf("%s: %v, want %q", c.by.Subject, err, c.want)
		}
	}
	v := l.r.Server.Review
	if v.Status != registry.ReviewPending || v.Tally == nil || v.Tally.String() != "1 more approval is needed, 1 by a PlatformAdmin, not by rita" {
		t.Fatalf("%+v", v)
	}
	if diff := cmp.Diff([]string{"bob", "carl"}, v.Tally.Counted); diff != "" {
		t.Error(diff)
	}
	l.is(registry.StateVerified)
	if err := l.votes(admin, "good", "a", "b"); err != nil { // something else
		t.Fatal(err)
	}
	l.is(registry.StateVerified)
	if err := l.votes(admin, "good", "a"); err != nil {
		t.Fatal(err)
	}
	l.is(registry.StateActive)
	l.denies("a", "")
	if d := l.last.Decision; !slices.Equal(d.Evidence.Tally.Counted, []string{"bob", "carl", "ann"}) || len(d.Evidence.Votes) != 3 ||
		d.Evidence.Verdict.Policy != "test@1" || l.r.Bindings["a"].DecisionID != d.DecisionID {
		t.Errorf("evidence: %+v", d.Evidence)
	}
	version := l.r.Server.Version
	if err := l.votes(maintainer("bob"), "good", "a"); err != nil || l.r.Server.Version != version || !l.last.Asked || l.last.Decision != nil {
		t.Errorf("a repeat: %v, %+v", err, l.last)
	}
}

func TestANewRequestVoidsWhatWasCollected(t *testing.T) {
	t.Parallel()
	l := newLife(t, nil)
	l.r.Governance = demands(registry.ApprovalVerdict{Needed: 2})
	l.sees("a")
	if err := l.votes(maintainer("bob"), "", "a"); err != nil {
		t.Fatal(err)
	}
	l.sees("a", "b") // another pair
	if v := l.r.Server.Review; v.Status != registry.ReviewPending || len(v.Votes) > 0 || v.Tally != nil {
		t.Fatalf("%+v", v)
	}
	if err := l.votes(maintainer("carl"), "", "a"); err != nil {
		t.Fatal(err)
	}
	l.is(registry.StateVerified)
	l.must(func(now time.Time) error {
		return l.r.Decide(registry.Ruling{Verb: registry.VerbReject, Digest: l.r.Server.Review.Digest, Comment: "no"}, l.op("reject"), now)
	})
	if err := l.votes(maintainer("bob"), "", "a"); registry.ReasonOf(err) != registry.ReasonAlreadyDecided {
		t.Errorf("after a rejection: %v", err)
	}
}

// C5: text and behaviour as far as the policy says, contract and target never.
func TestThePolicyKeepsSomeDriftBound(t *testing.T) {
	t.Parallel()
	tool := func(text, schema, annotations string) registry.Surface {
		return registry.Surface{ProtocolVersion: "2026-07-28", Kinds: []string{"tools"}, Tools: [][]byte{
			[]byte(`{"name":"a","description":"` + text + `","inputSchema":{"type":"object"` + schema + `}` + annotations + `}`),
		}}
	}
	everything := func(_ *registry.Record, _ registry.Item, m registry.Moved, _ time.Time) registry.DriftVerdict {
		return registry.DriftVerdict{Keep: true, Rule: "all", Policy: "test@1"}
	}
	for name, c := range map[string]struct {
		drift func(*registry.Record, registry.Item, registry.Moved, time.Time) registry.DriftVerdict
		next  registry.Surface
		kept  bool
	}{
		"text":                     {everything, tool("other", "", `,"annotations":{"readOnlyHint":true}`), true},
		"text, and no policy":      {nil, tool("other", "", `,"annotations":{"readOnlyHint":true}`), false},
		"contract":                 {everything, tool("old", `,"required":["x"]`, `,"annotations":{"readOnlyHint":true}`), false},
		"behaviour":                {everything, tool("old", "", `,"annotations":{"readOnlyHint":true,"idempotentHint":true}`), true},
		"behaviour that escalates": {everything, tool("old", "", ""), false},
		"a policy that fails": {func(*registry.Record, registry.Item, registry.Moved, time.Time) registry.DriftVerdict {
			return registry.DriftVerdict{Keep: true, Reason: registry.ReasonPolicyError}
		}, tool("other", "", `,"annotations":{"readOnlyHint":true}`), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLife(t, nil)
			l.r.Governance.Drift = c.drift
			l.seesSurface(tool("old", "", `,"annotations":{"readOnlyHint":true}`))
			l.approves("a")
			l.seesSurface(c.next)
			b := l.r.Bindings["a"]
			if b.Bound != c.kept || b.Holds(l.r.Tools["a"].Digests, l.r.Server.TargetDigest) != c.kept {
				t.Errorf("bound: %t, want %t; note %q", b.Bound, c.kept, l.last.Note)
			}
			if c.kept && l.last.Detail == nil {
				t.Error("the audit does not say what was kept")
			}
		})
	}
}

func TestAnApprovalExpires(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	l := newLife(t, nil)
	l.r.Governance = demands(registry.ApprovalVerdict{Needed: 1, Expiry: registry.Expiry{
		After: 180 * day, Recertify: 30 * day, Grace: 7 * day, Remind: []time.Duration{30 * day, day},
	}})
	l.sees("a", "b")
	l.approves("a", "b")
	approved := l.last.Decision.DecidedAt
	b := *l.r.Bindings["a"]
	if !b.DueAt.Equal(approved.Add(180*day)) || !b.EndsAt.Equal(approved.Add(187*day)) {
		t.Fatalf("due %s, ends %s", b.DueAt, b.EndsAt)
	}
	var moments []time.Time
	pass := func() registry.Changes {
		at := l.r.Server.NextTerm()
		moments = append(moments, at)
		l.must(func(time.Time) error { return l.r.PassTerms(at, at) })
		return l.last
	}
	first := pass() // a reminder and the review at once
	if v := l.r.Server.Review; v.Status != registry.ReviewPending || !v.ExpiresAt.Equal(b.EndsAt) || !first.Bump {
		t.Errorf("no review was opened: %+v", v)
	}
	pass()
	if c := pass(); len(c.Events) != 1 || c.Events[0].Type != registry.EventApprovalExpiring || c.Bump {
		t.Errorf("%+v", c.Events)
	}
	l.denies("a", "")
	last := pass()
	if len(last.Events) != 2 || last.Events[0].Type != registry.EventApprovalExpired || last.Events[1].Type != registry.EventBindingsChanged || !last.Bump || l.r.Bindings["a"].Bound {
		t.Errorf("%+v", last)
	}
	l.denies("a", registry.ReasonApprovalExpired)
	want := []time.Time{approved.Add(150 * day), approved.Add(179 * day), approved.Add(180 * day), approved.Add(187 * day)}
	if diff := cmp.Diff(want, moments); diff != "" {
		t.Error(diff)
	}
	if !l.r.Server.NextTerm().IsZero() {
		t.Errorf("something is still to come: %+v", l.terms())
	}
	// Approved again, the clock begins anew.
	l.approves("a")
	l.denies("a", "")
	if len(l.terms()) != 1 || l.terms()[0].DecisionID != l.r.Bindings["a"].DecisionID {
		t.Errorf("%+v", l.terms())
	}
}

// terms are those of approvals.
func (l *life) terms() (out []registry.Term) {
	for _, t := range l.r.Server.Terms {
		if t.Kind == registry.TermApproval {
			out = append(out, t)
		}
	}
	return out
}

func TestRecertifyingInTimeLeavesNothingToEnd(t *testing.T) {
	t.Parallel()
	l := newLife(t, nil)
	l.r.Governance = demands(registry.ApprovalVerdict{Needed: 1, Expiry: registry.Expiry{After: 10 * time.Hour, Recertify: 5 * time.Hour}})
	l.sees("a")
	l.approves("a")
	old := l.terms()[0]
	at := l.r.Server.NextTerm()
	l.must(func(time.Time) error { return l.r.PassTerms(at, at) })
	l.approves("a")
	if len(l.terms()) != 1 || l.terms()[0].DecisionID == old.DecisionID {
		t.Fatalf("%+v", l.terms())
	}
	l.must(func(time.Time) error { return l.r.PassTerms(old.EndsAt, old.EndsAt) })
	if b := l.r.Bindings["a"]; b.Bound != l.terms()[0].EndsAt.After(old.EndsAt) {
		t.Errorf("bound: %t; %+v", b.Bound, l.terms())
	}
}

func TestAnExceptionIsRenewed(t *testing.T) {
	t.Parallel()
	l := newLife(t, func(g *registry.Registration) {
		g.Authentication, g.ExceptionReason = registry.AuthNoneException, "a demo"
	})
	renew := func(by registry.Actor, until time.Time, comment string) error {
		return l.do(func(now time.Time) error {
			op := l.op("renew_exception")
			op.Actor = by
			return l.r.Decide(registry.Ruling{Verb: registry.VerbRenew, ExceptionExpiresAt: until, Comment: comment}, op, now)
		})
	}
	end := t0.Add(30 * 24 * time.Hour)
	l.sees("a")
	if err := renew(admin, end, "x"); registry.ReasonOf(err) != registry.ReasonExceptionRequired {
		t.Errorf("before it was approved: %v", err)
	}
	l.must(func(now time.Time) error {
		g := approval(l.r.Server.Review.Digest, "a")
		g.Approval.ExceptionExpiresAt = end
		return l.r.Decide(g, l.op("approve"), now)
	})
	for _, c := range []struct {
		by      registry.Actor
		until   time.Time
		comment string
		want    registry.Reason
	}{
		{maintainer("bob"), end.Add(time.Hour), "x", registry.ReasonPermissionDenied},
		{admin, t0, "x", registry.ReasonExceptionExpiry},
		{admin, time.Time{}, "x", registry.ReasonExceptionExpiry},
		{admin, end.Add(time.Hour), "", registry.ReasonInvalidArgument},
		{admin, end, "the same", ""},
	} {
		if err := renew(c.by, c.until, c.comment); reasonIn(err) != c.want {
			t.Errorf("%+v: %v", c, err)
		}
	}
	l.must(func(time.Time) error { return l.r.ExpireException(end, end) })
	l.is(registry.StateDegraded, registry.CauseAuthExceptionExpired)
	if err := renew(admin, end.Add(24*time.Hour), "still a demo"); err != nil {
		t.Fatal(err)
	}
	l.is(registry.StateActive)
	if v := l.r.Server.Review; v.Status == registry.ReviewPending {
		t.Errorf("there is nothing left to review: %+v", v)
	}
	l.sees("a")
	l.is(registry.StateActive)
	if v := l.r.Server.Review; v.Status == registry.ReviewPending {
		t.Errorf("there is nothing left to review: %+v", v)
	}
}

func TestAnotherPolicyUnbindsWhatItWouldNotAdmit(t *testing.T) {
	t.Parallel()
	l := newLife(t, nil)
	l.sees("a", "b")
	l.approves("a", "b")
	l.r.Decisions = map[string]registry.Decision{l.last.Decision.DecisionID: *l.last.Decision}
	again := func(g registry.Governance) (unfit []registry.Unfit) {
		l.r.Governance = g
		l.must(func(now time.Time) (err error) { unfit, err = l.r.Reevaluate(now); return err })
		return unfit
	}
	if unfit := again(demands(registry.ApprovalVerdict{Needed: 1})); unfit != nil || l.last.Server {
		t.Errorf("%+v, %+v", unfit, l.last)
	}
	only := demands(registry.ApprovalVerdict{Needed: 1})
	two := demands(registry.ApprovalVerdict{Needed: 2})
	unfit := again(registry.Governance{Approve: func(r *registry.Record, a registry.Approval, votes []registry.Vote, now time.Time) registry.ApprovalVerdict {
		if a.Tools[0].Tool == "b" {
			return two.Approve(r, a, votes, now)
		}
		return only.Approve(r, a, votes, now)
	}})
	want := []registry.Unfit{{
		Kind: registry.KindTool, Name: "b", ToolID: "demo.b", Class: registry.ClassRead, DecisionID: l.r.Bindings["a"].DecisionID,
		Reason: registry.ReasonPolicyChanged, Detail: "1 more approval is needed",
	}}
	if diff := cmp.Diff(want, unfit); diff != "" {
		t.Error(diff)
	}
	l.denies("a", "")
	l.denies("b", registry.ReasonSchemaChanged)
	if l.r.Server.Review.Status != registry.ReviewPending {
		t.Error("nobody is asked to approve it again")
	}
	// A policy by which approvals expire ends this one sooner, too.
	if unfit := again(demands(registry.ApprovalVerdict{Needed: 1, Expiry: registry.Expiry{After: time.Hour}})); unfit != nil {
		t.Errorf("%+v", unfit)
	}
	if len(l.terms()) != 1 || l.r.Bindings["a"].EndsAt.IsZero() {
		t.Errorf("%+v", l.terms())
	}
	if unfit := again(registry.Governance{}); len(unfit) != 1 {
		t.Errorf("a missing policy keeps %+v", unfit)
	}
	if unfit := again(demands(registry.ApprovalVerdict{Needed: 1})); unfit != nil || l.r.Bindings["a"].Bound {
		t.Errorf("a policy gives callability: %+v", unfit)
	}
}
