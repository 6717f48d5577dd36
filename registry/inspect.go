package registry

import (
	"cmp"
	"slices"
	"time"
)

// ReviewKind says what somebody is asked to sign; there is never more than one
// thing at a time.
type ReviewKind string

// The kinds.
const (
	ReviewFirst ReviewKind = "first" // nothing of the server was approved yet: all of it is new
	ReviewDrift ReviewKind = "drift" // the server or its target is another one than approved
	ReviewAgain ReviewKind = "again" // as approved, and to be decided again
)

// ReviewKind says what there is to sign about the server as it is; "" when there
// is nothing.
func (s *Server) ReviewKind() ReviewKind {
	switch {
	case s.SnapshotDigest == "":
		return ""
	case s.ApprovedSnapshot == "":
		return ReviewFirst
	case s.ApprovedSnapshot != s.SnapshotDigest || s.ApprovedTarget != s.TargetDigest:
		return ReviewDrift
	case s.Review.Status == ReviewPending:
		return ReviewAgain
	}
	return ""
}

// Terms are those on which an item was approved before.
type Terms struct {
	Tool     *ToolBinding // one of the three
	Resource *ResourceBinding
	Prompt   *PromptBinding

	By      string // who approved it
	At      time.Time
	Bound   bool   // they hold
	Unbound Reason // why they do not
	Same    bool   // what was approved is what is there now, at the target of now
}

// Inspected is one item as a reviewer sees it: what became of it, and what is
// known about it besides.
type Inspected struct {
	ItemDiff

	Now *Item // nil: it is gone
	Was *Item // nil: it is new

	RenamedFrom, RenamedTo string  // probably; at most one of them
	Likeness               float64 // of the two; see [Rename]
	SameContract           bool

	Hints []Hint // of its own bytes
	Terms *Terms // nil: it was never approved
}

// NeedsLook says whether a reviewer has to see the item: it changed, or it is
// what was approved and no longer bound.
func (i *Inspected) NeedsLook() bool {
	return i.Status != DiffUnchanged || i.Terms != nil && !i.Terms.Bound
}

// Inspect lists all items of both snapshots, the worst of each kind first: by
// severity, then faulty ones, then those with hints that accuse. hints gives
// those of an item, such as [Hints]; terms gives those of an item by kind and name.
func Inspect(from, to *Snapshot, hints func(Item) []Hint, terms func(Item) *Terms) (Diff, map[ItemKind][]Inspected) {
	d := Compare(from, to)
	out := map[ItemKind][]Inspected{}
	for kind, list := range map[ItemKind]ListDiff{
		KindTool: d.Tools, KindResource: d.Resources, KindTemplate: d.Templates, KindPrompt: d.Prompts,
	} {
		items := inspectList(list, from.Of(kind), to.Of(kind))
		for i := range items {
			item := items[i].Now
			if item == nil {
				item = items[i].Was
			} else {
				items[i].Hints = hints(*item)
			}
			items[i].Terms = terms(*item)
		}
		slices.SortStableFunc(items, func(a, b Inspected) int {
			return cmp.Or(
				cmp.Compare(b.Severity.rank(), a.Severity.rank()),
				cmp.Compare(statusOrder[a.Status], statusOrder[b.Status]),
				-trueFirst(a.faulty(), b.faulty()), -trueFirst(Accuse(a.Hints), Accuse(b.Hints)),
				-trueFirst(a.NeedsLook(), b.NeedsLook()), cmp.Compare(a.Name, b.Name),
			)
		})
		out[kind] = items
	}
	return d, out
}

func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func (i *Inspected) faulty() bool { return i.Now != nil && i.Now.Quarantined() }

// inspectList gives each item of two lists of one kind, which are sorted by name.
func inspectList(list ListDiff, from, to []Item) []Inspected {
	told := make(map[string]ItemDiff, len(list.Items))
	for _, d := range list.Items {
		told[d.Name] = d
	}
	at := make(map[string]int, len(to))
	items := make([]Inspected, 0, max(len(from), len(to)))
	add := func(item *Item) *Inspected {
		i, known := at[item.Name]
		if !known {
			i = len(items)
			at[item.Name] = i
			d, differs := told[item.Name]
			if !differs {
				d = ItemDiff{Kind: item.Kind, Name: item.Name, Status: DiffUnchanged}
			}
			items = append(items, Inspected{ItemDiff: d})
		}
		return &items[i]
	}
	for i := range from {
		add(&from[i]).Was = &from[i]
	}
	for i := range to {
		add(&to[i]).Now = &to[i]
	}
	for _, pair := range list.Renamed {
		for name, other := range map[string]*Inspected{pair.From: &items[at[pair.From]], pair.To: &items[at[pair.To]]} {
			other.Likeness, other.SameContract = pair.Score, pair.Same
			if name == pair.From {
				other.RenamedTo = pair.To
			} else {
				other.RenamedFrom = pair.From
			}
		}
	}
	return items
}

// Accuse says whether hints are of the kind that honest items seldom have:
// characters that hide, text that speaks to a model, names secrets or other
// tools, names that pass for others.
func Accuse(hints []Hint) bool {
	return slices.ContainsFunc(hints, func(h Hint) bool {
		switch h.Code {
		case HintMeta, HintUnknownField, HintUnknownDialect:
			return false
		default:
			return true
		}
	})
}
