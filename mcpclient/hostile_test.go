//go:build linux

package mcpclient_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"countersign/mcpclient"
	"countersign/mcptest"
	"countersign/outbound"
	"countersign/registry"
)

// handed are the places where a server hands us a URL, as scripts in which BAIT
// is it, in JSON.
var handed = map[string]string{
	"a redirect":          `{"about":"x","faults":[{"on":["server/discover","initialize"],"status":307,"headers":{"Location":BAIT}}]}`,
	"a redirect of lists": `{"about":"x","lists":{"tools/list":{"plain":1}},"faults":[{"on":"tools/list","status":302,"headers":{"Location":BAIT}}]}`,
	"a challenge":         `{"about":"x","faults":[{"on":["server/discover","initialize"],"status":401,"headers":{"WWW-Authenticate":CHALLENGE}}]}`,
	"protected-resource metadata": `{"about":"x","faults":[{"on":["server/discover","initialize"],"status":401}],"paths":{
		"/.well-known/oauth-protected-resource/mcp":{"body":METADATA},"/.well-known/oauth-protected-resource":{"body":METADATA}}}`,
	"the endpoint of SSE": `{"about":"x","transport":"sse","lists":{"tools/list":{"plain":1}},"endpoint":BAIT}`,
	"what is listed": `{"about":"x","instructions":BAIT,"serverInfo":{"name":"x","version":"1","websiteUrl":BAIT,"icons":[{"src":BAIT}]},"lists":{
		"tools/list":{"items":[{"name":"t","icons":[{"src":BAIT}],"inputSchema":{"$schema":BAIT,"type":"object","$ref":BAIT,"properties":{"a":{"$ref":BAIT}}},"_meta":{"ui":{"resourceUri":BAIT}}}]},
		"resources/list":{"items":[{"uri":BAIT,"name":"r","icons":[{"src":BAIT}]}]}}}`,
}

// B4, B7, B22: none of the hostile URLs is reached, wherever it stands: as the
// URL of a server, as its dial address, and in each place where a server hands us
// one. The guard lets the server itself through and nothing else.
func TestNoHostileURLIsFollowedFromAnywhere(t *testing.T) {
	t.Parallel()
	canary := mcptest.NewCanary(t)
	bad := mcptest.HostileURLs(canary.Port)
	c := client(nil)
	c.Guard = outbound.NewGuard(outbound.Options{
		Resolver:      mcptest.HostileDNS{"server.example": netip.MustParseAddr("127.0.0.2")},
		AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")},
	})
	for _, raw := range bad {
		for where, to := range map[string]registry.Target{
			"the URL of a server": target(raw), "a dial address": {Transport: registry.TransportStreamableHTTP, URL: "http://server.example/mcp", DialAddress: hostOf(raw)},
		} {
			if to.DialAddress == "" && to.URL == "http://server.example/mcp" {
				continue // it names no host
			}
			if _, _, err := c.Discover(t.Context(), to, "", nil); err == nil {
				t.Errorf("%q as %s is met", raw, where)
			}
			if _, err := c.Probe(t.Context(), to, mcpclient.EraModern); err == nil {
				t.Errorf("%q as %s is probed", raw, where)
			}
		}
		for where, script := range handed {
			s := handing(t, where, script, raw)
			to := target(strings.Replace(s.URL, "127.0.0.2", "server.example", 1))
			era := ""
			if where == "the endpoint of SSE" {
				era = mcpclient.EraSSE
			}
			_, _, _ = c.Discover(t.Context(), to, era, nil) // some are fine: nothing of them is fetched
			if len(s.Calls()) == 0 {
				t.Errorf("%s with %q: nobody came", where, raw)
			}
			s.Close()
		}
		if n := canary.Seen(t.Context()); n != 0 {
			t.Fatalf("%q: the canary saw %d connections", raw, n)
		}
	}
}

// handing starts a server that hands out a URL, at an address that is nobody
// else's.
func handing(t *testing.T, where, script, raw string) *mcptest.Server {
	t.Helper()
	quoted := func(text string) string {
		out, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	plain := strings.Map(func(r rune) rune { // of a header
		if r < ' ' {
			return -1
		}
		return r
	}, raw)
	metadata := fmt.Sprintf(`{"resource":%s,"authorization_servers":[%[1]s],"jwks_uri":%[1]s}`, quoted(raw))
	bait := quoted(raw)
	if strings.Contains(script, "Location") {
		bait = quoted(plain)
	}
	text := strings.NewReplacer(
		"BAIT", bait, "CHALLENGE", quoted(`Bearer resource_metadata="`+strings.ReplaceAll(plain, `"`, "")+`"`), "METADATA", quoted(metadata),
	).Replace(script)
	file, err := mcptest.Parse(where, []byte(text))
	if err != nil {
		t.Fatalf("%s with %q: %v", where, raw, err)
	}
	s, err := file.Listen(net.JoinHostPort("127.0.0.2", "0"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// hostOf is the host and port of a URL.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Host
}
