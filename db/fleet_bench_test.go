package db_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/db"
	"countersign/registry"
)

// What the numbers of a fleet, and a page of its servers by health, cost on 1,000 servers and on 100,000.
func BenchmarkFleet(b *testing.B) {
	for _, engine := range []struct {
		name string
		open func(tb testing.TB) *db.DB
	}{{"SQLite", sqliteDB}, {"Postgres", postgresDB}} {
		for _, servers := range []int{1_000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", engine.name, servers), func(b *testing.B) {
				w := newWorld(b, engine.open(b), "acme")
				multiply(b, w, servers)
				unhealthy := db.ServerQuery{Page: db.Page{Size: 100}, Conditions: conditions("health = unhealthy")}
				healthy := db.ServerQuery{Page: db.Page{Size: 100}, Conditions: conditions("health = healthy")}
				for _, bench := range []struct {
					name string
					do   func() error
				}{
					{"Numbers", func() error {
						fleet, err := w.Fleet(b.Context())
						if err == nil && fleet.Servers != servers {
							err = fmt.Errorf("%d servers", fleet.Servers)
						}
						return err
					}},
					{"Unhealthy", func() error {
						_, _, total, err := w.Servers(b.Context(), unhealthy)
						if err == nil && total != servers/100 {
							err = fmt.Errorf("%d servers", total)
						}
						return err
					}},
					{"Healthy", func() error { _, _, _, err := w.Servers(b.Context(), healthy); return err }},
					{"All", func() error {
						_, _, _, err := w.Servers(b.Context(), db.ServerQuery{Page: db.Page{Size: 100}})
						return err
					}},
				} {
					b.Run(bench.name, func(b *testing.B) {
						for b.Loop() {
							if err := bench.do(); err != nil {
								b.Fatal(err)
							}
						}
					})
				}
			})
		}
	}
}

// multiply makes a fleet of copies of one server that was probed well, and of each hundred one that is quarantined.
func multiply(tb testing.TB, w *world, servers int) {
	tb.Helper()
	s := w.discover(w.register("server").ServerID, surface("x"))
	window := time.Now().UTC().Truncate(5 * time.Minute)
	_, err := w.db.System().RecordProbes(tb.Context(), []registry.Probe{{
		TenantID: "acme", ServerID: s.ServerID, Window: window, At: window, Since: window, Outcome: registry.OutcomeOK,
		TargetDigest: s.TargetDigest, ToolsDigest: s.ToolsDigest, Differing: []string{},
	}}, 0)
	if err != nil {
		tb.Fatal(err)
	}
	exec(tb, w.db, "UPDATE mcp_servers SET state = 'active', review_status = 'none'")
	columns := func(table string) []string {
		rows, err := raw(tb, w.db).QueryContext(tb.Context(), "SELECT * FROM "+table) //nolint:unqueryvet // its columns are what is asked for
		if err != nil {
			tb.Fatal(err)
		}
		defer func() { _ = rows.Close() }()
		names, err := rows.Columns()
		if err := errors.Join(err, rows.Err()); err != nil {
			tb.Fatal(err)
		}
		return names
	}
	copied := func(table string, other map[string]string) {
		names := columns(table)
		values := slices.Clone(names)
		for i, name := range names {
			values[i] = "x." + name
			if v, ok := other[name]; ok {
				values[i] = v
			}
		}
		exec(tb, w.db, fmt.Sprintf(`INSERT INTO %s (%s) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			SELECT %s FROM n CROSS JOIN %s AS x`, table, strings.Join(names, ", "), servers-1, strings.Join(values, ", "), table))
	}
	copied("mcp_servers", map[string]string{
		"server_id": "x.server_id || '-' || n.i", "name": "x.name || '-' || n.i",
		"state":  "CASE n.i % 100 WHEN 1 THEN 'degraded' ELSE 'active' END",
		"causes": `CASE n.i % 100 WHEN 1 THEN '["quarantined"]' ELSE '[]' END`,
	})
	copied("probes", map[string]string{"server_id": "x.server_id || '-' || n.i"})
	exec(tb, w.db, `UPDATE server_probe_state SET outcome = 'ok', target_digest = server_target,
		probe_window = (SELECT max(probe_window) FROM server_probe_state), probed_at = (SELECT max(probed_at) FROM server_probe_state)`)
	exec(tb, w.db, "ANALYZE")
}
