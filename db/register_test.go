package db_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"countersign/db"
	"countersign/registry"
)

func TestOfManyWhoRegisterANameOneGetsIt(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		const n = 100
		w := newWorld(t, d, "acme")
		servers := make([]registry.Server, n)
		errs := make([]error, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				a, err := w.Register(t.Context(), w.registration("weather"), named("register"), claim(fmt.Sprint(i), "body"))
				servers[i], errs[i] = a.Server, err
			})
		}
		wg.Wait()
		winner := ""
		for i := range n {
			if errs[i] != nil {
				continue
			}
			if winner != "" {
				t.Fatal("two got the name")
			}
			winner = servers[i].ServerID
		}
		for _, err := range errs {
			if err != nil {
				if e := refused(t, err, registry.ReasonServerExists); e.Fact("server_id") != winner {
					t.Fatalf("the loser is told of %q, the winner is %q", e.Fact("server_id"), winner)
				}
			}
		}
		for table, want := range map[string]int{"mcp_servers": 1, "providers": 1, "connections": 1, "outbox": 1, "idempotency_keys": 1, "audit": n, "applied_operations": n} {
			if got := count(t, d, "SELECT count(*) FROM "+table); got != want {
				t.Errorf("%s has %d rows, want %d", table, got, want)
			}
		}
	})
}

func claim(key, body string) *db.Claim {
	return &db.Claim{Operation: "register", Key: key, BodyHash: body, Answer: func(s *registry.Server) string { return "made " + s.Name }}
}

func TestAKeyIsAnsweredAsTheFirstTime(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		ctx, w := t.Context(), newWorld(t, d, "acme")
		if c, err := w.Claimed(ctx, "register", "k"); c != nil || err != nil {
			t.Fatalf("a free key: %+v, %v", c, err)
		}
		op := named("register")
		first, err := w.Register(ctx, w.registration("weather"), op, claim("k", "body"))
		if err != nil || first.Replayed || first.Answer != "made weather" {
			t.Fatalf("first: %+v, %v", first, err)
		}
		c, err := w.Claimed(ctx, "register", "k")
		if err != nil || c == nil || c.BodyHash != "body" || c.ServerID != first.Server.ServerID || c.Answer != "made weather" || c.OperationID != op.ID {
			t.Fatalf("claimed: %+v, %v", c, err)
		}
		again, err := w.Register(ctx, w.registration("weather"), named("register"), claim("k", "body"))
		if err != nil || !again.Replayed || again.Answer != first.Answer {
			t.Fatalf("again: %+v, %v", again, err)
		}
		if diff := cmp.Diff(first.Server, again.Server); diff != "" {
			t.Errorf("a replay tells of another server: %s", diff)
		}
		other := w.registration("other")
		_, err = w.Register(ctx, other, named("register"), claim("k", "another body"))
		refused(t, err, registry.ReasonIdempotencyKeyReused)

		// The same key of another tenant, or of another operation, is another key.
		globex := newWorld(t, d, "globex")
		if a, err := globex.Register(ctx, globex.registration("weather"), named("register"), claim("k", "another body")); err != nil || a.Replayed {
			t.Errorf("another tenant: %+v, %v", a, err)
		}
		if c, err := w.Claimed(ctx, "discover", "k"); c != nil || err != nil {
			t.Errorf("another operation: %+v, %v", c, err)
		}
	})
}

func TestManyWithOneKeyMakeOneServer(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		const n = 30
		w := newWorld(t, d, "acme")
		var wg sync.WaitGroup
		ids := make([]string, n)
		for i := range n {
			wg.Go(func() {
				a, err := w.Register(t.Context(), w.registration("weather"), named("register"), claim("k", "body"))
				if err != nil {
					t.Error(err)
				}
				ids[i] = a.Server.ServerID
			})
		}
		wg.Wait()
		for _, id := range ids {
			if id != ids[0] {
				t.Fatalf("one key made %s and %s", ids[0], id)
			}
		}
	})
}

func TestARegistrationIsAppliedOnce(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		ctx, w := t.Context(), newWorld(t, d, "acme")
		g, op := w.registration("weather"), named("register")
		first := w.must(w.Register(ctx, g, op, claim("k", "body")))
		again, err := w.Register(ctx, g, op, claim("k", "body"))
		if err != nil || !again.Replayed || again.Answer != "made weather" {
			t.Fatalf("again: %+v, %v", again, err)
		}
		if diff := cmp.Diff(first, again.Server); diff != "" {
			t.Error(diff)
		}
		// Also when it runs twice at once.
		twice, at := w.registration("twice"), named("register")
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if a, err := w.Register(ctx, twice, at, nil); err != nil || a.Server.ServerID != twice.ServerID {
					t.Errorf("twice at once: %+v, %v", a, err)
				}
			})
		}
		wg.Wait()
		// A refusal is recorded as well: it stays one when the name gets free.
		g, op = w.registration("weather"), named("register")
		_, err = w.Register(ctx, g, op, claim("k2", "body"))
		said := refused(t, err, registry.ReasonServerExists)
		w.retire(first.ServerID)
		_, err = w.Register(ctx, g, op, claim("k2", "body"))
		if diff := cmp.Diff(said, refused(t, err, registry.ReasonServerExists)); diff != "" {
			t.Errorf("the refusal is told otherwise: %s", diff)
		}
		// A new request gets the name, with provider and tools of the same ids.
		if s := w.register("weather"); s.ServerID == first.ServerID {
			t.Error("the retired server is back")
		}
		entries, _, err := w.Audit(ctx, db.AuditQuery{ObjectID: g.ServerID})
		if err != nil || len(entries) != 1 || entries[0].Outcome != db.AuditRefused || entries[0].Reason != registry.ReasonServerExists {
			t.Errorf("audit of the refusal: %+v, %v", entries, err)
		}
	})
}

func TestTenantsHaveNamesOfTheirOwn(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		acme, globex := newWorld(t, d, "acme"), newWorld(t, d, "globex")
		one, other := acme.register("weather"), globex.register("weather")
		for w, want := range map[*world]string{acme: one.ServerID, globex: other.ServerID} {
			view, err := w.Server(t.Context(), "weather")
			if err != nil || view.ServerID != want {
				t.Errorf("%s finds %s, want %s: %v", w.Tenant(), view.ServerID, want, err)
			}
		}
		_, err := acme.Register(t.Context(), globex.registration("more"), named("register"), nil)
		refused(t, err, registry.ReasonInternal)
	})
}
