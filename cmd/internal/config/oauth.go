package config

import (
	"fmt"
	"net/url"

	"countersign/registry"
)

// OAuth says what is done at the issuers of connections besides asking for tokens.
type OAuth struct {
	// RegistrationIssuers are those at which clients may be registered (RFC 7591) for
	// connections that name none, byte for byte; none when empty.
	RegistrationIssuers []string `koanf:"registration_issuers"`
}

func (o OAuth) validate() error {
	for _, issuer := range o.RegistrationIssuers {
		if err := registry.CheckEndpoint(issuer); err != nil {
			return fmt.Errorf("oauth.registration_issuers: %w", err)
		}
		if at, err := url.Parse(issuer); err != nil || at.RawQuery != "" || at.ForceQuery {
			return fmt.Errorf("oauth.registration_issuers: %s has a query", issuer)
		}
	}
	return nil
}
