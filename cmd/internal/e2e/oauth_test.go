package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"countersign/cmd/internal/issuer"
	"countersign/mcptest"
	"countersign/registry"
)

// authority is an issuer on a listener, which can be away, and can forget its client.
type authority struct {
	*httptest.Server

	file   string
	server string // for which it gives tokens

	mu    sync.Mutex
	serve http.Handler
}

// clientID is the client that the issuer knows, as long as it does.
const clientID = "countersign-at-acme"

func newAuthority(t *testing.T, secret, server string) *authority {
	t.Helper()
	a := &authority{file: filepath.Join(t.TempDir(), "issuer.json"), server: server}
	state, err := json.Marshal(map[string]any{"secrets": map[string]string{clientID: secret}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.file, state, 0o600); err != nil {
		t.Fatal(err)
	}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		serve := a.serve
		a.mu.Unlock()
		serve.ServeHTTP(w, r)
	}))
	t.Cleanup(a.Close)
	a.knows(t, clientID)
	return a
}

func (a *authority) issuer() string { return a.URL + "/issuer" }

func (a *authority) becomes(h http.Handler) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.serve = h
}

// knows makes it an issuer of these clients and no others. Its key stays.
func (a *authority) knows(t *testing.T, clients ...string) {
	t.Helper()
	o := issuer.Options{URL: a.issuer(), File: a.file, Audience: "nobody", Life: 6 * time.Second}
	for _, id := range clients {
		o.Services = append(o.Services, issuer.Service{ID: id, As: issuer.User{Subject: id, Scopes: []string{"read"}}, Resources: []string{a.server}})
	}
	i, err := issuer.New(o)
	if err != nil {
		t.Fatal(err)
	}
	a.becomes(i.Handler())
}

func (a *authority) isAway() {
	a.becomes(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "later", http.StatusServiceUnavailable) }))
}

// guarded is an MCP server that takes tokens that its issuer made for it, which it
// checks by the issuer's published keys.
type guarded struct {
	*httptest.Server

	issuer *authority
	mcp    http.Handler

	mu      sync.Mutex
	checks  *oidc.IDTokenVerifier
	tokens  map[string]bool // that were shown and taken
	open    bool            // it lets everybody in
	refuses bool            // whatever it is shown
}

func newGuarded(t *testing.T, secret string) *guarded {
	t.Helper()
	script := mcptest.Script{}
	script.List("tools/list", mcptest.Items(mcptest.Tools(2)...))
	g := &guarded{mcp: mcptest.Handler(script), tokens: map[string]bool{}}
	g.Server = httptest.NewServer(g)
	t.Cleanup(g.Close)
	g.issuer = newAuthority(t, secret, g.url())
	return g
}

func (g *guarded) url() string { return g.URL + "/mcp" }

func (g *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const metadata = "/.well-known/oauth-protected-resource/mcp"
	switch {
	case r.URL.Path == metadata:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"resource": g.url(), "authorization_servers": []string{g.issuer.issuer()}})
	case g.takes(r):
		g.mcp.ServeHTTP(w, r)
	default:
		w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer resource_metadata=%q", g.URL+metadata))
		http.Error(w, "no", http.StatusUnauthorized)
	}
}

func (g *guarded) takes(r *http.Request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	token, shown := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if g.open || g.refuses || !shown {
		return g.open
	}
	if g.tokens[token] {
		return true // it was good a moment ago
	}
	if g.checks == nil {
		provider, err := oidc.NewProvider(context.WithoutCancel(r.Context()), g.issuer.issuer())
		if err != nil {
			return false
		}
		g.checks = provider.Verifier(&oidc.Config{ClientID: g.url()})
	}
	if _, err := g.checks.Verify(r.Context(), token); err != nil {
		return false
	}
	g.tokens[token] = true
	return true
}

func (g *guarded) set(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
}

func (g *guarded) seen() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Keys(g.tokens))
}

// lets writes a configuration that lets the first tenant use a variable.
func (d *dev) lets(t *testing.T, variable string) {
	t.Helper()
	path := filepath.Join(d.dir, "operator.yaml")
	text := fmt.Sprintf("secrets:\n  tenants:\n    - {tenants: [%s], prefixes: [\"env:%s\"]}\n", first, variable)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d.flags = []string{"--config", path}
}

// connect makes the connection of a server that wants tokens.
func (g *guarded) connect(t *testing.T, c terminal, name, ref string) {
	t.Helper()
	c.json(t, "connection", "create", name, "--url", g.url(), "--auth", "client_credentials", "--issuer", g.issuer.issuer(),
		"--client-id", clientID, "--secret-ref", ref, "--scope", "read")
}

// A whole life with tokens: a connection, a test, a discovery, an approval, probes
// that get new tokens when the old ones end; an issuer that forgets us and one that is
// away, which are not the server's fault (R146, R204); a server that takes no token any
// more, which is. And the canary: neither the secret nor a token is anywhere (R26).
func TestAWholeLifeWithTokens(t *testing.T) {
	t.Parallel()
	const secret = "canary/of+the=client&7d1f%~2a90"
	g := newGuarded(t, secret)
	d := newDev(t)
	d.interval = time.Second
	d.lets(t, "LIFE_SECRET")
	d.start(t, "LIFE_SECRET="+secret)
	maintainer, admin, other := d.terminal(first, registry.RoleAssetMaintainer), d.terminal(first, registry.RolePlatformAdmin), d.terminal(second, registry.RolePlatformAdmin)
	var said strings.Builder // all that was answered
	run := func(c terminal, args ...string) (string, int) {
		t.Helper()
		out, log, code := c.run(t, args...)
		said.WriteString(out + log)
		return out, code
	}
	g.connect(t, maintainer, "life", "env:LIFE_SECRET")
	if out, code := run(maintainer, "connection", "test", "life"); code != 0 || strings.Contains(out, string(registry.ReasonAuthNotEnforced)) {
		t.Fatalf("the test of the connection: exit code %d\n%s", code, out)
	}
	if s := maintainer.server(t, "server", "register", "life", "--connection", "life", "--auth", "oauth2", "--wait", "verified"); s.GetState() != verified {
		t.Fatalf("registered: %v", s)
	}
	if s := admin.server(t, "server", "approve", "life", "--all", "--class", "read", "--yes", "--wait", "active"); s.GetState() != active {
		t.Fatalf("approved: %v", s)
	}
	// The other tenant may not use the secret, although it knows its name.
	g.connect(t, other, "life", "env:LIFE_SECRET")
	if _, reason := other.fails(t, "connection", "test", "life"); reason != registry.ReasonSecretRefUnresolved {
		t.Errorf("another tenant's use of the secret: %s", reason)
	}

	// health waits until the last probe says so.
	health := func(want registry.Reason) {
		t.Helper()
		until(t, "the health is "+string(want), patience, func() error {
			s, err := d.admin().get(t.Context(), "life")
			if err != nil {
				return err
			}
			if got := s.GetHealth().GetReason(); got != string(want) {
				return fmt.Errorf("it is %s: %s", got, s.GetHealth().GetSummary())
			}
			return nil
		})
	}
	callable := func(reason registry.Reason) {
		t.Helper()
		out, _ := run(admin, "tools", "resolve", "life."+mcptestTool, "-o", "json")
		if said := resolution(t, []byte(out)); said.Reason != reason || said.Callable != (reason == "") {
			t.Errorf("resolve answers %+v, not %q", said, reason)
		}
	}
	until(t, "three tokens were shown, each after the one before had ended", patience, func() error {
		if n := len(g.seen()); n < 3 {
			return fmt.Errorf("%d tokens", n)
		}
		return nil
	})
	health("ok")
	callable("")

	for _, c := range []struct {
		change func()
		want   registry.Reason
	}{
		{func() { g.issuer.knows(t) }, registry.ReasonInvalidClient},
		{g.issuer.isAway, registry.ReasonDependency},
	} {
		c.change()
		health(c.want)
		if s := admin.server(t, "server", "get", "life"); s.GetState() != active || len(s.GetCauses()) > 0 {
			t.Errorf("%s: the server is %s %v", c.want, s.GetState(), s.GetCauses())
		}
		callable("")
		// Who waits is told at once.
		if _, reason := maintainer.fails(t, "connection", "test", "life"); reason != c.want {
			t.Errorf("%s: the test of the connection says %s", c.want, reason)
		}
		run(admin, "server", "describe", "life")
	}
	// A workflow tries more than once, and then says what it was.
	if _, code := run(admin, "server", "discover", "life", "--wait-for", "30s"); code == 0 {
		t.Error("it is discovered without the issuer")
	}
	health(registry.ReasonDependency)
	callable("")
	g.issuer.knows(t, clientID)
	health("ok")
	g.set(func() { g.refuses = true })
	health(registry.ReasonAuthRequired)
	callable(registry.ReasonServerDegraded)
	g.set(func() { g.refuses = false })
	health("ok")
	callable("")

	for _, args := range [][]string{
		{"connection", "list", "-o", "json"},
		{"connection", "get", "life", "-o", "json"},
		{"connection", "versions", "life"},
		{"connection", "describe", "life"},
		{"server", "get", "life", "-o", "json"},
		{"server", "describe", "life", "-o", "json"},
		{"server", "decisions", "life", "-o", "json"},
		{"server", "runs", "life", "-o", "json"},
		{"audit", "list", "-o", "json"},
		{"audit", "export"},
	} {
		if out, code := run(admin, args...); code != 0 {
			t.Errorf("%q: exit code %d\n%s", args, code, out)
		}
	}
	d.kill() // whatever was on its way to a file stays there
	places := map[string][]byte{"answers": []byte(said.String()), "log": []byte(d.log.String()), "output": []byte(d.out.String())}
	err := filepath.WalkDir(d.dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			places[entry.Name()], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil || !bytes.Contains(places["countersign.db"], []byte("env:LIFE_SECRET")) && !bytes.Contains(places["countersign.db-wal"], []byte("env:LIFE_SECRET")) {
		t.Errorf("the reference is in none of %d files: %v", len(places), err)
	}
	canaries := append(forms(secret), forms(clientID+":"+secret)...)
	for _, token := range g.seen() {
		canaries = append(canaries, forms(token[strings.LastIndexByte(token, '.')+1:])...) // the signature alone is worth it
	}
	for name, text := range places {
		for _, canary := range canaries {
			if bytes.Contains(text, []byte(canary)) {
				t.Errorf("%s has %q", name, canary)
			}
		}
	}
}

// mcptestTool is the first of the tools of [mcptest.Tools].
const mcptestTool = "tool_0000"

// forms gives the ways in which a text may be written: plain, percent-encoded, in JSON,
// and in base64 wherever it begins.
func forms(text string) []string {
	quoted, _ := json.Marshal(text)
	out := []string{text, url.QueryEscape(text), url.PathEscape(text), strings.Trim(string(quoted), `"`)}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before, skip := range []int{0, 2, 3} {
			whole := encoding.EncodeToString([]byte(strings.Repeat("x", before) + text))
			out = append(out, whole[skip:(before+len(text))/3*4])
		}
	}
	return out
}

// R22: a server that claims an authentication and answers without any is discovered,
// and cannot be approved; once it refuses, it can.
func TestAServerThatLetsEverybodyInIsNotApproved(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "the-secret-of-a-client")
	g.set(func() { g.open = true })
	d := newDev(t)
	d.lets(t, "OPEN_SECRET")
	d.start(t, "OPEN_SECRET=the-secret-of-a-client")
	admin := d.terminal(first, registry.RolePlatformAdmin)
	g.connect(t, admin, "open", "env:OPEN_SECRET")
	var report struct {
		Quirks []string `json:"quirks"`
	}
	for _, kind := range []string{"connection", "server"} {
		if kind == "server" {
			s := admin.server(t, "server", "register", "open", "--connection", "open", "--auth", "oauth2", "--wait", "verified")
			if s.GetState() != verified {
				t.Fatalf("registered: %v", s)
			}
		}
		if err := json.Unmarshal(admin.json(t, kind, "test", "open"), &report); err != nil || !slices.Contains(report.Quirks, registry.QuirkAuthNotEnforced) {
			t.Errorf("the test of the %s: %v %v", kind, report, err)
		}
	}
	approve := []string{"server", "approve", "open", "--all", "--class", "read", "--yes", "--quiet"}
	if _, reason := admin.fails(t, approve...); reason != registry.ReasonAuthNotEnforced {
		t.Errorf("approving it: %s", reason)
	}
	g.set(func() { g.open = false })
	admin.json(t, "server", "discover", "open")
	until(t, "it is approved", patience, func() error {
		if out, log, code := admin.run(t, approve...); code != 0 {
			return errors.New(out + log)
		}
		return nil
	})
	if s := admin.server(t, "server", "get", "open"); s.GetState() != active {
		t.Errorf("approved: %v", s)
	}
}

// Where a connection names no secret our own issuer stands for it, by documents that
// everybody may read, for one server; and a server tells tenants apart by the subject.
func TestOurOwnIssuerStandsForAConnection(t *testing.T) {
	t.Parallel()
	d := newDev(t)
	d.start(t)
	script := mcptest.Script{}
	script.List("tools/list", mcptest.Items(mcptest.Tools(1)...))
	mcp := mcptest.Handler(script)
	provider, err := oidc.NewProvider(t.Context(), d.url()+"/workload")
	if err != nil {
		t.Fatal(err)
	}
	var subjects record
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		token, err := provider.Verifier(&oidc.Config{ClientID: server.URL + "/mcp", SupportedSigningAlgs: []string{"ES256"}}).Verify(r.Context(), raw)
		if err == nil {
			fmt.Fprintln(&subjects, token.Subject)
		}
		if err != nil || token.Subject != first+"/mine" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		mcp.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	admin, other := d.terminal(first, registry.RolePlatformAdmin), d.terminal(second, registry.RolePlatformAdmin)
	for _, c := range []terminal{admin, other} {
		c.json(t, "connection", "create", "mine", "--url", server.URL+"/mcp", "--auth", "workload_identity")
	}
	if s := admin.server(t, "server", "register", "mine", "--connection", "mine", "--auth", "workload", "--wait", "verified"); s.GetState() != verified {
		t.Errorf("registered: %v", s)
	}
	if _, reason := other.fails(t, "connection", "test", "mine"); reason != registry.ReasonAuthRequired {
		t.Errorf("another tenant's connection of this name: %s", reason)
	}
	if said := subjects.String(); !strings.Contains(said, first+"/mine") || !strings.Contains(said, second+"/mine") {
		t.Errorf("the server was shown %q", said)
	}
}
