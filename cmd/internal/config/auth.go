package config

import (
	"net/netip"
	"time"

	"countersign/registry"
)

// Auth says who may call. Tokens of the file and of all issuers are taken.
type Auth struct {
	TokensFile string   `koanf:"tokens_file"`
	Issuers    []Issuer `koanf:"issuers"`
	// AllowNetworks are networks that are not public where issuers may be. Servers
	// may not be dialled there for that.
	AllowNetworks []string `koanf:"allow_networks"`
}

// Issuer is an OpenID Connect issuer, and what the claims of its tokens mean.
type Issuer struct {
	Issuer          string                      `koanf:"issuer"`
	Audience        string                      `koanf:"audience"`
	SubjectClaim    string                      `koanf:"subject_claim"`  // empty: sub
	SubjectPrefix   string                      `koanf:"subject_prefix"` // stands before the subject
	TenantClaim     string                      `koanf:"tenant_claim"`   // empty: tenant
	Tenant          string                      `koanf:"tenant"`         // of all its tokens, instead
	Tenants         []string                    `koanf:"tenants"`        // empty: all
	RolesClaim      string                      `koanf:"roles_claim"`    // empty: roles
	RoleMap         map[string][]registry.Role  `koanf:"role_map"`
	ScopesClaim     string                      `koanf:"scopes_claim"` // empty: scope
	ScopeMap        map[string][]registry.Scope `koanf:"scope_map"`
	ScopesFromRoles bool                        `koanf:"scopes_from_roles"`
	Algorithms      []string                    `koanf:"algorithms"` // empty: all asymmetric ones
	ClockSkew       time.Duration               `koanf:"clock_skew"` // 0: 30 s
	Login           Login                       `koanf:"login"`
}

// Login is how the command line client signs in at an issuer.
type Login struct {
	ClientID string   `koanf:"client_id"` // a public client; empty: it cannot
	Scopes   []string `koanf:"scopes"`
}

// Networks parses the networks where issuers may be.
func (a Auth) Networks() ([]netip.Prefix, error) {
	return prefixes("auth.allow_networks", a.AllowNetworks)
}
