package api

import (
	"context"
	"time"

	"countersign/db"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// GetMcpCapabilities implements McpServerService: all that a server offers, what
// was approved of it, and the digest that a decision must name.
func (s servers) GetMcpCapabilities(ctx context.Context, req *pb.GetMcpCapabilitiesRequest) (*pb.GetMcpCapabilitiesResponse, error) {
	d, err := s.desk(ctx)
	if err != nil {
		return nil, err
	}
	full := req.GetView() == pb.CapabilityView_CAPABILITY_VIEW_FULL
	c, err := d.store.Capabilities(ctx, req.GetServerId(), full)
	if err != nil {
		return nil, notFound(err, "server", req.GetServerId())
	}
	return capabilitiesOut(&c, full), nil
}

// capabilitiesOut shows a catalog. Items of which the last discovery saw
// nothing are not in it, but for tools: of those the row stays.
func capabilitiesOut(c *db.Capabilities, full bool) *pb.GetMcpCapabilitiesResponse {
	out := &pb.GetMcpCapabilitiesResponse{
		ServerId: c.Server.ServerID, Etag: c.Server.Etag(), SnapshotDigest: c.Server.SnapshotDigest, Review: reviewOut(&c.Server.Review),
	}
	snap := c.Snapshot
	if snap == nil {
		snap = &registry.Snapshot{}
	}
	out.Instructions, out.Capabilities, out.Quirks = text(snap.Instructions), strs(snap.Kinds), strs(snap.Quirks)
	for i := range c.Tools {
		t := &c.Tools[i]
		var definition []byte
		if item, found := snap.Find(registry.KindTool, t.ExternalID); found {
			definition = item.Raw
		}
		out.Tools = append(out.Tools, toolOut(&db.ToolView{
			Tool: t.Tool, Binding: t.Binding, Server: c.Server.Server, Connection: c.Server.Connection,
			ProviderEnabled: c.Server.ProviderEnabled, Denial: t.Denial, LastProbe: c.Server.LastProbe, Now: time.Now(),
		}, definition))
	}
	resources := map[string]*registry.ResourceBinding{}
	for i := range c.Resources {
		resources[c.Resources[i].ResourceURI] = &c.Resources[i]
	}
	prompts := map[string]*registry.PromptBinding{}
	for i := range c.Prompts {
		prompts[c.Prompts[i].PromptName] = &c.Prompts[i]
	}
	for _, item := range snap.Items {
		switch item.Kind {
		case registry.KindResource, registry.KindTemplate:
			out.Resources = append(out.Resources, resourceOut(item, resources[item.Name], full))
		case registry.KindPrompt:
			out.Prompts = append(out.Prompts, promptOut(item, prompts[item.Name], full))
		case registry.KindTool:
		}
	}
	return out
}
