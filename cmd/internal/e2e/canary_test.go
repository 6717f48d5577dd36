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
	"iter"
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
	"a command's env": "canary/command+9e27==x", "a command's file": "canary/process+d05c==x", "a command's vault": "canary/started+6ab3==x",
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

// B11, R26: what connections and commands refer to is nowhere after servers,
// processes and issuers have failed in every way and repeated what they were shown,
// and after keys were broken: not in the databases, the histories, the logs or the
// answers of the API, in no encoding.
func TestSecretsOfConnectionsStayOut(t *testing.T) {
	t.Parallel()
	d := newDev(t) // lends its Temporal
	d.start(t)
	dir := t.TempDir()
	root := filepath.Join(dir, "secrets")
	us, signer, other := newIdentity(t), newIdentity(t), newIdentity(t)
	keep := func(name, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(root, 0o700), os.WriteFile(filepath.Join(root, name), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"header": "Bearer " + canaries["file"] + "\n", "command": canaries["a command's file"], "us.pem": us.certificate, "us.key": us.key, "signer.key": signer.key,
	} {
		keep(name, text)
	}
	vault := newVault(t, canaries["vault"])
	vault.plain = canaries["a command's vault"]
	database := filepath.Join(dir, "data", "registry.db")
	if err := os.Mkdir(filepath.Dir(database), 0o700); err != nil {
		t.Fatal(err)
	}
	told := collectSpans(t)
	i := newInstallation(t, d, "sqlite:"+database, told.env("COUNTERSIGN_PROBE_INTERVAL=2s", "CANARY_HEADER=Bearer "+canaries["env"], "CANARY_CLIENT="+canaries["client"], "CANARY_COMMAND="+canaries["a command's env"],
		"CANARY_HOOK=whsec_"+base64.StdEncoding.EncodeToString([]byte(hookKey)), "CANARY_SHORT_HOOK="+shortHookKey,
		"COUNTERSIGN_CONFIG="+write(t, fmt.Sprintf(`
secrets:
  file_root: %s
  tenants: [{prefixes: ["env:CANARY_", "file:header", "file:us.pem", "file:us.key", "file:signer.key", "vault:kv/team/"]}]
  vault: {address: %s, token_file: %s, allow_networks: [127.0.0.0/8]}
%s`, root, vault.URL, write(t, "vault-token"), chatters(t))))...)
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
	answered := func(m proto.Message, err error) {
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
		"env":    {Headers: map[string]string{"Authorization": "env:CANARY_HEADER"}},
		"file":   {Headers: map[string]string{"Authorization": "file:header"}},
		"vault":  {Headers: map[string]string{"Authorization": "vault:kv/team/search#header"}},
		"oauth":  {AuthKind: pb.ConnectionAuthKind_CONNECTION_AUTH_KIND_CLIENT_CREDENTIALS, Issuer: issuer.URL, ClientId: "us", SecretRef: "env:CANARY_CLIENT"},
		"signs":  {AuthKind: pb.ConnectionAuthKind_CONNECTION_AUTH_KIND_PRIVATE_KEY_JWT, Issuer: issuer.URL, ClientId: "us", SecretRef: "file:signer.key"},
		"mutual": {Headers: map[string]string{"Authorization": "env:CANARY_HEADER"}, ClientCertificateRef: "file:us.pem", ClientKeyRef: "file:us.key"},
	}
	deliveries := hooked(t, n.url(), i.tokens[first])
	var mutual *door
	for name, spec := range specs {
		peer := mcptest.New(t, script)
		peers = append(peers, peer)
		spec.BaseUrl = peer.URL
		if name == "mutual" {
			mutual = newDoor(t, peer)
			spec.BaseUrl, spec.CaBundle = mutual.URL+"/mcp", mutual.authority()
		}
		if spec.GetHeaders() != nil {
			spec.AuthKind = pb.ConnectionAuthKind_CONNECTION_AUTH_KIND_HEADERS
		}
		made, err := connections.CreateConnection(ctx, &pb.CreateConnectionRequest{Name: name, Spec: spec})
		if answered(made, err); err != nil {
			t.Fatal(err)
		}
		ask := registration(name, "")
		ask.EndpointRef, ask.Authentication, ask.ExceptionReason = name, pb.McpAuthentication_MCP_AUTHENTICATION_WORKLOAD_IDENTITY, ""
		if name == "oauth" || name == "signs" {
			ask.Authentication = pb.McpAuthentication_MCP_AUTHENTICATION_OAUTH2_PROTECTED_RESOURCE
		}
		ctx, _ := keyed(ctx, name)
		if _, err := c.servers.RegisterMcpServer(ctx, ask); err != nil {
			t.Fatal(err)
		}
	}
	launchAll(ctx, t, c)
	shown := map[string]bool{} // to servers
	for name := range specs {
		until(t, name+" is verified", patience, func() error { _, err := c.in(ctx, name, verified); return err })
	}
	visit := func(name, what string) {
		t.Helper()
		tested, err := connections.TestConnection(ctx, &pb.TestConnectionRequest{Name: name})
		answered(tested, err)
		if tested.GetReport().GetOk() {
			t.Errorf("%s with %s is well", name, what)
		}
		keyed, _ := keyed(ctx, name+what)
		found, err := c.servers.DiscoverMcpCapabilities(keyed, &pb.DiscoverMcpCapabilitiesRequest{ServerId: name, Wait: durationpb.New(0)})
		answered(found, err)
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
		visit("signs", "an issuer that "+how)
	}
	issuer.is("gives")
	for what, text := range us.broken(other) {
		keep("us.key", text)
		visit("mutual", "a key that is "+what)
	}
	for what, text := range signer.broken(other) {
		if what != "another's" && what != "called wrong" { // which are keys
			keep("signer.key", text)
			visit("signs", "a key that is "+what)
		}
	}
	for _, mood := range moods {
		_, err := c.in(ctx, mood, verified)
		if well := mood == "well" || mood == "noise"; well != (err == nil) {
			t.Errorf("the command that is %s: %v", mood, err)
		}
	}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(specs)), moods) {
		s, err := c.get(ctx, name)
		answered(s, err)
		offers, err := c.servers.GetMcpCapabilities(ctx, &pb.GetMcpCapabilitiesRequest{ServerId: name})
		answered(offers, err)
	}
	for _, err := range deliveries(answered) {
		t.Error(err)
	}
	audit := registryv1connect.NewAuditServiceClient(http.DefaultClient, n.url(), bearing(i.tokens[first]))
	trail, err := audit.ListAuditEvents(ctx, &pb.ListAuditEventsRequest{PageSize: 200})
	if answered(trail, err); err != nil {
		t.Error(err)
	}
	n.stop(t)
	d.stop(t)
	for _, peer := range peers {
		for _, call := range peer.Calls() {
			shown[strings.TrimPrefix(call.Header.Get("Authorization"), "Bearer ")] = true
		}
	}
	sent := told.sent()
	if len(sent) < 10_000 {
		t.Errorf("only %d bytes of spans were sent", len(sent))
	}
	texts := map[string][]byte{"a span": sent, "the log": []byte(n.log.String()), "an answer": []byte(answers.String()), "Temporal's log": []byte(d.log.String())}
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
	kept := string(texts[database]) + string(texts[database+"-wal"])
	if !strings.Contains(kept, "you said [masked] [masked]") {
		t.Error("nothing that commands said was kept, so that nothing could be found")
	}
	if !mutual.knows(us) || len(issuer.assertions.all()) == 0 {
		t.Error("no key was used, so that nothing was tried")
	}
	hidden := map[string][]string{
		"an assertion": issuer.assertions.all(), "a client's key": us.hidden, "a signing key": signer.hidden, "another key": other.hidden,
		"a subscription": {hookKey, shortHookKey, "whsec_" + base64.StdEncoding.EncodeToString([]byte(hookKey))},
	}
	for kind, secret := range canaries {
		hidden[kind] = []string{secret}
		if kind != "client" && !strings.HasPrefix(kind, "a command") && !shown[secret] {
			t.Errorf("no server was shown the secret of %s, so that nothing was tried", kind)
		}
	}
	for kind, secret := range flat(hidden) {
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

// flat gives each secret with its kind.
func flat(kinds map[string][]string) iter.Seq2[string, string] {
	return func(yield func(kind, secret string) bool) {
		for kind, secrets := range kinds {
			for _, secret := range secrets {
				if !yield(kind, secret) {
					return
				}
			}
		}
	}
}

// launchAll registers a server for each mood of a chatter, and has it started.
func launchAll(ctx context.Context, t *testing.T, c caller) {
	t.Helper()
	for _, mood := range moods {
		ask := registration(mood, "")
		ask.Transport, ask.CommandRef = pb.McpTransport_MCP_TRANSPORT_STDIO, mood
		ask.Authentication, ask.ExceptionReason = pb.McpAuthentication_MCP_AUTHENTICATION_WORKLOAD_IDENTITY, ""
		keyed, _ := keyed(ctx, mood)
		made, err := c.servers.RegisterMcpServer(keyed, ask)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.servers.ApproveLaunch(keyed, &pb.ApproveLaunchRequest{ServerId: mood, Digest: made.GetServer().GetTargetDigest()}); err != nil {
			t.Fatal(err)
		}
	}
	for _, mood := range moods {
		until(t, mood+" was discovered", patience, func() error {
			s, err := c.get(ctx, mood)
			if err == nil && s.GetDiscovery().GetReason() == "" && s.GetState() != verified {
				err = fmt.Errorf("%v", s)
			}
			return err
		})
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
	assertions heard

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
		e.assertions.add(r.PostForm.Get("client_assertion"))
		secret := password + r.PostForm.Get("client_secret") + r.PostForm.Get("client_assertion")
		switch {
		case r.URL.Path == "/.well-known/oauth-authorization-server":
			said(http.StatusOK, map[string]any{
				"issuer": e.URL, "token_endpoint": e.URL + "/token", "grant_types_supported": []string{"client_credentials"},
				"token_endpoint_auth_methods_supported": []string{"client_secret_basic", "private_key_jwt"},
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
