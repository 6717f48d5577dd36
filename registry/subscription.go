package registry

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Subscription says who of a tenant is told of events, by a webhook, or from whom
// the tenant takes some in. Secrets sign what is sent and verify what is received.
type Subscription struct {
	TenantID       string                `json:"tenantId" bun:"tenant_id,pk"`
	SubscriptionID string                `json:"subscriptionId" bun:"subscription_id,pk"`
	Direction      SubscriptionDirection `json:"direction" bun:"direction"`
	Description    string                `json:"description" bun:"description"`
	URL            string                `json:"url" bun:"url"`                        // of the webhook; empty for what is received
	Types          []EventType           `json:"types" bun:"types,type:text"`          // empty: all
	Subjects       []string              `json:"subjects" bun:"subjects,type:text"`    // server ids, or kind/name; empty: all
	Secret         string                `json:"secret" bun:"secret"`                  // a reference
	PreviousSecret string                `json:"previousSecret" bun:"previous_secret"` // a reference; also counts while secrets are rotated
	Enabled        bool                  `json:"enabled" bun:"enabled"`                // a disabled one collects no events, and what it has waits
	Version        int64                 `json:"version" bun:"version"`
	CreatedAt      time.Time             `json:"createdAt" bun:"created_at"`
	CreatedBy      string                `json:"createdBy" bun:"created_by"`
	UpdatedAt      time.Time             `json:"updatedAt" bun:"updated_at"`
}

// SubscriptionDirection says who tells whom.
type SubscriptionDirection string

// The directions.
const (
	SubscriptionSend    SubscriptionDirection = "send"    // we tell
	SubscriptionReceive SubscriptionDirection = "receive" // others tell us
)

// Limits of subscriptions.
const (
	MaxSubscriptions        = 50 // of a tenant
	MaxSubscriptionTypes    = 64
	MaxSubscriptionSubjects = 200
	MaxInboundEvent         = 64 << 10 // bytes of one event that is received
)

// Check says everything that is wrong with a subscription.
func (s Subscription) Check() error {
	e := Errorf(ReasonInvalidArgument, "the subscription is not valid")
	if !ValidName(s.SubscriptionID) {
		e.WithField("subscription_id", "must be 1 to 63 of a-z, 0-9, '_' and '-', beginning and ending with a letter or digit")
	}
	known := EventKinds()
	switch s.Direction {
	case SubscriptionSend:
		if s.URL == "" {
			e.WithField("url", "is required")
		} else if err := CheckEndpoint(s.URL); err != nil {
			if ReasonOf(err) == ReasonSecretInRequest {
				return err
			}
			e.WithField("url", "%s", err.Error())
		}
	case SubscriptionReceive:
		known = InboundEventKinds()
		if s.URL != "" {
			e.WithField("url", "is only for direction send")
		}
		if len(s.Subjects) > 0 {
			e.WithField("subjects", "is only for direction send")
		}
	default:
		e.WithField("direction", "must be send or receive")
	}
	if len(s.Types) > MaxSubscriptionTypes {
		e.WithField("types", "has more than %d", MaxSubscriptionTypes)
	}
	for _, t := range s.Types {
		if !slices.ContainsFunc(known, func(k EventKind) bool { return k.Type == t }) {
			e.WithField("types", "there is no type %q; see /asyncapi.json", string(t))
		}
	}
	if len(s.Subjects) > MaxSubscriptionSubjects {
		e.WithField("subjects", "has more than %d", MaxSubscriptionSubjects)
	}
	if slices.ContainsFunc(s.Subjects, func(subject string) bool { return subject == "" || len(subject) > 200 }) {
		e.WithField("subjects", "each has 1 to 200 bytes")
	}
	if len(s.Description) > MaxReasonLength {
		e.WithField("description", "is longer than %d bytes", MaxReasonLength)
	}
	if s.Secret == "" {
		e.WithField("secret", "is required")
	} else if _, err := ParseSecretRef(s.Secret); err != nil {
		return inField(err, "secret")
	}
	if s.PreviousSecret != "" {
		if _, err := ParseSecretRef(s.PreviousSecret); err != nil {
			return inField(err, "previous_secret")
		}
	}
	if len(e.Fields) > 0 {
		return e
	}
	return nil
}

// Wants says whether events of a type about a subject are of the subscription.
func (s Subscription) Wants(t EventType, subject string) bool {
	return (len(s.Types) == 0 || slices.Contains(s.Types, t)) && (len(s.Subjects) == 0 || slices.Contains(s.Subjects, subject))
}

// Receives says whether the subscription takes in what others tell.
func (s Subscription) Receives() bool { return s.Direction == SubscriptionReceive && s.Enabled }

// Same says whether people said the same of both.
func (s Subscription) Same(other Subscription) bool {
	return s.SubscriptionID == other.SubscriptionID && s.Direction == other.Direction && s.Description == other.Description && s.URL == other.URL &&
		slices.Equal(s.Types, other.Types) && slices.Equal(s.Subjects, other.Subjects) && s.Secret == other.Secret &&
		s.PreviousSecret == other.PreviousSecret && s.Enabled == other.Enabled
}

// Etag is the optimistic lock as callers see it.
func (s Subscription) Etag() string { return formatEtag(s.Version) }

// SubscriptionNotFound is what one is told of a subscription that does not exist
// or is another tenant's.
func SubscriptionNotFound() *Error {
	return Errorf(ReasonSubscriptionNotFound, "there is no such subscription").
		WithNext("list the subscriptions; ids are those of the tenant")
}

// DeliveryState says how a delivery stands.
type DeliveryState string

// The states of deliveries.
const (
	DeliveryPending   DeliveryState = "pending"
	DeliveryDelivered DeliveryState = "delivered"
	DeliveryDead      DeliveryState = "dead" // given up: the next event of the subject goes on
)

// Delivery is one event on its way to one sink.
type Delivery struct {
	ID        int64         `bun:"id,pk,autoincrement"` // by the database
	TenantID  string        `bun:"tenant_id"`
	Sink      string        `bun:"sink"` // a subscription's id, or one of the installation's sinks
	EventID   string        `bun:"event_id"`
	Type      EventType     `bun:"event_type"`
	Aggregate string        `bun:"aggregate"`
	Seq       int64         `bun:"seq"`
	State     DeliveryState `bun:"state"`
	Attempts  int           `bun:"attempts"`
	Status    int           `bun:"status"`  // HTTP, of the last attempt; 0: none came
	Problem   string        `bun:"problem"` // of the last attempt
	CreatedAt time.Time     `bun:"created_at"`
	FirstAt   time.Time     `bun:"first_at,nullzero"` // attempt
	LastAt    time.Time     `bun:"last_at,nullzero"`  // attempt
}

// Lane is the way of one subject's events to one sink: one at a time, in order.
// Whoever has the lease goes along it.
type Lane struct {
	TenantID  string    `bun:"tenant_id,pk"`
	Sink      string    `bun:"sink,pk"`
	Aggregate string    `bun:"aggregate,pk"`
	DueAt     time.Time `bun:"due_at"`
	Lease     string    `bun:"lease"`
}

// Parcel is what is to be delivered next along a lane.
type Parcel struct {
	Delivery Delivery
	Event    OutboxEvent
}

// Attempt is how one delivery went.
type Attempt struct {
	DeliveryID int64
	State      DeliveryState // pending: it is tried again
	Status     int           // HTTP; 0: none came
	Problem    string
	At         time.Time
}

// EventBacklog is how far behind deliveries are.
type EventBacklog struct {
	Unrelayed int       // events that no sink was offered yet
	Pending   int       // deliveries; counted up to a bound
	Dead      int       // deliveries; counted up to a bound
	Oldest    time.Time // event that is not delivered; zero: none
}

// InboundState says how an event that was received stands.
type InboundState string

// The states of events that were received.
const (
	InboundQueued InboundState = "queued"
	InboundDone   InboundState = "done"
	InboundFailed InboundState = "failed"
)

// InboundEvent is an event that others told us, once for each id.
type InboundEvent struct {
	TenantID       string          `bun:"tenant_id,pk"`
	SubscriptionID string          `bun:"subscription_id,pk"`
	EventID        string          `bun:"event_id,pk"`
	Type           EventType       `bun:"event_type"`
	Data           json.RawMessage `bun:"data,type:text"`
	State          InboundState    `bun:"state"`
	Attempts       int             `bun:"attempts"`
	Problem        string          `bun:"problem"`
	ReceivedAt     time.Time       `bun:"received_at"`
	DueAt          time.Time       `bun:"due_at"`
	Lease          string          `bun:"lease"`
}

// The sinks of an installation, which the operator configures: they get the events
// of all tenants. No subscription can have such an id.
const (
	SinkLog   = "installation/log"
	SinkNATS  = "installation/nats"
	SinkKafka = "installation/kafka"
)

// KnownSink says whether an installation can have such a sink.
func KnownSink(sink string) bool { return sink == SinkLog || sink == SinkNATS || sink == SinkKafka }

// InstallationSink says whether a sink is the installation's, and no tenant's.
func InstallationSink(sink string) bool { return strings.HasPrefix(sink, "installation/") }
