package registry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Vote is one person's decision on a review, as a tally counts it.
type Vote struct {
	DecisionID string    `json:"decisionId"`
	Verb       Verb      `json:"verb"`
	Review     string    `json:"review"`  // digest of the pair that was decided on
	Content    string    `json:"content"` // of an approval: Approval.ContentDigest
	Subject    string    `json:"subject"`
	Roles      []Role    `json:"roles,omitempty"` // at that time
	Comment    string    `json:"comment,omitempty"`
	At         time.Time `json:"at"`
}

// Vote gives the decision as a tally counts it.
func (d *Decision) Vote() Vote {
	v := Vote{
		DecisionID: d.DecisionID, Verb: d.Verb, Review: d.Digest, Subject: d.Subject, Roles: d.Roles, Comment: d.Comment,
		At: d.DecidedAt,
	}
	if d.Approval != nil {
		v.Content = d.Approval.ContentDigest()
	}
	return v
}

// Votes gives the votes among decisions, which stand in the order in which they were taken. Refused ones are none.
func Votes(decisions []Decision) []Vote {
	var out []Vote
	for i := range decisions {
		if decisions[i].Reason == "" {
			out = append(out, decisions[i].Vote())
		}
	}
	return out
}

// Standing gives the last approval of each person among votes that stand in the order in which they were taken: what
// somebody approved before that, in this review or another, is void. A request to review the pair again voids all
// before it, and whoever takes an approval back has none.
func Standing(review string, votes []Vote) []Vote {
	var out []Vote
	for _, vote := range votes {
		switch vote.Verb {
		case VerbRequestReview:
			if vote.Review == review {
				out = nil
			}
		case VerbApprove:
			out = slices.DeleteFunc(out, func(v Vote) bool { return v.Subject == vote.Subject })
			out = append(out, vote)
		case VerbWithdrawApproval:
			out = slices.DeleteFunc(out, func(v Vote) bool { return v.Subject == vote.Subject })
		case VerbReject, VerbWithdrawServer, VerbApproveLaunch, VerbQuarantine, VerbRenew:
		}
	}
	return out
}

// TallyStatus is where an approval stands.
type TallyStatus string

// The statuses.
const (
	TallyApproved TallyStatus = "approved"
	TallyNeeds    TallyStatus = "needs_approvals"
	TallyRefused  TallyStatus = "refused"
)

// Tally is where the approval of one content stands under a verdict.
type Tally struct {
	Status  TallyStatus    `json:"status"`
	Counted []string       `json:"counted,omitempty"` // subjects, in the order of their decisions
	Ignored []IgnoredVote  `json:"ignored,omitempty"`
	People  int            `json:"people,omitempty"` // how many more people are needed at least
	Roles   map[Role]int   `json:"roles,omitempty"`  // how many of which roles are missing among them
	NotBy   string         `json:"notBy,omitempty"`  // who cannot be one of them
	Refusal *PolicyRefusal `json:"refusal,omitempty"`
}

// IgnoredVote is an approval that does not count, and why.
type IgnoredVote struct {
	Subject string `json:"subject"`
	Reason  Reason `json:"reason"`
}

// Admit says whether an approval can count under the verdict, or why not. It looks at one vote alone.
func (v ApprovalVerdict) Admit(vote Vote) error {
	if f := v.refusal(); f != nil {
		return f.Err()
	}
	if vote.Review != v.Review || vote.Content != v.Content {
		return Errorf(ReasonSuperseded, "the decision is about something else than what was put to the policy").
			WithNext("read the review again and decide on what it shows")
	}
	if vote.Subject == "" {
		return Errorf(ReasonPermissionDenied, "nobody took the decision")
	}
	if v.DistinctFromRequester && vote.Subject == v.Requester {
		return Errorf(ReasonRequesterApproves, "who asked for this approval may not give it").
			WithNext("ask somebody else to approve digest %s", short(v.Review))
	}
	if len(v.RestrictedBy) > 0 && !slices.Contains(v.Eligible, vote.Subject) {
		e := Errorf(ReasonNotEligible, "the policy does not let you approve this").With("rule", v.RestrictedBy[0])
		for _, i := range v.Ineligible {
			if i.Subject == vote.Subject {
				e = Errorf(i.Reason, "the policy does not let you approve this: rule %s", i.Rule).With("rule", i.Rule)
				if i.Message != "" {
					e.Message += ": " + i.Message
				}
				break
			}
		}
		return e
	}
	if len(v.CommentDemandedBy) > 0 && strings.TrimSpace(vote.Comment) == "" {
		demand := v.CommentDemandedBy[0]
		return Errorf(ReasonCommentRequired, "this approval needs a comment: %s", demand.Message).
			WithField("comment", "is required").With("rule", demand.Rule).WithNext("decide again and say why")
	}
	return nil
}

// refusal is why nobody can approve under the verdict, nil when somebody can.
func (v ApprovalVerdict) refusal() *PolicyRefusal {
	switch {
	case v.Refusal != nil:
		return v.Refusal
	case v.Needed < 1 || v.Review == "" || v.Content == "":
		return &PolicyRefusal{Reason: ReasonPolicyError, Message: "no policy was asked"}
	case v.DistinctFromRequester && v.Requester == "":
		return &PolicyRefusal{Reason: ReasonPolicyError, Message: "the policy wants somebody else than the requester, who is not known"}
	}
	return nil
}

// Tally counts the votes on the verdict's review, in the order in which they were taken. Each person counts once, with
// the last approval, and only for the verdict's content; a rejection ends the review until it is requested again.
func (v ApprovalVerdict) Tally(votes []Vote) Tally {
	if f := v.refusal(); f != nil {
		return Tally{Status: TallyRefused, Refusal: f}
	}
	if by := v.rejected(votes); by != "" {
		return Tally{Status: TallyRefused, Refusal: &PolicyRefusal{Reason: ReasonAlreadyDecided, Message: "this digest was rejected by " + by}}
	}
	var t Tally
	held := map[Role]int{}
	for _, vote := range Standing(v.Review, votes) {
		if err := v.Admit(vote); err != nil {
			t.Ignored = append(t.Ignored, IgnoredVote{vote.Subject, ReasonOf(err)})
			continue
		}
		t.Counted = append(t.Counted, vote.Subject)
		for _, role := range slices.Compact(slices.Sorted(slices.Values(vote.Roles))) {
			held[role]++
		}
	}
	t.Roles = rolesMissing(v.Roles, held)
	t.People = max(v.Needed-len(t.Counted), 0)
	for _, n := range t.Roles {
		t.People = max(t.People, n)
	}
	t.Status = TallyApproved
	if t.People > 0 {
		t.Status = TallyNeeds
		if v.DistinctFromRequester {
			t.NotBy = v.Requester
		}
	}
	return t
}

// rejected says who rejected the review that is open now, or nothing.
func (v ApprovalVerdict) rejected(votes []Vote) string {
	by := ""
	for _, vote := range votes {
		switch {
		case vote.Review != v.Review:
		case vote.Verb == VerbReject:
			by = cmp.Or(vote.Subject, "nobody known")
		case vote.Verb == VerbRequestReview:
			by = ""
		}
	}
	return by
}

// String says in one sentence where the approval stands.
func (t Tally) String() string {
	switch t.Status {
	case TallyApproved:
		return "approved by " + strings.Join(t.Counted, ", ")
	case TallyRefused:
		return "refused: " + t.Refusal.Message
	case TallyNeeds:
	}
	s := "1 more approval is needed"
	if t.People != 1 {
		s = fmt.Sprintf("%d more approvals are needed", t.People)
	}
	for _, role := range Roles() { // workflows say this too, and must walk no map
		if n := t.Roles[role]; n > 0 {
			s += fmt.Sprintf(", %d by a %s", n, role)
		}
	}
	if t.NotBy != "" {
		s += ", not by " + t.NotBy
	}
	return s
}
