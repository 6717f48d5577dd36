package db_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/db"
	"countersign/registry"
)

// offers is a surface of tools, each "name|title|description".
func offers(tools ...string) registry.Surface {
	s := surface()
	for _, tool := range tools {
		parts := strings.Split(tool, "|")
		s.Tools = append(s.Tools, fmt.Appendf(nil, `{"name":%q,"title":%q,"description":%q,"inputSchema":{"type":"object"}}`, parts[0], parts[1], parts[2]))
	}
	return s
}

func words(t testing.TB, query string) []string {
	t.Helper()
	list, err := registry.SearchWords(query)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestBothEnginesFindTheSameTools(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		one := w.register("weather")
		w.discover(one.ServerID, offers(
			"getForecast|Weather forecast|Tomorrow's weather for a city.",
			"list_alerts|Alerts|Lists alerts of a city. It's O'Brien's; see \"weather\" & more | less.",
			"forecast|Short|Says rain.",
			"set_radar||Turns the RADAR on. Größe 天気 ha\u200bsh",
		))
		two := w.register("city-maps")
		w.discover(two.ServerID, offers("find|Find a place|Finds places by name, for a forecast.", "findall||Everything."))
		other := newWorld(t, t.db, "globex")
		other.discover(other.register("weather").ServerID, offers("forecast|x|forecast"))
		gone := w.register("gone")
		w.discover(gone.ServerID, offers("forecast|x|forecast"))
		w.retire(gone.ServerID)
		check := func(query string, want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, w.finds(db.ToolQuery{Words: words(t, query)})); diff != "" {
				t.Errorf("%q: %s", query, diff)
			}
		}
		// A word of the name, the beginning of one, the title, all else; then by id.
		check("forecast", "weather.forecast", "weather.getForecast", "city-maps.find")
		check("forec", "weather.forecast", "weather.getForecast", "city-maps.find")
		check("FORECAST weather", "weather.getForecast", "weather.forecast")
		check("find", "city-maps.find", "city-maps.findall")
		check("place", "city-maps.find")
		check("city", "city-maps.find", "city-maps.findall", "weather.getForecast", "weather.list_alerts")
		check("brien", "weather.list_alerts")
		check("getForecast", "weather.getForecast")
		check("list_alerts", "weather.list_alerts")
		check("größe", "weather.set_radar")
		check("气")
		check("天気 hash", "weather.set_radar")
		check("radar rain")
		check("o' OR ' 1=1 --")
		check("and or not near")
		// The description changes, and with it what finds the tool.
		w.discover(one.ServerID, offers("forecast|Short|Says snow.", "getForecast|Weather forecast|Tomorrow's weather for a city."))
		check("rain")
		check("snow", "weather.forecast")
		// With other conditions, another order, and retired servers.
		got := w.finds(db.ToolQuery{
			Words: words(t, "forecast"), Conditions: conditions("server = weather;available = true"), Order: db.Order{Field: "tool_id", Desc: true},
		})
		if diff := cmp.Diff([]string{"weather.getForecast", "weather.forecast"}, got); diff != "" {
			t.Error(diff)
		}
		if got := w.finds(db.ToolQuery{Words: words(t, "gone"), ShowRetired: true}); !slices.Equal(got, []string{"gone.forecast"}) {
			t.Errorf("of retired servers: %v", got)
		}
		for _, order := range []db.Order{{Field: "relevance"}, {Field: "relevance", Desc: true}} {
			query := db.ToolQuery{Order: order}
			if order.Desc {
				query.Words = []string{"a"}
			}
			_, _, _, err := w.Tools(t.Context(), query)
			refused(t, err, registry.ReasonInvalidOrder)
		}
	})
}

func TestPagesOfASearchLoseAndRepeatNothing(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		var tools []string
		for i := range 60 {
			tools = append(tools, fmt.Sprintf("%s_%02d|%s|%s", []string{"forecast", "forecaster", "x", "y"}[i%4], i, []string{"", "forecast"}[i/4%2], "a forecast"))
		}
		s := w.register("weather")
		w.discover(s.ServerID, offers(tools...))
		all := w.finds(db.ToolQuery{Words: []string{"forecast"}, Page: db.Page{Size: 100}})
		var got []string
		for page := (db.Page{Size: 7}); ; {
			views, next, total, err := w.Tools(t.Context(), db.ToolQuery{Words: []string{"forecast"}, Page: page})
			if err != nil || total < len(tools) {
				t.Fatalf("%d found: %v", total, err)
			}
			for _, v := range views {
				if !strings.HasPrefix(v.Tool.ExternalID, "new") {
					got = append(got, v.Tool.ToolID)
				}
			}
			if page.After = next; next == "" {
				break
			}
			tools = append(tools, fmt.Sprintf("new_%d|forecast|", len(got)))
			w.discover(s.ServerID, offers(tools...))
		}
		if diff := cmp.Diff(all, got); diff != "" || len(all) != 60 {
			t.Errorf("%d in pages of 7: %s", len(all), diff)
		}
	})
}

// Tools that an older program wrote have no words.
func TestMigratingMakesTheWordsThatAreMissing(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		w.discover(w.register("weather").ServerID, manyTools(1200))
		exec(t, t.db, "DELETE FROM tool_search")
		if got := w.finds(db.ToolQuery{Words: []string{"something"}}); len(got) != 0 {
			t.Fatalf("found %d", len(got))
		}
		if _, err := t.db.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, _, total, err := w.Tools(t.Context(), db.ToolQuery{Words: []string{"something"}})
		if err != nil || total != 1200 {
			t.Errorf("found %d: %v", total, err)
		}
	})
}

func TestFacetsCountWhatTheFilterFinds(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		one := w.register("one")
		one = w.discover(one.ServerID, surface("a", "b", "c", "d"))
		w.approve(one, "a", "b")
		w.must(w.change(one.ServerID, "x", func(r *registry.Record, _ time.Time) error { return r.SetEnabled("b", false) }))
		w.must(w.change(one.ServerID, "x", func(r *registry.Record, _ time.Time) error { return r.RequireApproval([]string{"a"}, true) }))
		broken := surface("e")
		broken.Tools = append(broken.Tools, []byte(`{"name":"f","inputSchema":null}`))
		w.discover(w.register("two").ServerID, broken)
		check := func(query db.ToolQuery, want map[string]string) {
			t.Helper()
			facets, total, err := w.ToolFacets(t.Context(), query, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{"": fmt.Sprint(total)}
			for _, f := range facets {
				var values []string
				for _, v := range f.Values {
					values = append(values, fmt.Sprintf("%s=%d", v.Value, v.Count))
				}
				got[f.Field] = strings.Join(values, " ")
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%+v: %s", query, diff)
			}
		}
		check(db.ToolQuery{}, map[string]string{
			"": "6", "server": "one=4 two=2", "provider": "one=4 two=2", "class": "=4 read=2", "enabled": "false=5 true=1", "available": "true=5 false=1",
			"bound": "false=4 true=2", "callable": "false=5 true=1", "quarantined": "false=5 true=1", "requires_approval": "false=5 true=1",
		})
		check(db.ToolQuery{Conditions: conditions("bound = true"), Words: []string{"does"}}, map[string]string{
			"": "2", "server": "one=2", "provider": "one=2", "class": "read=2", "enabled": "false=1 true=1", "available": "true=2",
			"bound": "true=2", "callable": "false=1 true=1", "quarantined": "false=2", "requires_approval": "false=1 true=1",
		})
		check(db.ToolQuery{Words: []string{"nothing"}}, map[string]string{
			"": "0", "server": "", "provider": "", "class": "", "enabled": "", "available": "", "bound": "", "callable": "", "quarantined": "", "requires_approval": "",
		})
		facets, _, err := w.ToolFacets(t.Context(), db.ToolQuery{}, []string{"class"})
		if err != nil || len(facets) != 1 {
			t.Errorf("%+v, %v", facets, err)
		}
		_, _, err = w.ToolFacets(t.Context(), db.ToolQuery{}, []string{"weather"})
		refused(t, err, registry.ReasonInvalidArgument)
		for i := range db.MaxFacetValues + 5 {
			w.discover(w.register(fmt.Sprintf("many-%03d", i)).ServerID, surface("x"))
		}
		facets, total, err := w.ToolFacets(t.Context(), db.ToolQuery{}, []string{"server"})
		if err != nil || total != 6+105 || len(facets[0].Values) != db.MaxFacetValues || facets[0].Others != 7 || facets[0].Values[0] != (db.FacetValue{Value: "one", Count: 4}) {
			t.Errorf("%d, %d, %d others: %v", total, len(facets[0].Values), facets[0].Others, err)
		}
	})
}

func TestToolsAreChosenForAChange(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		for _, name := range []string{"two", "one"} {
			s := w.register(name)
			w.discover(s.ServerID, surface("a", "b"))
		}
		w.retire(func() string { s := w.register("old"); w.discover(s.ServerID, surface("a")); return s.ServerID }())
		choose := func(query db.ToolQuery, limit int) (ids []string, more bool) {
			t.Helper()
			refs, more, err := w.ToolRefs(t.Context(), query, limit)
			if err != nil {
				t.Fatal(err)
			}
			for _, ref := range refs {
				ids = append(ids, ref.ToolID+"/"+ref.ServerName+"/"+ref.ExternalID)
			}
			return ids, more
		}
		all := []string{"one.a/one/a", "one.b/one/b", "two.a/two/a", "two.b/two/b"}
		for _, test := range []struct {
			query db.ToolQuery
			limit int
			want  []string
			more  bool
		}{
			{db.ToolQuery{ShowRetired: true}, 4, all, false},
			{db.ToolQuery{}, 3, all[:3], true},
			{db.ToolQuery{IDs: []string{"two.b", "one.a", "none", "old.a"}}, 9, []string{all[0], all[3]}, false},
			{db.ToolQuery{IDs: []string{}}, 9, nil, false},
			{db.ToolQuery{Conditions: conditions("name = b")}, 9, []string{all[1], all[3]}, false},
		} {
			got, more := choose(test.query, test.limit)
			if diff := cmp.Diff(test.want, got); diff != "" || more != test.more {
				t.Errorf("%+v: more %v, %s", test.query, more, diff)
			}
		}
	})
}
