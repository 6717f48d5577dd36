package oauth_test

import (
	"crypto/elliptic"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"countersign/oauth"
	"countersign/registry"
)

// TestTokensAreKeptForTheirLife, by owner, issuer, server and scopes, and asked for once
// however many want them.
func TestTokensAreKeptForTheirLife(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	o := p.options(t)
	now := time.Now()
	p.now = func() time.Time { return now }
	o.Cache, o.Now = new(oauth.Cache), p.now
	get := func(change func(*oauth.Options)) string {
		t.Helper()
		o := o
		if change != nil {
			change(&o)
		}
		_, r, err := authorize(t, o)
		if err != nil {
			t.Fatal(err)
		}
		return r.Header.Get("Authorization")
	}
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() { get(nil) })
	}
	group.Wait()
	first := get(nil)
	if n := len(p.requests()); n != 1 {
		t.Errorf("%d tokens were asked for", n)
	}
	for name, change := range map[string]func(*oauth.Options){
		"tenant": func(o *oauth.Options) { o.Owner = "other/connection/1" }, "scopes": func(o *oauth.Options) { o.Scopes = []string{"x"} },
		"server": func(o *oauth.Options) { o.Resource += "/two" }, "client": func(o *oauth.Options) { o.ClientID = "another" },
	} {
		if get(change) == first {
			t.Errorf("another %s has the same token", name)
		}
	}
	now = now.Add(time.Hour - 31*time.Second)
	if get(nil) != first {
		t.Error("it is not kept to the end")
	}
	now = now.Add(2 * time.Second)
	p.answers["/token"] = func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"access_token": "opaque", "token_type": "Bearer", "expires_in": 1 << 40})
	}
	if get(nil) == first {
		t.Error("it is used to the very end")
	}
	now = now.Add(59 * time.Minute)
	p.answers["/token"] = nil
	if get(nil) != "Bearer opaque" {
		t.Error("one that is said to live for ages is not kept")
	}
	now = now.Add(2 * time.Minute)
	p.answers["/token"] = func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"access_token": "brief", "token_type": "Bearer", "expires_in": -1})
	}
	if get(nil) != "Bearer brief" {
		t.Error("one that is said to live for ages is kept for more than an hour")
	}
	p.answers["/token"] = func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"access_token": "next", "token_type": "Bearer"})
	}
	if get(nil) != "Bearer next" {
		t.Error("one that is over already is kept")
	}
	now = now.Add(61 * time.Second)
	p.answers["/token"] = nil
	if get(nil) == "Bearer next" {
		t.Error("one without an end is kept for more than a minute")
	}
}

// TestAFailureIsNotKept: the next use asks again, and each who shared it has its own.
func TestAFailureIsNotKept(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	o := p.options(t)
	o.Cache = new(oauth.Cache)
	p.answers["/token"] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
	_, _, err := authorize(t, o)
	refused(t, err, registry.ReasonDependency)
	p.answers["/token"] = nil
	if _, _, err := authorize(t, o); err != nil {
		t.Error(err)
	}
}

// refusal is an answer of the server to a request.
func refusal(r *http.Request, status int, challenge string) *http.Response {
	return &http.Response{StatusCode: status, Request: r, Header: http.Header{"Www-Authenticate": {challenge}}}
}

// TestARefusedTokenIsReplacedOnce, when others had it before, and not when it is new.
func TestARefusedTokenIsReplacedOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	o := p.options(t)
	o.Cache = new(oauth.Cache)
	fresh, r, err := authorize(t, o)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := fresh.Refused(t.Context(), refusal(r, 401, "Bearer")); again || err != nil {
		t.Errorf("a new token that is refused is replaced: %v", err)
	}
	c, r, err := authorize(t, o) // with the same token
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.Refused(t.Context(), refusal(r, 401, "Bearer")); !again || err != nil {
		t.Fatalf("it is not replaced: %v", err)
	}
	next := httptest.NewRequest(http.MethodPost, o.Resource, nil)
	if err := c.Authorize(t.Context(), next); err != nil || next.Header.Get("Authorization") == r.Header.Get("Authorization") {
		t.Fatal("it is the same", err)
	}
	if again, err := c.Refused(t.Context(), refusal(r, 401, "Bearer")); !again || err != nil {
		t.Error("another request may not use the new one", err)
	}
	if again, err := c.Refused(t.Context(), refusal(next, 401, "Bearer")); again || err != nil {
		t.Error("it is replaced twice", err)
	}
	if n := len(p.requests()); n != 2 {
		t.Errorf("%d tokens", n)
	}
}

// TestScopesAreWidenedOnce, by those that are allowed and wanted.
func TestScopesAreWidenedOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	o := p.options(t)
	o.Scopes, o.StepUp = []string{"read"}, []string{"write", "admin"}
	c, r, err := authorize(t, o)
	if err != nil {
		t.Fatal(err)
	}
	wants := func(scope string) string { return `Bearer error="insufficient_scope", scope="` + scope + `"` }
	if again, _ := c.Refused(t.Context(), refusal(r, 403, wants("root read"))); again {
		t.Error("what is not allowed is asked for")
	}
	if again, _ := c.Refused(t.Context(), refusal(r, 403, "Bearer")); again {
		t.Error("nothing is wanted, and it is sent again")
	}
	if again, err := c.Refused(t.Context(), refusal(r, 403, wants("write root"))); !again || err != nil {
		t.Fatal(err)
	}
	if err := c.Authorize(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if got := p.requests()[1].Get("scope"); got != "read write" {
		t.Error(got)
	}
	if again, _ := c.Refused(t.Context(), refusal(r, 403, wants("admin"))); again {
		t.Error("it is widened twice")
	}
}

// TestAServerThatPointsElsewhereIsNotFollowed: its metadata are looked for at its own
// origin, and judged before another token is asked for.
func TestAServerThatPointsElsewhereIsNotFollowed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	c, r, err := authorize(t, p.options(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{p.stranger.URL + "/meta", "javascript:alert(1)", "file:///etc/passwd", `\\host\x`} {
		if again, err := c.Refused(t.Context(), refusal(r, 401, `Bearer resource_metadata="`+at+`"`)); again || err != nil {
			t.Error(again, err)
		}
	}
	p.untouched(t)
	p.mu.Lock()
	p.resource = map[string]any{"resource": p.server.URL + "/mcp", "authorization_servers": []string{p.stranger.URL}}
	p.mu.Unlock()
	_, err = c.Refused(t.Context(), refusal(r, 401, `Bearer resource_metadata="`+p.server.URL+`/.well-known/oauth-protected-resource/mcp"`))
	refused(t, err, registry.ReasonIssuerMismatch)
	p.untouched(t)
}

// TestOurOwnIssuer makes tokens that others can check by what it publishes, for one
// audience and a short time; and says what client we are.
func TestOurOwnIssuer(t *testing.T) {
	t.Parallel()
	var mint *oauth.Mint
	ours := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { mint.ServeHTTP(w, r) }))
	t.Cleanup(ours.Close)
	now := time.Now()
	var err error
	if mint, err = oauth.NewMint(ours.URL+"/base", ecKey(t, elliptic.P256()), 0, func() time.Time { return now }); err != nil {
		t.Fatal(err)
	}
	read := func(at string, into any) {
		t.Helper()
		resp, err := ours.Client().Get(at)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if err := json.NewDecoder(resp.Body).Decode(into); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(at, resp.Status, err)
		}
	}
	var metadata struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	read(ours.URL+"/base/.well-known/openid-configuration", &metadata)
	var keys jose.JSONWebKeySet
	read(metadata.Keys, &keys)
	if metadata.Issuer != mint.Issuer() || len(keys.Keys) != 1 || !keys.Keys[0].IsPublic() {
		t.Fatalf("%+v %+v", metadata, keys)
	}
	p := newPlace(t)
	o := p.options(t)
	o.Kind, o.Issuer, o.Assertion = oauth.WorkloadIdentity, "", mint.Assertion("tenant/server")
	_, r, err := authorize(t, o)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jwt.ParseSigned(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	var claims jwt.Claims
	if err := parsed.Claims(keys.Keys[0], &claims); err != nil || parsed.Headers[0].KeyID != keys.Keys[0].KeyID {
		t.Fatal(err)
	}
	if err := claims.Validate(jwt.Expected{Issuer: mint.Issuer(), Subject: "tenant/server", AnyAudience: jwt.Audience{o.Resource}, Time: now}); err != nil {
		t.Error(err)
	}
	if len(claims.Audience) != 1 || claims.Expiry.Time().Sub(claims.IssuedAt.Time()) != 5*time.Minute || len(p.requests()) != 0 {
		t.Errorf("%+v", claims)
	}
	var document map[string]any
	read(mint.ClientID("acme"), &document)
	if document["client_id"] != mint.ClientID("acme") || document["token_endpoint_auth_method"] != "private_key_jwt" || document["jwks_uri"] != metadata.Keys {
		t.Errorf("%v", document)
	}
	resp, err := ours.Client().Post(metadata.Keys, "", nil)
	if err != nil || resp.StatusCode != http.StatusMethodNotAllowed {
		t.Error(resp.Status, err)
	}
	_ = resp.Body.Close()
	for _, nowhere := range []string{ours.URL + "/base/token", mint.ClientID(""), mint.ClientID("No.Tenant"), mint.ClientID("a/b")} {
		if resp, err = ours.Client().Get(nowhere); err != nil || resp.StatusCode != http.StatusNotFound {
			t.Error(nowhere, resp.Status, err)
		}
		_ = resp.Body.Close()
	}
	if _, err := oauth.NewMint(ours.URL, ecKey(t, elliptic.P256()), 2*time.Hour, nil); err == nil {
		t.Error("tokens of two hours are made")
	}
}

// TestTheLifeOfATokenIsWhatTheIssuerSays (cases H10): nothing or less is over at once,
// what is not said is a minute, an hour is the most, and what is no number is no answer.
func TestTheLifeOfATokenIsWhatTheIssuerSays(t *testing.T) {
	t.Parallel()
	for says, want := range map[string]time.Duration{
		`,"expires_in":0`: 0, `,"expires_in":-1`: 0, `,"expires_in":"0"`: 0, ``: time.Minute, `,"expires_in":null`: time.Minute,
		`,"expires_in":3600`: time.Hour, `,"expires_in":"3600"`: time.Hour, `,"expires_in":600`: 10 * time.Minute, `,"expires_in":99999999`: time.Hour,
		`,"expires_in":1e12`: -1, `,"expires_in":"3600abc"`: -1, `,"expires_in":"soon"`: -1, `,"expires_in":{}`: -1, `,"expires_in":9223372036854775808`: -1,
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			var asked atomic.Int64
			p.answers["/token"] = func(w http.ResponseWriter, _ *http.Request) {
				asked.Add(1)
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"access_token":"a","token_type":"Bearer"`+says+`}`)
			}
			now := time.Now()
			o := p.options(t)
			o.Cache, o.Now = new(oauth.Cache), func() time.Time { return now }
			use := func() (n int64, err error) {
				before := asked.Load()
				_, _, err = authorize(t, o)
				return asked.Load() - before, err
			}
			if _, err := use(); want < 0 {
				refused(t, err, registry.ReasonInvalidTokenAnswer)
				return
			} else if err != nil {
				t.Fatal(err)
			}
			if n, err := use(); err != nil || (n == 0) != (want > 0) {
				t.Errorf("at once %d tokens are asked for, %v", n, err)
			}
			if now = now.Add(want / 2); want > 0 {
				if n, err := use(); err != nil || n != 0 {
					t.Errorf("after half its life %d tokens are asked for, %v", n, err)
				}
			}
			now = now.Add(want/2 + time.Second)
			if n, err := use(); err != nil || n == 0 {
				t.Errorf("after its life no token is asked for, %v", err)
			}
		})
	}
}
