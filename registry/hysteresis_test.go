package registry_test

import (
	"testing"
	"time"

	"countersign/registry"
)

// row puts outcomes behind each other: g good, f failed, - says nothing.
func row(outcomes string) (last registry.Probe) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	var before *registry.Probe
	for i, c := range outcomes {
		p := registry.Probe{Outcome: registry.OutcomeOK, At: at.Add(time.Duration(i) * time.Minute)}
		switch c {
		case 'f':
			p.Outcome, p.Reason = registry.OutcomeFailed, registry.ReasonTimeout
		case '-':
			p.Outcome = registry.OutcomeDependency
		}
		last = p.Following(before)
		kept := last
		before = &kept
	}
	return last
}

func TestARowOfOutcomesIsCounted(t *testing.T) {
	t.Parallel()
	for outcomes, want := range map[string]struct {
		streak   int
		flapping bool
	}{
		"g": {1, false}, "f": {-1, false}, "-": {0, false}, "ggg": {3, false}, "gf": {-1, false}, "gff-f": {-3, false}, "f--g": {1, false},
		"gfg": {1, false}, "gfgf": {-1, true}, "gfgfg": {1, true}, "gfgfggg": {3, true}, "gfgfgggggg": {6, false}, "gfggggggggf": {-1, false},
	} {
		if p := row(outcomes); p.Streak != want.streak || p.Flapping() != want.flapping {
			t.Errorf("%s: streak %d, flaps %d", outcomes, p.Streak, p.Flaps)
		}
	}
}

func TestAnOutcomeHasToStand(t *testing.T) {
	t.Parallel()
	h := registry.Hysteresis{DegradeAfter: 3, RecoverAfter: 2}
	for outcomes, held := range map[string]bool{
		"f": true, "ff": true, "fff": false, "ff-": false, "gf": true, "g": true, "gg": false, "fffg": true, "fffgg": false,
	} {
		if p := row(outcomes); h.Holds(&p) != held {
			t.Errorf("%s: held %v", outcomes, !held)
		}
	}
	for outcomes, held := range map[string]bool{"f": false, "gf": false, "fg": false, "gfgfg": true, "gfgfgg": true, "gfgfggg": false} {
		if p := row(outcomes); (registry.Hysteresis{}).Holds(&p) != held {
			t.Errorf("%s, by default: held %v", outcomes, !held)
		}
	}
	p := row("f")
	if p.Reason = registry.ReasonAuthRequired; h.Holds(&p) {
		t.Error("a server that wants credentials is not degraded at once")
	}
	// What is held changes no cause; what it says of lists counts all the same.
	s := &registry.Server{State: registry.StateActive, TargetDigest: "t", ToolsDigest: "x"}
	for _, outcome := range []registry.Outcome{registry.OutcomeFailed, registry.OutcomeListFault, registry.OutcomeOK} {
		p := registry.Probe{Outcome: outcome, TargetDigest: "t", ToolsDigest: "x", Held: true}
		if want := outcome == registry.OutcomeListFault; p.Changes(s) != want {
			t.Errorf("%s: changes %v", outcome, !want)
		}
	}
}

func TestPatienceWithServersThatHang(t *testing.T) {
	t.Parallel()
	const interval = 5 * time.Minute
	window := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		p    registry.Probe
		slow bool
		rest time.Duration
	}{
		"good":                {registry.Probe{Outcome: registry.OutcomeOK, Streak: 9}, false, 0},
		"good, but slow":      {registry.Probe{Outcome: registry.OutcomeOK, Duration: 2 * time.Second}, true, 0},
		"refused":             {registry.Probe{Outcome: registry.OutcomeFailed, Reason: registry.ReasonUnreachable, Streak: -9}, false, 0},
		"hangs":               {registry.Probe{Outcome: registry.OutcomeFailed, Reason: registry.ReasonTimeout, Streak: -2}, true, 0},
		"hangs three times":   {registry.Probe{Outcome: registry.OutcomeFailed, Reason: registry.ReasonTimeout, Streak: -3}, true, 2 * interval},
		"hangs six times":     {registry.Probe{Outcome: registry.OutcomeFailed, Reason: registry.ReasonSlow, Streak: -6}, true, 4 * interval},
		"asks for little":     {registry.Probe{Outcome: registry.OutcomeDeferred, RetryAfter: time.Minute}, false, 0},
		"asks for patience":   {registry.Probe{Outcome: registry.OutcomeDeferred, RetryAfter: 10 * time.Minute}, false, 11 * time.Minute},
		"asks for too much":   {registry.Probe{Outcome: registry.OutcomeDeferred, RetryAfter: 100 * time.Hour}, false, 61 * time.Minute},
		"fails, and asks for": {registry.Probe{Outcome: registry.OutcomeFailed, Reason: registry.ReasonUnreachable, RetryAfter: 10 * time.Minute}, false, 11 * time.Minute},
	} {
		tt.p.Window, tt.p.At = window, window.Add(time.Minute)
		var want time.Time
		if tt.rest > 0 {
			want = window.Add(tt.rest)
		}
		if got := tt.p.NotBefore(interval); tt.p.Slow() != tt.slow || !got.Equal(want) {
			t.Errorf("%s: slow %v, not before %s", name, tt.p.Slow(), got)
		}
	}
}
