package db_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"countersign/db"
	"countersign/db/dbtest"
	"countersign/registry"
)

func TestMigrationsGoUpDownAndUpAgain(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		ctx := t.Context()
		before := schema(t, d)
		if applied, err := d.Up(ctx); err != nil || len(applied) != 0 {
			t.Fatalf("a second time up: %v, %v", applied, err)
		}
		all, err := d.Status(ctx)
		if err != nil || len(all) == 0 || all[0].AppliedAt.IsZero() || !all[0].Known || all[0].Comment != "registry" {
			t.Fatalf("status: %+v, %v", all, err)
		}
		if err := d.Check(ctx); err != nil {
			t.Fatal(err)
		}
		for range all {
			if err := d.Down(ctx, 1); err != nil {
				t.Fatal(err)
			}
		}
		refused(t, d.Check(ctx), registry.ReasonSchemaOlder)
		left := schema(t, d)
		delete(left, "schema_migrations")
		if len(left) > 0 {
			t.Errorf("down leaves %v", slices.Collect(maps.Keys(left)))
		}
		if applied, err := d.Up(ctx); err != nil || len(applied) != len(all) || applied[0] != "0001_registry" {
			t.Fatalf("up again: %v, %v", applied, err)
		}
		if diff := cmp.Diff(before, schema(t, d)); diff != "" {
			t.Errorf("up, down and up makes another schema: %s", diff)
		}
	})
}

func TestASchemaOfANewerVersionIsRefused(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		exec(t, d, `INSERT INTO schema_migrations (name, group_id, migrated_at) VALUES ('9999', 1, '2030-01-01 00:00:00+00:00')`)
		refused(t, d.Check(t.Context()), registry.ReasonSchemaNewer)
		_, err := d.Up(t.Context())
		refused(t, err, registry.ReasonSchemaNewer)
		refused(t, d.Down(t.Context(), 1), registry.ReasonSchemaNewer)
		all, err := d.Status(t.Context())
		if err != nil || all[len(all)-1].Name != "9999" || all[len(all)-1].Known {
			t.Errorf("status: %+v, %v", all, err)
		}
	})
}

func TestADatabaseThatWasNeverMigratedIsOlder(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"sqlite:" + t.TempDir() + "/a b%.db", dbtest.Postgres(t)} {
		refused(t, open(t, url).Check(t.Context()), registry.ReasonSchemaOlder)
	}
}

func TestMigratorsTakeTurns(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"sqlite:" + t.TempDir() + "/registry.db", dbtest.Postgres(t)} {
		d := open(t, url)
		others := []*db.DB{d, d}
		if isPostgres(d) {
			others = append(others, open(t, url), open(t, url))
		}
		var (
			wg    sync.WaitGroup
			mu    sync.Mutex
			names []string
		)
		for _, d := range others {
			wg.Go(func() {
				applied, err := d.Up(t.Context())
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				names = append(names, applied...)
			})
		}
		wg.Wait()
		all, err := d.Status(t.Context())
		if err != nil || len(names) != len(all) {
			t.Errorf("applied %v of %d: %v", names, len(all), err)
		}
	}
}

func TestBothEnginesHaveTheSameTables(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(schema(t, sqliteDB(t)), schema(t, postgresDB(t))); diff != "" {
		t.Errorf("SQLite (-) and Postgres (+) differ: %s", diff)
	}
}

// schema lists the columns of each table, and whether they may be null, but for
// SQLite's index of words, which Postgres has as an index.
func schema(tb testing.TB, d *db.DB) map[string][]string {
	tb.Helper()
	query := `SELECT m.name, c.name, c."notnull" = 0 AND c.pk = 0 FROM sqlite_master AS m JOIN pragma_table_xinfo(m.name) AS c
WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.name NOT LIKE 'tool_words%' ORDER BY m.name, c.cid`
	if isPostgres(d) {
		query = `SELECT table_name, column_name, is_nullable = 'YES' FROM information_schema.columns WHERE table_schema = 'public' ORDER BY table_name, ordinal_position`
	}
	rows, err := raw(tb, d).QueryContext(tb.Context(), query)
	if err != nil {
		tb.Fatal(err)
	}
	defer rows.Close()
	out := map[string][]string{}
	for rows.Next() {
		var (
			table, column string
			null          bool
		)
		if err := rows.Scan(&table, &column, &null); err != nil {
			tb.Fatal(err)
		}
		out[table] = append(out[table], fmt.Sprintf("%s null=%v", column, null))
	}
	if err := rows.Err(); err != nil {
		tb.Fatal(err)
	}
	return out
}

func TestTheDatabaseItselfHoldsTheRules(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		w := newWorld(t, d, "acme")
		s := w.register("weather")
		s = w.discover(s.ServerID, surface("forecast"))
		w.approve(s, "forecast")
		pool := raw(t, d)
		for _, statement := range []string{
			"UPDATE mcp_tool_bindings SET declared_class = ''",          // R13
			"UPDATE mcp_tool_bindings SET tool_version = ''",            // R13
			"UPDATE mcp_resource_bindings SET classification = ''",      // R15
			"UPDATE mcp_prompt_bindings SET workflow_step_ref = 'step'", // R14: either, not both
			"UPDATE mcp_servers SET state = 'waiting'",                  // R2
			"UPDATE mcp_servers SET state = 'degraded'",                 // without a cause
			"UPDATE mcp_servers SET provider_id = 'prv_none'",
			"UPDATE decisions SET comment = 'never said'",
			"DELETE FROM decisions",
			"UPDATE audit SET actor = 'somebody else'",
			"DELETE FROM audit",
			"DELETE FROM descriptors",
			"UPDATE descriptors SET class = 'publication'",
			"UPDATE descriptors SET status = 'draft'",
		} {
			if _, err := pool.ExecContext(t.Context(), statement); err == nil {
				t.Errorf("%s is allowed", statement)
			}
		}
		if _, err := pool.ExecContext(t.Context(), "UPDATE audit SET position = id, prev_hash = 'a', hash = 'b'"); err != nil {
			t.Errorf("sealing the audit chain: %v", err)
		}
		if _, err := pool.ExecContext(t.Context(), "UPDATE audit SET hash = 'c'"); err == nil {
			t.Error("a sealed audit row can change")
		}
	})
}
