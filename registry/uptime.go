package registry

import (
	"slices"
	"time"
)

// Uptime is what the probes of a while say of a server together.
type Uptime struct {
	Probes    int // windows that were recorded
	Good      int // in which the handshake succeeded
	Failed    int // in which it did not, in any attempt
	ListFault int // of the good ones: those whose list of tools could not be read
	Withheld  int // that say nothing about the server: our own side was away, or it asked for patience
	Changes   int // how often it went from good to failed or back
	P50       time.Duration
	P90       time.Duration
	P99       time.Duration // of good probes: handshake and list of tools
}

// Share is how much of what was seen of the server was good, from 0 to 1; false
// when nothing was.
func (u Uptime) Share() (share float64, known bool) {
	seen := u.Good + u.Failed
	if seen == 0 {
		return 0, false
	}
	return float64(u.Good) / float64(seen), true
}

// Flapping says whether the server goes and comes more than it stays: its state
// changed at least four times, and in at least every tenth window.
func (u Uptime) Flapping() bool { return u.Changes >= 4 && u.Changes*10 >= u.Good+u.Failed }

// UptimeOf sums probes up, whatever their order in time is, if it is one.
func UptimeOf(probes []Probe) Uptime {
	u := Uptime{Probes: len(probes)}
	var (
		took        []time.Duration
		known, last bool
	)
	for i := range probes {
		var good bool
		switch probes[i].Outcome {
		case OutcomeOK, OutcomeListFault:
			good = true
			u.Good++
			took = append(took, probes[i].Duration)
			if probes[i].Outcome == OutcomeListFault {
				u.ListFault++
			}
		case OutcomeFailed:
			u.Failed++
		case OutcomeDependency, OutcomeDeferred:
			u.Withheld++
			continue
		}
		if known && good != last {
			u.Changes++
		}
		known, last = true, good
	}
	slices.Sort(took)
	u.P50, u.P90, u.P99 = percentile(took, 50), percentile(took, 90), percentile(took, 99)
	return u
}

// percentile is the least of the sorted values that at least so many percent of
// them do not exceed (nearest rank); 0 of none.
func percentile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*percent+99)/100-1]
}
