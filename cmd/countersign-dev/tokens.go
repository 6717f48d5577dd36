package main

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"countersign/api"
	"countersign/cmd/internal/config"
	"countersign/cmd/internal/issuer"
	"countersign/console"
	"countersign/registry"
)

// The two tenants of a development process.
const (
	firstTenant  = "default"
	secondTenant = "other"
)

const (
	issuerPath = "/dev/issuer"
	audience   = "countersign"
	// tokenLife is how long the tokens of tokens.json are good; each start makes new ones.
	tokenLife = 30 * 24 * time.Hour
	// loginClient is the client id of the command line client.
	loginClient = "countersign-cli"
	// consoleClient is that of the web console.
	consoleClient = "countersign-console"
)

// devUsers are the people of a development process: one of each role in each
// tenant, and another of those roles that approve, since some policies want two.
func devUsers() []issuer.User {
	var out []issuer.User
	for _, tenant := range []string{firstTenant, secondTenant} {
		for _, role := range registry.Roles() {
			out = append(out, devUser(tenant, role, ""))
			if role == registry.RolePlatformAdmin || role == registry.RoleAssetMaintainer {
				out = append(out, devUser(tenant, role, "-2"))
			}
		}
	}
	return out
}

func devUser(tenant string, role registry.Role, suffix string) issuer.User {
	u := issuer.User{Subject: "dev-" + string(role) + suffix, Tenant: tenant, Roles: []string{string(role)}}
	scopes := api.ScopesOf(role)
	if role == registry.RoleOperator {
		scopes = append(scopes, registry.ScopeInternal)
	}
	for _, scope := range scopes {
		u.Scopes = append(u.Scopes, string(scope))
	}
	return u
}

// devServices are the programs: an executor for each tenant, which resolves and
// does nothing else, and the client that has tokens for the demo server alone.
func devServices(demo string) []issuer.Service {
	executor := issuer.User{Subject: "dev-executor", Scopes: []string{string(registry.ScopeInternal)}}
	first, second := executor, executor
	first.Tenant, second.Tenant = firstTenant, secondTenant
	visitor := issuer.User{Subject: demoClient, Scopes: []string{demoScope}}
	return []issuer.Service{
		{ID: "executor", As: first}, {ID: "executor-" + secondTenant, As: second}, {ID: demoClient, As: visitor, Resources: []string{demo}},
	}
}

// devIssuer makes the issuer that the API has below issuerPath. It is asked by
// way of loopback, and answers nobody else.
func devIssuer(dataDir string, at net.Addr, demo string) (*issuer.Issuer, config.Issuer, error) {
	address, ok := at.(*net.TCPAddr)
	if !ok || !address.IP.IsLoopback() && !address.IP.IsUnspecified() {
		return nil, config.Issuer{}, errors.New("the development process listens on loopback, or everywhere; set --listen")
	}
	here := *address
	if here.IP.IsUnspecified() {
		here.IP = net.IPv4(127, 0, 0, 1)
	}
	url := "http://" + here.String() + issuerPath
	i, err := issuer.New(issuer.Options{
		URL: url, File: filepath.Join(dataDir, "issuer.json"), Audience: audience, Users: devUsers(), Services: devServices(demo),
		Clients: []issuer.Client{
			{ID: loginClient, Redirects: []string{"http://127.0.0.1/callback"}},
			{ID: consoleClient, Redirects: []string{"http://" + here.String() + console.Path}, Remembers: true},
		},
	})
	return i, config.Issuer{
		Issuer: url, Audience: audience, Tenants: []string{firstTenant, secondTenant},
		Login: config.Login{ClientID: loginClient, Scopes: []string{"openid", "offline_access"}},
	}, err
}

// tokenSet maps each role, with -2 for the other of a role, to the token, for
// each tenant.
type tokenSet map[string]map[string]string

// devTokens makes a token for each of the people, and keeps them in a file.
func devTokens(i *issuer.Issuer, path string) (tokenSet, error) {
	set := tokenSet{firstTenant: {}, secondTenant: {}}
	for _, who := range devUsers() {
		token, err := i.Token(who, tokenLife)
		if err != nil {
			return nil, err
		}
		set[who.Tenant][strings.TrimPrefix(who.Subject, "dev-")] = token
	}
	return set, set.write(path)
}

// The file has the first tenant's roles at the top and the other tenant's
// under its name.
func (t tokenSet) write(path string) error {
	file := map[string]any{secondTenant: t[secondTenant]}
	for role, token := range t[firstTenant] {
		file[role] = token
	}
	raw, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return err
	}
	temporary := path + ".new"
	if err := os.WriteFile(temporary, append(raw, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// signingIn lets people sign in to the console at the issuer, unless the
// configuration says another.
func signingIn(c config.Console, i config.Issuer) config.Console {
	if c.Issuer == "" {
		c.Issuer, c.ClientID = i.Issuer, consoleClient
	}
	return c
}

// loopback are the networks of this machine itself.
var loopback = []string{"127.0.0.0/8", "::1/128"}

// trusting adds the issuer to those of the configuration.
func trusting(a config.Auth, i config.Issuer) config.Auth {
	a.Issuers = append(slices.Clone(a.Issuers), i)
	a.AllowNetworks = append(slices.Clone(a.AllowNetworks), loopback...)
	return a
}
