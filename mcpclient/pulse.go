package mcpclient

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"countersign/registry"
)

// pulse notes when a server last sent something. It tells a server that is slow
// from one that is silent when the time is over.
type pulse struct {
	began time.Time
	last  atomic.Int64 // after began, in nanoseconds; 0 when nothing came yet
}

func newPulse() *pulse { return &pulse{began: time.Now()} }

func (p *pulse) beat() { p.last.Store(max(int64(time.Since(p.began)), 1)) }

// steady says whether the server was still sending when its time, which is that
// of the context, was over: whether something came in the second half of it.
func (p *pulse) steady(ctx context.Context, allowed time.Duration) bool {
	last, end := time.Duration(p.last.Load()), time.Since(p.began)
	if deadline, ok := ctx.Deadline(); ok {
		end = min(end, deadline.Sub(p.began)) // we may be late ourselves
	}
	return last > 0 && end-last < allowed/2
}

// late words a fault of a server whose time is over; others pass.
func (p *pulse) late(ctx context.Context, fault *registry.Error, allowed time.Duration) *registry.Error {
	if fault.Reason == registry.ReasonTimeout && p.steady(ctx, allowed) {
		facts := fault.Facts
		fault = registry.Errorf(registry.ReasonSlow, "the server kept sending, but its answer was not complete within %s", allowed)
		fault.Facts = facts
	}
	return fault.With("limit_seconds", seconds(allowed))
}

// heard is a transport that notes what comes.
type heard struct {
	base  http.RoundTripper
	pulse *pulse
}

// RoundTrip implements [http.RoundTripper].
func (h *heard) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{GotFirstResponseByte: h.pulse.beat}))
	resp, err := h.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	h.pulse.beat()
	resp.Body = &heardBody{ReadCloser: resp.Body, pulse: h.pulse}
	return resp, nil
}

// CloseIdleConnections is what [http.Client.CloseIdleConnections] looks for.
func (h *heard) CloseIdleConnections() {
	if base, ok := h.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

type heardBody struct {
	io.ReadCloser
	pulse *pulse
}

func (b *heardBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.pulse.beat()
	}
	return n, err
}
