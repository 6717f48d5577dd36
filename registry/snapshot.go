package registry

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// NewSnapshot makes the snapshot of a surface: every item judged and digested,
// sorted by kind and name, so that order and paging do not count (R46, R48). Its
// digest is the capability digest: it covers every item's name, verdict,
// contract, text, behaviour and unknown fields, the kinds and the text digest of
// the instructions; and that the server is open, when it is. An element whose name cannot be read refuses the whole list.
func NewSnapshot(surface Surface, limits Limits, now time.Time) (Snapshot, error) {
	s := surface.Header(now)
	unknown := map[string]string{}
	for _, list := range surface.lists() {
		items, err := itemsOf(list, limits, unknown)
		if err != nil {
			return Snapshot{}, err
		}
		if s.Items == nil {
			s.Items = items // most servers have one list
		} else {
			s.Items = append(s.Items, items...)
		}
	}
	w := borrowWalk()
	defer w.giveBack()
	b := appendString(append(w.spare[:0], `{"text":`...), s.TextDigest)
	b = append(b, `,"kinds":[`...)
	for i, kind := range s.Kinds {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, strings.ToValidUTF8(kind, "\uFFFD"))
	}
	b = append(b, `],`...)
	if s.Open() {
		b = append(b, `"open":true,`...)
	}
	w.spare = append(appendIdentities(append(b, `"items":`...), s.Items, unknown), '}')
	s.Digest = digestBytes(w.spare)
	return s, nil
}

// SetAddresses makes the addresses of items that have none yet, each once.
func (s *Snapshot) SetAddresses() {
	for i := range s.Items {
		s.Items[i].Address = s.Items[i].Definition()
	}
}

// Header is the part of a snapshot that is not in a list, without a digest.
func (surface Surface) Header(now time.Time) Snapshot {
	return Snapshot{
		ProtocolVersion: surface.ProtocolVersion, ServerName: surface.Name, ServerVersion: surface.Version,
		Instructions: surface.Instructions, TextDigest: TextDigest(surface.Instructions),
		Kinds: surface.Kinds, Quirks: surface.Quirks, CreatedAt: now,
	}
}

// list is one list of a surface; key is the field that names an element.
type list struct {
	kind ItemKind
	key  string
	raw  [][]byte
}

// lists are in the order of the items of a snapshot.
func (surface Surface) lists() []list {
	return []list{
		{KindPrompt, "name", surface.Prompts},
		{KindResource, "uri", surface.Resources},
		{KindTemplate, "uriTemplate", surface.Templates},
		{KindTool, "name", surface.Tools},
	}
}

// ToolsDigest is the digest of the tools list alone: what a probe compares. It
// does not cover unknown fields, so that a probe does not run after them.
func ToolsDigest(tools [][]byte, limits Limits) (string, error) {
	items, err := itemsOf(list{KindTool, "name", tools}, limits, map[string]string{})
	if err != nil {
		return "", err
	}
	return digestBytes(appendIdentities(nil, items, nil)), nil
}

// ToolsDigest is the digest of the snapshot's tools alone.
func (s *Snapshot) ToolsDigest() string {
	return digestBytes(appendIdentities(nil, s.Of(KindTool), nil))
}

// appendIdentities writes what of each item a digest of many covers.
func appendIdentities(dst []byte, items []Item, unknown map[string]string) []byte {
	dst = append(slices.Grow(dst, 320*len(items)), '[')
	for i := range items {
		item := &items[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(append(dst, '['), item.Name)
		for _, s := range [...]string{ // none of these has anything to escape
			string(item.Kind), item.Digests.Contract, item.Digests.Text, item.Digests.Behaviour, string(item.Verdict),
		} {
			dst = append(append(append(dst, ',', '"'), s...), '"')
		}
		if len(unknown) > 0 {
			dst = appendString(append(dst, ','), unknown[string(item.Kind)+" "+item.Name])
		}
		dst = append(dst, ']')
	}
	return append(dst, ']')
}

// itemsOf judges the elements of one list. It adds the digests of unknown fields
// by kind and name.
func itemsOf(l list, limits Limits, unknown map[string]string) ([]Item, error) {
	if len(l.raw) == 0 {
		return nil, nil
	}
	w := borrowWalk()
	defer w.giveBack()
	items := make([]Item, len(l.raw))
	for n, raw := range l.raw {
		item := &items[n]
		item.Kind, item.Raw = l.kind, raw
		decoded := w.read(item, limits)
		var err error
		if item.Name, err = w.nameOf(raw, l.key, decoded); err != nil {
			return nil, Errorf(ReasonMalformedList, "element %d of the %ss list: %w", n, l.kind, err)
		}
		if !decoded {
			continue
		}
		if digest := w.digest(item); digest != "" {
			unknown[string(item.Kind)+" "+item.Name] = digest
		}
	}
	items = mergeDuplicates(sortedByName(items))
	for i := range items {
		if item := &items[i]; item.Verdict == ReasonDuplicateName {
			delete(unknown, string(item.Kind)+" "+item.Name) // of one of them, and which one is chance
		}
	}
	return items, nil
}

// sortedByName sorts pointers first: items are large.
func sortedByName(items []Item) []Item {
	sorted := true
	for i := 1; i < len(items) && sorted; i++ {
		sorted = items[i-1].Name <= items[i].Name
	}
	if sorted {
		return items
	}
	order := make([]*Item, len(items))
	for i := range items {
		order[i] = &items[i]
	}
	slices.SortFunc(order, func(a, b *Item) int { return cmp.Compare(a.Name, b.Name) })
	out := make([]Item, len(items))
	for i, item := range order {
		out[i] = *item
	}
	return out
}

// mergeDuplicates makes one quarantined item of all that share a name. Its
// definition is the list of their bytes, so that all stay visible; its digests
// are made of theirs, so that another order or writing of them is no change.
func mergeDuplicates(items []Item) []Item {
	first := 1
	for first < len(items) && items[first-1].Name != items[first].Name {
		first++
	}
	if first >= len(items) {
		return items // as in every sound list
	}
	out, items := items[:first-1], items[first-1:]
	for len(items) > 0 {
		n := 1
		for n < len(items) && items[n].Name == items[0].Name {
			n++
		}
		if n == 1 {
			out = append(out, items[0])
		} else {
			out = append(out, merged(items[:n]))
		}
		items = items[n:]
	}
	return out
}

func merged(group []Item) Item {
	slices.SortFunc(group, func(a, b Item) int {
		x, y := a.Digests, b.Digests
		return cmp.Or(
			cmp.Compare(x.Contract, y.Contract), cmp.Compare(x.Text, y.Text), cmp.Compare(x.Behaviour, y.Behaviour),
			cmp.Compare(x.Meta, y.Meta), cmp.Compare(a.Definition(), b.Definition()),
		)
	})
	raw := []byte{'['}
	var contract, text, behaviour, meta []byte
	for i, item := range group {
		if i > 0 {
			raw = append(raw, ',')
		}
		raw = append(raw, item.Raw...)
		contract = append(contract, item.Digests.Contract...)
		text = append(text, item.Digests.Text...)
		behaviour = append(behaviour, item.Digests.Behaviour...)
		meta = append(meta, item.Digests.Meta...)
	}
	raw = append(raw, ']')
	return Item{
		Kind: group[0].Kind, Name: group[0].Name, Raw: raw,
		Digests: Digests{digestBytes(contract), digestBytes(text), digestBytes(behaviour), digestBytes(meta)},
		Verdict: ReasonDuplicateName, Detail: fmt.Sprintf("the server lists this name %d times", len(group)),
	}
}

// nameOf reads the one field that the envelope needs, also of an element that
// cannot be decoded: then it takes the last of duplicate keys, and the element is
// quarantined anyway.
func (w *walk) nameOf(raw []byte, key string, decoded bool) (string, error) {
	if decoded {
		if name, _ := w.str(w.top(), key); name != "" {
			return name, nil
		}
		return "", Errorf(ReasonMalformedList, "no usable %s", key)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return "", Errorf(ReasonMalformedList, "not an object")
	}
	var name string
	if err := json.Unmarshal(fields[key], &name); err != nil || name == "" {
		return "", Errorf(ReasonMalformedList, "no usable %s", key)
	}
	// No database keeps NUL in a text.
	return strings.ReplaceAll(name, "\x00", "\uFFFD"), nil
}
