package db

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/uptrace/bun"

	"countersign/registry"
)

type (
	subscriptionRow struct {
		bun.BaseModel `bun:"table:event_subscriptions,alias:u"`
		registry.Subscription
	}

	deliveryRow struct {
		bun.BaseModel `bun:"table:event_deliveries,alias:d"`
		registry.Delivery
	}

	laneRow struct {
		bun.BaseModel `bun:"table:event_lanes,alias:l"`
		registry.Lane
	}
)

// never is when what waits for somebody is due.
var never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// unrelayed selects the events that were not offered yet. The bounds are those of
// all ids: they make the statement one on the keys of the index of what waits,
// also for a planner without statistics, who would take half of all events for
// new.
const unrelayed = "NOT relayed AND id BETWEEN 1 AND 9223372036854775807"

// Each event carries whether it was relayed, so nothing depends on the order in
// which transactions commit, nor on where a reader had got to: one that commits
// late is found late, and not passed by.

// RelayEvents offers the events of all tenants that were not offered yet, at most
// limit, to the subscriptions that want them and to the sinks of the installation:
// each gets a delivery, in the transaction that marks the event. It says how many
// events those were. Of several processes one does it at a time; the others find
// nothing. Events of one aggregate come in the order of their numbers.
func (y *SystemStore) RelayEvents(ctx context.Context, sinks []string, limit int) (int, error) {
	var relayed int
	err := y.db.write(ctx, ofSystem, "relay_events", func(ctx context.Context, tx bun.Tx) error {
		relayed = 0
		if y.db.engine.relaying != "" {
			var mine bool
			if err := tx.NewRaw(y.db.engine.relaying).Scan(ctx, &mine); err != nil || !mine {
				return err
			}
		}
		var rows []outboxRow
		if err := tx.NewSelect().Model(&rows).Where(unrelayed).OrderExpr("id").Limit(int64(limit)).Scan(ctx); err != nil || len(rows) == 0 {
			return err
		}
		now, err := y.db.engine.now(ctx, tx)
		if err != nil {
			return err
		}
		deliveries, err := offered(ctx, tx, rows, sinks, now)
		if err != nil {
			return err
		}
		if err := enqueue(ctx, tx, deliveries, now); err != nil {
			return err
		}
		ids := make([]int64, len(rows))
		for i, row := range rows {
			ids[i] = row.ID
		}
		relayed = len(rows)
		_, err = tx.NewUpdate().TableExpr("outbox").Set("relayed = TRUE").Where("id IN (?)", bun.List(ids)).Exec(ctx)
		return err
	})
	return relayed, err
}

// offered gives the deliveries of events.
func offered(ctx context.Context, tx bun.Tx, rows []outboxRow, sinks []string, now time.Time) ([]deliveryRow, error) {
	tenants := map[string][]subscriptionRow{}
	for _, row := range rows {
		tenants[row.TenantID] = nil
	}
	var subscriptions []subscriptionRow
	err := tx.NewSelect().Model(&subscriptions).Where("u.tenant_id IN (?) AND u.direction = ? AND u.enabled", bun.List(slices.Sorted(maps.Keys(tenants))), registry.SubscriptionSend).
		OrderExpr("u.tenant_id, u.subscription_id").Scan(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range subscriptions {
		tenants[s.TenantID] = append(tenants[s.TenantID], s)
	}
	var out []deliveryRow
	for _, row := range rows {
		for _, s := range tenants[row.TenantID] {
			if s.Wants(row.Type, row.Aggregate) {
				out = append(out, deliveryOf(row.OutboxEvent, s.SubscriptionID, now))
			}
		}
		for _, sink := range sinks {
			out = append(out, deliveryOf(row.OutboxEvent, sink, now))
		}
	}
	return out, nil
}

func deliveryOf(e registry.OutboxEvent, sink string, now time.Time) deliveryRow {
	return deliveryRow{Delivery: registry.Delivery{
		TenantID: e.TenantID, Sink: sink, EventID: e.EventID, Type: e.Type, Aggregate: e.Aggregate, Seq: e.Seq,
		State: registry.DeliveryPending, CreatedAt: now,
	}}
}

// enqueue adds deliveries, again those that were, and the lanes that they go.
func enqueue(ctx context.Context, tx bun.Tx, rows []deliveryRow, now time.Time) error {
	lanes := map[registry.Lane]bool{}
	for chunk := range slices.Chunk(rows, bulkRows) {
		_, err := tx.NewInsert().Model(&chunk).ExcludeColumn("id").On("CONFLICT (tenant_id, sink, event_id) DO UPDATE").
			Set("state = 'pending', attempts = 0, first_at = NULL").Where("d.state <> 'pending'").Exec(ctx)
		if err != nil {
			return err
		}
		for _, row := range chunk {
			lanes[registry.Lane{TenantID: row.TenantID, Sink: row.Sink, Aggregate: row.Aggregate, DueAt: now}] = true
		}
	}
	ways := make([]laneRow, 0, len(lanes))
	for lane := range lanes {
		ways = append(ways, laneRow{Lane: lane})
	}
	// In one order, so that two who lock several do not wait for each other.
	slices.SortFunc(ways, func(a, b laneRow) int {
		return cmp.Or(cmp.Compare(a.TenantID, b.TenantID), cmp.Compare(a.Sink, b.Sink), cmp.Compare(a.Aggregate, b.Aggregate))
	})
	for chunk := range slices.Chunk(ways, bulkRows) {
		// A lane that is there is locked, so that it is not taken away for being empty.
		_, err := tx.NewInsert().Model(&chunk).On("CONFLICT (tenant_id, sink, aggregate) DO UPDATE").Set("lease = l.lease").Exec(ctx)
		if err != nil {
			return err
		}
	}
	return nil
}

// ClaimLanes gives lanes that are due, at most limit, the longest due first, and
// none of the sinks that are busy. They are the caller's until the lease is over:
// then they are due again.
func (y *SystemStore) ClaimLanes(ctx context.Context, busy []string, limit int, lease time.Duration) ([]registry.Lane, error) {
	var rows []laneRow
	err := y.db.write(ctx, ofSystem, "claim_lanes", func(ctx context.Context, tx bun.Tx) error {
		rows = nil
		now, err := y.db.engine.now(ctx, tx)
		if err != nil {
			return err
		}
		id, err := uuid.NewRandom()
		if err != nil {
			return err
		}
		due := tx.NewSelect().TableExpr("event_lanes").Column("tenant_id", "sink", "aggregate").Where("due_at <= ?", now).OrderExpr("due_at").Limit(int64(limit))
		if len(busy) > 0 {
			due = due.Where("sink NOT IN (?)", bun.List(busy))
		}
		return tx.NewRaw("UPDATE event_lanes AS l SET lease = ?, due_at = ? WHERE (l.tenant_id, l.sink, l.aggregate) IN (?"+y.db.engine.skipLocked+") RETURNING *",
			id.String(), now.Add(lease), due).Scan(ctx, &rows)
	})
	out := make([]registry.Lane, len(rows))
	for i, row := range rows {
		out[i] = row.Lane
	}
	return out, err
}

// Parcels gives what is to be delivered next along a lane, at most limit, in
// order; and the subscription that it is for, nil for a sink of the installation
// or when it is gone.
func (y *SystemStore) Parcels(ctx context.Context, lane registry.Lane, limit int) ([]registry.Parcel, *registry.Subscription, error) {
	var (
		out          []registry.Parcel
		subscription *registry.Subscription
	)
	err := y.db.read(ctx, ofSystem, "read deliveries", func(ctx context.Context, q bun.IDB) error {
		var deliveries []deliveryRow
		err := q.NewSelect().Model(&deliveries).Where("d.tenant_id = ? AND d.sink = ? AND d.aggregate = ? AND d.state = 'pending'", lane.TenantID, lane.Sink, lane.Aggregate).
			OrderExpr("d.seq").Limit(int64(limit)).Scan(ctx)
		if err != nil {
			return err
		}
		var subscriptions []subscriptionRow
		if !registry.InstallationSink(lane.Sink) {
			err := q.NewSelect().Model(&subscriptions).Where("u.tenant_id = ? AND u.subscription_id = ?", lane.TenantID, lane.Sink).Scan(ctx)
			if err != nil {
				return err
			}
			if len(subscriptions) == 1 {
				subscription = &subscriptions[0].Subscription
			}
		}
		if len(deliveries) == 0 {
			return nil
		}
		ids := make([]string, len(deliveries))
		for i, d := range deliveries {
			ids[i] = d.EventID
		}
		var rows []outboxRow
		if err := q.NewSelect().Model(&rows).Where("e.event_id IN (?)", bun.List(ids)).Scan(ctx); err != nil {
			return err
		}
		events := map[string]registry.OutboxEvent{}
		for _, row := range rows {
			events[row.EventID] = row.OutboxEvent
		}
		for _, d := range deliveries {
			out = append(out, registry.Parcel{Delivery: d.Delivery, Event: events[d.EventID]})
		}
		return nil
	})
	return out, subscription, err
}

// SettleLane records how deliveries went, and gives the lane back: due again
// after a while, at once when that is 0, or never when it is negative; or gone
// when nothing is pending. Whoever lost the lease in the meantime records nothing:
// another one delivers again, and is told so by false.
func (y *SystemStore) SettleLane(ctx context.Context, lane registry.Lane, attempts []registry.Attempt, again time.Duration) (bool, error) {
	var mine bool
	err := y.db.write(ctx, ofSystem, "settle_lane", func(ctx context.Context, tx bun.Tx) error {
		mine = false
		held := tx.NewSelect().TableExpr("event_lanes").ColumnExpr("lease").
			Where("tenant_id = ? AND sink = ? AND aggregate = ?", lane.TenantID, lane.Sink, lane.Aggregate)
		if y.db.engine.forUpdate != "" {
			held = held.For("UPDATE")
		}
		var leases []string
		if err := held.Scan(ctx, &leases); err != nil || len(leases) == 0 || leases[0] != lane.Lease {
			return err
		}
		mine = true
		for _, a := range attempts {
			_, err := tx.NewUpdate().TableExpr("event_deliveries AS d").
				Set("state = ?, attempts = d.attempts + 1, status = ?, problem = ?, last_at = ?, first_at = COALESCE(d.first_at, ?)",
					a.State, a.Status, asText(a.Problem), micro(a.At), micro(a.At)).
				Where("d.id = ? AND d.state = 'pending'", a.DeliveryID).Exec(ctx)
			if err != nil {
				return err
			}
		}
		// Who adds a delivery holds the lane's row until it is there, so this sees it.
		pending, err := tx.NewSelect().TableExpr("event_deliveries").
			Where("tenant_id = ? AND sink = ? AND aggregate = ? AND state = 'pending'", lane.TenantID, lane.Sink, lane.Aggregate).Exists(ctx)
		if err != nil {
			return err
		}
		if !pending {
			_, err := tx.NewDelete().TableExpr("event_lanes").
				Where("tenant_id = ? AND sink = ? AND aggregate = ?", lane.TenantID, lane.Sink, lane.Aggregate).Exec(ctx)
			return err
		}
		now, err := y.db.engine.now(ctx, tx)
		if err != nil {
			return err
		}
		due := never
		if again >= 0 {
			due = now.Add(again)
		}
		_, err = tx.NewUpdate().TableExpr("event_lanes").Set("lease = '', due_at = ?", due).
			Where("tenant_id = ? AND sink = ? AND aggregate = ?", lane.TenantID, lane.Sink, lane.Aggregate).Exec(ctx)
		return err
	})
	return mine, err
}

// backlogBound is up to how many deliveries are counted.
const backlogBound = 100_000

// EventBacklog says how far behind deliveries are.
func (y *SystemStore) EventBacklog(ctx context.Context) (registry.EventBacklog, error) {
	var out registry.EventBacklog
	err := y.db.read(ctx, ofSystem, "count deliveries", func(ctx context.Context, q bun.IDB) error {
		if err := y.db.engine.goByIndex(ctx, q); err != nil {
			return err
		}
		for into, from := range map[*int]string{
			&out.Unrelayed: "outbox WHERE " + unrelayed, &out.Pending: "event_deliveries WHERE state = 'pending'", &out.Dead: "event_deliveries WHERE state = 'dead'",
		} {
			if err := q.NewRaw("SELECT count(*) FROM (SELECT 1 FROM "+from+" ORDER BY id LIMIT ?) AS bounded", backlogBound).Scan(ctx, into); err != nil {
				return err
			}
		}
		for _, query := range []string{
			"SELECT occurred_at FROM outbox WHERE " + unrelayed + " ORDER BY id LIMIT 1",
			"SELECT occurred_at FROM outbox WHERE event_id = (SELECT event_id FROM event_deliveries WHERE state = 'pending' ORDER BY id LIMIT 1)",
		} {
			var times []time.Time
			if err := q.NewRaw(query).Scan(ctx, &times); err != nil {
				return err
			}
			if len(times) > 0 && (out.Oldest.IsZero() || times[0].Before(out.Oldest)) {
				out.Oldest = times[0].UTC()
			}
		}
		return nil
	})
	return out, err
}

// PruneEvents removes events, deliveries and received events that are older than
// they are kept, at most limit of each, and says how many rows those were. What is
// pending stays, and its event with it; so does what was not relayed. A dead
// letter stays four times as long: somebody may still want to send it.
func (y *SystemStore) PruneEvents(ctx context.Context, keep time.Duration, limit int) (int, error) {
	var removed int64
	err := y.db.write(ctx, ofSystem, "prune events", func(ctx context.Context, tx bun.Tx) error {
		removed = 0
		now, err := y.db.engine.now(ctx, tx)
		if err != nil {
			return err
		}
		if err := y.db.engine.goByIndex(ctx, tx); err != nil {
			return err
		}
		before := micro(now.Add(-keep))
		among := y.db.engine.among
		for _, statement := range []string{
			"DELETE FROM event_deliveries WHERE id " + among("SELECT id FROM event_deliveries WHERE state = 'delivered' AND created_at < ?0 ORDER BY created_at LIMIT ?2"),
			"DELETE FROM event_deliveries WHERE id " + among("SELECT id FROM event_deliveries WHERE state = 'dead' AND created_at < ?1 ORDER BY created_at LIMIT ?2"),
			// What is owed is looked up for each event, and not joined.
			"DELETE FROM outbox WHERE id " + among("SELECT e.id FROM outbox AS e WHERE e.relayed AND e.occurred_at < ?0 "+
				"AND (SELECT 1 FROM event_deliveries AS d WHERE d.tenant_id = e.tenant_id AND d.event_id = e.event_id AND d.state <> 'delivered' LIMIT 1) IS NULL "+
				"ORDER BY e.occurred_at LIMIT ?2"),
			"DELETE FROM inbound_events WHERE (tenant_id, subscription_id, event_id) IN (SELECT tenant_id, subscription_id, event_id FROM inbound_events WHERE state <> 'queued' AND received_at < ?0 ORDER BY received_at LIMIT ?2)",
		} {
			result, err := tx.NewRaw(statement, before, micro(now.Add(-4*keep)), limit).Exec(ctx)
			if err != nil {
				return err
			}
			n, err := result.RowsAffected()
			if err != nil {
				return err
			}
			removed += n
		}
		return nil
	})
	return int(removed), err
}
