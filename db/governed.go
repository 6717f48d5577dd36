package db

import (
	"context"

	"countersign/registry"
)

// Rows that no workflow owns, descriptors and assignments, are changed in one
// transaction with their audit row and their event.

// govern makes such a change. Changes of one aggregate take turns; what fn
// returns of the audit row is completed with who did it; of no event nobody is
// told. When fn refuses, that
// is recorded of the object instead, which is also the error.
func (s *Store) govern(ctx context.Context, op registry.Operation, aggregate string, object AuditEntry, fn func(ctx context.Context, t *tx) (*AuditEntry, *registry.Event, error)) error {
	err := s.write(ctx, op.Name, func(ctx context.Context, t *tx) error {
		if t.engine.queue != "" {
			if _, err := t.NewRaw(t.engine.queue, t.tenant+"/"+aggregate).Exec(ctx); err != nil {
				return err
			}
		}
		if err := t.setNow(ctx); err != nil {
			return err
		}
		entry, event, err := fn(ctx, t)
		if err != nil || entry == nil {
			return err
		}
		applied := by(op, *entry)
		applied.Outcome = AuditApplied
		if err := t.audit(ctx, applied); err != nil {
			return err
		}
		if event != nil {
			if err := t.announce(ctx, aggregate, op, *event); err != nil {
				return err
			}
		}
		if s.takesBack {
			return errTakeBack
		}
		return nil
	})
	if e, ok := registry.AsError(err); ok && decided(e) && !s.takesBack {
		// What fn wrote before is undone by now.
		if err := s.refusedGoverned(ctx, op, object, e); err != nil {
			return err
		}
	}
	return err
}

// decided says whether an error refuses, as the rules say. What is not there, or
// could not be asked, was not decided.
func decided(e *registry.Error) bool {
	return !e.Code.Retryable() && e.Code != registry.CodeNotFound && e.Reason != registry.ReasonConflictingWrite
}

// refusedGoverned records a refusal, once for each operation: an activity that
// does not know how it ended asks again.
func (s *Store) refusedGoverned(ctx context.Context, op registry.Operation, object AuditEntry, refusal *registry.Error) error {
	return s.write(ctx, "audit", func(ctx context.Context, t *tx) error {
		known, err := t.NewSelect().TableExpr("audit").Where("tenant_id = ? AND object_id = ? AND operation_id = ? AND action = ?",
			t.tenant, object.ObjectID, op.ID, op.Name).Exists(ctx)
		if err != nil || known {
			return err
		}
		if err := t.setNow(ctx); err != nil {
			return err
		}
		return t.audit(ctx, refused(by(op, object), refusal))
	})
}

// by completes an audit row with who did what.
func by(op registry.Operation, e AuditEntry) AuditEntry {
	e.Actor, e.Roles, e.Origin, e.Action, e.OperationID = op.Actor.Subject, op.Actor.Roles, op.Origin, op.Name, op.ID
	return e
}

// announce adds an event of what is no server. Its number is the aggregate's
// next, taken on a row of its own.
func (t *tx) announce(ctx context.Context, aggregate string, op registry.Operation, e registry.Event) error {
	var seq int64
	err := t.NewRaw(`INSERT INTO event_sequences AS q (tenant_id, aggregate, seq) VALUES (?, ?, 1)
ON CONFLICT (tenant_id, aggregate) DO UPDATE SET seq = q.seq + 1 RETURNING seq`, t.tenant, aggregate).Scan(ctx, &seq)
	if err != nil {
		return err
	}
	row, err := t.event(ctx, aggregate, seq, op, e)
	if err != nil {
		return err
	}
	_, err = t.NewInsert().Model(&row).ExcludeColumn("id", "tx").Exec(ctx)
	return err
}
