package registry_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/registry"
)

// come passes the moments of terms until there are none of a kind, and gives
// what the events said at which of them.
func (l *life) come(kind registry.TermKind) map[time.Time]registry.EventType {
	l.Helper()
	said := map[time.Time]registry.EventType{}
	for {
		var next time.Time
		for _, t := range l.r.Server.Terms {
			if t.Kind == kind {
				next = t.Next()
			}
		}
		if next.IsZero() {
			return said
		}
		l.must(func(time.Time) error { return l.r.PassTerms(next, next) })
		for _, e := range l.last.Events {
			said[next] = e.Type
		}
		if l.last.Bump {
			l.Error("a reminder moves the version")
		}
	}
}

func TestARequestIsRemindedOfBeforeItEnds(t *testing.T) {
	t.Parallel()
	l := newLife(t, nil)
	l.sees("a")
	usual := l.r.Server.Review
	if !usual.ExpiresAt.Equal(usual.OpenedAt.Add(registry.ReviewTTL)) {
		t.Errorf("it ends at %s", usual.ExpiresAt)
	}
	want := map[time.Time]registry.EventType{usual.ExpiresAt.Add(-24 * time.Hour): registry.EventRequestExpiring}
	if diff := cmp.Diff(want, l.come(registry.TermRequest)); diff != "" {
		t.Error(diff)
	}

	// As the policy says.
	l.r.Governance.Deadlines = registry.Deadlines{Request: time.Hour, RemindRequest: []time.Duration{30 * time.Minute, 10 * time.Minute, 2 * time.Hour}}
	l.sees("a", "b")
	v := l.r.Server.Review
	if !v.ExpiresAt.Equal(v.OpenedAt.Add(time.Hour)) {
		t.Errorf("it ends at %s", v.ExpiresAt)
	}
	want = map[time.Time]registry.EventType{
		v.ExpiresAt.Add(-30 * time.Minute): registry.EventRequestExpiring, v.ExpiresAt.Add(-10 * time.Minute): registry.EventRequestExpiring,
	}
	if diff := cmp.Diff(want, l.come(registry.TermRequest)); diff != "" {
		t.Error(diff)
	}

	// Of one that was decided nobody is reminded, and an empty list reminds of nothing.
	l.sees("a", "b", "c")
	l.approves("a")
	if said := l.come(registry.TermRequest); len(said) != 0 {
		t.Errorf("decided, and still %v", said)
	}
	l.r.Governance.Deadlines.RemindRequest = []time.Duration{}
	l.sees("a", "c")
	if said := l.come(registry.TermRequest); len(said) != 0 {
		t.Errorf("%v", said)
	}
}

func TestAnExceptionIsRemindedOfBeforeItEnds(t *testing.T) {
	t.Parallel()
	l := newLife(t, func(g *registry.Registration) {
		g.Authentication, g.ExceptionReason = registry.AuthNoneException, "a demo"
	})
	l.sees("a")
	l.must(func(now time.Time) error {
		g := approval(l.r.Server.Review.Digest, "a")
		g.Approval.ExceptionExpiresAt = now.Add(time.Hour)
		return l.r.Decide(g, l.op("approve"), now)
	})
	day := 24 * time.Hour
	renew := func(after time.Duration) time.Time {
		t.Helper()
		var ends time.Time
		l.must(func(now time.Time) error {
			ends = now.Add(after + 789*time.Nanosecond)
			return l.r.Decide(registry.Ruling{Verb: registry.VerbRenew, Comment: "it moves", ExceptionExpiresAt: ends}, l.op("renew"), now)
		})
		l.r.Server.Exception.ExpiresAt = ends.Truncate(time.Microsecond) // as the database keeps it
		return ends
	}
	renew(20 * day) // and what is reminded of is the last one
	ends := renew(30 * day)
	want := map[time.Time]registry.EventType{ends.Add(-7 * day): registry.EventExceptionExpiring, ends.Add(-day): registry.EventExceptionExpiring}
	if diff := cmp.Diff(want, l.come(registry.TermException)); diff != "" {
		t.Error(diff)
	}
	ends = renew(2 * day) // the first moment has passed
	want = map[time.Time]registry.EventType{ends.Add(-day): registry.EventExceptionExpiring}
	if diff := cmp.Diff(want, l.come(registry.TermException)); diff != "" {
		t.Error(diff)
	}
}
