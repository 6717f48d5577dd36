package e2e

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"countersign/workflows"
)

// engine is a Temporal namespace as anybody's client sees it: with nothing of
// ours in it.
type engine struct {
	client.Client
	namespace string
}

func dial(t *testing.T, address, namespace string) engine {
	t.Helper()
	c, err := client.DialContext(t.Context(), client.Options{
		HostPort: address, Namespace: namespace, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return engine{c, namespace}
}

// run is one workflow run.
type run struct{ workflow, run, kind string }

// runs lists workflows by a query.
func (e engine) runs(t *testing.T, query string) (out []run) {
	t.Helper()
	var token []byte
	for {
		answer, err := e.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: e.namespace, Query: query, NextPageToken: token,
		})
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		for _, w := range answer.GetExecutions() {
			out = append(out, run{w.GetExecution().GetWorkflowId(), w.GetExecution().GetRunId(), w.GetType().GetName()})
		}
		if token = answer.GetNextPageToken(); len(token) == 0 {
			return out
		}
	}
}

// open lists the ids of the open Server workflows.
func (e engine) open(t *testing.T) (ids []string) {
	t.Helper()
	for _, r := range e.runs(t, "WorkflowType = 'Server' AND ExecutionStatus = 'Running'") {
		ids = append(ids, r.workflow)
	}
	slices.Sort(ids)
	return ids
}

// awaitOpen wants exactly these Server workflows to be open. The index may lag
// behind by a moment.
func (e engine) awaitOpen(t *testing.T, want ...string) {
	t.Helper()
	slices.Sort(want)
	until(t, "the open Server workflows", patience, func() error {
		if got := e.open(t); !slices.Equal(got, want) {
			return fmt.Errorf("open are %q, not %q", got, want)
		}
		return nil
	})
}

// checkSchedules wants one schedule in all.
func (e engine) checkSchedules(t *testing.T) {
	t.Helper()
	list, err := e.ScheduleClient().List(t.Context(), client.ScheduleListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for list.HasNext() {
		entry, err := list.Next()
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, entry.ID)
	}
	if !slices.Equal(ids, []string{workflows.ScheduleProbe}) {
		t.Errorf("the schedules are %q", ids)
	}
}

// checkHistories wants no workflow of ours to have met code that does not fit
// its history, or to have failed.
func (e engine) checkHistories(t *testing.T) {
	t.Helper()
	for _, r := range e.runs(t, "WorkflowType IN ('Server', 'Discovery', 'Connection', 'ConnectionTest', 'ProbeSweep')") {
		events := e.GetWorkflowHistory(t.Context(), r.workflow, r.run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			event, err := events.Next()
			if err != nil {
				t.Fatal(err)
			}
			if failed := event.GetWorkflowTaskFailedEventAttributes(); failed != nil {
				switch failed.GetCause() { //nolint:exhaustive // the others are of Temporal's own working
				case enumspb.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR, enumspb.WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE:
					t.Errorf("%s, event %d: %s: %s", r.workflow, event.GetEventId(), failed.GetCause(), failed.GetFailure().GetMessage())
				}
			}
			if failed := event.GetWorkflowExecutionFailedEventAttributes(); failed != nil {
				t.Errorf("%s failed: %s", r.workflow, failed.GetFailure().GetMessage())
			}
		}
	}
}

// server names the workflow of a server of the first tenant.
func server(name string) string { return workflows.ServerWorkflowID(first, name) }

// link leads to a run in the Temporal UI that listens at an address.
func link(ui, namespace, workflow, run string) string {
	return "http://" + ui + "/namespaces/" + namespace + "/workflows/" + strings.ReplaceAll(workflow, "/", "%2F") + "/" + run + "/history"
}
