package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"countersign/activities"
	"countersign/registry"
)

// Discovery is one discovery: its activity meets the server and writes what it
// saw, in one step that may run twice. A failure is recorded and changes no
// tool (R44).
func Discovery(ctx workflow.Context, in activities.DiscoverInput) (activities.ServerOutput, error) {
	out, err := do(ctx, discovering, "handshake and lists", act.Discover, in)
	if err == nil || temporal.IsCanceledError(err) {
		return out, err
	}
	reason, message := registry.ReasonOf(err), "the discovery failed on our side"
	if e, ok := registry.AsError(err); ok {
		message = e.Message
	} else if temporal.IsTimeoutError(err) {
		reason, message = registry.ReasonTimeout, "the discovery took too long"
	}
	workflow.SetCurrentDetails(ctx, "failed: "+string(reason)+": "+message)
	return do(ctx, committing, "record the failure", act.FailDiscovery, activities.FailDiscoveryInput{
		Tenant: in.Tenant, ServerID: in.ServerID, Number: in.Number, RequestedBy: in.RequestedBy,
		TargetDigest: in.TargetDigest, Reason: reason, Message: message,
	})
}

// ConnectionTest handshakes and lists, and writes nothing (R52).
func ConnectionTest(ctx workflow.Context, in activities.TestInput) (activities.TestReport, error) {
	return do(ctx, trying, "handshake and lists, for a look", act.Test, in)
}
