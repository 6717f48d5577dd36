package mcptest

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
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

	// Canary is another server on a port of its own, for scripts that name it as
	// $CANARY: whatever it sees, a client was led astray. nil when none does.
	Canary *Server

	mu          sync.Mutex
	started     time.Time
	script      Script
	calls       []Call
	counts      map[string]int // calls by kind
	log         *recorder
	stderr      io.Writer               // of stdio
	exit        func(int)               // of stdio
	sessions    map[string]bool         // id → still open
	streams     map[string]*eventStream // HTTP+SSE, by session
	connections int                     // ever accepted
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
	s.serve(l, s, "http")
	return s, nil
}

func (s *Server) serve(l net.Listener, handler http.Handler, scheme string) {
	s.URL = scheme + "://" + l.Addr().String() + "/mcp"
	s.http = &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ConnState: s.ConnState,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // its clients are meant to fail
	}
	go func() { _ = s.http.Serve(l) }()
}

// Handler gives a server without a port of its own, to be mounted elsewhere.
func Handler(script Script) *Server {
	return &Server{
		script: script, started: time.Now(), counts: map[string]int{},
		sessions: map[string]bool{}, streams: map[string]*eventStream{}, open: map[net.Conn]bool{},
	}
}

// Close ends the server and every connection.
func (s *Server) Close() {
	if s.Canary != nil {
		s.Canary.Close()
	}
	if s.http == nil {
		return
	}
	_ = s.http.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.open { // those that a fault took over
		_ = conn.Close()
	}
}

// Edit changes the script. Calls that are being answered keep what they have.
func (s *Server) Edit(change func(*Script)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.script)
}

// Call is one HTTP request that the server got, or one line on stdin.
type Call struct {
	HTTP    string          `json:"http,omitempty"`   // HTTP method; "" on stdin
	Path    string          `json:"path,omitempty"`   // with its query
	Method  string          `json:"method,omitempty"` // JSON-RPC method, "" when there is none
	ID      json.RawMessage `json:"id,omitempty"`     // JSON-RPC id, nil for notifications
	Params  json.RawMessage `json:"params,omitempty"`
	Header  http.Header     `json:"header,omitempty"`
	Host    string          `json:"host,omitempty"`
	Session string          `json:"session,omitempty"` // Mcp-Session-Id, or that of HTTP+SSE
	Body    []byte          `json:"body,omitempty"`    // as it came; base64 in a record
	// Nth counts the calls of this JSON-RPC method (or HTTP method) from 1.
	Nth int `json:"nth"`
	// At is the time since the server was made.
	At time.Duration `json:"at"`

	tls bool
}

func (c Call) id() string {
	if c.ID == nil {
		return "null"
	}
	return string(c.ID)
}

// origin is the server's own, as the client names it.
func (c Call) origin() string {
	if c.tls {
		return "https://" + c.Host
	}
	return "http://" + c.Host
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

// keep counts a connection that a fault took over, until drop closes it.
func (s *Server) keep(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[conn] = true
}

func (s *Server) drop(conn net.Conn) {
	_ = conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, conn)
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	call, script := s.record(r, body)
	x := &Exchange{W: w, R: r, Call: call, Script: script, server: s}
	if fault := script.Paths[r.URL.Path]; fault != nil && fault(x) {
		return
	}
	if script.Endpoint != "" && r.Method == http.MethodPost {
		stream := s.stream(call.Session)
		if stream == nil { // as servers of HTTP+SSE answer a POST to their GET address
			x.stray(http.StatusMethodNotAllowed)
			return
		}
		turn := stream.turn()
		defer turn.end()
		x.stream, x.R = turn, r.WithContext(stream.ctx) //nolint:contextcheck // the answer lives as long as the stream
	}
	x.run()
}

// stray answers what has no place in the protocol of the script.
func (x *Exchange) stray(status int) {
	if !x.fault() {
		x.W.WriteHeader(status)
	}
}

// run answers by the first fault that will, else honestly.
func (x *Exchange) run() {
	if !x.fault() {
		x.honest()
	}
}

func (x *Exchange) fault() bool {
	for _, key := range []string{x.Call.key(), Any} {
		if fault := x.Script.Faults[key]; fault != nil && fault(x) {
			return true
		}
	}
	return false
}

// honest is what a server without faults does.
func (x *Exchange) honest() {
	call := x.Call
	switch {
	case x.kind == stdioCall:
		x.server.answer(x)
	case x.Script.Endpoint != "" && call.HTTP == http.MethodGet:
		x.server.serveStream(x)
	case call.HTTP == http.MethodDelete && x.Script.Sessions:
		x.server.end(call.Session)
		x.W.WriteHeader(http.StatusNoContent)
	case call.HTTP != http.MethodPost:
		x.W.WriteHeader(http.StatusMethodNotAllowed)
	case call.Method == "":
		x.fail(http.StatusBadRequest, nil, -32600, "not a JSON-RPC request")
	default:
		x.server.answer(x)
	}
}

// record notes the call and takes the script as it is now.
func (s *Server) record(r *http.Request, body []byte) (Call, Script) {
	call := Call{
		HTTP: r.Method, Path: r.URL.RequestURI(), Header: r.Header.Clone(), Host: r.Host, Body: body,
		Session: cmp.Or(r.Header.Get("Mcp-Session-Id"), r.URL.Query().Get("session")), tls: r.TLS != nil,
	}
	return s.note(call)
}

func (s *Server) note(call Call) (Call, Script) {
	var message struct {
		Method string          `json:"method"`
		ID     json.RawMessage `json:"id"`
		Params json.RawMessage `json:"params"`
	}
	if json.Unmarshal(call.Body, &message) == nil {
		call.Method, call.ID, call.Params = message.Method, message.ID, message.Params
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[call.key()]++
	call.Nth, call.At = s.counts[call.key()], time.Since(s.started)
	s.calls = append(s.calls, call)
	s.log.call(call)
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

// forget ends every session, as a server that was restarted.
func (s *Server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.sessions {
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
	modern := script.Era != Legacy && x.revision() >= Modern20260728
	switch {
	case call.Method == "server/discover" && script.Era == Legacy:
		if x.kind == stdioCall || x.stream != nil {
			x.fail(http.StatusOK, call.ID, -32601, "Method not found")
			return
		}
		// What the TypeScript SDK says to a first message that is no initialize.
		x.fail(http.StatusBadRequest, nil, -32000, "Bad Request: Server not initialized")
		return
	case modern:
		if why := x.badModern(); why != "" {
			x.fail(http.StatusBadRequest, call.ID, -32020, why)
			return
		}
	case call.Method == "initialize" && script.Era == Modern:
		x.fail(http.StatusNotFound, call.ID, -32601, "Method not found")
		return
	case script.Era == Modern:
		x.fail(http.StatusBadRequest, call.ID, -32602, "missing _meta")
		return
	case x.kind == stdioCall || x.stream != nil:
	case call.Method == "initialize" && script.Sessions:
		x.W.Header().Set("Mcp-Session-Id", s.begin())
	case call.Method != "initialize" && script.Sessions:
		if call.Session == "" {
			x.fail(http.StatusBadRequest, nil, -32000, "Bad Request: Mcp-Session-Id header is required")
			return
		}
		if !s.alive(call.Session) {
			x.fail(http.StatusNotFound, nil, -32001, "Session not found")
			return
		}
	}
	if call.ID == nil {
		if x.kind == stdioCall || x.accept() {
			return
		}
		x.W.WriteHeader(http.StatusAccepted)
		return
	}
	result, ok := script.result(call)
	if !ok {
		status := http.StatusOK
		if modern {
			status = http.StatusNotFound
		}
		x.fail(status, call.ID, -32601, "Method not found")
		return
	}
	x.Reply(result)
}

// revision is the protocol's, as a modern client names it with every request.
func (x *Exchange) revision() string {
	if x.kind == stdioCall || x.stream != nil {
		return x.Call.meta("protocolVersion")
	}
	return x.Call.Header.Get("Mcp-Protocol-Version")
}

// meta gives a string of the request's _meta.
func (c Call) meta(key string) string {
	var params struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	_ = json.Unmarshal(c.Params, &params)
	var value string
	_ = json.Unmarshal(params.Meta["io.modelcontextprotocol/"+key], &value)
	return value
}

// badModern checks the rules of 2026-07-28 for the headers and _meta of a request.
func (x *Exchange) badModern() string {
	call := x.Call
	var params struct {
		Meta struct {
			Capabilities map[string]any `json:"io.modelcontextprotocol/clientCapabilities"`
		} `json:"_meta"`
	}
	if err := json.Unmarshal(call.Params, &params); call.ID != nil && (err != nil || params.Meta.Capabilities == nil) {
		return "missing clientCapabilities in _meta"
	}
	if x.kind == stdioCall {
		return ""
	}
	switch {
	case call.ID != nil && call.meta("protocolVersion") != call.Header.Get("Mcp-Protocol-Version"):
		return "header mismatch: _meta and Mcp-Protocol-Version differ"
	case call.Header.Get("Mcp-Method") != call.Method:
		return "header mismatch: Mcp-Method"
	case call.Session != "":
		return "sessions do not exist any more"
	}
	return ""
}
