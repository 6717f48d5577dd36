package oauth_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"countersign/mcpclient"
	"countersign/oauth"
	"countersign/registry"
	"countersign/secrets"
)

// A credential is one of the client for MCP.
var _ mcpclient.Credential = (*oauth.Credential)(nil)

// TestATokenIsForTheServer: the request names it, by what it calls itself, and the token
// is shown in the header only, instead of whatever was there.
func TestATokenIsForTheServer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		resource func(server string) map[string]any
		want     string // below the server's origin
	}{
		"no metadata":       {func(string) map[string]any { return nil }, "/mcp"},
		"its URL":           {func(s string) map[string]any { return map[string]any{"resource": s + "/mcp"} }, "/mcp"},
		"its whole origin":  {func(s string) map[string]any { return map[string]any{"resource": s} }, ""},
		"an end of a slash": {func(s string) map[string]any { return map[string]any{"resource": s + "/mcp/"} }, "/mcp/"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			if p.resource = tt.resource(p.server.URL); p.resource != nil {
				p.resource["authorization_servers"] = []string{"https://other.example", p.issuer.URL}
			}
			o := p.options(t)
			o.Scopes = []string{"b", "a", "b"}
			c, err := oauth.New(o)
			if err != nil {
				t.Fatal(err)
			}
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, o.Resource, nil)
			r.Header.Set("Authorization", "Bearer of-a-caller")
			if err := c.Authorize(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			form := p.requests()[0]
			if form.Get("resource") != p.server.URL+tt.want || form.Get("grant_type") != "client_credentials" || form.Get("scope") != "a b" {
				t.Error(form)
			}
			shown := r.Header["Authorization"]
			if len(shown) != 1 || !strings.HasPrefix(shown[0], "Bearer eyJ") || r.URL.String() != o.Resource {
				t.Error(shown, r.URL)
			}
			for _, form := range p.requests() {
				for name, values := range form {
					if strings.Contains(strings.Join(values, " "), "of-a-caller") {
						t.Errorf("the caller's token went on as %s", name)
					}
				}
			}
			token := strings.TrimPrefix(shown[0], "Bearer ")
			for _, secret := range []string{token, theSecret, "s3cr3t%2Fof%2Bthe%3Dclient"} {
				if got := c.Mask("it is " + secret + "."); got != "it is [masked]." {
					t.Errorf("%s", got)
				}
			}
		})
	}
}

// TestASecretIsShownAsTheIssuerWantsIt: in the header, else in the form.
func TestASecretIsShownAsTheIssuerWantsIt(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		methods any
		header  bool
		refused registry.Reason
	}{
		"both":            {[]string{"client_secret_post", "client_secret_basic"}, true, ""},
		"it does not say": {nil, true, ""},
		"post":            {[]string{"client_secret_post"}, false, ""},
		"neither":         {[]string{"private_key_jwt", "none"}, false, registry.ReasonUnsupportedGrant},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.metadata["token_endpoint_auth_methods_supported"] = tt.methods
			_, _, err := authorize(t, p.options(t))
			if tt.refused != "" {
				refused(t, err, tt.refused)
				if len(p.requests()) > 0 {
					t.Error("the secret was sent")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			form := p.requests()[0]
			r := http.Request{Header: http.Header{"Authorization": {form.Get("_authorization")}}}
			id, secret, header := r.BasicAuth()
			if header != tt.header || header && (id != "the+client" || secret != "s3cr3t%2Fof%2Bthe%3Dclient") ||
				!header && (form.Get("client_id") != "the client" || form.Get("client_secret") != theSecret) ||
				header && form.Has("client_secret") {
				t.Error(form)
			}
		})
	}
}

// TestAKeySignsForTheIssuerAlone, in the way that both can, and only for a minute.
func TestAKeySignsForTheIssuerAlone(t *testing.T) {
	t.Parallel()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	jwk, err := json.Marshal(jose.JSONWebKey{Key: rsaKey, KeyID: "the kid", Algorithm: "PS256", Use: "sig"})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		key       string
		public    any
		offered   []string
		algorithm string
		id        string
		refused   registry.Reason
	}{
		"RSA":                  {pemOf(t, rsaKey), rsaKey.Public(), nil, "RS256", "", ""},
		"RSA, PS256 only":      {pemOf(t, rsaKey), rsaKey.Public(), []string{"PS256", "ES256"}, "PS256", "", ""},
		"RSA as a JWK":         {string(jwk), rsaKey.Public(), nil, "PS256", "the kid", ""},
		"ECDSA":                {pemOf(t, p256), p256.Public(), []string{"RS256", "ES256"}, "ES256", "", ""},
		"ECDSA, P-384":         {pemOf(t, p384), p384.Public(), nil, "ES384", "", ""},
		"Ed25519":              {pemOf(t, edKey), edKey.Public(), nil, "EdDSA", "", ""},
		"nothing in common":    {pemOf(t, edKey), edKey.Public(), []string{"ES256"}, "", "", registry.ReasonUnsupportedGrant},
		"none is no agreement": {pemOf(t, edKey), edKey.Public(), []string{"none"}, "", "", registry.ReasonUnsupportedGrant},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			if tt.offered != nil {
				p.metadata["token_endpoint_auth_signing_alg_values_supported"] = tt.offered
			}
			o := p.options(t)
			o.Kind, o.Secret, o.Key = oauth.PrivateKeyJWT, secrets.Value{}, parseKey(t, tt.key)
			c, _, err := authorize(t, o)
			if tt.refused != "" {
				refused(t, err, tt.refused)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			form := p.requests()[0]
			assertion := form.Get("client_assertion")
			parsed, err := jwt.ParseSigned(assertion, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(tt.algorithm)})
			if err != nil {
				t.Fatal(err)
			}
			var claims jwt.Claims
			if err := parsed.Claims(tt.public, &claims); err != nil {
				t.Fatal(err)
			}
			life := claims.Expiry.Time().Sub(claims.IssuedAt.Time())
			if claims.Issuer != "the client" || claims.Subject != "the client" || len(claims.Audience) != 1 || claims.Audience[0] != p.issuer.URL ||
				claims.ID == "" || life != time.Minute || parsed.Headers[0].KeyID != tt.id {
				t.Errorf("%+v %+v", claims, parsed.Headers)
			}
			if form.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" || form.Has("client_secret") || form.Get("_authorization") != "" {
				t.Error(form)
			}
			if got := c.Mask(assertion); got != "[masked]" {
				t.Error(got)
			}
			line, _, _ := strings.Cut(strings.TrimSpace(tt.key), "\n")
			if strings.HasPrefix(tt.key, "-----") {
				line = strings.Split(tt.key, "\n")[1]
			}
			if got := c.Mask(line); got != "[masked]" {
				t.Errorf("the key is not masked: %s", got)
			}
		})
	}
}

// TestABadKeyIsRefused without a word of it.
func TestABadKeyIsRefused(t *testing.T) {
	t.Parallel()
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := json.Marshal(jose.JSONWebKey{Key: p224.Public()})
	if err == nil {
		t.Fatal("P-224 became a JWK")
	}
	for name, text := range map[string]string{
		"empty": "", "text": "s3cr3t", "half PEM": "-----BEGIN PRIVATE KEY-----\ns3cr3t", "short RSA": pemOf(t, weak), "P-224": pemOf(t, p224),
		"public": string(public), "a symmetric JWK": `{"kty":"oct","k":"s3cr3ts3cr3ts3cr3t"}`, "two": pemOf(t, p224) + pemOf(t, p224),
		"a public JWK": `{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}`,
	} {
		_, err := oauth.ParseKey(secrets.Secret(text))
		refused(t, err, registry.ReasonKeyUnusable)
		_ = name
	}
}

// TestATokenIsExchanged for one that is for the server (RFC 8693).
func TestATokenIsExchanged(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	o := p.options(t)
	subject := p.jwt(jwt.Claims{Subject: "workload"})
	o.Kind, o.Assertion, o.Audience = oauth.TokenExchange, oauth.Fixed(secrets.Secret(subject+"\n")), "api://server"
	c, _, err := authorize(t, o)
	if err != nil {
		t.Fatal(err)
	}
	form := p.requests()[0]
	if form.Get("grant_type") != "urn:ietf:params:oauth:grant-type:token-exchange" || form.Get("subject_token") != subject ||
		form.Get("subject_token_type") != "urn:ietf:params:oauth:token-type:jwt" || form.Get("resource") != o.Resource ||
		form.Get("audience") != "api://server" || form.Get("_authorization") == "" {
		t.Error(form)
	}
	if c.Mask(subject) != "[masked]" {
		t.Error("the subject's token is not masked")
	}
}

// TestAWorkloadShowsItsToken, in the way that the issuer offers.
func TestAWorkloadShowsItsToken(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		grants, methods []string
		grant, where    string
		refused         registry.Reason
	}{
		"client assertion": {[]string{"client_credentials"}, []string{"private_key_jwt"}, "client_credentials", "client_assertion", ""},
		"jwt-bearer":       {[]string{"urn:ietf:params:oauth:grant-type:jwt-bearer"}, []string{"none"}, "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion", ""},
		"exchange":         {[]string{"urn:ietf:params:oauth:grant-type:token-exchange"}, []string{"none"}, "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token", ""},
		"none of them":     {[]string{"client_credentials", "password"}, []string{"client_secret_basic"}, "", "", registry.ReasonUnsupportedGrant},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.metadata["grant_types_supported"], p.metadata["token_endpoint_auth_methods_supported"] = tt.grants, tt.methods
			o := p.options(t)
			o.Kind, o.Secret, o.ClientID, o.Assertion = oauth.WorkloadIdentity, secrets.Value{}, "workload", oauth.Fixed(secrets.Secret("first.projected.token\n"))
			_, _, err := authorize(t, o)
			if tt.refused != "" {
				refused(t, err, tt.refused)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			form := p.requests()[0]
			if form.Get("grant_type") != tt.grant || form.Get(tt.where) != "first.projected.token" || form.Get("resource") != o.Resource || form.Get("client_id") != "workload" {
				t.Error(form)
			}
			for _, none := range []string{"no token\nat all", "", " \n", strings.Repeat("a", 17<<10)} {
				o.Assertion = oauth.Fixed(secrets.Secret(none))
				_, _, err = authorize(t, o)
				refused(t, err, registry.ReasonSecretRefUnresolved)
			}
			if n := len(p.requests()); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// TestAClientIsRegistered only where that is configured, once, and shown to its issuer
// alone.
func TestAClientIsRegistered(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.metadata["registration_endpoint"] = p.issuer.URL + "/register"
	registrations := 0
	p.answers["/register"] = func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		_ = json.NewDecoder(r.Body).Decode(&body)
		registrations++
		if body["client_name"] != "Countersign" || body["token_endpoint_auth_method"] != "client_secret_basic" {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"client_id":"given","client_secret":"given s3cr3t"}`))
	}
	o := p.options(t)
	o.ClientID, o.Secret, o.Cache = "", secrets.Value{}, new(oauth.Cache)
	if _, err := oauth.New(o); err == nil {
		t.Error("a client without an id is taken")
	}
	o.Registration = &oauth.Registration{Name: "Countersign"}
	var both sync.WaitGroup // at once: they are one client all the same
	for _, scope := range []string{"c", "d"} {
		both.Go(func() {
			o := o
			o.Scopes = []string{scope}
			if _, _, err := authorize(t, o); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	p.mu.Lock()
	p.tokens = nil
	p.mu.Unlock()
	for _, scope := range []string{"a", "b"} {
		o.Scopes = []string{scope}
		c, _, err := authorize(t, o)
		if err != nil {
			t.Fatal(err)
		}
		if c.Mask("given s3cr3t") != "[masked]" {
			t.Error("the secret that was given is not masked")
		}
	}
	if registrations != 1 || len(p.requests()) != 2 || !strings.HasPrefix(p.requests()[1].Get("_authorization"), "Basic ") {
		t.Error(registrations, p.requests())
	}
	p.metadata["registration_endpoint"] = p.stranger.URL + "/register"
	o.Owner = "another"
	_, _, err := authorize(t, o)
	refused(t, err, registry.ReasonIssuerMismatch)
	p.untouched(t)
}

// TestOptionsAreChecked before anything is asked.
func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for name, change := range map[string]func(*oauth.Options){
		"no client":         func(o *oauth.Options) { o.HTTP = nil },
		"no kind":           func(o *oauth.Options) { o.Kind = "password" },
		"no secret":         func(o *oauth.Options) { o.Secret = secrets.Value{} },
		"no key":            func(o *oauth.Options) { o.Kind = oauth.PrivateKeyJWT },
		"no subject":        func(o *oauth.Options) { o.Kind = oauth.TokenExchange },
		"no issuer":         func(o *oauth.Options) { o.Issuer = "" },
		"two scopes in one": func(o *oauth.Options) { o.Scopes = []string{"a b"} },
		"a line in the id":  func(o *oauth.Options) { o.ClientID = "a\nb" },
		"a secret URL":      func(o *oauth.Options) { o.Resource = "https://user:s3cr3t@host/" },
	} {
		o := p.options(t)
		change(&o)
		_, err := oauth.New(o)
		if e, ok := registry.AsError(err); !ok || strings.Contains(e.Message, "s3cr3t") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTheEndOfTheCallerIsItsOwn: the issuer's slowness is a dependency's.
func TestTheEndOfTheCallerIsItsOwn(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	reached := make(chan struct{})
	gone := make(chan struct{})
	p.answers["/token"] = func(_ http.ResponseWriter, _ *http.Request) {
		close(reached)
		<-gone
	}
	c, err := oauth.New(p.options(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-reached
		cancel()
	}()
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, p.server.URL, nil)
	refused(t, c.Authorize(ctx, r), registry.ReasonDependency)
	close(gone)
}
