package api

import (
	"context"
	"time"

	"countersign/db"
	"countersign/policy"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// ExplainTool implements McpRegistryService: the conditions of resolve one by
// one, judged by the same code.
func (r resolver) ExplainTool(ctx context.Context, req *pb.ExplainToolRequest) (*pb.ExplainToolResponse, error) {
	d, err := r.desk(ctx)
	if err != nil {
		return nil, err
	}
	if err := callerNamed(req); err != nil {
		return nil, err
	}
	var at time.Time
	if req.GetAt() != nil {
		if err := req.GetAt().CheckValid(); err != nil {
			return nil, registry.Errorf(registry.ReasonInvalidArgument, "the time is not valid").WithField("at", "is not a time")
		}
		at = req.GetAt().AsTime()
	}
	e, err := d.store.Explain(ctx, req.GetToolId(), callerOf(req), at)
	if err != nil {
		return nil, err
	}
	conditions := registry.Explain(e.Facts)
	registry.WithSince(conditions, e.History)
	denial := registry.Resolve(e.Facts)
	if e.Facts.Tool != nil {
		is, refused, err := r.explainPolicy(ctx, d, &e, req)
		if err != nil {
			return nil, err
		}
		conditions = append(conditions, is)
		if denial == nil {
			denial = refused
		}
	}
	out := &pb.ExplainToolResponse{ToolId: req.GetToolId(), Callable: denial == nil, At: moment(e.Facts.Now)}
	if denial != nil {
		out.Reason, out.Message, out.NextStep = string(denial.Reason), denial.Reason.Means(), denial.Next()
	}
	for _, c := range conditions {
		out.Conditions = append(out.Conditions, &pb.ResolveCondition{
			Reason: string(c.Reason), Holds: c.Holds, Value: text(c.Value), SinceTime: moment(c.Since), Roles: wordList(c.Who), NextStep: c.Next,
		})
	}
	return out, nil
}

// explainPolicy judges the last condition: the policy's rules for calls, as of
// the time that is asked for.
func (r resolver) explainPolicy(ctx context.Context, d desk, e *db.Explanation, by named) (registry.Condition, *registry.Denial, error) {
	f := &e.Facts
	p, err := r.policyBy(ctx, d, f.Server.GovernancePolicyRef, e.PolicyDigest)
	if err != nil {
		return registry.Condition{}, nil, err
	}
	server := policy.ServerOf(f.Server)
	call := policy.Call{
		Server: &server, ToolID: f.Tool.ToolID, Tool: f.Tool.ExternalID, Agent: by.GetAgent(), Workspace: by.GetWorkspace(), Now: f.Now,
	}
	if f.Binding != nil {
		call.Class = f.Binding.DeclaredClass
	}
	verdict := p.Call(call)
	value := "the policy " + f.Server.GovernancePolicyRef + " lets it be called"
	reason := registry.ReasonPolicyDenied
	denial := verdict.Denial()
	if denial != nil {
		reason, value = denial.Reason, "the policy "+f.Server.GovernancePolicyRef+" says no: "+denial.Detail
	}
	return reason.Condition(denial == nil, value), denial, nil
}
