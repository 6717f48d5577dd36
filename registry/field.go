package registry

import (
	"fmt"
	"maps"
	"strings"
	"unicode/utf8"
)

// field is what a known field of an item is.
type field struct {
	kind    byte // how its value begins: " [ { or t for a boolean; 0 where anything goes
	digests bool // contract, text or behaviour cover it, so that meta does not
}

// fields are those of each kind of item (MCP 2026-07-28).
var fields = map[ItemKind]map[string]field{
	KindTool: {
		"_meta": {'{', false}, "annotations": {'{', true}, "description": {'"', true}, "execution": {'{', true}, "icons": {'[', false},
		"inputSchema": {0, true}, "name": {'"', true}, "outputSchema": {0, true}, "title": {'"', true},
	},
	KindResource: {
		"_meta": {'{', false}, "annotations": {'{', false}, "description": {'"', true}, "icons": {'[', false},
		"mimeType": {'"', true}, "name": {'"', true}, "size": {0, false}, "title": {'"', true}, "uri": {'"', true},
	},
	KindTemplate: {
		"_meta": {'{', false}, "annotations": {'{', false}, "description": {'"', true}, "icons": {'[', false},
		"mimeType": {'"', true}, "name": {'"', true}, "title": {'"', true}, "uriTemplate": {'"', true},
	},
	KindPrompt: {
		"_meta": {'{', false}, "arguments": {'[', true}, "description": {'"', true}, "icons": {'[', false},
		"name": {'"', true}, "title": {'"', true},
	},
}

// Fields of the objects inside an item.
var (
	annotationFields = map[string]field{
		"destructiveHint": {'t', true}, "idempotentHint": {'t', true}, "openWorldHint": {'t', true}, "readOnlyHint": {'t', true},
		"title": {'"', true},
	}
	executionFields = map[string]field{"taskSupport": {'"', true}}
	argumentFields  = map[string]field{
		"description": {'"', true}, "name": {'"', true}, "required": {'t', true}, "title": {'"', true},
	}
)

var kindNames = map[byte]string{'"': "a string", '[': "a list", '{': "an object", 't': "a boolean"}

// judgeFields looks for fields of a wrong type, and for fields that differ from
// a known one only in case; and notes whether there are any that no digest but
// meta covers.
func (w *walk) judgeFields(kind ItemKind, top *node) {
	w.strange, w.beside = false, false
	w.judgeObject(top, fields[kind])
	w.path = w.path[:0]
	switch kind {
	case KindTool:
		w.judgeInner(top, "annotations", annotationFields)
		w.judgeInner(top, "execution", executionFields)
	case KindPrompt:
		list := w.given(top, "arguments")
		if list == nil || list.kind != '[' {
			return
		}
		for i := range w.kids(list) {
			argument := &w.kids(list)[i]
			w.path = append(w.path, step{name: argumentsName}, step{index: i})
			if name := w.given(argument, "name"); argument.kind != '{' || name == nil || w.empty(name) {
				w.faultf(ReasonMalformedField, "is no argument with a name")
			} else {
				w.judgeObject(argument, argumentFields)
			}
			w.path = w.path[:0]
		}
	case KindResource, KindTemplate:
	}
}

func (w *walk) judgeInner(top *node, name string, known map[string]field) {
	if m := w.object(top, name); m != nil {
		w.path = append(w.path, step{name: w.name(m)})
		w.judgeObject(m, known)
		w.path = w.path[:0]
	}
}

func (w *walk) judgeObject(n *node, known map[string]field) {
	for i := range w.kids(n) {
		m := &w.kids(n)[i]
		f, ok := known[string(w.name(m))]
		w.beside = w.beside || !f.digests
		kind := m.kind
		if kind == 'f' {
			kind = 't'
		}
		w.path = append(w.path, step{name: w.name(m)})
		if !ok {
			w.strange = true
			if twin := variantOf(w.name(m), known); twin != "" {
				w.faultf(ReasonAmbiguousKeys, "differs from %q only in case", twin)
			}
		} else if f.kind != 0 && kind != f.kind && kind != 'n' {
			w.faultf(ReasonMalformedField, "is not %s", kindNames[f.kind])
		}
		w.path = w.path[:len(w.path)-1]
	}
}

// variantOf finds the known field that a name differs from only in case. The
// tables are small and unknown fields rare.
func variantOf(name []byte, known map[string]field) string {
	for field := range maps.Keys(known) {
		if len(name) <= 3*len(field) && strings.EqualFold(string(name), field) {
			return field
		}
	}
	return ""
}

// maxItemName bounds a tool's or prompt's name in characters (the protocol's own
// advice), maxURI a resource's.
const (
	maxItemName = 128
	maxURI      = 2048
)

// judgeName refuses names that cannot be shown as they are: they would let one
// item pass for another. Otherwise names are opaque and case counts.
func (w *walk) judgeName(item *Item) {
	limit := maxItemName
	if item.Kind == KindResource || item.Kind == KindTemplate {
		limit = maxURI
	}
	switch name := item.Name; {
	case len(name) <= maxItemName && printed(name): // as nearly all
	case utf8.RuneCountInString(name) > limit:
		w.unsafeNamef("longer than %d characters", limit)
	case strings.TrimSpace(name) != name:
		w.unsafeNamef("begins or ends with white space")
	case strings.ContainsFunc(name, invisible):
		w.unsafeNamef("holds characters that cannot be seen: %s", Visible(name))
	}
}

// printed says whether a name is of characters of ASCII that print.
func printed(name string) bool {
	for i := range len(name) {
		if name[i] <= ' ' || name[i] >= 0x7f {
			return false
		}
	}
	return true
}

func (w *walk) unsafeNamef(format string, args ...any) {
	if w.verdict.reason == "" {
		w.verdict = fault{ReasonUnsafeName, shorten(fmt.Sprintf(format, args...), maxDetail)}
	}
}

// appendUnknown writes the members of an object that are not among the known.
func (w *walk) appendUnknown(dst []byte, n *node, known map[string]field) []byte {
	dst = append(dst, '{')
	for i := range w.kids(n) {
		if m := &w.kids(n)[i]; !isKnown(known, w.name(m)) {
			dst = w.appendMember(dst, m)
		}
	}
	return append(dst, '}')
}

func isKnown(known map[string]field, name []byte) bool {
	_, ok := known[string(name)]
	return ok
}

// unknownDigest is the digest of the fields of an item, and of a tool's
// annotations, of which nobody here knows the meaning, "" when there are none.
func (w *walk) unknownDigest(kind ItemKind, top *node) string {
	if !w.strange {
		return ""
	}
	dst := w.appendUnknown(w.spare[:0], top, fields[kind])
	if kind == KindTool {
		dst = w.appendUnknown(dst, w.object(top, "annotations"), annotationFields)
	}
	w.spare = dst
	if none := strings.Trim(string(dst[:min(len(dst), 5)]), "{}") == ""; none {
		return ""
	}
	return digestBytes(dst)
}

// appendMeta writes what contract, text and behaviour leave out: icons, _meta,
// unknown fields.
func (w *walk) appendMeta(dst []byte, kind ItemKind, top *node) []byte {
	if !w.beside {
		return append(dst, "{}"...)
	}
	dst = append(dst, '{')
	known := fields[kind]
	for i := range w.kids(top) {
		if m := &w.kids(top)[i]; !known[string(w.name(m))].digests {
			dst = w.appendMember(dst, m)
		}
	}
	dst = append(dst, '}')
	if annotations := w.object(top, "annotations"); w.strange && kind == KindTool && annotations != nil {
		dst = w.appendUnknown(dst, annotations, annotationFields)
	}
	return dst
}

// object gives a member that is an object, nil when it is none.
func (w *walk) object(n *node, name string) *node {
	if m := w.get(n, name); m != nil && m.kind == '{' {
		return m
	}
	return nil
}

// pageKeys are the documented keys of _meta that tie a tool to a page or say
// what that page may do (MCP Apps, SEP-1865, and what came before it). Those of
// a resource are the rights of the page that it is. Beside them stands what ties a
// contributed tool to one of its MCP server.
var pageKeys = map[ItemKind][]string{
	KindTool:     {ContributionKey, "openai/outputTemplate", "openai/visibility", "openai/widgetAccessible", "ui/resourceUri"},
	KindResource: {"openai/widgetCSP", "openai/widgetDomain", "ui"},
	KindTemplate: {"openai/widgetCSP", "openai/widgetDomain", "ui"},
}

// appendPage writes the keys of _meta that tie to a page and do not have their
// defaults, as an object.
func (w *walk) appendPage(dst []byte, kind ItemKind, top *node) []byte {
	dst = append(dst, '{')
	meta := w.object(top, "_meta")
	for _, key := range pageKeys[kind] {
		m := w.given(meta, key)
		if m == nil || key == "openai/widgetAccessible" && m.kind == 'f' || key == "openai/visibility" && w.holds(m, "public") {
			continue
		}
		dst = w.appendMember(dst, m)
	}
	if ui := w.object(meta, "ui"); kind == KindTool && ui != nil {
		for _, key := range [...]string{"resourceUri", "visibility"} {
			if m := w.given(ui, key); m != nil && !w.everybody(m) {
				dst = w.appendMember(dst, m)
			}
		}
	}
	return append(dst, '}')
}

// everybody says whether a visibility is the default: model and app.
func (w *walk) everybody(m *node) bool {
	kids := w.kids(m)
	return len(kids) == 2 && (w.holds(&kids[0], "app") && w.holds(&kids[1], "model") ||
		w.holds(&kids[0], "model") && w.holds(&kids[1], "app"))
}
