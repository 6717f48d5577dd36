package worker_test

import (
	"context"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	sdkworker "go.temporal.io/sdk/worker"

	"countersign/db"
	"countersign/mcptest"
	"countersign/registry"
	"countersign/worker"
	"countersign/workflows"
)

// build starts a worker of a build beside the others.
func (h *house) build(name string) sdkworker.Worker {
	h.Helper()
	w := worker.New(h.temporal, h.acts, worker.Options{Deployment: "countersign", Build: name, StopTimeout: time.Millisecond})
	if err := w.Start(); err != nil {
		h.Fatal(err)
	}
	return w
}

// ranOn gives the builds that completed the workflow tasks of a workflow, in
// order and each once in a row.
func (h *house) ranOn(id string) (builds []string) {
	h.Helper()
	events := h.temporal.GetWorkflowHistory(h.Context(), id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			h.Fatal(err)
		}
		if done := event.GetWorkflowTaskCompletedEventAttributes(); done != nil {
			build := done.GetDeploymentVersion().GetBuildId()
			if len(builds) == 0 || builds[len(builds)-1] != build {
				builds = append(builds, build)
			}
		}
	}
	return builds
}

// Two builds side by side: a server moves to the new one, a discovery that runs
// ends on the old one.
func TestTwoBuildsSideBySide(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "sqlite")
	h.stop()
	peer := offers(t, "echo")
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()

	old := h.build("old")
	defer old.Stop()
	if before, err := worker.Rollout(ctx, h.temporal, "countersign", "old"); err != nil || before != "" {
		t.Fatalf("%q %v", before, err)
	}
	h.register("x", peer.URL)
	h.is("x", registry.StateVerified)

	// A discovery hangs on the old build while the new one becomes current.
	peer.Edit(func(s *mcptest.Script) { s.Fault("tools/list", mcptest.Hang()) })
	asked := peer.Count("tools/list")
	op := operation("discover")
	d, err := h.client.Discover(ctx, "x", workflows.BeginDiscoveryInput{
		Tenant: "default", ServerID: h.get("x").ServerID, Operation: op, Key: op.ID, BodyHash: "h",
	})
	if err != nil {
		t.Fatal(err)
	}
	for peer.Count("tools/list") == asked {
		if ctx.Err() != nil {
			t.Fatal("nobody asked for the tools")
		}
		time.Sleep(10 * time.Millisecond)
	}
	fresh := h.build("new")
	defer fresh.Stop()
	if before, err := worker.Rollout(ctx, h.temporal, "countersign", "new"); err != nil || before != "old" {
		t.Fatalf("%q %v", before, err)
	}
	peer.Edit(func(s *mcptest.Script) { s.Fault("tools/list", nil) })
	if err := h.client.Await(ctx, d); err != nil {
		t.Fatal(err)
	}
	h.register("y", peer.URL)
	h.is("y", registry.StateVerified)
	h.until("x", "discovered", func(v db.ServerView) bool { return v.Discovery.Status != registry.DiscoveryRunning })
	if got := h.ranOn(d.Run.WorkflowID); len(got) != 1 || got[0] != "old" {
		t.Errorf("the discovery ran on %q", got)
	}
	if got := h.ranOn(workflows.ServerWorkflowID("default", "x")); len(got) != 2 || got[0] != "old" || got[1] != "new" {
		t.Errorf("the server x ran on %q", got)
	}
	if got := h.ranOn(workflows.ServerWorkflowID("default", "y")); len(got) != 1 || got[0] != "new" {
		t.Errorf("the server y ran on %q", got)
	}

	// The old workers are no longer needed.
	old.Stop()
	h.discover("x")
	h.approve("x", "echo")
	h.is("x", registry.StateActive)

	brief, end := context.WithTimeout(t.Context(), time.Second)
	defer end()
	if _, err := worker.Rollout(brief, h.temporal, "countersign", "nobody's"); err == nil {
		t.Error("a build that nobody runs became current")
	}
}
