package registry

import (
	"slices"
	"time"
)

// Deadlines are how long requests for approval wait, and when events remind of
// what ends by itself. A list that is nil is the usual one; an empty one reminds
// of nothing.
type Deadlines struct {
	Request          time.Duration   // for a decision; 0: ReviewTTL
	RemindRequest    []time.Duration // so long before a request ends
	RemindExceptions []time.Duration // so long before a server without authentication is taken out
}

// usualReminders are those of a policy that says nothing.
func usualReminders(kind TermKind) []time.Duration {
	if kind == TermRequest {
		return []time.Duration{24 * time.Hour}
	}
	return []time.Duration{7 * 24 * time.Hour, 24 * time.Hour}
}

func (d Deadlines) request() time.Duration {
	if d.Request > 0 {
		return d.Request
	}
	return ReviewTTL
}

func (d Deadlines) reminders(kind TermKind) []time.Duration {
	asked := d.RemindExceptions
	if kind == TermRequest {
		asked = d.RemindRequest
	}
	if asked == nil {
		return usualReminders(kind)
	}
	return asked
}

// remind keeps the moments at which to remind of a request or an exception that
// ends, in place of those of the one before. Moments that have passed already
// remind of nothing.
func (r *Record) remind(kind TermKind, ends, now time.Time) {
	s := &r.Server
	s.dropTerms(func(t Term) bool { return t.Kind == kind })
	t := Term{Kind: kind, ExpiryDates: ExpiryDates{DueAt: ends, EndsAt: ends}}
	for _, before := range r.Governance.Deadlines.reminders(kind) {
		if at := ends.Add(-before); at.After(now) {
			t.Reminders = append(t.Reminders, at)
		}
	}
	if len(t.Reminders) > 0 {
		s.Terms = append(slices.Clone(s.Terms), t)
	}
}

// dropTerms forgets terms. The list is never changed in place: a copy of the
// server may hold it.
func (s *Server) dropTerms(gone func(Term) bool) {
	s.Terms = slices.DeleteFunc(slices.Clone(s.Terms), gone)
	if len(s.Terms) == 0 {
		s.Terms = nil
	}
}

// sameMoment compares times of which one may have been in a column of the
// database, which keeps no nanoseconds.
func sameMoment(a, b time.Time) bool { return a.Sub(b).Abs() < time.Millisecond }

// passReminders says once what ends, and whether there is more to say of it.
func (r *Record) passReminders(t *Term, at time.Time) bool {
	s := &r.Server
	r.observe()
	request := t.Kind == TermRequest
	if request && (s.Review.Status != ReviewPending || !sameMoment(s.Review.ExpiresAt, t.EndsAt)) ||
		!request && !sameMoment(s.Exception.ExpiresAt, t.EndsAt) {
		return false // it was decided, or ends at another time
	}
	passed := func(moment time.Time) bool { return !moment.After(at) }
	if !slices.ContainsFunc(t.Reminders, passed) {
		return true
	}
	t.Reminders = slices.DeleteFunc(slices.Clone(t.Reminders), passed)
	ends := t.EndsAt.UTC().Format(time.RFC3339)
	if request {
		r.emit(EventRequestExpiring, RequestExpiring{ServerID: s.ServerID, TenantID: s.TenantID, Digest: s.Review.Digest, EndsAt: t.EndsAt})
		r.noteAlso("nobody decided yet; the request ends at " + ends)
	} else {
		r.emit(EventExceptionExpiring, ExceptionExpiring{ServerID: s.ServerID, TenantID: s.TenantID, EndsAt: t.EndsAt})
		r.noteAlso("the exception for no authentication ends at " + ends)
	}
	return len(t.Reminders) > 0
}
