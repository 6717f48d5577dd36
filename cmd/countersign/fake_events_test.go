package main

import (
	"context"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/proto/countersign/registry/v1/registryv1connect"
	"countersign/registry"
)

// fakeEvents is an EventService with one subscription.
type fakeEvents struct {
	registryv1connect.UnimplementedEventServiceHandler
	made *registryv1.Subscription
}

func (f *fakeEvents) find(id string) error {
	if id == "installation.nats" {
		return nil
	}
	if f.made == nil || f.made.GetSubscriptionId() != id {
		return refusal(connect.CodeNotFound, registry.ReasonSubscriptionNotFound, "list the subscriptions; ids are those of the tenant", nil, "there is no subscription %q", id)
	}
	return nil
}

func (f *fakeEvents) CreateSubscription(_ context.Context, r *registryv1.CreateSubscriptionRequest) (*registryv1.CreateSubscriptionResponse, error) {
	f.made = &registryv1.Subscription{SubscriptionId: r.GetSubscriptionId(), Direction: r.GetDirection(), Spec: r.GetSpec(), CreatedBy: "ada", Dead: 1}
	if r.GetDirection() == registryv1.SubscriptionDirection_SUBSCRIPTION_DIRECTION_RECEIVE {
		f.made.ReceivePath = "/events/default/" + r.GetSubscriptionId()
	}
	return &registryv1.CreateSubscriptionResponse{Subscription: f.made}, nil
}

func (f *fakeEvents) ListSubscriptions(context.Context, *registryv1.ListSubscriptionsRequest) (*registryv1.ListSubscriptionsResponse, error) {
	return &registryv1.ListSubscriptionsResponse{Subscriptions: []*registryv1.Subscription{f.made}, Buses: []*registryv1.Bus{{Sink: "installation.nats", Pending: 2, Dead: 1}}}, nil
}

func (f *fakeEvents) TestSubscription(_ context.Context, r *registryv1.TestSubscriptionRequest) (*registryv1.TestSubscriptionResponse, error) {
	return &registryv1.TestSubscriptionResponse{EventId: "e9"}, f.find(r.GetSubscriptionId())
}

func (f *fakeEvents) ListDeliveries(_ context.Context, r *registryv1.ListDeliveriesRequest) (*registryv1.ListDeliveriesResponse, error) {
	d := &registryv1.Delivery{
		EventId: "e1", Type: string(registry.EventServerRegistered), Subject: "srv_1", Sequence: 1, State: registryv1.DeliveryState_DELIVERY_STATE_DEAD,
		Attempts: 30, Problem: "the receiver answered 503", CreateTime: timestamppb.New(time.Now()),
	}
	out := &registryv1.ListDeliveriesResponse{}
	if r.GetState() == 0 || r.GetState() == d.GetState() {
		out.Deliveries = append(out.Deliveries, d)
	}
	return out, f.find(r.GetSubscriptionId())
}

func (f *fakeEvents) ReplayEvents(_ context.Context, r *registryv1.ReplayEventsRequest) (*registryv1.ReplayEventsResponse, error) {
	return &registryv1.ReplayEventsResponse{Events: 1, More: r.GetSince() != nil}, f.find(r.GetSubscriptionId())
}

func (f *fakeEvents) DeleteSubscription(_ context.Context, r *registryv1.DeleteSubscriptionRequest) (*registryv1.DeleteSubscriptionResponse, error) {
	return &registryv1.DeleteSubscriptionResponse{
		Subscription: &registryv1.Subscription{SubscriptionId: r.GetSubscriptionId(), Pending: 2, Dead: 1}, DryRun: r.GetDryRun(),
	}, f.find(r.GetSubscriptionId())
}

// WatchEvents tells one event, and refuses whoever comes back.
func (f *fakeEvents) WatchEvents(_ context.Context, r *registryv1.WatchEventsRequest, stream *connect.ServerStream[registryv1.WatchEventsResponse]) error {
	if r.GetResumeToken() == "t1" {
		return refusal(connect.CodePermissionDenied, registry.ReasonPermissionDenied, "", nil, "came back with %s", r.GetResumeToken())
	}
	return stream.Send(&registryv1.WatchEventsResponse{ResumeToken: "t1", Events: []*registryv1.Event{{
		EventId: "e1", Type: string(registry.EventServerRegistered), Subject: "srv_1", Sequence: 1, Time: timestamppb.New(time.Unix(0, 0)), Data: `{"serverId":"srv_1"}`,
	}}})
}
