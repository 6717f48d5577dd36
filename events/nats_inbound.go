package events

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"countersign/registry"
)

// Inbox is where what a tenant is told is kept; db.Store is one.
type Inbox interface {
	Subscription(ctx context.Context, id string) (registry.Subscription, error)
	TakeIn(ctx context.Context, e registry.InboundEvent) (bool, error)
}

// NATSInbound takes in what others tell tenants by a stream of NATS JetStream
// (R164), besides the door for HTTP: the subject PREFIX.TENANT.SUBSCRIPTION names
// the subscription, and the headers of Standard Webhooks sign the message by a
// secret of it. A message is acknowledged when its event is kept, or was already;
// while that cannot be it comes again, ever later. One that can never be taken in is
// terminated: JetStream tells so by an advisory, with the reason.
type NATSInbound struct {
	Bus      *NATS
	Stream   string // which the operator makes
	Prefix   string // of the subjects
	Consumer string // durable; all processes share it
	Tenant   func(tenant string) Inbox
	Receiver Receiver
	Log      *slog.Logger

	// Zero values mean the defaults named with each field.
	First time.Duration // wait after a first failure, which doubles with each; default 2 s
	Most  time.Duration // the longest wait; default 5 min
}

const (
	inboundAckWait = time.Minute
	inboundTimeout = 10 * time.Second // of one message, and of an answer by the stream
	inboundAhead   = 32               // messages that a process holds
)

// Run takes in until the context is over.
func (n NATSInbound) Run(ctx context.Context) {
	n.First, n.Most = cmp.Or(n.First, 2*time.Second), cmp.Or(n.Most, 5*time.Minute)
	failing := false
	for ctx.Err() == nil {
		began := time.Now()
		err := n.consume(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > n.First {
			failing = false // it worked in between
		}
		if !failing {
			n.Log.LogAttrs(ctx, slog.LevelWarn, "events cannot be received from NATS", slog.String("stream", n.Stream), slog.Any("error", err))
		}
		failing = true
		select {
		case <-time.After(n.First):
		case <-ctx.Done():
		}
	}
}

// consume goes along the stream until it cannot.
func (n NATSInbound) consume(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, inboundTimeout)
	defer cancel()
	consumer, err := n.Bus.js.CreateOrUpdateConsumer(asking, n.Stream, jetstream.ConsumerConfig{
		Durable: n.Consumer, FilterSubject: n.Prefix + ".*.*", AckPolicy: jetstream.AckExplicitPolicy, AckWait: inboundAckWait,
		MaxDeliver: -1, MaxAckPending: 1000, DeliverPolicy: jetstream.DeliverAllPolicy,
	})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(inboundAhead))
	if err != nil {
		return err
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)()
	for {
		m, err := messages.Next()
		if err != nil {
			return err
		}
		if err := n.take(ctx, m); err != nil {
			return err
		}
	}
}

// take keeps what a message tells, and answers the stream.
func (n NATSInbound) take(ctx context.Context, m jetstream.Msg) error {
	about, err := m.Metadata()
	if err != nil {
		return err
	}
	timed, cancel := context.WithTimeout(ctx, inboundTimeout)
	defer cancel()
	err = n.keep(timed, m, about.Timestamp)
	if err == nil {
		return m.DoubleAck(timed) // lost, it comes again, and is left out by its id
	}
	if ctx.Err() != nil {
		return m.Nak() // we stop: another process has it at once
	}
	known, ok := registry.AsError(err)
	if ok && !passing(known) {
		n.Log.LogAttrs(ctx, slog.LevelWarn, "a message of NATS is not taken in", slog.String("subject", m.Subject()),
			slog.Uint64("sequence", about.Sequence.Stream), slog.String("reason", string(known.Reason)), slog.String("problem", known.Message))
		return m.TermWithReason(string(known.Reason))
	}
	wait := n.Most
	if tries := about.NumDelivered; tries <= 20 {
		wait = min(n.First<<(max(tries, 1)-1), n.Most)
	}
	n.Log.LogAttrs(ctx, slog.LevelInfo, "a message of NATS has to wait", slog.String("subject", m.Subject()),
		slog.Uint64("sequence", about.Sequence.Stream), slog.Duration("wait", wait), slog.Any("error", err))
	return m.NakWithDelay(wait)
}

// passing says whether an error is none of the message's: what is away comes back,
// and a secret that is not there may be put there.
func passing(e *registry.Error) bool {
	return e.Code.Retryable() || e.Code == registry.CodePrecondition
}

// keep verifies a message and keeps its event. What the signature's time is
// compared with is when the stream got the message: how long it waited for us says
// nothing about whoever sent it.
func (n NATSInbound) keep(ctx context.Context, m jetstream.Msg, at time.Time) error {
	unknown := registry.Errorf(registry.ReasonUnauthenticated, "the subject names no subscription that receives, or its secret signed something else")
	tenant, id, found := strings.Cut(strings.TrimPrefix(m.Subject(), n.Prefix+"."), ".")
	if !found || !registry.ValidTenant(tenant) || !registry.ValidName(id) {
		return unknown
	}
	if len(m.Data()) > registry.MaxInboundEvent {
		return registry.Errorf(registry.ReasonBodyTooLarge, "the event has more than %d bytes", registry.MaxInboundEvent)
	}
	inbox := n.Tenant(tenant)
	u, err := inbox.Subscription(ctx, id)
	switch {
	case registry.ReasonOf(err) == registry.ReasonSubscriptionNotFound:
		return unknown
	case err != nil:
		return err
	case !u.Receives():
		return unknown
	}
	header := http.Header{}
	for key, values := range m.Headers() { // which NATS leaves as they were written
		for _, value := range values {
			header.Add(key, value)
		}
	}
	receiver := n.Receiver
	receiver.Now = func() time.Time { return at }
	e, err := receiver.Receive(ctx, u, header, m.Data())
	if err != nil {
		return err
	}
	_, err = inbox.TakeIn(ctx, e)
	if registry.ReasonOf(err) == registry.ReasonSubscriptionNotFound { // deleted meanwhile
		return unknown
	}
	return err
}
