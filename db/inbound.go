package db

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/uptrace/bun"

	"countersign/registry"
)

type inboundRow struct {
	bun.BaseModel `bun:"table:inbound_events,alias:i"`
	registry.InboundEvent
}

// TakeIn keeps an event that was received, once for each id: false says that it
// is here already. The error is subscription_not_found.
func (s *Store) TakeIn(ctx context.Context, e registry.InboundEvent) (bool, error) {
	var taken bool
	err := s.write(ctx, "take_in", func(ctx context.Context, t *tx) error {
		u, err := t.subscription(ctx, e.SubscriptionID)
		if err != nil {
			return err
		}
		if u.Direction != registry.SubscriptionReceive {
			return registry.SubscriptionNotFound()
		}
		if err := t.setNow(ctx); err != nil {
			return err
		}
		e.TenantID, e.State, e.ReceivedAt, e.DueAt = t.tenant, registry.InboundQueued, t.now, t.now
		result, err := t.NewInsert().Model(&inboundRow{InboundEvent: e}).On("CONFLICT (tenant_id, subscription_id, event_id) DO NOTHING").Exec(ctx)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		taken = n > 0
		return err
	})
	return taken, err
}

// Inbound lists the events that a subscription received, the latest first.
func (s *Store) Inbound(ctx context.Context, subscriptionID string, limit int) ([]registry.InboundEvent, error) {
	var rows []inboundRow
	err := s.read(ctx, "list received events", func(ctx context.Context, q bun.IDB) error {
		return q.NewSelect().Model(&rows).Where("i.tenant_id = ? AND i.subscription_id = ?", s.tenant, asText(subscriptionID)).
			OrderExpr("i.received_at DESC, i.event_id").Limit(int64(limit)).Scan(ctx)
	})
	out := make([]registry.InboundEvent, len(rows))
	for i, row := range rows {
		out[i] = row.InboundEvent
	}
	return out, err
}

// Revoked says whether the tenant was told that a release was revoked, at
// whatever time and however far that has come.
func (s *Store) Revoked(ctx context.Context, releaseID string) (bool, error) {
	var told []string
	err := s.read(ctx, "look for a revocation", func(ctx context.Context, q bun.IDB) error {
		return q.NewSelect().TableExpr("inbound_events AS i").ColumnExpr("i.data").
			Where("i.tenant_id = ? AND i.event_type = ?", s.tenant, registry.EventAssetReleaseRevoked).Scan(ctx, &told)
	})
	for _, data := range told {
		var r registry.AssetReleaseRevoked
		if json.Unmarshal([]byte(data), &r) == nil && r.ReleaseID == releaseID {
			return true, err
		}
	}
	return false, err
}

// ReleaseServers gives the servers of a release that are not retired, by name.
func (s *Store) ReleaseServers(ctx context.Context, releaseID string) ([]registry.Server, error) {
	var rows []serverRow
	err := s.read(ctx, "list servers of a release", func(ctx context.Context, q bun.IDB) error {
		return q.NewSelect().Model(&rows).Where("s.tenant_id = ? AND s.release_id = ? AND s.state <> ?", s.tenant, asText(releaseID), registry.StateRetired).
			OrderExpr("s.name").Scan(ctx)
	})
	out := make([]registry.Server, len(rows))
	for i := range rows {
		out[i] = rows[i].Server
	}
	return out, err
}

// ClaimInbound gives received events that are due, the longest due first, at most
// limit. They are the caller's until the lease is over.
func (y *SystemStore) ClaimInbound(ctx context.Context, limit int, lease time.Duration) ([]registry.InboundEvent, error) {
	var rows []inboundRow
	err := y.db.write(ctx, ofSystem, "claim_inbound", func(ctx context.Context, tx bun.Tx) error {
		rows = nil
		now, err := y.db.engine.now(ctx, tx)
		if err != nil {
			return err
		}
		id, err := uuid.NewRandom()
		if err != nil {
			return err
		}
		due := tx.NewSelect().TableExpr("inbound_events").Column("tenant_id", "subscription_id", "event_id").
			Where("state = 'queued' AND due_at <= ?", now).OrderExpr("due_at").Limit(int64(limit))
		return tx.NewRaw("UPDATE inbound_events AS i SET lease = ?, due_at = ? WHERE (i.tenant_id, i.subscription_id, i.event_id) IN (?"+y.db.engine.skipLocked+") RETURNING *",
			id.String(), now.Add(lease), due).Scan(ctx, &rows)
	})
	out := make([]registry.InboundEvent, len(rows))
	for i, row := range rows {
		out[i] = row.InboundEvent
	}
	return out, err
}

// SettleInbound records what became of a received event; one that stays queued is
// due again after a while. Whoever lost the lease records nothing.
func (y *SystemStore) SettleInbound(ctx context.Context, e registry.InboundEvent, again time.Duration) error {
	return y.db.write(ctx, ofSystem, "settle_inbound", func(ctx context.Context, tx bun.Tx) error {
		now, err := y.db.engine.now(ctx, tx)
		if err != nil {
			return err
		}
		_, err = tx.NewUpdate().TableExpr("inbound_events").
			Set("state = ?, attempts = attempts + 1, problem = ?, due_at = ?, lease = ''", e.State, asText(e.Problem), now.Add(again)).
			Where("tenant_id = ? AND subscription_id = ? AND event_id = ? AND lease = ?", e.TenantID, e.SubscriptionID, e.EventID, e.Lease).Exec(ctx)
		return err
	})
}
