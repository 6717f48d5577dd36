package events

import (
	"context"
	"crypto/tls"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"countersign/registry"
)

// SinkKafka is the name of the sink that is Kafka.
const SinkKafka = registry.SinkKafka

// Kafka produces events to one topic. The key is the tenant and the subject, so
// that those of a subject are in one partition, in order.
type Kafka struct{ client *kgo.Client }

// KafkaOptions say where the topic is. The operator makes it.
type KafkaOptions struct {
	Brokers  []string // host:port
	Topic    string
	TLS      *tls.Config // nil: the connection is not encrypted
	User     string      // by SASL SCRAM-SHA-512; empty: nobody
	Password string
}

// NewKafka makes a producer; it connects when it is used first.
func NewKafka(o KafkaOptions) (*Kafka, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(o.Brokers...), kgo.DefaultProduceTopic(o.Topic), kgo.ClientID("countersign"), kgo.RequiredAcks(kgo.AllISRAcks()),
	}
	if o.TLS != nil {
		options = append(options, kgo.DialTLSConfig(o.TLS))
	}
	if o.User != "" {
		options = append(options, kgo.SASL(scram.Auth{User: o.User, Pass: o.Password}.AsSha512Mechanism()))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	return &Kafka{client}, nil
}

// Deliver produces an event and waits until all replicas that are in step have it.
func (k *Kafka) Deliver(ctx context.Context, e registry.OutboxEvent, envelope []byte) error {
	record := &kgo.Record{
		Key: []byte(e.TenantID + "/" + e.Aggregate), Value: envelope, Timestamp: e.OccurredAt,
		Headers: []kgo.RecordHeader{{Key: "content-type", Value: []byte(ContentType + "; charset=UTF-8")}},
	}
	if err := k.client.ProduceSync(ctx, record).FirstErr(); err != nil {
		return &DeliveryError{Problem: "the topic did not take the event"}
	}
	return nil
}

// Close ends the connections.
func (k *Kafka) Close() { k.client.Close() }
