package worker

import (
	"context"
	"log/slog"
	"time"

	"countersign/registry"
)

// AuditStore seals audit rows; db.SystemStore does.
type AuditStore interface {
	AuditBacklogs(ctx context.Context, unsigned bool) ([]registry.AuditBacklog, error)
	SealAudit(ctx context.Context, tenant string, limit int, sign func(registry.AuditCheckpoint) registry.AuditCheckpoint) (registry.SealedAudit, error)
}

// Sealer puts the audit rows of all tenants into their chains, and issues the
// checkpoints. Every worker process has one; they share the tenants by the
// database's locks. It needs no Temporal: rows are written without it too.
type Sealer struct {
	Store    AuditStore
	Signer   *registry.AuditSigner // nil: no checkpoints are issued
	Interval time.Duration         // between two rounds
	Log      *slog.Logger
}

// The bounds of a round.
const (
	sealStep  = 1000 // rows of one transaction
	sealSteps = 200  // transactions of one tenant in a round, so that the others get their turn
)

// Run seals until the context is over, the first time at once.
func (s Sealer) Run(ctx context.Context) {
	failing := false
	for {
		_, err := s.Round(ctx)
		if ctx.Err() != nil {
			return
		}
		switch {
		case err != nil && !failing:
			s.Log.LogAttrs(ctx, slog.LevelWarn, "audit rows cannot be sealed", slog.Any("error", err))
		case err == nil && failing:
			s.Log.LogAttrs(ctx, slog.LevelInfo, "audit rows are sealed again")
		}
		failing = err != nil
		select {
		case <-time.After(s.Interval):
		case <-ctx.Done():
			return
		}
	}
}

// Round seals what can be sealed now and says how many rows that were. A tenant
// whose rows cannot be sealed does not keep the others from it; the error is
// the first one's.
func (s Sealer) Round(ctx context.Context) (int, error) {
	backlogs, err := s.Store.AuditBacklogs(ctx, s.Signer != nil)
	if err != nil {
		return 0, err
	}
	var (
		sealed int
		first  error
		late   bool
	)
	for _, b := range backlogs {
		n, err := s.tenant(ctx, b.Tenant)
		sealed += n
		if err != nil && first == nil {
			first = err
		}
		late = late || b.Lag > s.patience()
	}
	if late {
		s.tellLag(ctx)
	}
	return sealed, first
}

func (s Sealer) tenant(ctx context.Context, tenant string) (sealed int, err error) {
	var sign func(registry.AuditCheckpoint) registry.AuditCheckpoint
	if s.Signer != nil {
		sign = s.Signer.Sign
	}
	for range sealSteps {
		step, err := s.Store.SealAudit(ctx, tenant, sealStep, sign)
		if err != nil {
			return sealed, err
		}
		sealed += step.Rows
		if step.Broken && (step.Rows > 0 || step.Checkpoint != nil) {
			s.Log.LogAttrs(ctx, slog.LevelError, "the end of an audit chain is not what was sealed: somebody changed the database",
				slog.String("tenant", tenant), slog.String("next", "countersign audit verify"))
		}
		if !step.More || step.Elsewhere {
			break
		}
	}
	if sealed > 0 {
		s.Log.LogAttrs(ctx, slog.LevelDebug, "audit rows sealed", slog.String("tenant", tenant), slog.Int("rows", sealed))
	}
	return sealed, nil
}

// patience is how old a row may be that is not sealed before that is told. On
// Postgres a row waits for the transactions that are older than it.
func (s Sealer) patience() time.Duration { return max(time.Minute, 6*s.Interval) }

// tellLag says whose rows are still not sealed.
func (s Sealer) tellLag(ctx context.Context) {
	backlogs, err := s.Store.AuditBacklogs(ctx, false)
	if err != nil {
		return // the next round says it
	}
	for _, b := range backlogs {
		if b.Lag > s.patience() {
			s.Log.LogAttrs(ctx, slog.LevelWarn, "audit rows wait to be sealed", slog.String("tenant", b.Tenant), slog.Int("rows", b.Rows),
				slog.Float64("lag_seconds", b.Lag.Seconds()))
		}
	}
}
