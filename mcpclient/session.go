package mcpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"countersign/outbound"
	"countersign/registry"
)

// goodbye is how long a server may take to hear that the session is over.
const goodbye = 5 * time.Second

// errorBytes is how much is read of an answer that is no success.
const errorBytes = 64 << 10

// session is a server that has shaken hands, by whatever transport.
type session struct {
	surface registry.Surface // what the handshake told: everything but the lists
	era     string           // to be remembered
	// call makes one request and gives the answer and its size.
	call func(ctx context.Context, method string, params map[string]any) (message, int64, *registry.Error)
	// lost says whether the server has forgotten the session; nil when there is
	// nothing to forget.
	lost func() bool
	// noticed gives the quirks that showed after the handshake; nil when the
	// transport has none.
	noticed func() []quirk
	// close ends the session within the time of a goodbye.
	close func()
}

// quirk is a peculiarity that was tolerated. Quirks are properties of a server,
// not of one meeting: two meetings with an unchanged server note the same.
type quirk = string

// The quirks. A list that is advertised but unknown to the server has a quirk
// of its own, made of its method: see [list.unknown].
const (
	quirkNoServerInfo = "no_server_info"      // the handshake does not say who answers
	quirkAdvertises   = "nothing_advertised"  // no kind of list is advertised; tools were asked for all the same
	quirkEmptyCursor  = "empty_cursor_is_end" // an older server ends a list with an empty cursor
	quirkNoise        = "stdout_noise"        // a process writes to standard output what is no message
)

// session reads what the handshake told and makes the session's calls. The
// reply is read from the wire: one parse for what is shown, digested and
// decided, and a strict one.
func (v *visit) session(w *wire, peer *mcp.ClientSession, end func()) (*session, error) {
	version := peer.InitializeResult().ProtocolVersion
	told, fault := v.told(w.opened(), version)
	if fault != nil {
		return nil, fault
	}
	h := &httpSession{visit: v, version: version, id: peer.ID()}
	return &session{
		surface: told,
		era:     EraOf(version),
		call:    h.call,
		lost:    h.lost.Load,
		close: func() {
			// The SDK says goodbye with a context of its own.
			timer := time.AfterFunc(goodbye, end)
			_ = peer.Close()
			timer.Stop()
			end()
		},
	}, nil
}

// told reads the result of the handshake from its reply.
func (v *visit) told(r *reply, version string) (registry.Surface, *registry.Error) {
	if r == nil {
		return registry.Surface{}, wrongHandshake("there is none")
	}
	m, fault := r.answer()
	if fault != nil {
		return registry.Surface{}, fault
	}
	return v.read(m, version)
}

func wrongHandshake(format string, args ...any) *registry.Error {
	return registry.Errorf(registry.ReasonProtocolError, "the answer to the handshake is wrong: "+format, args...)
}

// read reads the result of the handshake.
func (v *visit) read(m message, version string) (registry.Surface, *registry.Error) {
	wrong, s := wrongHandshake, registry.Surface{ProtocolVersion: version}
	fields, err := members(m.result, "capabilities", "instructions", "serverInfo", "_meta")
	if err != nil {
		return s, wrong("%w", err)
	}
	if raw := fields["instructions"]; raw != nil && raw.Kind() != 'n' {
		instructions, ok := text(raw)
		switch {
		case !ok:
			return s, wrong("its instructions are no string")
		case len(instructions) > v.limits.ItemBytes:
			return s, wrong("its instructions are longer than %d bytes", v.limits.ItemBytes)
		case strings.ContainsRune(instructions, 0):
			return s, wrong("its instructions hold a NUL character")
		}
		s.Instructions = instructions
	}
	if raw := fields["capabilities"]; raw.Kind() == '{' {
		kinds, err := members(raw, "tools", "resources", "prompts")
		if err != nil {
			return s, wrong("%w", err)
		}
		for kind, value := range kinds {
			if value.Kind() != 'n' && value.Kind() != 'f' {
				s.Kinds = append(s.Kinds, kind)
			}
		}
		slices.Sort(s.Kinds)
	}
	if len(s.Kinds) == 0 {
		s.Quirks = append(s.Quirks, quirkAdvertises)
	}
	s.Name, s.Version = whoAnswers(fields, version)
	if s.Name == "" {
		s.Quirks = append(s.Quirks, quirkNoServerInfo)
	}
	return s, nil
}

// whoAnswers gives what the server calls itself, made printable. It is for
// people only, so whatever cannot be read is empty.
func whoAnswers(fields map[string]rawValue, version string) (name, number string) {
	raw := fields["serverInfo"]
	if EraOf(version) == EraModern {
		meta, err := members(fields["_meta"], "io.modelcontextprotocol/serverInfo")
		if err != nil {
			return "", ""
		}
		raw = meta["io.modelcontextprotocol/serverInfo"]
	}
	info, err := members(raw, "name", "version")
	if err != nil {
		return "", ""
	}
	name, _ = text(info["name"])
	number, _ = text(info["version"])
	return outbound.Excerpt(name, excerptBytes), outbound.Excerpt(number, excerptBytes)
}

// httpSession makes requests in the session that the SDK made.
type httpSession struct {
	visit   *visit
	version string // settled on
	id      string // Mcp-Session-Id; "" when the server has no sessions
	last    atomic.Int64
	lost    atomic.Bool // the server does not know the session any more
}

// firstID is the id of the first request of ours: far from those that the SDK
// used in the same session.
const firstID = 1000

// call posts one request and reads its answer.
func (h *httpSession) call(parent context.Context, method string, params map[string]any) (_ message, _ int64, fault *registry.Error) {
	parent, end := called(parent, method)
	defer func() { end(fault) }()
	// Whatever the server keeps open behind its answer ends with the call.
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	id := firstID + h.last.Add(1)
	req, err := h.request(ctx, id, method, params)
	if err != nil {
		return message{}, 0, registry.Errorf(registry.ReasonInternal, "the request could not be made: %w", err)
	}
	resp, err := h.visit.http.Do(req)
	if err != nil {
		return message{}, 0, broken(err)
	}
	defer func() { _ = resp.Body.Close() }()
	r := &reply{id: id, status: resp.StatusCode, header: resp.Header}
	if h.id != "" && resp.StatusCode == http.StatusNotFound {
		h.lost.Store(true) // as the transport says, whatever the body
	}
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 && r.mediaType() == "text/event-stream" {
		return r.stream(resp.Body, h.visit.badge)
	}
	body := io.Reader(resp.Body)
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		body = io.LimitReader(body, errorBytes)
	}
	r.body, r.broken = io.ReadAll(body)
	r.cut = body != resp.Body && len(r.body) == errorBytes
	m, fault := h.visit.badge.reply(r).answer()
	return m, int64(len(r.body)), fault
}

// stream reads the answer from an event stream.
func (r *reply) stream(body io.Reader, b *badge) (message, int64, *registry.Error) {
	kept := &head{limit: int(b.peek())}
	e := newEvents(io.TeeReader(body, kept))
	e.mask = b.whole
	m, err := firstAnswer(e, r.id)
	if err == nil {
		return m, e.read, nil
	}
	if fault, known := registry.AsError(err); known {
		return message{}, e.read, broken(fault)
	}
	r.header, r.body = b.headers(r.header), b.cut(kept.bytes)
	return message{}, e.read, r.facts(registry.Errorf(registry.ReasonProtocolError, "the answer cannot be read: %v", err))
}

// head keeps the first bytes of what is written to it.
type head struct {
	bytes []byte
	limit int
}

func (h *head) Write(p []byte) (int, error) {
	h.bytes = append(h.bytes, p[:min(len(p), h.limit-len(h.bytes))]...)
	return len(p), nil
}

func (h *httpSession) request(ctx context.Context, id int64, method string, params map[string]any) (*http.Request, error) {
	body, err := h.visit.request(id, method, params, h.version)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.visit.target.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("User-Agent", h.visit.agent)
	req.Header.Set("Mcp-Protocol-Version", h.version)
	if EraOf(h.version) == EraModern {
		req.Header.Set("Mcp-Method", method)
	}
	if h.id != "" {
		req.Header.Set("Mcp-Session-Id", h.id)
	}
	return req, nil
}

// request is one JSON-RPC request as a revision of the protocol wants it.
func (v *visit) request(id int64, method string, params map[string]any, version string) ([]byte, error) {
	if EraOf(version) == EraModern {
		params = maps.Clone(params)
		if params == nil {
			params = map[string]any{}
		}
		params["_meta"] = map[string]any{
			"io.modelcontextprotocol/protocolVersion":    version,
			"io.modelcontextprotocol/clientInfo":         v.self,
			"io.modelcontextprotocol/clientCapabilities": struct{}{},
		}
	}
	call := map[string]any{"jsonrpc": "2.0", "id": id, "method": method}
	if params != nil {
		call["params"] = params
	}
	return json.Marshal(call)
}
