package db_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/db"
	"countersign/registry"
)

func extensionConfig(id string) registry.ProviderConfig {
	return registry.ProviderConfig{
		BaseURL: "https://" + id + ".example/base", ExtensionID: "acme." + id, Authentication: registry.AuthWorkloadIdentity,
		GovernancePolicyRef: registry.PolicyDefault,
	}
}

func (w *world) extend(name string) registry.Provider {
	w.tb.Helper()
	p, _, err := w.CreateProvider(w.tb.Context(), name, extensionConfig(name), named("create_provider"), nil)
	if err != nil {
		w.tb.Fatal(err)
	}
	return p
}

// declared is a descriptor with servers of the ids; each contribution is
// "id server tool".
func declared(servers []string, contributions ...[3]string) db.Declared {
	d := db.Declared{URL: "https://x.example/.well-known/aep", Extension: registry.Extension{Name: "X", Version: "1"}}
	for _, id := range servers {
		d.Servers = append(d.Servers, registry.ProviderServer{ExternalID: id, URL: "https://" + id + ".example/mcp"})
	}
	for _, c := range contributions {
		d.Contributions = append(d.Contributions, registry.Contribution{ID: c[0], Server: c[1], Tool: c[2], DisplayName: "Tool " + c[0]})
	}
	return d
}

// plan begins a refresh and plans it.
func (w *world) plan(name string, d db.Declared) (registry.Provider, []registry.ProviderServer) {
	w.tb.Helper()
	p, err := w.BeginRefresh(w.tb.Context(), name, 0, named("refresh_provider"))
	if err != nil {
		w.tb.Fatal(err)
	}
	servers, err := w.PlanRefresh(w.tb.Context(), name, p.Refresh.Number, p.Config, d)
	if err != nil {
		w.tb.Fatal(err)
	}
	return p, servers
}

// declare registers a server that was planned.
func (w *world) declare(v registry.ProviderServer) (db.Applied, error) {
	g := w.registration(v.Name)
	g.ServerID, g.URL, g.ProviderID = v.ServerID, v.URL, v.ProviderID
	return w.Register(w.tb.Context(), g, named("register"), nil)
}

func (w *world) contributes(serverID string, s registry.Surface) registry.Server {
	w.tb.Helper()
	list, err := w.Contributions(w.tb.Context(), serverID)
	if err != nil {
		w.tb.Fatal(err)
	}
	snap := w.snapshot(s.Contributed(list))
	if err := w.SaveSnapshot(w.tb.Context(), snap); err != nil {
		w.tb.Fatal(err)
	}
	view, err := w.Server(w.tb.Context(), serverID)
	if err != nil {
		w.tb.Fatal(err)
	}
	look := registry.Look{Number: view.Discovery.Number + 1, TargetDigest: view.TargetDigest, RequestedBy: "ann", Origins: registry.Origins(list)}
	return w.must(w.change(serverID, "discovered", func(r *registry.Record, now time.Time) error {
		look.At = now
		return r.Discovered(snap, look)
	}))
}

func TestTheLifeOfAProvider(t *testing.T) {
	engines(t, func(t on) {
		w, ctx := newWorld(t, t.db, "acme"), t.Context()
		op, key := named("create_provider"), claim("k", "b")
		key.Operation = "create_provider"
		p, replayed, err := w.CreateProvider(ctx, "tools", extensionConfig("tools"), op, key)
		if err != nil || replayed || p.Version != 1 || p.Config != 1 || !p.Enabled || p.Family != registry.FamilyAEP || p.Refresh.Status != registry.RefreshNever {
			t.Fatalf("%+v, %v, %v", p, replayed, err)
		}
		again, replayed, err := w.CreateProvider(ctx, "tools", extensionConfig("tools"), named("create_provider"), key)
		if err != nil || !replayed || again.ProviderID != p.ProviderID {
			t.Errorf("a repeat: %+v, %v, %v", again, replayed, err)
		}
		_, _, err = w.CreateProvider(ctx, "tools", extensionConfig("other"), named("create_provider"), nil)
		refused(t, err, registry.ReasonProviderExists)

		// Names are those of all providers, silent ones too.
		_, err = w.Register(ctx, w.registration("tools"), named("register"), nil)
		refused(t, err, registry.ReasonProviderExists)
		w.register("weather")
		_, _, err = w.CreateProvider(ctx, "weather", extensionConfig("weather"), named("create_provider"), nil)
		refused(t, err, registry.ReasonProviderExists)

		fine := func(registry.ProviderConfig) error { return nil }
		base, text := "https://moved.example", "for people"
		_, _, err = w.EditProvider(ctx, "tools", registry.ProviderEdit{Etag: `"7"`, BaseURL: &base}, named("edit_provider"), nil, fine)
		refused(t, err, registry.ReasonStaleEtag)
		_, _, err = w.EditProvider(ctx, "weather", registry.ProviderEdit{BaseURL: &base}, named("edit_provider"), nil, fine)
		refused(t, err, registry.ReasonProviderFamily)
		p, _, err = w.EditProvider(ctx, "tools", registry.ProviderEdit{Etag: p.Etag(), Description: &text}, named("edit_provider"), nil, fine)
		if err != nil || p.Version != 2 || p.Config != 1 {
			t.Errorf("a description is nothing to refresh for: %+v, %v", p, err)
		}
		p, _, err = w.EditProvider(ctx, "tools", registry.ProviderEdit{BaseURL: &base}, named("edit_provider"), nil, fine)
		if err != nil || p.Version != 3 || p.Config != 3 || p.BaseURL != base || p.Description != text {
			t.Errorf("%+v, %v", p, err)
		}
		p, _, err = w.EditProvider(ctx, "tools", registry.ProviderEdit{BaseURL: &base}, named("edit_provider"), nil, fine)
		if err != nil || p.Version != 3 {
			t.Errorf("an edit that changes nothing: %+v, %v", p, err)
		}
		if p, err = w.SwitchProvider(ctx, "tools", false, "", named("disable_provider")); err != nil || p.Enabled || p.Version != 4 || p.Config != 3 {
			t.Errorf("%+v, %v", p, err)
		}
		if p, err = w.SwitchProvider(ctx, "tools", false, p.Etag(), named("disable_provider")); err != nil || p.Version != 4 {
			t.Errorf("disabled twice: %+v, %v", p, err)
		}

		views, next, total, err := w.Providers(ctx, db.ProviderQuery{Page: db.Page{Size: 1}})
		if err != nil || total != 2 || len(views) != 1 || views[0].Name != "tools" || next == "" || views[0].Server != nil {
			t.Errorf("%+v, %q, %d, %v", views, next, total, err)
		}
		views, next, _, err = w.Providers(ctx, db.ProviderQuery{Page: db.Page{Size: 1, After: next}})
		if err != nil || len(views) != 1 || next != "" || views[0].Server == nil || views[0].Server.Name != "weather" || views[0].ServerCount != 1 {
			t.Errorf("%+v, %q, %v", views, next, err)
		}
		if _, _, total, err = w.Providers(ctx, db.ProviderQuery{Family: registry.FamilyAEP}); err != nil || total != 1 {
			t.Errorf("%d, %v", total, err)
		}

		refused(t, w.DeleteProvider(ctx, "weather", "", named("delete_provider")), registry.ReasonProviderInUse)
		refused(t, w.DeleteProvider(ctx, "tools", `"1"`, named("delete_provider")), registry.ReasonStaleEtag)
		if err := w.DeleteProvider(ctx, "tools", p.Etag(), named("delete_provider")); err != nil {
			t.Fatal(err)
		}
		_, err = w.Provider(ctx, "tools")
		refused(t, err, registry.ReasonProviderNotFound)
		refused(t, w.DeleteProvider(ctx, "tools", "", named("delete_provider")), registry.ReasonProviderNotFound)
		_, err = w.SwitchProvider(ctx, "tools", true, "", named("enable_provider"))
		refused(t, err, registry.ReasonProviderNotFound)
		if p = w.extend("tools"); p.Version != 1 {
			t.Errorf("the name is free again: %+v", p)
		}
		if n := count(t, t.db, "SELECT count(*) FROM outbox WHERE event_type = '"+string(registry.EventProviderChanged)+"'"); n != 6 {
			t.Errorf("%d events", n)
		}
	})
}

func TestARefreshOfAProvider(t *testing.T) {
	engines(t, func(t on) {
		w, ctx := newWorld(t, t.db, "acme"), t.Context()
		w.extend("tools")
		p, servers := w.plan("tools", declared([]string{"utils", "Admin!"}, [3]string{"hash.compute", "utils", "hash_compute"}, [3]string{"gone", "utils", "no_such"}, [3]string{"users", "Admin!", "list"}))
		if len(servers) != 2 || servers[0].ExternalID != "utils" || servers[0].Name != "tools-utils" || !registry.ValidName(servers[1].Name) {
			t.Fatalf("%+v", servers)
		}
		// The retry of an activity finds the same ids.
		again, err := w.PlanRefresh(ctx, "tools", p.Refresh.Number, p.Config, declared([]string{"utils", "Admin!"}, [3]string{"hash.compute", "utils", "hash_compute"}, [3]string{"gone", "utils", "no_such"}, [3]string{"users", "Admin!", "list"}))
		ids := map[string]string{}
		for _, v := range again {
			ids[v.ExternalID] = v.ServerID
		}
		if err != nil || ids["utils"] != servers[0].ServerID || ids["Admin!"] != servers[1].ServerID {
			t.Errorf("%+v, %v", again, err)
		}
		if _, err := w.declare(servers[0]); err != nil {
			t.Fatal(err)
		}
		s := w.contributes(servers[0].ServerID, surface("hash_compute", "secret_tool"))
		if s.Discovery.Counts.New != 1 || s.ProviderID != p.ProviderID {
			t.Errorf("%+v", s.Discovery)
		}
		p, err = w.EndRefresh(ctx, "tools", p.Refresh.Number, nil, []registry.ServerOutcome{
			{ExternalID: "utils", Counts: s.Discovery.Counts}, {ExternalID: "Admin!", Reason: registry.ReasonServerExists, Message: "taken"},
		})
		if err != nil || p.Refresh.Status != registry.RefreshSucceeded || p.Refresh.Counts.New != 1 || p.Refresh.Extension.Name != "X" || p.Version != 1 {
			t.Errorf("%+v, %v", p.Refresh, err)
		}
		v, err := w.Provider(ctx, "tools")
		if err != nil || v.ServerCount != 1 || v.ContributionCount != 3 || len(v.Servers) != 2 {
			t.Fatalf("%+v, %v", v, err)
		}
		got := map[string]string{}
		for _, c := range v.Contributions {
			reason, _ := c.Issue()
			got[c.ID] = c.ToolID + " " + string(reason)
		}
		if diff := cmp.Diff(map[string]string{
			"hash.compute": "tools.hash.compute ", "gone": " mcp_tool_not_found", "users": " server_already_exists",
		}, got); diff != "" {
			t.Error(diff)
		}

		// What is approved is the contribution; executors call the tool behind it.
		w.approve(s, "hash.compute")
		w.resolves("tools.hash.compute", "")
		found, err := w.Resolve(ctx, []string{"tools.hash.compute"})
		if err != nil || found["tools.hash.compute"].Tool.CallName() != "hash_compute" || found["tools.hash.compute"].Tool.Title != "Tool hash.compute" {
			t.Errorf("%+v, %v", found, err)
		}
		if found, err = w.ResolveFor(ctx, []string{"tools.hash.compute"}, db.Caller{}); err != nil || found["tools.hash.compute"].Tool.CallName() != "hash_compute" {
			t.Errorf("%+v, %v", found, err)
		}
		if _, err := w.SwitchProvider(ctx, "tools", false, "", named("disable_provider")); err != nil {
			t.Fatal(err)
		}
		w.resolves("tools.hash.compute", registry.ReasonProviderDisabled)
		if _, err := w.SwitchProvider(ctx, "tools", true, "", named("enable_provider")); err != nil {
			t.Fatal(err)
		}
		refused(t, w.DeleteProvider(ctx, "tools", "", named("delete_provider")), registry.ReasonProviderInUse)

		// Another tool behind the contribution is another behaviour, although schema and words are the same.
		p, _ = w.plan("tools", declared([]string{"utils", "Admin!"}, [3]string{"hash.compute", "utils", "secret_tool"}))
		w.resolves("tools.hash.compute", "") // until a discovery, what was approved counts
		s = w.contributes(servers[0].ServerID, registry.Surface{
			ProtocolVersion: "2026-07-28", Name: "the server", Instructions: "Be kind.", Kinds: []string{"prompts", "resources", "tools"},
			Resources: surface().Resources, Prompts: surface().Prompts,
			Tools: [][]byte{[]byte(`{"name":"secret_tool","description":"does hash_compute","inputSchema":{"type":"object"}}`)},
		})
		w.resolves("tools.hash.compute", registry.ReasonSchemaChanged)
		if _, err := w.EndRefresh(ctx, "tools", p.Refresh.Number, nil, nil); err != nil {
			t.Fatal(err)
		}

		// A failed refresh touches nothing.
		before, err := w.Provider(ctx, "tools")
		if err != nil {
			t.Fatal(err)
		}
		p, err = w.BeginRefresh(ctx, "tools", 0, named("refresh_provider"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.PlanRefresh(ctx, "tools", p.Refresh.Number, p.Config, declared(nil))
		refused(t, err, registry.ReasonDescriptorInvalid)
		e, _ := registry.AsError(err)
		if p, err = w.EndRefresh(ctx, "tools", p.Refresh.Number, e, nil); err != nil || p.Refresh.Status != registry.RefreshFailed || len(p.Refresh.Faults) != 1 {
			t.Errorf("%+v, %v", p.Refresh, err)
		}
		after, err := w.Provider(ctx, "tools")
		if err != nil || !cmp.Equal(before.Servers, after.Servers) || !cmp.Equal(before.Contributions, after.Contributions) {
			t.Errorf("a failed refresh changed something: %v", err)
		}

		// A server that is declared no more is forgotten when it has ended.
		p, servers = w.plan("tools", declared([]string{"Admin!"}, [3]string{"users", "Admin!", "list"}))
		for _, v := range servers {
			if v.Declared != (v.ExternalID == "Admin!") {
				t.Errorf("%+v", v)
			}
		}
		w.must(w.change(s.ServerID, "retire", func(r *registry.Record, now time.Time) error { return r.Retire(named("retire"), "", now) }))
		if _, err = w.EndRefresh(ctx, "tools", p.Refresh.Number, nil, nil); err != nil {
			t.Fatal(err)
		}
		if v, err = w.Provider(ctx, "tools"); err != nil || len(v.Servers) != 1 || v.ServerCount != 0 {
			t.Errorf("%+v, %v", v.Servers, err)
		}
		if err := w.DeleteProvider(ctx, "tools", "", named("delete_provider")); err != nil {
			t.Error(err)
		}
	})
}

func TestRefreshesOfAProviderTakeTurns(t *testing.T) {
	engines(t, func(t on) {
		w, ctx := newWorld(t, t.db, "acme"), t.Context()
		w.extend("tools")
		begin := func(running int64) int64 {
			t.Helper()
			p, err := w.BeginRefresh(ctx, "tools", running, named("refresh_provider"))
			if err != nil {
				t.Fatal(err)
			}
			return p.Refresh.Number
		}
		if n := begin(0); n != 1 {
			t.Errorf("number %d", n)
		}
		if n := begin(1); n != 1 {
			t.Errorf("one that runs is joined: %d", n)
		}
		if n := begin(0); n != 2 {
			t.Errorf("one whose workflow ended without a word: %d", n)
		}
		p, err := w.Provider(ctx, "tools")
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.PlanRefresh(ctx, "tools", 1, p.Config, declared([]string{"late"}))
		refused(t, err, registry.ReasonConflictingWrite)
		moved := "https://moved.example"
		if _, _, err = w.EditProvider(ctx, "tools", registry.ProviderEdit{BaseURL: &moved}, named("edit_provider"), nil, func(registry.ProviderConfig) error { return nil }); err != nil {
			t.Fatal(err)
		}
		_, err = w.PlanRefresh(ctx, "tools", 2, p.Config, declared([]string{"elsewhere"}))
		refused(t, err, registry.ReasonConflictingWrite)
		if n := begin(2); n != 3 {
			t.Errorf("another configuration is another refresh: %d", n)
		}
		v, err := w.Provider(ctx, "tools")
		if err != nil || len(v.Servers) != 0 {
			t.Errorf("%+v, %v", v.Servers, err)
		}
		// A server that nobody declares, or whose provider is gone, is not registered.
		_, servers := w.plan("tools", declared([]string{"a"}))
		stray := servers[0]
		stray.ServerID = w.registration("x").ServerID
		_, err = w.declare(stray)
		refused(t, err, registry.ReasonProviderNotFound)
		if err := w.DeleteProvider(ctx, "tools", "", named("delete_provider")); err != nil {
			t.Fatal(err)
		}
		_, err = w.declare(servers[0])
		refused(t, err, registry.ReasonProviderNotFound)
		_, err = w.EndRefresh(ctx, "tools", v.Refresh.Number+1, nil, nil)
		refused(t, err, registry.ReasonProviderNotFound)
	})
}
