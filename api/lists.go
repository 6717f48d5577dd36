package api

import (
	"context"

	"google.golang.org/protobuf/reflect/protoreflect"

	"countersign/db"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// The fields of the filters.
var (
	serverFilter = map[string]field{
		"name": {kind: textField}, "owner": {kind: textField}, "connection": {kind: textField}, "labels": {kind: mapField},
		"state": wordsOf(states), "direction": wordsOf(directions), "transport": wordsOf(transports), "authentication": wordsOf(authentications),
		"review": wordsOf(reviews), "health": wordsOf(levels), "drifted": {kind: boolField}, "expiring": {kind: boolField},
	}
	toolFilter = map[string]field{
		"tool_id": {kind: textField}, "name": {kind: textField}, "server_id": {kind: textField}, "server": {kind: textField},
		"provider": {kind: textField}, "class": wordsOf(classes), "enabled": {kind: boolField}, "available": {kind: boolField},
		"bound": {kind: boolField}, "callable": {kind: boolField}, "quarantined": {kind: boolField}, "requires_approval": {kind: boolField},
		"labels": {kind: mapField},
	}
	descriptorFilter = map[string]field{
		"descriptor_id": {kind: textField}, "class": wordsOf(classes), "status": wordsOf(descriptorStatuses), "server_id": {kind: textField},
	}
	assignmentFilter = map[string]field{
		"agent": {kind: textField}, "tool_id": {kind: textField}, "workspace": {kind: textField},
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
	l := list{
		tenant: d.principal.Tenant, method: "tools?search=" + req.GetSearch(), filter: req.GetFilter(), order: req.GetOrderBy(),
		retired: req.GetShowRetired(),
	}
	query, err := toolQuery(req)
	if err != nil {
		return nil, err
	}
	if query.Page, err = l.page(req.GetPageSize(), req.GetPageToken()); err != nil {
		return nil, err
	}
	orders := []string{"tool_id", "first_seen_time"}
	if len(query.Words) > 0 {
		orders = append([]string{db.OrderRelevance}, orders...)
	}
	if query.Order, err = parseOrder(req.GetOrderBy(), orders...); err != nil {
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

// toolChoice is what requests have that choose tools.
type toolChoice interface {
	GetFilter() string
	GetSearch() string
}

// toolQuery is which tools a request asks for.
func toolQuery(req toolChoice) (query db.ToolQuery, err error) {
	if query.Conditions, err = parseFilter(req.GetFilter(), toolFilter); err != nil {
		return query, err
	}
	if req.GetSearch() != "" {
		if query.Words, err = registry.SearchWords(req.GetSearch()); err != nil {
			return query, err
		}
	}
	if all, ok := req.(interface{ GetShowRetired() bool }); ok {
		query.ShowRetired = all.GetShowRetired()
	}
	return query, nil
}

// ListToolFacets implements ToolCatalogService.
func (t tools) ListToolFacets(ctx context.Context, req *pb.ListToolFacetsRequest) (*pb.ListToolFacetsResponse, error) {
	d, err := t.desk(ctx)
	if err != nil {
		return nil, err
	}
	query, err := toolQuery(req)
	if err != nil {
		return nil, err
	}
	facets, total, err := d.store.ToolFacets(ctx, query, req.GetFacets())
	if err != nil {
		return nil, err
	}
	out := &pb.ListToolFacetsResponse{TotalSize: count(total)}
	for i := range facets {
		out.Facets = append(out.Facets, facetOut(&facets[i]))
	}
	return out, nil
}
