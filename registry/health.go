package registry

import "time"

// Level is how well a server is.
type Level string

// The levels.
const (
	LevelHealthy   Level = "healthy"
	LevelDegraded  Level = "degraded"
	LevelUnhealthy Level = "unhealthy"
	LevelUnknown   Level = "unknown"
)

// Health is the one answer to "how is it, since when, and who can do what now",
// computed here only, so that every face says the same.
type Health struct {
	Level   Level     `json:"level"`
	Reason  string    `json:"reason"` // a cause, a reason or a status
	Summary string    `json:"summary"`
	Next    string    `json:"next"`
	Who     []Party   `json:"who,omitempty"` // who can do that; none: nobody needs to, or nobody can
	Since   time.Time `json:"since,omitzero"`
	Probing Probing   `json:"probing"`
}

// with says what to do, and who can.
func (h Health) with(r remedy) Health {
	h.Next, h.Who = r.next, r.who
	return h
}

// HealthOf says how a server is. last is its latest probe, nil when it was
// never probed; one of the server as it was reached before says nothing of it.
func HealthOf(s *Server, last *Probe) Health {
	if last != nil && last.TargetDigest != s.TargetDigest {
		last = nil
	}
	h := healthOf(s, last)
	h.Probing = probingOf(s, last)
	if s.State.Probed() && last != nil && last.Flapping() {
		h.Summary += "; it comes and goes, and has to stay well for longer before it counts"
	}
	return h
}

// HealthOfTest says of a test what a probe would have said: how the server is
// that fails for a reason, or well.
func HealthOfTest(reason Reason, message string, tools int, at time.Time) Health {
	if reason == "" {
		h := Health{Level: LevelHealthy, Reason: "ok", Summary: "Handshakes succeed", Since: at, Probing: ProbingDone}
		if tools == 0 {
			h.Reason, h.Summary, h.Probing = "no_tools", "Handshakes succeed; it offers no tools", ProbingEmpty
		}
		return h
	}
	h := Health{Level: LevelUnhealthy, Reason: string(reason), Summary: "Handshakes fail: " + message, Since: at, Probing: ProbingDone}
	switch {
	case reason.ours():
		h.Level, h.Summary, h.Probing = LevelUnknown, "It could not be tried: "+message, ProbingUnknown
	case reason == ReasonRateLimited:
		h.Level, h.Summary, h.Probing = LevelHealthy, "Alive; it asked for fewer requests", ProbingWithheld
	case reason.FaultsList():
		h.Level, h.Summary = LevelDegraded, "The server's lists cannot be read: "+message
	}
	return h.with(remedyOf(reason))
}

func healthOf(s *Server, last *Probe) Health {
	if s.State != StateRetired && s.LaunchPending() {
		return launchHealth(s)
	}
	switch s.State {
	case StateRetired:
		return Health{Level: LevelUnknown, Reason: "retired", Summary: "Retired servers are not watched", Since: s.RetiredAt}
	case StateRegistered:
		return registeredHealth(s)
	case StateVerified:
		return verifiedHealth(s)
	case StateDegraded:
		return degradedHealth(s, last)
	case StateActive:
	}
	return activeHealth(s, last)
}

func verifiedHealth(s *Server) Health {
	if s.Discovery.Status == DiscoveryFailed {
		return undiscoveredHealth(s)
	}
	switch s.Review.Status {
	case ReviewPending:
		return Health{
			Level: LevelHealthy, Reason: "awaiting_approval", Summary: "Discovered; nothing is callable before an approval", Since: s.Review.OpenedAt,
		}.with(remedy{"Review and approve it", byGovernors})
	case ReviewRejected, ReviewExpired:
		return Health{
			Level: LevelHealthy, Reason: "review_" + string(s.Review.Status),
			Summary: "Discovered; the approval request was " + string(s.Review.Status), Since: s.Review.DecidedAt,
		}.with(remedy{"Request a review to open it again", byGovernors})
	case ReviewNone, ReviewApproved:
	}
	return Health{
		Level: LevelHealthy, Reason: "verified", Summary: "Discovered; no approval is pending", Since: s.Discovery.SucceededAt,
	}.with(remedy{"Request a review", byGovernors})
}

func activeHealth(s *Server, last *Probe) Health {
	// A good probe after a discovery that could not shake hands is the newer news.
	mended := last != nil && last.Outcome == OutcomeOK && last.At.After(s.Discovery.FinishedAt) && !s.Discovery.Reason.FaultsList()
	switch {
	case s.Discovery.Status == DiscoveryFailed && !mended:
		return undiscoveredHealth(s)
	case last != nil && last.Outcome == OutcomeFailed: // and yet it is active
		return Health{
			Level: LevelDegraded, Reason: string(last.Reason), Since: last.Since,
			Summary: "Handshakes fail, not yet for long enough to count: " + last.Message,
		}.with(remedyOf(last.Reason))
	case s.Review.Status == ReviewPending:
		return Health{
			Level: LevelHealthy, Reason: "review_pending", Summary: "Working; what changed since the approval waits for a review", Since: s.Review.OpenedAt,
		}.with(remedy{"Review the changes", byGovernors})
	case last == nil:
		return Health{Level: LevelHealthy, Reason: "never_probed", Summary: "Approved and discovered; not probed yet", Since: s.LastHandshakeAt}
	case last.Outcome == OutcomeDependency:
		reason := last.Reason
		if !reason.ours() {
			reason = ReasonDependency
		}
		return Health{
			Level: LevelUnknown, Reason: string(reason), Summary: "The last probe could not be made: " + last.Message, Since: last.Since,
		}.with(remedyOf(reason))
	case last.Outcome == OutcomeDeferred:
		return Health{Level: LevelHealthy, Reason: string(ReasonRateLimited), Summary: "Alive; it asked for fewer requests", Since: last.Since}
	case last.Outcome == OutcomeOK && last.ToolsDigest == emptyList:
		return Health{Level: LevelHealthy, Reason: "no_tools", Summary: "Handshakes succeed; it offers no tools", Since: last.Since}
	}
	return Health{Level: LevelHealthy, Reason: "ok", Summary: "Handshakes succeed", Since: last.Since}
}

func launchHealth(s *Server) Health {
	level := LevelUnknown
	if s.State.Probed() {
		level = LevelDegraded
	}
	return Health{
		Level: level, Reason: string(ReasonLaunchPending), Summary: "Its process is not started before a person approved exactly this command",
		Since: s.UpdatedAt,
	}.with(remedyOf(ReasonLaunchPending))
}

// undiscoveredHealth is that of a discovered server whose last discovery failed.
func undiscoveredHealth(s *Server) Health {
	level := LevelDegraded
	if s.Discovery.Reason.ours() {
		level = LevelUnknown
	}
	r := remedyOf(s.Discovery.Reason)
	r.next += ", then discover it again"
	return Health{
		Level: level, Reason: string(s.Discovery.Reason), Summary: "The last discovery failed: " + s.Discovery.Message, Since: s.Discovery.FinishedAt,
	}.with(r)
}

func registeredHealth(s *Server) Health {
	switch s.Discovery.Status {
	case DiscoveryFailed:
		level := LevelUnhealthy
		if s.Discovery.Reason.ours() {
			level = LevelUnknown
		}
		r := remedyOf(s.Discovery.Reason)
		r.next += "; it is tried again by itself"
		return Health{Level: level, Reason: string(s.Discovery.Reason), Summary: s.Discovery.Message, Since: s.Discovery.FinishedAt}.with(r)
	case DiscoveryRunning:
		return Health{Level: LevelUnknown, Reason: "discovering", Summary: "The first discovery is under way", Since: s.CreatedAt}
	case DiscoveryNever, DiscoverySucceeded:
	}
	return Health{Level: LevelUnknown, Reason: "never_discovered", Summary: "Nobody has met this server yet", Since: s.CreatedAt}
}

func degradedHealth(s *Server, last *Probe) Health {
	cause := s.Causes.Worst()
	h := Health{Level: LevelDegraded, Reason: string(cause), Since: s.UpdatedAt}
	switch cause {
	case CauseHandshake:
		return unreachableHealth(h, last)
	case CauseSuspectEmpty:
		h.Summary = "The list of tools shrank suspiciously: " + s.Discovery.Message
		return h.with(remedy{"A second look decides; or discover it now", byDiscoverers})
	case CauseMalformedList:
		message := s.Discovery.Message
		if last != nil && last.Outcome == OutcomeListFault {
			message = last.Message
		}
		if s.Discovery.Reason == ReasonQuotaExceeded && (last == nil || last.Outcome != OutcomeListFault) {
			h.Summary = "The server's lists are refused: " + message
			r := remedyOf(ReasonQuotaExceeded)
			r.next += "; the next list that fits clears it"
			return h.with(r)
		}
		h.Summary = "The server's lists cannot be read: " + message
		return h.with(remedy{"Mend the server; the next good list clears it", byServer})
	case CauseCapabilityLoss:
		h.Summary = "The server no longer advertises what it did: " + s.Discovery.Message
		return h.with(remedy{"A second look decides; or discover it now", byDiscoverers})
	case CauseServerTextChanged:
		h.Summary = "The server's instructions changed since they were approved"
		return h.with(remedy{"Review and approve them", byGovernors})
	case CauseQuarantined:
		h.Level, h.Summary = LevelUnhealthy, "Somebody quarantined this server"
		return h.with(remedy{"Review and approve it again", byGovernors})
	case CauseAuthExceptionExpired:
		h.Summary = "The exception for no authentication has expired"
		return h.with(remedy{"A platform administrator approves a new one", byAdmins})
	}
	return h
}

// unreachableHealth is that of a server whose handshakes fail, or failed until
// just now.
func unreachableHealth(h Health, last *Probe) Health {
	h.Level, h.Summary = LevelUnhealthy, "Handshakes fail"
	repair := remedy{"Mend the server; it recovers by itself with the next good probe", byServer}
	switch {
	case last == nil:
	case last.Outcome == OutcomeFailed:
		h.Reason, h.Summary, h.Since = string(last.Reason), "Handshakes fail: "+last.Message, last.Since
		repair.who = remedyOf(last.Reason).who
	case last.Outcome == OutcomeOK:
		h.Reason, h.Summary, h.Since = "recovering", "Handshakes succeed again, not yet for long enough to count", last.Since
		repair = remedy{"Nothing: it recovers by itself when the next probes are good", nil}
	}
	return h.with(repair)
}
