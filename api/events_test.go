package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/proto/countersign/registry/v1/registryv1connect"
	"countersign/registry"
)

func TestSubscriptionsAreMadeChangedAndDeleted(t *testing.T) {
	t.Parallel()
	h := open(t)
	create := func(change func(*pb.CreateSubscriptionRequest)) *pb.CreateSubscriptionRequest {
		r, _ := about[doSubscribe]("hook", "").(*pb.CreateSubscriptionRequest)
		change(r)
		return r
	}
	for name, c := range map[string]struct {
		request *pb.CreateSubscriptionRequest
		field   string
		reason  registry.Reason
	}{
		"no id":              {create(func(r *pb.CreateSubscriptionRequest) { r.SubscriptionId = "A b" }), "subscription_id", registry.ReasonInvalidArgument},
		"no direction":       {create(func(r *pb.CreateSubscriptionRequest) { r.Direction = 0 }), "direction", registry.ReasonInvalidArgument},
		"no URL":             {create(func(r *pb.CreateSubscriptionRequest) { r.Spec.Url = "" }), "url", registry.ReasonInvalidArgument},
		"no such URL":        {create(func(r *pb.CreateSubscriptionRequest) { r.Spec.Url = "ftp://x/" }), "url", registry.ReasonInvalidArgument},
		"a secret in it":     {create(func(r *pb.CreateSubscriptionRequest) { r.Spec.Url = "https://u:p@x.example/" }), "", registry.ReasonSecretInRequest},
		"no secret":          {create(func(r *pb.CreateSubscriptionRequest) { r.Spec.Secret = "" }), "secret", registry.ReasonInvalidArgument},
		"no reference":       {create(func(r *pb.CreateSubscriptionRequest) { r.Spec.Secret = "whsec_hunter2" }), "secret", registry.ReasonSecretRefInvalid},
		"no such type":       {create(func(r *pb.CreateSubscriptionRequest) { r.Spec.Types = []string{"x"} }), "types", registry.ReasonInvalidArgument},
		"a URL to receive":   {create(func(r *pb.CreateSubscriptionRequest) { r.Direction = 2 }), "url", registry.ReasonInvalidArgument},
		"no other reference": {create(func(r *pb.CreateSubscriptionRequest) { r.Spec.PreviousSecret = "x" }), "previous_secret", registry.ReasonSecretRefInvalid},
	} {
		o := ways["REST"](t, h, admin(alpha), doSubscribe, c.request, nil)
		if o.answer != nil || o.reason != string(c.reason) || c.field != "" && !strings.Contains(fmt.Sprint(o.fields), c.field) {
			t.Errorf("%s: %+v", name, o)
		}
	}
	for range 2 {
		made, o := rest[*pb.CreateSubscriptionResponse](t, h, doSubscribe, about[doSubscribe]("hook", ""), nil)
		if s := made.GetSubscription(); s.GetEtag() != `"1"` || s.GetSpec().GetUrl() != "https://hook.example/hook" || o.header.Get("Location") != "/factory/event-subscriptions/hook" {
			t.Errorf("%v %v", made, o.header)
		}
	}
	changed, _ := rest[*pb.UpdateSubscriptionResponse](t, h, doRehook, &pb.UpdateSubscriptionRequest{
		SubscriptionId: "hook", Etag: `"1"`, UpdateMask: mask("types", "disabled", "previous_secret"), Spec: &pb.SubscriptionSpec{
			Types: []string{string(registry.EventServerRegistered)}, Disabled: true, PreviousSecret: "env:OLD", Url: "https://not-named.example/",
		},
	}, nil)
	if s := changed.GetSubscription(); s.GetEtag() != `"2"` || !s.GetSpec().GetDisabled() || s.GetSpec().GetUrl() != "https://hook.example/hook" ||
		!cmp.Equal(s.GetSpec().GetTypes(), []string{string(registry.EventServerRegistered)}) || s.GetSpec().GetPreviousSecret() != "env:OLD" {
		t.Errorf("%v", s)
	}
	same, _ := rest[*pb.UpdateSubscriptionResponse](t, h, doRehook, &pb.UpdateSubscriptionRequest{SubscriptionId: "hook", UpdateMask: mask("disabled"), Spec: &pb.SubscriptionSpec{Disabled: true}}, nil)
	if same.GetSubscription().GetEtag() != `"2"` {
		t.Errorf("%v", same)
	}
	if o := ways["REST"](t, h, admin(alpha), doRehook, &pb.UpdateSubscriptionRequest{SubscriptionId: "hook", UpdateMask: mask("direction"), Spec: &pb.SubscriptionSpec{}}, nil); o.answer != nil {
		t.Errorf("%+v", o)
	}
	h.receives(t, "in")
	list, _ := rest[*pb.ListSubscriptionsResponse](t, h, doHooks, &pb.ListSubscriptionsRequest{}, nil)
	if s := list.GetSubscriptions(); len(s) != 2 || s[1].GetReceivePath() != "/events/alpha/in" || s[0].GetReceivePath() != "" {
		t.Errorf("%v", list)
	}
	got, _ := rest[*pb.GetSubscriptionResponse](t, h, doHook, &pb.GetSubscriptionRequest{SubscriptionId: "hook"}, nil)
	if !proto.Equal(got.GetSubscription(), list.GetSubscriptions()[0]) {
		t.Errorf("by itself it is %v, in the list %v", got.GetSubscription(), list.GetSubscriptions()[0])
	}
	h.onlyTried(t, func() {
		tried, _ := rest[*pb.DeleteSubscriptionResponse](t, h, doUnhook, &pb.DeleteSubscriptionRequest{SubscriptionId: "hook", Etag: `"2"`, DryRun: true}, nil)
		if !tried.GetDryRun() || !proto.Equal(tried.GetSubscription(), got.GetSubscription()) {
			t.Errorf("trying to delete it says %v", tried)
		}
	})
	rest[*pb.DeleteSubscriptionResponse](t, h, doUnhook, &pb.DeleteSubscriptionRequest{SubscriptionId: "hook", Etag: `"2"`}, nil)
	if o := ways["REST"](t, h, admin(alpha), doHook, about[doHook]("hook", ""), nil); o.reason != string(registry.ReasonSubscriptionNotFound) {
		t.Errorf("%+v", o)
	}
}

func TestDeliveriesAreSeenAndReplayed(t *testing.T) {
	t.Parallel()
	h := open(t)
	asks(t, h, platform, doSubscribe, about[doSubscribe]("hook", ""), &pb.CreateSubscriptionResponse{})
	for range 3 {
		if id := into(t, ways["REST"](t, h, admin(alpha), doKnock, about[doKnock]("hook", ""), nil), &pb.TestSubscriptionResponse{}).GetEventId(); id == "" {
			t.Error("a test without an event")
		}
	}
	page := into(t, ways["REST"](t, h, admin(alpha), doDeliveries, &pb.ListDeliveriesRequest{SubscriptionId: "hook", PageSize: 2}, nil), &pb.ListDeliveriesResponse{})
	if len(page.GetDeliveries()) != 2 || page.GetDeliveries()[0].GetState() != pb.DeliveryState_DELIVERY_STATE_PENDING || page.GetNextPageToken() == "" {
		t.Errorf("%v", page)
	}
	further := into(t, ways["REST"](t, h, admin(alpha), doDeliveries, &pb.ListDeliveriesRequest{SubscriptionId: "hook", PageSize: 2, PageToken: page.GetNextPageToken()}, nil), &pb.ListDeliveriesResponse{})
	if len(further.GetDeliveries()) != 1 || further.GetNextPageToken() != "" {
		t.Errorf("%v", further)
	}
	if o := ways["REST"](t, h, admin(alpha), doDeliveries, &pb.ListDeliveriesRequest{SubscriptionId: "hook", State: pb.DeliveryState_DELIVERY_STATE_DEAD}, nil); len(into(t, o, &pb.ListDeliveriesResponse{}).GetDeliveries()) != 0 {
		t.Errorf("%+v", o)
	}
	if n, err := h.db.System().RelayEvents(t.Context(), nil, 100); err != nil || n == 0 {
		t.Fatal(n, err)
	}
	for name, r := range map[string]*pb.ReplayEventsRequest{
		"nothing": {SubscriptionId: "hook"},
		"both":    {SubscriptionId: "hook", Dead: true, Since: timestamppb.Now()},
	} {
		if o := ways["REST"](t, h, admin(alpha), doReplay, r, nil); o.reason != string(registry.ReasonInvalidArgument) {
			t.Errorf("%s: %+v", name, o)
		}
	}
	r := &pb.ReplayEventsRequest{SubscriptionId: "hook", Since: timestamppb.New(time.Now().Add(-time.Hour))}
	if n := into(t, ways["REST"](t, h, admin(alpha), doReplay, r, nil), &pb.ReplayEventsResponse{}); n.GetEvents() != 4 || n.GetMore() {
		t.Errorf("%v", n)
	}
}

// Dead letters of a bus are asked for by the name of the bus, on every face.
func TestDeadLettersOfBusesAreSeenAndReplayed(t *testing.T) {
	t.Parallel()
	h := open(t)
	y := h.db.System()
	asks(t, h, platform, doSubscribe, about[doSubscribe]("hook", ""), &pb.CreateSubscriptionResponse{})
	if n, err := y.RelayEvents(t.Context(), []string{registry.SinkKafka}, 100); err != nil || n == 0 {
		t.Fatal(n, err)
	}
	lanes, err := y.ClaimLanes(t.Context(), nil, 10, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	dead := 0
	for _, lane := range lanes {
		parcels, _, err := y.Parcels(t.Context(), lane, 10)
		if err != nil {
			t.Fatal(err)
		}
		var attempts []registry.Attempt
		for _, p := range parcels {
			attempts = append(attempts, registry.Attempt{DeliveryID: p.Delivery.ID, State: registry.DeliveryDead, Problem: "no broker", At: time.Now()})
		}
		if lane.Sink == registry.SinkKafka && lane.TenantID == alpha {
			dead += len(parcels)
		}
		if _, err := y.SettleLane(t.Context(), lane, attempts, 0); err != nil {
			t.Fatal(err)
		}
	}
	list := into(t, ways["REST"](t, h, admin(alpha), doHooks, &pb.ListSubscriptionsRequest{}, nil), &pb.ListSubscriptionsResponse{})
	if len(list.GetBuses()) != 1 || list.GetBuses()[0].GetSink() != "installation.kafka" || int(list.GetBuses()[0].GetDead()) != dead || dead == 0 {
		t.Errorf("%v, want %d", list.GetBuses(), dead)
	}
	for name, way := range ways {
		page := into(t, way(t, h, admin(alpha), doDeliveries, &pb.ListDeliveriesRequest{SubscriptionId: "installation.kafka"}, nil), &pb.ListDeliveriesResponse{})
		if len(page.GetDeliveries()) != dead || page.GetDeliveries()[0].GetProblem() != "no broker" {
			t.Errorf("%s: %v", name, page)
		}
	}
	if n := into(t, ways["REST"](t, h, admin(alpha), doReplay, &pb.ReplayEventsRequest{SubscriptionId: "installation.kafka", Dead: true}, nil), &pb.ReplayEventsResponse{}); int(n.GetEvents()) != dead {
		t.Errorf("%v", n)
	}
	if o := ways["REST"](t, h, admin(beta), doDeliveries, &pb.ListDeliveriesRequest{SubscriptionId: "installation.kafka"}, nil); len(into(t, o, &pb.ListDeliveriesResponse{}).GetDeliveries()) != 0 {
		t.Errorf("another tenant sees %+v", o)
	}
}

// A watcher is told what happens from now on, or from the beginning; who comes
// back with a token misses nothing and is told nothing twice; nobody is told of
// other tenants.
func TestEventsAreWatched(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.active(t, alpha, "before", "x")
	client := registryv1connect.NewEventServiceClient(bringing{overHTTP2, admin(alpha)}, h.url, connect.WithGRPC())
	watch := func(r *pb.WatchEventsRequest, n int) (got []string, token string) {
		t.Helper()
		stream, err := client.WatchEvents(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		for stream.Receive() {
			m := proto.CloneOf(stream.Msg())
			token = m.GetResumeToken()
			for _, e := range m.GetEvents() {
				got = append(got, e.GetEventId())
				if !strings.Contains(e.GetData(), `"tenantId":"alpha"`) {
					t.Errorf("%v", e)
				}
			}
			if len(got) >= n {
				_ = stream.Close()
				return got, token
			}
		}
		t.Fatal(stream.Err())
		return nil, ""
	}
	all, _ := watch(&pb.WatchEventsRequest{FromBeginning: true}, 7)
	some, _ := watch(&pb.WatchEventsRequest{FromBeginning: true, Types: []string{string(registry.EventServerStateChanged)}}, 2)
	if len(some) != 2 || !slices.Contains(all, some[0]) {
		t.Errorf("%v of %v", some, all)
	}
	_, now := watch(&pb.WatchEventsRequest{}, 0)
	h.active(t, beta, "theirs", "x")
	h.active(t, alpha, "after", "x")
	news, token := watch(&pb.WatchEventsRequest{ResumeToken: now}, 7)
	if len(news) != 7 || slices.Contains(news, all[0]) {
		t.Errorf("%v", news)
	}
	h.active(t, alpha, "later", "x")
	later, _ := watch(&pb.WatchEventsRequest{ResumeToken: token}, 7)
	if len(later) != 7 || slices.ContainsFunc(later, func(id string) bool { return slices.Contains(news, id) }) {
		t.Errorf("%v after %v", later, news)
	}
	refused := func(token string) error {
		t.Helper()
		stream, err := client.WatchEvents(t.Context(), &pb.WatchEventsRequest{ResumeToken: token})
		if err == nil {
			stream.Receive()
			err = stream.Err()
		}
		return err
	}
	if err := refused("AAAA"); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Error(err)
	}
	// The events are others now, as after a restore.
	at, ok := placeOf(token)
	if at.Last != news[len(news)-1] || !ok {
		t.Errorf("%+v, but %v were told", at, news)
	}
	at.Last = "00000000-0000-7000-8000-000000000001"
	if err := refused(placeToken(at)); connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "restored") {
		t.Error(err)
	}
}

// Events are received by who can sign them, once each; nobody else learns whether
// there is a subscription.
func TestEventsAreReceived(t *testing.T) {
	t.Parallel()
	h := open(t, func(o *Options) {
		o.Receive = func(_ context.Context, u registry.Subscription, header http.Header, body []byte) (registry.InboundEvent, error) {
			switch header.Get("Webhook-Signature") {
			case "good":
				return registry.InboundEvent{SubscriptionID: u.SubscriptionID, EventID: "e1", Type: registry.EventAssetReleaseRevoked, Data: body}, nil
			case "lost":
				return registry.InboundEvent{}, registry.Errorf(registry.ReasonSecretRefUnresolved, "the secret env:PLATFORM could not be resolved")
			}
			return registry.InboundEvent{}, registry.Errorf(registry.ReasonUnauthenticated, "no")
		}
	})
	h.receives(t, "in")
	asks(t, h, platform, doSubscribe, about[doSubscribe]("out", ""), &pb.CreateSubscriptionResponse{})
	post := func(path, signature, body string) (int, string) {
		t.Helper()
		status, _, answer := h.call(t, http.MethodPost, path, "", body, http.Header{"Webhook-Signature": {signature}})
		return status, answer
	}
	for _, want := range []int{http.StatusAccepted, http.StatusOK} {
		if status, answer := post("/events/alpha/in", "good", `{}`); status != want {
			t.Errorf("%d %s, want %d", status, answer, want)
		}
	}
	_, refused := post("/events/alpha/in", "bad", `{}`)
	for _, path := range []string{"/events/alpha/none", "/events/alpha/out", "/events/beta/in", "/events/alpha", "/events/A/in", "/events/alpha/in/x"} {
		if status, answer := post(path, "good", `{}`); status != http.StatusUnauthorized || answer != refused {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	if status, answer := post("/events/alpha/in", "lost", `{}`); status != http.StatusServiceUnavailable || strings.Contains(answer, "PLATFORM") {
		t.Errorf("%d %s", status, answer)
	}
	if status, _ := post("/events/alpha/in", "good", strings.Repeat("x", registry.MaxInboundEvent+1)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("%d", status)
	}
	kept, err := h.db.Tenant(alpha).Inbound(t.Context(), "in", 10)
	if err != nil || len(kept) != 1 {
		t.Errorf("%+v %v", kept, err)
	}
}
