package registry

import "time"

// Outcome is what one probe window said of one server (R141–R146).
type Outcome string

// The outcomes.
const (
	OutcomeOK         Outcome = "ok"
	OutcomeFailed     Outcome = "failed"           // the handshake failed in every attempt of the window
	OutcomeListFault  Outcome = "list_fault"       // the handshake is fine, the tools list is not
	OutcomeDependency Outcome = "dependency_error" // our own side is away: says nothing about the server
	OutcomeDeferred   Outcome = "deferred"         // the server asked for patience (429): changes nothing
)

// Probe is one server in one window.
type Probe struct {
	TenantID        string        `json:"tenantId" bun:"tenant_id"`
	ServerID        string        `json:"serverId" bun:"server_id,pk"`
	Window          time.Time     `json:"window" bun:"probe_window,pk"`
	Outcome         Outcome       `json:"outcome" bun:"outcome"`
	Reason          Reason        `json:"reason" bun:"reason"`
	Message         string        `json:"message" bun:"message"`
	Attempts        int           `json:"attempts" bun:"attempts"`
	ProtocolVersion string        `json:"protocolVersion" bun:"protocol_version"`
	ServerVersion   string        `json:"serverVersion,omitempty" bun:"server_version"` // that the server gives itself
	TargetDigest    string        `json:"targetDigest" bun:"target_digest"`             // that it was seen under
	ToolsDigest     string        `json:"toolsDigest" bun:"tools_digest"`
	Duration        time.Duration `json:"duration" bun:"duration_ns"`
	At              time.Time     `json:"at" bun:"probed_at"`
	Era             string        `json:"-" bun:"-"`                     // how it shook hands, to be remembered; empty when it did not
	Since           time.Time     `json:"since" bun:"same_since"`        // the first of an unbroken row with this outcome and reason
	Differing       []string      `json:"-" bun:"-"`                     // bound tools that it saw otherwise than approved
	Streak          int           `json:"streak,omitempty" bun:"streak"` // windows in a row: good ones, or, below 0, failed ones
	Flaps           int           `json:"flaps,omitempty" bun:"flaps"`   // how much it went and came of late, see [Probe.Flapping]
	Held            bool          `json:"held,omitempty" bun:"-"`        // too young to say anything about the handshake, see [Hysteresis]
	RetryAfter      time.Duration `json:"-" bun:"-"`                     // that the server asked for
}

// Standing says since when the probe's outcome stands, given the probe before.
func (p Probe) Standing(last *Probe) time.Time {
	if last != nil && last.Outcome == p.Outcome && last.Reason == p.Reason && !last.Since.IsZero() {
		return last.Since
	}
	return p.At
}

// LastHandshake is when the server was last met: by a discovery, or by its last
// probe (R8).
func LastHandshake(s *Server, last *Probe) time.Time {
	if last != nil && (last.Outcome == OutcomeOK || last.Outcome == OutcomeListFault) && last.At.After(s.LastHandshakeAt) {
		return last.At
	}
	return s.LastHandshakeAt
}

// Changes says whether the probe tells the server something new; only then is
// its workflow bothered.
func (p Probe) Changes(s *Server) bool {
	if !s.State.Probed() || p.TargetDigest != s.TargetDigest {
		return false
	}
	switch p.Outcome {
	case OutcomeFailed:
		return !s.Causes.Has(CauseHandshake) && !p.Held
	case OutcomeListFault:
		return s.Causes.Has(CauseHandshake) && !p.Held || !s.Causes.Has(CauseMalformedList)
	case OutcomeOK:
		return s.Causes.Has(CauseHandshake) && !p.Held || p.WantsDiscovery(s)
	case OutcomeDependency, OutcomeDeferred:
		return false
	}
	return false
}

// WantsDiscovery says whether a good probe saw something that a discovery has
// to look at (C1, R41): another list, or any list while a cause or a doubt stands
// that only a discovery clears.
func (p Probe) WantsDiscovery(s *Server) bool {
	return p.Outcome == OutcomeOK && s.State.Probed() && p.TargetDigest == s.TargetDigest &&
		(p.ToolsDigest != s.ToolsDigest || s.Causes.NeedsDiscovery() || s.Doubted)
}

// Probed applies a probe's outcome: it may take callability away, and give back
// only what the cause handshake took (R148, C3).
func (r *Record) Probed(p Probe) error {
	s := &r.Server
	if !s.State.Probed() || p.TargetDigest != s.TargetDigest {
		r.note("probe dropped: stale")
		return nil
	}
	shaken := s.Causes.Without(CauseHandshake)
	if p.Held {
		shaken = s.Causes
	}
	switch p.Outcome {
	case OutcomeFailed:
		if !p.Held {
			s.Causes = s.Causes.With(CauseHandshake)
		}
	case OutcomeListFault:
		s.Causes = shaken.With(CauseMalformedList)
	case OutcomeOK:
		s.Causes = shaken
		if p.ToolsDigest != s.ToolsDigest {
			r.doubt(p.Differing)
		}
	case OutcomeDependency, OutcomeDeferred:
		return nil
	}
	if p.Outcome != OutcomeFailed {
		s.LastHandshakeAt = p.At
		if p.ProtocolVersion != "" {
			s.ProtocolVersion = p.ProtocolVersion
		}
	}
	r.observe()
	r.note("probe: " + string(p.Outcome))
	return s.settle()
}
