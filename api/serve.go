package api

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Limits of connections. A discovery is waited for at most 30 s and a
// connection test lasts at most 60 s, so answers have longer.
const (
	headerTimeout = 10 * time.Second
	readTimeout   = 60 * time.Second
	writeTimeout  = 120 * time.Second
	idleTimeout   = 120 * time.Second
	maxHeader     = 256 << 10        // a resolve of 200 tools by GET fits
	drainTimeout  = 20 * time.Second // unless Options.DrainTimeout says another
)

// Serve serves the API on a listener, HTTP/1.1 and HTTP/2 in the clear (and
// both with TLS if the listener has it), until the context is over. Then the
// process says that it is not ready, waits as Options.DrainDelay says, and
// answers what is under way before it returns, for Options.DrainTimeout at most;
// those who wait for a discovery are told how far it is.
func Serve(ctx context.Context, listener net.Listener, h *Handler) error {
	server := newServer(h)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	h.drain()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.opts.DrainDelay+cmp.Or(h.opts.DrainTimeout, drainTimeout))
	defer cancel()
	select {
	case <-time.After(h.opts.DrainDelay):
	case err := <-ended:
		return err
	}
	err := server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		h.log.LogAttrs(ctx, slog.LevelWarn, "requests that did not end in time are cut off: shutdown_timeout is over")
		err = server.Close()
	}
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// newServer gives the server that [Serve] runs.
func newServer(h *Handler) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler: h, Protocols: &protocols, MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(h.log.Handler(), slog.LevelDebug),
	}
}
