package db_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/registry"
)

// R201: the counts are those of the tables, whatever happened to get there.
func TestVitalsAreWhatTheTablesHold(t *testing.T) {
	engines(t, func(t on) {
		empty, err := t.db.System().Vitals(t.Context())
		if err != nil || len(empty.Servers) != 0 || len(empty.Unbound) != 0 || empty.Reviews != 0 || !empty.LastWindow.IsZero() || empty.At.IsZero() {
			t.Fatalf("of nothing: %+v: %v", empty, err)
		}
		acme, globex := newWorld(t, t.db, "acme"), newWorld(t, t.db, "globex")
		first := acme.discover(acme.register("first").ServerID, surface("a", "b", "c"))
		acme.register("second")
		gone := acme.discover(acme.register("gone").ServerID, surface("d"))
		globex.discover(globex.register("theirs").ServerID, surface("e", "f"))
		exec(t, t.db, "UPDATE mcp_servers SET state = 'retired', retired_at = created_at WHERE server_id = '"+gone.ServerID+"'", "UPDATE tools SET live = FALSE WHERE server_id = '"+gone.ServerID+"'")
		acme.approve(first, "b")
		window := time.Now().UTC().Truncate(5 * time.Minute)
		if _, err := t.db.System().RecordProbes(t.Context(), []registry.Probe{{
			TenantID: "acme", ServerID: first.ServerID, Window: window, At: window, Since: window, TargetDigest: first.TargetDigest, ToolsDigest: first.ToolsDigest,
			Outcome: registry.OutcomeOK, Differing: []string{},
		}}, 0); err != nil {
			t.Fatal(err)
		}
		got, err := t.db.System().Vitals(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		counts := map[string]int64{}
		for _, c := range got.Servers {
			counts[c.Tenant+" "+string(c.State)] += c.Servers
			if c.Direction == "" || c.Authentication == "" {
				t.Errorf("%+v", c)
			}
		}
		states := map[string]int64{}
		for _, tenant := range []string{"acme", "globex"} {
			for _, state := range column[string](t, raw(t, t.db), "SELECT state FROM mcp_servers WHERE tenant_id = '"+tenant+"'") {
				states[tenant+" "+state]++
			}
		}
		if diff := cmp.Diff(states, counts); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(map[string]int64{"acme": 2, "globex": 2}, got.Unbound); diff != "" {
			t.Error(diff)
		}
		if !got.LastWindow.Equal(window) || got.Unsealed == 0 || got.Events.Unrelayed == 0 {
			t.Errorf("%+v", got)
		}
		pending := int64(len(column[string](t, raw(t, t.db), "SELECT server_id FROM mcp_servers WHERE review_status = 'pending' AND state <> 'retired'")))
		if got.Reviews != pending || (pending > 0) != !got.OldestReview.IsZero() {
			t.Errorf("%d approvals since %s, want %d", got.Reviews, got.OldestReview, pending)
		}
	})
}
