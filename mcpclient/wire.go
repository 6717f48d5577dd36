package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"
)

// wire stands between the SDK and the guarded transport for the time of one
// session. It keeps what the server answered to the handshake, since the SDK
// does not say; it lets no request out that this session must not make; and it
// ends every request when the session ends, also those that the SDK made with
// a context of its own.
type wire struct {
	base  http.RoundTripper
	life  context.Context //nolint:containedctx // it is the life of the wire itself
	era   string
	agent string
	diary *diary
	badge *badge // whose secrets the replies are masked of

	mu      sync.Mutex
	opening *tape // of the last server/discover or initialize
	last    *tape // of the last message of the handshake
}

var errNotOurs = errors.New("this session makes no such request")

// RoundTrip implements [http.RoundTripper].
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	method, id := rpcOf(req)
	// GET is the stream of the server's own messages. The other era's handshake
	// is tried on a wire of its own.
	if req.Method == http.MethodGet || w.era == EraModern && method == methodInitialize {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, errNotOurs
	}
	traced, end := span(req.Context(), method)
	ctx, cancel := context.WithCancel(traced)
	stop := context.AfterFunc(w.life, cancel) //nolint:contextcheck // the life of the session ends it as well
	done := func() {
		stop()
		cancel()
	}
	began, t := time.Now(), &tape{reply: reply{id: id}}
	req = req.Clone(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			t.connected()
			w.diary.connected(info.Conn.RemoteAddr().String(), time.Since(began))
		},
	}))
	req.Header.Set("User-Agent", w.agent)
	w.note(method, t)
	resp, err := w.base.RoundTrip(req)
	end(err)
	if err != nil {
		done()
		t.end(err)
		return nil, err
	}
	if req.Method == http.MethodPost && method == "" && (resp.StatusCode < 200 || resp.StatusCode > 299) {
		// It was an answer to a request of the server's, such as a ping before its
		// answer to us. The SDK ends the session when it is refused; we go on.
		_ = resp.Body.Close()
		resp.StatusCode, resp.Status, resp.Body, resp.ContentLength = http.StatusAccepted, "202 Accepted", http.NoBody, 0
	}
	t.begin(resp)
	body := &taped{ReadCloser: resp.Body, tape: t, done: done}
	if method == methodDiscover || method == methodInitialize {
		body.peek = w.badge.peek()
	}
	resp.Body = body
	return resp, nil
}

func (w *wire) note(method string, t *tape) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch method {
	case methodDiscover, methodInitialize:
		t.reply.opening = true
		w.opening, w.last = t, t
	case methodInitialized:
		w.last = t
	}
}

// opened gives the reply to the handshake's first message, ended the one to its
// last. Both are nil when there was no such message.
func (w *wire) opened() *reply {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.badge.reply(w.opening.copy())
}

func (w *wire) ended() *reply {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.badge.reply(w.last.copy())
}

// tape is what was read of one reply so far.
type tape struct {
	mu    sync.Mutex
	reply reply
}

func (t *tape) copy() *reply {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.reply
	return &r
}

func (t *tape) connected() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reply.connected = true
}

func (t *tape) begin(resp *http.Response) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reply.status, t.reply.header = resp.StatusCode, resp.Header.Clone()
}

func (t *tape) write(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reply.body = append(t.reply.body, p...)
}

// cut notes that no more of it was read.
func (t *tape) cut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reply.cut = true
}

func (t *tape) end(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reply.broken == nil {
		t.reply.broken = err
	}
}

// taped is a body that is written down while it is read.
type taped struct {
	io.ReadCloser
	tape *tape
	done func()
	peek int64 // how much somebody wants to know of it, even if the SDK does not
}

func (t *taped) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.tape.write(p[:n])
	if err != nil && !errors.Is(err, io.EOF) {
		t.tape.end(err)
	}
	return n, err
}

func (t *taped) Close() error {
	defer t.done()
	if t.peek > 0 && len(t.tape.copy().body) == 0 {
		// The SDK judged by status or type alone. For people, the first bytes say more.
		if _, err := io.CopyN(io.Discard, t, t.peek); err == nil {
			t.tape.cut()
		}
	}
	return t.ReadCloser.Close()
}

// rpcOf gives the JSON-RPC method and id of a request of ours; nothing if it
// has none.
func rpcOf(req *http.Request) (method string, id int64) {
	if req.GetBody == nil {
		return "", 0
	}
	body, err := req.GetBody()
	if err != nil {
		return "", 0
	}
	defer func() { _ = body.Close() }()
	var message struct {
		Method string `json:"method"`
		ID     int64  `json:"id"`
	}
	_ = json.NewDecoder(body).Decode(&message)
	return message.Method, message.ID
}
