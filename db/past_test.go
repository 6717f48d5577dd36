package db_test

import (
	"testing"
	"time"

	"countersign/db"
	"countersign/registry"
)

// Whatever resolve said at a time, the records say of that time afterwards, and
// since when each condition is as it is.
func TestRecordsTellWhatWasCallable(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		const tool = "weather.forecast"
		by := db.Caller{Agent: "agent", Workspace: "blue"}
		type moment struct {
			what string
			at   time.Time
			want registry.Reason
		}
		var moments []moment
		now := func() time.Time {
			e, err := w.Explain(t.Context(), tool, db.Caller{}, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			if e.Facts.Tool == nil {
				return time.Now().UTC()
			}
			return e.Facts.Now
		}
		note := func(what string) {
			t.Helper()
			found, err := w.ResolveFor(t.Context(), []string{tool}, by)
			if err != nil {
				t.Fatal(err)
			}
			want := registry.ReasonToolNotFound
			if v := found[tool]; v != nil {
				if want = ""; v.Denial != nil {
					want = v.Denial.Reason
				}
			}
			moments = append(moments, moment{what, now(), want})
		}
		s := w.register("weather")
		note("registered")
		s = w.discover(s.ServerID, surface("forecast"))
		note("discovered")
		s = w.approve(s, "forecast")
		note("approved")
		assigned := w.assign("agent", tool, "blue")
		note("assigned")
		w.must(w.change(s.ServerID, "set_enabled", func(r *registry.Record, _ time.Time) error { return r.SetEnabled("forecast", false) }))
		note("disabled")
		disabled := moments[len(moments)-1].at
		w.must(w.change(s.ServerID, "set_enabled", func(r *registry.Record, _ time.Time) error { return r.SetEnabled("forecast", true) }))
		note("enabled")
		exec(t, t.db, "UPDATE providers SET enabled = FALSE WHERE tenant_id = 'acme'")
		note("provider off")
		exec(t, t.db, "UPDATE providers SET enabled = TRUE WHERE tenant_id = 'acme'")
		note("provider on")
		w.discover(s.ServerID, surface("forecast", "!forecast"))
		note("changed")
		w.discover(s.ServerID, surface("forecast"))
		if _, err := w.Unassign(t.Context(), assigned.AssignmentID, named("unassign")); err != nil {
			t.Fatal(err)
		}
		note("unassigned")
		w.retire(s.ServerID)
		note("retired")

		var reasons []registry.Reason
		for _, m := range moments {
			reasons = append(reasons, m.want)
			e, err := w.Explain(t.Context(), tool, by, m.at)
			if err != nil {
				t.Errorf("%s: %v", m.what, err)
				continue
			}
			got := registry.Reason("")
			if d := registry.Resolve(e.Facts); d != nil {
				got = d.Reason
			}
			if got != m.want {
				t.Errorf("%s: the records say %q, resolve said %q", m.what, got, m.want)
			}
		}
		if reasons[3] != "" || reasons[4] != registry.ReasonToolDisabled || reasons[6] != registry.ReasonProviderDisabled {
			t.Errorf("the test is not what it means to be: %q", reasons)
		}
		e, err := w.Explain(t.Context(), tool, by, disabled)
		if err != nil {
			t.Fatal(err)
		}
		conditions := registry.Explain(e.Facts)
		registry.WithSince(conditions, e.History)
		for _, c := range conditions {
			if c.Since.IsZero() || c.Since.After(disabled) {
				t.Errorf("%s is so since %v", c.Reason, c.Since)
			}
			before := moments[3].at // assigned, and not disabled yet
			if (c.Reason == registry.ReasonToolDisabled) != c.Since.After(before) {
				t.Errorf("%s is so since %v, and was assigned at %v", c.Reason, c.Since, before)
			}
			if c.Reason == registry.ReasonToolDisabled && (c.Holds || len(c.Who) == 0 || c.Next == "") {
				t.Errorf("disabled: %+v", c)
			}
		}
		_, err = w.Explain(t.Context(), tool, by, time.Now().Add(time.Hour))
		refused(t, err, registry.ReasonInvalidArgument)
	})
}

// What was before records began is not guessed at.
func TestWhatIsNotRecordedIsSaidToBeSo(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		s := w.register("weather")
		w.approve(w.discover(s.ServerID, surface("forecast")), "forecast")
		e, err := w.Explain(t.Context(), "weather.forecast", db.Caller{}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		exec(t, t.db, "UPDATE tools SET first_seen_at = '2020-01-01 00:00:00+00:00' WHERE tenant_id = 'acme'")
		_, err = w.Explain(t.Context(), "weather.forecast", db.Caller{}, e.Facts.Now.Add(-time.Hour))
		refused(t, err, registry.ReasonNotRecorded)
	})
}
