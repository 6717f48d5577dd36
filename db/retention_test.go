package db_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/db"
	"countersign/registry"
)

const (
	snapshotsOf   = "SELECT count(*) FROM snapshots WHERE digest = '%s'"
	allItems      = "SELECT count(*) FROM snapshot_items"
	definitionsOf = "SELECT count(*) FROM definitions"
	old           = "UPDATE snapshots SET seen_at = '2020-01-01 00:00:00+00:00', created_at = '2020-01-01 00:00:00+00:00'"
)

func TestRetentionRemovesOnlyWhatNothingNeeds(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		w := newWorld(t, d, "acme")
		s := w.register("weather")
		see := func(tools ...string) string {
			t.Helper()
			s = w.discover(s.ServerID, surface(tools...))
			return s.SnapshotDigest
		}
		kept := map[string]string{}
		gone := map[string]string{}
		gone["seen and never decided about"] = see("first")
		kept["approved, and drifted since"] = see("a", "b")
		s = w.approve(s, "a")
		gone["drift that was never decided about"] = see("a", "b", "c")
		kept["rejected"] = see("a", "b", "d")
		op := named("reject")
		s = w.must(w.change(s.ServerID, "reject", func(r *registry.Record, now time.Time) error {
			return r.Decide(registry.Ruling{Verb: registry.VerbReject, Digest: s.Review.Digest, Comment: "no"}, op, now)
		}))
		kept["bound"] = see("a", "b", "e")
		s = w.approve(s, "b", "e")
		kept["what the server is at, under review"] = see("a", "b", "f")
		suspect := w.snapshot(surface()) // an empty list is not believed at first sight
		if err := w.SaveSnapshot(t.Context(), suspect); err != nil {
			t.Fatal(err)
		}
		s = w.discover(s.ServerID, surface())
		kept["suspected"] = suspect.Digest
		if s.Suspect != suspect.Digest {
			t.Fatalf("nothing is suspected: %+v", s)
		}
		retired := w.register("retired")
		retired = w.discover(retired.ServerID, surface("r"))
		w.retire(retired.ServerID)
		kept["of a retired server"] = retired.SnapshotDigest
		other := newWorld(t, d, "globex")
		otherServer := other.register("weather")
		otherServer = other.discover(otherServer.ServerID, surface("first"))
		exec(t, d, old)
		fresh := w.register("fresh")
		fresh = w.discover(fresh.ServerID, surface("x1"))
		kept["seen a moment ago"] = fresh.SnapshotDigest
		w.discover(fresh.ServerID, surface("x2"))

		definitions := count(t, d, definitionsOf)
		pruned, err := d.System().PruneSnapshots(t.Context(), 90*24*time.Hour, 100)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(db.Pruned{Snapshots: 2, Definitions: 0}, pruned); diff != "" {
			t.Error(diff) // a tool that was there once keeps its definition
		}
		for why, digest := range kept {
			if n := count(t, d, fmt.Sprintf(snapshotsOf, digest)); n != 1 {
				t.Errorf("%s: removed", why)
			}
		}
		for why, digest := range gone {
			want := 0
			if digest == otherServer.SnapshotDigest {
				want = 1 // the other tenant's
			}
			if n := count(t, d, fmt.Sprintf(snapshotsOf, digest)); n != want {
				t.Errorf("%s: still there", why)
			}
		}
		if n := count(t, d, "SELECT count(*) FROM snapshot_items AS i WHERE NOT EXISTS (SELECT 1 FROM snapshots AS n WHERE n.tenant_id = i.tenant_id AND n.digest = i.snapshot_digest)"); n != 0 {
			t.Errorf("%d items are left of removed snapshots", n)
		}
		if n := count(t, d, definitionsOf); n != definitions {
			t.Errorf("%d definitions, %d before", n, definitions)
		}
		w.resolves("weather.b", registry.ReasonServerDegraded)
		if c, err := w.Capabilities(t.Context(), "weather", true); err != nil || len(c.Snapshot.Items[0].Raw) == 0 {
			t.Errorf("the catalog cannot be read: %v", err)
		}
		if _, err := w.Capabilities(t.Context(), retired.ServerID, true); err != nil {
			t.Errorf("the retired server cannot be read: %v", err)
		}
		// Nothing is left to do.
		if pruned, err = d.System().PruneSnapshots(t.Context(), 90*24*time.Hour, 100); err != nil || pruned != (db.Pruned{}) {
			t.Errorf("again: %+v, %v", pruned, err)
		}
	})
}

func TestRetentionRemovesTheDefinitionsThatNothingElseHas(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		w := newWorld(t, d, "acme")
		s := w.register("weather")
		w.discover(s.ServerID, surface("a", "b", "!a"))
		before := count(t, d, definitionsOf)
		w.discover(s.ServerID, surface("a", "b")) // another a
		if n := count(t, d, definitionsOf); n != before+1 {
			t.Fatalf("%d definitions, %d before", n, before)
		}
		exec(t, d, old)
		pruned, err := d.System().PruneSnapshots(t.Context(), time.Hour, 100)
		if err != nil || pruned != (db.Pruned{Snapshots: 1, Definitions: 1}) {
			t.Errorf("%+v, %v", pruned, err)
		}
		c, err := w.Capabilities(t.Context(), s.ServerID, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range c.Snapshot.Items {
			if len(item.Raw) == 0 {
				t.Errorf("%s has lost its definition", item.Name)
			}
		}
	})
}

func TestRetentionGoesInRounds(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		s := w.register("weather")
		for i := range 5 {
			w.discover(s.ServerID, surface(fmt.Sprint("t", i)))
		}
		exec(t, t.db, old)
		for _, want := range []db.Pruned{{Snapshots: 3, More: true}, {Snapshots: 1}, {}} {
			got, err := t.db.System().PruneSnapshots(t.Context(), 100*time.Hour, 3)
			if got.Definitions = 0; err != nil || got != want {
				t.Errorf("%+v, %v, want %+v", got, err, want)
			}
		}
	})
}

// However short the retention: what a discovery has just seen is there when its
// server comes to be at it.
func TestRetentionLeavesWhatADiscoveryHasJustSeenAgain(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		s := w.register("weather")
		w.discover(s.ServerID, surface("a"))
		w.discover(s.ServerID, surface("b"))
		exec(t, t.db, old)
		var wait sync.WaitGroup
		stop := make(chan struct{})
		wait.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := t.db.System().PruneSnapshots(t.Context(), 0, 100); err != nil {
					t.Error(err)
					return
				}
			}
		})
		for i := range 20 {
			snap := w.snapshot(surface([]string{"a", "b", "c"}[i%3]))
			exec(t, t.db, old)
			if err := w.SaveSnapshot(t.Context(), snap); err != nil {
				t.Fatal(err)
			}
			kept, err := w.Snapshot(t.Context(), snap.Digest)
			if err != nil {
				t.Fatalf("round %d: %v", i, err)
			}
			found, err := w.Definitions(t.Context(), []string{kept.Items[0].Definition(), kept.Items[1].Definition(), kept.Items[2].Definition()})
			if err != nil || len(found) != 3 {
				t.Fatalf("round %d: %d definitions, %v", i, len(found), err)
			}
			w.discover(s.ServerID, surface([]string{"a", "b", "c"}[i%3]))
		}
		close(stop)
		wait.Wait()
	})
}

// The same look in other bytes is the same snapshot: nothing is written for it,
// and a tool that comes back so has the definition that is kept (H13).
func TestASnapshotIsKeptOnceInWhateverBytesItComes(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		w := newWorld(t, d, "acme")
		s := w.register("weather")
		as := func(tool string) registry.Surface {
			look := surface()
			look.Tools = [][]byte{[]byte(tool)}
			return look
		}
		first := w.discover(s.ServerID, as(`{"name":"a","description":"does a","inputSchema":{"type":"object"}}`))
		w.discover(s.ServerID, surface("b"))
		tables := func() (n [4]int) {
			for i, table := range []string{"definitions", "snapshots", "snapshot_items", "tool_search"} {
				n[i] = count(t, d, "SELECT count(*) FROM "+table)
			}
			return n
		}
		before := tables()
		for _, other := range []string{
			`{"inputSchema":{"type":"object"},"description":"does \u0061","name":"a"}`,
			`{ "name" : "a", "inputSchema":{ "type":"object"}, "description":"does a" }`,
		} {
			again := w.discover(s.ServerID, as(other))
			if again.SnapshotDigest != first.SnapshotDigest {
				t.Fatal("another snapshot")
			}
			if after := tables(); after != before {
				t.Errorf("definitions, snapshots, items and words: %v, %v before", after, before)
			}
			tool, err := w.Tool(t.Context(), "weather.a")
			if err != nil || string(tool.Definition) != `{"name":"a","description":"does a","inputSchema":{"type":"object"}}` {
				t.Errorf("its definition is %q: %v", tool.Definition, err)
			}
		}
	})
}

// A key and what it came to go together, keys first, so that a repeat is either
// answered as the first time or new.
func TestKeysAndOperationsAreForgottenInTime(t *testing.T) {
	engines(t, func(t on) {
		d, y := t.db, t.db.System()
		ctx, w := t.Context(), newWorld(t, d, "acme")
		var first []registry.Server
		for i := range 5 {
			first = append(first, w.must(w.Register(ctx, w.registration(fmt.Sprint("s", i)), named("register"), claim(fmt.Sprint("k", i), "body"))))
		}
		w.retire(first[0].ServerID) // an operation without a key
		forgets := func(keys, operations time.Duration, limit int, want db.PrunedOperations) {
			t.Helper()
			if got, err := y.PruneOperations(ctx, keys, operations, limit); err != nil || got != want {
				t.Errorf("keys after %s, operations after %s: %+v, want %+v: %v", keys, operations, got, want, err)
			}
		}
		day := 24 * time.Hour
		forgets(day, day, 100, db.PrunedOperations{})
		for i, age := range []int{9, 8, 7, 3, 2} {
			at := time.Now().UTC().AddDate(0, 0, -age).Format("2006-01-02 15:04:05+00:00")
			exec(t, d, fmt.Sprintf("UPDATE idempotency_keys SET created_at = '%s' WHERE key = 'k%d'", at, i),
				fmt.Sprintf("UPDATE applied_operations SET at = '%s' WHERE name = 'register' AND server_id = '%s'", at, first[i].ServerID))
		}
		forgets(0, 0, 100, db.PrunedOperations{})
		forgets(0, day, 100, db.PrunedOperations{})
		// In steps, the oldest first; records wait for the last of the keys.
		forgets(4*day, day, 2, db.PrunedOperations{Keys: 2, More: true})
		forgets(4*day, day, 2, db.PrunedOperations{Keys: 1, Operations: 2, More: true})
		forgets(4*day, day, 2, db.PrunedOperations{Operations: 1})
		forgets(4*day, 0, 2, db.PrunedOperations{})
		// What is kept is answered as the first time, what is not is new.
		again, err := w.Register(ctx, w.registration("s3"), named("register"), claim("k3", "body"))
		if err != nil || !again.Replayed || again.Server.ServerID != first[3].ServerID {
			t.Errorf("a key that is kept: %+v, %v", again, err)
		}
		anew, err := w.Register(ctx, w.registration("s0"), named("register"), claim("k0", "another body"))
		if err != nil || anew.Replayed || anew.Server.ServerID == first[0].ServerID {
			t.Errorf("a key that is forgotten: %+v, %v", anew, err)
		}
		if got, want := count(t, d, "SELECT count(*) FROM applied_operations"), 4; got != want { // two registrations that are kept, one retirement, the new registration
			t.Errorf("%d records, want %d", got, want)
		}
	})
}
