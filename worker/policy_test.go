package worker_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"countersign/db"
	"countersign/mcptest"
	"countersign/policy"
	"countersign/registry"
	"countersign/workflows"
)

// publishes makes a bundle the newest of its name, as the api does.
func (h *house) publishes(document string) registry.PolicyBundle {
	h.Helper()
	p, err := policy.Publishable([]byte(document))
	if err != nil {
		h.Fatal(err)
	}
	b, _, err := h.store().PublishPolicy(h.Context(), p.Stored(), operation("publish_policy"))
	if err == nil {
		err = h.client.ApplyPolicy(h.Context(), workflows.PolicyChangeInput{Tenant: "default", Name: b.Name, Version: b.Version, Ref: b.Ref, Digest: b.Digest})
	}
	if err != nil {
		h.Fatal(err)
	}
	return b
}

func under(ref string) func(*workflows.RegisterInput) {
	return func(in *workflows.RegisterInput) { in.Registration.GovernancePolicyRef = ref }
}

// A version that is published reaches every server that it governs, and a
// repeat does nothing more.
func TestAPublishedPolicyReachesItsServers(t *testing.T) {
	both(t, func(t *testing.T, h *house) {
		peer := offers(t, "a", "b")
		h.publishes("name: teams\nversion: 1\napproval:\n  - {name: all, when: 'true', approvers: 1}\n")
		for name, ref := range map[string]string{"one": "teams", "two": "teams", "pinned": "teams@1"} {
			h.register(name, peer.URL, under(ref))
			h.is(name, registry.StateVerified)
			h.approve(name, "a", "b")
		}
		b := h.publishes("name: teams\nversion: 2\napproval:\n  - {name: all, when: 'true', approvers: 1}\n  - {name: b, when: tool.name == 'b', approvers: 2}\n")
		for _, name := range []string{"one", "two"} {
			h.until(name, "under the new version", func(v db.ServerView) bool { return v.Counts.Bound == 1 })
			if x, y := h.denial(name+".a"), h.denial(name+".b"); x != "" || y != registry.ReasonSchemaChanged {
				t.Errorf("%s: %q and %q", name, x, y)
			}
		}
		if v := h.get("pinned"); v.Counts.Bound != 2 {
			t.Errorf("a pinned version moved: %+v", v.Counts)
		}
		h.closed(workflows.PolicyWorkflowID("default", b.Ref))
		before := h.get("one").Version
		if err := h.client.ApplyPolicy(t.Context(), workflows.PolicyChangeInput{Tenant: "default", Name: b.Name, Version: b.Version, Ref: b.Ref, Digest: b.Digest}); err != nil {
			t.Error(err)
		}
		if now := h.get("one").Version; now != before {
			t.Errorf("version %d, was %d", now, before)
		}
	})
}

// An approval that expires, in the running product with short times: resolve
// denies by the database's clock, and the timer takes it away.
func TestAnApprovalExpiresInTheRunningProduct(t *testing.T) {
	both(t, func(t *testing.T, h *house) {
		h.publishes("name: brief\nversion: 1\napproval:\n  - {name: all, when: 'true', approvers: 1, expiry: {after: 3s, recertify: 2s, remind: [1s]}}\n")
		h.register("demo", offers(t, "a").URL, under("brief"))
		h.is("demo", registry.StateVerified)
		h.approve("demo", "a")
		if got := h.denial("demo.a"); got != "" {
			t.Fatalf("denied: %s", got)
		}
		h.until("demo", "to be approved again", func(v db.ServerView) bool { return v.Review.Status == registry.ReviewPending })
		h.approve("demo", "a") // in time
		h.until("demo", "to be approved again", func(v db.ServerView) bool { return v.Review.Status == registry.ReviewPending })
		h.until("demo", "expired", func(v db.ServerView) bool { return v.Counts.Bound == 0 })
		if got := h.denial("demo.a"); got != registry.ReasonApprovalExpired {
			t.Errorf("denied: %q", got)
		}
		h.until("demo", "without terms", func(v db.ServerView) bool { return len(v.Terms) == 0 })
	})
}

// Drift that the policy keeps stays callable, and is up for review all the same.
func TestDriftThatThePolicyKeepsStaysCallable(t *testing.T) {
	both(t, func(t *testing.T, h *house) {
		h.publishes("name: easy\nversion: 1\napproval:\n  - {name: all, when: 'true', approvers: 1}\ndrift:\n  - {name: wording, when: drift.severity == 'text' && class == 'read'}\n")
		peer := offers(t, "a", "b")
		h.register("demo", peer.URL, under("easy"))
		h.is("demo", registry.StateVerified)
		h.approve("demo", "a", "b")
		peer.Edit(func(s *mcptest.Script) {
			s.List("tools/list", mcptest.Items(tool("a", "does a, and says so at length"), `{"name":"b","description":"does b","inputSchema":{"type":"object","required":["x"]}}`))
		})
		v := h.discover("demo")
		if a, b := h.denial("demo.a"), h.denial("demo.b"); a != "" || b != registry.ReasonSchemaChanged {
			t.Errorf("%q and %q", a, b)
		}
		if v.Review.Status != registry.ReviewPending {
			t.Errorf("%+v", v.Review)
		}
	})
}

// Fifty decisions at once: one outcome, an audit row each, and whoever the engine
// cannot take just then is told to come again.
func TestFiftyDecisionsAtOnce(t *testing.T) {
	both(t, func(t *testing.T, h *house) {
		h.register("demo", offers(t, "a").URL)
		seen := h.is("demo", registry.StateVerified)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				_, err := h.client.Decide(ctx, "demo", approval(seen, "a"))
				if e, ok := registry.AsError(err); err != nil && (!ok || !e.Code.Retryable()) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		all, _, err := h.store().Audit(t.Context(), db.AuditQuery{ObjectID: seen.ServerID})
		if err != nil {
			t.Fatal(err)
		}
		rows := 0
		for _, e := range all {
			if e.Action == "approve" {
				rows++
			}
		}
		decisions, err := h.store().Decisions(t.Context(), seen.ServerID)
		if err != nil || len(decisions) != 1 || !decisions[0].Applied || rows != 50 {
			t.Errorf("%d decisions, %d audit rows, %v", len(decisions), rows, err)
		}
	})
}
