package registry

import (
	"encoding/json"
	"strconv"
	"strings"
)

// maxSteps bounds how many pairs of schemas are compared for one item. References
// can pair each definition with each other one, and an item's size does not
// allow that many without them.
const maxSteps = 50_000

// compareSchemas tells how the schemas of two tools differ.
func compareSchemas(from, to object) []Change {
	a, _ := from.get("inputSchema")
	b, _ := to.get("inputSchema")
	out := compareDocuments(a, b, "/inputSchema", false)
	a, _ = from.get("outputSchema")
	b, _ = to.get("outputSchema")
	switch {
	case a == nil && b == nil:
	case a == nil:
		out = append(out, Change{Path: "/outputSchema", Kind: ChangeOutputAdded, Severity: SeverityWidening, After: shown(b), part: partContract})
	case b == nil:
		out = append(out, Change{Path: "/outputSchema", Kind: ChangeOutputRemoved, Severity: SeverityBreaking, Before: shown(a), part: partContract})
	default:
		out = append(out, compareDocuments(a, b, "/outputSchema", true)...)
	}
	return out
}

// spot is a schema and where it stands in the item.
type spot struct {
	v  value
	at string
}

func (s spot) under(steps ...string) string {
	var b strings.Builder
	b.WriteString(s.at)
	for _, step := range steps {
		b.WriteByte('/')
		b.WriteString(pointer(step))
	}
	return b.String()
}

// pairing is two schemas that are to be compared.
type pairing struct {
	a, b   spot
	strict bool
}

// schemaDiff compares two whole schemas. Neither reference nor loop is followed
// twice: what they lead to waits in a queue and is compared once.
type schemaDiff struct {
	from, to *schemaDoc
	output   bool
	out      []Change
	queue    []pairing
	seen     map[[2]string]bool
	steps    int
}

func compareDocuments(a, b value, base string, output bool) []Change {
	d := &schemaDiff{from: newSchemaDoc(a, base), to: newSchemaDoc(b, base), output: output, seen: map[[2]string]bool{}}
	d.later(spot{a, base}, spot{b, base}, false)
	for len(d.queue) > 0 && d.steps <= maxSteps {
		next := d.queue[0]
		d.queue = d.queue[1:]
		d.compare(next.a, next.b, next.strict)
	}
	if d.steps > maxSteps {
		d.emit(base, ChangeTooComplex, effectUnclear, true, nil, nil)
	}
	d.dialects(a, b, base)
	return d.out
}

// later has two schemas compared that references lead to, once.
func (d *schemaDiff) later(a, b spot, strict bool) {
	key := [2]string{a.at, b.at}
	if d.seen[key] {
		return
	}
	d.seen[key] = true
	d.queue = append(d.queue, pairing{a, b, strict || d.from.unclear[a.at] || d.to.unclear[b.at]})
}

// effect is what a change does to the set of values that a schema allows.
type effect int

const (
	effectSame        effect = iota // nothing, as far as can be seen
	effectLooser                    // more values, of another sort
	effectLooserSoft                // more values of the same sort
	effectTighter                   // fewer, a sort less
	effectTighterSoft               // fewer of the same sort
	effectUnclear                   // cannot be told
)

// severity judges an effect by direction: what an input refuses breaks callers,
// what an output has more of breaks readers. Strict is where the effect of a
// part on the whole cannot be told, such as below "not".
func (e effect) severity(output, strict bool) Severity {
	switch {
	case e == effectSame:
		return SeverityWidening
	case strict, e == effectUnclear:
		return SeverityBreaking
	case output && e == effectLooser, !output && e == effectTighter:
		return SeverityBreaking
	case !output && (e == effectLooser || e == effectLooserSoft):
		return SeverityWidening
	}
	return SeverityNarrowing
}

func (d *schemaDiff) emit(path string, kind ChangeKind, e effect, strict bool, before, after json.RawMessage) {
	d.say(path, kind, e.severity(d.output, strict), before, after)
}

func (d *schemaDiff) say(path string, kind ChangeKind, severity Severity, before, after json.RawMessage) {
	d.out = append(d.out, Change{Path: path, Kind: kind, Severity: severity, Before: before, After: after, part: partContract})
}

// either gives a severity by direction, and breaking where strict.
func (d *schemaDiff) either(input, output Severity, strict bool) Severity {
	switch {
	case strict:
		return SeverityBreaking
	case d.output:
		return output
	}
	return input
}

// compare compares two schemas, but for what references in them lead to.
func (d *schemaDiff) compare(a, b spot, strict bool) {
	if d.steps++; d.steps > maxSteps {
		return
	}
	innerA, unwrappedA := unwrap(a)
	innerB, unwrappedB := unwrap(b)
	has := func(inner spot, into string) bool { o, _ := inner.v.(object); return into == "" && hasChoice(o) }
	if has(innerA, unwrappedA) || has(innerB, unwrappedB) || (unwrappedA == "") != (unwrappedB == "") && bothAll(a.v, b.v) {
		unwrappedA, unwrappedB = "", "" // one of one is compared with the other's list
	} else {
		a, b = innerA, innerB
	}
	if unwrappedA != unwrappedB {
		d.emit(b.at, ChangeRewritten, effectSame, strict, shownString(unwrappedA), shownString(unwrappedB))
	}
	before, okA := members(a.v)
	after, okB := members(b.v)
	switch {
	case a.v == false && b.v == false:
		return
	case b.v == false:
		d.emit(b.at, ChangeConstraintAdded, effectTighter, strict, shown(a.v), shown(b.v))
		return
	case a.v == false:
		d.emit(b.at, ChangeConstraintRemoved, effectLooser, strict, shown(a.v), shown(b.v))
		return
	case !okA || !okB:
		if !sameValue(a.v, b.v) {
			d.emit(b.at, ChangeConstraint, effectUnclear, strict, shown(a.v), shown(b.v))
		}
		return
	}
	if (a.v == true) != (b.v == true) && limitedTo(before, "") && limitedTo(after, "") {
		d.emit(b.at, ChangeRewritten, effectSame, strict, shown(a.v), shown(b.v))
	}
	flatA, flatB, listings := d.listings(before, after)
	if listings {
		seen, was, is := len(d.out), listingOf(before), listingOf(after)
		before, after = flatA, flatB
		defer func() { d.reworded(seen, b.at, was, is, strict) }()
	}
	a.v, b.v = before, after
	if d.alternatives(a, b, before, after, strict) || d.references(a, b, before, after, strict) {
		return
	}
	d.all(a, b, before, after, strict)
	d.values(a, b, before, after, strict)
	d.properties(a, b, before, after, strict)
	d.elements(a, b, before, after, strict)
	for name, pair := range union(before, after) {
		d.keyword(name, pair, a, b, strict)
	}
}

// bothAll says whether two schemas list what limits by allOf, each.
func bothAll(a, b value) bool {
	x, _ := a.(object)
	y, _ := b.(object)
	return hasMember(x, "allOf") && hasMember(y, "allOf")
}

// members gives a schema as an object; true allows everything, like {}.
func members(v value) (object, bool) {
	if v == true {
		return object{}, true
	}
	o, ok := v.(object)
	return o, ok
}

// unwrap goes into an anyOf, oneOf or allOf of one schema, which means that
// schema, and says into which.
func unwrap(s spot) (spot, string) {
	into := ""
	for {
		o, _ := s.v.(object)
		keyword, inner := onlyBranch(o)
		if inner == nil {
			return s, into
		}
		if v, ok := o.get("default"); ok {
			inner = withMember(inner, member{"default", v})
		}
		s = spot{inner, s.under(keyword, "0")}
		into += "/" + keyword
	}
}

// only finds the one schema that an object consists of.
func onlyBranch(o object) (keyword string, inner object) {
	for _, m := range o {
		switch m.name {
		case "anyOf", "oneOf", "allOf":
			list, _ := m.value.([]value)
			if len(list) != 1 || inner != nil {
				return "", nil
			}
			if inner, _ = list[0].(object); inner == nil {
				return "", nil
			}
			keyword = m.name
		default:
			if !aside(m.name) {
				return "", nil
			}
		}
	}
	return keyword, inner
}

// aside says whether a keyword does not limit values, so that it may stand
// beside a reference or alternatives without another meaning.
func aside(keyword string) bool {
	return keyword == "default" || keyword == headerKeyword || roleOf(keyword) == roleProse
}

// plain says whether an object has nothing that limits values but one keyword.
func limitedTo(o object, keyword string) bool {
	for _, m := range o {
		if m.name != keyword && !aside(m.name) {
			return false
		}
	}
	return true
}

// put gives a copy of an object with one member set.
func withMember(o object, m member) object {
	out := make(object, 0, len(o)+1)
	done := false
	for _, old := range o {
		if !done && old.name >= m.name {
			out, done = append(out, m), true
		}
		if old.name != m.name {
			out = append(out, old)
		}
	}
	if !done {
		out = append(out, m)
	}
	return out
}

// references compares $ref and says whether that was all.
func (d *schemaDiff) references(a, b spot, before, after object, strict bool) bool {
	refA, inA := textOf(before, "$ref")
	refB, inB := textOf(after, "$ref")
	if !inA && !inB {
		return false
	}
	targetA, okA := d.from.resolve(refA)
	targetB, okB := d.to.resolve(refB)
	switch {
	case inA && inB:
		if okA && okB {
			d.later(targetA, targetB, strict)
			if refA != refB {
				d.emit(b.under("$ref"), ChangeReferenceRenamed, effectSame, strict, shownString(refA), shownString(refB))
			}
		} else if refA != refB {
			d.emit(b.under("$ref"), ChangeReference, effectUnclear, strict, shownString(refA), shownString(refB))
		}
		return false // what stands beside them remains
	case inA && okA && limitedTo(before, "$ref"):
		d.emit(b.at, ChangeRewritten, effectSame, strict, shownString(refA), nil)
		d.later(beside(targetA, before), b, strict)
		return true
	case inB && okB && limitedTo(after, "$ref"):
		d.emit(b.under("$ref"), ChangeRewritten, effectSame, strict, nil, shownString(refB))
		d.later(a, beside(targetB, after), strict)
		return true
	case inA:
		d.emit(a.under("$ref"), ChangeReference, effectUnclear, strict, shownString(refA), nil)
	default:
		d.emit(b.under("$ref"), ChangeReference, effectUnclear, strict, nil, shownString(refB))
	}
	return false
}

// beside gives what a reference leads to with the default that stands beside
// the reference.
func beside(target spot, o object) spot {
	inner, isObject := target.v.(object)
	if v, ok := o.get("default"); ok && isObject {
		target.v = withMember(inner, member{"default", v})
	}
	return target
}

// document is one whole schema and what is to be known of it before it is
// compared.
type schemaDoc struct {
	root    value
	base    string
	unclear map[string]bool // what is referred to from where effects cannot be told
	bases   bool            // parts have an $id of their own, so references lead elsewhere
}

func newSchemaDoc(root value, base string) *schemaDoc {
	d := &schemaDoc{root: root, base: base, unclear: map[string]bool{}}
	d.survey(root, base, false)
	return d
}

// survey looks for bases of references, and for references from places where
// the effect of a change cannot be told.
func (d *schemaDoc) survey(v value, at string, unclear bool) {
	o, _ := v.(object)
	if ref, ok := textOf(o, "$ref"); ok && unclear {
		if target, found := d.find(ref); found && !d.unclear[target.at] {
			d.unclear[target.at] = true
			d.survey(target.v, target.at, true)
		}
	}
	if at != d.base && hasMember(o, "$id") {
		d.bases = true
	}
	mixed := hasMember(o, "oneOf") && !d.disjoint(valueOf(o, "oneOf"))
	below(o, at, func(keyword, here string, e value) {
		d.survey(e, here, unclear || clauses[keyword] == clauseHard || keyword == "oneOf" && mixed)
	})
}

// resolve finds what a local reference leads to. Nothing is ever fetched.
func (d *schemaDoc) resolve(ref string) (spot, bool) {
	if d.bases {
		return spot{}, false
	}
	return d.find(ref)
}

func (d *schemaDoc) find(ref string) (spot, bool) {
	fragment, local := strings.CutPrefix(ref, "#")
	fragment, ok := unescapeFragment(fragment)
	if !local || !ok || fragment != "" && fragment[0] != '/' {
		return spot{}, false
	}
	s := spot{d.root, d.base}
	if fragment == "" {
		return s, true
	}
	for step := range strings.SplitSeq(fragment[1:], "/") {
		step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		switch v := s.v.(type) {
		case object:
			if s.v, ok = v.get(step); !ok {
				return spot{}, false
			}
		case []value:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) || strconv.Itoa(i) != step {
				return spot{}, false
			}
			s.v = v[i]
		default:
			return spot{}, false
		}
		s.at = s.under(step)
	}
	return s, true
}

// unescapeFragment undoes percent-encoding (RFC 6901, section 6).
func unescapeFragment(s string) (string, bool) {
	if !strings.Contains(s, "%") {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		n, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b.WriteByte(byte(n))
		i += 2
	}
	return b.String(), true
}
