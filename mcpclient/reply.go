package mcpclient

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"countersign/outbound"
	"countersign/registry"
)

// excerptBytes is how much of a stranger's text leaves this room.
const excerptBytes = 200

// reply is what came back for one HTTP request.
type reply struct {
	id     int64 // of the JSON-RPC request; 0 when it was a notification
	status int
	header http.Header
	body   []byte // what was read of it
	broken error  // what ended the reading; nil when all was read
	cut    bool   // no more of it was read

	connected bool // there was a connection to send the request on
	opening   bool // it is the reply to the first message of a handshake
}

// errOtherID is an answer to something that was not asked.
var errOtherID = errors.New("it has another id than the request")

// answer finds the JSON-RPC answer in a reply, or says in the product's words
// why there is none. The answer may be a JSON-RPC error.
func (r *reply) answer() (message, *registry.Error) {
	if fault := r.refusal(); fault != nil {
		return message{}, fault
	}
	good := r.status >= 200 && r.status <= 299
	kind := r.mediaType()
	var m message
	var err error
	if kind == "text/event-stream" {
		m, err = firstAnswer(newEvents(bytes.NewReader(r.body)), r.id)
	} else {
		m, err = parseMessage(r.body)
		if err == nil && !m.answers(r.id) {
			err = errOtherID
		}
	}
	switch {
	case err == nil && m.fault != nil && !good:
		return m, nil
	case !good:
		return message{}, r.notMCP("the server answers %s", statusLine(r.status))
	case err == nil && (kind == "application/json" || kind == "text/event-stream"):
		return m, nil
	case r.broken != nil:
		return message{}, broken(r.broken)
	case err == nil:
		return message{}, r.facts(registry.Errorf(registry.ReasonProtocolError,
			"the answer is JSON-RPC, but under the content type %s", r.contentType()))
	case len(bytes.TrimSpace(r.body)) == 0:
		return message{}, r.facts(registry.Errorf(registry.ReasonProtocolError, "the server answers %s without a message", statusLine(r.status)))
	case errors.Is(err, errNotRPC), kind != "application/json" && kind != "text/event-stream":
		return message{}, r.notMCP("the server answers %s with %s, which is not MCP", statusLine(r.status), r.contentType())
	}
	return message{}, r.facts(registry.Errorf(registry.ReasonProtocolError, "the answer is not a JSON-RPC answer: %v", err))
}

// misaddressed says whether the reply is a whole answer with a wrong id.
func (r *reply) misaddressed() bool {
	m, err := parseMessage(r.body)
	return err == nil && m.method == "" && !m.answers(r.id)
}

// firstAnswer reads events until the answer comes. Notifications and requests
// of the server before it are passed over; there is no one here to answer them.
func firstAnswer(e *events, id int64) (message, error) {
	for {
		data, err := e.next()
		if errors.Is(err, io.EOF) {
			return message{}, errors.New("the event stream ends without it")
		}
		if err != nil {
			return message{}, err
		}
		m, err := parseMessage(data)
		if err != nil {
			return message{}, err
		}
		if m.answers(id) {
			return m, nil
		}
	}
}

// refusal judges by the status alone, where it says enough whatever the body.
func (r *reply) refusal() *registry.Error {
	switch {
	case r.status == http.StatusUnauthorized:
		return r.challenge(registry.Errorf(registry.ReasonAuthRequired, "the server is alive and wants credentials (401)")).
			WithNext("register it with the authentication it asks for")
	case r.status == http.StatusForbidden:
		return r.challenge(registry.Errorf(registry.ReasonForbidden, "the server refuses us (403)")).
			WithNext("check the credentials and their scopes, and whether the server expects another host name")
	case r.status == http.StatusTooManyRequests:
		return r.retryAfter(r.facts(registry.Errorf(registry.ReasonRateLimited, "the server asks to come back later (429)")))
	case r.status >= 300 && r.status <= 399:
		return r.redirect()
	case r.status >= 500 && !r.rpcError():
		return r.retryAfter(r.facts(registry.Errorf(registry.ReasonUnreachable, "the server answers %s", statusLine(r.status))))
	case r.status == http.StatusBadGateway, r.status == http.StatusServiceUnavailable, r.status == http.StatusGatewayTimeout:
		return r.retryAfter(r.facts(registry.Errorf(registry.ReasonUnreachable, "the server answers %s", statusLine(r.status))))
	case r.status == http.StatusRequestTimeout:
		return r.facts(registry.Errorf(registry.ReasonTimeout, "the server answers %s", statusLine(r.status)))
	}
	return nil
}

func (r *reply) rpcError() bool {
	m, err := parseMessage(r.body)
	return err == nil && m.fault != nil
}

// challenge notes what the server says about credentials.
func (r *reply) challenge(e *registry.Error) *registry.Error {
	challenges, err := oauthex.ParseWWWAuthenticate(r.header.Values("WWW-Authenticate"))
	if err != nil {
		challenges = nil // a garbled header says nothing
	}
	for _, c := range challenges {
		for _, param := range []string{"resource_metadata", "scope", "error"} {
			if value := c.Params[param]; value != "" && e.Fact(param) == "" {
				e.With(param, outbound.Excerpt(value, urlBytes))
			}
		}
		if e.Fact("scheme") == "" {
			e.With("scheme", outbound.Excerpt(c.Scheme, 40))
		}
	}
	return r.facts(e)
}

func (r *reply) redirect() *registry.Error {
	location := r.header.Get("Location")
	e := registry.Errorf(registry.ReasonRedirected, "the server points elsewhere (%d); redirects are not followed", r.status)
	if location != "" {
		e = e.With("location", outbound.Excerpt(location, urlBytes)).
			WithNext("if %s is the server, register that address", outbound.Excerpt(location, urlBytes))
	}
	if u, err := url.Parse(location); err != nil || u.User != nil {
		e.Facts, e.Next = nil, "" // it cannot be read, or holds a password
	}
	return r.facts(e)
}

// retryAfter notes how long the server wants to be left alone, in seconds.
func (r *reply) retryAfter(e *registry.Error) *registry.Error {
	value := strings.TrimSpace(r.header.Get("Retry-After"))
	seconds, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		at, err := http.ParseTime(value)
		if err != nil {
			return e
		}
		seconds = int64(time.Until(at).Seconds())
	}
	return e.With("retry_after_seconds", strconv.FormatInt(max(seconds, 0), 10))
}

func (r *reply) notMCP(format string, args ...any) *registry.Error {
	return r.facts(registry.Errorf(registry.ReasonNotMCP, format, args...)).
		WithNext("check the URL's path: it must be the server's endpoint for streamable HTTP")
}

// facts notes what came back, made printable.
func (r *reply) facts(e *registry.Error) *registry.Error {
	e.With("status", strconv.Itoa(r.status))
	if kind := r.header.Get("Content-Type"); kind != "" {
		e.With("content_type", outbound.Excerpt(kind, 100))
	}
	if body := bytes.TrimSpace(r.body); len(body) > 0 {
		e.With("excerpt", outbound.Excerpt(body, excerptBytes))
	}
	return e
}

func (r *reply) mediaType() string {
	kind, _, _ := strings.Cut(r.header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(kind))
}

func (r *reply) contentType() string {
	if kind := r.mediaType(); kind != "" {
		return outbound.Excerpt(kind, 100)
	}
	return "no content type"
}

func statusLine(status int) string {
	if name := http.StatusText(status); name != "" {
		return fmt.Sprintf("%d %s", status, name)
	}
	return strconv.Itoa(status)
}

// broken words what ended a request or the reading of its answer.
func broken(err error) *registry.Error {
	e, known := registry.AsError(err)
	switch {
	case !known:
		return registry.Errorf(registry.ReasonTimeout, "the server did not answer in time")
	case e.Fact("phase") == "http":
		// The room below knows only that it is no HTTP.
		return registry.Errorf(registry.ReasonNotMCP, "%w", e).WithNext("check host and port")
	}
	clone := *e // facts will be added
	clone.Facts = append([]registry.Detail(nil), e.Facts...)
	return &clone
}

// rpcError words a JSON-RPC error.
func rpcError(reason registry.Reason, what string, f *rpcFault) *registry.Error {
	return registry.Errorf(reason, "%s: the server answers with error %d, %s", what, f.Code, outbound.Excerpt(f.Message, excerptBytes)).
		With("rpc_code", strconv.Itoa(f.Code)).With("rpc_message", outbound.Excerpt(f.Message, excerptBytes))
}
