package outbound

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"countersign/telemetry"
)

// ClientOptions bound one HTTP client. Zero values mean the defaults named
// with each field.
type ClientOptions struct {
	// DialAddress is a host:port to connect to instead of the URL's, for
	// servers behind an internal address. The Host header and the name in the
	// certificate stay the URL's. Every connection of the client goes there.
	DialAddress string
	// AllowNetworks are networks that this client may dial besides those of the
	// guard.
	AllowNetworks []netip.Prefix
	// RootCAs replaces the guard's certificate authorities; nil is the guard's.
	RootCAs *x509.CertPool
	// Certificates are shown to servers that ask for one.
	Certificates []tls.Certificate
	// ConnectTimeout bounds the look-up of a name, a connection attempt and the
	// TLS handshake, each. Default 5 s.
	ConnectTimeout time.Duration
	// HeaderTimeout bounds the wait for the first header byte. Default none
	// beyond the request's context: slow servers think before they answer.
	HeaderTimeout time.Duration
	// ResponseBytes is how much one response may hold, decompressed. Default 8 MiB.
	ResponseBytes int64
	// TotalBytes is how much all responses of the client may hold together,
	// decompressed. Default 32 MiB.
	TotalBytes int64
}

// maxHeaderBytes is how much the headers of one response may hold.
const maxHeaderBytes = 64 << 10

// Client gives an HTTP client for one server. It has connections of its own,
// shared with no other client; the caller ends them with CloseIdleConnections.
// It follows no redirect: the caller gets the 3xx response. Public addresses are
// spoken to over HTTPS only.
//
// Its errors come inside a [net/url.Error], as usual; registry.AsError finds
// the reason. Reading a body past its limit fails with the reason too_large.
func (g *Guard) Client(o ClientOptions) *http.Client {
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = 5 * time.Second
	}
	if o.ResponseBytes <= 0 {
		o.ResponseBytes = 8 << 20
	}
	if o.TotalBytes <= 0 {
		o.TotalBytes = 32 << 20
	}
	if len(o.AllowNetworks) > 0 {
		wider := *g
		wider.allow = slices.Concat(g.allow, o.AllowNetworks)
		g = &wider
	}
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &transport{
			responseBytes: o.ResponseBytes,
			total:         &budget{limit: o.TotalBytes},
			inner: &http.Transport{
				Proxy: nil,
				DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
					if o.DialAddress != "" {
						address = o.DialAddress
					}
					return g.dial(ctx, address, o.ConnectTimeout)
				},
				TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: cmp.Or(o.RootCAs, g.rootCAs), Certificates: o.Certificates},
				TLSHandshakeTimeout:    o.ConnectTimeout,
				ResponseHeaderTimeout:  o.HeaderTimeout,
				ExpectContinueTimeout:  time.Second,
				MaxResponseHeaderBytes: maxHeaderBytes,
				MaxConnsPerHost:        4,
				MaxIdleConnsPerHost:    1,
				IdleConnTimeout:        30 * time.Second,
				ForceAttemptHTTP2:      true,
			},
		},
	}
}

// transport turns errors into reasons and bounds bodies.
type transport struct {
	inner         *http.Transport
	responseBytes int64
	total         *budget
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(req *http.Request) (_ *http.Response, err error) {
	ctx, end := telemetry.Start(req.Context(), "outbound", req.Method, trace.SpanKindClient)
	defer func() { end(err) }()
	telemetry.About(ctx, attribute.String("http.request.method", req.Method), attribute.String("server.address", req.URL.Host))
	// The ids of our trace stay here: to a stranger they would tell which of our requests belong together.
	resp, err := t.inner.RoundTrip(req.WithContext(context.WithValue(ctx, schemeKey{}, req.URL.Scheme)))
	if err != nil {
		return nil, explain(req.Context(), req.URL.Hostname(), err)
	}
	telemetry.About(ctx, attribute.Int("http.response.status_code", resp.StatusCode))
	body := &limited{
		ReadCloser: resp.Body, limit: t.responseBytes, total: t.total,
		explain: func(err error) error { return explain(req.Context(), req.URL.Hostname(), err) }, //nolint:contextcheck // the request's is the one
	}
	if resp.ContentLength > t.responseBytes {
		body.failed = tooLarge("an answer", t.responseBytes, "response")
	}
	resp.Body = body
	return resp, nil
}

// schemeKey is under which a dialling context has the request's scheme.
type schemeKey struct{}

// CloseIdleConnections ends the connections that no request uses; see
// [http.Client.CloseIdleConnections].
func (t *transport) CloseIdleConnections() { t.inner.CloseIdleConnections() }
