package oauth

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"countersign/registry"
	"countersign/secrets"
)

// Bounds of the lives of tokens of ours.
const (
	usualLife = 5 * time.Minute
	maxLife   = time.Hour
)

// Mint is an issuer of ours: it makes tokens that stand for us, each for one audience
// and a short time, and publishes what others need to check them. It gives no tokens to
// anybody who asks; there is no endpoint for that.
type Mint struct {
	issuer string
	path   string
	key    *Key
	public jose.JSONWebKey
	life   time.Duration
	now    func() time.Time
}

// NewMint makes an issuer of ours. The URL is where its documents are served, as others
// reach it: https, or http for the loopback of a laptop. Life is at most an hour; five
// minutes when 0.
func NewMint(issuer string, key *Key, life time.Duration, now func() time.Time) (*Mint, error) {
	if fault := checkIssuer(issuer); fault != nil {
		return nil, fault
	}
	at, err := url.Parse(issuer)
	if err != nil {
		return nil, err
	}
	if life == 0 {
		life = usualLife
	}
	if life < time.Second || life > maxLife {
		return nil, registry.Errorf(registry.ReasonInvalidArgument, "tokens of ours live between 1 second and %s", maxLife)
	}
	if now == nil {
		now = time.Now
	}
	public, err := key.public()
	if err != nil {
		return nil, err
	}
	return &Mint{issuer: issuer, path: strings.TrimRight(at.Path, "/"), key: key, public: public, life: life, now: now}, nil
}

// Issuer is the identifier of the issuer.
func (m *Mint) Issuer() string { return m.issuer }

// ClientID is the URL of the document that says what client a tenant is, by which
// issuers that take such ids know it. Each tenant has one: who trusts the client of
// one trusts no other.
func (m *Mint) ClientID(tenant string) string {
	return strings.TrimRight(m.issuer, "/") + clientPath + tenant
}

// Key is the key, for client assertions under [Mint.ClientID]: its id is the published one.
func (m *Mint) Key() *Key {
	key := *m.key
	key.id = m.public.KeyID
	return &key
}

// Token makes a token that says that we are subject, for one audience.
func (m *Mint) Token(subject, audience string) (secrets.Value, error) {
	now := m.now()
	return m.key.sign(m.key.algorithms[0], m.public.KeyID, jwt.Claims{
		Issuer: m.issuer, Subject: subject, Audience: jwt.Audience{audience}, ID: rand.Text(),
		IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(m.life)),
	})
}

// Assertion makes tokens for whoever they are shown to.
func (m *Mint) Assertion(subject string) Assertion {
	return func(_ context.Context, audience string) (secrets.Value, error) { return m.Token(subject, audience) }
}

// Where the documents are, below the issuer's path.
const (
	configurationPath = "/.well-known/openid-configuration"
	keysPath          = "/.well-known/jwks.json"
	clientPath        = "/.well-known/oauth-client/" // and the tenant
)

// Paths are those that [Mint.ServeHTTP] answers; one that ends in a slash, with all
// below it.
func (m *Mint) Paths() []string {
	return []string{m.path + configurationPath, m.path + keysPath, m.path + clientPath}
}

// ServeHTTP serves the metadata (OpenID Connect Discovery 1.0, section 3), the keys
// (RFC 7517, section 5) and what client a tenant is (OAuth Client ID Metadata Document),
// whether there is such a tenant or not. Everybody may read them.
func (m *Mint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body any
	below, ok := strings.CutPrefix(r.URL.Path, m.path)
	tenant, client := strings.CutPrefix(below, clientPath)
	switch {
	case !ok:
	case below == configurationPath:
		body = map[string]any{
			"issuer": m.issuer, "jwks_uri": strings.TrimRight(m.issuer, "/") + keysPath,
			"response_types_supported": []string{"id_token"}, "subject_types_supported": []string{"public"},
			"id_token_signing_alg_values_supported": []string{m.public.Algorithm},
		}
	case below == keysPath:
		body = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{m.public}}
	case client && registry.ValidTenant(tenant):
		body = map[string]any{
			"client_id": m.ClientID(tenant), "client_name": "Countersign, " + tenant, "client_uri": m.issuer,
			"grant_types": []string{grantClient}, "response_types": []string{}, "redirect_uris": []string{},
			"token_endpoint_auth_method": methodKey, "token_endpoint_auth_signing_alg": m.public.Algorithm,
			"jwks_uri": strings.TrimRight(m.issuer, "/") + keysPath,
		}
	}
	if body == nil {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
		return
	}
	raw, err := json.Marshal(body)
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age=300")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(append(raw, '\n')) // the caller went away
}
