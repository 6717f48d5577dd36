package registry

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// NewSnapshot makes the snapshot of a surface: every item judged and digested,
// sorted by kind and name, so that order and paging do not count (R46, R48).
// An element whose name cannot be read refuses the whole list.
func NewSnapshot(surface Surface, limits Limits, now time.Time) (Snapshot, error) {
	s := Snapshot{
		ProtocolVersion: surface.ProtocolVersion, ServerName: surface.Name, ServerVersion: surface.Version,
		Instructions: surface.Instructions, TextDigest: TextDigest(surface.Instructions),
		Kinds: surface.Kinds, Quirks: surface.Quirks, CreatedAt: now,
	}
	for _, list := range []struct {
		kind ItemKind
		key  string
		raw  [][]byte
	}{
		{KindPrompt, "name", surface.Prompts},
		{KindResource, "uri", surface.Resources},
		{KindTemplate, "uriTemplate", surface.Templates},
		{KindTool, "name", surface.Tools},
	} {
		items, err := itemsOf(list.kind, list.key, list.raw, limits)
		if err != nil {
			return Snapshot{}, err
		}
		s.Items = append(s.Items, items...)
	}
	s.Digest = digestJSON(struct {
		Text  string
		Kinds []string
		Items []identity
	}{s.TextDigest, s.Kinds, identities(s.Items)})
	return s, nil
}

// ToolsDigest is the digest of the tools list alone: what a probe compares.
func ToolsDigest(tools [][]byte, limits Limits) (string, error) {
	items, err := itemsOf(KindTool, "name", tools, limits)
	if err != nil {
		return "", err
	}
	return digestJSON(identities(items)), nil
}

// ToolsDigest is the digest of the snapshot's tools alone.
func (s *Snapshot) ToolsDigest() string { return digestJSON(identities(s.Of(KindTool))) }

// identity is the part of an item that a snapshot's digest covers.
type identity struct {
	Kind                      ItemKind
	Name                      string
	Contract, Text, Behaviour string
	Verdict                   Reason
}

func identities(items []Item) []identity {
	out := make([]identity, len(items))
	for i, it := range items {
		out[i] = identity{it.Kind, it.Name, it.Digests.Contract, it.Digests.Text, it.Digests.Behaviour, it.Verdict}
	}
	return out
}

func itemsOf(kind ItemKind, key string, list [][]byte, limits Limits) ([]Item, error) {
	items := make([]Item, 0, len(list))
	for n, raw := range list {
		name, err := nameOf(raw, key)
		if err != nil {
			return nil, Errorf(ReasonMalformedList, "element %d of the %ss list: %w", n, kind, err)
		}
		items = append(items, NewItem(kind, name, raw, limits))
	}
	slices.SortStableFunc(items, func(a, b Item) int { return cmp.Compare(a.Name, b.Name) })
	return mergeDuplicates(items), nil
}

// mergeDuplicates makes one quarantined item of all that share a name; its
// definition is the list of their bytes, so that both stay visible.
func mergeDuplicates(items []Item) []Item {
	var out []Item
	for group := range slices.Values(chunkByName(items)) {
		if len(group) == 1 {
			out = append(out, group[0])
			continue
		}
		raws := make([]string, len(group))
		for i, it := range group {
			raws[i] = string(it.Raw)
		}
		slices.Sort(raws)
		both := []byte{'['}
		for i, raw := range raws {
			if i > 0 {
				both = append(both, ',')
			}
			both = append(both, raw...)
		}
		both = append(both, ']')
		merged := Item{Kind: group[0].Kind, Name: group[0].Name, Raw: both, Definition: digestBytes(both)}
		merged.Digests.Contract = merged.Definition
		out = append(out, merged.quarantine(ReasonDuplicateName, "the server lists this name more than once"))
	}
	return out
}

func chunkByName(items []Item) [][]Item {
	var out [][]Item
	for i, it := range items {
		if i > 0 && items[i-1].Name == it.Name {
			out[len(out)-1] = append(out[len(out)-1], it)
			continue
		}
		out = append(out, []Item{it})
	}
	return out
}

// nameOf reads the one field that the envelope needs. It takes the last of
// duplicate keys; NewItem quarantines such an item anyway.
func nameOf(raw []byte, key string) (string, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return "", Errorf(ReasonMalformedList, "not an object")
	}
	var name string
	if err := json.Unmarshal(fields[key], &name); err != nil || name == "" {
		return "", Errorf(ReasonMalformedList, "no usable %s", key)
	}
	// No database keeps NUL in a text. Such an item is quarantined anyway.
	return strings.ReplaceAll(name, "\x00", "\uFFFD"), nil
}
