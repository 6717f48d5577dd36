package workflows

import (
	"time"

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
const DefaultProbePage = 200

// ProbeSweep probes every active and degraded server once (R140–R146). An
// unchanged outcome costs no event of the server's workflow; a changed one
// signals it.
func ProbeSweep(ctx workflow.Context, in SweepInput) error {
	if in.Window.IsZero() {
		in.Window = window(ctx, in.Interval)
	}
	if in.Page <= 0 {
		in.Page = DefaultProbePage
	}
	for {
		out, err := do(ctx, probing, "a page of servers", act.ProbeBatch, activities.ProbeBatchInput{
			Window: in.Window, After: in.After, Limit: in.Page, AttemptGap: min(in.Interval/10, 10*time.Second),
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

// tell signals the servers whose outcome changed, all at once. One that has
// just been retired is not there to hear it.
func tell(ctx workflow.Context, changed []activities.ProbeSignal) {
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

// window is the time that the schedule meant, so that a window that is
// triggered twice is the same window.
func window(ctx workflow.Context, interval time.Duration) time.Time {
	scheduled := temporal.NewSearchAttributeKeyTime("TemporalScheduledStartTime")
	if at, ok := workflow.GetTypedSearchAttributes(ctx).GetTime(scheduled); ok {
		return at.UTC()
	}
	if interval <= 0 {
		interval = time.Minute
	}
	return workflow.GetInfo(ctx).WorkflowStartTime.UTC().Truncate(interval)
}
