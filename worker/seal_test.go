package worker_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"countersign/db"
	"countersign/registry"
	"countersign/worker"
)

func auditSigner(t *testing.T) *registry.AuditSigner {
	t.Helper()
	s, err := registry.ParseAuditSigner(strings.Repeat("1", 64))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A round seals all that there is of every tenant, and signs it; the next one
// finds nothing to do.
func TestARoundSealsEveryTenant(t *testing.T) {
	t.Parallel()
	d, err := db.Open(t.Context(), db.Options{URL: "sqlite:" + filepath.Join(t.TempDir(), "c.db"), Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	if _, err := d.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	for tenant, rows := range map[string]int{"acme": 1203, "globex": 2} {
		for range rows {
			if err := d.Tenant(tenant).AuditRefusal(t.Context(), db.AuditEntry{Action: "retire"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := worker.Sealer{Store: d.System(), Signer: auditSigner(t), Interval: time.Second, Log: quiet()}
	for _, want := range []int{1205, 0} {
		if n, err := s.Round(t.Context()); n != want || err != nil {
			t.Errorf("a round seals %d rows, want %d: %v", n, want, err)
		}
	}
	for tenant, rows := range map[string]int64{"acme": 1203, "globex": 2} {
		r, _, err := d.Tenant(tenant).VerifyAudit(t.Context(), registry.AuditPoint{}, nil, 10_000, s.Signer.Public())
		if err != nil || !r.Sound() || r.Signed != rows || r.Checkpoints != 1 {
			t.Errorf("%s: %+v, %v", tenant, r, err)
		}
	}
}

// lateStore is a store that fails for one tenant and is late with another.
type lateStore struct {
	away  error
	steps []string
}

func (s *lateStore) AuditBacklogs(context.Context, bool) ([]registry.AuditBacklog, error) {
	return []registry.AuditBacklog{{Tenant: "bad", Rows: 3, Lag: time.Second}, {Tenant: "late", Rows: 7, Lag: 2 * time.Hour}, {Tenant: "good", Rows: 1}}, s.away
}

func (s *lateStore) SealAudit(_ context.Context, tenant string, _ int, _ func(registry.AuditCheckpoint) registry.AuditCheckpoint) (registry.SealedAudit, error) {
	s.steps = append(s.steps, tenant)
	switch {
	case tenant == "bad":
		return registry.SealedAudit{}, errors.New("no")
	case tenant == "good" && len(s.steps) < 5:
		return registry.SealedAudit{Rows: 2, More: true}, nil
	case tenant == "good":
		return registry.SealedAudit{Rows: 1, Broken: true}, nil
	}
	return registry.SealedAudit{Elsewhere: true, More: true}, nil
}

func TestWhatCannotBeSealedKeepsNobodyElse(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	store := &lateStore{}
	s := worker.Sealer{Store: store, Interval: time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))}
	n, err := s.Round(t.Context())
	if n != 5 || err == nil || !slices.Equal(store.steps, []string{"bad", "late", "good", "good", "good"}) {
		t.Errorf("%d rows by %v: %v", n, store.steps, err)
	}
	for _, want := range []string{`msg="audit rows wait to be sealed" tenant=late rows=7 lag_seconds=7200`, `msg="the end of an audit chain is not what was sealed: somebody changed the database" tenant=good`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, log.String())
		}
	}
	if strings.Contains(log.String(), "tenant=bad") {
		t.Errorf("a second is late:\n%s", log.String())
	}
}

// A database that is away is said once, and so is that it is back.
func TestTheSealerSaysOnceThatItCannot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		store := &lateStore{away: registry.Errorf(registry.ReasonDependency, "the database is away")}
		s := worker.Sealer{Store: store, Interval: 10 * time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		s.Run(ctx)
		if n := strings.Count(log.String(), "audit rows cannot be sealed"); n != 1 {
			t.Errorf("it is said %d times:\n%s", n, log.String())
		}
	})
}
