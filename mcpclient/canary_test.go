//go:build linux

package mcpclient_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"countersign/mcpclient"
	"countersign/mcptest"
	"countersign/outbound"
	"countersign/registry"
)

// A trap is a way by which a server can hand us a URL, as a script in which
// BAIT is an origin that nobody may be led to.
type trap struct {
	name   string
	script string
	// sprung is the kind of call that springs it; one must come.
	sprung string
}

// traps gives all of them.
func traps() []trap {
	var out []trap
	add := func(name, sprung, script string) { out = append(out, trap{name, script, sprung}) }
	const lists = `"lists":{"tools/list":{"plain":1},"resources/list":{"plain":1},"resources/templates/list":{"plain":1},"prompts/list":{"plain":1}}`

	calls := map[string]string{ // and the era in which they are made
		"server/discover": "modern", "tools/list": "both", "resources/list": "both", "prompts/list": "both",
		"initialize": "legacy", "notifications/initialized": "legacy", "DELETE": "legacy", "*": "both",
	}
	for on, era := range calls {
		fault := func(name, answer string) {
			sprung := on
			if on == "*" {
				sprung = ""
			}
			add(name+" for "+on, sprung, `{"about":"x","era":"`+era+`","sessions":true,`+lists+`,"faults":[{"on":"`+on+`",`+answer+`}]}`)
		}
		for _, status := range []int{201, 202, 300, 301, 302, 303, 304, 305, 307, 308, 401, 403, 404, 405, 410, 421, 429, 503, 511} {
			fault(fmt.Sprintf("%d with a Location", status), fmt.Sprintf(`"status":%d,"headers":{"Location":"BAIT/mcp"}`, status))
		}
		for _, challenge := range []string{
			`Bearer resource_metadata=\"BAIT/meta\"`,
			`Bearer resource_metadata=\"//BAITHOST/meta\"`,
			`Bearer realm=\"BAIT\", authorization_uri=\"BAIT/as\", as_uri=\"BAIT\", error_uri=\"BAIT/error\"`,
			`Bearer resource_metadata=\"$ORIGIN@BAITHOST/meta\"`,
			`Negotiate`, `Digest realm=\"x\", domain=\"BAIT\", nonce=\"1\"`,
		} {
			fault("the challenge "+challenge, `"status":401,"headers":{"WWW-Authenticate":"`+challenge+`"}`)
			fault("a refusal with the challenge "+challenge, `"status":403,"headers":{"WWW-Authenticate":"`+challenge+`"}`)
		}
		fault("a challenge of a proxy", `"status":407,"headers":{"Proxy-Authenticate":"Basic realm=\"BAIT\"","Location":"BAIT"}`)
		for name, value := range map[string]string{
			"Link":                 `<BAIT/a>; rel=\"preload\", <BAIT>; rel=\"next\", <BAIT>; rel=\"service-desc\"`,
			"Location":             `BAIT/mcp`,
			"Content-Location":     `BAIT/mcp`,
			"Refresh":              `0; url=BAIT/mcp`,
			"Alt-Svc":              `h2=\"BAITHOST\"; ma=3600, h3=\"BAITHOST\"; ma=3600, http/1.1=\"BAITHOST\"`,
			"Set-Cookie":           `session=abc; Path=/`,
			"SourceMap":            `BAIT/map`,
			"Report-To":            `{\"endpoints\":[{\"url\":\"BAIT/report\"}]}`,
			"Mcp-Session-Id":       `BAIT/session`,
			"Mcp-Protocol-Version": `BAIT`,
			"Retry-After":          `BAIT`,
		} {
			fault("the header "+name, `"headers":{"`+name+`":"`+value+`"}`)
		}
		fault("an error with a URL", `"error":{"code":-32042,"message":"BAIT","data":{"elicitations":[{"mode":"url","url":"BAIT/elicit","elicitationId":"1"}],"url":"BAIT","supported":["BAIT"]}}`)
		if on == "DELETE" || on == "notifications/initialized" {
			continue
		}
		fault("requests of the server's", `"before":[
			{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"mode":"url","url":"BAIT/e","elicitationId":"1","message":"go"}},
			{"jsonrpc":"2.0","id":2,"method":"roots/list"},
			{"jsonrpc":"2.0","id":3,"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"resource_link","uri":"BAIT/r","name":"r"}}],"maxTokens":1}},
			{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"BAIT/r"}}]`)
		fault("early hints", `"raw":"HTTP/1.1 103 Early Hints\r\nLink: <BAIT/a>; rel=preload\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"`)
		fault("another protocol", `"raw":"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nLocation: BAIT\r\n\r\n"`)
	}

	// What protected resources say about themselves.
	add("metadata", "GET", `{"about":"x","faults":[{"on":["server/discover","initialize"],"status":401}],"paths":{"/.well-known/oauth-protected-resource/mcp":{
		"body":"{\"resource\":\"$ORIGIN/mcp\",\"authorization_servers\":[\"BAIT\",\"BAIT/two\"],\"jwks_uri\":\"BAIT/jwks\",\"resource_documentation\":\"BAIT\",\"resource_policy_uri\":\"BAIT\",\"signed_metadata\":\"BAIT\"}"}}}`)
	add("metadata of another resource", "GET", `{"about":"x","faults":[{"on":["server/discover","initialize"],"status":401}],"paths":{"/.well-known/oauth-protected-resource/mcp":{
		"body":"{\"resource\":\"BAIT/mcp\",\"authorization_servers\":[\"BAIT\"]}"}}}`)
	for _, status := range []string{"301", "302", "303", "307", "308"} {
		add("metadata elsewhere "+status, "GET", `{"about":"x","faults":[{"on":["server/discover","initialize"],"status":401,"headers":{"WWW-Authenticate":"Bearer resource_metadata=\"$ORIGIN/meta\""}}],"paths":{
			"/meta":{"status":`+status+`,"redirect":"BAIT/meta"},
			"/.well-known/oauth-protected-resource/mcp":{"status":`+status+`,"redirect":"BAIT/meta"},
			"/.well-known/oauth-protected-resource":{"status":`+status+`,"redirect":"BAIT/meta"}}}`)
		add("an event stream elsewhere "+status, "GET", `{"about":"x","transport":"sse",`+lists+`,"faults":[{"on":"GET","status":`+status+`,"redirect":"BAIT/sse"}]}`)
		add("messages elsewhere "+status, "initialize", `{"about":"x","transport":"sse",`+lists+`,"faults":[{"on":"initialize","status":`+status+`,"redirect":"BAIT/message"}]}`)
		add("lists elsewhere "+status, "tools/list", `{"about":"x","transport":"sse",`+lists+`,"faults":[{"on":"tools/list","status":`+status+`,"redirect":"BAIT/message"}]}`)
	}

	// The endpoint of HTTP+SSE.
	for _, endpoint := range []string{
		"BAIT/message", "//BAITHOST/message", "/\\\\BAITHOST/message", "\\\\\\\\BAITHOST/message", "http:\\\\\\\\BAITHOST/message",
		"http://server.example@BAITHOST/message", "http://server.example\\t@BAITHOST/message", " BAIT/message", "\\tBAIT/message",
		"HTTP://BAITHOST/message", "http:/BAITHOST/message", "http:BAITHOST", "ws://BAITHOST/message", "file:///etc/passwd", "javascript:fetch('BAIT')",
		"http://server.example:1/message", "https://server.example/message", "http://server.example.BAITHOST/message", "BAIT/message#/x", "/../..//BAITHOST/x",
	} {
		add("the endpoint "+endpoint, "GET", `{"about":"x","transport":"sse",`+lists+`,"endpoint":"`+endpoint+`"}`)
	}

	// What is listed, and what a server says of itself.
	const icons = `"icons":[{"src":"BAIT/icon.png","mimeType":"image/png"},{"src":"BAIT/icon.svg"}]`
	for _, era := range []string{"modern", "legacy"} {
		add("things that are listed, "+era, "prompts/list", `{"about":"x","era":"`+era+`","instructions":"Read BAIT/first.",
			"serverInfo":{"name":"BAIT","version":"BAIT","title":"BAIT","websiteUrl":"BAIT/site",`+icons+`},
			"capabilities":{"tools":{},"resources":{"subscribe":true},"prompts":{},"extensions":{"io.modelcontextprotocol/ui":{"url":"BAIT"}},"experimental":{"x":{"url":"BAIT"}}},
			"lists":{
				"tools/list":{"items":[{"name":"t","description":"See BAIT/doc.",`+icons+`,"inputSchema":{"$schema":"BAIT/schema","$id":"BAIT/id","type":"object","$ref":"BAIT/ref",
					"properties":{"a":{"$ref":"BAIT/a#/definitions/x"},"b":{"$dynamicRef":"BAIT/b#x"},"c":{"$recursiveRef":"BAIT/c"}},"allOf":[{"$ref":"BAITHOST/all.json"}]},
					"outputSchema":{"$ref":"BAIT/out"},"_meta":{"ui":{"resourceUri":"BAIT/ui"},"url":"BAIT/meta","openai/outputTemplate":"BAIT/template"}}]},
				"resources/list":{"items":[{"uri":"BAIT/r","name":"r",`+icons+`,"_meta":{"url":"BAIT"}}]},
				"resources/templates/list":{"items":[{"uriTemplate":"BAIT/{x}","name":"rt",`+icons+`}]},
				"prompts/list":{"items":[{"name":"p",`+icons+`,"description":"BAIT"}]}}}`)
	}
	add("a cursor", "tools/list", `{"about":"x","lists":{"tools/list":{"items":[{"name":"a"}],"next":"BAIT/page","cursors":{"BAIT/page":{"items":[{"name":"b"}]}}}}}`)
	return out
}

// sentry notes who connects.
type sentry struct {
	listener net.Listener
	mu       sync.Mutex
	seen     []string
}

func newSentry(t *testing.T, address string) *sentry {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	c := &sentry{listener: l}
	var accepting sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		accepting.Wait()
	})
	accepting.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			first := make([]byte, 1000)
			n, _ := conn.Read(first)
			_ = conn.Close()
			c.mu.Lock()
			c.seen = append(c.seen, string(first[:n]))
			c.mu.Unlock()
		}
	})
	return c
}

// taken gives what came, and forgets it.
func (c *sentry) taken() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.seen
	c.seen = nil
	return seen
}

// alert makes sure that the sentry would have seen somebody.
func (c *sentry) alert(t *testing.T) {
	t.Helper()
	conn, err := net.Dial("tcp", c.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = conn.Write([]byte("hello"))
	_ = conn.Close()
	for deadline := time.Now().Add(slack); ; time.Sleep(time.Millisecond) {
		if seen := c.taken(); len(seen) > 0 {
			if diff := cmp.Diff([]string{"hello"}, seen); diff != "" {
				t.Error(diff)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the sentry is asleep")
		}
	}
}

// lookups is a resolver that notes what it is asked.
type lookups struct {
	names nameService
	mu    sync.Mutex
	asked map[string]bool
}

func (l *lookups) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	l.mu.Lock()
	l.asked[host] = true
	l.mu.Unlock()
	return l.names.LookupNetIP(ctx, network, host)
}

const (
	metadataAddress = "169.254.169.254"
	insideVariable  = "MCPCLIENT_TEST_INSIDE"
)

// TestNothingIsSentElsewhere: whatever URL a server hands us, and however, only
// the server itself is dialled, and it gets nothing that is not its own. It runs
// in a network of its own, in which the metadata address of clouds is real. The
// guard lets everything through here, so it is the client that does not go.
func TestNothingIsSentElsewhere(t *testing.T) {
	if os.Getenv(insideVariable) == "" {
		inItsOwnNetwork(t)
		return
	}
	if err := furnish(); err != nil {
		t.Fatal(err)
	}
	near := newSentry(t, "127.0.0.1:0")
	far, secure := newSentry(t, metadataAddress+":80"), newSentry(t, metadataAddress+":443")
	proxy := newSentry(t, "127.0.0.1:3128")
	all := map[string]*sentry{"loopback": near, "metadata": far, "metadata over TLS": secure, "proxy": proxy}
	for _, c := range all {
		c.alert(t)
	}
	names := &lookups{asked: map[string]bool{}, names: nameService{
		"server.example": {"127.0.0.1"}, "elsewhere.example": {"127.0.0.1"}, "metadata.google.internal": {metadataAddress},
	}}
	c := client(nil)
	c.Guard = outbound.NewGuard(outbound.Options{
		AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16")}, Resolver: names,
	})
	port := near.listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // it listens on TCP
	baits := []string{fmt.Sprintf("127.0.0.1:%d", port), metadataAddress, fmt.Sprintf("elsewhere.example:%d", port), "metadata.google.internal"}
	for _, trap := range traps() {
		for _, bait := range baits {
			sprung := trap.lure(t, c, bait)
			if !sprung {
				t.Errorf("%s: nothing came to it", trap.name)
			}
			for name, sentry := range all {
				if seen := sentry.taken(); len(seen) > 0 {
					t.Errorf("%s, to %s: at %s came %q", trap.name, bait, name, seen)
				}
			}
		}
	}
	if len(names.asked) != 1 || !names.asked["server.example"] {
		t.Errorf("names that were looked up: %v", names.asked)
	}
	for _, c := range all {
		c.alert(t)
	}
}

// lure meets a server with the trap, in all ways, and says whether it sprung.
func (trap trap) lure(t *testing.T, c *mcpclient.Client, bait string) bool {
	t.Helper()
	text := strings.NewReplacer("BAITHOST", bait, "BAIT", "http://"+bait).Replace(trap.script)
	file, err := mcptest.Parse(trap.name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	known := []string{"", mcpclient.EraLegacy}
	if file.Transport == mcptest.OverSSE {
		known = append(known, mcpclient.EraSSE)
	}
	sprung := false
	for _, era := range known {
		for _, probe := range []bool{false, true} {
			s, err := file.Start()
			if err != nil {
				t.Fatal(err)
			}
			to := target(s.URL)
			to.URL = strings.Replace(to.URL, "127.0.0.1", "server.example", 1) // proxies are for names
			if probe {
				_, err = c.Probe(t.Context(), to, era)
			} else {
				_, _, err = c.Discover(t.Context(), to, era, nil)
			}
			if e, ok := registry.AsError(err); err != nil && (!ok || e.Reason == registry.ReasonUnreachable && e.Fact("phase") == "connect") {
				t.Errorf("%s: %v", trap.name, err)
			}
			for _, call := range s.Calls() {
				sprung = sprung || trap.sprung == "" || trap.sprung == call.Method || trap.sprung == call.HTTP
				checkHeaders(t, trap.name, call)
			}
			s.Close()
		}
	}
	return sprung
}

// checkHeaders makes sure that a call says nothing but what the protocol wants.
func checkHeaders(t *testing.T, name string, call mcptest.Call) {
	t.Helper()
	for header := range call.Header {
		if !slices.Contains([]string{
			"Accept", "Accept-Encoding", "Content-Length", "Content-Type", "User-Agent", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Session-Id",
		}, header) {
			t.Errorf("%s: %s has the header %s: %q", name, call.Method, header, call.Header[header])
		}
	}
	if !json.Valid(call.Body) && len(call.Body) > 0 {
		t.Errorf("%s: %q", name, call.Body)
	}
}

// inItsOwnNetwork runs the test again in a network that has nothing but
// loopback and the metadata address, with a proxy in its environment.
func inItsOwnNetwork(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	inside := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v")
	proxy := "http://user:password@127.0.0.1:3128"
	inside.Env = []string{
		insideVariable + "=1", "HTTP_PROXY=" + proxy, "HTTPS_PROXY=" + proxy, "ALL_PROXY=" + proxy, "http_proxy=" + proxy, "https_proxy=" + proxy, "NO_PROXY=", "PATH=" + os.Getenv("PATH"),
	}
	inside.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	out, err := inside.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v (the test needs user namespaces, as the sandbox does)\n%s", err, out)
	}
}

// furnish gives the network of this process loopback and the metadata address.
func furnish() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(socket) }()
	up, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	up.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, up); err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	more, err := unix.NewIfreq("lo:1")
	if err != nil {
		return err
	}
	address := netip.MustParseAddr(metadataAddress).As4()
	if err := more.SetInet4Addr(address[:]); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFADDR, more); err != nil {
		return fmt.Errorf("the metadata address: %w", err)
	}
	return nil
}

// rebound is a name that leads to the server first and elsewhere later.
type rebound struct {
	mu    sync.Mutex
	asked int
	first []string
	later []string
}

func (r *rebound) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	answer := r.first
	if r.asked > 1 {
		answer = r.later
	}
	return nameService{host: answer}.LookupNetIP(ctx, network, host)
}

// TestANameThatChangesItsMindIsNotFollowed: DNS rebinding, by the URL's own name
// and by that of a dial address. The server closes every connection, so that
// every request looks its name up again.
func TestANameThatChangesItsMindIsNotFollowed(t *testing.T) {
	t.Parallel()
	file, err := mcptest.Parse("closing", []byte(`{"about":"x","lists":{"tools/list":{"plain":1}},"faults":[{"headers":{"Connection":"close"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name         string
		first, later []string
		asked        int
	}{
		{"the second answer leads elsewhere", []string{"127.0.0.2"}, []string{"127.0.0.1"}, 2},
		{"the second answer leads to both", []string{"127.0.0.2"}, []string{"127.0.0.2", "127.0.0.1"}, 2},
		{"the first answer leads to both", []string{"127.0.0.2", "127.0.0.1"}, nil, 1},
		{"the second answer is dressed up", []string{"127.0.0.2"}, []string{"::ffff:127.0.0.1"}, 2},
	} {
		for _, dial := range []bool{false, true} {
			for _, probe := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, dial address %v, probe %v", tt.name, dial, probe), func(t *testing.T) {
					s, trapped, port := besideASentry(t, file)
					var err error
					names := &rebound{first: tt.first, later: tt.later}
					c := client(nil)
					c.Guard = outbound.NewGuard(outbound.Options{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}, Resolver: names})
					to := target(strings.Replace(s.URL, "127.0.0.2", "rebound.example", 1))
					if dial {
						to.URL, to.DialAddress = "http://server.example/mcp", "rebound.example:"+port
					}
					if probe {
						_, err = c.Probe(t.Context(), to, mcpclient.EraModern)
					} else {
						_, _, err = c.Discover(t.Context(), to, mcpclient.EraModern, nil)
					}
					if e, ok := registry.AsError(err); !ok || e.Reason != registry.ReasonBlockedAddress || names.asked != tt.asked {
						t.Errorf("%v, asked %d times", err, names.asked)
					}
					if seen := trapped.taken(); len(seen) > 0 {
						t.Errorf("%q", seen)
					}
				})
			}
		}
	}
}

// besideASentry lets the server listen on 127.0.0.2, at a port that a sentry has on
// 127.0.0.1: one that is free on both.
func besideASentry(t *testing.T, file *mcptest.File) (s *mcptest.Server, trapped *sentry, port string) {
	t.Helper()
	for tries := 1; ; tries++ {
		trapped = newSentry(t, "127.0.0.1:0")
		_, port, _ = net.SplitHostPort(trapped.listener.Addr().String())
		s, err := file.Listen("127.0.0.2:"+port, nil)
		switch {
		case err == nil:
			t.Cleanup(s.Close)
			return s, trapped, port
		case tries == 20:
			t.Fatal(err)
		}
	}
}
