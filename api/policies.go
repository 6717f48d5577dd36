package api

import (
	"context"
	"slices"
	"time"

	"countersign/db"
	"countersign/policy"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
	"countersign/workflows"
)

// governance implements PolicyService.
type governance struct{ *Handler }

// policyExists adds a fault to bad when the tenant has no bundle of that
// reference. The error says that nobody knows.
func (h *Handler) policyExists(ctx context.Context, d desk, asked string, bad *registry.Error) error {
	_, err := h.findPolicy(ctx, d, asked)
	if reason := registry.ReasonOf(err); reason == registry.ReasonPolicyNotFound {
		bad.WithField("governance_policy_ref", "there is no such policy bundle; list the policies, or publish it first")
		return nil
	} else if reason == registry.ReasonUnknownPolicy { // not a reference at all: the registration says so itself
		return nil
	}
	return err
}

// findPolicy gives the policy of a reference. The error is policy_not_found when
// the tenant has none, unknown_policy when it is no reference.
func (h *Handler) findPolicy(ctx context.Context, d desk, asked string) (*policy.Policy, error) {
	p, _, err := h.storedPolicy(ctx, d, asked)
	return p, err
}

// storedPolicy is findPolicy with what is kept of it; nil of the built-in one.
func (h *Handler) storedPolicy(ctx context.Context, d desk, asked string) (*policy.Policy, *registry.PolicyBundle, error) {
	ref, err := registry.ParsePolicyRef(asked)
	if err != nil {
		return nil, nil, err
	}
	if p := policy.Builtin(asked); p != nil {
		return p, nil, nil
	}
	bundle, err := d.store.Policy(ctx, ref)
	if err != nil {
		return nil, nil, notFound(err, "policy", asked)
	}
	p, err := h.policies.ByRef(asked, bundle)
	return p, bundle, err
}

// PublishPolicy implements PolicyService.
func (g governance) PublishPolicy(ctx context.Context, req *pb.PublishPolicyRequest) (*pb.PublishPolicyResponse, error) {
	d, err := g.desk(ctx)
	if err != nil {
		return nil, err
	}
	p, err := policy.Publishable([]byte(req.GetDocument()))
	if err != nil {
		return nil, err
	}
	ref := registry.PolicyRef{Name: p.Bundle().Name, Version: p.Bundle().Version}
	latest, err := d.store.Policy(ctx, registry.PolicyRef{Name: ref.Name})
	if err != nil && registry.ReasonOf(err) != registry.ReasonPolicyNotFound {
		return nil, err
	}
	newest := latest == nil || ref.Version >= latest.Version
	_, unbound, err := g.preview(ctx, d, p, ref, newest)
	if err != nil {
		return nil, err
	}
	if len(unbound) > 0 && !req.GetAllowUnbinding() {
		return nil, wouldUnbind(p.Ref(), unbound)
	}
	callOf(ctx).sent = true
	kept, _, err := d.store.PublishPolicy(ctx, p.Stored(), d.operation("publish_policy", "", ""))
	if err != nil {
		return nil, err
	}
	// A repeat begins it again where a process died between the two.
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	err = g.opts.Workflows.ApplyPolicy(ctx, workflows.PolicyChangeInput{
		Tenant: kept.TenantID, Name: kept.Name, Version: kept.Version, Ref: kept.Ref, Digest: kept.Digest,
	})
	if e, ok := registry.AsError(err); ok {
		return nil, e.WithNext("%s is published, and its servers were not told: publish it again", kept.Ref)
	}
	if err != nil {
		return nil, err
	}
	out := policyOut(&db.PolicyView{PolicyBundle: kept, Newest: newest}, p)
	return &pb.PublishPolicyResponse{Policy: out, Unbound: unbound}, nil
}

// named bounds how many names a message has.
const maxNamed = 5

func wouldUnbind(ref string, unbound []*pb.Unfit) error {
	e := registry.Errorf(registry.ReasonPolicyUnbinds, "policy %s would unbind %d of what is bound now", ref, len(unbound)).
		WithNext("see what by PreviewPolicy; publish it with allow_unbinding to do it")
	for _, u := range unbound[:min(len(unbound), maxNamed)] {
		e.With("unbinds", u.GetServerName()+": "+u.GetName()+": "+u.GetDetail())
	}
	return e
}

// GetPolicy implements PolicyService.
func (g governance) GetPolicy(ctx context.Context, req *pb.GetPolicyRequest) (*pb.GetPolicyResponse, error) {
	d, err := g.desk(ctx)
	if err != nil {
		return nil, err
	}
	p, kept, err := g.storedPolicy(ctx, d, req.GetName())
	if registry.ReasonOf(err) == registry.ReasonUnknownPolicy {
		e, _ := registry.AsError(err)
		return nil, e.WithField("name", "is NAME or NAME@VERSION")
	}
	if err != nil {
		return nil, err
	}
	v := &db.PolicyView{}
	if kept == nil {
		v.PolicyBundle, v.Newest = p.Stored(), true
		v.Document = policy.DefaultDocument()
	} else {
		latest, err := d.store.Policy(ctx, registry.PolicyRef{Name: kept.Name})
		if err != nil {
			return nil, err
		}
		v.PolicyBundle, v.Newest = *kept, latest.Version == kept.Version
	}
	users, err := g.users(ctx, d, registry.PolicyRef{Name: v.Name, Version: v.Version}, v.Newest)
	if err != nil {
		return nil, err
	}
	v.Servers = len(users)
	return &pb.GetPolicyResponse{Policy: policyOut(v, p)}, nil
}

// ListPolicies implements PolicyService.
func (g governance) ListPolicies(ctx context.Context, req *pb.ListPoliciesRequest) (*pb.ListPoliciesResponse, error) {
	d, err := g.desk(ctx)
	if err != nil {
		return nil, err
	}
	l := list{tenant: d.principal.Tenant, method: "policies", filter: req.GetName()}
	page, err := l.page(req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	views, next, total, err := d.store.Policies(ctx, req.GetName(), page)
	if err != nil {
		return nil, err
	}
	out := &pb.ListPoliciesResponse{NextPageToken: l.token(next), TotalSize: count(total)}
	if req.GetName() == "" || req.GetName() == registry.PolicyDefault {
		out.TotalSize++
		if req.GetPageToken() == "" {
			builtin := policy.Default()
			users, err := g.users(ctx, d, registry.PolicyRef{Name: registry.PolicyDefault, Version: builtin.Bundle().Version}, true)
			if err != nil {
				return nil, err
			}
			v := &db.PolicyView{PolicyBundle: builtin.Stored(), Newest: true, Servers: len(users)}
			out.Policies = append(out.Policies, policyOut(v, nil))
		}
	}
	for i := range views {
		out.Policies = append(out.Policies, policyOut(&views[i], nil))
	}
	return out, nil
}

// CheckPolicy implements PolicyService.
func (g governance) CheckPolicy(ctx context.Context, req *pb.CheckPolicyRequest) (*pb.CheckPolicyResponse, error) {
	if _, err := g.desk(ctx); err != nil {
		return nil, err
	}
	bundle, problems := policy.Parse([]byte(req.GetDocument()))
	var p *policy.Policy
	if len(problems) == 0 {
		p, problems = policy.Compile(bundle)
	}
	out := &pb.CheckPolicyResponse{}
	for _, problem := range problems {
		out.Problems = append(out.Problems, &pb.PolicyProblem{
			Rule: text(problem.Rule), Path: text(problem.Path), Line: count(problem.Line), Column: count(problem.Column), Message: text(problem.Message),
		})
	}
	if p != nil {
		v := &db.PolicyView{PolicyBundle: p.Stored()}
		out.Policy = policyOut(v, p)
		out.Policy.Document = ""
	}
	return out, nil
}

// TestPolicy implements PolicyService.
func (g governance) TestPolicy(ctx context.Context, req *pb.TestPolicyRequest) (*pb.TestPolicyResponse, error) {
	d, err := g.desk(ctx)
	if err != nil {
		return nil, err
	}
	p, err := g.meant(ctx, d, req.GetDocument(), req.GetPolicy())
	if err != nil {
		return nil, err
	}
	cases := p.Bundle().Tests
	if req.GetTests() != "" {
		more, problems := policy.ParseCases([]byte(req.GetTests()))
		if err := policy.Refusal(problems); err != nil {
			return nil, err
		}
		cases = append(slices.Clip(cases), more...)
	}
	out := &pb.TestPolicyResponse{Passed: true}
	for _, r := range policy.Test(p, cases) {
		out.Passed = out.GetPassed() && r.Passed()
		out.Results = append(out.Results, &pb.PolicyTestResult{Name: text(r.Case), Passed: r.Passed(), Differences: strs(r.Diffs)})
	}
	return out, nil
}

// PreviewPolicy implements PolicyService.
func (g governance) PreviewPolicy(ctx context.Context, req *pb.PreviewPolicyRequest) (*pb.PreviewPolicyResponse, error) {
	d, err := g.desk(ctx)
	if err != nil {
		return nil, err
	}
	p, err := g.meant(ctx, d, req.GetDocument(), req.GetPolicy())
	if err != nil {
		return nil, err
	}
	if req.GetServerId() != "" {
		v, err := d.server(ctx, req.GetServerId())
		if err != nil {
			return nil, err
		}
		unbound, err := g.unfit(ctx, d, p, db.PolicyUser{ServerID: v.ServerID, Name: v.Name})
		return &pb.PreviewPolicyResponse{Servers: 1, Unbound: unbound}, err
	}
	if req.GetDocument() == "" {
		return nil, registry.Errorf(registry.ReasonInvalidArgument, "the request names no server").WithField("server_id", "is required with policy")
	}
	ref := registry.PolicyRef{Name: p.Bundle().Name, Version: p.Bundle().Version}
	if ref.Name == registry.PolicyDefault {
		return nil, registry.Errorf(registry.ReasonInvalidPolicy, "the built-in policy cannot be published").WithField("document", "has the name of the built-in policy")
	}
	servers, unbound, err := g.preview(ctx, d, p, ref, true)
	return &pb.PreviewPolicyResponse{Servers: count(servers), Unbound: unbound}, err
}

// meant gives the policy of a request that has either a document or a reference.
func (g governance) meant(ctx context.Context, d desk, document, asked string) (*policy.Policy, error) {
	switch {
	case (document == "") == (asked == ""):
		return nil, registry.Errorf(registry.ReasonInvalidArgument, "the request needs either a document or a policy").
			WithField("document", "either this or policy")
	case document != "":
		return policy.Load([]byte(document))
	}
	return g.findPolicy(ctx, d, asked)
}

// users lists the servers that a version governs, or would.
func (g governance) users(ctx context.Context, d desk, ref registry.PolicyRef, newest bool) ([]db.PolicyUser, error) {
	const page = 200
	var all []db.PolicyUser
	for after := ""; ; {
		users, err := d.store.PolicyUsers(ctx, ref, newest, after, page)
		if err != nil {
			return nil, err
		}
		all = append(all, users...)
		if len(users) < page {
			return all, nil
		}
		after = users[page-1].Name
	}
}

// preview says what a version unbinds of all servers that it would govern.
func (g governance) preview(ctx context.Context, d desk, p *policy.Policy, ref registry.PolicyRef, newest bool) (servers int, unbound []*pb.Unfit, err error) {
	users, err := g.users(ctx, d, ref, newest)
	if err != nil {
		return 0, nil, err
	}
	for _, user := range users {
		more, err := g.unfit(ctx, d, p, user)
		if err != nil {
			return 0, nil, err
		}
		unbound = append(unbound, more...)
	}
	return len(users), unbound, nil
}

// unfit says what of a server a policy would unbind, as it is now.
func (g governance) unfit(ctx context.Context, d desk, p *policy.Policy, user db.PolicyUser) ([]*pb.Unfit, error) {
	var unfit []registry.Unfit
	err := d.store.Consider(ctx, db.Change{
		ServerID: user.ServerID, Catalog: func(s *registry.Server) bool { return s.Open() },
		Decisions: true, Stated: (*registry.Record).BoundDefinitions,
		Apply: func(r *registry.Record, now time.Time) (err error) {
			r.Governance = p.Governance()
			unfit, err = r.Reevaluate(now)
			return err
		},
	})
	if registry.ReasonOf(err) == registry.ReasonServerNotFound {
		return nil, nil
	}
	out := make([]*pb.Unfit, len(unfit))
	for i, u := range unfit {
		out[i] = unfitOut(user, u)
	}
	return out, err
}
