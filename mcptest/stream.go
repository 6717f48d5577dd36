package mcptest

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// eventStream is the GET stream of one session of HTTP+SSE.
type eventStream struct {
	ctx    context.Context //nolint:containedctx // the life of the stream, which is that of its GET
	mu     sync.Mutex      // one answer at a time
	out    io.Writer
	flush  func()
	closed bool // under mu; its handler has returned, so nobody may write or flush
}

func (e *eventStream) turn() *turn {
	return &turn{mu: &e.mu, write: e.write, flush: func() {
		if !e.closed {
			e.flush()
		}
	}}
}

func (e *eventStream) write(p []byte) (int, error) {
	if e.closed {
		return 0, io.ErrClosedPipe
	}
	return e.out.Write(p)
}

// serveStream opens a stream, names the address for the POSTs, and keeps it
// until the client goes away.
func (s *Server) serveStream(x *Exchange) {
	session := rand.Text()
	e := &eventStream{ctx: x.R.Context(), out: x.W, flush: x.flush}
	s.mu.Lock()
	s.streams[session], s.sessions[session] = e, true
	s.mu.Unlock()
	x.W.Header().Set("Content-Type", "text/event-stream")
	turn := e.turn()
	_, _ = io.WriteString(turn, "event: endpoint\ndata: "+
		strings.NewReplacer("$SESSION", url.QueryEscape(session), "$ORIGIN", x.Call.origin()).Replace(x.Script.Endpoint)+"\n\n")
	turn.Flush()
	turn.end()
	<-x.R.Context().Done()
	s.mu.Lock()
	delete(s.streams, session)
	s.sessions[session] = false
	s.mu.Unlock()
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
}

func (s *Server) stream(session string) *eventStream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams[session]
}

// turn is the right of one answer to write where several answers go: a stream
// of HTTP+SSE, or stdout. It begins with the first byte and ends with end, so
// that answers are whole and one that hangs holds up nobody.
type turn struct {
	mu       *sync.Mutex
	write    func([]byte) (int, error)
	flush    func()
	lines    bool // what is no whole line when the turn ends becomes one
	held     bool
	last     byte
	accepted bool
	header   http.Header
}

// Header implements [http.ResponseWriter]; nobody reads it.
func (t *turn) Header() http.Header {
	if t.header == nil {
		t.header = http.Header{}
	}
	return t.header
}

// WriteHeader implements [http.ResponseWriter].
func (t *turn) WriteHeader(int) {}

// Write implements [io.Writer].
func (t *turn) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if !t.held {
		t.mu.Lock()
		t.held = true
	}
	t.last = p[len(p)-1]
	return t.write(p)
}

// Flush implements [http.Flusher].
func (t *turn) Flush() {
	if t.held && t.flush != nil {
		t.flush()
	}
}

func (t *turn) end() {
	if !t.held {
		return
	}
	if t.lines && t.last != '\n' {
		_, _ = t.write([]byte("\n"))
	}
	t.held = false
	t.mu.Unlock()
}
