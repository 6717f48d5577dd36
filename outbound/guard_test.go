package outbound_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"countersign/outbound"
	"countersign/registry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// canary listens on both loopback addresses and counts who comes.
type canary struct {
	port  string
	count atomic.Int64
}

func newCanary(t *testing.T) *canary {
	t.Helper()
	c := &canary{}
	v4, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, c.port, _ = net.SplitHostPort(v4.Addr().String())
	listeners := []net.Listener{v4}
	if v6, err := net.Listen("tcp", "[::1]:"+c.port); err == nil {
		listeners = append(listeners, v6)
	}
	for _, l := range listeners {
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })}
		server.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				c.count.Add(1)
			}
		}
		go func() { _ = server.Serve(l) }()
		t.Cleanup(func() { _ = server.Close() })
	}
	return c
}

// names is a resolver with a script per name: the n-th look-up gets the n-th
// answer, later ones the last.
type names map[string][][]string

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	host = strings.ToLower(host)
	script, ok := n[host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if len(script) > 1 {
		n[host] = script[1:]
	}
	var addrs []netip.Addr
	for _, a := range script[0] {
		addrs = append(addrs, netip.MustParseAddr(a))
	}
	return addrs, nil
}

// get makes one request and gives the reason of its failure.
func get(t *testing.T, g *outbound.Guard, url string, o outbound.ClientOptions) (*http.Response, error) {
	t.Helper()
	client := g.Client(o)
	t.Cleanup(client.CloseIdleConnections)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err == nil {
		t.Cleanup(func() { _ = resp.Body.Close() })
	}
	return resp, err
}

// TestAddressesThatAreNotPublicAreNeverDialled is the deny list in the forms in
// which attackers write it.
func TestAddressesThatAreNotPublicAreNeverDialled(t *testing.T) {
	c := newCanary(t)
	resolver := names{
		"127.0.0.1.nip.io":              {{"127.0.0.1"}},
		"localtest.me":                  {{"::1", "127.0.0.1"}},
		"metadata.google.internal":      {{"169.254.169.254"}},
		"mapped.example":                {{"::ffff:127.0.0.1"}},
		"nat64.example":                 {{"64:ff9b::7f00:1"}},
		"mixed.example":                 {{"93.184.216.34", "127.0.0.1"}},
		"mixed-the-other-way.example":   {{"127.0.0.1", "93.184.216.34"}},
		"database.internal.example":     {{"10.0.0.5"}},
		"localhost":                     {{"127.0.0.1"}},
		"localhost.":                    {{"127.0.0.1"}},
		"ｌｏｃａｌｈｏｓｔ":                     {{"127.0.0.1"}},
		"xn--e1afmkfd.xn--80akhbyknj4f": {{"192.168.0.9"}},
	}
	guard := outbound.NewGuard(outbound.Options{Resolver: resolver})
	hosts := []string{
		"127.0.0.1", "127.0.0.53", "127.255.255.254", "127.1", "127.0.1", "2130706433", "017700000001", "0177.0.0.1", "0177.0.0.01",
		"0x7f000001", "0x7f.0.0.1", "0x7F.1", "127.0.0.1.", "0", "0.0.0.0", "00.0.0.0", "127.0.0.0x1",
		"[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:8.8.8.8]", "[::127.0.0.1]",
		"[64:ff9b::127.0.0.1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]", "[fe80::1]", "[fe80::1%25lo]", "[fc00::1]", "[fd00:ec2::254]", "[ff02::1]",
		"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "100.100.100.200", "169.254.169.254", "169.254.170.2",
		"192.0.0.192", "198.18.0.1", "224.0.0.1", "255.255.255.255", "168.63.129.16",
		"localhost", "LOCALHOST", "localhost.", "ｌｏｃａｌｈｏｓｔ",
		"127.0.0.1.nip.io", "localtest.me", "metadata.google.internal", "mapped.example", "nat64.example", "mixed.example",
		"mixed-the-other-way.example", "database.internal.example", "xn--e1afmkfd.xn--80akhbyknj4f",
	}
	if len(hosts) < 40 {
		t.Fatalf("only %d hosts", len(hosts))
	}
	for _, scheme := range []string{"http", "https"} {
		for _, host := range hosts {
			t.Run(scheme+"://"+host, func(t *testing.T) {
				_, err := get(t, guard, scheme+"://"+host+":"+c.port+"/mcp", outbound.ClientOptions{})
				if reason := registry.ReasonOf(err); reason != registry.ReasonBlockedAddress {
					t.Errorf("reason %s: %v", reason, err)
				}
			})
		}
		for _, host := range hosts {
			t.Run("dial address "+host, func(t *testing.T) {
				_, err := get(t, guard, scheme+"://example.com/mcp", outbound.ClientOptions{DialAddress: strings.ReplaceAll(host, "%25", "%") + ":" + c.port})
				if reason := registry.ReasonOf(err); reason != registry.ReasonBlockedAddress && reason != registry.ReasonDNS {
					t.Errorf("reason %s: %v", reason, err)
				}
			})
		}
	}
	if n := c.count.Load(); n != 0 {
		t.Errorf("the canary saw %d connections", n)
	}
}

func TestPublicAddressesPass(t *testing.T) {
	t.Parallel()
	guard := outbound.NewGuard(outbound.Options{})
	for _, addr := range []string{"8.8.8.8", "93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "172.32.0.1", "100.128.0.1", "11.0.0.1"} {
		if err := guard.Check(netip.MustParseAddr(addr)); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
	if guard.Check(netip.Addr{}) == nil {
		t.Error("the zero address passes")
	}
}

func TestOnlyAllowedNetworksOpenTheGuard(t *testing.T) {
	c := newCanary(t)
	resolver := names{"canary.example": {{"127.0.0.1"}}, "elsewhere.example": {{"10.0.0.1"}}, "both.example": {{"127.0.0.1", "10.0.0.1"}}}
	guard := outbound.NewGuard(outbound.Options{
		Resolver:      resolver,
		AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.5/8"), netip.MustParsePrefix("::1/128")},
	})
	for _, tt := range []struct {
		host string
		want registry.Reason
	}{
		{"127.0.0.1", ""},
		{"canary.example", ""},
		{"[::1]", ""},
		{"[::ffff:127.0.0.1]", ""},
		{"2130706433", registry.ReasonBlockedAddress},
		{"elsewhere.example", registry.ReasonBlockedAddress},
		{"both.example", registry.ReasonBlockedAddress},
		{"10.0.0.1", registry.ReasonBlockedAddress},
		{"169.254.169.254", registry.ReasonBlockedAddress},
		{"[64:ff9b::7f00:1]", registry.ReasonBlockedAddress},
	} {
		t.Run(tt.host, func(t *testing.T) {
			before := c.count.Load()
			resp, err := get(t, guard, "http://"+tt.host+":"+c.port+"/", outbound.ClientOptions{})
			if tt.want == "" {
				if err != nil || resp.StatusCode != http.StatusOK || c.count.Load() != before+1 {
					t.Fatalf("not reached: %v", err)
				}
				return
			}
			if registry.ReasonOf(err) != tt.want || c.count.Load() != before {
				t.Errorf("reason %s, %d connections", registry.ReasonOf(err), c.count.Load()-before)
			}
		})
	}
}

// TestRebindingFindsNoSecondLookUp: the name is public when it is registered
// and private when it is used (H8, threats B5).
func TestRebindingFindsNoSecondLookUp(t *testing.T) {
	c := newCanary(t)
	guard := outbound.NewGuard(outbound.Options{Resolver: names{"flip.example": {{"93.184.216.34"}, {"127.0.0.1"}, {"93.184.216.34", "127.0.0.1"}}}})
	url := "https://flip.example:" + c.port + "/mcp"
	if _, err := get(t, guard, url, outbound.ClientOptions{}); registry.ReasonOf(err) == registry.ReasonBlockedAddress {
		t.Errorf("the public answer was refused: %v", err)
	}
	for range 3 {
		_, err := get(t, guard, url, outbound.ClientOptions{})
		if registry.ReasonOf(err) != registry.ReasonBlockedAddress {
			t.Errorf("reason %s", registry.ReasonOf(err))
		}
	}
	if n := c.count.Load(); n != 0 {
		t.Errorf("the canary saw %d connections", n)
	}
}

// Whoever is on the way to a public address reads plain HTTP along.
func TestPublicAddressesAreSpokenToOverHTTPSOnly(t *testing.T) {
	t.Parallel()
	guard := outbound.NewGuard(outbound.Options{Resolver: names{"public.example": {{"203.0.113.0"}, {"93.184.216.34"}}}})
	for _, url := range []string{"http://93.184.216.34/mcp", "http://[2606:2800:220:1::1]/mcp", "http://public.example/mcp"} {
		_, err := get(t, guard, url, outbound.ClientOptions{ConnectTimeout: time.Second})
		if e, ok := registry.AsError(err); !ok || e.Reason != registry.ReasonBlockedAddress || e.Next == "" {
			t.Errorf("%s: %v", url, err)
		}
	}
	wide := outbound.NewGuard(outbound.Options{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("93.184.216.34/32")}})
	if _, err := get(t, wide, "http://93.184.216.34:1/mcp", outbound.ClientOptions{ConnectTimeout: time.Millisecond}); registry.ReasonOf(err) == registry.ReasonBlockedAddress {
		t.Errorf("an allowed network: %v", err)
	}
}

func TestAClientMayDialWhatItsConnectionOpens(t *testing.T) {
	t.Parallel()
	c := newCanary(t)
	guard := outbound.NewGuard(outbound.Options{})
	open := outbound.ClientOptions{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}
	if _, err := get(t, guard, "http://127.0.0.1:"+c.port, open); err != nil {
		t.Error(err)
	}
	if _, err := get(t, guard, "http://127.0.0.2:"+c.port, open); registry.ReasonOf(err) != registry.ReasonBlockedAddress {
		t.Errorf("beside the network: %v", err)
	}
	// Nobody else gets it.
	if _, err := get(t, guard, "http://127.0.0.1:"+c.port, outbound.ClientOptions{}); registry.ReasonOf(err) != registry.ReasonBlockedAddress {
		t.Errorf("another client: %v", err)
	}
}

func TestABlockedAddressIsNamed(t *testing.T) {
	t.Parallel()
	guard := outbound.NewGuard(outbound.Options{Resolver: names{"inside.example": {{"192.168.7.7"}}}})
	_, err := get(t, guard, "http://inside.example/mcp", outbound.ClientOptions{})
	e, ok := registry.AsError(err)
	if !ok || e.Fact("address") != "192.168.7.7" || e.Next == "" {
		t.Errorf("%+v", e)
	}
}
