package api

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	"countersign/db"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
	"countersign/workflows"
)

var (
	families = map[registry.ProviderFamily]pb.ToolProviderFamily{
		registry.FamilyMCP: pb.ToolProviderFamily_TOOL_PROVIDER_FAMILY_MCP,
		registry.FamilyAEP: pb.ToolProviderFamily_TOOL_PROVIDER_FAMILY_AEP,
	}
	refreshStatuses = map[registry.RefreshStatus]pb.ProviderRefreshStatus{
		registry.RefreshNever:     pb.ProviderRefreshStatus_PROVIDER_REFRESH_STATUS_NEVER,
		registry.RefreshRunning:   pb.ProviderRefreshStatus_PROVIDER_REFRESH_STATUS_RUNNING,
		registry.RefreshSucceeded: pb.ProviderRefreshStatus_PROVIDER_REFRESH_STATUS_SUCCEEDED,
		registry.RefreshFailed:    pb.ProviderRefreshStatus_PROVIDER_REFRESH_STATUS_FAILED,
	}
	// discoveryRefresh says it of the one server of a provider of the family MCP.
	discoveryRefresh = map[registry.DiscoveryStatus]pb.ProviderRefreshStatus{
		registry.DiscoveryNever:     pb.ProviderRefreshStatus_PROVIDER_REFRESH_STATUS_NEVER,
		registry.DiscoveryRunning:   pb.ProviderRefreshStatus_PROVIDER_REFRESH_STATUS_RUNNING,
		registry.DiscoverySucceeded: pb.ProviderRefreshStatus_PROVIDER_REFRESH_STATUS_SUCCEEDED,
		registry.DiscoveryFailed:    pb.ProviderRefreshStatus_PROVIDER_REFRESH_STATUS_FAILED,
	}
)

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// extensionIn is what a request says of an extension.
func extensionIn(c *pb.AepProviderConfig) registry.ProviderConfig {
	return registry.ProviderConfig{
		BaseURL: c.GetBaseUrl(), ExtensionID: c.GetExtensionId(), Authentication: word(authentications, c.GetAuthentication()),
		ExceptionReason: c.GetExceptionReason(), GovernancePolicyRef: orElse(c.GetGovernancePolicyRef(), registry.PolicyDefault),
	}
}

func providerOut(v *db.ProviderView) *pb.ToolProvider {
	out := &pb.ToolProvider{
		TenantId: v.TenantID, ProviderId: v.ProviderID, Name: v.Name, Family: families[v.Family], Enabled: v.Enabled, Etag: v.Etag(),
		Description: v.Description, ServerCount: count(v.ServerCount), ContributionCount: count(v.ContributionCount),
		CreateTime: moment(v.CreatedAt), CreatedBy: v.CreatedBy,
	}
	if v.Server != nil {
		s := v.Server
		out.Description = s.Description
		out.Config = &pb.ToolProvider_Mcp{Mcp: &pb.McpProviderConfig{
			EndpointRef: s.EndpointRef, Authentication: authentications[s.Authentication], ExceptionReason: s.Exception.Reason,
			GovernancePolicyRef: s.GovernancePolicyRef, ProtocolVersion: text(s.ProtocolVersion),
		}}
		out.Refresh = discoveryRefreshOut(&s.Discovery)
		out.Servers = []*pb.ProviderServer{{ServerId: s.ServerID, ServerName: s.Name, State: states[s.State]}}
		return out
	}
	out.Config = &pb.ToolProvider_Aep{Aep: &pb.AepProviderConfig{
		BaseUrl: v.BaseURL, ExtensionId: v.ExtensionID, Authentication: authentications[v.Authentication],
		ExceptionReason: v.ExceptionReason, GovernancePolicyRef: v.GovernancePolicyRef,
	}}
	out.Refresh = refreshOut(&v.Refresh)
	for _, s := range v.Servers {
		out.Servers = append(out.Servers, &pb.ProviderServer{
			ExternalId: s.ExternalID, ServerId: s.ServerID, ServerName: s.Name, EndpointUrl: s.URL, State: states[s.State],
			Reason: string(s.Reason), Message: text(s.Message),
		})
	}
	for i := range v.Contributions {
		c := &v.Contributions[i]
		reason, message := c.Issue()
		out.Contributions = append(out.Contributions, &pb.ProviderContribution{
			ContributionId: text(c.ID), ExternalServerId: text(c.Contribution.Server), ServerName: c.ServerName, McpTool: text(c.Tool),
			DisplayName: text(c.DisplayName), Description: text(c.Description), ToolId: c.ToolID, Available: c.Available,
			Reason: string(reason), Message: text(message),
		})
	}
	return out
}

func refreshOut(r *registry.ProviderRefresh) *pb.ProviderRefresh {
	return &pb.ProviderRefresh{
		Number: r.Number, Status: refreshStatuses[r.Status], RequestedBy: r.RequestedBy, StartTime: moment(r.StartedAt), FinishTime: moment(r.FinishedAt),
		SucceedTime: moment(r.SucceededAt), Reason: string(r.Reason), Message: text(r.Message), NextStep: r.Next, Faults: faultsOut(r.Faults),
		Counts: refreshCountsOut(r.Counts), DescriptorUrl: r.URL, Warnings: faultsOut(r.Warnings),
		Extension: &pb.ExtensionIdentity{Name: text(r.Extension.Name), Version: text(r.Extension.Version), Description: text(r.Extension.Description)},
	}
}

func discoveryRefreshOut(d *registry.DiscoveryRun) *pb.ProviderRefresh {
	return &pb.ProviderRefresh{
		Number: d.Number, Status: discoveryRefresh[d.Status], RequestedBy: d.RequestedBy, FinishTime: moment(d.FinishedAt), SucceedTime: moment(d.SucceededAt),
		Reason: string(d.Reason), Message: text(d.Message), Counts: refreshCountsOut(d.Counts),
	}
}

func refreshCountsOut(c registry.Counts) *pb.RefreshCounts {
	return &pb.RefreshCounts{
		NewTools: count(c.New), ChangedTools: count(c.Changed), UnchangedTools: count(c.Unchanged), UnavailableTools: count(c.Unavailable), TotalTools: count(c.Total),
	}
}

func faultsOut(faults []registry.Field) []*pb.DescriptorFault {
	out := make([]*pb.DescriptorFault, len(faults))
	for i, f := range faults {
		out[i] = &pb.DescriptorFault{Path: text(f.Path), Message: text(f.Message)}
	}
	return out
}

func providerTestOut(r *workflows.ProviderTestReport) *pb.TestToolProviderResponse {
	out := &pb.TestToolProviderResponse{
		Ok: r.OK, Reason: string(r.Reason), Message: text(r.Message), NextStep: r.Next, Faults: faultsOut(r.Faults), Warnings: faultsOut(r.Warnings),
		DescriptorUrl: r.URL, Extension: &pb.ExtensionIdentity{Name: text(r.ExtensionName), Version: text(r.ExtensionVersion)},
		Duration: durationpb.New(r.Duration), ContributionCount: count(r.Contributions),
	}
	for i := range r.Servers {
		s := &r.Servers[i]
		out.Servers = append(out.Servers, &pb.ProviderServerTest{ExternalId: text(s.ExternalID), EndpointUrl: s.URL, Report: testOut(&s.Report)})
	}
	for _, c := range r.Issues {
		out.Issues = append(out.Issues, &pb.ProviderContribution{
			ContributionId: text(c.ID), ExternalServerId: text(c.Server), McpTool: text(c.Tool), Reason: string(c.Reason), Message: text(c.Message),
		})
	}
	return out
}
