package issuer_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"countersign/cmd/internal/issuer"
)

const verifier = "a-verifier-of-the-client-that-is-long-enough-for-it"

// house is an issuer on a listener, with a clock that a test sets.
type house struct {
	*issuer.Issuer

	url  string
	file string
	mu   sync.Mutex
	at   time.Time
}

func (h *house) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at
}

func (h *house) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at = h.at.Add(d)
}

var alice = issuer.User{Subject: "alice", Tenant: "default", Roles: []string{"Operator"}, Scopes: []string{"read", "admin"}}

func open(t *testing.T, file string) *house {
	t.Helper()
	h := &house{file: file, at: time.Now()}
	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	h.url = server.URL + "/dev"
	var err error
	h.Issuer, err = issuer.New(issuer.Options{
		URL: h.url, File: file, Audience: "api", Users: []issuer.User{alice}, Now: h.now,
		Clients: []issuer.Client{{ID: "cli", Redirects: []string{"http://127.0.0.1/callback"}}, {ID: "web", Redirects: []string{"http://127.0.0.1:8080/done"}}, {ID: "pages", Redirects: []string{"http://127.0.0.1:8080/console/"}, Remembers: true}},
		Services: []issuer.Service{{ID: "robot", As: issuer.User{Subject: "robot", Tenant: "default", Scopes: []string{"internal"}}}, {
			ID: "visitor", As: issuer.User{Subject: "visitor", Scopes: []string{"tools"}}, Resources: []string{"http://a.example/mcp", "http://b.example/mcp"},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	handler = h.Handler()
	return h
}

func fresh(t *testing.T) *house {
	t.Helper()
	return open(t, filepath.Join(t.TempDir(), "issuer.json"))
}

// asking is a good authorization request.
func asking() url.Values {
	sum := sha256.Sum256([]byte(verifier))
	return url.Values{
		"client_id": {"cli"}, "redirect_uri": {"http://127.0.0.1:5555/callback"}, "response_type": {"code"}, "scope": {"openid offline_access"},
		"state": {"the-state"}, "nonce": {"the-nonce"}, "code_challenge_method": {"S256"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])},
	}
}

var still = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// post sends a form and gives the answer, without going where it leads.
func (h *house) post(t *testing.T, path string, form url.Values) (int, http.Header, map[string]any) {
	t.Helper()
	response, err := still.PostForm(h.url+path, form)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	body := map[string]any{}
	_ = json.Unmarshal(raw, &body) // not all of it is JSON
	return response.StatusCode, response.Header, body
}

// code signs alice in.
func (h *house) code(t *testing.T, change url.Values) string {
	t.Helper()
	form := asking()
	form.Set("user", "default/alice")
	maps.Copy(form, change)
	status, header, _ := h.post(t, "/authorize", form)
	to, err := url.Parse(header.Get("Location"))
	if err != nil || status != http.StatusSeeOther || to.Query().Get("code") == "" {
		t.Fatalf("signing in comes to %d %s", status, to)
	}
	if q := to.Query(); q.Get("state") != "the-state" || q.Get("iss") != h.url || !strings.HasPrefix(to.String(), form.Get("redirect_uri")+"?") {
		t.Errorf("the browser is sent to %s", to)
	}
	return to.Query().Get("code")
}

func redeeming(code string) url.Values {
	return url.Values{
		"grant_type": {"authorization_code"}, "client_id": {"cli"}, "redirect_uri": {"http://127.0.0.1:5555/callback"}, "code": {code}, "code_verifier": {verifier},
	}
}

func TestACodeGivesTokensOnce(t *testing.T) {
	t.Parallel()
	h := fresh(t)
	code := h.code(t, nil)
	status, header, tokens := h.post(t, "/token", redeeming(code))
	if status != http.StatusOK || header.Get("Cache-Control") != "no-store" || tokens["token_type"] != "Bearer" || tokens["expires_in"] != 900.0 {
		t.Fatalf("the code comes to %d %v", status, tokens)
	}
	access := h.read(t, tokens["access_token"], "at+jwt")
	if access["sub"] != "alice" || access["tenant"] != "default" || access["scope"] != "read admin" || access["iss"] != h.url || access["client_id"] != "cli" {
		t.Errorf("the access token says %v", access)
	}
	if id := h.read(t, tokens["id_token"], "JWT"); id["nonce"] != "the-nonce" || id["aud"] == access["aud"] {
		t.Errorf("the ID token says %v", id)
	}
	if status, _, body := h.post(t, "/token", redeeming(code)); status != http.StatusBadRequest || body["error"] != "invalid_grant" {
		t.Errorf("the used code comes to %d %v", status, body)
	}
}

// read checks a token with the keys that the issuer shows.
func (h *house) read(t *testing.T, text any, kind string) map[string]any {
	t.Helper()
	response, err := http.Get(h.url + "/keys")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var set jose.JSONWebKeySet
	if err := json.NewDecoder(response.Body).Decode(&set); err != nil || len(set.Keys) != 1 || !set.Keys[0].IsPublic() {
		t.Fatalf("the keys are %v, %v", set, err)
	}
	raw, _ := text.(string)
	token, err := jwt.ParseSigned(raw, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string]any{}
	if err := token.Claims(set, &claims); err != nil {
		t.Fatal(err)
	}
	if got := token.Headers[0].ExtraHeaders[jose.HeaderType]; got != kind {
		t.Errorf("the type is %v", got)
	}
	return claims
}

// A code is good for whom it was given, where it was sent, with the proof that
// belongs to it, and for a minute; a wrong try spends it.
func TestACodeIsOfNoUseToOthers(t *testing.T) {
	t.Parallel()
	h := fresh(t)
	for name, change := range map[string]url.Values{
		"another client": {"client_id": {"web"}}, "another redirect": {"redirect_uri": {"http://127.0.0.1:5556/callback"}}, "no proof": {"code_verifier": nil},
		"another proof": {"code_verifier": {strings.ToUpper(verifier)}}, "the challenge as proof": {"code_verifier": asking()["code_challenge"]},
	} {
		code := h.code(t, nil)
		form := redeeming(code)
		maps.Copy(form, change)
		if status, _, body := h.post(t, "/token", form); status != http.StatusBadRequest || body["error"] != "invalid_grant" {
			t.Errorf("%s comes to %d %v", name, status, body)
		}
		if status, _, _ := h.post(t, "/token", redeeming(code)); status != http.StatusBadRequest {
			t.Errorf("after %s the code is still good", name)
		}
	}
	code := h.code(t, nil)
	h.pass(time.Minute)
	if status, _, _ := h.post(t, "/token", redeeming(code)); status != http.StatusBadRequest {
		t.Error("a code is good for more than a minute")
	}
}

// B14: codes go to redirects that are registered, compared whole.
func TestCodesGoNowhereElse(t *testing.T) {
	t.Parallel()
	h := fresh(t)
	get := func(change url.Values) (int, string) {
		form := asking()
		maps.Copy(form, change)
		response, err := still.Get(h.url + "/authorize?" + form.Encode())
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode, response.Header.Get("Location")
	}
	if status, _ := get(nil); status != http.StatusOK {
		t.Fatalf("a good request comes to %d", status)
	}
	if status, _ := get(url.Values{"client_id": {"web"}, "redirect_uri": {"http://127.0.0.1:8080/done"}}); status != http.StatusOK {
		t.Errorf("the other client's comes to %d", status)
	}
	for _, redirect := range []string{
		"", "http://evil.example.com/callback", "https://127.0.0.1:5555/callback", "http://127.0.0.1:5555/callback/x", "http://127.0.0.1:5555/callback?x=1",
		"http://127.0.0.1:5555/callback#x", "http://127.0.0.1:5555@evil.example.com/callback", "http://evil.example.com:80/callback", "http://127.0.0.1.evil.example.com:80/callback",
		"http://user@127.0.0.1:5555/callback", "http://localhost:5555/callback", "http://127.0.0.1:/callback", "http://127.0.0.1:5555/CALLBACK", "http://127.0.0.1:5555/./callback",
		"//127.0.0.1:5555/callback", "javascript:alert(1)", "http://127.0.0.1:5555\\@evil.example.com/callback", "http://[::1]:5555/callback", "HTTP://127.0.0.1:5555/callback",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			status, to := get(url.Values{"redirect_uri": {redirect}})
			if method == http.MethodPost {
				form := asking()
				form.Set("redirect_uri", redirect)
				form.Set("user", "default/alice")
				s, header, _ := h.post(t, "/authorize", form)
				status, to = s, header.Get("Location")
			}
			if status != http.StatusBadRequest || to != "" {
				t.Errorf("%s %q comes to %d %s", method, redirect, status, to)
			}
		}
	}
	for name, change := range map[string]url.Values{
		"an unknown client": {"client_id": {"nobody"}}, "a redirect for any port of a client with one": {"client_id": {"web"}, "redirect_uri": {"http://127.0.0.1:8081/done"}},
		"two redirects":           {"redirect_uri": {"http://127.0.0.1:5555/callback", "http://127.0.0.1:5555/callback"}},
		"a person in the address": {"user": {"default/alice", "default/alice"}},
	} {
		if status, to := get(change); status != http.StatusBadRequest || to != "" {
			t.Errorf("%s comes to %d %s", name, status, to)
		}
	}
	// The client itself is told the rest.
	for name, change := range map[string]url.Values{
		"no PKCE": {"code_challenge": nil}, "the plain method": {"code_challenge_method": {"plain"}}, "a short challenge": {"code_challenge": {"short"}},
		"a token at once": {"response_type": {"token"}},
	} {
		status, to := get(change)
		if status != http.StatusSeeOther || !strings.HasPrefix(to, "http://127.0.0.1:5555/callback?error=") || strings.Contains(to, "code=") {
			t.Errorf("%s comes to %d %s", name, status, to)
		}
	}
}

// A refresh token works once; in two pairs of hands it ends the sign-in.
func TestRefreshTokensRotate(t *testing.T) {
	t.Parallel()
	h := fresh(t)
	signIn := func() string {
		_, _, tokens := h.post(t, "/token", redeeming(h.code(t, nil)))
		return tokens["refresh_token"].(string)
	}
	refresh := func(h *house, token, client string) (int, string) {
		status, _, tokens := h.post(t, "/token", url.Values{"grant_type": {"refresh_token"}, "client_id": {client}, "refresh_token": {token}})
		next, _ := tokens["refresh_token"].(string)
		return status, next
	}
	first := signIn()
	if status, _ := refresh(h, first, "web"); status != http.StatusBadRequest {
		t.Errorf("by another client it comes to %d", status)
	}
	status, second := refresh(h, first, "cli")
	if status != http.StatusOK || second == first {
		t.Fatalf("it comes to %d", status)
	}
	again := open(t, h.file) // after a restart
	status, third := refresh(again, second, "cli")
	if status != http.StatusOK {
		t.Fatalf("after a restart it comes to %d", status)
	}
	if status, _ := refresh(again, first, "cli"); status != http.StatusBadRequest {
		t.Errorf("the used one comes to %d", status)
	}
	if status, _ := refresh(again, third, "cli"); status != http.StatusBadRequest {
		t.Errorf("after that the good one comes to %d", status)
	}
	over := signIn()
	if status, _, _ := h.post(t, "/revoke", url.Values{"client_id": {"cli"}, "token": {over}}); status != http.StatusOK {
		t.Errorf("ending it comes to %d", status)
	}
	if status, _ := refresh(h, over, "cli"); status != http.StatusBadRequest {
		t.Errorf("an ended one comes to %d", status)
	}
	late := signIn()
	h.pass(31 * 24 * time.Hour)
	if status, _ := refresh(h, late, "cli"); status != http.StatusBadRequest {
		t.Errorf("one of last month comes to %d", status)
	}
	raw, err := os.ReadFile(h.file)
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{first, second, third, over, late} {
		if strings.Contains(string(raw), token) {
			t.Error("a refresh token is in the file")
		}
	}
}

func TestServicesHaveSecrets(t *testing.T) {
	t.Parallel()
	h := fresh(t)
	for name, c := range map[string]struct {
		id, secret string
		status     int
	}{
		"the right one": {"robot", h.Secret("robot"), http.StatusOK}, "a wrong one": {"robot", "guess", http.StatusUnauthorized}, "none": {"robot", "", http.StatusUnauthorized},
		"no service": {"cli", "", http.StatusUnauthorized}, "nobody": {"", "", http.StatusUnauthorized},
	} {
		form := url.Values{"grant_type": {"client_credentials"}, "client_id": {c.id}, "client_secret": {c.secret}}
		status, _, tokens := h.post(t, "/token", form)
		if status != c.status {
			t.Errorf("%s comes to %d %v", name, status, tokens)
		}
		if status == http.StatusOK && (h.read(t, tokens["access_token"], "at+jwt")["sub"] != "robot" || tokens["refresh_token"] != nil) {
			t.Errorf("%s gives %v", name, tokens)
		}
	}
	if status, _, body := h.post(t, "/token", url.Values{"grant_type": {"password"}}); status != http.StatusBadRequest || body["error"] != "unsupported_grant_type" {
		t.Errorf("a password comes to %d %v", status, body)
	}
}

// A token is for the one server that was asked for, and for no other (RFC 8707).
func TestTokensAreForOneServer(t *testing.T) {
	t.Parallel()
	h := fresh(t)
	ask := func(service string, resources ...string) (int, map[string]any) {
		form := url.Values{"grant_type": {"client_credentials"}, "client_id": {service}, "client_secret": {h.Secret(service)}, "resource": resources}
		status, _, body := h.post(t, "/token", form)
		return status, body
	}
	for name, c := range map[string]struct {
		service   string
		resources []string
	}{
		"no server": {"visitor", nil}, "another": {"visitor", []string{"http://c.example/mcp"}}, "the API": {"visitor", []string{"api"}},
		"two": {"visitor", []string{"http://a.example/mcp", "http://b.example/mcp"}}, "a server for the API's own": {"robot", []string{"http://a.example/mcp"}},
	} {
		if status, body := ask(c.service, c.resources...); status != http.StatusBadRequest || body["error"] != "invalid_target" {
			t.Errorf("%s comes to %d %v", name, status, body)
		}
	}
	if status, _ := ask("robot", "api"); status != http.StatusOK {
		t.Errorf("the API's own by name comes to %d", status)
	}
	_, body := ask("visitor", "http://a.example/mcp")
	token, _ := body["access_token"].(string)
	if g, err := h.Check(token, "http://a.example/mcp"); err != nil || g.Client != "visitor" || len(g.Scopes) != 1 || g.Scopes[0] != "tools" {
		t.Errorf("%+v %v", g, err)
	}
	if _, err := h.Check(token, "http://b.example/mcp"); err == nil {
		t.Error("the other server takes it")
	}
	if _, err := h.Check(token[:len(token)-4]+"AAAA", "http://a.example/mcp"); err == nil {
		t.Error("another signature is taken")
	}
	if _, err := fresh(t).Check(token, "http://a.example/mcp"); err == nil {
		t.Error("another issuer takes it")
	}
	h.pass(time.Hour)
	if _, err := h.Check(token, "http://a.example/mcp"); err == nil {
		t.Error("it is good for ever")
	}
}

// Its file is the owner's alone, and keeps the key: tokens outlive a restart.
func TestTheKeyIsKept(t *testing.T) {
	t.Parallel()
	h := fresh(t)
	token, err := h.Token(alice, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(h.file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("it has mode %v: %v", info.Mode(), err)
	}
	again := open(t, h.file)
	if again.read(t, token, "at+jwt")["sub"] != "alice" || again.Secret("robot") != h.Secret("robot") {
		t.Error("after a restart it is another issuer")
	}
	if err := os.WriteFile(h.file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := issuer.New(issuer.Options{URL: h.url, File: h.file}); err == nil {
		t.Error("a file that cannot be read is taken")
	}
}

// It answers this machine only, by its own names, and no page of another origin.
func TestItAnswersOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	h := fresh(t)
	for name, c := range map[string]struct {
		from, host, origin string
		method             string
		status             int
	}{
		"here":                {"127.0.0.1:1", "127.0.0.1:8080", "", http.MethodGet, http.StatusOK},
		"here by name":        {"[::1]:1", "localhost", "", http.MethodGet, http.StatusOK},
		"another machine":     {"192.168.1.7:1", "127.0.0.1:8080", "", http.MethodGet, http.StatusForbidden},
		"a name that rebinds": {"127.0.0.1:1", "evil.example.com:8080", "", http.MethodGet, http.StatusForbidden},
		"another origin":      {"127.0.0.1:1", "127.0.0.1:8080", "https://evil.example.com", http.MethodPost, http.StatusForbidden},
	} {
		r := httptest.NewRequest(c.method, "/dev/authorize?"+asking().Encode(), nil)
		r.RemoteAddr, r.Host = c.from, c.host
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		w := httptest.NewRecorder()
		h.Handler().ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		if policy := w.Header().Get("Content-Security-Policy"); c.status == http.StatusOK && !strings.Contains(policy, "frame-ancestors 'none'") {
			t.Errorf("%s: the policy is %q", name, policy)
		}
	}
}
