package api

import (
	"context"

	"countersign/db"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// CreateToolAssignment implements ToolCatalogService. That a tool is away now
// is no hindrance, and shown (R65).
func (t tools) CreateToolAssignment(ctx context.Context, req *pb.CreateToolAssignmentRequest) (*pb.CreateToolAssignmentResponse, error) {
	d, err := t.desk(ctx)
	if err != nil {
		return nil, err
	}
	a, err := registry.NewAssignment(d.principal.Tenant, req.GetAgent(), req.GetToolId(), req.GetWorkspace())
	if err != nil {
		return nil, err
	}
	callOf(ctx).sent = true
	v, err := d.store.Assign(ctx, a, d.operation("assign_tool", "", ""))
	if err != nil {
		return nil, notFound(err, "tool", req.GetToolId())
	}
	return &pb.CreateToolAssignmentResponse{Assignment: assignmentOut(&v)}, nil
}

// DeleteToolAssignment implements ToolCatalogService.
func (t tools) DeleteToolAssignment(ctx context.Context, req *pb.DeleteToolAssignmentRequest) (*pb.DeleteToolAssignmentResponse, error) {
	d, err := t.desk(ctx)
	if err != nil {
		return nil, err
	}
	callOf(ctx).sent = true
	if _, err := d.store.Unassign(ctx, req.GetAssignmentId(), d.operation("unassign_tool", "", "")); err != nil {
		return nil, notFound(err, "assignment", req.GetAssignmentId())
	}
	return &pb.DeleteToolAssignmentResponse{}, nil
}

// ListToolAssignments implements ToolCatalogService.
func (t tools) ListToolAssignments(ctx context.Context, req *pb.ListToolAssignmentsRequest) (*pb.ListToolAssignmentsResponse, error) {
	d, err := t.desk(ctx)
	if err != nil {
		return nil, err
	}
	l := list{tenant: d.principal.Tenant, method: "assignments", filter: req.GetFilter()}
	var query db.AssignmentQuery
	if query.Page, err = l.page(req.GetPageSize(), req.GetPageToken()); err != nil {
		return nil, err
	}
	if query.Conditions, err = parseFilter(req.GetFilter(), assignmentFilter); err != nil {
		return nil, err
	}
	views, next, total, err := d.store.Assignments(ctx, query)
	if err != nil {
		return nil, err
	}
	out := &pb.ListToolAssignmentsResponse{NextPageToken: l.token(next), TotalSize: count(total)}
	for i := range views {
		out.Assignments = append(out.Assignments, assignmentOut(&views[i]))
	}
	return out, nil
}
