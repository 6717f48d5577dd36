package workflows_test

import (
	"slices"
	"testing"
	"time"

	"countersign/activities"
	"countersign/registry"
	"countersign/workflows"
)

// withdrawAs takes somebody's approval of what is under review back.
func (p *play) withdrawAs(by registry.Actor, done func(out activities.ServerOutput, err error)) {
	p.n++
	in := activities.DecideInput{
		Tenant: "default", ServerID: serverID, Operation: registry.Operation{ID: "withdraw-" + by.Subject + "-" + string(rune('a'+p.n)), Actor: by},
		Ruling: registry.Ruling{Digest: p.server("demo").Review.Digest, Comment: "seen too late"},
	}
	p.update(workflows.DecisionWithdrawApproval, in.Operation.ID, in, func(out any, err error) {
		got, _ := out.(activities.ServerOutput)
		done(got, workflowsError(err))
	})
}

// Four eyes follow a withdrawal: what is left is put to the policy, and what was
// complete is not touched any more.
func TestAnApprovalIsTakenBackAndGivenAgain(t *testing.T) {
	t.Parallel()
	pam := registry.Actor{Subject: "pam", Roles: []registry.Role{registry.RolePlatformAdmin}}
	p := newHouse(t).play()
	p.at(0, p.register) // by ann
	p.at(time.Minute, func() { p.approveAs(maintainer("bob"), registry.ClassPublication, p.fine, "a") })
	p.at(2*time.Minute, func() {
		p.withdrawAs(maintainer("carl"), p.refused(registry.ReasonNothingToWithdraw))
		p.withdrawAs(maintainer("bob"), func(out activities.ServerOutput, err error) {
			if err != nil || out.Evidence == nil || out.Evidence.Verdict.Policy != "default@1" || out.Evidence.Tally.People != 2 {
				t.Errorf("%+v, %v", out.Evidence, err) // what stands in the history
			}
		})
	})
	p.at(3*time.Minute, func() {
		if v := p.server("demo").Review; len(v.Votes) > 0 || v.Tally != nil || v.Status != registry.ReviewPending {
			t.Errorf("%+v", v)
		}
		p.approveAs(pam, registry.ClassPublication, p.fine, "a") // would have been the second
	})
	p.at(4*time.Minute, func() {
		p.is(registry.StateVerified)
		if tally := p.server("demo").Review.Tally; tally == nil || tally.People != 1 || !slices.Equal(tally.Counted, []string{"pam"}) {
			t.Errorf("%+v", tally)
		}
		p.withdrawAs(maintainer("bob"), p.fine) // again: no fault, and nothing new
		p.approveAs(maintainer("bob"), registry.ClassPublication, p.fine, "a")
	})
	p.at(5*time.Minute, func() {
		p.is(registry.StateActive)
		p.withdrawAs(maintainer("bob"), p.refused(registry.ReasonAlreadyDecided))
	})
	p.at(6*time.Minute, func() {
		p.is(registry.StateActive)
		var outcomes []string
		for _, e := range p.audit("withdraw_approval") {
			outcomes = append(outcomes, e.Actor+" "+e.Outcome+" "+string(e.Reason))
		}
		slices.Sort(outcomes)
		want := []string{"bob applied ", "bob applied ", "bob refused already_decided", "carl refused nothing_to_withdraw"}
		if !slices.Equal(outcomes, want) {
			t.Errorf("the audit has %q", outcomes)
		}
		if n := p.events(registry.EventApprovalWithdrawn); n != 1 {
			t.Errorf("%d events", n)
		}
		decisions, err := p.db.Tenant("default").Decisions(t.Context(), serverID)
		if err != nil {
			t.Fatal(err)
		}
		applied := 0
		for _, d := range decisions {
			if d.Verb == registry.VerbWithdrawApproval && d.Applied {
				applied++
				if d.Subject != "bob" || d.Comment != "seen too late" || d.Evidence == nil || d.Origin != registry.OriginAPI {
					t.Errorf("%+v", d)
				}
			}
		}
		if applied != 1 {
			t.Errorf("%d withdrawals are kept", applied)
		}
		p.retire()
	})
	p.run()
}
