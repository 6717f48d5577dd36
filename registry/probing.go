package registry

// Probing is what probes know of a server. That nobody looked, that nobody is to
// look, that a look told nothing, that what it told does not count yet, and that
// there was nothing to be seen are different answers.
type Probing string

// What probes know.
const (
	ProbingDone     Probing = "probed"       // the last probe says how the server is
	ProbingNever    Probing = "never_probed" // it is to be probed, and was not yet as it is reached now
	ProbingNot      Probing = "not_probed"   // servers of its state are not (R143), nor is one whose launch nobody approved
	ProbingUnknown  Probing = "unknown"      // the last probe could not be made, for a reason of our own side (R146)
	ProbingWithheld Probing = "withheld"     // what the last probe saw does not count: patience was asked for, or it must be seen again
	ProbingEmpty    Probing = "empty"        // the server answers well, and offers no tools
)

// Probings lists all of them.
func Probings() []Probing {
	return []Probing{ProbingDone, ProbingNever, ProbingNot, ProbingUnknown, ProbingWithheld, ProbingEmpty}
}

// Means is one sentence for people.
func (p Probing) Means() string {
	switch p {
	case ProbingDone:
		return "the last probe says how it is"
	case ProbingNever:
		return "not probed yet as it is reached now; the next window does it"
	case ProbingNot:
		return "not probed: servers of its state are not"
	case ProbingUnknown:
		return "the last probe could not be made, for a reason of our own side"
	case ProbingWithheld:
		return "what the last probe saw does not count yet"
	case ProbingEmpty:
		return "it answers, and offers no tools"
	}
	return ""
}

// emptyList is the digest of a list of no tools.
var emptyList = (&Snapshot{}).ToolsDigest()

// probingOf says what probes know of a server; last is the latest one of it as
// it is reached now, nil when there is none.
func probingOf(s *Server, last *Probe) Probing {
	switch {
	case !s.State.Probed() || s.LaunchPending():
		return ProbingNot
	case last == nil:
		return ProbingNever
	}
	switch last.Outcome {
	case OutcomeDependency:
		return ProbingUnknown
	case OutcomeDeferred:
		return ProbingWithheld
	case OutcomeFailed:
		if !s.Causes.Has(CauseHandshake) {
			return ProbingWithheld
		}
	case OutcomeOK, OutcomeListFault:
		if s.Causes.Has(CauseHandshake) {
			return ProbingWithheld
		}
		if last.Outcome == OutcomeOK && last.ToolsDigest == emptyList {
			return ProbingEmpty
		}
	}
	return ProbingDone
}
