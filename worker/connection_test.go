package worker_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"

	"countersign/activities"
	"countersign/registry"
	"countersign/workflows"
)

// stuck keeps a worker in an activity, as one is that has just lost its power.
type stuck struct {
	interceptor.ClientInterceptorBase
	interceptor.WorkerInterceptorBase

	activity string
	at       int32 // the call of it that does not come back
	calls    atomic.Int32
	reached  chan struct{}
	hold     chan struct{}
}

func (s *stuck) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &stuckActivity{interceptor.ActivityInboundInterceptorBase{Next: next}, s}
}

type stuckActivity struct {
	interceptor.ActivityInboundInterceptorBase
	*stuck
}

func (s *stuckActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	if activity.GetInfo(ctx).ActivityType.Name == s.activity && s.calls.Add(1) == s.at {
		close(s.reached)
		<-s.hold
	}
	return s.Next.ExecuteActivity(ctx, in)
}

// A worker that dies between two pages of a connection's servers is followed by
// another, which tells the rest, and nobody twice.
func TestAnotherWorkerGoesOnTellingOfAnEdit(t *testing.T) {
	t.Parallel()
	const servers = 120 // two pages
	h := newHouse(t, "sqlite")
	h.stop()
	c := registry.Connection{Name: "search", URL: "https://search.example/mcp"}.Normal()
	if _, _, err := h.store().CreateConnection(t.Context(), c, operation("create_connection"), nil); err != nil {
		t.Fatal(err)
	}
	name := func(i int) string { return fmt.Sprintf("s%03d", i) }
	for i := range servers {
		in := registration(name(i), "")
		in.Registration.ConnectionName = "search"
		if _, err := h.acts.Register(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		// Nobody works on it: what it is told stands in its history.
		if _, err := h.temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: workflows.ServerWorkflowID("default", name(i)), TaskQueue: "nobody"}, "Listener"); err != nil {
			t.Fatal(err)
		}
	}
	power := &stuck{activity: "ConnectionUsers", at: 2, reached: make(chan struct{}), hold: make(chan struct{})}
	healthy := h.temporal
	h.temporal = h.dialWith(h.engine, power)
	h.start()
	out, err := h.client.EditConnection(t.Context(), activities.EditConnectionInput{
		Tenant: "default", Name: "search", Edit: registry.ConnectionEdit{URL: new("https://elsewhere.example/mcp")}, Operation: operation("edit_connection"),
	})
	if err != nil || out.Connection.Version != 2 {
		t.Fatalf("%+v, %v", out, err)
	}
	<-power.reached
	h.stop()
	h.temporal = healthy
	h.start()
	if err := h.temporal.GetWorkflow(t.Context(), workflows.ConnectionWorkflowID("default", "search"), "").Get(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	close(power.hold) // it comes back to life, too late
	time.Sleep(100 * time.Millisecond)
	for i := range servers {
		if n := h.told(name(i)); n != 1 {
			t.Errorf("%s is told %d times", name(i), n)
		}
	}
}

// told counts the signals in the history of a server's workflow.
func (h *house) told(name string) (n int) {
	h.Helper()
	events := h.temporal.GetWorkflowHistory(h.Context(), workflows.ServerWorkflowID("default", name), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			h.Fatal(err)
		}
		if event.GetWorkflowExecutionSignaledEventAttributes().GetSignalName() == workflows.SignalConnection {
			n++
		}
	}
	return n
}
