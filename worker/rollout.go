package worker

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"countersign/registry"
)

// Rollout makes a build the current one of a deployment: new workflows begin on
// it, and those of servers move to it with their next task, while short ones end
// on the build that began them. A worker of the build has to run; one that has
// just started is waited for until the context is over. It gives the build that
// was current before, empty for workers without versions.
func Rollout(ctx context.Context, c client.Client, deployment, build string) (before string, err error) {
	handle := c.WorkerDeploymentClient().GetHandle(deployment)
	for {
		is, err := handle.Describe(ctx, client.WorkerDeploymentDescribeOptions{})
		if err == nil {
			before = ""
			if current := is.Info.RoutingConfig.CurrentVersion; current != nil {
				before = current.BuildID
			}
			_, err = handle.SetCurrentVersion(ctx, client.WorkerDeploymentSetCurrentVersionOptions{BuildID: build, ConflictToken: is.ConflictToken})
		}
		if err == nil {
			return before, nil
		}
		_, absent := errors.AsType[*serviceerror.NotFound](err)
		_, unready := errors.AsType[*serviceerror.FailedPrecondition](err)
		if !absent && !unready {
			return "", err
		}
		select {
		case <-ctx.Done():
			return "", registry.Errorf(registry.ReasonDependency, "no worker of build %s runs in the deployment %s: %w", build, deployment, err).
				WithNext("start workers with worker.deployment %s and worker.build %s, then repeat", deployment, build)
		case <-time.After(500 * time.Millisecond):
		}
	}
}
