package api

import (
	"context"

	"google.golang.org/protobuf/reflect/protoreflect"

	"countersign/db"
	pb "countersign/proto/countersign/registry/v1"
)

// serverFilter and toolFilter are the fields of the two filters.
var (
	serverFilter = map[string]field{
		"name": {kind: textField}, "owner": {kind: textField}, "labels": {kind: mapField},
		"state": wordsOf(states), "direction": wordsOf(directions), "transport": wordsOf(transports), "authentication": wordsOf(authentications),
	}
	toolFilter = map[string]field{
		"tool_id": {kind: textField}, "name": {kind: textField}, "server_id": {kind: textField}, "server": {kind: textField},
		"provider": {kind: textField}, "enabled": {kind: boolField}, "available": {kind: boolField}, "bound": {kind: boolField},
	}
)

// wordsOf lets a filter name a value of an enum by our word or by the proto's.
func wordsOf[W ~string, V interface {
	comparable
	protoreflect.Enum
}](table map[W]V) field {
	f := field{kind: wordField, words: map[string]string{}}
	for word, value := range table {
		f.words[string(word)] = string(word)
		f.words[string(value.Descriptor().Values().ByNumber(value.Number()).Name())] = string(word)
	}
	return f
}

// ListMcpServers implements McpServerService.
func (s servers) ListMcpServers(ctx context.Context, req *pb.ListMcpServersRequest) (*pb.ListMcpServersResponse, error) {
	d, err := s.desk(ctx)
	if err != nil {
		return nil, err
	}
	l := list{tenant: d.principal.Tenant, method: "servers", filter: req.GetFilter(), order: req.GetOrderBy(), retired: req.GetShowRetired()}
	query := db.ServerQuery{ShowRetired: req.GetShowRetired()}
	if query.Page, err = l.page(req.GetPageSize(), req.GetPageToken()); err != nil {
		return nil, err
	}
	if query.Conditions, err = parseFilter(req.GetFilter(), serverFilter); err != nil {
		return nil, err
	}
	if query.Order, err = parseOrder(req.GetOrderBy(), "name", "create_time", "update_time"); err != nil {
		return nil, err
	}
	views, next, total, err := d.store.Servers(ctx, query)
	if err != nil {
		return nil, err
	}
	out := &pb.ListMcpServersResponse{NextPageToken: l.token(next), TotalSize: count(total)}
	for i := range views {
		out.Servers = append(out.Servers, serverOut(&views[i]))
	}
	return out, nil
}

// ListTools implements ToolCatalogService.
func (t tools) ListTools(ctx context.Context, req *pb.ListToolsRequest) (*pb.ListToolsResponse, error) {
	d, err := t.desk(ctx)
	if err != nil {
		return nil, err
	}
	l := list{tenant: d.principal.Tenant, method: "tools", filter: req.GetFilter(), order: req.GetOrderBy(), retired: req.GetShowRetired()}
	query := db.ToolQuery{ShowRetired: req.GetShowRetired()}
	if query.Page, err = l.page(req.GetPageSize(), req.GetPageToken()); err != nil {
		return nil, err
	}
	if query.Conditions, err = parseFilter(req.GetFilter(), toolFilter); err != nil {
		return nil, err
	}
	if query.Order, err = parseOrder(req.GetOrderBy(), "tool_id", "first_seen_time"); err != nil {
		return nil, err
	}
	views, next, total, err := d.store.Tools(ctx, query)
	if err != nil {
		return nil, err
	}
	out := &pb.ListToolsResponse{NextPageToken: l.token(next), TotalSize: count(total)}
	for i := range views {
		out.Tools = append(out.Tools, toolOut(&views[i], nil))
	}
	return out, nil
}
