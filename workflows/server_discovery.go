package workflows

import (
	"fmt"
	"strconv"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"countersign/activities"
	"countersign/registry"
)

// numberTaken marks runs that begin another discovery when the number of one was
// used before.
const numberTaken = "number-taken"

func (s *server) wantsDiscovery() bool {
	return s.number == 0 && (s.State.Discover != "" || s.numbered())
}

// numbered says whether the table has a discovery that was never started: the
// first one, whose number comes with the registration.
func (s *server) numbered() bool {
	d := &s.State.Server.Discovery
	return d.Status == registry.DiscoveryRunning && d.Number > s.State.Begun
}

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
	if d := &s.State.Server.Discovery; s.numbered() {
		return s.start(ctx, d.Number, d.RequestedBy)
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
	if out.Number == s.number {
		out.RunID = s.childRun.RunID
		return out, nil
	}
	if out.Replayed && out.Number != s.State.Server.Discovery.Number {
		return out, nil
	}
	if s.child != nil {
		// The one before has told the table all it saw and is about to end.
		_ = s.child.Get(ctx, nil) // endDiscovery looks at how it ended
		if err := s.endDiscovery(ctx); err != nil {
			return out, err
		}
	}
	err = s.start(ctx, out.Number, in.Operation.Actor.Subject)
	out.RunID = s.childRun.RunID
	return out, err
}

// start runs a discovery that has its number. The caller holds the lock.
func (s *server) start(ctx workflow.Context, number int64, by string) error {
	v := &s.State.Server
	s.State.Discover, s.State.RetryAt, s.State.Begun = "", time.Time{}, number
	childCtx, stop := workflow.WithCancel(ctx)
	childCtx = workflow.WithChildOptions(childCtx, workflow.ChildWorkflowOptions{
		WorkflowID:            DiscoveryWorkflowID(s.Tenant, v.ServerID, number),
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
		WaitForCancellation:   true,
		StaticSummary:         "discovery " + strconv.FormatInt(number, 10) + " of " + s.Name,
		TypedSearchAttributes: temporal.NewSearchAttributes(AttributeTenant.ValueSet(s.Tenant), AttributeServer.ValueSet(v.ServerID)),
	})
	s.child = workflow.ExecuteChildWorkflow(childCtx, Discovery, activities.DiscoverInput{
		Tenant: s.Tenant, ServerID: v.ServerID, Number: number, RequestedBy: by, TargetDigest: v.TargetDigest,
	})
	s.stopChild, s.number = stop, number
	if err := s.child.GetChildWorkflowExecution().Get(ctx, &s.childRun); err != nil {
		// A number that ran before: its end has told the table what it told, and
		// the next discovery gets a new one.
		s.child, s.stopChild, s.number, s.childRun = nil, nil, 0, workflow.Execution{}
		if !temporal.IsWorkflowExecutionAlreadyStartedError(err) {
			return err
		}
		// The table may be one of before, restored, which waits for what was told
		// to another: then that next one is begun at once.
		if workflow.GetVersion(ctx, numberTaken, workflow.DefaultVersion, 1) == 1 {
			s.State.Discover = by
		}
	}
	return nil
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
