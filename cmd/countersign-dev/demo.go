package main

import (
	"context"
	"crypto/rand"
	"net"
	"net/http"
	"os"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"countersign/cmd/internal/config"
	"countersign/cmd/internal/issuer"
	"countersign/db"
	"countersign/mcptest"
	"countersign/registry"
	"countersign/workflows"
)

const (
	demoConnection = "demo"             // the connection that each tenant has for the demo server
	demoClient     = "countersign-demo" // that gets tokens for it
	demoScope      = "tools"
	// demoSecret is the variable in which the process gives itself the client's secret.
	demoSecret = "COUNTERSIGN_DEMO_CLIENT_SECRET"
)

// demoURL is where the demo server is, as it calls itself.
func demoURL(at net.Addr) string { return "http://" + at.String() + "/mcp" }

// demoServer is the demo server, which takes tokens of the process's own issuer.
func demoServer(people *issuer.Issuer, issuerURL, mcp string) http.Handler {
	return mcptest.NewProtectedDemo(mcptest.Protection{
		Resource: mcp, Issuer: issuerURL, Scope: demoScope,
		Check: func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
			grant, err := people.Check(token, mcp)
			if err != nil {
				return nil, auth.ErrInvalidToken
			}
			return &auth.TokenInfo{Scopes: grant.Scopes, Expiration: grant.Expires, UserID: grant.Client}, nil
		},
	})
}

// letDemo lets both tenants use the secret of the demo server's client, and nothing
// else of the environment.
func letDemo(s config.Secrets, people *issuer.Issuer) (config.Secrets, error) {
	s.Tenants = append(slices.Clip(s.Tenants), config.SecretRule{
		Tenants: []string{firstTenant, secondTenant}, Prefixes: []string{"env:" + demoSecret},
	})
	return s, os.Setenv(demoSecret, people.Secret(demoClient))
}

// seeding puts a connection for the demo server into both tenants.
type seeding struct {
	store *db.DB
	want  registry.Connection
	stale map[string]registry.ConnectionEdit // by tenant: those of an earlier start, at other addresses
}

// seed makes the connections that are missing. One of the same name that somebody
// made for something else is left alone.
func seed(ctx context.Context, store *db.DB, issuerURL, mcp string) (seeding, error) {
	s := seeding{store: store, stale: map[string]registry.ConnectionEdit{}, want: registry.Connection{
		Name: demoConnection, Description: "the demo server of the development process", URL: mcp, AuthKind: registry.AuthKindClientCredentials,
		Issuer: issuerURL, ClientID: demoClient, SecretRef: "env:" + demoSecret, Scopes: []string{demoScope},
	}}
	for _, tenant := range []string{firstTenant, secondTenant} {
		there, err := store.Tenant(tenant).Connection(ctx, demoConnection, 0)
		switch {
		case registry.ReasonOf(err) == registry.ReasonConnectionNotFound:
			if _, _, err := store.Tenant(tenant).CreateConnection(ctx, s.want, seedOperation("create_connection"), nil); err != nil {
				return s, err
			}
		case err != nil:
			return s, err
		case there.SecretRef == s.want.SecretRef && (there.URL != mcp || there.Issuer != issuerURL):
			s.stale[tenant] = registry.ConnectionEdit{URL: &s.want.URL, Issuer: &s.want.Issuer}
		}
	}
	return s, nil
}

// finish moves the connections of an earlier start to where the demo server is now,
// and with them the servers that use them.
func (s seeding) finish(ctx context.Context, engine workflows.Client) error {
	for tenant, edit := range s.stale {
		_, err := engine.EditConnection(ctx, workflows.EditConnectionInput{
			Tenant: tenant, Name: demoConnection, Operation: seedOperation("edit_connection"), Edit: edit,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func seedOperation(name string) registry.Operation {
	return registry.Operation{ID: "dev/" + rand.Text(), Name: name, Actor: registry.System("dev"), Origin: registry.OriginSystem}
}
