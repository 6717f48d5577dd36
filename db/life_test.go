package db_test

import (
	"testing"
	"time"

	"countersign/db"
	"countersign/registry"
)

func TestTheWholeLifeOfAServer(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		w := newWorld(t, d, "acme")
		s := w.register("weather")
		if s.State != registry.StateRegistered || s.Version != 1 || s.Revision != 1 {
			t.Fatalf("registered as %+v", s)
		}
		w.resolves("weather.forecast", registry.ReasonToolNotFound)

		s = w.discover(s.ServerID, surface("forecast", "alerts"))
		if s.State != registry.StateVerified || s.Discovery.Counts.New != 2 || s.Review.Status != registry.ReviewPending {
			t.Fatalf("discovered as %+v", s)
		}
		w.resolves("weather.forecast", registry.ReasonServerNotActive)

		s = w.approve(s, "forecast")
		if s.State != registry.StateActive {
			t.Fatalf("approved, and %s", s.State)
		}
		w.resolves("weather.forecast", "")
		w.resolves("weather.alerts", registry.ReasonToolDisabled)
		view, err := w.Server(t.Context(), "weather")
		if err != nil {
			t.Fatal(err)
		}
		if want := (db.Counts{Tools: 2, Available: 2, Enabled: 1, Bound: 1, Callable: 1, BoundResources: 1, BoundPrompts: 1}); view.Counts != want {
			t.Errorf("counts are %+v, want %+v", view.Counts, want)
		}

		w.must(w.change(s.ServerID, "set_enabled", func(r *registry.Record, _ time.Time) error { return r.SetEnabled("alerts", true) }))
		w.resolves("weather.alerts", registry.ReasonToolUnbound)

		w.discover(s.ServerID, surface("forecast", "alerts", "!forecast"))
		w.resolves("weather.forecast", registry.ReasonSchemaChanged)

		w.retire(s.ServerID)
		w.resolves("weather.forecast", registry.ReasonServerRetired)

		again := w.register("weather")
		w.discover(again.ServerID, surface("forecast"))
		w.resolves("weather.forecast", registry.ReasonServerNotActive)
		w.resolves("weather.alerts", registry.ReasonServerRetired)
	})
}
