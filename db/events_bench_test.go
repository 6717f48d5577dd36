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
				w := newWorld(b, d, "acme")
				w.subscribe(subscription("hook"))
				if history > 0 {
					past(b, d, history)
				}
				// Nobody makes statistics: neither does the planner need them.
				ctx, n := b.Context(), 0
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
					if round(b, d) == 0 {
						b.Fatal("nothing was delivered")
					}
				}
			})
		}
	}
}

// Retention removes a history a thousand rows at a time while events are relayed:
// a round of each is an iteration.
func BenchmarkRetentionBesideTheRelay(b *testing.B) {
	for engine, open := range map[string]func(testing.TB) *db.DB{"SQLite": sqliteDB, "Postgres": postgresDB} {
		b.Run(engine, func(b *testing.B) {
			d := open(b)
			past(b, d, 1_000_000)
			w := newWorld(b, d, "acme")
			w.subscribe(subscription("hook"))
			var relaying time.Duration
			for b.Loop() {
				if _, err := w.TestSubscription(b.Context(), "hook", named("test")); err != nil {
					b.Fatal(err)
				}
				began := time.Now()
				if round(b, d) == 0 {
					b.Fatal("nothing was delivered")
				}
				relaying += time.Since(began)
				if n, err := d.System().PruneEvents(b.Context(), 1000*24*time.Hour, 1000); err != nil || n == 0 {
					b.Fatal(n, err)
				}
			}
			b.ReportMetric(float64(relaying.Microseconds())/float64(b.N), "relay-us/op")
		})
	}
}
