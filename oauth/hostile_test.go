package oauth_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"countersign/mcptest"
	"countersign/oauth"
	"countersign/outbound"
)

// B4, B12, B13: none of the hostile URLs is reached or gets a secret, wherever an
// issuer, a server or a connection names it. The guard lets the whole of loopback
// through where metadata name it, so it is the client that does not go; where
// the connection itself names it, it is the guard.
func TestNoHostileURLOfMetadataIsReached(t *testing.T) {
	t.Parallel()
	canary := mcptest.NewCanary(t)
	p := newPlace(t)
	guard := outbound.NewGuard(outbound.Options{
		Resolver: mcptest.HostileDNS{}, AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
	})
	open, closed := guard.Client(outbound.ClientOptions{}), outbound.NewGuard(outbound.Options{Resolver: mcptest.HostileDNS{}}).Client(outbound.ClientOptions{})
	t.Cleanup(open.CloseIdleConnections)
	t.Cleanup(closed.CloseIdleConnections)
	set := func(change func()) {
		p.mu.Lock()
		defer p.mu.Unlock()
		change()
	}
	ask := func(edit func(*oauth.Options)) error {
		o := p.options(t)
		o.HTTP = open
		edit(&o)
		_, _, err := authorize(t, o)
		return err
	}
	for _, raw := range mcptest.HostileURLs(canary.Port) {
		for _, field := range []string{
			"issuer", "token_endpoint", "authorization_endpoint", "jwks_uri", "registration_endpoint", "revocation_endpoint", "introspection_endpoint",
			"device_authorization_endpoint", "pushed_authorization_request_endpoint", "userinfo_endpoint", "end_session_endpoint",
		} {
			set(func() { p.metadata = map[string]any{field: raw} })
			err := ask(func(*oauth.Options) {})
			if err == nil && (field == "issuer" || field == "token_endpoint") {
				t.Errorf("%q is taken as %s", raw, field)
			}
		}
		set(func() {
			p.metadata = map[string]any{}
			p.resource = map[string]any{"resource": p.server.URL + "/mcp", "authorization_servers": []string{raw}}
		})
		if err := ask(func(*oauth.Options) {}); err == nil {
			t.Errorf("a server that wants tokens of %q gets one", raw)
		}
		set(func() { p.resource = map[string]any{"resource": raw, "authorization_servers": []string{p.issuer.URL}} })
		if err := ask(func(*oauth.Options) {}); err == nil {
			t.Errorf("a server that says that it is %q gets a token", raw)
		}
		set(func() { p.resource = nil })
		for where, edit := range map[string]func(*oauth.Options){
			"the issuer": func(o *oauth.Options) { o.Issuer = raw }, "the resource": func(o *oauth.Options) { o.Resource = raw },
			"the token endpoint": func(o *oauth.Options) { o.TokenEndpoint, o.Issuer = raw, "https://issuer.example" },
		} {
			if err := ask(func(o *oauth.Options) { o.HTTP = closed; edit(o) }); err == nil {
				t.Errorf("%q is asked as %s of a connection", raw, where)
			}
		}
		if n := canary.Seen(t.Context()); n != 0 {
			t.Fatalf("%q: the canary saw %d connections", raw, n)
		}
	}
	p.untouched(t)
}

// A connection may name a token endpoint elsewhere, and the issuer's metadata agree: the
// guard, which lets the issuer through and nothing else, still has the last word.
func TestNoHostileTokenEndpointOfAConnectionIsReached(t *testing.T) {
	t.Parallel()
	canary := mcptest.NewCanary(t)
	guard := outbound.NewGuard(outbound.Options{
		Resolver: mcptest.HostileDNS{}, AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.9/32")},
	})
	client := guard.Client(outbound.ClientOptions{})
	t.Cleanup(client.CloseIdleConnections)
	l, err := net.Listen("tcp", "127.0.0.9:0")
	if err != nil {
		t.Fatal(err)
	}
	p := newPlace(t)
	issuer := httptest.NewUnstartedServer(http.HandlerFunc(p.serveIssuer))
	_ = issuer.Listener.Close()
	issuer.Listener = l
	issuer.Start()
	t.Cleanup(issuer.Close)
	for _, raw := range mcptest.HostileURLs(canary.Port) {
		p.mu.Lock()
		p.metadata = map[string]any{"issuer": issuer.URL, "token_endpoint": raw, "authorization_endpoint": nil}
		p.mu.Unlock()
		o := p.options(t)
		o.HTTP, o.ResourceHTTP, o.Issuer, o.TokenEndpoint = client, client, issuer.URL, raw
		if _, _, err := authorize(t, o); err == nil {
			t.Errorf("a token of %q is taken", raw)
		}
		if n := canary.Seen(t.Context()); n != 0 {
			t.Fatalf("%q: the canary saw %d connections", raw, n)
		}
	}
	if len(p.asked) == 0 {
		t.Error("the issuer was not asked")
	}
}
