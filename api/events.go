package api

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"

	"countersign/db"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// notices implements EventService.
type notices struct{ *Handler }

var subscriptionDirections = map[registry.SubscriptionDirection]pb.SubscriptionDirection{
	registry.SubscriptionSend:    pb.SubscriptionDirection_SUBSCRIPTION_DIRECTION_SEND,
	registry.SubscriptionReceive: pb.SubscriptionDirection_SUBSCRIPTION_DIRECTION_RECEIVE,
}

var deliveryStates = map[registry.DeliveryState]pb.DeliveryState{
	registry.DeliveryPending:   pb.DeliveryState_DELIVERY_STATE_PENDING,
	registry.DeliveryDelivered: pb.DeliveryState_DELIVERY_STATE_DELIVERED,
	registry.DeliveryDead:      pb.DeliveryState_DELIVERY_STATE_DEAD,
}

// CreateSubscription implements EventService.
func (n notices) CreateSubscription(ctx context.Context, req *pb.CreateSubscriptionRequest) (*pb.CreateSubscriptionResponse, error) {
	d, err := n.desk(ctx)
	if err != nil {
		return nil, err
	}
	u := registry.Subscription{TenantID: d.principal.Tenant, SubscriptionID: req.GetSubscriptionId()}
	for direction, is := range subscriptionDirections {
		if is == req.GetDirection() {
			u.Direction = direction
		}
	}
	for _, field := range subscriptionFields {
		field(&u, req.GetSpec())
	}
	if err := u.Check(); err != nil {
		return nil, err
	}
	callOf(ctx).sent = true
	made, err := d.store.CreateSubscription(ctx, u, d.operation("create_subscription", "", ""))
	if err != nil {
		return nil, err
	}
	call := callOf(ctx)
	call.status, call.location = http.StatusCreated, "/factory/event-subscriptions/"+made.SubscriptionID
	return &pb.CreateSubscriptionResponse{Subscription: subscriptionOut(db.SubscriptionView{Subscription: made})}, nil
}

// subscriptionFields take over what people say, by the names of the mask.
var subscriptionFields = map[string]func(u *registry.Subscription, s *pb.SubscriptionSpec){
	"url":             func(u *registry.Subscription, s *pb.SubscriptionSpec) { u.URL = s.GetUrl() },
	"description":     func(u *registry.Subscription, s *pb.SubscriptionSpec) { u.Description = s.GetDescription() },
	"secret":          func(u *registry.Subscription, s *pb.SubscriptionSpec) { u.Secret = s.GetSecret() },
	"previous_secret": func(u *registry.Subscription, s *pb.SubscriptionSpec) { u.PreviousSecret = s.GetPreviousSecret() },
	"disabled":        func(u *registry.Subscription, s *pb.SubscriptionSpec) { u.Enabled = !s.GetDisabled() },
	"subjects":        func(u *registry.Subscription, s *pb.SubscriptionSpec) { u.Subjects = s.GetSubjects() },
	"types": func(u *registry.Subscription, s *pb.SubscriptionSpec) {
		u.Types = nil
		for _, t := range s.GetTypes() {
			u.Types = append(u.Types, registry.EventType(t))
		}
	},
}

// GetSubscription implements EventService.
func (n notices) GetSubscription(ctx context.Context, req *pb.GetSubscriptionRequest) (*pb.GetSubscriptionResponse, error) {
	d, err := n.desk(ctx)
	if err != nil {
		return nil, err
	}
	u, err := d.store.SubscriptionView(ctx, req.GetSubscriptionId())
	if err != nil {
		return nil, notFound(err, "subscription", req.GetSubscriptionId())
	}
	return &pb.GetSubscriptionResponse{Subscription: subscriptionOut(u)}, nil
}

// ListSubscriptions implements EventService.
func (n notices) ListSubscriptions(ctx context.Context, _ *pb.ListSubscriptionsRequest) (*pb.ListSubscriptionsResponse, error) {
	d, err := n.desk(ctx)
	if err != nil {
		return nil, err
	}
	views, sinks, err := d.store.Subscriptions(ctx)
	if err != nil {
		return nil, err
	}
	out := &pb.ListSubscriptionsResponse{}
	for _, v := range sinks {
		out.Buses = append(out.Buses, &pb.Bus{Sink: strings.Replace(v.Sink, "/", ".", 1), Pending: count(v.Pending), Dead: count(v.Dead)})
	}
	for _, v := range views {
		out.Subscriptions = append(out.Subscriptions, subscriptionOut(v))
	}
	return out, nil
}

// sinkOf gives the sink that callers name. Those of the installation have a dot
// where the store has a slash, which no segment of a path could have; ids of
// subscriptions have neither.
func sinkOf(id string) string {
	if sink := strings.Replace(id, ".", "/", 1); registry.KnownSink(sink) {
		return sink
	}
	return id
}

// UpdateSubscription implements EventService.
func (n notices) UpdateSubscription(ctx context.Context, req *pb.UpdateSubscriptionRequest) (*pb.UpdateSubscriptionResponse, error) {
	d, err := n.desk(ctx)
	if err != nil {
		return nil, err
	}
	paths := req.GetUpdateMask().GetPaths()
	if len(paths) == 0 {
		return nil, registry.Errorf(registry.ReasonInvalidArgument, "the update names no field").WithField("update_mask", "is required")
	}
	for _, path := range paths {
		if subscriptionFields[path] == nil {
			return nil, registry.Errorf(registry.ReasonInvalidArgument, "the update names a field that cannot be changed").
				WithField("update_mask", "%s is not url, description, types, subjects, secret, previous_secret or disabled", path)
		}
	}
	callOf(ctx).sent = true
	u, err := d.store.ChangeSubscription(ctx, req.GetSubscriptionId(), d.operation("edit_subscription", "", ""), func(u *registry.Subscription) (bool, error) {
		if err := registry.CheckEtag(req.GetEtag(), u.Version); err != nil {
			return false, err
		}
		was := *u
		for _, path := range paths {
			subscriptionFields[path](u, req.GetSpec())
		}
		return !u.Same(was), u.Check()
	})
	if err != nil {
		return nil, notFound(err, "subscription", req.GetSubscriptionId())
	}
	return &pb.UpdateSubscriptionResponse{Subscription: subscriptionOut(db.SubscriptionView{Subscription: u})}, nil
}

// DeleteSubscription implements EventService.
func (n notices) DeleteSubscription(ctx context.Context, req *pb.DeleteSubscriptionRequest) (*pb.DeleteSubscriptionResponse, error) {
	d, err := n.desk(ctx)
	if err != nil {
		return nil, err
	}
	callOf(ctx).sent = true
	was, err := d.store.SubscriptionView(ctx, req.GetSubscriptionId())
	if err == nil {
		err = d.deletions(req.GetDryRun()).DeleteSubscription(ctx, req.GetSubscriptionId(), req.GetEtag(), d.operation("delete_subscription", "", ""))
	}
	if err != nil {
		return nil, notFound(err, "subscription", req.GetSubscriptionId())
	}
	return &pb.DeleteSubscriptionResponse{Subscription: subscriptionOut(was), DryRun: req.GetDryRun()}, nil
}

// TestSubscription implements EventService.
func (n notices) TestSubscription(ctx context.Context, req *pb.TestSubscriptionRequest) (*pb.TestSubscriptionResponse, error) {
	d, err := n.desk(ctx)
	if err != nil {
		return nil, err
	}
	callOf(ctx).sent = true
	id, err := d.store.TestSubscription(ctx, req.GetSubscriptionId(), d.operation("test_subscription", "", ""))
	if err != nil {
		return nil, notFound(err, "subscription", req.GetSubscriptionId())
	}
	return &pb.TestSubscriptionResponse{EventId: id}, nil
}

// ListDeliveries implements EventService.
func (n notices) ListDeliveries(ctx context.Context, req *pb.ListDeliveriesRequest) (*pb.ListDeliveriesResponse, error) {
	d, err := n.desk(ctx)
	if err != nil {
		return nil, err
	}
	query := db.DeliveryQuery{SubscriptionID: sinkOf(req.GetSubscriptionId())}
	for state, is := range deliveryStates {
		if is == req.GetState() {
			query.State = state
		}
	}
	l := list{tenant: d.principal.Tenant, method: "deliveries", filter: req.GetSubscriptionId() + " " + string(query.State)}
	if query.Page, err = l.page(req.GetPageSize(), req.GetPageToken()); err != nil {
		return nil, err
	}
	deliveries, next, err := d.store.Deliveries(ctx, query)
	if err != nil {
		return nil, notFound(err, "subscription", req.GetSubscriptionId())
	}
	out := &pb.ListDeliveriesResponse{NextPageToken: l.token(next)}
	for i := range deliveries {
		out.Deliveries = append(out.Deliveries, deliveryOut(&deliveries[i]))
	}
	return out, nil
}

// ReplayEvents implements EventService.
func (n notices) ReplayEvents(ctx context.Context, req *pb.ReplayEventsRequest) (*pb.ReplayEventsResponse, error) {
	d, err := n.desk(ctx)
	if err != nil {
		return nil, err
	}
	r := db.Replay{EventIDs: req.GetEventIds(), Dead: req.GetDead()}
	said := 0
	if len(r.EventIDs) > 0 {
		said++
	}
	if r.Dead {
		said++
	}
	if req.GetSince() != nil {
		said++
		r.Since = req.GetSince().AsTime()
	}
	if said != 1 {
		return nil, registry.Errorf(registry.ReasonInvalidArgument, "a replay is of event_ids, of what is dead, or of what happened since a time").
			WithField("event_ids", "say exactly one of event_ids, dead and since")
	}
	callOf(ctx).sent = true
	events, more, err := d.store.ReplayEvents(ctx, sinkOf(req.GetSubscriptionId()), r, d.operation("replay_events", "", ""))
	if err != nil {
		return nil, notFound(err, "subscription", req.GetSubscriptionId())
	}
	return &pb.ReplayEventsResponse{Events: count(events), More: more}, nil
}

// Watching events.
const (
	watchEventsStep = 200                    // events of one message
	watchEventsLook = 500 * time.Millisecond // between two looks
)

// WatchEvents implements EventService. The resume token is a place in the stream,
// before which nothing can come any more while the history is the same.
func (n notices) WatchEvents(ctx context.Context, req *pb.WatchEventsRequest, stream *connect.ServerStream[pb.WatchEventsResponse]) error {
	if err := n.validate(req); err != nil {
		return err
	}
	d, err := n.desk(ctx)
	if err != nil {
		return err
	}
	at, err := d.begin(ctx, req)
	if err != nil {
		return err
	}
	if n.watching.Add(1) > maxWatchers {
		n.watching.Add(-1)
		return registry.Errorf(registry.ReasonTooManyRequests, "this process tells %d watchers already", maxWatchers).
			With("limit", "watchers").With("retry_after", "5s").WithNext("ask another process, or later")
	}
	defer n.watching.Add(-1)
	if err := stream.Send(&pb.WatchEventsResponse{ResumeToken: placeToken(at)}); err != nil {
		return err
	}
	sent := time.Now()
	for {
		rows, next, err := d.store.OutboxAfter(ctx, at.Position, watchEventsStep)
		if err != nil {
			return err
		}
		if at.Position = next; len(rows) > 0 {
			at.Last = rows[len(rows)-1].EventID
		}
		out := &pb.WatchEventsResponse{ResumeToken: placeToken(at)}
		for i := range rows {
			if watched(req, &rows[i]) {
				out.Events = append(out.Events, eventOut(&rows[i]))
			}
		}
		if len(out.GetEvents()) > 0 || time.Since(sent) >= watchBeat {
			if err := stream.Send(out); err != nil {
				return err
			}
			sent = time.Now()
		}
		if len(rows) == watchEventsStep {
			continue
		}
		select {
		case <-time.After(watchEventsLook):
		case <-ctx.Done():
			return ctx.Err()
		case <-n.draining.Done():
			return registry.Errorf(registry.ReasonDependency, "this process is ending").WithNext("watch again, with the resume token")
		}
	}
}

// begin is where a request begins.
func (d desk) begin(ctx context.Context, req *pb.WatchEventsRequest) (db.Place, error) {
	switch {
	case req.GetResumeToken() != "":
		at, ok := placeOf(req.GetResumeToken())
		if !ok {
			return db.Place{}, registry.Errorf(registry.ReasonInvalidPageToken, "the resume token is damaged").
				WithField("resume_token", "is not one that was given")
		}
		return d.store.OutboxResume(ctx, at)
	case req.GetFromBeginning():
		return d.store.OutboxResume(ctx, db.Place{})
	}
	return d.store.OutboxEnd(ctx)
}

// placeToken is three numbers and the id of an event, or zeros for none.
func placeToken(p db.Place) string {
	last := uuid.Nil
	if p.Last != "" {
		last = uuid.MustParse(p.Last)
	}
	raw := binary.BigEndian.AppendUint64(nil, uint64(p.Tx))
	raw = binary.BigEndian.AppendUint64(raw, uint64(p.ID))
	raw = binary.BigEndian.AppendUint64(raw, p.History)
	return base64.RawURLEncoding.EncodeToString(append(raw, last[:]...))
}

func placeOf(token string) (db.Place, bool) {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) != 3*8+len(uuid.Nil) {
		return db.Place{}, false
	}
	at := db.Place{
		Position: db.Position{Tx: int64(binary.BigEndian.Uint64(raw)), ID: int64(binary.BigEndian.Uint64(raw[8:]))},
		History:  binary.BigEndian.Uint64(raw[16:]),
	}
	if last := uuid.UUID(raw[24:]); last != uuid.Nil {
		at.Last = last.String()
	}
	return at, true
}

func watched(req *pb.WatchEventsRequest, e *db.OutboxEvent) bool {
	return (len(req.GetTypes()) == 0 || slices.Contains(req.GetTypes(), string(e.Type))) &&
		(len(req.GetSubjects()) == 0 || slices.Contains(req.GetSubjects(), e.Aggregate))
}

// ReceivePath is where events of others are received, open to whoever can sign
// them.
const ReceivePath = "/events/"

func subscriptionOut(v db.SubscriptionView) *pb.Subscription {
	u := v.Subscription
	out := &pb.Subscription{
		SubscriptionId: u.SubscriptionID, Direction: subscriptionDirections[u.Direction], Pending: count(v.Pending), Dead: count(v.Dead), Etag: u.Etag(),
		CreateTime: timestamppb.New(u.CreatedAt), CreatedBy: u.CreatedBy, UpdateTime: timestamppb.New(u.UpdatedAt),
		Spec: &pb.SubscriptionSpec{
			Url: u.URL, Description: u.Description, Subjects: u.Subjects, Secret: u.Secret, PreviousSecret: u.PreviousSecret, Disabled: !u.Enabled,
		},
	}
	for _, t := range u.Types {
		out.Spec.Types = append(out.Spec.Types, string(t))
	}
	if u.Direction == registry.SubscriptionReceive {
		out.ReceivePath = ReceivePath + u.TenantID + "/" + u.SubscriptionID
	}
	return out
}

func deliveryOut(d *registry.Delivery) *pb.Delivery {
	out := &pb.Delivery{
		EventId: d.EventID, Type: string(d.Type), Subject: d.Aggregate, Sequence: d.Seq, State: deliveryStates[d.State], Attempts: count(d.Attempts),
		Status: count(d.Status), Problem: d.Problem, CreateTime: timestamppb.New(d.CreatedAt),
	}
	if !d.FirstAt.IsZero() {
		out.FirstAttemptTime, out.LastAttemptTime = timestamppb.New(d.FirstAt), timestamppb.New(d.LastAt)
	}
	return out
}

func eventOut(e *db.OutboxEvent) *pb.Event {
	return &pb.Event{
		EventId: e.EventID, Type: string(e.Type), Subject: e.Aggregate, Sequence: e.Seq, Time: timestamppb.New(e.OccurredAt),
		CorrelationId: e.CorrelationID, Data: string(e.Data),
	}
}
