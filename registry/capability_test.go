package registry_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"countersign/registry"
)

func TestVersionsAreComparedNumberByNumber(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		axis        registry.Axis
		have, least string
		want        bool
	}{
		{registry.AxisServer, "1.2.0", "1.1.0", true},
		{registry.AxisServer, "1.0", "1.0.1", false},
		{registry.AxisServer, "2.0.0", "1.9.9", true},
		{registry.AxisServer, "1.10", "1.9", true},
		{registry.AxisServer, "1.9", "1.10", false},
		{registry.AxisServer, "1.0", "1", true},
		{registry.AxisServer, "1", "1.0.0", true},
		{registry.AxisServer, "01.02", "1.2", true},
		{registry.AxisServer, "99999999999999999999.1", "99999999999999999999.0", true},
		{registry.AxisServer, "9", "99999999999999999999", false},
		{registry.AxisServer, "", "1", false},
		{registry.AxisServer, "v2.0", "1", false},
		{registry.AxisServer, "2.0-beta", "1", false},
		{registry.AxisServer, "2.x", "1", false},
		{registry.AxisServer, "2..0", "1", false},
		{registry.AxisServer, "2.", "1", false},
		{registry.AxisServer, " 2", "1", false},
		{registry.AxisServer, "2\n", "1", false},
		{registry.AxisServer, "٢", "1", false},
		{registry.AxisServer, "2", "one", false},
		{registry.AxisServer, strings.Repeat("1.", 15) + "1", "1", true},
		{registry.AxisServer, strings.Repeat("1.", 16) + "1", "1", false},
		{registry.AxisProduct, "11.12.0", "11.9", true},
		{registry.AxisProtocol, "2026-07-28", "2025-11-25", true},
		{registry.AxisProtocol, "2025-11-25", "2026-07-28", false},
		{registry.AxisProtocol, "2025-11-25", "2025-11-25", true},
		{registry.AxisProtocol, "draft", "2025-11-25", false},
		{registry.AxisProtocol, "3000", "2025-11-25", false},
		{registry.AxisServer, "2026-07-28", "1", false},
	} {
		if got := c.axis.Reached(c.have, c.least); got != c.want {
			t.Errorf("%s version %q reaches %q: %t, want %t", c.axis, c.have, c.least, got, c.want)
		}
	}
}

func table(tb testing.TB, servers ...registry.KnownServer) *registry.CapabilityTable {
	tb.Helper()
	made, err := registry.NewCapabilityTable(servers)
	if err != nil {
		e, _ := registry.AsError(err)
		tb.Fatalf("%v: %v", err, e.Fields)
	}
	return made
}

// studio is a server with rows of every kind.
func studio() registry.KnownServer {
	row := func(key string, change func(*registry.CapabilityRow)) registry.CapabilityRow {
		r := registry.CapabilityRow{Key: key, Feature: "does " + key, Available: true}
		change(&r)
		return r
	}
	return registry.KnownServer{
		ID: "studio", Title: "The studio", Reported: []string{"studio-mcp"}, Foreign: []string{"far__*"}, Product: `^studio/([0-9.]+)`,
		Rows: []registry.CapabilityRow{
			row("always", func(*registry.CapabilityRow) {}),
			row("never", func(r *registry.CapabilityRow) {
				r.Available, r.Note, r.Gates = false, "the studio refuses it", []string{"make_flow"}
			}),
			row("server-2", func(r *registry.CapabilityRow) { r.Since = registry.Since{Axis: registry.AxisServer, Version: "2.1"} }),
			row("product-11", func(r *registry.CapabilityRow) {
				r.Since, r.Gates = registry.Since{Axis: registry.AxisProduct, Version: "11.12"}, []string{"delete"}
			}),
			row("stateless", func(r *registry.CapabilityRow) {
				r.Since = registry.Since{Axis: registry.AxisProtocol, Version: "2026-07-28"}
			}),
			row("saving", func(r *registry.CapabilityRow) { r.RequiresTools = []string{"save", "load"} }),
			row("far", func(r *registry.CapabilityRow) { r.RequiresTools = []string{"near"} }),
			row("scaling", func(r *registry.CapabilityRow) { r.RequiresArgs = []registry.ToolArg{{Tool: "shoot", Arg: "scale"}} }),
		},
	}
}

func facts(change func(*registry.CapabilityFacts)) registry.CapabilityFacts {
	f := registry.CapabilityFacts{
		Registered: "our-studio", Reported: "studio-mcp", ServerVersion: "2.1.0", ProductVersion: "11.12.3", Protocol: "2026-07-28",
		Tools: map[string][]string{"save": nil, "load": nil, "shoot": {"element", "scale"}, "delete": nil, "make_flow": nil, "near": nil},
	}
	if change != nil {
		change(&f)
	}
	return f
}

// R83–R86: the version turns on, the look turns off, and what is unknown is off.
func TestACapabilityIsThereOnlyWhereTableAndServerAgree(t *testing.T) {
	t.Parallel()
	all := []string{"always", "far", "product-11", "saving", "scaling", "server-2", "stateless"}
	without := func(keys ...string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(key string) bool { return slices.Contains(keys, key) })
	}
	for name, c := range map[string]struct {
		change func(*registry.CapabilityFacts)
		can    []string
	}{
		"everything is there":                       {nil, all},
		"another server":                            {func(f *registry.CapabilityFacts) { f.Reported = "studio" }, nil},
		"a tool appears of a row that says no":      {func(f *registry.CapabilityFacts) { f.Tools["never"] = nil }, all},
		"one of two tools is gone":                  {func(f *registry.CapabilityFacts) { delete(f.Tools, "load") }, without("saving")},
		"an argument is gone":                       {func(f *registry.CapabilityFacts) { f.Tools["shoot"] = []string{"element"} }, without("scaling")},
		"the arguments are unknown":                 {func(f *registry.CapabilityFacts) { f.Tools["shoot"] = nil }, without("scaling")},
		"a server too old":                          {func(f *registry.CapabilityFacts) { f.ServerVersion = "2.0.9" }, without("server-2")},
		"a server with no version":                  {func(f *registry.CapabilityFacts) { f.ServerVersion = "" }, without("server-2")},
		"a version that cannot be read":             {func(f *registry.CapabilityFacts) { f.ServerVersion = "3.0-rc1" }, without("server-2")},
		"a product too old":                         {func(f *registry.CapabilityFacts) { f.ProductVersion = "11.11" }, without("product-11")},
		"a product unknown":                         {func(f *registry.CapabilityFacts) { f.ProductVersion = "" }, without("product-11")},
		"a product that cannot be read":             {func(f *registry.CapabilityFacts) { f.ProductVersion = "eleven" }, without("product-11")},
		"an older protocol":                         {func(f *registry.CapabilityFacts) { f.Protocol = "2025-11-25" }, without("stateless")},
		"no protocol":                               {func(f *registry.CapabilityFacts) { f.Protocol = "" }, without("stateless")},
		"the look failed":                           {func(f *registry.CapabilityFacts) { f.Doubt = "handshake" }, nil},
		"nothing was seen":                          {func(f *registry.CapabilityFacts) { f.Tools = nil }, without("saving", "scaling", "far")},
		"a product that the server's version tells": {func(f *registry.CapabilityFacts) { f.ProductVersion, f.ServerVersion = "", "studio/11.12.0 on x" }, without("server-2")},
		"what is declared goes before that":         {func(f *registry.CapabilityFacts) { f.ProductVersion, f.ServerVersion = "11", "studio/11.12.0" }, without("server-2", "product-11")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := table(t, studio()).Resolve(facts(c.change))
			var can []string
			for _, s := range m.States {
				if m.Can(s.Row.Key) {
					can = append(can, s.Row.Key)
				}
				if s.Available != (s.BlockedBy == "") || s.Available != (s.Why == "") {
					t.Errorf("%s is available: %t, blocked by %q: %q", s.Row.Key, s.Available, s.BlockedBy, s.Why)
				}
			}
			if diff := cmp.Diff(c.can, can); diff != "" {
				t.Error(diff)
			}
			if m.Can("unknown") {
				t.Error("an unknown key is available")
			}
		})
	}
}

func TestABlockerIsToldForPeople(t *testing.T) {
	t.Parallel()
	m := table(t, studio()).Resolve(facts(func(f *registry.CapabilityFacts) {
		f.ServerVersion, f.ProductVersion, f.Protocol = "2.0-rc1", "", "2025-11-25"
		f.Tools = map[string][]string{"save": nil, "shoot": nil, "near": nil}
	}))
	got := map[string][2]string{}
	for _, s := range m.States {
		got[s.Row.Key] = [2]string{string(s.BlockedBy), s.Why}
	}
	want := map[string][2]string{
		"always":     {"", ""},
		"far":        {"", ""},
		"never":      {"table", "the studio refuses it"},
		"server-2":   {"version", `needs server version 2.1, and "2.0-rc1" cannot be compared with it`},
		"product-11": {"version", "needs product version 11.12, and none is known: declare it as the server's product_version"},
		"stateless":  {"version", "needs protocol version 2026-07-28, and this is 2025-11-25"},
		"saving":     {"tool", "the server offers no tool load"},
		"scaling":    {"argument", "the server offers no tool shoot with an argument scale"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Foreign tools are listed and decide nothing, whoever asks for them (R88).
func TestForeignToolsDecideNothing(t *testing.T) {
	t.Parallel()
	proxy := registry.KnownServer{
		ID: "proxy", Title: "A proxy", Registered: []string{"our-studio"}, Rows: []registry.CapabilityRow{
			{Key: "through", Feature: "calls far away", Available: true, RequiresTools: []string{"far__call"}},
		},
	}
	seen := facts(func(f *registry.CapabilityFacts) { f.Tools["far__call"] = []string{"x"} })
	if m := table(t, proxy).Resolve(seen); !m.Can("through") || m.Foreign("far__call") {
		t.Error("it is a tool as any other while nobody calls it foreign")
	}
	m := table(t, proxy, studio()).Resolve(seen)
	if m.Can("through") || !m.Foreign("far__call") || m.Foreign("save") || m.Facts.HasTool("far__call") || m.Facts.SupportsArg("far__call", "x") {
		t.Error("a foreign tool decides")
	}
	if len(m.Known) != 2 {
		t.Errorf("known as %v", m.Known)
	}
}

func TestFaultsOfATableNameTheirPlace(t *testing.T) {
	t.Parallel()
	good := studio()
	for name, c := range map[string]struct {
		change func(*registry.KnownServer)
		want   string
	}{
		"no id":             {func(k *registry.KnownServer) { k.ID = "" }, "servers[1].id"},
		"twice":             {func(k *registry.KnownServer) { k.ID = "studio" }, "servers[1].id"},
		"no title":          {func(k *registry.KnownServer) { k.Title = "" }, "servers[1].title"},
		"no match":          {func(k *registry.KnownServer) { k.Reported = nil }, "servers[1].match"},
		"a name twice":      {func(k *registry.KnownServer) { k.Reported = []string{"a", "a"} }, "servers[1].match.reported[1]"},
		"an empty name":     {func(k *registry.KnownServer) { k.Registered = []string{""} }, "servers[1].match.registered[0]"},
		"not a pattern":     {func(k *registry.KnownServer) { k.Foreign = []string{"[a"} }, "servers[1].foreign[0]"},
		"not an expression": {func(k *registry.KnownServer) { k.Product = "(" }, "servers[1].product"},
		"no group":          {func(k *registry.KnownServer) { k.Product = "[0-9]+" }, "servers[1].product"},
		"two groups":        {func(k *registry.KnownServer) { k.Product = "([0-9])([0-9])" }, "servers[1].product"},
		"a bad key":         {func(k *registry.KnownServer) { k.Rows[0].Key = "Make it" }, "servers[1].capabilities[0].key"},
		"a key of another":  {func(k *registry.KnownServer) { k.Rows[0].Key = "saving" }, "servers[1].capabilities[0].key"},
		"no feature":        {func(k *registry.KnownServer) { k.Rows[0].Feature = "" }, "servers[1].capabilities[0].feature"},
		"a long note":       {func(k *registry.KnownServer) { k.Rows[0].Note = strings.Repeat("x", 2049) }, "servers[1].capabilities[0].note"},
		"off without why":   {func(k *registry.KnownServer) { k.Rows[0].Available = false }, "servers[1].capabilities[0].note"},
		"off since": {func(k *registry.KnownServer) {
			k.Rows[0] = registry.CapabilityRow{Key: "x", Feature: "x", Note: "x", Since: registry.Since{Axis: registry.AxisServer, Version: "1"}}
		}, "servers[1].capabilities[0].since"},
		"no axis": {func(k *registry.KnownServer) { k.Rows[0].Since.Version = "1" }, "servers[1].capabilities[0].since.axis"},
		"a bad version": {func(k *registry.KnownServer) {
			k.Rows[0].Since = registry.Since{Axis: registry.AxisServer, Version: "v1"}
		}, "servers[1].capabilities[0].since.version"},
		"no protocol": {func(k *registry.KnownServer) {
			k.Rows[0].Since = registry.Since{Axis: registry.AxisProtocol, Version: "1"}
		}, "servers[1].capabilities[0].since.version"},
		"a tool twice":     {func(k *registry.KnownServer) { k.Rows[0].RequiresTools = []string{"a", "a"} }, "servers[1].capabilities[0].requires_tools[1]"},
		"half an argument": {func(k *registry.KnownServer) { k.Rows[0].RequiresArgs = []registry.ToolArg{{Tool: "a"}} }, "servers[1].capabilities[0].requires_args[0]"},
		"an argument twice": {func(k *registry.KnownServer) {
			k.Rows[0].RequiresArgs = []registry.ToolArg{{Tool: "a", Arg: "b"}, {Tool: "a", Arg: "b"}}
		}, "servers[1].capabilities[0].requires_args[1]"},
		"requires a foreign tool": {func(k *registry.KnownServer) {
			k.Foreign, k.Rows[0].RequiresTools = []string{"far*"}, []string{"farther"}
		}, "servers[1].capabilities[0].requires_tools[0]"},
		"requires a foreign argument": {func(k *registry.KnownServer) {
			k.Foreign, k.Rows[0].RequiresArgs = []string{"far*"}, []registry.ToolArg{{Tool: "far", Arg: "x"}}
		}, "servers[1].capabilities[0].requires_args[0]"},
		"gates a foreign tool": {func(k *registry.KnownServer) { k.Foreign, k.Rows[0].Gates = []string{"far*"}, []string{"far"} }, "servers[1].capabilities[0].gates[0]"},
	} {
		bad := registry.KnownServer{ID: "other", Title: "Another", Reported: []string{"other"}, Rows: []registry.CapabilityRow{{Key: "other", Feature: "other", Available: true}}}
		c.change(&bad)
		_, err := registry.NewCapabilityTable([]registry.KnownServer{good, bad})
		e, ok := registry.AsError(err)
		if !ok || len(e.Fields) != 1 || e.Fields[0].Path != c.want {
			t.Errorf("%s: %v %+v, want one fault at %s", name, err, e, c.want)
		}
	}
}

// drawn is a random table and random facts of few words, so that they often
// meet.
func drawn(t *rapid.T) (*registry.CapabilityTable, registry.CapabilityFacts) {
	word := rapid.SampledFrom([]string{"a", "b", "c", "far-x"})
	words := rapid.SliceOfNDistinct(word, 0, 3, rapid.ID[string])
	version := rapid.SampledFrom([]string{"1", "1.0.1", "2.0", "10"})
	var servers []registry.KnownServer
	key := 0
	for i := range rapid.IntRange(0, 3).Draw(t, "servers") {
		k := registry.KnownServer{ID: string(rune('p' + i)), Title: "x", Reported: words.Draw(t, "reported"), Registered: words.Draw(t, "registered")}
		if len(k.Reported)+len(k.Registered) == 0 {
			k.Reported = []string{"a"}
		}
		k.Product = rapid.SampledFrom([]string{"", "^([0-9.]+)"}).Draw(t, "product")
		own := rapid.SampledFrom([]string{"a", "b", "c"})
		if rapid.Bool().Draw(t, "has foreign tools") {
			k.Foreign = []string{"far-*"}
		} else {
			own = word
		}
		tools := rapid.SliceOfNDistinct(own, 0, 2, rapid.ID[string])
		for range rapid.IntRange(0, 4).Draw(t, "rows") {
			r := registry.CapabilityRow{
				Key: "k" + string(rune('a'+key)), Feature: "x", Available: rapid.Bool().Draw(t, "available"), Note: "why",
				RequiresTools: tools.Draw(t, "tools"), Gates: tools.Draw(t, "gates"),
			}
			key++
			if r.Available && rapid.Bool().Draw(t, "since") {
				r.Since = registry.Since{Axis: rapid.SampledFrom(registry.Axes()).Draw(t, "axis"), Version: version.Draw(t, "version")}
				if r.Since.Axis == registry.AxisProtocol {
					r.Since.Version = rapid.SampledFrom([]string{"2025-11-25", "2026-07-28"}).Draw(t, "protocol")
				}
			}
			if rapid.Bool().Draw(t, "needs an argument") {
				r.RequiresArgs = []registry.ToolArg{{Tool: own.Draw(t, "tool"), Arg: word.Draw(t, "argument")}}
			}
			k.Rows = append(k.Rows, r)
		}
		servers = append(servers, k)
	}
	made, err := registry.NewCapabilityTable(servers)
	if err != nil {
		t.Fatalf("%v", err)
	}
	versions := rapid.SampledFrom([]string{"", "0.9", "1.0.1", "2", "10.0", "2-beta"})
	return made, registry.CapabilityFacts{
		Registered: word.Draw(t, "name"), Reported: word.Draw(t, "own name"), ServerVersion: versions.Draw(t, "server version"),
		ProductVersion: versions.Draw(t, "product version"), Protocol: rapid.SampledFrom([]string{"", "2025-11-25", "2026-07-28", "next"}).Draw(t, "protocol"),
		Tools: rapid.MapOf(word, words).Draw(t, "seen"), Doubt: rapid.SampledFrom([]string{"", "", "", "handshake"}).Draw(t, "doubt"),
	}
}

// R87: what the report says of a key is what the gate does, for every key.
func TestReportAndGateAgreeForEveryKey(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		made, f := drawn(t)
		m := made.Resolve(f)
		at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
		told := map[string]registry.CapabilityState{}
		for _, s := range m.States {
			told[s.Row.Key] = s
		}
		for _, k := range made.Servers() {
			for _, row := range k.Rows {
				if told[row.Key].Available != m.Can(row.Key) {
					t.Fatalf("%s: the report says %t, the gate %t", row.Key, told[row.Key].Available, m.Can(row.Key))
				}
			}
		}
		blocked := m.Blocked()
		for _, tool := range []string{"a", "b", "c", "far-x", "other"} {
			off := ""
			for _, s := range m.States { // as the report tells them
				if off == "" && !s.Available && slices.Contains(s.Row.Gates, tool) {
					off = s.Row.Key
				}
			}
			denial := registry.Resolve(registry.ResolveFacts{
				Tool: &registry.Tool{ExternalID: tool, Enabled: true, Available: true}, Server: &registry.Server{State: registry.StateActive},
				ProviderEnabled: true, Capabilities: &m, Now: at,
			})
			want := &registry.Denial{Reason: registry.ReasonToolUnbound}
			if off != "" {
				want = &registry.Denial{Reason: registry.ReasonToolUnavailable, Detail: "capability:" + off}
			}
			if diff := cmp.Diff(want, denial); diff != "" {
				t.Fatalf("%s: %s", tool, diff)
			}
			if slices.Contains(blocked, tool) != (off != "") || m.Blocks(tool) != off {
				t.Fatalf("%s is switched off by %q, and the list of such is %v", tool, off, blocked)
			}
		}
	})
}

// C14, R84: the look only subtracts, and only what the table mentions counts.
func TestTheLookOnlySubtracts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		made, f := drawn(t)
		before := made.Resolve(f)
		fewer := f
		fewer.Tools = map[string][]string{}
		mentioned := f
		mentioned.Tools = map[string][]string{}
		gone := rapid.SampledFrom([]string{"a", "b", "c", "far-x"}).Draw(t, "gone")
		for name, args := range f.Tools {
			if name != gone {
				fewer.Tools[name] = args
			}
			if slices.Contains(made.Mentions().Tools, name) {
				mentioned.Tools[name] = args
			}
		}
		after, same := made.Resolve(fewer), made.Resolve(mentioned)
		for _, s := range before.States {
			if after.Can(s.Row.Key) && !s.Available {
				t.Fatalf("%s appeared as %s went", s.Row.Key, gone)
			}
			if same.Can(s.Row.Key) != s.Available {
				t.Fatalf("%s hangs on a tool that the table does not mention", s.Row.Key)
			}
			if s.Available && !s.Row.Available {
				t.Fatalf("%s is available against its row", s.Row.Key)
			}
		}
	})
}

func TestNoTableKnowsNothing(t *testing.T) {
	t.Parallel()
	var none *registry.CapabilityTable
	m := none.Resolve(facts(nil))
	if len(m.States)+len(m.Known) != 0 || m.Can("always") || m.Blocks("delete") != "" || len(none.Mentions().Tools) != 0 {
		t.Errorf("%+v", m)
	}
}

// R85: what was seen last is believed only while nothing speaks against it.
func TestFactsOfAServerKnowTheirDoubts(t *testing.T) {
	t.Parallel()
	met := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	good := registry.Server{
		Name: "n", State: registry.StateActive, ProductVersion: "3", ProtocolVersion: "2025-11-25", SnapshotDigest: "s", ToolsDigest: "t",
		TargetDigest: "g", Reported: registry.Finding{Name: "r", Version: "1.0"}, Discovery: registry.DiscoveryRun{Status: registry.DiscoverySucceeded, SucceededAt: met},
	}
	probe := func(change func(*registry.Probe)) *registry.Probe {
		p := &registry.Probe{Outcome: registry.OutcomeOK, TargetDigest: "g", ToolsDigest: "t", ProtocolVersion: "2026-07-28", ServerVersion: "1.1", At: met.Add(time.Hour)}
		if change != nil {
			change(p)
		}
		return p
	}
	for name, c := range map[string]struct {
		change          func(*registry.Server)
		probe           *registry.Probe
		doubt, protocol string
		version         string
		at              time.Time
	}{
		"discovered":                    {nil, nil, "", "2025-11-25", "1.0", met},
		"probed since":                  {nil, probe(nil), "", "2026-07-28", "1.1", met.Add(time.Hour)},
		"probed before":                 {nil, probe(func(p *registry.Probe) { p.At = met.Add(-time.Hour) }), "", "2025-11-25", "1.0", met},
		"a probe that saw another list": {nil, probe(func(p *registry.Probe) { p.ToolsDigest = "u" }), "", "2025-11-25", "1.0", met},
		"a probe of another target":     {nil, probe(func(p *registry.Probe) { p.TargetDigest = "h" }), "", "2025-11-25", "1.0", met},
		"a probe that failed":           {nil, probe(func(p *registry.Probe) { p.Outcome = registry.OutcomeFailed }), "", "2025-11-25", "1.0", met},
		"never discovered":              {func(s *registry.Server) { s.SnapshotDigest = "" }, nil, "it was not discovered yet", "2025-11-25", "1.0", met},
		"its first discovery failed": {func(s *registry.Server) {
			s.SnapshotDigest, s.Discovery.Status, s.Discovery.Reason = "", registry.DiscoveryFailed, registry.ReasonTimeout
		}, nil, "its first discovery failed: timeout", "2025-11-25", "1.0", met},
		"a later one failed before it was active": {func(s *registry.Server) {
			s.State, s.Discovery.Status, s.Discovery.Reason = registry.StateVerified, registry.DiscoveryFailed, registry.ReasonDNS
		}, nil, "the last discovery failed: dns", "2025-11-25", "1.0", met},
		"a later one failed while it is active": {func(s *registry.Server) { s.Discovery.Status = registry.DiscoveryFailed }, nil, "", "2025-11-25", "1.0", met},
		"its handshake fails": {func(s *registry.Server) {
			s.State, s.Causes = registry.StateDegraded, registry.CauseSet{registry.CauseHandshake}
		}, nil, "the last look at it failed or is not believed: handshake", "2025-11-25", "1.0", met},
		"an empty list": {func(s *registry.Server) {
			s.State, s.Causes = registry.StateDegraded, registry.CauseSet{registry.CauseSuspectEmpty}
		}, nil, "the last look at it failed or is not believed: suspect_empty", "2025-11-25", "1.0", met},
		"quarantined by a person": {func(s *registry.Server) {
			s.State, s.Causes = registry.StateDegraded, registry.CauseSet{registry.CauseQuarantined}
		}, nil, "", "2025-11-25", "1.0", met},
		"retired": {func(s *registry.Server) { s.State = registry.StateRetired }, nil, "the server is retired", "2025-11-25", "1.0", met},
	} {
		s := good
		if c.change != nil {
			c.change(&s)
		}
		got := registry.CapabilityFactsOf(&s, c.probe, nil)
		want := registry.CapabilityFacts{
			Registered: "n", Reported: "r", ServerVersion: c.version, ProductVersion: "3", Protocol: c.protocol, Doubt: c.doubt, At: c.at,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestArgumentsAreThePropertiesOfTheInput(t *testing.T) {
	t.Parallel()
	for definition, want := range map[string][]string{
		`{"name":"x","inputSchema":{"properties":{"b":{},"a":true}}}`: {"a", "b"},
		`{"inputSchema":{"properties":{"a\u0000b":{},"c":{}}}}`:       {"c"},
		`{"inputSchema":{}}`:                 nil,
		`{"inputSchema":true}`:               nil,
		`{"inputSchema":{"properties":[1]}}`: nil,
		`[{"name":"x"},{"name":"x"}]`:        nil,
		`{`:                                  nil,
	} {
		if diff := cmp.Diff(want, registry.ToolArgs([]byte(definition))); diff != "" {
			t.Errorf("%s: %s", definition, diff)
		}
	}
}
