package db

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"

	"countersign/registry"
)

// Options say which database is used, and how.
type Options struct {
	// URL is sqlite:PATH for a file of this process alone, or postgres://….
	URL string
	// SystemURL and MigrateURL, on Postgres, are logins of their own for
	// [SystemStore] and for migrations; empty: that of URL, which then owns the
	// schema and is a member of both roles.
	SystemURL, MigrateURL string
	// AppRole and SystemRole, on Postgres, are the roles as which transactions of
	// tenants and of SystemStore run; empty: the default ones.
	AppRole, SystemRole string
	// Logger gets what errors may not tell callers; nil discards it.
	Logger *slog.Logger
	// Connections limits the pool (on SQLite that of the readers); 0 means 16.
	Connections int
}

// DB is an open database.
type DB struct {
	writer *bun.DB
	reader *bun.DB // on Postgres the writer itself
	// prepared runs the few statements that are asked often; it keeps them prepared.
	prepared *bun.DB
	// system and owner are pools of logins of their own; nil: the login of all.
	system, owner *bun.DB
	roles         roles
	logins        logins
	engine        engine
	log           *slog.Logger
	lock          io.Closer // nil on Postgres

	capabilities atomic.Pointer[registry.CapabilityTable]
	quotas       atomic.Pointer[registry.Quotas]
	measures     measures

	listening *pgx.ConnConfig // on Postgres: for hints of changes
	committed bell            // on SQLite: rings when something was

	preparing sync.Mutex
	resolving resolving // for answers
	// resolvingWhole is that of all columns.
	resolvingWhole resolving
}

// Open connects to a database. It does not migrate it: [DB.Check] says whether
// that is needed.
func Open(ctx context.Context, o Options) (*DB, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Connections <= 0 {
		o.Connections = 16
	}
	var (
		d   *DB
		err error
	)
	scheme, _, _ := strings.Cut(o.URL, ":")
	switch scheme {
	case "sqlite":
		if o.SystemURL != "" || o.MigrateURL != "" {
			return nil, registry.Errorf(registry.ReasonInvalidArgument, "a database of sqlite: has no logins, so that it has one URL only")
		}
		d, err = openSQLite(ctx, o)
	case "postgres", "postgresql":
		d, err = openPostgres(o)
	default:
		err = registry.Errorf(registry.ReasonInvalidArgument, "the database URL must begin with sqlite: or postgres://")
	}
	if err != nil {
		return nil, err
	}
	if err := d.Ping(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// SetCapabilities gives the capability table that stores go by which are made
// from now on. Without one nothing is known of any server.
func (d *DB) SetCapabilities(table *registry.CapabilityTable) { d.capabilities.Store(table) }

// Close closes all connections and gives up the lock file. Again, it does
// nothing.
func (d *DB) Close() error {
	var errs []error
	for _, pool := range []*bun.DB{d.prepared, d.reader, d.writer, d.system, d.owner} {
		if pool != nil {
			errs = append(errs, pool.Close())
		}
	}
	if d.lock != nil {
		if err := d.lock.Close(); !errors.Is(err, os.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Ping says whether the database answers.
func (d *DB) Ping(ctx context.Context) error {
	return d.failure(ctx, "ping", d.reader.PingContext(ctx))
}
