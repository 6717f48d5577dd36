package telemetry

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// WithTrace gives every line that is logged within a span the ids of its trace
// and of the span, as OpenTelemetry writes them in JSON.
func WithTrace(inner slog.Handler) slog.Handler { return traced{inner} }

type traced struct{ slog.Handler }

// Handle implements [slog.Handler].
func (h traced) Handle(ctx context.Context, r slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h traced) WithAttrs(attrs []slog.Attr) slog.Handler { return traced{h.Handler.WithAttrs(attrs)} }

// WithGroup implements [slog.Handler].
func (h traced) WithGroup(name string) slog.Handler { return traced{h.Handler.WithGroup(name)} }
