package aep_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"countersign/aep"
	"countersign/mcptest"
	"countersign/outbound"
)

// B4, B7: none of the hostile URLs is reached, neither as the address of an extension
// nor in any place where an extension hands us one. The guard lets the extension itself
// through and nothing else.
func TestNoHostileURLOfAnExtensionIsReached(t *testing.T) {
	t.Parallel()
	canary := mcptest.NewCanary(t)
	c := &aep.Client{
		Timeout: func() time.Duration { return 5 * time.Second },
		Guard: outbound.NewGuard(outbound.Options{
			Resolver:      mcptest.HostileDNS{"extension.example": netip.MustParseAddr("127.0.0.2")},
			AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")},
		}),
	}
	for _, raw := range mcptest.HostileURLs(canary.Port) {
		if found, err := c.Fetch(t.Context(), raw, utilities); err == nil {
			t.Errorf("%q has a descriptor: %+v", raw, found)
		}
		quoted, err := json.Marshal(raw)
		if err != nil {
			t.Fatal(err)
		}
		for where, answer := range map[string]http.HandlerFunc{
			"a redirect": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", raw)
				w.WriteHeader(http.StatusTemporaryRedirect)
			},
			"the endpoint of a server": says(http.StatusOK, "application/json", strings.Replace(small, `"extension":`,
				fmt.Sprintf(`"mcp":{"servers":[{"id":"a","endpoint":%s}]},"extension":`, quoted), 1)),
			"the endpoint of a capability": says(http.StatusOK, "application/json", strings.Replace(small, `"extension":`,
				fmt.Sprintf(`"capabilities":{"aep.health":{"version":"1.0","endpoint":%s}},"extension":`, quoted), 1)),
			"a link": func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Link", "<"+raw+`>; rel="describedby"`)
				says(http.StatusOK, "application/json", small)(w, r)
			},
		} {
			asked := 0
			listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.2:0")
			if err != nil {
				t.Fatal(err)
			}
			s := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked++
				answer(w, r)
			}), ReadHeaderTimeout: time.Minute}}
			s.Start()
			_, _ = c.Fetch(t.Context(), strings.Replace(s.URL, "127.0.0.2", "extension.example", 1), utilities) // what names it may be sound
			if s.Close(); asked == 0 {
				t.Errorf("%s with %q: nobody came", where, raw)
			}
		}
		if n := canary.Seen(t.Context()); n != 0 {
			t.Fatalf("%q: the canary saw %d connections", raw, n)
		}
	}
}
