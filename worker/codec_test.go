package worker_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/proto"

	"countersign/db"
	"countersign/mcptest"
	"countersign/registry"
	"countersign/worker"
	"countersign/workflows"
)

func codecOf(t *testing.T, ids ...string) *workflows.Codec {
	t.Helper()
	var keys []workflows.CodecKey
	for _, id := range ids {
		keys = append(keys, workflows.CodecKey{ID: id, Secret: bytes.Repeat([]byte(id), 32)[:32]})
	}
	c, err := workflows.NewCodec(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// histories gives all that Temporal knows of every workflow.
func (h *house) histories() map[string][]*historypb.HistoryEvent {
	h.Helper()
	ctx := context.Background()
	out := map[string][]*historypb.HistoryEvent{}
	list, err := h.temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Namespace: h.namespace})
	if err != nil {
		h.Fatal(err)
	}
	for _, e := range list.GetExecutions() {
		id := e.GetExecution().GetWorkflowId()
		out[id] = append(out[id], h.history(id, e.GetExecution().GetRunId())...)
	}
	return out
}

func (h *house) history(id, run string) []*historypb.HistoryEvent {
	h.Helper()
	var out []*historypb.HistoryEvent
	for events := h.temporal.GetWorkflowHistory(context.Background(), id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); {
		event, err := events.Next()
		if err != nil {
			h.Fatal(err)
		}
		out = append(out, event)
	}
	return out
}

// switchCodec goes on with another client and worker, as after a restart.
func (h *house) switchCodec(c *workflows.Codec) (stop func()) {
	h.Helper()
	h.codec = c
	h.temporal = h.dial(h.engine)
	h.client.Temporal = h.temporal
	return h.start()
}

func TestHistoriesOfAnEncryptedInstallationShowNothing(t *testing.T) {
	t.Parallel()
	const marker = "xyzzy-marker"
	h := newHouseWith(t, "sqlite", codecOf(t, "one"))
	peer := mcptest.New(t, mcptest.Script{})
	offer(peer, marker)
	h.register("plain", peer.URL+"/"+marker, func(in *workflows.RegisterInput) {
		in.Registration.Description = marker
		in.Operation.Actor.Subject = marker
	})
	// Its path is not the peer's: the failure names it. Then it is mended.
	h.until("plain", "failed or verified", func(v db.ServerView) bool {
		return v.Discovery.Status == registry.DiscoveryFailed || v.State == registry.StateVerified
	})
	url := peer.URL
	if _, err := h.client.Edit(t.Context(), "plain", workflows.EditInput{
		Tenant: "default", ServerID: h.get("plain").ServerID, Operation: operation("edit"), Edit: registry.Edit{URL: &url},
	}); err != nil {
		t.Fatal(err)
	}
	h.discover("plain")
	v := h.is("plain", registry.StateVerified)
	h.decide("plain", registry.Ruling{Verb: registry.VerbReject, Digest: v.Review.Digest, Comment: marker})
	h.decide("plain", registry.Ruling{Verb: registry.VerbRequestReview})
	// A refusal travels as a failure; a signal as an input.
	in := approval(h.get("plain"), "no-such-"+marker)
	if _, err := h.client.Decide(t.Context(), "plain", in); registry.ReasonOf(err) != registry.ReasonUnknownTool {
		t.Fatalf("%v", err)
	}
	in = approval(h.get("plain"), marker)
	if err := h.temporal.SignalWorkflow(t.Context(), workflows.ServerWorkflowID("default", "plain"), "", workflows.DecisionApprove, in); err != nil {
		t.Fatal(err)
	}
	h.is("plain", registry.StateActive)
	if err := worker.EnsureSchedule(t.Context(), h.temporal, h.codec, time.Hour); err != nil {
		t.Fatal(err)
	}
	h.sweep(time.Now().UTC().Truncate(time.Minute))
	h.retire("plain")

	var seen, encrypted int
	deadline := time.Now().Add(20 * time.Second)
	for len(h.histories()) < 3 && time.Now().Before(deadline) { // visibility is a moment late
		time.Sleep(50 * time.Millisecond)
	}
	for id, events := range h.histories() {
		for _, event := range events {
			raw, err := proto.Marshal(event)
			if err != nil {
				t.Fatal(err)
			}
			seen++
			if bytes.Contains(raw, []byte("binary/encrypted")) {
				encrypted++
			}
			for _, plain := range []string{marker, peer.URL, "json/plain"} {
				// Search attributes are Temporal's own and have their type beside them.
				if bytes.Contains(withoutAttributes(t, event), []byte(plain)) {
					t.Errorf("%s shows %q in %s", id, plain, event.GetEventType())
				}
			}
		}
	}
	if seen < 50 || encrypted < 20 {
		t.Errorf("%d events, %d of them with encrypted data", seen, encrypted)
	}
}

// withoutAttributes gives an event without its search attributes, which are
// readable on purpose and encoded as JSON.
func withoutAttributes(t *testing.T, event *historypb.HistoryEvent) []byte {
	t.Helper()
	event, _ = proto.Clone(event).(*historypb.HistoryEvent)
	if a := event.GetWorkflowExecutionStartedEventAttributes(); a != nil {
		a.SearchAttributes = nil
	}
	if a := event.GetUpsertWorkflowSearchAttributesEventAttributes(); a != nil {
		a.SearchAttributes = nil
	}
	if a := event.GetStartChildWorkflowExecutionInitiatedEventAttributes(); a != nil {
		a.SearchAttributes = nil
	}
	if a := event.GetWorkflowExecutionContinuedAsNewEventAttributes(); a != nil {
		a.SearchAttributes = nil
	}
	raw, err := proto.Marshal(event)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestTheScheduleFollowsTheKeysAndSaysWhoCannotRead(t *testing.T) {
	t.Parallel()
	engine := newEngine(t).Address()
	with := func(c *workflows.Codec) client.Client {
		t.Helper()
		temporal, _, err := worker.Dial(worker.Address{HostPort: engine, Codec: c}, quiet())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(temporal.Close)
		return temporal
	}
	none, one, both, two := codecOf(t), codecOf(t, "one"), codecOf(t, "two", "one"), codecOf(t, "two")
	for _, step := range []struct {
		writes *workflows.Codec
		read   map[string]*workflows.Codec
		cannot map[string]*workflows.Codec
	}{
		{nil, map[string]*workflows.Codec{"no keys": none, "the first": one}, nil},
		{one, map[string]*workflows.Codec{"the first": one, "both": both}, map[string]*workflows.Codec{"no keys": none, "the second": two}},
		{both, map[string]*workflows.Codec{"both": both, "the second": two}, map[string]*workflows.Codec{"no keys": none, "the first": one}},
	} {
		if err := worker.EnsureSchedule(t.Context(), with(step.writes), step.writes, time.Hour); err != nil {
			t.Fatal(err)
		}
		for name, c := range step.read {
			if err := worker.Readable(t.Context(), with(c), c); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for name, c := range step.cannot {
			if err := worker.Readable(t.Context(), with(c), c); registry.ReasonOf(err) != registry.ReasonWorkflowKeyUnknown {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	// Who cannot read it does not replace it either.
	if err := worker.EnsureSchedule(t.Context(), with(one), one, time.Minute); registry.ReasonOf(err) != registry.ReasonWorkflowKeyUnknown {
		t.Errorf("%v", err)
	}
}

func TestAWorkerWithoutTheKeyDoesNothingAndSaysSo(t *testing.T) {
	t.Parallel()
	h := newHouseWith(t, "sqlite", codecOf(t, "one"))
	peer := offers(t, "a")
	h.register("kept", peer.URL)
	v := h.is("kept", registry.StateVerified)
	h.stop()

	id := workflows.ServerWorkflowID("default", "kept")
	in := approval(v, "a")
	if err := h.temporal.SignalWorkflow(t.Context(), id, "", workflows.DecisionApprove, in); err != nil {
		t.Fatal(err)
	}
	stop := h.switchCodec(codecOf(t)) // somebody forgot the keys
	deadline := time.Now().Add(30 * time.Second)
	for said := false; !said; time.Sleep(50 * time.Millisecond) {
		for _, event := range h.history(id, "") {
			if a := event.GetWorkflowTaskFailedEventAttributes(); a != nil {
				said = said || strings.Contains(a.GetFailure().GetMessage(), `the key "one"`)
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("no workflow task fails for want of the key: %v", h.history(id, ""))
		}
	}
	d, err := h.temporal.DescribeWorkflowExecution(t.Context(), id, "")
	if err != nil || d.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		t.Fatalf("%v %v", d.GetWorkflowExecutionInfo().GetStatus(), err)
	}
	stop()
	// The key came back, behind a newer one: all goes on.
	h.switchCodec(codecOf(t, "two", "one"))
	h.is("kept", registry.StateActive)
	h.retire("kept")
}
