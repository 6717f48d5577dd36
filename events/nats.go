package events

import (
	"context"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"countersign/registry"
)

// SinkNATS is the name of the sink that is NATS JetStream.
const SinkNATS = registry.SinkNATS

// NATS publishes events to a stream of NATS JetStream, each under a subject of its
// own: the prefix, the tenant and the type.
type NATS struct {
	conn   *nats.Conn
	js     jetstream.JetStream
	prefix string
}

// NATSOptions say where the stream is. The operator makes the stream, which has
// the subjects PREFIX.> and a window for duplicates.
type NATSOptions struct {
	URL    string // nats://host:port or tls://host:port, several by commas
	Prefix string // of the subjects
	CAFile string // PEM; empty: the machine's authorities
}

// NewNATS connects in the background, and again whenever the connection is lost.
func NewNATS(o NATSOptions, token string) (*NATS, error) {
	options := []nats.Option{
		nats.Name("countersign"), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(time.Second),
		nats.ReconnectBufSize(-1), // what is not sent fails, and is tried again by the relay
	}
	if token != "" {
		options = append(options, nats.Token(token))
	}
	if o.CAFile != "" {
		options = append(options, nats.RootCAs(o.CAFile))
	}
	conn, err := nats.Connect(o.URL, options...)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &NATS{conn, js, o.Prefix}, nil
}

// Deliver publishes an event and waits until the stream has it. The id keeps
// repeats out for as long as the stream's window for duplicates is.
func (n *NATS) Deliver(ctx context.Context, e registry.OutboxEvent, envelope []byte) error {
	m := &nats.Msg{Subject: n.Subject(e), Data: envelope, Header: nats.Header{}}
	m.Header.Set("Content-Type", ContentType)
	// The relay itself tries again; more tries inside would mix up the order.
	_, err := n.js.PublishMsg(ctx, m, jetstream.WithMsgID(e.EventID), jetstream.WithRetryAttempts(0))
	if err != nil {
		return &DeliveryError{Problem: "the stream did not take the event"}
	}
	return nil
}

// Subject is where an event is published.
func (n *NATS) Subject(e registry.OutboxEvent) string {
	return strings.Join([]string{n.prefix, e.TenantID, string(e.Type)}, ".")
}

// Close ends the connection.
func (n *NATS) Close() { n.conn.Close() }
