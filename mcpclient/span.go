package mcpclient

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"countersign/registry"
	"countersign/telemetry"
)

// span is that of one MCP request, as OpenTelemetry's conventions for MCP name it.
func span(ctx context.Context, method string) (context.Context, func(error)) {
	return telemetry.Start(ctx, "mcpclient", method, trace.SpanKindClient, attribute.String("mcp.method.name", method))
}

// called is span for a call that says its own faults.
func called(ctx context.Context, method string) (context.Context, func(*registry.Error)) {
	ctx, end := span(ctx, method)
	return ctx, func(fault *registry.Error) {
		if fault != nil {
			end(fault)
			return
		}
		end(nil)
	}
}
