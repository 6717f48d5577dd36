package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"countersign/outbound"
	"countersign/registry"
)

// maxDocument bounds one document of metadata, in bytes.
const maxDocument = 256 << 10

// metadata are what is needed of those of an authorization server (RFC 8414, section 2).
type metadata struct {
	Issuer       string   `json:"issuer"`
	Token        string   `json:"token_endpoint"`
	Registration string   `json:"registration_endpoint"`
	Grants       []string `json:"grant_types_supported"`
	Methods      []string `json:"token_endpoint_auth_methods_supported"`
	Algorithms   []string `json:"token_endpoint_auth_signing_alg_values_supported"`

	// What is only looked at, so that what a console may show one day is no trap.
	Authorization string `json:"authorization_endpoint"`
	Keys          string `json:"jwks_uri"`
	Revocation    string `json:"revocation_endpoint"`
	Introspection string `json:"introspection_endpoint"`
	Device        string `json:"device_authorization_endpoint"`
	Pushed        string `json:"pushed_authorization_request_endpoint"`
	UserInfo      string `json:"userinfo_endpoint"`
	EndSession    string `json:"end_session_endpoint"`
}

// The grants.
const (
	grantClient   = "client_credentials"
	grantBearer   = "urn:ietf:params:oauth:grant-type:jwt-bearer" //nolint:gosec // it is a name
	grantExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
)

// resourceTime bounds the look at what the server says about itself: one that does not
// answer is met soon enough.
const resourceTime = 3 * time.Second

// errNoDocument is a place without a document.
var errNoDocument = errors.New("there is no document")

// issuer reads and checks the metadata of the configured issuer.
func (c *Credential) issuer(ctx context.Context) (*metadata, *registry.Error) {
	at, fault := checkURL("issuer", c.o.Issuer)
	if fault != nil {
		return nil, fault
	}
	for _, place := range issuerPlaces(at) {
		var m metadata
		status, err := document(ctx, c.o.HTTP, place, &m)
		switch {
		case err == nil:
			if fault := c.checkMetadata(&m); fault != nil {
				return nil, fault.With("metadata", place)
			}
			return &m, nil
		case errors.Is(err, errNoDocument) && passing(status):
			return nil, c.status("its metadata", status)
		case !errors.Is(err, errNoDocument):
			return nil, c.exchange(ctx, "its metadata", err)
		}
	}
	return nil, c.fault(registry.ReasonInvalidMetadata, "the issuer publishes no metadata that can be read").
		WithNext("correct the connection's issuer: it is the URL that the issuer's tokens name as iss")
}

// issuerPlaces gives where the metadata of an issuer may be, in order (RFC 8414,
// section 3.1; OpenID Connect Discovery 1.0, section 4).
func issuerPlaces(issuer *url.URL) []string {
	path := strings.TrimRight(issuer.EscapedPath(), "/")
	root := issuer.Scheme + "://" + issuer.Host
	places := []string{root + "/.well-known/oauth-authorization-server" + path, root + "/.well-known/openid-configuration" + path}
	if path != "" {
		places = append(places, root+path+"/.well-known/openid-configuration")
	}
	return places
}

// checkMetadata says whether metadata are those of the configured issuer, and of
// nobody else. Nothing was sent yet that is worth anything.
func (c *Credential) checkMetadata(m *metadata) *registry.Error {
	if m.Issuer != c.o.Issuer {
		return c.fault(registry.ReasonIssuerMismatch, "the metadata at the issuer name another one").
			With("named", outbound.Excerpt(m.Issuer, 200)).
			WithNext("correct the connection's issuer to exactly what its metadata say, if that is the issuer you trust; nothing was sent")
	}
	for _, one := range []struct{ name, url string }{
		{"token endpoint", m.Token},
		{"registration endpoint", m.Registration},
		{"authorization endpoint", m.Authorization},
		{"jwks_uri", m.Keys},
		{"revocation endpoint", m.Revocation},
		{"introspection endpoint", m.Introspection},
		{"device endpoint", m.Device},
		{"endpoint for pushed requests", m.Pushed},
		{"userinfo endpoint", m.UserInfo},
		{"end of session endpoint", m.EndSession},
	} {
		if one.url == "" && one.name != "token endpoint" {
			continue
		}
		if _, fault := checkURL(one.name+" of the issuer", one.url); fault != nil {
			return fault.With("issuer", c.o.Issuer)
		}
	}
	if c.o.TokenEndpoint != "" {
		if m.Token != c.o.TokenEndpoint {
			return c.foreign("token endpoint", m.Token, "the configured one")
		}
		return nil
	}
	return c.pinned("token endpoint", m.Token)
}

// pinned says whether an endpoint is at the issuer's own origin.
func (c *Credential) pinned(name, raw string) *registry.Error {
	u, fault := checkURL(name+" of the issuer", raw)
	if fault != nil {
		return fault.With("issuer", c.o.Issuer)
	}
	if own, err := url.Parse(c.o.Issuer); err != nil || origin(own) != origin(u) {
		return c.foreign(name, raw, "the issuer's own origin")
	}
	return nil
}

func (c *Credential) foreign(name, raw, than string) *registry.Error {
	return c.fault(registry.ReasonIssuerMismatch, "the %s that the issuer's metadata name is not at %s", name, than).
		With("endpoint", outbound.Excerpt(raw, 200)).
		WithNext("nothing was sent there; see whether the issuer is who it should be")
}

// document reads one document. The error is errNoDocument, with the status, when there
// is an answer that is none.
func document(ctx context.Context, client *http.Client, at string, into any) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return 0, errNoDocument
	}
	req.Header.Set("Accept", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode != http.StatusOK || kind != "application/json" {
		return resp.StatusCode, errNoDocument
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err != nil {
		return resp.StatusCode, err
	}
	if len(body) > maxDocument || json.Unmarshal(body, into) != nil {
		return resp.StatusCode, errNoDocument
	}
	return resp.StatusCode, nil
}

// resourceMetadata are what is needed of those of a protected resource (RFC 9728,
// section 2).
type resourceMetadata struct {
	Resource string   `json:"resource"`
	Issuers  []string `json:"authorization_servers"`
}

// wellKnown is where the metadata of a protected resource are (RFC 9728, section 3.1).
const wellKnown = "/.well-known/oauth-protected-resource"

// resource learns what the server calls itself. Where it points to is asked first, if
// that is the server's own origin; then the well-known places. A server without such
// metadata is called by its URL.
func (c *Credential) resource(ctx context.Context, pointed string) (string, *registry.Error) {
	own, err := url.Parse(c.o.Resource)
	if err != nil {
		return "", c.fault(registry.ReasonInvalidArgument, "the server's URL cannot be read")
	}
	looking, cancel := context.WithTimeout(ctx, resourceTime)
	defer cancel()
	for _, place := range resourcePlaces(own, pointed) {
		var m resourceMetadata
		switch _, err := document(looking, c.o.ResourceHTTP, place, &m); {
		case errors.Is(err, errNoDocument), err == nil && m.Resource == "" && len(m.Issuers) == 0:
			continue // a server without metadata is no fault
		case err != nil:
			return c.o.Resource, nil // it is met soon enough
		}
		return c.checkResource(own, &m, place)
	}
	return c.o.Resource, nil
}

// checkResource says whether metadata are those of our server, and whether it takes
// tokens of our issuer.
func (c *Credential) checkResource(own *url.URL, m *resourceMetadata, place string) (string, *registry.Error) {
	named, err := url.Parse(m.Resource)
	below := err == nil && origin(named) == origin(own) && named.Fragment == "" && named.User == nil &&
		(named.EscapedPath() == own.EscapedPath() || strings.HasPrefix(own.EscapedPath()+"/", strings.TrimRight(named.EscapedPath(), "/")+"/"))
	if !below {
		return "", c.fault(registry.ReasonInvalidTarget, "the server's metadata are those of another resource").
			With("resource", outbound.Excerpt(m.Resource, 200)).With("metadata", place).
			WithNext("correct the connection's URL to the one by which the server calls itself; no token was asked for")
	}
	if len(m.Issuers) > 0 && !slices.Contains(m.Issuers, c.o.Issuer) {
		return "", c.fault(registry.ReasonIssuerMismatch, "the server takes tokens of other issuers than the connection's").
			With("issuers", outbound.Excerpt(strings.Join(m.Issuers[:min(len(m.Issuers), 10)], " "), 400)).With("metadata", place).
			WithNext("if you trust one of them, make a connection with that issuer and a client of its own there; nothing was sent")
	}
	return m.Resource, nil
}

// resourcePlaces gives where the metadata of a resource may be, in order.
func resourcePlaces(own *url.URL, pointed string) []string {
	var out []string
	if u, fault := checkURL("place of the server's metadata", pointed); fault == nil && origin(u) == origin(own) {
		out = append(out, u.String())
	}
	root := own.Scheme + "://" + own.Host + wellKnown
	if path := strings.TrimRight(own.EscapedPath(), "/"); path != "" {
		out = append(out, root+path)
	}
	return slices.Compact(append(out, root))
}

// challenge is what a server says about tokens in an answer (RFC 6750, section 3;
// RFC 9728, section 5.1).
type challenge struct{ metadata, scope, fault string }

// challengeOf reads the first challenge for tokens.
func challengeOf(header http.Header) challenge {
	all, err := oauthex.ParseWWWAuthenticate(header.Values("WWW-Authenticate"))
	if err != nil {
		return challenge{}
	}
	for _, one := range all {
		if strings.EqualFold(one.Scheme, "Bearer") {
			return challenge{one.Params["resource_metadata"], one.Params["scope"], one.Params["error"]}
		}
	}
	return challenge{}
}
