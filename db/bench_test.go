package db_test

import (
	"testing"

	"countersign/db"
)

// What the second wall costs on Postgres shows beside SQLite, which has none.
func BenchmarkStore(b *testing.B) {
	for _, engine := range []struct {
		name string
		open func(tb testing.TB) *db.DB
	}{{"SQLite", sqliteDB}, {"Postgres", postgresDB}} {
		b.Run(engine.name, func(b *testing.B) {
			w := newWorld(b, engine.open(b), "acme")
			s := w.register("weather")
			s = w.discover(s.ServerID, manyTools(5000))
			s = w.approve(s, "tool_00001", "tool_00002")
			exec(b, w.db, "ANALYZE") // as Postgres does itself, later
			for name, do := range map[string]func() error{
				"Server": func() error {
					_, err := w.Server(b.Context(), s.ServerID)
					return err
				},
				"Decisions": func() error {
					_, err := w.Decisions(b.Context(), s.ServerID)
					return err
				},
				"ToolsPage": func() error {
					_, _, _, err := w.Tools(b.Context(), db.ToolQuery{Page: db.Page{Size: 50}})
					return err
				},
				"ToolsRareWord": func() error {
					_, _, _, err := w.Tools(b.Context(), db.ToolQuery{Page: db.Page{Size: 50}, Words: []string{"04321"}})
					return err
				},
				"Write": func() error { return w.RememberEra(b.Context(), s.ServerID, "modern") },
			} {
				b.Run(name, func(b *testing.B) {
					for b.Loop() {
						if err := do(); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		})
	}
}
