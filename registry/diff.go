package registry

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"
)

// Severity says what a change means to whoever uses a tool. Ordered.
type Severity string

// The severities, the mildest first. docs/drift.md says what each is for.
const (
	SeverityNone       Severity = ""           // nothing changed
	SeverityCosmetic   Severity = "cosmetic"   // recorded; moves no digest
	SeverityText       Severity = "text"       // a person or a model reads something else
	SeverityWidening   Severity = "widening"   // what worked still works
	SeverityNarrowing  Severity = "narrowing"  // less is accepted or promised; look
	SeverityBreaking   Severity = "breaking"   // what worked may work no longer
	SeverityEscalating Severity = "escalating" // the tool claims to be less harmless than before
)

// Severities lists the severities in order, without none.
func Severities() []Severity {
	return []Severity{
		SeverityCosmetic, SeverityText, SeverityWidening, SeverityNarrowing, SeverityBreaking, SeverityEscalating,
	}
}

// AtLeast says whether s is as severe as other, or more.
func (s Severity) AtLeast(other Severity) bool { return s.rank() >= other.rank() }

func (s Severity) rank() int { return slices.Index(Severities(), s) }

func worse(a, b Severity) Severity {
	if b.AtLeast(a) {
		return b
	}
	return a
}

// Change is one difference. Path is a JSON Pointer (RFC 6901) into the item:
// into the newer one, or into the older one for what is gone. Before and After
// are JSON, null for nothing there; what is longer than 1,000 bytes is a string
// with the part that differs, and "…" for the rest.
type Change struct {
	Path     string          `json:"path"`
	Kind     ChangeKind      `json:"kind"`
	Severity Severity        `json:"severity"`
	Before   json.RawMessage `json:"before"`
	After    json.RawMessage `json:"after"`

	part part
}

// part says which digests a change moves; 0 is none.
type part uint8

const (
	partContract part = 1 << iota
	partText
	partBehaviour
)

// DiffStatus says what became of an item.
type DiffStatus string

// The statuses. A renamed item is both added and removed.
const (
	DiffAdded     DiffStatus = "added"
	DiffRemoved   DiffStatus = "removed"
	DiffChanged   DiffStatus = "changed"
	DiffUnchanged DiffStatus = "unchanged"
)

// ItemDiff is what became of one tool, resource, template or prompt. Contract,
// Text and Behaviour say which digests moved; they are false for what is added
// or removed. Changes are sorted, the worst first.
//
// Changed without a moved digest means: something can be seen to differ that
// binds nobody (severity cosmetic). Unchanged with changes means: fields differ
// that Countersign records only, such as _meta and icons.
type ItemDiff struct {
	Kind      ItemKind   `json:"kind"`
	Name      string     `json:"name"`
	Status    DiffStatus `json:"status"`
	Contract  bool       `json:"contract"`
	Text      bool       `json:"text"`
	Behaviour bool       `json:"behaviour"`
	Severity  Severity   `json:"severity"`
	Changes   []Change   `json:"changes"`
}

// Relaxed is what a tenant's policy lets pass without a new approval (C5).
// Contract and target can never be relaxed.
type Relaxed struct {
	Text      bool `json:"text"`
	Behaviour bool `json:"behaviour"` // unless it is escalating
}

// Unbinds says whether a binding of the item ends by what changed (C5). An
// added item has no binding.
func (d ItemDiff) Unbinds(relaxed Relaxed) bool {
	switch {
	case d.Status == DiffRemoved, d.Contract:
		return true
	case d.Text && !relaxed.Text:
		return true
	}
	return d.Behaviour && (!relaxed.Behaviour || d.Severity == SeverityEscalating)
}

// Rename is a pair of a removed and an added item that probably are one.
type Rename struct {
	From  string  `json:"from"`
	To    string  `json:"to"`
	Score float64 `json:"score"` // 0 to 1, in hundredths
	Same  bool    `json:"same"`  // their contracts are equal but for the name
}

// DiffCounts are how many items of a list became what. An item whose contract, text
// and behaviour moved is counted in each; Renamed ones are counted as added and
// as removed as well.
type DiffCounts struct {
	Added     int `json:"added"`
	Removed   int `json:"removed"`
	Renamed   int `json:"renamed"`
	Changed   int `json:"changed"`
	Unchanged int `json:"unchanged"`
	Contract  int `json:"contract"`
	Text      int `json:"text"`
	Behaviour int `json:"behaviour"`
	Cosmetic  int `json:"cosmetic"` // changed, and no digest moved
}

// ListDiff is the difference of two lists of one kind. Items has those with
// something to say, the worst first; unchanged ones are only counted, unless
// recorded fields differ.
type ListDiff struct {
	Counts  DiffCounts `json:"counts"`
	Items   []ItemDiff `json:"items"`
	Renamed []Rename   `json:"renamed"` // the most probable first
}

// Diff is the difference of two snapshots. From and To are their digests, so a
// pair of them is the address of a diff that never changes.
type Diff struct {
	From      string   `json:"from"`
	To        string   `json:"to"`
	Severity  Severity `json:"severity"` // the worst of all
	Server    []Change `json:"server"`   // what the handshake told
	Tools     ListDiff `json:"tools"`
	Resources ListDiff `json:"resources"`
	Templates ListDiff `json:"templates"`
	Prompts   ListDiff `json:"prompts"`
}

// Compare gives the difference of two snapshots. Digests decide which of
// contract, text and behaviour moved, so a diff and a binding never disagree;
// a moved digest always has a change that says why. Items whose digests moved
// need their Raw for that. The result depends on the snapshots only, and the cost
// grows with their size.
func Compare(from, to *Snapshot) Diff {
	d := Diff{
		From: from.Digest, To: to.Digest,
		Server:    compareServers(from, to),
		Tools:     compareLists(from.Of(KindTool), to.Of(KindTool)),
		Resources: compareLists(from.Of(KindResource), to.Of(KindResource)),
		Templates: compareLists(from.Of(KindTemplate), to.Of(KindTemplate)),
		Prompts:   compareLists(from.Of(KindPrompt), to.Of(KindPrompt)),
	}
	for _, c := range d.Server {
		d.Severity = worse(d.Severity, c.Severity)
	}
	for _, list := range []ListDiff{d.Tools, d.Resources, d.Templates, d.Prompts} {
		for _, item := range list.Items {
			if item.Status != DiffUnchanged {
				d.Severity = worse(d.Severity, item.Severity)
			}
		}
	}
	return d
}

// CompareTools gives the difference of two lists of tools, each element as the
// server sent it. An element without a usable name refuses the whole list
// (malformed_list).
func CompareTools(from, to [][]byte, limits Limits) (Diff, error) {
	a, err := NewSnapshot(Surface{Tools: from}, limits, time.Time{})
	if err != nil {
		return Diff{}, err
	}
	b, err := NewSnapshot(Surface{Tools: to}, limits, time.Time{})
	if err != nil {
		return Diff{}, err
	}
	return Compare(&a, &b), nil
}

// compareLists merges two lists that are sorted by name.
func compareLists(from, to []Item) ListDiff {
	var list ListDiff
	var gone, come []Item
	for len(from) > 0 || len(to) > 0 {
		switch {
		case len(to) == 0 || len(from) > 0 && from[0].Name < to[0].Name:
			gone = append(gone, from[0])
			list.Items = append(list.Items, ItemDiff{
				Kind: from[0].Kind, Name: from[0].Name, Status: DiffRemoved, Severity: SeverityBreaking,
			})
			from = from[1:]
		case len(from) == 0 || to[0].Name < from[0].Name:
			come = append(come, to[0])
			list.Items = append(list.Items, addedItem(to[0]))
			to = to[1:]
		default:
			d := compareItems(from[0], to[0])
			list.count(d)
			if d.Status != DiffUnchanged || len(d.Changes) > 0 {
				list.Items = append(list.Items, d)
			}
			from, to = from[1:], to[1:]
		}
	}
	list.Renamed = renames(gone, come)
	list.Counts.Added, list.Counts.Removed, list.Counts.Renamed = len(come), len(gone), len(list.Renamed)
	slices.SortStableFunc(list.Items, func(a, b ItemDiff) int {
		return cmp.Or(
			cmp.Compare(b.Severity.rank(), a.Severity.rank()),
			cmp.Compare(statusOrder[a.Status], statusOrder[b.Status]),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return list
}

var statusOrder = map[DiffStatus]int{DiffRemoved: 0, DiffChanged: 1, DiffAdded: 2, DiffUnchanged: 3}

func (l *ListDiff) count(d ItemDiff) {
	if d.Status == DiffUnchanged {
		l.Counts.Unchanged++
		return
	}
	l.Counts.Changed++
	for _, moved := range []struct {
		yes     bool
		counter *int
	}{
		{d.Contract, &l.Counts.Contract},
		{d.Text, &l.Counts.Text},
		{d.Behaviour, &l.Counts.Behaviour},
		{!d.Contract && !d.Text && !d.Behaviour, &l.Counts.Cosmetic},
	} {
		if moved.yes {
			*moved.counter++
		}
	}
}

// added describes a new item. It is bound to nothing, so it widens; a faulty
// one says so.
func addedItem(item Item) ItemDiff {
	d := ItemDiff{Kind: item.Kind, Name: item.Name, Status: DiffAdded, Severity: SeverityWidening}
	if item.Quarantined() {
		d.Changes = []Change{{
			Kind: ChangeQuarantined, Severity: SeverityWidening, After: shownString(verdictOf(item)),
		}}
	}
	return d
}

// compareServers tells what the handshakes told differently.
func compareServers(from, to *Snapshot) []Change {
	var out []Change
	say := func(path string, kind ChangeKind, severity Severity, before, after string) {
		if before != after {
			a, b := shownPair(before, after)
			out = append(out, Change{Path: path, Kind: kind, Severity: severity, Before: a, After: b})
		}
	}
	if from.TextDigest != to.TextDigest {
		say("/instructions", ChangeInstructions, SeverityText, from.Instructions, to.Instructions)
		out = append(out, textMarks("/instructions", from.Instructions, to.Instructions)...)
	} else {
		say("/instructions", ChangeTextWhitespace, SeverityCosmetic, from.Instructions, to.Instructions)
	}
	say("/serverInfo/name", ChangeServerName, SeverityCosmetic, from.ServerName, to.ServerName)
	say("/serverInfo/version", ChangeServerVersion, SeverityCosmetic, from.ServerVersion, to.ServerVersion)
	say("/protocolVersion", ChangeProtocolVersion, SeverityCosmetic, from.ProtocolVersion, to.ProtocolVersion)
	for _, kind := range from.Kinds {
		if !slices.Contains(to.Kinds, kind) {
			out = append(out, Change{Path: "/capabilities/" + pointer(kind), Kind: ChangeCapabilityLost, Severity: SeverityBreaking, Before: shownString(kind)})
		}
	}
	for _, kind := range to.Kinds {
		if !slices.Contains(from.Kinds, kind) {
			out = append(out, Change{Path: "/capabilities/" + pointer(kind), Kind: ChangeCapabilityGained, Severity: SeverityWidening, After: shownString(kind)})
		}
	}
	sortChanges(out)
	return out
}

// sortChanges puts the worst first; among equals, what stands first in the item.
func sortChanges(list []Change) {
	slices.SortStableFunc(list, func(a, b Change) int {
		return cmp.Or(
			cmp.Compare(b.Severity.rank(), a.Severity.rank()),
			cmp.Compare(a.Path, b.Path), cmp.Compare(a.Kind, b.Kind),
		)
	})
}
