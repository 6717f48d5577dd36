package api

import (
	"embed"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"connectrpc.com/vanguard"

	"countersign/registry"
)

// openAPIDocument describes the REST face.
//
//go:embed openapi.json
var openAPIDocument []byte

func openAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openAPIDocument) // the caller went away
}

// eventDocuments describe events: asyncapi.json, and a JSON Schema for the payload
// of each type.
//
//go:embed events/*.json
var eventDocuments embed.FS

// schemasPath is where the schemas are, each by the type of its event.
const schemasPath = "/schemas/events/"

func asyncAPI(w http.ResponseWriter, r *http.Request) { eventDocument(w, r, "asyncapi.json") }

func eventSchema(w http.ResponseWriter, r *http.Request) {
	eventDocument(w, r, strings.TrimPrefix(r.URL.Path, schemasPath))
}

func eventDocument(w http.ResponseWriter, r *http.Request, name string) {
	http.ServeFileFS(w, r, eventDocuments, "events/"+name) //nolint:gosec // one segment of a path, in a folder that is embedded
}

// restAnswer bounds an answer on REST, where it is made in memory: far above
// the largest catalog.
const restAnswer = 512 << 20

// restHandler serves the paths of the google.api.http annotations. Vanguard
// turns each request into one for the RPC's own handler, so that it meets the
// same interceptors; how its errors look is made good by answer.
func restHandler(services []*vanguard.Service) (http.Handler, error) {
	transcoder, err := vanguard.NewTranscoder(services,
		vanguard.WithCodec(restJSON),
		vanguard.WithDefaultServiceOptions(
			// gRPC, because its messages have frames: Vanguard ends the body where it cannot read a request, and to
			// Connect a body that ends at once is an empty message.
			vanguard.WithTargetProtocols(vanguard.ProtocolGRPC), vanguard.WithTargetCodecs(vanguard.CodecProto),
			vanguard.WithNoTargetCompression(), vanguard.WithMaxMessageBufferBytes(restAnswer),
		),
	)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := tidyREST(r); err != nil {
			refuse(w, r, err)
			return
		}
		transcoder.ServeHTTP(w, r)
	}), nil
}

// tidyREST makes a request so that Vanguard takes it for REST and reads its
// body as JSON, or says what is wrong with it.
func tidyREST(r *http.Request) *registry.Error {
	// These would make it another protocol's.
	r.Header.Del("Connect-Protocol-Version")
	if r.Header.Get("Content-Encoding") != "" {
		return registry.Errorf(registry.ReasonUnsupportedMediaType, "compressed bodies are not accepted here")
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		r.Header.Del("Content-Type")
		if r.ContentLength > 0 {
			return registry.Errorf(registry.ReasonInvalidArgument, "a %s has no body", r.Method)
		}
		// A HEAD is a GET of which net/http sends no body (RFC 9110, section 9.3.2).
		r.Method = http.MethodGet
		query, err := url.ParseQuery(r.URL.RawQuery)
		switch {
		case err != nil:
			return registry.Errorf(registry.ReasonInvalidArgument, "the query of the URL cannot be read")
		case query.Has("connect"): // would make it another protocol's, too
			return noParameter("connect")
		}
		return nil
	}
	// All of a change is in its body; Vanguard would read the query, too.
	if err := checkQuery(r, nil); err != nil {
		return err
	}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case len(r.Header.Values("Content-Type")) == 0:
	case len(r.Header.Values("Content-Type")) > 1 || err != nil:
		return notJSON()
	case kind == "application/x-www-form-urlencoded": // what curl -d says of JSON
	case kind != "application/json" || params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8"):
		return notJSON()
	}
	r.Header.Set("Content-Type", "application/json")
	return nil
}

func notJSON() *registry.Error {
	return registry.Errorf(registry.ReasonUnsupportedMediaType, "the body must be JSON").
		WithNext("send the header Content-Type: application/json")
}
