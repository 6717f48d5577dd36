package config

import (
	"fmt"
	"net/url"
)

// Events say where the installation sends the events of all tenants, besides the
// webhooks that tenants subscribe.
type Events struct {
	Source string `koanf:"source"` // of the CloudEvents, a URI reference
	Log    bool   `koanf:"log"`    // each event is a line of the log
}

func (e Events) validate() error {
	if u, err := url.Parse(e.Source); err != nil || e.Source == "" || u.User != nil {
		return fmt.Errorf("events.source must be a URI reference without credentials")
	}
	return nil
}
