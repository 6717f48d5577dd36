package worker_test

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"countersign/db"
	"countersign/registry"
	"countersign/workflows"
)

// The switches of many tools are one update of their server, and an unknown one
// refuses all.
func TestManyToolsAreSwitchedByOneUpdate(t *testing.T) {
	both(t, func(t *testing.T, h *house) {
		peer := offers(t, "a", "b", "c")
		s := h.register("demo", peer.URL)
		h.is("demo", registry.StateVerified)
		before := h.get("demo").Version
		in := workflows.SetEnabledInput{
			Tenant: "default", ServerID: s.ServerID, Operation: operation("enable_tools"), Tools: []string{"a", "c"}, Enabled: true,
		}
		for range 2 { // a repeat is told the same
			now, err := h.client.SetEnabled(t.Context(), "demo", in)
			if err != nil || now.Version != before+1 {
				t.Fatalf("version %d after %d: %v", now.Version, before, err)
			}
		}
		if v := h.get("demo"); v.Counts.Enabled != 2 {
			t.Errorf("%+v", v.Counts)
		}
		in.Operation, in.Tools = operation("enable_tools"), []string{"b", "x"}
		if _, err := h.client.SetEnabled(t.Context(), "demo", in); registry.ReasonOf(err) != registry.ReasonToolNotFound {
			t.Errorf("an unknown tool: %v", err)
		}
		if v := h.get("demo"); v.Counts.Enabled != 2 {
			t.Errorf("refused, and %+v", v.Counts)
		}
		_, err := h.client.RequireApproval(t.Context(), "demo", workflows.RequireApprovalInput{
			Tenant: "default", ServerID: s.ServerID, Operation: operation("set_requires_approval"), Tools: []string{"a"}, Required: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		v, err := h.store().Tool(t.Context(), "demo.a")
		if err != nil || !v.Tool.RequiresApproval {
			t.Errorf("%+v, %v", v.Tool, err)
		}
		if v, err = h.store().Tool(t.Context(), "demo.b"); err != nil || v.Tool.RequiresApproval {
			t.Errorf("%+v, %v", v.Tool, err)
		}
		h.retire("demo")
		in.Operation, in.Tools = operation("enable_tools"), []string{"b"}
		if _, err := h.client.SetEnabled(t.Context(), "demo", in); registry.ReasonOf(err) != registry.ReasonServerClosing {
			t.Errorf("retired: %v", err)
		}
	})
}

// The first window of an hour ends with a round of retention.
func TestTheSweepPrunesOnceAnHour(t *testing.T) {
	both(t, func(t *testing.T, h *house) {
		peer := offers(t, "a")
		h.register("demo", peer.URL)
		old := h.is("demo", registry.StateVerified).SnapshotDigest
		offer(peer, "a", "b")
		h.discover("demo")
		there := func() bool {
			_, err := h.store().Snapshot(t.Context(), old)
			if err != nil && registry.ReasonOf(err) != registry.ReasonNothingDiscovered {
				t.Fatal(err)
			}
			return err == nil
		}
		hour := time.Now().UTC().Truncate(time.Hour)
		for _, age := range []time.Duration{time.Hour, 25 * time.Hour} {
			p := registry.Probe{TenantID: "default", ServerID: h.get("demo").ServerID, Window: hour.Add(-age), Outcome: registry.OutcomeOK, Differing: []string{}}
			if _, err := h.db.System().RecordProbes(t.Context(), []registry.Probe{p}, 0); err != nil {
				t.Fatal(err)
			}
		}
		h.sweep(hour)
		if !there() {
			t.Fatal("what was seen a moment ago is pruned")
		}
		h.age()
		h.sweep(hour.Add(30 * time.Minute))
		if !there() {
			t.Error("pruned in the middle of an hour")
		}
		h.sweep(hour.Add(time.Hour))
		if there() {
			t.Error("an old snapshot is kept")
		}
		if _, probes, _, err := h.store().Probes(t.Context(), "demo", db.Page{}); err != nil || len(probes) != 1 || !probes[0].Window.Equal(hour.Add(-time.Hour)) {
			t.Errorf("of two probes are left %+v: %v", probes, err)
		}
		if now := h.discover("demo"); now.Discovery.Counts.Unchanged != 2 {
			t.Errorf("%+v", now.Discovery)
		}
	})
}

// age makes all snapshots old.
func (h *house) age() {
	h.Helper()
	driver, dsn := "pgx", h.url
	if file, found := strings.CutPrefix(h.url, "sqlite:"); found {
		driver, dsn = "sqlite", "file:"+file+"?_pragma=busy_timeout(10000)"
	}
	pool, err := sql.Open(driver, dsn)
	if err != nil {
		h.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.ExecContext(h.Context(), "UPDATE snapshots SET seen_at = '2020-01-01 00:00:00+00:00'"); err != nil {
		h.Fatal(err)
	}
}
