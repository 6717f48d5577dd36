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

// chosen are the fake's tools that a request chooses: it understands
// server = "NAME" and words of names only.
func (f *fakeAPI) chosen(filter, search string, ids []string) []*registryv1.Tool {
	return slices.DeleteFunc(f.tools(), func(t *registryv1.Tool) bool {
		return strings.Contains(filter, "server = ") && !strings.Contains(filter, "server = "+quoted(t.GetServerName())) ||
			!strings.Contains(t.GetToolId(), search) || len(ids) > 0 && !slices.Contains(ids, t.GetToolId())
	})
}

// ListCapabilities knows one server that is exposed; its second resource is for
// the workspace research.
func (f *fakeAPI) ListCapabilities(_ context.Context, r *registryv1.ListCapabilitiesRequest) (*registryv1.ListCapabilitiesResponse, error) {
	item := func(kind, name string) *registryv1.Capability {
		return &registryv1.Capability{ServerId: "srv_ours", ServerName: "ours", Kind: kind, Name: name}
	}
	tool, readme, notes := item("tool", "forecast"), item("resource", "file:///readme"), item("resource", "file:///notes\u202e")
	tool.ToolId, tool.DeclaredClass = "ours.forecast", registryv1.SideEffectClass_SIDE_EFFECT_CLASS_READ
	readme.Classification, notes.Classification = "internal", "secret"
	all := []*registryv1.Capability{item("prompt", "greet"), readme, tool}
	if r.GetScope() == "research" {
		all = slices.Insert(all, 1, notes)
	}
	items, next := cutPage(all, r.GetPageSize(), r.GetPageToken())
	return &registryv1.ListCapabilitiesResponse{Capabilities: items, NextPageToken: next}, nil
}

func (f *fakeAPI) GetToolImpact(_ context.Context, r *registryv1.GetToolImpactRequest) (*registryv1.GetToolImpactResponse, error) {
	out := &registryv1.GetToolImpactResponse{}
	if strings.Contains(r.GetFilter(), "nothing") {
		return out, nil
	}
	out.Tools = []*registryv1.ImpactedTool{
		{ToolId: "demo.echo", ServerName: "demo", Agents: []*registryv1.ImpactedAgent{{Agent: "bot"}, {Agent: "bot", Workspace: "research"}}},
		{ToolId: "demo.sum", ServerName: "demo"},
	}
	out.Agents = []string{"bot"}
	return out, nil
}

func (f *fakeAPI) ListToolFacets(_ context.Context, r *registryv1.ListToolFacetsRequest) (*registryv1.ListToolFacetsResponse, error) {
	servers := map[string]int32{}
	all := f.chosen(r.GetFilter(), r.GetSearch(), nil)
	for _, t := range all {
		servers[t.GetServerName()]++
	}
	facet := &registryv1.ToolFacet{Field: "server", OtherValues: 3}
	for name, n := range servers {
		facet.Values = append(facet.GetValues(), &registryv1.ToolFacetValue{Value: name, Count: n})
	}
	slices.SortFunc(facet.GetValues(), func(a, b *registryv1.ToolFacetValue) int { return int(b.GetCount() - a.GetCount()) })
	return &registryv1.ListToolFacetsResponse{Facets: []*registryv1.ToolFacet{facet}, TotalSize: int32(len(all))}, nil
}

func (f *fakeAPI) SetToolsEnabled(_ context.Context, r *registryv1.SetToolsEnabledRequest) (*registryv1.SetToolsEnabledResponse, error) {
	out := &registryv1.SetToolsEnabledResponse{DryRun: r.GetDryRun()}
	for _, id := range r.GetToolIds() {
		if _, err := f.findTool(id); err != nil {
			out.UnknownToolIds = append(out.GetUnknownToolIds(), id)
		}
	}
	for _, t := range f.chosen(r.GetFilter(), r.GetSearch(), r.GetToolIds()) {
		n := len(out.GetServers())
		if n == 0 || out.GetServers()[n-1].GetServerId() != t.GetServerId() {
			out.Servers = append(out.GetServers(), &registryv1.ServerToolsEnabled{ServerId: t.GetServerId(), ServerName: t.GetServerName()})
			n++
		}
		s := out.GetServers()[n-1]
		if t.GetEnabled() == r.GetEnabled() {
			s.UnchangedTools++
			out.UnchangedTools++
			continue
		}
		s.ToolIds = append(s.GetToolIds(), t.GetToolId())
		if s.GetServerName() == "hostile" && !r.GetDryRun() {
			s.Reason, s.Message = "server_closing", "the server's workflow is not open"
			out.FailedTools++
			continue
		}
		out.ChangedTools++
		if !r.GetDryRun() {
			t.Enabled = r.GetEnabled()
		}
	}
	return out, nil
}

func (f *fakeAPI) SetToolRequiresApproval(_ context.Context, r *registryv1.SetToolRequiresApprovalRequest) (*registryv1.SetToolRequiresApprovalResponse, error) {
	t, err := f.findTool(r.GetToolId())
	if err != nil {
		return nil, err
	}
	t.RequiresApproval = r.GetRequiresApproval()
	return &registryv1.SetToolRequiresApprovalResponse{Tool: t}, nil
}

func (f *fakeAPI) CreateToolDescriptor(_ context.Context, r *registryv1.CreateToolDescriptorRequest) (*registryv1.CreateToolDescriptorResponse, error) {
	d := &registryv1.ToolDescriptor{
		DescriptorId: r.GetDescriptorId(), Version: 1, Class: r.GetClass(), Description: r.GetDescription(), CreateTime: day(3), CreatedBy: "ada",
		Status: registryv1.ToolDescriptorStatus_TOOL_DESCRIPTOR_STATUS_DRAFT,
		Health: &registryv1.Health{Level: registryv1.HealthLevel_HEALTH_LEVEL_UNKNOWN, Reason: "not_bound", Summary: "No tool is bound to it"},
	}
	for _, other := range f.descriptors {
		if other.GetDescriptorId() == d.GetDescriptorId() {
			d.Version = max(d.GetVersion(), other.GetVersion()+1)
		}
	}
	f.descriptors = append(f.descriptors, d)
	return &registryv1.CreateToolDescriptorResponse{Descriptor_: d}, nil
}

func (f *fakeAPI) findDescriptor(id string, version int64) (*registryv1.ToolDescriptor, error) {
	for _, d := range slices.Backward(f.descriptors) {
		if d.GetDescriptorId() == id && (version == 0 || d.GetVersion() == version) {
			return d, nil
		}
	}
	return nil, refusal(connect.CodeNotFound, registry.ReasonDescriptorNotFound, "list the descriptors", nil, "there is no descriptor %q", id)
}

func (f *fakeAPI) GetToolDescriptor(_ context.Context, r *registryv1.GetToolDescriptorRequest) (*registryv1.GetToolDescriptorResponse, error) {
	d, err := f.findDescriptor(r.GetDescriptorId(), r.GetVersion())
	return &registryv1.GetToolDescriptorResponse{Descriptor_: d}, err
}

func (f *fakeAPI) ListToolDescriptors(_ context.Context, r *registryv1.ListToolDescriptorsRequest) (*registryv1.ListToolDescriptorsResponse, error) {
	items, next := cutPage(f.descriptors, r.GetPageSize(), r.GetPageToken())
	return &registryv1.ListToolDescriptorsResponse{Descriptors: items, NextPageToken: next, TotalSize: int32(len(f.descriptors))}, nil
}

func (f *fakeAPI) PublishToolDescriptor(_ context.Context, r *registryv1.PublishToolDescriptorRequest) (*registryv1.PublishToolDescriptorResponse, error) {
	d, err := f.findDescriptor(r.GetDescriptorId(), r.GetVersion())
	if err != nil {
		return nil, err
	}
	if d.GetStatus() == registryv1.ToolDescriptorStatus_TOOL_DESCRIPTOR_STATUS_DEPRECATED {
		return nil, refusal(connect.CodeFailedPrecondition, registry.ReasonDescriptorStatus, "draft a new version", nil, "it is deprecated and cannot be published")
	}
	d.Status, d.Active, d.PublishTime, d.PublishedBy = registryv1.ToolDescriptorStatus_TOOL_DESCRIPTOR_STATUS_PUBLISHED, true, day(4), "ada"
	return &registryv1.PublishToolDescriptorResponse{Descriptor_: d}, nil
}

func (f *fakeAPI) DeprecateToolDescriptor(_ context.Context, r *registryv1.DeprecateToolDescriptorRequest) (*registryv1.DeprecateToolDescriptorResponse, error) {
	d, err := f.findDescriptor(r.GetDescriptorId(), r.GetVersion())
	if err != nil {
		return nil, err
	}
	d.Status, d.Active, d.DeprecateTime, d.DeprecatedBy = registryv1.ToolDescriptorStatus_TOOL_DESCRIPTOR_STATUS_DEPRECATED, false, day(5), "ada"
	return &registryv1.DeprecateToolDescriptorResponse{Descriptor_: d}, nil
}

func (f *fakeAPI) CreateToolAssignment(_ context.Context, r *registryv1.CreateToolAssignmentRequest) (*registryv1.CreateToolAssignmentResponse, error) {
	t, err := f.findTool(r.GetToolId())
	if err != nil {
		return nil, err
	}
	a := &registryv1.ToolAssignment{
		AssignmentId: fmt.Sprintf("asg_%d", len(f.assignments)), Agent: r.GetAgent(), ToolId: r.GetToolId(), Workspace: r.GetWorkspace(),
		Available: t.GetAvailable(), Callable: t.GetCallable(), DenialReason: t.GetDenialReason(), CreateTime: day(3), CreatedBy: "ada",
	}
	f.assignments = append(f.assignments, a)
	return &registryv1.CreateToolAssignmentResponse{Assignment: a}, nil
}

func (f *fakeAPI) DeleteToolAssignment(_ context.Context, r *registryv1.DeleteToolAssignmentRequest) (*registryv1.DeleteToolAssignmentResponse, error) {
	f.assignments = slices.DeleteFunc(f.assignments, func(a *registryv1.ToolAssignment) bool { return a.GetAssignmentId() == r.GetAssignmentId() })
	return &registryv1.DeleteToolAssignmentResponse{}, nil
}

func (f *fakeAPI) ListToolAssignments(_ context.Context, r *registryv1.ListToolAssignmentsRequest) (*registryv1.ListToolAssignmentsResponse, error) {
	var all []*registryv1.ToolAssignment
	for _, a := range f.assignments {
		match := true
		for field, value := range map[string]string{"agent": a.GetAgent(), "tool_id": a.GetToolId(), "workspace": a.GetWorkspace()} {
			match = match && (!strings.Contains(r.GetFilter(), field+" = ") || strings.Contains(r.GetFilter(), field+" = "+quoted(value)))
		}
		if match {
			all = append(all, a)
		}
	}
	items, next := cutPage(all, r.GetPageSize(), r.GetPageToken())
	return &registryv1.ListToolAssignmentsResponse{Assignments: items, NextPageToken: next, TotalSize: int32(len(all))}, nil
}
