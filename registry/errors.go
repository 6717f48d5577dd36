package registry

import (
	"errors"
	"fmt"
)

// Code classifies an error for callers: it decides the Connect code, the HTTP
// status, the exit code and whether a retry can help. There is one table per
// border and each is tested to cover every code.
type Code string

// The codes. Their order is that of the HTTP table in docs/api.md.
const (
	CodeInvalid         Code = "invalid"          // 400: the request is wrong and stays wrong
	CodeUnauthenticated Code = "unauthenticated"  // 401: no usable credential
	CodeForbidden       Code = "forbidden"        // 403: the principal may not do this
	CodeNotFound        Code = "not_found"        // 404: nothing of that name for this tenant
	CodeAlreadyExists   Code = "already_exists"   // 409: the name is taken
	CodeAborted         Code = "aborted"          // 409: stale, superseded or already decided; read again
	CodePrecondition    Code = "precondition"     // 409: the object is in a state that does not allow it
	CodeKeyReused       Code = "key_reused"       // 422: an idempotency key came back with another body
	CodeExhausted       Code = "exhausted"        // 429: too much at once; later
	CodeUnavailable     Code = "unavailable"      // 503: a dependency is away; later
	CodeDeadline        Code = "deadline"         // 504: the caller's time is over
	CodeRemote          Code = "remote"           // the MCP server is at fault; trying again may help
	CodeRemotePermanent Code = "remote_permanent" // the MCP server is at fault; trying again will not help
	CodeInternal        Code = "internal"         // 500: ours
)

// Codes lists every code, for the tables that must cover them all.
func Codes() []Code {
	return []Code{
		CodeInvalid, CodeUnauthenticated, CodeForbidden, CodeNotFound, CodeAlreadyExists, CodeAborted,
		CodePrecondition, CodeKeyReused, CodeExhausted, CodeUnavailable, CodeDeadline, CodeRemote,
		CodeRemotePermanent, CodeInternal,
	}
}

// Retryable says whether the same request can succeed later without anybody
// changing it.
func (c Code) Retryable() bool {
	switch c {
	case CodeExhausted, CodeUnavailable, CodeDeadline, CodeRemote, CodeInternal:
		return true
	case CodeInvalid, CodeUnauthenticated, CodeForbidden, CodeNotFound, CodeAlreadyExists, CodeAborted,
		CodePrecondition, CodeKeyReused, CodeRemotePermanent:
		return false
	}
	return false
}

// Error is the only error that leaves a room on purpose. Reason is one of
// reasons.go, Message a sentence for people, Next what they can do about it.
// None of them may hold a secret value or unescaped bytes of a stranger.
type Error struct {
	Code    Code     `json:"code"`
	Reason  Reason   `json:"reason"`
	Message string   `json:"message"`
	Next    string   `json:"next,omitempty"`
	Fields  []Field  `json:"fields,omitempty"` // for CodeInvalid: where
	Facts   []Detail `json:"facts,omitempty"`  // machine-readable context: ids, digests, limits
	Err     error    `json:"-"`
}

// Field is one fault of a request: the path by protobuf field names.
type Field struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// Detail is one fact of an error, such as the id that already has a name.
type Detail struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Error gives the message. The cause is for errors.Is and for logs, never for
// the text that a caller reads.
func (e *Error) Error() string { return e.Message }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an error of a reason; the code is the reason's own. The operand
// of a %w stays reachable by errors.Is, and its text is part of the message: so
// wrap only what callers may read.
func Errorf(reason Reason, format string, args ...any) *Error {
	wrapped := fmt.Errorf(format, args...)
	return &Error{Code: reason.Code(), Reason: reason, Message: wrapped.Error(), Err: errors.Unwrap(wrapped)}
}

// WithNext adds the next step for people.
func (e *Error) WithNext(format string, args ...any) *Error {
	e.Next = fmt.Sprintf(format, args...)
	return e
}

// With adds a fact.
func (e *Error) With(key, value string) *Error {
	e.Facts = append(e.Facts, Detail{key, value})
	return e
}

// WithField adds a fault of one field of the request.
func (e *Error) WithField(path, format string, args ...any) *Error {
	e.Fields = append(e.Fields, Field{path, fmt.Sprintf(format, args...)})
	return e
}

// Fact gives the value of a fact, or "".
func (e *Error) Fact(key string) string {
	for _, d := range e.Facts {
		if d.Key == key {
			return d.Value
		}
	}
	return ""
}

// AsError finds the outermost registry error in a chain.
func AsError(err error) (*Error, bool) {
	return errors.AsType[*Error](err)
}

// CodeOf classifies any error; strangers are internal.
func CodeOf(err error) Code {
	if e, ok := AsError(err); ok {
		return e.Code
	}
	return CodeInternal
}

// ReasonOf gives the stable reason of any error; strangers are internal.
func ReasonOf(err error) Reason {
	if e, ok := AsError(err); ok {
		return e.Reason
	}
	return ReasonInternal
}
