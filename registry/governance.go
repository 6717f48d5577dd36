package registry

import (
	"strconv"
	"time"
)

// Governance is how a record asks the governance policy of its server. The
// zero value refuses: nothing can be approved, and nothing that drifted stays
// bound.
type Governance struct {
	// Approve says what the policy demands of an approval. votes are those of the
	// review, the one that is about to count among them.
	Approve func(r *Record, a Approval, votes []Vote, now time.Time) ApprovalVerdict
	// Drift says whether a bound tool that drifted stays bound; seen is what it is
	// now.
	Drift func(r *Record, seen Item, m Moved, now time.Time) DriftVerdict
	// Deadlines of what ends by itself besides approvals. Their zero value is what
	// holds when the policy says nothing.
	Deadlines Deadlines
}

// PolicyBundle is one published version of a governance policy bundle of a
// tenant. It never changes.
type PolicyBundle struct {
	TenantID    string    `json:"tenantId" bun:"tenant_id,pk"`
	Name        string    `json:"name" bun:"name,pk"`
	Version     int       `json:"version" bun:"version,pk"`
	Ref         string    `json:"ref" bun:"ref"`       // name@version
	Digest      string    `json:"digest" bun:"digest"` // of the document
	Description string    `json:"description" bun:"description"`
	Document    []byte    `json:"-" bun:"document"` // in its one form
	PublishedAt time.Time `json:"publishedAt" bun:"published_at"`
	PublishedBy string    `json:"publishedBy" bun:"published_by"`
}

// Evidence is what stood behind a decision to approve: what the policy demanded
// at that time, whose approvals there were, and what they came to.
type Evidence struct {
	Verdict ApprovalVerdict `json:"verdict"`
	Tally   Tally           `json:"tally"`
	Votes   []Vote          `json:"votes,omitempty"`
	Shown   *Shown          `json:"shown,omitempty"` // of an approval: what the review showed
}

// Evidence gives what stood behind the decision of this change, nil when it was
// none that the policy was asked about.
func (r *Record) Evidence() *Evidence {
	if d := r.changes.Decision; d != nil {
		return d.Evidence
	}
	return nil
}

// weigh puts an approval to the policy and counts what was approved so far. The
// error says why this approval cannot count.
func (r *Record) weigh(g Ruling, op Operation, now time.Time) (*Evidence, error) {
	s := &r.Server
	vote := g.Decision(s, op, now).Vote()
	votes := append(append([]Vote(nil), s.Review.Votes...), vote)
	e := &Evidence{Votes: Standing(s.Review.Digest, votes), Shown: r.shown(*g.Approval)}
	if r.Governance.Approve != nil {
		e.Verdict = r.Governance.Approve(r, *g.Approval, votes, now)
	}
	e.Tally = e.Verdict.Tally(votes)
	err := e.Verdict.Admit(vote)
	if err == nil && e.Tally.Status == TallyRefused {
		err = e.Tally.Refusal.Err()
	}
	if refusal, ok := AsError(err); ok && e.Verdict.Bundle != "" {
		refusal.With("policy", e.Verdict.Policy).With("bundle", e.Verdict.Bundle)
	}
	return e, err
}

// collect keeps an approval that is not enough yet. That of somebody who
// approved the same before changes nothing (R125).
func (r *Record) collect(g Ruling, op Operation, e *Evidence, now time.Time) {
	s := &r.Server
	d := g.Decision(s, op, now)
	vote := d.Vote()
	for _, before := range s.Review.Votes {
		if before.Subject == vote.Subject && before.Content == vote.Content && before.Review == vote.Review {
			r.asked("approved again: " + e.Tally.String())
			return
		}
	}
	d.Applied, d.Evidence = true, e
	r.changes.Decision = d
	s.Review.Votes, s.Review.Tally = e.Votes, &e.Tally
	s.Review.Withdrawn = minus(s.Review.Withdrawn, vote.Subject)
	r.touch()
	r.note("approved: " + short(d.Digest) + "; " + e.Tally.String())
}

// keep lets a tool that drifted stay bound when the policy says so: the binding
// is of what the tool is now. Contract and target it never keeps (C5).
func (r *Record) keep(b *ToolBinding, seen Item, now time.Time) bool {
	if !b.Bound || r.Governance.Drift == nil {
		return false
	}
	moved := MovedSince(*b, seen.Digests, r.Server.TargetDigest, r.severity(*b, seen))
	v := r.Governance.Drift(r, seen, moved, now)
	if !v.Keeps(moved) {
		return false
	}
	b.Text, b.Behaviour, b.Doubted = seen.Digests.Text, seen.Digests.Behaviour, false // this look saw it, too
	r.changes.Bindings[b.ToolName] = true
	r.kept = append(r.kept, KeptTool{Tool: b.ToolName, Moved: moved, Rule: v.Rule, Policy: v.Policy, Bundle: v.Bundle})
	return true
}

// KeptTool is a drifted tool that the policy kept bound, for the audit row.
type KeptTool struct {
	Tool   string `json:"tool"`
	Moved  Moved  `json:"moved"`
	Rule   string `json:"rule"`
	Policy string `json:"policy"`
	Bundle string `json:"bundle"`
}

// severity is how bad the drift of a bound tool is, empty when that cannot be
// told: what was approved is not at hand.
func (r *Record) severity(b ToolBinding, seen Item) string {
	if r.Snapshot == nil {
		return ""
	}
	before, found := r.Snapshot.Find(KindTool, b.ToolName)
	approved := Digests{Contract: b.SchemaHash, Text: b.Text, Behaviour: b.Behaviour}
	if !found || !approved.Binds(before.Digests) || len(before.Raw) == 0 || len(seen.Raw) == 0 {
		return ""
	}
	return string(compareItems(before, seen).Severity)
}

// DriftedDefinitions lists the definitions of bound tools that a look shows
// changed: the bytes that are needed to tell how badly they drifted.
func (r *Record) DriftedDefinitions(seen *Snapshot) []string {
	var out []string
	for _, name := range sortedKeys(r.Bindings) {
		b := r.Bindings[name]
		now, there := seen.Find(KindTool, name)
		if !b.Bound || !there || b.Holds(now.Digests, r.Server.TargetDigest) || r.Snapshot == nil {
			continue
		}
		if before, known := r.Snapshot.Find(KindTool, name); known {
			out = append(out, before.Definition())
		}
	}
	return out
}

// BoundDefinitions lists the definitions of what is bound: the bytes that are
// needed to put it to the policy again.
func (r *Record) BoundDefinitions() []string {
	var a Approval
	for _, name := range sortedKeys(r.Bindings) {
		if r.Bindings[name].Bound {
			a.Tools = append(a.Tools, ToolLine{Tool: name})
		}
	}
	for _, uri := range sortedKeys(r.Resources) {
		if r.Resources[uri].Bound {
			a.Resources = append(a.Resources, ResourceLine{URI: uri})
		}
	}
	for _, name := range sortedKeys(r.Prompts) {
		if r.Prompts[name].Bound {
			a.Prompts = append(a.Prompts, PromptLine{Prompt: name})
		}
	}
	return a.Definitions(r.Snapshot)
}

// Definitions lists the definitions of what an approval names.
func (a Approval) Definitions(snap *Snapshot) []string {
	if snap == nil {
		return nil
	}
	var out []string
	add := func(item Item, found bool) {
		if found {
			out = append(out, item.Definition())
		}
	}
	for _, line := range a.Tools {
		add(snap.Find(KindTool, line.Tool))
	}
	for _, line := range a.Resources {
		add(snap.resource(line.URI))
	}
	for _, line := range a.Prompts {
		add(snap.Find(KindPrompt, line.Prompt))
	}
	return out
}

// noteKept says in the audit what the policy kept bound.
func (r *Record) noteKept() string {
	if len(r.kept) == 0 {
		return ""
	}
	r.changes.Detail = struct {
		Kept []KeptTool `json:"kept"`
	}{r.kept}
	return "; " + strconv.Itoa(len(r.kept)) + " drifted tools kept by rule " + r.kept[0].Rule + " of " + r.kept[0].Policy
}
