package db_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"countersign/registry"
)

// contracts finds what takes something from the version before, or holds it to
// more than it knows of.
var contracts = regexp.MustCompile(`(?i)\b(DROP\s+(COLUMN|TABLE|CONSTRAINT|VIEW|INDEX)|RENAME\b|ALTER\s+COLUMN\s+\S+\s+(SET\s+(NOT\s+NULL|DATA\s+TYPE)|TYPE|DROP\s+DEFAULT)|ADD\s+CONSTRAINT|TRUNCATE)\b`)

// required finds a new column that the version before would have to fill.
var required = regexp.MustCompile(`(?i)ADD\s+(COLUMN\s+)?\S+\s+[^,;]*NOT\s+NULL[^,;]*`)

func contracting(sql string) string {
	if strings.HasPrefix(sql, "-- contract:") {
		return ""
	}
	if found := contracts.FindString(sql); found != "" {
		return found
	}
	for _, column := range required.FindAllString(sql, -1) {
		if !strings.Contains(strings.ToUpper(column), "DEFAULT") {
			return column
		}
	}
	return ""
}

// The version before runs while a migration is applied and after it: from 0018 on
// they only add, or say after which version they may run.
func TestMigrationsLeaveToTheVersionBeforeWhatItNeeds(t *testing.T) {
	t.Parallel()
	for sql, bad := range map[string]bool{
		"ALTER TABLE tools ADD COLUMN note TEXT":                                  false,
		"ALTER TABLE tools ADD COLUMN note TEXT NOT NULL DEFAULT ''":              false,
		"CREATE TABLE more (id TEXT NOT NULL); CREATE INDEX more_id ON more (id)": false,
		"-- contract: after 0019\nALTER TABLE tools DROP COLUMN note":             false,
		"ALTER TABLE tools ADD COLUMN note TEXT NOT NULL":                         true,
		"ALTER TABLE tools ADD note TEXT NOT NULL, ADD COLUMN b TEXT DEFAULT ''":  true,
		"ALTER TABLE tools\n  DROP COLUMN note":                                   true,
		"ALTER TABLE tools RENAME COLUMN a TO b":                                  true,
		"ALTER TABLE tools ALTER COLUMN a SET NOT NULL":                           true,
		"ALTER TABLE tools ALTER COLUMN a TYPE BIGINT":                            true,
		"ALTER TABLE tools ADD CONSTRAINT c CHECK (a <> '')":                      true,
		"drop table tools": true,
	} {
		if found := contracting(sql); (found != "") != bad {
			t.Errorf("%q: found %q", sql, found)
		}
	}
	files := 0
	err := filepath.WalkDir("migrations", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".up.sql") {
			return err
		}
		files++
		if number, _, _ := strings.Cut(filepath.Base(path), "_"); number <= "0017" {
			return nil // from before the rule; no installation runs two such versions
		}
		raw, err := os.ReadFile(path)
		if found := contracting(string(raw)); found != "" {
			t.Errorf("%s: %q takes something from the version before", path, found)
		}
		return err
	})
	if err != nil || files < 2*16 {
		t.Errorf("%d migrations: %v", files, err)
	}
}

// The code works on tables that have more than it knows: as the version before
// does after a migration of the next.
func TestTheCodeWorksOnTablesOfTheNextVersion(t *testing.T) {
	engines(t, func(t on) {
		list := "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'tool_words%' AND sql LIKE 'CREATE TABLE%'"
		if isPostgres(t.db) {
			list = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'"
		}
		rows, err := raw(t, t.db).QueryContext(t.Context(), list)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		var tables []string
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				t.Fatal(err)
			}
			if name != "schema_migrations" {
				tables = append(tables, name)
			}
		}
		if err := rows.Err(); err != nil || len(tables) < 20 {
			t.Fatalf("%d tables: %v", len(tables), err)
		}
		for _, table := range tables {
			exec(t, t.db, "ALTER TABLE "+table+" ADD COLUMN of_the_next_version TEXT DEFAULT 'more'")
		}
		exec(t, t.db, `INSERT INTO schema_migrations (name, group_id, migrated_at) VALUES ('9999', 1, '2030-01-01 00:00:00+00:00')`)

		w := newWorld(t, t.db, "acme")
		s := w.register("weather")
		s = w.discover(s.ServerID, surface("forecast", "alerts"))
		s = w.approve(s, "forecast")
		if s.State != registry.StateActive {
			t.Fatalf("it is %s", s.State)
		}
		w.resolves("weather.forecast", "")
		s = w.discover(s.ServerID, surface("forecast", "!forecast"))
		w.resolves("weather.forecast", registry.ReasonSchemaChanged)
		w.approve(s, "forecast")
		w.resolves("weather.forecast", "")
		if page, _, err := t.db.System().ProbePage(t.Context(), "", 10); err != nil || len(page) != 1 {
			t.Errorf("%d are probed: %v", len(page), err)
		}
		if live, _, err := t.db.System().LiveServers(t.Context(), "", 10); err != nil || len(live) != 1 {
			t.Errorf("%d are live: %v", len(live), err)
		}
		if events, _ := follow(t, count(t, t.db, "SELECT count(*) FROM outbox"), t.db.System().OutboxAfter); len(events) == 0 {
			t.Error("there are no events")
		}
	})
}
