package registry

import (
	"slices"
	"time"
)

// Proposal is what an approval of the server as it is would most likely name:
// what is offered and not bound as it is, or everything when nothing is. Tools come
// as the class that they were approved as before, or else as the one that
// SuggestClass makes of them. Nobody proposed it and nothing is approved by it: it
// is for asking the policy beforehand.
func (r *Record) Proposal() Approval {
	a := Approval{Digest: ReviewDigest(r.Server.SnapshotDigest, r.Server.TargetDigest)}
	all := a
	for _, item := range r.Snapshot.Items {
		tool := r.Tools[item.Name]
		if item.Quarantined() || item.Kind == KindTool && (tool == nil || tool.Verdict != "") {
			continue
		}
		line := Approval{}
		switch item.Kind {
		case KindTool:
			class, _ := SuggestClass(item)
			if b := r.Bindings[item.Name]; b != nil && b.DeclaredClass.Valid() {
				class = b.DeclaredClass
			}
			line.Tools = []ToolLine{{Tool: item.Name, Class: class}}
		case KindResource, KindTemplate:
			line.Resources = []ResourceLine{{URI: item.Name}}
		case KindPrompt:
			line.Prompts = []PromptLine{{Prompt: item.Name}}
		}
		all = all.and(line)
		if !r.holds(item) {
			a = a.and(line)
		}
	}
	if a.lines() == 0 {
		a = all
	}
	a.Empty = a.lines() == 0
	return a
}

// and gives the approval with the lines of another.
func (a Approval) and(line Approval) Approval {
	a.Tools = append(a.Tools, line.Tools...)
	a.Resources = append(a.Resources, line.Resources...)
	a.Prompts = append(a.Prompts, line.Prompts...)
	return a
}

func (a Approval) lines() int { return len(a.Tools) + len(a.Resources) + len(a.Prompts) }

// holds says whether an item is bound as it is.
func (r *Record) holds(item Item) bool {
	known, bound := r.standing(item)
	return known && bound
}

// standing says whether an item was ever approved, and whether that holds.
func (r *Record) standing(item Item) (approved, bound bool) {
	same := func(contract, text string) bool {
		return contract == item.Digests.Contract && text == item.Digests.Text
	}
	switch item.Kind {
	case KindTool:
		if b := r.Bindings[item.Name]; b != nil {
			return true, b.Bound && b.Holds(item.Digests, r.Server.TargetDigest)
		}
	case KindResource, KindTemplate:
		if b := r.Resources[item.Name]; b != nil {
			return true, b.Bound && same(b.Contract, b.Text)
		}
	case KindPrompt:
		if b := r.Prompts[item.Name]; b != nil {
			return true, b.Bound && same(b.Contract, b.Text)
		}
	}
	return false, false
}

// ReviewCounts are how much there is to sign: items that changed or are gone by
// severity, and what one should look at besides.
type ReviewCounts struct {
	Worst       Severity // of all changes, also of what the handshake told
	By          map[Severity]int
	Added       int
	Removed     int // among the breaking ones
	Quarantined int
	Hinted      int // items whose own bytes accuse
	Unbound     int // were approved, are there, and are no longer bound
	Text        bool
	Target      bool
}

// ReviewCounts counts what differs from the snapshot that was approved, nil when
// nothing was or it is not kept. The bytes of what changed must be in both
// snapshots, and what items state in the newer one.
func (r *Record) ReviewCounts(was *Snapshot) ReviewCounts {
	s, before := &r.Server, was
	if before == nil {
		before = &Snapshot{}
	}
	d := Compare(before, r.Snapshot)
	c := ReviewCounts{
		Worst: d.Severity, By: map[Severity]int{},
		Text: was != nil && was.TextDigest != r.Snapshot.TextDigest, Target: s.ApprovedTarget != "" && s.ApprovedTarget != s.TargetDigest,
	}
	for _, list := range []ListDiff{d.Tools, d.Resources, d.Templates, d.Prompts} {
		c.Added, c.Removed = c.Added+list.Counts.Added, c.Removed+list.Counts.Removed
		for _, item := range list.Items {
			if item.Status == DiffChanged || item.Status == DiffRemoved {
				c.By[item.Severity]++
			}
		}
	}
	for _, item := range r.Snapshot.Items {
		tool := r.Tools[item.Name]
		if item.Quarantined() || item.Kind == KindTool && tool != nil && tool.Verdict != "" {
			c.Quarantined++
		}
		if accuses(item.Says().Hints) {
			c.Hinted++
		}
		if approved, bound := r.standing(item); approved && !bound {
			c.Unbound++
		}
	}
	return c
}

func accuses(codes []string) bool {
	hints := make([]Hint, len(codes))
	for i, code := range codes {
		hints[i].Code = HintCode(code)
	}
	return Accuse(hints)
}

// Outlook is what the approval of a server still takes, and whether somebody can
// give it.
type Outlook struct {
	Forecast bool // nobody approved anything yet: it is about the Proposal
	Verdict  ApprovalVerdict
	Tally    Tally
	Given    bool   // whoever asks approved already
	Blocked  *Error // why they cannot; nil: they can, or did
}

// Outlook puts the last approval of the review to the policy as it is now, or the
// proposal where there is none, with what whoever asks would add. The decisions of
// the approvals so far, and what the items state, must be in the record.
func (r *Record) Outlook(by Actor, now time.Time) Outlook {
	votes := r.Server.Review.Votes
	o, a := Outlook{Forecast: true}, Approval{}
	if n := len(votes); n > 0 {
		if d, known := r.Decisions[votes[n-1].DecisionID]; known && d.Approval != nil {
			o.Forecast, a = false, *d.Approval
		}
	}
	if o.Forecast {
		a = r.Proposal()
	}
	mine := Vote{
		Verb: VerbApprove, Review: a.Digest, Content: a.ContentDigest(), Subject: by.Subject, Roles: by.Roles,
		Comment: "asked beforehand", At: now, // a comment that is demanded keeps nobody from deciding
	}
	o.Given = slices.ContainsFunc(votes, func(v Vote) bool { return v.Subject == by.Subject })
	asked := votes
	if !o.Given {
		asked = append(slices.Clone(votes), mine)
	}
	if r.Governance.Approve != nil {
		o.Verdict = r.Governance.Approve(r, a, asked, now)
	}
	o.Tally = o.Verdict.Tally(votes)
	if o.Given {
		return o
	}
	err := r.mayApprove(by, now)
	if err == nil {
		err = o.Verdict.Admit(mine)
	}
	if e, ok := AsError(err); ok {
		o.Blocked = e
	}
	return o
}

// mayApprove says why somebody cannot approve the server whatever the policy
// says, nil when it is the policy's to say.
func (r *Record) mayApprove(by Actor, now time.Time) error {
	s := &r.Server
	switch {
	case s.State == StateRetired:
		return Errorf(ReasonServerRetired, "server %s is retired", s.Name)
	case !by.Has(RoleAssetMaintainer, RolePlatformAdmin):
		return Errorf(ReasonPermissionDenied, "approving needs the role %s or %s", RoleAssetMaintainer, RolePlatformAdmin)
	case s.Authentication != AuthNoneException && r.Snapshot.Open():
		return Errorf(ReasonAuthNotEnforced, "server %s is registered with %s, but answered without any authentication", s.Name, s.Authentication)
	case s.Authentication == AuthNoneException && !s.excepted(now) && !by.Has(RolePlatformAdmin):
		return Errorf(ReasonPermissionDenied, "only a %s may approve a server without authentication", RolePlatformAdmin)
	}
	return r.current(s.Review.Digest)
}

// excepted says whether the exception of a server without authentication still
// runs.
func (s *Server) excepted(now time.Time) bool {
	return !s.Exception.ExpiresAt.IsZero() && !s.Exception.Expired(now) && !s.Causes.Has(CauseAuthExceptionExpired)
}
