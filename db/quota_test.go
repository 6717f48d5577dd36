package db_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"countersign/registry"
)

func TestATenantGetsAsManyServersAsItsQuota(t *testing.T) {
	engines(t, func(t on) {
		t.db.SetQuotas(registry.Quotas{Servers: 3})
		w, other := newWorld(t, t.db, "acme"), newWorld(t, t.db, "other")
		errs := make([]error, 10)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				_, errs[i] = w.Register(t.Context(), w.registration(fmt.Sprintf("server-%d", i)), named("register"), claim(fmt.Sprint(i), "body"))
			})
		}
		wg.Wait()
		var made []int
		for i, err := range errs {
			if err == nil {
				made = append(made, i)
				continue
			}
			if e := refused(t, err, registry.ReasonQuotaExceeded); e.Fact("quota") != "servers" || e.Fact("limit") != "3" || e.Next == "" {
				t.Errorf("%+v", e)
			}
		}
		if len(made) != 3 {
			t.Errorf("%d were registered", len(made))
		}
		// Each refusal has its audit row, and takes neither the name nor the key.
		if n := count(t, t.db, "SELECT count(*) FROM audit WHERE tenant_id = 'acme'"); n != 10 {
			t.Errorf("%d audit rows", n)
		}
		if n := count(t, t.db, "SELECT count(*) FROM idempotency_keys"); n != 3 {
			t.Errorf("%d keys", n)
		}
		other.register("theirs")
		// A retired one makes room, and a repeat of what was registered is answered.
		view, err := w.Server(t.Context(), fmt.Sprintf("server-%d", made[0]))
		if err != nil {
			t.Fatal(err)
		}
		w.must(w.change(view.ServerID, "retire", func(r *registry.Record, now time.Time) error {
			return r.Retire(named("retire"), "done", now)
		}))
		w.register("another")
		a, err := w.Register(t.Context(), w.registration(fmt.Sprintf("server-%d", made[1])), named("register"), claim(fmt.Sprint(made[1]), "body"))
		if err != nil || !a.Replayed {
			t.Errorf("%+v %v", a, err)
		}
	})
}

func TestAListOverTheQuotaOfToolsIsRefusedWhole(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		first, second := w.register("first"), w.register("second")
		w.discover(first.ServerID, surface("a", "b"))
		before := w.discover(second.ServerID, surface("c"))
		t.db.SetQuotas(registry.Quotas{Tools: 4})
		snap := w.snapshot(surface("c", "d", "e"))
		if err := w.SaveSnapshot(t.Context(), snap); err != nil {
			t.Fatal(err)
		}
		_, err := w.change(second.ServerID, "discovered", func(r *registry.Record, now time.Time) error {
			return r.Discovered(snap, registry.Look{Number: 2, TargetDigest: second.TargetDigest, RequestedBy: "ann", At: now})
		})
		if e := refused(t, err, registry.ReasonQuotaExceeded); e.Fact("quota") != "tools" {
			t.Errorf("%+v", e)
		}
		view, err := w.Server(t.Context(), second.ServerID)
		if err != nil || view.SnapshotDigest != before.SnapshotDigest || view.Version != before.Version {
			t.Errorf("the refused list left something: %+v %v", view.Server, err)
		}
		if n := count(t, t.db, "SELECT count(*) FROM tools"); n != 3 {
			t.Errorf("%d tools", n)
		}
		// What is there may change, also over a quota that was lowered.
		t.db.SetQuotas(registry.Quotas{Tools: 1})
		w.discover(first.ServerID, surface("a", "!a", "b"))
		t.db.SetQuotas(registry.Quotas{Tools: 4})
		w.discover(second.ServerID, surface("c", "d"))
		// A new list of an old tool beside a new one is growth.
		t.db.SetQuotas(registry.Quotas{Tools: 3})
		grown := w.snapshot(surface("c", "e"))
		if err := w.SaveSnapshot(t.Context(), grown); err != nil {
			t.Fatal(err)
		}
		_, err = w.change(second.ServerID, "discovered", func(r *registry.Record, now time.Time) error {
			return r.Discovered(grown, registry.Look{Number: 3, TargetDigest: second.TargetDigest, RequestedBy: "ann", At: now})
		})
		refused(t, err, registry.ReasonQuotaExceeded)
	})
}

func TestDefinitionsOverTheQuotaAreNotKept(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		server := w.register("first")
		w.discover(server.ServerID, surface("a"))
		size := int64(count(t, t.db, "SELECT sum(octet_length(raw)) FROM definitions"))
		t.db.SetQuotas(registry.Quotas{DefinitionBytes: size + 10})
		err := w.SaveSnapshot(t.Context(), w.snapshot(surface("a", "b")))
		if e := refused(t, err, registry.ReasonQuotaExceeded); e.Fact("quota") != "definition_bytes" {
			t.Errorf("%+v", e)
		}
		if got := int64(count(t, t.db, "SELECT sum(octet_length(raw)) FROM definitions")); got != size {
			t.Errorf("%d bytes, there were %d", got, size)
		}
		// A list of what is kept already adds nothing, whatever the quota became.
		t.db.SetQuotas(registry.Quotas{DefinitionBytes: 1})
		s := surface("a")
		s.Instructions = "Be quick."
		if err := w.SaveSnapshot(t.Context(), w.snapshot(s)); err != nil {
			t.Error(err)
		}
	})
}

// Far from the quota it is not counted each time; near it, it is.
func TestQuotasHoldAlsoBetweenCounts(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		t.db.SetQuotas(registry.Quotas{Tools: 100, DefinitionBytes: 1 << 20})
		server := w.register("first")
		var tools []string
		var err error
		for n := 0; err == nil && n < 200; n++ {
			tools = append(tools, fmt.Sprintf("tool-%d", n))
			snap := w.snapshot(surface(tools...))
			if err := w.SaveSnapshot(t.Context(), snap); err != nil {
				t.Fatal(err)
			}
			_, err = w.change(server.ServerID, "discovered", func(r *registry.Record, now time.Time) error {
				return r.Discovered(snap, registry.Look{Number: int64(n + 1), TargetDigest: server.TargetDigest, RequestedBy: "ann", At: now})
			})
		}
		refused(t, err, registry.ReasonQuotaExceeded)
		if n := count(t, t.db, "SELECT count(*) FROM tools"); n != 100 {
			t.Errorf("%d tools", n)
		}
	})
}
