package activities

import (
	"context"
	"crypto/x509"
	"net/http"
	"slices"
	"strings"

	"countersign/mcpclient"
	"countersign/oauth"
	"countersign/registry"
)

// token makes the credential of a connection that gets tokens. What it refers to is
// resolved now, for this one use; the issuer is asked when the first request needs a
// token that is not kept.
func (b Broker) token(ctx context.Context, target registry.Target) (mcpclient.Credential, error) {
	headers, err := b.headers(ctx, target)
	if err != nil {
		return nil, err
	}
	o := oauth.Options{
		Kind: oauth.Kind(target.AuthKind), Resource: target.URL, Issuer: target.Issuer, ClientID: target.ClientID, Scopes: target.Scopes,
		TokenEndpoint: target.TokenEndpoint, StepUp: target.StepUpScopes,
		Cache: b.Tokens, Owner: target.TenantID + "/" + target.Connection,
	}
	if err := b.register(target, &o); err != nil {
		return nil, err
	}
	if err := b.identify(ctx, target, &o); err != nil {
		return nil, err
	}
	way, err := b.Transport(ctx, target)
	if err != nil {
		return nil, err
	}
	o.ResourceHTTP = b.Client(way, target.DialAddress)
	o.HTTP = b.Client(toIssuer(way, target), "")
	credential, err := oauth.New(o)
	if err != nil {
		return nil, err
	}
	return &tokenCredential{Credential: credential, headers: headers}, nil
}

// register lets us register as a client, where the connection names none and the
// operator lets the issuer have us. The installation's own key has a client id of its
// own.
func (b Broker) register(target registry.Target, o *oauth.Options) error {
	if !(registry.Connection{AuthKind: target.AuthKind, ClientID: target.ClientID, SecretRef: target.SecretRef}).Registers() {
		return nil
	}
	if !slices.Contains(b.RegistrationIssuers, target.Issuer) {
		return registry.Errorf(registry.ReasonInvalidClient, "the connection names no client, and the operator lets none be registered at its issuer").
			With("issuer", target.Issuer).
			WithNext("put the id of a client into the connection, or have the operator add the issuer to oauth.registration_issuers of the workers")
	}
	o.Registration = &oauth.Registration{Name: clientName}
	return nil
}

// clientName is what people at an issuer read of a client that we registered.
const clientName = "Countersign"

// identify adds what shows who we are: a secret, or what our own issuer signs.
func (b Broker) identify(ctx context.Context, target registry.Target, o *oauth.Options) error {
	if target.SecretRef == "" {
		if o.Registration != nil {
			return nil // the issuer makes one
		}
		return b.sign(target, o)
	}
	value, err := b.resolve(ctx, target, target.SecretRef)
	if err != nil {
		return err
	}
	switch o.Kind {
	case oauth.ClientCredentials:
		if o.Registration != nil {
			o.Registration.Token = value
			break
		}
		o.Secret = value
	case oauth.PrivateKeyJWT:
		o.Key, err = oauth.ParseKey(value)
	case oauth.TokenExchange, oauth.WorkloadIdentity:
		o.Assertion = oauth.Fixed(value)
	}
	return err
}

// sign has our own issuer say who we are. The subject and the client are the
// tenant's, so that whoever trusts one tenant does not trust another for it.
func (b Broker) sign(target registry.Target, o *oauth.Options) error {
	if b.Mint == nil {
		return registry.NoOwnIssuer(target.AuthKind)
	}
	if o.Kind == oauth.PrivateKeyJWT {
		o.ClientID, o.Key = b.Mint.ClientID(target.TenantID), b.Mint.Key()
		return nil
	}
	connection, _, _ := strings.Cut(target.Connection, "@")
	o.Assertion = b.Mint.Assertion(target.TenantID + "/" + connection)
	return nil
}

// toIssuer is the way to the issuer of a connection: its networks are open; the
// authorities that it names are trusted beside the machine's, since issuers are often
// public where servers are not; and our certificate is for the server alone.
func toIssuer(way mcpclient.Transport, target registry.Target) mcpclient.Transport {
	way.Certificates = nil
	if way.RootCAs == nil {
		return way
	}
	if all, err := x509.SystemCertPool(); err == nil {
		all.AppendCertsFromPEM([]byte(target.CABundle))
		way.RootCAs = all
	}
	return way
}

// tokenCredential is a token, with the header fields that the connection names
// besides.
type tokenCredential struct {
	*oauth.Credential

	headers *mcpclient.Headers
}

// Authorize implements [mcpclient.Credential].
func (c *tokenCredential) Authorize(ctx context.Context, r *http.Request) error {
	if err := c.headers.Authorize(ctx, r); err != nil {
		return err
	}
	return c.Credential.Authorize(ctx, r)
}

// Mask implements [mcpclient.Credential].
func (c *tokenCredential) Mask(text string) string { return c.headers.Mask(c.Credential.Mask(text)) }
