package workflows

import (
	"errors"
	"fmt"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"countersign/activities"
)

// SweepInput is one window of probes, or carries it on.
type SweepInput struct {
	Interval time.Duration `json:"interval"`
	Page     int           `json:"page"`            // servers per activity
	Window   time.Time     `json:"window,omitzero"` // set by continue-as-new
	After    string        `json:"after,omitempty"`
}

// DefaultProbePage is how many servers one activity probes.
const DefaultProbePage = 500

const (
	// shards is how many parts of a sweep run at a time, each on one worker or
	// another.
	shards = 8
	// pace is the time from one server to the next, while there are so few that
	// they are done in half of the interval.
	pace = 20 * time.Millisecond
	// longestSweep ends a window for servers that keep us waiting.
	longestSweep = 10 * time.Minute
)

// ProbeSweep probes every active and degraded server once (R140–R146). An
// unchanged outcome costs no event of the server's workflow; a changed one
// signals it. Servers that answer are met over the first half of the interval,
// each at its own moment; those that are known to be slow, and those that fail at
// first, are met beside them, until the interval is nearly over.
func ProbeSweep(ctx workflow.Context, in SweepInput) error {
	if in.Window.IsZero() {
		in.Window = window(ctx, in.Interval)
	}
	if in.Page <= 0 {
		in.Page = DefaultProbePage
	}
	if workflow.GetVersion(ctx, "shards", workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return sweepByPages(ctx, in)
	}
	plan, err := do(ctx, sweeping, "plan the sweep", act.PlanSweep, activities.PlanSweepInput{Window: in.Window, Page: in.Page})
	if err != nil {
		return err
	}
	begun := workflow.Now(ctx)
	rest := activities.ProbeRestInput{
		Window: in.Window, Interval: in.Interval, AttemptGap: attemptGap(in.Interval),
		Deadline: begun.Add(min(max(in.Interval*9/10, time.Minute), longestSweep)),
	}
	parts := share(ShardInput{
		Window: in.Window, Interval: in.Interval, Start: begun, Spread: min(in.Interval/2, time.Duration(plan.Quick)*pace),
	}, plan.Cuts)
	var (
		left   int
		faults []error
		done   = workflow.NewWaitGroup(ctx)
	)
	run := func(work func(workflow.Context) (int, error)) {
		done.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer done.Done()
			n, err := work(ctx)
			if left += n; err != nil {
				faults = append(faults, err)
			}
		})
	}
	if plan.Slow > 0 {
		slow := rest
		slow.Slow = true
		run(func(ctx workflow.Context) (int, error) { return 0, probeRest(ctx, "servers that are slow", slow) })
	}
	quick := workflow.NewWaitGroup(ctx)
	for i, part := range parts {
		if plan.Quick == 0 {
			break
		}
		quick.Add(1)
		run(func(ctx workflow.Context) (int, error) {
			defer quick.Done()
			if len(parts) == 1 { // no need of a workflow for it
				out, err := ProbeShard(ctx, part)
				return out.Left, err
			}
			return startShard(ctx, part, i)
		})
	}
	quick.Wait(ctx)
	if left > 0 {
		run(func(ctx workflow.Context) (int, error) { return 0, probeRest(ctx, "servers that failed once", rest) })
	}
	done.Wait(ctx)
	if err := errors.Join(faults...); err != nil {
		return err
	}
	return prune(ctx, in)
}

// attemptGap is the time between the attempts of one window.
func attemptGap(interval time.Duration) time.Duration { return min(interval/10, 10*time.Second) }

// share gives the pages of a sweep to its shards, in order.
func share(all ShardInput, cuts []string) []ShardInput {
	pages := len(cuts) + 1
	n := min(pages, shards)
	parts := make([]ShardInput, n)
	for i := range parts {
		from, to := i*pages/n, (i+1)*pages/n
		parts[i] = all
		if from > 0 {
			parts[i].After = cuts[from-1]
		}
		parts[i].Pages = append([]string{}, cuts[from:min(to, len(cuts))]...)
		if to == pages {
			parts[i].Pages = append(parts[i].Pages, "")
		}
	}
	return parts
}

func probeRest(ctx workflow.Context, summary string, in activities.ProbeRestInput) error {
	out, err := do(ctx, sweeping, summary, act.ProbeRest, in)
	tell(ctx, out.Changed)
	return err
}

// startShard runs a part of a sweep as a workflow of its own. When it runs
// already, or has run, the window was triggered twice, and nothing is left to do
// here.
func startShard(ctx workflow.Context, in ShardInput, number int) (left int, err error) {
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID: ShardWorkflowID(in.Window, number), WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
		StaticSummary: fmt.Sprintf("%d pages of servers", len(in.Pages)),
	})
	var out ShardOutput
	err = workflow.ExecuteChildWorkflow(ctx, ProbeShardWorkflow, in).Get(ctx, &out)
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return 0, nil
	}
	return out.Left, fromFailure(err)
}

// ShardInput is a part of a window's sweep.
type ShardInput struct {
	Window   time.Time     `json:"window"`
	Interval time.Duration `json:"interval"`
	After    string        `json:"after,omitempty"` // key of the last server before
	Pages    []string      `json:"pages"`           // the last key of each page; empty: to the end
	Start    time.Time     `json:"start"`           // when the first server is met
	Spread   time.Duration `json:"spread"`          // over which all follow
}

// ShardOutput is what a part of a sweep came to.
type ShardOutput struct {
	Probed int `json:"probed"`
	Left   int `json:"left,omitempty"` // servers of which nothing is recorded yet
}

// ProbeShard meets the servers of its pages, one page after the other.
func ProbeShard(ctx workflow.Context, in ShardInput) (out ShardOutput, err error) {
	spread := in.Spread / time.Duration(max(len(in.Pages), 1))
	for i, until := range in.Pages {
		page, err := do(ctx, sweeping, "a page of servers", act.ProbeQuick, activities.ProbeQuickInput{
			Window: in.Window, Interval: in.Interval, After: in.After, Until: until,
			Start: in.Start.Add(time.Duration(i) * spread), Spread: spread,
		})
		if err != nil {
			return out, err
		}
		tell(ctx, page.Changed)
		out.Probed, out.Left, in.After = out.Probed+page.Probed, out.Left+page.Left, until
	}
	return out, nil
}

// sweepByPages is how sweeps went before they had shards.
func sweepByPages(ctx workflow.Context, in SweepInput) error {
	for {
		out, err := do(ctx, probing, "a page of servers", act.ProbeBatch, activities.ProbeBatchInput{
			Window: in.Window, After: in.After, Limit: in.Page, AttemptGap: attemptGap(in.Interval),
		})
		if err != nil {
			return err
		}
		tell(ctx, out.Changed)
		if out.Next == "" {
			return prune(ctx, in)
		}
		in.After = out.Next
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			return workflow.NewContinueAsNewError(ctx, ProbeSweep, in)
		}
	}
}

// prune does a round of retention with the first window of each hour.
func prune(ctx workflow.Context, in SweepInput) error {
	if in.Window.Truncate(time.Hour).Equal(in.Window.Add(-in.Interval).Truncate(time.Hour)) {
		return nil
	}
	if workflow.GetVersion(ctx, "retention", workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return nil
	}
	_, err := do(ctx, pruning, "retention", act.Prune, activities.PruneInput{})
	return err
}

// tell signals the servers whose outcome changed, many at once. One that has
// just been retired is not there to hear it.
func tell(ctx workflow.Context, changed []activities.ProbeSignal) {
	for some := range slices.Chunk(changed, 500) {
		tellAtOnce(ctx, some)
	}
}

func tellAtOnce(ctx workflow.Context, changed []activities.ProbeSignal) {
	sent := make([]workflow.Future, len(changed))
	for i, c := range changed {
		sent[i] = workflow.SignalExternalWorkflow(ctx, ServerWorkflowID(c.Probe.TenantID, c.Name), "", SignalProbe, c.Probe)
	}
	for i, f := range sent {
		if err := f.Get(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Debug("probe outcome not delivered", "server", changed[i].Probe.ServerID, "error", err)
		}
	}
}

// window is the last time that the schedule means, so that a window that is
// triggered twice is the same window.
func window(ctx workflow.Context, interval time.Duration) time.Time {
	at := workflow.GetInfo(ctx).WorkflowStartTime
	scheduled := temporal.NewSearchAttributeKeyTime("TemporalScheduledStartTime")
	if planned, ok := workflow.GetTypedSearchAttributes(ctx).GetTime(scheduled); ok {
		at = planned
	}
	if interval <= 0 {
		interval = time.Minute
	}
	// As the schedule counts: from the beginning of 1970.
	return time.Unix(0, at.UnixNano()-at.UnixNano()%int64(interval)).UTC()
}
