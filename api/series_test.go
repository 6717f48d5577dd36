package api

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// series gives every series of the metrics, by its name and attributes.
func series(t *testing.T, reader sdkmetric.Reader) map[string]bool {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			h, ok := m.Data.(metricdata.Histogram[int64])
			if !ok {
				f, ok := m.Data.(metricdata.Histogram[float64])
				if !ok {
					t.Fatalf("%s is a %T", m.Name, m.Data)
				}
				for _, p := range f.DataPoints {
					out[m.Name+" "+p.Attributes.Encoded(attribute.DefaultEncoder())] = true
				}
				continue
			}
			for _, p := range h.DataPoints {
				out[m.Name+" "+p.Attributes.Encoded(attribute.DefaultEncoder())] = true
			}
		}
	}
	return out
}

// S10: names that strangers choose, of whatever number and size, make no series and
// are in none.
func TestNamesOfStrangersMakeNoSeries(t *testing.T) {
	t.Parallel()
	reader := sdkmetric.NewManualReader()
	h := open(t, func(o *Options) { o.Metrics = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)) })
	knock := func(name string) {
		t.Helper()
		typed := with("Content-Type", "application/json")
		h.call(t, http.MethodPost, doResolve, tokenOf(alpha, executor), `{"toolId":"`+name+`.x"}`, typed)
		h.raw(t, http.MethodPost, doTool, `{"toolId":"`+name+`"}`, typed)
		if len(name) > 1000 {
			return // no path is so long
		}
		h.raw(t, http.MethodGet, "/factory/mcp-servers/"+url.PathEscape(name), "", with("User-Agent", name, "X-Tenant", name))
		h.raw(t, http.MethodGet, "/"+name, "", nil)
		h.raw(t, http.MethodPost, "/countersign.registry.v1."+name+"/"+name, "{}", typed)
	}
	knock("stranger-first")
	before := series(t, reader)
	if len(before) < 3 {
		t.Fatalf("the calls make %d series", len(before))
	}
	for i := range 50 {
		knock("stranger-" + strconv.Itoa(i))
	}
	knock("stranger" + strings.Repeat("s", 100_000))
	knock("stranger" + strings.Repeat("s", 8<<20))
	for s := range series(t, reader) {
		if strings.Contains(s, "stranger") || len(s) > 500 {
			t.Errorf("a series has a stranger's name: %s", s[:min(len(s), 300)])
		}
		if !before[s] && !strings.Contains(s, "resource_exhausted") && !strings.Contains(s, "invalid_argument") { // for sizes
			t.Errorf("a new series: %s", s[:min(len(s), 300)])
		}
	}
}
