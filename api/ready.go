package api

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"

	"countersign/registry"
)

// checkTimeout is how long one check of readiness may take.
const checkTimeout = 2 * time.Second

// Check is one thing that the process needs. One that is optional is shown and
// does not make it unready: reads and resolve work while Temporal is away.
type Check struct {
	Name     string
	Optional bool
	Run      func(context.Context) error
}

// checked is what came of a check, as /readyz?verbose shows it. What exactly
// went wrong is in the log only, since nobody has to say who they are here.
type checked struct {
	Name       string          `json:"name"`
	OK         bool            `json:"ok"`
	Optional   bool            `json:"optional,omitempty"`
	Reason     registry.Reason `json:"reason,omitempty"`
	DurationMS int64           `json:"duration_ms"`
}

// readiness is the body of /readyz?verbose.
type readiness struct {
	Status string    `json:"status"`
	Checks []checked `json:"checks"`
}

// standing remembers which checks failed when they were made last, so that the
// log has a line when that changes and none for each request.
type standing struct {
	mu   sync.Mutex
	away map[string]bool
}

// see takes what came of a check.
func (s *standing) see(ctx context.Context, log *slog.Logger, check Check, err error) {
	s.mu.Lock()
	changed := s.away[check.Name] != (err != nil)
	if s.away == nil {
		s.away = map[string]bool{}
	}
	s.away[check.Name] = err != nil
	s.mu.Unlock()
	if !changed {
		return
	}
	attrs := []slog.Attr{slog.String("check", check.Name), slog.Bool("optional", check.Optional)}
	switch {
	case err == nil:
		log.LogAttrs(ctx, slog.LevelInfo, "a dependency is back", attrs...)
	case check.Optional:
		log.LogAttrs(ctx, slog.LevelWarn, "a dependency is away", append(attrs, slog.Any("error", err))...)
	default:
		log.LogAttrs(ctx, slog.LevelWarn, "not ready", append(attrs, slog.Any("error", err))...)
	}
}

func livez(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n")) // the caller went away
}

// readyz says whether requests should be sent here.
func (h *Handler) readyz(w http.ResponseWriter, r *http.Request) {
	ready, checks := h.ready(r.Context())
	status, word := http.StatusOK, "ready"
	if !ready {
		status, word = http.StatusServiceUnavailable, "not ready"
	}
	w.Header().Set("Cache-Control", "no-store")
	if !r.URL.Query().Has("verbose") {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(word + "\n")) // the caller went away
		return
	}
	body, err := json.Marshal(readiness{word, checks})
	if err != nil {
		status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the caller went away
}

// ready makes all checks at once. A process that is about to end is not ready,
// whatever they say.
func (h *Handler) ready(ctx context.Context) (bool, []checked) {
	checks := append([]Check{
		{Name: "database", Run: h.opts.DB.Ping},
		{Name: "schema", Run: h.opts.DB.Check},
	}, h.opts.Checks...)
	if h.opts.Auth.Issuers() {
		checks = append(checks, Check{Name: "identity", Optional: true, Run: h.opts.Auth.Check})
	}
	out := make([]checked, len(checks))
	asked := ctx
	var all sync.WaitGroup
	for i, check := range checks {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, checkTimeout)
			defer cancel()
			begin := time.Now()
			err := check.Run(ctx)
			out[i] = checked{Name: check.Name, OK: err == nil, Optional: check.Optional, DurationMS: time.Since(begin).Milliseconds()}
			if err != nil {
				out[i].Reason = registry.ReasonOf(err)
				if _, known := registry.AsError(err); !known {
					out[i].Reason = registry.ReasonDependency
				}
				// It started on the schema that it needs, and migrations leave that to
				// the version before (docs/operate.md): it works on until it is replaced.
				if out[i].Reason == registry.ReasonSchemaNewer {
					out[i].Optional, check.Optional = true, true
				}
			}
			if asked.Err() == nil { // else it failed because nobody waits any more
				h.found.see(asked, h.log, check, err)
			}
		})
	}
	all.Wait()
	ready := h.draining.Err() == nil
	for _, c := range out {
		ready = ready && (c.OK || c.Optional)
	}
	return ready, out
}

// health is the same answer for gRPC's health protocol.
type health struct{ *Handler }

// Check implements grpchealth.Checker. The names of our services and the empty
// one are known.
func (h health) Check(ctx context.Context, req *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	if req.Service != "" && !slices.Contains(h.services, req.Service) {
		return nil, connect.NewError(connect.CodeNotFound, registry.Errorf(registry.ReasonNoSuchOperation, "there is no service of this name"))
	}
	if ready, _ := h.ready(ctx); !ready {
		return &grpchealth.CheckResponse{Status: grpchealth.StatusNotServing}, nil
	}
	return &grpchealth.CheckResponse{Status: grpchealth.StatusServing}, nil
}
