package secrets

import (
	"context"
	"errors"
	"slices"
	"strings"

	"countersign/registry"
)

// Rule lets tenants use references.
type Rule struct {
	Tenants  []string // empty: all
	Prefixes []string // see [CheckPrefix]; {tenant} stands for the tenant's name
}

// Shared resolves references that people of tenants wrote, each as far as the
// rules let its tenant. Without rules nobody may use any.
type Shared struct {
	Resolver Resolver
	Rules    []Rule
}

var errForbidden = errors.New("no rule lets the tenant use it")

// CheckPrefix says whether a text can be a prefix of references: one that ends in
// ":", "/", "_" or "#" is for all that begin so, any other for exactly that
// reference. So team-a is not team-ab's, whatever the names are.
func CheckPrefix(prefix string) error {
	scheme, name, found := strings.Cut(prefix, ":")
	if !found || !slices.Contains([]string{registry.SchemeEnv, registry.SchemeFile, registry.SchemeVault}, scheme) {
		return registry.Errorf(registry.ReasonInvalidArgument, "a prefix of references begins with env:, file: or vault:")
	}
	if open(prefix) {
		if strings.Contains(name, "..") {
			return registry.Errorf(registry.ReasonInvalidArgument, "a prefix of references walks")
		}
		return nil
	}
	_, err := registry.ParseSecretRef(strings.ReplaceAll(prefix, tenantMark, "t"))
	return err
}

const tenantMark = "{tenant}"

func open(prefix string) bool { return strings.ContainsAny(prefix[len(prefix)-1:], ":/_#") }

// Resolve gives the value of a reference, as [Resolver.Resolve] does. One that
// the tenant may not use looks like one that does not exist.
func (s Shared) Resolve(ctx context.Context, tenant, ref string) (Value, error) {
	reference, err := registry.ParseSecretRef(ref)
	if err != nil {
		return Value{}, err
	}
	if !s.allows(tenant, ref) {
		return Value{}, unresolved(reference, errForbidden)
	}
	return s.Resolver.Resolve(ctx, ref)
}

func (s Shared) allows(tenant, ref string) bool {
	if !registry.ValidTenant(tenant) {
		return false
	}
	for _, rule := range s.Rules {
		if len(rule.Tenants) > 0 && !slices.Contains(rule.Tenants, tenant) {
			continue
		}
		for _, prefix := range rule.Prefixes {
			prefix = strings.ReplaceAll(prefix, tenantMark, tenant)
			if ref == prefix || open(prefix) && strings.HasPrefix(ref, prefix) {
				return true
			}
		}
	}
	return false
}
