package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	sqlitedriver "modernc.org/sqlite"
	sqlitecode "modernc.org/sqlite/lib"

	"countersign/registry"
)

// trouble classifies what a driver says.
type trouble int

const (
	troubleOurs     trouble = iota // a fault of this program or of the schema
	troubleConflict                // another writer came first; the same again may succeed
	troubleUnique                  // a row of this key is there; what to say about it shows at a second look
	troubleAway                    // the database is not to be had
	troubleTime                    // the caller's time is over
)

func classify(ctx context.Context, err error) trouble {
	if ctx.Err() != nil {
		return troubleTime
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return troubleAway
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return classifyPostgres(e.Code)
	}
	if e, ok := errors.AsType[*sqlitedriver.Error](err); ok {
		return classifySQLite(e.Code())
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return troubleAway
	}
	for _, lost := range []error{
		driver.ErrBadConn, sql.ErrConnDone, pgconn.ErrConnClosed, net.ErrClosed, io.EOF, io.ErrUnexpectedEOF,
		syscall.ECONNRESET, syscall.EPIPE, context.DeadlineExceeded,
	} {
		if errors.Is(err, lost) {
			return troubleAway
		}
	}
	if strings.Contains(err.Error(), "database is closed") { // database/sql has no name for it
		return troubleAway
	}
	return troubleOurs
}

func classifyPostgres(code string) trouble {
	switch code {
	case "40001", "40P01", "55P03": // serialization failure, deadlock, lock timeout
		return troubleConflict
	case "23505":
		return troubleUnique
	case "25P03", "25P04": // idle in transaction, transaction timeout
		return troubleAway
	}
	switch code[:2] {
	case "08", "53", "57", "58": // connection, resources, operator intervention, system
		return troubleAway
	}
	return troubleOurs
}

func classifySQLite(code int) trouble {
	switch code {
	case sqlitecode.SQLITE_CONSTRAINT_UNIQUE, sqlitecode.SQLITE_CONSTRAINT_PRIMARYKEY:
		return troubleUnique
	}
	switch code & 0xff {
	case sqlitecode.SQLITE_BUSY, sqlitecode.SQLITE_LOCKED:
		return troubleConflict
	case sqlitecode.SQLITE_IOERR, sqlitecode.SQLITE_FULL, sqlitecode.SQLITE_CANTOPEN, sqlitecode.SQLITE_READONLY,
		sqlitecode.SQLITE_PERM, sqlitecode.SQLITE_NOMEM:
		return troubleAway
	}
	return troubleOurs
}

// failure makes an error that may leave of one that may not: it says nothing of
// SQL and values, which are logged. Errors of the registry stay as they are.
func (d *DB) failure(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := registry.AsError(err); ok {
		return e
	}
	kind := classify(ctx, err)
	if kind == troubleTime {
		e := registry.Errorf(registry.ReasonDeadline, "the time ran out before the database answered")
		e.Err = ctx.Err()
		return e
	}
	d.log.LogAttrs(ctx, slog.LevelError, "database", slog.String("doing", doing), slog.String("error", err.Error()))
	switch kind {
	case troubleConflict, troubleUnique:
		return registry.Errorf(registry.ReasonConflictingWrite, "another change of the same rows came first").WithNext("try again")
	case troubleAway:
		return registry.Errorf(registry.ReasonDependency, "the database does not answer").WithNext("try again later")
	case troubleOurs, troubleTime:
	}
	return registry.Errorf(registry.ReasonInternal, "the database failed: %s", doing)
}
