package registry

import (
	"slices"
	"strconv"
	"strings"
)

// choices are the keywords that list alternatives.
var choices = []string{"anyOf", "oneOf"}

// choiceOf gives the alternatives of a schema that consists of nothing else.
func choiceOf(o object) (keyword string, list []value) {
	for _, keyword := range choices {
		if list, ok := valueOf(o, keyword).([]value); ok && len(list) > 0 && limitedTo(o, keyword) {
			return keyword, list
		}
	}
	return "", nil
}

// alternatives compares anyOf and oneOf and says whether that was all. A schema
// without them is one alternative, or one for each of its types.
func (d *schemaDiff) alternatives(a, b spot, before, after object, strict bool) bool {
	keyA, listA := choiceOf(before)
	keyB, listB := choiceOf(after)
	hasA, hasB := hasChoice(before), hasChoice(after)
	switch {
	case keyA != "" && keyB != "":
		if keyA != keyB {
			e := effectSame
			if !d.from.disjoint(listA) || !d.to.disjoint(listB) {
				e = effectUnclear // only one may fit, or more than one
			}
			d.emit(b.under(keyB), ChangeRewritten, e, strict, shownString(keyA), shownString(keyB))
		}
		d.choose(spots(a.under(keyA), listA), spots(b.under(keyB), listB), strict || d.mixed(keyA, listA, keyB, listB))
	case keyA != "" && !hasB:
		seen := len(d.out)
		d.choose(spots(a.under(keyA), listA), splitTypes(b.at, after), strict || d.mixed(keyA, listA, "", nil))
		d.reworded(seen, b.at, keyA, "", strict)
	case keyB != "" && !hasA:
		seen := len(d.out)
		d.choose(splitTypes(a.at, before), spots(b.under(keyB), listB), strict || d.mixed("", nil, keyB, listB))
		d.reworded(seen, b.at, "", keyB, strict)
	default:
		for _, keyword := range choices {
			d.choice(keyword, a, b, before, after, strict)
		}
		return false
	}
	d.keyword("default", pairOf(before, after, "default"), a, b, strict)
	return true
}

// reworded tells that a schema became a list of alternatives, or the reverse,
// when nothing has been told since that says more.
func (d *schemaDiff) reworded(seen int, at, before, after string, strict bool) {
	if len(d.out) == seen {
		d.emit(at, ChangeRewritten, effectSame, strict, shownString(before), shownString(after))
	}
}

func hasChoice(o object) bool { return hasMember(o, "anyOf") || hasMember(o, "oneOf") }

// mixed says whether one of the lists is a oneOf whose schemas may fit at once:
// then more of one may be less of the whole.
func (d *schemaDiff) mixed(keyA string, listA []value, keyB string, listB []value) bool {
	return keyA == "oneOf" && !d.from.disjoint(listA) || keyB == "oneOf" && !d.to.disjoint(listB)
}

// choice compares alternatives that stand beside other keywords.
func (d *schemaDiff) choice(keyword string, a, b spot, before, after object, strict bool) {
	x, y := valueOf(before, keyword), valueOf(after, keyword)
	listA, okA := x.([]value)
	listB, okB := y.([]value)
	switch inA, inB := hasMember(before, keyword), hasMember(after, keyword); {
	case !inA && !inB:
	case !inA:
		d.emit(b.under(keyword), ChangeConstraintAdded, effectTighter, strict, nil, shown(y))
	case !inB:
		d.emit(a.under(keyword), ChangeConstraintRemoved, effectLooser, strict, shown(x), nil)
	case !okA || !okB:
		if !sameValue(x, y) {
			d.emit(b.under(keyword), ChangeConstraint, effectUnclear, strict, shown(x), shown(y))
		}
	default:
		d.choose(spots(a.under(keyword), listA), spots(b.under(keyword), listB), strict || d.mixed(keyword, listA, keyword, listB))
	}
}

func spots(at string, list []value) []spot {
	out := make([]spot, len(list))
	for i, v := range list {
		out[i] = spot{v, at + "/" + strconv.Itoa(i)}
	}
	return out
}

// split makes an alternative of each type of a schema, with the keywords that
// are about that type.
func splitTypes(at string, o object) []spot {
	o = slices.DeleteFunc(slices.Clone(o), func(m member) bool { return aside(m.name) })
	list, _ := valueOf(o, "type").([]value)
	if len(list) < 2 {
		if len(list) == 1 {
			o = withMember(o, member{"type", list[0]})
		}
		return []spot{{o, at}}
	}
	var out []spot
	for _, t := range list {
		name, _ := t.(string)
		mask := kindOfType[name]
		branch := slices.DeleteFunc(slices.Clone(o), func(m member) bool { return about[m.name] != 0 && about[m.name]&mask == 0 })
		out = append(out, spot{withMember(branch, member{"type", t}), at})
	}
	return out
}

// choose compares two lists of alternatives, whatever their order.
func (d *schemaDiff) choose(a, b []spot, strict bool) {
	pairs, gone, come, moved := d.match(a, b)
	for _, p := range pairs {
		d.compare(p.a, p.b, strict)
	}
	for _, s := range gone {
		d.emit(s.at, ChangeAlternativeRemoved, effectTighter, strict, shown(s.v), nil)
	}
	for _, s := range come {
		d.emit(s.at, ChangeAlternativeAdded, effectLooser, strict, nil, shown(s.v))
	}
	if moved {
		d.emit(listOf(b[0].at), ChangeAlternativesReordered, effectSame, false, nil, nil)
	}
}

// parent is where a list stands, from where an element of it does.
func listOf(at string) string {
	i := strings.LastIndexByte(at, '/')
	return at[:max(i, 0)]
}

// all compares allOf: every schema in it limits.
func (d *schemaDiff) all(a, b spot, before, after object, strict bool) {
	x, y := valueOf(before, "allOf"), valueOf(after, "allOf")
	listA, okA := x.([]value)
	listB, okB := y.([]value)
	inA, inB := hasMember(before, "allOf"), hasMember(after, "allOf")
	if inA && !okA || inB && !okB {
		if inA != inB || !sameValue(x, y) {
			d.emit(b.under("allOf"), ChangeConstraint, effectUnclear, strict, shownOrNil(x), shownOrNil(y))
		}
		return
	}
	pairs, gone, come, moved := d.match(spots(a.under("allOf"), listA), spots(b.under("allOf"), listB))
	for _, p := range pairs {
		d.compare(p.a, p.b, strict)
	}
	for _, s := range gone {
		d.emit(s.at, ChangeConstraintRemoved, effectLooser, strict, shown(s.v), nil)
	}
	for _, s := range come {
		d.emit(s.at, ChangeConstraintAdded, effectTighter, strict, nil, shown(s.v))
	}
	if moved {
		d.emit(b.under("allOf"), ChangeAlternativesReordered, effectSame, false, nil, nil)
	}
}

// match finds the pairs of two lists: equal ones first, then such as look like
// the same thing changed. Moved says that the equal ones stand in another order,
// or that one stands there more often, and that nothing else differs.
func (d *schemaDiff) match(a, b []spot) (pairs []pairing, gone, come []spot, moved bool) {
	d.steps += len(a) + len(b)
	keys := map[string][]int{}
	for i, s := range a {
		key := bare(s.v)
		keys[key] = append(keys[key], i)
	}
	known := map[string]bool{} // also those that are used up
	for key := range keys {
		known[key] = true
	}
	usedA := make([]bool, len(a))
	var restB []spot
	last, order := -1, true
	for _, s := range b {
		key := bare(s.v)
		if list := keys[key]; len(list) > 0 {
			i := list[0]
			keys[key] = list[1:]
			usedA[i] = true
			order = order && i > last
			last = i
			pairs = append(pairs, pairing{a: a[i], b: s})
			continue
		}
		if known[key] {
			order = false // once more what is there already
			continue
		}
		restB = append(restB, s)
	}
	var restA []spot
	for i, s := range a {
		switch {
		case usedA[i]:
		case slices.ContainsFunc(pairs, func(p pairing) bool { return p.a.at != s.at && bare(p.a.v) == bare(s.v) }):
			order = false // once less
		default:
			restA = append(restA, s)
		}
	}
	more, gone, come := d.alike(restA, restB)
	return append(pairs, more...), gone, come, !order && len(restA)+len(restB) == 0
}

// alike pairs what is left by what sort of thing it is; of two lone ones of
// the same types it is assumed that one became the other.
func (d *schemaDiff) alike(a, b []spot) (pairs []pairing, gone, come []spot) {
	waiting := map[string][]spot{}
	for _, s := range a {
		sort := d.from.sortOf(s.v)
		waiting[sort] = append(waiting[sort], s)
	}
	for _, s := range b {
		sort := d.to.sortOf(s.v)
		if list := waiting[sort]; len(list) > 0 {
			pairs = append(pairs, pairing{a: list[0], b: s})
			waiting[sort] = list[1:]
			continue
		}
		come = append(come, s)
	}
	for _, s := range a {
		sort := d.from.sortOf(s.v)
		if list := waiting[sort]; len(list) > 0 && list[0].at == s.at {
			gone = append(gone, s)
			waiting[sort] = list[1:]
		}
	}
	if len(gone) == 1 && len(come) == 1 && d.from.profile(gone[0].v).types&d.to.profile(come[0].v).types != 0 {
		return append(pairs, pairing{a: gone[0], b: come[0]}), nil, nil
	}
	return pairs, gone, come
}

// profile is what tells alternatives apart.
type profile struct {
	types types
	fixed map[string]string // properties that must have one value
	enum  []string          // the values that are allowed, when they are listed
}

// profile looks at a schema, and through a reference.
func (d *schemaDoc) profile(v value) profile {
	for range 8 {
		o, _ := v.(object)
		ref, ok := textOf(o, "$ref")
		if !ok {
			break
		}
		target, found := d.resolve(ref)
		if !found {
			return profile{types: typeAny}
		}
		v = target.v
	}
	o, _ := v.(object)
	p := profile{types: typeAny, fixed: map[string]string{}}
	if declared, ok := typesOf(o); ok {
		p.types = declared
	}
	if values, ok := listed(o); ok {
		for _, v := range values {
			p.enum = append(p.enum, string(appendCanonical(nil, v)))
		}
		p.types &= typesOfValues(values)
	}
	needed, _ := namesIn(o, "required")
	for _, m := range membersOf(o, "properties") {
		property, _ := m.value.(object)
		if values, ok := listed(property); ok && len(values) == 1 && needed[m.name] {
			p.fixed[m.name] = string(appendCanonical(nil, values[0]))
		}
	}
	return p
}

// sortOf names what sort of thing a schema describes.
func (d *schemaDoc) sortOf(v value) string {
	p := d.profile(v)
	names := make([]string, 0, len(p.fixed))
	for name, fixed := range p.fixed {
		names = append(names, name+"="+fixed)
	}
	slices.Sort(names)
	return strconv.Itoa(int(p.types)) + " " + strings.Join(names, " ")
}

// maxDisjoint is how many alternatives are compared with each other.
const maxDisjoint = 32

// disjoint says whether no value fits two schemas of a list, as far as that can
// be seen at a glance.
func (d *schemaDoc) disjoint(v value) bool {
	list, ok := v.([]value)
	if !ok || len(list) > maxDisjoint {
		return false
	}
	profiles := make([]profile, len(list))
	for i, e := range list {
		profiles[i] = d.profile(e)
		for _, other := range profiles[:i] {
			if !apart(profiles[i], other) {
				return false
			}
		}
	}
	return true
}

func apart(a, b profile) bool {
	if a.types&b.types == 0 {
		return true
	}
	if a.enum != nil && b.enum != nil && !slices.ContainsFunc(a.enum, func(v string) bool { return slices.Contains(b.enum, v) }) {
		return true
	}
	if a.types&b.types != typeObject {
		return false
	}
	for name, v := range a.fixed {
		if other, ok := b.fixed[name]; ok && other != v {
			return true
		}
	}
	return false
}
