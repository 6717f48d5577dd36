package db

import (
	"context"
	"errors"
	"hash/fnv"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/uptrace/bun"

	"countersign/registry"
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

// Place is where somebody has got to in the events of a tenant, and by what to
// tell whether these are still the events that somebody was told.
type Place struct {
	Position
	Last    string // id of the last event up to there; empty when there was none
	History uint64 // of the database; 0 where it cannot be told
}

// OutboxEnd is the place before which nothing of the tenant's events can come
// any more: whoever begins there gets what happens from now on.
func (s *Store) OutboxEnd(ctx context.Context) (Place, error) {
	history, err := s.db.history(ctx)
	if err != nil {
		return Place{}, err
	}
	end := Place{History: history}
	err = s.read(ctx, "find the end of a stream", func(ctx context.Context, q bun.IDB) error {
		if err := q.NewRaw(s.db.engine.end, s.tenant).Scan(ctx, &end.Tx, &end.ID); err != nil {
			return err
		}
		end.Last, err = s.lastEvent(ctx, q, end.Position)
		return err
	})
	return end, err
}

// OutboxResume checks a place that OutboxEnd or OutboxAfter led to, and gives it
// back; the zero value is the beginning. It refuses one of another history: when the
// database was restored since, events may have come before the place, or be others
// than somebody was told; when the last event is kept no longer, some after it may
// not be either.
func (s *Store) OutboxResume(ctx context.Context, at Place) (Place, error) {
	history, err := s.db.history(ctx)
	if err != nil {
		return Place{}, err
	}
	if at == (Place{}) {
		return Place{History: history}, nil
	}
	known := at.History == history
	err = s.read(ctx, "resume a stream", func(ctx context.Context, q bun.IDB) error {
		var end Position
		if err := q.NewRaw(s.db.engine.end, s.tenant).Scan(ctx, &end.Tx, &end.ID); err != nil {
			return err
		}
		switch {
		case !known:
			return nil
		case at.Last != "":
			known, err = q.NewSelect().TableExpr("outbox").Where("tenant_id = ? AND event_id = ? AND (tx, id) <= (?, ?)", s.tenant, at.Last, at.Tx, at.ID).Exists(ctx)
			known = known && (at.Tx < end.Tx || at.Tx == end.Tx && at.ID <= end.ID)
			return err
		}
		before, err := s.lastEvent(ctx, q, at.Position)
		known = before == "" && at.Tx <= end.Tx
		return err
	})
	if err == nil && !known {
		return Place{}, registry.Errorf(registry.ReasonResumeTokenOutdated, "the resume token is of events that are kept no longer, or of a database that was restored since").
			WithField("resume_token", "is of a history that is gone").
			WithNext("watch without a resume token, and read anew what you keep: what happened in between is not told")
	}
	return at, err
}

// lastEvent is the id of the tenant's last event up to a position; empty when
// there is none.
func (s *Store) lastEvent(ctx context.Context, q bun.IDB, at Position) (string, error) {
	var ids []string
	err := q.NewSelect().TableExpr("outbox").Column("event_id").Where("tenant_id = ? AND (tx, id) <= (?, ?)", s.tenant, at.Tx, at.ID).
		OrderExpr("tx DESC, id DESC").Limit(1).Scan(ctx, &ids)
	if err != nil || len(ids) == 0 {
		return "", err
	}
	return ids[0], nil
}

// history identifies the database by something that a dump does not carry into
// another one; 0 where the server does not tell it.
func (d *DB) history(ctx context.Context) (uint64, error) {
	if d.engine.history == "" {
		return 0, nil
	}
	var name string
	err := d.read(ctx, ofSystem, "identify the database", func(ctx context.Context, q bun.IDB) error {
		err := q.NewRaw(d.engine.history).Scan(ctx, &name)
		if _, refused := errors.AsType[*pgconn.PgError](err); refused { // some hosted ones keep it to themselves
			return nil
		}
		return err
	})
	if err != nil || name == "" {
		return 0, err
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return h.Sum64(), nil
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
