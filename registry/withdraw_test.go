package registry_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/registry"
)

// withdraws takes the approval of somebody back.
func (l *life) withdraws(by registry.Actor, digest string) error {
	return l.do(func(now time.Time) error {
		op := l.op("withdraw_approval")
		op.Actor = by
		return l.r.Decide(registry.Ruling{Verb: registry.VerbWithdrawApproval, Digest: digest}, op, now)
	})
}

// keepsDecision gives the record the decision of the change before, as the
// database does.
func (l *life) keepsDecision() {
	if d := l.last.Decision; d != nil {
		if l.r.Decisions == nil {
			l.r.Decisions = map[string]registry.Decision{}
		}
		l.r.Decisions[d.DecisionID] = *d
	}
}

func (l *life) votesAndKeeps(t *testing.T, by registry.Actor, tools ...string) {
	t.Helper()
	if err := l.votes(by, "good", tools...); err != nil {
		t.Fatal(err)
	}
	l.keepsDecision()
}

func TestAnApprovalIsWithdrawnBeforeItCounts(t *testing.T) {
	t.Parallel()
	l := newLife(t, nil)
	l.r.Governance = demands(registry.ApprovalVerdict{Needed: 3, DistinctFromRequester: true})
	l.sees("a", "b")
	l.r.Server.Review.RequestedBy = "rita"
	digest := l.r.Server.Review.Digest
	l.votesAndKeeps(t, maintainer("bob"), "a")
	l.votesAndKeeps(t, maintainer("carl"), "a")
	version := l.r.Server.Version
	if err := l.withdraws(maintainer("dora"), digest); reasonIn(err) != registry.ReasonNothingToWithdraw {
		t.Errorf("nobody's approval was withdrawn: %v", err)
	}
	if d := l.r.Refused(); d == nil || d.Verb != registry.VerbWithdrawApproval || d.Applied {
		t.Errorf("the refusal is kept as %+v", d)
	}
	if err := l.withdraws(maintainer("carl"), ""); reasonIn(err) != registry.ReasonInvalidArgument {
		t.Errorf("without a digest: %v", err)
	}
	if err := l.withdraws(maintainer("carl"), registry.ReviewDigest("x", "y")); reasonIn(err) != registry.ReasonSuperseded {
		t.Errorf("of another digest: %v", err)
	}
	if err := l.withdraws(maintainer("carl"), digest); err != nil {
		t.Fatal(err)
	}
	v := l.r.Server.Review
	if diff := cmp.Diff([]string{"bob"}, v.Tally.Counted); diff != "" || v.Tally.People != 2 || len(v.Votes) != 1 || v.Status != registry.ReviewPending {
		t.Errorf("%s; %+v", diff, v)
	}
	if d := l.last.Decision; l.r.Server.Version != version+1 || d == nil || !d.Applied || d.Digest != digest || d.Subject != "carl" ||
		d.Evidence == nil || d.Evidence.Verdict.Policy != "test@1" || d.Evidence.Tally.People != 2 {
		t.Errorf("version %d, decision %+v", l.r.Server.Version, l.last.Decision)
	}
	want := registry.ApprovalWithdrawn{
		ServerID: l.r.Server.ServerID, TenantID: l.r.Server.TenantID, Digest: digest, Subject: "carl", DecisionID: l.last.Decision.DecisionID, Remaining: 1,
	}
	if len(l.last.Events) != 1 || l.last.Events[0].Type != registry.EventApprovalWithdrawn || l.last.Events[0].Payload != want {
		t.Errorf("events: %+v", l.last.Events)
	}

	// A repeat finds what it asks for.
	version = l.r.Server.Version
	if err := l.withdraws(maintainer("carl"), digest); err != nil || !l.last.Asked || l.last.Decision != nil || l.r.Server.Version != version {
		t.Errorf("a repeat: %v, %+v", err, l.last)
	}
	// The last one leaves nothing.
	if err := l.withdraws(maintainer("bob"), digest); err != nil {
		t.Fatal(err)
	}
	if v := l.r.Server.Review; v.Tally != nil || v.Votes != nil || l.last.Decision.Evidence.Tally.People != 3 {
		t.Errorf("%+v; %+v", v, l.last.Decision.Evidence)
	}
	// Who approves again counts again, once.
	l.votesAndKeeps(t, maintainer("carl"), "a")
	if v := l.r.Server.Review; len(v.Votes) != 1 || cmp.Diff([]string{"bob"}, v.Withdrawn) != "" {
		t.Errorf("%+v", v)
	}
	l.votesAndKeeps(t, maintainer("bob"), "a")
	l.is(registry.StateVerified)
	l.votesAndKeeps(t, admin, "a")
	l.is(registry.StateActive)
	if v := l.r.Server.Review; len(v.Withdrawn) > 0 {
		t.Errorf("still withdrawn: %v", v.Withdrawn)
	}

	// Now it is in force.
	before := l.r.Server
	err := l.withdraws(maintainer("carl"), digest)
	if e, ok := registry.AsError(err); !ok || e.Reason != registry.ReasonAlreadyDecided || e.Next != "what was approved is in force: quarantine server demo, which takes it out of use at once, or ask for a review and reject it" {
		t.Errorf("after the policy was met: %v, %q", err, e.Next)
	}
	if diff := cmp.Diff(before, l.r.Server); diff != "" {
		t.Error(diff)
	}
	l.denies("a", "")
}

// A withdrawal binds nothing, also when what is left is enough by now.
func TestAWithdrawalNeverApproves(t *testing.T) {
	t.Parallel()
	l := newLife(t, nil)
	l.r.Governance = demands(registry.ApprovalVerdict{Needed: 3})
	l.sees("a")
	digest := l.r.Server.Review.Digest
	l.votesAndKeeps(t, maintainer("bob"), "a")
	l.votesAndKeeps(t, maintainer("carl"), "a")
	l.r.Governance = demands(registry.ApprovalVerdict{Needed: 1})
	if err := l.withdraws(maintainer("carl"), digest); err != nil {
		t.Fatal(err)
	}
	l.is(registry.StateVerified)
	if v := l.r.Server.Review; v.Status != registry.ReviewPending || len(l.r.Bindings) > 0 {
		t.Errorf("%+v, bound %v", v, l.r.Bindings)
	}
	l.votesAndKeeps(t, maintainer("bob"), "a") // says so again
	l.is(registry.StateActive)
}

// The decisions alone tell the same as the review: a withdrawal voids the
// approval before it, and no later one.
func TestWithdrawalsCountInTheDecisions(t *testing.T) {
	t.Parallel()
	vote := func(verb registry.Verb, by string) registry.Vote {
		return registry.Vote{Verb: verb, Subject: by, Review: "r"}
	}
	got := registry.Standing("r", []registry.Vote{
		vote(registry.VerbApprove, "bob"), vote(registry.VerbApprove, "carl"), vote(registry.VerbWithdrawApproval, "bob"),
		vote(registry.VerbWithdrawApproval, "dora"), vote(registry.VerbApprove, "bob"), vote(registry.VerbWithdrawApproval, "carl"),
	})
	if diff := cmp.Diff([]registry.Vote{vote(registry.VerbApprove, "bob")}, got); diff != "" {
		t.Error(diff)
	}
}
