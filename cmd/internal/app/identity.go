package app

import (
	"log/slog"
	"math"

	"countersign/api"
	"countersign/cmd/internal/config"
	"countersign/outbound"
	"countersign/registry"
)

// maxIdentityAnswer is how much an issuer may answer when it is asked for its
// document or its keys, in bytes.
const maxIdentityAnswer = 1 << 20

// Authenticator makes of the configuration what knows the callers. It refuses
// to be without any: there is no anonymous caller (R184). Issuers are asked
// through a guard of their own, so that servers may not be where issuers are.
func Authenticator(conf config.Config, log *slog.Logger) (*api.Authenticator, error) {
	if conf.Auth.TokensFile == "" && len(conf.Auth.Issuers) == 0 {
		return nil, registry.Errorf(registry.ReasonInvalidArgument, "serve needs to know who may call").
			WithNext("set auth.issuers, or auth.tokens_file (COUNTERSIGN_AUTH_TOKENS_FILE); see docs/configuration.md")
	}
	o := api.AuthOptions{Log: log}
	if conf.Auth.TokensFile != "" {
		tokens, err := api.ReadTokens(conf.Auth.TokensFile)
		if err != nil {
			return nil, err
		}
		o.Tokens = tokens
	}
	for _, i := range conf.Auth.Issuers {
		o.Issuers = append(o.Issuers, api.Issuer{
			Issuer: i.Issuer, Audience: i.Audience, SubjectClaim: i.SubjectClaim, SubjectPrefix: i.SubjectPrefix,
			TenantClaim: i.TenantClaim, Tenant: i.Tenant, Tenants: i.Tenants,
			RolesClaim: i.RolesClaim, RoleMap: i.RoleMap, ScopesClaim: i.ScopesClaim, ScopeMap: i.ScopeMap, ScopesFromRoles: i.ScopesFromRoles,
			Algorithms: i.Algorithms, ClockSkew: i.ClockSkew, LoginClientID: i.Login.ClientID, LoginScopes: i.Login.Scopes,
		})
	}
	networks, err := conf.Auth.Networks()
	if err != nil {
		return nil, err
	}
	o.Client = outbound.NewGuard(outbound.Options{AllowNetworks: networks}).Client(outbound.ClientOptions{
		ResponseBytes: maxIdentityAnswer, TotalBytes: math.MaxInt64, // it lives as long as the process
	})
	return api.NewAuthenticator(o)
}
