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

// Health is the one answer to "how is it, and what now", computed here only, so
// that every face says the same.
type Health struct {
	Level   Level     `json:"level"`
	Reason  string    `json:"reason"` // a cause, a reason or a status
	Summary string    `json:"summary"`
	Next    string    `json:"next"`
	Since   time.Time `json:"since,omitzero"`
}

// HealthOf says how a server is. last is its latest probe, nil when it was
// never probed.
func HealthOf(s *Server, last *Probe) Health {
	if s.State != StateRetired && s.LaunchPending() {
		return launchHealth(s)
	}
	switch s.State {
	case StateRetired:
		return Health{LevelUnknown, "retired", "Retired servers are not watched", "", s.RetiredAt}
	case StateRegistered:
		return registeredHealth(s)
	case StateVerified:
		if s.Discovery.Status == DiscoveryFailed {
			return undiscoveredHealth(s)
		}
		switch s.Review.Status {
		case ReviewPending:
			return Health{LevelHealthy, "awaiting_approval", "Discovered; nothing is callable before an approval", "Review and approve it", s.Review.OpenedAt}
		case ReviewRejected, ReviewExpired:
			return Health{LevelHealthy, "review_" + string(s.Review.Status), "Discovered; the approval request was " + string(s.Review.Status), "Request a review to open it again", s.Review.DecidedAt}
		case ReviewNone, ReviewApproved:
		}
		return Health{LevelHealthy, "verified", "Discovered; no approval is pending", "Request a review", s.Discovery.SucceededAt}
	case StateDegraded:
		return degradedHealth(s, last)
	case StateActive:
	}
	// A good probe after a discovery that could not shake hands is the newer news.
	mended := last != nil && last.Outcome == OutcomeOK && last.At.After(s.Discovery.FinishedAt) && !s.Discovery.Reason.FaultsList()
	switch {
	case s.Discovery.Status == DiscoveryFailed && !mended:
		return undiscoveredHealth(s)
	case s.Review.Status == ReviewPending:
		return Health{LevelHealthy, "review_pending", "Working; what changed since the approval waits for a review", "Review the changes", s.Review.OpenedAt}
	case last == nil:
		return Health{LevelHealthy, "never_probed", "Approved and discovered; not probed yet", "", s.LastHandshakeAt}
	case last.Outcome == OutcomeDependency:
		reason := last.Reason
		if !reason.ours() {
			reason = ReasonDependency
		}
		return Health{LevelUnknown, string(reason), "The last probe could not be made: " + last.Message, advice(reason), last.Since}
	case last.Outcome == OutcomeDeferred:
		return Health{LevelHealthy, string(ReasonRateLimited), "Alive; it asked for fewer requests", "", last.Since}
	}
	return Health{LevelHealthy, "ok", "Handshakes succeed", "", last.Since}
}

func launchHealth(s *Server) Health {
	level := LevelUnknown
	if s.State.Probed() {
		level = LevelDegraded
	}
	return Health{
		level, string(ReasonLaunchPending), "Its process is not started before a person approved exactly this command",
		"A platform administrator approves the launch", s.UpdatedAt,
	}
}

// undiscoveredHealth is that of a discovered server whose last discovery failed.
func undiscoveredHealth(s *Server) Health {
	level := LevelDegraded
	if s.Discovery.Reason.ours() {
		level = LevelUnknown
	}
	return Health{
		level, string(s.Discovery.Reason), "The last discovery failed: " + s.Discovery.Message,
		advice(s.Discovery.Reason) + ", then discover it again", s.Discovery.FinishedAt,
	}
}

func registeredHealth(s *Server) Health {
	switch s.Discovery.Status {
	case DiscoveryFailed:
		level := LevelUnhealthy
		if s.Discovery.Reason.ours() {
			level = LevelUnknown
		}
		return Health{level, string(s.Discovery.Reason), s.Discovery.Message, advice(s.Discovery.Reason) + "; it is tried again by itself", s.Discovery.FinishedAt}
	case DiscoveryRunning:
		return Health{LevelUnknown, "discovering", "The first discovery is under way", "", s.CreatedAt}
	case DiscoveryNever, DiscoverySucceeded:
	}
	return Health{LevelUnknown, "never_discovered", "Nobody has met this server yet", "", s.CreatedAt}
}

func degradedHealth(s *Server, last *Probe) Health {
	cause := s.Causes.Worst()
	h := Health{Level: LevelDegraded, Reason: string(cause), Since: s.UpdatedAt}
	switch cause {
	case CauseHandshake:
		h.Level, h.Summary, h.Next = LevelUnhealthy, "Handshakes fail", "Mend the server; it recovers by itself with the next good probe"
		if last != nil && last.Outcome == OutcomeFailed {
			h.Reason, h.Summary, h.Since = string(last.Reason), "Handshakes fail: "+last.Message, last.Since
		}
	case CauseSuspectEmpty:
		h.Summary, h.Next = "The list of tools shrank suspiciously: "+s.Discovery.Message, "A second look decides; or discover it now"
	case CauseMalformedList:
		message := s.Discovery.Message
		if last != nil && last.Outcome == OutcomeListFault {
			message = last.Message
		}
		h.Summary, h.Next = "The server's lists cannot be read: "+message, "Mend the server; the next good list clears it"
		if s.Discovery.Reason == ReasonQuotaExceeded && (last == nil || last.Outcome != OutcomeListFault) {
			h.Summary, h.Next = "The server's lists are refused: "+message, advice(ReasonQuotaExceeded)+"; the next list that fits clears it"
		}
	case CauseCapabilityLoss:
		h.Summary, h.Next = "The server no longer advertises what it did: "+s.Discovery.Message, "A second look decides; or discover it now"
	case CauseServerTextChanged:
		h.Summary, h.Next = "The server's instructions changed since they were approved", "Review and approve them"
	case CauseQuarantined:
		h.Level, h.Summary, h.Next = LevelUnhealthy, "Somebody quarantined this server", "Review and approve it again"
	case CauseAuthExceptionExpired:
		h.Summary, h.Next = "The exception for no authentication has expired", "A platform administrator approves a new one"
	}
	return h
}

// advice is what people can do about a server that cannot be discovered.
func advice(reason Reason) string {
	switch reason { //nolint:exhaustive // the others have nothing better than the last line
	case ReasonBlockedAddress:
		return "Give it an address that may be dialled, or have the operator add its network to outbound.allow_networks"
	case ReasonAuthRequired, ReasonForbidden:
		return "Register it with the authentication that it asks for"
	case ReasonTLS:
		return "Renew its certificate, or use the name that the certificate is for"
	case ReasonUnknownCommand:
		return "Have the operator put the command back on the allow-list, or take another one"
	case ReasonCommandChanged:
		return "Take the command as it is now and approve its launch"
	case ReasonProcessLimit:
		return "Look at what the server does; if it needs that much, have the operator raise the limits of its command"
	case ReasonSandboxUnavailable:
		return "Have the operator install bubblewrap where the worker runs"
	case ReasonSlow, ReasonTimeout:
		return "Make the server answer faster, or have the operator raise handshake_timeout_seconds"
	case ReasonDNS:
		return "Correct the host name"
	case ReasonNotMCP, ReasonRedirected:
		return "Correct the URL: it must be the MCP endpoint itself"
	case ReasonUnsupportedVersion:
		return "Bring the server to a protocol version that both speak"
	case ReasonQuotaExceeded:
		return "Retire servers that nobody needs, or have the operator raise the tenant's quota"
	case ReasonTooLarge, ReasonTooMany, ReasonCursorLoop, ReasonMalformedList, ReasonListFailed, ReasonProtocolError:
		return "Mend the server's answers"
	case ReasonDependency:
		return "See that the secret store and the connection's issuer answer; the server is not at fault"
	case ReasonSecretRefUnresolved:
		return "Have the operator put the secret where its reference says"
	}
	if reason.ours() {
		return "Correct the connection, or what its issuer knows of it; the server is not at fault"
	}
	return "Mend the server or its address"
}
