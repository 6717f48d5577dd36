package db_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/db"
	"countersign/registry"
)

func TestProbesAreListedAndSummedUpAndPruned(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		ctx, w := t.Context(), newWorld(t, d, "acme")
		s := w.approve(w.discover(w.register("weather").ServerID, surface("x")), "x")
		quiet := w.approve(w.discover(w.register("quiet").ServerID, surface("x")), "x")
		now := time.Now().UTC().Truncate(5 * time.Minute)
		const windows = 25
		for i := range windows {
			window := now.Add(-time.Duration(i) * 24 * time.Hour)
			p := registry.Probe{
				TenantID: "acme", ServerID: s.ServerID, Window: window, At: window.Add(time.Second), Since: window, Outcome: registry.OutcomeOK,
				TargetDigest: s.TargetDigest, Duration: time.Duration(i+1) * time.Millisecond, Differing: []string{},
			}
			if i%5 == 4 {
				p.Outcome, p.Reason, p.Message = registry.OutcomeFailed, registry.ReasonTimeout, "no answer"
			}
			if _, err := d.System().RecordProbes(ctx, []registry.Probe{p}, 0); err != nil {
				t.Fatal(err)
			}
		}
		var seen []time.Time
		for page := (db.Page{Size: 7}); ; {
			view, probes, next, err := w.Probes(ctx, "weather", page)
			if err != nil || view.ServerID != s.ServerID {
				t.Fatal(view.ServerID, err)
			}
			for _, p := range probes {
				seen = append(seen, p.Window)
			}
			if page.After = next; next == "" {
				break
			}
		}
		var want []time.Time
		for i := range windows {
			want = append(want, now.Add(-time.Duration(i)*24*time.Hour))
		}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Error(diff)
		}
		if _, _, _, err := w.Probes(ctx, "weather", db.Page{After: "nonsense"}); registry.ReasonOf(err) != registry.ReasonInvalidPageToken {
			t.Errorf("a page token that nobody gave: %v", err)
		}
		if _, _, _, err := w.Probes(ctx, "nobody", db.Page{}); registry.ReasonOf(err) != registry.ReasonServerNotFound {
			t.Errorf("no such server: %v", err)
		}
		uptime := func(id string, days int) registry.Uptime {
			t.Helper()
			u, err := w.Uptime(ctx, id, now.AddDate(0, 0, -days))
			if err != nil {
				t.Fatal(err)
			}
			return u
		}
		if diff := cmp.Diff(registry.Uptime{Probes: 10, Good: 8, Failed: 2, Changes: 3, P50: 4e6, P90: 9e6, P99: 9e6}, uptime(s.ServerID, 9)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(registry.Uptime{}, uptime(quiet.ServerID, 9)); diff != "" {
			t.Errorf("never probed: %s", diff)
		}
		// In steps, the oldest first.
		for _, want := range []int{6, 6, 2, 0} {
			if n, err := d.System().PruneProbes(ctx, 10*24*time.Hour+time.Hour, 6); err != nil || n != want {
				t.Errorf("pruned %d, not %d: %v", n, want, err)
			}
		}
		if diff := cmp.Diff(registry.Uptime{Probes: 11, Good: 9, Failed: 2, Changes: 4, P50: 6e6, P90: 11e6, P99: 11e6}, uptime(s.ServerID, 100)); diff != "" {
			t.Error(diff)
		}
		// How a server is stays known, however long ago it was probed.
		if n, err := d.System().PruneProbes(ctx, 0, 1000); err != nil || n != 10 {
			t.Errorf("pruned %d: %v", n, err)
		}
		if view, err := w.Server(ctx, s.ServerID); err != nil || view.LastProbe == nil || !view.LastProbe.Window.Equal(now) {
			t.Errorf("the last probe is %+v: %v", view.LastProbe, err)
		}
	})
}
