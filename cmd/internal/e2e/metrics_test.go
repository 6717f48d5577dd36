package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// series scrapes a process: values by name and labels, those of the scraper's own aside.
func series(t *testing.T, listen string) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	lines := bufio.NewScanner(bytes.NewReader(get(t, "http://"+listen+"/metrics", http.StatusOK)))
	for lines.Scan() {
		if name, value, found := strings.Cut(lines.Text(), "} "); found || !strings.HasPrefix(lines.Text(), "#") {
			if !found {
				name, value, _ = strings.Cut(lines.Text(), " ")
			} else {
				name += "}"
			}
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatalf("%q: %v", lines.Text(), err)
			}
			out[name] = n
		}
	}
	return out
}

// R201: what is scraped is true after a scenario and after a restart, since it is read
// from the tables.
func TestScrapedCountsAreTrueAlsoAfterARestart(t *testing.T) {
	t.Parallel()
	d := newDev(t)
	listen := address(t)
	d.interval = 5 * time.Second
	env := []string{"COUNTERSIGN_TELEMETRY_LISTEN=" + listen, "COUNTERSIGN_EVENTS_LOG=true"}
	d.start(t, env...)
	bring(t, d.admin(), "bound", d.demoURL(), active)
	waits := bring(t, d.admin(), "waits", d.demoURL(), verified)
	gone := bring(t, d.admin(), "gone", d.demoURL(), verified)
	ctx, _ := keyed(t.Context(), "retire")
	if _, err := d.admin().servers.RetireMcpServer(ctx, &pb.RetireMcpServerRequest{ServerId: gone.GetServerId()}); err != nil {
		t.Fatal(err)
	}
	bring(t, call(d.url(), d.tokens[second][registry.RolePlatformAdmin]), "theirs", d.demoURL(), verified)
	if err := d.admin().callable(t.Context(), "bound.hash_compute"); err != nil {
		t.Fatal(err)
	}
	server := func(tenant, state string) string {
		return fmt.Sprintf(`connectsoft_factory_tools_mcp_servers{authentication="none_exception",direction="consumed",state=%q,tenant=%q}`, state, tenant)
	}
	want := map[string]float64{
		server(first, "active"): 1, server(first, "verified"): 1, server(first, "retired"): 1, server(second, "verified"): 1,
		`connectsoft_factory_tools_mcp_unbound_tools{tenant="` + first + `"}`:  3,
		`connectsoft_factory_tools_mcp_unbound_tools{tenant="` + second + `"}`: 3,
		"countersign_events_dead": 0,
	}
	scraped := func(when string) map[string]float64 {
		var got map[string]float64
		until(t, "the counts are true "+when, patience, func() error {
			got = series(t, listen)
			for name, n := range want {
				if v, there := got[name]; !there || v != n {
					return fmt.Errorf("%s is %v (there: %t), not %v", name, v, there, n)
				}
			}
			return nil
		})
		servers := 0.0
		for name, n := range got {
			if strings.HasPrefix(name, "connectsoft_factory_tools_mcp_servers{") {
				servers += n
			}
		}
		if servers != 4 {
			t.Errorf("%s %v servers are told", when, servers)
		}
		return got
	}
	var got map[string]float64
	until(t, "servers are probed and events delivered", patience, func() error {
		got = scraped("after a scenario")
		if got[`countersign_deliveries_total{outcome="delivered",sink="installation/log"}`] == 0 || got["countersign_probes_last_window_age_seconds"] == 0 {
			return fmt.Errorf("%v", got)
		}
		return nil
	})
	namesOfDeploy(t, got)
	counted := map[string]float64{
		`connectsoft_factory_tools_mcp_handshakes_total{outcome="ok",server="` + waits.GetServerId() + `"}`: 1,
		`countersign_resolutions_total{reason="none"}`:                                                      1,
	}
	for name, n := range counted {
		if got[name] < n {
			t.Errorf("%s is %v, not %v", name, got[name], n)
		}
	}
	for _, part := range []string{"countersign_handshake_duration_seconds_bucket", "rpc_server_duration", "go_goroutines", "countersign_vitals_age_seconds", "target_info"} {
		if !strings.Contains(strings.Join(keys(got), "\n"), part) {
			t.Errorf("nothing is told of %s", part)
		}
	}

	d.stop(t)
	d.start(t, env...)
	scraped("after a restart")
}

// family is the metric of a series.
func family(series string) string {
	name, _, _ := strings.Cut(series, "{")
	for _, part := range []string{"_bucket", "_sum", "_count"} {
		name = strings.TrimSuffix(name, part)
	}
	return name
}

// namesOfDeploy wants every metric that alerts and dashboards ask for to be one that is
// told, every metric of ours in docs/telemetry.md, every alert with a runbook, and no
// runbook without its alert.
func namesOfDeploy(t *testing.T, got map[string]float64) {
	t.Helper()
	read := func(path ...string) string {
		raw, err := os.ReadFile(filepath.Join(append([]string{"..", "..", ".."}, path...)...))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	told := map[string]bool{}
	for _, name := range keys(got) {
		told[family(name)] = true
	}
	metric := regexp.MustCompile(`\b(connectsoft_factory_tools|countersign|rpc_server|go|process)_[a-z_]+`)
	alerts := read("deploy", "alerts", "countersign.yaml")
	for where, text := range map[string]string{"the alerts": alerts, "the dashboard": read("deploy", "grafana", "countersign.json")} {
		asked := metric.FindAllString(text, -1)
		if len(asked) < 5 {
			t.Errorf("%s ask for %v only", where, asked)
		}
		for _, name := range asked {
			if !told[family(name)] {
				t.Errorf("%s ask for %s, which is not told", where, name)
			}
		}
	}
	ours := regexp.MustCompile(`(?m)^\| ` + "`" + `((?:connectsoft_factory_tools|countersign)_[a-z_]+)` + "`")
	var documented, ourFamilies []string
	for _, found := range ours.FindAllStringSubmatch(read("docs", "telemetry.md"), -1) {
		documented = append(documented, found[1])
	}
	for name := range told {
		if strings.HasPrefix(name, "countersign_") || strings.HasPrefix(name, "connectsoft_") {
			ourFamilies = append(ourFamilies, name)
		}
	}
	slices.Sort(documented)
	slices.Sort(ourFamilies)
	if !slices.Equal(documented, ourFamilies) {
		t.Errorf("docs/telemetry.md has %v, told are %v", documented, ourFamilies)
	}
	var raised, written []string
	for _, found := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(alerts, -1) {
		raised = append(raised, found[1])
		if !strings.Contains(alerts, "docs/runbooks.md#"+strings.ToLower(found[1])+"\n") {
			t.Errorf("%s names no runbook", found[1])
		}
	}
	for _, found := range regexp.MustCompile(`(?m)^## (Countersign\w+)`).FindAllStringSubmatch(read("docs", "runbooks.md"), -1) {
		written = append(written, found[1])
	}
	slices.Sort(raised)
	slices.Sort(written)
	if len(raised) == 0 || !slices.Equal(raised, written) {
		t.Errorf("alerts %v, runbooks %v", raised, written)
	}
}

func keys(of map[string]float64) []string {
	var out []string
	for key := range maps.Keys(of) {
		out = append(out, key)
	}
	return out
}
