package db_test

import (
	"fmt"
	"testing"
	"time"

	"countersign/db"
	"countersign/registry"
)

// The cost of relaying and delivering one event, with histories of different
// lengths: it does not grow with them.
func BenchmarkRelayBehindAHistory(b *testing.B) {
	for _, engine := range []string{"SQLite", "Postgres"} {
		for _, history := range []int{0, 1_000_000} {
			b.Run(fmt.Sprintf("%s/%d", engine, history), func(b *testing.B) {
				d := map[string]func(testing.TB) *db.DB{"SQLite": sqliteDB, "Postgres": postgresDB}[engine](b)
				series := fmt.Sprintf("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)", history)
				w := newWorld(b, d, "acme")
				w.subscribe(subscription("hook"))
				if history > 0 {
					exec(b, d, "INSERT INTO outbox (event_id, event_type, tenant_id, aggregate, seq, data, occurred_at, correlation_id, causation_id, relayed) "+
						series+" SELECT 'e' || i, 'x', 'acme', 'a' || (i % 1000), i, '{}', CURRENT_TIMESTAMP, '', '', TRUE FROM n",
						"INSERT INTO event_deliveries (tenant_id, sink, event_id, event_type, aggregate, seq, state, attempts, status, problem, created_at) "+
							series+" SELECT 'acme', 'hook', 'e' || i, 'x', 'a' || (i % 1000), i, 'delivered', 1, 200, '', CURRENT_TIMESTAMP FROM n")
				}
				exec(b, d, "ANALYZE") // as Postgres does itself, later
				y, ctx, n := d.System(), b.Context(), 0
				b.ResetTimer()
				for b.Loop() {
					b.StopTimer()
					if _, err := w.TestSubscription(ctx, "hook", named("test")); err != nil {
						b.Fatal(err)
					}
					if n++; n%2 == 0 { // one that has to be offered first
						_, err := w.ChangeSubscription(ctx, "hook", named("edit"), func(u *registry.Subscription) (bool, error) { return true, nil })
						if err != nil {
							b.Fatal(err)
						}
					}
					b.StartTimer()
					if _, err := y.RelayEvents(ctx, nil, 500); err != nil {
						b.Fatal(err)
					}
					lanes, err := y.ClaimLanes(ctx, nil, 8, time.Minute)
					if err != nil || len(lanes) == 0 {
						b.Fatal(lanes, err)
					}
					for _, lane := range lanes {
						parcels, _, err := y.Parcels(ctx, lane, 20)
						if err != nil {
							b.Fatal(err)
						}
						var attempts []registry.Attempt
						for _, p := range parcels {
							attempts = append(attempts, registry.Attempt{DeliveryID: p.Delivery.ID, State: registry.DeliveryDelivered, At: time.Now()})
						}
						if _, err := y.SettleLane(ctx, lane, attempts, 0); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}
