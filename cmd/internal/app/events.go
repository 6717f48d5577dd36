package app

import (
	"countersign/events"
	"countersign/outbound"
)

// relay makes what delivers the outbox.
func (a App) relay() (*events.Relay, error) {
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
	}
	if a.Config.Events.Log {
		r.Sinks[events.SinkLog] = events.Logged{Log: a.Log}
	}
	return r, nil
}
