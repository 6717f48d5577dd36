//go:build realissuer

package oauth_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"countersign/mcpclient"
	"countersign/mcptest"
	"countersign/oauth"
	"countersign/outbound"
	"countersign/registry"
	"countersign/secrets"
)

// TestAWholeLifeWithAnIssuerThatNobodyHereWrote: npm's oidc-provider gives tokens to a
// client with a secret and to one with a key; a protected server checks their signature,
// issuer and audience by the issuer's keys, and is discovered. What the issuer refuses
// has its reason. `make real-issuer` fetches and runs it.
func TestAWholeLifeWithAnIssuerThatNobodyHereWrote(t *testing.T) {
	dir := os.Getenv("REAL_ISSUER")
	script := mcptest.Script{}
	script.List("tools/list", mcptest.Items(`{"name":"a"}`))
	var issuer string
	script.Fault("*", mcptest.When(func(call mcptest.Call) bool {
		raw, _ := strings.CutPrefix(call.Header.Get("Authorization"), "Bearer ")
		provider, err := oidc.NewProvider(t.Context(), issuer)
		if err != nil {
			return true
		}
		_, err = provider.Verifier(&oidc.Config{ClientID: "http://" + call.Host + "/mcp"}).Verify(t.Context(), raw)
		return err != nil
	}, mcptest.Status(http.StatusUnauthorized, http.Header{"Www-Authenticate": {"Bearer"}}, "no")))
	server := mcptest.New(t, script)

	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	client := func(id, method string) map[string]any {
		return map[string]any{
			"client_id": id, "grant_types": []string{"client_credentials"}, "redirect_uris": []string{}, "response_types": []string{},
			"token_endpoint_auth_method": method, "scope": "read",
		}
	}
	withSecret, withKey := client("with secret", "client_secret_basic"), client("with-key", "private_key_jwt")
	withSecret["client_secret"] = theSecret
	withKey["jwks"] = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: private.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"}}}
	clients, err := json.Marshal([]any{withSecret, withKey})
	if err != nil {
		t.Fatal(err)
	}
	node, _ := filepath.Glob(dir + "/node_modules/node-linux-*/bin/node")
	if len(node) == 0 {
		node = []string{"node"}
	}
	process := exec.CommandContext(t.Context(), node[0], dir+"/issuer.mjs", string(clients), server.URL)
	process.Stderr = t.Output()
	input, err := process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		_ = process.Wait()
		http.DefaultClient.CloseIdleConnections()
	})
	for lines := bufio.NewScanner(output); lines.Scan() && issuer == ""; {
		if strings.HasPrefix(lines.Text(), "http://127.0.0.1:") {
			issuer = lines.Text()
			break
		}
	}
	guard := outbound.NewGuard(outbound.Options{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	plain := guard.Client(outbound.ClientOptions{})
	t.Cleanup(plain.CloseIdleConnections)
	o := oauth.Options{
		HTTP: plain, Resource: server.URL, Issuer: issuer, Kind: oauth.ClientCredentials, ClientID: "with secret", Secret: secrets.Secret(theSecret),
		Scopes: []string{"read"}, Owner: "tenant/connection/1",
	}
	keyed := o
	keyed.Kind, keyed.ClientID, keyed.Secret, keyed.Key = oauth.PrivateKeyJWT, "with-key", secrets.Value{}, parseKey(t, pemOf(t, private))
	registered, enrolled := o, keyed
	registered.ClientID, registered.Secret, registered.Registration = "", secrets.Value{}, &oauth.Registration{Name: "Countersign"}
	enrolled.ClientID, enrolled.Registration = "", &oauth.Registration{Name: "Countersign"}
	for name, o := range map[string]oauth.Options{"a secret": o, "a key": keyed, "a client of now": registered, "a key of now": enrolled} {
		c, err := oauth.New(o)
		if err != nil {
			t.Fatal(err)
		}
		meets := &mcpclient.Client{Guard: guard, Limits: registry.DefaultLimits, AskBare: true}
		meets.Credentials = func(context.Context, registry.Target) (mcpclient.Credential, error) { return c, nil }
		began := time.Now()
		surface, _, err := meets.Discover(t.Context(), registry.Target{
			Transport: registry.TransportStreamableHTTP, URL: server.URL, Authentication: registry.AuthOAuth2,
		}, "", nil)
		if err != nil || len(surface.Tools) != 1 || len(surface.Quirks) != 0 {
			t.Fatalf("with %s: %v %+v", name, err, surface)
		}
		t.Logf("with %s: discovered in %s", name, time.Since(began).Round(time.Millisecond))
	}
	for want, change := range map[registry.Reason]func(*oauth.Options){
		registry.ReasonInvalidClient:  func(o *oauth.Options) { o.Secret = secrets.Secret("s3cr3t, another") },
		registry.ReasonInvalidTarget:  func(o *oauth.Options) { o.Resource += "/other" },
		registry.ReasonInvalidScope:   func(o *oauth.Options) { o.Scopes = []string{"write"} },
		registry.ReasonIssuerMismatch: func(o *oauth.Options) { o.Issuer += "/" },
	} {
		o := o
		change(&o)
		c, err := oauth.New(o)
		if err != nil {
			t.Fatal(err)
		}
		refused(t, c.Authorize(t.Context(), httptest.NewRequest(http.MethodPost, o.Resource, nil)), want)
	}
}
