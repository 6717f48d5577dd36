package telemetry

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Other stands for all values of a label beyond the first so many (R201).
const Other = "other"

// Bounds of the values of labels.
const (
	MaxServers = 2000
	MaxTenants = 500
)

// Instruments are what rooms count with. None of the methods does anything for a
// nil one.
type Instruments struct {
	handshakes  metric.Int64Counter
	took        metric.Float64Histogram
	resolutions metric.Int64Counter
	deliveries  metric.Int64Counter
	servers     Labels
}

// NewInstruments makes them.
func NewInstruments(provider metric.MeterProvider) (*Instruments, error) {
	meter := provider.Meter("countersign")
	i := &Instruments{servers: Labels{Most: MaxServers}}
	var all [4]error
	i.handshakes, all[0] = meter.Int64Counter("connectsoft.factory.tools.mcp_handshakes", metric.WithUnit("{handshake}"),
		metric.WithDescription("Handshakes with servers, by server and outcome: ok, or the reason."))
	i.took, all[1] = meter.Float64Histogram("countersign.handshake.duration", metric.WithUnit("s"),
		metric.WithDescription("How long a handshake and the lists after it took, by purpose and outcome."),
		metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30))
	i.resolutions, all[2] = meter.Int64Counter("countersign.resolutions", metric.WithUnit("{tool}"),
		metric.WithDescription("Tools that executors asked for, by the reason of the denial: none when it was callable."))
	i.deliveries, all[3] = meter.Int64Counter("countersign.deliveries", metric.WithUnit("{delivery}"),
		metric.WithDescription("Attempts to deliver events, by sink (webhook, or the one of the installation) and outcome: delivered, failed, dead."))
	return i, errors.Join(all[:]...)
}

// Handshake counts one with a server, for a purpose: discovery, probe or test.
// The outcome is ok or a reason.
func (i *Instruments) Handshake(ctx context.Context, server, purpose, outcome string, took time.Duration) {
	if i == nil {
		return
	}
	i.handshakes.Add(ctx, 1, metric.WithAttributes(attribute.String("server", i.servers.Of(server)), attribute.String("outcome", outcome)))
	i.took.Record(ctx, took.Seconds(), metric.WithAttributes(attribute.String("purpose", purpose), attribute.String("outcome", outcome)))
}

// Resolution counts the answer about one tool; the reason is empty when it was
// callable.
func (i *Instruments) Resolution(ctx context.Context, reason string) {
	if i == nil {
		return
	}
	if reason == "" {
		reason = "none"
	}
	i.resolutions.Add(ctx, 1, metric.WithAttributes(attribute.String("reason", reason)))
}

// Delivery counts one attempt.
func (i *Instruments) Delivery(ctx context.Context, sink, outcome string) {
	if i == nil {
		return
	}
	i.deliveries.Add(ctx, 1, metric.WithAttributes(attribute.String("sink", sink), attribute.String("outcome", outcome)))
}

// Labels bounds the values of one label.
type Labels struct {
	Most int

	mu   sync.Mutex
	seen map[string]bool
}

// Of gives the value, or [Other] when there were so many others before it.
func (l *Labels) Of(value string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.seen[value]:
		return value
	case len(l.seen) >= l.Most:
		return Other
	case l.seen == nil:
		l.seen = map[string]bool{}
	}
	l.seen[value] = true
	return value
}
