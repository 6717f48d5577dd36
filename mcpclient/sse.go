package mcpclient

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"

	"countersign/outbound"
	"countersign/registry"
)

// stepSSE is the opening of the event stream of HTTP+SSE.
const stepSSE = "sse"

// maxEndpoint is how long the URL may be that a server wants its messages at.
const maxEndpoint = 4096

// channel is HTTP+SSE, the transport of 2024-11-05: a GET gives a stream, whose
// first event says where to POST; answers come on the stream.
type channel struct {
	visit    *visit
	http     *http.Client
	life     context.Context //nolint:containedctx // it is the life of the stream itself
	endpoint *url.URL
	events   *events
	body     io.ReadCloser
}

// trySSE makes the handshake of HTTP+SSE. A server that has no such stream, or
// names no endpoint on it, does not know this transport.
func (v *visit) trySSE(ctx, parent context.Context, a attempt) (*session, *failure) {
	// The stream lives on when the handshake's time is over, but not when the
	// handshake fails.
	life, end := context.WithCancel(context.WithoutCancel(parent))
	dying := context.AfterFunc(ctx, end)
	c := &channel{visit: v, life: life, http: v.authorize(v.client(v.limits.TotalBytes))}
	done := v.diary.step(stepSSE, 0)
	if f := c.open(ctx); f != nil {
		end()
		c.http.CloseIdleConnections()
		if f.late {
			f.fault = v.pulse.late(ctx, f.fault, v.allowed(parent, a))
		}
		done(0, 0, f.fault)
		return nil, f
	}
	v.diary.add(Step{Name: stepSSE, OK: true, Detail: "messages go to " + outbound.Excerpt(c.endpoint.EscapedPath(), excerptBytes)})
	d := v.duplex(life, EraSSE, c.post)
	go d.read(c.next) //nolint:contextcheck // the conversation has its life
	leave := func() {
		end()
		_ = c.body.Close()
		<-d.ended
		c.http.CloseIdleConnections()
	}
	done = v.diary.step(methodInitialize, 0)
	surface, f := d.greet(ctx, EraSSE)
	if f == nil && !dying() {
		f = &failure{fault: registry.Errorf(registry.ReasonTimeout, "the server did not complete the handshake in time"), late: true}
	}
	if f != nil {
		leave()
		if f.late {
			f.fault = v.pulse.late(ctx, f.fault, v.allowed(parent, a))
		}
		f.final, f.unknown = true, false // it speaks HTTP+SSE, so no other handshake can work
		done(0, 0, f.fault)
		return nil, f
	}
	done(0, 0, nil)
	return &session{surface: surface, era: EraSSE, call: d.call, close: leave}, nil
}

// open opens the stream and waits for the endpoint.
func (c *channel) open(ctx context.Context) *failure {
	began := time.Now()
	traced := httptrace.WithClientTrace(c.life, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		c.visit.diary.connected(info.Conn.RemoteAddr().String(), time.Since(began))
	}})
	req, err := http.NewRequestWithContext(traced, http.MethodGet, c.visit.target.URL, nil) //nolint:contextcheck // the stream outlives the handshake
	if err != nil {
		return &failure{fault: registry.Errorf(registry.ReasonInternal, "the request could not be made: %w", err), final: true}
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("User-Agent", c.visit.agent)
	resp, err := c.http.Do(req)
	if err != nil {
		fault := broken(err)
		phase := fault.Fact("phase")
		return &failure{
			fault: fault, late: ctx.Err() != nil, unknown: phase == "",
			final: phase == "connect" || phase == "dns" || phase == "tls" || fault.Reason == registry.ReasonBlockedAddress,
		}
	}
	r := &reply{status: resp.StatusCode, header: resp.Header}
	if resp.StatusCode != http.StatusOK || r.mediaType() != "text/event-stream" {
		r.body, r.broken = io.ReadAll(io.LimitReader(resp.Body, c.visit.badge.peek()))
		_ = resp.Body.Close()
		r.cut = int64(len(r.body)) == c.visit.badge.peek()
		r = c.visit.badge.reply(r)
		if resp.StatusCode == http.StatusUnauthorized {
			return &failure{fault: r.refusal(), final: true}
		}
		return &failure{fault: r.notMCP("the server answers a GET for events with %s", statusLine(r.status)), unknown: true}
	}
	c.body, c.events = resp.Body, newEvents(resp.Body)
	c.events.limit, c.events.mask = int(c.visit.limits.PageBytes), c.visit.badge.whole
	if fault := c.awaitEndpoint(); fault != nil {
		_ = resp.Body.Close()
		// Other servers keep a stream here too, and name no endpoint on it.
		wrong := fault.Reason == registry.ReasonProtocolError
		return &failure{fault: fault, late: ctx.Err() != nil, unknown: !wrong, final: wrong}
	}
	return nil
}

// awaitEndpoint reads up to the event that says where messages go. It must be
// where the stream is: a server may not have us send credentials, or anything,
// elsewhere.
func (c *channel) awaitEndpoint() *registry.Error {
	for {
		name, data, err := c.events.event()
		if err != nil {
			return registry.Errorf(registry.ReasonNotMCP, "the server has an event stream there, but names no endpoint for messages on it").
				WithNext("check the URL's path")
		}
		if name != "endpoint" {
			continue
		}
		wrong := func(format string, args ...any) *registry.Error {
			return registry.Errorf(registry.ReasonProtocolError, format, args...).With("endpoint", outbound.Excerpt(data, excerptBytes))
		}
		if len(data) > maxEndpoint {
			return wrong("the endpoint that the server names is longer than %d bytes", maxEndpoint)
		}
		base, err := url.Parse(c.visit.target.URL)
		if err != nil {
			return wrong("the endpoint that the server names cannot be read")
		}
		endpoint, err := base.Parse(strings.TrimSpace(string(data)))
		switch {
		case err != nil:
			return wrong("the endpoint that the server names cannot be read")
		case origin(endpoint) != origin(base):
			return wrong("the server wants its messages sent to another origin, %s", outbound.Excerpt(origin(endpoint), excerptBytes)).
				With("endpoint_origin", outbound.Excerpt(origin(endpoint), excerptBytes)).
				WithNext("register the URL under which the server knows itself; nothing is sent elsewhere")
		case endpoint.User != nil:
			// Nothing of it is repeated: it may be a password.
			return registry.Errorf(registry.ReasonProtocolError, "the endpoint that the server names holds user information")
		}
		endpoint.Fragment = ""
		c.endpoint = endpoint
		return nil
	}
}

// origin is scheme, host and port of a URL, as a browser compares them.
func origin(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case strings.EqualFold(u.Scheme, "http"):
		port = "80"
	case strings.EqualFold(u.Scheme, "https"):
		port = "443"
	}
	return strings.ToLower(u.Scheme + "://" + u.Hostname() + ":" + port)
}

// next reads one message from the stream.
func (c *channel) next() ([]byte, *registry.Error) {
	data, err := c.events.next()
	switch {
	case err == nil:
		return data, nil
	case errors.Is(err, errLongEvent):
		return nil, registry.Errorf(registry.ReasonTooLarge, "the server sends more than %d bytes in an answer", c.visit.limits.PageBytes).
			With("scope", "response")
	case errors.Is(err, io.EOF):
		return nil, registry.Errorf(registry.ReasonUnreachable, "the server ended the event stream before its answer")
	}
	return nil, broken(err)
}

// post sends one message. Its answer comes on the stream, so the body of the
// reply says nothing.
func (c *channel) post(ctx context.Context, message []byte) *registry.Error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)() //nolint:contextcheck // the life of the stream ends it as well
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint.String(), bytes.NewReader(message))
	if err != nil {
		return registry.Errorf(registry.ReasonInternal, "the request could not be made: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("User-Agent", c.visit.agent)
	resp, err := c.http.Do(req)
	if err != nil {
		return broken(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		// Read to its end the connection can be used again, but an answer that has
		// no end must not hold us.
		_, _ = io.CopyN(io.Discard, resp.Body, 1<<10)
		return nil
	}
	r := &reply{status: resp.StatusCode, header: resp.Header}
	r.body, r.broken = io.ReadAll(io.LimitReader(resp.Body, errorBytes))
	r.cut = len(r.body) == errorBytes
	r = c.visit.badge.reply(r)
	if fault := r.refusal(); fault != nil {
		return fault
	}
	return r.facts(registry.Errorf(registry.ReasonProtocolError, "the server refuses a message: it answers %s", statusLine(r.status)))
}
