package registry

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// PolicyRef names a governance policy bundle of the tenant, or the built-in one: "payments" is its newest published
// version, "payments@3" that version and no other.
type PolicyRef struct {
	Name    string
	Version int // 0: the newest
}

// ParsePolicyRef reads a reference. Names are like those of servers: letters, digits and hyphens.
func ParsePolicyRef(ref string) (PolicyRef, error) {
	name, version, pinned := strings.Cut(ref, "@")
	n := 0
	if pinned {
		var err error
		if n, err = strconv.Atoi(version); err != nil || n < 1 || strconv.Itoa(n) != version {
			return PolicyRef{}, Errorf(ReasonUnknownPolicy, "the version of policy %q is not a number from 1", printable(ref)).
				WithNext("write NAME, or NAME@VERSION for one version")
		}
	}
	if !ValidPolicyName(name) {
		return PolicyRef{}, Errorf(ReasonUnknownPolicy, "%q is not the name of a policy", printable(name)).
			WithNext("write NAME, or NAME@VERSION for one version")
	}
	return PolicyRef{name, n}, nil
}

// String gives the reference as ParsePolicyRef reads it.
func (r PolicyRef) String() string {
	if r.Version == 0 {
		return r.Name
	}
	return r.Name + "@" + strconv.Itoa(r.Version)
}

// ValidPolicyName says whether a bundle, or a rule of one, may be called so: 1 to 63 lower-case letters, digits and
// inner hyphens.
func ValidPolicyName(name string) bool {
	if name == "" || len(name) > 63 || name[0] == '-' || name[len(name)-1] == '-' {
		return false
	}
	return !strings.ContainsFunc(name, func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' })
}

// printable makes text of unknown origin fit for a message.
func printable(s string) string {
	if len(s) > 100 {
		s = strings.ToValidUTF8(s[:100], "") + "…"
	}
	quoted := strconv.Quote(s)
	return quoted[1 : len(quoted)-1]
}

// ApprovalVerdict is what the policy demands of the approval of one content. It is plain data: evaluated once, kept
// with the record, and applied by Admit and Tally without asking the policy again. The zero value refuses.
type ApprovalVerdict struct {
	Bundle      string    `json:"bundle"`    // digest of the bundle that was asked
	Policy      string    `json:"policy"`    // its name@version
	Review      string    `json:"review"`    // digest of the pair under review
	Content     string    `json:"content"`   // Approval.ContentDigest of what is to be approved
	Requester   string    `json:"requester"` // who asked for the approval
	EvaluatedAt time.Time `json:"evaluatedAt"`

	Needed                int              `json:"needed"` // how many people; none is an error
	DistinctFromRequester bool             `json:"distinctFromRequester,omitempty"`
	Roles                 map[Role]int     `json:"roles,omitempty"`             // how many of them must hold the role
	Expiry                Expiry           `json:"expiry,omitzero"`             // of the approval; zero: never
	CommentDemandedBy     []CommentDemand  `json:"commentDemandedBy,omitempty"` // when not empty, each approver says why
	RestrictedBy          []string         `json:"restrictedBy,omitempty"`      // rules that choose who may approve; when there are any, only Eligible count
	Eligible              []string         `json:"eligible,omitempty"`          // subjects that all of them let approve
	Ineligible            []IneligibleVote `json:"ineligible,omitempty"`        // and those whom one did not

	Matched []MatchedRule  `json:"matched,omitempty"` // why: the rules that spoke
	Refusal *PolicyRefusal `json:"refusal,omitempty"` // nobody can approve this
}

// Expiry is how long an approval lasts and how it is renewed.
type Expiry struct {
	After     time.Duration   `json:"after"`               // due so long after the last decision; 0: never
	Recertify time.Duration   `json:"recertify,omitempty"` // a review opens so long before it is due
	Grace     time.Duration   `json:"grace,omitempty"`     // what was approved stays callable so long after it was due
	Remind    []time.Duration `json:"remind,omitempty"`    // reminders so long before it is due, longest first
}

// ExpiryDates are the moments in the life of an approval that expires.
type ExpiryDates struct {
	RecertifyAt time.Time   `json:"recertifyAt,omitzero"` // a review opens; zero: none does by itself
	Reminders   []time.Time `json:"reminders,omitempty"`
	DueAt       time.Time   `json:"dueAt,omitzero"`
	EndsAt      time.Time   `json:"endsAt,omitzero"` // no longer callable
}

// Dates gives the moments for an approval that was complete at a time. They are zero for one that never expires.
func (e Expiry) Dates(approved time.Time) ExpiryDates {
	if e.After <= 0 {
		return ExpiryDates{}
	}
	due := approved.Add(e.After)
	d := ExpiryDates{DueAt: due, EndsAt: due.Add(e.Grace)}
	if e.Recertify > 0 {
		d.RecertifyAt = due.Add(-e.Recertify)
	}
	for _, before := range e.Remind {
		d.Reminders = append(d.Reminders, due.Add(-before))
	}
	return d
}

// Shorter says whether e ends before other does; one that never expires is the longest.
func (e Expiry) Shorter(other Expiry) bool {
	if e.After <= 0 || other.After <= 0 {
		return e.After > 0
	}
	return cmp.Or(cmp.Compare(e.After+e.Grace, other.After+other.Grace), cmp.Compare(e.After, other.After)) < 0
}

// CommentDemand is a rule that wants approvers to say why.
type CommentDemand struct {
	Rule    string `json:"rule"`
	Message string `json:"message"`
}

// IneligibleVote is somebody whom a rule does not let approve.
type IneligibleVote struct {
	Subject string `json:"subject"`
	Rule    string `json:"rule"`
	Reason  Reason `json:"reason"`
	Message string `json:"message,omitempty"`
}

// MatchedRule is a rule that spoke, and for how many of the items of an approval.
type MatchedRule struct {
	Rule  string `json:"rule"`
	Items int    `json:"items"`
	First string `json:"first,omitempty"` // the name of the first of them
}

// PolicyRefusal is why the policy refuses: a rule of it, or its failure.
type PolicyRefusal struct {
	Reason  Reason `json:"reason"` // policy_denied or policy_error
	Rule    string `json:"rule,omitempty"`
	Message string `json:"message"`
}

// Err gives the refusal as an error.
func (f PolicyRefusal) Err() *Error {
	e := Errorf(f.Reason, "%s", f.Message)
	if f.Rule != "" {
		e.With("rule", f.Rule)
	}
	return e
}

// Moved says what of a bound tool is not as it was approved.
type Moved struct {
	Contract  bool   `json:"contract,omitempty"`
	Text      bool   `json:"text,omitempty"`
	Behaviour bool   `json:"behaviour,omitempty"`
	Target    bool   `json:"target,omitempty"`
	Severity  string `json:"severity,omitempty"` // the worst of the drift: one of DriftSeverities, empty when unknown
}

// DriftSeverities lists how bad a drift can be, the least bad first.
func DriftSeverities() []string {
	return []string{"cosmetic", "text", "widening", "narrowing", "breaking", "escalating"}
}

// MovedSince compares what a binding was made for with what is there now.
func MovedSince(b ToolBinding, now Digests, target, severity string) Moved {
	return Moved{
		Contract: b.SchemaHash != now.Contract, Text: b.Text != now.Text, Behaviour: b.Behaviour != now.Behaviour,
		Target: b.Target != target, Severity: severity,
	}
}

// Names lists what moved.
func (m Moved) Names() []string {
	var out []string
	for _, part := range []struct {
		name  string
		moved bool
	}{{"contract", m.Contract}, {"text", m.Text}, {"behaviour", m.Behaviour}, {"target", m.Target}} {
		if part.moved {
			out = append(out, part.name)
		}
	}
	return out
}

// Any says whether anything moved.
func (m Moved) Any() bool { return m.Contract || m.Text || m.Behaviour || m.Target }

// Relaxable says whether a policy may let the drift pass without a new approval: text, and behaviour that is known not
// to escalate; never contract or target (C5). A severity that is not known counts as the worst.
func (m Moved) Relaxable() bool {
	known := slices.Contains(DriftSeverities(), m.Severity) && m.Severity != "escalating"
	return m.Any() && !m.Contract && !m.Target && known
}

// DriftVerdict is what the policy says of the drift of one bound tool. The zero value unbinds.
type DriftVerdict struct {
	Bundle  string `json:"bundle"`
	Policy  string `json:"policy"`
	Keep    bool   `json:"keep"`
	Rule    string `json:"rule,omitempty"`    // that keeps the tool bound, or that failed
	Reason  Reason `json:"reason,omitempty"`  // policy_error when the policy failed
	Message string `json:"message,omitempty"` // how
}

// Keeps says whether the tool stays bound: what the policy says, as far as C5 lets it.
func (v DriftVerdict) Keeps(m Moved) bool { return v.Keep && v.Reason == "" && m.Relaxable() }

// CallVerdict is what the policy says of one call. The zero value denies.
type CallVerdict struct {
	Bundle  string `json:"bundle"`
	Policy  string `json:"policy"`
	Allowed bool   `json:"allowed"`
	Reason  Reason `json:"reason,omitempty"` // policy_denied or policy_error
	Rule    string `json:"rule,omitempty"`
	Message string `json:"message,omitempty"`
}

// Denial gives the verdict as resolve reports it: nil when the call is allowed.
func (v CallVerdict) Denial() *Denial {
	if v.Allowed && v.Reason == "" {
		return nil
	}
	return &Denial{Reason: cmp.Or(v.Reason, ReasonPolicyError), Detail: cmp.Or(v.Message, "no policy was asked")}
}

// ContentDigest addresses what an approval approves: the pair under review and every line, whatever their order. Two
// people approve the same thing when these digests are equal.
func (a Approval) ContentDigest() string {
	a.Tools, a.Resources, a.Prompts = slices.Clone(a.Tools), slices.Clone(a.Resources), slices.Clone(a.Prompts)
	slices.SortFunc(a.Tools, func(x, y ToolLine) int { return cmp.Compare(x.Tool, y.Tool) })
	slices.SortFunc(a.Prompts, func(x, y PromptLine) int { return cmp.Compare(x.Prompt, y.Prompt) })
	slices.SortFunc(a.Resources, func(x, y ResourceLine) int { return cmp.Compare(x.URI, y.URI) })
	for i, line := range a.Resources {
		a.Resources[i].Classification = classification(line)
	}
	if !a.ExceptionExpiresAt.IsZero() {
		a.ExceptionExpiresAt = a.ExceptionExpiresAt.UTC().Round(0)
	}
	return digestJSON(a)
}

// Annotations gives the hints that a tool's definition states, by their names in the protocol; what it leaves out is
// not there. They are shown and never trusted.
func (i Item) Annotations() map[string]bool {
	var tool struct {
		Annotations map[string]json.RawMessage `json:"annotations"`
	}
	if i.Kind != KindTool || i.Quarantined() || json.Unmarshal(i.Raw, &tool) != nil {
		return nil
	}
	out := map[string]bool{}
	for _, hint := range hintDefaults {
		switch string(tool.Annotations[hint.name]) {
		case "true":
			out[hint.name] = true
		case "false":
			out[hint.name] = false
		}
	}
	return out
}

// rolesMissing says how many of each role a group of people lacks.
func rolesMissing(needed, held map[Role]int) map[Role]int {
	missing := maps.Clone(needed)
	maps.DeleteFunc(missing, func(role Role, n int) bool {
		missing[role] = n - held[role]
		return held[role] >= n
	})
	return missing
}
