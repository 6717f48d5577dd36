package main

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"countersign/api"
	"countersign/registry"
)

// The two tenants of a development process.
const (
	firstTenant  = "default"
	secondTenant = "other"
)

// tokenSet maps each role to its token, for each tenant.
type tokenSet map[string]map[string]string

// devTokens reads the tokens of a data directory, or makes one for each role
// and tenant at the first start.
func devTokens(path string) (set tokenSet, fresh bool, err error) {
	raw, err := os.ReadFile(path)
	switch {
	case err == nil:
		set, err = readTokens(raw)
		if err != nil {
			return nil, false, fmt.Errorf("%s: %w; remove it to get new tokens", path, err)
		}
		return set, false, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, false, err
	}
	set = tokenSet{firstTenant: {}, secondTenant: {}}
	for _, tenant := range set {
		for _, role := range registry.Roles() {
			tenant[string(role)] = newToken()
		}
	}
	return set, true, set.write(path)
}

func newToken() string {
	b := make([]byte, 24)
	_, _ = rand.Read(b) // never fails
	return "cs_dev_" + base64.RawURLEncoding.EncodeToString(b)
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

func readTokens(raw []byte) (tokenSet, error) {
	var file map[string]json.RawMessage
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, err
	}
	set := tokenSet{firstTenant: {}, secondTenant: {}}
	for key, value := range file {
		if key == secondTenant {
			var other map[string]string
			if err := json.Unmarshal(value, &other); err != nil {
				return nil, err
			}
			set[secondTenant] = other
			continue
		}
		var token string
		if err := json.Unmarshal(value, &token); err != nil {
			return nil, err
		}
		set[firstTenant][key] = token
	}
	return set, nil
}

func (t tokenSet) all() []api.Token {
	var out []api.Token
	for tenant, roles := range t {
		for role, token := range roles {
			scopes := api.ScopesOf(registry.Role(role))
			if registry.Role(role) == registry.RolePlatformAdmin || registry.Role(role) == registry.RoleOperator {
				scopes = append(scopes, registry.ScopeInternal)
			}
			out = append(out, api.Token{
				Token: token, Tenant: tenant, Subject: "dev-" + role, Roles: []registry.Role{registry.Role(role)}, Scopes: scopes,
			})
		}
	}
	return out
}
