package workflows

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

func TestCallsToOneWorkflowTakeTurns(t *testing.T) {
	all := newTurns()
	var now, most atomic.Int64
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			done, err := all.wait(t.Context(), "server/default/demo")
			if err != nil {
				t.Error(err)
				return
			}
			defer done()
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			now.Add(-1)
		})
	}
	wg.Wait()
	if most.Load() > inFlight {
		t.Errorf("%d calls at once", most.Load())
	}
	if len(all.of) != 0 {
		t.Errorf("%d workflows are remembered", len(all.of))
	}
}

func TestATurnIsWaitedForAsLongAsTheCallerWants(t *testing.T) {
	all := newTurns()
	for range inFlight {
		done, err := all.wait(t.Context(), "one")
		if err != nil {
			t.Fatal(err)
		}
		defer done()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := all.wait(ctx, "one"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	done, err := all.wait(t.Context(), "another")
	if err != nil {
		t.Fatalf("another workflow's turn: %v", err)
	}
	done()
}
