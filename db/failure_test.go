package db_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"countersign/db"
	"countersign/registry"
)

func TestADatabaseThatIsAwayIsUnavailable(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		w := newWorld(t, d, "acme")
		s := w.register("weather")
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		_, err := w.Server(t.Context(), "weather")
		refused(t, err, registry.ReasonDependency)
		_, err = w.change(s.ServerID, "retire", func(*registry.Record, time.Time) error { return nil })
		refused(t, err, registry.ReasonDependency)
		_, err = w.Resolve(t.Context(), []string{"weather.x"})
		refused(t, err, registry.ReasonDependency)
		refused(t, d.Ping(t.Context()), registry.ReasonDependency)
		refused(t, d.Check(t.Context()), registry.ReasonDependency)
	})
}

func TestConnectionsThatBreakAreReplaced(t *testing.T) {
	t.Parallel()
	d := postgresDB(t)
	w := newWorld(t, d, "acme")
	s := w.register("weather")
	kill := "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'countersign'"
	_, err := w.change(s.ServerID, "edit", func(*registry.Record, time.Time) error {
		exec(t, d, kill)
		return nil
	})
	refused(t, err, registry.ReasonDependency)
	exec(t, d, kill)
	if _, err := w.Resolve(t.Context(), []string{"weather.x"}); err != nil {
		t.Error(err)
	}
	if _, err := w.Server(t.Context(), "weather"); err != nil {
		t.Error(err)
	}
}

func TestNoDatabaseAtAll(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]registry.Reason{
		"postgres://user:hunter2@127.0.0.1:1/none?connect_timeout=5": registry.ReasonDependency,
		"postgres://user:hunter2@[::bad/none":                        registry.ReasonInvalidArgument,
		"mysql://user:hunter2@localhost/none":                        registry.ReasonInvalidArgument,
		"sqlite:":                                                    registry.ReasonInvalidArgument,
		"sqlite::memory:":                                            registry.ReasonInvalidArgument,
		"sqlite:/nowhere/at/all.db":                                  registry.ReasonDependency,
		"sqlite:" + t.TempDir():                                      registry.ReasonDependency,
	} {
		_, err := db.Open(t.Context(), db.Options{URL: url})
		if registry.ReasonOf(err) != want || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %s", url, err, want)
		}
	}
}

func TestTheCallersTimeCounts(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		w := newWorld(t, d, "acme")
		s := w.register("weather")
		held, release := make(chan struct{}), make(chan struct{})
		done := make(chan error, 1)
		go func() {
			_, err := w.change(s.ServerID, "edit", func(*registry.Record, time.Time) error {
				close(held)
				<-release
				return nil
			})
			done <- err
		}()
		<-held
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := w.Apply(ctx, db.Change{ServerID: s.ServerID, Operation: named("edit"), Apply: func(*registry.Record, time.Time) error { return nil }})
		refused(t, err, registry.ReasonDeadline)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		// Readers do not wait for writers.
		if _, err := w.Server(t.Context(), "weather"); err != nil {
			t.Error(err)
		}
		close(release)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestASQLiteFileHasOneProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "registry.db")
	first, err := db.Open(t.Context(), db.Options{URL: "sqlite:" + path})
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Open(t.Context(), db.Options{URL: "sqlite:" + path})
	if registry.ReasonOf(err) != registry.ReasonDependency || !strings.Contains(err.Error(), "another process") {
		t.Errorf("the second one: %v", err)
	}
	for _, file := range []string{path, path + "-wal", path + ".lock"} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := db.Open(t.Context(), db.Options{URL: "sqlite:" + path})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
