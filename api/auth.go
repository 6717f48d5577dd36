package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"countersign/registry"
)

// minToken is the least number of bytes of a token that is given in the clear:
// shorter ones can be guessed.
const minToken = 16

// Token is one static bearer token and who its bearer is. Either the token
// itself is given or its SHA-256 in hexadecimal digits.
type Token struct {
	Token   string           `json:"token,omitempty"`
	SHA256  string           `json:"sha256,omitempty"`
	Tenant  string           `json:"tenant"`
	Subject string           `json:"subject"`
	Roles   []registry.Role  `json:"roles"`
	Scopes  []registry.Scope `json:"scopes"` // absent: those that the roles need
}

// Authenticator knows the bearers of tokens. It holds hashes only.
type Authenticator struct {
	bearers []bearer
}

type bearer struct {
	hash      [sha256.Size]byte
	principal registry.Principal
}

// NewAuthenticator checks the tokens and forgets their text. No tokens at all
// are refused: nobody could call.
func NewAuthenticator(tokens []Token) (*Authenticator, error) {
	if len(tokens) == 0 {
		return nil, registry.Errorf(registry.ReasonInvalidArgument, "there are no tokens, so nobody could call")
	}
	a := &Authenticator{}
	for i, t := range tokens {
		b, err := t.bearer()
		if err != nil {
			return nil, registry.Errorf(registry.ReasonInvalidArgument, "token %d: %w", i+1, err)
		}
		if slices.ContainsFunc(a.bearers, func(other bearer) bool { return other.hash == b.hash }) {
			return nil, registry.Errorf(registry.ReasonInvalidArgument, "token %d stands there twice", i+1)
		}
		a.bearers = append(a.bearers, b)
	}
	return a, nil
}

// ReadTokens reads an authenticator from a file, YAML or JSON:
//
//	tokens:
//	  - sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//	    tenant: default
//	    subject: ci
//	    roles: [Operator]
//
// Keys that it does not know are refused.
func ReadTokens(path string) (*Authenticator, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		Tokens []Token `json:"tokens"`
	}
	if err := yaml.UnmarshalStrict(raw, &file); err != nil {
		// The parser's text repeats lines of the file, which hold tokens.
		return nil, registry.Errorf(registry.ReasonInvalidArgument, "the token file %s cannot be read: it is not YAML of the documented form", path)
	}
	return NewAuthenticator(file.Tokens)
}

func (t Token) bearer() (bearer, error) {
	b := bearer{principal: registry.Principal{Tenant: t.Tenant, Subject: t.Subject, Roles: t.Roles, Scopes: t.Scopes}}
	fault := func(format string, args ...any) (bearer, error) {
		return bearer{}, registry.Errorf(registry.ReasonInvalidArgument, format, args...)
	}
	switch {
	case !registry.ValidTenant(t.Tenant):
		return fault("%q is no tenant", t.Tenant)
	case t.Subject == "" || strings.HasPrefix(t.Subject, registry.System("").Subject):
		return fault("the subject is missing, or begins like one of our own")
	case len(t.Roles) == 0 && len(t.Scopes) == 0:
		return fault("it has neither roles nor scopes")
	case (t.Token == "") == (t.SHA256 == ""):
		return fault("either token or sha256 is needed")
	case t.Token != "" && len(t.Token) < minToken:
		return fault("shorter than %d bytes", minToken)
	}
	for _, role := range t.Roles {
		if !slices.Contains(registry.Roles(), role) {
			return fault("there is no role %q", role)
		}
	}
	for _, scope := range t.Scopes {
		if !slices.Contains(scopes, scope) {
			return fault("there is no scope %q", scope)
		}
	}
	if len(t.Scopes) == 0 {
		b.principal.Scopes = ScopesOf(t.Roles...)
	}
	if t.Token != "" {
		b.hash = sha256.Sum256([]byte(t.Token))
		return b, nil
	}
	if n, err := hex.Decode(b.hash[:], []byte(t.SHA256)); err != nil || n != sha256.Size || len(t.SHA256) != 2*sha256.Size {
		return fault("sha256 is not 64 hexadecimal digits")
	}
	return b, nil
}

var scopes = []registry.Scope{registry.ScopeRead, registry.ScopeAdmin, registry.ScopeInternal}

// ScopesOf gives the scopes that somebody of these roles needs for all that the
// roles allow. The internal scope is no part of them but for administrators of
// the platform: executors get it by name.
func ScopesOf(roles ...registry.Role) []registry.Scope {
	p := registry.Principal{Roles: roles}
	out := []registry.Scope{registry.ScopeRead}
	if p.Has(registry.RolePlatformAdmin, registry.RoleAssetMaintainer, registry.RoleOperator) {
		out = append(out, registry.ScopeAdmin)
	}
	if p.Has(registry.RolePlatformAdmin) {
		out = append(out, registry.ScopeInternal)
	}
	return out
}

// Authenticate gives the principal of a request, or refuses it. There is no
// third outcome and no principal without a token. Every hash is compared, in
// constant time, so that how long it takes says nothing.
func (a *Authenticator) Authenticate(r *http.Request) (registry.Principal, *registry.Error) {
	refused := registry.Errorf(registry.ReasonUnauthenticated, "a valid bearer token is needed").
		WithNext("send the header Authorization: Bearer TOKEN")
	headers := r.Header.Values("Authorization")
	if len(headers) != 1 {
		return registry.Principal{}, refused
	}
	scheme, token, found := strings.Cut(headers[0], " ")
	if token = strings.TrimSpace(token); !found || token == "" || !strings.EqualFold(scheme, "Bearer") {
		return registry.Principal{}, refused
	}
	hash := sha256.Sum256([]byte(token))
	var who *registry.Principal
	for i := range a.bearers {
		if subtle.ConstantTimeCompare(hash[:], a.bearers[i].hash[:]) == 1 {
			who = &a.bearers[i].principal
		}
	}
	if who == nil {
		return registry.Principal{}, refused
	}
	return *who, nil
}

type principalKey struct{}

func withPrincipal(ctx context.Context, p registry.Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// principalOf gives the principal that the door let in.
func principalOf(ctx context.Context) (registry.Principal, error) {
	p, ok := ctx.Value(principalKey{}).(registry.Principal)
	if !ok || p.Tenant == "" || p.Subject == "" {
		return registry.Principal{}, registry.Errorf(registry.ReasonUnauthenticated, "a valid bearer token is needed")
	}
	return p, nil
}
