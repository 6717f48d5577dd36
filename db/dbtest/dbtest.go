// Package dbtest gives tests real Postgres databases, each test one of its own. Only tests import it.
//
// The databases are on the server that COUNTERSIGN_TEST_POSTGRES names, where its user must be a superuser: tests look
// at the rows of all tenants, and make roles. `make test` starts one for the whole run. Without it each test binary
// starts one itself, which ends with the binary, also when that is killed. Without an installed Postgres the tests
// fail: none of them is skipped.
package dbtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Env names the environment variable with the DSN of the server to use.
const Env = "COUNTERSIGN_TEST_POSTGRES"

// patience limits one statement, and the start of a server.
const patience = time.Minute

// Postgres returns the DSN of a fresh, empty database, which is dropped when the test ends, whoever is connected.
func Postgres(tb testing.TB) string {
	tb.Helper()
	return fresh(tb, "template0")
}

// Template returns the DSN of a fresh copy of a database that prepare filled, which is dropped when the test ends,
// whoever is connected. A process calls prepare once for all tests that name the same function, since copying is
// faster; so what it does must not depend on the test, and it must close its connections. Function literals are the
// same function when they stand at the same place, whatever they captured.
func Template(tb testing.TB, prepare func(dsn string) error) string {
	tb.Helper()
	name, err := templates.of(prepare)()
	if err != nil {
		tb.Fatalf("preparing a template database: %v", err)
	}
	return fresh(tb, name)
}

var templates prepared

// prepared holds, for each prepare function by its address, what returns the name of its template.
type prepared struct {
	mu sync.Mutex
	by map[uintptr]func() (string, error)
}

func (p *prepared) of(prepare func(dsn string) error) func() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	address := reflect.ValueOf(prepare).Pointer()
	if p.by[address] == nil {
		if p.by == nil {
			p.by = map[uintptr]func() (string, error){}
		}
		p.by[address] = sync.OnceValues(func() (string, error) { return template(prepare) })
	}
	return p.by[address]
}

func template(prepare func(dsn string) error) (string, error) {
	s, err := theServer()
	if err != nil {
		return "", err
	}
	name := s.name()
	if err := s.exec("CREATE DATABASE " + name + " TEMPLATE template0"); err != nil {
		return "", err
	}
	return name, prepare(withDatabase(s.dsn, name))
}

func fresh(tb testing.TB, template string) string {
	tb.Helper()
	s, err := theServer()
	if err != nil {
		tb.Fatal(err)
	}
	name := s.name()
	if err := s.exec("CREATE DATABASE " + name + " TEMPLATE " + template); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.exec("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			tb.Error(err)
		}
	})
	return withDatabase(s.dsn, name)
}

// server is the server of this process.
type server struct {
	dsn   string
	owner uint32
	last  atomic.Int32
	// lock holds an advisory lock on owner for as long as this process lives. It is how others know which databases
	// a killed test left behind.
	lock *pgx.Conn
}

var theServer = sync.OnceValues(func() (*server, error) {
	dsn := os.Getenv(Env)
	if dsn == "" {
		started, err := Start()
		if err != nil {
			return nil, err
		}
		dsn = started.DSN // never stopped: it ends with this process
	}
	s := &server{dsn: dsn, owner: rand.Uint32()}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var err error
	if s.lock, err = pgx.Connect(ctx, dsn); err != nil {
		return nil, fmt.Errorf("the Postgres for the tests: %w", err)
	}
	if _, err := s.lock.Exec(ctx, "SELECT pg_advisory_lock($1, $2)", lockSpace, int32(s.owner)); err != nil {
		return nil, err
	}
	return s, s.sweep(ctx)
})

// lockSpace is the first half of the keys of our advisory locks.
const lockSpace int32 = 0x637367

// name returns a new database name.
func (s *server) name() string {
	return fmt.Sprintf("countersign_%08x_%d", s.owner, s.last.Add(1))
}

// exec runs one statement on a connection of its own, so that tests do not wait for each other.
func (s *server) exec(sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

// sweep drops the databases of processes that are gone.
func (s *server) sweep(ctx context.Context) error {
	rows, err := s.lock.Query(ctx, `SELECT datname FROM pg_database WHERE datname ~ '^countersign_[0-9a-f]{8}_[0-9]+$'`)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range names {
		var owner uint32
		if _, err := fmt.Sscanf(name, "countersign_%08x_", &owner); err != nil || owner == s.owner {
			continue
		}
		var gone bool
		if err := s.lock.QueryRow(ctx, "SELECT pg_try_advisory_lock($1, $2)", lockSpace, int32(owner)).Scan(&gone); err != nil {
			return err
		}
		if !gone {
			continue
		}
		if _, err := s.lock.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			return err
		}
		if _, err := s.lock.Exec(ctx, "SELECT pg_advisory_unlock($1, $2)", lockSpace, int32(owner)); err != nil {
			return err
		}
	}
	return nil
}

// withDatabase returns dsn with another database, in either form of DSN.
func withDatabase(dsn, name string) string {
	if u, err := url.Parse(dsn); err == nil && strings.HasPrefix(u.Scheme, "postgres") {
		u.Path = "/" + name
		return u.String()
	}
	return dsn + " dbname=" + name // the last one counts
}
