package api

import (
	"context"

	"connectrpc.com/otelconnect"
	"go.opentelemetry.io/otel/metric"
	nometrics "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	nospans "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/protobuf/proto"

	"countersign/registry"
	"countersign/telemetry"
)

// observe makes the interceptor that gives every RPC, of whatever face, a span
// and counts it. A trace that a caller began is linked to and not gone on with:
// whether we record is not for callers to say.
func observe(spans trace.TracerProvider, metrics metric.MeterProvider) (*otelconnect.Interceptor, error) {
	if spans == nil {
		spans = nospans.NewTracerProvider()
	}
	if metrics == nil {
		metrics = nometrics.NewMeterProvider()
	}
	return otelconnect.NewInterceptor(
		otelconnect.WithTracerProvider(spans), otelconnect.WithMeterProvider(metrics), otelconnect.WithPropagator(propagation.TraceContext{}),
		// Addresses of callers are of no bounded number, and messages of a stream of no interest.
		otelconnect.WithoutServerPeerAttributes(), otelconnect.WithoutTraceEvents(),
	)
}

// tell says on the span of a call whose it is and what it is about.
func tell(ctx context.Context, p registry.Principal, m proto.Message) {
	if !telemetry.Recording(ctx) {
		return
	}
	telemetry.About(ctx, telemetry.KeyTenant.String(p.Tenant))
	if about, ok := m.(interface{ GetServerId() string }); ok {
		telemetry.About(ctx, telemetry.KeyServer.String(about.GetServerId()))
	}
}
