package db_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"countersign/db"
)

func TestTheImpactIsWhatIsCallableAndWhoHasIt(t *testing.T) {
	engines(t, func(t on) {
		w, other := newWorld(t, t.db, "acme"), newWorld(t, t.db, "globex")
		weather := w.approve(w.discover(w.register("weather").ServerID, surface("forecast", "history", "draft")), "forecast", "history")
		foreign := other.approve(other.discover(other.register("weather").ServerID, surface("forecast")), "forecast")
		w.assign("bot", "weather.forecast", "")
		w.assign("bot", "weather.forecast", "research")
		w.assign("alice", "weather.draft", "") // not approved: nothing to lose
		other.assign("eve", "weather.forecast", "")

		got := map[string][]string{}
		tools, more, err := w.ToolImpact(t.Context(), db.ToolQuery{Conditions: []db.Condition{{Field: "server_id", Op: db.OpIs, Value: weather.ServerID}}}, 10)
		if err != nil || more {
			t.Fatal(more, err)
		}
		for _, tool := range tools {
			got[tool.ToolID] = []string{}
			for _, a := range tool.Assignments {
				got[tool.ToolID] = append(got[tool.ToolID], a.Agent+"@"+a.Workspace)
			}
		}
		if diff := cmp.Diff(map[string][]string{"weather.forecast": {"bot@", "bot@research"}, "weather.history": {}}, got); diff != "" {
			t.Error(diff)
		}
		if tools, _, err := w.ToolImpact(t.Context(), db.ToolQuery{Conditions: []db.Condition{{Field: "server_id", Op: db.OpIs, Value: foreign.ServerID}}}, 10); err != nil || len(tools) != 0 {
			t.Errorf("another tenant's: %v %v", tools, err)
		}
		if _, more, err := w.ToolImpact(t.Context(), db.ToolQuery{}, 1); err != nil || !more {
			t.Errorf("more than the limit: %t %v", more, err)
		}
	})
}
