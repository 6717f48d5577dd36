package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	"countersign/mcptest"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// discover runs a discovery to its end.
func (c caller) discover(t *testing.T, ref string) *pb.McpServer {
	t.Helper()
	ctx, _ := keyed(t.Context(), strconv.FormatInt(time.Now().UnixNano(), 10))
	r, err := c.servers.DiscoverMcpCapabilities(ctx, &pb.DiscoverMcpCapabilitiesRequest{ServerId: ref, Wait: durationpb.New(25 * time.Second)})
	if err != nil || !r.GetDone() {
		t.Fatalf("discovery of %s: done %v, %v", ref, r.GetDone(), err)
	}
	return r.GetServer()
}

// The example of the rule of refresh counts: first {a, b, c}; b is enabled;
// then {a′, b, d}; then {a′, b, c, d}.
func TestRefreshCountsThroughTheWholeProduct(t *testing.T) {
	t.Parallel()
	d := newDev(t)
	d.start(t)
	admin, c := d.terminal(first, registry.RolePlatformAdmin), d.admin()
	peer := mcptest.New(t, mcptest.Script{})
	offer := func(tools ...string) {
		peer.Edit(func(s *mcptest.Script) {
			var items []string
			for _, name := range tools {
				of, changed := strings.CutSuffix(name, "′")
				item := mcptest.Tool(of)
				if changed {
					item = strings.Replace(item, `"required":["text"]`, `"required":[]`, 1)
				}
				items = append(items, item)
			}
			s.List("tools/list", mcptest.Items(items...))
		})
	}
	type counts struct{ New, Changed, Unchanged, Unavailable, Total int32 }
	check := func(s *pb.McpServer, want counts) {
		t.Helper()
		v := s.GetDiscovery()
		got := counts{v.GetNewTools(), v.GetChangedTools(), v.GetUnchangedTools(), v.GetUnavailableTools(), v.GetTotalTools()}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("counts of discovery %d: %s", v.GetNumber(), diff)
		}
	}
	tools := func(want ...string) {
		t.Helper()
		var got []string
		for _, tool := range admin.list(t, "tools", "list", "--of", "example") {
			got = append(got, fmt.Sprint(tool["toolId"], " enabled=", tool["enabled"], " available=", tool["available"]))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	offer("a", "b", "c")
	check(bring(t, c, "example", peer.URL, verified), counts{New: 3, Total: 3})
	tools("example.a enabled=false available=true", "example.b enabled=false available=true", "example.c enabled=false available=true")
	admin.json(t, "tools", "enable", "example.b")

	offer("a′", "b", "d")
	check(c.discover(t, "example"), counts{New: 1, Changed: 1, Unchanged: 1, Unavailable: 1, Total: 3})
	tools("example.a enabled=false available=true", "example.b enabled=true available=true", "example.c enabled=false available=false",
		"example.d enabled=false available=true")

	offer("a′", "b", "c", "d")
	check(c.discover(t, "example"), counts{Unchanged: 4, Total: 4})
	tools("example.a enabled=false available=true", "example.b enabled=true available=true", "example.c enabled=false available=true",
		"example.d enabled=false available=true")

	// A failed discovery touches no tool (R44).
	peer.Edit(func(s *mcptest.Script) { s.List("tools/list", mcptest.Raw(`{"tools":null}`)) })
	if s := c.discover(t, "example"); s.GetDiscovery().GetReason() != string(registry.ReasonMalformedList) {
		t.Errorf("the malformed list comes to %v", s.GetDiscovery())
	}
	tools("example.a enabled=false available=true", "example.b enabled=true available=true", "example.c enabled=false available=true",
		"example.d enabled=false available=true")

	// Many at once, chosen by a search, with a look before.
	var would pb.SetToolsEnabledResponse
	if err := protojson.Unmarshal(admin.json(t, "tools", "enable", "--of", "example", "--search", "does", "--dry-run"), &would); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"example.a", "example.c", "example.d"}, would.GetServers()[0].GetToolIds()); diff != "" || !would.GetDryRun() {
		t.Errorf("a dry run says %v: %s", &would, diff)
	}
	admin.json(t, "tools", "enable", "--of", "example", "--search", "does", "--yes")
	admin.json(t, "tools", "require-approval", "example.a")
	admin.json(t, "descriptors", "create", "hash", "--class", "read")
	admin.json(t, "descriptors", "publish", "hash@1")
	admin.json(t, "assignments", "create", "bot", "example.b")
	tools("example.a enabled=true available=true", "example.b enabled=true available=true", "example.c enabled=true available=true",
		"example.d enabled=true available=true")
	if err := c.denied(t.Context(), "example.a", registry.ReasonServerNotActive); err != nil {
		t.Error(err)
	}
	e := dial(t, d.temporal, "default")
	e.checkHistories(t)
}

// memory is the resident memory of a process in bytes, now or (VmHWM) at most.
func (p *process) memory(t *testing.T, field string) int64 {
	t.Helper()
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		if rest, found := strings.CutPrefix(line, field+":"); found {
			kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kilobytes << 10
		}
	}
	t.Fatalf("no %s in %s", field, status)
	return 0
}

// 10,000 tools of 2 kB in 100 pages: discovered, reviewed, approved, discovered
// again unchanged, by a process of its own with api and worker on SQLite.
func TestTenThousandTools(t *testing.T) { // not beside others: what it measures would be theirs too
	const n, pages, bytes = 10_000, 100, 2000
	d := newDev(t) // lends its Temporal
	d.start(t)
	file := filepath.Join(t.TempDir(), "countersign.db")
	i := newInstallation(t, d, "sqlite:"+file)
	product := i.serve(t, "all")
	c := i.caller(product, first)
	script := mcptest.Script{}
	all := make([][]string, pages)
	for k := range n {
		name := fmt.Sprintf("tool_%05d", k)
		item := mcptest.Tool(name)
		item = strings.Replace(item, "Does "+name+".", "Does "+name+". "+strings.Repeat("Words for a person to read. ", (bytes-len(item))/28), 1)
		all[k%pages] = append(all[k%pages], item)
	}
	script.List("tools/list", mcptest.Pages(all...))
	peer := mcptest.New(t, script)
	ctx, cancel := context.WithTimeout(t.Context(), longPatience)
	defer cancel()

	// Idle: as it is once it has done its work for a small server.
	small := mcptest.Script{}
	small.List("tools/list", mcptest.Items(mcptest.Tools(5)...))
	bring(t, c, "small", mcptest.New(t, small).URL, active)
	idle := product.memory(t, "VmRSS")
	database, err := sql.Open("sqlite", "file:"+file+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	rows := func() int {
		total := 0
		query(t, database, `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'tool_words%'`, func(scan func(...any) error) error {
			var table string
			if err := scan(&table); err != nil {
				return err
			}
			query(t, database, "SELECT count(*) FROM "+table, func(scan func(...any) error) error {
				var count int
				err := scan(&count)
				total += count
				return err
			})
			return nil
		})
		return total
	}
	lap := func(what string, do func()) {
		t.Helper()
		before, begin := rows(), time.Now()
		do()
		took := time.Since(begin)
		t.Logf("%s: %.1f s, %d rows added, at most %d MB above idle so far", what, took.Seconds(), rows()-before, (product.memory(t, "VmHWM")-idle)>>20)
	}
	lap("registered and discovered", func() {
		if s := bring(t, c, "large", peer.URL, verified); s.GetDiscovery().GetNewTools() != n {
			t.Fatalf("discovered as %v", s.GetDiscovery())
		}
	})
	var request *pb.ActivateMcpServerRequest
	lap("reviewed", func() {
		var err error
		if request, err = c.approval(ctx, "large"); err != nil || len(request.GetTools()) != n {
			t.Fatalf("%d tools: %v", len(request.GetTools()), err)
		}
	})
	lap("approved", func() {
		if _, err := c.servers.ActivateMcpServer(ctx, request); err != nil {
			t.Fatal(err)
		}
	})
	if err := c.callable(ctx, "large.tool_09999"); err != nil {
		t.Error(err)
	}
	before := rows()
	lap("discovered again, unchanged", func() {
		if s := c.discover(t, "large"); s.GetDiscovery().GetUnchangedTools() != n || s.GetDiscovery().GetTotalTools() != n {
			t.Errorf("discovered as %v", s.GetDiscovery())
		}
	})
	if added := rows() - before; added > 6 { // the operations of beginning and end with their audit rows, and the key
		t.Errorf("a quiet discovery adds %d rows", added)
	}
	lap("a page of the catalog", func() {
		r, err := c.catalog.ListTools(ctx, &pb.ListToolsRequest{Search: "tool person", PageSize: 100, Filter: "callable = true"})
		if err != nil || r.GetTotalSize() != n || len(r.GetTools()) != 100 {
			t.Errorf("%d of %d: %v", len(r.GetTools()), r.GetTotalSize(), err)
		}
	})
	lap("facets", func() {
		if _, err := c.catalog.ListToolFacets(ctx, &pb.ListToolFacetsRequest{}); err != nil {
			t.Error(err)
		}
	})
	lap("all switched off at once", func() {
		r, err := c.catalog.SetToolsEnabled(ctx, &pb.SetToolsEnabledRequest{Filter: "server = large"})
		if err != nil || r.GetChangedTools() != n {
			t.Errorf("%v %v", r.GetChangedTools(), err)
		}
	})
	if above := product.memory(t, "VmHWM") - idle; above > 200<<20 {
		t.Errorf("the process had %d MB above idle at most", above>>20)
	}
	product.stop(t)
}
