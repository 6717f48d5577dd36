package registry_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/registry"
)

// authority makes a certificate in PEM, and its key.
func authority(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour)}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(kind string, raw []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}))
	}
	return encode("CERTIFICATE", raw), encode("PRIVATE KEY", secret)
}

func connection(edit func(*registry.Connection)) registry.Connection {
	c := registry.Connection{
		Name: "search", URL: "https://mcp.example.com/mcp", AuthKind: registry.AuthKindHeaders,
		Headers: map[string]string{"Authorization": "env:SEARCH_TOKEN"},
	}
	if edit != nil {
		edit(&c)
	}
	return c
}

var office = registry.Installation{ConnectionNetworks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("0.0.0.0/0")}, OwnIssuer: true, RegistrationIssuers: []string{"https://open.example.com"}}

// registers is a connection without a client, at an issuer that has us registered.
func registers(kind registry.AuthKind, fields ...string) func(*registry.Connection) {
	return func(c *registry.Connection) {
		oauthOf(kind, fields...)(c)
		c.Issuer = "https://open.example.com"
	}
}

// tokens is a connection with a client, and this besides.
func tokens(edit func(*registry.Connection)) func(*registry.Connection) {
	return func(c *registry.Connection) {
		oauthOf(registry.AuthKindClientCredentials, "client_id", "secret_ref")(c)
		edit(c)
	}
}

// oauthOf is a connection of a kind with an issuer, and with these fields.
func oauthOf(kind registry.AuthKind, fields ...string) func(*registry.Connection) {
	return func(c *registry.Connection) {
		c.Headers, c.AuthKind, c.Issuer = nil, kind, "https://as.example.com"
		if slices.Contains(fields, "client_id") {
			c.ClientID = "us"
		}
		if slices.Contains(fields, "secret_ref") {
			c.SecretRef = "env:A"
		}
	}
}

// workload is one whose token is shown to the server itself.
func workload(edit func(*registry.Connection)) func(*registry.Connection) {
	return func(c *registry.Connection) {
		c.Headers, c.AuthKind = nil, registry.AuthKindWorkloadIdentity
		if edit != nil {
			edit(c)
		}
	}
}

// An installation without an issuer of its own has nothing to say who it is, where
// a connection names no secret.
func TestWithoutAnIssuerOfOursASecretIsNamed(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*registry.Connection){
		"a client": oauthOf(registry.AuthKindPrivateKeyJWT), "an exchange": oauthOf(registry.AuthKindTokenExchange, "client_id"),
		"a workload": workload(nil),
	} {
		err := connection(edit).Check(registry.Installation{})
		e, ok := registry.AsError(err)
		if !ok || e.Reason != registry.ReasonAuthKindUnsupported || e.Fields[0].Path != "secret_ref" || e.Next == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, edit := range map[string]func(*registry.Connection){
		"a client":    oauthOf(registry.AuthKindPrivateKeyJWT, "client_id", "secret_ref"),
		"an exchange": oauthOf(registry.AuthKindTokenExchange, "client_id", "secret_ref"),
		"a workload":  workload(func(c *registry.Connection) { c.SecretRef = "file:token" }),
		"headers":     nil,
	} {
		if err := connection(edit).Check(registry.Installation{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestConnectionsAreChecked(t *testing.T) {
	t.Parallel()
	certificate, key := authority(t)
	for name, c := range map[string]struct {
		edit  func(*registry.Connection)
		want  registry.Reason
		field string
	}{
		"as it is":              {nil, "", ""},
		"without a name":        {func(c *registry.Connection) { c.Name = "" }, registry.ReasonInvalidArgument, "name"},
		"named as a server":     {func(c *registry.Connection) { c.Name = "srv_0190b8a0000070008000000000000001" }, registry.ReasonInvalidArgument, "name"},
		"of another scheme":     {func(c *registry.Connection) { c.URL = "file:///etc/passwd" }, registry.ReasonInvalidArgument, "base_url"},
		"with user information": {func(c *registry.Connection) { c.URL = "https://u:SENTINEL@h/" }, registry.ReasonSecretInRequest, ""},
		"with a secret in the query": {
			func(c *registry.Connection) { c.URL = "https://h/?api_key=SENTINEL" }, registry.ReasonSecretInRequest, "",
		},
		"dialled nowhere":  {func(c *registry.Connection) { c.DialAddress = "10.0.0.1" }, registry.ReasonInvalidArgument, "dial_address"},
		"with a network":   {func(c *registry.Connection) { c.AllowedNetworks = []string{"10.20.0.0/16"} }, "", ""},
		"with no network":  {func(c *registry.Connection) { c.AllowedNetworks = []string{"10.20.0.0"} }, registry.ReasonInvalidArgument, "allowed_networks[0]"},
		"wider than named": {func(c *registry.Connection) { c.AllowedNetworks = []string{"fd00::/8"} }, registry.ReasonInvalidArgument, "allowed_networks[0]"},
		"with the cloud's own network": {
			func(c *registry.Connection) { c.AllowedNetworks = []string{"169.254.169.254/32"} }, registry.ReasonInvalidArgument, "allowed_networks[0]",
		},
		"with all networks": {func(c *registry.Connection) { c.AllowedNetworks = []string{"0.0.0.0/0"} }, registry.ReasonInvalidArgument, "allowed_networks[0]"},
		"with a network in other clothes": {
			func(c *registry.Connection) { c.AllowedNetworks = []string{"::ffff:10.0.0.0/104"} }, registry.ReasonInvalidArgument, "allowed_networks[0]",
		},
		"of an unknown kind":      {func(c *registry.Connection) { c.AuthKind = "basic" }, registry.ReasonInvalidArgument, "auth_kind"},
		"headers without any":     {func(c *registry.Connection) { c.Headers = nil }, registry.ReasonInvalidArgument, "headers"},
		"none with headers":       {func(c *registry.Connection) { c.AuthKind = registry.AuthKindNone }, registry.ReasonInvalidArgument, "headers"},
		"a value in the header":   {func(c *registry.Connection) { c.Headers["Authorization"] = "Bearer SENTINEL" }, registry.ReasonSecretRefInvalid, `headers["Authorization"]`},
		"a value beside a scheme": {func(c *registry.Connection) { c.Headers["X-Key"] = "env:SENTINEL VALUE" }, registry.ReasonSecretRefInvalid, `headers["X-Key"]`},
		"a secret for a name":     {func(c *registry.Connection) { c.Headers["Bearer SENTINEL"] = "env:A" }, registry.ReasonInvalidArgument, "headers"},
		"two lines for a name":    {func(c *registry.Connection) { c.Headers["X\r\nHost"] = "env:A" }, registry.ReasonInvalidArgument, "headers"},
		"one header twice":        {func(c *registry.Connection) { c.Headers["authorization"] = "env:A" }, registry.ReasonInvalidArgument, `headers["authorization"]`},
		"the host":                {func(c *registry.Connection) { c.Headers["host"] = "env:A" }, registry.ReasonInvalidArgument, `headers["host"]`},
		"of one hop":              {func(c *registry.Connection) { c.Headers["Connection"] = "env:A" }, registry.ReasonInvalidArgument, `headers["Connection"]`},
		"framing":                 {func(c *registry.Connection) { c.Headers["Transfer-Encoding"] = "env:A" }, registry.ReasonInvalidArgument, `headers["Transfer-Encoding"]`},
		"for a proxy":             {func(c *registry.Connection) { c.Headers["Proxy-Authorization"] = "env:A" }, registry.ReasonInvalidArgument, `headers["Proxy-Authorization"]`},
		"a cookie":                {func(c *registry.Connection) { c.Headers["cookie"] = "env:A" }, registry.ReasonInvalidArgument, `headers["cookie"]`},
		"of the protocol":         {func(c *registry.Connection) { c.Headers["mcp-session-id"] = "env:A" }, registry.ReasonInvalidArgument, `headers["mcp-session-id"]`},
		"a token without a kind":  {func(c *registry.Connection) { c.SecretRef = "env:A" }, registry.ReasonInvalidArgument, "secret_ref"},
		"an issuer without a kind": {
			func(c *registry.Connection) { c.Issuer = "https://as.example.com" }, registry.ReasonInvalidArgument, "issuer",
		},
		"client credentials without a client": {
			func(c *registry.Connection) { c.Headers, c.AuthKind = nil, registry.AuthKindClientCredentials }, registry.ReasonInvalidArgument, "client_id",
		},
		"client credentials and Authorization": {
			func(c *registry.Connection) {
				c.AuthKind, c.Issuer, c.ClientID, c.SecretRef = registry.AuthKindClientCredentials, "https://as.example.com", "us", "env:A"
			}, registry.ReasonInvalidArgument, `headers["Authorization"]`,
		},
		"a secret of the client's": {
			func(c *registry.Connection) {
				c.Headers, c.AuthKind, c.Issuer, c.ClientID, c.SecretRef = nil, registry.AuthKindClientCredentials, "https://as.example.com", "us", "SENTINEL"
			}, registry.ReasonSecretRefInvalid, "secret_ref",
		},
		"client credentials": {oauthOf(registry.AuthKindClientCredentials, "client_id", "secret_ref"), "", ""},
		"client credentials without a secret": {
			oauthOf(registry.AuthKindClientCredentials, "client_id"), registry.ReasonInvalidArgument, "secret_ref",
		},
		"a client's key":           {oauthOf(registry.AuthKindPrivateKeyJWT, "client_id", "secret_ref"), "", ""},
		"the installation's key":   {oauthOf(registry.AuthKindPrivateKeyJWT), "", ""},
		"a client without its key": {oauthOf(registry.AuthKindPrivateKeyJWT, "client_id"), registry.ReasonInvalidArgument, "secret_ref"},
		"a key without its client": {oauthOf(registry.AuthKindPrivateKeyJWT, "secret_ref"), registry.ReasonInvalidArgument, "client_id"},
		"an exchange":              {oauthOf(registry.AuthKindTokenExchange, "client_id", "secret_ref"), "", ""},
		"an exchange of our token": {oauthOf(registry.AuthKindTokenExchange, "client_id"), "", ""},
		"an exchange by nobody":    {oauthOf(registry.AuthKindTokenExchange, "secret_ref"), registry.ReasonInvalidArgument, "client_id"},
		"an exchange with nobody": {
			func(c *registry.Connection) {
				c.Headers, c.AuthKind, c.ClientID = nil, registry.AuthKindTokenExchange, "us"
			}, registry.ReasonInvalidArgument, "issuer",
		},
		"a workload at an issuer":             {oauthOf(registry.AuthKindWorkloadIdentity, "secret_ref"), "", ""},
		"a workload known to an issuer":       {oauthOf(registry.AuthKindWorkloadIdentity, "client_id"), "", ""},
		"a workload at the server":            {workload(nil), "", ""},
		"a workload with its token":           {workload(func(c *registry.Connection) { c.SecretRef = "file:token" }), "", ""},
		"a client of no issuer":               {workload(func(c *registry.Connection) { c.ClientID = "us" }), registry.ReasonInvalidArgument, "client_id"},
		"scopes of no issuer":                 {workload(func(c *registry.Connection) { c.Scopes = []string{"a"} }), registry.ReasonInvalidArgument, "scopes"},
		"a token and other header fields":     {workload(func(c *registry.Connection) { c.Headers = map[string]string{"X-Key": "env:A"} }), "", ""},
		"a token and a header field for it":   {workload(func(c *registry.Connection) { c.Headers = map[string]string{"authorization": "env:A"} }), registry.ReasonInvalidArgument, `headers["authorization"]`},
		"a client to register":                {registers(registry.AuthKindClientCredentials), "", ""},
		"a client to register by a token":     {registers(registry.AuthKindClientCredentials, "secret_ref"), "", ""},
		"a key to register":                   {registers(registry.AuthKindPrivateKeyJWT, "secret_ref"), "", ""},
		"a client of an exchange to register": {registers(registry.AuthKindTokenExchange, "secret_ref"), registry.ReasonInvalidArgument, "client_id"},
		"a client to register elsewhere":      {oauthOf(registry.AuthKindClientCredentials), registry.ReasonInvalidArgument, "client_id"},
		"a client to register below": {
			func(c *registry.Connection) {
				registers(registry.AuthKindClientCredentials)(c)
				c.Issuer += "/tenant"
			}, registry.ReasonInvalidArgument, "client_id",
		},
		"tokens from elsewhere": {tokens(func(c *registry.Connection) { c.TokenEndpoint = "https://tokens.example.com/token?a=b" }), "", ""},
		"tokens from a file":    {tokens(func(c *registry.Connection) { c.TokenEndpoint = "file:///token" }), registry.ReasonInvalidArgument, "token_endpoint"},
		"tokens from a secret": {
			tokens(func(c *registry.Connection) { c.TokenEndpoint = "https://u:SENTINEL@h/token" }), registry.ReasonSecretInRequest, "token_endpoint",
		},
		"tokens from elsewhere for headers": {
			func(c *registry.Connection) { c.TokenEndpoint = "https://tokens.example.com/token" }, registry.ReasonInvalidArgument, "token_endpoint",
		},
		"tokens of no issuer": {
			workload(func(c *registry.Connection) { c.TokenEndpoint = "https://tokens.example.com/token" }), registry.ReasonInvalidArgument, "token_endpoint",
		},
		"scopes to step up to": {tokens(func(c *registry.Connection) { c.StepUpScopes = []string{"write", "admin"} }), "", ""},
		"a scope to step up to of two": {
			tokens(func(c *registry.Connection) { c.StepUpScopes = []string{"a b"} }), registry.ReasonInvalidArgument, "step_up_scopes[0]",
		},
		"scopes to step up to of no issuer": {
			workload(func(c *registry.Connection) { c.StepUpScopes = []string{"a"} }), registry.ReasonInvalidArgument, "step_up_scopes",
		},
		"a scope of two": {
			func(c *registry.Connection) {
				c.AuthKind, c.Scopes = registry.AuthKindWorkloadIdentity, []string{"a b"}
			}, registry.ReasonInvalidArgument, "scopes[0]",
		},
		"with an authority": {func(c *registry.Connection) { c.CABundle = certificate }, "", ""},
		"with its key, too": {func(c *registry.Connection) { c.CABundle = certificate + key }, registry.ReasonSecretInRequest, "ca_bundle"},
		"with nonsense":     {func(c *registry.Connection) { c.CABundle = certificate + "nonsense" }, registry.ReasonInvalidArgument, "ca_bundle"},
		"with too many":     {func(c *registry.Connection) { c.CABundle = strings.Repeat(certificate, 100) }, registry.ReasonInvalidArgument, "ca_bundle"},
		"a certificate without its key": {
			func(c *registry.Connection) { c.ClientCertificateRef = "file:client.pem" }, registry.ReasonInvalidArgument, "client_key_ref",
		},
		"the key itself": {
			func(c *registry.Connection) { c.ClientCertificateRef, c.ClientKeyRef = "file:client.pem", key }, registry.ReasonSecretRefInvalid, "client_key_ref",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := connection(c.edit).Check(office)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			e, ok := registry.AsError(err)
			if !ok || e.Reason != c.want {
				t.Fatalf("%v, want %s", err, c.want)
			}
			if c.field != "" && !slices.ContainsFunc(e.Fields, func(f registry.Field) bool { return f.Path == c.field }) {
				t.Errorf("%s is not among %v", c.field, e.Fields)
			}
			said := e.Message + e.Next
			for _, f := range e.Fields {
				said += f.Path + f.Message
			}
			if strings.Contains(said, "SENTINEL") || strings.Contains(said, "PRIVATE KEY") {
				t.Errorf("the secret is repeated: %s", said)
			}
		})
	}
}

func TestWithoutTheOperatorNoConnectionOpensANetwork(t *testing.T) {
	t.Parallel()
	c := connection(func(c *registry.Connection) { c.AllowedNetworks = []string{"10.20.0.0/16"} })
	if err := c.Check(registry.Installation{}); registry.ReasonOf(err) != registry.ReasonInvalidArgument {
		t.Error(err)
	}
}

// Targets from before connections had kinds were approved by these digests.
func TestTargetsKeepTheirDigests(t *testing.T) {
	t.Parallel()
	s := &registry.Server{Transport: registry.TransportStreamableHTTP, Authentication: registry.AuthWorkloadIdentity, TenantID: "default"}
	for _, kind := range []registry.AuthKind{"", registry.AuthKindNone} {
		c := registry.Connection{TenantID: "default", Name: "a", Version: 7, URL: "https://a.example/mcp", DialAddress: "10.0.0.1:443", AuthKind: kind}
		const want = "sha256:7d7a4830be3665140fdf3337086200dc870ba440d3108c6d2d4c020e2cc45ce1"
		if got := registry.TargetOf(s, c, nil).Digest(); got != want {
			t.Errorf("kind %q: %s", kind, got)
		}
	}
	s.Transport = registry.TransportStdio
	const want = "sha256:db7f08d9b5fbfc1b10f83b0e992c00d75cad818c81478b101d8e5384e896220f"
	if got := registry.TargetOf(s, registry.Connection{}, &registry.Command{Ref: "x", Argv: []string{"/bin/x"}}).Digest(); got != want {
		t.Error(got)
	}
}

// Whatever decides who is met, or as whom, is part of what is approved; what
// people say about the connection is not.
func TestTheTargetCoversTheConnection(t *testing.T) {
	t.Parallel()
	certificate, _ := authority(t)
	s := &registry.Server{Transport: registry.TransportStreamableHTTP, Authentication: registry.AuthOAuth2}
	digest := func(c registry.Connection) string { return registry.TargetOf(s, c.Normal(), nil).Digest() }
	base := digest(connection(nil))
	seen := map[string]string{base: "as it is"}
	for name, edit := range map[string]registry.ConnectionEdit{
		"url": {URL: new("https://other.example.com/mcp")}, "dial address": {DialAddress: new("10.0.0.1:443")},
		"networks": {AllowedNetworks: &[]string{"10.0.0.0/8"}}, "bundle": {CABundle: &certificate},
		"kind": {AuthKind: new(registry.AuthKindClientCredentials)}, "issuer": {Issuer: new("https://as.example.com")},
		"client": {ClientID: new("us")}, "secret": {SecretRef: new("env:A")}, "scopes": {Scopes: &[]string{"a"}},
		"header's name":      {Headers: &map[string]string{"X-Key": "env:SEARCH_TOKEN"}},
		"header's reference": {Headers: &map[string]string{"Authorization": "env:OTHER"}},
		"token endpoint":     {TokenEndpoint: new("https://tokens.example.com/token")},
		"scopes to step to":  {StepUpScopes: &[]string{"b"}},
		"certificate":        {ClientCertificateRef: new("file:c")}, "key": {ClientKeyRef: new("file:k")},
	} {
		next, fields := connection(nil).Edit(edit)
		if len(fields) != 1 {
			t.Errorf("%s: %v differ", name, fields)
		}
		if other, twice := seen[digest(next)]; twice {
			t.Errorf("%s: the digest is that of %q", name, other)
		}
		seen[digest(next)] = name
	}
	next, fields := connection(nil).Edit(registry.ConnectionEdit{Description: new("ours")})
	if digest(next) != base || !slices.Equal(fields, []string{"description"}) {
		t.Errorf("a description is %v", fields)
	}
	next.Version, next.Name, next.CreatedBy = 9, "other", "bob"
	if digest(next) != base {
		t.Error("the name of a connection is part of the target")
	}
}

func TestTheSameIsWrittenTheSame(t *testing.T) {
	t.Parallel()
	certificate, _ := authority(t)
	a := connection(func(c *registry.Connection) {
		c.Headers, c.AllowedNetworks = map[string]string{"x-key": "env:A"}, []string{" 10.20.1.0/16", "10.20.0.0/16", "10.10.0.0/16"}
		c.CABundle, c.Scopes, c.AuthKind = "\n"+strings.ReplaceAll(certificate, "\n", "\r\n"), []string{}, ""
	})
	b := connection(func(c *registry.Connection) {
		c.Headers, c.AllowedNetworks = map[string]string{"X-Key": "env:A"}, []string{"10.10.0.0/16", "10.20.0.0/16"}
		c.CABundle = certificate
	})
	if _, fields := a.Edit(registry.ConnectionEdit{
		Headers: &b.Headers, AllowedNetworks: &b.AllowedNetworks, CABundle: &b.CABundle, AuthKind: &b.AuthKind, Scopes: &b.Scopes,
	}); len(fields) > 0 {
		t.Errorf("%v differ", fields)
	}
	if got := a.Normal().CABundle; !bytes.Equal([]byte(got), []byte(certificate)) {
		t.Errorf("the bundle became %q", got)
	}
}

// Cases H: the same list at another address is not what was approved.
func TestAServerTakesWhatItsConnectionBecame(t *testing.T) {
	t.Parallel()
	named := connection(func(c *registry.Connection) { c.Version = 1 }).Normal()
	l := newLife(t, func(g *registry.Registration) { g.URL, g.ConnectionName, g.Connection = "", "search", &named })
	s := &l.r.Server
	if s.EndpointRef != "search@1" || l.last.Connection != nil {
		t.Fatalf("registered at %s, writes %+v", s.EndpointRef, l.last.Connection)
	}
	bound := func() {
		l.r.Bindings = map[string]*registry.ToolBinding{"a": {ToolName: "a", Bound: true, Target: s.TargetDigest}}
	}
	take := func(next registry.Connection) {
		t.Helper()
		l.r.Named = &next
		l.must(func(now time.Time) error { return l.r.TakeConnection(l.op("take_connection"), now) })
	}
	bound()
	before := s.TargetDigest

	next, _ := named.Edit(registry.ConnectionEdit{Description: new("for people")})
	next.Version = 2
	take(next)
	if s.EndpointRef != "search@2" || s.TargetDigest != before || !l.r.Bindings["a"].Bound || !l.last.Pinned || l.last.Connection != nil {
		t.Errorf("a description: %s %+v %+v", s.EndpointRef, l.r.Bindings["a"], l.last)
	}

	next, _ = next.Edit(registry.ConnectionEdit{URL: new("https://other.example.com/mcp")})
	next.Version = 3
	take(next)
	if b := l.r.Bindings["a"]; s.EndpointRef != "search@3" || s.TargetDigest == before || b.Bound || b.UnboundBy != registry.ReasonTargetChanged {
		t.Errorf("another URL: %s %+v", s.EndpointRef, b)
	}
	if !l.last.Pinned || l.last.Connection != nil || !l.last.Bindings["a"] {
		t.Errorf("it writes %+v", l.last)
	}

	// What comes late, again, or about another connection changes nothing.
	version := s.Version
	other := next
	other.Name, other.Version = "other", 9
	gone := next
	gone.Version, gone.Deleted = 4, true
	for _, stale := range []registry.Connection{named, next, other, gone} {
		take(stale)
	}
	if s.Version != version || s.EndpointRef != "search@3" {
		t.Errorf("at version %d, %s", s.Version, s.EndpointRef)
	}

	// Its address is the connection's to say.
	err := l.do(func(now time.Time) error {
		return l.r.Edit(registry.Edit{URL: new("https://third.example.com/mcp")}, l.op("edit"), now)
	})
	if registry.ReasonOf(err) != registry.ReasonConnectionShared {
		t.Errorf("an edit of the URL: %v", err)
	}
	l.r.Named = &other
	l.must(func(now time.Time) error {
		return l.r.Edit(registry.Edit{ConnectionName: new("other")}, l.op("edit"), now)
	})
	if s.EndpointRef != "other@9" {
		t.Errorf("it is at %s", s.EndpointRef)
	}
	l.r.Named = nil
	err = l.do(func(now time.Time) error {
		return l.r.Edit(registry.Edit{ConnectionName: new("gone")}, l.op("edit"), now)
	})
	if registry.ReasonOf(err) != registry.ReasonConnectionNotFound {
		t.Errorf("a connection that is not there: %v", err)
	}
}
