package registry

import "time"

// ReviewStatus is where the review of a server stands. It is a fact beside the
// state: a server may be active and have a review of its drift pending.
type ReviewStatus string

// The statuses.
const (
	ReviewNone     ReviewStatus = "none"
	ReviewPending  ReviewStatus = "pending"
	ReviewApproved ReviewStatus = "approved"
	ReviewRejected ReviewStatus = "rejected"
	ReviewExpired  ReviewStatus = "expired"
)

// ReviewTTL is how long an approval request waits for a decision when the policy
// does not say.
const ReviewTTL = 7 * 24 * time.Hour

// Review is the request to approve one pair of snapshot and target, and what
// became of it.
type Review struct {
	Status      ReviewStatus `json:"status" bun:"status"`
	Digest      string       `json:"digest" bun:"digest"` // of the pair; what decisions name
	Snapshot    string       `json:"snapshot" bun:"snapshot"`
	Target      string       `json:"target" bun:"target"`
	RequestedBy string       `json:"requestedBy" bun:"requested_by"`
	OpenedAt    time.Time    `json:"openedAt" bun:"opened_at,nullzero"`
	ExpiresAt   time.Time    `json:"expiresAt" bun:"expires_at,nullzero"`
	DecidedAt   time.Time    `json:"decidedAt" bun:"decided_at,nullzero"`
	DecidedBy   string       `json:"decidedBy" bun:"decided_by"`
	DecisionID  string       `json:"decisionId" bun:"decision_id"`
	Votes       []Vote       `json:"votes,omitempty" bun:"votes,type:text"`         // approvals so far; a new request voids them
	Tally       *Tally       `json:"tally,omitempty" bun:"tally,type:text"`         // where they stand; nil: there are none
	Withdrawn   []string     `json:"withdrawn,omitempty" bun:"withdrawn,type:text"` // who took an approval back and gave no other since
}

// ReviewDigest addresses a pair of snapshot and target.
func ReviewDigest(snapshot, target string) string {
	return digestJSON(struct{ Snapshot, Target string }{snapshot, target})
}

// openReview asks for the approval of what the server is now. It is asked for as
// long as the policy says, and at least until a time.
func (r *Record) openReview(requestedBy string, now, until time.Time) {
	s := &r.Server
	if expires := now.Add(r.Governance.Deadlines.request()); expires.After(until) {
		until = expires
	}
	s.Review = Review{
		Status: ReviewPending, Digest: ReviewDigest(s.SnapshotDigest, s.TargetDigest),
		Snapshot: s.SnapshotDigest, Target: s.TargetDigest,
		RequestedBy: requestedBy, OpenedAt: now, ExpiresAt: until,
	}
	r.remind(TermRequest, until, now)
}

// reviewNeeded says whether something of what was discovered waits for a
// decision that nobody has taken yet.
func (r *Record) reviewNeeded(snap *Snapshot) bool {
	s := &r.Server
	digest := ReviewDigest(s.SnapshotDigest, s.TargetDigest)
	if s.Review.Digest == digest && s.Review.Status != ReviewNone {
		return false // pending already, or decided: only RequestReview opens the same pair again
	}
	if s.ApprovedSnapshot != s.SnapshotDigest || s.ApprovedTarget != s.TargetDigest || s.Causes.Has(CauseServerTextChanged) {
		return true
	}
	for name, b := range r.Bindings {
		if tool := r.Tools[name]; !b.Bound && tool != nil && tool.Available {
			return true // drifted and drifted back: it stays unbound until approved again (C6)
		}
	}
	for uri, b := range r.Resources {
		if item, there := snap.resource(uri); !b.Bound && there && !item.Quarantined() {
			return true
		}
	}
	for name, b := range r.Prompts {
		if item, there := snap.Find(KindPrompt, name); !b.Bound && there && !item.Quarantined() {
			return true
		}
	}
	return false
}
