package mcpclient_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/registry"
)

// TestAServerThatWantsCredentialsIsAskedWhich is H9: the challenge first, then
// the well-known place of the path, then that of the host.
func TestAServerThatWantsCredentialsIsAskedWhich(t *testing.T) {
	t.Parallel()
	const (
		root = "/.well-known/oauth-protected-resource"
		own  = root + "/mcp"
		good = `{"resource":"$URL/mcp","authorization_servers":["https://as.example"],"scopes_supported":["mcp:read","mcp:write"]}`
	)
	facts := func(at string) map[string]string {
		return map[string]string{"issuer": "https://as.example", "resource": "$URL/mcp", "scopes": "mcp:read mcp:write", "metadata": "$URL" + at}
	}
	none := map[string]string{"issuer": "", "resource": "", "scopes": "", "metadata": ""}
	for _, tt := range []struct {
		name      string
		challenge string
		documents map[string]string // by path; a leading "-" is a status instead
		want      map[string]string
		asked     []string
	}{
		{"at the path", "", map[string]string{own: good, root: `{"authorization_servers":["https://wrong.example"]}`}, facts(own), []string{own}},
		{"at the root", "", map[string]string{root: good}, facts(root), []string{own, root}},
		{"a page at the path", "", map[string]string{own: "<html>Sign in</html>", root: good}, facts(root), []string{own, root}},
		{"a page everywhere", "", map[string]string{own: "<html></html>", root: "<html></html>"}, none, []string{own, root}},
		{"nowhere", "", nil, none, []string{own, root}},
		{"where the challenge says", "$URL/meta", map[string]string{"/meta": good, own: "{}"}, facts("/meta"), []string{"/meta"}},
		{"not where the challenge says", "$URL/meta", map[string]string{own: good}, facts(own), []string{"/meta", own}},
		{"the challenge says the usual", "$URL" + own, map[string]string{root: good}, facts(root), []string{own, root}},
		{"the challenge is garbage", "::%zz", map[string]string{own: good}, facts(own), []string{own}},
		{"the challenge holds a password", "http://u:p@$HOST/meta", map[string]string{"/meta": good}, none, []string{own, root}},
		{"a redirect is not followed", "", map[string]string{own: "-/elsewhere", "/elsewhere": good}, none, []string{own, root}},
		{"an array", "", map[string]string{own: `[]`, root: `"x"`}, none, []string{own, root}},
		{"odd types", "", map[string]string{own: `{"resource":5,"authorization_servers":"x"}`, root: `{"authorization_servers":[1]}`}, none, []string{own, root}},
		{"a name twice", "", map[string]string{own: `{"resource":"a","resource":"b"}`}, none, []string{own, root}},
		{"too large", "", map[string]string{own: `{"resource":"` + strings.Repeat("x", 1<<20) + `"}`}, none, []string{own, root}},
		{"no resource", "", map[string]string{own: `{"authorization_servers":["https://a\u202e.example","https://b.example"]}`}, map[string]string{
			"issuer": `https://a\u202e.example`, "issuers": `https://a\\u202e.example https://b.example`,
		}, []string{own}},
		{"another resource", "", map[string]string{own: `{"resource":"https://bank.example","authorization_servers":["https://as.example"]}`}, map[string]string{
			"issuer": "", "resource": "https://bank.example", "resource_mismatch": "true",
		}, []string{own}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var asked []string
			var s *httptest.Server
			fill := func(text string) string {
				return strings.NewReplacer("$URL", s.URL, "$HOST", strings.TrimPrefix(s.URL, "http://")).Replace(text)
			}
			s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					if tt.challenge != "" {
						w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+fill(tt.challenge)+`"`)
					}
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				mu.Lock()
				asked = append(asked, r.URL.Path)
				mu.Unlock()
				for _, name := range []string{"Authorization", "Cookie", "Mcp-Session-Id"} {
					if r.Header.Get(name) != "" {
						t.Errorf("%s was sent", name)
					}
				}
				document, ok := tt.documents[r.URL.Path]
				if to, redirect := strings.CutPrefix(document, "-"); redirect {
					http.Redirect(w, r, to, http.StatusFound)
				} else if ok {
					_, _ = w.Write([]byte(fill(document)))
				} else {
					http.NotFound(w, r)
				}
			}))
			t.Cleanup(s.Close)
			_, _, err := client(nil).Discover(t.Context(), target(s.URL+"/mcp"), "", nil)
			e, ok := registry.AsError(err)
			if !ok || e.Reason != registry.ReasonAuthRequired {
				t.Fatal(err)
			}
			for key, want := range tt.want {
				if got := e.Fact(key); got != fill(want) {
					t.Errorf("%s is %q, not %q", key, got, fill(want))
				}
			}
			if diff := cmp.Diff(tt.asked, asked); diff != "" {
				t.Error(diff)
			}
			checkPrintable(t, e)
		})
	}
}

// TestNothingThatAChallengeNamesElsewhereIsFetched: a canary on loopback, which
// this client may dial, sees no connection.
func TestNothingThatAChallengeNamesElsewhereIsFetched(t *testing.T) {
	t.Parallel()
	canary, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = canary.Close() })
	var touched atomic.Int64
	go func() {
		for {
			conn, err := canary.Accept()
			if err != nil {
				return
			}
			touched.Add(1)
			_ = conn.Close()
		}
	}()
	for _, where := range []string{"http://" + canary.Addr().String() + "/meta", "http://169.254.169.254/latest/meta-data", "http://2130706433/"} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+where+`"`)
			w.WriteHeader(http.StatusUnauthorized)
		}))
		_, _, err := client(nil).Discover(t.Context(), target(s.URL+"/mcp"), "", nil)
		s.Close()
		if e, ok := registry.AsError(err); !ok || e.Reason != registry.ReasonAuthRequired || e.Fact("resource_metadata") != where || e.Fact("issuer") != "" {
			t.Errorf("%v", err)
		}
	}
	if n := touched.Load(); n > 0 {
		t.Errorf("%d connections", n)
	}
}

// TestSlowMetadataDoNotHold, and a probe does not ask for them at all.
func TestSlowMetadataDoNotHold(t *testing.T) {
	t.Parallel()
	var gets atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		gets.Add(1)
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	if _, err := client(nil).Probe(t.Context(), target(s.URL), ""); registry.ReasonOf(err) != registry.ReasonAuthRequired || gets.Load() != 0 {
		t.Errorf("%v, %d looks", err, gets.Load())
	}
	began := time.Now()
	_, _, err := client(nil).Discover(t.Context(), target(s.URL), "", nil)
	if registry.ReasonOf(err) != registry.ReasonAuthRequired || time.Since(began) > patience/2 || gets.Load() != 1 {
		t.Errorf("%v after %s, %d looks", err, time.Since(began), gets.Load())
	}
}
