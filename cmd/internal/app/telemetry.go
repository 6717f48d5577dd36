package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"countersign/api"
	"countersign/cmd/internal/config"
	"countersign/db"
	"countersign/telemetry"
	"countersign/telemetry/export"
)

// Telemetry is what a process tells through, and the listener that it is scraped
// at.
type Telemetry struct {
	*export.Pipelines

	Instruments *telemetry.Instruments // nil: nothing is counted

	listener net.Listener // nil: it is not scraped
}

// lastWords is how long spans and metrics may take to leave at the end.
const lastWords = 3 * time.Second

// NewTelemetry makes the telemetry of a process, for role api, worker, all or dev.
func NewTelemetry(ctx context.Context, c config.Telemetry, role string) (*Telemetry, error) {
	t := &Telemetry{}
	if c.Listen != "" {
		var err error
		if t.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", c.Listen); err != nil {
			return nil, fmt.Errorf("telemetry.listen: %w", err)
		}
	}
	var err error
	if t.Pipelines, err = export.New(ctx, export.Options{Role: role, Version: ReadBuild().Version, Getenv: os.Getenv, Scraped: c.Listen != ""}); err != nil {
		t.Close(ctx)
		return nil, err
	}
	if t.Measures {
		if t.Instruments, err = telemetry.NewInstruments(t.Metrics); err != nil {
			t.Close(ctx)
			return nil, err
		}
	}
	return t, nil
}

// Close sends what is left and ends the listener.
func (t *Telemetry) Close(ctx context.Context) {
	if t.listener != nil {
		_ = t.listener.Close() // it may have been served, and then it is closed
	}
	if t.Pipelines != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
		defer cancel()
		_ = t.Shutdown(ctx) // nobody is left who could be told
	}
}

// watch observes the tables; the workers do.
func (t *Telemetry) watch(store *db.DB) error {
	if t == nil || !t.Measures {
		return nil
	}
	return telemetry.Watch(t.Metrics, store.System().Vitals)
}

func (t *Telemetry) instruments() *telemetry.Instruments {
	if t == nil {
		return nil
	}
	return t.Instruments
}

// observe makes the api tell what somebody receives, and nothing else: to observe
// calls for nobody costs each of them microseconds and a score of allocations.
func (t *Telemetry) observe(o *api.Options) {
	if t == nil {
		return
	}
	if t.Traces {
		o.Spans = t.Spans
	}
	if t.Measures {
		o.Metrics, o.Instruments = t.Metrics, t.Instruments
	}
}

// serve answers whoever scrapes, at /metrics, until the context is over. A
// scrape needs no token: put the port where only monitoring reaches it.
func (t *Telemetry) serve(ctx context.Context, log *slog.Logger) error {
	if t == nil || t.listener == nil {
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", t.Scrape)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	log.LogAttrs(ctx, slog.LevelInfo, "metrics are served", slog.String("listen", t.listener.Addr().String()))
	if err := server.Serve(t.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("the listener for metrics: %w", err)
	}
	return nil
}
