package db_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/db"
	"countersign/registry"
)

func bundle(name string, version int) registry.PolicyBundle {
	ref := registry.PolicyRef{Name: name, Version: version}.String()
	document := []byte(`{"name":"` + ref + `"}`)
	return registry.PolicyBundle{
		Name: name, Version: version, Ref: ref, Digest: registry.BodyHash(document), Description: "of " + ref, Document: document,
	}
}

func (w *world) publishes(name string, version int) registry.PolicyBundle {
	w.tb.Helper()
	b, _, err := w.PublishPolicy(w.tb.Context(), bundle(name, version), named("publish_policy"))
	if err != nil {
		w.tb.Fatal(err)
	}
	return b
}

func TestAPublishedBundleNeverChanges(t *testing.T) {
	engines(t, func(t on) {
		ctx, w := t.Context(), newWorld(t, t.db, "acme")
		first := w.publishes("payments", 1)
		if first.PublishedBy != "ann" || first.PublishedAt.IsZero() || first.TenantID != "acme" {
			t.Errorf("%+v", first)
		}
		before := traces(t, t.db)
		again, published, err := w.PublishPolicy(ctx, bundle("payments", 1), named("publish_policy"))
		if diff := cmp.Diff(first, again); diff != "" || published || err != nil {
			t.Errorf("the same again: %t, %v, %s", published, err, diff)
		}
		other := bundle("payments", 1)
		other.Digest, other.Document = "sha256:other", []byte("other")
		_, _, err = w.PublishPolicy(ctx, other, named("publish_policy"))
		refused(t, err, registry.ReasonPolicyExists)
		if diff := cmp.Diff(more(before, map[string]int{"audit": 1}), traces(t, t.db)); diff != "" {
			t.Errorf("traces: %s", diff)
		}
		w.publishes("payments", 3)
		_, _, err = w.PublishPolicy(ctx, bundle("payments", 2), named("publish_policy"))
		refused(t, err, registry.ReasonPolicyExists)
		for _, statement := range []string{"UPDATE policies SET document = digest", "DELETE FROM policies"} {
			if _, err := raw(t, t.db).ExecContext(ctx, statement); err == nil {
				t.Errorf("%s went through", statement)
			}
		}
		for ref, want := range map[registry.PolicyRef]string{{Name: "payments"}: "payments@3", {Name: "payments", Version: 1}: "payments@1"} {
			if b, err := w.Policy(ctx, ref); err != nil || b.Ref != want || string(b.Document) != `{"name":"`+want+`"}` {
				t.Errorf("%v is %+v, %v", ref, b, err)
			}
		}
		_, err = w.Policy(ctx, registry.PolicyRef{Name: "payments", Version: 2})
		refused(t, err, registry.ReasonPolicyNotFound)
	})
}

func TestPoliciesAreListedWithTheServersTheyGovern(t *testing.T) {
	engines(t, func(t on) {
		ctx, w := t.Context(), newWorld(t, t.db, "acme")
		for _, version := range []int{1, 2, 11} {
			w.publishes("payments", version)
		}
		w.publishes("alpha", 1)
		for name, ref := range map[string]string{"a": "payments", "b": "payments@2", "c": "payments", "d": registry.PolicyDefault} {
			g := w.registration(name)
			g.GovernancePolicyRef = ref
			w.must(w.Register(ctx, g, named("register"), nil))
		}
		var got []string
		after := ""
		for range 10 {
			views, next, total, err := w.Policies(ctx, "", db.Page{Size: 1, After: after})
			if err != nil || total != 4 {
				t.Fatalf("%d, %v", total, err)
			}
			for _, v := range views {
				got = append(got, fmt.Sprintf("%s %d %t", v.Ref, v.Servers, v.Newest))
			}
			if after = next; after == "" {
				break
			}
		}
		want := []string{"alpha@1 0 true", "payments@11 2 true", "payments@2 1 false", "payments@1 0 false"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		users := func(ref registry.PolicyRef, newest bool) (names []string) {
			all, err := w.PolicyUsers(ctx, ref, newest, "", 10)
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range all {
				names = append(names, u.Name)
			}
			return names
		}
		if diff := cmp.Diff([]string{"a", "c"}, users(registry.PolicyRef{Name: "payments", Version: 12}, true)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"b"}, users(registry.PolicyRef{Name: "payments", Version: 2}, false)); diff != "" {
			t.Error(diff)
		}
	})
}

// Resolve says which bundle governs, and a record brings it along.
func TestTheBundleOfAServerIsFound(t *testing.T) {
	engines(t, func(t on) {
		ctx, w := t.Context(), newWorld(t, t.db, "acme")
		newWorld(t, t.db, "globex").publishes("payments", 9)
		one, two := w.publishes("payments", 1), w.publishes("payments", 2)
		for ref, want := range map[string]*registry.PolicyBundle{
			"payments": &two, "payments@1": &one, "payments@7": nil, "none": nil, registry.PolicyDefault: nil,
		} {
			name := "s-" + strings.ReplaceAll(ref, "@", "-")
			g := w.registration(name)
			g.GovernancePolicyRef = ref
			s := w.must(w.Register(ctx, g, named("register"), nil))
			w.approve(w.discover(s.ServerID, surface("forecast")), "forecast")
			found, err := w.Resolve(ctx, []string{name + ".forecast"})
			if err != nil {
				t.Fatal(err)
			}
			digest := ""
			if want != nil {
				digest = want.Digest
			}
			if v := found[name+".forecast"]; v == nil || v.PolicyDigest != digest || v.Now.IsZero() {
				t.Errorf("%s: %+v", ref, v)
			}
			err = w.Consider(ctx, db.Change{
				ServerID: s.ServerID, Catalog: func(*registry.Server) bool { return true }, Decisions: true,
				Definitions: func(r *registry.Record) []string { return []string{r.Snapshot.Of(registry.KindTool)[0].Definition()} },
				Apply: func(r *registry.Record, _ time.Time) error {
					if diff := cmp.Diff(want, r.Bundle); diff != "" {
						t.Errorf("%s: %s", ref, diff)
					}
					d := r.Decisions[r.Bindings["forecast"].DecisionID]
					if d.Evidence == nil || d.Evidence.Verdict.Policy != "test@1" || len(d.Evidence.Votes) != 1 {
						t.Errorf("%s: the evidence is %+v", ref, d.Evidence)
					}
					if len(r.Snapshot.Of(registry.KindTool)[0].Raw) == 0 || len(r.Snapshot.Of(registry.KindPrompt)[0].Raw) > 0 {
						t.Errorf("%s: other bytes than those asked for", ref)
					}
					r.Server.Description = "not meant"
					return r.Retire(named("retire"), "", time.Now())
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			if v, err := w.Server(ctx, s.ServerID); err != nil || !v.Open() || v.Description == "not meant" {
				t.Errorf("%s: what was only considered was done", ref)
			}
			if document, err := w.PolicyDocument(ctx, digest); want != nil && (err != nil || string(document) != string(want.Document)) {
				t.Errorf("%s: %s, %v", ref, document, err)
			}
		}
	})
}

func TestWhatExpiresIsListedInItsOrder(t *testing.T) {
	engines(t, func(t on) {
		ctx, w := t.Context(), newWorld(t, t.db, "acme")
		s := w.register("weather")
		s = w.discover(s.ServerID, surface("forecast", "alerts")) // a request, for a week
		g := w.registration("open")
		g.Authentication, g.ExceptionReason = registry.AuthNoneException, "a trial"
		o := w.must(w.Register(ctx, g, named("register"), nil))
		o = w.discover(o.ServerID, surface("a"))
		op := named("approve")
		w.must(w.Apply(ctx, db.Change{
			ServerID: o.ServerID, Operation: op, Catalog: func(*registry.Server) bool { return true },
			Apply: func(r *registry.Record, now time.Time) error {
				r.Governance = demands(registry.ApprovalVerdict{Needed: 1, Expiry: registry.Expiry{After: 2 * time.Hour, Grace: time.Hour}})
				return r.Decide(registry.Ruling{Verb: registry.VerbApprove, Approval: &registry.Approval{
					Digest: o.Review.Digest, ExceptionExpiresAt: now.Add(time.Hour),
					Tools:     []registry.ToolLine{{Tool: "a", Class: registry.ClassRead, Enable: true}},
					Resources: []registry.ResourceLine{{URI: "file:///readme"}},
				}}, op, now)
			},
		}))
		var got []string
		after := ""
		for {
			list, next, total, err := w.Expiring(ctx, time.Time{}, db.Page{Size: 2, After: after})
			if err != nil || total != 3 {
				t.Fatalf("%d, %v", total, err)
			}
			for _, e := range list {
				got = append(got, fmt.Sprintf("%s %s %d %s", e.Kind, e.ServerName, e.Bound, e.By))
				if e.EndsAt.IsZero() || (e.Kind == db.ExpiringApproval) != (e.DecisionID != "") || (e.Kind == db.ExpiringRequest) != (e.Digest == s.Review.Digest) ||
					e.Kind == db.ExpiringApproval && !e.DueAt.Equal(e.EndsAt.Add(-time.Hour)) {
					t.Errorf("%+v", e)
				}
			}
			if after = next; after == "" {
				break
			}
		}
		want := []string{"exception open 1 ann", "approval open 2 ann", "request weather 0 ann"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if list, _, total, err := w.Expiring(ctx, time.Now().Add(4*time.Hour), db.Page{}); err != nil || total != 2 || len(list) != 2 {
			t.Errorf("before four hours: %d, %v", total, err)
		}
	})
}

func TestADecisionTokenIsUsedOnce(t *testing.T) {
	engines(t, func(t on) {
		ctx, w := t.Context(), newWorld(t, t.db, "acme")
		s := w.register("weather")
		mint := func(id, secret string, ttl time.Duration) {
			k := registry.DecisionToken{TokenID: id, ServerID: s.ServerID, Verb: registry.VerbApprove, Digest: "sha256:d", Subject: "ann", Roles: registry.Roles()}
			if _, err := w.MintToken(ctx, k, secret, ttl, named("mint")); err != nil {
				t.Fatal(err)
			}
		}
		all := func(registry.DecisionToken) error { return nil }
		mint("dtk_1", "secret", time.Hour)
		mint("dtk_2", "over", -time.Hour)
		_, err := w.ClaimToken(ctx, "secret", "signal/0", func(registry.DecisionToken) error { return registry.Errorf(registry.ReasonTokenMismatch, "another") })
		refused(t, err, registry.ReasonTokenMismatch) // and the token is still good
		k, err := w.ClaimToken(ctx, "secret", "signal/1", all)
		if err != nil || k.Subject != "ann" || k.Verb != registry.VerbApprove || len(k.Roles) != len(registry.Roles()) {
			t.Fatalf("%+v, %v", k, err)
		}
		if _, err := w.ClaimToken(ctx, "secret", "signal/1", all); err != nil {
			t.Errorf("the same signal again: %v", err)
		}
		for signal, c := range map[string]struct {
			secret string
			want   registry.Reason
		}{"signal/2": {"secret", registry.ReasonTokenUsed}, "signal/3": {"over", registry.ReasonTokenExpired}, "signal/4": {"none", registry.ReasonTokenUnknown}} {
			_, err := w.ClaimToken(ctx, c.secret, signal, all)
			refused(t, err, c.want)
		}
		if n := count(t, t.db, "SELECT count(*) FROM decision_tokens WHERE token_hash LIKE '%secret%'"); n > 0 {
			t.Error("the secret is kept")
		}
		mint("dtk_old", "old", -40*24*time.Hour)
		mint("dtk_3", "raced", time.Hour)
		_, err = w.ClaimToken(ctx, "old", "signal/5", all)
		refused(t, err, registry.ReasonTokenUnknown) // long over, it is kept no longer
		_, err = w.ClaimToken(ctx, "over", "signal/6", all)
		refused(t, err, registry.ReasonTokenExpired)
		var wg sync.WaitGroup
		won := make(chan int, 20)
		for n := range 20 {
			wg.Go(func() {
				if _, err := w.ClaimToken(ctx, "raced", fmt.Sprint("signal/", n), all); err == nil {
					won <- n
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			t.Errorf("%d signals got the token", len(won))
		}
	})
}
