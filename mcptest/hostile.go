package mcptest

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
)

// HostileURLs are URLs of the kinds by which somebody who may name one leads
// us to where we must not go (threats B4, B7, B12): this machine and the networks
// around it in every spelling, the metadata services of clouds, names that lead
// there, and schemes that are none of ours. Those that could reach this machine
// lead to the port, where a Canary is. Every place that takes a URL, or is handed
// one, is tried with all of them.
func HostileURLs(port string) []string {
	var out []string
	for _, host := range []string{
		// Loopback, as people, C libraries and browsers read it.
		"127.0.0.1", "127.0.0.53", "127.1", "127.0.1", "2130706433", "017700000001", "0177.0.0.1", "0x7f000001", "0x7f.0.0.1", "127.0.0.1.",
		"0", "0.0.0.0", "[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]",
		"127。0。0。1", "①②⑦.⓪.⓪.①", "localhost", "LOCALHOST", "localhost.", "ｌｏｃａｌｈｏｓｔ",
		// It, translated and tunnelled.
		"[64:ff9b::127.0.0.1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]",
		// What is near.
		"10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "[fe80::1%25lo]", "[fc00::1]", "224.0.0.1", "255.255.255.255",
		// Metadata of clouds.
		"169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192", "[fd00:ec2::254]",
		// Names that lead there.
		"127.0.0.1.nip.io", "localtest.me", "metadata.google.internal", "inside.example", "mapped.example", "translated.example", "both.example",
	} {
		out = append(out, "http://"+host+":"+port+"/mcp")
	}
	for _, url := range []string{
		"https://127.0.0.1:PORT/mcp", "https://localtest.me:PORT/mcp", "HTTP://127.0.0.1:PORT/", "//127.0.0.1:PORT/mcp", `\\127.0.0.1:PORT\mcp`,
		"http:127.0.0.1:PORT", "http:/127.0.0.1:PORT/mcp", "http:///127.0.0.1:PORT/mcp", `http:\\127.0.0.1:PORT\mcp`, " http://127.0.0.1:PORT/mcp", "\thttp://127.0.0.1:PORT/",
		"http://server.example@127.0.0.1:PORT/mcp", "http://server.example:80@127.0.0.1:PORT/mcp", `http://server.example\@127.0.0.1:PORT/mcp`,
		"http://127.0.0.1:PORT#@server.example/mcp", "http://127.0.0.1:PORT?@server.example/mcp", "http://server.example%00@127.0.0.1:PORT/", "http://127.0.0.1%2f@server.example:PORT/",
		"http://127.0.0.1:PORT/%0d%0aHost:%20inside", "ws://127.0.0.1:PORT/mcp", "ftp://127.0.0.1:PORT/mcp", "gopher://127.0.0.1:PORT/_GET%20/", "dict://127.0.0.1:PORT/info",
		"unix:///var/run/docker.sock", "file:///etc/passwd", "file://127.0.0.1:PORT/etc/passwd", "javascript:fetch('http://127.0.0.1:PORT')", "data:text/html,http://127.0.0.1:PORT",
		"jar:http://127.0.0.1:PORT!/x", "view-source:http://127.0.0.1:PORT/", "blob:http://127.0.0.1:PORT/x", "http://$(curl 127.0.0.1:PORT)/", "http://`curl 127.0.0.1:PORT`/",
	} {
		out = append(out, strings.ReplaceAll(url, "PORT", port))
	}
	return out
}

// hostileNames are the names in HostileURLs and where they lead.
var hostileNames = map[string][]string{
	"localhost": {"127.0.0.1"}, "localhost.": {"127.0.0.1"}, "ｌｏｃａｌｈｏｓｔ": {"127.0.0.1"}, "127。0。0。1": {"127.0.0.1"}, "①②⑦.⓪.⓪.①": {"127.0.0.1"},
	"127.0.0.1.nip.io": {"127.0.0.1"}, "localtest.me": {"::1", "127.0.0.1"}, "metadata.google.internal": {"169.254.169.254"},
	"inside.example": {"10.0.0.5"}, "mapped.example": {"::ffff:127.0.0.1"}, "translated.example": {"64:ff9b::7f00:1"}, "both.example": {"93.184.216.34", "127.0.0.1"},
}

// HostileDNS answers for the names in HostileURLs, and knows no others but those
// in it.
type HostileDNS map[string]netip.Addr

// LookupNetIP implements a resolver.
func (d HostileDNS) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	host = strings.ToLower(host)
	if known, ok := d[host]; ok {
		return []netip.Addr{known}, nil
	}
	var out []netip.Addr
	for _, address := range hostileNames[host] {
		out = append(out, netip.MustParseAddr(address))
	}
	if len(out) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return out, nil
}

// Canary listens where nobody may come, on both loopback addresses, and counts
// who does.
type Canary struct {
	Port string
	seen atomic.Int64
}

// NewCanary starts one that ends with the test.
func NewCanary(tb TB) *Canary {
	tb.Helper()
	c := &Canary{}
	first, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("mcptest: %v", err)
		return nil
	}
	_, c.Port, _ = net.SplitHostPort(first.Addr().String())
	c.watch(tb, first)
	if second, err := net.Listen("tcp6", net.JoinHostPort("::1", c.Port)); err == nil { // where there is IPv6
		c.watch(tb, second)
	}
	return c
}

func (c *Canary) watch(tb TB, l net.Listener) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.seen.Add(1)
			_ = conn.Close()
		}
	}()
	tb.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
}

// Seen is how many connected. It counts also whoever connected before the call
// and was not accepted yet: it connects itself, behind them.
func (c *Canary) Seen(ctx context.Context) int64 {
	for _, address := range []string{"127.0.0.1", "::1"} {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(address, c.Port))
		if err != nil {
			continue // no IPv6
		}
		one := make([]byte, 1)
		_, _ = conn.Read(one) // ends when it was accepted
		_ = conn.Close()
		c.seen.Add(-1)
	}
	return c.seen.Load()
}
