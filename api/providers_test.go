package api

import (
	"net/http"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"countersign/db"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
	"countersign/workflows"
)

func extensionOf(name string) *pb.AepProviderConfig {
	return &pb.AepProviderConfig{
		BaseUrl: "https://" + name + ".example/base", ExtensionId: "acme." + name,
		Authentication: pb.McpAuthentication_MCP_AUTHENTICATION_OAUTH2_PROTECTED_RESOURCE,
	}
}

func extends(name string, change func(*pb.AepProviderConfig)) *pb.CreateToolProviderRequest {
	c := extensionOf(name)
	if change != nil {
		change(c)
	}
	return &pb.CreateToolProviderRequest{Name: name, Config: &pb.CreateToolProviderRequest_Aep{Aep: c}}
}

func TestAProviderOfAnExtension(t *testing.T) {
	t.Parallel()
	h := open(t)
	made, o := rest[*pb.CreateToolProviderResponse](t, h, doProvide, extends("tools", nil), keyed("k"))
	p := made.GetProvider()
	if o.status != http.StatusCreated || p.GetName() != "tools" || !p.GetEnabled() || p.GetEtag() != `"1"` || p.GetFamily() != pb.ToolProviderFamily_TOOL_PROVIDER_FAMILY_AEP ||
		p.GetAep().GetGovernancePolicyRef() != "default" || p.GetRefresh().GetStatus() != pb.ProviderRefreshStatus_PROVIDER_REFRESH_STATUS_NEVER {
		t.Errorf("%+v, %v", o, p)
	}
	if _, o := rest[*pb.CreateToolProviderResponse](t, h, doProvide, extends("tools", nil), keyed("k")); o.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%+v", o)
	}
	store := h.db.Tenant(alpha)
	refresh, _ := rest[*pb.RefreshToolProviderResponse](t, h, doRefresh, &pb.RefreshToolProviderRequest{Name: "tools", Wait: durationpb.New(0)}, nil)
	if refresh.GetDone() || refresh.GetRun().GetType() != "ProviderRefresh" || refresh.GetProvider().GetRefresh().GetStatus() != pb.ProviderRefreshStatus_PROVIDER_REFRESH_STATUS_RUNNING {
		t.Errorf("%v", refresh)
	}
	planned, err := store.PlanRefresh(t.Context(), "tools", 1, 1, db.Declared{
		URL: "https://tools.example/base/.well-known/aep", Extension: registry.Extension{Name: "Tools", Version: "1"},
		Servers:       []registry.ProviderServer{{ExternalID: "utils", URL: "https://tools.example/mcp"}},
		Contributions: []registry.Contribution{{ID: "hash.compute", Server: "utils", Tool: "hash_compute", DisplayName: "Hash"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.EndRefresh(t.Context(), "tools", 1, nil, []registry.ServerOutcome{
		{ExternalID: "utils", Reason: registry.ReasonQuotaExceeded, Message: "no room", Counts: registry.Counts{New: 2, Total: 3}},
	}); err != nil {
		t.Fatal(err)
	}
	close(h.flows.end("provider/" + alpha + "/tools"))
	refresh, o = rest[*pb.RefreshToolProviderResponse](t, h, doRefresh, &pb.RefreshToolProviderRequest{Name: "tools"}, nil)
	if !refresh.GetDone() || o.status != http.StatusOK {
		t.Errorf("%+v, %v", o, refresh)
	}
	got, _ := rest[*pb.GetToolProviderResponse](t, h, doProvider, &pb.GetToolProviderRequest{Name: "tools"}, nil)
	p = got.GetProvider()
	if s := p.GetServers(); len(s) != 1 || s[0].GetServerName() != "tools-utils" || s[0].GetServerId() != planned[0].ServerID || s[0].GetReason() != "quota_exceeded" {
		t.Errorf("%v", s)
	}
	if c := p.GetContributions(); len(c) != 1 || c[0].GetReason() != "quota_exceeded" || c[0].GetAvailable() || c[0].GetMcpTool() != "hash_compute" {
		t.Errorf("%v", c)
	}
	if p.GetRefresh().GetCounts().GetTotalTools() != 3 || p.GetRefresh().GetExtension().GetName() != "Tools" {
		t.Errorf("%v", p.GetRefresh())
	}

	edit := &pb.UpdateToolProviderRequest{
		Name: "tools", Description: "x", Config: &pb.UpdateToolProviderRequest_Aep{Aep: &pb.AepProviderConfig{BaseUrl: "https://moved.example"}},
		UpdateMask: mask("description", "aep.base_url"), Etag: p.GetEtag(),
	}
	edited, _ := rest[*pb.UpdateToolProviderResponse](t, h, doReprovide, edit, nil)
	if e := edited.GetProvider(); e.GetEtag() != `"2"` || e.GetDescription() != "x" || e.GetAep().GetBaseUrl() != "https://moved.example" || e.GetAep().GetExtensionId() != "acme.tools" {
		t.Errorf("%v", e)
	}
	off, _ := rest[*pb.DisableToolProviderResponse](t, h, doBar, &pb.DisableToolProviderRequest{Name: "tools", Etag: `"2"`}, nil)
	if off.GetProvider().GetEnabled() {
		t.Errorf("%v", off)
	}
	h.flows.tested = workflows.ProviderTestReport{
		URL: "https://x", Reason: registry.ReasonDescriptorInvalid, Faults: []registry.Field{{Path: "extension.id", Message: "is missing"}},
		Servers: []workflows.ProviderServerTest{{ExternalID: "utils"}},
	}
	tested, _ := rest[*pb.TestToolProviderResponse](t, h, doSound, &pb.TestToolProviderRequest{Name: "tools"}, nil)
	if tested.GetOk() || tested.GetReason() != "aep_descriptor_invalid" || len(tested.GetFaults()) != 1 || len(tested.GetServers()) != 1 {
		t.Errorf("%v", tested)
	}
	h.onlyTried(t, func() {
		tried, _ := rest[*pb.DeleteToolProviderResponse](t, h, doUnprovide, &pb.DeleteToolProviderRequest{Name: "tools", DryRun: true}, nil)
		if !tried.GetDryRun() || tried.GetProvider().GetName() != "tools" {
			t.Errorf("trying to delete it says %v", tried)
		}
	})
	rest[*pb.DeleteToolProviderResponse](t, h, doUnprovide, &pb.DeleteToolProviderRequest{Name: "tools"}, nil)
	if o := ways["REST"](t, h, admin(alpha), doProvider, &pb.GetToolProviderRequest{Name: "tools"}, nil); o.reason != string(registry.ReasonProviderNotFound) {
		t.Errorf("%+v", o)
	}
}

// A provider of the family MCP is one server, whichever way it was made.
func TestAProviderThatIsOneServer(t *testing.T) {
	t.Parallel()
	h := open(t)
	create := &pb.CreateToolProviderRequest{Name: "weather", Description: "for people", Config: &pb.CreateToolProviderRequest_Mcp{Mcp: &pb.McpProviderConfig{
		EndpointUrl: "https://weather.example/mcp", Authentication: pb.McpAuthentication_MCP_AUTHENTICATION_WORKLOAD_IDENTITY,
	}}}
	if o := ways["REST"](t, h, admin(alpha), doProvide, create, nil); o.reason != string(registry.ReasonIdempotencyKeyRequired) {
		t.Errorf("%+v", o)
	}
	made, o := rest[*pb.CreateToolProviderResponse](t, h, doProvide, create, keyed("k"))
	p := made.GetProvider()
	if o.status != http.StatusCreated || p.GetFamily() != pb.ToolProviderFamily_TOOL_PROVIDER_FAMILY_MCP || len(p.GetServers()) != 1 || p.GetServers()[0].GetServerName() != "weather" ||
		p.GetMcp().GetGovernancePolicyRef() != "default" || p.GetDescription() != "for people" || p.GetServerCount() != 1 {
		t.Errorf("%+v, %v", o, p)
	}
	h.registered(t, alpha, "silent")
	list, _ := rest[*pb.ListToolProvidersResponse](t, h, doProviders, &pb.ListToolProvidersRequest{Family: pb.ToolProviderFamily_TOOL_PROVIDER_FAMILY_MCP}, nil)
	if list.GetTotalSize() != 2 || list.GetProviders()[0].GetName() != "silent" {
		t.Errorf("%v", list)
	}
	refresh, _ := rest[*pb.RefreshToolProviderResponse](t, h, doRefresh, &pb.RefreshToolProviderRequest{Name: "weather", Wait: durationpb.New(0)}, nil)
	if refresh.GetRun().GetType() != "Discovery" {
		t.Errorf("%v", refresh)
	}
	edited, _ := rest[*pb.UpdateToolProviderResponse](t, h, doReprovide, &pb.UpdateToolProviderRequest{
		Name: "weather", Config: &pb.UpdateToolProviderRequest_Mcp{Mcp: &pb.McpProviderConfig{EndpointUrl: "https://moved.example/mcp"}}, UpdateMask: mask("mcp.endpoint_url"),
	}, nil)
	if edited.GetProvider().GetMcp().GetEndpointRef() == p.GetMcp().GetEndpointRef() {
		t.Errorf("%v", edited)
	}
	if s, err := h.db.Tenant(alpha).Server(t.Context(), "weather"); err != nil || s.Connection.URL != "https://moved.example/mcp" {
		t.Errorf("%s, %v", s.Connection.URL, err)
	}
	h.flows.report = workflows.TestReport{OK: true}
	tested, _ := rest[*pb.TestToolProviderResponse](t, h, doSound, &pb.TestToolProviderRequest{Name: "weather"}, nil)
	if !tested.GetOk() || len(tested.GetServers()) != 1 {
		t.Errorf("%v", tested)
	}
	h.onlyTried(t, func() {
		if o := ways["REST"](t, h, admin(alpha), doUnprovide, &pb.DeleteToolProviderRequest{Name: "weather", DryRun: true}, nil); o.reason != string(registry.ReasonProviderInUse) {
			t.Errorf("%+v", o)
		}
	})
	if o := ways["REST"](t, h, admin(alpha), doUnprovide, &pb.DeleteToolProviderRequest{Name: "weather"}, nil); o.reason != string(registry.ReasonProviderInUse) {
		t.Errorf("%+v", o)
	}
}

func TestWhatIsWrongWithARequestAboutAProvider(t *testing.T) {
	t.Parallel()
	h := open(t)
	rest[*pb.CreateToolProviderResponse](t, h, doProvide, extends("there", nil), nil)
	h.registered(t, alpha, "server")
	update := func(name string, paths ...string) *pb.UpdateToolProviderRequest {
		return &pb.UpdateToolProviderRequest{Name: name, Config: &pb.UpdateToolProviderRequest_Aep{Aep: &pb.AepProviderConfig{}}, UpdateMask: mask(paths...)}
	}
	for name, c := range map[string]struct {
		procedure string
		request   proto.Message
		reason    registry.Reason
	}{
		"a taken name":                  {doProvide, extends("there", func(c *pb.AepProviderConfig) { c.ExtensionId = "other" }), registry.ReasonProviderExists},
		"a server's name":               {doProvide, extends("server", nil), registry.ReasonProviderExists},
		"no family":                     {doProvide, &pb.CreateToolProviderRequest{Name: "none"}, registry.ReasonInvalidArgument},
		"no extension":                  {doProvide, extends("none", func(c *pb.AepProviderConfig) { c.ExtensionId = "" }), registry.ReasonInvalidArgument},
		"no authentication":             {doProvide, extends("none", func(c *pb.AepProviderConfig) { c.Authentication = 0 }), registry.ReasonInvalidArgument},
		"a secret in the URL":           {doProvide, extends("none", func(c *pb.AepProviderConfig) { c.BaseUrl = "https://u:hunter2@a.example" }), registry.ReasonSecretInRequest},
		"no such policy":                {doProvide, extends("none", func(c *pb.AepProviderConfig) { c.GovernancePolicyRef = "nobodys@7" }), registry.ReasonInvalidArgument},
		"a field of nothing":            {doReprovide, update("there", "aep.servers"), registry.ReasonInvalidArgument},
		"no field":                      {doReprovide, update("there"), registry.ReasonInvalidArgument},
		"an empty base":                 {doReprovide, update("there", "aep.base_url"), registry.ReasonInvalidArgument},
		"a field of another":            {doReprovide, update("server", "aep.base_url"), registry.ReasonInvalidArgument},
		"a registration under the name": {doRegister, good("there"), registry.ReasonProviderExists},
		"nobody's":                      {doSound, &pb.TestToolProviderRequest{Name: "nobody"}, registry.ReasonProviderNotFound},
	} {
		if o := ways["REST"](t, h, admin(alpha), c.procedure, c.request, keyed(name)); o.reason != string(c.reason) {
			t.Errorf("%s comes to %+v, want %s", name, o, c.reason)
		}
	}
}
