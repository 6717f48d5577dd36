package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"countersign/registry"
)

// duplex is a conversation in which requests go one way and answers come back
// on a stream of their own: HTTP+SSE and stdio. It makes one call at a time.
type duplex struct {
	visit   *visit
	life    context.Context //nolint:containedctx // it is the life of the conversation itself
	version string          // that requests are made for
	// send sends one message. It returns when its context ends.
	send func(ctx context.Context, message []byte) *registry.Error
	last int64

	answers chan answer
	// ended is closed when the stream is over; why says what ended it.
	ended   chan struct{}
	why     *registry.Error
	replies int // to requests of the server
}

// answer is one message that is no request of the server, or what makes it
// unreadable.
type answer struct {
	message message
	size    int64
	wrong   error
}

// duplex begins a conversation, which ends with its life.
func (v *visit) duplex(life context.Context, era string, send func(context.Context, []byte) *registry.Error) *duplex {
	version := legacyVersion
	if era == EraModern {
		version = modernVersion
	}
	return &duplex{visit: v, life: life, version: version, send: send, answers: make(chan answer), ended: make(chan struct{})}
}

// read takes messages from the stream until it ends, in a goroutine of its own.
// next gives the bytes of one message, or says why there will be no more.
func (d *duplex) read(next func() ([]byte, *registry.Error)) {
	defer close(d.ended)
	for {
		raw, fault := next()
		if fault != nil {
			d.why = fault
			return
		}
		m, err := parseMessage(raw)
		if err == nil && m.method != "" {
			d.answerTo(m)
			continue
		}
		a := answer{message: m, size: int64(len(raw)), wrong: err}
		if a.size > d.visit.limits.PageBytes {
			d.why = registry.Errorf(registry.ReasonTooLarge, "the server sends more than %d bytes in an answer", d.visit.limits.PageBytes).
				With("limit_bytes", strconv.FormatInt(d.visit.limits.PageBytes, 10)).With("scope", "response")
			return
		}
		select {
		case d.answers <- a:
		case <-d.life.Done():
			d.why = registry.Errorf(registry.ReasonTimeout, "the conversation was ended")
			return
		}
	}
}

// replyTime is how long the reading may be held up by an answer to a request of
// the server, maxReplies how many there are.
const (
	replyTime  = 2 * time.Second
	maxReplies = 100
)

// answerTo answers a request of the server: we are alive, and offer nothing
// else. Notifications and ids that are no ids are passed over.
func (d *duplex) answerTo(m message) {
	if m.id == "" || m.id == "null" || len(m.id) > 200 || d.replies >= maxReplies {
		return
	}
	d.replies++
	reply := map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(m.id)}
	if m.method == "ping" {
		reply["result"] = struct{}{}
	} else {
		reply["error"] = map[string]any{"code": codeMethodNotFound, "message": "Method not found"}
	}
	body, err := json.Marshal(reply)
	if err != nil {
		return // its id is no JSON that can be sent
	}
	ctx, cancel := context.WithTimeout(d.life, replyTime)
	defer cancel()
	_ = d.send(ctx, body) // if it does not get there, the server's own deadline ends its wait
}

// call makes one request and waits for its answer. The time is ctx's.
func (d *duplex) call(parent context.Context, method string, params map[string]any) (_ message, _ int64, fault *registry.Error) {
	parent, end := called(parent, method)
	defer func() { end(fault) }()
	d.last++
	id := d.last
	body, err := d.visit.request(id, method, params, d.version)
	if err != nil {
		return message{}, 0, registry.Errorf(registry.ReasonInternal, "the request could not be made: %w", err)
	}
	ctx, cancel := context.WithCancel(parent)
	sent := make(chan *registry.Error, 1)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		sent <- d.send(ctx, body)
	}()
	defer func() { cancel(); <-finished }()
	stray := false
	for {
		select {
		case a := <-d.answers:
			switch {
			case a.wrong != nil:
				return message{}, a.size, registry.Errorf(registry.ReasonProtocolError, "the answer is not a JSON-RPC answer: %v", a.wrong)
			case a.message.answers(id):
				return a.message, a.size, nil
			}
			stray = true
		case fault := <-sent:
			if fault != nil && parent.Err() == nil {
				return message{}, 0, fault
			}
			sent = nil
		case <-d.ended:
			return message{}, 0, d.over()
		case <-ctx.Done():
			if stray {
				return message{}, 0, registry.Errorf(registry.ReasonProtocolError, "the answer is not a JSON-RPC answer: %v", errOtherID)
			}
			return message{}, 0, registry.Errorf(registry.ReasonTimeout, "the server did not answer %s in time", method)
		}
	}
}

// over gives what ended the stream, as an error that can be added to.
func (d *duplex) over() *registry.Error {
	clone := *d.why
	clone.Facts = slices.Clone(d.why.Facts)
	return &clone
}

// greet shakes hands in one era.
func (d *duplex) greet(ctx context.Context, era string) (registry.Surface, *failure) {
	method, params := methodDiscover, map[string]any(nil)
	if era != EraModern {
		era = EraLegacy // whatever the transport
		method, params = methodInitialize, map[string]any{
			"protocolVersion": d.version, "capabilities": struct{}{}, "clientInfo": d.visit.self,
		}
	}
	m, _, fault := d.call(ctx, method, params)
	switch {
	case fault != nil:
		return registry.Surface{}, &failure{fault: fault, late: ctx.Err() != nil}
	case m.fault != nil:
		return registry.Surface{}, d.visit.refused(m.fault, era)
	}
	if f := d.visit.versionFailure(m, era); f != nil {
		return registry.Surface{}, f
	}
	version, err := settled(m, era)
	if err != nil {
		return registry.Surface{}, &failure{fault: wrongHandshake("%w", err)}
	}
	surface, fault := d.visit.read(m, version)
	if fault != nil {
		return registry.Surface{}, &failure{fault: fault, final: true}
	}
	d.version = version
	if era != EraModern {
		body := []byte(`{"jsonrpc":"2.0","method":"` + methodInitialized + `"}`)
		if fault := d.send(ctx, body); fault != nil {
			return registry.Surface{}, &failure{fault: fault, late: ctx.Err() != nil}
		}
	}
	return surface, nil
}

// settled gives the version that the handshake settled on.
func settled(m message, era string) (string, error) {
	fields, err := members(m.result, "protocolVersion", "supportedVersions")
	if err != nil {
		return "", err
	}
	var offers []string
	if era == EraModern {
		_ = json.Unmarshal(fields["supportedVersions"], &offers)
	} else if one, ok := text(fields["protocolVersion"]); ok {
		offers = []string{one}
	}
	slices.Sort(offers)
	for _, offer := range slices.Backward(offers) {
		if slices.Contains(mcp.SupportedProtocolVersions(), offer) && EraOf(offer) == era {
			return offer, nil
		}
	}
	return "", errors.New("it settles on no protocol version")
}
