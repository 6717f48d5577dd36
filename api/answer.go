package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"countersign/registry"
)

// answer is the http.ResponseWriter that everything behind the door writes to.
// It gives every error one of our forms: also those that the protocol
// libraries write by themselves before an RPC is reached, which know no reason,
// and on REST have statuses of their own choice.
type answer struct {
	http.ResponseWriter
	request *http.Request
	method  string // as asked, as are the two below: Vanguard rewrites the request
	path    string
	face    face
	ctx     context.Context //nolint:containedctx // the request's, for the log when the answer is finished
	call    *call
	log     *slog.Logger
	limit   int64

	plain    bool         // what answers has errors of its own form
	wrote    bool         // the header is out
	status   int          // of an error that is held back
	held     bytes.Buffer // its body, for what it says
	original http.Header  // headers before anybody else wrote some
}

// maxHeld is how much of an error's body is kept to be understood.
const maxHeld = 16 << 10

// WriteHeader implements http.ResponseWriter.
func (w *answer) WriteHeader(status int) {
	switch {
	case w.wrote || w.status != 0:
		return
	case w.plain:
	case status >= http.StatusBadRequest && (w.call.err == nil || w.face == faceREST):
		w.status, w.call.answered = status, true
		return
	case status == http.StatusOK && w.face == faceREST:
		if w.call.status != 0 {
			status = w.call.status
		}
		if w.call.location != "" {
			w.Header().Set("Location", w.call.location)
		}
	}
	w.wrote = true
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *answer) Write(p []byte) (int, error) {
	if !w.wrote && w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.status != 0 {
		w.held.Write(p[:min(len(p), maxHeld-min(maxHeld, w.held.Len()))])
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// Flush implements http.Flusher. Before the first byte there is nothing that
// anybody waits for, and an error may still have to be rewritten.
func (w *answer) Flush() {
	if w.wrote {
		w.flush()
	}
}

func (w *answer) flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// Unwrap gives http.ResponseController the writer below.
func (w *answer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// refuse answers a request that is to reach no RPC.
func refuse(w http.ResponseWriter, r *http.Request, e *registry.Error) {
	callOf(r.Context()).early = e
	w.WriteHeader(travelOf(e).http)
}

// finish writes what was held back. It is called when the handler has returned.
func (w *answer) finish() {
	if w.wrote {
		return
	}
	if w.call.early != nil {
		w.call.log(w.ctx, w.log, w.call.early, nil)
		w.fail(w.call.early)
		return
	}
	if w.status == 0 && !w.trailersFail() {
		// An empty answer, or one whose error is in the trailers and has its reason.
		w.flush()
		return
	}
	if w.call.err != nil {
		w.fail(w.call.err)
		return
	}
	e := w.understand()
	w.call.log(w.ctx, w.log, e, errors.New(w.said()))
	w.fail(e)
}

// trailersFail says whether gRPC failed by itself, before an RPC was reached.
func (w *answer) trailersFail() bool {
	if w.call.reached || w.face != faceGRPC {
		return false
	}
	status := w.Header().Get("Grpc-Status") + w.Header().Get(http.TrailerPrefix+"Grpc-Status")
	return status != "" && status != "0"
}

// fail replaces all that was written by an error.
func (w *answer) fail(e *registry.Error) {
	header := w.Header()
	allow, accept := header.Values("Allow"), header.Values("Accept-Post")
	clear(header)
	maps.Copy(header, w.original)
	if len(allow) > 0 {
		header.Set("Allow", allowed(allow, w.face))
	}
	if len(accept) > 0 {
		header["Accept-Post"] = accept
	}
	w.wrote, w.status = true, 0
	if err := writeError(w.ResponseWriter, w.request, w.face, e); err != nil {
		w.log.LogAttrs(w.ctx, slog.LevelDebug, "an error could not be written", slog.Any("error", err))
	}
}

// allowed completes the methods of a path: where REST has a GET, it has a HEAD.
func allowed(methods []string, way face) string {
	list := strings.FieldsFunc(strings.Join(methods, ","), func(r rune) bool { return r == ',' || r == ' ' })
	if way == faceREST && slices.Contains(list, http.MethodGet) && !slices.Contains(list, http.MethodHead) {
		list = append(list, http.MethodHead)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// said is what the library that failed has to say.
func (w *answer) said() string {
	if w.status == 0 {
		raw := w.Header().Get("Grpc-Message") + w.Header().Get(http.TrailerPrefix+"Grpc-Message")
		if text, err := url.PathUnescape(raw); err == nil {
			return text
		}
		return raw
	}
	var body struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(w.held.Bytes(), &body) == nil {
		return body.Message
	}
	return strings.TrimSpace(w.held.String())
}

// understand gives the registry's error for one that a library wrote.
func (w *answer) understand() *registry.Error {
	said := w.said()
	switch {
	case w.call.tooLarge || strings.Contains(said, "larger than configured max"):
		return bodyTooLarge(w.limit)
	case w.call.reached:
		// The RPC succeeded and its answer could not be written.
		return presentable(w.ctx, nil, w.call.id)
	case w.status == http.StatusNotFound:
		return registry.Errorf(registry.ReasonNoSuchOperation, "there is nothing at %s", w.path).
			WithNext("see /openapi.json for what there is")
	case w.status == http.StatusMethodNotAllowed:
		return registry.Errorf(registry.ReasonMethodNotAllowed, "%s is not for this path", w.method).
			WithNext("see the header Allow, or /openapi.json")
	case w.status == http.StatusUnsupportedMediaType || strings.Contains(said, "unknown compression"):
		return registry.Errorf(registry.ReasonUnsupportedMediaType, "the request's content type or encoding is not understood").
			WithNext("send JSON with Content-Type: application/json")
	case w.ctx.Err() != nil:
		return presentable(w.ctx, w.ctx.Err(), w.call.id)
	}
	if e := explain(tidy(said)); e != nil {
		return e
	}
	return registry.Errorf(registry.ReasonInvalidArgument, "the request cannot be read: %s", tidy(said))
}

// prefixes are what libraries put before what they say.
var prefixes = []string{"unmarshal message:", "invalid_argument:", "proto:", "unknown:"}

func tidy(said string) string {
	// protojson varies its blanks on purpose.
	said = strings.Join(strings.Fields(strings.ReplaceAll(said, "\u00a0", " ")), " ")
	for {
		i := slices.IndexFunc(prefixes, func(p string) bool { return strings.HasPrefix(said, p) })
		if i < 0 {
			break
		}
		said = strings.TrimSpace(strings.TrimPrefix(said, prefixes[i]))
	}
	if said == "" {
		return "it is malformed"
	}
	return said
}
