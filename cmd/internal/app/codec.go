package app

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"strings"

	"countersign/activities"
	"countersign/cmd/internal/config"
	"countersign/mcpclient"
	"countersign/oauth"
	"countersign/outbound"
	"countersign/registry"
	"countersign/secrets"
	"countersign/workflows"
)

// Codec makes of the configuration what encrypts workflow data; nil without
// keys. A key is 32 bytes, in base64 or hexadecimal digits.
func Codec(ctx context.Context, conf config.Config) (*workflows.Codec, error) {
	resolver, err := references(conf)
	if err != nil {
		return nil, err
	}
	var keys []workflows.CodecKey
	for _, k := range conf.Temporal.CodecKeys {
		value, err := resolver.Resolve(ctx, k.Key)
		if err != nil {
			return nil, fmt.Errorf("temporal.codec_keys: key %q: %w", k.ID, err)
		}
		keys = append(keys, workflows.CodecKey{ID: k.ID, Secret: keyOf(value)})
	}
	return workflows.NewCodec(keys...)
}

// keyOf reads a key; what is none gives no bytes.
func keyOf(v secrets.Value) []byte {
	text := strings.TrimSpace(v.Reveal())
	if raw, err := hex.DecodeString(text); err == nil {
		return raw
	}
	text = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(text), "=")
	raw, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	return raw
}

// references resolves what the configuration refers to.
func references(conf config.Config) (secrets.Resolver, error) {
	sources := map[string]secrets.Source{
		registry.SchemeEnv: secrets.Env(os.LookupEnv), registry.SchemeFile: secrets.Files(conf.Secrets.FileRoot),
	}
	if conf.Secrets.Vault.Address != "" {
		source, err := vault(conf.Secrets.Vault)
		if err != nil {
			return secrets.Resolver{}, fmt.Errorf("secrets.vault: %w", err)
		}
		sources[registry.SchemeVault] = source
	}
	return secrets.Resolver{Sources: sources}, nil
}

// vault gives the source of references to Vault. It is the operator's own, so it
// may be where servers may not be dialled.
func vault(v config.Vault) (secrets.Source, error) {
	networks, err := v.Networks()
	if err != nil {
		return nil, err
	}
	options := outbound.Options{AllowNetworks: networks}
	if v.CAFile != "" {
		text, err := os.ReadFile(v.CAFile)
		if err != nil {
			return nil, err
		}
		if options.RootCAs = x509.NewCertPool(); !options.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("ca_file %s has no certificate in PEM", v.CAFile)
		}
	}
	return secrets.Vault(secrets.VaultOptions{
		HTTP:    outbound.NewGuard(options).Client(outbound.ClientOptions{ResponseBytes: 1 << 20, TotalBytes: math.MaxInt64}),
		Address: v.Address, Namespace: v.Namespace, KV: v.KVVersion, TokenFile: v.TokenFile,
		Kubernetes: secrets.VaultKubernetes(v.Kubernetes), AppRole: secrets.VaultAppRole(v.AppRole),
	})
}

// broker gives the MCP client what connections say.
func (a App) broker(resolver secrets.Resolver, guard *outbound.Guard) (activities.Broker, error) {
	networks, err := a.Config.ConnectionNetworks()
	return activities.Broker{
		Secrets: a.shared(resolver), Networks: networks, Log: a.Log, Tokens: new(oauth.Cache), Mint: a.Mint,
		RegistrationIssuers: a.Config.OAuth.RegistrationIssuers,
		Client: func(way mcpclient.Transport, dialAddress string) *http.Client {
			return guard.Client(outbound.ClientOptions{
				DialAddress: dialAddress, AllowNetworks: way.AllowNetworks, RootCAs: way.RootCAs, Certificates: way.Certificates,
			})
		},
	}, err
}

// shared resolves references as far as the configuration lets each tenant.
func (a App) shared(resolver secrets.Resolver) secrets.Shared {
	shared := secrets.Shared{Resolver: resolver}
	for _, rule := range a.Config.Secrets.Tenants {
		shared.Rules = append(shared.Rules, secrets.Rule(rule))
	}
	return shared
}

// origin is that of a page at a URL, as browsers say it; empty without one.
func origin(at string) string {
	u, err := url.Parse(at)
	if err != nil || u.Host == "" {
		return ""
	}
	return strings.ToLower(u.Scheme + "://" + u.Host)
}
