package workflows

import (
	"go.temporal.io/sdk/workflow"

	"countersign/activities"
)

// PolicyChangeInput names a version of a bundle that was published, or carries
// on with the servers after one.
type PolicyChangeInput struct {
	Tenant  string `json:"tenant"`
	Name    string `json:"name"`
	Version int    `json:"version"`
	Ref     string `json:"ref"`
	Digest  string `json:"digest"`
	After   string `json:"after,omitempty"`
}

// PolicySignal tells a server that the bundle with the digest governs it.
type PolicySignal struct {
	Ref    string `json:"ref"`
	Digest string `json:"digest"`
}

// policyPage is how many servers are told at a time.
const policyPage = 100

// PolicyChange tells every live server that a published version governs, so that
// each unbinds what it does not admit. A server that is registered meanwhile
// begins under it.
func PolicyChange(ctx workflow.Context, in PolicyChangeInput) error {
	for {
		out, err := do(ctx, committing, "servers under "+in.Ref, act.PolicyUsers, activities.PolicyUsersInput{
			Tenant: in.Tenant, Name: in.Name, Version: in.Version, After: in.After, Limit: policyPage,
		})
		if err != nil {
			return err
		}
		sent := make([]workflow.Future, len(out.Names))
		for i, name := range out.Names {
			sent[i] = workflow.SignalExternalWorkflow(ctx, ServerWorkflowID(in.Tenant, name), "", SignalPolicy, PolicySignal{Ref: in.Ref, Digest: in.Digest})
		}
		for i, f := range sent {
			if err := f.Get(ctx, nil); err != nil { // it has just been retired
				workflow.GetLogger(ctx).Debug("policy change not delivered", "server", out.Names[i], "error", err)
			}
		}
		if out.Next == "" {
			return nil
		}
		in.After = out.Next
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			return workflow.NewContinueAsNewError(ctx, PolicyChange, in)
		}
	}
}
