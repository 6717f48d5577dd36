package mcpclient

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"countersign/outbound"
	"countersign/registry"
)

// Client meets servers. Its fields are set before the first call and not
// changed after.
type Client struct {
	// Guard decides what may be dialled.
	Guard *outbound.Guard
	// Limits is asked once at the start of every call, so changed limits count
	// from the next call on.
	Limits func() registry.Limits
	// AskBare has discoveries over HTTP ask servers that claim an authentication
	// without any first (R22). One that answers has the quirk auth_not_enforced.
	AskBare bool
	// Name and Version are what servers are told about us; "countersign" and
	// "0" when empty.
	Name, Version string
	// Commands gives the command of a target of the transport stdio: allowed,
	// approved, its secrets resolved. Nil means that no processes are started.
	Commands func(context.Context, registry.Target) (Command, error)
	// Credentials gives the credential of a target that is reached over HTTP; nil,
	// or a nil answer: none.
	Credentials func(context.Context, registry.Target) (Credential, error)
	// Transport says how a target is reached over HTTP, besides what the target
	// itself says; nil: in the usual way.
	Transport func(context.Context, registry.Target) (Transport, error)
	// Processes is how many processes run at once; 4 when 0. Further calls wait.
	Processes int
	// Keeper keeps the processes; nil: each ends with us, and that is all.
	Keeper *Keeper

	once  sync.Once
	slots chan struct{}
}

// The eras of the protocol, as callers keep them per server. The empty string
// means that nothing is known.
const (
	EraModern = "modern"     // server/discover, 2026-07-28 and later
	EraLegacy = "legacy"     // initialize, 2025-11-25 and older
	EraSSE    = "legacy-sse" // initialize over HTTP+SSE, the transport of 2024-11-05
)

// modernVersion is the first revision without initialize, legacyVersion the
// last with it.
const (
	modernVersion = "2026-07-28"
	legacyVersion = "2025-11-25"
)

// EraOf gives the era of a protocol revision, whatever the transport.
func EraOf(protocolVersion string) string {
	switch {
	case protocolVersion == "":
		return ""
	case protocolVersion >= modernVersion:
		return EraModern
	}
	return EraLegacy
}

// ProbeResult is what a probe saw. When the probe failed it holds what was
// learnt before: with a protocol version, the handshake was fine.
type ProbeResult struct {
	// Surface has the tools (all of them or none), what the handshake told, and
	// no other list.
	registry.Surface
	Era      string
	Listed   bool          // the tools list was asked for and read to its end
	Duration time.Duration // handshake and list, without the goodbye
	Steps    []Step
}

// Discover shakes hands and reads every list that the server advertises. The
// era is what is known from last time, "" if nothing; the report has the era to
// remember. progress, unless nil, is told each step as it begins; it must not
// block.
//
// It takes at most Limits.Connect for the handshake, Limits.Lists for all lists
// together and 5 s for the goodbye, and before them, with credentials, at most
// 10 s (or Limits.Connect) for these, and at most Limits.Connect for asking
// without any ([Client.AskBare]). A surface comes whole or not at all. When the
// server wants credentials, at most 5 s more go into what it says about them.
func (c *Client) Discover(ctx context.Context, target registry.Target, era string, progress func(step string)) (registry.Surface, Report, error) {
	v, err := c.visit(ctx, target, progress)
	if err != nil {
		return registry.Surface{}, Report{}, err
	}
	defer v.leave()
	open := c.AskBare && claims(target) && (!v.armed() || v.answersBare(ctx, era))
	surface, err := v.meet(ctx, era, true)
	switch {
	case err != nil:
		surface = registry.Surface{}
	case open:
		surface.Quirks = append(surface.Quirks, registry.QuirkAuthNotEnforced)
		slices.Sort(surface.Quirks)
	}
	if e, known := registry.AsError(err); known && e.Reason == registry.ReasonAuthRequired && v.http != nil {
		v.describe(ctx, e)
	}
	return surface, v.diary.report(), err
}

// Probe shakes hands and reads the tools list, as a look at a server's health
// and drift. Bounds are those of [Client.Discover], but nothing is asked about
// credentials.
func (c *Client) Probe(ctx context.Context, target registry.Target, era string) (ProbeResult, error) {
	v, err := c.visit(ctx, target, nil)
	if err != nil {
		return ProbeResult{}, err
	}
	defer v.leave()
	surface, err := v.meet(ctx, era, false)
	report := v.diary.report()
	return ProbeResult{
		Surface: surface, Era: report.Era, Listed: v.listed, Duration: report.Duration, Steps: report.Steps,
	}, err
}

// Transport is how one server is reached.
type Transport struct {
	AllowNetworks []netip.Prefix    // may be dialled, besides what the guard allows
	RootCAs       *x509.CertPool    // that are trusted; nil: the guard's
	Certificates  []tls.Certificate // ours, for a server that asks
}

// visit is one call's meeting with one server.
type visit struct {
	guard   *outbound.Guard
	target  registry.Target
	limits  registry.Limits
	command *Command     // of the transport stdio; else nil
	keeper  *Keeper      // of the processes
	http    *http.Client // of this visit only, nil for a command; its total of bytes is the visit's
	way     Transport
	badge   *badge // what the client authorises requests with; nil: nothing
	self    *mcp.Implementation
	agent   string
	diary   *diary
	pulse   *pulse
	listed  bool   // the tools list was read
	leave   func() // gives back what the visit holds
}

func (c *Client) visit(ctx context.Context, target registry.Target, progress func(string)) (*visit, error) {
	name, version := cmp.Or(c.Name, "countersign"), cmp.Or(c.Version, "0")
	v := &visit{
		guard:  c.Guard,
		target: target,
		limits: c.Limits(),
		self:   &mcp.Implementation{Name: name, Version: version},
		agent:  name + "/" + version,
		diary:  newDiary(progress),
		pulse:  newPulse(),
		leave:  func() {},
	}
	switch {
	case target.Transport == registry.TransportStdio && c.Commands != nil:
		if err := c.prepare(ctx, v); err != nil {
			return nil, err
		}
		return v, nil
	case target.Transport != registry.TransportStreamableHTTP:
		return nil, registry.Errorf(registry.ReasonTransportUnsupported, "servers of the transport %q cannot be reached from here", target.Transport)
	}
	if err := registry.CheckEndpoint(target.URL); err != nil {
		return nil, err
	}
	if err := registry.CheckDialAddress(target.DialAddress); err != nil {
		return nil, err
	}
	badge, err := c.badge(ctx, target)
	if err != nil {
		return nil, err
	}
	if c.Transport != nil {
		if v.way, err = c.Transport(ctx, target); err != nil {
			return nil, err
		}
	}
	v.badge, v.diary.mask = badge, badge.text
	v.http = v.authorize(v.client(v.limits.PageBytes))
	v.leave = v.http.CloseIdleConnections
	return v, nil
}

// prepare makes a visit one to a process, when one may be started.
func (c *Client) prepare(ctx context.Context, v *visit) error {
	command, err := c.Commands(ctx, v.target)
	if err != nil {
		return err
	}
	if fault := command.check(); fault != nil {
		return fault
	}
	release, err := c.slot(ctx)
	if err != nil {
		return err
	}
	v.command, v.keeper, v.leave = &command, c.Keeper, release
	v.limits.Connect = cmp.Or(command.Start, startTime)
	return nil
}

// client gives an HTTP client for the target, with connections and a total of
// bytes of its own, and a limit on one response. It knows no credentials.
func (v *visit) client(responseBytes int64) *http.Client {
	client := v.guard.Client(outbound.ClientOptions{
		DialAddress:    v.target.DialAddress,
		AllowNetworks:  v.way.AllowNetworks,
		RootCAs:        v.way.RootCAs,
		Certificates:   v.way.Certificates,
		ConnectTimeout: min(v.limits.Connect, 5*time.Second),
		ResponseBytes:  responseBytes,
		TotalBytes:     v.limits.TotalBytes,
	})
	client.Transport = &heard{base: client.Transport, pulse: v.pulse}
	return client
}

// meet shakes hands, reads the lists and says goodbye. The surface is good only
// as far as there is no error; after a failed list it holds the handshake.
func (v *visit) meet(ctx context.Context, era string, all bool) (registry.Surface, error) {
	if fault := v.show(ctx); fault != nil {
		return registry.Surface{}, v.verdict(ctx, fault)
	}
	s, fault := v.handshake(ctx, era)
	if fault != nil {
		return registry.Surface{}, v.verdict(ctx, fault)
	}
	defer func() { s.close() }()
	v.diary.met(s.surface.ProtocolVersion, s.era)
	lists, cancel := context.WithTimeout(ctx, v.limits.Lists)
	defer cancel()
	fault = v.readLists(lists, s, all)
	if fault != nil && s.lost != nil && s.lost() {
		s, fault = v.again(lists, s, all, fault)
	}
	if fault != nil {
		return s.surface, v.verdict(ctx, fault)
	}
	v.diary.end()
	return s.surface, nil
}

// again shakes hands once more with a server that has forgotten the session,
// as it does when it is restarted, and reads the lists from the start. It all
// has to fit into the time of the lists.
func (v *visit) again(ctx context.Context, lost *session, all bool, why *registry.Error) (*session, *registry.Error) {
	s, fault := v.handshake(ctx, lost.era)
	if fault != nil {
		return lost, why
	}
	lost.close()
	v.listed = false
	v.diary.met(s.surface.ProtocolVersion, s.era)
	return s, v.readLists(ctx, s, all)
}

// verdict is the error that leaves the room: the caller's own end comes before
// anything that it made the server look like, and so does what was wrong with our
// credentials.
func (v *visit) verdict(ctx context.Context, fault *registry.Error) error {
	v.diary.end()
	if ctx.Err() != nil {
		return registry.Errorf(registry.ReasonDeadline, "the call was stopped before the server had answered: %w", ctx.Err())
	}
	if own := v.badge.failed(); own != nil {
		fault = own
	}
	return advise(v.badge.masked(v.badge.refused(fault)))
}
