package oauth

import (
	"net/url"
	"strings"

	"countersign/outbound"
	"countersign/registry"
)

// maxURL bounds a URL, in bytes.
const maxURL = 2048

// checkURL takes a URL of a stranger's, or refuses it: http or https, a host, nothing
// of a user, no fragment, and no character that a shell, a browser or a library of URLs
// reads in a way of its own. Such URLs are asked, shown, and never opened or started;
// that they could be is no reason to take them.
func checkURL(what, raw string) (*url.URL, *registry.Error) {
	wrong := func(why string) (*url.URL, *registry.Error) {
		return nil, registry.Errorf(registry.ReasonInvalidMetadata, "the %s %s", what, why).
			With("phase", phase).With("url", outbound.Excerpt(raw, 200)).
			WithNext("let the issuer publish http(s) URLs that are plain; nothing was sent there")
	}
	if raw == "" || len(raw) > maxURL {
		return wrong("is missing or too long")
	}
	if strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r > '~' }) || strings.ContainsAny(raw, "\\`$(){}[]|;<>\"'^") && !bracketed(raw) {
		return wrong("has characters that it must not have")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return wrong("cannot be read")
	case u.Scheme != "https" && u.Scheme != "http":
		return wrong("is none of http or https")
	case u.Host == "" || u.Hostname() == "" || u.Opaque != "":
		return wrong("names no host")
	case u.User != nil:
		u.User = nil
		raw = u.String() // it may be a password
		return wrong("holds user information")
	case strings.Contains(raw, "#"):
		return wrong("has a fragment")
	}
	return u, nil
}

// bracketed says whether the only odd characters are the brackets of an address of IPv6.
func bracketed(raw string) bool {
	_, rest, _ := strings.Cut(raw, "://[")
	address, rest, found := strings.Cut(rest, "]")
	return found && !strings.ContainsAny(address+rest, "\\`$(){}[]|;<>\"'^") && strings.Trim(address, "0123456789abcdefABCDEF:.") == ""
}

// checkIssuer takes the identifier of an issuer (RFC 8414, section 2).
func checkIssuer(issuer string) *registry.Error {
	u, fault := checkURL("issuer", issuer)
	switch {
	case fault != nil:
		fault.Next = "correct the connection's issuer"
		return fault
	case u.RawQuery != "" || u.ForceQuery:
		return registry.Errorf(registry.ReasonInvalidMetadata, "the issuer has a query").With("phase", phase).
			WithNext("correct the connection's issuer")
	}
	return nil
}

// origin is scheme, host and port of a URL.
func origin(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "http":
		port = "80"
	case u.Scheme == "https":
		port = "443"
	}
	return strings.ToLower(u.Scheme + "://" + u.Hostname() + ":" + port)
}
