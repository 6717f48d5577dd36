package db_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/db"
	"countersign/registry"
)

// rows are a capability table about the servers of [surface].
func rows(tb testing.TB, rows ...registry.CapabilityRow) *registry.CapabilityTable {
	tb.Helper()
	table, err := registry.NewCapabilityTable([]registry.KnownServer{{
		ID: "the-server", Title: "The server", Reported: []string{"the server"}, Foreign: []string{"far_*"}, Rows: rows,
	}})
	if err != nil {
		tb.Fatal(err)
	}
	return table
}

func since(axis registry.Axis, version string) registry.Since {
	return registry.Since{Axis: axis, Version: version}
}

// R86, R87: a tool resolves, is listed and counts as the report says of the
// capabilities that it belongs to.
func TestWhatTheReportSaysIsWhatResolveDoes(t *testing.T) {
	table := rows(
		t,
		registry.CapabilityRow{Key: "never", Feature: "x", Note: "the server refuses it", Gates: []string{"a"}},
		registry.CapabilityRow{Key: "product", Feature: "x", Available: true, Since: since(registry.AxisProduct, "2.0"), Gates: []string{"b", "c"}},
		registry.CapabilityRow{Key: "server", Feature: "x", Available: true, Since: since(registry.AxisServer, "1.2.4"), Gates: []string{"d"}},
		registry.CapabilityRow{Key: "protocol", Feature: "x", Available: true, Since: since(registry.AxisProtocol, "2026-07-28"), Gates: []string{"e"}},
		registry.CapabilityRow{Key: "tools", Feature: "x", Available: true, RequiresTools: []string{"f", "g"}, Gates: []string{"f"}},
		registry.CapabilityRow{Key: "args", Feature: "x", Available: true, RequiresArgs: []registry.ToolArg{{Tool: "h", Arg: "scale"}}, Gates: []string{"h", "c"}},
	)
	engines(t, func(t on) {
		d := t.db
		w := newWorld(t, d, "acme")
		s := w.register("weather")
		look := surface("a", "b", "c", "d", "e", "f", "g", "free", "far_a")
		look.Tools = append(look.Tools, []byte(`{"name":"h","inputSchema":{"type":"object","properties":{"scale":{},"size":{}}}}`))
		names := []string{"a", "b", "c", "d", "e", "f", "g", "free", "far_a", "h"}
		w.approve(w.discover(s.ServerID, look), names...)
		for _, name := range names {
			w.resolves("weather."+name, "") // no table, no gates
		}
		d.SetCapabilities(table)
		w = newWorld(t, d, "acme")
		check := func(what string, want map[string]bool) {
			t.Helper()
			view, offered, err := w.CapabilityReport(t.Context(), "weather")
			if err != nil {
				t.Fatal(err)
			}
			can := map[string]bool{}
			for _, state := range view.Model.States {
				can[state.Row.Key] = state.Available
			}
			if diff := cmp.Diff(want, can); diff != "" {
				t.Errorf("%s: %s", what, diff)
			}
			listed, _, _, err := w.Tools(t.Context(), db.ToolQuery{})
			if err != nil {
				t.Fatal(err)
			}
			shown, err := w.Capabilities(t.Context(), "weather", false)
			if err != nil {
				t.Fatal(err)
			}
			callable := 0
			for i, tool := range listed {
				id := tool.Tool.ToolID
				found, err := w.Resolve(t.Context(), []string{id})
				if err != nil {
					t.Fatal(err)
				}
				denial := found[id].Denial
				off := view.Model.Blocks(tool.Tool.ExternalID)
				switch {
				case off != "" && (denial == nil || denial.Reason != registry.ReasonToolUnavailable || denial.Detail != "capability:"+off):
					t.Errorf("%s: %s is switched off by %s, and denied for %+v", what, id, off, denial)
				case off == "" && denial != nil && denial.Reason == registry.ReasonToolUnavailable && tool.Tool.Available:
					t.Errorf("%s: %s is denied for %+v", what, id, denial)
				}
				if diff := cmp.Diff([]*registry.Denial{denial, denial}, []*registry.Denial{tool.Denial, shown.Tools[i].Denial}); diff != "" {
					t.Errorf("%s: %s is resolved, listed and shown otherwise: %s", what, id, diff)
				}
				if denial == nil {
					callable++
				}
			}
			if view.Counts.Callable != callable || shown.Server.Counts.Callable != callable {
				t.Errorf("%s: %d and %d count as callable, want %d", what, view.Counts.Callable, shown.Server.Counts.Callable, callable)
			}
			if what == "discovered" {
				want := []db.OfferedTool{
					{Name: "a"},
					{Name: "b"},
					{Name: "c"},
					{Name: "d"},
					{Name: "e"},
					{Name: "f"},
					{Name: "far_a"},
					{Name: "free"},
					{Name: "g"},
					{Name: "h", Args: []string{"scale", "size"}},
				}
				if diff := cmp.Diff(want, offered); diff != "" {
					t.Errorf("the report shows other tools: %s", diff)
				}
			}
		}
		edit := func(version string) {
			w.must(w.change(s.ServerID, "edit", func(r *registry.Record, now time.Time) error {
				return r.Edit(registry.Edit{ProductVersion: &version}, named("edit"), now)
			}))
		}
		state := map[string]bool{"never": false, "product": false, "server": false, "protocol": true, "tools": true, "args": true}
		check("discovered", state)
		w.resolves("weather.a", registry.ReasonToolUnavailable)
		w.resolves("weather.h", "")
		edit("2.1")
		state["product"] = true
		check("a product version was declared", state)
		edit("two")
		state["product"] = false
		check("one that cannot be read", state)
		look.Version = "1.3" // and nothing else: the discovery is a quiet one
		w.discover(s.ServerID, look)
		state["server"] = true
		check("the server is newer", state)
		view, _, err := w.CapabilityReport(t.Context(), s.ServerID)
		if err != nil {
			t.Fatal(err)
		}
		probe := registry.Probe{
			TenantID: "acme", ServerID: s.ServerID, Window: time.Now().UTC().Truncate(time.Minute), Outcome: registry.OutcomeOK, Attempts: 1,
			ProtocolVersion: "2025-11-25", ServerVersion: "1.2", TargetDigest: s.TargetDigest, ToolsDigest: view.ToolsDigest, At: time.Now().UTC().Add(time.Second),
		}
		if _, err := d.System().RecordProbes(t.Context(), []registry.Probe{probe}, 0); err != nil {
			t.Fatal(err)
		}
		state["server"], state["protocol"] = false, false
		check("a probe met an older one", state)
		look.Tools = append(look.Tools[:6:6], look.Tools[7:]...) // without g
		w.discover(s.ServerID, look)
		state["server"], state["protocol"], state["tools"] = true, true, false
		check("a tool is gone", state)
		exec(t, d, "UPDATE definitions SET args = NULL")
		state["args"] = false
		check("nobody looked at the arguments", state)
		w.discover(s.ServerID, look) // a quiet one again
		state["args"] = true
		check("a discovery looked at them", state)
		exec(t, d, `UPDATE mcp_servers SET state = 'degraded', causes = '["handshake"]'`)
		w.resolves("weather.h", registry.ReasonServerDegraded)
		if view, _, err = w.CapabilityReport(t.Context(), "weather"); err != nil || view.Model.Can("args") || view.Model.Can("tools") {
			t.Errorf("its handshake fails, and it can %+v: %v", view.Model.States, err)
		}
	})
}

// A table that knows nothing of a server changes nothing about it, and neither
// does another tenant's server of the same kind.
func TestATableSwitchesOffOnlyWhatItKnows(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		table, err := registry.NewCapabilityTable([]registry.KnownServer{{
			ID: "one", Title: "One", Registered: []string{"one"}, Rows: []registry.CapabilityRow{
				{Key: "pair", Feature: "x", Available: true, RequiresTools: []string{"b"}, Gates: []string{"a"}},
			},
		}})
		if err != nil {
			t.Fatal(err)
		}
		d.SetCapabilities(table)
		other := newWorld(t, d, "globex") // whose server has what the other's lacks
		other.approve(other.discover(other.register("one").ServerID, surface("a", "b")), "a", "b")
		w := newWorld(t, d, "acme")
		w.approve(w.discover(w.register("one").ServerID, surface("a")), "a")
		w.approve(w.discover(w.register("two").ServerID, surface("a")), "a")
		w.resolves("one.a", registry.ReasonToolUnavailable)
		w.resolves("two.a", "")
		other.resolves("one.a", "")
		views, _, _, err := w.Servers(t.Context(), db.ServerQuery{})
		if err != nil || len(views) != 2 || views[0].Counts.Callable != 0 || views[1].Counts.Callable != 1 {
			t.Errorf("%+v: %v", views, err)
		}
		g := w.registration("ours")
		g.Direction = registry.DirectionExposed
		ours := w.must(w.Register(t.Context(), g, named("register"), nil))
		w.approve(w.discover(ours.ServerID, surface("a", "b")), "a", "b")
		exposed := func() (out []string) {
			items, _, err := w.Exposed(t.Context(), "", db.Page{})
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range items {
				if item.Kind == registry.KindTool {
					out = append(out, item.Name)
				}
			}
			return out
		}
		if diff := cmp.Diff([]string{"a", "b"}, exposed()); diff != "" {
			t.Error(diff)
		}
		d.SetCapabilities(rows(t, registry.CapabilityRow{Key: "off", Feature: "x", Note: "broken", Gates: []string{"b"}}))
		w = newWorld(t, d, "acme")
		if diff := cmp.Diff([]string{"a"}, exposed()); diff != "" {
			t.Errorf("after the table changed: %s", diff)
		}
	})
}

// What the table asks for may be named as strangers name things.
func TestOddNamesInATableHarmNobody(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		odd, long := `"', ?0 $1 \`, fmt.Sprintf("%0600d", 7)
		d.SetCapabilities(rows(
			t, registry.CapabilityRow{
				Key: "both", Feature: "x", Available: true, Gates: []string{"a"}, RequiresTools: []string{odd, long},
			},
			registry.CapabilityRow{Key: "odd", Feature: "x", Available: true, RequiresTools: []string{odd}},
			registry.CapabilityRow{Key: "short", Feature: "x", Available: true, RequiresTools: []string{long[:512]}},
		))
		w := newWorld(t, d, "acme")
		s := w.register("weather")
		w.approve(w.discover(s.ServerID, surface("a")), "a")
		w.resolves("weather.a", registry.ReasonToolUnavailable)
		look := surface("a")
		for _, name := range []string{odd, long} {
			look.Tools = append(look.Tools, fmt.Appendf(nil, `{"name":%q,"inputSchema":{"type":"object"}}`, name))
		}
		w.discover(s.ServerID, look)
		view, tools, err := w.CapabilityReport(t.Context(), "weather")
		if err != nil || !view.Model.Can("odd") || view.Model.Can("both") || view.Model.Can("short") {
			t.Errorf("%+v: %v", view.Model.States, err)
		}
		if diff := cmp.Diff([]db.OfferedTool{{Name: odd}, {Name: long, Verdict: registry.ReasonUnsafeName}, {Name: "a"}}, tools); diff != "" {
			t.Error(diff)
		}
		w.resolves("weather.a", registry.ReasonToolUnavailable)
	})
}
