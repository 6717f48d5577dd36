package api

import (
	"context"
	"time"

	"countersign/db"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// CreateToolDescriptor implements ToolCatalogService.
func (t tools) CreateToolDescriptor(ctx context.Context, req *pb.CreateToolDescriptorRequest) (*pb.CreateToolDescriptorResponse, error) {
	d, err := t.desk(ctx)
	if err != nil {
		return nil, err
	}
	draft, err := registry.NewDescriptor(req.GetDescriptorId(), word(classes, req.GetClass()), req.GetDescription())
	if err != nil {
		return nil, err
	}
	callOf(ctx).sent = true
	v, err := d.store.CreateDescriptor(ctx, draft, d.operation("create_descriptor", "", ""))
	if err != nil {
		return nil, err
	}
	return &pb.CreateToolDescriptorResponse{Descriptor_: descriptorOut(&v)}, nil
}

// GetToolDescriptor implements ToolCatalogService.
func (t tools) GetToolDescriptor(ctx context.Context, req *pb.GetToolDescriptorRequest) (*pb.GetToolDescriptorResponse, error) {
	d, err := t.desk(ctx)
	if err != nil {
		return nil, err
	}
	v, err := d.store.Descriptor(ctx, req.GetDescriptorId(), req.GetVersion())
	if err != nil {
		return nil, notFound(err, "descriptor", req.GetDescriptorId())
	}
	return &pb.GetToolDescriptorResponse{Descriptor_: descriptorOut(&v)}, nil
}

// ListToolDescriptors implements ToolCatalogService.
func (t tools) ListToolDescriptors(ctx context.Context, req *pb.ListToolDescriptorsRequest) (*pb.ListToolDescriptorsResponse, error) {
	d, err := t.desk(ctx)
	if err != nil {
		return nil, err
	}
	l := list{tenant: d.principal.Tenant, method: "descriptors", filter: req.GetFilter()}
	var query db.DescriptorQuery
	if query.Page, err = l.page(req.GetPageSize(), req.GetPageToken()); err != nil {
		return nil, err
	}
	if query.Conditions, err = parseFilter(req.GetFilter(), descriptorFilter); err != nil {
		return nil, err
	}
	views, next, total, err := d.store.Descriptors(ctx, query)
	if err != nil {
		return nil, err
	}
	out := &pb.ListToolDescriptorsResponse{NextPageToken: l.token(next), TotalSize: count(total)}
	for i := range views {
		out.Descriptors = append(out.Descriptors, descriptorOut(&views[i]))
	}
	return out, nil
}

// PublishToolDescriptor implements ToolCatalogService.
func (t tools) PublishToolDescriptor(ctx context.Context, req *pb.PublishToolDescriptorRequest) (*pb.PublishToolDescriptorResponse, error) {
	v, err := t.changeDescriptor(ctx, req.GetDescriptorId(), req.GetVersion(), "publish_descriptor", (*registry.Descriptor).Publish)
	if err != nil {
		return nil, err
	}
	return &pb.PublishToolDescriptorResponse{Descriptor_: descriptorOut(&v)}, nil
}

// DeprecateToolDescriptor implements ToolCatalogService.
func (t tools) DeprecateToolDescriptor(ctx context.Context, req *pb.DeprecateToolDescriptorRequest) (*pb.DeprecateToolDescriptorResponse, error) {
	v, err := t.changeDescriptor(ctx, req.GetDescriptorId(), req.GetVersion(), "deprecate_descriptor", (*registry.Descriptor).Deprecate)
	if err != nil {
		return nil, err
	}
	return &pb.DeprecateToolDescriptorResponse{Descriptor_: descriptorOut(&v)}, nil
}

func (t tools) changeDescriptor(ctx context.Context, id string, version int64, name string,
	change func(*registry.Descriptor, registry.Actor, time.Time) (bool, error),
) (db.DescriptorView, error) {
	d, err := t.desk(ctx)
	if err != nil {
		return db.DescriptorView{}, err
	}
	op := d.operation(name, "", "")
	callOf(ctx).sent = true
	v, err := d.store.ChangeDescriptor(ctx, id, version, op, func(row *registry.Descriptor, now time.Time) (bool, error) {
		return change(row, op.Actor, now)
	})
	return v, notFound(err, "descriptor", id)
}
