package mcptest

import (
	"encoding/json"
	"io"
	"net/http"
)

// descriptor is what the demo says of itself as an extension of the Agentstration
// Extension Protocol. It has no schemas: those are in the list of its tools.
const descriptor = `{"protocolVersion":"2026-08-01",` +
	`"extension":{"id":"countersign.utilities","name":"Deterministic utilities","version":"1.0.0",` +
	`"description":"Three deterministic tools: the same input always gives the same output."},` +
	`"capabilities":{"aep.health":{"version":"1.0","endpoint":"/aep/health","metadata":null},` +
	`"aep.tools":{"version":"1.0","endpoint":null,"metadata":null}},` +
	`"contributions":{"modelProviders":[],"tools":[` +
	`{"id":"hash.compute","displayName":"Compute SHA-256","mcp":{"server":"utilities","tool":"hash_compute"},` +
	`"description":"Gives the SHA-256 of the text's UTF-8 bytes as lower-case hexadecimal.","metadata":null},` +
	`{"id":"json.compact","displayName":"Compact JSON","mcp":{"server":"utilities","tool":"json_compact"},` +
	`"description":"Removes insignificant white space from a JSON text; keys keep their order.","metadata":null},` +
	`{"id":"text.upper","displayName":"Uppercase text","mcp":{"server":"utilities","tool":"text_upper"},` +
	`"description":"Gives the text in upper case, letter by letter and in no particular language.","metadata":null}]},` +
	`"mcp":{"servers":[{"id":"utilities","endpoint":"/mcp"}]}}`

// extend gives the demo the faces of an extension. Both paths of the descriptor
// have the same bytes.
func (d *Demo) extend() {
	for _, path := range []string{"/.well-known/aep", "/.well-known/agentstration"} {
		d.mux.HandleFunc(path, d.reading(func(w http.ResponseWriter) { _, _ = io.WriteString(w, descriptor) }))
	}
	d.mux.HandleFunc("/aep/health", d.reading(func(w http.ResponseWriter) {
		_, _ = io.WriteString(w, `{"status":"available","details":null}`)
	}))
	d.mux.HandleFunc("/aep/", func(w http.ResponseWriter, r *http.Request) {
		failed(w, http.StatusNotFound, "not_found", "there is nothing at this path", r.URL.Path)
	})
}

// reading answers GET in JSON while the demo is not stopped.
func (d *Demo) reading(answer func(http.ResponseWriter)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			failed(w, http.StatusMethodNotAllowed, "method_not_allowed", "this is for reading", r.URL.Path)
		case d.stopped.Load():
			w.Header().Set("Connection", "close")
			failed(w, http.StatusServiceUnavailable, "unavailable", "the demo server is stopped; POST /demo/start starts it", r.URL.Path)
		default:
			w.Header().Set("Content-Type", "application/json")
			answer(w)
		}
	}
}

// failed is an error as the protocol writes it.
func failed(w http.ResponseWriter, status int, code, message, target string) {
	type fault struct {
		Code    string  `json:"code"`
		Message string  `json:"message"`
		Target  *string `json:"target"`
		Details *string `json:"details"`
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]fault{"error": {code, message, &target, nil}}) //nolint:errchkjson // texts marshal
}
