package events_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"countersign/events"
	"countersign/registry"
)

// inboundBus is a stream by which others tell tenants.
type inboundBus struct {
	testing.TB
	conn   *nats.Conn
	js     jetstream.JetStream
	stream jetstream.Stream
	url    string
}

func newInboundBus(t *testing.T) *inboundBus {
	t.Helper()
	url, _ := jetStream(t)
	conn, err := nats.Connect(url, nats.Token("bus token"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
	if err != nil {
		t.Fatal(err)
	}
	return &inboundBus{t, conn, js, stream, url}
}

// tell publishes an event of a release, signed by a secret at a time; empty:
// unsigned.
func (b *inboundBus) tell(t *testing.T, subject, secret string, at time.Time, body string) {
	t.Helper()
	m := &nats.Msg{Subject: subject, Data: []byte(body), Header: nats.Header{}}
	if secret != "" {
		maps.Copy(m.Header, nats.Header(signed(t, secret, body, at)))
		m.Header["webhook-id"], m.Header["Webhook-Id"] = m.Header["Webhook-Id"], nil // as others write it
	}
	if _, err := b.js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

func (b *inboundBus) consumer() jetstream.ConsumerInfo {
	b.Helper()
	c, err := b.stream.Consumer(b.Context(), "countersign")
	if err != nil {
		return jetstream.ConsumerInfo{NumPending: 1} // not made yet
	}
	info, err := c.Info(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return *info
}

// run takes in until all messages are acknowledged or terminated.
func (b *inboundBus) run(in events.NATSInbound) jetstream.ConsumerInfo {
	b.Helper()
	bus, err := events.NewNATS(events.NATSOptions{URL: b.url}, "bus token")
	if err != nil {
		b.Fatal(err)
	}
	defer bus.Close()
	in.Bus, in.Stream, in.Prefix, in.Consumer = bus, "IN", "in", "countersign"
	in.Receiver, in.Log, in.First, in.Most = events.Receiver{Secrets: resolver()}, slog.New(slog.DiscardHandler), 10*time.Millisecond, 50*time.Millisecond
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { in.Run(ctx) })
	await(b, func() bool {
		info := b.consumer()
		return info.NumPending == 0 && info.NumAckPending == 0
	})
	cancel()
	running.Wait()
	return b.consumer()
}

func released(id, release string) string {
	return fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"/agent-registry","type":"agent-registry.asset-releases.v1.asset-release-revoked","data":{"releaseId":%q}}`, id, release)
}

func (h *house) receives(tenant, id string) {
	h.Helper()
	u := registry.Subscription{SubscriptionID: id, Direction: registry.SubscriptionReceive, Secret: "env:NEW", PreviousSecret: "env:OLD", Enabled: true}
	if _, err := h.db.Tenant(tenant).CreateSubscription(h.Context(), u, h.op("subscribe")); err != nil {
		h.Fatal(err)
	}
}

// kept gives the events that a subscription has, by their ids.
func (h *house) kept(tenant, id string) map[string]string {
	h.Helper()
	list, err := h.db.Tenant(tenant).Inbound(h.Context(), id, 100)
	if err != nil {
		h.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range list {
		out[e.EventID] = string(e.Data)
	}
	return out
}

func (h *house) inbox(tenant string) events.Inbox { return h.db.Tenant(tenant) }

// What is signed by the subscription's secret is kept, once for each id, for the
// tenant of the subscription; all else is terminated, and JetStream says why.
func TestEventsAreTakenInFromNATS(t *testing.T) {
	t.Parallel()
	h, b, now := newHouse(t), newInboundBus(t), time.Now()
	h.receives("acme", "platform")
	h.receives("globex", "platform")
	advisories, err := b.conn.SubscribeSync("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.IN.countersign")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.conn.Flush(); err != nil {
		t.Fatal(err)
	}
	b.tell(t, "in.acme.platform", "NEW", now, released("e1", "r1"))
	b.tell(t, "in.acme.platform", "OLD", now, released("e2", "r2"))
	b.tell(t, "in.acme.platform", "NEW", now, released("e1", "r1")) // again
	b.tell(t, "in.globex.platform", "NEW", now, released("e1", "r9"))
	poison := []struct{ subject, secret, body, reason string }{
		{"in.acme.platform", "", released("e3", "r3"), "unauthenticated"},
		{"in.acme.platform", "SHORT", released("e3", "r3"), "unauthenticated"},
		{"in.acme.nobody", "NEW", released("e3", "r3"), "unauthenticated"},
		{"in.nobody.platform", "NEW", released("e3", "r3"), "unauthenticated"},
		{"in.acme.platform", "NEW", `{"specversion":"1.0"}`, "invalid_argument"},
		{"in.acme.platform", "NEW", "nonsense", "invalid_argument"},
	}
	for _, p := range poison {
		b.tell(t, p.subject, p.secret, now, p.body)
	}
	b.tell(t, "in.acme.platform", "NEW", now.Add(-6*time.Minute), released("e4", "r4")) // an old one, sent again
	b.tell(t, "in.acme.platform", "NEW", now, released("e5", "r5"))

	info := b.run(events.NATSInbound{Tenant: h.inbox})
	want := map[string]string{"e1": `{"releaseId":"r1"}`, "e2": `{"releaseId":"r2"}`, "e5": `{"releaseId":"r5"}`}
	if diff := cmp.Diff(want, h.kept("acme", "platform")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"e1": `{"releaseId":"r9"}`}, h.kept("globex", "platform")); diff != "" {
		t.Error(diff)
	}
	if info.NumRedelivered != 0 {
		t.Errorf("%+v", info)
	}
	for i := range len(poison) + 1 {
		m, err := advisories.NextMsg(10 * time.Second)
		if err != nil {
			t.Fatal(i, err)
		}
		reason := "unauthenticated" // the old one
		if i < len(poison) {
			reason = poison[i].reason
		}
		if got := field(t, m.Data, "reason"); got != reason {
			t.Errorf("%d: terminated for %q, want %s", i, got, reason)
		}
	}
}

// elsewhere is a database that is away the first times.
type elsewhere struct {
	events.Inbox
	mu   sync.Mutex
	left int
	lose int // answers
}

func (e *elsewhere) TakeIn(ctx context.Context, in registry.InboundEvent) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.left--; e.left >= 0 {
		return false, registry.Errorf(registry.ReasonDependency, "the database does not answer")
	}
	fresh, err := e.Inbox.TakeIn(ctx, in)
	if e.lose--; e.lose >= 0 {
		return false, registry.Errorf(registry.ReasonDependency, "and the answer was lost")
	}
	return fresh, err
}

// A message comes again until its event is kept, also when it waited in the stream
// while nobody was here.
func TestMessagesOfNATSComeAgainUntilTheyAreKept(t *testing.T) {
	t.Parallel()
	h, b, now := newHouse(t), newInboundBus(t), time.Now()
	h.receives("acme", "platform")
	want := map[string]string{}
	for i := range 4 {
		id := "e" + strconv.Itoa(i)
		b.tell(t, "in.acme.platform", "NEW", now, released(id, "r"))
		want[id] = `{"releaseId":"r"}`
	}
	away := &elsewhere{Inbox: h.inbox("acme"), left: 5, lose: 2}
	info := b.run(events.NATSInbound{Tenant: func(string) events.Inbox { return away }})
	if diff := cmp.Diff(want, h.kept("acme", "platform")); diff != "" {
		t.Error(diff)
	}
	if away.left >= 0 || away.lose >= 0 || info.Delivered.Consumer < 11 {
		t.Errorf("%+v after %d deliveries", away, info.Delivered.Consumer)
	}
}

// A stream that is not there yet is waited for.
func TestNATSInboundWaitsForWhatIsNotThereYet(t *testing.T) {
	t.Parallel()
	h, b := newHouse(t), newInboundBus(t)
	h.receives("acme", "platform")
	if err := b.js.DeleteStream(t.Context(), "IN"); err != nil {
		t.Fatal(err)
	}
	bus, err := events.NewNATS(events.NATSOptions{URL: b.url}, "bus token")
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	said := make(chan struct{})
	in := events.NATSInbound{
		Bus: bus, Stream: "IN", Prefix: "in", Consumer: "countersign", Tenant: h.inbox, Receiver: events.Receiver{Secrets: resolver()},
		Log: slog.New(slog.NewTextHandler(closes{sync.OnceFunc(func() { close(said) })}, nil)), First: 10 * time.Millisecond,
	}
	running.Go(func() { in.Run(ctx) })
	<-said
	if b.stream, err = b.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}}); err != nil {
		t.Fatal(err)
	}
	b.tell(t, "in.acme.platform", "NEW", time.Now(), released("e1", "r1"))
	await(t, func() bool { return len(h.kept("acme", "platform")) == 1 })
	cancel()
	running.Wait()
}

// closes tells of the first line of a log.
type closes struct{ once func() }

func (c closes) Write(line []byte) (int, error) {
	c.once()
	return len(line), nil
}

// field gives a text of a JSON object.
func field(t *testing.T, raw []byte, name string) string {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	text, _ := out[name].(string)
	return text
}
