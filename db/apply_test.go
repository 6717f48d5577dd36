package db_test

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/db"
	"countersign/registry"
)

// traces counts what a change leaves behind.
func traces(tb testing.TB, d *db.DB) map[string]int {
	tb.Helper()
	out := map[string]int{}
	for _, table := range []string{"audit", "outbox", "applied_operations", "decisions", "idempotency_keys"} {
		out[table] = count(tb, d, "SELECT count(*) FROM "+table)
	}
	return out
}

func more(before map[string]int, plus map[string]int) map[string]int {
	out := map[string]int{}
	for table, n := range before {
		out[table] = n + plus[table]
	}
	return out
}

func TestAnOperationIsAppliedOnce(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		ctx, w := t.Context(), newWorld(t, d, "acme")
		s := w.register("weather")
		s = w.discover(s.ServerID, surface("forecast"))
		calls := 0
		text := "new"
		change := db.Change{
			ServerID: s.ServerID, Operation: named("edit"),
			Claim: &db.Claim{Operation: "edit", Key: "k", BodyHash: "b", Answer: func(s *registry.Server) string { return s.Description }},
			Apply: func(r *registry.Record, now time.Time) error {
				calls++
				return r.Edit(registry.Edit{Description: &text}, named("edit"), now)
			},
		}
		before := traces(t, d)
		first, err := w.Apply(ctx, change)
		if err != nil || first.Replayed || first.Answer != "new" || first.Server.Version != s.Version+1 {
			t.Fatalf("first: %+v, %v", first, err)
		}
		want := more(before, map[string]int{"audit": 1, "applied_operations": 1, "idempotency_keys": 1})
		if diff := cmp.Diff(want, traces(t, d)); diff != "" {
			t.Errorf("traces: %s", diff)
		}
		w.must(w.change(s.ServerID, "edit", func(r *registry.Record, now time.Time) error {
			later := "later"
			return r.Edit(registry.Edit{Description: &later}, named("edit"), now)
		}))
		before = traces(t, d)
		again, err := w.Apply(ctx, change)
		if err != nil || !again.Replayed || again.Answer != "new" || calls != 1 {
			t.Fatalf("again: %+v, %v, %d calls", again, err, calls)
		}
		if diff := cmp.Diff(first.Server, again.Server); diff != "" {
			t.Errorf("the record tells of another server: %s", diff)
		}
		// Another operation with the same key gets the answer of the first.
		change.Operation = named("edit")
		if a, err := w.Apply(ctx, change); err != nil || !a.Replayed || a.Answer != "new" || calls != 1 {
			t.Errorf("same key: %+v, %v, %d calls", a, err, calls)
		}
		if diff := cmp.Diff(before, traces(t, d)); diff != "" {
			t.Errorf("a repeat leaves traces: %s", diff)
		}
		change.Operation, change.Claim.BodyHash = named("edit"), "another"
		_, err = w.Apply(ctx, change)
		refused(t, err, registry.ReasonIdempotencyKeyReused)
	})
}

func TestARefusedDecisionIsKeptAndToldAgain(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		ctx, w := t.Context(), newWorld(t, d, "acme")
		s := w.register("weather")
		s = w.discover(s.ServerID, surface("forecast"))
		op := named("approve")
		op.Actor = registry.Actor{Subject: "bob", Roles: []registry.Role{registry.RoleObserver}}
		change := db.Change{
			ServerID: s.ServerID, Operation: op, Catalog: func(*registry.Server) bool { return true },
			Apply: func(r *registry.Record, now time.Time) error {
				r.Server.Description = "changed before the refusal"
				return r.Decide(registry.Ruling{Verb: registry.VerbApprove, Comment: "please", Approval: &registry.Approval{
					Digest: s.Review.Digest, Tools: []registry.ToolLine{{Tool: "forecast", Class: registry.ClassRead}},
				}}, op, now)
			},
		}
		before := traces(t, d)
		_, err := w.Apply(ctx, change)
		said := refused(t, err, registry.ReasonPermissionDenied)
		if diff := cmp.Diff(more(before, map[string]int{"audit": 1, "applied_operations": 1, "decisions": 1}), traces(t, d)); diff != "" {
			t.Errorf("traces: %s", diff)
		}
		_, err = w.Apply(ctx, change)
		if diff := cmp.Diff(said, refused(t, err, registry.ReasonPermissionDenied)); diff != "" {
			t.Errorf("told otherwise: %s", diff)
		}
		view, err := w.Server(ctx, s.ServerID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s, view.Server); diff != "" {
			t.Errorf("a refusal changed the server: %s", diff)
		}
		decisions, err := w.Decisions(ctx, s.ServerID)
		if err != nil || len(decisions) != 1 {
			t.Fatalf("decisions: %+v, %v", decisions, err)
		}
		got := decisions[0]
		if got.Applied || got.Reason != registry.ReasonPermissionDenied || got.Subject != "bob" || got.Comment != "please" ||
			got.Digest != s.Review.Digest || got.Approval == nil || got.Approval.Tools[0].Tool != "forecast" || len(got.Roles) != 1 {
			t.Errorf("decision: %+v", got)
		}
		entries, _, err := w.Audit(ctx, db.AuditQuery{Outcome: db.AuditRefused})
		if err != nil || len(entries) != 1 {
			t.Fatalf("audit: %+v, %v", entries, err)
		}
		e := entries[0]
		if e.Actor != "bob" || e.Action != "approve" || e.ObjectID != s.ServerID || e.Reason != registry.ReasonPermissionDenied ||
			e.VersionBefore != s.Version || e.VersionAfter != s.Version || e.DigestAfter != s.Review.Digest || e.OperationID != op.ID {
			t.Errorf("audit: %+v", e)
		}
	})
}

func TestADecisionThatNobodyMayTakeIsRecordedOnce(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		ctx, w := t.Context(), newWorld(t, d, "acme")
		s := w.register("weather")
		op := named("approve")
		op.Origin = registry.OriginSignalUnsigned
		decision := registry.Ruling{Verb: registry.VerbApprove, Digest: "sha256:x"}.Decision(&s, op, time.Time{})
		decision.Reason = registry.ReasonUnsignedSignal
		before := traces(t, d)
		for range 2 {
			if err := w.RefuseDecision(ctx, s.ServerID, *decision, op); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(more(before, map[string]int{"audit": 1, "applied_operations": 1, "decisions": 1}), traces(t, d)); diff != "" {
			t.Errorf("traces: %s", diff)
		}
		got, err := w.Decisions(ctx, s.ServerID)
		if err != nil || len(got) != 1 || got[0].Applied || got[0].Reason != registry.ReasonUnsignedSignal || got[0].DecidedAt.IsZero() ||
			got[0].Origin != registry.OriginSignalUnsigned {
			t.Errorf("decisions: %+v, %v", got, err)
		}
		err = w.AuditRefusal(ctx, db.AuditEntry{
			Actor: "bob", Origin: registry.OriginAPI, Action: "retire", ObjectKind: "server", ObjectID: s.ServerID,
			Reason: registry.ReasonPermissionDenied, Note: "no", Detail: []byte(`{"role":"Observer"}`),
		})
		if err != nil {
			t.Fatal(err)
		}
		entries, _, err := w.Audit(ctx, db.AuditQuery{ObjectID: s.ServerID})
		if err != nil || len(entries) != 3 || entries[0].Outcome != db.AuditRefused || entries[0].Actor != "bob" ||
			string(entries[0].Detail) != `{"role":"Observer"}` || entries[0].At.IsZero() {
			t.Errorf("audit: %+v, %v", entries, err)
		}
	})
}

func TestAChangeThatChangesNothingLeavesOnlyItsRecord(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		w := newWorld(t, d, "acme")
		s := w.register("weather")
		s = w.retire(s.ServerID)
		before := traces(t, d)
		if got := w.retire(s.ServerID); got.Version != s.Version || got.Revision != s.Revision {
			t.Errorf("retired twice: %+v", got)
		}
		if diff := cmp.Diff(more(before, map[string]int{"applied_operations": 1}), traces(t, d)); diff != "" {
			t.Errorf("traces: %s", diff)
		}
	})
}

func TestOfTwoWritersWhoSawTheSameOneIsRefused(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		const n = 20
		w := newWorld(t, d, "acme")
		s := w.register("weather")
		var wg sync.WaitGroup
		errs := make([]error, n)
		for i := range n {
			wg.Go(func() {
				text := time.Duration(i + 1).String()
				_, errs[i] = w.change(s.ServerID, "edit", func(r *registry.Record, now time.Time) error {
					return r.Edit(registry.Edit{Etag: s.Etag(), Description: &text}, named("edit"), now)
				})
			})
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
				continue
			}
			refused(t, err, registry.ReasonStaleEtag)
		}
		view, err := w.Server(t.Context(), s.ServerID)
		if won != 1 || err != nil || view.Version != s.Version+1 {
			t.Errorf("%d won, version %d: %v", won, view.Version, err)
		}
	})
}

func TestWhatFailsAfterWritingLeavesNothing(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		w := newWorld(t, d, "acme")
		s := w.register("weather")
		snap := w.snapshot(surface("forecast"))
		if err := w.SaveSnapshot(t.Context(), snap); err != nil {
			t.Fatal(err)
		}
		before := traces(t, d)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := w.Apply(ctx, db.Change{
			ServerID: s.ServerID, Operation: named("discovered"), Catalog: func(*registry.Server) bool { return true },
			Apply: func(r *registry.Record, now time.Time) error {
				return r.Discovered(snap, registry.Look{Number: 1, TargetDigest: s.TargetDigest, At: now})
			},
			// By then the catalog, the audit row and the events are written.
			Claim: &db.Claim{Operation: "discover", Key: "k", Answer: func(*registry.Server) string { cancel(); return "" }},
		})
		refused(t, err, registry.ReasonDeadline)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v does not tell that it was cancelled", err)
		}
		if diff := cmp.Diff(before, traces(t, d)); diff != "" {
			t.Errorf("traces: %s", diff)
		}
		if n := count(t, d, "SELECT count(*) FROM tools"); n != 0 {
			t.Errorf("%d tools", n)
		}
		// An error that is no decision is not recorded: the operation may be tried again.
		op := named("edit")
		for _, e := range []error{errors.New("a fault of the program"), registry.Errorf(registry.ReasonDependency, "policy is away")} {
			_, err := w.Apply(t.Context(), db.Change{ServerID: s.ServerID, Operation: op, Apply: func(*registry.Record, time.Time) error { return e }})
			if want := registry.ReasonOf(e); registry.ReasonOf(err) != want {
				t.Errorf("%v, want %s", err, want)
			}
		}
		if diff := cmp.Diff(before, traces(t, d)); diff != "" {
			t.Errorf("traces: %s", diff)
		}
	})
}

func TestEveryFieldOfAServerIsKept(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		w := newWorld(t, d, "acme")
		s := w.register("weather")
		text := "edited ' \\ \" ? é \U0001f600"
		want := w.must(w.change(s.ServerID, "edit", func(r *registry.Record, now time.Time) error {
			keep := r.Server
			fill(reflect.ValueOf(&r.Server).Elem(), now)
			r.Server.ServerID, r.Server.TenantID, r.Server.Name, r.Server.ProviderID = keep.ServerID, keep.TenantID, keep.Name, keep.ProviderID
			r.Server.Direction, r.Server.Transport, r.Server.CommandRef = keep.Direction, keep.Transport, ""
			r.Server.Authentication, r.Server.EndpointRef, r.Server.RetiredAt = keep.Authentication, keep.EndpointRef, time.Time{}
			r.Server.State, r.Server.Version, r.Server.Revision = registry.StateDegraded, keep.Version, keep.Revision
			r.Server.Review.Status, r.Server.Discovery.Status = registry.ReviewExpired, registry.DiscoveryFailed
			r.Server.Launch.Status = registry.LaunchApproved
			return r.Edit(registry.Edit{Description: &text}, named("edit"), now)
		}))
		view, err := w.Server(t.Context(), s.ServerID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, view.Server); diff != "" {
			t.Errorf("written (-) and read (+): %s", diff)
		}
		if view.UpdatedAt.Location() != time.UTC || !view.UpdatedAt.After(s.UpdatedAt) {
			t.Errorf("updated at %v, after %v", view.UpdatedAt, s.UpdatedAt)
		}
		if diff := cmp.Diff("https://weather.example/mcp", view.Connection.URL); diff != "" {
			t.Error(diff)
		}
	})
}

// fill gives every field a value.
func fill(v reflect.Value, now time.Time) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("some '\\ text")
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, now)
		fill(value, now)
		v.SetMapIndex(key, value)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), now)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), now)
		fill(v.Index(1), now)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(now.Add(time.Microsecond)))
			return
		}
		for _, field := range v.Fields() {
			fill(field, now)
		}
	default:
		panic("no value for " + v.Type().String())
	}
}
