package db_test

import (
	"context"
	"database/sql"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver
	_ "modernc.org/sqlite"             // the driver

	"countersign/db"
	"countersign/db/dbtest"
	"countersign/registry"
)

// on is a test that runs on one engine.
type on struct {
	*testing.T
	db *db.DB
}

// engines runs a test on a fresh, migrated database of each engine.
func engines(t *testing.T, test func(t on)) {
	t.Helper()
	t.Parallel()
	for _, engine := range []struct {
		name string
		open func(tb testing.TB) *db.DB
	}{{"SQLite", sqliteDB}, {"Postgres", postgresDB}} {
		t.Run(engine.name, func(t *testing.T) {
			t.Parallel()
			test(on{t, engine.open(t)})
		})
	}
}

func sqliteDB(tb testing.TB) *db.DB {
	tb.Helper()
	d := open(tb, "sqlite:"+filepath.Join(tb.TempDir(), "registry.db"))
	if _, err := d.Up(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return d
}

func postgresDB(tb testing.TB) *db.DB {
	tb.Helper()
	return open(tb, dbtest.Template(tb, migrated))
}

// migrated fills the template of all Postgres databases.
func migrated(dsn string) error {
	d, err := db.Open(context.Background(), db.Options{URL: dsn})
	if err != nil {
		return err
	}
	if _, err := d.Up(context.Background()); err != nil {
		return err
	}
	return d.Close()
}

func open(tb testing.TB, url string) *db.DB {
	tb.Helper()
	d, err := db.Open(tb.Context(), db.Options{
		URL: url, Logger: slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})), Connections: 8,
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Error(err)
		}
	})
	urls.Store(d, url)
	return d
}

var urls sync.Map

// raw opens the database of d as others would: what tests change by it, no
// method changes.
func raw(tb testing.TB, d *db.DB) *sql.DB {
	tb.Helper()
	url, _ := urls.Load(d)
	driver, dsn := "pgx", url.(string)
	if path, found := strings.CutPrefix(dsn, "sqlite:"); found {
		driver, dsn = "sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=foreign_keys(1)"
	}
	pool, err := sql.Open(driver, dsn)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = pool.Close() })
	return pool
}

// exec runs statements that both engines understand.
func exec(tb testing.TB, d *db.DB, statements ...string) {
	tb.Helper()
	pool := raw(tb, d)
	for _, statement := range statements {
		if _, err := pool.ExecContext(tb.Context(), statement); err != nil {
			tb.Fatalf("%s: %v", statement, err)
		}
	}
}

// count gives the one number that a query selects.
func count(tb testing.TB, d *db.DB, query string) int {
	tb.Helper()
	var n int
	if err := raw(tb, d).QueryRowContext(tb.Context(), query).Scan(&n); err != nil {
		tb.Fatalf("%s: %v", query, err)
	}
	return n
}

// refused checks the reason of an error, and that nothing in it is of SQL.
func refused(tb testing.TB, err error, want registry.Reason) *registry.Error {
	tb.Helper()
	e, ok := registry.AsError(err)
	if !ok {
		tb.Fatalf("%v (%T) is no error of the registry", err, err)
	}
	if e.Reason != want {
		tb.Fatalf("refused for %s (%v), want %s", e.Reason, err, want)
	}
	for _, word := range []string{"SELECT", "INSERT", "UPDATE", "SQL", "constraint", "mcp_servers"} {
		if strings.Contains(e.Message, word) {
			tb.Errorf("the message says %q: %s", word, e.Message)
		}
	}
	return e
}

func isPostgres(d *db.DB) bool {
	url, _ := urls.Load(d)
	return strings.HasPrefix(url.(string), "postgres")
}
