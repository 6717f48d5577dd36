package registry

import (
	"strconv"
	"time"
)

// Unfit is something bound whose approval the policy that is in force now does
// not admit, or that is over by it.
type Unfit struct {
	Kind       ItemKind `json:"kind"`
	Name       string   `json:"name"`
	ToolID     string   `json:"toolId,omitempty"`
	Class      Class    `json:"class,omitempty"`
	DecisionID string   `json:"decisionId"`
	Reason     Reason   `json:"reason"` // policy_changed or approval_expired
	Detail     string   `json:"detail"` // what the policy says
}

// Decided lists the decisions that something is bound by.
func (r *Record) Decided() []string {
	by := map[string]bool{}
	for _, b := range r.Bindings {
		by[b.DecisionID] = by[b.DecisionID] || b.Bound
	}
	for _, b := range r.Resources {
		by[b.DecisionID] = by[b.DecisionID] || b.Bound
	}
	for _, b := range r.Prompts {
		by[b.DecisionID] = by[b.DecisionID] || b.Bound
	}
	var out []string
	for _, id := range sortedKeys(by) {
		if by[id] {
			out = append(out, id)
		}
	}
	return out
}

// Reevaluate asks the policy again about everything that is bound, line by line:
// would it admit the approvals that were given? What it would not is unbound,
// and a review is asked for. Approvals can come to end sooner by it, never
// later.
func (r *Record) Reevaluate(now time.Time) ([]Unfit, error) {
	var unfit []Unfit
	for _, id := range r.Decided() {
		d, known := r.Decisions[id]
		lines := r.lines(d)
		if !known || d.Approval == nil {
			lines = r.orphans(id)
		}
		shortest := Expiry{}
		for i := range lines {
			l := &lines[i]
			verdict, tally := r.again(d, *l, now)
			if tally.Status != TallyApproved {
				l.unfit(ReasonPolicyChanged, tally.String())
				continue
			}
			dates := verdict.Expiry.Dates(d.DecidedAt)
			if dates.EndsAt.IsZero() {
				continue
			}
			if !dates.EndsAt.After(now) {
				l.unfit(ReasonApprovalExpired, "approvals end "+verdict.Expiry.After.String()+" after they were given")
				continue
			}
			if verdict.Expiry.Shorter(shortest) {
				shortest = verdict.Expiry
			}
		}
		for _, l := range lines {
			if l.Reason != "" {
				r.take(l.Unfit)
				unfit = append(unfit, l.Unfit)
			}
		}
		r.shorten(id, shortest.Dates(d.DecidedAt))
	}
	if len(unfit) == 0 {
		return nil, nil
	}
	r.beginTerm("", ExpiryDates{})
	r.recertify("policy", now, now)
	r.touch()
	r.noteAlso("policy " + r.Server.GovernancePolicyRef + " unbinds " + strconv.Itoa(len(unfit)))
	r.changes.Detail = struct {
		Unbound []Unfit `json:"unbound"`
	}{unfit}
	return unfit, r.Server.settle()
}

// line is one line of an approval that still holds.
type line struct {
	Unfit
	approval Approval // of this line alone
}

func (l *line) unfit(why Reason, detail string) { l.Reason, l.Detail = why, detail }

// lines takes the lines of a decision apart of which something is bound by it.
func (r *Record) lines(d Decision) []line {
	if d.Approval == nil {
		return nil
	}
	a := *d.Approval
	only := Approval{Digest: a.Digest, ExceptionExpiresAt: a.ExceptionExpiresAt}
	var out []line
	for _, x := range a.Tools {
		if b := r.Bindings[x.Tool]; b != nil && b.Bound && b.DecisionID == d.DecisionID {
			one := only
			one.Tools = []ToolLine{x}
			out = append(out, line{Unfit{Kind: KindTool, Name: x.Tool, Class: x.Class, DecisionID: d.DecisionID}, one})
			if tool := r.Tools[x.Tool]; tool != nil {
				out[len(out)-1].ToolID = tool.ToolID
			}
		}
	}
	for _, x := range a.Resources {
		if b := r.Resources[x.URI]; b != nil && b.Bound && b.DecisionID == d.DecisionID {
			one := only
			one.Resources = []ResourceLine{x}
			out = append(out, line{Unfit{Kind: KindResource, Name: x.URI, DecisionID: d.DecisionID}, one})
		}
	}
	for _, x := range a.Prompts {
		if b := r.Prompts[x.Prompt]; b != nil && b.Bound && b.DecisionID == d.DecisionID {
			one := only
			one.Prompts = []PromptLine{x}
			out = append(out, line{Unfit{Kind: KindPrompt, Name: x.Prompt, DecisionID: d.DecisionID}, one})
		}
	}
	return out
}

// orphans are the lines of a decision that is not kept: nobody can say who gave
// it.
func (r *Record) orphans(id string) []line {
	var out []line
	for _, name := range sortedKeys(r.Bindings) {
		if b := r.Bindings[name]; b.Bound && b.DecisionID == id {
			out = append(out, line{Unfit: Unfit{Kind: KindTool, Name: name, Class: b.DeclaredClass, DecisionID: id}})
		}
	}
	for _, uri := range sortedKeys(r.Resources) {
		if b := r.Resources[uri]; b.Bound && b.DecisionID == id {
			out = append(out, line{Unfit: Unfit{Kind: KindResource, Name: uri, DecisionID: id}})
		}
	}
	for _, name := range sortedKeys(r.Prompts) {
		if b := r.Prompts[name]; b.Bound && b.DecisionID == id {
			out = append(out, line{Unfit: Unfit{Kind: KindPrompt, Name: name, DecisionID: id}})
		}
	}
	return out
}

// again puts a line to the policy with the approvals that were given for it.
func (r *Record) again(d Decision, l line, now time.Time) (ApprovalVerdict, Tally) {
	votes := []Vote{d.Vote()}
	past := *r
	if e := d.Evidence; e != nil {
		votes = append([]Vote(nil), e.Votes...)
		past.Server.Review.RequestedBy = e.Verdict.Requester
	}
	content := ""
	if d.Approval != nil {
		content = d.Approval.ContentDigest()
	}
	for i := range votes {
		if votes[i].Content == content {
			votes[i].Content = l.approval.ContentDigest() // who approved all approved this
		}
	}
	var v ApprovalVerdict
	if r.Governance.Approve != nil && d.Approval != nil {
		v = r.Governance.Approve(&past, l.approval, votes, now)
	}
	return v, v.Tally(votes)
}

// take unbinds what is unfit.
func (r *Record) take(u Unfit) {
	switch u.Kind {
	case KindTool:
		r.unbind(u.Name, u.Reason)
	case KindResource, KindTemplate:
		if b := r.Resources[u.Name]; b != nil && b.Bound {
			b.Bound, b.UnboundBy, r.changes.Resources[u.Name] = false, u.Reason, true
		}
	case KindPrompt:
		if b := r.Prompts[u.Name]; b != nil && b.Bound {
			b.Bound, b.UnboundBy, r.changes.Prompts[u.Name] = false, u.Reason, true
		}
	}
}

// shorten brings the end of an approval forward.
func (r *Record) shorten(id string, dates ExpiryDates) {
	if dates.EndsAt.IsZero() {
		return
	}
	s := &r.Server
	sooner := func(ends time.Time) bool { return ends.IsZero() || dates.EndsAt.Before(ends) }
	moved := false
	for name, b := range r.Bindings {
		if b.Bound && b.DecisionID == id && sooner(b.EndsAt) {
			b.DueAt, b.EndsAt, r.changes.Bindings[name], moved = dates.DueAt, dates.EndsAt, true, true
		}
	}
	for uri, b := range r.Resources {
		if b.Bound && b.DecisionID == id && sooner(b.EndsAt) {
			b.EndsAt, r.changes.Resources[uri], moved = dates.EndsAt, true, true
		}
	}
	for name, b := range r.Prompts {
		if b.Bound && b.DecisionID == id && sooner(b.EndsAt) {
			b.EndsAt, r.changes.Prompts[name], moved = dates.EndsAt, true, true
		}
	}
	if !moved {
		return
	}
	var rest []Term
	for _, t := range s.Terms {
		if t.DecisionID != id {
			rest = append(rest, t)
		}
	}
	s.Terms = rest
	r.beginTerm(id, dates)
	r.touch()
	r.noteAlso("policy " + s.GovernancePolicyRef + " ends an approval sooner: " + id)
}
