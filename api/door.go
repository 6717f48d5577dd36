package api

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/google/uuid"

	"countersign/proto/countersign/registry/v1/registryv1connect"
	"countersign/registry"
)

// ServeHTTP is the door: what is not served without a token needs one before
// anything else of the request is looked at.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{id: uuid.Must(uuid.NewV7()).String()}
	ctx := withCall(r.Context(), c)
	r = r.WithContext(ctx)
	r.URL = h.below(r.URL)
	c.method = r.Method + " " + r.URL.Path
	w.Header().Set("X-Request-ID", c.id)
	harden(w, r, !isAPI(r.URL.Path) && h.opts.Fallback != nil)
	a := &answer{
		ResponseWriter: w, request: r, method: r.Method, path: r.URL.Path, face: faceOf(r),
		ctx: ctx, call: c, log: h.log, limit: h.opts.MaxBody, original: w.Header().Clone(),
	}
	defer a.finish()
	defer func() {
		if p := recover(); p != nil {
			cause := fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			h.log.LogAttrs(ctx, slog.LevelError, "panic", slog.String("request_id", c.id), slog.Any("error", cause))
			c.early = presentable(ctx, cause, c.id)
		}
	}()
	if err := h.enter(a, r, c); err != nil {
		refuse(a, r, err)
	}
}

// enter lets a request in to where it wants to go, or says why not. It answers
// by itself or with an error.
func (h *Handler) enter(a *answer, r *http.Request, c *call) *registry.Error {
	if !h.served(r.Host) {
		return registry.Errorf(registry.ReasonPermissionDenied, "the Host header %q is not served here", cut(r.Host)).
			WithNext("ask by a name that is served, or set `hosts` in the configuration")
	}
	if err := h.guard.Check(r); err != nil {
		return registry.Errorf(registry.ReasonPermissionDenied, "a request from a page of another origin is not served").
			WithNext("call from a page of this origin, or from a program that is no browser")
	}
	if handler, pattern := h.open.Handler(r); pattern != "" {
		a.plain = true
		handler.ServeHTTP(a, r)
		return nil
	}
	if !isAPI(r.URL.Path) && h.opts.Fallback != nil {
		a.plain = true
		h.opts.Fallback.ServeHTTP(a, r)
		return nil
	}
	p, refused := h.opts.Auth.Authenticate(r)
	if refused != nil {
		return refused
	}
	c.principal = p
	if err := h.opts.Limits.admit(p, r.URL.Path); err != nil {
		h.opts.Limits.hold(r.Context(), err)
		return err
	}
	done, refused := h.opts.Limits.begin(p, r.URL.Path)
	if refused != nil {
		h.opts.Limits.hold(r.Context(), refused)
		return refused
	}
	defer done()
	if err := limitBody(r, c, h.opts.MaxBody); err != nil {
		return err
	}
	if r.URL.Path == registryv1connect.McpRegistryServiceWatchResolutionsProcedure || r.URL.Path == registryv1connect.EventServiceWatchEventsProcedure {
		unhurried(a)
	}
	h.closed.ServeHTTP(a, r.WithContext(withPrincipal(r.Context(), p)))
	return nil
}

// below takes the path off at which a proxy shows the installation, for those
// that leave it on.
func (h *Handler) below(u *url.URL) *url.URL {
	prefix := strings.TrimSuffix(h.opts.Base, "/")
	rest, ok := strings.CutPrefix(u.Path, prefix+"/")
	if prefix == "" || !ok {
		return u
	}
	at := *u
	at.Path, at.RawPath = "/"+rest, strings.TrimPrefix(at.RawPath, prefix)
	return &at
}

// isAPI says whether a path is the API's, so that nothing else may answer it.
func isAPI(path string) bool {
	return strings.HasPrefix(path, rpcPrefix) || strings.HasPrefix(path, "/grpc.") || path == "/factory" ||
		strings.HasPrefix(path, "/factory/") || path == "/livez" || path == "/readyz" || path == "/openapi.json" ||
		path == "/asyncapi.json" || strings.HasPrefix(path, schemasPath) || strings.HasPrefix(path, ReceivePath) || path == loginPath || strings.HasPrefix(path, codecPath)
}

// served says whether the Host header names us: a page that a browser was led
// to by a name that merely resolves to us is not served (threats B6).
func (h *Handler) served(host string) bool {
	if len(h.opts.Hosts) == 0 {
		return true
	}
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	name = strings.Trim(name, "[]")
	return slices.ContainsFunc(h.opts.Hosts, func(ours string) bool { return strings.EqualFold(name, ours) })
}

// getParameters are what a Connect GET has in its query; a POST has nothing.
var getParameters = []string{"connect", "encoding", "message", "base64", "compression"}

// onlyParameters refuses query parameters that an RPC would not look at.
func onlyParameters(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var known []string
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			known = getParameters
		}
		if err := checkQuery(r, known); err != nil {
			refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// checkQuery refuses a query that cannot be read or has other parameters.
func checkQuery(r *http.Request, known []string) *registry.Error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return registry.Errorf(registry.ReasonInvalidArgument, "the query of the URL cannot be read")
	}
	for name := range query {
		if !slices.Contains(known, name) {
			return noParameter(name)
		}
	}
	return nil
}

func noParameter(name string) *registry.Error {
	return registry.Errorf(registry.ReasonUnknownField, "the request has a query parameter %q, which does not exist", name).
		WithField(name, "does not exist")
}
