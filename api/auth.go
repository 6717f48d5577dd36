package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

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

// AuthOptions say whose tokens are taken. One of the first two is needed.
type AuthOptions struct {
	Tokens  []Token
	Issuers []Issuer
	// Client asks issuers for their keys. It is one that dials no address which
	// the operator does not want dialled, and follows no redirect.
	Client *http.Client
	Log    *slog.Logger     // slog.Default() when nil
	Now    func() time.Time // time.Now when nil
}

// Authenticator knows the bearers of tokens: of the installation's own, of
// which it holds hashes only, and of those that issuers sign. Nobody else is
// anybody (R184): what it cannot check it refuses.
type Authenticator struct {
	bearers []bearer
	issuers []*identity
}

type bearer struct {
	hash      [sha256.Size]byte
	principal registry.Principal
}

// NewAuthenticator checks the tokens, whose text it forgets, and the issuers,
// which it does not ask yet. No tokens and no issuers at all are refused:
// nobody could call.
func NewAuthenticator(o AuthOptions) (*Authenticator, error) {
	if len(o.Tokens) == 0 && len(o.Issuers) == 0 {
		return nil, registry.Errorf(registry.ReasonInvalidArgument, "there are no tokens and no issuers, so nobody could call")
	}
	if len(o.Issuers) > 0 && o.Client == nil {
		return nil, registry.Errorf(registry.ReasonInvalidArgument, "issuers cannot be asked without a client")
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	a := &Authenticator{}
	for n, issuer := range o.Issuers {
		i, err := issuer.prepare()
		if err != nil {
			return nil, registry.Errorf(registry.ReasonInvalidArgument, "issuer %d: %w", n+1, err)
		}
		i.now, i.keys = o.Now, &keys{issuer: issuer.Issuer, client: o.Client, log: o.Log, now: o.Now}
		a.issuers = append(a.issuers, i)
	}
	if err := separate(a.issuers); err != nil {
		return nil, err
	}
	for i, t := range o.Tokens {
		b, err := t.bearer()
		if err != nil {
			return nil, registry.Errorf(registry.ReasonInvalidArgument, "token %d: %w", i+1, err)
		}
		if slices.ContainsFunc(a.bearers, func(other bearer) bool { return other.hash == b.hash }) {
			return nil, registry.Errorf(registry.ReasonInvalidArgument, "token %d stands there twice", i+1)
		}
		if slices.ContainsFunc(a.issuers, func(i *identity) bool {
			return i.SubjectPrefix != "" && strings.HasPrefix(t.Subject, i.SubjectPrefix)
		}) {
			return nil, registry.Errorf(registry.ReasonInvalidArgument, "token %d: the subject is one of an issuer's", i+1)
		}
		a.bearers = append(a.bearers, b)
	}
	return a, nil
}

// ReadTokens reads tokens from a file, YAML or JSON:
//
//	tokens:
//	  - sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//	    tenant: default
//	    subject: ci
//	    roles: [Operator]
//
// Keys that it does not know are refused, and a file without tokens.
func ReadTokens(path string) ([]Token, error) {
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
	if len(file.Tokens) == 0 {
		return nil, registry.Errorf(registry.ReasonInvalidArgument, "the token file %s has no tokens", path)
	}
	return file.Tokens, nil
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

// refusal is what a request without a usable token gets.
func refusal() *registry.Error {
	return registry.Errorf(registry.ReasonUnauthenticated, "a valid bearer token is needed").
		WithNext("send the header Authorization: Bearer TOKEN")
}

// Authenticate gives the principal of a request, or refuses it: with
// unauthenticated when there is no usable token, with dependency_error when its
// issuer cannot be asked. There is no third outcome and no principal without a
// token. Every hash is compared, in constant time, so that how long it takes
// says nothing.
func (a *Authenticator) Authenticate(r *http.Request) (registry.Principal, *registry.Error) {
	headers := r.Header.Values("Authorization")
	if len(headers) != 1 {
		return registry.Principal{}, refusal()
	}
	scheme, token, found := strings.Cut(headers[0], " ")
	if token = strings.TrimSpace(token); !found || token == "" || !strings.EqualFold(scheme, "Bearer") {
		return registry.Principal{}, refusal()
	}
	hash := sha256.Sum256([]byte(token))
	var who *registry.Principal
	for i := range a.bearers {
		if subtle.ConstantTimeCompare(hash[:], a.bearers[i].hash[:]) == 1 {
			who = &a.bearers[i].principal
		}
	}
	if who != nil {
		return *who, nil
	}
	if len(a.issuers) > 0 {
		name := issuerOf(token)
		for _, i := range a.issuers {
			if i.Issuer.Issuer == name {
				return i.principal(r.Context(), token)
			}
		}
	}
	return registry.Principal{}, refusal()
}

// Check says whether the tokens of every issuer can be checked at the moment.
func (a *Authenticator) Check(ctx context.Context) error {
	return errors.Join(a.CheckEach(ctx)...)
}

// CheckEach is [Authenticator.Check] for each issuer, in their order.
func (a *Authenticator) CheckEach(ctx context.Context) []error {
	all := make([]error, len(a.issuers))
	for n, i := range a.issuers {
		all[n] = i.keys.check(ctx)
	}
	return all
}

// Issuers says whether there are issuers, which can be away.
func (a *Authenticator) Issuers() bool { return len(a.issuers) > 0 }

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
