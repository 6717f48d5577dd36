package registry

import "slices"

// Cause is one reason why an active server is degraded (design.md §1). Each
// names what clears it.
type Cause string

// The causes.
const (
	CauseHandshake            Cause = "handshake"              // cleared by a good probe
	CauseSuspectEmpty         Cause = "suspect_empty"          // cleared by a discovery
	CauseMalformedList        Cause = "malformed_list"         // cleared by a discovery
	CauseCapabilityLoss       Cause = "capability_loss"        // cleared by a discovery
	CauseServerTextChanged    Cause = "server_text_changed"    // cleared by an approval
	CauseQuarantined          Cause = "quarantined"            // cleared by an approval
	CauseAuthExceptionExpired Cause = "auth_exception_expired" // cleared by a new exception
)

// Causes lists all causes, worst first: the first one standing is the headline
// of the server's health.
func Causes() []Cause {
	return []Cause{
		CauseQuarantined, CauseAuthExceptionExpired, CauseHandshake, CauseSuspectEmpty, CauseMalformedList,
		CauseCapabilityLoss, CauseServerTextChanged,
	}
}

// NeedsDiscovery says whether only a discovery clears the cause; while one of
// these stands every well-formed list that a probe sees starts one.
func (c Cause) NeedsDiscovery() bool {
	return c == CauseSuspectEmpty || c == CauseMalformedList || c == CauseCapabilityLoss
}

// CauseSet is a sorted set of causes.
type CauseSet []Cause

// Has says whether the cause stands.
func (s CauseSet) Has(c Cause) bool { return slices.Contains(s, c) }

// With gives the set with the cause.
func (s CauseSet) With(c Cause) CauseSet {
	if s.Has(c) {
		return s
	}
	out := append(slices.Clone(s), c)
	slices.Sort(out)
	return out
}

// Without gives the set without the causes.
func (s CauseSet) Without(gone ...Cause) CauseSet {
	return slices.DeleteFunc(slices.Clone(s), func(c Cause) bool { return slices.Contains(gone, c) })
}

// Worst gives the headline cause, or "" when none stands.
func (s CauseSet) Worst() Cause {
	for _, c := range Causes() {
		if s.Has(c) {
			return c
		}
	}
	return ""
}

// NeedsDiscovery says whether a cause stands that only a discovery clears.
func (s CauseSet) NeedsDiscovery() bool { return slices.ContainsFunc(s, Cause.NeedsDiscovery) }

// settle moves an active or degraded server to the state its causes demand.
func (s *Server) settle() error {
	switch {
	case s.State == StateActive && len(s.Causes) > 0:
		return s.move(StateDegraded)
	case s.State == StateDegraded && len(s.Causes) == 0:
		return s.move(StateActive)
	}
	return nil
}
