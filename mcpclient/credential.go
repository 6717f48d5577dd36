package mcpclient

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"countersign/registry"
)

// Credential is what requests to one server are authorised with, made for one
// use. Its methods are called by several goroutines at once.
type Credential interface {
	// Authorize adds what the request needs. It may ask an issuer, within the
	// context. An error ends the request; a [registry.Error] passes as it is.
	Authorize(ctx context.Context, r *http.Request) error
	// Refused is told of a 401 or 403 and says whether the same request may be
	// sent again, with what Authorize adds then. Bounded by the implementation.
	// The answer's body is not its to read.
	Refused(ctx context.Context, answer *http.Response) (again bool, err error)
	// Mask hides every secret value that was resolved or obtained.
	Mask(text string) string
}

// Bounds of what is done for credentials.
const (
	// authorizeTime is how long the first credentials may take, before the time of
	// the handshake begins; never more than the handshake may take.
	authorizeTime = 10 * time.Second
	// maxResends is how often one request is sent again, whatever a credential says.
	maxResends = 2
	// halfSecret is how much of the end of a text that was cut is dropped: half a
	// secret is not known for one. A mask looks for pieces of 64 bytes, each of
	// which takes at most 12 characters in any notation.
	halfSecret = 1 << 10
)

// stepAuthorize is the making of the credentials.
const stepAuthorize = "authorize"

// badge is the credential of one visit, and what became of it. A nil badge is a
// visit without.
type badge struct {
	credential Credential
	origin     string // the only one that credentials are sent to

	mu    sync.Mutex
	fault *registry.Error // the first one of the credential itself
}

// badge asks for the credential of a target.
func (c *Client) badge(ctx context.Context, target registry.Target) (*badge, error) {
	if c.Credentials == nil {
		return nil, nil
	}
	credential, err := c.Credentials(ctx, target)
	if err != nil || credential == nil {
		return nil, err
	}
	at, err := url.Parse(target.URL)
	if err != nil {
		return nil, registry.Errorf(registry.ReasonInvalidArgument, "the URL cannot be read")
	}
	return &badge{credential: credential, origin: origin(at)}, nil
}

// show makes the credentials before the handshake, so that an issuer that is slow
// or away is not taken for a server that is.
func (v *visit) show(parent context.Context) *registry.Error {
	if v.badge == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(parent, min(authorizeTime, v.limits.Connect))
	defer cancel()
	done := v.diary.step(stepAuthorize, 0)
	// It is not sent; it is what one to the server looks like.
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, v.target.URL, nil)
	if err != nil {
		return registry.Errorf(registry.ReasonInternal, "the request could not be made: %w", err)
	}
	fault := v.badge.authorize(ctx, req)
	done(0, 0, fault)
	return fault
}

// authorize adds what a request needs.
func (b *badge) authorize(ctx context.Context, req *http.Request) *registry.Error {
	if origin(req.URL) != b.origin {
		return b.fail(ctx, registry.Errorf(registry.ReasonInternal, "credentials are not sent to another origin"))
	}
	if err := b.credential.Authorize(ctx, req); err != nil {
		return b.fail(ctx, err)
	}
	return nil
}

// fail notes what is wrong with the credential, which is not the server's fault.
func (b *badge) fail(ctx context.Context, err error) *registry.Error {
	fault, known := registry.AsError(err)
	switch {
	case known:
	case ctx.Err() != nil:
		fault = registry.Errorf(registry.ReasonDependency, "the credentials for the server were not to be had in time: %w", err).
			WithNext("see that the connection's issuer and the secret store answer")
	default:
		fault = registry.Errorf(registry.ReasonDependency, "the credentials for the server were not to be had: %w", err).
			WithNext("see that the connection's issuer and the secret store answer")
	}
	fault = b.masked(fault)
	if fault.Fact("phase") == "" {
		fault.With("phase", stepAuthorize)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fault == nil {
		b.fault = fault
	}
	return fault
}

// failed gives what was wrong with the credential, nil when nothing was.
func (b *badge) failed() *registry.Error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fault
}

// text masks a text.
func (b *badge) text(s string) string {
	if b == nil {
		return s
	}
	return b.credential.Mask(s)
}

// whole masks bytes that were read to their end.
func (b *badge) whole(text []byte) []byte {
	if b == nil || len(text) == 0 {
		return text
	}
	return []byte(b.credential.Mask(string(text)))
}

// cut masks bytes of which there was more, or may have been.
func (b *badge) cut(text []byte) []byte {
	if b == nil {
		return text
	}
	masked := b.whole(text)
	return masked[:max(0, len(masked)-halfSecret)]
}

// peek says how much is to be read for an excerpt.
func (b *badge) peek() int64 {
	if b == nil {
		return excerptBytes + 1
	}
	return excerptBytes + 1 + halfSecret
}

// headers masks what a server sends in its headers.
func (b *badge) headers(h http.Header) http.Header {
	if b == nil || h == nil {
		return h
	}
	out := make(http.Header, len(h))
	for name, values := range h {
		for _, value := range values {
			out[name] = append(out[name], b.credential.Mask(value))
		}
	}
	return out
}

// reply masks a reply. What ended its reading, or was cut off, may have been in
// the middle of a secret.
func (b *badge) reply(r *reply) *reply {
	if b == nil || r == nil {
		return r
	}
	masked := *r
	masked.header = b.headers(r.header)
	if masked.body = b.whole(r.body); r.cut || r.broken != nil {
		masked.body = b.cut(r.body)
	}
	return &masked
}

// masked masks an error.
func (b *badge) masked(e *registry.Error) *registry.Error {
	if b == nil {
		return e
	}
	clone := *e
	clone.Message, clone.Next, clone.Facts, clone.Fields = b.text(e.Message), b.text(e.Next), nil, nil
	for _, fact := range e.Facts {
		clone.Facts = append(clone.Facts, registry.Detail{Key: fact.Key, Value: b.text(fact.Value)})
	}
	for _, field := range e.Fields {
		clone.Fields = append(clone.Fields, registry.Field{Path: field.Path, Message: b.text(field.Message)})
	}
	return &clone
}

// refused words that a server does not take credentials that it was sent.
func (b *badge) refused(e *registry.Error) *registry.Error {
	if b == nil || e.Reason != registry.ReasonAuthRequired {
		return e
	}
	clone := *e
	clone.Message = "the server does not accept the connection's credentials (401)"
	clone.Next = "check the connection: its issuer, client id, secret and scopes, and whether its URL is what the server calls its resource"
	return &clone
}

// authorized is a transport that adds credentials to each request.
type authorized struct {
	base  http.RoundTripper
	badge *badge
}

// authorize puts the visit's credentials into every request of a client.
func (v *visit) authorize(client *http.Client) *http.Client {
	if v.badge != nil {
		client.Transport = &authorized{base: client.Transport, badge: v.badge}
	}
	return client
}

// RoundTrip implements [http.RoundTripper].
func (a *authorized) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	for sent := 0; ; sent++ {
		this, err := copyOf(req, sent)
		if err != nil {
			return nil, err
		}
		if fault := a.badge.authorize(ctx, this); fault != nil {
			if this.Body != nil {
				_ = this.Body.Close()
			}
			return nil, fault
		}
		resp, err := a.base.RoundTrip(this)
		if err != nil || resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
			return resp, err
		}
		again, err := a.badge.credential.Refused(ctx, resp)
		if err != nil {
			_ = resp.Body.Close()
			return nil, a.badge.fail(ctx, err)
		}
		if !again || sent >= maxResends || req.Body != nil && req.GetBody == nil {
			return resp, nil
		}
		_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // then the connection can be used again
		_ = resp.Body.Close()
	}
}

var errNoBody = errors.New("the request cannot be sent again")

// copyOf gives the request to be sent, with its body from the start.
func copyOf(req *http.Request, sent int) (*http.Request, error) {
	this := req.Clone(req.Context())
	if sent == 0 || req.Body == nil {
		return this, nil
	}
	if req.GetBody == nil {
		return nil, errNoBody
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, err
	}
	this.Body = body
	return this, nil
}

// CloseIdleConnections is what [http.Client.CloseIdleConnections] looks for.
func (a *authorized) CloseIdleConnections() {
	if base, ok := a.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}
