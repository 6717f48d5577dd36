package policy

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"countersign/registry"
)

// Approval is what is put to the policy when somebody decides: one content and those who approved it so far, the one
// who decides now among them.
type Approval struct {
	Review    string // digest of the pair under review
	Content   string // registry.Approval.ContentDigest
	Server    Server
	Requester string
	Items     []Item          // none: the empty set
	Votes     []registry.Vote // in the order in which they were taken
	Now       time.Time
}

// ApprovalOf gives what is put to the policy about an approval of a record's server. Hints of the review and the
// severity of drift are not in a record: the caller adds them to Items.
func ApprovalOf(r *registry.Record, a registry.Approval, votes []registry.Vote, now time.Time) Approval {
	in := Approval{
		Review: a.Digest, Content: a.ContentDigest(), Server: ServerOf(&r.Server), Requester: Requester(&r.Server),
		Votes: votes, Now: now,
	}
	for _, line := range a.Tools {
		in.Items = append(in.Items, ToolOf(r, line.Tool, line.Class))
	}
	for _, line := range a.Resources {
		item, found := find(r.Snapshot, registry.KindResource, line.URI)
		if !found {
			item, _ = find(r.Snapshot, registry.KindTemplate, line.URI)
		}
		in.Items = append(in.Items, Item{Kind: item.Kind, Name: line.URI, Title: item.Title, Text: item.Text})
	}
	for _, line := range a.Prompts {
		item, _ := find(r.Snapshot, registry.KindPrompt, line.Prompt)
		in.Items = append(in.Items, Item{Kind: registry.KindPrompt, Name: line.Prompt, Title: item.Title, Text: item.Text})
	}
	return in
}

// Requester is who asked for the approval of a server: who triggered the discovery, and where that was no person, who
// registered the server.
func Requester(s *registry.Server) string {
	if by := s.Review.RequestedBy; by != "" && !strings.HasPrefix(by, registry.System("").Subject) {
		return by
	}
	return s.CreatedBy
}

// ToolOf gives what rules see of a tool that is to be approved as a class, or is bound as one.
func ToolOf(r *registry.Record, name string, class registry.Class) Item {
	item := Item{Kind: registry.KindTool, Name: name, Class: class}
	tool := r.Tools[name]
	if tool != nil {
		item.ID, item.Title, item.Text = tool.ToolID, tool.Title, tool.Description
	}
	if seen, found := find(r.Snapshot, registry.KindTool, name); found {
		item.Annotations = seen.Annotations()
	}
	if b := r.Bindings[name]; b != nil {
		item.ApprovedClass = b.DeclaredClass
		if tool != nil {
			item.Drift = registry.MovedSince(*b, tool.Digests, r.Server.TargetDigest, "")
		}
	}
	return item
}

func find(s *registry.Snapshot, kind registry.ItemKind, name string) (registry.Item, bool) {
	if s == nil {
		return registry.Item{Kind: kind}, false
	}
	item, found := s.Find(kind, name)
	item.Kind = kind
	return item, found
}

// Approve says what the policy demands of an approval. It never fails: a policy that does refuses. Which people count
// depends on each of them alone, so another approver takes nothing away from those before.
func (p *Policy) Approve(in Approval) registry.ApprovalVerdict {
	v := registry.ApprovalVerdict{
		Bundle: p.Digest(), Policy: p.Ref(), Review: in.Review, Content: in.Content, Requester: in.Requester, EvaluatedAt: in.Now.UTC(),
	}
	if p == nil {
		v.Refusal = &registry.PolicyRefusal{Reason: registry.ReasonPolicyError, Message: "there is no policy, so nothing can be approved"}
		return v
	}
	items := in.Items
	if len(items) == 0 {
		items = []Item{{Kind: KindNothing}}
	}
	m := merger{verdict: &v, items: map[string]int{}}
	budget := uint64(reviewBudget)
	var restricted []restriction
	for i := range items {
		f := &facts{server: &in.Server, item: &items[i], requester: in.Requester, now: in.Now, zone: p.zone}
		counted := false
		for r := range p.approval {
			rule := &p.approval[r]
			matches, err := rule.when.holds(f, &budget)
			if err != nil {
				v.Refusal = failed(rule.Name, err)
				return v
			}
			if !matches {
				continue
			}
			m.add(rule, items[i].Name)
			counted = counted || rule.Approvers > 0
			if rule.From != "" {
				restricted = append(restricted, restriction{rule, &items[i]})
			}
		}
		if !counted && v.Refusal == nil {
			v.Refusal = &registry.PolicyRefusal{Reason: registry.ReasonPolicyDenied, Message: "no rule says how many people approve " + describe(items[i])}
		}
	}
	m.finish()
	if len(restricted) > 0 {
		p.restrict(&v, in, restricted)
	}
	return v
}

func failed(rule string, err error) *registry.PolicyRefusal {
	return &registry.PolicyRefusal{Reason: registry.ReasonPolicyError, Rule: rule, Message: "rule " + rule + " failed, so nothing can be approved: " + err.Error()}
}

func describe(item Item) string {
	switch {
	case item.Kind == KindNothing:
		return "the empty set"
	case item.Class != "":
		return message(item.Name) + " as " + string(item.Class)
	}
	return message(item.Name)
}

// merger makes one demand of those of many rules: the strictest of each.
type merger struct {
	verdict *registry.ApprovalVerdict
	items   map[string]int // index in Matched, by rule
}

func (m *merger) add(rule *approvalRule, item string) {
	v := m.verdict
	at, again := m.items[rule.Name]
	if again {
		v.Matched[at].Items++
		return
	}
	m.items[rule.Name] = len(v.Matched)
	v.Matched = append(v.Matched, registry.MatchedRule{Rule: rule.Name, Items: 1, First: item})
	if rule.Refuse != "" && v.Refusal == nil {
		v.Refusal = &registry.PolicyRefusal{Reason: registry.ReasonPolicyDenied, Rule: rule.Name, Message: rule.Refuse}
	}
	v.Needed = max(v.Needed, rule.Approvers)
	v.DistinctFromRequester = v.DistinctFromRequester || rule.NotRequester
	for role, n := range rule.Roles {
		if v.Roles == nil {
			v.Roles = map[registry.Role]int{}
		}
		v.Roles[role] = max(v.Roles[role], n)
	}
	if rule.Comment != "" {
		v.CommentDemandedBy = append(v.CommentDemandedBy, registry.CommentDemand{Rule: rule.Name, Message: rule.Comment})
	}
	if rule.From != "" {
		v.RestrictedBy = append(v.RestrictedBy, rule.Name)
	}
	if e := rule.Expiry.registry(); e.Shorter(v.Expiry) {
		v.Expiry = e
	}
}

// finish brings what the rules added into an order that does not depend on that of the items.
func (m *merger) finish() {
	v := m.verdict
	slices.Sort(v.RestrictedBy)
	slices.SortFunc(v.Matched, func(a, b registry.MatchedRule) int { return strings.Compare(a.Rule, b.Rule) })
	slices.SortFunc(v.CommentDemandedBy, func(a, b registry.CommentDemand) int { return strings.Compare(a.Rule, b.Rule) })
}

func (e Expiry) registry() registry.Expiry {
	out := registry.Expiry{After: time.Duration(e.After), Recertify: time.Duration(e.Recertify), Grace: time.Duration(e.Grace)}
	for _, before := range e.Remind {
		out.Remind = append(out.Remind, time.Duration(before))
	}
	slices.Sort(out.Remind)
	slices.Reverse(out.Remind)
	return out
}

// restriction is a rule that chooses who may approve an item.
type restriction struct {
	rule *approvalRule
	item *Item
}

// restrict asks for each approver whether all restrictions let them approve. One that fails for somebody lets nobody
// through whom it failed for, and does not touch the others.
func (p *Policy) restrict(v *registry.ApprovalVerdict, in Approval, restrictions []restriction) {
	// Of several that do not let somebody approve the same one is told, whatever the order of rules and items.
	slices.SortStableFunc(restrictions, func(a, b restriction) int {
		return cmp.Or(strings.Compare(a.rule.Name, b.rule.Name), strings.Compare(a.item.Name, b.item.Name))
	})
	ineligible := map[string]registry.IneligibleVote{}
	for _, vote := range registry.Standing(in.Review, in.Votes) {
		budget := uint64(reviewBudget)
		for _, r := range restrictions {
			f := &facts{server: &in.Server, item: r.item, requester: in.Requester, voter: &vote, now: in.Now, zone: p.zone}
			may, err := r.rule.from.holds(f, &budget)
			switch {
			case err != nil:
				ineligible[vote.Subject] = registry.IneligibleVote{
					Subject: vote.Subject, Rule: r.rule.Name, Reason: registry.ReasonPolicyError, Message: err.Error(),
				}
			case !may:
				ineligible[vote.Subject] = registry.IneligibleVote{Subject: vote.Subject, Rule: r.rule.Name, Reason: registry.ReasonNotEligible}
			default:
				continue
			}
			break
		}
		if _, out := ineligible[vote.Subject]; !out {
			v.Eligible = append(v.Eligible, vote.Subject)
		}
	}
	slices.Sort(v.Eligible)
	for _, subject := range slices.Sorted(maps.Keys(ineligible)) {
		v.Ineligible = append(v.Ineligible, ineligible[subject])
	}
}
