package workflows

import (
	"context"

	"go.temporal.io/sdk/workflow"

	"countersign/activities"
	"countersign/registry"
)

// act names activities; it is nil and never called.
var act *activities.Activities

// do runs an activity. It exists because ExecuteActivity takes anything: here
// the compiler checks that the input is the activity's own.
func do[In, Out any](ctx workflow.Context, options workflow.ActivityOptions, summary string,
	activity func(context.Context, In) (Out, error), in In,
) (Out, error) {
	options.Summary = summary
	var out Out
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), activity, in).Get(ctx, &out)
	err = fromFailure(err)
	if registry.ReasonOf(err) == registry.ReasonWorkflowKeyUnknown {
		panic(err) // why it failed cannot be read here: see blocking
	}
	return out, err
}
