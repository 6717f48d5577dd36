package embedded

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestUI(t *testing.T) {
	t.Parallel()
	s := start(t, Options{UIListen: "localhost:0"})
	dial(t, s)
	get := func(path string, change func(*http.Request)) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.UIURL()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(r)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response, string(body)
	}

	t.Run("the page is served, and may talk to nobody else", func(t *testing.T) {
		response, body := get("/", nil)
		if response.StatusCode != http.StatusOK || !strings.Contains(body, "/_app/") {
			t.Errorf("GET /: %s\n%s", response.Status, body)
		}
		if policy := strings.Join(response.Header.Values("Content-Security-Policy"), " "); !strings.Contains(policy, "connect-src 'self'") {
			t.Errorf("content security policy: %q", policy)
		}
	})
	t.Run("the API behind it shows the namespace", func(t *testing.T) {
		response, body := get("/api/v1/namespaces/default", nil)
		if response.StatusCode != http.StatusOK || !strings.Contains(body, `"name":`) || !strings.Contains(body, `"default"`) {
			t.Errorf("GET namespace: %s\n%s", response.Status, body)
		}
	})
	t.Run("no release is looked up anywhere", func(t *testing.T) {
		if _, body := get("/api/v1/releases", nil); strings.TrimSpace(body) != `{"Releases":{}}` {
			t.Errorf("releases: %s", body)
		}
	})
	t.Run("a page of a stranger whose name resolves to us gets nothing", func(t *testing.T) {
		response, _ := get("/api/v1/namespaces/default", func(r *http.Request) { r.Host = "rebind.example:8233" })
		if response.StatusCode != http.StatusMisdirectedRequest {
			t.Errorf("stranger's host: %s, want 421", response.Status)
		}
	})
	t.Run("a page of another origin cannot change anything", func(t *testing.T) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.UIURL()+"/api/v1/namespaces", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Origin", "https://stranger.example")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusForbidden {
			t.Errorf("cross-site POST: %s, want 403", response.Status)
		}
	})
}

func TestTheUIAnswersToNamesOfThisMachineOnly(t *testing.T) {
	t.Parallel()
	handler := onlyLoopbackHosts(http.NotFoundHandler())
	for host, want := range map[string]int{
		"127.0.0.1:8233":      http.StatusNotFound,
		"127.1.2.3":           http.StatusNotFound,
		"localhost:8233":      http.StatusNotFound,
		"[::1]:8233":          http.StatusNotFound,
		"[::1]":               http.StatusNotFound,
		"":                    http.StatusMisdirectedRequest,
		"10.0.0.1:8233":       http.StatusMisdirectedRequest,
		"rebind.example":      http.StatusMisdirectedRequest,
		"localhost.example:1": http.StatusMisdirectedRequest,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("host %q: %d, want %d", host, w.Code, want)
		}
	}
}
