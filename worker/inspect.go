package worker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"countersign/workflows"
)

// SearchAttributeFaults names those of our search attributes that the namespace
// lacks, and those that it has with another type.
func SearchAttributeFaults(ctx context.Context, c client.Client, namespace string) (missing, other []string, err error) {
	there, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return nil, nil, err
	}
	want := SearchAttributes()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		is, known := there.GetCustomAttributes()[name]
		switch {
		case !known:
			missing = append(missing, name)
		case is != want[name]:
			other = append(other, name)
		}
	}
	return missing, other, nil
}

// ScheduleFacts are what Temporal says of the probe schedule.
type ScheduleFacts struct {
	Interval time.Duration
	Paused   bool
	Note     string    // why, if somebody paused it
	Last     time.Time // when it last started a sweep; zero: never
	Running  bool      // a sweep runs
	Skipped  int       // sweeps that were not started since the one before ran still
}

// DescribeSchedule asks for the probe schedule; nil when there is none.
func DescribeSchedule(ctx context.Context, c client.Client) (*ScheduleFacts, error) {
	d, err := c.ScheduleClient().GetHandle(ctx, workflows.ScheduleProbe).Describe(ctx)
	if _, absent := errors.AsType[*serviceerror.NotFound](err); absent {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	facts := &ScheduleFacts{Running: len(d.Info.RunningWorkflows) > 0, Skipped: d.Info.NumActionsSkippedOverlap}
	if spec := d.Schedule.Spec; spec != nil && len(spec.Intervals) == 1 {
		facts.Interval = spec.Intervals[0].Every
	}
	if state := d.Schedule.State; state != nil {
		facts.Paused, facts.Note = state.Paused, state.Note
	}
	for _, action := range d.Info.RecentActions {
		if action.ActualTime.After(facts.Last) {
			facts.Last = action.ActualTime
		}
	}
	return facts, nil
}

// StraySchedules names schedules besides the one that start sweeps of ours.
func StraySchedules(ctx context.Context, c client.Client) (ids []string, err error) {
	list, err := c.ScheduleClient().List(ctx, client.ScheduleListOptions{PageSize: 100})
	if err != nil {
		return nil, err
	}
	for list.HasNext() {
		entry, err := list.Next()
		if err != nil {
			return nil, err
		}
		if entry.ID != workflows.ScheduleProbe && entry.WorkflowType.Name == workflows.ProbeSweepWorkflow {
			ids = append(ids, entry.ID)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// Poller is a worker that asks for tasks of this installation.
type Poller struct {
	Identity string
	Build    string    // empty: it runs without versions
	Seen     time.Time // when it asked last; it asks once a minute at least
}

// Pollers lists the workers that asked for workflow tasks in the last minutes.
// One that ended well is no longer among them, one that was killed is for five
// minutes.
func Pollers(ctx context.Context, c client.Client, namespace string) ([]Poller, error) {
	return pollers(ctx, c, namespace, workflows.TaskQueue)
}

func pollers(ctx context.Context, c client.Client, namespace, queue string) ([]Poller, error) {
	d, err := c.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
		Namespace: namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: queue, Kind: enumspb.TASK_QUEUE_KIND_NORMAL},
		TaskQueueType: enumspb.TASK_QUEUE_TYPE_WORKFLOW,
	})
	if err != nil {
		return nil, err
	}
	var out []Poller
	for _, p := range d.GetPollers() {
		out = append(out, Poller{p.GetIdentity(), p.GetDeploymentOptions().GetBuildId(), p.GetLastAccessTime().AsTime()})
	}
	slices.SortFunc(out, func(a, b Poller) int { return b.Seen.Compare(a.Seen) })
	return out, nil
}

// clockQueue is a task queue that gets no tasks: Temporal notes by its own clock
// when somebody asks for some.
const clockQueue = "countersign-clock"

// clockPatience is how long a poll may take until Temporal has noted it.
const clockPatience = 10 * time.Second

// ClockAhead says how much Temporal's clock is ahead of this process's, to
// about a fifth of a second.
func ClockAhead(ctx context.Context, c client.Client, namespace, identity string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, clockPatience) // polls without a limit are refused
	defer cancel()
	begin := time.Now()
	go func() {
		_, _ = c.WorkflowService().PollWorkflowTaskQueue(ctx, &workflowservice.PollWorkflowTaskQueueRequest{
			Namespace: namespace, Identity: identity, TaskQueue: &taskqueuepb.TaskQueue{Name: clockQueue, Kind: enumspb.TASK_QUEUE_KIND_NORMAL},
		}) // there is nothing to come
	}()
	for {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
		list, err := pollers(ctx, c, namespace, clockQueue)
		if err != nil {
			return 0, err
		}
		for _, p := range list {
			if p.Identity == identity {
				between := begin.Add(time.Since(begin) / 2)
				return p.Seen.Sub(between), nil
			}
		}
	}
}
