package mcptest

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Server is an MCP server over streamable HTTP that follows a [Script]. It is
// an [http.Handler] for any path; [Start] and [New] give it a port. Safe for
// concurrent use.
type Server struct {
	// URL is the endpoint, http://127.0.0.1:port/mcp; "" when not started.
	URL string

	http *http.Server

	mu          sync.Mutex
	script      Script
	calls       []Call
	sessions    map[string]bool // id → still open
	connections int             // ever accepted
	open        map[net.Conn]bool
}

// TB is the part of testing.TB that [New] needs; programs that are no tests
// link no test framework.
type TB interface {
	Helper()
	Cleanup(f func())
	Fatalf(format string, args ...any)
}

// New starts a server for the time of a test.
func New(tb TB, script Script) *Server {
	tb.Helper()
	s, err := Start(script)
	if err != nil {
		tb.Fatalf("mcptest: %v", err)
	}
	tb.Cleanup(s.Close)
	return s
}

// Start starts a server on a free loopback port; end it with [Server.Close].
func Start(script Script) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	s := Handler(script)
	s.URL = "http://" + l.Addr().String() + "/mcp"
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, ConnState: s.ConnState}
	go func() { _ = s.http.Serve(l) }()
	return s, nil
}

// Handler gives a server without a port of its own, to be mounted elsewhere.
func Handler(script Script) *Server {
	return &Server{script: script, sessions: map[string]bool{}, open: map[net.Conn]bool{}}
}

// Close ends the server and every connection.
func (s *Server) Close() {
	if s.http != nil {
		_ = s.http.Close()
	}
}

// Edit changes the script. Calls that are being answered keep what they have.
func (s *Server) Edit(change func(*Script)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.script)
}

// Call is one HTTP request that the server got.
type Call struct {
	HTTP    string          // HTTP method
	Method  string          // JSON-RPC method, "" when there is none
	ID      json.RawMessage // JSON-RPC id, nil for notifications
	Params  json.RawMessage
	Header  http.Header
	Host    string
	Session string // Mcp-Session-Id
	// Nth counts the calls of this JSON-RPC method (or HTTP method) from 1.
	Nth int
}

// Cursor gives the cursor of a list request, nil when it has none.
func (c Call) Cursor() *string {
	var params struct {
		Cursor *string `json:"cursor"`
	}
	_ = json.Unmarshal(c.Params, &params)
	return params.Cursor
}

// key names the kind of call: its JSON-RPC method, else its HTTP method.
func (c Call) key() string {
	if c.Method != "" {
		return c.Method
	}
	return c.HTTP
}

// Calls gives every call so far, oldest first; with methods, only those of
// these JSON-RPC (or HTTP) methods.
func (s *Server) Calls(methods ...string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Call
	for _, c := range s.calls {
		if len(methods) == 0 || slices.Contains(methods, c.key()) {
			out = append(out, c)
		}
	}
	return out
}

// Methods gives the kind of every call so far, oldest first.
func (s *Server) Methods() []string {
	var out []string
	for _, c := range s.Calls() {
		out = append(out, c.key())
	}
	return out
}

// Count says how many calls of a JSON-RPC (or HTTP) method came.
func (s *Server) Count(method string) int { return len(s.Calls(method)) }

// OpenSessions says how many sessions were begun and not ended.
func (s *Server) OpenSessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, open := range s.sessions {
		if open {
			n++
		}
	}
	return n
}

// Connections says how many connections were ever made, and how many are open.
func (s *Server) Connections() (ever, open int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connections, len(s.open)
}

// ConnState counts connections; it is the hook of [http.Server] for a server
// that was made by [Handler].
func (s *Server) ConnState(conn net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.connections++
		s.open[conn] = true
	case http.StateClosed, http.StateHijacked:
		delete(s.open, conn)
	case http.StateActive, http.StateIdle:
	}
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	call, script := s.record(r, body)
	for _, key := range []string{call.key(), Any} {
		if fault := script.Faults[key]; fault != nil && fault(&Exchange{W: w, R: r, Call: call, Script: script}) {
			return
		}
	}
	switch {
	case r.Method == http.MethodDelete && script.Sessions:
		s.end(call.Session)
		w.WriteHeader(http.StatusNoContent)
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case call.Method == "":
		fail(w, http.StatusBadRequest, nil, -32600, "not a JSON-RPC request")
	default:
		s.answer(&Exchange{W: w, R: r, Call: call, Script: script})
	}
}

// record notes the call and takes the script as it is now.
func (s *Server) record(r *http.Request, body []byte) (Call, Script) {
	call := Call{HTTP: r.Method, Header: r.Header.Clone(), Host: r.Host, Session: r.Header.Get("Mcp-Session-Id")}
	var message struct {
		Method string          `json:"method"`
		ID     json.RawMessage `json:"id"`
		Params json.RawMessage `json:"params"`
	}
	if json.Unmarshal(body, &message) == nil {
		call.Method, call.ID, call.Params = message.Method, message.ID, message.Params
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	call.Nth = 1
	for _, c := range s.calls {
		if c.key() == call.key() {
			call.Nth++
		}
	}
	s.calls = append(s.calls, call)
	script := s.script
	return call, script
}

func (s *Server) begin() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := rand.Text()
	s.sessions[id] = true
	return id
}

func (s *Server) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[id] {
		s.sessions[id] = false
	}
}

func (s *Server) alive(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[id]
}

// answer is what an honest server of the script's era does.
func (s *Server) answer(x *Exchange) {
	call, script := x.Call, x.Script
	modern := script.Era != Legacy && call.Header.Get("Mcp-Protocol-Version") >= Modern20260728
	switch {
	case call.Method == "server/discover" && script.Era == Legacy:
		// What the TypeScript SDK says to a first message that is no initialize.
		fail(x.W, http.StatusBadRequest, nil, -32000, "Bad Request: Server not initialized")
		return
	case modern:
		if why := badModern(call); why != "" {
			fail(x.W, http.StatusBadRequest, call.ID, -32020, why)
			return
		}
	case call.Method == "initialize" && script.Era == Modern:
		fail(x.W, http.StatusNotFound, call.ID, -32601, "Method not found")
		return
	case script.Era == Modern:
		fail(x.W, http.StatusBadRequest, call.ID, -32602, "missing _meta")
		return
	case call.Method == "initialize" && script.Sessions:
		x.W.Header().Set("Mcp-Session-Id", s.begin())
	case call.Method != "initialize" && script.Sessions:
		if call.Session == "" {
			fail(x.W, http.StatusBadRequest, nil, -32000, "Bad Request: Mcp-Session-Id header is required")
			return
		}
		if !s.alive(call.Session) {
			fail(x.W, http.StatusNotFound, nil, -32001, "Session not found")
			return
		}
	}
	if call.ID == nil {
		x.W.WriteHeader(http.StatusAccepted)
		return
	}
	result, ok := script.result(call)
	if !ok {
		status := http.StatusOK
		if modern {
			status = http.StatusNotFound
		}
		fail(x.W, status, call.ID, -32601, "Method not found")
		return
	}
	x.Reply(result)
}

// badModern checks the rules of 2026-07-28 for the headers and _meta of a request.
func badModern(call Call) string {
	var params struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	_ = json.Unmarshal(call.Params, &params)
	var version string
	_ = json.Unmarshal(params.Meta["io.modelcontextprotocol/protocolVersion"], &version)
	var capabilities map[string]any
	switch {
	case call.ID != nil && version != call.Header.Get("Mcp-Protocol-Version"):
		return "header mismatch: _meta and Mcp-Protocol-Version differ"
	case call.ID != nil && json.Unmarshal(params.Meta["io.modelcontextprotocol/clientCapabilities"], &capabilities) != nil:
		return "missing clientCapabilities in _meta"
	case call.Header.Get("Mcp-Method") != call.Method:
		return "header mismatch: Mcp-Method"
	case call.Session != "":
		return "sessions do not exist any more"
	}
	return ""
}

// fail answers with a JSON-RPC error. A nil id becomes null.
func fail(w http.ResponseWriter, status int, id json.RawMessage, code int, message string) {
	if id == nil {
		id = json.RawMessage("null")
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, id, code, quote(message))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// Exchange is one request that is being answered.
type Exchange struct {
	W      http.ResponseWriter
	R      *http.Request
	Call   Call
	Script Script
}

// Reply answers with a result, raw JSON or what pretends to be, in the script's
// framing.
func (x *Exchange) Reply(result string) {
	id := x.Call.ID
	if id == nil {
		id = json.RawMessage("null")
	}
	x.Send(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":` + result + `}`)
}

// Send answers with one whole message in the script's framing.
func (x *Exchange) Send(message string) {
	if x.Script.Framing != SSE {
		x.W.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(x.W, message)
		return
	}
	x.W.Header().Set("Content-Type", "text/event-stream")
	var out bytes.Buffer
	out.WriteString("event: message\n")
	for line := range strings.SplitSeq(message, "\n") {
		out.WriteString("data: " + line + "\n")
	}
	out.WriteString("\n")
	_, _ = x.W.Write(out.Bytes())
	x.flush()
}

func (x *Exchange) flush() { _ = http.NewResponseController(x.W).Flush() }
