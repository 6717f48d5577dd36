// Package export decides where spans and metrics go: to an OTLP endpoint as
// OpenTelemetry's own environment variables say, and metrics to whoever scrapes
// a port of its own as well.
package export

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	nometrics "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	nospans "go.opentelemetry.io/otel/trace/noop"
)

// Options of one process.
type Options struct {
	Role    string // service.name is countersign-ROLE, unless OTEL_SERVICE_NAME says another
	Version string
	Getenv  func(string) string // of the program
	Scraped bool                // whether Pipelines.Scrape is wanted
}

// Pipelines are what a process tells through.
type Pipelines struct {
	Spans    trace.TracerProvider
	Metrics  metric.MeterProvider
	Traces   bool         // whether anybody receives spans
	Measures bool         // whether anybody reads metrics
	Scrape   http.Handler // in Prometheus' text format; nil: not wanted

	stop []func(context.Context) error
}

// asked says whether OpenTelemetry's environment wants a signal exported.
func (o Options) asked(signal string) bool {
	if o.Getenv("OTEL_SDK_DISABLED") == "true" {
		return false
	}
	switch o.Getenv("OTEL_" + signal + "_EXPORTER") {
	case "none":
		return false
	case "":
		return o.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || o.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
	}
	return true
}

// New makes the pipelines. Without an endpoint in the environment no span is
// made; samplers, batches and headers are the environment's too.
func New(ctx context.Context, o Options) (*Pipelines, error) {
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", "countersign-"+o.Role), attribute.String("service.version", o.Version),
		attribute.String("process.runtime.version", runtime.Version()),
	), resource.WithHost(), resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	p := &Pipelines{Spans: nospans.NewTracerProvider(), Metrics: nometrics.NewMeterProvider()}
	if err := p.spans(ctx, o, about); err != nil {
		return nil, err
	}
	if err := p.metrics(ctx, o, about); err != nil {
		return nil, errors.Join(err, p.Shutdown(ctx))
	}
	return p, nil
}

func (p *Pipelines) spans(ctx context.Context, o Options, about *resource.Resource) error {
	if !o.asked("TRACES") {
		return nil
	}
	exporter, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return fmt.Errorf("the exporter of spans: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(about), sdktrace.WithBatcher(exporter))
	p.Traces, p.Spans, p.stop = true, provider, append(p.stop, provider.Shutdown)
	return nil
}

func (p *Pipelines) metrics(ctx context.Context, o Options, about *resource.Resource) error {
	options := []sdkmetric.Option{sdkmetric.WithResource(about), sdkmetric.WithCardinalityLimit(maxSeries)}
	for _, name := range unwanted {
		options = append(options, sdkmetric.WithView(sdkmetric.NewView(sdkmetric.Instrument{Name: name}, sdkmetric.Stream{Aggregation: sdkmetric.AggregationDrop{}})))
	}
	read := false
	if o.Scraped {
		scraped := prometheus.NewRegistry()
		scraped.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		reader, err := otelprometheus.New(otelprometheus.WithRegisterer(scraped), otelprometheus.WithoutScopeInfo())
		if err != nil {
			return fmt.Errorf("the exporter of metrics: %w", err)
		}
		options = append(options, sdkmetric.WithReader(reader))
		p.Scrape, read = promhttp.HandlerFor(scraped, promhttp.HandlerOpts{MaxRequestsInFlight: 4}), true
	}
	if o.asked("METRICS") {
		reader, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return fmt.Errorf("the exporter of metrics: %w", err)
		}
		options, read = append(options, sdkmetric.WithReader(reader)), true
	}
	if read {
		provider := sdkmetric.NewMeterProvider(options...)
		p.Measures, p.Metrics, p.stop = true, provider, append(p.stop, provider.Shutdown)
	}
	return nil
}

// unwanted are histograms that libraries make for each RPC and that say nothing here.
var unwanted = []string{"rpc.server.request.size", "rpc.server.response.size", "rpc.server.requests_per_rpc", "rpc.server.responses_per_rpc"}

// maxSeries bounds the series of one instrument; what is beyond counts together
// under otel.metric.overflow.
const maxSeries = 4000

// Shutdown sends what is left.
func (p *Pipelines) Shutdown(ctx context.Context) error {
	var all []error
	for _, stop := range p.stop {
		all = append(all, stop(ctx))
	}
	return errors.Join(all...)
}
