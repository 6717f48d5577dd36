package registry

import "slices"

// Gap is something of what is to be signed that nobody can check, as a stable
// code: neither safe nor unsafe.
type Gap string

// The gaps.
const (
	GapToolBehaviour    Gap = "tool_behaviour"
	GapResourceContents Gap = "resource_contents"
	GapPromptBodies     Gap = "prompt_bodies"
	GapHintsMissing     Gap = "hints_missing"
	GapUnknownDialect   Gap = "unknown_dialect"
	GapCommandFiles     Gap = "command_files"
)

// Gaps lists all of them, in the order in which they are told.
func Gaps() []Gap {
	return []Gap{GapToolBehaviour, GapResourceContents, GapPromptBodies, GapHintsMissing, GapUnknownDialect, GapCommandFiles}
}

// Means says for people what was not checked.
func (g Gap) Means() string {
	switch g {
	case GapToolBehaviour:
		return "what the tools really do: only what the server says of them was looked at"
	case GapResourceContents:
		return "what is in the resources: only their names and descriptions were looked at"
	case GapPromptBodies:
		return "what the prompts say: only their names, descriptions and arguments were looked at"
	case GapHintsMissing:
		return "whether some tools only read, or destroy: their server does not say"
	case GapUnknownDialect:
		return "what some schemas allow: they are written in a dialect that is not known here"
	case GapCommandFiles:
		return "the files that the command loads: the digest is of the command alone"
	}
	return ""
}

// GapsOf says what of some items of a server cannot be checked.
func (s *Server) GapsOf(items []Item) []Gap {
	found := map[Gap]bool{GapCommandFiles: s.Transport == TransportStdio}
	for _, item := range items {
		switch item.Kind {
		case KindTool:
			found[GapToolBehaviour] = true
			found[GapHintsMissing] = found[GapHintsMissing] || len(item.states()) == 0
		case KindResource, KindTemplate:
			found[GapResourceContents] = true
		case KindPrompt:
			found[GapPromptBodies] = true
		}
		found[GapUnknownDialect] = found[GapUnknownDialect] || slices.Contains(item.Says().Hints, string(HintUnknownDialect))
	}
	return slices.DeleteFunc(Gaps(), func(g Gap) bool { return !found[g] })
}

// Shown is what stood in the review that was approved, frozen: what was signed is
// in the decision, what the policy said beside this.
type Shown struct {
	Kind        ReviewKind   `json:"kind"`
	Compared    string       `json:"compared,omitempty"`    // the snapshot that was approved before
	Quarantined int          `json:"quarantined,omitempty"` // items that could not be approved
	Hinted      []HintedItem `json:"hinted,omitempty"`      // of what was approved; at most 100
	More        int          `json:"more,omitempty"`        // so many more have hints
	Gaps        []Gap        `json:"gaps,omitempty"`        // of what was approved
}

// HintedItem is an item and what the review pointed out of its bytes.
type HintedItem struct {
	Kind  ItemKind `json:"kind"`
	Name  string   `json:"name"`
	Hints []string `json:"hints"`
}

// maxHintedItems bounds the record of one decision.
const maxHintedItems = 100

// shown gives what stood in the review of what an approval names.
func (r *Record) shown(a Approval) *Shown {
	out := &Shown{Kind: r.Server.ReviewKind(), Compared: r.Server.ApprovedSnapshot}
	for _, item := range r.Snapshot.Items {
		if item.Quarantined() {
			out.Quarantined++
		}
	}
	items := a.items(r.Snapshot)
	for _, item := range items {
		hints := item.Says().Hints
		switch {
		case len(hints) == 0:
		case len(out.Hinted) == maxHintedItems:
			out.More++
		default:
			out.Hinted = append(out.Hinted, HintedItem{item.Kind, item.Name, hints})
		}
	}
	out.Gaps = r.Server.GapsOf(items)
	return out
}

// items gives the items that an approval names, those that are there.
func (a Approval) items(snap *Snapshot) []Item {
	var out []Item
	add := func(item Item, found bool) {
		if found {
			out = append(out, item)
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
