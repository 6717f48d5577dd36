package workflows_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/activities"
	"countersign/db"
	"countersign/policy"
	"countersign/registry"
	"countersign/workflows"
)

// publishes makes a bundle the newest of its name.
func (h *house) publishes(document string) registry.PolicyBundle {
	h.Helper()
	p, err := policy.Publishable([]byte(document))
	if err != nil {
		h.Fatal(err)
	}
	b, _, err := h.db.Tenant("default").PublishPolicy(context.Background(), p.Stored(), registry.Operation{ID: p.Digest(), Name: "publish_policy", Actor: admin})
	if err != nil {
		h.Fatal(err)
	}
	return b
}

func (h *house) audit(action string) []db.AuditEntry {
	h.Helper()
	all, _, err := h.db.Tenant("default").Audit(context.Background(), db.AuditQuery{})
	if err != nil {
		h.Fatal(err)
	}
	return slices.DeleteFunc(all, func(e db.AuditEntry) bool { return e.Action != action })
}

func (h *house) events(kind registry.EventType) int {
	h.Helper()
	all, _, err := h.db.Tenant("default").OutboxAfter(context.Background(), db.Position{}, 1000)
	if err != nil {
		h.Fatal(err)
	}
	n := 0
	for _, e := range all {
		if e.Type == kind {
			n++
		}
	}
	return n
}

func (h *house) denied(toolID string) registry.Reason {
	h.Helper()
	views, err := h.db.Tenant("default").Resolve(context.Background(), []string{toolID})
	if err != nil {
		h.Fatal(err)
	}
	if d := views[toolID].Denial; d != nil {
		return d.Reason
	}
	return ""
}

func maintainer(name string) registry.Actor {
	return registry.Actor{Subject: name, Roles: []registry.Role{registry.RoleAssetMaintainer}}
}

// Steps are minutes apart, not seconds: while an activity runs, time is not skipped.

// registerUnder registers the server under a policy.
func (p *play) registerUnder(ref string) {
	in := registration()
	in.Registration.GovernancePolicyRef = ref
	p.update(workflows.UpdateRegister, "op-register", in, nil)
}

// approveAs approves tools as a class, as somebody, and hands the outcome on.
func (p *play) approveAs(by registry.Actor, class registry.Class, done func(out activities.ServerOutput, err error), tools ...string) {
	in := p.approval(tools...)
	in.Operation.Actor = by
	for i := range in.Ruling.Approval.Tools {
		in.Ruling.Approval.Tools[i].Class = class
	}
	p.update(workflows.DecisionApprove, in.Operation.ID, in, func(out any, err error) {
		got, _ := out.(activities.ServerOutput)
		done(got, workflowsError(err))
	})
}

func (p *play) fine(_ activities.ServerOutput, err error) {
	if err != nil {
		p.Error(err)
	}
}

func (p *play) refused(want registry.Reason) func(activities.ServerOutput, error) {
	return func(_ activities.ServerOutput, err error) {
		if err == nil || registry.ReasonOf(err) != want {
			p.Errorf("%v, want %s", err, want)
		}
	}
}

// N of M and four eyes, by the built-in policy.
func TestAPublicationTakesTwoPeopleAndNotTheRequester(t *testing.T) {
	t.Parallel()
	p := newHouse(t).play()
	p.at(0, p.register) // by ann
	p.at(time.Minute, func() {
		p.approveAs(admin, registry.ClassPublication, p.refused(registry.ReasonRequesterApproves), "a")
	})
	p.at(2*time.Minute, func() { p.approveAs(maintainer("bob"), registry.ClassPublication, p.fine, "a") })
	p.at(3*time.Minute, func() {
		p.is(registry.StateVerified)
		if tally := p.server("demo").Review.Tally; tally == nil || tally.People != 1 || tally.Roles[registry.RolePlatformAdmin] != 1 {
			t.Errorf("%+v", tally)
		}
		p.approveAs(maintainer("carl"), registry.ClassPublication, p.fine, "a") // two, none of them an administrator
	})
	p.at(4*time.Minute, func() {
		p.is(registry.StateVerified)
		p.approveAs(registry.Actor{Subject: "pam", Roles: []registry.Role{registry.RolePlatformAdmin}}, registry.ClassPublication, func(out activities.ServerOutput, err error) {
			if err != nil || out.Evidence == nil {
				t.Errorf("%+v, %v", out.Evidence, err)
				return
			}
			e := out.Evidence // what stands in the history
			if e.Verdict.Bundle != policy.Default().Digest() || e.Verdict.Policy != "default@1" || !slices.Equal(e.Tally.Counted, []string{"bob", "carl", "pam"}) {
				t.Errorf("%+v", e)
			}
		}, "a")
	})
	p.at(5*time.Minute, func() { p.is(registry.StateActive); p.retire() })
	p.run()
}

const brief = `name: brief
version: 1
approval:
  - name: all
    when: 'true'
    approvers: 1
    expiry: {after: 10d, recertify: 3d, grace: 1d, remind: [2d]}
`

func TestAnApprovalIsRemindedOfRecertifiedAndExpires(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	h := newHouse(t)
	h.publishes(brief)
	p := h.play()
	p.at(0, func() { p.registerUnder("brief") })
	p.at(time.Minute, func() { p.approve("a", "b") })
	p.at(2*time.Minute, func() {
		if got := p.denied("demo.a"); got != "" || len(p.server("demo").Terms) != 1 {
			t.Errorf("%s, %+v", got, p.server("demo").Terms)
		}
	})
	p.at(7*day+time.Minute, func() {
		if v := p.server("demo").Review; v.Status != registry.ReviewPending || v.RequestedBy != "system:recertification" {
			t.Errorf("%+v", v)
		}
	})
	p.at(8*day+time.Minute, func() {
		if n := h.events(registry.EventApprovalExpiring); n != 1 {
			t.Errorf("%d reminders", n)
		}
	})
	p.at(10*day+time.Minute, func() { // due, and in its grace time
		if n := h.events(registry.EventApprovalExpiring); n != 2 {
			t.Errorf("%d reminders", n)
		}
		if v := p.server("demo").Review; v.Status != registry.ReviewPending {
			t.Errorf("the question is no longer open: %+v", v)
		}
		p.is(registry.StateActive)
	})
	p.at(11*day+time.Minute, func() {
		if n := h.events(registry.EventApprovalExpired); n != 1 {
			t.Errorf("%d ends", n)
		}
		if got := p.denied("demo.a"); got != registry.ReasonApprovalExpired {
			t.Errorf("denied as %q", got)
		}
		// It can be approved again. (Time is skipped for the workflow alone: that approval would be over at once.)
		if v := p.server("demo").Review; v.Status != registry.ReviewPending {
			t.Errorf("nobody is asked to approve it again: %+v", v)
		}
		p.is(registry.StateActive)
		p.retire()
	})
	p.run()
}

func TestARecertifiedApprovalDoesNotExpire(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	h := newHouse(t)
	h.publishes(strings.Replace(brief, "after: 10d, recertify: 3d, grace: 1d, remind: [2d]", "after: 10d, recertify: 3d", 1))
	p := h.play()
	p.at(0, func() { p.registerUnder("brief") })
	p.at(time.Minute, func() { p.approve("a") })
	var first string
	p.at(7*day+time.Minute, func() {
		if terms := p.server("demo").Terms; len(terms) == 1 {
			first = terms[0].DecisionID
		}
		p.approve("a")
	})
	p.at(7*day+5*time.Minute, func() {
		if terms := p.server("demo").Terms; len(terms) != 1 || terms[0].DecisionID == first {
			t.Errorf("%+v", terms)
		}
		p.retire()
	})
	p.run()
}

func TestAnExceptionIsRenewedInTimeAndTooLate(t *testing.T) {
	t.Parallel()
	p := newHouse(t).play()
	now := time.Now()
	renew := func(until time.Duration, done func(any, error)) {
		op := p.op("renew")
		p.update(workflows.DecisionRenew, op.ID, activities.DecideInput{Tenant: "default", ServerID: serverID, Operation: op, Ruling: registry.Ruling{
			ExceptionExpiresAt: now.Add(until), Comment: "still a trial",
		}}, done)
	}
	p.at(0, func() {
		in := registration()
		in.Registration.Authentication, in.Registration.ExceptionReason = registry.AuthNoneException, "a demo"
		p.update(workflows.UpdateRegister, "op-register", in, nil)
	})
	p.at(time.Minute, func() {
		in := p.approval("a")
		in.Ruling.Approval.ExceptionExpiresAt = now.Add(time.Hour)
		p.update(workflows.DecisionApprove, in.Operation.ID, in, nil)
	})
	p.at(5*time.Minute, func() { renew(3*time.Hour, nil) })
	p.at(2*time.Hour, func() { p.is(registry.StateActive) })
	p.at(4*time.Hour, func() { p.is(registry.StateDegraded); renew(10*time.Hour, nil) })
	p.at(4*time.Hour+time.Minute, func() { p.is(registry.StateActive); p.retire() })
	p.run()
}

// Acceptance: signals with a token, with a used one, with another digest's, with
// another tenant's, and without.
func TestSignalsCountWithADecisionToken(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	p := h.play()
	mint := func(tenant, secret, digest string, verb registry.Verb, ttl time.Duration) {
		k := registry.DecisionToken{TokenID: "dtk_" + secret, ServerID: serverID, Verb: verb, Digest: digest, Subject: "tess", Roles: []registry.Role{registry.RoleAssetMaintainer}}
		if tenant != "default" {
			other := registration()
			other.Registration.TenantID, other.Registration.ServerID = tenant, "srv_0190b8a0000070008000000000000007"
			k.ServerID = other.Registration.ServerID
			if _, err := h.acts.Register(context.Background(), other); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := h.db.Tenant(tenant).MintToken(context.Background(), k, secret, ttl, registry.Operation{ID: "mint-" + secret, Name: "mint", Actor: admin}); err != nil {
			t.Fatal(err)
		}
	}
	signal := func(secret string, tools ...string) {
		in := p.approval(tools...)
		in.Operation.Actor = registry.Actor{Subject: "eve", Roles: registry.Roles()} // says the signal, and nobody believes it
		in.Token = secret
		p.env.SignalWorkflow(workflows.DecisionApprove, in)
	}
	p.at(0, p.register)
	p.at(time.Minute, func() {
		digest := p.server("demo").Review.Digest
		mint("default", "good", digest, registry.VerbApprove, time.Hour)
		mint("default", "elsewhere", "sha256:other", registry.VerbApprove, time.Hour)
		mint("default", "rejects", digest, registry.VerbReject, time.Hour)
		mint("default", "over", digest, registry.VerbApprove, -time.Hour)
		mint("other", "theirs", digest, registry.VerbApprove, time.Hour)
		for _, secret := range []string{"", "none", "elsewhere", "rejects", "over", "theirs"} {
			signal(secret, "a")
		}
	})
	p.at(2*time.Minute, func() { p.is(registry.StateVerified); signal("good", "a") })
	p.at(3*time.Minute, func() { p.is(registry.StateActive); signal("good", "a", "b") })
	p.at(4*time.Minute, p.retire)
	p.run()
	decisions, err := h.db.Tenant("default").Decisions(t.Context(), serverID)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range decisions {
		got = append(got, strings.Join([]string{d.Subject, string(d.Origin), string(d.Reason)}, " "))
		if d.Applied != (d.Reason == "") || d.Applied && d.Subject != "tess" {
			t.Errorf("%+v", d)
		}
	}
	want := []string{
		"eve signal_unsigned unsigned_signal", "eve signal decision_token_unknown", "tess signal decision_token_mismatch",
		"tess signal decision_token_mismatch", "tess signal decision_token_expired", "eve signal decision_token_unknown",
		"tess signal ", "tess signal decision_token_used",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("decisions:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if n := len(h.audit("approve")); n != len(want) {
		t.Errorf("%d audit rows, want one each", n)
	}
}

func TestAPublishedVersionReachesItsServers(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.publishes("name: teams\nversion: 1\napproval:\n  - {name: all, when: 'true', approvers: 1}\n")
	p := h.play()
	p.at(0, func() { p.registerUnder("teams") })
	p.at(time.Minute, func() { p.approve("a", "b") })
	p.at(2*time.Minute, func() {
		b := h.publishes("name: teams\nversion: 2\napproval:\n  - {name: all, when: 'true', approvers: 1}\n  - {name: b, when: tool.name == 'b', approvers: 2}\n")
		p.env.SignalWorkflow(workflows.SignalPolicy, workflows.PolicySignal{Ref: b.Ref, Digest: b.Digest})
		p.env.SignalWorkflow(workflows.SignalPolicy, workflows.PolicySignal{Ref: b.Ref, Digest: b.Digest}) // twice changes nothing more
		p.env.SignalWorkflow(workflows.SignalPolicy, "nonsense")
	})
	p.at(3*time.Minute, func() {
		if a, b := p.denied("demo.a"), p.denied("demo.b"); a != "" || b != registry.ReasonSchemaChanged {
			t.Errorf("%q and %q", a, b)
		}
		if v := p.server("demo").Review; v.Status != registry.ReviewPending || v.RequestedBy != "system:policy" {
			t.Errorf("%+v", v)
		}
		if n := len(h.audit("reevaluate")); n != 1 {
			t.Errorf("%d audit rows", n)
		}
		// One that is gone refuses, and an edit to a policy that is not there, too.
		op := p.op("edit")
		p.update(workflows.UpdateEdit, op.ID, activities.EditInput{Tenant: "default", ServerID: serverID, Operation: op, Edit: registry.Edit{GovernancePolicyRef: new("none")}},
			func(_ any, err error) {
				if registry.ReasonOf(workflowsError(err)) != registry.ReasonUnknownPolicy {
					t.Errorf("%v", err)
				}
			})
		op = p.op("edit")
		p.update(workflows.UpdateEdit, op.ID, activities.EditInput{Tenant: "default", ServerID: serverID, Operation: op, Edit: registry.Edit{GovernancePolicyRef: new(registry.PolicyDefault)}}, nil)
	})
	p.at(4*time.Minute, p.retire)
	p.run()
}
