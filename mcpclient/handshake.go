package mcpclient

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"countersign/outbound"
	"countersign/registry"
)

// The messages of the handshakes.
const (
	methodDiscover    = "server/discover"
	methodInitialize  = "initialize"
	methodInitialized = "notifications/initialized"
)

// quickTry is how long a server may ponder server/discover while it is not
// known whether it has ever heard of it.
const quickTry = 3 * time.Second

// failure is a handshake that did not come about.
type failure struct {
	fault   *registry.Error
	final   bool // the other handshake would meet the same
	unknown bool // the server answers, and does not know this handshake
	refused bool // the server answers by an error, as one that does not know it may do
	late    bool // no answer within the attempt's own time
	older   bool // the endpoint takes no such POST, so it may be one of HTTP+SSE
}

// doubt says how likely it is that the server does not speak this era at all.
func (f *failure) doubt() int {
	switch {
	case f.unknown:
		return 2
	case f.refused:
		return 1
	}
	return 0
}

// attempt is one handshake to try, and for how long; 0 is all that is left.
type attempt struct {
	era  string
	time time.Duration
}

// plan says what to try in which order. A server may have changed its era since
// it was last met, so time is kept for the other one.
// quick is how long a server is given that may never have heard of
// server/discover.
func plan(known string, whole, quick time.Duration) []attempt {
	switch known {
	case EraModern:
		return []attempt{{EraModern, whole * 2 / 3}, {EraLegacy, 0}}
	case EraLegacy:
		return []attempt{{EraLegacy, whole * 2 / 3}, {EraModern, 0}}
	case EraSSE:
		return []attempt{{EraSSE, whole / 2}, {EraModern, min(quick, whole/4)}, {EraLegacy, 0}}
	}
	return []attempt{{EraModern, min(quick, whole/3)}, {EraLegacy, 0}}
}

// handshake tries the eras until one works.
func (v *visit) handshake(parent context.Context, known string) (*session, *registry.Error) {
	whole := v.limits.Connect
	ctx, cancel := context.WithTimeout(parent, whole)
	defer cancel()
	var first, last *failure
	hurried := false // the modern handshake was given up for its time alone
	older := false   // HTTP+SSE was not tried, and may be what is spoken
	quick := quickTry
	if v.command != nil {
		// Its start takes most of the time, and HTTP+SSE is no matter of processes.
		quick = whole
		if known == EraSSE {
			known = ""
		}
	}
	tries := plan(known, whole, quick)
	for i := 0; i < len(tries); i++ {
		era := tries[i].era
		s, f := v.try(ctx, tries[i])
		if f == nil {
			return s, nil
		}
		if own := v.badge.failed(); own != nil {
			return nil, own // no other handshake makes it good
		}
		if first == nil {
			first = f
		}
		if last == nil || era != EraSSE || !f.unknown {
			last = f // that a server does not speak HTTP+SSE either is no news
		}
		hurried = hurried || f.late && era == EraModern
		older = (older || f.older) && known != EraSSE
		if f.final || ctx.Err() != nil {
			break
		}
		switch {
		case i < len(tries)-1:
		case hurried && f.unknown && era != EraSSE:
			tries, hurried = append(tries, attempt{EraModern, 0}), false
		case older && era != EraSSE:
			tries = append(tries, attempt{EraSSE, whole / 2})
		}
	}
	fault := last.fault
	if !last.final && last.doubt() > first.doubt() {
		fault = first.fault // it speaks the other era, and there it failed
	}
	return nil, atHandshake(fault)
}

// atHandshake words a fault as one of the handshake. The reasons of lists say
// that the handshake was fine, so they are not used here.
func atHandshake(fault *registry.Error) *registry.Error {
	if fault.Reason == registry.ReasonTooLarge {
		facts, next := fault.Facts, fault.Next
		fault = registry.Errorf(registry.ReasonProtocolError, "%w", fault).WithNext("%s", next)
		fault.Facts = facts
	}
	if fault.Fact("phase") == "" {
		fault.With("phase", "handshake")
	}
	return fault
}

// try makes one handshake on a transport of its own.
func (v *visit) try(parent context.Context, a attempt) (*session, *failure) {
	ctx, cancel := context.WithCancel(parent)
	if a.time > 0 {
		ctx, cancel = context.WithTimeout(parent, a.time)
	}
	defer cancel()
	switch {
	case v.command != nil:
		return v.tryProcess(ctx, parent, a)
	case a.era == EraSSE:
		return v.trySSE(ctx, parent, a)
	}
	method, version := methodInitialize, legacyVersion
	if a.era == EraModern {
		method, version = methodDiscover, modernVersion
	}
	done := v.diary.step(method, 0)
	// The wire lives on when the handshake's time is over, but not when the
	// handshake fails: what the SDK still has to say then, nobody reads.
	life, end := context.WithCancel(context.WithoutCancel(parent))
	dying := context.AfterFunc(ctx, end)
	w := &wire{base: v.http.Transport, life: life, era: a.era, agent: v.agent, diary: v.diary, badge: v.badge}
	client := *v.http
	client.Transport = w
	transport := &mcp.StreamableClientTransport{
		Endpoint: v.target.URL, HTTPClient: &client, MaxRetries: -1, DisableStandaloneSSE: true, MaxEventSize: int(v.limits.PageBytes),
	}
	peer, err := mcp.NewClient(v.self, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}}).
		Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err == nil {
		var s *session
		if s, err = v.session(w, peer, end); err == nil && dying() {
			done(0, 0, nil)
			return s, nil
		}
		_ = peer.Close()
	}
	f := v.failed(ctx, w.ended(), a.era, v.allowed(parent, a), err)
	end()
	done(0, 0, f.fault)
	return nil, f
}

// allowed gives the time that an attempt had: its own, unless the whole is over.
func (v *visit) allowed(parent context.Context, a attempt) time.Duration {
	if parent.Err() == nil && a.time > 0 {
		return a.time
	}
	return v.limits.Connect
}

// failed says why a handshake failed, from what came over the wire rather than
// from the SDK's words.
func (v *visit) failed(ctx context.Context, r *reply, era string, allowed time.Duration, err error) *failure {
	fault, known := registry.AsError(err)
	switch {
	case known && r != nil && r.broken == nil:
		return &failure{fault: fault, final: true} // our own verdict on a complete answer
	case ctx.Err() != nil && r != nil && r.misaddressed():
		// The SDK waits on for the id that it asked with.
		_, fault := r.answer()
		return &failure{fault: fault, late: true}
	case ctx.Err() != nil:
		return &failure{fault: v.pulse.late(ctx, timeout(r, allowed), allowed), late: true}
	case r == nil:
		return &failure{fault: registry.Errorf(registry.ReasonProtocolError, "the handshake could not be made"), final: true}
	case r.status == 0:
		fault := broken(r.broken)
		phase := fault.Fact("phase")
		return &failure{fault: fault, final: phase == "connect" || phase == "dns" || phase == "tls" ||
			fault.Reason == registry.ReasonBlockedAddress || fault.Reason == registry.ReasonTLS}
	}
	m, fault := r.answer()
	if fault != nil {
		return &failure{
			fault: fault, final: isFinal(r.status) || fault.Reason == registry.ReasonTooLarge,
			unknown: r.opening && fault.Reason == registry.ReasonNotMCP,
			older:   r.opening && (r.status == 400 || r.status == 404 || r.status == 405),
		}
	}
	if m.fault != nil {
		return v.refused(m.fault, era)
	}
	if f := v.versionFailure(m, era); f != nil {
		return f
	}
	fault = r.facts(registry.Errorf(registry.ReasonProtocolError, "the answer to the handshake cannot be read"))
	return &failure{fault: fault}
}

// isFinal says whether a status means the same for every request.
func isFinal(status int) bool {
	switch status {
	case 401, 429, 502, 503, 504:
		return true
	}
	return status >= 300 && status <= 399
}

// refused judges a handshake that was answered by a JSON-RPC error.
func (v *visit) refused(f *rpcFault, era string) *failure {
	offers := f.supported()
	switch {
	case f.Code == codeUnsupportedVersion || len(offers) > 0:
		fault := unsupported(offers)
		// A server that offers only versions of the other era says so by that;
		// one that offers none says nothing.
		other := len(offers) == 0 || slices.ContainsFunc(offers, func(o string) bool {
			return EraOf(o) != era && slices.Contains(mcp.SupportedProtocolVersions(), o)
		})
		return &failure{fault: fault, final: !other, unknown: true}
	case f.Code == codeMissingCapability:
		return &failure{final: true, fault: rpcError(registry.ReasonCapabilityRequired, "the handshake is refused", f).
			WithNext("the server needs a client that can do more; it cannot be governed from here")}
	}
	return &failure{
		fault:   rpcError(registry.ReasonProtocolError, "the handshake is refused", f),
		final:   f.Code == codeHeaderMismatch,
		unknown: f.Code == codeMethodNotFound,
		refused: era == EraModern && f.Code != codeHeaderMismatch, // whatever the code: servers disagree
	}
}

// versionFailure finds that the server settled on a version that we do not
// know; nil when that is not what went wrong.
func (v *visit) versionFailure(m message, era string) *failure {
	fields, err := members(m.result, "protocolVersion", "supportedVersions")
	if err != nil {
		return nil
	}
	var offers []string
	if one, ok := text(fields["protocolVersion"]); ok && era == EraLegacy {
		offers = []string{one}
	}
	if era == EraModern {
		_ = json.Unmarshal(fields["supportedVersions"], &offers)
	}
	if len(offers) == 0 || slices.ContainsFunc(offers, func(o string) bool {
		return slices.Contains(mcp.SupportedProtocolVersions(), o) && EraOf(o) == era
	}) {
		return nil
	}
	return v.refused(&rpcFault{Code: codeUnsupportedVersion, Data: mustJSON(map[string]any{"supported": offers})}, era)
}

func mustJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic("mcpclient: " + err.Error()) // only for values made here
	}
	return b
}

func unsupported(offers []string) *registry.Error {
	theirs := "unknown"
	if len(offers) > 0 {
		theirs = outbound.Excerpt(strings.Join(offers, ", "), excerptBytes)
	}
	ours := strings.Join(mcp.SupportedProtocolVersions(), ", ")
	return registry.Errorf(registry.ReasonUnsupportedVersion, "no protocol version in common: the server offers %s, we speak %s", theirs, ours).
		With("offered", theirs).With("supported", ours)
}

// timeout words a handshake that was not complete when its time was over.
func timeout(r *reply, budget time.Duration) *registry.Error {
	switch {
	case r == nil || !r.connected:
		return registry.Errorf(registry.ReasonTimeout, "no connection to the server within %s", budget).With("phase", "connect")
	case r.status == 0:
		return registry.Errorf(registry.ReasonTimeout, "the server did not answer the handshake within %s", budget)
	}
	return r.facts(registry.Errorf(registry.ReasonTimeout, "the server began to answer the handshake and did not go on within %s", budget))
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }
