package events_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/db"
	"countersign/db/dbtest"
	"countersign/events"
	"countersign/registry"
)

func TestMain(m *testing.M) {
	if point := os.Getenv("EVENTS_TEST_DIE_AT"); point != "" {
		os.Exit(relayUntil(point, os.Getenv("EVENTS_TEST_DB")))
	}
	os.Exit(m.Run())
}

// mortal kills its process at a point.
type mortal struct {
	events.Store
	point string
}

func (m mortal) at(point string) {
	if m.point == point {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

func (m mortal) RelayEvents(ctx context.Context, sinks []string, limit int) (int, error) {
	n, err := m.Store.RelayEvents(ctx, sinks, 2)
	if n > 0 {
		m.at("relayed")
	}
	return n, err
}

func (m mortal) ClaimLanes(ctx context.Context, busy []string, limit int, lease time.Duration) ([]registry.Lane, error) {
	lanes, err := m.Store.ClaimLanes(ctx, busy, limit, lease)
	if len(lanes) > 0 {
		m.at("claimed")
	}
	return lanes, err
}

func (m mortal) SettleLane(ctx context.Context, lane registry.Lane, attempts []registry.Attempt, again time.Duration) (bool, error) {
	if len(attempts) > 0 {
		m.at("sent")
	}
	mine, err := m.Store.SettleLane(ctx, lane, attempts, again)
	if len(attempts) > 0 {
		m.at("settled")
	}
	return mine, err
}

// relayUntil is the process that dies.
func relayUntil(point, url string) int {
	d, err := db.Open(context.Background(), db.Options{URL: url})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	h := &house{db: d}
	r := h.relay()
	r.Store, r.Lease = mortal{d.System(), point}, 100*time.Millisecond
	r.Run(context.Background())
	return 0
}

// The process is killed between any two steps, and at any other time: every event
// is delivered all the same, those of a subject in order, under the id it had.
func TestKilledRelaysLoseNothing(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(testing.TB) string{
		"SQLite":   func(tb testing.TB) string { tb.Helper(); return "sqlite:" + filepath.Join(tb.TempDir(), "c.db") },
		"Postgres": dbtest.Postgres,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killedRelaysLoseNothing(t, newHouseOn(t, url(t)))
		})
	}
}

func killedRelaysLoseNothing(t *testing.T, h *house) {
	t.Helper()
	r := newReceiver(t)
	h.subscribe("acme", registry.Subscription{SubscriptionID: "hook", URL: r.URL})
	points := []string{"relayed", "claimed", "sent", "settled"}
	for i := range 12 {
		h.happen("acme", 3, 2)
		if err := h.db.Close(); err != nil {
			t.Fatal(err)
		}
		point := "none"
		if i < 2*len(points) {
			point = points[i%len(points)]
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "EVENTS_TEST_DIE_AT="+point, "EVENTS_TEST_DB="+h.url)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if point == "none" {
			time.Sleep(time.Duration(40+20*i) * time.Millisecond)
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		_ = cmd.Wait()
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
			t.Fatalf("at %s the process ended with %v", point, cmd.ProcessState)
		}
		h.open()
	}
	run(t, h.relay(), func() bool { return h.pending() == 0 })
	if diff := cmp.Diff(h.all("acme"), r.once()); diff != "" {
		t.Error(diff)
	}
	if len(r.got) == len(r.once()) {
		t.Error("nothing was delivered twice, so nothing was killed between sending and recording")
	}
}
