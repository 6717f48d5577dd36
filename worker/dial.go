package worker

import (
	"context"
	"log/slog"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/log"

	"countersign/registry"
	"countersign/workflows"
)

// Address says where Temporal is. An empty HostPort takes everything from the
// environment and the configuration file that the temporal command line tool
// reads too (TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, TLS…).
type Address struct {
	HostPort  string
	Namespace string
	// Codec encrypts workflow data; nil: it is not encrypted.
	Codec *workflows.Codec
	// Spans receives a span for each call to Temporal, and by the header that goes
	// with it one for each workflow and activity; nil: none.
	Spans trace.TracerProvider
}

// begun starts a span. That of a workflow ends at once and says when it began: a
// server's workflow runs for as long as the server lives, and what is below a span
// that was never sent hangs in the air.
func begun(ctx context.Context, t trace.Tracer, name string, options ...trace.SpanStartOption) trace.Span {
	_, span := t.Start(ctx, name, options...)
	if strings.HasPrefix(name, "RunWorkflow:") {
		span.End()
	}
	return span
}

// Dial prepares to reach Temporal; a Temporal that is away just now is no error,
// since reads and resolve do without it. Every client of this installation is made here, so
// that all of them carry data and errors the same way.
func Dial(at Address, logger *slog.Logger) (client.Client, string, error) {
	options := client.Options{HostPort: at.HostPort, Namespace: at.Namespace}
	if at.HostPort == "" {
		var err error
		if options, err = envconfig.LoadDefaultClientOptions(); err != nil {
			return nil, "", registry.Errorf(registry.ReasonInvalidArgument, "the Temporal connection settings: %w", err)
		}
		if at.Namespace != "" {
			options.Namespace = at.Namespace
		}
	}
	if options.Namespace == "" {
		options.Namespace = client.DefaultNamespace
	}
	options.DataConverter, options.FailureConverter = at.Codec.DataConverter(), at.Codec.FailureConverter()
	if at.Spans != nil {
		tracing, err := opentelemetry.NewTracingInterceptor(opentelemetry.TracerOptions{
			Tracer: at.Spans.Tracer("countersign/worker"), TextMapPropagator: propagation.TraceContext{},
			DisableBaggage: true, // it would carry what a caller sent
			// A query is how somebody looks; it would be in the trace of whoever began the workflow.
			DisableQueryTracing: true,
			SpanStarter:         begun,
		})
		if err != nil {
			return nil, "", err
		}
		options.Interceptors = append(options.Interceptors, tracing)
	}
	options.Logger = log.NewStructuredLogger(logger)
	c, err := client.NewLazyClient(options)
	if err != nil {
		return nil, "", registry.Errorf(registry.ReasonInvalidArgument, "the Temporal connection settings: %w", err)
	}
	return c, options.Namespace, nil
}
