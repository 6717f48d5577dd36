package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"

	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

func (f *fakeAPI) provider(name string) (*registryv1.ToolProvider, error) {
	if i := slices.IndexFunc(f.providers, func(p *registryv1.ToolProvider) bool { return p.GetName() == name }); i >= 0 {
		return f.providers[i], nil
	}
	return nil, refusal(connect.CodeNotFound, registry.ReasonProviderNotFound, "list the providers; names are those of the tenant", nil, "there is no provider %q", name)
}

func (f *fakeAPI) CreateToolProvider(_ context.Context, r *registryv1.CreateToolProviderRequest) (*registryv1.CreateToolProviderResponse, error) {
	if _, err := f.provider(r.GetName()); err == nil {
		return nil, refusal(connect.CodeAlreadyExists, registry.ReasonProviderExists, "choose another name", nil, "there is a provider named %s", r.GetName())
	}
	p := &registryv1.ToolProvider{
		Name: r.GetName(), Description: r.GetDescription(), Enabled: true, Etag: `"1"`, CreateTime: day(1), CreatedBy: "ada",
		Refresh: &registryv1.ProviderRefresh{Number: 1, Status: registryv1.ProviderRefreshStatus_PROVIDER_REFRESH_STATUS_RUNNING},
	}
	if r.GetAep() != nil {
		p.Family, p.Config = registryv1.ToolProviderFamily_TOOL_PROVIDER_FAMILY_AEP, &registryv1.ToolProvider_Aep{Aep: r.GetAep()}
	} else {
		p.Family, p.Config = registryv1.ToolProviderFamily_TOOL_PROVIDER_FAMILY_MCP, &registryv1.ToolProvider_Mcp{Mcp: r.GetMcp()}
	}
	f.providers = append(f.providers, p)
	return &registryv1.CreateToolProviderResponse{Provider: p}, nil
}

func (f *fakeAPI) GetToolProvider(_ context.Context, r *registryv1.GetToolProviderRequest) (*registryv1.GetToolProviderResponse, error) {
	p, err := f.provider(r.GetName())
	return &registryv1.GetToolProviderResponse{Provider: p}, err
}

func (f *fakeAPI) ListToolProviders(_ context.Context, r *registryv1.ListToolProvidersRequest) (*registryv1.ListToolProvidersResponse, error) {
	out := &registryv1.ListToolProvidersResponse{}
	for _, p := range f.providers {
		if r.GetFamily() == 0 || r.GetFamily() == p.GetFamily() {
			out.Providers = append(out.Providers, p)
		}
	}
	return out, nil
}

func (f *fakeAPI) UpdateToolProvider(_ context.Context, r *registryv1.UpdateToolProviderRequest) (*registryv1.UpdateToolProviderResponse, error) {
	p, err := f.provider(r.GetName())
	if err != nil {
		return nil, err
	}
	if r.GetEtag() != "" && r.GetEtag() != p.GetEtag() {
		return nil, refusal(connect.CodeAborted, registry.ReasonStaleEtag, "read the provider again", nil, "the provider is at etag %s", p.GetEtag())
	}
	p.Etag = `"2"`
	for _, path := range r.GetUpdateMask().GetPaths() {
		switch path {
		case "description":
			p.Description = r.GetDescription()
		case "aep.base_url":
			p.GetAep().BaseUrl = r.GetAep().GetBaseUrl()
		}
	}
	return &registryv1.UpdateToolProviderResponse{Provider: p}, nil
}

// RefreshToolProvider finds one good contribution and a broken one; an extension
// at a host called gone is gone.
func (f *fakeAPI) RefreshToolProvider(_ context.Context, r *registryv1.RefreshToolProviderRequest) (*registryv1.RefreshToolProviderResponse, error) {
	p, err := f.provider(r.GetName())
	if err != nil {
		return nil, err
	}
	out := &registryv1.RefreshToolProviderResponse{Provider: p, Run: &registryv1.Run{Type: "ProviderRefresh"}, Done: true}
	switch refresh := p.GetRefresh(); {
	case r.GetWait() != nil:
		out.Done = false
	case strings.Contains(p.GetAep().GetBaseUrl(), "gone"):
		refresh.Status = registryv1.ProviderRefreshStatus_PROVIDER_REFRESH_STATUS_FAILED
		refresh.Reason, refresh.Message, refresh.NextStep = "aep_descriptor_invalid", "the descriptor has 1 faults", "have the extension's people correct its descriptor"
		refresh.Faults = []*registryv1.DescriptorFault{{Path: "mcp.servers[0].id", Message: "is missing"}}
	default:
		refresh.Status, refresh.SucceedTime = registryv1.ProviderRefreshStatus_PROVIDER_REFRESH_STATUS_SUCCEEDED, day(2)
		refresh.Counts = &registryv1.RefreshCounts{NewTools: 1, TotalTools: 1}
		refresh.DescriptorUrl = p.GetAep().GetBaseUrl() + "/.well-known/aep"
		refresh.Extension = &registryv1.ExtensionIdentity{Name: "Utilities", Version: "1.0.0"}
		server := p.GetName() + "-utils"
		p.ServerCount, p.ContributionCount = 1, 2
		p.Servers = []*registryv1.ProviderServer{{ExternalId: "utils", ServerName: server, EndpointUrl: "https://ext.example/mcp", State: registryv1.McpServerState_MCP_SERVER_STATE_VERIFIED}}
		p.Contributions = []*registryv1.ProviderContribution{
			{ContributionId: "hash.compute", ServerName: server, McpTool: "hash_compute", ToolId: p.GetName() + ".hash.compute", Available: true},
			{ContributionId: "gone", ServerName: server, McpTool: "no_such", Reason: "mcp_tool_not_found", Message: fmt.Sprintf("server %s lists no tool no_such", server)},
		}
	}
	return out, nil
}

func (f *fakeAPI) TestToolProvider(_ context.Context, r *registryv1.TestToolProviderRequest) (*registryv1.TestToolProviderResponse, error) {
	p, err := f.provider(r.GetName())
	if err != nil {
		return nil, err
	}
	if strings.Contains(p.GetAep().GetBaseUrl(), "gone") {
		return &registryv1.TestToolProviderResponse{Reason: "extension_unreachable", Message: "nobody there", NextStep: "check the base URL"}, nil
	}
	return &registryv1.TestToolProviderResponse{
		Ok: true, DescriptorUrl: p.GetAep().GetBaseUrl() + "/.well-known/aep", ContributionCount: 2,
		Servers: []*registryv1.ProviderServerTest{{ExternalId: "utils", EndpointUrl: "https://ext.example/mcp", Report: &registryv1.TestMcpServerResponse{Ok: true, Tools: 3}}},
	}, nil
}

func (f *fakeAPI) EnableToolProvider(_ context.Context, r *registryv1.EnableToolProviderRequest) (*registryv1.EnableToolProviderResponse, error) {
	p, err := f.provider(r.GetName())
	if err == nil {
		p.Enabled = true
	}
	return &registryv1.EnableToolProviderResponse{Provider: p}, err
}

func (f *fakeAPI) DisableToolProvider(_ context.Context, r *registryv1.DisableToolProviderRequest) (*registryv1.DisableToolProviderResponse, error) {
	p, err := f.provider(r.GetName())
	if err == nil {
		p.Enabled = false
	}
	return &registryv1.DisableToolProviderResponse{Provider: p}, err
}

func (f *fakeAPI) DeleteToolProvider(_ context.Context, r *registryv1.DeleteToolProviderRequest) (*registryv1.DeleteToolProviderResponse, error) {
	p, err := f.provider(r.GetName())
	switch {
	case err != nil:
		return nil, err
	case p.GetServerCount() > 0:
		return nil, refusal(connect.CodeFailedPrecondition, registry.ReasonProviderInUse, "retire those servers first", nil, "provider %s has live servers", p.GetName())
	}
	if r.GetDryRun() {
		return &registryv1.DeleteToolProviderResponse{Provider: p, DryRun: true}, nil
	}
	f.providers = slices.DeleteFunc(f.providers, func(other *registryv1.ToolProvider) bool { return other == p })
	return &registryv1.DeleteToolProviderResponse{}, nil
}
