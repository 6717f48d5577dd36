package secrets_test

import (
	"context"
	"errors"
	"testing"

	"countersign/registry"
	"countersign/secrets"
)

func TestTenantsUseTheReferencesThatTheyMay(t *testing.T) {
	t.Parallel()
	asked := 0
	source := func(_ context.Context, name string) (string, error) {
		asked++
		if name == "none" {
			return "", errors.New("there is none")
		}
		return "value of " + name, nil
	}
	shared := secrets.Shared{
		Resolver: secrets.Resolver{Sources: map[string]secrets.Source{"env": source, "file": source, "vault": source}},
		Rules: []secrets.Rule{
			{Prefixes: []string{"file:{tenant}/", "vault:kv/{tenant}/"}},
			{Tenants: []string{"acme"}, Prefixes: []string{"env:ACME_", "env:ONE", "vault:kv/all/search#"}},
		},
	}
	for ref, want := range map[string]bool{
		"env:ACME_TOKEN": true, "env:ACME": false, "env:ONE": true, "env:ONE_MORE": false, "env:COUNTERSIGN_DATABASE_URL": false,
		"file:acme/token": true, "file:acme-2/token": false, "file:globex/token": false, "file:acme": false,
		"vault:kv/acme/a#b": true, "vault:kv/globex/a#b": false, "vault:kv/all/search#token": true, "vault:kv/all/search2#token": false,
	} {
		value, err := shared.Resolve(t.Context(), "acme", ref)
		if (err == nil) != want || want && value.Reveal() == "" {
			t.Errorf("%s: %v", ref, err)
		}
	}
	before := asked
	_, forbidden := shared.Resolve(t.Context(), "globex", "env:none")
	if asked != before {
		t.Error("a source was asked for what the tenant may not use")
	}
	shared.Rules = append(shared.Rules, secrets.Rule{Prefixes: []string{"env:"}})
	_, unknown := shared.Resolve(t.Context(), "globex", "env:none")
	a, _ := registry.AsError(forbidden)
	b, _ := registry.AsError(unknown)
	if a == nil || b == nil || a.Reason != registry.ReasonSecretRefUnresolved || a.Reason != b.Reason || a.Message != b.Message || a.Next != b.Next || a.Fact("reference") != b.Fact("reference") {
		t.Errorf("forbidden is %+v, unknown %+v", a, b)
	}
	for _, tenant := range []string{"", "..", "No Tenant", "a/b"} {
		if _, err := shared.Resolve(t.Context(), tenant, "file:"+tenant+"/x"); err == nil {
			t.Errorf("tenant %q got something", tenant)
		}
	}
}

func TestPrefixesOfReferencesAreChecked(t *testing.T) {
	t.Parallel()
	for prefix, good := range map[string]bool{
		"env:": true, "env:A_": true, "env:A": true, "file:{tenant}/": true, "vault:kv/{tenant}/x#token": true, "vault:kv/all#": true,
		"": false, "A_": false, "https://": false, "file:../": false, "file:a/../b/": false, "vault:kv": false, "env:A-B": false,
	} {
		if err := secrets.CheckPrefix(prefix); (err == nil) != good {
			t.Errorf("%q: %v", prefix, err)
		}
	}
}
