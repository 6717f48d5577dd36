package main

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"countersign/policy"
	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

func (f *fakeAPI) ListPolicies(_ context.Context, request *registryv1.ListPoliciesRequest) (*registryv1.ListPoliciesResponse, error) {
	all := []*registryv1.Policy{
		{Name: "default", Version: 1, BuiltIn: true, Newest: true, Servers: 3, Description: "What everybody has."},
		{Name: "payments", Version: 2, Newest: true, PublishTime: day(3), PublishedBy: "ada"},
		{Name: "payments", Version: 1, Servers: 1, PublishTime: day(1), PublishedBy: "ada"},
	}
	if request.GetName() != "" {
		all = all[1:]
	}
	return &registryv1.ListPoliciesResponse{Policies: all, TotalSize: int32(len(all))}, nil
}

func (f *fakeAPI) GetPolicy(_ context.Context, request *registryv1.GetPolicyRequest) (*registryv1.GetPolicyResponse, error) {
	switch request.GetName() {
	case "default":
		return &registryv1.GetPolicyResponse{Policy: &registryv1.Policy{Name: "default", Version: 1, Document: string(policy.DefaultDocument())}}, nil
	case "payments":
		return &registryv1.GetPolicyResponse{Policy: &registryv1.Policy{Name: "payments", Version: 2, Document: `{"name":"payments","version":2}`}}, nil
	}
	return nil, refusal(connect.CodeNotFound, registry.ReasonPolicyNotFound, "", nil, "there is no policy %q", request.GetName())
}

func (f *fakeAPI) unfit(document string) []*registryv1.Unfit {
	p, err := policy.Load([]byte(document))
	if err != nil || p.Bundle().Name != "strict" {
		return nil
	}
	return []*registryv1.Unfit{{
		ServerName: "demo", Kind: "tool", Name: "echo", ToolId: "demo.echo", DeclaredClass: registryv1.SideEffectClass_SIDE_EFFECT_CLASS_READ,
		Reason: "policy_changed", Detail: "1 more approval is needed",
	}}
}

func (f *fakeAPI) PreviewPolicy(_ context.Context, request *registryv1.PreviewPolicyRequest) (*registryv1.PreviewPolicyResponse, error) {
	return &registryv1.PreviewPolicyResponse{Servers: 2, Unbound: f.unfit(request.GetDocument())}, nil
}

func (f *fakeAPI) PublishPolicy(_ context.Context, request *registryv1.PublishPolicyRequest) (*registryv1.PublishPolicyResponse, error) {
	p, err := policy.Load([]byte(request.GetDocument()))
	if err != nil {
		return nil, err
	}
	unbound := f.unfit(request.GetDocument())
	if len(unbound) > 0 && !request.GetAllowUnbinding() {
		return nil, refusal(connect.CodeFailedPrecondition, registry.ReasonPolicyUnbinds, "", nil, "it would unbind something")
	}
	b := p.Bundle()
	return &registryv1.PublishPolicyResponse{
		Policy:  &registryv1.Policy{Name: b.Name, Version: int32(b.Version), Newest: true, PublishTime: day(5), PublishedBy: "ada", Digest: p.Digest()},
		Unbound: unbound,
	}, nil
}

func (f *fakeAPI) ListExpiring(context.Context, *registryv1.ListExpiringRequest) (*registryv1.ListExpiringResponse, error) {
	return &registryv1.ListExpiringResponse{TotalSize: 2, Expiring: []*registryv1.Expiring{
		{Kind: "exception", ServerName: "open", EndTime: day(7), Bound: 2, By: "ada"},
		{Kind: "approval", ServerName: "demo", EndTime: day(9), DueTime: day(8), Bound: 1, By: "bob", DecisionId: "dec_1"},
	}}, nil
}

func (f *fakeAPI) MintDecisionToken(context.Context, *registryv1.MintDecisionTokenRequest) (*registryv1.MintDecisionTokenResponse, error) {
	return &registryv1.MintDecisionTokenResponse{Token: "cdt_secret", TokenId: "dtk_1", ExpireTime: timestamppb.New(day(2).AsTime())}, nil
}

func (f *fakeAPI) RenewException(ctx context.Context, request *registryv1.RenewExceptionRequest) (*registryv1.RenewExceptionResponse, error) {
	r, err := f.GetMcpServer(ctx, &registryv1.GetMcpServerRequest{ServerId: request.GetServerId()})
	return &registryv1.RenewExceptionResponse{Server: r.GetServer()}, err
}
