package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"syscall"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	_ "modernc.org/sqlite" // the driver

	"countersign/registry"
)

// openSQLite opens a file for this process alone: one connection that writes,
// in transactions that take the lock at once, and a pool that reads beside it.
func openSQLite(ctx context.Context, o Options) (*DB, error) {
	path := strings.TrimPrefix(strings.TrimPrefix(o.URL, "sqlite:"), "//")
	if path == "" || strings.ContainsAny(path, "?#") || strings.HasPrefix(path, ":memory:") {
		return nil, registry.Errorf(registry.ReasonInvalidArgument, "the database URL must be sqlite:PATH, with the path of a file")
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, err
	}
	// Made here, so that nobody else may read it, nor the files beside it.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, errors.Join(unusable(path), lock.Close())
	}
	if err := f.Close(); err != nil {
		return nil, errors.Join(unusable(path), lock.Close())
	}
	writer, err := sql.Open("sqlite", sqliteDSN(path, "_txlock=immediate"))
	if err != nil {
		return nil, errors.Join(unusable(path), lock.Close())
	}
	writer.SetMaxOpenConns(1)
	reader, err := sql.Open("sqlite", sqliteDSN(path, "_pragma=query_only(1)"))
	if err != nil {
		return nil, errors.Join(unusable(path), writer.Close(), lock.Close())
	}
	reader.SetMaxOpenConns(o.Connections)
	reader.SetMaxIdleConns(o.Connections)
	d := &DB{
		writer: bun.NewDB(writer, sqliteDialect{sqlitedialect.New()}),
		reader: bun.NewDB(reader, sqliteDialect{sqlitedialect.New()}),
		engine: sqlite, log: o.Logger, lock: lock,
	}
	d.prepared = d.reader
	// The first connection makes the file and turns it to WAL, which readers need.
	if _, err := writer.ExecContext(ctx, "SELECT 1"); err != nil {
		return nil, errors.Join(unusable(path), d.Close())
	}
	return d, nil
}

func sqliteDSN(path string, more string) string {
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath()}
	u.RawQuery = strings.Join([]string{
		"_timezone=UTC", "_pragma=busy_timeout(10000)", "_pragma=journal_mode(WAL)", "_pragma=foreign_keys(1)", more,
	}, "&")
	return u.String()
}

func unusable(path string) error {
	return registry.Errorf(registry.ReasonDependency, "the database file %s cannot be opened", path).
		WithNext("look at its permissions, and at those of its directory")
}

// lockFile keeps a second process off: two with a writer each would not see
// each other's locks in memory.
func lockFile(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, registry.Errorf(registry.ReasonDependency, "the lock file %s cannot be made", path).
			WithNext("make the directory writable, or choose another path")
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		owner, _ := io.ReadAll(io.LimitReader(f, 32)) // only to be shown
		_ = f.Close()
		return nil, registry.Errorf(registry.ReasonDependency, "another process (%s) uses this SQLite database: %s is locked",
			strings.TrimSpace(string(owner)), path).WithNext("stop it, or use Postgres for several processes")
	}
	if err := errors.Join(f.Truncate(0), second(fmt.Fprintf(f, "%d\n", os.Getpid()))); err != nil {
		_ = f.Close()
		return nil, registry.Errorf(registry.ReasonDependency, "the lock file %s cannot be written", path)
	}
	return f, nil // closing it gives up the lock
}

func second(_ int, err error) error { return err }
