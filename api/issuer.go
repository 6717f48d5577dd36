package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"countersign/registry"
)

// Limits of tokens and of what their claims may say.
const (
	maxJWT           = 16 << 10 // bytes
	maxSubject       = 255      // bytes
	maxSkew          = 5 * time.Minute
	defaultClockSkew = 30 * time.Second
	maxNumericDate   = 1 << 40 // seconds; what is later is no date
)

// algorithms are the ways of signing that are taken. All are asymmetric: who
// can check a token cannot make one (RFC 8725, section 3.1).
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// Issuer is an OpenID Connect issuer whose tokens are taken, and what their
// claims mean here (R181 to R184). A claim is named by its key, else by the path
// to it with dots, such as realm_access.roles.
type Issuer struct {
	Issuer   string // the claim iss, byte for byte: https, or http on loopback
	Audience string // has to be in the claim aud: tokens for others are not for us

	SubjectClaim  string   // sub when empty
	SubjectPrefix string   // stands before the subject, so that two issuers name different people
	TenantClaim   string   // tenant when empty
	Tenant        string   // of all its tokens, instead of a claim
	Tenants       []string // those that it may speak for; empty: all

	RolesClaim      string                      // roles when empty
	RoleMap         map[string][]registry.Role  // from values of the claim; empty: they are names of roles
	ScopesClaim     string                      // scope when empty
	ScopeMap        map[string][]registry.Scope // from values of the claim; empty: they are names of scopes
	ScopesFromRoles bool                        // scopes follow from the roles, besides those of the claim

	Algorithms []string      // ways of signing; empty: all asymmetric ones
	ClockSkew  time.Duration // how far its clock may be off; 30 s when 0, at most 5 min

	// How the command line client signs in here; without a client id it cannot.
	LoginClientID string
	LoginScopes   []string
}

// identity is an issuer at work.
type identity struct {
	Issuer

	algorithms []jose.SignatureAlgorithm
	others     []string // subject prefixes of other issuers
	keys       *keys
	now        func() time.Time
}

// prepare checks an issuer and fills in what it does not say.
func (i Issuer) prepare() (*identity, error) {
	fault := func(format string, args ...any) (*identity, error) {
		return nil, registry.Errorf(registry.ReasonInvalidArgument, format, args...)
	}
	switch {
	case !secureURL(i.Issuer):
		return fault("%q is no URL of an issuer: https is needed, or http on loopback", i.Issuer)
	case i.Audience == "":
		return fault("an audience is needed, or tokens that were given out for others would be taken")
	case i.Tenant != "" && i.TenantClaim != "":
		return fault("tenant and tenant_claim exclude each other")
	case i.Tenant != "" && len(i.Tenants) > 0:
		return fault("tenant and tenants exclude each other")
	case i.Tenant != "" && !registry.ValidTenant(i.Tenant):
		return fault("%q is no tenant", i.Tenant)
	case i.ClockSkew < 0 || i.ClockSkew > maxSkew:
		return fault("clock_skew is 0 to %s", maxSkew)
	case strings.HasPrefix(i.SubjectPrefix, registry.System("").Subject):
		return fault("the subjects %s… are our own", registry.System("").Subject)
	case i.SubjectPrefix != "" && !validSubject(i.SubjectPrefix):
		return fault("%q cannot stand before a subject", i.SubjectPrefix)
	}
	for _, tenant := range i.Tenants {
		if !registry.ValidTenant(tenant) {
			return fault("%q is no tenant", tenant)
		}
	}
	for value, roles := range i.RoleMap {
		for _, role := range roles {
			if !slices.Contains(registry.Roles(), role) {
				return fault("role_map of %q: there is no role %q", value, role)
			}
		}
	}
	for value, list := range i.ScopeMap {
		for _, scope := range list {
			if !slices.Contains(scopes, scope) {
				return fault("scope_map of %q: there is no scope %q", value, scope)
			}
		}
	}
	out := &identity{Issuer: i, algorithms: algorithms}
	if len(i.Algorithms) > 0 {
		out.algorithms = nil
	}
	for _, name := range i.Algorithms {
		if !slices.Contains(algorithms, jose.SignatureAlgorithm(name)) {
			return fault("the algorithm %q is not taken; there are %s", name, words(algorithms))
		}
		out.algorithms = append(out.algorithms, jose.SignatureAlgorithm(name))
	}
	for field, usual := range map[*string]string{
		&out.SubjectClaim: "sub", &out.TenantClaim: "tenant", &out.RolesClaim: "roles", &out.ScopesClaim: "scope",
	} {
		if *field == "" {
			*field = usual
		}
	}
	if out.ClockSkew == 0 {
		out.ClockSkew = defaultClockSkew
	}
	return out, nil
}

// secureURL says whether what is read from a URL comes from whom it names.
func secureURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	if u.Scheme == "http" {
		ip, err := netip.ParseAddr(u.Hostname())
		return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
	}
	return u.Scheme == "https"
}

// overlap says whether two issuers may speak for one tenant.
func (i *identity) overlap(other *identity) bool {
	mine, theirs := i.spokenFor(), other.spokenFor()
	return len(mine) == 0 || len(theirs) == 0 || slices.ContainsFunc(mine, func(t string) bool { return slices.Contains(theirs, t) })
}

// spokenFor lists the tenants that an issuer may name; none: all.
func (i *identity) spokenFor() []string {
	if i.Tenant != "" {
		return []string{i.Tenant}
	}
	return i.Tenants
}

// separate refuses two issuers that could name one and the same subject in one
// tenant: then one of them could act as a person whom the other knows, or a
// person could be two.
func separate(all []*identity) error {
	for n, i := range all {
		for _, other := range all[n+1:] {
			switch {
			case i.Issuer.Issuer == other.Issuer.Issuer:
				return registry.Errorf(registry.ReasonInvalidArgument, "the issuer %s stands there twice", i.Issuer.Issuer)
			case !i.overlap(other):
				continue
			case i.SubjectPrefix == other.SubjectPrefix:
				return registry.Errorf(registry.ReasonInvalidArgument, "the issuers %s and %s could name one subject in one tenant", i.Issuer.Issuer, other.Issuer.Issuer).
					WithNext("give one of them a subject_prefix, or both different tenants")
			}
			i.others = append(i.others, other.SubjectPrefix)
			other.others = append(other.others, i.SubjectPrefix)
		}
	}
	return nil
}

// issuerOf reads the claim iss of a token that nobody has checked yet.
func issuerOf(token string) string {
	parts := strings.Split(token, ".")
	if len(token) > maxJWT || len(parts) != 3 {
		return ""
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims map[string]any
	if json.Unmarshal(payload, &claims) != nil {
		return ""
	}
	name, _ := claims["iss"].(string)
	return name
}

// signature checks the signature of one token, and remembers why it cannot.
type signature struct {
	*identity

	payload []byte
	fault   *registry.Error
}

// VerifySignature implements oidc.KeySet.
func (s *signature) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	jws, err := jose.ParseSignedCompact(token, s.algorithms)
	if err != nil {
		return nil, err
	}
	// What says that it is another kind of token is none for us (RFC 8725, section 3.11).
	switch kind := jws.Signatures[0].Protected.ExtraHeaders[jose.HeaderType]; kind {
	case nil, "", "JWT", "jwt", "at+jwt", "application/at+jwt":
	default:
		return nil, fmt.Errorf("a token of type %v", kind)
	}
	s.payload, s.fault = s.keys.verify(ctx, jws)
	if s.fault != nil {
		return nil, s.fault
	}
	return s.payload, nil
}

// principal makes the principal of a token of this issuer, or refuses it.
func (i *identity) principal(ctx context.Context, token string) (registry.Principal, *registry.Error) {
	check := &signature{identity: i}
	verifier := oidc.NewVerifier(i.Issuer.Issuer, check, &oidc.Config{
		ClientID: i.Audience, SupportedSigningAlgs: wordList(i.algorithms), SkipExpiryCheck: true, // below, with the skew both ways
	})
	if _, err := verifier.Verify(ctx, token); err != nil {
		if check.fault != nil && check.fault.Code != registry.CodeUnauthenticated {
			return registry.Principal{}, check.fault
		}
		return registry.Principal{}, refusal()
	}
	var c claims
	decoder := json.NewDecoder(bytes.NewReader(check.payload))
	decoder.UseNumber()
	if err := decoder.Decode(&c); err != nil {
		return registry.Principal{}, refusal()
	}
	return i.interpret(c)
}

// interpret makes a principal of the claims of a token whose signature, issuer
// and audience are right.
func (i *identity) interpret(c claims) (registry.Principal, *registry.Error) {
	fault := func(format string, args ...any) (registry.Principal, *registry.Error) {
		return registry.Principal{}, registry.Errorf(registry.ReasonUnauthenticated, format, args...)
	}
	now := i.now()
	expires, ok := c.date("exp")
	if !ok || expires.IsZero() {
		return fault("the token does not say when it ends")
	}
	begins, ok := c.date("nbf")
	issued, okToo := c.date("iat")
	subject := c.text(i.SubjectClaim)
	switch {
	case !now.Before(expires.Add(i.ClockSkew)):
		_, e := fault("the token has expired")
		return registry.Principal{}, e.WithNext("get a new one: countersign login")
	case !ok || !okToo:
		return fault("the token has dates that are none")
	case now.Add(i.ClockSkew).Before(begins), now.Add(i.ClockSkew).Before(issued):
		return fault("the token is not valid yet")
	case !validSubject(subject):
		return fault("the token's claim %s names nobody", i.SubjectClaim)
	case i.SubjectClaim == "email" && c["email_verified"] != true:
		return fault("the token's address is not verified by its issuer")
	case strings.HasPrefix(i.SubjectPrefix+subject, registry.System("").Subject), len(i.SubjectPrefix+subject) > maxSubject:
		return fault("the token's claim %s names somebody who cannot be", i.SubjectClaim)
	}
	for _, prefix := range i.others {
		if prefix != "" && strings.HasPrefix(i.SubjectPrefix+subject, prefix) && len(prefix) > len(i.SubjectPrefix) {
			return fault("the token's claim %s names somebody of another issuer", i.SubjectClaim)
		}
	}
	tenant := i.Tenant
	if tenant == "" {
		tenant = c.text(i.TenantClaim)
	}
	switch {
	case !registry.ValidTenant(tenant):
		return fault("the token's claim %s names no tenant", i.TenantClaim)
	case len(i.Tenants) > 0 && !slices.Contains(i.Tenants, tenant):
		return fault("the token's issuer may not speak for the tenant that it names")
	}
	p := registry.Principal{
		Tenant: tenant, Subject: i.SubjectPrefix + subject, Issuer: i.Issuer.Issuer, Expires: expires,
		Roles: translate(c.list(i.RolesClaim, false), i.RoleMap, registry.Roles()),
	}
	p.Scopes = translate(c.list(i.ScopesClaim, true), i.ScopeMap, scopes)
	if i.ScopesFromRoles && len(p.Roles) > 0 {
		for _, scope := range ScopesOf(p.Roles...) {
			if !slices.Contains(p.Scopes, scope) {
				p.Scopes = append(p.Scopes, scope)
			}
		}
	}
	return p, nil
}

// translate gives what the values of a claim stand for, each once and in the
// order of all. Values that mean nothing here are others' matter.
func translate[T ~string](values []string, table map[string][]T, all []T) []T {
	var out []T
	for _, one := range all {
		for _, value := range values {
			if means, ok := table[value]; ok && slices.Contains(means, one) || len(table) == 0 && value == string(one) {
				out = append(out, one)
				break
			}
		}
	}
	return out
}

// validSubject says whether a text can name somebody in a record.
func validSubject(text string) bool {
	return text != "" && len(text) <= maxSubject && utf8.ValidString(text) && strings.TrimSpace(text) == text &&
		!strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// claims are those of a token; numbers are json.Number.
type claims map[string]any

// find gives a claim by its key, else by the path to it.
func (c claims) find(name string) any {
	if value, ok := c[name]; ok {
		return value
	}
	var at any = map[string]any(c)
	for key := range strings.SplitSeq(name, ".") {
		object, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = object[key]
	}
	return at
}

// text gives a claim that is one text; "" otherwise.
func (c claims) text(name string) string {
	text, _ := c.find(name).(string)
	return text
}

// list gives a claim that is a text or a list of them. In scopes a text is a
// list with blanks between (RFC 8693, section 4.2).
func (c claims) list(name string, blanks bool) []string {
	switch value := c.find(name).(type) {
	case string:
		if blanks {
			return strings.Fields(value)
		}
		return []string{value}
	case []any:
		var out []string
		for _, one := range value {
			if text, ok := one.(string); ok {
				out = append(out, text)
			}
		}
		return out
	}
	return nil
}

// date gives a NumericDate (RFC 7519, section 2): zero when there is none, not
// ok when it is something else.
func (c claims) date(name string) (at time.Time, ok bool) {
	value, there := c[name]
	if !there {
		return time.Time{}, true
	}
	number, ok := value.(json.Number)
	if !ok {
		return time.Time{}, false
	}
	seconds, err := number.Float64()
	if err != nil || seconds < 0 || seconds > maxNumericDate {
		return time.Time{}, false
	}
	return time.Unix(int64(seconds), 0).UTC(), true
}
