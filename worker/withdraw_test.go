package worker_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"countersign/db"
	"countersign/registry"
	"countersign/workflows"
)

const pairPolicy = "name: pair\nversion: 1\napproval:\n  - {name: all, when: 'true', approvers: 2}\n"

func somebody(name string) registry.Actor {
	return registry.Actor{Subject: name, Roles: []registry.Role{registry.RoleAssetMaintainer}}
}

// approvedBy is the approval of tools by somebody.
func approvedBy(v db.ServerView, by registry.Actor, tools ...string) workflows.DecideInput {
	in := approval(v, tools...)
	in.Operation.Actor = by
	return in
}

// withdrawal takes somebody's approval of what a server shows back.
func withdrawal(v db.ServerView, by registry.Actor) workflows.DecideInput {
	op := operation("withdraw_approval")
	op.Actor = by
	return workflows.DecideInput{
		Tenant: "default", ServerID: v.ServerID, Operation: op,
		Ruling: registry.Ruling{Verb: registry.VerbWithdrawApproval, Digest: v.Review.Digest, Comment: "seen too late"},
	}
}

// waiting makes a server that one of two people approved.
func (h *house) waiting(name string, by registry.Actor) db.ServerView {
	h.Helper()
	h.register(name, offers(h, "a").URL, under("pair"))
	v := h.is(name, registry.StateVerified)
	if _, err := h.client.Decide(h.Context(), name, approvedBy(v, by, "a")); err != nil {
		h.Fatal(err)
	}
	return h.get(name)
}

// A withdrawal and the approval that decides meet: either it is withdrawn and
// one approval stands, or it is decided and the withdrawal is refused.
func TestAWithdrawalMeetsTheDecidingApproval(t *testing.T) {
	both(t, func(t *testing.T, h *house) {
		h.publishes(pairPolicy)
		for _, name := range []string{"one", "two", "three", "four"} {
			v := h.waiting(name, somebody("bob"))
			var withdrawn, approved error
			var wg sync.WaitGroup
			wg.Go(func() { _, withdrawn = h.client.Decide(t.Context(), name, withdrawal(v, somebody("bob"))) })
			wg.Go(func() { _, approved = h.client.Decide(t.Context(), name, approvedBy(v, somebody("carl"), "a")) })
			wg.Wait()
			now := h.get(name)
			switch {
			case approved != nil:
				t.Errorf("%s: the approval fails: %v", name, approved)
			case withdrawn == nil:
				if now.State != registry.StateVerified || now.Review.Status != registry.ReviewPending || len(now.Review.Votes) != 1 ||
					now.Review.Votes[0].Subject != "carl" || now.Review.Tally.People != 1 {
					t.Errorf("%s: withdrawn, and %s with %+v", name, now.State, now.Review)
				}
			case registry.ReasonOf(withdrawn) == registry.ReasonAlreadyDecided:
				if now.State != registry.StateActive || now.Counts.Bound != 1 || now.Review.Status != registry.ReviewApproved {
					t.Errorf("%s: decided, and %s with %+v", name, now.State, now.Review)
				}
			default:
				t.Errorf("%s: %v", name, withdrawn)
			}
		}
	})
}

// Fifty withdrawals of one approval at once: one decision, one event, an audit
// row each.
func TestFiftyWithdrawalsAtOnce(t *testing.T) {
	both(t, func(t *testing.T, h *house) {
		h.publishes(pairPolicy)
		v := h.waiting("demo", somebody("bob"))
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				_, err := h.client.Decide(ctx, "demo", withdrawal(v, somebody("bob")))
				if e, ok := registry.AsError(err); err != nil && (!ok || !e.Code.Retryable()) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		all, _, err := h.store().Audit(t.Context(), db.AuditQuery{ObjectID: v.ServerID})
		if err != nil {
			t.Fatal(err)
		}
		rows := 0
		for _, e := range all {
			if e.Action == "withdraw_approval" && e.Outcome == db.AuditApplied {
				rows++
			}
		}
		decisions, err := h.store().Decisions(t.Context(), v.ServerID)
		if err != nil || len(decisions) != 2 || decisions[1].Verb != registry.VerbWithdrawApproval || !decisions[1].Applied || rows != 50 {
			t.Errorf("%d decisions, %d audit rows, %v", len(decisions), rows, err)
		}
		if now := h.get("demo"); len(now.Review.Votes) != 0 || now.Version != v.Version+1 {
			t.Errorf("%+v, version %d after %d", now.Review, now.Version, v.Version)
		}
	})
}

// A worker that dies between an approval and its withdrawal, and another after
// it, lose neither: the workflow knows what stands.
func TestAWithdrawalSurvivesRestarts(t *testing.T) {
	both(t, func(t *testing.T, h *house) {
		h.publishes(pairPolicy)
		v := h.waiting("demo", somebody("bob"))
		h.stop()
		sent := make(chan error, 1)
		go func() { // asked for while nobody works
			_, err := h.client.Decide(context.Background(), "demo", withdrawal(v, somebody("bob")))
			sent <- err
		}()
		h.start()
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		h.stop()
		h.start()
		if _, err := h.client.Decide(t.Context(), "demo", approvedBy(v, somebody("carl"), "a")); err != nil {
			t.Fatal(err)
		}
		if now := h.get("demo"); now.State != registry.StateVerified || len(now.Review.Votes) != 1 {
			t.Fatalf("%s with %+v", now.State, now.Review)
		}
		if _, err := h.client.Decide(t.Context(), "demo", approvedBy(v, somebody("dora"), "a")); err != nil {
			t.Fatal(err)
		}
		h.is("demo", registry.StateActive)
	})
}
