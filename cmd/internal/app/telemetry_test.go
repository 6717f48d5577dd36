package app

import (
	"testing"

	"countersign/api"
	"countersign/cmd/internal/config"
)

// Calls are observed only for somebody: without an endpoint the api has no
// interceptor that would make spans of nothing.
func TestCallsAreObservedOnlyForSomebody(t *testing.T) {
	for _, c := range []struct {
		name, key, listen string
		spans, metrics    bool
	}{
		{name: "nobody"},
		{name: "spans", key: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", spans: true},
		{name: "metrics", key: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", metrics: true},
		{name: "a scrape", listen: "127.0.0.1:0", metrics: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.key != "" {
				t.Setenv(c.key, "http://127.0.0.1:1")
			}
			told, err := NewTelemetry(t.Context(), config.Telemetry{Listen: c.listen}, "test")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { told.Close(t.Context()) })
			var o api.Options
			told.observe(&o)
			if (o.Spans != nil) != c.spans || (o.Metrics != nil) != c.metrics || (o.Instruments != nil) != c.metrics {
				t.Errorf("spans %t, metrics %t, instruments %t", o.Spans != nil, o.Metrics != nil, o.Instruments != nil)
			}
		})
	}
}
