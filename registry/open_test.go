package registry_test

import (
	"testing"
	"time"

	"countersign/registry"
)

// TestAnOpenServerIsNotApproved while it claims an authentication (R22): the snapshot
// says so, and a server that was mended has another one.
func TestAnOpenServerIsNotApproved(t *testing.T) {
	t.Parallel()
	l := newLife(t, nil)
	open := surface("a")
	open.Quirks = []string{registry.QuirkAuthNotEnforced}
	l.seesSurface(open)
	before := l.r.Server.SnapshotDigest
	err := l.do(func(now time.Time) error {
		return l.r.Decide(approval(l.r.Server.Review.Digest, "a"), l.op("approve"), now)
	})
	e, _ := registry.AsError(err)
	if e == nil || e.Reason != registry.ReasonAuthNotEnforced || e.Next == "" || l.r.Server.State != registry.StateVerified {
		t.Fatalf("%v %s", err, l.r.Server.State)
	}
	l.sees("a")
	if l.r.Server.SnapshotDigest == before {
		t.Error("a server that was mended has the same snapshot")
	}
	var memo registry.Memo
	for _, s := range []registry.Surface{open, surface("a"), open} {
		want, _ := registry.NewSnapshot(s, registry.DefaultLimits(), t0)
		got, _, err := memo.Snapshot(s, registry.DefaultLimits(), t0, before)
		if err != nil || got.Digest != want.Digest {
			t.Errorf("remembered as %s, %v", got.Digest, err)
		}
	}
}
