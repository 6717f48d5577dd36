package events

import (
	"context"
	"log/slog"

	"countersign/registry"
)

// SinkLog is the name of the sink that logs.
const SinkLog = registry.SinkLog

// Logged writes each event as one line of the log.
type Logged struct{ Log *slog.Logger }

// Deliver writes a line; it cannot fail.
func (l Logged) Deliver(ctx context.Context, e registry.OutboxEvent, _ []byte) error {
	about := []slog.Attr{
		slog.String("type", string(e.Type)), slog.String("id", e.EventID), slog.String("tenant", e.TenantID),
		slog.String("subject", e.Aggregate), slog.Int64("sequence", e.Seq), slog.String("data", string(e.Data)),
	}
	if e.TraceParent != "" {
		about = append(about, slog.String("traceparent", e.TraceParent))
	}
	l.Log.LogAttrs(ctx, slog.LevelInfo, "event", about...)
	return nil
}
