package worker

import (
	"context"
	"errors"
	"reflect"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"countersign/workflows"
)

// DefaultProbeInterval is how often every active and degraded server is probed
// (R140).
const DefaultProbeInterval = 5 * time.Minute

// EnsureSchedule makes the one schedule what this installation wants: made
// when it is not there, changed when it says something else. Workers do it at
// start; doing it twice is harmless.
//
// A sweep that runs late is skipped, and after an outage of the engine at most
// the windows of the last max(10 s, interval/2) are made up.
func EnsureSchedule(ctx context.Context, c client.Client, interval time.Duration) error {
	spec := client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: interval}}}
	action := &client.ScheduleWorkflowAction{
		ID: workflows.ScheduleProbe, Workflow: workflows.ProbeSweepWorkflow, TaskQueue: workflows.TaskQueue,
		Args:                  []any{workflows.SweepInput{Interval: interval, Page: workflows.DefaultProbePage}},
		WorkflowRunTimeout:    max(interval, 30*time.Minute),
		StaticSummary:         "probes of all active and degraded servers",
		TypedSearchAttributes: temporal.SearchAttributes{},
	}
	policy := client.SchedulePolicies{
		Overlap:       enumspb.SCHEDULE_OVERLAP_POLICY_SKIP,
		CatchupWindow: max(10*time.Second, interval/2),
	}
	_, err := c.ScheduleClient().Create(ctx, client.ScheduleOptions{
		ID: workflows.ScheduleProbe, Spec: spec, Action: action, Overlap: policy.Overlap, CatchupWindow: policy.CatchupWindow,
	})
	if err == nil {
		return nil
	}
	if _, exists := errors.AsType[*serviceerror.AlreadyExists](err); !exists && !errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
		return err
	}
	return c.ScheduleClient().GetHandle(ctx, workflows.ScheduleProbe).Update(ctx, client.ScheduleUpdateOptions{
		DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			s := in.Description.Schedule
			if reflect.DeepEqual(s.Spec.Intervals, spec.Intervals) && s.Policy != nil && s.Policy.CatchupWindow == policy.CatchupWindow &&
				s.Policy.Overlap == policy.Overlap {
				return nil, temporal.ErrSkipScheduleUpdate
			}
			s.Spec = &spec
			s.Policy = &policy
			s.Action = action
			return &client.ScheduleUpdate{Schedule: &s}, nil
		},
	})
}
