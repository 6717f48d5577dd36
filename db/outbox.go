package db

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/uptrace/bun"

	"countersign/registry"
)

// OutboxEvent is one event that waits to be delivered, or was (R163). Of one
// aggregate the numbers have no gaps, and follow the order of its changes.
type OutboxEvent struct {
	ID            int64              `bun:"id,pk,autoincrement"` // by the database
	Tx            int64              `bun:"tx,nullzero"`         // by the database
	EventID       string             `bun:"event_id"`            // UUIDv7, the same in every delivery
	Type          registry.EventType `bun:"event_type"`
	TenantID      string             `bun:"tenant_id"`
	Aggregate     string             `bun:"aggregate"`      // server id
	Seq           int64              `bun:"seq"`            // from 1, of the aggregate
	Data          json.RawMessage    `bun:"data,type:text"` // of the CloudEvent, exactly (R160)
	OccurredAt    time.Time          `bun:"occurred_at"`
	CorrelationID string             `bun:"correlation_id"` // operation id
	CausationID   string             `bun:"causation_id"`   // operation id
}

type outboxRow struct {
	bun.BaseModel `bun:"table:outbox,alias:e"`
	OutboxEvent
}

// emit adds the events of a server's change and numbers them on its row.
func (t *tx) emit(ctx context.Context, server *serverRow, op registry.Operation, events []registry.Event) error {
	if len(events) == 0 {
		return nil
	}
	rows := make([]outboxRow, len(events))
	for i, e := range events {
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		data, err := json.Marshal(e.Payload)
		if err != nil {
			return err
		}
		server.EventSeq++
		rows[i].OutboxEvent = OutboxEvent{
			EventID: id.String(), Type: e.Type, TenantID: t.tenant, Aggregate: server.ServerID, Seq: server.EventSeq,
			Data: data, OccurredAt: t.now, CorrelationID: op.ID, CausationID: op.ID,
		}
	}
	_, err := t.NewInsert().Model(&rows).ExcludeColumn("id", "tx").Exec(ctx)
	return err
}
