package api

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"countersign/mcptest"
	"countersign/outbound"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// B4, B12: whatever URL a caller gives us, in whatever field, the API dials
// nothing: it refuses the URL or keeps it for the workers, whose guard decides.
// What no HTTP client could reach is not kept.
func TestNoHostileURLOfACallerIsDialled(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.active(t, alpha, "there", "x")
	asks(t, h, platform, doConnect, about[doConnect]("there", ""), &pb.CreateConnectionResponse{})
	asks(t, h, platform, doSubscribe, about[doSubscribe]("there", ""), &pb.CreateSubscriptionResponse{})
	asks(t, h, platform, doProvide, about[doProvide]("extension", ""), &pb.CreateToolProviderResponse{})
	canary := mcptest.NewCanary(t)
	send := ways["Connect JSON"]
	for n, raw := range mcptest.HostileURLs(canary.Port) {
		name := fmt.Sprintf("bad-%d", n)
		host := strings.TrimPrefix(raw, "http://")
		if u, err := url.Parse(raw); err == nil {
			host = u.Host
		}
		register := good(name)
		register.EndpointUrl = raw
		dialled := good(name + "-d")
		dialled.DialAddress = host
		spec := func(s *pb.ConnectionSpec) *pb.ConnectionSpec {
			if s.GetBaseUrl() == "" {
				s.BaseUrl = "https://good.example/mcp"
			}
			return s
		}
		for where, c := range map[string]struct {
			procedure string
			request   proto.Message
			url       bool // the field is a URL
		}{
			"the URL of a registration":        {doRegister, register, true},
			"the dial address of one":          {doRegister, dialled, false},
			"the URL of an edit":               {doUpdate, &pb.UpdateMcpServerRequest{ServerId: "there", Server: &pb.ServerPatch{EndpointUrl: raw}, UpdateMask: mask("endpoint_url")}, true},
			"the dial address of an edit":      {doUpdate, &pb.UpdateMcpServerRequest{ServerId: "there", Server: &pb.ServerPatch{DialAddress: host}, UpdateMask: mask("dial_address")}, false},
			"the URL of a connection":          {doConnect, &pb.CreateConnectionRequest{Name: name + "-u", Spec: &pb.ConnectionSpec{BaseUrl: raw}}, true},
			"the dial address of a connection": {doConnect, &pb.CreateConnectionRequest{Name: name + "-a", Spec: spec(&pb.ConnectionSpec{DialAddress: host})}, false},
			"the issuer of a connection": {doConnect, &pb.CreateConnectionRequest{Name: name + "-i", Spec: spec(&pb.ConnectionSpec{
				AuthKind: pb.ConnectionAuthKind_CONNECTION_AUTH_KIND_CLIENT_CREDENTIALS, Issuer: raw, ClientId: "us", SecretRef: "vault:kv/alpha/x#y",
			})}, true},
			"the token endpoint of a connection": {doConnect, &pb.CreateConnectionRequest{Name: name + "-t", Spec: spec(&pb.ConnectionSpec{
				AuthKind: pb.ConnectionAuthKind_CONNECTION_AUTH_KIND_CLIENT_CREDENTIALS, Issuer: "https://issuer.example", ClientId: "us",
				SecretRef: "vault:kv/alpha/x#y", TokenEndpoint: raw,
			})}, true},
			"the URL of a subscription": {doSubscribe, &pb.CreateSubscriptionRequest{
				SubscriptionId: name, Direction: pb.SubscriptionDirection_SUBSCRIPTION_DIRECTION_SEND, Spec: &pb.SubscriptionSpec{Url: raw, Secret: "env:HOOK"},
			}, true},
			"the URL of a subscription's edit": {doRehook, &pb.UpdateSubscriptionRequest{SubscriptionId: "there", Spec: &pb.SubscriptionSpec{Url: raw}, UpdateMask: mask("url")}, true},
			"the URL of an extension":          {doProvide, &pb.CreateToolProviderRequest{Name: name + "-p", Config: &pb.CreateToolProviderRequest_Aep{Aep: at(extensionOf(name+"-p"), raw)}}, true},
			"the URL of an extension's edit": {doReprovide, &pb.UpdateToolProviderRequest{
				Name: "extension", Config: &pb.UpdateToolProviderRequest_Aep{Aep: &pb.AepProviderConfig{BaseUrl: raw}}, UpdateMask: mask("aep.base_url"),
			}, true},
			"the URL of a provider of one server": {doProvide, &pb.CreateToolProviderRequest{Name: name + "-m", Config: &pb.CreateToolProviderRequest_Mcp{Mcp: &pb.McpProviderConfig{
				EndpointUrl: raw, Authentication: pb.McpAuthentication_MCP_AUTHENTICATION_WORKLOAD_IDENTITY,
			}}}, true},
			"the URL of a connection's edit": {doReroute, &pb.UpdateConnectionRequest{Name: "there", Spec: &pb.ConnectionSpec{BaseUrl: raw}, UpdateMask: mask("base_url")}, true},
		} {
			o := send(t, h, admin(alpha), c.procedure, c.request, keyed(name+where))
			switch {
			case o.answer == nil && o.code != "invalid_argument" && o.code != "failed_precondition":
				t.Errorf("%q as %s comes to %+v", raw, where, o)
			case o.answer != nil && c.url && !strings.HasPrefix(strings.ToLower(raw), "http://") && !strings.HasPrefix(raw, "https://"):
				t.Errorf("%q is kept as %s", raw, where)
			}
		}
		if n := canary.Seen(t.Context()); n != 0 {
			t.Fatalf("%q: the canary saw %d connections", raw, n)
		}
	}
}

// at moves an extension.
func at(e *pb.AepProviderConfig, raw string) *pb.AepProviderConfig {
	e.BaseUrl = raw
	return e
}

// An issuer of callers that has its keys at one of the hostile URLs is not
// followed there, and vouches for nobody. It is asked through a guard that lets
// through the issuer and nothing else.
func TestKeysAtHostileURLsAreNotFetched(t *testing.T) {
	t.Parallel()
	canary := mcptest.NewCanary(t)
	guard := outbound.NewGuard(outbound.Options{
		Resolver: mcptest.HostileDNS{}, AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.9/32")},
	})
	client := guard.Client(outbound.ClientOptions{})
	t.Cleanup(client.CloseIdleConnections)
	keys := newTestIssuer(t)
	for _, raw := range mcptest.HostileURLs(canary.Port) {
		var issuer *httptest.Server
		asked := 0
		issuer = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked++
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]string{"issuer": issuer.URL, "jwks_uri": raw})
		}))
		_ = issuer.Listener.Close()
		l, err := net.Listen("tcp", "127.0.0.9:0")
		if err != nil {
			t.Fatal(err)
		}
		issuer.Listener = l
		issuer.Start()
		a := knower(t, newClock(), client, Issuer{Issuer: issuer.URL, Audience: testAudience})
		token := keys.with(map[string]any{"iss": issuer.URL})
		if _, reason := enter(t, a, token); reason != registry.ReasonDependency {
			t.Errorf("with keys at %q the bearer is refused as %q", raw, reason)
		}
		issuer.Close()
		if asked == 0 {
			t.Errorf("the issuer with keys at %q was not asked", raw)
		}
		if n := canary.Seen(t.Context()); n != 0 {
			t.Fatalf("%q: the canary saw %d connections", raw, n)
		}
	}
}
