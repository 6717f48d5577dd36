package registry

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxItemName bounds a tool's name in characters (the protocol's own advice).
const maxItemName = 128

// toolKeys are the fields of a tool that this version knows. A key that differs
// from one of them only in case is a fault: two parsers would read two tools.
var toolKeys = []string{
	"_meta", "annotations", "description", "execution", "icons", "inputSchema", "name", "outputSchema", "title",
}

// prose are the schema keywords that only people and models read.
var prose = []string{"$comment", "description", "examples", "title"}

// sets are the schema keywords whose arrays have no order.
var sets = []string{"enum", "required", "type"}

// nameMaps are the schema keywords whose value maps names to schemas.
var nameMaps = []string{"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"}

// applicators are the schema keywords whose value is a schema or a list of
// schemas. Everything else, unknown keywords too, is contract as it stands.
var applicators = []string{
	"additionalItems", "additionalProperties", "allOf", "anyOf", "contains", "contentSchema", "else", "if", "items",
	"not", "oneOf", "prefixItems", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
}

// NewItem judges the raw bytes of one element of a list and makes its digests.
// The envelope's rules have been applied before: the element is an object with
// a usable name. A fault inside it becomes the item's verdict.
func NewItem(kind ItemKind, name string, raw []byte, limits Limits) Item {
	item := Item{Kind: kind, Name: name, Definition: digestBytes(raw), Raw: raw}
	item.Digests.Contract = item.Definition
	if limits.ItemBytes > 0 && len(raw) > limits.ItemBytes {
		return item.quarantine(ReasonTooLarge, fmt.Sprintf("%d bytes, the limit is %d", len(raw), limits.ItemBytes))
	}
	v, err := parse(raw, limits.Depth)
	if f, bad := err.(*fault); bad { //nolint:errorlint // parse returns nothing else
		return item.quarantine(f.reason, f.detail)
	}
	o, ok := v.(object)
	if !ok {
		return item.quarantine(ReasonMalformedField, "not an object")
	}
	item.Title, _ = stringOf(o, "title")
	item.Text, _ = stringOf(o, "description")
	if kind == KindTool {
		return item.tool(o)
	}
	return item.other(o)
}

func (i Item) quarantine(reason Reason, detail string) Item {
	i.Verdict, i.Detail = reason, detail
	return i
}

func (i Item) tool(o object) Item {
	if reason, detail := judgeTool(i.Name, o); reason != "" {
		return i.quarantine(reason, detail)
	}
	input, _ := o.get("inputSchema")
	output, hasOutput := o.get("outputSchema")
	var texts [][2]string
	contract := object{{"input", schema(input, "/inputSchema", &texts)}, {"name", i.Name}}
	if hasOutput {
		contract = append(contract, member{"output", schema(output, "/outputSchema", &texts)})
	}
	annotations, _ := o.get("annotations")
	hints, _ := annotations.(object)
	texts = addText(texts, "/description", i.Text)
	texts = addText(texts, "/title", i.Title)
	if title, ok := stringOf(hints, "title"); ok {
		texts = addText(texts, "/annotations/title", title)
	}
	i.Digests = Digests{
		Contract:  digestValue(contract),
		Text:      digestTexts(texts),
		Behaviour: digestValue(behaviour(o, hints)),
		Meta:      digestValue(without(o, "annotations", "description", "execution", "inputSchema", "name", "outputSchema", "title")),
	}
	return i
}

// other makes the digests of a resource, template or prompt.
func (i Item) other(o object) Item {
	if reason, detail := judgeName(i.Name, 2048); reason != "" {
		return i.quarantine(reason, detail)
	}
	var texts [][2]string
	texts = addText(texts, "/description", i.Text)
	texts = addText(texts, "/title", i.Title)
	i.Digests = Digests{
		Contract: digestValue(without(o, "_meta", "annotations", "description", "icons", "size", "title")),
		Text:     digestTexts(texts),
		Meta:     digestValue(o),
	}
	return i
}

func judgeTool(name string, o object) (Reason, string) {
	if reason, detail := judgeName(name, maxItemName); reason != "" {
		return reason, detail
	}
	for _, m := range o {
		for _, known := range toolKeys {
			if m.name != known && strings.EqualFold(m.name, known) {
				return ReasonAmbiguousKeys, fmt.Sprintf("%q differs from %q only in case", m.name, known)
			}
		}
	}
	for _, field := range []string{"title", "description"} {
		if v, present := o.get(field); present && v != nil {
			if _, ok := v.(string); !ok {
				return ReasonMalformedField, field + " is not a string"
			}
		}
	}
	if v, present := o.get("annotations"); present && v != nil {
		hints, ok := v.(object)
		if !ok {
			return ReasonMalformedField, "annotations is not an object"
		}
		for _, hint := range hintDefaults {
			if h, present := hints.get(hint.name); present && h != nil {
				if _, ok := h.(bool); !ok {
					return ReasonMalformedField, "annotations." + hint.name + " is not a boolean"
				}
			}
		}
	}
	input, present := o.get("inputSchema")
	if !present {
		return ReasonInvalidSchema, "inputSchema is missing"
	}
	if detail := judgeSchema(input); detail != "" {
		return ReasonInvalidSchema, "inputSchema " + detail
	}
	if output, present := o.get("outputSchema"); present && output != nil {
		if _, ok := output.(object); !ok {
			return ReasonInvalidSchema, "outputSchema is not an object"
		}
	}
	return "", ""
}

func judgeSchema(v value) string {
	o, ok := v.(object)
	if !ok {
		return "is not an object"
	}
	if kind, present := o.get("type"); present && kind != "object" {
		return `has a type other than "object"`
	}
	if properties, present := o.get("properties"); present {
		if _, ok := properties.(object); !ok {
			return "has properties that are not an object"
		}
	}
	if len(without(o, "$schema")) == 0 {
		// What a generator writes that does not understand its input. Taken as it
		// stands, it would let every argument pass.
		return "says nothing about the arguments"
	}
	return ""
}

// judgeName refuses names that cannot be shown as they are: they would let one
// item pass for another.
func judgeName(name string, limit int) (Reason, string) {
	switch {
	case utf8.RuneCountInString(name) > limit:
		return ReasonUnsafeName, fmt.Sprintf("longer than %d characters", limit)
	case strings.TrimSpace(name) != name:
		return ReasonUnsafeName, "begins or ends with white space"
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return ReasonUnsafeName, "holds characters that cannot be seen"
	}
	return "", ""
}

// schema gives the part of a JSON Schema that is contract and collects its
// prose. Names under properties and the like are never taken for keywords, nor
// is anything inside a literal.
func schema(v value, path string, texts *[][2]string) value {
	switch v := v.(type) {
	case []value:
		out := make([]value, len(v))
		for i, e := range v {
			out[i] = schema(e, fmt.Sprintf("%s/%d", path, i), texts)
		}
		return out
	case object:
		out := make(object, 0, len(v))
		for _, m := range v {
			here := path + "/" + pointer(m.name)
			switch {
			case m.name == "$schema":
			case slices.Contains(prose, m.name):
				*texts = append(*texts, proseOf(here, m.value))
			case slices.Contains(nameMaps, m.name):
				out = append(out, member{m.name, nameMap(m.value, here, texts)})
			case slices.Contains(sets, m.name):
				out = append(out, member{m.name, sorted(m.value)})
			case m.name == "dependentRequired":
				out = append(out, member{m.name, sortedEach(m.value)})
			case m.name == "additionalProperties" && isOpen(m.value):
			case slices.Contains(applicators, m.name):
				out = append(out, member{m.name, schema(m.value, here, texts)})
			default:
				out = append(out, m)
			}
		}
		return out
	}
	return v
}

func nameMap(v value, path string, texts *[][2]string) value {
	o, ok := v.(object)
	if !ok {
		return v
	}
	out := make(object, len(o))
	for i, m := range o {
		out[i] = member{m.name, schema(m.value, path+"/"+pointer(m.name), texts)}
	}
	return out
}

// isOpen says whether additionalProperties has its default value.
func isOpen(v value) bool {
	if o, ok := v.(object); ok {
		return len(o) == 0
	}
	return v == true
}

func proseOf(path string, v value) [2]string {
	if s, ok := v.(string); ok {
		return [2]string{path, tidy(s)}
	}
	return [2]string{path, string(appendCanonical(nil, v))}
}

func addText(texts [][2]string, path, s string) [][2]string {
	if s == "" {
		return texts
	}
	return append(texts, [2]string{path, tidy(s)})
}

// tidy drops what is noise to a reader: trailing blanks and line-end style.
func tidy(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " \t\r")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

func digestTexts(texts [][2]string) string {
	slices.SortFunc(texts, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	list := make([]value, len(texts))
	for i, t := range texts {
		list[i] = []value{t[0], t[1]}
	}
	return digestValue(list)
}

// TextDigest is the digest of a server's instructions.
func TextDigest(s string) string { return digestValue(tidy(s)) }

func sorted(v value) value {
	list, ok := v.([]value)
	if !ok {
		return v
	}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b value) int {
		return bytes.Compare(appendCanonical(nil, a), appendCanonical(nil, b))
	})
	return list
}

func sortedEach(v value) value {
	o, ok := v.(object)
	if !ok {
		return v
	}
	out := make(object, len(o))
	for i, m := range o {
		out[i] = member{m.name, sorted(m.value)}
	}
	return out
}

var hintDefaults = []struct {
	name  string
	value bool
}{
	{"destructiveHint", true}, {"idempotentHint", false}, {"openWorldHint", true}, {"readOnlyHint", false},
}

// behaviour is what the tool claims to do, with the protocol's defaults filled
// in, so that absent equals its default.
func behaviour(o, hints object) object {
	out := object{}
	for _, hint := range hintDefaults {
		v, present := hints.get(hint.name)
		if !present || v == nil {
			v = hint.value
		}
		out = append(out, member{hint.name, v})
	}
	support := value("forbidden")
	if execution, ok := o.get("execution"); ok {
		if e, ok := execution.(object); ok {
			if s, ok := e.get("taskSupport"); ok {
				support = s
			}
		}
	}
	return append(out, member{"taskSupport", support})
}

func without(o object, names ...string) object {
	return slices.DeleteFunc(slices.Clone(o), func(m member) bool { return slices.Contains(names, m.name) })
}

func stringOf(o object, name string) (string, bool) {
	v, _ := o.get(name)
	s, ok := v.(string)
	return s, ok
}

// pointer escapes one step of a JSON Pointer (RFC 6901).
func pointer(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}
