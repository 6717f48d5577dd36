package workflows

import (
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"countersign/activities"
	"countersign/registry"
)

func (s *server) wantsDiscovery() bool { return s.State.Discover != "" && s.number == 0 }

func (s *server) childDone() bool { return s.child != nil && s.child.IsReady() }

// discoverAgain starts a discovery that nobody waits for.
func (s *server) discoverAgain(ctx workflow.Context) error {
	if err := s.lock.Lock(ctx); err != nil {
		return err
	}
	defer s.lock.Unlock()
	if !s.wantsDiscovery() || s.State.Server.State == registry.StateRetired {
		return nil
	}
	by := s.State.Discover
	s.State.Discover = ""
	_, err := s.begin(ctx, activities.BeginDiscoveryInput{
		Tenant: s.Tenant, ServerID: s.State.Server.ServerID,
		Operation: registry.Operation{
			ID:    fmt.Sprintf("discovery/%d/%s", s.State.Server.Discovery.Number+1, workflow.GetInfo(ctx).WorkflowExecution.RunID),
			Actor: registry.Actor{Subject: by}, Origin: registry.OriginSystem,
		},
	})
	return s.own(ctx, registry.Server{}, err)
}

// begin gives a discovery its number and starts it, or joins the one that runs:
// one at a time (R54). The caller holds the lock.
func (s *server) begin(ctx workflow.Context, in activities.BeginDiscoveryInput) (activities.BeginDiscoveryOutput, error) {
	in.Running, in.Operation.Name = s.number, "begin_discovery"
	out, err := do(ctx, committing, "number the discovery", act.BeginDiscovery, in)
	if err != nil {
		return out, err
	}
	s.take(ctx, out.Server)
	if out.Number == s.number || out.Replayed && out.Number != s.State.Server.Discovery.Number {
		return out, nil
	}
	if s.child != nil {
		// The one before has told the table all it saw and is about to end.
		_ = s.child.Get(ctx, nil) // endDiscovery looks at how it ended
		if err := s.endDiscovery(ctx); err != nil {
			return out, err
		}
	}
	s.State.Discover, s.State.RetryAt = "", time.Time{}
	childCtx, stop := workflow.WithCancel(ctx)
	childCtx = workflow.WithChildOptions(childCtx, workflow.ChildWorkflowOptions{
		WorkflowID:            DiscoveryWorkflowID(s.Tenant, in.ServerID, out.Number),
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
		WaitForCancellation:   true,
		StaticSummary:         "discovery " + fmt.Sprint(out.Number) + " of " + s.Name,
		TypedSearchAttributes: temporal.NewSearchAttributes(AttributeTenant.ValueSet(s.Tenant), AttributeServer.ValueSet(in.ServerID)),
	})
	s.child = workflow.ExecuteChildWorkflow(childCtx, Discovery, activities.DiscoverInput{
		Tenant: s.Tenant, ServerID: in.ServerID, Number: out.Number,
		RequestedBy: in.Operation.Actor.Subject, TargetDigest: out.Server.TargetDigest,
	})
	s.stopChild, s.number = stop, out.Number
	if err := s.child.GetChildWorkflowExecution().Get(ctx, &s.childRun); err != nil {
		// A repeated number: the child ran before this workflow knew of it. Its
		// end has told the table what it told; the next one gets a new number.
		s.child, s.stopChild, s.number = nil, nil, 0
		if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
			return out, nil
		}
		return out, err
	}
	return out, nil
}

// endDiscovery takes what the child found.
func (s *server) endDiscovery(ctx workflow.Context) error {
	child, number := s.child, s.number
	if child == nil {
		return nil
	}
	s.child, s.stopChild, s.number, s.childRun = nil, nil, 0, workflow.Execution{}
	var out activities.ServerOutput
	err := child.Get(ctx, &out)
	if err != nil {
		if s.State.Server.State == registry.StateRetired {
			return nil
		}
		// The child was cancelled, terminated or timed out. What it would have
		// said is said here, so that nobody waits for it.
		out, err = do(ctx, committing, "record that the discovery ended", act.FailDiscovery, activities.FailDiscoveryInput{
			Tenant: s.Tenant, ServerID: s.State.Server.ServerID, Number: number,
			RequestedBy: s.State.Server.Discovery.RequestedBy, TargetDigest: s.State.Server.TargetDigest,
			Reason: registry.ReasonInternal, Message: "the discovery was stopped before it ended",
		})
	}
	if err := s.own(ctx, out.Server, err); err != nil {
		return err
	}
	if v := &s.State.Server; v.State == registry.StateRegistered && v.Discovery.Status == registry.DiscoveryFailed {
		s.State.RetryDelay = min(max(2*s.State.RetryDelay, firstRetry), longestRetry)
		s.State.RetryAt = workflow.Now(ctx).Add(s.State.RetryDelay)
	}
	return nil
}
