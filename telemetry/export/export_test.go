package export_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"countersign/registry"
	"countersign/telemetry"
	"countersign/telemetry/export"
)

func nothing(string) string { return "" }

func pipelines(t *testing.T, o export.Options) *export.Pipelines {
	t.Helper()
	if o.Getenv == nil {
		o.Getenv = nothing
	}
	p, err := export.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	return p
}

func scrape(t *testing.T, p *export.Pipelines) string {
	t.Helper()
	w := httptest.NewRecorder()
	p.Scrape.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func count(text, prefix string) (n int) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

// R201: however many servers and tenants there are, so many series are told and no
// more, and nothing is lost of the sums.
func TestTenThousandServersDoNotBlowUpAScrape(t *testing.T) {
	t.Parallel()
	p := pipelines(t, export.Options{Role: "test", Scraped: true})
	i, err := telemetry.NewInstruments(p.Metrics)
	if err != nil {
		t.Fatal(err)
	}
	v := registry.Vitals{Unbound: map[string]int64{}}
	const servers, tenants = 10_000, 3_000
	for n := range servers {
		i.Handshake(t.Context(), fmt.Sprintf("srv_%d", n), "probe", "ok", 1)
	}
	for n := range tenants {
		tenant := fmt.Sprintf("tenant-%d", n)
		v.Servers = append(v.Servers, registry.ServerCount{Tenant: tenant, Direction: "consumed", State: registry.StateActive, Authentication: "workload_identity", Servers: int64(n)})
		v.Unbound[tenant] = int64(n)
	}
	if err := telemetry.Watch(p.Metrics, func(context.Context) (registry.Vitals, error) { return v, nil }); err != nil {
		t.Fatal(err)
	}
	text := scrape(t, p)
	for prefix, want := range map[string]int{
		"connectsoft_factory_tools_mcp_handshakes_total{": telemetry.MaxServers + 1,
		"connectsoft_factory_tools_mcp_servers{":          telemetry.MaxTenants + 1,
		"connectsoft_factory_tools_mcp_unbound_tools{":    telemetry.MaxTenants + 1,
		"countersign_handshake_duration_seconds_bucket{":  13,
		`connectsoft_factory_tools_mcp_servers{authentication="workload_identity",direction="consumed",state="active",tenant="tenant-2999"} 2999`:                    1,
		fmt.Sprintf(`connectsoft_factory_tools_mcp_handshakes_total{outcome="ok",server="other"} %d`, servers-telemetry.MaxServers):                                  1,
		`connectsoft_factory_tools_mcp_unbound_tools{tenant="other"} ` + fmt.Sprintf("%v", float64(tenants-telemetry.MaxTenants)*(tenants-telemetry.MaxTenants-1)/2): 1,
	} {
		if got := count(text, prefix); got != want {
			t.Errorf("%d lines begin with %s, want %d", got, prefix, want)
		}
	}
	if len(text) > 1<<20 {
		t.Errorf("a scrape is %d bytes", len(text))
	}
	t.Logf("a scrape of %d servers in %d tenants is %d bytes", servers, tenants, len(text))
}

// The tables are asked seldom, and while the database is away the last counts are told,
// ever older.
func TestTheTablesAreAskedSeldom(t *testing.T) {
	t.Parallel()
	p := pipelines(t, export.Options{Role: "test", Scraped: true})
	asked := 0
	err := telemetry.Watch(p.Metrics, func(context.Context) (registry.Vitals, error) {
		asked++
		return registry.Vitals{Reviews: 7}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if text := scrape(t, p); !strings.Contains(text, "countersign_approvals_pending 7") || !strings.Contains(text, "countersign_vitals_age_seconds") {
			t.Fatal(text)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

func TestACountThatFailsIsToldAsNothing(t *testing.T) {
	t.Parallel()
	p := pipelines(t, export.Options{Role: "test", Scraped: true})
	if err := telemetry.Watch(p.Metrics, func(context.Context) (registry.Vitals, error) {
		return registry.Vitals{}, context.DeadlineExceeded
	}); err != nil {
		t.Fatal(err)
	}
	if text := scrape(t, p); strings.Contains(text, "countersign_approvals") {
		t.Errorf("zero is told for what nobody knows:\n%s", text)
	}
}

// Without an endpoint nobody records, so that nothing costs anything.
func TestWithoutAnEndpointNothingIsRecorded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env             map[string]string
		traces, measure bool
	}{
		"nothing":        {},
		"an endpoint":    {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, true, true},
		"one of a kind":  {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1"}, true, false},
		"none of a kind": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"}, false, true},
		"switched off":   {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}, false, false},
	} {
		p, err := export.New(t.Context(), export.Options{Role: "test", Getenv: func(key string) string { return c.env[key] }})
		if err != nil {
			t.Fatal(err)
		}
		if p.Traces != c.traces || p.Measures != c.measure || p.Scrape != nil {
			t.Errorf("%s: traces %t, measures %t", name, p.Traces, p.Measures)
		}
		ctx, span := p.Spans.Tracer("x").Start(t.Context(), "x")
		if telemetry.Recording(ctx) != c.traces {
			t.Errorf("%s: records %t", name, !c.traces)
		}
		span.End()
	}
}
