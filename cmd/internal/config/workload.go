package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"time"

	"countersign/registry"
)

// WorkloadIdentity is the installation's own issuer, whose tokens stand for its
// connections where they name no secret.
type WorkloadIdentity struct {
	Issuer string `koanf:"issuer"` // URL below which the API is reached by whoever checks tokens; empty: there is none
	// Key refers to the private key that signs tokens.
	Key           string        `koanf:"key"`
	TokenLifetime time.Duration `koanf:"token_lifetime"`
}

func (w WorkloadIdentity) validate() error {
	if (w.Issuer == "") != (w.Key == "") {
		return errors.New("workload_identity.issuer and workload_identity.key go together")
	}
	if w.TokenLifetime < 30*time.Second || w.TokenLifetime > time.Hour {
		return fmt.Errorf("workload_identity.token_lifetime must be 30s to 1h, not %s", w.TokenLifetime)
	}
	if w.Issuer == "" {
		return nil
	}
	if err := registry.CheckEndpoint(w.Issuer); err != nil {
		return fmt.Errorf("workload_identity.issuer: %w", err)
	}
	// Others trust its keys by where they are published.
	if at, err := url.Parse(w.Issuer); err != nil || at.RawQuery != "" || at.Scheme != "https" && !onLoopback(at.Hostname()) {
		return errors.New("workload_identity.issuer must be an https:// URL without a query, or http:// on loopback")
	}
	if _, err := registry.ParseSecretRef(w.Key); err != nil {
		return fmt.Errorf("workload_identity.key: %w", err)
	}
	return nil
}

func onLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}
