package registry

import (
	"cmp"
	"slices"
	"time"
)

// Surface is what one discovery saw, whole: the raw bytes of every item of
// every list that the server advertises, read to the end.
type Surface struct {
	ProtocolVersion string   `json:"protocolVersion"`
	Name            string   `json:"name"`    // serverInfo, self-reported
	Version         string   `json:"version"` // serverInfo, self-reported
	Instructions    string   `json:"instructions"`
	Kinds           []string `json:"kinds"`  // advertised: tools, resources, prompts (sorted)
	Quirks          []string `json:"quirks"` // peculiarities that were tolerated (sorted)
	Tools           [][]byte `json:"-"`      // each element of the tools list, as sent
	Resources       [][]byte `json:"-"`
	Templates       [][]byte `json:"-"`
	Prompts         [][]byte `json:"-"`
}

// QuirkAuthNotEnforced is the quirk of a server that is registered with an
// authentication and answered without any (R22). Unlike the others it is covered by
// the snapshot's digest, and nothing of such a snapshot can be approved.
const QuirkAuthNotEnforced = string(ReasonAuthNotEnforced)

// ItemKind is the kind of one thing that a server offers.
type ItemKind string

// The kinds of items.
const (
	KindTool     ItemKind = "tool"
	KindResource ItemKind = "resource"
	KindTemplate ItemKind = "template"
	KindPrompt   ItemKind = "prompt"
)

// Item is one tool, resource, template or prompt of a snapshot. Name is the
// tool's or prompt's name, or the resource's URI or URI template.
type Item struct {
	Kind    ItemKind `json:"kind"`
	Name    string   `json:"name"`
	Address string   `json:"definition"` // under which its bytes are kept; "" before they are, see Definition
	Digests Digests  `json:"digests"`
	Verdict Reason   `json:"verdict,omitempty"` // quarantined when not empty
	Detail  string   `json:"detail,omitempty"`  // what is wrong, escaped
	Title   string   `json:"title,omitempty"`
	Text    string   `json:"text,omitempty"` // its description, as sent
	Raw     []byte   `json:"-"`
	Stated  *Stated  `json:"-"` // of its bytes, when they are not at hand
}

// Definition is the address of the item's bytes, their digest. It is made only
// when it is asked for: nobody asks when a look shows what is known already.
func (i Item) Definition() string {
	if i.Address != "" {
		return i.Address
	}
	return digestBytes(i.Raw)
}

// Quarantined says whether the item is visible but never bindable.
func (i Item) Quarantined() bool { return i.Verdict != "" }

// Digests are the digests of one item (design.md §5). For resources, templates
// and prompts only Contract and Text are used.
type Digests struct {
	Contract  string `json:"contract" bun:"contract_digest"` // schemaHash
	Text      string `json:"text" bun:"text_digest"`
	Behaviour string `json:"behaviour" bun:"behaviour_digest"`
	Meta      string `json:"meta" bun:"meta_digest"` // recorded; moves no binding
}

// Binds says whether a binding made for d still holds for now: contract, text
// and behaviour are equal (C5).
func (d Digests) Binds(now Digests) bool {
	return d.Contract == now.Contract && d.Text == now.Text && d.Behaviour == now.Behaviour
}

// Snapshot is the immutable result of one discovery, addressed by the digest
// of its content. A changed server gets a new one.
type Snapshot struct {
	Digest          string    `json:"digest"`
	ProtocolVersion string    `json:"protocolVersion"`
	ServerName      string    `json:"serverName"`
	ServerVersion   string    `json:"serverVersion"`
	Instructions    string    `json:"instructions"`
	TextDigest      string    `json:"textDigest"` // of the instructions
	Kinds           []string  `json:"kinds"`
	Quirks          []string  `json:"quirks"`
	Items           []Item    `json:"items"` // sorted by kind and name
	CreatedAt       time.Time `json:"createdAt"`
}

// Open says whether the server answered without the authentication that it is
// registered with.
func (s *Snapshot) Open() bool { return slices.Contains(s.Quirks, QuirkAuthNotEnforced) }

// Of gives the items of a kind.
func (s *Snapshot) Of(kind ItemKind) []Item {
	var out []Item
	for _, item := range s.Items {
		if item.Kind == kind {
			out = append(out, item)
		}
	}
	return out
}

// Find gives the item of a kind and name.
func (s *Snapshot) Find(kind ItemKind, name string) (Item, bool) {
	i, found := slices.BinarySearchFunc(s.Items, Item{Kind: kind, Name: name}, func(a, b Item) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	if !found {
		return Item{}, false
	}
	return s.Items[i], true
}

// resource gives the resource or template of a URI.
func (s *Snapshot) resource(uri string) (Item, bool) {
	if item, there := s.Find(KindResource, uri); there {
		return item, true
	}
	return s.Find(KindTemplate, uri)
}
