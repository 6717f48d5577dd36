package app

import (
	"countersign/api"
	"countersign/events"
	"countersign/outbound"
	"countersign/worker"
	"countersign/workflows"
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
