package registry

import "slices"

// State is where a server stands in its life (R2). There are no others:
// "waiting for approval" is a fact of the review, not a state.
type State string

// The states.
const (
	StateRegistered State = "registered" // known, never shaken hands with successfully
	StateVerified   State = "verified"   // handshake and discovery succeeded; nothing is callable
	StateActive     State = "active"     // approved; bound and enabled tools are callable
	StateDegraded   State = "degraded"   // was active, and has causes why it is not now
	StateRetired    State = "retired"    // for ever
)

// States lists all states in the order of life.
func States() []State {
	return []State{StateRegistered, StateVerified, StateActive, StateDegraded, StateRetired}
}

// moves lists every legal step. A state that maps to nothing is final. The
// edges to retired from registered and verified are for withdrawal and
// revocation only (C7).
var moves = map[State][]State{
	StateRegistered: {StateVerified, StateRetired},
	StateVerified:   {StateActive, StateRetired},
	StateActive:     {StateDegraded, StateRetired},
	StateDegraded:   {StateActive, StateRetired},
	StateRetired:    nil,
}

// CanMove says whether a server may go from one state to another.
func CanMove(from, to State) bool { return slices.Contains(moves[from], to) }

// Probed says whether servers of this state are probed (R140, R143).
func (s State) Probed() bool { return s == StateActive || s == StateDegraded }

// move takes the server to another state, or says why it may not.
func (s *Server) move(to State) error {
	if !CanMove(s.State, to) {
		return Errorf(ReasonIllegalTransition, "server %s is %s and cannot become %s", s.Name, s.State, to)
	}
	s.State = to
	return nil
}
