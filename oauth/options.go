package oauth

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"countersign/registry"
	"countersign/secrets"
)

// Kind is the way to a token. The kinds are those of connections.
type Kind string

// The kinds.
const (
	// ClientCredentials is the grant of RFC 6749, section 4.4, with a secret; in the
	// header or in the form, as the issuer's metadata say.
	ClientCredentials Kind = "client_credentials"
	// PrivateKeyJWT is the same grant with a signature instead of a secret (RFC 7523,
	// section 2.2).
	PrivateKeyJWT Kind = "private_key_jwt"
	// TokenExchange trades the token of Assertion for another (RFC 8693).
	TokenExchange Kind = "token_exchange"
	// WorkloadIdentity shows the token of Assertion as who we are: to the issuer, by
	// the first of these that it offers: a client assertion, an assertion as a grant
	// (RFC 7523, section 2.1), token exchange. Without an issuer it is shown to the
	// server itself, so it must be made for that server.
	WorkloadIdentity Kind = "workload_identity"
)

// Assertion gives a token that stands for us, for one use; audience is whom it will be
// shown to. It is [Mint.Assertion] or [Fixed].
type Assertion func(ctx context.Context, audience string) (secrets.Value, error)

// Options say for what and by what tokens are made.
type Options struct {
	// HTTP is guarded: what it lets through is asked. Redirects are not followed
	// whatever it does.
	HTTP *http.Client
	// ResourceHTTP reads what the server says about itself, at its dial address if it has
	// one; HTTP when nil.
	ResourceHTTP *http.Client
	// Resource is the URL of the server.
	Resource string
	Kind     Kind
	// Issuer is the authorization server, byte for byte as its metadata name it.
	Issuer string
	// TokenEndpoint is where the issuer gives tokens, if not at its own origin; then its
	// metadata must say the same.
	TokenEndpoint string

	ClientID string
	Secret   secrets.Value // of ClientCredentials; of the others, if the issuer wants to know the client too
	Key      *Key          // of PrivateKeyJWT
	// Assertion is that of TokenExchange and WorkloadIdentity.
	Assertion Assertion

	// Scopes are asked for; StepUp are those that may be asked for besides, once, when
	// the server says that it wants them.
	Scopes, StepUp []string
	// Audience is what the issuer calls the server in its tokens, if not by its URL.
	Audience string
	// Registration lets us register as a client (RFC 7591) when ClientID is empty.
	Registration *Registration

	// Cache keeps tokens; nil keeps them as long as the credential.
	Cache *Cache
	// Owner is whose tokens these are: tenant, connection and its version. Tokens are
	// shared by nobody else.
	Owner string
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// Credential is what requests to one server are authorised with. Its methods may be
// called by several goroutines.
type Credential struct {
	o     Options
	cache *Cache
	state state
}

// New makes a credential. Nothing is asked yet.
func New(o Options) (*Credential, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	o.ResourceHTTP = still(cmp.Or(o.ResourceHTTP, o.HTTP))
	o.HTTP = still(o.HTTP)
	c := &Credential{o: o, cache: o.Cache}
	if c.cache == nil {
		c.cache = new(Cache)
	}
	c.state.resource, c.state.scopes = o.Resource, sortedSet(o.Scopes)
	c.state.hide(o.Secret)
	if o.Key != nil {
		c.state.hide(o.Key.secret)
	}
	return c, nil
}

// check says what is missing.
func (o *Options) check() error {
	wrong := func(format string, args ...any) error {
		return registry.Errorf(registry.ReasonInvalidArgument, format, args...).With("phase", phase)
	}
	if err := registry.CheckEndpoint(o.Resource); err != nil {
		return err
	}
	for _, scope := range slices.Concat(o.Scopes, o.StepUp) {
		if !validScope(scope) {
			return wrong("a scope has characters that scopes have not")
		}
	}
	own := o.Kind == WorkloadIdentity && o.Issuer == ""
	if !own {
		if fault := checkIssuer(o.Issuer); fault != nil {
			return fault
		}
	}
	if o.TokenEndpoint != "" {
		if _, fault := checkURL("token endpoint", o.TokenEndpoint); fault != nil {
			return fault
		}
	}
	client := o.ClientID != "" || o.Registration != nil
	switch {
	case o.HTTP == nil:
		return wrong("there is no HTTP client to ask with")
	case len(o.ClientID) > maxID || strings.ContainsFunc(o.ClientID, func(r rune) bool { return r < ' ' || r > '~' }):
		return wrong("the client id is too long, or has characters that such ids have not")
	case o.Kind == ClientCredentials && (!client || o.Secret.Reveal() == "" && o.Registration == nil):
		return wrong("client_credentials needs a client id and a secret")
	case o.Kind == PrivateKeyJWT && (!client || o.Key == nil):
		return wrong("private_key_jwt needs a client id and a key")
	case (o.Kind == TokenExchange || o.Kind == WorkloadIdentity) && o.Assertion == nil:
		return wrong("%s needs a token that stands for us", o.Kind)
	case !slices.Contains([]Kind{ClientCredentials, PrivateKeyJWT, TokenExchange, WorkloadIdentity}, o.Kind):
		return wrong("there is no such way to a token")
	}
	return nil
}

// maxID bounds a client id, in bytes.
const maxID = 2048

// validScope says whether a text is one scope (RFC 6749, section 3.3).
func validScope(scope string) bool {
	return scope != "" && len(scope) <= 256 && !strings.ContainsFunc(scope, func(r rune) bool {
		return r < '!' || r > '~' || r == '"' || r == '\\'
	})
}

// sortedSet gives texts in order, each once.
func sortedSet(texts []string) []string {
	out := slices.Clone(texts)
	slices.Sort(out)
	return slices.Compact(out)
}

// still is a client that follows no redirect and has no cookies.
func still(client *http.Client) *http.Client {
	own := *client
	own.Jar, own.CheckRedirect = nil, func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}
