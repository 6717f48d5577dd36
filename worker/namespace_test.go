package worker_test

import (
	"testing"

	"countersign/worker"
)

// `migrate temporal` on a namespace that is not there, and again.
func TestTheNamespaceIsMadeOnceAndUsableAtOnce(t *testing.T) {
	t.Parallel()
	h := &house{TB: t, namespace: "another"}
	h.temporal = h.dial(newEngine(t).Address())
	for _, want := range []struct {
		made  bool
		added int
	}{{true, 3}, {false, 0}} {
		made, err := worker.EnsureNamespace(t.Context(), h.temporal, h.namespace)
		if err != nil || made != want.made {
			t.Fatalf("made %v: %v", made, err)
		}
		added, err := worker.EnsureSearchAttributes(t.Context(), h.temporal, h.namespace)
		if err != nil || len(added) != want.added {
			t.Fatalf("added %v: %v", added, err)
		}
	}
	if err := worker.EnsureSchedule(t.Context(), h.temporal, h.codec, worker.DefaultProbeInterval); err != nil {
		t.Fatal(err)
	}
}
