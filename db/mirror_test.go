package db_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"countersign/db"
	"countersign/registry"
)

type testMirror = db.Mirror[string, *registry.Denial]

func newMirror(d *db.DB) *testMirror {
	return db.NewMirror(d, func(v *db.ToolView) string { return v.Server.Name }, func(v *db.ToolView) *registry.Denial { return v.Denial })
}

// remembers gives why a mirror says that a tool may not be called, "" when it
// may.
func remembers(t testing.TB, m *testMirror, tenant, toolID string, maxAge time.Duration) registry.Reason {
	t.Helper()
	got := registry.ReasonToolNotFound
	err := m.Get(t.Context(), tenant, []string{toolID}, db.Caller{}, maxAge, func(_ int, k *db.Known[string, *registry.Denial], _ bool) {
		switch {
		case k == nil:
		case k.Tool == nil:
			got = ""
		default:
			got = k.Tool.Reason
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// A mirror that looks says what resolve says, after every change of every kind.
func TestAMirrorSaysWhatResolveSays(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		m := newMirror(t.db)
		same := func(what string, want registry.Reason) {
			t.Helper()
			w.resolves("weather.forecast", want)
			if err := m.Poll(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := remembers(t, m, "acme", "weather.forecast", time.Minute); got != want {
				t.Errorf("%s: the mirror says %q, resolve %q", what, got, want)
			}
		}
		same("nothing", registry.ReasonToolNotFound)
		s := w.register("weather")
		s = w.discover(s.ServerID, surface("forecast"))
		same("discovered", registry.ReasonServerNotActive)
		s = w.approve(s, "forecast")
		same("approved", "")
		w.must(w.change(s.ServerID, "set_enabled", func(r *registry.Record, _ time.Time) error { return r.SetEnabled("forecast", false) }))
		same("disabled", registry.ReasonToolDisabled)
		w.must(w.change(s.ServerID, "set_enabled", func(r *registry.Record, _ time.Time) error { return r.SetEnabled("forecast", true) }))
		same("enabled", "")
		w.discover(s.ServerID, surface("forecast", "!forecast"))
		same("changed", registry.ReasonSchemaChanged)
		w.retire(s.ServerID)
		same("retired", registry.ReasonServerRetired)
		again := w.register("weather")
		w.approve(w.discover(again.ServerID, surface("forecast")), "forecast")
		same("of a successor", "")
	})
}

func TestAMirrorKnowsAssignments(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		s := w.register("weather")
		w.approve(w.discover(s.ServerID, surface("forecast")), "forecast")
		m := newMirror(t.db)
		has := func(agent, workspace string) (out bool) {
			t.Helper()
			err := errors.Join(m.Poll(t.Context()), m.Get(t.Context(), "acme", []string{"weather.forecast"}, db.Caller{Agent: agent, Workspace: workspace}, time.Minute,
				func(_ int, _ *db.Known[string, *registry.Denial], assigned bool) { out = assigned }))
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		if has("bot", "") {
			t.Error("assigned to whom nothing was")
		}
		a := w.assign("bot", "weather.forecast", "blue")
		if !has("bot", "blue") || has("bot", "") || has("bot", "red") || has("other", "blue") {
			t.Error("an assignment counts where it should not, or not where it should")
		}
		if _, err := w.Unassign(t.Context(), a.AssignmentID, named("unassign")); err != nil {
			t.Fatal(err)
		}
		if has("bot", "blue") {
			t.Error("still assigned")
		}
	})
}

// Whoever follows hears of a change without asking, and one who hears nothing
// asks before it answers from what is too old.
func TestAMirrorIsToldOfChanges(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		s := w.register("weather")
		w.approve(w.discover(s.ServerID, surface("forecast")), "forecast")
		told, lonely := newMirror(t.db), newMirror(t.db)
		ctx, stop := context.WithCancel(t.Context())
		var following sync.WaitGroup
		following.Go(func() { told.Follow(ctx) })
		defer following.Wait()
		defer stop()
		for _, m := range []*testMirror{told, lonely} {
			if got := remembers(t, m, "acme", "weather.forecast", time.Minute); got != "" {
				t.Fatalf("denied for %q", got)
			}
		}
		news := told.Changed()
		w.must(w.change(s.ServerID, "set_enabled", func(r *registry.Record, _ time.Time) error { return r.SetEnabled("forecast", false) }))
		select {
		case <-news:
		case <-time.After(20 * time.Second):
			t.Fatal("nobody said so")
		}
		if got := remembers(t, told, "acme", "weather.forecast", time.Minute); got != registry.ReasonToolDisabled {
			t.Errorf("denied for %q", got)
		}
		if got := remembers(t, lonely, "acme", "weather.forecast", time.Hour); got != "" {
			t.Errorf("who never looks and may be an hour behind says %q", got)
		}
		if got := remembers(t, lonely, "acme", "weather.forecast", time.Nanosecond); got != registry.ReasonToolDisabled {
			t.Errorf("who may not be behind says %q", got)
		}
	})
}

// Cut off from the database a mirror refuses once it is older than allowed.
func TestAMirrorThatCannotFollowRefuses(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		s := w.register("weather")
		w.approve(w.discover(s.ServerID, surface("forecast")), "forecast")
		m := newMirror(t.db)
		remembers(t, m, "acme", "weather.forecast", time.Minute)
		if err := t.db.Close(); err != nil {
			t.Fatal(err)
		}
		if got := remembers(t, m, "acme", "weather.forecast", time.Hour); got != "" {
			t.Errorf("within the bound it says %q", got)
		}
		err := m.Get(t.Context(), "acme", []string{"weather.forecast"}, db.Caller{}, time.Nanosecond, func(int, *db.Known[string, *registry.Denial], bool) {
			t.Error("it answers")
		})
		refused(t, err, registry.ReasonStaleSnapshot)
	})
}

// Nothing is lost to a mirror while many write: what it says at last is what
// resolve says.
func TestAMirrorLosesNothingWhileManyWrite(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		const servers, changes = 4, 12
		m := newMirror(t.db)
		ids := make([]string, servers)
		for i := range ids {
			name := fmt.Sprintf("weather-%d", i)
			s := w.register(name)
			ids[i] = w.approve(w.discover(s.ServerID, surface("forecast")), "forecast").ServerID
		}
		var writing, reading sync.WaitGroup
		done := make(chan struct{})
		for i, id := range ids {
			writing.Go(func() {
				for n := range changes + i%2 {
					if _, err := w.change(id, "set_enabled", func(r *registry.Record, _ time.Time) error { return r.SetEnabled("forecast", n%2 == 1) }); err != nil {
						t.Error(err)
					}
				}
			})
		}
		reading.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					remembers(t, m, "acme", "weather-0.forecast", time.Nanosecond)
				}
			}
		})
		writing.Wait()
		close(done)
		reading.Wait()
		if err := m.Poll(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range ids {
			tool := fmt.Sprintf("weather-%d.forecast", i)
			w.resolves(tool, remembers(t, m, "acme", tool, time.Minute))
		}
	})
}
