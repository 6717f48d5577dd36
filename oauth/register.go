package oauth

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"countersign/registry"
	"countersign/secrets"
)

// Registration lets a client be registered at the issuer (RFC 7591). What the issuer
// gives is kept in memory, by issuer, and shown to no other.
type Registration struct {
	Name string // for people at the issuer
	// Token is the initial access token, where the issuer wants one.
	Token secrets.Value
}

// client is what an issuer calls us, and by what it knows us.
type client struct {
	id     string
	secret secrets.Value
}

// clientID is the configured id, or the registered one.
func (c *Credential) clientID() string {
	if c.o.ClientID != "" || c.o.Registration == nil {
		return c.o.ClientID
	}
	return c.registered().id
}

func (c *Credential) clientSecret() secrets.Value {
	if c.o.ClientID != "" || c.o.Registration == nil {
		return c.o.Secret
	}
	return c.registered().secret
}

func (c *Credential) registered() client {
	c.cache.mu.Lock()
	defer c.cache.mu.Unlock()
	return c.cache.clients[c.owned()]
}

// owned says whose a registered client is, and whom it is known to.
func (c *Credential) owned() string { return c.o.Owner + "\x00" + c.o.Issuer }

// forget forgets a client that the issuer does not know any more.
func (c *Credential) forget() {
	c.cache.mu.Lock()
	defer c.cache.mu.Unlock()
	delete(c.cache.clients, c.owned())
}

// register makes us a client of the issuer, once per owner and issuer.
func (c *Credential) register(ctx context.Context, m *metadata) *registry.Error {
	// Those who want tokens of several scopes at once are one client all the same.
	_, err, _ := c.cache.group.Do("client\x00"+c.owned(), func() (any, error) {
		if c.registered().id != "" {
			return nil, nil
		}
		if fault := c.enrol(ctx, m); fault != nil {
			return nil, fault
		}
		return nil, nil
	})
	if err != nil {
		fault, known := registry.AsError(copied(err))
		if !known {
			return c.fault(registry.ReasonInternal, "the registration could not be made")
		}
		return fault
	}
	c.hide(c.registered().secret)
	return nil
}

// enrol asks the issuer to know us.
func (c *Credential) enrol(ctx context.Context, m *metadata) *registry.Error {
	if m.Registration == "" {
		return c.unsupported("registration of clients")
	}
	if fault := c.pinned("registration endpoint", m.Registration); fault != nil {
		return fault
	}
	body := map[string]any{
		"client_name": c.o.Registration.Name, "grant_types": []string{grantClient}, "response_types": []string{}, "redirect_uris": []string{},
		"token_endpoint_auth_method": methodBasic, "application_type": "web", "scope": strings.Join(c.o.Scopes, " "),
	}
	if len(m.Methods) > 0 && !slices.Contains(m.Methods, methodBasic) {
		body["token_endpoint_auth_method"] = methodPost
	}
	if c.o.Key != nil {
		public, err := c.o.Key.public()
		if err != nil {
			return c.fault(registry.ReasonKeyUnusable, "the connection's key cannot be published")
		}
		body["token_endpoint_auth_method"], body["jwks"] = methodKey, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public}}
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return c.fault(registry.ReasonInternal, "the registration could not be made")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Registration, strings.NewReader(string(raw)))
	if err != nil {
		return c.fault(registry.ReasonInternal, "the registration could not be made")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if initial := c.o.Registration.Token; initial.Reveal() != "" {
		c.hide(initial)
		req.Header.Set("Authorization", bearer+initial.Reveal())
	}
	resp, err := c.o.HTTP.Do(req)
	if err != nil {
		return c.exchange(ctx, "a registration", err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	var got struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	switch {
	case err != nil:
		return c.exchange(ctx, "a registration", err)
	case passing(resp.StatusCode):
		return c.status("a registration", resp.StatusCode)
	case resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusOK, json.Unmarshal(answer, &got) != nil,
		got.ID == "" || len(got.ID) > maxID || c.o.Key == nil && got.Secret == "":
		return c.fault(registry.ReasonInvalidClient, "the issuer registers no client for us").
			WithNext("register one by hand, and put its id and secret into the connection")
	}
	secret := secrets.Secret(got.Secret)
	c.hide(secret)
	c.cache.mu.Lock()
	defer c.cache.mu.Unlock()
	if c.cache.clients == nil {
		c.cache.clients = map[string]client{}
	}
	for old := range c.cache.clients {
		if len(c.cache.clients) < maxClients {
			break
		}
		delete(c.cache.clients, old) // it is registered again when it is needed
	}
	c.cache.clients[c.owned()] = client{got.ID, secret}
	return nil
}
