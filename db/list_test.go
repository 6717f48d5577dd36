package db_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/db"
	"countersign/registry"
)

// Between pages rows come and go, and many have the same time: what was there
// all along is seen exactly once (S1).
func TestPagesLoseAndRepeatNothing(t *testing.T) {
	for order, n := range map[db.Order]int{
		{}: 40, {Field: "name", Desc: true}: 40, {Field: "create_time"}: 300, {Field: "create_time", Desc: true}: 40, {Field: "update_time"}: 40,
	} {
		t.Run(fmt.Sprintf("%+v", order), func(t *testing.T) {
			engines(t, func(t on) {
				d := t.db
				w := newWorld(t, d, "acme")
				stays := map[string]bool{}
				goes := map[int]string{}
				for i := range n {
					s := w.register(fmt.Sprintf("server-%03d", i))
					if i%10 == 3 {
						goes[i] = s.ServerID
					} else {
						stays[s.ServerID] = true
					}
				}
				exec(t, d, "UPDATE mcp_servers SET created_at = '2026-01-01 00:00:00.5+00:00', updated_at = '2026-01-01 00:00:00+00:00'")
				seen := map[string]int{}
				var names []string
				page := db.Page{Size: 7}
				for pages := 0; ; pages++ {
					views, next, total, err := w.Servers(t.Context(), db.ServerQuery{Page: page, Order: order})
					if err != nil {
						t.Fatal(err)
					}
					if pages == 0 && total != n {
						t.Errorf("%d match, want %d", total, n)
					}
					for _, v := range views {
						seen[v.ServerID]++
						names = append(names, v.Name)
					}
					if next == "" {
						break
					}
					page.After = next
					for i, id := range goes {
						w.retire(id)
						delete(goes, i)
						break
					}
					w.register(fmt.Sprintf("new-%03d", pages))
				}
				for id := range stays {
					if seen[id] != 1 {
						t.Fatalf("%s is seen %d times", id, seen[id])
					}
				}
				for id, times := range seen {
					if times != 1 {
						t.Fatalf("%s is seen %d times", id, times)
					}
				}
				if order.Field == "" && !slices.IsSorted(names) {
					t.Error("not sorted")
				}
			})
		})
	}
}

func TestPagesOfTools(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		w := newWorld(t, d, "acme")
		var want []string
		for i := range 3 {
			var names []string
			for j := range 20 {
				names = append(names, fmt.Sprintf("Tool-%02d_%c", j, 'a'+j%3))
			}
			s := w.register(fmt.Sprintf("s%d", i))
			w.discover(s.ServerID, surface(names...))
			for _, name := range names {
				want = append(want, s.Name+"."+name)
			}
		}
		slices.Sort(want)
		old := w.register("old")
		w.discover(old.ServerID, surface("gone"))
		w.retire(old.ServerID)
		for _, order := range []db.Order{{}, {Field: "tool_id", Desc: true}, {Field: "first_seen_time"}, {Field: "first_seen_time", Desc: true}} {
			var got []string
			for page := (db.Page{Size: 7}); ; {
				tools, next, total, err := w.Tools(t.Context(), db.ToolQuery{Page: page, Order: order})
				if err != nil || total != len(want) {
					t.Fatalf("%d match, want %d: %v", total, len(want), err)
				}
				for _, tool := range tools {
					got = append(got, tool.Tool.ToolID)
				}
				if page.After = next; next == "" {
					break
				}
			}
			if order == (db.Order{Field: "tool_id", Desc: true}) {
				slices.Reverse(got)
			}
			if order.Field == "first_seen_time" {
				slices.Sort(got)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%+v: %s", order, diff)
			}
		}
		tools, _, total, err := w.Tools(t.Context(), db.ToolQuery{ShowRetired: true, Conditions: []db.Condition{{Field: "server", Op: db.OpIs, Value: "old"}}})
		if err != nil || total != 1 || tools[0].Denial.Reason != registry.ReasonServerRetired {
			t.Errorf("retired: %+v, %v", tools, err)
		}
	})
}

func TestFilters(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		w := newWorld(t, d, "acme")
		one := w.register("one")
		g := w.registration("two")
		g.Direction, g.Labels, g.Owner = registry.DirectionExposed, map[string]string{"Tier": "gold", "12": "x"}, "O'Brien \\ %_ é"
		w.must(w.Register(t.Context(), g, named("register"), nil))
		w.retire(w.register("three").ServerID)
		one = w.approve(w.discover(one.ServerID, surface("forecast", "alerts")), "forecast")
		for _, test := range []struct {
			conditions string // field op value, by ";"
			want       string
		}{
			{"", "one two"},
			{"name = one", "one"},
			{"name != one", "two"},
			{"name : O", "one two"},
			{"state = active", "one"},
			{"state = retired", "three"},
			{"state != active", "two"},
			{"direction = exposed", "two"},
			{"transport = streamable_http", "one two"},
			{"authentication = workload_identity;direction = consumed", "one"},
			{"owner = O'Brien \\ %_ é", "two"},
			{"owner : BRIEN", "two"},
			{"owner : %", "two"},
			{"labels.team/x.y = one", "one"},
			{"labels.Tier = gold", "two"},
			{"labels.tier = gold", ""},
			{"labels.12 = x", "two"},
			{"labels.Tier != gold", "one"},
			{"labels.Tier : *", "two"},
			{"labels.$[0] = x", ""},
			{"labels.$x[ = x", ""},
			{"labels.a' OR '1'='1 = x", ""},
			{"owner = ' OR 1=1 --", ""},
		} {
			views, _, total, err := w.Servers(t.Context(), db.ServerQuery{Conditions: conditions(test.conditions)})
			if err != nil {
				t.Errorf("%s: %v", test.conditions, err)
				continue
			}
			var names []string
			for _, v := range views {
				names = append(names, v.Name)
			}
			if got := strings.Join(names, " "); got != test.want || total != len(views) {
				t.Errorf("%s: %q of %d, want %q", test.conditions, got, total, test.want)
			}
		}
		for _, test := range []struct{ conditions, want string }{
			{"", "one.alerts one.forecast"},
			{"tool_id = one.alerts", "one.alerts"},
			{"name : CAST", "one.forecast"},
			{"server_id = " + one.ServerID, "one.alerts one.forecast"},
			{"server = one;enabled = true", "one.forecast"},
			{"provider = one;enabled != true", "one.alerts"},
			{"available = false", ""},
			{"bound = true", "one.forecast"},
			{"bound = false", "one.alerts"},
			{"class = read", "one.forecast"},
			{"class != read", "one.alerts"},
			{"class : *", "one.forecast"},
			{"callable = true", "one.forecast"},
			{"callable = false", "one.alerts"},
			{"quarantined = true", ""},
			{"quarantined = false", "one.alerts one.forecast"},
			{"requires_approval = false;callable = true", "one.forecast"},
			{"labels.team/x.y = one", "one.alerts one.forecast"},
			{"labels.env = test", ""},
		} {
			views, _, total, err := w.Tools(t.Context(), db.ToolQuery{Conditions: conditions(test.conditions)})
			if err != nil {
				t.Errorf("%s: %v", test.conditions, err)
				continue
			}
			var names []string
			for _, v := range views {
				names = append(names, v.Tool.ToolID)
			}
			if got := strings.Join(names, " "); got != test.want || total != len(views) {
				t.Errorf("%s: %q of %d, want %q", test.conditions, got, total, test.want)
			}
		}
		for _, bad := range []string{"nothing = x", "labels. = x", "labels = x", "name < x", "server_id = x"} {
			_, _, _, err := w.Servers(t.Context(), db.ServerQuery{Conditions: conditions(bad)})
			refused(t, err, registry.ReasonInvalidFilter)
		}
		for _, bad := range []string{"enabled = maybe", "enabled : true", "labels = y", "state = active", "callable = x", "callable : true"} {
			_, _, _, err := w.Tools(t.Context(), db.ToolQuery{Conditions: conditions(bad)})
			refused(t, err, registry.ReasonInvalidFilter)
		}
		_, _, _, err := w.Servers(t.Context(), db.ServerQuery{Order: db.Order{Field: "owner"}})
		refused(t, err, registry.ReasonInvalidOrder)
		_, _, _, err = w.Tools(t.Context(), db.ToolQuery{Order: db.Order{Field: "name"}})
		refused(t, err, registry.ReasonInvalidOrder)
		for _, token := range []string{"x", `["a"]`, `["a","b","c","d"]`, `{}`, `[1,2]`} {
			_, _, _, err := w.Servers(t.Context(), db.ServerQuery{Page: db.Page{After: token}})
			refused(t, err, registry.ReasonInvalidPageToken)
			_, _, _, err = w.Servers(t.Context(), db.ServerQuery{Order: db.Order{Field: "create_time"}, Page: db.Page{After: `["yesterday","b"]`}})
			refused(t, err, registry.ReasonInvalidPageToken)
			_, _, err = w.Audit(t.Context(), db.AuditQuery{Page: db.Page{After: token}})
			refused(t, err, registry.ReasonInvalidPageToken)
		}
	})
}

func conditions(list string) []db.Condition {
	var out []db.Condition
	for one := range strings.SplitSeq(list, ";") {
		if one != "" {
			words := strings.SplitN(one, " ", 3)
			if strings.Contains(words[0], "'") || strings.HasPrefix(one, "labels.a'") {
				i := strings.LastIndex(one, " = ")
				words = []string{one[:i], "=", one[i+3:]}
			}
			out = append(out, db.Condition{Field: words[0], Op: db.Op(words[1]), Value: words[2]})
		}
	}
	return out
}

func TestAServerIsFoundByIDOrName(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		w := newWorld(t, d, "acme")
		first := w.register("weather")
		w.retire(first.ServerID)
		second := w.register("weather")
		w.retire(second.ServerID)
		find := func(ref, want string) {
			t.Helper()
			v, err := w.Server(t.Context(), ref)
			if err != nil || v.ServerID != want {
				t.Errorf("%s finds %s, want %s: %v", ref, v.ServerID, want, err)
			}
		}
		find("weather", second.ServerID)
		find(first.ServerID, first.ServerID)
		third := w.register("weather")
		find("weather", third.ServerID)
		// A name may look like an id; the id counts.
		g := w.registration(first.ServerID)
		mimic := w.must(w.Register(t.Context(), g, named("register"), nil))
		find(first.ServerID, first.ServerID)
		find(mimic.ServerID, mimic.ServerID)
		_, err := w.Server(t.Context(), "nobody")
		refused(t, err, registry.ReasonServerNotFound)
	})
}

func TestExposedServersOfferWhatIsBoundAndThere(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		w := newWorld(t, d, "acme")
		s := surface("forecast", "alerts", "radar")
		s.Resources = append(s.Resources, []byte(`{"uri":"file:///team","name":"team"}`), []byte(`{"uri":"file:///free","name":"free"}`))
		s.Templates = [][]byte{[]byte(`{"uriTemplate":"city://{name}","name":"city"}`)}
		expose := func(name string) registry.Server {
			g := w.registration(name)
			g.Direction = registry.DirectionExposed
			server := w.must(w.Register(t.Context(), g, named("register"), nil))
			server = w.discover(server.ServerID, s)
			op := named("approve")
			return w.must(w.Apply(t.Context(), db.Change{
				ServerID: server.ServerID, Operation: op, Catalog: func(*registry.Server) bool { return true },
				Apply: func(r *registry.Record, now time.Time) error {
					r.Governance = demands(registry.ApprovalVerdict{Needed: 1})
					return r.Decide(registry.Ruling{Verb: registry.VerbApprove, Approval: &registry.Approval{
						Digest: server.Review.Digest,
						Tools: []registry.ToolLine{
							{Tool: "forecast", Class: registry.ClassRead, Enable: true}, {Tool: "alerts", Class: registry.ClassSandbox},
						},
						Resources: []registry.ResourceLine{
							{URI: "file:///readme"}, {URI: "file:///team", Scope: "team-a", Classification: "secret"}, {URI: "city://{name}"},
						},
						Prompts: []registry.PromptLine{{Prompt: "greet", SkillID: "s"}},
					}}, op, now)
				},
			}))
		}
		list := func(scope string) []string {
			t.Helper()
			var out []string
			for page := (db.Page{Size: 2}); ; {
				items, next, err := w.Exposed(t.Context(), scope, page)
				if err != nil {
					t.Fatal(err)
				}
				for _, i := range items {
					out = append(out, strings.Join([]string{i.ServerName, string(i.Kind), i.Name, i.ToolID, string(i.DeclaredClass), i.Classification}, "|"))
				}
				if page.After = next; next == "" {
					return out
				}
			}
		}
		if got := list(""); len(got) != 0 {
			t.Errorf("nothing is exposed yet: %v", got)
		}
		server := expose("ours")
		other := w.register("theirs") // consumed
		w.approve(w.discover(other.ServerID, surface("x")), "x")
		all := []string{
			"ours|prompt|greet|||", "ours|resource|city://{name}|||internal", "ours|resource|file:///readme|||internal",
			"ours|tool|forecast|ours.forecast|read|",
		}
		if diff := cmp.Diff(all, list("")); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(slices.Insert(slices.Clone(all), 3, "ours|resource|file:///team|||secret"), list("team-a")); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(all, list("team-b")); diff != "" {
			t.Error(diff)
		}
		// What the server no longer offers, or offers otherwise, is not listed.
		s.Tools, s.Templates, s.Prompts = s.Tools[:2], nil, [][]byte{[]byte(`{"name":"greet","description":"another text"}`)}
		w.discover(server.ServerID, s)
		if diff := cmp.Diff([]string{all[2], all[3]}, list("")); diff != "" {
			t.Error(diff)
		}
		exec(t, d, "UPDATE mcp_servers SET target_digest = 'elsewhere' WHERE name = 'ours'")
		if got := list("team-a"); len(got) != 0 {
			t.Errorf("at another target: %v", got)
		}
		w.retire(server.ServerID)
		if got := list(""); len(got) != 0 {
			t.Errorf("retired: %v", got)
		}
	})
}
