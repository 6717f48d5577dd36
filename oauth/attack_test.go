package oauth_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"countersign/oauth"
	"countersign/registry"
)

// TestMetadataOfAnotherAreRefused: mix-up, foreign endpoints, and URLs that are meant
// for a browser or a shell (B12, B13). Nothing reaches a stranger, and no secret leaves.
func TestMetadataOfAnotherAreRefused(t *testing.T) {
	t.Parallel()
	type attack struct {
		name  string
		apply func(p *place)
		want  registry.Reason
	}
	attacks := []attack{
		{"another issuer", func(p *place) { p.metadata["issuer"] = p.stranger.URL }, registry.ReasonIssuerMismatch},
		{"the issuer with a slash", func(p *place) { p.metadata["issuer"] = p.issuer.URL + "/" }, registry.ReasonIssuerMismatch},
		{"the issuer in capitals", func(p *place) { p.metadata["issuer"] = strings.ToUpper(p.issuer.URL) }, registry.ReasonIssuerMismatch},
		{"no issuer", func(p *place) { p.metadata["issuer"] = nil }, registry.ReasonIssuerMismatch},
		{"a token endpoint elsewhere", func(p *place) { p.metadata["token_endpoint"] = p.stranger.URL + "/token" }, registry.ReasonIssuerMismatch},
		{"no token endpoint", func(p *place) { p.metadata["token_endpoint"] = nil }, registry.ReasonInvalidMetadata},
		{"the server wants others", func(p *place) {
			p.resource = map[string]any{"resource": p.server.URL + "/mcp", "authorization_servers": []string{p.stranger.URL}}
		}, registry.ReasonIssuerMismatch},
		{"the server is another", func(p *place) {
			p.resource = map[string]any{"resource": p.stranger.URL + "/mcp", "authorization_servers": []string{p.issuer.URL}}
		}, registry.ReasonInvalidTarget},
		{"the server is another path", func(p *place) {
			p.resource = map[string]any{"resource": p.server.URL + "/mc", "authorization_servers": []string{p.issuer.URL}}
		}, registry.ReasonInvalidTarget},
		{"the metadata point elsewhere", func(p *place) {
			p.answers["/.well-known/oauth-authorization-server"] = func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, p.stranger.URL+"/.well-known/oauth-authorization-server", http.StatusFound)
			}
		}, registry.ReasonInvalidMetadata},
		{"the metadata are HTML", func(p *place) {
			p.answers["/.well-known/oauth-authorization-server"] = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				_, _ = io.WriteString(w, "<p>sign in")
			}
		}, registry.ReasonInvalidMetadata},
		{"the metadata are huge", func(p *place) { p.metadata["x"] = strings.Repeat("x", 300<<10) }, registry.ReasonInvalidMetadata},
	}
	for _, field := range []string{
		"token_endpoint", "authorization_endpoint", "jwks_uri", "registration_endpoint", "revocation_endpoint", "introspection_endpoint",
		"device_authorization_endpoint", "pushed_authorization_request_endpoint", "userinfo_endpoint", "end_session_endpoint",
	} {
		for _, value := range []string{
			"javascript:alert(1)", "JavaScript:alert(1)", "data:text/html,x", "file:///etc/passwd", "vbscript:x", `\\host\x`, "//BAIT/x", "https://a.example/$(id)",
			"https://a.example/`id`", "https://a.example/;id", "https://a.example/|id", "https://a.example/'x", `https://a.example/"x`, "https://a.example/ x",
			"https://a.example\\@BAIT/x", "https://user:pass@a.example/x", "https://a.example/x#y", "https://a.example/\nx", "http:BAIT", "https:///x", "ws://BAIT/", "https://é.example/",
		} {
			attacks = append(attacks, attack{field + " " + value, func(p *place) {
				p.metadata[field] = strings.ReplaceAll(value, "BAIT", strings.TrimPrefix(p.stranger.URL, "http://"))
			}, registry.ReasonInvalidMetadata})
		}
	}
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			a.apply(p)
			_, _, err := authorize(t, p.options(t))
			refused(t, err, a.want)
			p.untouched(t)
			if len(p.requests()) > 0 {
				t.Error("the secret was sent")
			}
		})
	}
}

// TestIssuersAreFoundByBothStandards, in order, below their path.
func TestIssuersAreFoundByBothStandards(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		path, at string
		tried    []string
	}{
		"RFC 8414":            {"/tenant", "/.well-known/oauth-authorization-server/tenant", []string{"/.well-known/oauth-authorization-server/tenant"}},
		"OpenID, inserted":    {"/tenant", "/.well-known/openid-configuration/tenant", []string{"/.well-known/oauth-authorization-server/tenant", "/.well-known/openid-configuration/tenant"}},
		"OpenID, at the end":  {"/tenant", "/tenant/.well-known/openid-configuration", []string{"/.well-known/oauth-authorization-server/tenant", "/.well-known/openid-configuration/tenant", "/tenant/.well-known/openid-configuration"}},
		"OpenID, of the root": {"/", "/.well-known/openid-configuration", []string{"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			o := p.options(t)
			o.Issuer = p.issuer.URL + tt.path
			p.answers["/.well-known/oauth-authorization-server"] = http.NotFound
			p.answers[tt.at] = func(w http.ResponseWriter, _ *http.Request) {
				answer(w, map[string]any{"issuer": o.Issuer, "token_endpoint": p.issuer.URL + tt.path + "/token"})
			}
			p.answers[tt.path+"/token"] = func(w http.ResponseWriter, r *http.Request) {
				p.tokens = append(p.tokens, nil)
				_ = r.ParseForm()
				answer(w, map[string]any{"access_token": "opaque", "token_type": "bearer"})
			}
			_, r, err := authorize(t, o)
			if err != nil || r.Header.Get("Authorization") != "Bearer opaque" {
				t.Fatal(err)
			}
			if p.asked = slices.DeleteFunc(p.asked, func(path string) bool { return strings.HasSuffix(path, "/token") }); !slices.Equal(p.asked, tt.tried) {
				t.Errorf("%v", p.asked)
			}
		})
	}
}

// TestAForeignTokenEndpointIsTakenWhenConfigured, and no other.
func TestAForeignTokenEndpointIsTakenWhenConfigured(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.metadata["token_endpoint"] = p.stranger.URL + "/token"
	o := p.options(t)
	o.TokenEndpoint = p.stranger.URL + "/token"
	if _, _, err := authorize(t, o); err != nil || len(p.strange) != 1 {
		t.Error(err, p.strange)
	}
	o.TokenEndpoint, p.strange = p.issuer.URL+"/token", nil
	_, _, err := authorize(t, o)
	refused(t, err, registry.ReasonIssuerMismatch)
	p.untouched(t)
}

// TestAnswersOfTheTokenEndpointAreJudged: every error of the standards, and every way
// to be no answer; tokens for others (B15), of others, and such as cannot be tokens.
func TestAnswersOfTheTokenEndpointAreJudged(t *testing.T) {
	t.Parallel()
	fault := func(status int, code string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_ = r.ParseForm()
			_, secret, _ := r.BasicAuth()
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, `{"error":%q,"error_description":"s3cr3t %s %s","error_uri":"javascript:alert(1)"}`, code, secret, theSecret)
		}
	}
	raw := func(kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w, body)
		}
	}
	token := func(p *place, change func(*jwt.Claims), more string) http.HandlerFunc {
		claims := jwt.Claims{Issuer: p.issuer.URL, Audience: jwt.Audience{p.server.URL + "/mcp"}, Expiry: jwt.NewNumericDate(time.Now().Add(time.Hour))}
		change(&claims)
		return raw("application/json", `{"access_token":"`+p.jwt(claims)+`","token_type":"Bearer"`+more+`}`)
	}
	same := func(h http.HandlerFunc) func(*place) http.HandlerFunc {
		return func(*place) http.HandlerFunc { return h }
	}
	for name, tt := range map[string]struct {
		answer func(*place) http.HandlerFunc
		want   registry.Reason // "": it is good
	}{
		"invalid_client":         {same(fault(401, "invalid_client")), registry.ReasonInvalidClient},
		"invalid_client, 200":    {same(fault(200, "invalid_client")), registry.ReasonInvalidClient},
		"unauthorized_client":    {same(fault(400, "unauthorized_client")), registry.ReasonInvalidClient},
		"invalid_grant":          {same(fault(400, "invalid_grant")), registry.ReasonInvalidClient},
		"unsupported_grant_type": {same(fault(400, "unsupported_grant_type")), registry.ReasonUnsupportedGrant},
		"invalid_target":         {same(fault(400, "invalid_target")), registry.ReasonInvalidTarget},
		"invalid_scope":          {same(fault(400, "invalid_scope")), registry.ReasonInvalidScope},
		"access_denied":          {same(fault(403, "access_denied")), registry.ReasonInvalidScope},
		"something else":         {same(fault(400, "s3cr3t")), registry.ReasonInvalidTokenAnswer},
		"401 without a word":     {same(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }), registry.ReasonInvalidClient},
		"429":                    {same(fault(429, "")), registry.ReasonDependency},
		"500":                    {same(fault(500, "")), registry.ReasonDependency},
		"503":                    {same(fault(503, "temporarily_unavailable")), registry.ReasonDependency},
		"the connection breaks":  {same(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), registry.ReasonDependency},
		"HTML":                   {same(raw("text/html", "<p>s3cr3t")), registry.ReasonInvalidTokenAnswer},
		"empty":                  {same(raw("application/json", "")), registry.ReasonInvalidTokenAnswer},
		"no token":               {same(raw("application/json", `{"token_type":"Bearer"}`)), registry.ReasonInvalidTokenAnswer},
		"no type":                {same(raw("application/json", `{"access_token":"a"}`)), registry.ReasonInvalidTokenAnswer},
		"another type":           {same(raw("application/json", `{"access_token":"a","token_type":"DPoP"}`)), registry.ReasonInvalidTokenAnswer},
		"a header in the token":  {same(raw("application/json", `{"access_token":"a\r\nX: y","token_type":"Bearer"}`)), registry.ReasonInvalidTokenAnswer},
		"a long token":           {same(raw("application/json", `{"access_token":"`+strings.Repeat("a", 17<<10)+`","token_type":"Bearer"}`)), registry.ReasonInvalidTokenAnswer},
		"a huge answer":          {same(raw("application/json", `{"x":"`+strings.Repeat("a", 1<<20)+`","access_token":"a","token_type":"Bearer"}`)), registry.ReasonInvalidTokenAnswer},
		"expires_in is text":     {same(raw("application/json", `{"access_token":"a","token_type":"Bearer","expires_in":"soon"}`)), registry.ReasonInvalidTokenAnswer},
		"expires_in is negative": {same(raw("application/json", `{"access_token":"a","token_type":"Bearer","expires_in":-5}`)), ""},
		"expires_in is for ever": {same(raw("application/json", `{"access_token":"a","token_type":"Bearer","expires_in":1e300}`)), registry.ReasonInvalidTokenAnswer},
		"a redirect": {func(p *place) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, p.stranger.URL+"/token", http.StatusTemporaryRedirect)
			}
		}, registry.ReasonInvalidTokenAnswer},

		"a good JWT": {func(p *place) http.HandlerFunc { return token(p, func(*jwt.Claims) {}, "") }, ""},
		"for several": {func(p *place) http.HandlerFunc {
			return token(p, func(c *jwt.Claims) { c.Audience = append(c.Audience, "x") }, "")
		}, ""},
		"for another": {func(p *place) http.HandlerFunc {
			return token(p, func(c *jwt.Claims) { c.Audience = jwt.Audience{p.stranger.URL} }, "")
		}, registry.ReasonAudienceMismatch},
		"for nobody": {func(p *place) http.HandlerFunc { return token(p, func(c *jwt.Claims) { c.Audience = nil }, "") }, registry.ReasonAudienceMismatch},
		"of another": {func(p *place) http.HandlerFunc {
			return token(p, func(c *jwt.Claims) { c.Issuer = p.stranger.URL }, "")
		}, registry.ReasonIssuerMismatch},
		"over already": {func(p *place) http.HandlerFunc {
			return token(p, func(c *jwt.Claims) { c.Expiry = jwt.NewNumericDate(time.Unix(1, 0)) }, "")
		}, registry.ReasonInvalidTokenAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.answers["/token"] = tt.answer(p)
			_, r, err := authorize(t, p.options(t))
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			refused(t, err, tt.want)
			if r.Header.Get("Authorization") != "" {
				t.Error("it is shown all the same")
			}
			p.untouched(t)
		})
	}
}

// TestAnIssuerThatIsAwayIsADependency, wherever it is away.
func TestAnIssuerThatIsAwayIsADependency(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.answers["/.well-known/oauth-authorization-server"] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
	_, _, err := authorize(t, p.options(t))
	if e := refused(t, err, registry.ReasonDependency); e.Fact("status") != "503" || e.Fact("issuer") != p.issuer.URL {
		t.Errorf("%+v", e.Facts)
	}
	p.issuer.Close()
	_, _, err = authorize(t, p.options(t))
	if e := refused(t, err, registry.ReasonDependency); e.Fact("cause") != string(registry.ReasonUnreachable) {
		t.Errorf("%+v", e.Facts)
	}
	o := p.options(t)
	o.Issuer = "http://169.254.169.254"
	_, _, err = authorize(t, o)
	if e := refused(t, err, registry.ReasonDependency); e.Fact("cause") != string(registry.ReasonBlockedAddress) {
		t.Errorf("%+v", e.Facts)
	}
}

// TestAnIssuersURLIsPlain, or nothing is asked.
func TestAnIssuersURLIsPlain(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, issuer := range []string{
		"javascript:alert(1)", "file:///etc", "issuer", "https://", "https://a.example?x=1", "https://a.example#x", "https://u:s3cr3t@a.example", "https://a.example/$(id)",
	} {
		o := p.options(t)
		o.Issuer = issuer
		_, err := oauth.New(o)
		refused(t, err, registry.ReasonInvalidMetadata)
	}
}
