package registry

// Hysteresis says how long an outcome must stand before it counts. It bears on
// the cause handshake alone: what a probe says about lists counts at once.
type Hysteresis struct {
	DegradeAfter int // failed windows in a row that degrade a server; 1 when 0
	RecoverAfter int // good windows in a row after which it is well again; 1 when 0
}

// The measure of flapping: each turn from good to failed or back charges a
// server, each window without one relieves it.
const (
	flapCharge = 4
	flapLimit  = 12 // from here on it flaps: three turns in a short while
	flapMost   = 16 // no more is remembered
	flapSteady = 3  // good windows in a row that a flapping server needs to recover
)

// Flapping says whether the server went and came again and again of late. One
// that does has to stay well for longer before it recovers.
func (p Probe) Flapping() bool { return p.Flaps >= flapLimit }

// met says whether the probe saw the server, and how it was.
func (p Probe) met() (good, known bool) {
	switch p.Outcome {
	case OutcomeOK, OutcomeListFault:
		return true, true
	case OutcomeFailed:
		return false, true
	case OutcomeDependency, OutcomeDeferred:
	}
	return false, false
}

// Following puts the probe behind the one before it: since when its outcome
// stands, for how many windows, and how often that turned. A window that says
// nothing about the server leaves the count as it was.
func (p Probe) Following(last *Probe) Probe {
	p.Since = p.Standing(last)
	if last != nil {
		p.Streak, p.Flaps = last.Streak, last.Flaps
	}
	good, known := p.met()
	switch {
	case !known:
		return p
	case p.Streak != 0 && good != (p.Streak > 0):
		p.Streak, p.Flaps = 0, min(p.Flaps+flapCharge, flapMost)
	default:
		p.Flaps = max(p.Flaps-1, 0)
	}
	if good {
		p.Streak++
	} else {
		p.Streak--
	}
	return p
}

// Holds says whether the probe's outcome is too young to change what is said of
// the handshake. Failures that waiting does not mend count at once.
func (h Hysteresis) Holds(p *Probe) bool {
	good, known := p.met()
	switch {
	case !known || p.Streak == 0:
		return false
	case !good:
		return !p.Reason.Lasting() && -p.Streak < h.DegradeAfter
	}
	return p.Streak < h.recovery(p)
}

// recovery is how many good windows in a row a server needs.
func (h Hysteresis) recovery(p *Probe) int {
	if p.Flapping() {
		return max(h.RecoverAfter, flapSteady)
	}
	return max(h.RecoverAfter, 1)
}

// Lasting says whether a second attempt at a handshake would say the same.
func (r Reason) Lasting() bool {
	return r == ReasonAuthRequired || r == ReasonCommandChanged || r == ReasonUnknownCommand
}
