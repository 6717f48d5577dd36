package db

import (
	"context"

	"github.com/uptrace/bun"
)

// Position is a place in a stream of rows; the zero value is before the first.
// Ids alone do not do for that, since a transaction may take one and commit
// late. So on Postgres the number of the transaction comes first, and only rows
// are read before which none can come any more; rows of one server come in the
// order of its changes. SQLite has one writer, whose ids are in order.
type Position struct {
	Tx int64 `json:"tx"`
	ID int64 `json:"id"`
}

// OutboxAfter gives the next events of all tenants after a position.
func (y *SystemStore) OutboxAfter(ctx context.Context, after Position, limit int) ([]OutboxEvent, Position, error) {
	rows, next, err := follow(ctx, y.db, ofSystem, after, limit, func(r *outboxRow) Position { return Position{r.Tx, r.ID} })
	out := make([]OutboxEvent, len(rows))
	for i := range rows {
		out[i] = rows[i].OutboxEvent
	}
	return out, next, err
}

// AuditAfter gives the next audit rows of all tenants after a position.
func (y *SystemStore) AuditAfter(ctx context.Context, after Position, limit int) ([]AuditEntry, Position, error) {
	rows, next, err := follow(ctx, y.db, ofSystem, after, limit, func(r *auditRow) Position { return Position{r.Tx, r.ID} })
	out := make([]AuditEntry, len(rows))
	for i := range rows {
		out[i] = rows[i].AuditEntry
	}
	return out, next, err
}

// OutboxAfter gives the tenant's next events after a position.
func (s *Store) OutboxAfter(ctx context.Context, after Position, limit int) ([]OutboxEvent, Position, error) {
	if err := s.check(); err != nil {
		return nil, after, err
	}
	rows, next, err := follow(ctx, s.db, ofTenant(s.tenant), after, limit, func(r *outboxRow) Position { return Position{r.Tx, r.ID} })
	out := make([]OutboxEvent, len(rows))
	for i := range rows {
		out[i] = rows[i].OutboxEvent
	}
	return out, next, err
}

// OutboxEnd is the position before which nothing of the tenant's events can come
// any more: whoever begins there gets what happens from now on.
func (s *Store) OutboxEnd(ctx context.Context) (Position, error) {
	var end Position
	err := s.read(ctx, "find the end of a stream", func(ctx context.Context, q bun.IDB) error {
		return q.NewRaw(s.db.engine.end, s.tenant).Scan(ctx, &end.Tx, &end.ID)
	})
	return end, err
}

// follow reads the rows after a position, of one tenant or of all.
func follow[R any](ctx context.Context, d *DB, who scope, after Position, limit int, position func(*R) Position) ([]R, Position, error) {
	var rows []R
	err := d.read(ctx, who, "follow a stream", func(ctx context.Context, q bun.IDB) error {
		query := q.NewSelect().Model(&rows).Where("(tx, id) > (?, ?)", after.Tx, after.ID).Where(d.engine.horizon)
		if who.kind == tenantScope {
			query = query.Where("tenant_id = ?", who.tenant)
		}
		return query.OrderExpr("tx, id").Limit(int64(max(limit, 1))).Scan(ctx)
	})
	if err == nil && len(rows) > 0 {
		after = position(&rows[len(rows)-1])
	}
	return rows, after, err
}
