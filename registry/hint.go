package registry

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// HintCode says what a hint is about. Codes are API: never renamed.
type HintCode string

// The hints. None of them is a verdict: a tool with any of them can be bound.
const (
	HintInvisible      HintCode = "invisible_text"     // characters that cannot be seen
	HintBidirectional  HintCode = "bidirectional_text" // characters that reorder text
	HintTags           HintCode = "tag_characters"     // characters of the block that spells text nobody sees
	HintMixedScript    HintCode = "mixed_script"       // a word of letters of several scripts
	HintOrders         HintCode = "orders_to_model"    // text that gives orders to a model
	HintSecrets        HintCode = "names_secrets"      // text that names secrets
	HintOtherTool      HintCode = "names_other_tool"   // text that names another tool of the server
	HintSharedName     HintCode = "shared_name"        // another server of the tenant has this name
	HintLookAlike      HintCode = "look_alike_name"    // another name looks like this one
	HintUnknownField   HintCode = "unknown_field"      // a field that this version does not know
	HintUnknownDialect HintCode = "unknown_dialect"    // a $schema that this version does not know
	HintMeta           HintCode = "meta"               // _meta is present
	HintSecretHeader   HintCode = "secret_header"      // a parameter that looks like a secret becomes an HTTP header
	HintMore           HintCode = "more_hints"         // there are more than are listed
)

// Hint is something about an item that a reviewer should see.
type Hint struct {
	Code   HintCode `json:"code"`
	Path   string   `json:"path"`   // JSON Pointer into the item, escaped by [Visible]
	Detail string   `json:"detail"` // for people, escaped by [Visible]
}

// maxHints bounds the hints of one item, and with them the length of their
// paths.
const maxHints = 100

// Hints gives what a reviewer should see of an item's own bytes. Nothing is
// stripped for it, and nothing of it keeps the item from being bound. An item
// that cannot be decoded has none: its verdict says enough.
func Hints(item Item) []Hint {
	w := borrowWalk()
	defer w.giveBack()
	list := []*node{}
	if w.decode(item.Raw, DefaultLimits().Depth) != nil {
		return nil
	}
	if list = append(list, w.top()); item.Verdict == ReasonDuplicateName {
		list = list[:0]
		for i := range w.kids(w.top()) {
			list = append(list, &w.kids(w.top())[i])
		}
	}
	h := hinter{walk: w, kind: item.Kind}
	if mixed := mixedWord(item.Name); mixed != "" {
		h.addf(HintMixedScript, "the name is of letters of several scripts: %s", mixed)
	} else if twin := disguised(item.Name); twin != "" {
		h.addf(HintMixedScript, "no letter of the name is of ASCII, and all look so: %s", twin)
	}
	for _, n := range list {
		h.item(n)
	}
	return h.hints
}

// hinter walks over an item for hints.
type hinter struct {
	*walk

	kind  ItemKind
	names *Names // when its text is read for names of tools
	own   string
	hints []Hint
}

func (h *hinter) addf(code HintCode, format string, args ...any) {
	if len(h.hints) > maxHints {
		return
	}
	if len(h.hints) == maxHints {
		h.hints = append(h.hints, Hint{Code: HintMore, Detail: fmt.Sprintf("only the first %d are listed", maxHints)})
		return
	}
	h.hints = append(h.hints, Hint{code, Visible(shorten(h.path.String(), maxDetail)), Visible(shorten(fmt.Sprintf(format, args...), maxDetail))})
}

func (h *hinter) item(n *node) {
	h.path = h.path[:0]
	h.unknown(n, fields[h.kind])
	if h.kind == KindTool {
		if annotations := h.object(n, "annotations"); annotations != nil {
			h.within(annotations, func() { h.unknown(annotations, annotationFields) })
		}
	}
	for i := range h.kids(n) {
		m := &h.kids(n)[i]
		h.within(m, func() {
			if string(h.name(m)) == "_meta" && len(h.kids(m)) > 0 {
				h.addf(HintMeta, "what is recorded beside the definition: %s", h.members(m))
			}
			h.value(m)
		})
	}
}

func (h *hinter) within(m *node, do func()) {
	h.path = append(h.path, step{name: h.name(m)})
	do()
	h.path = h.path[:len(h.path)-1]
}

func (h *hinter) members(n *node) string {
	var names []string
	for i := range h.kids(n) {
		names = append(names, string(h.name(&h.kids(n)[i])))
	}
	return strings.Join(names, ", ")
}

func (h *hinter) unknown(n *node, known map[string]field) {
	for i := range h.kids(n) {
		if m := &h.kids(n)[i]; !isKnown(known, h.name(m)) {
			h.within(m, func() { h.addf(HintUnknownField, "the protocol's version known here has no such field") })
		}
	}
}

// value looks at every text of a value, names of members too: all of it reaches
// a model or a person somewhere.
func (h *hinter) value(n *node) {
	switch n.kind {
	case '"':
		h.text(string(h.bytes(n)))
	case '[':
		for i := range h.kids(n) {
			h.path = append(h.path, step{index: i})
			h.value(&h.kids(n)[i])
			h.path = h.path[:len(h.path)-1]
		}
	case '{':
		for i := range h.kids(n) {
			m := &h.kids(n)[i]
			h.within(m, func() {
				h.characters(string(h.name(m)))
				switch name := string(h.name(m)); {
				case h.names != nil:
				case name == "$schema":
					if m.kind == '"' && !knownDialect(h.bytes(m)) {
						h.addf(HintUnknownDialect, "%s", h.bytes(m))
					}
				case name == "x-mcp-header":
					h.header(m)
				}
				h.value(m)
			})
		}
	}
}

func (h *hinter) header(m *node) {
	parameter := ""
	if len(h.path) >= 2 {
		parameter = string(h.path[len(h.path)-2].name)
	}
	if m.kind == '"' && (secretName.MatchString(parameter) || secretName.Match(h.bytes(m))) {
		h.addf(HintSecretHeader, "the parameter %q is sent as the header Mcp-Param-%s, which proxies see", parameter, h.bytes(m))
	}
}

func (h *hinter) text(s string) {
	if h.names != nil {
		if names := h.names.mentioned(s, h.own); len(names) > 0 {
			h.addf(HintOtherTool, "%s", strings.Join(names[:min(len(names), 8)], ", "))
		}
		return
	}
	h.characters(s)
	plain := legible(s)
	for _, p := range [...]struct {
		code     HintCode
		patterns []pattern
	}{{HintOrders, orders}, {HintSecrets, secretWords}} {
		for _, re := range p.patterns {
			if at := re.find(plain); at != nil {
				h.addf(p.code, "“%s”", around(plain, at))
				break
			}
		}
	}
}

// around gives what was found with a little of what stands beside it.
func around(s string, at []int) string {
	from, to := max(0, at[0]-20), min(len(s), at[1]+40)
	for from > 0 && !utf8.RuneStart(s[from]) {
		from--
	}
	for to < len(s) && !utf8.RuneStart(s[to]) {
		to++
	}
	return strings.TrimSpace(s[from:to])
}

// characters looks for characters that deceive.
func (h *hinter) characters(s string) {
	if h.names != nil || plainASCII(s) {
		return
	}
	found := map[HintCode][]string{}
	var spelled strings.Builder
	at := 0
	for _, r := range s {
		at++
		code := HintInvisible
		switch {
		case unicode.Is(unicode.Bidi_Control, r):
			code = HintBidirectional
		case r >= 0xE0000 && r <= 0xE007F:
			code = HintTags
			if r > 0xE0020 && r < 0xE007F {
				spelled.WriteByte(byte(r - 0xE0000))
			}
		case r == '\r', !unseen(r):
			continue
		}
		found[code] = append(found[code], fmt.Sprintf("%U at %d", r, at))
	}
	for _, code := range slices.Sorted(maps.Keys(found)) {
		list := found[code]
		detail := strings.Join(list[:min(len(list), 8)], ", ")
		if len(list) > 8 {
			detail += fmt.Sprintf(" and %d more", len(list)-8)
		}
		if code == HintTags && spelled.Len() > 0 {
			detail = "spells “" + spelled.String() + "”: " + detail
		}
		h.addf(code, "%s", detail)
	}
	if mixed := mixedWord(s); mixed != "" {
		h.addf(HintMixedScript, "a word of letters of several scripts: %s", mixed)
	}
}

func plainASCII(s string) bool {
	for i := range len(s) {
		if c := s[i]; c >= utf8.RuneSelf || c < ' ' && c != '\n' && c != '\t' && c != '\r' || c == 0x7f {
			return false
		}
	}
	return true
}
