package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"countersign/registry"
)

// failure is an error as people and scripts get to see it.
type failure struct {
	Message string            `json:"message"`
	Reason  registry.Reason   `json:"reason,omitempty"` // a stable code, when there is one
	Next    string            `json:"nextStep,omitempty"`
	Exit    int               `json:"exitCode"`
	Fields  []violation       `json:"fields,omitempty"`
	Facts   map[string]string `json:"facts,omitempty"`

	silent bool // the result says it already
}

// violation is one fault of a request.
type violation struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

func (f *failure) Error() string { return f.Message }

func (f *failure) withNext(format string, args ...any) *failure {
	f.Next = fmt.Sprintf(format, args...)
	return f
}

// failf makes a failure of a reason that the client finds by itself.
func failf(reason registry.Reason, format string, args ...any) *failure {
	return &failure{Exit: codeExits[reason.Code()], Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// usagef makes a failure of usage.
func usagef(format string, args ...any) *failure {
	return failf(registry.ReasonInvalidArgument, format, args...)
}

// nextStep is the key under which the API's errors carry what to do next; the
// rest of the metadata are facts.
const nextStep = "next_step"

// failureOf turns any error into a failure.
func (c *cli) failureOf(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	if repeated, ok := errors.AsType[*vainRepeatError](err); ok {
		f := c.failureOf(repeated.error)
		f.Message += "; before that it answered: " + some(": ", string(reasonOf(repeated.first)), repeated.first.Message())
		return f
	}
	if e, ok := errors.AsType[*connect.Error](err); ok {
		return c.failureOfCall(e)
	}
	if e, ok := registry.AsError(err); ok {
		f := failf(e.Reason, "%s", e.Message)
		f.Next = e.Next
		for _, field := range e.Fields {
			f.Fields = append(f.Fields, violation{field.Path, field.Message})
		}
		return f
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return failf(registry.ReasonDeadline, "the time is over")
	}
	return &failure{Exit: exitFailure, Message: err.Error()}
}

func (c *cli) failureOfCall(e *connect.Error) *failure {
	f := &failure{Message: e.Message()}
	ours := false
	for _, detail := range e.Details() {
		value, err := detail.Value()
		if err != nil {
			continue // a kind of detail that this version does not know
		}
		switch value := value.(type) {
		case *errdetails.ErrorInfo:
			ours = value.GetDomain() == errorDomain
			f.Reason = registry.Reason(value.GetReason())
			f.Facts = maps.Clone(value.GetMetadata())
			f.Next = f.Facts[nextStep]
			delete(f.Facts, nextStep)
		case *errdetails.BadRequest:
			for _, v := range value.GetFieldViolations() {
				if v.GetDescription() != f.Message { // else it says nothing more
					f.Fields = append(f.Fields, violation{v.GetField(), v.GetDescription()})
				}
			}
		}
	}
	f.Exit = exitOf(f.Reason, e.Code())
	if f.Message == "" {
		f.Message = e.Code().String()
	}
	c.explain(f, e, ours)
	switch f.Reason {
	case registry.ReasonServerNotFound:
		f.Next = "countersign server list"
	case registry.ReasonToolNotFound:
		f.Next = "countersign tools list"
	default:
	}
	return f
}

// errorDomain is the domain that all errors of the API have.
const errorDomain = "countersign"

// reasonOf gives the reason of an error of the API, or nothing.
func reasonOf(e *connect.Error) registry.Reason {
	for _, detail := range e.Details() {
		if value, err := detail.Value(); err == nil {
			if info, ok := value.(*errdetails.ErrorInfo); ok && info.GetDomain() == errorDomain {
				return registry.Reason(info.GetReason())
			}
		}
	}
	return ""
}

// inCommands replaces the names of RPCs in a next step by the command that does
// the same, for the server that the command was about.
func inCommands(next, name string) string {
	command := "countersign server request-review " + name
	switch next {
	case "RequestReview opens it again", "RequestReview opens one":
		return command
	}
	return strings.ReplaceAll(next, "RequestReview", "`"+command+"`")
}

// explain says more about what the API cannot know: where it was looked for,
// and with which token.
func (c *cli) explain(f *failure, e *connect.Error, ours bool) {
	where, err := c.connection()
	if err != nil {
		return
	}
	switch code := e.Code(); {
	case connect.IsWireError(e) && !ours && code != connect.CodeDeadlineExceeded:
		// Every error of the API says its domain, so something else answers there.
		// Only a deadline that the client set may end a call before the API does.
		f.Reason, f.Exit = "", exitFailure
		f.Message = where.server + " does not answer like a Countersign API: " + e.Message()
		f.Next = elsewhere
	case code == connect.CodeUnauthenticated:
		f.Reason = registry.ReasonUnauthenticated
		switch {
		case where.token == "":
			f.Message = "no token: " + where.server + " wants to know who asks"
			f.Next = "countersign login, or set COUNTERSIGN_TOKEN, or give --token-file FILE, or keep a token in a context: countersign config set-context --help"
		case where.signedIn != "":
			f.Next = signInAgain(where.signedIn)
		default:
			f.Next = "the token came from " + where.tokenFrom + "; give another one"
		}
	case code == connect.CodeDeadlineExceeded:
		if f.Reason == "" {
			f.Message = where.server + " did not answer within " + c.limit(callTimeout).String()
		}
		f.Reason = registry.ReasonDeadline
		f.Next = some("; ", f.Next, "try again, or allow more by --timeout; what was asked for may still happen")
	case connect.IsWireError(e):
	case code == connect.CodeUnavailable, broken(e):
		f.Reason = registry.ReasonDependency
		f.Message = "cannot reach " + where.server + ": " + cause(e)
		f.Next = "start Countersign there, or say where it is by --server, COUNTERSIGN_SERVER or a context"
		if strings.Contains(f.Message, "x509: ") {
			f.Next = "if it is the right one, say whose certificates to trust by --ca-file, COUNTERSIGN_CA_FILE or a context"
		}
	default:
		f.Message = where.server + " does not answer like a Countersign API: " + e.Message()
		f.Next = elsewhere
	}
}

// broken says whether the connection failed rather than what came over it. A
// server that refuses our certificate may hang up while we still write.
func broken(err error) bool {
	_, is := errors.AsType[*net.OpError](err)
	return is
}

const elsewhere = "say where Countersign is by --server, COUNTERSIGN_SERVER or a context"

// cause is the innermost reason why a connection failed, without our own URL
// around it.
func cause(err error) string {
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	text := err.Error()
	if i := strings.LastIndex(text, "connect: "); i >= 0 {
		text = text[i+len("connect: "):]
	}
	return text
}

// report writes a failure to standard error and returns its exit code.
func (c *cli) report(f *failure) int {
	switch {
	case f.silent:
	case c.output == formatJSON || c.output == formatJSONL || c.output == formatYAML:
		c.reportJSON(f)
	default:
		fmt.Fprintln(c.stderr, "error: "+printable(f.Message))
		for _, v := range f.Fields {
			fmt.Fprintln(c.stderr, printable("  "+v.Field+": "+v.Message))
		}
		for _, key := range slices.Sorted(maps.Keys(f.Facts)) {
			fmt.Fprintln(c.stderr, printable("  "+key+": "+f.Facts[key]))
		}
		if f.Reason != "" {
			fmt.Fprintln(c.stderr, "reason: "+printable(string(f.Reason)))
		}
		if f.Next != "" {
			fmt.Fprintln(c.stderr, "next: "+printable(f.Next))
		}
	}
	return f.Exit
}

func (c *cli) reportJSON(f *failure) {
	text, err := json.Marshal(map[string]*failure{"error": f})
	if err != nil {
		text = []byte(`{"error":{}}`) // cannot be: all of it is text
	}
	fmt.Fprintln(c.stderr, escapeInQuotes(string(text), jsonEscape))
}
