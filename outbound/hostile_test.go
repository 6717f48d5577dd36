package outbound_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"countersign/mcptest"
	"countersign/outbound"
)

// B4: none of the URLs that every place is tried with is reached, neither as the
// URL of a request nor as a dial address.
func TestNoHostileURLIsReached(t *testing.T) {
	canary := mcptest.NewCanary(t)
	all := mcptest.HostileURLs(canary.Port)
	if len(all) < 40 {
		t.Fatalf("only %d URLs", len(all))
	}
	guard := outbound.NewGuard(outbound.Options{Resolver: mcptest.HostileDNS{}})
	for _, raw := range all {
		for _, o := range []outbound.ClientOptions{{}, {DialAddress: dialAddress(raw)}} {
			client := guard.Client(o)
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, raw, strings.NewReader("{}"))
			if o.DialAddress != "" {
				request, err = http.NewRequestWithContext(t.Context(), http.MethodPost, "http://server.example/mcp", strings.NewReader("{}"))
			}
			if err != nil {
				continue // it is no URL
			}
			response, err := client.Do(request)
			if err == nil {
				response.Body.Close()
				t.Errorf("%q by %q answers %s", raw, o.DialAddress, response.Status)
			}
			client.CloseIdleConnections()
		}
	}
	if n := canary.Seen(t.Context()); n != 0 {
		t.Errorf("the canary saw %d connections", n)
	}
}

// dialAddress is the host and port of a URL; what follows the scheme, if it is
// none.
func dialAddress(raw string) string {
	if u, err := url.Parse(raw); err == nil && u.Host != "" {
		return u.Host
	}
	_, rest, _ := strings.Cut(raw, ":")
	return strings.Trim(rest, `/\`)
}

// The canary is awake.
func TestTheCanarySeesWhoComes(t *testing.T) {
	canary := mcptest.NewCanary(t)
	response, err := http.Get("http://127.0.0.1:" + canary.Port)
	if err == nil {
		response.Body.Close()
	}
	if n := canary.Seen(t.Context()); n != 1 {
		t.Errorf("it saw %d", n)
	}
}
