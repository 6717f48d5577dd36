package registry

import "time"

// Bounds of the patience with servers that keep a sweep waiting.
const (
	// slowAnswer is the time of a probe from which on its server is slow.
	slowAnswer = 2 * time.Second
	// longestRest is how long a server is left alone at most, whatever it asks for.
	longestRest = time.Hour
)

// Slow says whether the server keeps a sweep waiting, so that the others must
// not stand in line behind it: it hung, or took long to answer.
func (p Probe) Slow() bool {
	if p.Outcome == OutcomeFailed {
		return p.Reason == ReasonTimeout || p.Reason == ReasonSlow || p.Duration >= slowAnswer
	}
	return p.Duration >= slowAnswer
}

// NotBefore is when the server may be probed again; zero: in the next window. A
// server that asks for patience gets it (Retry-After), and one that hangs in
// every window is met in every second from the third on, in every fourth from
// the sixth.
func (p Probe) NotBefore(interval time.Duration) time.Time {
	var rest time.Duration
	if p.RetryAfter > 0 {
		rest = p.At.Add(min(p.RetryAfter, longestRest)).Sub(p.Window)
	}
	if p.Outcome == OutcomeFailed && p.Slow() {
		switch {
		case p.Streak <= -6:
			rest = max(rest, min(4*interval, longestRest))
		case p.Streak <= -3:
			rest = max(rest, min(2*interval, longestRest))
		}
	}
	if rest <= interval {
		return time.Time{}
	}
	return p.Window.Add(rest)
}
