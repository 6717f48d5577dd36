package registry_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/registry"
)

func TestUptimeSumsProbesUp(t *testing.T) {
	probes := func(outcomes ...registry.Outcome) []registry.Probe {
		out := make([]registry.Probe, len(outcomes))
		for i, o := range outcomes {
			out[i] = registry.Probe{Outcome: o, Duration: time.Duration(i+1) * time.Millisecond}
		}
		return out
	}
	const (
		ok, failed, fault = registry.OutcomeOK, registry.OutcomeFailed, registry.OutcomeListFault
		away, deferred    = registry.OutcomeDependency, registry.OutcomeDeferred
	)
	for name, tt := range map[string]struct {
		probes   []registry.Probe
		want     registry.Uptime
		share    float64
		known    bool
		flapping bool
	}{
		"none":         {},
		"nothing said": {probes: probes(away, deferred), want: registry.Uptime{Probes: 2, Withheld: 2}},
		"all failed":   {probes: probes(failed, failed), want: registry.Uptime{Probes: 2, Failed: 2}, known: true},
		// A list that cannot be read came over a handshake that was fine (R146).
		"one of each": {
			probes: probes(ok, failed, fault, away, deferred),
			want:   registry.Uptime{Probes: 5, Good: 2, Failed: 1, ListFault: 1, Withheld: 2, Changes: 2, P50: 1e6, P90: 3e6, P99: 3e6},
			share:  2. / 3, known: true,
		},
		// What says nothing is no change.
		"withheld between": {probes: probes(failed, away, failed, deferred, failed), want: registry.Uptime{Probes: 5, Failed: 3, Withheld: 2}, known: true},
		"flapping": {
			probes: probes(ok, failed, ok, failed, ok), share: .6, known: true, flapping: true,
			want: registry.Uptime{Probes: 5, Good: 3, Failed: 2, Changes: 4, P50: 3e6, P90: 5e6, P99: 5e6},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := registry.UptimeOf(tt.probes)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			share, known := got.Share()
			if share != tt.share || known != tt.known || got.Flapping() != tt.flapping {
				t.Errorf("%v %v, flapping %v", share, known, got.Flapping())
			}
		})
	}
	hundred := make([]registry.Probe, 100)
	for i := range hundred {
		hundred[i] = registry.Probe{Outcome: ok, Duration: time.Duration(100-i) * time.Second}
	}
	if u := registry.UptimeOf(hundred); u.P50 != 50*time.Second || u.P90 != 90*time.Second || u.P99 != 99*time.Second || u.Flapping() {
		t.Errorf("%+v", u)
	}
	// Now and then is no flapping.
	for i := range hundred {
		if i%25 == 0 {
			hundred[i].Outcome = failed
		}
	}
	if u := registry.UptimeOf(hundred); u.Changes != 7 || u.Flapping() {
		t.Errorf("%+v", u)
	}
}
