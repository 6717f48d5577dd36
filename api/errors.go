package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"countersign/registry"
)

// errorDomain is the domain of every ErrorInfo: reasons are unique within it.
const errorDomain = "countersign"

// retryAfter is how long a caller is asked to wait where waiting helps.
const retryAfter = time.Second

// travel is how one code of the registry leaves.
type travel struct {
	connect connect.Code
	http    int // on REST; Connect has statuses of its own
}

// codes is the only table from codes to what leaves (R192). A test wants a row
// for each.
var codes = map[registry.Code]travel{
	registry.CodeInvalid:         {connect.CodeInvalidArgument, http.StatusBadRequest},
	registry.CodeUnauthenticated: {connect.CodeUnauthenticated, http.StatusUnauthorized},
	registry.CodeForbidden:       {connect.CodePermissionDenied, http.StatusForbidden},
	registry.CodeNotFound:        {connect.CodeNotFound, http.StatusNotFound},
	registry.CodeAlreadyExists:   {connect.CodeAlreadyExists, http.StatusConflict},
	registry.CodeAborted:         {connect.CodeAborted, http.StatusConflict},
	registry.CodePrecondition:    {connect.CodeFailedPrecondition, http.StatusConflict},
	registry.CodeKeyReused:       {connect.CodeFailedPrecondition, http.StatusUnprocessableEntity},
	registry.CodeExhausted:       {connect.CodeResourceExhausted, http.StatusTooManyRequests},
	registry.CodeUnavailable:     {connect.CodeUnavailable, http.StatusServiceUnavailable},
	registry.CodeDeadline:        {connect.CodeDeadlineExceeded, http.StatusGatewayTimeout},
	registry.CodeRemote:          {connect.CodeUnavailable, http.StatusBadGateway},
	registry.CodeRemotePermanent: {connect.CodeFailedPrecondition, http.StatusBadGateway},
	registry.CodeInternal:        {connect.CodeInternal, http.StatusInternalServerError},
}

// transport holds the few reasons that HTTP itself has a status for, whatever
// their code.
var transport = map[registry.Reason]travel{
	registry.ReasonBodyTooLarge:         {connect.CodeInvalidArgument, http.StatusRequestEntityTooLarge},
	registry.ReasonNoSuchOperation:      {connect.CodeUnimplemented, http.StatusNotFound},
	registry.ReasonMethodNotAllowed:     {connect.CodeUnimplemented, http.StatusMethodNotAllowed},
	registry.ReasonUnsupportedMediaType: {connect.CodeInvalidArgument, http.StatusUnsupportedMediaType},
}

func travelOf(e *registry.Error) travel {
	if t, ok := transport[e.Reason]; ok {
		return t
	}
	if t, ok := codes[e.Code]; ok {
		return t
	}
	return codes[registry.CodeInternal]
}

// presentable makes of any error one that may leave. What is not known to be
// harmless becomes "internal error" with the id that is in the log beside the
// true error.
func presentable(ctx context.Context, err error, id string) *registry.Error {
	e, known := registry.AsError(err)
	switch {
	case known && e.Code != registry.CodeInternal:
		return e
	case errors.Is(err, context.DeadlineExceeded):
		return registry.Errorf(registry.ReasonDeadline, "the time for this call ran out")
	case ctx.Err() != nil:
		return registry.Errorf(registry.ReasonDeadline, "the caller went away")
	}
	return registry.Errorf(registry.ReasonInternal, "internal error").With("request_id", id).
		WithNext("report it with the id, which is in the log")
}

// connectError gives the error as Connect and gRPC carry it. The reason is in
// an ErrorInfo, with the facts and the next step beside it; faults of fields
// are in a BadRequest.
func connectError(e *registry.Error) *connect.Error {
	out := connect.NewError(travelOf(e).connect, errors.New(e.Message))
	info := &errdetails.ErrorInfo{Reason: string(e.Reason), Domain: errorDomain, Metadata: map[string]string{}}
	for _, fact := range e.Facts {
		info.Metadata[fact.Key] = fact.Value
	}
	if e.Next != "" {
		info.Metadata["next_step"] = e.Next
	}
	details := []proto.Message{info}
	if len(e.Fields) > 0 {
		bad := &errdetails.BadRequest{}
		for _, f := range e.Fields {
			bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: f.Path, Description: f.Message})
		}
		details = append(details, bad)
	}
	switch e.Code {
	case registry.CodePrecondition:
		details = append(details, &errdetails.PreconditionFailure{Violations: []*errdetails.PreconditionFailure_Violation{{
			Type: string(e.Reason), Subject: e.Fact("server_id"), Description: e.Message,
		}}})
	case registry.CodeExhausted, registry.CodeUnavailable:
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(retryDelay(e))})
	default:
	}
	for _, d := range details {
		if detail, err := connect.NewErrorDetail(d); err == nil { // fails for messages that cannot be marshalled, which these can
			out.AddDetail(detail)
		}
	}
	return out
}

// problem is an error on REST (RFC 9457), with the reason and what belongs to
// it as extension members.
type problem struct {
	Type      string            `json:"type"`
	Title     string            `json:"title"`
	Status    int               `json:"status"`
	Detail    string            `json:"detail"`
	Code      string            `json:"code"` // the Connect code
	Reason    registry.Reason   `json:"reason"`
	Retryable bool              `json:"retryable"`
	NextStep  string            `json:"next_step,omitempty"`
	Fields    []registry.Field  `json:"fields,omitempty"`
	Facts     map[string]string `json:"facts,omitempty"`
}

func problemOf(e *registry.Error) problem {
	t := travelOf(e)
	p := problem{
		Type: "urn:countersign:reason:" + string(e.Reason), Title: title(e), Status: t.http, Detail: e.Message,
		Code: t.connect.String(), Reason: e.Reason, Retryable: e.Code.Retryable(), NextStep: e.Next, Fields: e.Fields,
	}
	for _, fact := range e.Facts {
		if p.Facts == nil {
			p.Facts = map[string]string{}
		}
		p.Facts[fact.Key] = fact.Value
	}
	return p
}

// title is what the reason means. Access can also be refused to a request,
// whoever sends it; then it is no matter of roles.
func title(e *registry.Error) string {
	if e.Reason == registry.ReasonPermissionDenied && e.Fact("roles") == "" && e.Fact("scope") == "" {
		return "this request is not allowed here"
	}
	return e.Reason.Means()
}

// face is the way by which a request came.
type face int

const (
	faceREST    face = iota // REST, and everything that is no RPC
	faceConnect             // Connect, also by GET
	faceGRPC                // gRPC and gRPC-Web: errors are trailers
)

func faceOf(r *http.Request) face {
	switch {
	case !strings.HasPrefix(r.URL.Path, rpcPrefix) && !strings.HasPrefix(r.URL.Path, "/grpc."):
		return faceREST
	case strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc"):
		return faceGRPC
	}
	return faceConnect
}

// errorWriter writes errors of RPCs that no handler was asked about.
var errorWriter = connect.NewErrorWriter()

// writeError writes an error in the form that the face has for them.
func writeError(w http.ResponseWriter, r *http.Request, way face, e *registry.Error) error {
	if e.Code == registry.CodeUnauthenticated {
		w.Header().Set("WWW-Authenticate", `Bearer realm="countersign"`)
	}
	if e.Code == registry.CodeExhausted || e.Code == registry.CodeUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(wholeSeconds(retryDelay(e))))
	}
	switch way {
	case faceGRPC:
		return errorWriter.Write(w, r, connectError(e))
	case faceConnect:
		if t, ok := transport[e.Reason]; ok {
			w = statusWriter{w, t.http}
		}
		return errorWriter.Write(w, r, connectError(e))
	case faceREST:
	}
	body, err := json.Marshal(problemOf(e))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(travelOf(e).http)
	_, err = w.Write(append(body, '\n'))
	return err
}

// statusWriter replaces the status that Connect would choose.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w statusWriter) WriteHeader(int) { w.ResponseWriter.WriteHeader(w.status) }
