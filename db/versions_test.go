package db_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/db"
	"countersign/registry"
)

func TestEveryPairThatAServerWasAtIsAVersionOnce(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		s := w.register("weather")
		one := w.discover(s.ServerID, surface("a"))
		w.approve(one, "a")
		two := w.discover(s.ServerID, surface("a", "b"))
		w.discover(s.ServerID, surface("a")) // as before
		w.discover(s.ServerID, surface("a"))
		elsewhere := "https://elsewhere.example/mcp"
		w.must(w.change(s.ServerID, "edit", func(r *registry.Record, now time.Time) error {
			return r.Edit(registry.Edit{URL: &elsewhere}, named("edit"), now)
		}))
		moved := w.discover(s.ServerID, surface("a"))

		type line struct {
			Number      int64
			Pair, Snap  string
			Tools       int
			Kept        bool
			ApprovedBy  string
			Server, Ver string
		}
		read := func(page db.Page) (lines []line, next string) {
			_, views, next, total, err := w.Versions(t.Context(), "weather", page)
			if err != nil || total != 3 {
				t.Fatal(total, err)
			}
			for _, v := range views {
				l := line{v.Number, v.Pair, v.Snapshot, v.Tools, v.Kept, "", v.ServerName, v.Reported}
				if v.Approval != nil {
					l.ApprovedBy = v.Approval.By
				}
				if v.Resources != 1 || v.Prompts != 1 || v.Templates != 0 || v.Faulty != 0 || v.FirstSeen.IsZero() || v.Protocol != "2026-07-28" {
					t.Errorf("%+v", v)
				}
				lines = append(lines, l)
			}
			return lines, next
		}
		want := []line{
			{3, moved.Review.Digest, one.SnapshotDigest, 1, true, "", "the server", "1.2.3"},
			{2, two.Review.Digest, two.SnapshotDigest, 2, true, "", "the server", "1.2.3"},
			{1, one.Review.Digest, one.SnapshotDigest, 1, true, "ann", "the server", "1.2.3"},
		}
		all, _ := read(db.Page{})
		if diff := cmp.Diff(want, all); diff != "" {
			t.Error(diff)
		}
		var paged []line
		for after := ""; ; {
			lines, next := read(db.Page{Size: 1, After: after})
			paged = append(paged, lines...)
			if after = next; next == "" {
				break
			}
		}
		if diff := cmp.Diff(want, paged); diff != "" {
			t.Error(diff)
		}
		// A version outlives its snapshot.
		exec(t, t.db, old)
		if _, err := t.db.System().PruneSnapshots(t.Context(), 90*24*time.Hour, 100); err != nil {
			t.Fatal(err)
		}
		want[1].Kept = false
		if all, _ = read(db.Page{}); cmp.Diff(want, all) != "" {
			t.Error(cmp.Diff(want, all))
		}
	})
}

// H18: whoever decides about what is no more learns what it became.
func TestASupersededDecisionNamesBothSnapshots(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		s := w.register("weather")
		one := w.discover(s.ServerID, surface("a"))
		w.discover(s.ServerID, surface("a", "b"))
		three := w.discover(s.ServerID, surface("a", "c"))
		decide := func(digest string) *registry.Error {
			t.Helper()
			op := named("reject")
			_, err := w.change(s.ServerID, "reject", func(r *registry.Record, now time.Time) error {
				return r.Decide(registry.Ruling{Verb: registry.VerbReject, Digest: digest, Comment: "no"}, op, now)
			})
			e, _ := registry.AsError(err)
			if e == nil || e.Reason != registry.ReasonSuperseded {
				t.Fatalf("%v", err)
			}
			return e
		}
		e := decide(one.Review.Digest)
		if e.Fact("from_digest") != one.SnapshotDigest || e.Fact("to_digest") != three.SnapshotDigest || e.Fact("changed") != "snapshot" || e.Fact("digest") != three.Review.Digest {
			t.Errorf("%+v", e.Facts)
		}
		e = decide("sha256:nobody's")
		if e.Fact("from_digest") != "" || e.Fact("to_digest") != three.SnapshotDigest {
			t.Errorf("%+v", e.Facts)
		}
	})
}

func TestDecisionsAreListedForEver(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		s := w.discover(w.register("weather").ServerID, surface("a", "b"))
		s = w.approve(s, "a", "b")
		for range 3 {
			op := named("request_review")
			s = w.must(w.change(s.ServerID, op.Name, func(r *registry.Record, now time.Time) error {
				return r.Decide(registry.Ruling{Verb: registry.VerbRequestReview, Comment: "again"}, op, now)
			}))
			s = w.must(w.change(s.ServerID, "reject", func(r *registry.Record, now time.Time) error {
				return r.Decide(registry.Ruling{Verb: registry.VerbReject, Digest: s.Review.Digest, Comment: "no"}, named("reject"), now)
			}))
		}
		w.retire(s.ServerID)
		var verbs []string
		after := ""
		for {
			_, views, next, total, err := w.DecisionPage(t.Context(), s.ServerID, false, db.Page{Size: 2, After: after})
			if err != nil || total != 7 {
				t.Fatal(total, err)
			}
			for _, v := range views {
				verbs = append(verbs, string(v.Verb))
				if v.Approval != nil {
					t.Error("lines came unasked")
				}
				if v.Verb == registry.VerbApprove && (v.Tools != 2 || v.Resources != 1 || v.Prompts != 1) {
					t.Errorf("%+v", v)
				}
			}
			if after = next; next == "" {
				break
			}
		}
		slices.Reverse(verbs)
		if got := strings.Join(verbs, " "); got != "approve request_review reject request_review reject request_review reject" {
			t.Error(got)
		}
		_, views, _, _, err := w.DecisionPage(t.Context(), s.ServerID, true, db.Page{})
		if err != nil || len(views) != 7 || views[6].Approval == nil || len(views[6].Approval.Tools) != 2 {
			t.Errorf("%+v %v", views, err)
		}
	})
}

func TestAReviewHasWhatWasApprovedAndWhereItWas(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		s := w.register("weather")
		if _, err := w.Review(t.Context(), "weather"); registry.ReasonOf(err) != registry.ReasonNothingDiscovered {
			t.Fatal(err)
		}
		other := w.register("other")
		w.discover(other.ServerID, surface("a", "z"))
		s = w.discover(s.ServerID, surface("a", "b"))
		first, err := w.Review(t.Context(), "weather")
		if err != nil || first.Approved != nil || first.ApprovedTarget != nil || len(first.Approvals) != 0 {
			t.Fatalf("%+v %v", first.Approvals, err)
		}
		item, _ := first.Snapshot.Find(registry.KindTool, "a")
		if hints := first.Names.Hints("weather", item); len(hints) != 1 || hints[0].Code != registry.HintSharedName {
			t.Errorf("%+v", hints)
		}
		s = w.approve(s, "a")
		elsewhere := "https://elsewhere.example/mcp"
		w.must(w.change(s.ServerID, "edit", func(r *registry.Record, now time.Time) error {
			return r.Edit(registry.Edit{URL: &elsewhere}, named("edit"), now)
		}))
		w.discover(s.ServerID, surface("a", "!a", "b"))
		drift, err := w.Review(t.Context(), "weather")
		if err != nil {
			t.Fatal(err)
		}
		if drift.ApprovedTarget == nil || drift.ApprovedTarget.URL != "https://weather.example/mcp" || drift.Server.Connection.URL != elsewhere {
			t.Errorf("%+v", drift.ApprovedTarget)
		}
		if len(drift.Approvals) != 1 || drift.Approvals[0].By != "ann" || drift.Approvals[0].Snapshot != s.SnapshotDigest {
			t.Errorf("%+v", drift.Approvals)
		}
		was, _ := drift.Approved.Find(registry.KindTool, "a")
		now, _ := drift.Snapshot.Find(registry.KindTool, "a")
		if !strings.Contains(string(now.Raw), "more") || strings.Contains(string(was.Raw), "more") || len(was.Raw) == 0 {
			t.Errorf("%s %s", was.Raw, now.Raw)
		}
		if a, b, err := w.Snapshots(t.Context(), drift.Approved.Digest, drift.Snapshot.Digest); err != nil || registry.Compare(a, b).Severity != registry.SeverityBreaking {
			t.Errorf("%v", err)
		}
		if _, _, err := w.Snapshots(t.Context(), drift.Approved.Digest, "sha256:none"); registry.ReasonOf(err) != registry.ReasonSnapshotNotFound {
			t.Error(err)
		}
	})
}

func TestDoubtsAreKeptAndEndWithADiscovery(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		s := w.approve(w.discover(w.register("weather").ServerID, surface("a", "b")), "a", "b")
		bound, err := w.Bound(t.Context(), s.ServerID)
		if err != nil || len(bound) != 2 {
			t.Fatal(bound, err)
		}
		lied := surface("a", "!a", "b")
		differing, err := registry.Differing(lied.Tools, bound, registry.DefaultLimits())
		if diff := cmp.Diff([]string{"a"}, differing); diff != "" || err != nil {
			t.Fatal(diff, err)
		}
		window := time.Now().UTC().Truncate(time.Minute)
		p := registry.Probe{
			TenantID: "acme", ServerID: s.ServerID, Window: window, Outcome: registry.OutcomeOK, TargetDigest: s.TargetDigest,
			ToolsDigest: "sha256:another", At: window, Differing: differing,
		}
		if _, err := t.db.System().RecordProbes(t.Context(), []registry.Probe{p}, 0); err != nil {
			t.Fatal(err)
		}
		if p.Differing, err = w.Differing(t.Context(), s.ServerID, window); err != nil || len(p.Differing) != 1 {
			t.Fatal(p.Differing, err)
		}
		s = w.must(w.change(s.ServerID, "probe", func(r *registry.Record, _ time.Time) error { return r.Probed(p) }))
		if !s.Doubted {
			t.Error("nothing is doubted")
		}
		w.resolves("weather.a", "") // until somebody looked again
		s = w.discover(s.ServerID, surface("a", "b"))
		w.resolves("weather.a", registry.ReasonSchemaChanged)
		w.resolves("weather.b", "")
		if s.Doubted || s.Review.Status != registry.ReviewPending || s.State != registry.StateActive {
			t.Errorf("%v %+v", s.Doubted, s.Review)
		}
		s = w.discover(s.ServerID, surface("a", "b"))
		w.resolves("weather.b", "")
		w.approve(s, "a")
		w.resolves("weather.a", "")
	})
}
