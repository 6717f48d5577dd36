package db_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/db"
	"countersign/registry"
)

// A sweep's pages hold every server once that is due and not slow; the slow ones
// are apart, and those that are to be left alone are nowhere.
func TestASweepIsCutIntoPages(t *testing.T) {
	engines(t, func(t on) {
		d, ctx, window := t.db, t.Context(), time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
		const interval = 5 * time.Minute
		var quick []string
		var seen []registry.Probe
		for _, tenant := range []string{"acme", "globex"} {
			w := newWorld(t, d, tenant)
			for i := range 5 {
				s := w.approve(w.discover(w.register(fmt.Sprintf("s%d", i)).ServerID, surface("x")), "x")
				p := registry.Probe{
					TenantID: tenant, ServerID: s.ServerID, Window: window, At: window.Add(time.Second), Outcome: registry.OutcomeOK, TargetDigest: s.TargetDigest,
				}
				switch i {
				case 0: // it hung, for long enough to be left alone
					p.Outcome, p.Reason, p.Streak = registry.OutcomeFailed, registry.ReasonTimeout, -3
				case 1: // it hung
					p.Outcome, p.Reason, p.Streak = registry.OutcomeFailed, registry.ReasonTimeout, -1
				case 2: // it asked for patience until after the next window
					p.Outcome, p.Reason, p.RetryAfter = registry.OutcomeDeferred, registry.ReasonRateLimited, 6*time.Minute
				default:
					quick = append(quick, s.ServerID)
				}
				seen = append(seen, p)
			}
			w.register("registered")
		}
		if plan, err := d.System().PlanSweep(ctx, window, 100); err != nil || plan.Quick != 10 || plan.Slow+plan.Resting+len(plan.Cuts) != 0 {
			t.Fatalf("before the first window: %+v, %v", plan, err)
		}
		if _, err := d.System().RecordProbes(ctx, seen, interval); err != nil {
			t.Fatal(err)
		}
		next := window.Add(interval)
		plan, err := d.System().PlanSweep(ctx, next, 3)
		if err != nil || plan.Quick != 4 || plan.Slow != 2 || plan.Resting != 4 || len(plan.Cuts) != 1 {
			t.Fatalf("plan: %+v, %v", plan, err)
		}
		var got []string
		after := ""
		for _, until := range append(plan.Cuts, "") {
			got = append(got, ids(t, d, db.SweepQuery{Window: next, After: after, Until: until})...)
			after = until
		}
		slices.Sort(got)
		slices.Sort(quick)
		if diff := cmp.Diff(quick, got); diff != "" {
			t.Error(diff)
		}
		if slow := ids(t, d, db.SweepQuery{Window: next, Slow: true}); !slices.Equal(slow, []string{seen[1].ServerID, seen[6].ServerID}) {
			t.Errorf("slow: %v", slow)
		}
		if one := ids(t, d, db.SweepQuery{Window: next, Slow: true, Limit: 1}); len(one) != 1 {
			t.Errorf("limited: %v", one)
		}
		// What is recorded is not met again, and a retry sees what was recorded.
		if rest := ids(t, d, db.SweepQuery{Window: window}); len(rest) != 0 {
			t.Errorf("recorded, and met again: %v", rest)
		}
		again, err := d.System().SweepTargets(ctx, db.SweepQuery{Window: window, Recorded: true})
		if err != nil || len(again) != 4 {
			t.Fatalf("a retry sees %d, %v", len(again), err)
		}
		for _, target := range again {
			if p, done := target.RecordedIn(window); !done || p.Outcome != registry.OutcomeOK {
				t.Errorf("recorded: %+v", p)
			}
			if _, done := target.RecordedIn(next); done {
				t.Error("recorded before its window")
			}
		}
		// Those that were left alone are met when their time has come, or when they
		// have been met otherwise.
		if slow := ids(t, d, db.SweepQuery{Window: window.Add(2 * interval), Slow: true}); len(slow) != 4 {
			t.Errorf("their time has come: %v", slow)
		}
		if err := d.Tenant("acme").RememberEra(ctx, seen[0].ServerID, "modern"); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(ids(t, d, db.SweepQuery{Window: next}), seen[0].ServerID) {
			t.Error("a server that was discovered is still left alone")
		}
		if _, err := d.System().SweepTargets(ctx, db.SweepQuery{Window: next, After: "nonsense"}); registry.ReasonOf(err) != registry.ReasonInvalidPageToken {
			t.Errorf("a key that is none: %v", err)
		}
	})
}

func ids(t on, d *db.DB, query db.SweepQuery) (out []string) {
	t.Helper()
	targets, err := d.System().SweepTargets(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range targets {
		out = append(out, target.Server.ServerID)
	}
	return out
}
