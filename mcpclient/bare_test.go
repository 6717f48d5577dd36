package mcpclient_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"

	"countersign/mcpclient"
	"countersign/mcptest"
	"countersign/outbound"
	"countersign/registry"
)

// TestAServerThatClaimsAuthenticationIsAskedWithout (R22), before any credential is
// shown; one that answers is told of.
func TestAServerThatClaimsAuthenticationIsAskedWithout(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		enforced, lists, credential bool
		claims                      registry.Authentication
		open                        bool
	}{
		"it refuses":                     {true, false, true, registry.AuthOAuth2, false},
		"it refuses its lists only":      {true, true, true, registry.AuthWorkloadIdentity, false},
		"it answers":                     {false, false, true, registry.AuthOAuth2, true},
		"it answers, and we have none":   {false, false, false, registry.AuthOAuth2, true},
		"it answers, and claims no such": {false, false, true, registry.AuthNoneException, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script := mcptest.Script{}
			script.List("tools/list", mcptest.Items(`{"name":"a"}`))
			if on := "*"; tt.enforced {
				if tt.lists {
					on = "tools/list"
				}
				script.Fault(on, wants("t0ken"))
			}
			s := mcptest.New(t, script)
			c := client(nil)
			if tt.credential {
				c = (&pass{tokens: []string{"t0ken"}}).client(nil)
			}
			c.AskBare = true
			to := target(s.URL)
			to.Authentication = tt.claims
			surface, report, err := c.Discover(t.Context(), to, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			if slices.Contains(surface.Quirks, registry.QuirkAuthNotEnforced) != tt.open {
				t.Errorf("%v", surface.Quirks)
			}
			asked := slices.ContainsFunc(report.Steps, func(s mcpclient.Step) bool { return s.Name == "without credentials" && s.OK != tt.open })
			if asked != (tt.credential && tt.claims != registry.AuthNoneException) {
				t.Errorf("%+v", report.Steps)
			}
			if first := s.Calls()[0].Header.Get("Authorization"); asked && first != "" {
				t.Errorf("it was shown %q first", first)
			}
		})
	}
}

// TestAServerIsAskedWithoutOnTheConnectionsWay (R22): also one of an authority and a
// network that only its connection allows, or that knows us by our certificate alone,
// is noticed when it lets everybody in, and only then.
func TestAServerIsAskedWithoutOnTheConnectionsWay(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		enforced, credential, certificate, open bool
	}{
		"it wants our certificate":                      {true, false, true, false},
		"it wants our certificate, and we show a token": {true, true, true, false},
		"it lets everybody in, by certificate":          {false, false, true, true},
		"it lets everybody in, by token":                {false, true, false, true},
		"it lets everybody in, and we have nothing":     {false, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script := mcptest.Script{}
			script.List("tools/list", mcptest.Items(`{"name":"a"}`))
			s := httptest.NewUnstartedServer(mcptest.Handler(script))
			s.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
			if tt.enforced {
				s.TLS.ClientAuth = tls.RequireAnyClientCert
			}
			s.StartTLS()
			t.Cleanup(s.Close)
			c := client(nil)
			if tt.credential {
				c = (&pass{tokens: []string{"t0ken"}}).client(nil)
			}
			c.AskBare = true
			c.Guard = outbound.NewGuard(outbound.Options{}) // to nobody on this machine
			c.Transport = func(context.Context, registry.Target) (mcpclient.Transport, error) {
				way := mcpclient.Transport{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, RootCAs: x509.NewCertPool()}
				way.RootCAs.AddCert(s.Certificate())
				if tt.certificate {
					way.Certificates = s.TLS.Certificates // any
				}
				return way, nil
			}
			to := target(s.URL)
			to.Authentication = registry.AuthWorkloadIdentity
			surface, _, err := c.Discover(t.Context(), to, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			if slices.Contains(surface.Quirks, registry.QuirkAuthNotEnforced) != tt.open {
				t.Errorf("quirks: %v", surface.Quirks)
			}
		})
	}
}
