package api

import (
	"net/http"

	"countersign/registry"
)

// codecPath is where Temporal's UI and command line tool have workflow data
// encrypted and decrypted.
const codecPath = "/temporal/codec/"

// readersOfWorkflows are the roles that may see workflow data. Temporal's UI,
// which shows it, is for the operators of the installation, whatever tenant
// they are of.
var readersOfWorkflows = []registry.Role{registry.RolePlatformAdmin, registry.RoleOperator}

// mountCodec mounts the endpoint. A browser asks it from a page of Temporal's
// UI, which is of another origin: that one and no other may. The bearer token
// is what counts, as everywhere.
func (h *Handler) mountCodec() {
	if h.opts.Codec == nil || h.opts.Side == SideInternal {
		return
	}
	h.guard.AddInsecureBypassPattern("POST " + codecPath)
	h.open.HandleFunc("OPTIONS "+codecPath, func(w http.ResponseWriter, r *http.Request) {
		if h.fromUI(w, r) {
			w.Header().Set("Access-Control-Allow-Methods", http.MethodPost)
			w.Header().Set("Access-Control-Allow-Headers", "authorization, content-type, x-namespace")
			w.Header().Set("Access-Control-Max-Age", "600")
		}
		w.WriteHeader(http.StatusNoContent)
	})
	h.closed.HandleFunc("POST "+codecPath, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Origin") != "" && !h.fromUI(w, r) {
			refuse(w, r, registry.Errorf(registry.ReasonPermissionDenied, "a request from a page of another origin than Temporal's UI is not served").
				WithNext("have the operator set temporal.ui_url to where the UI is"))
			return
		}
		if p, err := principalOf(r.Context()); err != nil || !p.Has(readersOfWorkflows...) {
			refuse(w, r, registry.Errorf(registry.ReasonPermissionDenied, "workflow data is shown to the roles %s only", words(readersOfWorkflows)).
				With("roles", words(readersOfWorkflows)))
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		h.opts.Codec.ServeHTTP(w, r)
	})
}

// fromUI says whether the request is from a page of Temporal's UI, and tells the
// browser that this page may read the answer.
func (h *Handler) fromUI(w http.ResponseWriter, r *http.Request) bool {
	w.Header().Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" || origin != h.opts.UIOrigin {
		return false
	}
	w.Header().Set("Access-Control-Allow-Origin", origin)
	return true
}
