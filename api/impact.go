package api

import (
	"context"
	"maps"
	"slices"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// GetToolImpact implements ToolCatalogService. It is the dry run of whatever
// takes tools away: retirement, quarantine, a switch.
func (t tools) GetToolImpact(ctx context.Context, req *pb.GetToolImpactRequest) (*pb.GetToolImpactResponse, error) {
	d, err := t.desk(ctx)
	if err != nil {
		return nil, err
	}
	if req.GetFilter() == "" && req.GetSearch() == "" && len(req.GetToolIds()) == 0 {
		return nil, registry.Errorf(registry.ReasonInvalidArgument, "the request chooses no tools").
			WithField("filter", "or search or tool_ids is required").WithNext("tool_id:* chooses all tools")
	}
	query, err := toolQuery(req)
	if err != nil {
		return nil, err
	}
	if len(req.GetToolIds()) > 0 {
		query.IDs = req.GetToolIds()
	}
	impacted, more, err := d.store.ToolImpact(ctx, query, maxSwitched)
	if err != nil {
		return nil, err
	}
	if more {
		return nil, registry.Errorf(registry.ReasonInvalidArgument, "the request chooses more than %d tools", maxSwitched).
			WithField("filter", "chooses too many tools").WithNext("choose them server by server")
	}
	out, agents := &pb.GetToolImpactResponse{}, map[string]bool{}
	for _, tool := range impacted {
		shown := &pb.ImpactedTool{ToolId: text(tool.ToolID), ServerName: tool.ServerName}
		for _, a := range tool.Assignments {
			agents[a.Agent] = true
			shown.Agents = append(shown.Agents, &pb.ImpactedAgent{Agent: a.Agent, Workspace: a.Workspace})
		}
		out.Tools = append(out.Tools, shown)
	}
	out.Agents = slices.Sorted(maps.Keys(agents))
	return out, nil
}
