package app

import (
	"context"
	"fmt"
	"net/http"

	"countersign/cmd/internal/config"
	"countersign/oauth"
)

// Mint makes the installation's own issuer, with the key that the configuration
// refers to; nil when it has none.
func Mint(ctx context.Context, conf config.Config) (*oauth.Mint, error) {
	w := conf.WorkloadIdentity
	if w.Issuer == "" {
		return nil, nil
	}
	resolver, err := references(conf)
	if err != nil {
		return nil, err
	}
	value, err := resolver.Resolve(ctx, w.Key)
	if err != nil {
		return nil, fmt.Errorf("workload_identity.key: %w", err)
	}
	key, err := oauth.ParseKey(value)
	if err != nil {
		return nil, fmt.Errorf("workload_identity.key: %w", err)
	}
	mint, err := oauth.NewMint(w.Issuer, key, w.TokenLifetime, nil)
	if err != nil {
		return nil, fmt.Errorf("workload_identity: %w", err)
	}
	return mint, nil
}

// open are the paths that the API answers to everybody: the documents of our own
// issuer.
func (a App) open() map[string]http.Handler {
	if a.Mint == nil {
		return nil
	}
	out := map[string]http.Handler{}
	for _, path := range a.Mint.Paths() {
		out[path] = a.Mint
	}
	return out
}
