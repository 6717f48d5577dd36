package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"

	"countersign/registry"
)

// roles are those that transactions on Postgres run as.
type roles struct{ app, system string }

// The roles of an installation that names no others.
const (
	DefaultAppRole    = "countersign_app"
	DefaultSystemRole = "countersign_system"
)

// tenantSetting holds the tenant of a transaction, and migratingSetting is on
// in those of migrations. The policies of the tables go by them.
const (
	tenantSetting    = "countersign.tenant"
	migratingSetting = "countersign.migrating"
)

// of says as which role a scope's transactions run; empty: as the login.
func (r roles) of(who scope) string {
	switch who.kind {
	case tenantScope:
		return r.app
	case systemScope:
		return r.system
	case noScope, migrationScope:
	}
	return ""
}

// opening is the statement by which a transaction becomes one of the scope. All
// it sets ends with the transaction, so that nothing of it is left on the
// connection for the next one, whoever shares it: a pooler may stand between.
func (r roles) opening(who scope) string {
	if who.kind == migrationScope {
		return "SELECT set_config('" + migratingSetting + "', 'on', true)"
	}
	return "SELECT set_config('role', " + literal(r.of(who)) + ", true), set_config('" + tenantSetting + "', " + literal(who.tenant) + ", true)"
}

func literal(s string) string { return "'" + strings.ReplaceAll(asText(s), "'", "''") + "'" }

func identifier(s string) string { return pgx.Identifier{s}.Sanitize() }

// scopedConnector makes connections on which nothing runs outside of a scope.
type scopedConnector struct {
	driver.Connector
	roles roles
}

func (c scopedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	pg, ok := conn.(*stdlib.Conn)
	if !ok {
		return nil, fmt.Errorf("a connection of another driver: %T", conn)
	}
	return &scopedConn{pg, c.roles}, nil
}

// scopedConn begins transactions in the scope of their context, in one round
// trip, and refuses all statements outside of one: they would run as the login,
// who may see everything.
type scopedConn struct {
	*stdlib.Conn
	roles roles
}

var errNoScope = errors.New("a statement outside of a transaction for a tenant, the system or a migration")

func (c *scopedConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	who := scopeOf(ctx)
	if who.kind == noScope {
		return nil, errNoScope
	}
	begin := "BEGIN"
	switch sql.IsolationLevel(o.Isolation) {
	case sql.LevelDefault:
	case sql.LevelRepeatableRead:
		begin += " ISOLATION LEVEL REPEATABLE READ"
	default:
		return nil, fmt.Errorf("isolation %d is not used here", o.Isolation)
	}
	if o.ReadOnly {
		begin += " READ ONLY"
	}
	if c.Conn.Conn().IsClosed() {
		return nil, driver.ErrBadConn
	}
	tx, err := c.Conn.Conn().BeginTx(ctx, pgx.TxOptions{BeginQuery: begin + "; " + c.roles.opening(who)})
	if err != nil {
		return nil, c.roles.unsettable(who, err)
	}
	return scopedTx{ctx, tx}, nil
}

func (c *scopedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if c.outside() {
		return nil, errNoScope
	}
	return c.Conn.ExecContext(ctx, query, args)
}

func (c *scopedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if c.outside() {
		return nil, errNoScope
	}
	return c.Conn.QueryContext(ctx, query, args)
}

func (c *scopedConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if c.outside() {
		return nil, errNoScope
	}
	return c.Conn.PrepareContext(ctx, query)
}

func (c *scopedConn) outside() bool {
	pg := c.Conn.Conn().PgConn()
	return !pg.IsClosed() && pg.TxStatus() == 'I'
}

// scopedTx is a transaction as database/sql wants it.
type scopedTx struct {
	ctx context.Context //nolint:containedctx // of who began it, as the driver's own does
	tx  pgx.Tx
}

func (t scopedTx) Commit() error   { return t.tx.Commit(t.ctx) }
func (t scopedTx) Rollback() error { return t.tx.Rollback(t.ctx) }

// unsettable says what is wrong with a role that a transaction cannot run as.
func (r roles) unsettable(who scope, err error) error {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || r.of(who) == "" {
		return err
	}
	role := r.of(who)
	switch e.Code {
	case "22023": // invalid parameter value: of the role
		return registry.Errorf(registry.ReasonRowSecurity, "the database has no role %s, as which transactions run", role).
			WithNext("run `countersign migrate up`, which makes it")
	case "42501": // insufficient privilege
		return registry.Errorf(registry.ReasonRowSecurity, "this process may not run transactions as the role %s", role).
			WithNext("as an administrator of the database: GRANT %s TO its login", identifier(role))
	}
	return err
}

// askScoped sends one query in a scope in one round trip: two statements of one
// batch are one transaction. The connection keeps both prepared.
func askScoped[T any](ctx context.Context, d *DB, who scope, query string, args ...any) ([]T, error) {
	const set = "SELECT set_config('role', $1, true), set_config('" + tenantSetting + "', $2, true)"
	var out []T
	ask := func(c any) error {
		conn := c.(*scopedConn).Conn.Conn() //nolint:errcheck,forcetypeassert // what the connector makes
		batch := &pgx.Batch{}
		batch.Queue(set, d.roles.of(who), who.tenant)
		batch.Queue(query, args...)
		results := conn.SendBatch(ctx, batch)
		_, err := results.Exec()
		if err == nil {
			out, err = scan[T](d.prepared, results)
		}
		err = errors.Join(err, results.Close())
		if err != nil && pgconn.SafeToRetry(err) {
			return driver.ErrBadConn // the connection was gone before anything was sent
		}
		return d.roles.unsettable(who, err)
	}
	for try := 1; ; try++ {
		conn, err := d.prepared.DB.Conn(ctx)
		if err != nil {
			return nil, err
		}
		err = conn.Raw(ask)
		_ = conn.Close() // gives it back
		if !errors.Is(err, driver.ErrBadConn) || try == attempts {
			return out, err
		}
	}
}

// scan reads rows into structs, as Bun would.
func scan[T any](db *bun.DB, results pgx.BatchResults) ([]T, error) {
	rows, err := results.Query()
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	table := db.Table(reflect.TypeFor[T]())
	var out []T
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return nil, err
		}
		out = append(out, *new(T))
		row := reflect.ValueOf(&out[len(out)-1]).Elem()
		for i, column := range rows.FieldDescriptions() {
			field := table.LookupField(column.Name)
			if field == nil {
				return nil, fmt.Errorf("no field for the column %s", column.Name)
			}
			if err := field.ScanValue(row, wide(values[i])); err != nil {
				return nil, fmt.Errorf("column %s: %w", column.Name, err)
			}
		}
	}
	return out, rows.Err()
}

// wide makes integers of all sizes the one that database/sql knows.
func wide(value any) any {
	switch n := value.(type) {
	case int16:
		return int64(n)
	case int32:
		return int64(n)
	}
	return value
}
