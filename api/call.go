package api

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"

	"countersign/registry"
)

// call is what is known of one request while it is served. The door makes it,
// the interceptors fill it in, and the answer is made with it.
type call struct {
	id        string // the request's, in the header X-Request-ID of every answer
	method    string // the RPC, once one is reached
	principal registry.Principal
	reached   bool            // an RPC's interceptors were entered
	answered  bool            // an error is on its way to the caller: whatever comes now is too late
	sent      bool            // a change was handed to the workflows or the store, which record refusals themselves
	tooLarge  bool            // the body went over the limit
	err       *registry.Error // what the RPC failed with
	early     *registry.Error // why no RPC is to be reached
	status    int             // on REST, of a success; 0: 200
	location  string          // on REST, of a success
}

type callKey struct{}

func withCall(ctx context.Context, c *call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// callOf gives the request's call. Handlers that are called without the door
// get an empty one, and are refused for want of a principal.
func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}

// log writes the one line of a failed request. Bodies and headers are never in
// it: they may hold what nobody should read.
func (c *call) log(ctx context.Context, log *slog.Logger, e *registry.Error, cause error) {
	attrs := []slog.Attr{
		slog.String("request_id", c.id), slog.String("method", c.method), slog.String("code", string(e.Code)),
		slog.String("reason", string(e.Reason)), slog.String("tenant", c.principal.Tenant), slog.String("subject", c.principal.Subject),
	}
	level := levelOf(e)
	if level == slog.LevelError {
		attrs = append(attrs, slog.Any("error", cause))
	}
	log.LogAttrs(ctx, level, "request failed", attrs...)
}

// levelOf says who should hear of a failure: of our own everybody, of a
// dependency's and of refused access whoever operates and guards the
// installation. What callers do wrong, they are told themselves.
func levelOf(e *registry.Error) slog.Level {
	switch status := travelOf(e).http; {
	case e.Code == registry.CodeInternal:
		return slog.LevelError
	case status >= http.StatusInternalServerError, status == http.StatusUnauthorized, status == http.StatusForbidden:
		return slog.LevelWarn
	default:
		return slog.LevelDebug
	}
}

// limitedBody refuses to read more than the limit and remembers that it did.
type limitedBody struct {
	io.ReadCloser
	left int64
	call *call
}

var errTooLarge = errors.New("the request body is larger than the limit")

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	if b.call.tooLarge {
		return 0, errTooLarge
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if int64(n) > b.left {
		b.call.tooLarge = true
		return int(b.left), errTooLarge
	}
	b.left -= int64(n)
	return n, err
}

func bodyTooLarge(limit int64) *registry.Error {
	return registry.Errorf(registry.ReasonBodyTooLarge, "the request body is larger than %d bytes", limit)
}

// limitBody bounds what is read of the request, as sent. What it inflates to is
// bounded where it is inflated.
func limitBody(r *http.Request, c *call, limit int64) *registry.Error {
	if r.ContentLength > limit {
		c.tooLarge = true
		return bodyTooLarge(limit)
	}
	r.Body = &limitedBody{ReadCloser: r.Body, left: limit, call: c}
	return nil
}
