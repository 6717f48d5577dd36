package events

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"countersign/registry"
)

// Receiver takes in what others tell a tenant.
type Receiver struct {
	Secrets Secrets
	Now     func() time.Time // nil: the clock
}

// maxEventID bounds the id of a received event, in bytes.
const maxEventID = 200

// Receive verifies, reads and checks a request to a subscription: a CloudEvent in
// structured mode, signed as Standard Webhooks says by one of the subscription's
// secrets. The error is unauthenticated when nobody signed it who may, and
// invalid_argument when it is no event that the subscription takes.
func (r Receiver) Receive(ctx context.Context, u registry.Subscription, header http.Header, body []byte) (registry.InboundEvent, error) {
	now := time.Now()
	if r.Now != nil {
		now = r.Now()
	}
	unsigned := registry.Errorf(registry.ReasonUnauthenticated, "the signature is not one of the subscription's secrets, or too old").
		WithNext("sign as Standard Webhooks says, with a secret of the subscription, within %s", Tolerance)
	if !current(header, now) {
		return registry.InboundEvent{}, unsigned // before any secret is asked for
	}
	var keys [][]byte
	for _, reference := range []string{u.Secret, u.PreviousSecret} {
		if reference == "" {
			continue
		}
		value, err := r.Secrets.Resolve(ctx, u.TenantID, reference)
		if err != nil {
			return registry.InboundEvent{}, err
		}
		k, err := key(value)
		if err != nil {
			return registry.InboundEvent{}, err
		}
		keys = append(keys, k)
	}
	if !verify(header, body, now, keys...) {
		return registry.InboundEvent{}, unsigned
	}
	return Parse(u, body)
}

// Parse reads a CloudEvent in structured mode, and checks that the subscription
// takes it.
func Parse(u registry.Subscription, body []byte) (registry.InboundEvent, error) {
	if len(body) > registry.MaxInboundEvent {
		return registry.InboundEvent{}, registry.Errorf(registry.ReasonBodyTooLarge, "the event has more than %d bytes", registry.MaxInboundEvent)
	}
	var e CloudEvent
	if err := json.Unmarshal(body, &e); err != nil {
		return registry.InboundEvent{}, registry.Errorf(registry.ReasonInvalidArgument, "the body is no CloudEvent in structured mode").
			WithNext("see /asyncapi.json")
	}
	wrong := registry.Errorf(registry.ReasonInvalidArgument, "the event is not valid").WithNext("see /asyncapi.json")
	if e.SpecVersion != "1.0" {
		wrong.WithField("specversion", "must be 1.0")
	}
	if e.ID == "" || len(e.ID) > maxEventID {
		wrong.WithField("id", "has 1 to %d bytes", maxEventID)
	}
	kind := registry.EventType(e.Type)
	switch known := registry.InboundEventKinds(); {
	case !slices.ContainsFunc(known, func(k registry.EventKind) bool { return k.Type == kind }):
		wrong.WithField("type", "is none that is taken in")
	case !u.Wants(kind, ""):
		wrong.WithField("type", "is none that the subscription takes")
	default:
		if err := checkPayload(kind, e.Data); err != nil {
			wrong.WithField("data", "does not fit the schema of its type")
		}
	}
	if len(wrong.Fields) > 0 {
		return registry.InboundEvent{}, wrong
	}
	return registry.InboundEvent{SubscriptionID: u.SubscriptionID, EventID: e.ID, Type: kind, Data: e.Data}, nil
}

// checkPayload compares data with the published schema.
func checkPayload(kind registry.EventType, data json.RawMessage) error {
	for _, k := range registry.InboundEventKinds() {
		if k.Type != kind {
			continue
		}
		s, err := PayloadSchema(k)
		if err != nil {
			return err
		}
		resolved, err := s.Resolve(nil)
		if err != nil {
			return err
		}
		var v any
		if err := json.Unmarshal(data, &v); err != nil {
			return err
		}
		return resolved.Validate(v)
	}
	return nil
}
