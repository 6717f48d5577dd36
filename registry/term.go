package registry

import (
	"slices"
	"time"
)

// TermKind is what a term is of.
type TermKind string

// The kinds.
const (
	TermApproval  TermKind = ""
	TermRequest   TermKind = "request"   // for approval: ends with Review.ExpiresAt
	TermException TermKind = "exception" // ends with Exception.ExpiresAt
)

// Term is what is still to come of something that ends: moments that have come
// are taken out. The last reminder of an approval with a grace time is the moment
// at which it is due. Of requests and exceptions there are reminders alone; they
// end by themselves.
type Term struct {
	Kind       TermKind `json:"kind,omitempty"`
	DecisionID string   `json:"decisionId"` // of an approval
	ExpiryDates
}

// Next is the next moment of the term.
func (t Term) Next() time.Time {
	next := t.EndsAt
	for _, moment := range append([]time.Time{t.RecertifyAt}, t.Reminders...) {
		if !moment.IsZero() && moment.Before(next) {
			next = moment
		}
	}
	return next
}

// NextTerm is the next moment of all terms; zero: there is none.
func (s *Server) NextTerm() time.Time {
	var next time.Time
	for _, t := range s.Terms {
		if at := t.Next(); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// begin keeps the dates of an approval that expires, and forgets those of
// approvals that hold nothing any more.
func (r *Record) beginTerm(decisionID string, dates ExpiryDates) {
	s := &r.Server
	if !dates.EndsAt.IsZero() {
		t := Term{DecisionID: decisionID, ExpiryDates: dates}
		if dates.EndsAt.After(dates.DueAt) {
			t.Reminders = append(slices.Clone(dates.Reminders), dates.DueAt)
		}
		s.Terms = append(slices.Clone(s.Terms), t)
	}
	s.dropTerms(func(t Term) bool { return t.Kind == TermApproval && r.heldBy(t.DecisionID) == 0 })
}

// heldBy counts what is bound by a decision.
func (r *Record) heldBy(decisionID string) int {
	n := 0
	for _, b := range r.Bindings {
		if b.Bound && b.DecisionID == decisionID {
			n++
		}
	}
	for _, b := range r.Resources {
		if b.Bound && b.DecisionID == decisionID {
			n++
		}
	}
	for _, b := range r.Prompts {
		if b.Bound && b.DecisionID == decisionID {
			n++
		}
	}
	return n
}

// PassTerms does what the terms of approvals ask for up to a moment: reminders,
// a review before they are due, and at the end what they bound is bound no
// longer. The timer that calls it has decided; the database's clock is not
// asked, and now is for the record.
func (r *Record) PassTerms(at, now time.Time) error {
	s := &r.Server
	if s.State == StateRetired {
		return nil
	}
	var rest []Term
	for _, t := range s.Terms {
		if t.Kind != TermApproval {
			if r.passReminders(&t, at) {
				rest = append(rest, t)
			}
			continue
		}
		held := r.heldBy(t.DecisionID)
		if held == 0 {
			r.observe() // what it bound is gone: nobody waits for it
			continue
		}
		if !t.EndsAt.After(at) {
			r.endTerm(t, held, now)
			continue
		}
		rest = append(rest, r.passTerm(t, held, at, now))
	}
	s.Terms = rest
	return s.settle()
}

// passTerm does what has come of a term that goes on.
func (r *Record) passTerm(t Term, held int, at, now time.Time) Term {
	s := &r.Server
	if !t.RecertifyAt.IsZero() && !t.RecertifyAt.After(at) {
		t.RecertifyAt = time.Time{}
		r.observe()
		r.recertify("recertification", t.EndsAt, now)
	}
	passed := func(moment time.Time) bool { return !moment.After(at) }
	if slices.ContainsFunc(t.Reminders, passed) {
		t.Reminders = slices.DeleteFunc(slices.Clone(t.Reminders), passed)
		r.observe()
		r.emit(EventApprovalExpiring, ApprovalExpiring{
			ServerID: s.ServerID, TenantID: s.TenantID, DecisionID: t.DecisionID, Bound: held, DueAt: t.DueAt, EndsAt: t.EndsAt,
		})
		r.noteAlso("an approval is due at " + t.DueAt.UTC().Format(time.RFC3339))
	}
	return t
}

// endTerm takes away what an approval bound.
func (r *Record) endTerm(t Term, held int, now time.Time) {
	s := &r.Server
	for _, name := range sortedKeys(r.Bindings) {
		if r.Bindings[name].DecisionID == t.DecisionID {
			r.unbind(name, ReasonApprovalExpired)
		}
	}
	for _, uri := range sortedKeys(r.Resources) {
		if b := r.Resources[uri]; b.Bound && b.DecisionID == t.DecisionID {
			b.Bound, b.UnboundBy, r.changes.Resources[uri] = false, ReasonApprovalExpired, true
		}
	}
	for _, name := range sortedKeys(r.Prompts) {
		if b := r.Prompts[name]; b.Bound && b.DecisionID == t.DecisionID {
			b.Bound, b.UnboundBy, r.changes.Prompts[name] = false, ReasonApprovalExpired, true
		}
	}
	r.touch()
	r.emit(EventApprovalExpired, ApprovalExpiring{
		ServerID: s.ServerID, TenantID: s.TenantID, DecisionID: t.DecisionID, Bound: held, DueAt: t.DueAt, EndsAt: t.EndsAt,
	})
	r.recertify("recertification", t.EndsAt.Add(r.Governance.Deadlines.request()), now)
	r.noteAlso("an approval expired: " + t.DecisionID)
}

// recertify asks for the approval of what the server is now, unless somebody
// asked already. It is asked for as long as an answer can still come in time.
func (r *Record) recertify(by string, until, now time.Time) {
	s := &r.Server
	if s.Review.Status == ReviewPending || s.SnapshotDigest == "" {
		return
	}
	r.openReview(System(by).Subject, now, until)
	r.touch()
	r.noteAlso("asked to approve again: " + short(s.Review.Digest))
}
