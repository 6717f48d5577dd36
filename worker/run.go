package worker

import (
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"countersign/activities"
	"countersign/workflows"
)

// Options of a worker process.
type Options struct {
	// Deployment and Build switch worker versioning on when both are set:
	// Server is upgraded in place, the short workflows stay on the build that
	// started them.
	Deployment, Build string
	// StopTimeout is how long running activities may go on after Stop.
	StopTimeout time.Duration
}

// New makes the worker with everything registered. It polls after Start.
func New(c client.Client, a *activities.Activities, o Options) worker.Worker {
	if o.StopTimeout == 0 {
		o.StopTimeout = 5 * time.Second
	}
	options := worker.Options{
		WorkerStopTimeout: o.StopTimeout,
		// By default the SDK holds heartbeats back for most of their timeout,
		// and a cancelled activity hears of it only by one.
		MaxHeartbeatThrottleInterval: 2 * time.Second,
		// Our workflows wait for nothing outside the SDK; one that does not yield
		// for the default of a second is on a machine that is busy, not stuck.
		DeadlockDetectionTimeout: 10 * time.Second,
	}
	if o.Deployment != "" && o.Build != "" {
		options.DeploymentOptions = worker.DeploymentOptions{
			UseVersioning:             true,
			Version:                   worker.WorkerDeploymentVersion{DeploymentName: o.Deployment, BuildID: o.Build},
			DefaultVersioningBehavior: workflow.VersioningBehaviorPinned,
		}
	}
	w := worker.New(c, workflows.TaskQueue, options)
	Register(w, a)
	return w
}

// Registry is what a worker and the replayer have in common.
type Registry interface {
	RegisterWorkflowWithOptions(w any, options workflow.RegisterOptions)
}

// Register tells a worker which names mean which code.
func Register(w worker.Worker, a *activities.Activities) {
	RegisterWorkflows(w)
	w.RegisterActivityWithOptions(a, activity.RegisterOptions{})
}

// RegisterWorkflows tells which workflow types mean which code.
func RegisterWorkflows(w Registry) {
	w.RegisterWorkflowWithOptions(workflows.Server, workflow.RegisterOptions{
		Name: workflows.ServerWorkflow, VersioningBehavior: workflow.VersioningBehaviorAutoUpgrade,
	})
	w.RegisterWorkflowWithOptions(workflows.Discovery, workflow.RegisterOptions{Name: workflows.DiscoveryWorkflow})
	w.RegisterWorkflowWithOptions(workflows.ConnectionTest, workflow.RegisterOptions{Name: workflows.ConnectionTestWorkflow})
	w.RegisterWorkflowWithOptions(workflows.PolicyChange, workflow.RegisterOptions{Name: workflows.PolicyChangeWorkflow})
	w.RegisterWorkflowWithOptions(workflows.Connection, workflow.RegisterOptions{Name: workflows.ConnectionWorkflow})
	w.RegisterWorkflowWithOptions(workflows.ProviderRefresh, workflow.RegisterOptions{Name: workflows.ProviderRefreshWorkflow})
	w.RegisterWorkflowWithOptions(workflows.ProviderTest, workflow.RegisterOptions{Name: workflows.ProviderTestWorkflow})
	w.RegisterWorkflowWithOptions(workflows.ProbeSweep, workflow.RegisterOptions{Name: workflows.ProbeSweepWorkflow})
	w.RegisterWorkflowWithOptions(workflows.ProbeShard, workflow.RegisterOptions{Name: workflows.ProbeShardWorkflow})
}
