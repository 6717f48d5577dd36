package db_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"countersign/db"
	"countersign/db/dbtest"
)

// asker is a connection or a pool.
type asker interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// column gives the one column that a query selects.
func column[T any](tb testing.TB, q asker, query string, args ...any) []T {
	tb.Helper()
	rows, err := q.QueryContext(tb.Context(), query, args...)
	if err != nil {
		tb.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		var value T
		if err := rows.Scan(&value); err != nil {
			tb.Fatal(err)
		}
		out = append(out, value)
	}
	if err := rows.Err(); err != nil {
		tb.Fatalf("%s: %v", query, err)
	}
	return out
}

func value[T any](tb testing.TB, q asker, query string, args ...any) T {
	tb.Helper()
	return column[T](tb, q, query, args...)[0]
}

// tenantTables lists the tables that have a tenant_id.
func tenantTables(tb testing.TB, q asker) []string {
	tb.Helper()
	return column[string](tb, q, `SELECT table_name::text FROM information_schema.columns
WHERE table_schema = 'public' AND column_name = 'tenant_id' ORDER BY 1`)
}

// as gives a connection that has a role, and a tenant unless that is empty.
func as(tb testing.TB, d *db.DB, role, tenant string) *sql.Conn {
	tb.Helper()
	conn, err := raw(tb, d).Conn(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	if tenant != "" {
		value[string](tb, conn, "SELECT set_config('countersign.tenant', $1, false)", tenant)
	}
	if _, err := conn.ExecContext(tb.Context(), "SET ROLE "+role); err != nil {
		tb.Fatal(err)
	}
	return conn
}

// denied checks that a statement fails, and why.
func denied(tb testing.TB, q asker, statement, why string) {
	tb.Helper()
	if _, err := q.ExecContext(tb.Context(), statement); err == nil || !strings.Contains(err.Error(), why) {
		tb.Errorf("%s: %v, want %s", statement, err, why)
	}
}

// server is an empty database with roles of its own, which others do not see
// change.
type server struct {
	tb       testing.TB
	dsn      string // of a superuser
	database string
	roles    db.Options // their names only
	suffix   string
}

type login struct{ name, url string }

func managed(tb testing.TB) *server {
	tb.Helper()
	suffix := fmt.Sprintf("_%08x", rand.Uint32())
	s := &server{tb: tb, suffix: suffix, roles: db.Options{AppRole: "app" + suffix, SystemRole: "system" + suffix}}
	admin := dbtest.Postgres(tb) // is there when the other one is dropped, as roles want
	tb.Cleanup(func() {
		pool := s.pool(admin)
		_, err := pool.ExecContext(context.Background(), `DO $$ DECLARE r regrole; BEGIN
  FOR r IN SELECT oid FROM pg_roles WHERE rolname LIKE '%`+suffix+`' LOOP EXECUTE format('DROP OWNED BY %s; DROP ROLE %s', r, r); END LOOP;
END $$`)
		if err != nil {
			tb.Error(err)
		}
	})
	s.dsn = dbtest.Postgres(tb)
	s.database = value[string](tb, s.pool(s.dsn), "SELECT current_database()")
	return s
}

// login makes a user of the database server.
func (s *server) login(name, options string) login {
	s.tb.Helper()
	name += s.suffix
	s.exec("CREATE ROLE " + name + " LOGIN PASSWORD 'of a test' " + options)
	u, err := url.Parse(s.dsn)
	if err != nil || u.Host == "" {
		return login{name, s.dsn + " user=" + name + " password='of a test'"}
	}
	u.User = url.UserPassword(name, "of a test")
	return login{name, u.String()}
}

func (s *server) exec(statement string) {
	s.tb.Helper()
	if _, err := s.pool(s.dsn).ExecContext(s.tb.Context(), statement); err != nil {
		s.tb.Fatalf("%s: %v", statement, err)
	}
}

func (s *server) pool(dsn string) *sql.DB {
	s.tb.Helper()
	pool, err := sql.Open("pgx", dsn)
	if err != nil {
		s.tb.Fatal(err)
	}
	s.tb.Cleanup(func() { _ = pool.Close() })
	return pool
}

// open opens the database with the roles of the test.
func (s *server) open(o db.Options) *db.DB {
	s.tb.Helper()
	o.AppRole, o.SystemRole, o.Connections = s.roles.AppRole, s.roles.SystemRole, 4
	o.Logger = slog.New(slog.NewTextHandler(s.tb.Output(), nil))
	d, err := db.Open(s.tb.Context(), o)
	if err != nil {
		s.tb.Fatal(err)
	}
	s.tb.Cleanup(func() { _ = d.Close() })
	urls.Store(d, s.dsn)
	return d
}
