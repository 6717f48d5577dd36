package worker_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/db"
	"countersign/mcptest"
	"countersign/registry"
	"countersign/workflows"
)

func TestAnExtensionBecomesServersAndTools(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "sqlite")
	one, two, ext := offers(t, "hash", "secret"), offers(t, "list"), extends(t)
	ext.servers = [][2]string{{"utils", one.URL}, {"admin", two.URL}}
	ext.tools = [][3]string{{"hash.compute", "utils", "hash"}, {"gone", "utils", "no_such"}, {"users.list", "admin", "list"}}
	v := h.provides("tools", ext.config())
	if r := v.Refresh; r.Status != registry.RefreshSucceeded || r.Counts != (registry.Counts{New: 2, Total: 2}) || r.RequestedBy != "ann" {
		t.Fatalf("%+v", r)
	}
	if diff := cmp.Diff(map[string]registry.Reason{"gone": registry.ReasonMCPToolNotFound}, issues(v)); diff != "" {
		t.Error(diff)
	}
	h.approve("tools-utils", "hash.compute")
	h.approve("tools-admin", "users.list")
	for _, id := range []string{"tools.hash.compute", "tools.users.list"} {
		if why := h.denial(id); why != "" {
			t.Errorf("%s is denied: %s", id, why)
		}
	}
	if found, err := h.store().Resolve(t.Context(), []string{"tools.hash.compute"}); err != nil || found["tools.hash.compute"].Tool.CallName() != "hash" {
		t.Errorf("an executor would call %+v, %v", found["tools.hash.compute"].Tool, err)
	}
	if found, err := h.store().Resolve(t.Context(), []string{"tools.secret", "tools-utils.secret"}); err != nil || len(found) > 0 {
		t.Errorf("a tool that nobody contributes: %v, %v", found, err)
	}
	h.sweep(time.Now().UTC().Truncate(time.Minute)) // a probe sees the tools as contributed
	if s := h.get("tools-utils"); s.State != registry.StateActive || s.Doubted || s.Discovery.Number != 1 {
		t.Errorf("after a probe: %s %v, discovery %d", s.State, s.Doubted, s.Discovery.Number)
	}

	// The same again changes nothing.
	if v = h.refreshes("tools"); v.Refresh.Counts != (registry.Counts{Unchanged: 2, Total: 2}) || h.denial("tools.hash.compute") != "" {
		t.Errorf("%+v", v.Refresh)
	}

	// A failed refresh touches nothing, and says why.
	ext.edit(func(e *extension) { e.identity = "acme.other" })
	before := v
	v = h.refreshes("tools")
	if v.Refresh.Status != registry.RefreshFailed || v.Refresh.Reason != registry.ReasonIdentityMismatch || len(v.Refresh.Faults) == 0 {
		t.Errorf("%+v", v.Refresh)
	}
	if !cmp.Equal(before.Servers, v.Servers) || !cmp.Equal(before.Contributions, v.Contributions) || h.denial("tools.hash.compute") != "" {
		t.Error("a failed refresh touched something")
	}

	// Another configuration refreshes by itself, and keeps what was found and switched.
	h.editProvider("tools", registry.ProviderEdit{ExtensionID: new("acme.other")})
	if v = h.provider("tools"); v.Refresh.Status != registry.RefreshSucceeded || h.denial("tools.hash.compute") != "" {
		t.Errorf("%+v", v.Refresh)
	}

	// A server that moves is met there, as somebody else until that is approved; one that is gone is retired.
	three := offers(t, "hash")
	ext.edit(func(e *extension) {
		e.servers, e.tools = [][2]string{{"utils", three.URL}}, [][3]string{{"hash.compute", "utils", "hash"}}
	})
	v = h.refreshes("tools")
	if len(v.Servers) != 1 || v.ServerCount != 1 || v.Refresh.Counts.Unavailable != 1 {
		t.Errorf("%+v, %+v", v.Servers, v.Refresh.Counts)
	}
	if s := h.get("tools-utils"); s.Connection.URL != three.URL || h.denial("tools.hash.compute") != registry.ReasonSchemaChanged {
		t.Errorf("%s, %s", s.Connection.URL, h.denial("tools.hash.compute"))
	}
	h.retire("tools-utils")
	v = h.refreshes("tools")
	if len(v.Servers) != 1 || v.Servers[0].Reason != registry.ReasonServerRetired || v.ServerCount != 0 {
		t.Errorf("what a person retired stays retired: %+v", v.Servers)
	}
	if err := h.store().DeleteProvider(t.Context(), "tools", "", operation("delete_provider")); err != nil {
		t.Error(err)
	}
	if _, _, err := h.client.RefreshProvider(t.Context(), workflows.BeginRefreshInput{Tenant: "default", Name: "tools", Operation: operation("refresh_provider")}); registry.ReasonOf(err) != registry.ReasonProviderNotFound {
		t.Errorf("%v", err)
	}
}

func TestWhatOneServerOfAnExtensionRefusesLeavesTheOthers(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "sqlite")
	h.register("tools-taken", offers(t, "a").URL)
	dead := offers(t, "x")
	dead.Edit(func(s *mcptest.Script) { s.Fault(mcptest.Any, mcptest.Status(404, nil, "")) })
	ext := extends(t)
	ext.servers = [][2]string{{"good", offers(t, "a").URL}, {"taken", offers(t, "a").URL}, {"dead", dead.URL}, {"inside", "http://169.254.169.254/mcp"}}
	ext.tools = [][3]string{{"a", "good", "a"}, {"b", "taken", "a"}, {"c", "dead", "x"}, {"d", "inside", "x"}}
	v := h.provides("tools", ext.config())
	got := map[string]registry.Reason{}
	for _, s := range v.Servers {
		got[s.ExternalID] = s.Reason
	}
	if diff := cmp.Diff(map[string]registry.Reason{
		"good": "", "taken": registry.ReasonServerExists, "dead": h.get("tools-dead").Discovery.Reason, "inside": registry.ReasonBlockedAddress,
	}, got); diff != "" {
		t.Error(diff)
	}
	if v.Refresh.Status != registry.RefreshSucceeded || v.Refresh.Counts != (registry.Counts{New: 1, Total: 1}) {
		t.Errorf("%+v", v.Refresh)
	}
	if found := issues(v); len(found) != 3 || found["b"] != registry.ReasonServerExists || found["d"] != registry.ReasonBlockedAddress {
		t.Errorf("%v", found)
	}
	// What was refused is tried again: the name is free now.
	h.retire("tools-taken")
	v = h.refreshes("tools")
	for _, s := range v.Servers {
		if s.ExternalID == "taken" && (s.Reason != "" || s.State != registry.StateVerified) {
			t.Errorf("%+v", s)
		}
	}
}

func TestRefreshesAtOnceAreOne(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "sqlite")
	ext := extends(t)
	ext.servers, ext.tools = [][2]string{{"utils", offers(t, "a").URL}}, [][3]string{{"a", "utils", "a"}}
	h.provides("tools", ext.config())
	hold := make(chan struct{})
	ext.edit(func(e *extension) { e.hold, e.asked = hold, 0 })
	numbers := make([]int64, 5)
	var all sync.WaitGroup
	begun := make(chan struct{}, len(numbers))
	for i := range numbers {
		all.Go(func() {
			out, run, err := h.client.RefreshProvider(t.Context(), workflows.BeginRefreshInput{Tenant: "default", Name: "tools", Operation: operation("refresh_provider")})
			begun <- struct{}{}
			if err == nil {
				err = h.client.AwaitRun(t.Context(), run)
			}
			if err != nil {
				t.Error(err)
			}
			numbers[i] = out.Provider.Refresh.Number
		})
	}
	for range numbers {
		<-begun
	}
	close(hold)
	all.Wait()
	for _, n := range numbers {
		if n != 2 {
			t.Errorf("numbers %v", numbers)
		}
	}
	ext.edit(func(e *extension) {
		if e.asked != 1 {
			t.Errorf("the extension was asked %d times", e.asked)
		}
	})
	if r := h.provider("tools").Refresh; r.Status != registry.RefreshSucceeded {
		t.Errorf("%+v", r)
	}

	// Another configuration meanwhile overtakes the refresh that runs.
	other := extends(t)
	other.servers, other.tools = [][2]string{{"utils", offers(t, "a", "b").URL}}, [][3]string{{"a", "utils", "a"}, {"b", "utils", "b"}}
	hold = make(chan struct{})
	ext.edit(func(e *extension) { e.hold = hold })
	if _, _, err := h.client.RefreshProvider(t.Context(), workflows.BeginRefreshInput{Tenant: "default", Name: "tools", Operation: operation("refresh_provider")}); err != nil {
		t.Fatal(err)
	}
	_, err := h.client.SaveProvider(t.Context(), workflows.SaveProviderInput{
		Tenant: "default", Name: "tools", Operation: operation("edit_provider"), Edit: registry.ProviderEdit{BaseURL: &other.URL},
	})
	if err != nil {
		t.Fatal(err)
	}
	close(hold)
	h.closed(workflows.ProviderWorkflowID("default", "tools"))
	if v := h.provider("tools"); v.Refresh.Number != 4 || v.Refresh.Status != registry.RefreshSucceeded || len(v.Contributions) != 2 {
		t.Errorf("%+v", v.Refresh)
	}
}

func TestATestOfAProviderWritesNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "sqlite")
	ext := extends(t)
	ext.servers, ext.tools = [][2]string{{"utils", offers(t, "a").URL}}, [][3]string{{"a", "utils", "a"}}
	before := h.provides("tools", ext.config())
	if _, err := h.store().SwitchProvider(t.Context(), "tools", false, "", operation("disable_provider")); err != nil {
		t.Fatal(err)
	}
	dead := offers(t, "x")
	dead.Edit(func(s *mcptest.Script) { s.Fault(mcptest.Any, mcptest.Status(404, nil, "")) })
	ext.edit(func(e *extension) {
		e.servers = append(e.servers, [2]string{"more", offers(t, "b").URL}, [2]string{"dead", dead.URL})
		e.tools = append(e.tools, [3]string{"b", "more", "b"}, [3]string{"c", "more", "nothing"}, [3]string{"d", "dead", "x"})
	})
	report, err := h.client.TestProvider(t.Context(), workflows.TestProviderInput{Tenant: "default", Name: "tools"})
	if err != nil || report.OK || report.Reason != "" || len(report.Servers) != 3 || report.Contributions != 4 || report.ExtensionName != "Tools" {
		t.Fatalf("%+v, %v", report, err)
	}
	if !report.Servers[0].Report.OK || !report.Servers[1].Report.OK || report.Servers[2].Report.OK || report.Servers[2].Report.Reason == "" {
		t.Errorf("%+v", report.Servers)
	}
	if len(report.Issues) != 1 || report.Issues[0].ID != "c" || report.Issues[0].Reason != registry.ReasonMCPToolNotFound {
		t.Errorf("%+v", report.Issues)
	}
	ext.edit(func(e *extension) { e.tools = append(e.tools, [3]string{"e", "undeclared", "x"}) })
	report, err = h.client.TestProvider(t.Context(), workflows.TestProviderInput{Tenant: "default", Name: "tools"})
	if err != nil || report.OK || report.Reason != registry.ReasonDescriptorInvalid || len(report.Faults) != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	after := h.provider("tools")
	after.Enabled, after.Version = before.Enabled, before.Version
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
	if _, _, total, err := h.store().Servers(t.Context(), db.ServerQuery{ShowRetired: true}); err != nil || total != 1 {
		t.Errorf("%d servers, %v", total, err)
	}
}
