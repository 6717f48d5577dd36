package db

import (
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	sqlitecode "modernc.org/sqlite/lib"
)

func TestTroubleIsToldByItsCode(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]trouble{
		"40001": troubleConflict, "40P01": troubleConflict, "55P03": troubleConflict, "23505": troubleUnique, "25P03": troubleAway,
		"08006": troubleAway, "53300": troubleAway, "57P01": troubleAway, "58030": troubleAway, "23514": troubleOurs, "42601": troubleOurs,
	} {
		if got := classify(t.Context(), fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code})); got != want {
			t.Errorf("Postgres %s is %d, want %d", code, got, want)
		}
	}
	for code, want := range map[int]trouble{
		sqlitecode.SQLITE_BUSY: troubleConflict, sqlitecode.SQLITE_BUSY_SNAPSHOT: troubleConflict, sqlitecode.SQLITE_LOCKED: troubleConflict,
		sqlitecode.SQLITE_CONSTRAINT_UNIQUE: troubleUnique, sqlitecode.SQLITE_CONSTRAINT_PRIMARYKEY: troubleUnique,
		sqlitecode.SQLITE_CONSTRAINT_CHECK: troubleOurs, sqlitecode.SQLITE_FULL: troubleAway, sqlitecode.SQLITE_IOERR_WRITE: troubleAway,
		sqlitecode.SQLITE_READONLY: troubleAway, sqlitecode.SQLITE_ERROR: troubleOurs,
	} {
		if got := classifySQLite(code); got != want {
			t.Errorf("SQLite %d is %d, want %d", code, got, want)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if got := classify(over, net.ErrClosed); got != troubleTime {
		t.Errorf("after the caller's end it is %d, want %d", got, troubleTime)
	}
	if got := classify(t.Context(), net.ErrClosed); got != troubleAway {
		t.Errorf("a closed connection is %d, want %d", got, troubleAway)
	}
}
