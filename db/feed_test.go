package db_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/db"
	"countersign/registry"
)

func TestEventsHoldExactlyTheirPayload(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		w := newWorld(t, d, "acme")
		op := named("register")
		s := w.must(w.Register(t.Context(), w.registration("weather"), op, nil))
		s = w.discover(s.ServerID, surface("forecast", "alerts"))
		w.approve(s, "forecast")
		events, next := follow(t, 7, d.System().OutboxAfter)
		type event struct {
			Type registry.EventType
			Seq  int64
			Data string
		}
		var got []event
		for _, e := range events {
			switch e.Type {
			case registry.EventServerRegistered, registry.EventServerStateChanged, registry.EventCapabilitiesDiscovered:
				got = append(got, event{e.Type, e.Seq, string(e.Data)})
			default:
			}
			if e.TenantID != "acme" || e.Aggregate != s.ServerID || e.EventID == "" || e.OccurredAt.IsZero() || e.CorrelationID == "" {
				t.Errorf("event: %+v", e)
			}
		}
		if events[0].CorrelationID != op.ID || events[0].CausationID != op.ID {
			t.Errorf("the first event is of operation %s", events[0].CorrelationID)
		}
		id := s.ServerID
		want := []event{
			{registry.EventServerRegistered, 1, `{"serverId":"` + id + `","tenantId":"acme","direction":"consumed","transport":"streamable_http","authentication":"workload_identity"}`},
			{registry.EventCapabilitiesDiscovered, 2, `{"serverId":"` + id + `","tenantId":"acme","tools":2,"resources":1,"prompts":1,"unbound":2}`},
			{registry.EventServerStateChanged, 3, `{"serverId":"` + id + `","tenantId":"acme","fromState":"registered","toState":"verified"}`},
			{registry.EventServerStateChanged, 5, `{"serverId":"` + id + `","tenantId":"acme","fromState":"verified","toState":"active"}`},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if more, same, err := d.System().OutboxAfter(t.Context(), next, 100); err != nil || len(more) != 0 || same != next {
			t.Errorf("after the last: %+v, %v, %v", more, same, err)
		}
	})
}

// Whoever comes back with a place goes on there, unless the events up to it are
// not those that somebody was told.
func TestAPlaceOfAnotherHistoryIsRefused(t *testing.T) {
	engines(t, func(t on) {
		ctx := t.Context()
		w := newWorld(t, t.db, "acme")
		end := func(w *world) db.Place {
			t.Helper()
			place, err := w.OutboxEnd(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return place
		}
		resumes := func(w *world, at db.Place) {
			t.Helper()
			if got, err := w.OutboxResume(ctx, at); err != nil || got.Position != at.Position || got.Last != at.Last {
				t.Errorf("%+v became %+v, %v", at, got, err)
			}
		}
		outdated := func(w *world, at db.Place) {
			t.Helper()
			_, err := w.OutboxResume(ctx, at)
			refused(t, err, registry.ReasonResumeTokenOutdated)
		}
		told := func(n int) db.Place { // all events, seen by their reader
			t.Helper()
			events, at := follow(t, n, w.OutboxAfter)
			return db.Place{Position: at, Last: events[len(events)-1].EventID, History: end(w).History}
		}
		empty := end(w)
		if empty.Last != "" {
			t.Errorf("nothing happened, and yet %+v", empty)
		}
		resumes(w, empty)
		resumes(w, db.Place{})
		w.register("weather")
		first := told(1)
		resumes(w, empty)
		resumes(w, first)

		backup := restorable(t)
		w.register("later")
		later := told(2)
		resumes(w, first)
		resumes(w, later)

		restored := newWorld(t, backup, "acme")
		outdated(restored, later) // it is not told yet, there
		restored.register("another")
		follow(t, 2, restored.OutboxAfter)
		outdated(restored, later) // there is another one in its place
		restored.register("one-more")
		outdated(restored, later)
		resumes(restored, end(restored))
		beginning, err := restored.OutboxResume(ctx, db.Place{})
		if err != nil || beginning.History != end(restored).History {
			t.Errorf("%+v, %v", beginning, err)
		}

		ahead := later
		ahead.Tx += 1_000_000
		outdated(w, ahead)
		elsewhere := later
		elsewhere.History++
		outdated(w, elsewhere)
		before := db.Place{Position: later.Position, History: later.History} // nothing was there
		outdated(w, before)
		exec(t, t.db, "DELETE FROM outbox WHERE event_id = '"+first.Last+"'")
		outdated(w, first) // kept no longer, and who knows what after it
		resumes(w, later)
	})
}

// restorable gives a database with what is in the test's now, as one restored
// from a backup has it.
func restorable(t on) *db.DB {
	t.Helper()
	if url, _ := urls.Load(t.db); strings.HasPrefix(url.(string), "sqlite:") { //nolint:forcetypeassert // what open stores
		file := filepath.Join(t.TempDir(), "backup.db")
		exec(t, t.db, "VACUUM INTO '"+file+"'")
		return open(t, "sqlite:"+file)
	}
	d := postgresDB(t)
	var dump []byte
	if err := raw(t, t.db).QueryRowContext(t.Context(), "SELECT json_agg(o) FROM outbox AS o").Scan(&dump); err != nil {
		t.Fatal(err)
	}
	const copied = "INSERT INTO outbox OVERRIDING SYSTEM VALUE SELECT o.* FROM json_populate_recordset(NULL::outbox, $1) AS o" //nolint:unqueryvet // a copy has every column
	if _, err := raw(t, d).ExecContext(t.Context(), copied, string(dump)); err != nil {
		t.Fatal(err)
	}
	return d
}

// Readers who follow by position see every row once, and those of an aggregate
// in order, while many write.
func TestStreamsLoseNothingWhileManyWrite(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		const servers, writers, changes = 3, 4, 8
		worlds := []*world{newWorld(t, d, "acme"), newWorld(t, d, "globex"), newWorld(t, d, "initech")}
		ids := make([]string, servers)
		for i, w := range worlds {
			ids[i] = w.register("weather").ServerID
		}
		var writing, reading sync.WaitGroup
		for writer := range writers {
			writing.Go(func() {
				for n := range changes {
					for i, w := range worlds {
						w.discover(ids[i], surface(fmt.Sprintf("tool_%d_%d", writer, n)))
					}
				}
			})
		}
		const total = servers * (2 + 2*writers*changes) // each discovery asks for approval, the first one changes the state too
		var (
			events  []db.OutboxEvent
			entries []db.AuditEntry
		)
		reading.Go(func() { events, _ = follow(t, total, d.System().OutboxAfter) })
		reading.Go(func() { entries, _ = follow(t, servers*(1+writers*changes), d.System().AuditAfter) })
		writing.Wait()
		reading.Wait()
		last := map[string]int64{}
		for _, e := range events {
			if e.Seq != last[e.Aggregate]+1 {
				t.Fatalf("event %d of %s follows %d", e.Seq, e.Aggregate, last[e.Aggregate])
			}
			last[e.Aggregate] = e.Seq
		}
		for _, id := range ids {
			if want := int64(count(t, d, "SELECT max(seq) FROM outbox WHERE aggregate = '"+id+"'")); last[id] != want {
				t.Errorf("server %s: saw %d events of %d", id, last[id], want)
			}
		}
		if want := count(t, d, "SELECT count(*) FROM audit"); len(entries) != want {
			t.Errorf("saw %d audit rows of %d", len(entries), want)
		}
		seen := map[string]bool{}
		for _, e := range entries {
			if seen[e.AuditID] {
				t.Fatalf("audit row %s comes twice", e.AuditID)
			}
			seen[e.AuditID] = true
		}
		own, _ := follow(t, int(last[ids[1]]), worlds[1].OutboxAfter)
		for _, e := range own {
			if e.TenantID != "globex" {
				t.Errorf("globex sees an event of %s", e.TenantID)
			}
		}
	})
}

// follow reads a stream until it has so many rows. On Postgres they show when
// all older transactions of the server have ended, those of other tests too.
func follow[R any](tb testing.TB, want int, read func(context.Context, db.Position, int) ([]R, db.Position, error)) ([]R, db.Position) {
	tb.Helper()
	var (
		out []R
		at  db.Position
	)
	for end := time.Now().Add(2 * time.Minute); len(out) < want; {
		rows, next, err := read(tb.Context(), at, 5)
		if err != nil || time.Now().After(end) {
			tb.Errorf("%d rows of %d: %v", len(out), want, err)
			break
		}
		out, at = append(out, rows...), next
	}
	return out, at
}

func TestTheAuditTrailTellsTheStory(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		w := newWorld(t, d, "acme")
		s := w.register("weather")
		found := w.discover(s.ServerID, surface("forecast"))
		active := w.approve(found, "forecast")
		w.register("other")
		var got []string
		page := db.Page{Size: 2}
		for {
			entries, next, err := w.Audit(t.Context(), db.AuditQuery{Page: page, ObjectID: s.ServerID})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				got = append(got, fmt.Sprintf("%s %s v%d→%d %s", e.Action, e.Outcome, e.VersionBefore, e.VersionAfter, e.Note))
				if !json.Valid(e.Detail) || e.Actor != "ann" || len(e.Roles) != 2 || e.Position != 0 || e.Hash != "" {
					t.Errorf("entry: %+v", e)
				}
			}
			if next == "" {
				break
			}
			page.After = next
		}
		want := []string{
			fmt.Sprintf("approve applied v%d→%d approved 1 tools, 1 resources, 1 prompts: %.19s…", found.Version, active.Version, found.Review.Digest),
			fmt.Sprintf("discovered applied v1→%d discovered: 1 new, 0 changed, 0 unchanged, 0 unavailable", found.Version),
			"register applied v0→1 registered",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}
