package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"countersign/mcptest"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/proto/countersign/registry/v1/registryv1connect"
)

// The secrets of connections, by the kind of their reference. They have
// characters that encodings change.
var canaries = map[string]string{
	"env": "canary/env+51aa==x", "file": "canary/file+88bc==x", "vault": "canary/vault+07de==x", "client": "canary/client+4f1b==x", "token": "canary/token+c3d9x==",
}

// notations are the ways in which a secret could stand somewhere.
func notations(secret string) [][]byte {
	out := [][]byte{[]byte(secret), []byte(url.QueryEscape(secret)), []byte(url.PathEscape(secret)), []byte(hex.EncodeToString([]byte(secret))), []byte(strings.ToUpper(hex.EncodeToString([]byte(secret))))}
	for skip := range 3 { // where in a longer text it stands
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := encoding.EncodeToString([]byte(strings.Repeat("\x00", skip) + secret))
			out = append(out, []byte(text[(8*skip+5)/6:len(text)-1])) // without the characters that its neighbours have a part in
		}
	}
	return out
}

// echo says what it was shown, as servers and issuers do that hold us for their
// own logs.
func echo(shown string) string {
	return fmt.Sprintf("you said %s, %s, %s, %s", shown, base64.StdEncoding.EncodeToString([]byte(shown)), url.QueryEscape(shown), hex.EncodeToString([]byte(shown)))
}

// B11, R26: what connections refer to is nowhere after servers and issuers have
// failed in every way and repeated what they were shown: not in the databases, the
// histories, the logs or the answers of the API, in no encoding.
func TestSecretsOfConnectionsStayOut(t *testing.T) {
	t.Parallel()
	d := newDev(t) // lends its Temporal
	d.start(t)
	dir := t.TempDir()
	root := filepath.Join(dir, "secrets")
	if err := errors.Join(os.Mkdir(root, 0o700), os.WriteFile(filepath.Join(root, "header"), []byte("Bearer "+canaries["file"]+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	vault := newVault(t, canaries["vault"])
	database := filepath.Join(dir, "data", "registry.db")
	if err := os.Mkdir(filepath.Dir(database), 0o700); err != nil {
		t.Fatal(err)
	}
	i := newInstallation(t, d, "sqlite:"+database, "COUNTERSIGN_PROBE_INTERVAL=2s", "CANARY_HEADER=Bearer "+canaries["env"], "CANARY_CLIENT="+canaries["client"],
		"COUNTERSIGN_CONFIG="+write(t, fmt.Sprintf(`
secrets:
  file_root: %s
  tenants: [{prefixes: ["env:CANARY_", "file:header", "vault:kv/team/"]}]
  vault: {address: %s, token_file: %s, allow_networks: [127.0.0.0/8]}
`, root, vault.URL, write(t, "vault-token"))))
	n := i.serve(t, "all")
	c := i.caller(n, first)
	ctx := t.Context()

	issuer := newEchoingIssuer(t)
	// A server that repeats what it is shown in whatever it says.
	faults := map[string]func(shown string) mcptest.Fault{
		"500": func(shown string) mcptest.Fault { return mcptest.Status(500, nil, echo(shown)) },
		"401": func(shown string) mcptest.Fault {
			return mcptest.Status(401, http.Header{"Www-Authenticate": {`Bearer error_description="` + shown + `"`}}, echo(shown))
		},
		"403": func(shown string) mcptest.Fault {
			return mcptest.Status(403, http.Header{"Www-Authenticate": {`Bearer error="insufficient_scope", scope="` + shown + `"`}}, echo(shown))
		},
		"a redirect": func(shown string) mcptest.Fault {
			return mcptest.Redirect("http://127.0.0.1:1/?shown=" + url.QueryEscape(shown))
		},
		"HTML":        func(shown string) mcptest.Fault { return mcptest.Body("text/html", "<p>"+echo(shown)) },
		"broken JSON": func(shown string) mcptest.Fault { return mcptest.Body("application/json", `{"`+echo(shown)) },
		"an odd type": func(shown string) mcptest.Fault {
			return mcptest.Body("text/"+hex.EncodeToString([]byte(shown)), echo(shown))
		},
		"another error": func(shown string) mcptest.Fault { return mcptest.Error(200, -32000, echo(shown), `"`+shown+`"`) },
		"a bad list": func(shown string) mcptest.Fault {
			return mcptest.Result(`{"tools":[{"name":"` + shown + `","description":"` + echo(shown) + `","inputSchema":{"type":"object"}},{"name":7}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`)
		},
	}
	var script mcptest.Script
	script.List("tools/list", mcptest.Items(mcptest.Tools(2)...))
	script.Fault("*", mcptest.When(func(call mcptest.Call) bool { return call.Header.Get("Authorization") == "" },
		mcptest.Status(http.StatusUnauthorized, http.Header{"Www-Authenticate": {"Bearer"}}, "")))
	answers := &record{}
	keep := func(m proto.Message, err error) {
		t.Helper()
		raw, failed := protojson.Marshal(m)
		if failed != nil {
			t.Error(failed)
		}
		fmt.Fprintf(answers, "%s %v\n", raw, err)
		if e, ok := errors.AsType[*connect.Error](err); ok {
			for _, detail := range e.Details() {
				if value, err := detail.Value(); err == nil {
					fmt.Fprintf(answers, "%v\n", value)
				}
			}
		}
	}
	connections := registryv1connect.NewConnectionServiceClient(http.DefaultClient, n.url(), bearing(i.tokens[first]))
	var peers []*mcptest.Server
	specs := map[string]*pb.ConnectionSpec{
		"env":   {Headers: map[string]string{"Authorization": "env:CANARY_HEADER"}},
		"file":  {Headers: map[string]string{"Authorization": "file:header"}},
		"vault": {Headers: map[string]string{"Authorization": "vault:kv/team/search#header"}},
		"oauth": {AuthKind: pb.ConnectionAuthKind_CONNECTION_AUTH_KIND_CLIENT_CREDENTIALS, Issuer: issuer.URL, ClientId: "us", SecretRef: "env:CANARY_CLIENT"},
	}
	for name, spec := range specs {
		peer := mcptest.New(t, script)
		peers = append(peers, peer)
		if spec.BaseUrl = peer.URL; spec.GetHeaders() != nil {
			spec.AuthKind = pb.ConnectionAuthKind_CONNECTION_AUTH_KIND_HEADERS
		}
		made, err := connections.CreateConnection(ctx, &pb.CreateConnectionRequest{Name: name, Spec: spec})
		if keep(made, err); err != nil {
			t.Fatal(err)
		}
		ask := registration(name, "")
		ask.EndpointRef, ask.Authentication, ask.ExceptionReason = name, pb.McpAuthentication_MCP_AUTHENTICATION_WORKLOAD_IDENTITY, ""
		if name == "oauth" {
			ask.Authentication = pb.McpAuthentication_MCP_AUTHENTICATION_OAUTH2_PROTECTED_RESOURCE
		}
		ctx, _ := keyed(ctx, name)
		if _, err := c.servers.RegisterMcpServer(ctx, ask); err != nil {
			t.Fatal(err)
		}
	}
	shown := map[string]bool{} // to servers
	for name := range specs {
		until(t, name+" is verified", patience, func() error { _, err := c.in(ctx, name, verified); return err })
	}
	visit := func(name, what string) {
		t.Helper()
		tested, err := connections.TestConnection(ctx, &pb.TestConnectionRequest{Name: name})
		keep(tested, err)
		if tested.GetReport().GetOk() {
			t.Errorf("%s with %s is well", name, what)
		}
		keyed, _ := keyed(ctx, name+what)
		found, err := c.servers.DiscoverMcpCapabilities(keyed, &pb.DiscoverMcpCapabilitiesRequest{ServerId: name, Wait: durationpb.New(0)})
		keep(found, err)
	}
	for what, fault := range faults {
		on := "*"
		if what == "a bad list" {
			on = "tools/list"
		}
		for _, peer := range peers {
			peer.Edit(func(s *mcptest.Script) {
				s.Faults = nil
				s.Fault(on, func(x *mcptest.Exchange) bool { return fault(x.Call.Header.Get("Authorization"))(x) })
			})
		}
		var all sync.WaitGroup
		for name := range specs {
			all.Go(func() { visit(name, what) })
		}
		all.Wait()
	}
	// The store and the issuer fail, and the issuer repeats the secret.
	vault.away.Store(true)
	visit("vault", "a store that is away")
	for _, how := range []string{"denies", "fails", "breaks"} {
		issuer.is(how)
		visit("oauth", "an issuer that "+how)
	}
	for name := range specs {
		s, err := c.get(ctx, name)
		keep(s, err)
		offers, err := c.servers.GetMcpCapabilities(ctx, &pb.GetMcpCapabilitiesRequest{ServerId: name})
		keep(offers, err)
	}
	audit := registryv1connect.NewAuditServiceClient(http.DefaultClient, n.url(), bearing(i.tokens[first]))
	trail, err := audit.ListAuditEvents(ctx, &pb.ListAuditEventsRequest{PageSize: 200})
	if keep(trail, err); err != nil {
		t.Error(err)
	}
	n.stop(t)
	d.stop(t)
	for _, peer := range peers {
		for _, call := range peer.Calls() {
			shown[strings.TrimPrefix(call.Header.Get("Authorization"), "Bearer ")] = true
		}
	}
	texts := map[string][]byte{"the log": []byte(n.log.String()), "an answer": []byte(answers.String()), "Temporal's log": []byte(d.log.String())}
	for _, folder := range []string{filepath.Dir(database), d.dir} {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			texts[path], err = os.ReadFile(path)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for kind, secret := range canaries {
		if kind != "client" && !shown[secret] {
			t.Errorf("no server was shown the secret of %s, so that nothing was tried", kind)
		}
		for where, text := range texts {
			for _, notation := range notations(secret) {
				if at := bytes.Index(text, notation); at >= 0 {
					t.Errorf("%s has the secret of %s as %s: …%q", where, kind, notation, text[max(0, at-100):min(len(text), at+100)])
				}
			}
		}
	}
	if !bytes.Contains(texts[d.dir+"/temporal.db"], []byte("you said")) && !strings.Contains(answers.String(), "you said") {
		t.Error("nothing that servers said was kept, so that nothing could be found")
	}
}

// The search finds what it is for.
func TestNotationsAreFound(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"x" + echo("Bearer "+canaries["env"]), echo(canaries["env"]), echo("ab" + canaries["env"] + "c")} {
		found := 0
		for _, notation := range notations(canaries["env"]) {
			if strings.Contains(text, string(notation)) {
				found++
			}
		}
		if found < 4 {
			t.Errorf("%d of its notations are found in %s", found, text)
		}
	}
}

// bearing lets a client show a token.
func bearing(token string) connect.ClientOption {
	return connect.WithInterceptors(connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			request.Header().Set("Authorization", "Bearer "+token)
			return next(ctx, request)
		}
	}))
}

// echoingIssuer gives tokens, or repeats the secret instead.
type echoingIssuer struct {
	*httptest.Server
	mu  sync.Mutex
	how string
}

func (e *echoingIssuer) is(how string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.how = how
}

func newEchoingIssuer(t *testing.T) *echoingIssuer {
	t.Helper()
	e := &echoingIssuer{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		defer e.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		said := func(status int, body any) {
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(body)
		}
		_ = r.ParseForm()
		_, password, _ := r.BasicAuth()
		password, _ = url.QueryUnescape(password) // RFC 6749, section 2.3.1
		secret := password + r.PostForm.Get("client_secret")
		switch {
		case r.URL.Path == "/.well-known/oauth-authorization-server":
			said(http.StatusOK, map[string]any{
				"issuer": e.URL, "token_endpoint": e.URL + "/token", "grant_types_supported": []string{"client_credentials"},
				"token_endpoint_auth_methods_supported": []string{"client_secret_basic"},
			})
		case r.URL.Path != "/token":
			http.NotFound(w, r)
		case e.how == "denies":
			said(http.StatusUnauthorized, map[string]any{"error": "invalid_client", "error_description": echo(secret), "error_uri": e.URL + "/?secret=" + url.QueryEscape(secret)})
		case e.how == "fails":
			said(http.StatusInternalServerError, echo(secret))
		case e.how == "breaks":
			_, _ = w.Write([]byte(`{"access_token": "` + echo(secret)))
		default:
			said(http.StatusOK, map[string]any{"access_token": canaries["token"], "token_type": "Bearer", "expires_in": 1})
		}
	}))
	t.Cleanup(e.Close)
	return e
}
