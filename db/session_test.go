package db

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"

	"countersign/db/dbtest"
	"countersign/registry"
)

// oneConnection opens a migrated database whose pools have a connection each.
func oneConnection(tb testing.TB) *DB {
	tb.Helper()
	d, err := Open(tb.Context(), Options{URL: dbtest.Template(tb, twoTenants), Connections: 1})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = d.Close() })
	return d
}

// twoTenants fills the template: each of two tenants has a provider.
func twoTenants(dsn string) error {
	ctx := context.Background()
	d, err := Open(ctx, Options{URL: dsn})
	if err != nil {
		return err
	}
	if _, err := d.Up(ctx); err != nil {
		return err
	}
	for _, tenant := range []string{"acme", "globex"} {
		err := d.write(ctx, ofTenant(tenant), "fill", func(ctx context.Context, tx bun.Tx) error {
			_, err := tx.NewRaw("INSERT INTO providers VALUES (?, 'prv_1', ?, 'mcp', TRUE, now(), TRUE)", tenant, "of "+tenant).Exec(ctx)
			return err
		})
		if err != nil {
			return err
		}
	}
	return d.Close()
}

// left is what a connection says when nothing runs on it.
type left struct {
	pid          uint32
	role, tenant string
}

func leftOn(tb testing.TB, pool *bun.DB) (l left) {
	tb.Helper()
	conn, err := pool.DB.Conn(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close()
	err = conn.Raw(func(c any) error {
		pg := c.(*scopedConn).Conn.Conn()
		l.pid = pg.PgConn().PID()
		return pg.QueryRow(tb.Context(), "SELECT CURRENT_USER, COALESCE(current_setting('countersign.tenant', true), '')").Scan(&l.role, &l.tenant)
	})
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func TestATenantIsForgottenWithItsTransaction(t *testing.T) {
	t.Parallel()
	d := oneConnection(t)
	failing := errors.New("no")
	type named struct {
		Name string `bun:"name"`
	}
	const who = "SELECT current_setting('countersign.tenant', true) AS name"
	for _, step := range []struct {
		name string
		pool *bun.DB
		run  func(ctx context.Context) error
	}{
		{"a write", d.writer, func(ctx context.Context) error {
			return d.write(ctx, ofTenant("acme"), "test", func(context.Context, bun.Tx) error { return nil })
		}},
		{"a write that fails", d.writer, func(ctx context.Context) error {
			if err := d.attempt(ctx, ofTenant("acme"), "test", func(context.Context, bun.Tx) error { return failing }); !errors.Is(err, failing) {
				return errors.New("it does not fail")
			}
			return nil
		}},
		{"a statement that fails", d.writer, func(ctx context.Context) error {
			err := d.read(ctx, ofTenant("acme"), "test", func(ctx context.Context, q bun.IDB) error {
				_, err := q.ExecContext(ctx, "SELECT 1/0")
				return err
			})
			if err == nil {
				return errors.New("it does not fail")
			}
			return nil
		}},
		{"a read", d.reader, func(ctx context.Context) error {
			return d.read(ctx, ofTenant("acme"), "test", func(context.Context, bun.IDB) error { return nil })
		}},
		{"a read of the system", d.reader, func(ctx context.Context) error {
			return d.read(ctx, ofSystem, "test", func(context.Context, bun.IDB) error { return nil })
		}},
		{"a batch", d.prepared, func(ctx context.Context) error {
			rows, err := askScoped[named](ctx, d, ofTenant("acme"), who)
			if err == nil && rows[0].Name != "acme" {
				return errors.New("the batch has the tenant " + rows[0].Name)
			}
			return err
		}},
		{"a batch that fails", d.prepared, func(ctx context.Context) error {
			if _, err := askScoped[named](ctx, d, ofTenant("acme"), "SELECT (1/length(current_setting('countersign.none', true)))::text AS name"); err != nil {
				return err
			}
			if _, err := askScoped[named](ctx, d, ofTenant("acme"), "SELECT (1/(length($1)-1))::text AS name", "x"); err == nil {
				return errors.New("it does not fail")
			}
			return nil
		}},
	} {
		before := leftOn(t, step.pool)
		if err := step.run(t.Context()); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		after := leftOn(t, step.pool)
		if after != before || after.tenant != "" || after.role != "postgres" {
			t.Errorf("after %s the connection has %+v; before it had %+v", step.name, after, before)
		}
	}
}

func TestNothingRunsOutsideOfAScope(t *testing.T) {
	t.Parallel()
	d := oneConnection(t)
	for _, pool := range []*bun.DB{d.writer, d.prepared} {
		if _, err := pool.ExecContext(t.Context(), "SELECT 1"); !errors.Is(err, errNoScope) {
			t.Errorf("a statement: %v", err)
		}
		if err := pool.QueryRowContext(t.Context(), "SELECT 1").Err(); !errors.Is(err, errNoScope) {
			t.Errorf("a query: %v", err)
		}
		if _, err := pool.PrepareContext(t.Context(), "SELECT 1"); !errors.Is(err, errNoScope) {
			t.Errorf("to prepare: %v", err)
		}
		if _, err := pool.BeginTx(t.Context(), nil); !errors.Is(err, errNoScope) {
			t.Errorf("a transaction: %v", err)
		}
	}
}

// The batch of resolve: prepared once, held by the policies each time.
func TestAPreparedQueryIsHeldByTheTenantOfItsBatch(t *testing.T) {
	t.Parallel()
	d := oneConnection(t)
	type provider struct {
		Name string `bun:"name"`
	}
	for range 7 { // Postgres would change its plan after five
		for who, want := range map[scope][]provider{
			ofTenant("acme"): {{"of acme"}}, ofTenant("globex"): {{"of globex"}}, ofTenant(""): nil, ofTenant("none"): nil,
			ofSystem: {{"of acme"}, {"of globex"}},
		} {
			got, err := askScoped[provider](t.Context(), d, who, "SELECT name FROM providers WHERE live = $1 ORDER BY 1", true)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%+v finds %v: %v", who, got, err)
			}
		}
	}
}

// Names of tenants are checked before; nothing else stands between them and SQL.
func TestATenantIsNeverSQL(t *testing.T) {
	t.Parallel()
	d := oneConnection(t)
	for _, tenant := range []string{`'`, `\'`, `', true); DROP TABLE audit; --`, "acme\x00", "acme\xff'", "acme'"} {
		var name string
		err := d.read(t.Context(), ofTenant(tenant), "test", func(ctx context.Context, q bun.IDB) error {
			return q.NewRaw("SELECT current_setting('countersign.tenant')").Scan(ctx, &name)
		})
		if err != nil || name != asText(tenant) {
			t.Errorf("%q is set as %q: %v", tenant, name, err)
		}
	}
	if err := d.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// A transaction costs no round trip more for its scope, and resolve is one.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	d := oneConnection(t)
	config, err := parsePostgres(dbtest.Template(t, twoTenants))
	if err != nil {
		t.Fatal(err)
	}
	var sent atomic.Int64
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &counting{conn, &sent}, err
	}
	d.writer = d.open(config, 1, pgx.QueryExecModeSimpleProtocol)
	d.reader, d.prepared = d.writer, d.open(config, 1, pgx.QueryExecModeCacheStatement)
	t.Cleanup(func() { _ = errors.Join(d.writer.Close(), d.prepared.Close()) })
	store := d.Tenant("acme")
	for _, c := range []struct {
		name string
		want int64
		run  func() error
	}{
		{"resolve", 1, func() error {
			_, err := store.Resolve(t.Context(), []string{"weather.forecast"})
			return err
		}},
		{"a read of one query", 3, func() error { // to begin, to ask, to end
			_, err := store.Decisions(t.Context(), "srv_none")
			return err
		}},
	} {
		var before int64
		for range 3 { // at first it connects and prepares, then it looks whether the connection lives
			before = sent.Load()
			if err := c.run(); err != nil && registry.ReasonOf(err) != registry.ReasonServerNotFound {
				t.Fatal(err)
			}
		}
		if got := sent.Load() - before; got != c.want {
			t.Errorf("%s takes %d round trips, want %d", c.name, got, c.want)
		}
	}
}

type counting struct {
	net.Conn
	sent *atomic.Int64
}

func (c *counting) Write(b []byte) (int, error) {
	c.sent.Add(1)
	return c.Conn.Write(b)
}
