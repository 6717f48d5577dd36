package registry

import (
	"net/netip"
	"net/url"
	"regexp"
	"strings"
)

// Target is where a server is reached and as whom. Its digest is part of every
// approval: another target unbinds everything (C10).
type Target struct {
	Transport      Transport      `json:"transport"`
	URL            string         `json:"url,omitempty"`
	DialAddress    string         `json:"dialAddress,omitempty"` // host:port to connect to instead of the URL's (R32)
	Authentication Authentication `json:"authentication"`
	Issuer         string         `json:"issuer,omitempty"`
	Command        *Command       `json:"command,omitempty"` // of the transport stdio

	// What a connection says of how we authenticate and whom we trust. A kind of
	// none is left out, so that targets from before there were kinds keep their
	// digests. Of secrets the references count, not the values: a secret that is
	// rotated leaves the target what it was.
	AuthKind             AuthKind          `json:"authKind,omitempty"`
	ClientID             string            `json:"clientId,omitempty"`
	SecretRef            string            `json:"secretRef,omitempty"`
	Scopes               []string          `json:"scopes,omitempty"`
	TokenEndpoint        string            `json:"tokenEndpoint,omitempty"`
	StepUpScopes         []string          `json:"stepUpScopes,omitempty"`
	AllowedNetworks      []string          `json:"allowedNetworks,omitempty"`
	Headers              map[string]string `json:"headers,omitempty"`
	CABundle             string            `json:"caBundle,omitempty"`
	ClientCertificateRef string            `json:"clientCertificateRef,omitempty"`
	ClientKeyRef         string            `json:"clientKeyRef,omitempty"`

	TenantID   string `json:"-"` // whose secrets the references may lead to
	Connection string `json:"-"` // version of the connection, whose tokens are nobody else's; empty for a command
}

// TargetOf is the target of a server: by the version of the connection that it
// pins, or by its command.
func TargetOf(s *Server, c Connection, k *Command) Target {
	if s.Transport == TransportStdio {
		return Target{Transport: s.Transport, Authentication: s.Authentication, Command: k, TenantID: s.TenantID}
	}
	t := Target{
		Transport: s.Transport, URL: c.URL, DialAddress: c.DialAddress, Authentication: s.Authentication, Issuer: c.Issuer,
		ClientID: c.ClientID, SecretRef: c.SecretRef, Scopes: c.Scopes, TokenEndpoint: c.TokenEndpoint, StepUpScopes: c.StepUpScopes,
		AllowedNetworks: c.AllowedNetworks, Headers: c.Headers,
		CABundle: c.CABundle, ClientCertificateRef: c.ClientCertificateRef, ClientKeyRef: c.ClientKeyRef, TenantID: s.TenantID, Connection: c.Ref(),
	}
	if c.AuthKind != AuthKindNone {
		t.AuthKind = c.AuthKind
	}
	return t
}

// Digest is the target's digest.
func (t Target) Digest() string { return digestJSON(t) }

var secretName = regexp.MustCompile(`(?i)(authorization|cookie|token|secret|password|passwd|apikey|api[-_]key|access[-_]key|credential|signature|^sig$|^key$|^auth$|^pwd$)`)

// CheckEndpoint says whether a URL may be an endpoint (R10, R21): absolute http
// or https, no user-info, no fragment, nothing in the query whose name says
// that it is a secret. Whether its address may be dialled is the outbound
// guard's to say.
func CheckEndpoint(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		// The parser's text repeats the URL, which may hold a password.
		return Errorf(ReasonInvalidArgument, "the URL cannot be read")
	case u.Scheme != "http" && u.Scheme != "https":
		return Errorf(ReasonInvalidArgument, "the URL must start with http:// or https://")
	case u.Host == "" || u.Hostname() == "":
		return Errorf(ReasonInvalidArgument, "the URL names no host")
	case u.User != nil:
		return Errorf(ReasonSecretInRequest, "the URL holds user information").
			WithNext("leave it out; credentials are references of a connection")
	case u.Fragment != "" || strings.Contains(raw, "#"):
		return Errorf(ReasonInvalidArgument, "the URL has a fragment")
	case len(raw) > 2048:
		return Errorf(ReasonInvalidArgument, "the URL is longer than 2048 bytes")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Errorf(ReasonInvalidArgument, "the URL's query cannot be read")
	}
	for name := range query {
		if secretName.MatchString(name) {
			return Errorf(ReasonSecretInRequest, "the URL's query has a parameter %q, which looks like a secret", name).
				WithNext("leave it out; credentials are references of a connection")
		}
	}
	return nil
}

// LooksLikeKey says whether a path segment of the URL looks like a key: long,
// with letters and digits mixed. It earns a warning, not a refusal (C10).
func LooksLikeKey(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if len(segment) >= 24 && strings.ContainsAny(segment, "0123456789") &&
			strings.ContainsFunc(segment, func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }) {
			return true
		}
	}
	return false
}

// CheckDialAddress says whether this can be a dial address: host:port with a
// literal IP or a host name.
func CheckDialAddress(address string) error {
	if address == "" {
		return nil
	}
	if _, err := netip.ParseAddrPort(address); err == nil {
		return nil
	}
	u, err := url.Parse("http://" + address)
	if err != nil || u.Hostname() == "" || u.Port() == "" || u.Host != address {
		return Errorf(ReasonInvalidArgument, "the dial address must be host:port")
	}
	return nil
}
