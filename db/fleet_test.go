package db_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/db"
	"countersign/registry"
)

// Whatever the rows hold, a filter by health finds the servers of which the registry says that health, and the counts are
// those of the list.
func TestTheFleetIsWhatItsServersAre(t *testing.T) {
	engines(t, func(t on) {
		ctx, w := t.Context(), newWorld(t, t.db, "acme")
		newWorld(t, t.db, "other").register("elsewhere")
		random := rand.New(rand.NewPCG(1, 2))
		pick := func(list ...string) string { return list[random.IntN(len(list))] }
		window := time.Now().UTC().Truncate(5 * time.Minute)
		const servers = 120
		for i := range servers {
			s := w.discover(w.register(fmt.Sprintf("server-%d", i)).ServerID, surface("x"))
			probe := registry.Probe{
				TenantID: "acme", ServerID: s.ServerID, Window: window, At: window, Since: window, TargetDigest: s.TargetDigest, ToolsDigest: s.ToolsDigest,
				Outcome: registry.Outcome(pick("ok", "ok", "failed", "list_fault", "dependency_error", "deferred")), Differing: []string{},
			}
			if probe.Outcome == registry.OutcomeFailed {
				probe.Reason = registry.Reason(pick("timeout", "dns"))
			}
			switch random.IntN(5) {
			case 0:
				probe.TargetDigest = "sha256:before"
			case 1:
				probe.ToolsDigest = (&registry.Snapshot{}).ToolsDigest()
			}
			if random.IntN(4) > 0 {
				if _, err := t.db.System().RecordProbes(ctx, []registry.Probe{probe}, 0); err != nil {
					t.Fatal(err)
				}
			}
			state, causes := pick("registered", "verified", "active", "degraded", "retired"), "[]"
			if state == "degraded" {
				causes = pick(`["handshake"]`, `["quarantined"]`, `["handshake","malformed_list"]`, `["server_text_changed"]`, `["suspect_empty"]`)
			}
			retired := any(nil)
			if state == "retired" {
				retired = window
			}
			finished := window.Add(time.Duration(random.IntN(3)-1) * time.Second)
			_, err := raw(t, t.db).ExecContext(ctx, `UPDATE mcp_servers SET state = $1, causes = $2, retired_at = $3, discovery_status = $4, discovery_reason = $5,
				discovery_finished_at = $6, review_status = $7, approved_snapshot = $8, approved_target = target_digest WHERE server_id = $9`,
				state, causes, retired, pick("never", "running", "succeeded", "failed"), pick("timeout", "malformed_list", "dependency_error"), finished,
				pick("none", "pending", "approved", "rejected", "expired"), pick("", s.SnapshotDigest, "sha256:before"), s.ServerID)
			if err != nil {
				t.Fatal(err)
			}
		}
		all, _, total, err := w.Servers(ctx, db.ServerQuery{Page: db.Page{Size: 1000}, ShowRetired: true})
		if err != nil || total != servers {
			t.Fatal(total, err)
		}
		levels := map[registry.Level][]string{}
		want := db.Fleet{States: map[registry.State]int{}}
		reasons := map[string]int{}
		var drifted []string
		for i := range all {
			s := &all[i]
			h := registry.HealthOf(&s.Server, s.LastProbe)
			levels[h.Level] = append(levels[h.Level], s.Name)
			if s.State == registry.StateRetired {
				continue
			}
			want.Servers++
			want.States[s.State]++
			reasons[string(h.Level)+" "+h.Reason]++
			if s.Review.Status == registry.ReviewPending {
				want.NeedsReview++
			}
			if s.ApprovedSnapshot != "" && s.ApprovedSnapshot != s.SnapshotDigest {
				want.Drifted++
				drifted = append(drifted, s.Name)
			}
		}
		find := func(field string, op db.Op, value string, retired bool) (names []string) {
			t.Helper()
			found, _, n, err := w.Servers(ctx, db.ServerQuery{
				Page: db.Page{Size: 1000}, ShowRetired: retired, Conditions: []db.Condition{{Field: field, Op: op, Value: value}},
			})
			if err != nil || n != len(found) {
				t.Fatal(field, n, err)
			}
			for i := range found {
				names = append(names, found[i].Name)
			}
			return names
		}
		for _, level := range []registry.Level{registry.LevelHealthy, registry.LevelDegraded, registry.LevelUnhealthy, registry.LevelUnknown} {
			if len(levels[level]) == 0 {
				t.Fatalf("no server is %s", level)
			}
			if diff := cmp.Diff(levels[level], find("health", db.OpIs, string(level), true)); diff != "" {
				t.Errorf("%s (-registry +filter):\n%s", level, diff)
			}
			if n := len(find("health", db.OpIsNot, string(level), true)); n != servers-len(levels[level]) {
				t.Errorf("%d are not %s", n, level)
			}
		}
		if diff := cmp.Diff(drifted, find("drifted", db.OpIs, "true", false)); diff != "" {
			t.Error(diff)
		}
		got, err := w.Fleet(ctx)
		if err != nil || got.Servers != want.Servers || got.NeedsReview != want.NeedsReview || got.Drifted != want.Drifted || !cmp.Equal(got.States, want.States) {
			t.Errorf("the fleet is %+v, %v; its servers come to %+v", got, err, want)
		}
		counted := map[string]int{}
		for _, h := range got.Healths {
			counted[string(h.Level)+" "+h.Reason] += h.Servers
		}
		if diff := cmp.Diff(reasons, counted); diff != "" {
			t.Errorf("reasons (-list +fleet):\n%s", diff)
		}
		if got.Healths[0].Level != registry.LevelUnhealthy || got.Healths[len(got.Healths)-1].Level != registry.LevelHealthy {
			t.Errorf("the worst are not first: %+v", got.Healths)
		}
	})
}

func TestServersAreFoundOfWhichSomethingEndsSoon(t *testing.T) {
	engines(t, func(t on) {
		ctx, w := t.Context(), newWorld(t, t.db, "acme")
		for name, days := range map[string]int{"soon": 13, "late": 15, "never": 0} {
			s := w.register(name)
			if days > 0 {
				if _, err := raw(t, t.db).ExecContext(ctx, "UPDATE mcp_servers SET exception_expires_at = $1 WHERE server_id = $2",
					time.Now().UTC().Add(time.Duration(days)*24*time.Hour), s.ServerID); err != nil {
					t.Fatal(err)
				}
			}
		}
		for value, want := range map[string][]string{"true": {"soon"}, "false": {"late", "never"}} {
			found, _, _, err := w.Servers(ctx, db.ServerQuery{Conditions: []db.Condition{{Field: "expiring", Op: db.OpIs, Value: value}}})
			var names []string
			for i := range found {
				names = append(names, found[i].Name)
			}
			if err != nil || !slices.Equal(names, want) {
				t.Errorf("expiring %s: %v %v", value, names, err)
			}
		}
		if fleet, err := w.Fleet(ctx); err != nil || fleet.Expiring != 1 {
			t.Errorf("%+v %v", fleet, err)
		}
	})
}

func TestTheFleetIsRememberedInParts(t *testing.T) {
	engines(t, func(t on) {
		ctx, w := t.Context(), newWorld(t, t.db, "acme")
		other := newWorld(t, t.db, "other")
		now := time.Now().UTC().Truncate(5 * time.Minute)
		record := func(w *world, s registry.Server, window time.Time, outcome registry.Outcome, took time.Duration) {
			p := registry.Probe{
				TenantID: w.Tenant(), ServerID: s.ServerID, Window: window, At: window, Since: window, Outcome: outcome, TargetDigest: s.TargetDigest,
				Duration: took, Differing: []string{},
			}
			if _, err := t.db.System().RecordProbes(ctx, []registry.Probe{p}, 0); err != nil {
				t.Fatal(err)
			}
		}
		var fleet []registry.Server
		for i := range 10 {
			fleet = append(fleet, w.register(fmt.Sprintf("server-%d", i)))
		}
		stranger := other.register("elsewhere")
		for i, s := range fleet {
			record(w, s, now.Add(-50*time.Minute), registry.OutcomeOK, time.Duration(i+1)*time.Millisecond)
			record(w, s, now.Add(-55*time.Minute), registry.OutcomeFailed, 0) // of the same part, and not its last
		}
		record(w, fleet[0], now, registry.OutcomeFailed, time.Second)
		record(w, fleet[1], now, registry.OutcomeOK, 7*time.Millisecond)
		record(w, fleet[2], now.Add(-25*time.Hour), registry.OutcomeOK, time.Millisecond) // before it
		record(other, stranger, now.Add(-30*time.Minute), registry.OutcomeOK, time.Hour)
		got, err := w.FleetWindows(ctx, now.Add(-time.Hour), now, 4)
		want := []db.FleetWindow{
			{Window: now.Add(-50 * time.Minute), Outcomes: map[registry.Outcome]int{registry.OutcomeOK: 10}, P50: 5 * time.Millisecond, P90: 9 * time.Millisecond},
			{Window: now, Outcomes: map[registry.Outcome]int{registry.OutcomeOK: 1, registry.OutcomeFailed: 1}, P50: 7 * time.Millisecond, P90: 7 * time.Millisecond},
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		if none, err := other.FleetWindows(ctx, now.Add(-2*time.Hour), now.Add(-time.Hour), 4); err != nil || len(none) != 0 {
			t.Errorf("where nothing was probed: %v %v", none, err)
		}
	})
}
