package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// pageAt asks for a page as a browser does, and is led where the answer leads.
func pageAt(t *testing.T, address string) (status int, at, policy, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "text/html")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Request.URL.String(), response.Header.Get("Content-Security-Policy"), string(raw)
}

// checkConsole wants an API to have the console, which sends people to an issuer,
// at the end of a base path.
func checkConsole(t *testing.T, api, base, issuer string) {
	t.Helper()
	for _, path := range []string{"/console/", "/console/servers/a.b?q=1"} {
		status, _, policy, body := pageAt(t, api+path)
		if status != http.StatusOK || !strings.Contains(body, `<base href="`+base+`/console/">`) || !strings.Contains(policy, "script-src 'self'; ") ||
			!strings.Contains(policy, "connect-src 'self' "+issuer[:strings.LastIndex(issuer, "/dev/")]+";") {
			t.Errorf("%s: %d %q %.200s", path, status, policy, body)
		}
	}
	response, err := http.Get(api + "/console/config.json")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var told map[string]any
	if err := json.NewDecoder(response.Body).Decode(&told); err != nil || told["issuer"] != issuer || told["clientId"] != "countersign-console" || told["api"] != base ||
		told["temporalNamespace"] != "default" || told["version"] == "" {
		t.Errorf("it is told %v, %v", told, err)
	}
}
