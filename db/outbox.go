package db

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"
	"github.com/uptrace/bun"

	"countersign/registry"
	"countersign/telemetry"
)

// OutboxEvent is one event that waits to be delivered, or was.
type OutboxEvent = registry.OutboxEvent

type outboxRow struct {
	bun.BaseModel `bun:"table:outbox,alias:e"`
	OutboxEvent
	Relayed bool `bun:"relayed"` // every sink that wants it has a delivery
}

// emit adds the events of a server's change and numbers them on its row.
func (t *tx) emit(ctx context.Context, server *serverRow, op registry.Operation, events []registry.Event) error {
	if len(events) == 0 {
		return nil
	}
	rows := make([]outboxRow, len(events))
	for i, e := range events {
		server.EventSeq++
		row, err := t.event(ctx, server.ServerID, server.EventSeq, op, e)
		if err != nil {
			return err
		}
		rows[i] = row
	}
	_, err := t.NewInsert().Model(&rows).ExcludeColumn("id", "tx").Exec(ctx)
	return err
}

// event makes the row of an event.
func (t *tx) event(ctx context.Context, aggregate string, seq int64, op registry.Operation, e registry.Event) (outboxRow, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return outboxRow{}, err
	}
	data, err := json.Marshal(e.Payload)
	if err != nil {
		return outboxRow{}, err
	}
	return outboxRow{OutboxEvent: OutboxEvent{
		EventID: id.String(), Type: e.Type, TenantID: t.tenant, Aggregate: aggregate, Seq: seq, Data: data, OccurredAt: t.now,
		CorrelationID: op.ID, CausationID: op.ID, TraceParent: telemetry.TraceParent(ctx),
	}}, nil
}
