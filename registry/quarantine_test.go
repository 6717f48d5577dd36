package registry_test

import (
	"testing"
	"time"

	"countersign/registry"
)

func (l *life) quarantines(comment string, by registry.Actor) error {
	return l.do(func(now time.Time) error {
		op := l.op("quarantine")
		op.Actor = by
		return l.r.Decide(registry.Ruling{Verb: registry.VerbQuarantine, Comment: comment}, op, now)
	})
}

func TestAQuarantineStopsEverythingUntilAnApproval(t *testing.T) {
	t.Parallel()
	operator := registry.Actor{Subject: "olga", Roles: []registry.Role{registry.RoleOperator}}
	l := newLife(t, nil)
	l.sees("a", "b")
	if err := l.quarantines("looks wrong", operator); registry.ReasonOf(err) != registry.ReasonIllegalTransition {
		t.Errorf("before it was active: %v", err)
	}
	l.approves("a", "b")
	if err := l.quarantines("", operator); registry.ReasonOf(err) != registry.ReasonInvalidArgument {
		t.Errorf("without a reason: %v", err)
	}
	if err := l.quarantines("x", registry.Actor{Subject: "eve", Roles: []registry.Role{registry.RoleObserver}}); registry.ReasonOf(err) != registry.ReasonPermissionDenied {
		t.Errorf("by an observer: %v", err)
	}
	if err := l.quarantines("it answers nonsense", operator); err != nil {
		t.Fatal(err)
	}
	l.is(registry.StateDegraded, registry.CauseQuarantined)
	if d := l.last.Decision; d == nil || !d.Applied || d.Subject != "olga" || d.Comment == "" || l.last.Note != "quarantined: it answers nonsense" {
		t.Errorf("recorded: %+v, %q", d, l.last.Note)
	}
	if got := l.denial("a"); got != registry.ReasonServerQuarantined {
		t.Errorf("denied as %q", got)
	}
	// Nothing that is seen undoes it.
	l.probes(registry.OutcomeOK)
	l.n++
	l.sees("a", "b")
	l.is(registry.StateDegraded, registry.CauseQuarantined)
	if err := l.quarantines("again", operator); err != nil || l.last.Server {
		t.Errorf("a repeat: %v, writes %+v", err, l.last)
	}
	if l.r.Server.Review.Status != registry.ReviewPending {
		t.Fatalf("review: %+v", l.r.Server.Review)
	}
	l.approves("a", "b")
	l.is(registry.StateActive)
	if got := l.denial("a"); got != "" {
		t.Errorf("after the approval: %q", got)
	}
}
