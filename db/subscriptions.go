package db

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/uptrace/bun"

	"countersign/registry"
)

// Subscriptions are rows that no workflow owns.

func subscriptionObject(id string) AuditEntry {
	return AuditEntry{ObjectKind: "subscription", ObjectID: id, ObjectName: id}
}

func subscriptionChanged(u *registry.Subscription, before int64, note string, deleted bool) (*AuditEntry, *registry.Event) {
	e := subscriptionObject(u.SubscriptionID)
	e.Note, e.VersionBefore, e.VersionAfter = note, before, u.Version
	return &e, &registry.Event{Type: registry.EventSubscriptionChanged, Payload: registry.SubscriptionChanged{
		TenantID: u.TenantID, SubscriptionID: u.SubscriptionID, Deleted: deleted,
	}}
}

// CreateSubscription keeps a subscription, which must have been checked. A repeat
// is told what is there. The error is subscription_already_exists when that is
// another one of the id, and quota_exceeded when the tenant has
// as many as it may.
func (s *Store) CreateSubscription(ctx context.Context, u registry.Subscription, op registry.Operation) (registry.Subscription, error) {
	err := s.govern(ctx, op, "subscriptions", subscriptionObject(u.SubscriptionID), func(ctx context.Context, t *tx) (*AuditEntry, *registry.Event, error) {
		there, err := t.subscription(ctx, u.SubscriptionID)
		if err == nil {
			if !there.Same(u) {
				return nil, nil, registry.Errorf(registry.ReasonSubscriptionExists, "there is a subscription %s, which is another one", u.SubscriptionID).
					WithNext("choose another id, or change the one that is there")
			}
			u = there.Subscription
			return nil, nil, nil
		}
		if registry.ReasonOf(err) != registry.ReasonSubscriptionNotFound {
			return nil, nil, err
		}
		n, err := t.NewSelect().Model((*subscriptionRow)(nil)).Where("u.tenant_id = ?", t.tenant).Count(ctx)
		if err != nil {
			return nil, nil, err
		}
		if n >= registry.MaxSubscriptions {
			return nil, nil, registry.Errorf(registry.ReasonQuotaExceeded, "the tenant has %d subscriptions, and may have %d", n, registry.MaxSubscriptions).
				WithNext("delete one that nobody needs")
		}
		u.TenantID, u.Version, u.CreatedAt, u.UpdatedAt, u.CreatedBy = t.tenant, 1, t.now, t.now, op.Actor.Subject
		if _, err := t.NewInsert().Model(&subscriptionRow{Subscription: u}).Exec(ctx); err != nil {
			return nil, nil, err
		}
		entry, event := subscriptionChanged(&u, 0, "created", false)
		return entry, event, nil
	})
	return u, err
}

func (t *tx) subscription(ctx context.Context, id string) (*subscriptionRow, error) {
	var row subscriptionRow
	q := t.NewSelect().Model(&row).Where("u.tenant_id = ? AND u.subscription_id = ?", t.tenant, asText(id))
	if t.engine.forUpdate != "" {
		q = q.For(t.engine.forUpdate)
	}
	if err := q.Scan(ctx); errors.Is(err, sql.ErrNoRows) {
		return nil, registry.SubscriptionNotFound()
	} else if err != nil {
		return nil, err
	}
	return &row, nil
}

// ChangeSubscription changes a subscription. change says whether it did; when it
// did not, nothing is written.
func (s *Store) ChangeSubscription(ctx context.Context, id string, op registry.Operation, change func(u *registry.Subscription) (bool, error)) (registry.Subscription, error) {
	var out registry.Subscription
	err := s.govern(ctx, op, "subscriptions", subscriptionObject(id), func(ctx context.Context, t *tx) (*AuditEntry, *registry.Event, error) {
		row, err := t.subscription(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		was := row.Subscription
		changed, err := change(&row.Subscription)
		if err != nil {
			return nil, nil, err
		}
		if out = row.Subscription; !changed {
			return nil, nil, nil
		}
		row.Version, row.UpdatedAt = was.Version+1, t.now
		if _, err := t.NewUpdate().Model(row).WherePK().Exec(ctx); err != nil {
			return nil, nil, err
		}
		note := "changed"
		if was.Enabled != row.Enabled {
			// What waits goes on at once, or waits until it may.
			due := never
			note = "disabled"
			if row.Enabled {
				due, note = t.now, "enabled"
			}
			_, err := t.NewUpdate().TableExpr("event_lanes").Set("due_at = ?", due).Where("tenant_id = ? AND sink = ?", t.tenant, id).Exec(ctx)
			if err != nil {
				return nil, nil, err
			}
		}
		out = row.Subscription
		entry, event := subscriptionChanged(&out, was.Version, note, false)
		return entry, event, nil
	})
	return out, err
}

// DeleteSubscription takes a subscription away, with its deliveries.
func (s *Store) DeleteSubscription(ctx context.Context, id, etag string, op registry.Operation) error {
	return s.govern(ctx, op, "subscriptions", subscriptionObject(id), func(ctx context.Context, t *tx) (*AuditEntry, *registry.Event, error) {
		row, err := t.subscription(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		if err := registry.CheckEtag(etag, row.Version); err != nil {
			return nil, nil, err
		}
		for _, table := range []struct{ name, column string }{
			{"event_lanes", "sink"}, {"event_deliveries", "sink"}, {"inbound_events", "subscription_id"}, {"event_subscriptions", "subscription_id"},
		} {
			_, err := t.NewDelete().TableExpr(table.name).Where("tenant_id = ? AND ? = ?", t.tenant, bun.Ident(table.column), row.SubscriptionID).Exec(ctx)
			if err != nil {
				return nil, nil, err
			}
		}
		entry, event := subscriptionChanged(&row.Subscription, row.Version, "deleted", true)
		return entry, event, nil
	})
}

// Subscription gives one by its id; the error is subscription_not_found.
func (s *Store) Subscription(ctx context.Context, id string) (registry.Subscription, error) {
	var row subscriptionRow
	err := s.read(ctx, "read a subscription", func(ctx context.Context, q bun.IDB) error {
		err := q.NewSelect().Model(&row).Where("u.tenant_id = ? AND u.subscription_id = ?", s.tenant, asText(id)).Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return registry.SubscriptionNotFound()
		}
		return err
	})
	return row.Subscription, err
}

// SubscriptionView gives one as [Store.Subscription] does, and how its deliveries
// stand.
func (s *Store) SubscriptionView(ctx context.Context, id string) (SubscriptionView, error) {
	u, err := s.Subscription(ctx, id)
	if err != nil {
		return SubscriptionView{}, err
	}
	out := SubscriptionView{Subscription: u}
	err = s.read(ctx, "count deliveries", func(ctx context.Context, q bun.IDB) error {
		stand, err := deliveriesOf(ctx, q, s.tenant, u.SubscriptionID)
		out.Pending, out.Dead = stand[u.SubscriptionID].Pending, stand[u.SubscriptionID].Dead
		return err
	})
	return out, err
}

// deliveriesOf counts what is not delivered, by sink: of all sinks, or of one.
func deliveriesOf(ctx context.Context, q bun.IDB, tenant, sink string) (map[string]SinkView, error) {
	var counts []struct {
		Sink  string                 `bun:"sink"`
		State registry.DeliveryState `bun:"state"`
		N     int                    `bun:"n"`
	}
	query := q.NewSelect().ColumnExpr("d.sink, d.state, count(*) AS n").TableExpr("event_deliveries AS d").
		Where("d.tenant_id = ? AND d.state <> 'delivered'", tenant).GroupExpr("1, 2")
	if sink != "" {
		query.Where("d.sink = ?", sink)
	}
	if err := query.Scan(ctx, &counts); err != nil {
		return nil, err
	}
	out := map[string]SinkView{}
	for _, c := range counts {
		of := out[c.Sink]
		of.Sink = c.Sink
		if c.State == registry.DeliveryDead {
			of.Dead = c.N
		} else {
			of.Pending = c.N
		}
		out[c.Sink] = of
	}
	return out, nil
}

// SinkView is how the deliveries of a tenant's events to a sink of the
// installation stand.
type SinkView struct {
	Sink          string
	Pending, Dead int
}

// Subscriptions lists all subscriptions of the tenant, which are few, with how
// many deliveries of each are pending and dead; and the sinks of the installation
// that have such deliveries of the tenant's events, by name.
func (s *Store) Subscriptions(ctx context.Context) ([]SubscriptionView, []SinkView, error) {
	var (
		out   []SubscriptionView
		sinks []SinkView
	)
	err := s.read(ctx, "list subscriptions", func(ctx context.Context, q bun.IDB) error {
		var rows []subscriptionRow
		if err := q.NewSelect().Model(&rows).Where("u.tenant_id = ?", s.tenant).OrderExpr("u.subscription_id").Scan(ctx); err != nil {
			return err
		}
		stand, err := deliveriesOf(ctx, q, s.tenant, "")
		if err != nil {
			return err
		}
		sinks = nil
		for _, sink := range slices.Sorted(maps.Keys(stand)) {
			if registry.InstallationSink(sink) {
				sinks = append(sinks, stand[sink])
			}
		}
		out = make([]SubscriptionView, len(rows))
		for i, row := range rows {
			of := stand[row.SubscriptionID]
			out[i] = SubscriptionView{Subscription: row.Subscription, Pending: of.Pending, Dead: of.Dead}
		}
		return nil
	})
	return out, sinks, err
}

// SubscriptionView is a subscription and how its deliveries stand.
type SubscriptionView struct {
	registry.Subscription
	Pending, Dead int
}

// DeliveryQuery asks for deliveries of one subscription, or of the tenant's events
// to a sink of the installation.
type DeliveryQuery struct {
	Page
	SubscriptionID string                 // or the sink's name
	State          registry.DeliveryState // empty: all
}

// Deliveries lists deliveries, the latest first, with the key of the next page.
// The error is subscription_not_found.
func (s *Store) Deliveries(ctx context.Context, query DeliveryQuery) (out []registry.Delivery, next string, err error) {
	if !registry.KnownSink(query.SubscriptionID) {
		if _, err := s.Subscription(ctx, query.SubscriptionID); err != nil {
			return nil, "", err
		}
	}
	err = s.read(ctx, "list deliveries", func(ctx context.Context, q bun.IDB) error {
		var rows []deliveryRow
		chosen := q.NewSelect().Model(&rows).Where("d.tenant_id = ? AND d.sink = ?", s.tenant, query.SubscriptionID)
		if query.State != "" {
			chosen = chosen.Where("d.state = ?", query.State)
		}
		if chosen, err = query.before(chosen, "d.id"); err != nil {
			return err
		}
		if err := chosen.Scan(ctx); err != nil {
			return err
		}
		rows, next = cut(query.Page, rows, func(r *deliveryRow) cursor { return cursor{idKey(r.ID)} })
		out = nil
		for _, row := range rows {
			out = append(out, row.Delivery)
		}
		return nil
	})
	return out, next, err
}

// Replay says what is to be delivered again.
type Replay struct {
	EventIDs []string  // these; else
	Dead     bool      // what was given up; else
	Since    time.Time // what happened from then on, as far as it is kept
}

// replayed is the most that one replay sends again.
const replayed = 1000

// ReplayEvents delivers events again, of one subscription or of a sink of the
// installation: at most 1,000, the oldest first; more says that there are others.
// Their ids stay what they were. A sink of the installation gets again only what it
// was offered before.
func (s *Store) ReplayEvents(ctx context.Context, id string, r Replay, op registry.Operation) (n int, more bool, err error) {
	err = s.write(ctx, op.Name, func(ctx context.Context, t *tx) error {
		n, more = 0, false
		row := &subscriptionRow{Subscription: registry.Subscription{SubscriptionID: id, Direction: registry.SubscriptionSend}}
		sink := registry.KnownSink(id)
		if !sink {
			found, err := t.subscription(ctx, id)
			if err != nil {
				return err
			}
			row = found
		}
		if row.Direction != registry.SubscriptionSend {
			return notSent()
		}
		if err := t.setNow(ctx); err != nil {
			return err
		}
		var events []outboxRow
		chosen := t.NewSelect().Model(&events).Where("e.tenant_id = ?", t.tenant).OrderExpr("e.id").Limit(replayed + 1)
		switch {
		case len(r.EventIDs) > 0:
			chosen = chosen.Where("e.event_id IN (?)", bun.List(r.EventIDs))
		case r.Dead:
			chosen = chosen.Where("e.event_id IN (SELECT d.event_id FROM event_deliveries AS d WHERE d.tenant_id = ? AND d.sink = ? AND d.state = 'dead')", t.tenant, row.SubscriptionID)
		default:
			chosen = chosen.Where("e.occurred_at >= ? AND e.relayed", micro(r.Since))
		}
		if sink && !r.Dead {
			chosen = chosen.Where("EXISTS (SELECT 1 FROM event_deliveries AS d WHERE d.tenant_id = e.tenant_id AND d.sink = ? AND d.event_id = e.event_id)", id)
		}
		if len(row.Types) > 0 {
			chosen = chosen.Where("e.event_type IN (?)", bun.List(row.Types))
		}
		if len(row.Subjects) > 0 {
			chosen = chosen.Where("e.aggregate IN (?)", bun.List(row.Subjects))
		}
		if err := chosen.Scan(ctx); err != nil {
			return err
		}
		if more = len(events) > replayed; more {
			events = events[:replayed]
		}
		var rows []deliveryRow
		for _, e := range events {
			rows = append(rows, deliveryOf(e.OutboxEvent, row.SubscriptionID, t.now))
		}
		n = len(rows)
		if err := enqueue(ctx, t.Tx, rows, t.now); err != nil {
			return err
		}
		entry := by(op, subscriptionObject(row.SubscriptionID))
		entry.Outcome, entry.Note = AuditApplied, "replayed "+strconv.Itoa(n)+" events"
		return t.audit(ctx, entry)
	})
	return n, more, s.subscriptionRefused(ctx, id, op, err)
}

// TestSubscription makes an event for one subscription alone, and gives its id.
func (s *Store) TestSubscription(ctx context.Context, id string, op registry.Operation) (string, error) {
	var event string
	err := s.write(ctx, op.Name, func(ctx context.Context, t *tx) error {
		u, err := t.subscription(ctx, id)
		if err != nil {
			return err
		}
		if u.Direction != registry.SubscriptionSend {
			return notSent()
		}
		if err := t.setNow(ctx); err != nil {
			return err
		}
		aggregate := "test/" + uuid.NewString() // in nobody's way
		row, err := t.event(ctx, aggregate, 1, op, registry.Event{Type: registry.EventTest, Payload: registry.SubscriptionChanged{TenantID: t.tenant, SubscriptionID: u.SubscriptionID}})
		if err != nil {
			return err
		}
		event, row.Relayed = row.EventID, true
		if _, err := t.NewInsert().Model(&row).ExcludeColumn("id", "tx").Exec(ctx); err != nil {
			return err
		}
		if err := enqueue(ctx, t.Tx, []deliveryRow{deliveryOf(row.OutboxEvent, u.SubscriptionID, t.now)}, t.now); err != nil {
			return err
		}
		entry := by(op, subscriptionObject(u.SubscriptionID))
		entry.Outcome, entry.Note = AuditApplied, "sent a test"
		return t.audit(ctx, entry)
	})
	return event, s.subscriptionRefused(ctx, id, op, err)
}

// subscriptionRefused records an error that refuses, and gives it back.
func (s *Store) subscriptionRefused(ctx context.Context, id string, op registry.Operation, err error) error {
	if e, ok := registry.AsError(err); ok && decided(e) {
		if err := s.refusedGoverned(ctx, op, subscriptionObject(id), e); err != nil {
			return err
		}
	}
	return err
}

func notSent() error {
	return registry.Errorf(registry.ReasonInvalidArgument, "the subscription receives; there is nothing to send")
}
