package dbtest_test

import (
	"bufio"
	"context"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"countersign/db/dbtest"
)

func TestEachTestHasADatabaseOfItsOwn(t *testing.T) {
	t.Parallel()
	one, other := dbtest.Postgres(t), dbtest.Postgres(t)
	query[int](t, one, "CREATE TABLE things (id int); SELECT 1")
	if query[bool](t, other, "SELECT to_regclass('things') IS NOT NULL") {
		t.Error("the second database has the first one's table")
	}
}

var prepared atomic.Int32

func TestATemplateIsPreparedOnceAndCopied(t *testing.T) {
	t.Parallel()
	prepare := func(dsn string) error {
		prepared.Add(1)
		query[int](t, dsn, "CREATE TABLE things AS SELECT 7 AS id; SELECT 1")
		return nil
	}
	one, other := dbtest.Template(t, prepare), dbtest.Template(t, prepare)
	query[int](t, one, "UPDATE things SET id = 8; SELECT 1")
	if got := query[int](t, other, "SELECT id FROM things"); got != 7 || prepared.Load() != 1 {
		t.Errorf("the copy holds %d after %d calls, want 7 after 1", got, prepared.Load())
	}
}

func TestADatabaseIsDroppedAlsoWithOpenConnections(t *testing.T) {
	t.Parallel()
	var dsn string
	t.Run("a test that forgets its connection", func(t *testing.T) {
		dsn = dbtest.Postgres(t)
		if _, err := pgx.Connect(t.Context(), dsn); err != nil {
			t.Fatal(err)
		}
	})
	if conn, err := pgx.Connect(t.Context(), dsn); err == nil {
		t.Error("the database is still there", conn.Close(t.Context()))
	}
}

// What a killed test binary leaves on a server that others share is dropped by the next one.
func TestDatabasesOfKilledTestsAreDropped(t *testing.T) {
	server := start(t)
	child, dsn := killed(t, dbtest.Env+"="+server.DSN)
	if got := query[int](t, dsn, "SELECT 1"); got != 1 {
		t.Fatal("the child's database is missing")
	}
	child()
	eventually(t, "a later test dropped the database", func() bool { // once the server noticed that its owner is gone
		next, _ := killed(t, dbtest.Env+"="+server.DSN)
		defer next()
		conn, err := pgx.Connect(t.Context(), dsn)
		if err == nil {
			_ = conn.Close(t.Context())
		}
		return err != nil
	})
}

// A server that a test binary started for itself ends with it.
func TestTheServerOfAKilledTestEnds(t *testing.T) {
	child, dsn := killed(t, dbtest.Env+"=")
	dir := query[string](t, dsn, "SHOW unix_socket_directories")
	child()
	eventually(t, "nothing is left of the server", func() bool {
		_, err := os.Stat(dir)
		return errors.Is(err, os.ErrNotExist)
	})
	if conn, err := pgx.Connect(t.Context(), dsn); err == nil {
		t.Error("the server still answers", conn.Close(t.Context()))
	}
}

func TestStopLeavesNothing(t *testing.T) {
	t.Parallel()
	server, err := dbtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	dir := query[string](t, server.DSN, "SHOW unix_socket_directories")
	if err := server.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v", dir, err)
	}
}

func TestBothFormsOfDSNAreUnderstood(t *testing.T) {
	server := start(t)
	u, err := url.Parse(server.DSN)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	words := "host=127.0.0.1 port=" + u.Port() + " user=postgres dbname=postgres sslmode=disable password=" + password
	end, dsn := killed(t, dbtest.Env+"="+words)
	defer end()
	if got := query[string](t, dsn, "SELECT current_database()"); !strings.HasPrefix(got, "countersign_") {
		t.Errorf("connected to %s", got)
	}
}

// TestMain makes a second process of this one for the tests that kill it.
func TestMain(m *testing.M) {
	if os.Getenv("DBTEST_CHILD") != "" {
		t := &child{}
		_, _ = os.Stdout.WriteString(dbtest.Postgres(t) + "\n")
		select {}
	}
	os.Exit(m.Run())
}

// child is what dbtest sees of a test that gets killed: nothing is cleaned up.
type child struct{ testing.TB }

func (child) Helper()        {}
func (child) Cleanup(func()) {}
func (child) Fatal(args ...any) {
	panic(args)
}

// killed starts a process that takes a database, and returns what kills it and the DSN of the database.
func killed(t *testing.T, env ...string) (kill func(), dsn string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(self)
	command.Env = append(append(os.Environ(), "DBTEST_CHILD=1"), env...)
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		kill()
		t.Fatal(err)
	}
	return kill, strings.TrimSpace(line)
}

func start(t *testing.T) *dbtest.Server {
	t.Helper()
	server, err := dbtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// query runs statements and returns the value that the last one selects.
func query[T any](t *testing.T, dsn, sql string) T {
	t.Helper()
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	statements := strings.Split(sql, ";")
	last := len(statements) - 1
	for _, statement := range statements[:last] {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	var value T
	if err := conn.QueryRow(ctx, statements[last]).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
