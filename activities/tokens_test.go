package activities_test

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"countersign/activities"
	"countersign/mcpclient"
	"countersign/oauth"
	"countersign/outbound"
	"countersign/registry"
	"countersign/secrets"
)

const (
	clientSecret = "client-secret-of-acme"
	givenSecret  = "secret-that-the-issuer-gave"
)

// authority is an issuer that gives a token to whoever asks, for the resource that is
// asked for.
type authority struct {
	*httptest.Server

	mu     sync.Mutex
	tokens string       // endpoint; empty: its own
	bodies []url.Values // of registrations
	forms  []url.Values
	away   bool
	denies bool
}

func newAuthority(t *testing.T, serve func(http.Handler) *httptest.Server) *authority {
	t.Helper()
	a := &authority{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		a.mu.Lock()
		tokens := cmp.Or(a.tokens, a.URL+"/token")
		a.mu.Unlock()
		_ = json.NewEncoder(typed(w)).Encode(map[string]any{
			"issuer": a.URL, "token_endpoint": tokens, "registration_endpoint": a.URL + "/register",
			"grant_types_supported": []string{
				"client_credentials", "urn:ietf:params:oauth:grant-type:token-exchange", "urn:ietf:params:oauth:grant-type:jwt-bearer",
			},
			"token_endpoint_auth_methods_supported": []string{"client_secret_basic", "private_key_jwt", "none"},
		})
	})
	mux.HandleFunc("POST /register", func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		_ = json.NewDecoder(r.Body).Decode(&body)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.bodies = append(a.bodies, url.Values{
			"authorization": r.Header["Authorization"], "name": {fmt.Sprint(body["client_name"])}, "method": {fmt.Sprint(body["token_endpoint_auth_method"])},
		})
		typed(w).WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]any{"client_id": fmt.Sprintf("given-%d", len(a.bodies)), "client_secret": givenSecret})
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		r.PostForm.Set("authorization", r.Header.Get("Authorization"))
		a.mu.Lock()
		defer a.mu.Unlock()
		a.forms = append(a.forms, r.PostForm)
		switch {
		case a.away:
			http.Error(w, "later", http.StatusServiceUnavailable)
		case a.denies:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":"invalid_client","error_description":"` + clientSecret + `"}`))
		default:
			_ = json.NewEncoder(typed(w)).Encode(map[string]any{
				"access_token": fmt.Sprintf("token-%d-for-%s", len(a.forms), strings.NewReplacer(":", "-", "/", "-").Replace(r.PostForm.Get("resource"))),
				"token_type":   "Bearer", "expires_in": 3600,
			})
		}
	})
	a.Server = serve(mux)
	t.Cleanup(a.Close)
	return a
}

func typed(w http.ResponseWriter) http.ResponseWriter {
	w.Header().Set("Content-Type", "application/json")
	return w
}

func (a *authority) asked() []url.Values {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]url.Values(nil), a.forms...)
}

// tokenBroker may dial loopback, as connections may that say so.
func tokenBroker(t *testing.T, more map[string]string) activities.Broker {
	t.Helper()
	b, _ := broker()
	values := map[string]string{"acme_SECRET": clientSecret, "acme_PLATFORM": "platform.token.of-acme\n", "acme_HEADER": "header-of-acme"}
	maps.Copy(values, more)
	lookup := func(name string) (string, bool) { v, ok := values[name]; return v, ok }
	b.Secrets.Resolver.Sources = map[string]secrets.Source{registry.SchemeEnv: secrets.Env(lookup)}
	b.Networks = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	b.Tokens = new(oauth.Cache)
	guard := outbound.NewGuard(outbound.Options{})
	b.Client = func(way mcpclient.Transport, dialAddress string) *http.Client {
		client := guard.Client(outbound.ClientOptions{
			DialAddress: dialAddress, AllowNetworks: way.AllowNetworks, RootCAs: way.RootCAs, Certificates: way.Certificates,
		})
		t.Cleanup(client.CloseIdleConnections)
		return client
	}
	return b
}

// protected is a server of acme's that takes tokens of an issuer.
func protected(issuer string) registry.Target {
	return registry.Target{
		TenantID: "acme", Connection: "search@3", Transport: registry.TransportStreamableHTTP, Authentication: registry.AuthOAuth2,
		URL: "http://127.0.0.1:1/mcp", Issuer: issuer, AllowedNetworks: []string{"127.0.0.0/8"},
		AuthKind: registry.AuthKindClientCredentials, ClientID: "us", SecretRef: "env:acme_SECRET", Scopes: []string{"read"},
	}
}

// shown gives what a request to a target is authorised with.
func shown(t *testing.T, b activities.Broker, target registry.Target) (mcpclient.Credential, http.Header, error) {
	t.Helper()
	credential, err := b.Credential(t.Context(), target)
	if err != nil {
		return nil, nil, err
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = credential.Authorize(t.Context(), r)
	return credential, r.Header, err
}

func keyOf(t *testing.T, private any) string {
	t.Helper()
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}

func newMint(t *testing.T) *oauth.Mint {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := oauth.ParseKey(secrets.Secret(keyOf(t, private)))
	if err != nil {
		t.Fatal(err)
	}
	mint, err := oauth.NewMint("https://countersign.example.com/workload", key, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	return mint
}

// claims reads a JWT as whoever trusts everybody does.
func claims(t *testing.T, text string) (out jwt.Claims) {
	t.Helper()
	parsed, err := jwt.ParseSigned(text, []jose.SignatureAlgorithm{jose.ES256, jose.RS256})
	if err == nil {
		err = parsed.UnsafeClaimsWithoutVerification(&out)
	}
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return out
}

// Each kind shows the issuer what it should: the connection's secret or key, the
// platform's token, or what our own issuer signs for this tenant and connection.
func TestEachKindGetsATokenInItsWay(t *testing.T) {
	t.Parallel()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	mint := newMint(t)
	issuer := newAuthority(t, httptest.NewServer)
	ours := func(t *testing.T, text, subject string) {
		t.Helper()
		if c := claims(t, text); c.Issuer != mint.Issuer() || c.Subject != subject || len(c.Audience) != 1 || c.Audience[0] != issuer.URL {
			t.Errorf("%+v", c)
		}
	}
	for name, c := range map[string]struct {
		edit  func(*registry.Target)
		check func(t *testing.T, form url.Values)
	}{
		"a secret": {func(*registry.Target) {}, func(t *testing.T, form url.Values) {
			r := http.Request{Header: http.Header{"Authorization": {form.Get("authorization")}}}
			if id, secret, _ := r.BasicAuth(); id != "us" || secret != clientSecret || form.Get("scope") != "read" {
				t.Errorf("%q %q %v", id, secret, form)
			}
		}},
		"a key": {func(k *registry.Target) {
			k.AuthKind, k.SecretRef = registry.AuthKindPrivateKeyJWT, "env:acme_RSA"
		}, func(t *testing.T, form url.Values) {
			if c := claims(t, form.Get("client_assertion")); c.Issuer != "us" || c.Subject != "us" || c.Audience[0] != issuer.URL {
				t.Errorf("%+v", c)
			}
		}},
		"the installation's key": {func(k *registry.Target) {
			k.AuthKind, k.SecretRef, k.ClientID = registry.AuthKindPrivateKeyJWT, "", ""
		}, func(t *testing.T, form url.Values) {
			const id = "https://countersign.example.com/workload/.well-known/oauth-client/acme"
			if c := claims(t, form.Get("client_assertion")); c.Issuer != id || c.Subject != id || form.Get("client_id") != id {
				t.Errorf("%+v %v", c, form)
			}
		}},
		"an exchange": {func(k *registry.Target) {
			k.AuthKind, k.SecretRef = registry.AuthKindTokenExchange, "env:acme_PLATFORM"
		}, func(t *testing.T, form url.Values) {
			if form.Get("subject_token") != "platform.token.of-acme" || form.Get("client_id") != "us" {
				t.Errorf("%v", form)
			}
		}},
		"an exchange of our token": {func(k *registry.Target) {
			k.AuthKind, k.SecretRef = registry.AuthKindTokenExchange, ""
		}, func(t *testing.T, form url.Values) { ours(t, form.Get("subject_token"), "acme/search") }},
		"a workload": {func(k *registry.Target) {
			k.AuthKind, k.SecretRef, k.ClientID = registry.AuthKindWorkloadIdentity, "env:acme_PLATFORM", ""
		}, func(t *testing.T, form url.Values) {
			if form.Get("client_assertion") != "platform.token.of-acme" {
				t.Errorf("%v", form)
			}
		}},
		"a workload by our token": {func(k *registry.Target) {
			k.AuthKind, k.SecretRef = registry.AuthKindWorkloadIdentity, ""
		}, func(t *testing.T, form url.Values) { ours(t, form.Get("client_assertion"), "acme/search") }},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(issuer.asked())
			b := tokenBroker(t, map[string]string{"acme_RSA": keyOf(t, private)})
			b.Mint = mint
			target := protected(issuer.URL)
			c.edit(&target)
			credential, header, err := shown(t, b, target)
			if err != nil {
				t.Fatal(err)
			}
			forms := issuer.asked()[before:]
			got, ok := strings.CutPrefix(header.Get("Authorization"), "Bearer ")
			if len(forms) != 1 || !ok || forms[0].Get("resource") != target.URL {
				t.Fatalf("%v: %v", header, forms)
			}
			c.check(t, forms[0])
			if masked := credential.Mask("it was " + got); masked != "it was [masked]" {
				t.Errorf("%q", masked)
			}
		})
	}
}

// Without an issuer the token is shown to the server itself, so it is made for it.
func TestAWorkloadWithoutAnIssuerShowsTheServerWhoItIs(t *testing.T) {
	t.Parallel()
	b := tokenBroker(t, nil)
	target := protected("")
	target.AuthKind, target.ClientID, target.SecretRef, target.Scopes = registry.AuthKindWorkloadIdentity, "", "", nil
	_, _, err := shown(t, b, target)
	if registry.ReasonOf(err) != registry.ReasonAuthKindUnsupported {
		t.Errorf("without an issuer of ours: %v", err)
	}
	b.Mint = newMint(t)
	_, header, err := shown(t, b, target)
	if err != nil {
		t.Fatal(err)
	}
	c := claims(t, strings.TrimPrefix(header.Get("Authorization"), "Bearer "))
	if c.Issuer != b.Mint.Issuer() || c.Subject != "acme/search" || len(c.Audience) != 1 || c.Audience[0] != target.URL {
		t.Errorf("%+v", c)
	}
	target.SecretRef, target.Connection = "env:acme_PLATFORM", "search@4"
	if _, header, err = shown(t, b, target); err != nil || header.Get("Authorization") != "Bearer platform.token.of-acme" {
		t.Errorf("%v: %v", header, err)
	}
}

// A process asks once for a token that it can keep, and never uses one for another
// tenant, connection or version of it.
func TestTokensAreKeptForTheirOwner(t *testing.T) {
	t.Parallel()
	issuer := newAuthority(t, httptest.NewServer)
	b := tokenBroker(t, map[string]string{"globex_SECRET": clientSecret})
	target := protected(issuer.URL)
	bearer := func(target registry.Target) string {
		t.Helper()
		_, header, err := shown(t, b, target)
		if err != nil {
			t.Fatal(err)
		}
		return header.Get("Authorization")
	}
	first := bearer(target)
	if again := bearer(target); again != first || len(issuer.asked()) != 1 {
		t.Errorf("%d requests", len(issuer.asked()))
	}
	for name, edit := range map[string]func(*registry.Target){
		"version": func(k *registry.Target) { k.Connection = "search@4" }, "connection": func(k *registry.Target) { k.Connection = "other@3" },
		"tenant": func(k *registry.Target) { k.TenantID, k.SecretRef = "globex", "env:globex_SECRET" },
	} {
		other := target
		edit(&other)
		before := len(issuer.asked())
		if bearer(other) == first || len(issuer.asked()) != before+1 {
			t.Errorf("another %s has the same token", name)
		}
	}
	// Whoever may not use the secret any more has no use of the token either.
	b.Secrets.Rules = nil
	if _, _, err := shown(t, b, target); registry.ReasonOf(err) != registry.ReasonSecretRefUnresolved {
		t.Error(err)
	}
}

// A connection that names no client is one that we register, at the issuers that the
// operator named and at no other: by nothing, by the issuer's initial token, or with the
// connection's key. Each connection is a client of its own, once in a process, and what
// it was given is masked.
func TestAClientIsRegisteredWhereTheOperatorSaysSo(t *testing.T) {
	t.Parallel()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	issuer := newAuthority(t, httptest.NewServer)
	b := tokenBroker(t, map[string]string{"acme_RSA": keyOf(t, private)})
	target := protected(issuer.URL)
	target.ClientID, target.SecretRef = "", ""
	for _, issuers := range [][]string{nil, {issuer.URL + "/other"}} {
		b.RegistrationIssuers = issuers
		_, _, err := shown(t, b, target)
		if e, ok := registry.AsError(err); !ok || e.Reason != registry.ReasonInvalidClient || e.Next == "" {
			t.Errorf("with %v: %v", issuers, err)
		}
	}
	if len(issuer.asked()) > 0 || len(issuer.bodies) > 0 {
		t.Fatal("the issuer was asked")
	}
	b.RegistrationIssuers = []string{issuer.URL}
	for range 2 {
		credential, header, err := shown(t, b, target)
		if err != nil || !strings.HasPrefix(header.Get("Authorization"), "Bearer token-") {
			t.Fatalf("%v: %v", header, err)
		}
		target.Scopes = []string{"write"} // another token of the same client
		if len(issuer.asked()) > 1 {
			break
		}
		if said := credential.Mask(givenSecret); strings.Contains(said, givenSecret) {
			t.Error(said)
		}
	}
	r := http.Request{Header: http.Header{"Authorization": {issuer.asked()[1].Get("authorization")}}}
	if id, secret, _ := r.BasicAuth(); id != "given-1" || secret != givenSecret {
		t.Errorf("%q %q", id, secret)
	}
	other := target
	other.Connection, other.SecretRef = "other@1", "env:acme_HEADER"
	keyed := target
	keyed.Connection, keyed.AuthKind, keyed.SecretRef = "keyed@1", registry.AuthKindPrivateKeyJWT, "env:acme_RSA"
	for _, k := range []registry.Target{other, keyed} {
		if _, _, err := shown(t, b, k); err != nil {
			t.Fatal(err)
		}
	}
	got := make([]string, len(issuer.bodies))
	for i, body := range issuer.bodies {
		got[i] = strings.Join([]string{body.Get("name"), body.Get("method"), body.Get("authorization")}, " ")
	}
	want := []string{"Countersign client_secret_basic ", "Countersign client_secret_basic Bearer header-of-acme", "Countersign private_key_jwt "}
	if !slices.Equal(got, want) {
		t.Errorf("registered were %q", got)
	}
	if c := claims(t, issuer.asked()[3].Get("client_assertion")); c.Issuer != "given-3" {
		t.Errorf("%+v", c)
	}
}

// Tokens come from another origin than the issuer's only when the connection says so,
// and through the guard: a network that the connection does not open stays closed.
func TestTokensComeFromWhereTheConnectionSays(t *testing.T) {
	t.Parallel()
	issuer, elsewhere := newAuthority(t, httptest.NewServer), newAuthority(t, httptest.NewServer)
	b := tokenBroker(t, nil)
	target := protected(issuer.URL)
	issuer.tokens = elsewhere.URL + "/token"
	if _, _, err := shown(t, b, target); registry.ReasonOf(err) != registry.ReasonIssuerMismatch || len(elsewhere.asked()) > 0 {
		t.Error(err, elsewhere.asked())
	}
	target.TokenEndpoint = elsewhere.URL + "/token"
	if _, header, err := shown(t, b, target); err != nil || !strings.HasPrefix(header.Get("Authorization"), "Bearer token-1") || len(elsewhere.asked()) != 1 {
		t.Errorf("%v: %v", header, err)
	}
	// The issuer is at 127.0.0.1, which is open, and the endpoint beside it is not.
	issuer.tokens = strings.Replace(elsewhere.URL, "127.0.0.1", "127.0.0.2", 1) + "/token"
	target.TokenEndpoint, target.AllowedNetworks, target.Connection = issuer.tokens, []string{"127.0.0.1/32"}, "search@4"
	if _, _, err := shown(t, b, target); err == nil || len(elsewhere.asked()) != 1 {
		t.Error(err, elsewhere.asked())
	}
}

// Scopes that the connection allows besides are asked for when the server wants them,
// once, and none that it does not allow.
func TestScopesAreSteppedUpAsFarAsTheConnectionLets(t *testing.T) {
	t.Parallel()
	issuer := newAuthority(t, httptest.NewServer)
	b := tokenBroker(t, nil)
	target := protected(issuer.URL)
	target.StepUpScopes = []string{"write"}
	credential, _, err := shown(t, b, target)
	if err != nil {
		t.Fatal(err)
	}
	wants := func(scope string) bool {
		t.Helper()
		r := httptest.NewRequest(http.MethodPost, target.URL, nil)
		if err := credential.Authorize(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		answer := &http.Response{StatusCode: http.StatusForbidden, Request: r, Header: http.Header{
			"Www-Authenticate": {`Bearer error="insufficient_scope", scope="` + scope + `"`},
		}}
		again, err := credential.Refused(t.Context(), answer)
		if err != nil {
			t.Fatal(err)
		}
		return again
	}
	if wants("admin") {
		t.Error("a scope that the connection does not allow is asked for")
	}
	if !wants("read write admin") || wants("write") {
		t.Error("the allowed scope is not asked for once")
	}
	asked := issuer.asked()
	if len(asked) != 2 || asked[0].Get("scope") != "read" || asked[1].Get("scope") != "read write" {
		t.Errorf("asked for were %v", asked)
	}
}

// Header fields that the connection names besides are sent with the token, and masked.
func TestATokenGoesWithOtherHeaders(t *testing.T) {
	t.Parallel()
	issuer := newAuthority(t, httptest.NewServer)
	target := protected(issuer.URL)
	target.Headers = map[string]string{"X-Api-Key": "env:acme_HEADER"}
	credential, header, err := shown(t, tokenBroker(t, nil), target)
	if err != nil || header.Get("X-Api-Key") != "header-of-acme" || !strings.HasPrefix(header.Get("Authorization"), "Bearer token-1") {
		t.Fatalf("%v: %v", header, err)
	}
	if said := credential.Mask("header-of-acme " + clientSecret); strings.Contains(said, "acme") {
		t.Errorf("%q", said)
	}
}

// R204: an issuer that is away can be tried again, and one that refuses us cannot;
// neither is the server's fault, and neither repeats the secret.
func TestIssuersThatGiveNoToken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit func(*authority, *registry.Target)
		want registry.Reason
		code registry.Code
	}{
		"away":       {func(a *authority, _ *registry.Target) { a.Close() }, registry.ReasonDependency, registry.CodeUnavailable},
		"busy":       {func(a *authority, _ *registry.Target) { a.away = true }, registry.ReasonDependency, registry.CodeUnavailable},
		"unwilling":  {func(a *authority, _ *registry.Target) { a.denies = true }, registry.ReasonInvalidClient, registry.CodePrecondition},
		"misspelled": {func(_ *authority, k *registry.Target) { k.Issuer += "/" }, registry.ReasonIssuerMismatch, registry.CodePrecondition},
		"no key": {
			func(_ *authority, k *registry.Target) { k.AuthKind = registry.AuthKindPrivateKeyJWT }, registry.ReasonKeyUnusable, registry.CodePrecondition,
		},
		"another tenant's secret": {
			func(_ *authority, k *registry.Target) { k.SecretRef = "env:globex_SECRET" }, registry.ReasonSecretRefUnresolved, registry.CodePrecondition,
		},
		"behind the guard": {
			func(_ *authority, k *registry.Target) { k.AllowedNetworks = nil }, registry.ReasonDependency, registry.CodeUnavailable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			issuer := newAuthority(t, httptest.NewServer)
			target := protected(issuer.URL)
			c.edit(issuer, &target)
			_, _, err := shown(t, tokenBroker(t, map[string]string{"globex_SECRET": "secret-of-globex"}), target)
			e, ok := registry.AsError(err)
			if !ok || e.Reason != c.want || e.Code != c.code || e.Next == "" {
				t.Fatalf("%v: %+v", err, e)
			}
			if said := fmt.Sprintf("%+v", *e); strings.Contains(said, clientSecret) || strings.Contains(said, "secret-of-globex") {
				t.Errorf("it tells the secret: %s", said)
			}
		})
	}
}

// The server is looked at where it is dialled; the issuer is not there, and our
// certificate is not for it. Of the connection's authorities both are believed.
func TestTheIssuerIsNotWhereTheServerIs(t *testing.T) {
	t.Parallel()
	issuer := newAuthority(t, httptest.NewTLSServer)
	var looked, certificates int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "mcp.example.com" {
			t.Errorf("asked as %s", r.Host)
		}
		looked++
		_ = json.NewEncoder(typed(w)).Encode(map[string]any{"resource": "http://mcp.example.com/mcp", "authorization_servers": []string{issuer.URL}})
	}))
	t.Cleanup(server.Close)
	target := protected(issuer.URL)
	target.URL, target.DialAddress = "http://mcp.example.com/mcp", strings.TrimPrefix(server.URL, "http://")
	target.CABundle = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: issuer.Certificate().Raw}))
	b := tokenBroker(t, nil)
	client, ways := b.Client, []string{}
	b.Client = func(way mcpclient.Transport, dialAddress string) *http.Client {
		ways = append(ways, dialAddress)
		certificates += len(way.Certificates)
		return client(way, dialAddress)
	}
	if _, _, err := shown(t, b, target); err != nil {
		t.Fatal(err)
	}
	if looked != 1 || len(issuer.asked()) != 1 || issuer.asked()[0].Get("resource") != "http://mcp.example.com/mcp" {
		t.Errorf("%d looks, %v", looked, issuer.asked())
	}
	if len(ways) != 2 || ways[0] != target.DialAddress || ways[1] != "" || certificates != 0 {
		t.Errorf("%q", ways)
	}

	// Without the bundle the issuer is not believed.
	target.CABundle, target.Connection = "", "search@4"
	if _, _, err := shown(t, b, target); registry.ReasonOf(err) != registry.ReasonDependency {
		t.Error(err)
	}
}

// Nothing waits longer for an issuer than whoever asks.
func TestAnIssuerThatIsSilentIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	b := tokenBroker(t, nil)
	credential, err := b.Credential(t.Context(), protected("http://"+silent.Addr().String()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = credential.Authorize(ctx, httptest.NewRequest(http.MethodPost, "http://127.0.0.1:1/mcp", nil))
	if registry.ReasonOf(err) != registry.ReasonDependency || ctx.Err() == nil {
		t.Error(err)
	}
}
