package registry_test

import (
	"testing"

	"countersign/registry"
)

// The legal moves, written out once more and independently of the table.
func TestAllTwentyFivePairsOfStates(t *testing.T) {
	t.Parallel()
	legal := map[[2]registry.State]bool{
		{"registered", "verified"}: true, {"registered", "retired"}: true,
		{"verified", "active"}: true, {"verified", "retired"}: true,
		{"active", "degraded"}: true, {"active", "retired"}: true,
		{"degraded", "active"}: true, {"degraded", "retired"}: true,
	}
	pairs := 0
	for _, from := range registry.States() {
		for _, to := range registry.States() {
			pairs++
			if got, want := registry.CanMove(from, to), legal[[2]registry.State{from, to}]; got != want {
				t.Errorf("%s → %s: %v, want %v", from, to, got, want)
			}
		}
	}
	if pairs != 25 {
		t.Errorf("%d pairs, want 25", pairs)
	}
}

func TestOnlyActiveAndDegradedServersAreProbed(t *testing.T) {
	t.Parallel()
	for _, s := range registry.States() {
		if got, want := s.Probed(), s == registry.StateActive || s == registry.StateDegraded; got != want {
			t.Errorf("%s: %v, want %v", s, got, want)
		}
	}
}
