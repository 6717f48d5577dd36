package api

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"countersign/registry"
)

var quiet = slog.New(slog.DiscardHandler)

const testAudience = "countersign"

// testIssuer is an issuer that does as a test wants.
type testIssuer struct {
	server *httptest.Server
	key    jose.JSONWebKey // signs, unless told otherwise

	mu      sync.Mutex
	set     []any // what it says are its keys
	away    bool
	name    string // what its document says that it is; empty: its URL
	jwks    string // where its document says that the keys are; empty: here
	fetches int    // of the keys
}

func newTestIssuer(t *testing.T) *testIssuer {
	t.Helper()
	i := &testIssuer{key: newKey(t, "first")}
	i.set = []any{i.key.Public()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.away {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		name, jwks := i.server.URL, i.server.URL+"/keys"
		if i.name != "" {
			name = i.name
		}
		if i.jwks != "" {
			jwks = i.jwks
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": name, "jwks_uri": jwks})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.fetches++
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": i.set})
	})
	i.server = httptest.NewServer(mux)
	t.Cleanup(i.server.Close)
	return i
}

func newKey(t *testing.T, id string) jose.JSONWebKey {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return jose.JSONWebKey{Key: private, KeyID: id, Algorithm: string(jose.ES256), Use: "sig"}
}

// now changes the issuer.
func (i *testIssuer) now(change func(*testIssuer)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change(i)
}

func (i *testIssuer) asked() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fetches
}

// trusted is how it stands in the configuration.
func (i *testIssuer) trusted() Issuer { return Issuer{Issuer: i.server.URL, Audience: testAudience} }

// good are the claims of a token that is taken.
func (i *testIssuer) good() map[string]any {
	now := time.Now().Unix()
	return map[string]any{
		"iss": i.server.URL, "sub": "platformadmin", "aud": testAudience, "iat": now, "exp": now + 600,
		"tenant": alpha, "roles": []string{"PlatformAdmin"}, "scope": "openid factory.tools.read factory.tools.admin factory.tools.internal",
	}
}

// token makes the token of a role in a tenant, like tokenOf.
func (i *testIssuer) token(tenant string, role registry.Role) string {
	c := i.good()
	c["tenant"], c["sub"] = tenant, strings.ToLower(string(role))
	if role == executor {
		delete(c, "roles")
		c["scope"] = registry.ScopeInternal
	} else {
		c["roles"] = []registry.Role{role}
		c["scope"] = strings.ReplaceAll(words(ScopesOf(role)), ",", "")
	}
	return signed(i.key, c, nil)
}

// with gives a good token with other claims; nil takes one away.
func (i *testIssuer) with(change map[string]any) string {
	c := i.good()
	for name, value := range change {
		if c[name] = value; value == nil {
			delete(c, name)
		}
	}
	return signed(i.key, c, nil)
}

// signed signs claims; the header is what a test wants besides.
func signed(key jose.JSONWebKey, claims any, header map[jose.HeaderKey]any) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(key.Algorithm), Key: key}, &jose.SignerOptions{ExtraHeaders: header})
	if err != nil {
		panic(err)
	}
	payload, ok := claims.([]byte)
	if !ok {
		payload, _ = json.Marshal(claims)
	}
	jws, err := signer.Sign(payload)
	if err != nil {
		panic(err)
	}
	token, err := jws.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return token
}

// forged puts a token together by hand.
func forged(header string, claims any, sign func(input string) []byte) string {
	payload, _ := json.Marshal(claims)
	input := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString(payload)
	return input + "." + base64.RawURLEncoding.EncodeToString(sign(input))
}

func nothing(string) []byte { return nil }

func hs256(secret []byte) func(string) []byte {
	return func(input string) []byte {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(input))
		return mac.Sum(nil)
	}
}

// badTokens are refused as unauthenticated, on every RPC.
var badTokens = map[string]func(i *testIssuer) string{
	"an expired one":          func(i *testIssuer) string { return i.with(map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}) },
	"one that expired at 0":   func(i *testIssuer) string { return i.with(map[string]any{"exp": 0}) },
	"one without an end":      func(i *testIssuer) string { return i.with(map[string]any{"exp": nil}) },
	"one with words for date": func(i *testIssuer) string { return i.with(map[string]any{"exp": "3600abc"}) },
	"one with digits in text": func(i *testIssuer) string {
		return i.with(map[string]any{"exp": fmt.Sprint(time.Now().Add(time.Hour).Unix())})
	},
	"one that ends never":      func(i *testIssuer) string { return i.with(map[string]any{"exp": 1e300}) },
	"one of the future":        func(i *testIssuer) string { return i.with(map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}) },
	"one made in the future":   func(i *testIssuer) string { return i.with(map[string]any{"iat": time.Now().Add(time.Hour).Unix()}) },
	"a foreign audience":       func(i *testIssuer) string { return i.with(map[string]any{"aud": "another-api"}) },
	"a longer audience":        func(i *testIssuer) string { return i.with(map[string]any{"aud": []string{testAudience + "-dev", "x"}}) },
	"no audience":              func(i *testIssuer) string { return i.with(map[string]any{"aud": nil}) },
	"a foreign issuer":         func(i *testIssuer) string { return i.with(map[string]any{"iss": "https://login.example.com"}) },
	"almost the issuer":        func(i *testIssuer) string { return i.with(map[string]any{"iss": i.server.URL + "/"}) },
	"no issuer":                func(i *testIssuer) string { return i.with(map[string]any{"iss": nil}) },
	"issuers":                  func(i *testIssuer) string { return i.with(map[string]any{"iss": []string{i.server.URL}}) },
	"no subject":               func(i *testIssuer) string { return i.with(map[string]any{"sub": nil}) },
	"an empty subject":         func(i *testIssuer) string { return i.with(map[string]any{"sub": ""}) },
	"a subject of ours":        func(i *testIssuer) string { return i.with(map[string]any{"sub": "system:probe"}) },
	"a subject with a newline": func(i *testIssuer) string { return i.with(map[string]any{"sub": "alice\nbob"}) },
	"no tenant":                func(i *testIssuer) string { return i.with(map[string]any{"tenant": nil}) },
	"a tenant with a capital":  func(i *testIssuer) string { return i.with(map[string]any{"tenant": "Alpha"}) },
	"a tenant with a slash":    func(i *testIssuer) string { return i.with(map[string]any{"tenant": "alpha/beta"}) },
	"two tenants":              func(i *testIssuer) string { return i.with(map[string]any{"tenant": []string{alpha, beta}}) },
	"no algorithm":             func(i *testIssuer) string { return forged(`{"alg":"none"}`, i.good(), nothing) },
	"no algorithm, in capitals": func(i *testIssuer) string {
		return forged(`{"alg":"NONE","kid":"first"}`, i.good(), nothing)
	},
	"an empty signature": func(i *testIssuer) string { return forged(`{"alg":"ES256","kid":"first"}`, i.good(), nothing) },
	"the public key as a secret": func(i *testIssuer) string {
		raw, _ := i.key.Public().MarshalJSON()
		return forged(`{"alg":"HS256","kid":"first"}`, i.good(), hs256(raw))
	},
	"the public key as a secret, PEM": func(i *testIssuer) string {
		der, _ := x509.MarshalPKIXPublicKey(i.key.Public().Key)
		return forged(`{"alg":"HS256","kid":"first"}`, i.good(), hs256(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
	},
	"an unknown key": func(i *testIssuer) string {
		key := i.key
		key.Key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		key.KeyID = "unknown"
		return signed(key, i.good(), nil)
	},
	"another key of the same id": func(i *testIssuer) string {
		key := i.key
		key.Key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		return signed(key, i.good(), nil)
	},
	"another key of no id": func(i *testIssuer) string {
		key := i.key
		key.Key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		key.KeyID = ""
		return signed(key, i.good(), nil)
	},
	"a key that it brings itself": func(i *testIssuer) string {
		private, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		key := jose.JSONWebKey{Key: private, KeyID: "first", Algorithm: string(jose.ES256)}
		return signed(key, i.good(), map[jose.HeaderKey]any{"jwk": key.Public()})
	},
	"another type of token": func(i *testIssuer) string {
		return signed(i.key, i.good(), map[jose.HeaderKey]any{"typ": "logout+jwt"})
	},
	"something critical": func(i *testIssuer) string {
		return signed(i.key, i.good(), map[jose.HeaderKey]any{"crit": []string{"x"}, "x": 1})
	},
	"other claims":           func(i *testIssuer) string { return swapped(i.with(nil), i.with(map[string]any{"tenant": beta})) },
	"half of it":             func(i *testIssuer) string { return i.with(nil)[:100] },
	"more parts":             func(i *testIssuer) string { return i.with(nil) + ".x" },
	"blanks":                 func(i *testIssuer) string { return strings.Replace(i.with(nil), ".", ". ", 1) },
	"a text for claims":      func(i *testIssuer) string { return signed(i.key, []byte(`"iss"`), nil) },
	"more than it may have":  func(i *testIssuer) string { return i.with(map[string]any{"x": strings.Repeat("x", maxJWT)}) },
	"JSON instead of a text": func(i *testIssuer) string { return serialised(i.key, i.good()) },
}

// swapped is a token with the claims of another.
func swapped(token, other string) string {
	a, b := strings.Split(token, "."), strings.Split(other, ".")
	return a[0] + "." + b[1] + "." + a[2]
}

// serialised is a token in the JSON serialisation (RFC 7515, section 7.2).
func serialised(key jose.JSONWebKey, claims any) string {
	parts := strings.Split(signed(key, claims, nil), ".")
	return fmt.Sprintf(`{"protected":%q,"payload":%q,"signature":%q}`, parts[0], parts[1], parts[2])
}

// clock is one that a test sets.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Now()} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// knower is an authenticator of issuers.
func knower(t *testing.T, at *clock, client *http.Client, issuers ...Issuer) *Authenticator {
	t.Helper()
	a, err := NewAuthenticator(AuthOptions{Issuers: issuers, Client: client, Log: quiet, Now: at.now})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// enter asks an authenticator who the bearer of a token is.
func enter(t *testing.T, a *Authenticator, token string) (registry.Principal, registry.Reason) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	p, refused := a.Authenticate(r)
	if refused != nil {
		if !cmp.Equal(p, registry.Principal{}) {
			t.Errorf("somebody is refused and is %+v", p)
		}
		return p, refused.Reason
	}
	return p, ""
}

func TestClaimsBecomeAPrincipal(t *testing.T) {
	t.Parallel()
	i := newTestIssuer(t)
	at := newClock()
	ends := at.now().Add(10 * time.Minute).UTC().Truncate(time.Second)
	for name, c := range map[string]struct {
		trust  func(*Issuer)
		claims map[string]any
		header map[jose.HeaderKey]any
		want   registry.Principal
	}{
		"by default": {
			claims: map[string]any{"roles": []string{"Auditor", "Operator", "stranger"}, "scope": "openid factory.tools.read"},
			want:   registry.Principal{Roles: []registry.Role{registry.RoleOperator, registry.RoleAuditor}, Scopes: []registry.Scope{registry.ScopeRead}},
		},
		"an access token by its type": {header: map[jose.HeaderKey]any{"typ": "at+jwt"}, claims: map[string]any{"scope": nil, "roles": nil}},
		"one of many audiences":       {claims: map[string]any{"aud": []string{"x", testAudience}, "scope": nil, "roles": nil}},
		"who has nothing":             {claims: map[string]any{"scope": "openid email", "roles": []string{"viewer"}}},
		"claims of no use":            {claims: map[string]any{"scope": 7, "roles": map[string]any{"PlatformAdmin": true}}},
		"roles by a path and a map": {
			trust: func(i *Issuer) {
				i.RolesClaim = "realm_access.roles"
				i.RoleMap = map[string][]registry.Role{"mcp admins": {registry.RolePlatformAdmin}, "dev": {registry.RoleOperator, registry.RoleAssetMaintainer}}
			},
			claims: map[string]any{"realm_access": map[string]any{"roles": []string{"dev", "Auditor"}}, "scope": nil},
			want:   registry.Principal{Roles: []registry.Role{registry.RoleAssetMaintainer, registry.RoleOperator}},
		},
		"a claim with dots in its name": {
			trust:  func(i *Issuer) { i.RolesClaim = "https://example.com/roles" },
			claims: map[string]any{"https://example.com/roles": "Observer", "scope": nil},
			want:   registry.Principal{Roles: []registry.Role{registry.RoleObserver}},
		},
		"scopes by a map and a list": {
			trust: func(i *Issuer) {
				i.ScopesClaim = "scp"
				i.ScopeMap = map[string][]registry.Scope{"api://x/read": {registry.ScopeRead}, "api://x/all": {registry.ScopeAdmin, registry.ScopeRead}}
			},
			claims: map[string]any{"scp": []string{"api://x/all", "factory.tools.internal"}, "roles": nil},
			want:   registry.Principal{Scopes: []registry.Scope{registry.ScopeRead, registry.ScopeAdmin}},
		},
		"scopes by the roles": {
			trust:  func(i *Issuer) { i.ScopesFromRoles = true },
			claims: map[string]any{"scope": "factory.tools.internal", "roles": []string{"Operator"}},
			want: registry.Principal{
				Roles: []registry.Role{registry.RoleOperator}, Scopes: []registry.Scope{registry.ScopeInternal, registry.ScopeRead, registry.ScopeAdmin},
			},
		},
		"no scopes by no roles": {
			trust:  func(i *Issuer) { i.ScopesFromRoles = true },
			claims: map[string]any{"scope": "openid", "roles": []string{"viewer"}},
		},
		"a tenant of its own": {
			trust:  func(i *Issuer) { i.Tenant = beta },
			claims: map[string]any{"tenant": alpha, "scope": nil, "roles": nil},
			want:   registry.Principal{Tenant: beta},
		},
		"somebody else's claims": {
			trust: func(i *Issuer) {
				i.TenantClaim, i.SubjectClaim, i.SubjectPrefix, i.Tenants = "org.slug", "email", "corp:", []string{beta, alpha}
			},
			claims: map[string]any{"org": map[string]any{"slug": beta}, "email": "a@example.com", "email_verified": true, "scope": nil, "roles": nil},
			want:   registry.Principal{Tenant: beta, Subject: "corp:a@example.com"},
		},
		"a clock that is a little ahead": {claims: map[string]any{
			"nbf": at.now().Add(20 * time.Second).Unix(), "iat": at.now().Add(20 * time.Second).Unix(), "scope": nil, "roles": nil,
		}},
	} {
		trusted := i.trusted()
		if c.trust != nil {
			c.trust(&trusted)
		}
		all := i.good()
		all["exp"] = ends.Unix()
		maps.Copy(all, c.claims)
		p, reason := enter(t, knower(t, at, i.server.Client(), trusted), signed(i.key, all, c.header))
		if reason != "" {
			t.Errorf("%s: refused as %s", name, reason)
			continue
		}
		c.want.Issuer, c.want.Expires = i.server.URL, ends
		if c.want.Tenant == "" {
			c.want.Tenant = alpha
		}
		if c.want.Subject == "" {
			c.want.Subject = "platformadmin"
		}
		if diff := cmp.Diff(c.want, p); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTokensOfAnIssuerThatAreRefused(t *testing.T) {
	t.Parallel()
	i := newTestIssuer(t)
	a := knower(t, newClock(), i.server.Client(), i.trusted())
	if p, reason := enter(t, a, i.with(nil)); reason != "" {
		t.Fatalf("a good one is refused as %s: %+v", reason, p)
	}
	for name, bad := range badTokens {
		if p, reason := enter(t, a, bad(i)); reason != registry.ReasonUnauthenticated {
			t.Errorf("%s: %+v, %q", name, p, reason)
		}
	}
	for name, c := range map[string]struct {
		trust  func(*Issuer)
		claims map[string]any
	}{
		"a tenant that it may not speak for": {func(i *Issuer) { i.Tenants = []string{beta} }, nil},
		"an algorithm that is not wanted":    {func(i *Issuer) { i.Algorithms = []string{"RS256", "EdDSA"} }, nil},
		"an address that nobody checked":     {func(i *Issuer) { i.SubjectClaim = "email" }, map[string]any{"email": "a@example.com"}},
		"a subject that becomes ours":        {func(i *Issuer) { i.SubjectPrefix = "sys" }, map[string]any{"sub": "tem:probe"}},
		"a clock that may not be ahead": {
			func(i *Issuer) { i.ClockSkew = time.Second }, map[string]any{"nbf": time.Now().Add(20 * time.Second).Unix()},
		},
		"a second too late": {
			func(i *Issuer) { i.ClockSkew = time.Second }, map[string]any{"exp": time.Now().Add(-2 * time.Second).Unix()},
		},
	} {
		trusted := i.trusted()
		c.trust(&trusted)
		if p, reason := enter(t, knower(t, newClock(), i.server.Client(), trusted), i.with(c.claims)); reason != registry.ReasonUnauthenticated {
			t.Errorf("%s: %+v, %q", name, p, reason)
		}
	}
}

// Every way of signing works with a key of its kind, and with no other.
func TestAllKindsOfKeys(t *testing.T) {
	t.Parallel()
	i := newTestIssuer(t)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	private := map[string]crypto.PrivateKey{"RS": rsaKey, "PS": rsaKey, "Ed": edKey}
	for alg, curve := range map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()} {
		if private[alg], err = ecdsa.GenerateKey(curve, rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	i.set = nil
	var all []jose.JSONWebKey
	for _, alg := range algorithms {
		key := jose.JSONWebKey{Key: private[string(alg)[:2]], Algorithm: string(alg), KeyID: "key of " + string(alg)}
		if key.Key == nil {
			key.Key = private[string(alg)]
		}
		all = append(all, key)
		i.set = append(i.set, key.Public())
	}
	a := knower(t, newClock(), i.server.Client(), i.trusted())
	for _, key := range all {
		if _, reason := enter(t, a, signed(key, i.good(), nil)); reason != "" {
			t.Errorf("%s is refused as %s", key.Algorithm, reason)
		}
		key.KeyID = "key of RS256"
		if _, reason := enter(t, a, signed(key, i.good(), nil)); (reason == "") != (key.Algorithm == "RS256") {
			t.Errorf("%s by a key for RS256 comes to %q", key.Algorithm, reason)
		}
	}
}

// Of what an issuer says are its keys, only those count that can be.
func TestKeysThatDoNotCount(t *testing.T) {
	t.Parallel()
	good := newKey(t, "good")
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	encryption := newKey(t, "encryption")
	encryption.Use = "enc"
	set := []any{
		"nothing",
		map[string]any{"kty": "NEW", "kid": "x"},
		map[string]any{"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0", "kid": "oct"},
		jose.JSONWebKey{Key: &weak.PublicKey, KeyID: "weak"},
		encryption.Public(), good.Public(), newKey(t, "private"),
		jose.JSONWebKey{Key: good.Public().Key, KeyID: "hs", Algorithm: "HS256"},
	}
	body, err := json.Marshal(map[string]any{"keys": set})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := publicKeys(body)
	if err != nil || len(keys) != 1 || keys[0].KeyID != "good" {
		t.Errorf("%v, %v", keys, err)
	}
	for _, body := range []string{"", "{}", `{"keys":[]}`, `{"keys":"x"}`, `<html>`} {
		if keys, err := publicKeys([]byte(body)); err == nil {
			t.Errorf("%s: %v", body, keys)
		}
	}
}

// A new key is found by the first token that it signs; a key that the issuer
// took back is forgotten; tokens of unknown keys do not make us ask more often.
func TestKeysRotate(t *testing.T) {
	t.Parallel()
	i := newTestIssuer(t)
	at := newClock()
	a := knower(t, at, i.server.Client(), i.trusted())
	life := map[string]any{"exp": at.now().Add(24 * time.Hour).Unix()}
	old := i.with(life)
	claims := i.good()
	maps.Copy(claims, life)
	second := newKey(t, "second")
	fresh := signed(second, claims, nil)

	if _, reason := enter(t, a, old); reason != "" || i.asked() != 1 {
		t.Fatalf("the first token comes to %q after %d fetches", reason, i.asked())
	}
	i.now(func(i *testIssuer) { i.set = []any{i.key.Public(), second.Public()} })
	if _, reason := enter(t, a, fresh); reason != registry.ReasonUnauthenticated || i.asked() != 1 {
		t.Errorf("right after a fetch an unknown key comes to %q after %d fetches", reason, i.asked())
	}
	at.pass(fetchPause)
	if _, reason := enter(t, a, fresh); reason != "" || i.asked() != 2 {
		t.Errorf("the new key comes to %q after %d fetches", reason, i.asked())
	}
	// A flood costs one fetch in each pause.
	for n := range 200 {
		key := second
		key.KeyID = fmt.Sprintf("unknown %d", n)
		if _, reason := enter(t, a, signed(key, claims, nil)); reason != registry.ReasonUnauthenticated {
			t.Fatalf("an unknown key comes to %q", reason)
		}
		if n == 100 {
			at.pass(fetchPause)
		}
	}
	if i.asked() != 3 {
		t.Errorf("the flood cost %d fetches", i.asked()-2)
	}
	// The old key is taken back: in passing, without anybody who waits.
	i.now(func(i *testIssuer) { i.set = []any{second.Public()} })
	if _, reason := enter(t, a, old); reason != "" {
		t.Errorf("the old key comes to %q before anybody could know", reason)
	}
	at.pass(keysRenewed)
	for deadline := time.Now().Add(20 * time.Second); ; {
		if _, reason := enter(t, a, old); reason == registry.ReasonUnauthenticated {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the old key is still taken")
		}
	}
	if _, reason := enter(t, a, fresh); reason != "" {
		t.Errorf("the new key comes to %q in the end", reason)
	}
}

// An issuer that does not answer is no reason to let anybody in, nor to say
// that the token is wrong.
func TestAnIssuerThatIsAway(t *testing.T) {
	t.Parallel()
	i := newTestIssuer(t)
	i.away = true
	at := newClock()
	a := knower(t, at, i.server.Client(), i.trusted())
	token := i.with(map[string]any{"exp": at.now().Add(24 * time.Hour).Unix()})
	unknown := i.key
	unknown.KeyID = "unknown"
	stranger := signed(unknown, i.good(), nil)

	for range 3 {
		if _, reason := enter(t, a, token); reason != registry.ReasonDependency {
			t.Errorf("before it was ever there: %q", reason)
		}
	}
	if err := a.Check(t.Context()); err == nil {
		t.Error("it is said to be there")
	}
	// What nobody needs to ask it about is refused all the same.
	for name, text := range map[string]string{
		"another issuer's": i.with(map[string]any{"iss": "https://login.example.com"}), "no algorithm": badTokens["no algorithm"](i),
		"no JWT": "0123456789abcdef",
	} {
		if _, reason := enter(t, a, text); reason != registry.ReasonUnauthenticated {
			t.Errorf("%s: %q", name, reason)
		}
	}
	i.now(func(i *testIssuer) { i.away = false })
	at.pass(retryPause)
	if _, reason := enter(t, a, token); reason != "" {
		t.Errorf("when it is back: %q", reason)
	}
	if err := a.Check(t.Context()); err != nil {
		t.Error(err)
	}
	// It goes away again. Its keys go on for an hour, and no longer.
	i.now(func(i *testIssuer) { i.away = true })
	at.pass(keysOver - time.Second)
	if _, reason := enter(t, a, token); reason != "" {
		t.Errorf("with keys of an hour: %q", reason)
	}
	settle(t, a)
	at.pass(retryPause)
	if _, reason := enter(t, a, token); reason != registry.ReasonDependency {
		t.Errorf("with keys of more than an hour: %q", reason)
	}
	if _, reason := enter(t, a, stranger); reason != registry.ReasonDependency {
		t.Errorf("an unknown key: %q", reason)
	}
	i.now(func(i *testIssuer) { i.away = false })
	at.pass(retryPause)
	if _, reason := enter(t, a, token); reason != "" {
		t.Errorf("when it is back again: %q", reason)
	}
	// While it is away nobody can say whose a new key is, but a bad signature is one.
	i.now(func(i *testIssuer) { i.away = true })
	at.pass(fetchPause)
	if _, reason := enter(t, a, stranger); reason != registry.ReasonDependency {
		t.Errorf("an unknown key while it is away: %q", reason)
	}
	if _, reason := enter(t, a, badTokens["another key of the same id"](i)); reason != registry.ReasonUnauthenticated {
		t.Errorf("a bad signature while it is away: %q", reason)
	}
	if _, reason := enter(t, a, token); reason != "" {
		t.Errorf("a good token while it is away: %q", reason)
	}
}

// settle waits for fetches in passing.
func settle(t *testing.T, a *Authenticator) {
	t.Helper()
	for _, i := range a.issuers {
		i.keys.mu.Lock()
		flight := i.keys.flight
		i.keys.mu.Unlock()
		if flight != nil {
			<-flight
		}
	}
}

// What an issuer says of itself is not believed when it cannot be.
func TestIssuersThatSayOddThings(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*testIssuer){
		"another name":           func(i *testIssuer) { i.name = "https://login.example.com" },
		"keys without TLS":       func(i *testIssuer) { i.jwks = "http://keys.example.com/keys" },
		"keys in a file":         func(i *testIssuer) { i.jwks = "file:///etc/passwd" },
		"keys nowhere":           func(i *testIssuer) { i.jwks = i.server.URL + "/nowhere" },
		"keys behind a redirect": func(i *testIssuer) { i.jwks = i.server.URL + "/.well-known/openid-configuration/" },
		"no keys":                func(i *testIssuer) { i.set = nil },
	} {
		i := newTestIssuer(t)
		change(i)
		a := knower(t, newClock(), i.server.Client(), i.trusted())
		if _, reason := enter(t, a, i.with(nil)); reason != registry.ReasonDependency {
			t.Errorf("%s: %q", name, reason)
		}
		if err := a.Check(t.Context()); err == nil {
			t.Errorf("%s: it is said to be there", name)
		}
	}
}

// Whoever comes first makes us ask; the others wait for the same answer.
func TestManyAtOnceAskOnce(t *testing.T) {
	t.Parallel()
	i := newTestIssuer(t)
	a := knower(t, newClock(), i.server.Client(), i.trusted())
	token := i.with(nil)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, reason := enter(t, a, token); reason != "" {
				t.Errorf("one of them is refused as %s", reason)
			}
		})
	}
	all.Wait()
	if i.asked() != 1 {
		t.Errorf("it was asked %d times", i.asked())
	}
}

// Two issuers cannot speak for each other.
func TestSeveralIssuers(t *testing.T) {
	t.Parallel()
	one, two := newTestIssuer(t), newTestIssuer(t)
	two.key.KeyID = one.key.KeyID
	first, second := one.trusted(), two.trusted()
	second.SubjectPrefix, second.Tenants = "partner:", []string{beta}
	a := knower(t, newClock(), one.server.Client(), first, second)
	for name, c := range map[string]struct {
		token string
		who   string
	}{
		"the first":                       {one.with(nil), "platformadmin"},
		"the second":                      {two.with(map[string]any{"tenant": beta}), "partner:platformadmin"},
		"the second for the first":        {two.with(map[string]any{"tenant": beta, "iss": one.server.URL}), ""},
		"the first for the second":        {one.with(map[string]any{"tenant": beta, "iss": two.server.URL}), ""},
		"the second in another tenant":    {two.with(nil), ""},
		"the first as one of the second":  {one.with(map[string]any{"tenant": beta, "sub": "partner:platformadmin"}), ""},
		"the first, almost of the second": {one.with(map[string]any{"tenant": beta, "sub": "partners"}), "partners"},
	} {
		p, reason := enter(t, a, c.token)
		if p.Subject != c.who || (reason == registry.ReasonUnauthenticated) != (c.who == "") {
			t.Errorf("%s: %+v, %q", name, p, reason)
		}
	}
}

func TestIssuersThatAreNotTaken(t *testing.T) {
	t.Parallel()
	base := Issuer{Issuer: "https://login.example.com", Audience: "countersign"}
	other := Issuer{Issuer: "https://other.example.com", Audience: "countersign"}
	for name, change := range map[string]func(i, o *Issuer){
		"no URL":                   func(i, _ *Issuer) { i.Issuer = "login" },
		"no TLS":                   func(i, _ *Issuer) { i.Issuer = "http://login.example.com" },
		"a query":                  func(i, _ *Issuer) { i.Issuer += "?x=1" },
		"a password":               func(i, _ *Issuer) { i.Issuer = "https://a:b@login.example.com" },
		"no audience":              func(i, _ *Issuer) { i.Audience = "" },
		"a bad tenant":             func(i, _ *Issuer) { i.Tenant = "Bad" },
		"a bad one of tenants":     func(i, _ *Issuer) { i.Tenants = []string{"good", "a_b"} },
		"tenant and claim":         func(i, _ *Issuer) { i.Tenant, i.TenantClaim = "a", "b" },
		"tenant and tenants":       func(i, _ *Issuer) { i.Tenant, i.Tenants = "a", []string{"b"} },
		"an unknown role":          func(i, _ *Issuer) { i.RoleMap = map[string][]registry.Role{"x": {"Root"}} },
		"an unknown scope":         func(i, _ *Issuer) { i.ScopeMap = map[string][]registry.Scope{"x": {"all"}} },
		"no algorithm":             func(i, _ *Issuer) { i.Algorithms = []string{"none"} },
		"a symmetric algorithm":    func(i, _ *Issuer) { i.Algorithms = []string{"RS256", "HS256"} },
		"a clock of another day":   func(i, _ *Issuer) { i.ClockSkew = time.Hour },
		"a clock that goes back":   func(i, _ *Issuer) { i.ClockSkew = -1 },
		"our own subjects":         func(i, _ *Issuer) { i.SubjectPrefix = "system:" },
		"a prefix of nothing":      func(i, _ *Issuer) { i.SubjectPrefix = " " },
		"the same one twice":       func(i, o *Issuer) { i.Issuer = o.Issuer },
		"the same people":          func(_, _ *Issuer) {},
		"the same people by name":  func(i, o *Issuer) { i.SubjectPrefix, o.SubjectPrefix = "x:", "x:" },
		"the same people in one":   func(i, o *Issuer) { i.Tenants, o.Tenants = []string{"a", "b"}, []string{"b"} },
		"the same people, by rule": func(i, o *Issuer) { i.Tenant, o.Tenants = "b", []string{"a", "b"} },
	} {
		i, o := base, other
		change(&i, &o)
		if _, err := NewAuthenticator(AuthOptions{Issuers: []Issuer{i, o}, Client: http.DefaultClient}); registry.ReasonOf(err) != registry.ReasonInvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(i, o *Issuer){
		"people by name": func(i, _ *Issuer) { i.SubjectPrefix = "x:" },
		"other tenants":  func(i, o *Issuer) { i.Tenant, o.Tenants = "c", []string{"a", "b"} },
		"loopback":       func(i, _ *Issuer) { i.Issuer, i.SubjectPrefix = "http://127.0.0.1:8080/dev", "x:" },
	} {
		i, o := base, other
		change(&i, &o)
		if _, err := NewAuthenticator(AuthOptions{Issuers: []Issuer{i, o}, Client: http.DefaultClient}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	i := base
	i.SubjectPrefix = "corp:"
	for name, o := range map[string]AuthOptions{
		"nobody at all":       {},
		"without a client":    {Issuers: []Issuer{i}},
		"an issuer's subject": {Issuers: []Issuer{i}, Client: http.DefaultClient, Tokens: []Token{{Token: goodToken, Tenant: "a", Subject: "corp:alice", Roles: registry.Roles()}}},
	} {
		if _, err := NewAuthenticator(o); err == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
}

// Faults of tokens say what the bearer can do about it, and nothing to those
// who made the token up.
func TestOnlyTheTrueBearerLearnsWhatIsWrong(t *testing.T) {
	t.Parallel()
	i := newTestIssuer(t)
	a := knower(t, newClock(), i.server.Client(), i.trusted())
	said := func(token string) string {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		_, refused := a.Authenticate(r)
		return refused.Message + "; " + refused.Next
	}
	if text := said(badTokens["an expired one"](i)); !strings.Contains(text, "expired") || !strings.Contains(text, "countersign login") {
		t.Errorf("of an expired one it says %q", text)
	}
	if text := said(badTokens["a tenant with a capital"](i)); !strings.Contains(text, "tenant") || strings.Contains(text, "Alpha") {
		t.Errorf("of a bad tenant it says %q", text)
	}
	usual := said("0123456789abcdef")
	for _, name := range []string{"another key of the same id", "no algorithm", "a foreign audience", "a foreign issuer", "other claims"} {
		if text := said(badTokens[name](i)); text != usual {
			t.Errorf("of %s it says %q", name, text)
		}
	}
	if !slices.Contains(strings.Split(usual, "; "), "a valid bearer token is needed") {
		t.Errorf("it says %q", usual)
	}
}
