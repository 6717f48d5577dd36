package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"countersign/mcptest"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// whoAmI asks an API who the bearer of a token is, by REST.
func whoAmI(t *testing.T, api, token string) (int, map[string]any) {
	t.Helper()
	return ask(t, api+"/factory/whoami", token)
}

// ask gets a path with a token.
func ask(t *testing.T, target, token string) (int, map[string]any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer := map[string]any{}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Fatalf("%s: %s: %v", target, response.Status, err)
	}
	return response.StatusCode, answer
}

var hidden = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)

// browse signs somebody in on the page of the development process.
func browse(t *testing.T, address, who string) {
	t.Helper()
	page, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer page.Body.Close()
	text, err := io.ReadAll(page.Body)
	if err != nil || !strings.Contains(string(text), `value="`+who+`"`) {
		t.Fatalf("%s cannot sign in on %s: %v", who, text, err)
	}
	form := url.Values{"user": {who}}
	for _, field := range hidden.FindAllStringSubmatch(string(text), -1) {
		form.Add(field[1], strings.ReplaceAll(field[2], "&#43;", "+"))
	}
	back, err := http.PostForm(address, form)
	if err != nil {
		t.Fatal(err)
	}
	defer back.Body.Close()
	if said, _ := io.ReadAll(back.Body); back.StatusCode != http.StatusOK || !strings.Contains(string(said), "You are signed in.") {
		t.Fatalf("signing in comes to %s %s", back.Status, said)
	}
}

// The development process gives tokens of its own issuer to files, programs and
// people. They outlive a restart, which makes new ones.
func TestTheDevelopmentProcessHasAnIssuer(t *testing.T) {
	t.Parallel()
	d := newDev(t)
	d.start(t)
	before := d.tokens
	for tenant, tokens := range before {
		for role, token := range tokens {
			status, who := whoAmI(t, d.url(), token)
			if status != http.StatusOK || who["tenant"] != tenant || who["subject"] != "dev-"+string(role) || who["issuer"] != d.url()+"/dev/issuer" || who["expireTime"] == nil {
				t.Errorf("%s of %s is %d %v", role, tenant, status, who)
			}
		}
	}

	// A person, by the console, which is at home at the issuer's address.
	checkConsole(t, d.url(), "", d.url()+"/dev/issuer")
	if _, at, _, _ := pageAt(t, strings.Replace(d.url(), "127.0.0.1", "localhost", 1)); at != d.url()+"/console/" {
		t.Errorf("by another name of this machine it is at %s", at)
	}

	// A person, by the client.
	home := t.TempDir()
	run := func(args ...string) *process {
		return launch(t, "countersign", []string{"HOME=" + home, "COUNTERSIGN_SERVER=" + d.url()}, args...)
	}
	login := run("login", "--no-browser", "--timeout", "1m")
	var address string
	until(t, "login says where", patience, func() error {
		address = regexp.MustCompile(`(?m)^http://.*/dev/issuer/authorize.*$`).FindString(login.log.String())
		if address == "" {
			return errors.New(login.log.String())
		}
		return nil
	})
	browse(t, address, first+"/dev-AssetMaintainer-2")
	if code := login.await(t); code != 0 || !strings.Contains(login.out.String(), "dev-AssetMaintainer-2") {
		t.Fatalf("login: exit code %d\n%s%s", code, login.out.String(), login.log.String())
	}
	who := run("whoami", "-o", "name")
	if code := who.await(t); code != 0 || who.out.String() != "dev-AssetMaintainer-2\n" {
		t.Errorf("whoami: exit code %d\n%s%s", code, who.out.String(), who.log.String())
	}

	// Another start: the key is the same, the tokens are new.
	d.stop(t)
	d.tokens = nil
	d.start(t)
	old, fresh := before[first][registry.RoleObserver], d.tokens[first][registry.RoleObserver]
	if old == fresh {
		t.Error("a start makes no new tokens")
	}
	for name, token := range map[string]string{"an old token": old, "a new token": fresh} {
		if status, who := whoAmI(t, d.url(), token); status != http.StatusOK || who["subject"] != "dev-Observer" {
			t.Errorf("%s after a restart: %d %v", name, status, who)
		}
	}
	if who := run("whoami", "-o", "name"); who.await(t) != 0 {
		t.Errorf("the sign-in after a restart: %s", who.log.String())
	}
	if out := run("logout"); out.await(t) != 0 {
		t.Errorf("logout: %s", out.log.String())
	}
}

// serviceToken gets the token of a program of the development process.
func (d *dev) serviceToken(t *testing.T, service string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(d.dir, "issuer.json"))
	if err != nil {
		t.Fatal(err)
	}
	var kept struct {
		Secrets map[string]string `json:"secrets"`
	}
	if err := json.Unmarshal(raw, &kept); err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url()+"/dev/issuer/token", strings.NewReader("grant_type=client_credentials"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.SetBasicAuth(service, kept.Secrets[service])
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct {
		Token string `json:"access_token"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Token == "" {
		t.Fatalf("%s gets no token: %s %v", service, response.Status, err)
	}
	return answer.Token
}

// The production program trusts an issuer by its configuration, has a listener
// of its own for executors, and lets nobody in while it cannot ask the issuer.
func TestServeTrustsAnIssuer(t *testing.T) {
	t.Parallel()
	d := newDev(t) // is the issuer
	d.start(t)
	configured := func(networks string) (*installation, string) {
		internal := address(t)
		config := write(t, fmt.Sprintf(`
internal_listen: %[1]s
console:
  base_path: /registry/
  issuer: %[3]s/dev/issuer
  client_id: countersign-console
auth:
  allow_networks: [%[2]s]
  issuers:
    - issuer: %[3]s/dev/issuer
      audience: countersign
      subject_prefix: "dev:"
      tenants: [default]
      role_map: {PlatformAdmin: [Operator]}
`, internal, networks, d.url()))
		return &installation{env: []string{
			"COUNTERSIGN_CONFIG=" + config, "COUNTERSIGN_DATABASE_URL=sqlite:" + filepath.Join(t.TempDir(), "registry.db"), "COUNTERSIGN_DATABASE_MIGRATE_ON_START=true",
			"TEMPORAL_ADDRESS=" + d.temporal, "TEMPORAL_NAMESPACE=default", "COUNTERSIGN_SHUTDOWN_DELAY=0s",
		}}, "http://" + internal
	}
	i, internal := configured("127.0.0.0/8")
	n := i.serve(t, "api")
	checkConsole(t, n.url(), "/registry", d.url()+"/dev/issuer")
	checkConsole(t, n.url()+"/registry", "/registry", d.url()+"/dev/issuer")
	if status, _, _, _ := pageAt(t, internal+"/console/"); status != http.StatusUnauthorized {
		t.Errorf("executors have the console: %d", status)
	}
	admin, executor := d.tokens[first][registry.RolePlatformAdmin], d.serviceToken(t, "executor")
	if status, who := whoAmI(t, n.url(), admin); status != http.StatusOK || who["subject"] != "dev:dev-PlatformAdmin" || fmt.Sprint(who["roles"]) != "[Operator]" {
		t.Errorf("an administrator there is %d %v", status, who)
	}
	if status, _ := whoAmI(t, n.url(), d.tokens[second][registry.RolePlatformAdmin]); status != http.StatusUnauthorized {
		t.Errorf("another tenant's comes to %d", status)
	}
	for name, c := range map[string]struct {
		target string
		status int
	}{
		"resolve, for executors":  {internal + "/factory/tools/none.tool/resolve", http.StatusOK},
		"resolve, for everybody":  {n.url() + "/factory/tools/none.tool/resolve", http.StatusNotFound},
		"the rest, for executors": {internal + "/factory/mcp-servers", http.StatusNotFound},
		"the rest, for everybody": {n.url() + "/factory/mcp-servers", http.StatusForbidden},
	} {
		if status, answer := ask(t, c.target, executor); status != c.status {
			t.Errorf("%s: %d %v", name, status, answer)
		}
	}

	// The address of an issuer is no exception to where we may go.
	blind, _ := configured("192.0.2.0/24")
	b := blind.serve(t, "api")
	if status, answer := whoAmI(t, b.url(), admin); status != http.StatusServiceUnavailable || answer["reason"] != string(registry.ReasonDependency) {
		t.Errorf("an issuer where we may not go: %d %v", status, answer)
	}
	if !strings.Contains(b.log.String(), "the keys of an issuer cannot be fetched") || mentions(b.log.String(), admin) {
		t.Errorf("the log says %s", tail(b.log.String()))
	}

	d.stop(t)
	if status, _ := whoAmI(t, n.url(), admin); status != http.StatusOK {
		t.Errorf("with known keys while the issuer is away: %d", status)
	}
	n.stop(t)
	n.start(t, i, "api") // and is ready all the same
	if status, answer := whoAmI(t, n.url(), admin); status != http.StatusServiceUnavailable || answer["reason"] != string(registry.ReasonDependency) {
		t.Errorf("without keys while the issuer is away: %d %v", status, answer)
	}
}

// B15: a caller's token is for us. Servers never see it, whatever it makes us
// do with them.
func TestACallersTokenGoesNowhere(t *testing.T) {
	t.Parallel()
	d := newDev(t)
	d.start(t)
	script := mcptest.Script{}
	script.List("tools/list", mcptest.Items(mcptest.Tools(2)...))
	behind := mcptest.Handler(script)
	seen := &record{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		fmt.Fprintf(seen, "%s %s\n%v\n%s\n", r.Method, r.URL, r.Header, body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		behind.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	admin := d.admin()
	bring(t, admin, "listening", server.URL+"/mcp", active)
	if _, err := admin.servers.TestMcpServer(t.Context(), &pb.TestMcpServerRequest{ServerId: "listening"}); err != nil {
		t.Error(err)
	}
	said := seen.String()
	if !strings.Contains(said, "tools/list") {
		t.Fatalf("the server saw only %s", said)
	}
	token := d.tokens[first][registry.RolePlatformAdmin]
	if strings.Contains(said, "Authorization") || strings.Contains(said, token) || strings.Contains(said, token[len(token)-40:]) {
		t.Errorf("the server saw %s", said)
	}
}
