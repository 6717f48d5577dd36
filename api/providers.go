package api

import (
	"context"
	"net/http"
	"strings"

	"countersign/db"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
	"countersign/workflows"
)

// providers implements ToolProviderService.
type providers struct{ *Handler }

// protocol is the version that is begun with when nobody says.
const protocol = "2026-07-28"

// CreateToolProvider implements ToolProviderService. One of the family MCP is a
// registration.
func (p providers) CreateToolProvider(ctx context.Context, req *pb.CreateToolProviderRequest) (*pb.CreateToolProviderResponse, error) {
	d, err := p.desk(ctx)
	if err != nil {
		return nil, err
	}
	if config := req.GetMcp(); config != nil {
		_, err = servers(p).RegisterMcpServer(ctx, &pb.RegisterMcpServerRequest{
			Name: req.GetName(), Description: req.GetDescription(), Direction: pb.McpDirection_MCP_DIRECTION_CONSUMED,
			Transport: pb.McpTransport_MCP_TRANSPORT_STREAMABLE_HTTP, EndpointUrl: config.GetEndpointUrl(), EndpointRef: config.GetEndpointRef(),
			Authentication: config.GetAuthentication(), ExceptionReason: config.GetExceptionReason(),
			GovernancePolicyRef: orElse(config.GetGovernancePolicyRef(), registry.PolicyDefault), ProtocolVersion: orElse(config.GetProtocolVersion(), protocol),
		})
	} else {
		err = p.createExtension(ctx, d, req)
	}
	if err != nil {
		return nil, err
	}
	call := callOf(ctx)
	call.status, call.location = http.StatusCreated, "/factory/tool-providers/"+req.GetName()
	v, err := d.store.Provider(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	return &pb.CreateToolProviderResponse{Provider: providerOut(&v)}, nil
}

func orElse(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

func (p providers) createExtension(ctx context.Context, d desk, req *pb.CreateToolProviderRequest) error {
	hash, err := bodyHash(req)
	if err != nil {
		return err
	}
	op, claim, err := d.keyed(ctx, "create_provider", hash)
	if err != nil {
		return err
	}
	config := extensionIn(req.GetAep())
	config.Description = req.GetDescription()
	if err := registry.CheckProvider(req.GetName(), config, p.opts.Installation); err != nil {
		return err
	}
	if err := p.governs(ctx, d, config.GovernancePolicyRef); err != nil {
		return err
	}
	return p.save(ctx, workflows.SaveProviderInput{Tenant: d.principal.Tenant, Name: req.GetName(), Operation: op, Create: &config}, claim)
}

// governs says whether a bundle is there to govern servers.
func (p providers) governs(ctx context.Context, d desk, ref string) error {
	bad := registry.Errorf(registry.ReasonInvalidArgument, "the provider is not valid")
	if err := p.policyExists(ctx, d, ref, bad); err != nil {
		return err
	}
	if len(bad.Fields) > 0 {
		return bad
	}
	return nil
}

// save brings a change to the provider's workflow, so that it is refreshed however
// this process ends.
func (p providers) save(ctx context.Context, in workflows.SaveProviderInput, claim *db.Claim) error {
	if claim != nil {
		in.Key, in.BodyHash = claim.Key, claim.BodyHash
	}
	callOf(ctx).sent = true
	waiting, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	out, err := p.opts.Workflows.SaveProvider(waiting, in)
	if out.Replayed {
		setHeader(ctx, "Idempotent-Replayed", "true")
	}
	return err
}

// GetToolProvider implements ToolProviderService.
func (p providers) GetToolProvider(ctx context.Context, req *pb.GetToolProviderRequest) (*pb.GetToolProviderResponse, error) {
	d, err := p.desk(ctx)
	if err != nil {
		return nil, err
	}
	v, err := d.provider(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	return &pb.GetToolProviderResponse{Provider: providerOut(&v)}, nil
}

func (d desk) provider(ctx context.Context, name string) (db.ProviderView, error) {
	v, err := d.store.Provider(ctx, name)
	return v, notFound(err, "provider", name)
}

// ListToolProviders implements ToolProviderService.
func (p providers) ListToolProviders(ctx context.Context, req *pb.ListToolProvidersRequest) (*pb.ListToolProvidersResponse, error) {
	d, err := p.desk(ctx)
	if err != nil {
		return nil, err
	}
	l := list{tenant: d.principal.Tenant, method: "providers", filter: req.GetFamily().String()}
	page, err := l.page(req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	views, next, total, err := d.store.Providers(ctx, db.ProviderQuery{Family: word(families, req.GetFamily()), Page: page})
	if err != nil {
		return nil, err
	}
	out := &pb.ListToolProvidersResponse{NextPageToken: l.token(next), TotalSize: count(total)}
	for i := range views {
		out.Providers = append(out.Providers, providerOut(&views[i]))
	}
	return out, nil
}

// UpdateToolProvider implements ToolProviderService. Of the family MCP it is an
// edit of the server.
func (p providers) UpdateToolProvider(ctx context.Context, req *pb.UpdateToolProviderRequest) (*pb.UpdateToolProviderResponse, error) {
	d, err := p.desk(ctx)
	if err != nil {
		return nil, err
	}
	v, err := d.provider(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	if v.Family == registry.FamilyMCP {
		err = p.editServer(ctx, &v, req)
	} else {
		err = p.editExtension(ctx, d, &v, req)
	}
	if err != nil {
		return nil, err
	}
	if v, err = d.provider(ctx, req.GetName()); err != nil {
		return nil, err
	}
	return &pb.UpdateToolProviderResponse{Provider: providerOut(&v)}, nil
}

func (p providers) editServer(ctx context.Context, v *db.ProviderView, req *pb.UpdateToolProviderRequest) error {
	if err := v.CheckEtag(req.GetEtag()); err != nil {
		return err
	}
	edit := &pb.UpdateMcpServerRequest{
		ServerId: v.Server.ServerID, UpdateMask: req.GetUpdateMask(),
		Server: &pb.ServerPatch{
			Description: req.GetDescription(), EndpointUrl: req.GetMcp().GetEndpointUrl(), EndpointRef: req.GetMcp().GetEndpointRef(),
			GovernancePolicyRef: req.GetMcp().GetGovernancePolicyRef(),
		},
	}
	bad := registry.Errorf(registry.ReasonInvalidArgument, "the update is not valid")
	for i, path := range edit.GetUpdateMask().GetPaths() {
		field, own := strings.CutPrefix(path, "mcp.")
		if path != "description" && (!own || field != "endpoint_url" && field != "endpoint_ref" && field != "governance_policy_ref") {
			bad.WithField("update_mask", "%q is not a field that can be changed; there are description, mcp.endpoint_url, mcp.endpoint_ref and mcp.governance_policy_ref", path)
			continue
		}
		edit.UpdateMask.Paths[i] = field
	}
	if len(bad.Fields) > 0 {
		return bad
	}
	_, err := servers(p).UpdateMcpServer(ctx, edit)
	return err
}

// extensionFields are the fields of an extension's configuration that a mask can
// name.
var extensionFields = map[string]func(e *registry.ProviderEdit, req *pb.UpdateToolProviderRequest){
	"description": func(e *registry.ProviderEdit, req *pb.UpdateToolProviderRequest) {
		e.Description = new(req.GetDescription())
	},
	"aep.base_url": func(e *registry.ProviderEdit, req *pb.UpdateToolProviderRequest) {
		e.BaseURL = new(req.GetAep().GetBaseUrl())
	},
	"aep.extension_id": func(e *registry.ProviderEdit, req *pb.UpdateToolProviderRequest) {
		e.ExtensionID = new(req.GetAep().GetExtensionId())
	},
	"aep.authentication": func(e *registry.ProviderEdit, req *pb.UpdateToolProviderRequest) {
		e.Authentication = new(word(authentications, req.GetAep().GetAuthentication()))
	},
	"aep.exception_reason": func(e *registry.ProviderEdit, req *pb.UpdateToolProviderRequest) {
		e.ExceptionReason = new(req.GetAep().GetExceptionReason())
	},
	"aep.governance_policy_ref": func(e *registry.ProviderEdit, req *pb.UpdateToolProviderRequest) {
		e.GovernancePolicyRef = new(orElse(req.GetAep().GetGovernancePolicyRef(), registry.PolicyDefault))
	},
}

func (p providers) editExtension(ctx context.Context, d desk, v *db.ProviderView, req *pb.UpdateToolProviderRequest) error {
	edit := registry.ProviderEdit{Etag: req.GetEtag()}
	bad := registry.Errorf(registry.ReasonInvalidArgument, "the update is not valid")
	for _, path := range req.GetUpdateMask().GetPaths() {
		take, known := extensionFields[path]
		if !known {
			bad.WithField("update_mask", "%q is not a field that can be changed; there are %s", path, strings.Join(sortedNames(extensionFields), ", "))
			continue
		}
		take(&edit, req)
	}
	if len(req.GetUpdateMask().GetPaths()) == 0 {
		bad.WithField("update_mask", "names no field; there are %s", strings.Join(sortedNames(extensionFields), ", "))
	}
	if len(bad.Fields) > 0 {
		return bad
	}
	next, _ := v.ProviderConfig.Edit(edit)
	if err := next.Check(p.opts.Installation); err != nil {
		return err
	}
	if err := p.governs(ctx, d, next.GovernancePolicyRef); err != nil {
		return err
	}
	hash, err := bodyHash(req)
	if err != nil {
		return err
	}
	op, claim, err := d.keyed(ctx, "edit_provider", hash)
	if err != nil {
		return err
	}
	return p.save(ctx, workflows.SaveProviderInput{Tenant: d.principal.Tenant, Name: v.Name, Operation: op, Edit: edit}, claim)
}

// TestToolProvider implements ToolProviderService.
func (p providers) TestToolProvider(ctx context.Context, req *pb.TestToolProviderRequest) (*pb.TestToolProviderResponse, error) {
	d, err := p.desk(ctx)
	if err != nil {
		return nil, err
	}
	v, err := d.provider(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	if v.Family == registry.FamilyMCP {
		report, err := p.opts.Workflows.Test(ctx, workflows.TestInput{Tenant: v.TenantID, ServerID: v.Server.ServerID})
		if err != nil {
			return nil, err
		}
		return &pb.TestToolProviderResponse{Ok: report.OK, Servers: []*pb.ProviderServerTest{{Report: testOut(&report)}}}, nil
	}
	report, err := p.opts.Workflows.TestProvider(ctx, workflows.TestProviderInput{Tenant: v.TenantID, Name: v.Name})
	if err != nil {
		return nil, err
	}
	return providerTestOut(&report), nil
}

// RefreshToolProvider implements ToolProviderService. How long it waits is the
// caller's choice; the refresh goes on anyway (C16).
func (p providers) RefreshToolProvider(ctx context.Context, req *pb.RefreshToolProviderRequest) (*pb.RefreshToolProviderResponse, error) {
	d, err := p.desk(ctx)
	if err != nil {
		return nil, err
	}
	v, err := d.provider(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	callOf(ctx).sent = true
	run, err := p.begin(ctx, d, &v)
	if err != nil {
		return nil, err
	}
	done, err := servers(p).awaitRun(ctx, run, req.GetWait())
	if err != nil {
		return nil, err
	}
	if v, err = d.provider(ctx, req.GetName()); err != nil {
		return nil, err
	}
	if c := callOf(ctx); !done {
		c.status, c.location = http.StatusAccepted, "/factory/tool-providers/"+v.Name
	}
	return &pb.RefreshToolProviderResponse{Run: runOut(run), Provider: providerOut(&v), Done: done}, nil
}

// begin starts a refresh, or joins the one that runs.
func (p providers) begin(ctx context.Context, d desk, v *db.ProviderView) (workflows.Run, error) {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	op := d.operation("refresh_provider", "", "")
	if v.Family == registry.FamilyMCP {
		started, err := p.opts.Workflows.Discover(ctx, v.Name, workflows.BeginDiscoveryInput{Tenant: v.TenantID, ServerID: v.Server.ServerID, Operation: op})
		return started.Run, err
	}
	_, run, err := p.opts.Workflows.RefreshProvider(ctx, workflows.BeginRefreshInput{Tenant: v.TenantID, Name: v.Name, Operation: op})
	return run, err
}

// EnableToolProvider implements ToolProviderService.
func (p providers) EnableToolProvider(ctx context.Context, req *pb.EnableToolProviderRequest) (*pb.EnableToolProviderResponse, error) {
	out, err := p.switched(ctx, req, true)
	return &pb.EnableToolProviderResponse{Provider: out}, err
}

// DisableToolProvider implements ToolProviderService.
func (p providers) DisableToolProvider(ctx context.Context, req *pb.DisableToolProviderRequest) (*pb.DisableToolProviderResponse, error) {
	out, err := p.switched(ctx, req, false)
	return &pb.DisableToolProviderResponse{Provider: out}, err
}

func (p providers) switched(ctx context.Context, req interface {
	GetName() string
	GetEtag() string
}, enabled bool,
) (*pb.ToolProvider, error) {
	d, err := p.desk(ctx)
	if err != nil {
		return nil, err
	}
	what := map[bool]string{true: "enable_provider", false: "disable_provider"}[enabled]
	callOf(ctx).sent = true
	if _, err := d.store.SwitchProvider(ctx, req.GetName(), enabled, req.GetEtag(), d.operation(what, "", "")); err != nil {
		return nil, notFound(err, "provider", req.GetName())
	}
	v, err := d.provider(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	return providerOut(&v), nil
}

// DeleteToolProvider implements ToolProviderService.
func (p providers) DeleteToolProvider(ctx context.Context, req *pb.DeleteToolProviderRequest) (*pb.DeleteToolProviderResponse, error) {
	d, err := p.desk(ctx)
	if err != nil {
		return nil, err
	}
	callOf(ctx).sent = true
	was, err := d.store.Provider(ctx, req.GetName())
	if err == nil {
		err = d.deletions(req.GetDryRun()).DeleteProvider(ctx, req.GetName(), req.GetEtag(), d.operation("delete_provider", "", ""))
	}
	if err != nil {
		return nil, notFound(err, "provider", req.GetName())
	}
	return &pb.DeleteToolProviderResponse{Provider: providerOut(&was), DryRun: req.GetDryRun()}, nil
}
