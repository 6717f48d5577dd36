package console_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"countersign/console"
)

const index = `<!doctype html><html><head><base href="/console/"><script type="module" src="assets/app-1a2b.js"></script></head></html>`

// pages are those of a small build.
func pages() fstest.MapFS {
	return fstest.MapFS{
		"index.html":         {Data: []byte(index)},
		"assets/app-1a2b.js": {Data: []byte(strings.Repeat("console.log(1);\n", 1000))},
		"icon.svg":           {Data: []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`)},
		".gitkeep":           {Data: []byte("x")},
	}
}

func serve(t *testing.T, o console.Options) http.Handler {
	t.Helper()
	h, err := console.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// browser is what a browser asks for when a person follows a link.
const browser = "text/html,application/xhtml+xml,*/*;q=0.8"

func ask(h http.Handler, method, path, accept string) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func TestWhatIsAtEachPath(t *testing.T) {
	t.Parallel()
	h := serve(t, console.Options{Pages: pages()})
	for _, c := range []struct {
		method, path, accept string
		status               int
		kind, cache          string
	}{
		{"GET", "/console/", browser, 200, "text/html; charset=utf-8", "no-cache"},
		{"HEAD", "/console/", browser, 200, "text/html; charset=utf-8", "no-cache"},
		{"GET", "/console/", "*/*", 200, "text/html; charset=utf-8", "no-cache"},
		{"GET", "/console/index.html", "*/*", 200, "text/html; charset=utf-8", "no-cache"},
		{"GET", "/console/servers/io.github.x/tools?q=a", browser, 200, "text/html; charset=utf-8", "no-cache"},
		{"GET", "/console/servers/x", "application/json", 404, "", ""},
		{"GET", "/console/assets/app-1a2b.js", "*/*", 200, "text/javascript; charset=utf-8", "public, max-age=31536000, immutable"},
		{"GET", "/console/assets/app-gone.js", browser, 404, "", ""},
		{"GET", "/console/icon.svg", "*/*", 200, "image/svg+xml", "no-cache"},
		{"GET", "/console/config.json", "*/*", 200, "application/json", "no-cache"},
		{"GET", "/console/.gitkeep", "*/*", 404, "", ""},
		{"GET", "/console", browser, 307, "", "no-cache"},
		{"GET", "/", browser, 307, "", "no-cache"},
		{"GET", "/", "*/*", 404, "", ""},
		{"POST", "/", browser, 404, "", ""},
		{"POST", "/console/", browser, 405, "", ""},
		{"GET", "/elsewhere", browser, 404, "", ""},
		{"GET", "/consoles", browser, 404, "", ""},
		{"GET", "/factory/mcp-servers", browser, 404, "", ""},
	} {
		got := ask(h, c.method, c.path, c.accept)
		if got.StatusCode != c.status || c.kind != "" && got.Header.Get("Content-Type") != c.kind || c.cache != "" && got.Header.Get("Cache-Control") != c.cache {
			t.Errorf("%s %s for %s: %d %q %q", c.method, c.path, c.accept, got.StatusCode, got.Header.Get("Content-Type"), got.Header.Get("Cache-Control"))
		}
		if to := got.Header.Get("Location"); c.status == 307 && to != "/console/" {
			t.Errorf("%s leads to %q", c.path, to)
		}
	}
}

// The pages run no script that stands in them, ask nobody but us and the issuer, and nobody frames them.
func TestThePolicyOfThePages(t *testing.T) {
	t.Parallel()
	h := serve(t, console.Options{Pages: pages(), Connect: []string{"https://id.example.com"}})
	for _, path := range []string{"/console/", "/console/audit", "/console/assets/app-1a2b.js"} {
		policy := ask(h, "GET", path, browser).Header.Get("Content-Security-Policy")
		says := map[string]string{}
		for directive := range strings.SplitSeq(policy, "; ") {
			name, rest, _ := strings.Cut(directive, " ")
			says[name] = rest
		}
		for name, want := range map[string]string{
			"default-src": "'none'", "script-src": "'self'", "connect-src": "'self' https://id.example.com", "frame-ancestors": "'none'",
			"object-src": "'none'", "form-action": "'none'", "base-uri": "'self'",
		} {
			if says[name] != want {
				t.Errorf("%s: %s is %q, want %q", path, name, says[name], want)
			}
		}
	}
}

func TestItIsServedBelowAnyPath(t *testing.T) {
	t.Parallel()
	h := serve(t, console.Options{Pages: pages(), Base: "/tools/registry/", Config: console.Config{
		Issuer: "https://id.example.com", ClientID: "c", Scopes: []string{"openid"}, TemporalNamespace: "default", Version: "v1",
	}})
	body := read(t, ask(h, "GET", "/console/servers", browser).Body)
	if !strings.Contains(body, `<base href="/tools/registry/console/">`) || strings.Contains(body, `href="/console/"`) {
		t.Errorf("the page is %s", body)
	}
	if to := ask(h, "GET", "/", browser).Header.Get("Location"); to != "/tools/registry/console/" {
		t.Errorf("/ leads to %q", to)
	}
	var config map[string]any
	if err := json.NewDecoder(ask(h, "GET", "/console/config.json", "*/*").Body).Decode(&config); err != nil {
		t.Fatal(err)
	}
	if config["api"] != "/tools/registry" || config["issuer"] != "https://id.example.com" || config["clientId"] != "c" {
		t.Errorf("config.json says %v", config)
	}
}

func TestLargeFilesGoPackedToWhoTakesThem(t *testing.T) {
	t.Parallel()
	h := serve(t, console.Options{Pages: pages()})
	r := httptest.NewRequest(http.MethodGet, "/console/assets/app-1a2b.js", nil)
	r.Header.Set("Accept-Encoding", "br, gzip")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Header().Get("Content-Encoding") != "gzip" || w.Body.Len() > 1000 {
		t.Fatalf("%d bytes, %v", w.Body.Len(), w.Header())
	}
	tag := w.Header().Get("ETag")
	unpacked, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	plain := ask(h, "GET", "/console/assets/app-1a2b.js", "*/*")
	if read(t, unpacked) != read(t, plain.Body) || plain.Header.Get("Content-Encoding") != "" || plain.Header.Get("ETag") == tag {
		t.Error("packed and plain are not the same, or have one tag")
	}
	r.Header.Set("If-None-Match", tag)
	w = httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != http.StatusNotModified {
		t.Errorf("what is there already comes as %d", w.Code)
	}
}

func TestAProgramWithoutPagesSaysSo(t *testing.T) {
	t.Parallel()
	h := serve(t, console.Options{Pages: fstest.MapFS{".gitkeep": {}}})
	got := ask(h, "GET", "/console/", browser)
	if body := read(t, got.Body); got.StatusCode != http.StatusNotFound || !strings.Contains(body, "make console") {
		t.Errorf("%d %s", got.StatusCode, body)
	}
}

func TestAnIndexWithoutABaseIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := console.New(console.Options{Pages: fstest.MapFS{"index.html": {Data: []byte("<html></html>")}}}); err == nil {
		t.Error("it is taken")
	}
}

// What the program contains can be served, and has no script or address that the policy would refuse.
func TestTheBuiltPages(t *testing.T) {
	t.Parallel()
	h := serve(t, console.Options{})
	body := read(t, ask(h, "GET", "/console/", browser).Body)
	if strings.Contains(body, "<script>") || strings.Contains(body, "http://") || strings.Contains(body, "https://") || strings.Contains(body, " onload=") {
		t.Errorf("the page is %s", body)
	}
}

func read(t *testing.T, r io.Reader) string {
	t.Helper()
	raw, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
