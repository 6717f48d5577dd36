package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"countersign/registry"
)

// Keys of attributes that are ours; the others are OpenTelemetry's own.
const (
	KeyTenant = attribute.Key("countersign.tenant")
	KeyServer = attribute.Key("countersign.server_id")
	KeyReason = attribute.Key("countersign.reason") // of an error
)

// Start begins a span below the one of the context. There is none, and it costs
// nothing, where nobody records: a room needs to know no provider. The span is
// ended by calling end with what became of the work.
func Start(ctx context.Context, room, name string, kind trace.SpanKind, about ...attribute.KeyValue) (_ context.Context, end func(error)) {
	above := trace.SpanFromContext(ctx)
	if !above.IsRecording() {
		return ctx, func(error) {}
	}
	ctx, span := above.TracerProvider().Tracer("countersign/"+room).Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(about...))
	return ctx, func(err error) {
		if err != nil {
			reason := string(registry.ReasonOf(err))
			span.SetAttributes(KeyReason.String(reason))
			span.SetStatus(codes.Error, reason) // not its text, which may quote a stranger
		}
		span.End()
	}
}

// Recording says whether anybody records what the context is for: hot paths ask
// before they make attributes.
func Recording(ctx context.Context) bool { return trace.SpanFromContext(ctx).IsRecording() }

// About tells the span of the context more about what it is for.
func About(ctx context.Context, about ...attribute.KeyValue) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(about...)
	}
}

// TraceParent names the span of the context as W3C Trace Context writes it, ""
// where nobody records: what goes on later is found by it (R160).
func TraceParent(ctx context.Context) string {
	if !Recording(ctx) {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier.Get("traceparent")
}
