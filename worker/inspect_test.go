package worker_test

import (
	"slices"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"

	"countersign/worker"
	"countersign/workflows"
)

func TestTheNamespaceIsInspected(t *testing.T) {
	t.Parallel()
	h := &house{TB: t, namespace: "inspected"}
	h.temporal = h.dial(newEngine(t).Address())
	ctx := t.Context()
	if _, err := worker.EnsureNamespace(ctx, h.temporal, h.namespace); err != nil {
		t.Fatal(err)
	}
	name := workflows.AttributeState.GetName()
	if _, err := h.temporal.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: h.namespace, SearchAttributes: map[string]enumspb.IndexedValueType{name: enumspb.INDEXED_VALUE_TYPE_INT},
	}); err != nil {
		t.Fatal(err)
	}
	missing, other, err := worker.SearchAttributeFaults(ctx, h.temporal, h.namespace)
	if err != nil || len(missing) != 2 || !slices.Equal(other, []string{name}) {
		t.Errorf("missing %q, of another type %q: %v", missing, other, err)
	}

	if facts, err := worker.DescribeSchedule(ctx, h.temporal); err != nil || facts != nil {
		t.Errorf("there is no schedule, and it is %+v: %v", facts, err)
	}
	if err := worker.EnsureSchedule(ctx, h.temporal, nil, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := h.temporal.ScheduleClient().GetHandle(ctx, workflows.ScheduleProbe).Pause(ctx, client.SchedulePauseOptions{Note: "for the test"}); err != nil {
		t.Fatal(err)
	}
	facts, err := worker.DescribeSchedule(ctx, h.temporal)
	if err != nil || facts == nil || facts.Interval != time.Hour || !facts.Paused || facts.Note != "for the test" || !facts.Last.IsZero() {
		t.Errorf("%+v: %v", facts, err)
	}

	for id, kind := range map[string]string{"handshake-probe-old": workflows.ProbeSweepWorkflow, "of-somebody-else": "Other"} {
		if _, err := h.temporal.ScheduleClient().Create(ctx, client.ScheduleOptions{
			ID: id, Paused: true, Spec: client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: time.Hour}}},
			Action: &client.ScheduleWorkflowAction{ID: id, Workflow: kind, TaskQueue: "nobody's"},
		}); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		strays, err := worker.StraySchedules(ctx, h.temporal)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Equal(strays, []string{"handshake-probe-old"}) { // the index lags behind
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the strays are %q", strays)
		}
	}

	ahead, err := worker.ClockAhead(ctx, h.temporal, h.namespace, "a test")
	if err != nil || ahead.Abs() > 5*time.Second {
		t.Errorf("the clock of the same machine is ahead by %s: %v", ahead, err)
	}
	if list, err := worker.Pollers(ctx, h.temporal, h.namespace); err != nil || len(list) != 0 {
		t.Errorf("nobody asks for tasks, and it is %v: %v", list, err)
	}
}
