package api

import (
	"context"
	"time"

	"countersign/db"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
	"countersign/workflows"
)

// tools implements ToolCatalogService.
type tools struct{ *Handler }

// GetTool implements ToolCatalogService.
func (t tools) GetTool(ctx context.Context, req *pb.GetToolRequest) (*pb.GetToolResponse, error) {
	d, err := t.desk(ctx)
	if err != nil {
		return nil, err
	}
	v, err := d.tool(ctx, req.GetToolId())
	if err != nil {
		return nil, err
	}
	return &pb.GetToolResponse{Tool: toolOut(&v, v.Definition)}, nil
}

// SetToolEnabled implements ToolCatalogService. It switches and does not bind
// (R63).
func (t tools) SetToolEnabled(ctx context.Context, req *pb.SetToolEnabledRequest) (*pb.SetToolEnabledResponse, error) {
	d, err := t.desk(ctx)
	if err != nil {
		return nil, err
	}
	v, err := d.tool(ctx, req.GetToolId())
	if err != nil {
		return nil, err
	}
	if !v.Server.Open() {
		return nil, retired(&v.Server)
	}
	name := "enable_tool"
	if !req.GetEnabled() {
		name = "disable_tool"
	}
	change, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	changed, err := t.opts.Workflows.SetEnabled(change, v.Server.Name, workflows.SetEnabledInput{
		Tenant: v.Server.TenantID, ServerID: v.Server.ServerID, Operation: d.operation(name, "", ""),
		Tool: v.Tool.ExternalID, Enabled: req.GetEnabled(),
	})
	if err != nil {
		return nil, err
	}
	if v, err = d.tool(ctx, req.GetToolId()); err != nil {
		return nil, err
	}
	asChanged(&v, &changed, req.GetEnabled(), time.Now())
	return &pb.SetToolEnabledResponse{Tool: toolOut(&v, v.Definition)}, nil
}

// asChanged shows a tool as this switch left it and its server, whatever others
// made of them since.
func asChanged(v *db.ToolView, server *registry.Server, enabled bool, now time.Time) {
	if v.Server.ServerID != server.ServerID {
		return // the tool's id went to another server meanwhile
	}
	v.Server, v.Tool.Enabled = *server, enabled
	v.Denial = registry.Resolve(registry.ResolveFacts{
		Tool: &v.Tool, Server: &v.Server, ProviderEnabled: v.ProviderEnabled, Binding: v.Binding, Capabilities: v.Model, Now: now,
	})
}
