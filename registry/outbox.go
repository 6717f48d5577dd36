package registry

import (
	"encoding/json"
	"time"
)

// OutboxEvent is one event that waits to be delivered, or was (R163). Of one
// aggregate the numbers have no gaps, and follow the order of its changes.
type OutboxEvent struct {
	ID            int64           `bun:"id,pk,autoincrement"` // by the database
	Tx            int64           `bun:"tx,nullzero"`         // by the database
	EventID       string          `bun:"event_id"`            // UUIDv7, the same in every delivery
	Type          EventType       `bun:"event_type"`
	TenantID      string          `bun:"tenant_id"`
	Aggregate     string          `bun:"aggregate"`      // server id, or kind/name of what is no server
	Seq           int64           `bun:"seq"`            // from 1, of the aggregate
	Data          json.RawMessage `bun:"data,type:text"` // of the CloudEvent, exactly (R160)
	OccurredAt    time.Time       `bun:"occurred_at"`
	CorrelationID string          `bun:"correlation_id"` // operation id
	CausationID   string          `bun:"causation_id"`   // operation id
	TraceParent   string          `bun:"traceparent"`    // of the trace that made it (W3C); may be empty
}
