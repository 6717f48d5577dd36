package mcptest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Exchange is one request that is being answered.
type Exchange struct {
	// W takes the answer. On stdio it writes to stdout; with HTTP+SSE it is the
	// answer to the POST, while messages go to the stream.
	W      http.ResponseWriter
	R      *http.Request
	Call   Call
	Script Script

	server *Server
	kind   callKind
	stream *turn  // of HTTP+SSE; nil elsewhere
	shape  *shape // how messages are bent; nil = not at all
}

type callKind int

const (
	httpCall callKind = iota
	stdioCall
)

// Reply answers with a result, raw JSON or what pretends to be, in the script's
// framing.
func (x *Exchange) Reply(result string) {
	x.Send(`{"jsonrpc":"2.0",` + x.idMember(x.Call.ID) + `"result":` + result + `}`)
}

// fail answers with a JSON-RPC error. A nil id becomes null.
func (x *Exchange) fail(status int, id json.RawMessage, code int, message string) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0",%s"error":{"code":%d,"message":%s}}`, x.idMember(id), code, quote(message))
	if x.kind == stdioCall || x.stream != nil || x.shape != nil {
		x.Send(body)
		return
	}
	x.W.Header().Set("Content-Type", "application/json")
	x.W.WriteHeader(status)
	_, _ = io.WriteString(x.W, body)
}

func (x *Exchange) idMember(id json.RawMessage) string {
	text := "null"
	if id != nil {
		text = string(id)
	}
	if x.shape != nil {
		text = x.shape.id(text)
	}
	if text == "" {
		return ""
	}
	return `"id":` + text + `,`
}

// Send answers with one whole message in the script's framing.
func (x *Exchange) Send(message string) {
	for _, m := range x.shape.messages(message) {
		x.send(m)
	}
}

func (x *Exchange) send(message string) {
	switch {
	case x.kind == stdioCall:
		_, _ = io.WriteString(x.W, message+"\n")
		x.flush()
	case x.accept():
		_, _ = x.stream.Write(event(message))
		x.stream.Flush()
	case x.Script.Framing != SSE:
		x.W.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(x.W, message)
	default:
		x.W.Header().Set("Content-Type", "text/event-stream")
		_, _ = x.W.Write(event(message))
		x.flush()
	}
}

// accept answers the POST of HTTP+SSE, so that the rest goes to the stream. It
// says whether there is a stream.
func (x *Exchange) accept() bool {
	if x.stream == nil {
		return false
	}
	if !x.stream.accepted {
		x.stream.accepted = true
		// The client has the whole answer at once, and does not wait on this
		// connection for what goes on in the stream.
		x.W.Header().Set("Content-Length", "0")
		x.W.Header().Set("Connection", "close")
		x.W.WriteHeader(http.StatusAccepted)
		x.flush()
	}
	return true
}

// event frames a message as one server-sent event.
func event(message string) []byte {
	var out bytes.Buffer
	out.WriteString("event: message\n")
	for line := range strings.SplitSeq(message, "\n") {
		out.WriteString("data: " + line + "\n")
	}
	out.WriteString("\n")
	return out.Bytes()
}

func (x *Exchange) flush() { _ = http.NewResponseController(x.W).Flush() }
