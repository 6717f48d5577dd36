package oauth_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"go.uber.org/goleak"

	"countersign/oauth"
	"countersign/outbound"
	"countersign/registry"
	"countersign/secrets"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// place is an issuer and a protected server of a test, at two origins, and a third one
// that nobody may be led to. What they answer can be replaced by path.
type place struct {
	issuer, server, stranger *httptest.Server

	mu       sync.Mutex
	metadata map[string]any              // of the issuer, besides the usual ones; nil removes one
	resource map[string]any              // of the server; nil: it has none
	answers  map[string]http.HandlerFunc // by path, at the issuer
	tokens   []url.Values                // that were asked for, with the header
	asked    []string                    // paths, at the issuer
	strange  []string                    // that reached the stranger
	key      *ecdsa.PrivateKey
	now      func() time.Time
}

func newPlace(t *testing.T) *place {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &place{metadata: map[string]any{}, answers: map[string]http.HandlerFunc{}, key: key, now: time.Now}
	p.issuer = httptest.NewServer(http.HandlerFunc(p.serveIssuer))
	p.server = httptest.NewServer(http.HandlerFunc(p.serveServer))
	p.stranger = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.strange = append(p.strange, r.Method+" "+r.URL.Path)
		answer(w, map[string]any{"access_token": "stolen", "token_type": "Bearer"})
	}))
	t.Cleanup(p.issuer.Close)
	t.Cleanup(p.server.Close)
	t.Cleanup(p.stranger.Close)
	return p
}

func (p *place) serveIssuer(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked = append(p.asked, r.URL.Path)
	special, metadata := p.answers[r.URL.Path], maps.Clone(p.metadata)
	p.mu.Unlock()
	switch {
	case special != nil:
		special(w, r)
	case r.URL.Path == "/.well-known/oauth-authorization-server":
		all := map[string]any{
			"issuer": p.issuer.URL, "token_endpoint": p.issuer.URL + "/token", "authorization_endpoint": p.issuer.URL + "/authorize",
			"grant_types_supported": []string{
				"client_credentials", "urn:ietf:params:oauth:grant-type:token-exchange", "urn:ietf:params:oauth:grant-type:jwt-bearer",
			},
			"token_endpoint_auth_methods_supported": []string{"client_secret_basic", "client_secret_post", "private_key_jwt", "none"},
		}
		for name, value := range metadata {
			if all[name] = value; value == nil {
				delete(all, name)
			}
		}
		answer(w, all)
	case r.URL.Path == "/token":
		p.token(w, r)
	default:
		http.NotFound(w, r)
	}
}

func answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

// token gives a good token for whatever resource is asked for.
func (p *place) token(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	form := r.PostForm
	form.Set("_authorization", r.Header.Get("Authorization"))
	p.mu.Lock()
	p.tokens = append(p.tokens, form)
	n := len(p.tokens)
	p.mu.Unlock()
	answer(w, map[string]any{
		"access_token": p.jwt(jwt.Claims{
			Issuer: p.issuer.URL, Audience: jwt.Audience{form.Get("resource")}, ID: fmt.Sprint(n), Expiry: jwt.NewNumericDate(p.now().Add(time.Hour)),
		}),
		"token_type": "Bearer", "expires_in": 3600, "scope": form.Get("scope"),
	})
}

func (p *place) jwt(claims jwt.Claims) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: p.key}, (&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		panic(err)
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		panic(err)
	}
	return text
}

func (p *place) serveServer(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	document := p.resource
	p.mu.Unlock()
	if r.URL.Path == "/.well-known/oauth-protected-resource/mcp" && document != nil {
		answer(w, document)
		return
	}
	http.NotFound(w, r)
}

func (p *place) requests() []url.Values {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]url.Values(nil), p.tokens...)
}

// untouched fails when anything was sent to a stranger.
func (p *place) untouched(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.strange) > 0 {
		t.Errorf("the stranger got %v", p.strange)
	}
}

const theSecret = "s3cr3t/of+the=client"

// options are those of a client with a secret; the HTTP client dials loopback only.
func (p *place) options(t *testing.T) oauth.Options {
	t.Helper()
	guard := outbound.NewGuard(outbound.Options{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	client := guard.Client(outbound.ClientOptions{})
	t.Cleanup(client.CloseIdleConnections)
	return oauth.Options{
		HTTP: client, Resource: p.server.URL + "/mcp", Kind: oauth.ClientCredentials, Issuer: p.issuer.URL,
		ClientID: "the client", Secret: secrets.Secret(theSecret), Owner: "tenant/connection/1",
	}
}

// authorize makes a credential and has it authorise one request.
func authorize(t *testing.T, o oauth.Options) (*oauth.Credential, *http.Request, error) {
	t.Helper()
	c, err := oauth.New(o)
	if err != nil {
		return nil, nil, err
	}
	r := httptest.NewRequest(http.MethodPost, o.Resource, nil)
	return c, r, c.Authorize(t.Context(), r)
}

// refused fails unless the error has the reason, a next step, the phase, and no secret.
func refused(t *testing.T, err error, want registry.Reason) *registry.Error {
	t.Helper()
	e, ok := registry.AsError(err)
	if !ok || e.Reason != want || e.Next == "" || e.Fact("phase") != "authorize" {
		t.Fatalf("%v: %+v, want %s", err, e, want)
	}
	if text := fmt.Sprintf("%+v %+v", *e, e.Facts); strings.Contains(text, "s3cr3t") || strings.Contains(text, "eyJ") || strings.Contains(text, "stolen") {
		t.Errorf("it tells a secret: %s", text)
	}
	return e
}

func ecKey(t *testing.T, curve elliptic.Curve) *oauth.Key {
	t.Helper()
	private, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return parseKey(t, pemOf(t, private))
}

func pemOf(t *testing.T, private any) string {
	t.Helper()
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}

func parseKey(t *testing.T, text string) *oauth.Key {
	t.Helper()
	key, err := oauth.ParseKey(secrets.Secret(text))
	if err != nil {
		t.Fatal(err)
	}
	return key
}
