package api

import (
	"context"
	"log/slog"

	"google.golang.org/protobuf/types/known/durationpb"

	"countersign/db"
	"countersign/policy"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// resolver implements McpRegistryService. It asks the database and nobody else
// (R77), each time (R73).
type resolver struct{ *Handler }

// ResolveTool implements McpRegistryService. A denial is an answer (R72).
func (r resolver) ResolveTool(ctx context.Context, req *pb.ResolveToolRequest) (*pb.ResolveToolResponse, error) {
	answers, _, err := r.resolve(ctx, []string{req.GetToolId()}, req)
	if err != nil {
		return nil, err
	}
	r.count(ctx, answers)
	return answers[0], nil
}

// BatchResolveTools implements McpRegistryService. One denial withholds all
// routing (R74).
func (r resolver) BatchResolveTools(ctx context.Context, req *pb.BatchResolveToolsRequest) (*pb.BatchResolveToolsResponse, error) {
	answers, callable, err := r.resolve(ctx, req.GetToolIds(), req)
	if err != nil {
		return nil, err
	}
	r.count(ctx, answers)
	if !callable {
		for _, a := range answers {
			a.Routing = nil
		}
	}
	return &pb.BatchResolveToolsResponse{Callable: callable, Resolutions: answers}, nil
}

func (r resolver) count(ctx context.Context, answers []*pb.ResolveToolResponse) {
	if r.opts.Instruments == nil {
		return
	}
	for _, a := range answers {
		r.opts.Instruments.Resolution(ctx, a.GetReason())
	}
}

// named is who requests say is to call.
type named interface {
	GetAgent() string
	GetWorkspace() string
}

// askedConsistently is what requests say of how current answers must be.
type askedConsistently interface {
	GetConsistency() pb.Consistency
	GetMaxAge() *durationpb.Duration
}

// asked is a request of resolve.
type asked interface {
	named
	askedConsistently
}

func callerOf(by named) db.Caller {
	return db.Caller{Agent: by.GetAgent(), Workspace: by.GetWorkspace()}
}

// callerNamed refuses a caller who cannot be one.
func callerNamed(by named) error {
	if by.GetAgent() == "" && by.GetWorkspace() != "" {
		return registry.Errorf(registry.ReasonInvalidArgument, "the request names a workspace and no agent").
			WithField("agent", "is required with a workspace")
	}
	return nil
}

// resolve answers in the order of the ids, and says whether all may be called.
func (r resolver) resolve(ctx context.Context, ids []string, by asked) ([]*pb.ResolveToolResponse, bool, error) {
	d, err := r.desk(ctx)
	if err != nil {
		return nil, false, err
	}
	if err := callerNamed(by); err != nil {
		return nil, false, err
	}
	maxAge, fromMemory := bounded(by)
	switch {
	case fromMemory:
		known, err := r.remembered(ctx, d, ids, by, maxAge)
		return known.each, known.callable, err
	case by.GetMaxAge() != nil:
		return nil, false, registry.Errorf(registry.ReasonInvalidArgument, "the request says how old an answer from memory may be, and wants none").
			WithField("max_age", "is for bounded consistency")
	}
	found, err := d.store.ResolveFor(ctx, ids, callerOf(by))
	if err != nil {
		return nil, false, err
	}
	out := make([]*pb.ResolveToolResponse, len(ids))
	callable := true
	for i, id := range ids {
		v := found[id]
		denial := &registry.Denial{Reason: registry.ReasonToolNotFound}
		bundle := ""
		if v != nil {
			p, err := r.policyBy(ctx, d, v.Server.GovernancePolicyRef, v.PolicyDigest)
			if err != nil {
				return nil, false, err
			}
			bundle = p.Digest()
			if denial = v.Denial; denial == nil {
				denial = r.called(p, v, by)
			}
		}
		out[i] = resolutionOut(id, v, denial, bundle)
		callable = callable && denial == nil
	}
	return out, callable, nil
}

// policyBy gives the policy of a reference, with the digest of the published
// bundle that it names, which governs a tool's server: nil, which denies every
// call, when there is none or it cannot be used. The error says that nobody
// knows.
func (r resolver) policyBy(ctx context.Context, d desk, ref, digest string) (*policy.Policy, error) {
	if digest == "" {
		return policy.Builtin(ref), nil
	}
	p, err := r.policies.Get(digest, func() ([]byte, error) { return d.store.PolicyDocument(ctx, digest) })
	if reason := registry.ReasonOf(err); reason == registry.ReasonPolicyError || reason == registry.ReasonPolicyNotFound {
		r.log.LogAttrs(ctx, slog.LevelError, "a policy cannot be used, so it denies", slog.String("tenant", d.principal.Tenant),
			slog.String("policy", ref), slog.Any("error", err))
		return nil, nil
	}
	return p, err
}

// called asks the policy's rules for calls, as of the database's time.
func (r resolver) called(p *policy.Policy, v *db.ToolView, by named) *registry.Denial {
	server := policy.ServerOf(&v.Server)
	call := policy.Call{
		Server: &server, ToolID: v.Tool.ToolID, Tool: v.Tool.ExternalID, Agent: by.GetAgent(), Workspace: by.GetWorkspace(), Now: v.Now,
	}
	if v.Binding != nil {
		call.Class = v.Binding.DeclaredClass
	}
	return p.Call(call).Denial()
}

// ListCapabilities implements McpRegistryService.
func (r resolver) ListCapabilities(ctx context.Context, req *pb.ListCapabilitiesRequest) (*pb.ListCapabilitiesResponse, error) {
	d, err := r.desk(ctx)
	if err != nil {
		return nil, err
	}
	l := list{tenant: d.principal.Tenant, method: "capabilities", filter: req.GetScope()}
	page, err := l.page(req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	items, next, err := d.store.Exposed(ctx, req.GetScope(), page)
	if err != nil {
		return nil, err
	}
	out := &pb.ListCapabilitiesResponse{NextPageToken: l.token(next)}
	for i := range items {
		out.Capabilities = append(out.Capabilities, capabilityOut(&items[i]))
	}
	return out, nil
}
