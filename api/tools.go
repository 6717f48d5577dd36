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
	name := "enable_tool"
	if !req.GetEnabled() {
		name = "disable_tool"
	}
	v, err := t.flip(ctx, req.GetToolId(), name, func(ctx context.Context, v *db.ToolView, op registry.Operation) (registry.Server, error) {
		return t.opts.Workflows.SetEnabled(ctx, v.Server.Name, workflows.SetEnabledInput{
			Tenant: v.Server.TenantID, ServerID: v.Server.ServerID, Operation: op, Tool: v.Tool.ExternalID, Enabled: req.GetEnabled(),
		})
	}, func(tool *registry.Tool) { tool.Enabled = req.GetEnabled() })
	if err != nil {
		return nil, err
	}
	return &pb.SetToolEnabledResponse{Tool: toolOut(&v, v.Definition)}, nil
}

// SetToolRequiresApproval implements ToolCatalogService (R66).
func (t tools) SetToolRequiresApproval(ctx context.Context, req *pb.SetToolRequiresApprovalRequest) (*pb.SetToolRequiresApprovalResponse, error) {
	v, err := t.flip(ctx, req.GetToolId(), "set_requires_approval", func(ctx context.Context, v *db.ToolView, op registry.Operation) (registry.Server, error) {
		return t.opts.Workflows.RequireApproval(ctx, v.Server.Name, workflows.RequireApprovalInput{
			Tenant: v.Server.TenantID, ServerID: v.Server.ServerID, Operation: op, Tools: []string{v.Tool.ExternalID},
			Required: req.GetRequiresApproval(),
		})
	}, func(tool *registry.Tool) { tool.RequiresApproval = req.GetRequiresApproval() })
	if err != nil {
		return nil, err
	}
	return &pb.SetToolRequiresApprovalResponse{Tool: toolOut(&v, v.Definition)}, nil
}

// flip brings a switch of one tool to its server's workflow and shows the tool
// as that left it.
func (t tools) flip(ctx context.Context, id, name string,
	change func(context.Context, *db.ToolView, registry.Operation) (registry.Server, error), as func(*registry.Tool),
) (db.ToolView, error) {
	d, err := t.desk(ctx)
	if err != nil {
		return db.ToolView{}, err
	}
	v, err := d.tool(ctx, id)
	if err != nil {
		return v, err
	}
	if !v.Server.Open() {
		return v, retired(&v.Server)
	}
	callOf(ctx).sent = true
	changing, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	changed, err := change(changing, &v, d.operation(name, "", ""))
	if err != nil {
		return v, err
	}
	if v, err = d.tool(ctx, id); err != nil {
		return v, err
	}
	asChanged(&v, &changed, as, time.Now())
	return v, nil
}

// asChanged shows a tool as this switch left it and its server, whatever others
// made of them since.
func asChanged(v *db.ToolView, server *registry.Server, as func(*registry.Tool), now time.Time) {
	if v.Server.ServerID != server.ServerID {
		return // the tool's id went to another server meanwhile
	}
	v.Server = *server
	as(&v.Tool)
	v.Denial = registry.Resolve(registry.ResolveFacts{
		Tool: &v.Tool, Server: &v.Server, ProviderEnabled: v.ProviderEnabled, Binding: v.Binding, Capabilities: v.Model, Now: now,
	})
}
