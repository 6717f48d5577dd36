package events_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"countersign/events"
	"countersign/mcptest"
	"countersign/outbound"
	"countersign/registry"
)

// B4, B7: none of the hostile URLs is reached, neither as where events are to go nor as
// where a receiver sends us. The guard lets the receiver itself through and nothing
// else.
func TestNoHostileURLOfAReceiverIsReached(t *testing.T) {
	t.Parallel()
	canary := mcptest.NewCanary(t)
	hooks := events.NewWebhooks(outbound.NewGuard(outbound.Options{
		Resolver:      mcptest.HostileDNS{"receiver.example": netip.MustParseAddr("127.0.0.2")},
		AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")},
	}), resolver())
	send := func(url string) (int, error) {
		return hooks.Send(t.Context(), registry.Subscription{TenantID: "acme", URL: url, Secret: "env:NEW"}, "msg_1", []byte("{}"), time.Now())
	}
	for _, raw := range mcptest.HostileURLs(canary.Port) {
		if status, err := send(raw); err == nil || status != 0 {
			t.Errorf("%q answers %d", raw, status)
		}
		for _, code := range []int{http.StatusMovedPermanently, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
			asked := 0
			listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.2:0")
			if err != nil {
				t.Fatal(err)
			}
			s := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked++
				w.Header().Set("Location", raw)
				w.WriteHeader(code)
			}), ReadHeaderTimeout: time.Minute}}
			s.Start()
			_, err = send(strings.Replace(s.URL, "127.0.0.2", "receiver.example", 1))
			s.Close()
			if e, ok := errors.AsType[*events.DeliveryError](err); !ok || e.Status != code && e.Status != 0 || asked != 1 {
				t.Errorf("%d to %q: %v, it was asked %d times", code, raw, err, asked)
			}
		}
		if n := canary.Seen(t.Context()); n != 0 {
			t.Fatalf("%q: the canary saw %d connections", raw, n)
		}
	}
}
