package main

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"countersign/mcpclient"
	"countersign/oauth"
	"countersign/outbound"
	"countersign/registry"
	"countersign/secrets"
)

// scenario is what the suite tells its client.
type scenario struct {
	name    string
	context string // JSON; empty when there is nothing to tell
}

// given is what the suite says about a client that its issuer knows.
type given struct {
	ClientID string `json:"client_id"`
	Secret   string `json:"client_secret"`
	Key      string `json:"private_key_pem"`
	Token    string `json:"valid_jwt"`
}

// authorize gives the client credentials in the scenarios about them. What the server
// says about itself when it is asked without any is what an operator reads in the
// refusal, and puts into a connection: the issuer. Where the suite names no client, the
// issuer is asked to register one.
func (s scenario) authorize(ctx context.Context, guard *outbound.Guard, client *mcpclient.Client, target registry.Target) error {
	if !strings.HasPrefix(s.name, "auth/") {
		return nil
	}
	_, _, err := client.Discover(ctx, target, "", nil)
	refusal, ok := registry.AsError(err)
	if !ok || refusal.Reason != registry.ReasonAuthRequired || refusal.Fact("issuer") == "" {
		return err
	}
	var g given
	if s.context != "" {
		if err := json.Unmarshal([]byte(s.context), &g); err != nil {
			return err
		}
	}
	o := oauth.Options{
		HTTP: guard.Client(outbound.ClientOptions{}), Resource: target.URL, Issuer: refusal.Fact("issuer"),
		Kind: oauth.ClientCredentials, ClientID: g.ClientID, Secret: secrets.Secret(g.Secret),
	}
	switch {
	case g.Key != "":
		if o.Key, err = oauth.ParseKey(secrets.Secret(g.Key)); err != nil {
			return err
		}
		o.Kind = oauth.PrivateKeyJWT
	case g.Token != "":
		o.Kind, o.Assertion = oauth.WorkloadIdentity, oauth.Fixed(secrets.Secret(g.Token))
	case g.ClientID == "":
		o.Registration = &oauth.Registration{Name: "conformance"}
	}
	o.Cache, o.Owner = new(oauth.Cache), cmp.Or(s.name, "conformance")
	client.Credentials = func(context.Context, registry.Target) (mcpclient.Credential, error) { return oauth.New(o) }
	return nil
}
