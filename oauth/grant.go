package oauth

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"countersign/registry"
	"countersign/secrets"
)

// The types of what stands for us (RFC 7521, section 4; RFC 8693, section 3).
const (
	typeAssertion = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	typeJWT       = "urn:ietf:params:oauth:token-type:jwt"
	typeAccess    = "urn:ietf:params:oauth:token-type:access_token"
)

// request asks the issuer for a token.
func (c *Credential) request(ctx context.Context, m *metadata, resource string, scopes []string) (token, *registry.Error) {
	if c.o.ClientID == "" && c.o.Registration != nil {
		fault := c.register(ctx, m)
		if fault != nil {
			return token{}, fault
		}
	}
	form := clientcredentials.Config{
		ClientID: c.clientID(), TokenURL: m.Token, Scopes: scopes,
		EndpointParams: url.Values{"resource": {resource}}, AuthStyle: oauth2.AuthStyleInParams,
	}
	if c.o.Audience != "" && c.o.Kind == TokenExchange {
		form.EndpointParams.Set("audience", c.o.Audience)
	}
	if fault := c.fill(ctx, m, &form); fault != nil {
		return token{}, fault
	}
	asking := *c.o.HTTP
	asking.Transport = capped{asking.Transport}
	answer, err := form.Token(context.WithValue(ctx, oauth2.HTTPClient, &asking))
	if err != nil {
		fault := c.refused(ctx, err)
		if fault.Reason == registry.ReasonInvalidClient && c.o.ClientID == "" {
			c.forget()
		}
		return token{}, fault
	}
	value := secrets.Secret(answer.AccessToken)
	c.hide(value)
	if !strings.EqualFold(answer.TokenType, "bearer") {
		return token{}, c.garbled("the token is of another type than Bearer")
	}
	return c.accept(value, resource, secondsOf(answer.Extra("expires_in")))
}

// fill adds to a request what shows who we are.
func (c *Credential) fill(ctx context.Context, m *metadata, form *clientcredentials.Config) *registry.Error {
	switch c.o.Kind {
	case ClientCredentials, PrivateKeyJWT:
		if fault := c.offers(m, grantClient); fault != nil {
			return fault
		}
		return c.client(m, form)
	case TokenExchange:
		if fault := c.offers(m, grantExchange); fault != nil {
			return fault
		}
		if fault := c.subject(ctx, form); fault != nil {
			return fault
		}
		return c.client(m, form)
	case WorkloadIdentity:
		return c.workload(ctx, m, form)
	}
	return c.fault(registry.ReasonUnsupportedGrant, "there is no such way to a token")
}

// workload shows the token that stands for us in the first way that the issuer offers.
func (c *Credential) workload(ctx context.Context, m *metadata, form *clientcredentials.Config) *registry.Error {
	has := func(grant string) bool { return slices.Contains(m.Grants, grant) }
	switch {
	case has(grantClient) && slices.Contains(m.Methods, methodKey), len(m.Grants) == 0:
		value, fault := c.assert(ctx, c.o.Issuer)
		if fault != nil {
			return fault
		}
		form.EndpointParams.Set("client_assertion_type", typeAssertion)
		form.EndpointParams.Set("client_assertion", value.Reveal())
		return nil
	case has(grantBearer):
		value, fault := c.assert(ctx, c.o.Issuer)
		if fault != nil {
			return fault
		}
		form.EndpointParams.Set("grant_type", grantBearer)
		form.EndpointParams.Set("assertion", value.Reveal())
		return c.client(m, form)
	case has(grantExchange):
		if fault := c.subject(ctx, form); fault != nil {
			return fault
		}
		return c.client(m, form)
	}
	return c.unsupported("a token that stands for a workload")
}

// subject puts the token that stands for us into a token exchange.
func (c *Credential) subject(ctx context.Context, form *clientcredentials.Config) *registry.Error {
	value, fault := c.assert(ctx, c.o.Issuer)
	if fault != nil {
		return fault
	}
	kind := typeAccess
	if _, ok := claimsOf(value); ok {
		kind = typeJWT
	}
	form.EndpointParams.Set("grant_type", grantExchange)
	form.EndpointParams.Set("subject_token", value.Reveal())
	form.EndpointParams.Set("subject_token_type", kind)
	form.EndpointParams.Set("requested_token_type", typeAccess)
	return nil
}

// assert gives the token that stands for us.
func (c *Credential) assert(ctx context.Context, audience string) (secrets.Value, *registry.Error) {
	value, err := c.o.Assertion(ctx, audience)
	if err != nil {
		if fault, known := registry.AsError(err); known {
			return value, fault
		}
		return value, c.fault(registry.ReasonSecretRefUnresolved, "the token that stands for us is not to be had").
			WithNext("see that the workload's token is where the connection says")
	}
	c.hide(value)
	return value, nil
}

// The ways in which a client shows who it is (RFC 7591, section 2).
const (
	methodBasic = "client_secret_basic"
	methodPost  = "client_secret_post"
	methodKey   = "private_key_jwt"
	methodNone  = "none"
)

// client shows who the client is, by what it has: a key, a secret, or its id alone.
func (c *Credential) client(m *metadata, form *clientcredentials.Config) *registry.Error {
	secret := c.clientSecret()
	switch {
	case c.o.Key != nil:
		if len(m.Methods) > 0 && !slices.Contains(m.Methods, methodKey) {
			return c.unsupported("clients that sign (private_key_jwt)")
		}
		assertion, fault := c.signed(m)
		if fault != nil {
			return fault
		}
		c.hide(assertion)
		form.EndpointParams.Set("client_assertion_type", typeAssertion)
		form.EndpointParams.Set("client_assertion", assertion.Reveal())
	case secret.Reveal() != "":
		form.ClientSecret = secret.Reveal()
		switch {
		case len(m.Methods) == 0 || slices.Contains(m.Methods, methodBasic): // RFC 8414, section 2
			form.AuthStyle = oauth2.AuthStyleInHeader
			c.hide(secrets.Secret(url.QueryEscape(form.ClientID) + ":" + url.QueryEscape(form.ClientSecret)))
		case !slices.Contains(m.Methods, methodPost):
			return c.unsupported("clients with a secret")
		}
	}
	return nil
}

// offers says whether the issuer has a grant. One that does not say is asked.
func (c *Credential) offers(m *metadata, grant string) *registry.Error {
	if len(m.Grants) == 0 || slices.Contains(m.Grants, grant) {
		return nil
	}
	return c.unsupported("the grant " + grant)
}

func (c *Credential) unsupported(what string) *registry.Error {
	return c.fault(registry.ReasonUnsupportedGrant, "the issuer's metadata do not offer %s", what).
		WithNext("choose a kind of authentication for the connection that the issuer offers")
}

// secondsOf reads expires_in. What is no whole number of seconds is none.
func secondsOf(value any) int64 {
	var text string
	switch v := value.(type) {
	case float64:
		if v > 1<<40 || v < -1<<40 {
			return -1
		}
		if v > -1 && v < 1 {
			return -1
		}
		return int64(v)
	case string:
		text = v
	case json.Number:
		text = v.String()
	default:
		return 0
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds == 0 {
		return -1
	}
	return seconds
}

// maxAnswer bounds the answer of a token endpoint, in bytes.
const maxAnswer = 64 << 10

// capped is a transport whose answers are cut; what was cut is no JSON any more.
type capped struct{ base http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (t capped) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	return resp, nil
}
