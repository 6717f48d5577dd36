package registry

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"net/netip"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Connection is one immutable version of how an HTTP server is reached and as
// whom (C10). It holds references to secrets and never a secret. A server pins
// one version; an edit makes the next one, and so does a deletion, which is
// only allowed while no live server uses the connection.
//
// A registration by a plain URL makes one that bears the server's id and belongs
// to that server alone. All others have names, and servers share them.
type Connection struct {
	TenantID    string `json:"tenantId" bun:"tenant_id,pk"`
	Name        string `json:"name" bun:"name,pk"`
	Version     int    `json:"version" bun:"version,pk"`
	Description string `json:"description,omitempty" bun:"description"`

	URL             string   `json:"url" bun:"url"`
	DialAddress     string   `json:"dialAddress" bun:"dial_address"`                             // host:port to connect to instead of the URL's (R32)
	AllowedNetworks []string `json:"allowedNetworks,omitempty" bun:"allowed_networks,type:text"` // CIDR; may be dialled although not public, as far as the operator lets connections say so
	CABundle        string   `json:"caBundle,omitempty" bun:"ca_bundle"`                         // PEM; instead of the machine's authorities

	AuthKind  AuthKind `json:"authKind,omitempty" bun:"auth_kind"`
	Issuer    string   `json:"issuer,omitempty" bun:"issuer"` // the only authorization server that gets the credentials
	ClientID  string   `json:"clientId,omitempty" bun:"client_id"`
	SecretRef string   `json:"secretRef,omitempty" bun:"secret_ref"` // the client's secret or private key, or the token that stands for us; see [Connection.SignsOurs]
	Scopes    []string `json:"scopes,omitempty" bun:"scopes,type:text"`
	// TokenEndpoint is where the issuer gives tokens, if not at its own origin; its
	// metadata must say the same.
	TokenEndpoint string `json:"tokenEndpoint,omitempty" bun:"token_endpoint"`
	// StepUpScopes may be asked for besides, once for each use, when the server says that
	// it wants them.
	StepUpScopes []string `json:"stepUpScopes,omitempty" bun:"step_up_scopes,type:text"`

	Headers map[string]string `json:"headers,omitempty" bun:"headers,type:text"` // name → secret reference

	ClientCertificateRef string `json:"clientCertificateRef,omitempty" bun:"client_certificate_ref"` // PEM, the leaf first
	ClientKeyRef         string `json:"clientKeyRef,omitempty" bun:"client_key_ref"`                 // PEM

	Authentication Authentication `json:"authentication" bun:"authentication"` // of the server that a connection without a name belongs to; else empty
	Deleted        bool           `json:"deleted,omitempty" bun:"deleted"`     // the last version of a deleted connection, until the name is used again
	CreatedAt      time.Time      `json:"createdAt" bun:"created_at"`
	CreatedBy      string         `json:"createdBy" bun:"created_by"`
}

// AuthKind says with what requests through a connection are authorised.
type AuthKind string

// The kinds.
const (
	AuthKindNone              AuthKind = "none"
	AuthKindHeaders           AuthKind = "headers"            // header fields whose values are secrets
	AuthKindClientCredentials AuthKind = "client_credentials" // OAuth 2.1 with a client's secret
	AuthKindPrivateKeyJWT     AuthKind = "private_key_jwt"    // OAuth 2.1 with a client's key (RFC 7523)
	AuthKindTokenExchange     AuthKind = "token_exchange"     // RFC 8693
	AuthKindWorkloadIdentity  AuthKind = "workload_identity"  // a token of the platform's, or one of our own issuer's
)

// AuthKinds lists the kinds.
func AuthKinds() []AuthKind {
	return []AuthKind{
		AuthKindNone, AuthKindHeaders, AuthKindClientCredentials, AuthKindPrivateKeyJWT, AuthKindTokenExchange, AuthKindWorkloadIdentity,
	}
}

// OAuth says whether the kind puts a token into the header Authorization.
func (k AuthKind) OAuth() bool {
	return slices.Contains([]AuthKind{AuthKindClientCredentials, AuthKindPrivateKeyJWT, AuthKindTokenExchange, AuthKindWorkloadIdentity}, k)
}

// Limits of a connection. Bytes where nothing else is said.
const (
	MaxConnectionHeaders  = 16 // of them
	MaxConnectionNetworks = 32 // of them
	MaxConnectionScopes   = 64 // of them, and of those to step up to
	MaxHeaderName         = 128
	MaxScopeLength        = 256
	MaxClientID           = 512
	MaxCABundle           = 32 << 10
)

// Ref names this version.
func (c Connection) Ref() string { return ConnectionRef(c.Name, c.Version) }

// Etag is the optimistic lock as callers see it.
func (c Connection) Etag() string { return formatEtag(int64(c.Version)) }

// CheckEtag compares a caller's etag with the version; an empty one asks for
// nothing.
func (c Connection) CheckEtag(etag string) error {
	if etag == "" || strings.Trim(etag, `"`) == strconv.Itoa(c.Version) {
		return nil
	}
	return Errorf(ReasonStaleEtag, "the connection is at etag %s, not %s", c.Etag(), etag).
		With("etag", c.Etag()).WithNext("read the connection again and repeat the change on what it is now")
}

// Owned says whether the connection belongs to one server, which was registered
// by a plain URL.
func (c Connection) Owned() bool { return ValidServerID(c.Name) }

// ConnectionNotFound is what one is told of a connection that does not exist, is
// deleted, or is another tenant's.
func ConnectionNotFound() *Error {
	return Errorf(ReasonConnectionNotFound, "there is no such connection").
		WithNext("list the connections; names are those of the tenant")
}

// Normal brings what is the same to be written the same, so that it has one
// digest: names of headers, networks, scopes and certificates. What is wrong
// stays as it is, for [Connection.Check] to say so.
func (c Connection) Normal() Connection {
	if c.AuthKind == "" {
		c.AuthKind = AuthKindNone
		if len(c.Headers) > 0 {
			c.AuthKind = AuthKindHeaders
		}
	}
	c.Scopes = slices.Compact(slices.Sorted(slices.Values(c.Scopes)))
	c.StepUpScopes = slices.Compact(slices.Sorted(slices.Values(c.StepUpScopes)))
	networks := make([]string, 0, len(c.AllowedNetworks))
	for _, text := range c.AllowedNetworks {
		if p, err := netip.ParsePrefix(strings.TrimSpace(text)); err == nil {
			text = p.Masked().String()
		}
		networks = append(networks, text)
	}
	c.AllowedNetworks = slices.Compact(slices.Sorted(slices.Values(networks)))
	headers := make(map[string]string, len(c.Headers))
	for name, ref := range c.Headers {
		headers[textproto.CanonicalMIMEHeaderKey(name)] = ref
	}
	if len(headers) == len(c.Headers) { // else two of them are one, which Check refuses
		c.Headers = headers
	}
	if certificates, err := parseBundle(c.CABundle); err == nil {
		var b bytes.Buffer
		for _, certificate := range certificates {
			_ = pem.Encode(&b, &pem.Block{Type: certificateBlock, Bytes: certificate.Raw}) // a buffer takes everything
		}
		c.CABundle = b.String()
	}
	// Absent and empty are one, here as in the digest.
	if len(c.Scopes) == 0 {
		c.Scopes = nil
	}
	if len(c.StepUpScopes) == 0 {
		c.StepUpScopes = nil
	}
	if len(c.AllowedNetworks) == 0 {
		c.AllowedNetworks = nil
	}
	if len(c.Headers) == 0 {
		c.Headers = nil
	}
	return c
}

// Check says everything that is wrong with a connection, before anything is
// written, resolved or dialled. A secret in the wrong place is refused at once,
// with secret_in_request or secret_reference_invalid; neither repeats it.
func (c Connection) Check(inst Installation) error {
	e := Errorf(ReasonInvalidArgument, "the connection is not valid")
	if !ValidName(c.Name) {
		e.WithField("name", "must be 1 to 63 of a-z, 0-9, '_' and '-', beginning and ending with a letter or digit")
	} else if c.Owned() {
		e.WithField("name", "has the form of a server id")
	}
	if len(c.Description) > MaxDescriptionLength {
		e.WithField("description", "longer than %d bytes", MaxDescriptionLength)
	}
	if err := CheckEndpoint(c.URL); err != nil {
		if ReasonOf(err) == ReasonSecretInRequest {
			return err
		}
		e.WithField("base_url", "%s", err.Error())
	}
	if err := CheckDialAddress(c.DialAddress); err != nil {
		e.WithField("dial_address", "%s", err.Error())
	}
	c.checkNetworks(e, inst)
	for _, check := range []func(*Error) error{c.checkAuth, c.checkHeaders, c.checkCertificates} {
		if err := check(e); err != nil {
			return err
		}
	}
	c.checkClient(e, inst)
	if len(e.Fields) > 0 {
		return e
	}
	if c.SignsOurs() && !inst.OwnIssuer {
		return NoOwnIssuer(c.AuthKind)
	}
	return nil
}

// SignsOurs says whether what shows who we are is signed by the installation's own
// issuer, since no secret is named.
func (c Connection) SignsOurs() bool { return c.AuthKind.signed() && c.SecretRef == "" }

// signed says whether the installation's own issuer can stand in for a secret.
func (k AuthKind) signed() bool {
	return slices.Contains([]AuthKind{AuthKindPrivateKeyJWT, AuthKindTokenExchange, AuthKindWorkloadIdentity}, k)
}

// NoOwnIssuer is what one is told of a connection that needs the installation's own
// issuer, where there is none.
func NoOwnIssuer(k AuthKind) *Error {
	return Errorf(ReasonAuthKindUnsupported, "this installation has no issuer of its own, which auth_kind %s without secret_ref needs", k).
		WithField("secret_ref", "is required for auth_kind %s where the installation has no issuer of its own", k).
		WithNext("name what shows who we are in secret_ref, or have the operator configure workload_identity")
}

func joined[S ~string](list []S) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return strings.Join(out, ", ")
}

// neverAllowed are networks that no connection may open, whatever the operator
// lets them say: link-local ones, where clouds answer about the machine itself,
// and those that lead to nobody.
var neverAllowed = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("168.63.129.16/32"),
	netip.MustParsePrefix("100.100.100.200/32"), netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("::/128"),
	netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("ff00::/8"), netip.MustParsePrefix("fd00:ec2::254/128"),
}

func (c Connection) checkNetworks(e *Error, inst Installation) {
	if len(c.AllowedNetworks) > MaxConnectionNetworks {
		e.WithField("allowed_networks", "more than %d", MaxConnectionNetworks)
	}
	for i, text := range c.AllowedNetworks {
		field := fmt.Sprintf("allowed_networks[%d]", i)
		p, err := netip.ParsePrefix(text)
		switch {
		case err != nil:
			e.WithField(field, "is no network in the form 10.20.0.0/16")
		case p.Addr().Is4In6():
			e.WithField(field, "is an IPv4 network in IPv6 clothes")
		case !AllowsNetwork(inst.ConnectionNetworks, p):
			e.WithField(field, "is not among the networks that the operator lets connections open")
		}
	}
}

// AllowsNetwork says whether a connection may open a network: it lies in one of
// those that the operator named for that, and touches none that nobody may.
func AllowsNetwork(named []netip.Prefix, p netip.Prefix) bool {
	p = p.Masked()
	if slices.ContainsFunc(neverAllowed, p.Overlaps) {
		return false
	}
	return slices.ContainsFunc(named, func(n netip.Prefix) bool { return n.Bits() <= p.Bits() && n.Overlaps(p) })
}

func (c Connection) checkAuth(e *Error) error {
	if !slices.Contains(AuthKinds(), c.AuthKind) {
		e.WithField("auth_kind", "must be one of %s", joined(AuthKinds()))
		return nil
	}
	oauth, named := c.AuthKind.OAuth(), fmt.Sprintf("is not for auth_kind %s", c.AuthKind)
	only := func(field, value string) {
		if !oauth && value != "" {
			e.WithField(field, "%s", named)
		}
	}
	only("issuer", c.Issuer)
	only("client_id", c.ClientID)
	only("secret_ref", c.SecretRef)
	only("scopes", strings.Join(c.Scopes, " "))
	only("token_endpoint", c.TokenEndpoint)
	only("step_up_scopes", strings.Join(c.StepUpScopes, " "))
	if c.SecretRef != "" {
		if _, err := ParseSecretRef(c.SecretRef); err != nil {
			return inField(err, "secret_ref")
		}
	}
	if c.Issuer != "" {
		if err := CheckEndpoint(c.Issuer); err != nil {
			if ReasonOf(err) == ReasonSecretInRequest {
				return err
			}
			e.WithField("issuer", "%s", err.Error())
		} else if u, err := url.Parse(c.Issuer); err != nil || u.RawQuery != "" || u.ForceQuery {
			e.WithField("issuer", "the URL has a query (RFC 8414, section 2)")
		}
	}
	if c.TokenEndpoint != "" {
		if err := CheckEndpoint(c.TokenEndpoint); err != nil {
			if ReasonOf(err) == ReasonSecretInRequest {
				return inField(err, "token_endpoint")
			}
			e.WithField("token_endpoint", "%s", err.Error())
		} else if c.Issuer == "" && oauth {
			e.WithField("token_endpoint", "is for an issuer, and the connection names none")
		}
	}
	if len(c.ClientID) > MaxClientID || strings.ContainsFunc(c.ClientID, notPrintable) {
		e.WithField("client_id", "must be at most %d printable ASCII characters", MaxClientID)
	}
	checkScopes(e, "scopes", c.Scopes)
	checkScopes(e, "step_up_scopes", c.StepUpScopes)
	c.checkNeeds(e, named)
	return nil
}

func checkScopes(e *Error, field string, scopes []string) {
	if len(scopes) > MaxConnectionScopes {
		e.WithField(field, "more than %d", MaxConnectionScopes)
	}
	for i, scope := range scopes {
		if scope == "" || len(scope) > MaxScopeLength || strings.ContainsFunc(scope, notScope) {
			e.WithField(fmt.Sprintf("%s[%d]", field, i), "is no scope (RFC 6749, section 3.3)")
		}
	}
}

// Registers says whether we register as a client of the issuer, since the connection
// names none: with a secret that the issuer makes, or with the connection's key.
func (c Connection) Registers() bool {
	return c.ClientID == "" && (c.AuthKind == AuthKindClientCredentials || c.AuthKind == AuthKindPrivateKeyJWT && c.SecretRef != "")
}

// checkClient says whether a client may be registered at the issuer, where the
// connection names none.
func (c Connection) checkClient(e *Error, inst Installation) {
	if c.Registers() && !slices.Contains(inst.RegistrationIssuers, c.Issuer) {
		e.WithField("client_id", "is required for auth_kind %s, unless the operator lets clients be registered at that issuer", c.AuthKind)
	}
}

// checkNeeds says which fields a kind misses, and which it has no use for.
func (c Connection) checkNeeds(e *Error, named string) {
	need := func(field, value string) {
		if value == "" {
			e.WithField(field, "is required for auth_kind %s", c.AuthKind)
		}
	}
	switch c.AuthKind {
	case AuthKindClientCredentials:
		need("issuer", c.Issuer)
		if c.ClientID != "" {
			need("secret_ref", c.SecretRef)
		}
	case AuthKindPrivateKeyJWT:
		need("issuer", c.Issuer)
		if c.ClientID != "" {
			need("secret_ref", c.SecretRef)
		}
	case AuthKindTokenExchange:
		need("issuer", c.Issuer)
		need("client_id", c.ClientID)
	case AuthKindWorkloadIdentity:
		if c.Issuer != "" {
			break
		}
		for _, f := range []struct{ field, value string }{{"client_id", c.ClientID}, {"scopes", strings.Join(c.Scopes, " ")}, {"step_up_scopes", strings.Join(c.StepUpScopes, " ")}} {
			if f.value != "" {
				e.WithField(f.field, "is for an issuer, and the connection names none")
			}
		}
	case AuthKindHeaders:
		if len(c.Headers) == 0 {
			e.WithField("headers", "at least one is required for auth_kind headers")
		}
	case AuthKindNone:
		if len(c.Headers) > 0 {
			e.WithField("headers", "%s", named)
		}
	}
}

func notPrintable(r rune) bool { return r < ' ' || r > '~' }

// notScope says whether a character cannot stand in a scope (RFC 6749, 3.3).
func notScope(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }

// reserved are header fields that a connection may not set: those of one hop
// (RFC 9110, 7.6.1), those that frame the message or name whom it is for, those
// that the protocol and its client set themselves, and cookies, which are the
// server's to give.
var reserved = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Authenticate": true, "Proxy-Authorization": true, "Proxy-Connection": true,
	"Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
	"Content-Encoding": true, "Content-Length": true, "Content-Type": true, "Expect": true, "Host": true,
	"Accept": true, "Accept-Encoding": true, "Last-Event-Id": true, "Origin": true, "User-Agent": true,
	"Cookie": true, "Set-Cookie": true,
}

func (c Connection) checkHeaders(e *Error) error {
	if len(c.Headers) > MaxConnectionHeaders {
		e.WithField("headers", "more than %d", MaxConnectionHeaders)
	}
	seen := map[string]bool{}
	for _, name := range sortedKeys(c.Headers) {
		field, canonical := fmt.Sprintf("headers[%q]", name), textproto.CanonicalMIMEHeaderKey(name)
		switch {
		case name == "" || len(name) > MaxHeaderName || strings.ContainsFunc(name, notToken):
			e.WithField("headers", "a name must be 1 to %d characters of a token (RFC 9110, section 5.6.2)", MaxHeaderName)
			continue // it may be the secret
		case seen[canonical]:
			e.WithField(field, "is there twice, but for case")
		case reserved[canonical] || strings.HasPrefix(canonical, "Mcp-"):
			e.WithField(field, "is not a connection's to set")
		case canonical == "Authorization" && c.AuthKind.OAuth():
			e.WithField(field, "is set by auth_kind %s", c.AuthKind)
		}
		seen[canonical] = true
		if _, err := ParseSecretRef(c.Headers[name]); err != nil {
			return inField(err, field)
		}
	}
	return nil
}

const certificateBlock = "CERTIFICATE"

func (c Connection) checkCertificates(e *Error) error {
	if strings.Contains(c.CABundle, "PRIVATE KEY-----") {
		return Errorf(ReasonSecretInRequest, "the CA bundle holds a private key").WithField("ca_bundle", "holds a private key").
			WithNext("leave it out; keys are references of a connection, in client_key_ref")
	}
	if len(c.CABundle) > MaxCABundle {
		e.WithField("ca_bundle", "larger than %d bytes", MaxCABundle)
	} else if c.CABundle != "" {
		if _, err := parseBundle(c.CABundle); err != nil {
			e.WithField("ca_bundle", "%s", err.Error())
		}
	}
	if (c.ClientCertificateRef == "") != (c.ClientKeyRef == "") {
		e.WithField("client_key_ref", "goes together with client_certificate_ref")
	}
	for _, f := range []struct{ field, ref string }{{"client_certificate_ref", c.ClientCertificateRef}, {"client_key_ref", c.ClientKeyRef}} {
		if f.ref == "" {
			continue
		}
		if _, err := ParseSecretRef(f.ref); err != nil {
			return inField(err, f.field)
		}
	}
	return nil
}

// parseBundle reads certificates in PEM, and nothing but them.
func parseBundle(text string) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	rest := []byte(text)
	for len(bytes.TrimSpace(rest)) > 0 {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != certificateBlock {
			return nil, Errorf(ReasonInvalidArgument, "has a block that is no certificate")
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, Errorf(ReasonInvalidArgument, "has a certificate that cannot be read")
		}
		out = append(out, certificate)
	}
	if len(out) == 0 || len(bytes.TrimSpace(rest)) > 0 {
		return nil, Errorf(ReasonInvalidArgument, "must be certificates in PEM and nothing else")
	}
	return out, nil
}

// inField says where a fault is; the error is one of this room.
func inField(err error, field string) error {
	e, ok := AsError(err)
	if !ok {
		return err
	}
	return e.WithField(field, "%s", e.Message)
}

// Fits says whether a server of this authentication may be reached through the
// connection.
func (c Connection) Fits(a Authentication) error {
	if a == AuthNoneException && c.AuthKind.OAuth() {
		return Errorf(ReasonInvalidArgument, "connection %s gets tokens by %s, which a server of authentication %s does not ask for", c.Name, c.AuthKind, a).
			WithField("authentication", "does not go with the connection's auth_kind %s", c.AuthKind).
			WithNext("register the server as oauth2_protected_resource or workload_identity, or use another connection")
	}
	return nil
}

// ConnectionEdit is a change of a connection. A nil field stays.
type ConnectionEdit struct {
	Etag                 string             `json:"etag,omitempty"`
	Description          *string            `json:"description,omitempty"`
	URL                  *string            `json:"url,omitempty"`
	DialAddress          *string            `json:"dialAddress,omitempty"`
	AllowedNetworks      *[]string          `json:"allowedNetworks,omitempty"`
	CABundle             *string            `json:"caBundle,omitempty"`
	AuthKind             *AuthKind          `json:"authKind,omitempty"`
	Issuer               *string            `json:"issuer,omitempty"`
	ClientID             *string            `json:"clientId,omitempty"`
	SecretRef            *string            `json:"secretRef,omitempty"`
	Scopes               *[]string          `json:"scopes,omitempty"`
	TokenEndpoint        *string            `json:"tokenEndpoint,omitempty"`
	StepUpScopes         *[]string          `json:"stepUpScopes,omitempty"`
	Headers              *map[string]string `json:"headers,omitempty"`
	ClientCertificateRef *string            `json:"clientCertificateRef,omitempty"`
	ClientKeyRef         *string            `json:"clientKeyRef,omitempty"`
}

// Edit gives what the connection is after an edit, with the names of the fields
// that differ; none means that there is no new version.
func (c Connection) Edit(e ConnectionEdit) (Connection, []string) {
	next := c
	put(&next.Description, e.Description)
	put(&next.URL, e.URL)
	put(&next.DialAddress, e.DialAddress)
	put(&next.AllowedNetworks, e.AllowedNetworks)
	put(&next.CABundle, e.CABundle)
	put(&next.AuthKind, e.AuthKind)
	put(&next.Issuer, e.Issuer)
	put(&next.ClientID, e.ClientID)
	put(&next.SecretRef, e.SecretRef)
	put(&next.Scopes, e.Scopes)
	put(&next.TokenEndpoint, e.TokenEndpoint)
	put(&next.StepUpScopes, e.StepUpScopes)
	put(&next.Headers, e.Headers)
	put(&next.ClientCertificateRef, e.ClientCertificateRef)
	put(&next.ClientKeyRef, e.ClientKeyRef)
	next = next.Normal()
	return next, differing(c.Normal(), next)
}

func put[T any](field, to *T) {
	if to != nil {
		*field = *to
	}
}

// differing names the fields in which two connections differ that people set.
func differing(a, b Connection) []string {
	var out []string
	for _, f := range []struct {
		name string
		same bool
	}{
		{"description", a.Description == b.Description},
		{"base_url", a.URL == b.URL},
		{"dial_address", a.DialAddress == b.DialAddress},
		{"allowed_networks", slices.Equal(a.AllowedNetworks, b.AllowedNetworks)},
		{"ca_bundle", a.CABundle == b.CABundle},
		{"auth_kind", a.AuthKind == b.AuthKind},
		{"issuer", a.Issuer == b.Issuer},
		{"client_id", a.ClientID == b.ClientID},
		{"secret_ref", a.SecretRef == b.SecretRef},
		{"scopes", slices.Equal(a.Scopes, b.Scopes)},
		{"token_endpoint", a.TokenEndpoint == b.TokenEndpoint},
		{"step_up_scopes", slices.Equal(a.StepUpScopes, b.StepUpScopes)},
		{"headers", maps.Equal(a.Headers, b.Headers)},
		{"client_certificate_ref", a.ClientCertificateRef == b.ClientCertificateRef},
		{"client_key_ref", a.ClientKeyRef == b.ClientKeyRef},
	} {
		if !f.same {
			out = append(out, f.name)
		}
	}
	return out
}
