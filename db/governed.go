package db

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"countersign/registry"
)

// Rows that no workflow owns, descriptors and assignments, are changed in one
// transaction with their audit row and their event.

// govern makes such a change. Changes of one aggregate take turns; what fn
// returns of the audit row is completed with who did it.
func (s *Store) govern(ctx context.Context, op registry.Operation, aggregate string, fn func(ctx context.Context, t *tx) (*AuditEntry, *registry.Event, error)) error {
	return s.write(ctx, op.Name, func(ctx context.Context, t *tx) error {
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
		entry.Actor, entry.Roles, entry.Origin, entry.Action, entry.OperationID = op.Actor.Subject, op.Actor.Roles, op.Origin, op.Name, op.ID
		entry.Outcome = AuditApplied
		if err := t.audit(ctx, *entry); err != nil {
			return err
		}
		return t.announce(ctx, aggregate, op, *event)
	})
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
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	data, err := json.Marshal(e.Payload)
	if err != nil {
		return err
	}
	row := outboxRow{OutboxEvent: OutboxEvent{
		EventID: id.String(), Type: e.Type, TenantID: t.tenant, Aggregate: aggregate, Seq: seq, Data: data, OccurredAt: t.now,
		CorrelationID: op.ID, CausationID: op.ID,
	}}
	_, err = t.NewInsert().Model(&row).ExcludeColumn("id", "tx").Exec(ctx)
	return err
}
