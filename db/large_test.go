package db_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"countersign/db"
	"countersign/registry"
)

func manyTools(n int) registry.Surface {
	s := surface()
	for i := range n {
		s.Tools = append(s.Tools, fmt.Appendf(nil, `{"name":"tool_%05d","description":%q,"inputSchema":{"type":"object","properties":{"a":{"type":"string"}}}}`, i, strings.Repeat("does something. ", 20)))
	}
	return s
}

// Both engines limit the parameters of one statement to fewer than a large catalog has (S8).
func TestACatalogOfTenThousandTools(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		w := newWorld(t, d, "acme")
		s := w.register("large")
		lap := func(what string, do func()) {
			start := time.Now()
			do()
			t.Logf("%s: %v", what, time.Since(start).Round(time.Millisecond))
		}
		const n = 10_000
		snap := w.snapshot(manyTools(n))
		lap("save the snapshot", func() {
			if err := w.SaveSnapshot(t.Context(), snap); err != nil {
				t.Fatal(err)
			}
		})
		lap("save it again", func() {
			if err := w.SaveSnapshot(t.Context(), snap); err != nil {
				t.Fatal(err)
			}
		})
		look := registry.Look{Number: 1, TargetDigest: s.TargetDigest}
		discovered := func(catalog bool) db.Applied {
			a, err := w.Apply(t.Context(), db.Change{
				ServerID: s.ServerID, Operation: named("discovered"), Catalog: func(*registry.Server) bool { return catalog },
				Apply: func(r *registry.Record, now time.Time) error {
					look.At = now
					return r.Discovered(snap, look)
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		lap("write the catalog", func() {
			if got := discovered(true).Server.Discovery.Counts; got.New != n || got.Total != n {
				t.Errorf("counts are %+v", got)
			}
		})
		lap("discover it unchanged", func() { discovered(false) })
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("tool_%05d", i))
		}
		view, err := w.Server(t.Context(), s.ServerID)
		if err != nil {
			t.Fatal(err)
		}
		lap("approve all", func() { w.approve(view.Server, names...) })
		lap("read the server", func() {
			view, err := w.Server(t.Context(), s.ServerID)
			if want := (db.Counts{Tools: n, Available: n, Enabled: n, Bound: n, Callable: n, BoundResources: 1, BoundPrompts: 1}); err != nil || view.Counts != want {
				t.Errorf("counts are %+v: %v", view.Counts, err)
			}
		})
		lap("load the catalog", func() {
			w.must(w.change(s.ServerID, "set_enabled", func(r *registry.Record, _ time.Time) error { return r.SetEnabled(names[0], false) }))
		})
		lap("read the capabilities", func() {
			c, err := w.Capabilities(t.Context(), s.ServerID, true)
			if err != nil || len(c.Tools) != n || len(c.Snapshot.Items) != n+2 || len(c.Snapshot.Items[n].Raw) == 0 {
				t.Errorf("%d tools, %d items: %v", len(c.Tools), len(c.Snapshot.Items), err)
			}
		})
		lap("list a page of tools", func() {
			tools, next, total, err := w.Tools(t.Context(), db.ToolQuery{Page: db.Page{Size: 100}})
			if err != nil || len(tools) != 100 || next == "" || total != n {
				t.Errorf("%d tools of %d: %v", len(tools), total, err)
			}
		})
		for what, query := range map[string]db.ToolQuery{
			"search":                        {Words: []string{"tool", "something"}},
			"search for one":                {Words: []string{"09999"}},
			"filter by callable":            {Conditions: conditions("callable = true")},
			"filter by bound and class":     {Conditions: conditions("bound = true;class = read")},
			"search and filter by callable": {Words: []string{"tool"}, Conditions: conditions("callable = true")},
		} {
			query.Size = 100
			lap(what, func() {
				begin := time.Now()
				defer func() {
					if took := time.Since(begin); took > 45*time.Second { // by a bad plan it is minutes
						t.Errorf("%s: took %s", what, took)
					}
				}()
				tools, _, total, err := w.Tools(t.Context(), query)
				if err != nil || len(tools) != min(total, 100) || total == 0 {
					t.Errorf("%s: %d tools of %d: %v", what, len(tools), total, err)
				}
			})
		}
		lap("count by facets", func() {
			if _, total, err := w.ToolFacets(t.Context(), db.ToolQuery{Words: []string{"does"}}, nil); err != nil || total != n {
				t.Errorf("%d tools: %v", total, err)
			}
		})
		w.resolves("large.tool_09999", "")
	})
}

func BenchmarkResolve(b *testing.B) {
	for _, engine := range []struct {
		name string
		open func(tb testing.TB) *db.DB
	}{{"SQLite", sqliteDB}, {"Postgres", postgresDB}} {
		b.Run(engine.name, func(b *testing.B) {
			w := newWorld(b, engine.open(b), "acme")
			s := w.register("weather")
			s = w.discover(s.ServerID, manyTools(1000))
			w.approve(s, "tool_00001", "tool_00002")
			for _, ids := range [][]string{{"weather.tool_00001"}, {"weather.tool_00001", "weather.tool_00002", "weather.tool_00003"}} {
				b.Run(fmt.Sprintf("%d", len(ids)), func(b *testing.B) {
					for b.Loop() {
						found, err := w.Resolve(b.Context(), ids)
						if err != nil || len(found) != len(ids) {
							b.Fatal(len(found), err)
						}
					}
				})
			}
		})
	}
}
