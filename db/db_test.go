package db_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	"countersign/db"
	"countersign/db/dbtest"
)

// engines runs a test on a fresh, migrated database of each engine.
func engines(t *testing.T, test func(t *testing.T, d *db.DB)) {
	t.Helper()
	t.Parallel()
	for _, engine := range []struct {
		name string
		open func(tb testing.TB) *db.DB
	}{{"SQLite", sqliteDB}, {"Postgres", postgresDB}} {
		t.Run(engine.name, func(t *testing.T) {
			t.Parallel()
			test(t, engine.open(t))
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
	return d
}
