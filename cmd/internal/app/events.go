package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"countersign/api"
	"countersign/events"
	"countersign/outbound"
	"countersign/secrets"
	"countersign/worker"
	"countersign/workflows"
)

// relay makes what delivers the outbox.
func (a App) relay(ctx context.Context) (*events.Relay, error) {
	networks, err := a.Config.Networks()
	if err != nil {
		return nil, err
	}
	resolver, err := references(a.Config)
	if err != nil {
		return nil, err
	}
	r := &events.Relay{
		Store:    a.DB.System(),
		Webhooks: events.NewWebhooks(outbound.NewGuard(outbound.Options{AllowNetworks: networks}), a.shared(resolver)),
		Sinks:    map[string]events.Sink{},
		Source:   a.Config.Events.Source,
		Keep:     a.Config.Retention.Events,
		Log:      a.Log,

		Instruments: a.Telemetry.instruments(),
	}
	if a.Config.Events.Log {
		r.Sinks[events.SinkLog] = events.Logged{Log: a.Log}
	}
	if err := a.buses(ctx, resolver, r.Sinks); err != nil {
		return nil, err
	}
	return r, nil
}

// buses adds those that the configuration names. Their connections are the
// operator's own, and live as long as the process.
func (a App) buses(ctx context.Context, resolver secrets.Resolver, sinks map[string]events.Sink) error {
	if n := a.Config.Events.NATS; n.URL != "" {
		token, err := operators(ctx, resolver, "events.nats.token", n.Token)
		if err != nil {
			return err
		}
		sink, err := events.NewNATS(events.NATSOptions{URL: n.URL, Prefix: n.Prefix, CAFile: n.CAFile}, token)
		if err != nil {
			return fmt.Errorf("events.nats: %w", err)
		}
		context.AfterFunc(ctx, sink.Close)
		sinks[events.SinkNATS] = sink
	}
	if k := a.Config.Events.Kafka; k.Topic != "" {
		password, err := operators(ctx, resolver, "events.kafka.password", k.Password)
		if err != nil {
			return err
		}
		o := events.KafkaOptions{Brokers: k.Brokers, Topic: k.Topic, User: k.User, Password: password}
		if k.TLS {
			o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
			if k.CAFile != "" {
				text, err := os.ReadFile(k.CAFile)
				if err != nil {
					return fmt.Errorf("events.kafka.ca_file: %w", err)
				}
				o.TLS.RootCAs = x509.NewCertPool()
				if !o.TLS.RootCAs.AppendCertsFromPEM(text) {
					return fmt.Errorf("events.kafka.ca_file: there is no certificate in it")
				}
			}
		}
		sink, err := events.NewKafka(o)
		if err != nil {
			return fmt.Errorf("events.kafka: %w", err)
		}
		context.AfterFunc(ctx, sink.Close)
		sinks[events.SinkKafka] = sink
	}
	return nil
}

// operators gives what a reference of the operator's own stands for; none is none.
func operators(ctx context.Context, resolver secrets.Resolver, key, reference string) (string, error) {
	if reference == "" {
		return "", nil
	}
	value, err := resolver.Resolve(ctx, reference)
	if err != nil {
		return "", fmt.Errorf("%s: %w", key, err)
	}
	return value.Reveal(), nil
}

// natsInbound makes what takes in events by NATS; nil where the configuration
// names no stream for it. Its connection lives as long as the process.
func (a App) natsInbound(ctx context.Context) (*events.NATSInbound, error) {
	n := a.Config.Events.NATSInbound
	if n.URL == "" {
		return nil, nil //nolint:nilnil // said above
	}
	resolver, err := references(a.Config)
	if err != nil {
		return nil, err
	}
	token, err := operators(ctx, resolver, "events.nats_inbound.token", n.Token)
	if err != nil {
		return nil, err
	}
	bus, err := events.NewNATS(events.NATSOptions{URL: n.URL, CAFile: n.CAFile}, token)
	if err != nil {
		return nil, fmt.Errorf("events.nats_inbound: %w", err)
	}
	context.AfterFunc(ctx, bus.Close)
	return &events.NATSInbound{
		Bus: bus, Stream: n.Stream, Prefix: n.Prefix, Consumer: n.Consumer,
		Tenant:   func(tenant string) events.Inbox { return a.DB.Tenant(tenant) },
		Receiver: events.Receiver{Secrets: a.shared(resolver)}, Log: a.Log,
	}, nil
}

// receive verifies what others send to subscriptions. It asks for secrets where
// the api runs.
func (a App) receive() (api.Receive, error) {
	resolver, err := references(a.Config)
	if err != nil {
		return nil, err
	}
	return events.Receiver{Secrets: a.shared(resolver)}.Receive, nil
}

// inbound makes what does as received events say.
func (a App) inbound() (worker.Inbound, error) {
	networks, err := a.Config.ConnectionNetworks()
	return worker.Inbound{
		Store: a.DB.System(), Tenant: func(tenant string) worker.Releases { return a.DB.Tenant(tenant) },
		Changes:      workflows.NewClient(a.Temporal, a.Namespace, a.Config.Temporal.UIURL),
		Installation: a.installation(networks), Log: a.Log,
	}, err
}
