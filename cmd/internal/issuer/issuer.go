// Package issuer is a small OpenID Connect issuer for the development process,
// so that it checks tokens by the same code as production. Whoever reaches it
// can sign in as any of its users: it answers on loopback only, and is part of
// no production program.
package issuer

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// How long things are valid.
const (
	codeLife    = time.Minute
	usualLife   = 15 * time.Minute
	refreshLife = 30 * 24 * time.Hour
)

// maxForm is how many bytes a form may have.
const maxForm = 64 << 10

// User is somebody who can sign in.
type User struct {
	Subject string
	Tenant  string
	Roles   []string
	Scopes  []string
}

// key tells users apart: subjects are a tenant's own.
func (u User) key() string { return u.Tenant + "/" + u.Subject }

// Client is a program of people, which signs them in with a code and PKCE and
// has no secret (RFC 8252).
type Client struct {
	ID string
	// Redirects are where codes may be sent: compared byte for byte, but for the
	// port of a redirect to 127.0.0.1 or ::1 that names none, which is free
	// (RFC 8252, section 7.3).
	Redirects []string
	// Remembers lets a browser that signed in once be answered without the page,
	// until somebody asks for it (prompt=login) or signs out.
	Remembers bool
}

// Service is a program that gets tokens for itself by its secret, which the
// issuer makes and keeps (RFC 6749, section 4.4).
type Service struct {
	ID string
	As User
	// Resources are the servers that its tokens may be for; each request names one
	// (RFC 8707). Empty: they are for the issuer's Audience.
	Resources []string
}

// Options say what an issuer is. All but the last two are required.
type Options struct {
	URL      string // of the issuer; Handler expects requests below its path
	File     string // where key, secrets and grants are kept, readable by the owner alone
	Audience string // for whom access tokens are
	Users    []User
	Clients  []Client
	Services []Service
	Life     time.Duration    // of access tokens by the endpoints; 15 minutes when 0
	Now      func() time.Time // time.Now when nil
}

// Issuer is the issuer. It is safe for concurrent use.
type Issuer struct {
	o      Options
	prefix string // of paths
	store  *store
	signer map[string]jose.Signer // by type of token
	codes  codes
}

// New makes an issuer, with the key and the secrets of its file, or new ones at
// the first start.
func New(o Options) (*Issuer, error) {
	at, err := url.Parse(o.URL)
	if err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Life == 0 {
		o.Life = usualLife
	}
	i := &Issuer{o: o, prefix: strings.TrimRight(at.Path, "/"), signer: map[string]jose.Signer{}}
	if i.store, err = open(o.File, o.Services); err != nil {
		return nil, fmt.Errorf("%s: %w", o.File, err)
	}
	for _, kind := range []string{typeAccess, typeID} {
		i.signer[kind], err = jose.NewSigner(
			jose.SigningKey{Algorithm: jose.ES256, Key: i.store.state.Key}, (&jose.SignerOptions{}).WithType(jose.ContentType(kind)))
		if err != nil {
			return nil, err
		}
	}
	return i, nil
}

// Types of tokens (RFC 9068, section 2.1).
const (
	typeAccess = "at+jwt"
	typeID     = "JWT"
)

// access is what an access token says (RFC 9068, section 2.2).
type access struct {
	jwt.Claims

	Tenant string   `json:"tenant"`
	Roles  []string `json:"roles,omitempty"`
	Scope  string   `json:"scope"`
	Client string   `json:"client_id"`
}

// Token makes an access token of a user, for a life of its own.
func (i *Issuer) Token(u User, life time.Duration) (string, error) {
	return i.accessToken(u, "countersign-dev", i.o.Audience, u.Scopes, life)
}

// Grant is what an access token is good for.
type Grant struct {
	Client  string // that got it
	Scopes  []string
	Expires time.Time
}

// Check reads an access token as the server does that it is for. The error says
// nothing that is the bearer's to know.
func (i *Issuer) Check(token, audience string) (Grant, error) {
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil || len(parsed.Headers) != 1 || parsed.Headers[0].ExtraHeaders[jose.HeaderType] != typeAccess {
		return Grant{}, errors.New("it is no access token of this issuer")
	}
	var said access
	if err := parsed.Claims(i.store.state.Key.Public(), &said); err != nil {
		return Grant{}, errors.New("it is no access token of this issuer")
	}
	if err := said.ValidateWithLeeway(jwt.Expected{Issuer: i.o.URL, AnyAudience: jwt.Audience{audience}, Time: i.o.Now()}, 0); err != nil || said.Expiry == nil {
		return Grant{}, errors.New("it is not for this server, or has expired")
	}
	return Grant{Client: said.Client, Scopes: strings.Fields(said.Scope), Expires: said.Expiry.Time()}, nil
}

// Secret gives the secret of a service.
func (i *Issuer) Secret(service string) string { return i.store.state.Secrets[service] }

func (i *Issuer) accessToken(u User, client, audience string, scopes []string, life time.Duration) (string, error) {
	now := i.o.Now()
	return jwt.Signed(i.signer[typeAccess]).Claims(access{
		Claims: jwt.Claims{
			Issuer: i.o.URL, Subject: u.Subject, Audience: jwt.Audience{audience}, ID: rand.Text(),
			IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(life)),
		},
		Tenant: u.Tenant, Roles: u.Roles, Scope: strings.Join(scopes, " "), Client: client,
	}).Serialize()
}

// idToken says to a client who signed in (OpenID Connect Core 1.0, section 2).
func (i *Issuer) idToken(u User, client, nonce string) (string, error) {
	now := i.o.Now()
	return jwt.Signed(i.signer[typeID]).Claims(struct {
		jwt.Claims

		Nonce string `json:"nonce,omitempty"`
	}{jwt.Claims{
		Issuer: i.o.URL, Subject: u.Subject, Audience: jwt.Audience{client},
		IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(i.o.Life)),
	}, nonce}).Serialize()
}

// Handler serves the issuer below the path of its URL, to callers on this
// machine that ask by a name of loopback.
func (i *Issuer) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+i.prefix+"/.well-known/openid-configuration", i.discovery)
	mux.HandleFunc("GET "+i.prefix+"/keys", i.keys)
	mux.HandleFunc("GET "+i.prefix+"/authorize", i.page)
	mux.HandleFunc("POST "+i.prefix+"/authorize", i.signIn)
	mux.HandleFunc("GET "+i.prefix+"/logout", i.signOut)
	mux.HandleFunc("POST "+i.prefix+"/token", i.token)
	mux.HandleFunc("POST "+i.prefix+"/revoke", i.revoke)
	own := http.NewCrossOriginProtection().Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if !near(r) {
			http.Error(w, "this issuer answers on loopback only", http.StatusForbidden)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		own.ServeHTTP(w, r)
	})
}

// near says whether a request comes from this machine, and asks for it.
func near(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !from.Addr().Unmap().IsLoopback() {
		return false
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	return slices.Contains([]string{"127.0.0.1", "localhost", "::1", "[::1]"}, strings.ToLower(host))
}

// discovery answers with what the issuer can (OpenID Connect Discovery 1.0,
// section 3).
func (i *Issuer) discovery(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, map[string]any{
		"issuer":                                         i.o.URL,
		"authorization_endpoint":                         i.o.URL + "/authorize",
		"token_endpoint":                                 i.o.URL + "/token",
		"revocation_endpoint":                            i.o.URL + "/revoke",
		"end_session_endpoint":                           i.o.URL + "/logout",
		"jwks_uri":                                       i.o.URL + "/keys",
		"response_types_supported":                       []string{"code"},
		"response_modes_supported":                       []string{"query"},
		"grant_types_supported":                          []string{"authorization_code", "refresh_token", "client_credentials"},
		"subject_types_supported":                        []string{"public"},
		"id_token_signing_alg_values_supported":          []string{string(jose.ES256)},
		"code_challenge_methods_supported":               []string{"S256"},
		"token_endpoint_auth_methods_supported":          []string{"none", "client_secret_basic", "client_secret_post"},
		"scopes_supported":                               []string{"openid", "offline_access"},
		"authorization_response_iss_parameter_supported": true,
	})
}

func (i *Issuer) keys(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{i.store.state.Key.Public()}})
}

func reply(w http.ResponseWriter, status int, body any) {
	raw, err := json.Marshal(body)
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(raw, '\n')) // the caller went away
}
