package activities

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"slices"

	"golang.org/x/net/http/httpguts"

	"countersign/mcpclient"
	"countersign/oauth"
	"countersign/registry"
	"countersign/secrets"
)

// Broker gives the MCP client what a connection says of credentials and trust.
// Each call resolves the references for one use, and nothing is kept (R27).
type Broker struct {
	Secrets  secrets.Shared
	Networks []netip.Prefix // that connections may open
	Log      *slog.Logger   // hears why a reference was not resolved

	// Client gives a guarded client that goes this way; to the dial address,
	// host:port, unless that is empty.
	Client func(way mcpclient.Transport, dialAddress string) *http.Client
	// Tokens keeps the tokens of issuers for the life of the process, and never
	// elsewhere.
	Tokens *oauth.Cache
	// RegistrationIssuers are those at which we may register as a client.
	RegistrationIssuers []string
	// Mint is our own issuer; nil: this installation has none.
	Mint *oauth.Mint
}

// Credential gives what requests to a target are authorised with; nil for a
// target that wants nothing.
func (b Broker) Credential(ctx context.Context, target registry.Target) (mcpclient.Credential, error) {
	switch target.AuthKind {
	case "", registry.AuthKindNone:
		return nil, nil
	case registry.AuthKindHeaders:
		credential, err := b.headers(ctx, target)
		if err != nil {
			return nil, err
		}
		return credential, nil
	case registry.AuthKindClientCredentials, registry.AuthKindPrivateKeyJWT, registry.AuthKindTokenExchange, registry.AuthKindWorkloadIdentity:
		return b.token(ctx, target)
	}
	return nil, registry.Errorf(registry.ReasonAuthKindUnsupported, "this version cannot authorise requests by %s", target.AuthKind).
		WithNext("give the connection another auth_kind")
}

func (b Broker) headers(ctx context.Context, target registry.Target) (*mcpclient.Headers, error) {
	values := make(map[string]secrets.Value, len(target.Headers))
	for _, name := range slices.Sorted(maps.Keys(target.Headers)) {
		ref := target.Headers[name]
		value, err := b.resolve(ctx, target, ref)
		if err != nil {
			return nil, err
		}
		if !httpguts.ValidHeaderFieldValue(value.Reveal()) {
			return nil, unusable(ref, "has characters that a header cannot have")
		}
		values[name] = value
	}
	return mcpclient.NewHeaders(values), nil
}

func (b Broker) resolve(ctx context.Context, target registry.Target, ref string) (secrets.Value, error) {
	value, err := b.Secrets.Resolve(ctx, target.TenantID, ref)
	if e, ok := registry.AsError(err); ok {
		b.Log.LogAttrs(ctx, slog.LevelWarn, "a secret of a connection is not to be had", slog.String("tenant", target.TenantID),
			slog.Any("error", err), slog.Any("cause", e.Err))
	}
	return value, err
}

// unusable is a secret that is there and is not what it is used for. What it is
// stays untold.
func unusable(ref, why string) error {
	return registry.Errorf(registry.ReasonSecretRefUnresolved, "the secret %s %s", ref, why).
		With("reference", ref).WithNext("have the operator put the right one there")
}

// Transport gives whom a target's connection trusts, which networks it opens and
// who we are to it.
func (b Broker) Transport(ctx context.Context, target registry.Target) (mcpclient.Transport, error) {
	out, err := b.trust(target)
	if err != nil || target.ClientCertificateRef == "" {
		return out, err
	}
	certificate, err := b.resolve(ctx, target, target.ClientCertificateRef)
	if err != nil {
		return out, err
	}
	key, err := b.resolve(ctx, target, target.ClientKeyRef)
	if err != nil {
		return out, err
	}
	pair, err := tls.X509KeyPair([]byte(certificate.Reveal()), []byte(key.Reveal()))
	if err != nil { // whose text may repeat what it read
		return out, unusable(target.ClientKeyRef, "is not the key, in PEM, of the certificate "+target.ClientCertificateRef)
	}
	out.Certificates = []tls.Certificate{pair}
	return out, nil
}

// trust is a transport without a secret in it.
func (b Broker) trust(target registry.Target) (mcpclient.Transport, error) {
	var out mcpclient.Transport
	for _, text := range target.AllowedNetworks {
		// What the operator named when the connection was made may be less now.
		if p, err := netip.ParsePrefix(text); err == nil && registry.AllowsNetwork(b.Networks, p) {
			out.AllowNetworks = append(out.AllowNetworks, p)
		}
	}
	if target.CABundle != "" {
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM([]byte(target.CABundle)) {
			return out, registry.Errorf(registry.ReasonInvalidArgument, "the connection's CA bundle cannot be read")
		}
	}
	return out, nil
}
