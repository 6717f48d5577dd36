package worker

import (
	"context"
	"errors"
	"reflect"
	"time"

	commonpb "go.temporal.io/api/common/v1"
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
// What it starts sweeps with is encrypted with the codec's first key, so that
// older keys are not needed for it.
//
// A sweep that runs late is skipped, and after an outage of the engine at most
// the windows of the last max(10 s, interval/2) are made up.
func EnsureSchedule(ctx context.Context, c client.Client, codec *workflows.Codec, interval time.Duration) (err error) {
	defer workflows.Unreadable(&err)
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
	_, err = c.ScheduleClient().Create(ctx, client.ScheduleOptions{
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
				s.Policy.Overlap == policy.Overlap && current(codec, s.Action) {
				return nil, temporal.ErrSkipScheduleUpdate
			}
			s.Spec = &spec
			s.Policy = &policy
			s.Action = action
			return &client.ScheduleUpdate{Schedule: &s}, nil
		},
	})
}

// current says whether what starts the sweeps is encrypted as it should be now.
func current(codec *workflows.Codec, a client.ScheduleAction) bool {
	for _, p := range inputs(a) {
		if !codec.Current(p) {
			return false
		}
	}
	return true
}

func inputs(a client.ScheduleAction) []*commonpb.Payload {
	var out []*commonpb.Payload
	if start, ok := a.(*client.ScheduleWorkflowAction); ok {
		for _, arg := range start.Args {
			if p, ok := arg.(*commonpb.Payload); ok { // as they are read; ours are not encoded yet
				out = append(out, p)
			}
		}
	}
	return out
}

// Readable refuses, with workflow_key_unknown, what workers of this installation
// encrypt and this process cannot read: it looks at the one schedule. A worker
// that starts all the same would fail every workflow task that it gets.
func Readable(ctx context.Context, c client.Client, codec *workflows.Codec) (err error) {
	defer workflows.Unreadable(&err)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	d, err := c.ScheduleClient().GetHandle(ctx, workflows.ScheduleProbe).Describe(ctx)
	if _, absent := errors.AsType[*serviceerror.NotFound](err); absent {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = codec.Decode(inputs(d.Schedule.Action))
	return err
}
