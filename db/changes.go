package db

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"
)

// alteration is something whose change was committed. Whatever decides about tools
// changes together with an applied row of the audit.
type alteration struct {
	ID       int64  `bun:"id"`
	Tx       int64  `bun:"tx"`
	TenantID string `bun:"tenant_id"`
	Kind     string `bun:"object_kind"`
	ObjectID string `bun:"object_id"`
}

// reader follows changes. Unlike streams it needs no order, so it does not wait
// for transactions that run: whatever it does not see yet has a number of at
// least the horizon, from which it reads the next time, and what it has seen
// of that it knows by its id. A lost hint costs time and loses nothing.
type reader struct {
	horizon int64 // numbers below are seen or never come
	seen    map[int64]bool
	began   bool
}

// changesRead is the most changes that are looked at one by one; where there
// are more, everything changed.
const changesRead = 2000

// read gives what was committed since it was called last. all says that
// anything may have changed: at the beginning, when there was too much, and when
// the database is not the one it was but was restored. now is the database's
// clock.
func (r *reader) read(ctx context.Context, d *DB) (list []alteration, all bool, now time.Time, err error) {
	var state struct {
		Horizon int64     `bun:"horizon"`
		Now     time.Time `bun:"now"`
	}
	var rows []alteration
	err = d.read(ctx, ofSystem, "follow changes", func(ctx context.Context, q bun.IDB) error {
		if err := q.NewRaw(d.engine.changesFrom).Scan(ctx, &state); err != nil {
			return err
		}
		if !r.began || state.Horizon < r.horizon {
			return nil
		}
		return q.NewRaw("SELECT a.id, a.tx, a.tenant_id, a.object_kind, a.object_id FROM audit AS a WHERE "+d.engine.changed+
			" AND a.outcome = 'applied' LIMIT ?", r.horizon, changesRead+1).Scan(ctx, &rows)
	})
	if err != nil {
		return nil, false, time.Time{}, err
	}
	if state.Now.IsZero() { // the database runs in this process
		state.Now = time.Now()
	}
	all = !r.began || state.Horizon < r.horizon || len(rows) > changesRead
	seen := map[int64]bool{}
	for _, row := range rows {
		if !all && !r.seen[row.ID] {
			list = append(list, row)
		}
		if d.engine.name == postgres.name && row.Tx >= state.Horizon {
			seen[row.ID] = true
		}
	}
	r.began, r.horizon, r.seen = true, state.Horizon, seen
	return list, all, state.Now, nil
}

// hinted rings the bell whenever something may have changed, until the context
// is over. What cannot be heard, as through a pooler that shares connections
// between transactions, is found by those who look from time to time.
func (d *DB) hinted(ctx context.Context, ring func()) {
	if d.engine.name != postgres.name {
		for {
			next := d.committed.next()
			select {
			case <-next:
				ring()
			case <-ctx.Done():
				return
			}
		}
	}
	for ctx.Err() == nil {
		if err := d.listen(ctx, ring); err != nil && ctx.Err() == nil {
			d.log.LogAttrs(ctx, slog.LevelDebug, "database: hints are not heard", slog.Any("error", err))
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// listen hears the hints on a connection of its own, which reads no tables.
func (d *DB) listen(ctx context.Context, ring func()) error {
	conn, err := pgx.ConnectConfig(ctx, d.listening.Copy())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // it is of no more use
	if _, err := conn.Exec(ctx, "LISTEN countersign_changes"); err != nil {
		return err
	}
	for {
		ring()
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return err
		}
	}
}
