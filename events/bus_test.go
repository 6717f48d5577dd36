package events_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"countersign/events"
	"countersign/registry"
)

// jetStream starts a NATS server with a stream in this process.
func jetStream(t *testing.T) (url string, stream jetstream.Stream) {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true, Authorization: "bus token",
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server does not start")
	}
	conn, err := nats.Connect(s.ClientURL(), nats.Token("bus token"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"countersign.>"}})
	if err != nil {
		t.Fatal(err)
	}
	return s.ClientURL(), stream
}

// twice repeats a delivery as a process does that was killed before it could
// record it.
type twice struct {
	events.Sink
	n int
}

func (w *twice) Deliver(ctx context.Context, e registry.OutboxEvent, envelope []byte) error {
	err := w.Sink.Deliver(ctx, e, envelope)
	if w.n++; w.n%3 == 1 {
		return errors.Join(err, errors.New("and then it was killed"))
	}
	return err
}

// JetStream and Kafka receive the same sequence as a webhook does.
func TestBusesReceiveTheSameSequence(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	hook := newReceiver(t)
	url, stream := jetStream(t)
	bus, err := events.NewNATS(events.NATSOptions{URL: url, Prefix: "countersign"}, "bus token")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Close)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "events"), kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "relay", "bus password"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	topic, err := events.NewKafka(events.KafkaOptions{Brokers: cluster.ListenAddrs(), Topic: "events", User: "relay", Password: "bus password"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(topic.Close)

	h.subscribe("acme", registry.Subscription{SubscriptionID: "hook", URL: hook.URL})
	h.happen("acme", 6, 3)
	relay := h.relay()
	relay.PerSink = 1
	relay.Sinks = map[string]events.Sink{events.SinkNATS: &twice{Sink: bus}, events.SinkKafka: &twice{Sink: topic}}
	run(t, relay, func() bool { return h.pending() == 0 })
	want := h.all("acme")
	if diff := cmp.Diff(want, hook.once()); diff != "" {
		t.Error(diff)
	}

	info, err := stream.Info(t.Context())
	if err != nil || info.State.Msgs != uint64(len(want)) { // the stream itself leaves repeats out
		t.Fatalf("%d messages of %d: %v", info.State.Msgs, len(want), err)
	}
	var streamed []events.CloudEvent
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		m, err := stream.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		e := cloudEvent(t, m.Data)
		if m.Subject != "countersign.acme."+e.Type || m.Header.Get(jetstream.MsgIDHeader) != e.ID {
			t.Errorf("%s %v", m.Subject, m.Header)
		}
		streamed = append(streamed, e)
	}
	if diff := cmp.Diff(want, once(t, streamed)); diff != "" {
		t.Error(diff)
	}

	consumer, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics("events"),
		kgo.SASL(scram.Auth{User: "relay", Pass: "bus password"}.AsSha512Mechanism()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(consumer.Close)
	var produced []events.CloudEvent
	partitions := map[string]int32{}
	await(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		consumer.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			e := cloudEvent(t, r.Value)
			if at, known := partitions[e.Subject]; known && at != r.Partition || string(r.Key) != "acme/"+e.Subject {
				t.Errorf("%s is in partitions %d and %d under %s", e.Subject, at, r.Partition, r.Key)
			}
			partitions[e.Subject] = r.Partition
			produced = append(produced, e)
		})
		return len(once(t, produced)) == len(want)
	})
	if len(produced) == len(want) {
		t.Error("nothing was repeated")
	}
	if diff := cmp.Diff(want, once(t, produced)); diff != "" {
		t.Error(diff)
	}
}

func cloudEvent(t *testing.T, raw []byte) events.CloudEvent {
	t.Helper()
	var e events.CloudEvent
	if err := json.Unmarshal(raw, &e); err != nil {
		t.Fatal(err)
	}
	return e
}

// A bus that is away keeps what is for it, and nobody else.
func TestABusThatIsAwayGetsItLater(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	hook := newReceiver(t)
	bus, err := events.NewNATS(events.NATSOptions{URL: "nats://127.0.0.1:1", Prefix: "countersign"}, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Close)
	h.subscribe("acme", registry.Subscription{SubscriptionID: "hook", URL: hook.URL})
	h.happen("acme", 2, 0)
	relay := h.relay()
	relay.Timeout = 50 * time.Millisecond
	relay.Sinks = map[string]events.Sink{events.SinkNATS: bus}
	run(t, relay, func() bool { return len(hook.once()) == 3 && h.pending() == 3 })
	url, stream := jetStream(t)
	there, err := events.NewNATS(events.NATSOptions{URL: url, Prefix: "countersign"}, "bus token")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(there.Close)
	relay = h.relay()
	relay.Sinks = map[string]events.Sink{events.SinkNATS: there}
	run(t, relay, func() bool { return h.pending() == 0 })
	if info, err := stream.Info(t.Context()); err != nil || info.State.Msgs != 3 {
		t.Errorf("%+v %v", info, err)
	}
}
