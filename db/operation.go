package db

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"countersign/registry"
)

// tx is one writing transaction of one tenant.
type tx struct {
	bun.Tx
	engine   engine
	tenant   string
	quotas   registry.Quotas
	measures *measures
	added    int                 // bytes of definitions that this transaction added
	now      time.Time           // set once the rows that the change depends on are locked
	loaded   map[string]searched // the tools of the server, as they were loaded
}

// setNow reads the clock: after the locks, so that times follow the order of
// the changes.
func (t *tx) setNow(ctx context.Context) (err error) {
	t.now, err = t.engine.now(ctx, t)
	return err
}

// operationRow is the record of an operation that was applied or refused.
type operationRow struct {
	bun.BaseModel `bun:"table:applied_operations,alias:o"`
	TenantID      string           `bun:"tenant_id,pk"`
	ServerID      string           `bun:"server_id,pk"`
	OperationID   string           `bun:"operation_id,pk"`
	Name          string           `bun:"name"`
	At            time.Time        `bun:"at"`
	Answer        string           `bun:"answer"`
	Result        *registry.Server `bun:"result,type:text"`
	Refusal       *registry.Error  `bun:"refusal,type:text"`
}

// recorded gives the record of an operation, nil when it is new.
func (t *tx) recorded(ctx context.Context, serverID, operationID string) (*operationRow, error) {
	if operationID == "" {
		return nil, registry.Errorf(registry.ReasonInternal, "the change has no operation id")
	}
	var row operationRow
	err := t.NewSelect().Model(&row).
		Where("tenant_id = ? AND server_id = ? AND operation_id = ?", t.tenant, serverID, operationID).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &row, err
}

// answer says again what the operation came to.
func (o *operationRow) answer() (Applied, error) {
	if o.Refusal != nil {
		return Applied{}, o.Refusal
	}
	return Applied{Server: *o.Result, Answer: o.Answer, Replayed: true}, nil
}

func (t *tx) recordApplied(ctx context.Context, serverID string, op registry.Operation, a Applied) error {
	row := operationRow{
		TenantID: t.tenant, ServerID: serverID, OperationID: op.ID, Name: op.Name, At: t.now, Answer: a.Answer, Result: &a.Server,
	}
	_, err := t.NewInsert().Model(&row).Exec(ctx)
	return err
}

func (t *tx) recordRefused(ctx context.Context, serverID string, op registry.Operation, refusal *registry.Error) error {
	row := operationRow{TenantID: t.tenant, ServerID: serverID, OperationID: op.ID, Name: op.Name, At: t.now, Refusal: refusal}
	_, err := t.NewInsert().Model(&row).Exec(ctx)
	return err
}

// ClaimRecord is an idempotency key that was used.
type ClaimRecord struct {
	BodyHash    string
	ServerID    string
	OperationID string
	Answer      string // what its first use was told
	CreatedAt   time.Time
}

type claimRow struct {
	bun.BaseModel `bun:"table:idempotency_keys,alias:k"`
	TenantID      string    `bun:"tenant_id,pk"`
	Operation     string    `bun:"operation,pk"`
	Key           string    `bun:"key,pk"`
	BodyHash      string    `bun:"body_hash"`
	ServerID      string    `bun:"server_id"`
	OperationID   string    `bun:"operation_id"`
	Answer        string    `bun:"answer"`
	CreatedAt     time.Time `bun:"created_at"`
}

// Claimed gives what an idempotency key was used for, nil when it is free.
func (s *Store) Claimed(ctx context.Context, operation, key string) (*ClaimRecord, error) {
	var row *claimRow
	err := s.read(ctx, "read an idempotency key", func(ctx context.Context, q bun.IDB) (err error) {
		row, err = claimed(ctx, q, s.tenant, operation, key)
		return err
	})
	if err != nil || row == nil {
		return nil, err
	}
	return &ClaimRecord{
		BodyHash: row.BodyHash, ServerID: row.ServerID, OperationID: row.OperationID, Answer: row.Answer, CreatedAt: row.CreatedAt,
	}, nil
}

func claimed(ctx context.Context, q bun.IDB, tenant, operation, key string) (*claimRow, error) {
	var row claimRow
	err := q.NewSelect().Model(&row).Where("tenant_id = ? AND operation = ? AND key = ?", tenant, operation, key).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &row, err
}

// claimed gives the earlier use of a change's key, nil when there is none, and
// refuses a key that came with another body before (R170).
func (t *tx) claimed(ctx context.Context, c *Claim) (*claimRow, error) {
	if c == nil {
		return nil, nil
	}
	row, err := claimed(ctx, t, t.tenant, c.Operation, c.Key)
	if row != nil && err == nil && row.BodyHash != c.BodyHash {
		return nil, registry.Errorf(registry.ReasonIdempotencyKeyReused, "the idempotency key was used before, with another request").
			WithNext("use a new key for a new request")
	}
	return row, err
}

// claim takes a key; another one who took it meanwhile makes the transaction
// start again and find that.
func (t *tx) claim(ctx context.Context, c *Claim, op registry.Operation, server *registry.Server) (answer string, err error) {
	if c == nil {
		return "", nil
	}
	if c.Answer != nil {
		answer = c.Answer(server)
	}
	row := claimRow{
		TenantID: t.tenant, Operation: c.Operation, Key: c.Key, BodyHash: c.BodyHash, ServerID: server.ServerID,
		OperationID: op.ID, Answer: answer, CreatedAt: t.now,
	}
	_, err = t.NewInsert().Model(&row).Exec(ctx)
	return answer, err
}
