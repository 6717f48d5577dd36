package telemetry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"countersign/registry"
)

// Watch observes the counts of the tables at each collection. Nothing is asked of
// the database more often than every ten seconds, nor for more than a
// twentieth of the time; in between the last counts are told, with their age.
func Watch(provider metric.MeterProvider, count func(context.Context) (registry.Vitals, error)) error {
	w := &watch{count: count}
	meter := provider.Meter("countersign")
	var all []metric.Observable
	updown := func(name, unit, about string) metric.Int64Observable {
		i, err := meter.Int64ObservableUpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(about))
		w.failed(err)
		all = append(all, i)
		return i
	}
	gauge := func(name, unit, about string) metric.Float64Observable {
		i, err := meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(about))
		w.failed(err)
		all = append(all, i)
		return i
	}
	servers := updown("connectsoft.factory.tools.mcp_servers", "{server}", "Servers, by tenant, direction, state and authentication.")
	unbound := updown("connectsoft.factory.tools.mcp_unbound_tools", "{tool}", "Tools of servers that are not retired and are not bound, by tenant.")
	reviews := updown("countersign.approvals.pending", "{approval}", "Approvals that somebody is asked for.")
	oldestReview := gauge("countersign.approvals.oldest.age", "s", "Since the oldest of them was asked for; 0 when there is none.")
	events := updown("countersign.events.pending", "{event}", "Events that no sink was offered yet, and deliveries that are not made, counted up to 100,000 each.")
	dead := updown("countersign.events.dead", "{delivery}", "Deliveries that were given up, counted up to 100,000.")
	oldestEvent := gauge("countersign.events.oldest.age", "s", "Since the oldest event that is not delivered; 0 when there is none.")
	window := gauge("countersign.probes.last_window.age", "s", "Since the last window in which a probe was recorded; not told before the first.")
	unsealed := updown("countersign.audit.unsealed", "{row}", "Audit rows that are in no chain yet.")
	sealLag := gauge("countersign.audit.seal.lag", "s", "Since the oldest of them was written.")
	age := gauge("countersign.vitals.age", "s", "How old the counts of the tables are; it grows while the database is away.")
	if w.err != nil {
		return w.err
	}
	_, err := meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		v, known := w.look(ctx)
		if !known {
			return nil
		}
		since := func(t time.Time) float64 {
			if t.IsZero() {
				return 0
			}
			return max(v.At.Sub(t), 0).Seconds()
		}
		for labels, n := range byTenant(v.Servers) {
			o.ObserveInt64(servers, n, metric.WithAttributes(attribute.String("tenant", labels[0]), attribute.String("direction", labels[1]),
				attribute.String("state", labels[2]), attribute.String("authentication", labels[3])))
		}
		for tenant, n := range unboundBy(v.Unbound) {
			o.ObserveInt64(unbound, n, metric.WithAttributes(attribute.String("tenant", tenant)))
		}
		o.ObserveInt64(reviews, v.Reviews)
		o.ObserveFloat64(oldestReview, since(v.OldestReview))
		o.ObserveInt64(events, int64(v.Events.Unrelayed)+int64(v.Events.Pending))
		o.ObserveInt64(dead, int64(v.Events.Dead))
		o.ObserveFloat64(oldestEvent, since(v.Events.Oldest))
		if !v.LastWindow.IsZero() {
			o.ObserveFloat64(window, since(v.LastWindow))
		}
		o.ObserveInt64(unsealed, v.Unsealed)
		o.ObserveFloat64(sealLag, v.SealLag.Seconds())
		o.ObserveFloat64(age, time.Since(w.at).Seconds())
		return nil
	}, all...)
	return err
}

// byTenant sums by labels; the smallest tenants beyond so many are one.
func byTenant(counts []registry.ServerCount) map[[4]string]int64 {
	total := map[string]int64{}
	for _, c := range counts {
		total[c.Tenant] += c.Servers
	}
	name := largest(total)
	out := map[[4]string]int64{}
	for _, c := range counts {
		out[[4]string{name(c.Tenant), string(c.Direction), string(c.State), string(c.Authentication)}] += c.Servers
	}
	return out
}

func unboundBy(counts map[string]int64) map[string]int64 {
	name := largest(counts)
	out := map[string]int64{}
	for tenant, n := range counts {
		out[name(tenant)] += n
	}
	return out
}

// largest names the tenants that have the most by themselves, and the rest Other.
func largest(total map[string]int64) func(string) string {
	if len(total) <= MaxTenants {
		return func(tenant string) string { return tenant }
	}
	all := make([]string, 0, len(total))
	for tenant := range total {
		all = append(all, tenant)
	}
	slices.SortFunc(all, func(a, b string) int {
		if total[a] != total[b] {
			return int(min(max(total[b]-total[a], -1), 1))
		}
		return strings.Compare(a, b)
	})
	named := map[string]bool{}
	for _, tenant := range all[:MaxTenants] {
		named[tenant] = true
	}
	return func(tenant string) string {
		if named[tenant] {
			return tenant
		}
		return Other
	}
}

// watch remembers the counts.
type watch struct {
	count func(context.Context) (registry.Vitals, error)
	err   error

	mu   sync.Mutex
	last registry.Vitals
	at   time.Time // when it was counted; zero: never
	next time.Time // when it may be counted again
}

const (
	countAgain = 10 * time.Second // at the soonest
	countFor   = 20 * time.Second // at most
	countShare = 20               // of the time, one in so many
)

func (w *watch) failed(err error) {
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("an instrument: %w", err)
	}
}

func (w *watch) look(ctx context.Context) (registry.Vitals, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if begin := time.Now(); !begin.Before(w.next) {
		ctx, cancel := context.WithTimeout(ctx, countFor)
		defer cancel()
		v, err := w.count(ctx)
		w.next = begin.Add(max(countAgain, countShare*time.Since(begin)))
		if err == nil {
			w.last, w.at = v, time.Now()
		}
	}
	return w.last, !w.at.IsZero()
}
