package registry

import (
	"slices"
	"time"
)

// withdraw takes the approval of whoever asks back from the review that is open,
// as long as the policy wants more of them. It never binds anything: when what is
// left is enough by now, because the policy changed meanwhile, one of those who
// gave it approves again. A repeat finds what it asks for (R125).
func (r *Record) withdraw(g Ruling, op Operation, now time.Time) error {
	s := &r.Server
	if err := r.current(g.Digest); err != nil {
		if e, ok := AsError(err); ok && e.Reason == ReasonAlreadyDecided && s.Review.Status == ReviewApproved {
			return e.WithNext("what was approved is in force: quarantine server %s, which takes it out of use at once, or ask for a review and reject it", s.Name)
		}
		return err
	}
	by := op.Actor.Subject
	at := slices.IndexFunc(s.Review.Votes, func(v Vote) bool { return v.Subject == by })
	if at < 0 {
		if slices.Contains(s.Review.Withdrawn, by) {
			r.asked("withdrawn already: " + short(g.Digest))
			return nil
		}
		return Errorf(ReasonNothingToWithdraw, "you have given no approval in the review of server %s", s.Name).
			WithNext("each takes back the own approval only; to stop the others reject the review")
	}
	gone := s.Review.Votes[at]
	votes := slices.Delete(slices.Clone(s.Review.Votes), at, at+1)
	e := r.recount(gone, votes, now)
	d := g.Decision(s, op, now)
	d.Applied, d.Evidence = true, e
	r.changes.Decision = d
	s.Review.Votes, s.Review.Tally = votes, &e.Tally
	if len(votes) == 0 {
		s.Review.Votes, s.Review.Tally = nil, nil
	}
	s.Review.Withdrawn = append(minus(s.Review.Withdrawn, by), by)
	r.touch()
	r.emit(EventApprovalWithdrawn, ApprovalWithdrawn{
		ServerID: s.ServerID, TenantID: s.TenantID, Digest: g.Digest, Subject: by, DecisionID: d.DecisionID, Remaining: len(votes),
	})
	r.note("approval withdrawn: " + short(g.Digest) + "; " + e.Tally.String())
	return nil
}

// recount puts to the policy what is left of the approvals: the last of them, or
// nobody's of what was withdrawn.
func (r *Record) recount(gone Vote, votes []Vote, now time.Time) *Evidence {
	about := gone
	if len(votes) > 0 {
		about = votes[len(votes)-1]
	}
	e := &Evidence{Votes: votes}
	if d, known := r.Decisions[about.DecisionID]; known && d.Approval != nil && r.Governance.Approve != nil {
		e.Verdict = r.Governance.Approve(r, *d.Approval, votes, now)
	}
	e.Tally = e.Verdict.Tally(votes)
	return e
}

// Asked lists the decisions that something is bound by, and those of the approvals
// so far.
func (r *Record) Asked() []string {
	out := r.Decided()
	for _, vote := range r.Server.Review.Votes {
		out = append(out, vote.DecisionID)
	}
	return out
}

// VotedDefinitions lists the definitions of what the approvals so far name: the
// bytes that are needed to put them to the policy again.
func (r *Record) VotedDefinitions() []string {
	var out []string
	for _, vote := range r.Server.Review.Votes {
		if d, known := r.Decisions[vote.DecisionID]; known && d.Approval != nil {
			out = append(out, d.Approval.Definitions(r.Snapshot)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// minus gives a list without a word; the list stays as it is.
func minus(list []string, word string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(w string) bool { return w == word })
}
