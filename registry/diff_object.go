package registry

import (
	"maps"
	"slices"
	"strconv"
)

// properties compares what stands in an object: which properties there are,
// which of them are needed, and what is to become of others.
func (d *schemaDiff) properties(a, b spot, before, after object, strict bool) {
	neededA, okA := namesIn(before, "required")
	neededB, okB := namesIn(after, "required")
	if x, y := valueOf(before, "required"), valueOf(after, "required"); !sameValue(sortedSet(x), sortedSet(y)) {
		switch {
		case !okA || !okB:
			d.emit(b.under("required"), ChangeConstraint, effectUnclear, strict, shown(x), shown(y))
		case maps.Equal(neededA, neededB): // a name twice, or an empty list
			d.emit(b.under("required"), ChangeRewritten, effectSame, strict, shown(x), shown(y))
		}
	}
	describedA, describedB := membersOf(before, "properties"), membersOf(after, "properties")
	d.emptied(pairOf(before, after, "properties"), b.under("properties"), strict)
	for name, pair := range union(describedA, describedB) {
		needA, needB := neededA[name], neededB[name]
		delete(neededA, name)
		delete(neededB, name)
		at := b.under("properties", name)
		switch {
		case !pair.inA && needB && !needA:
			d.say(at, ChangeRequiredPropertyAdded, d.either(SeverityBreaking, SeverityWidening, strict), nil, shown(pair.b))
			continue
		case !pair.inA:
			d.say(at, ChangePropertyAdded, d.either(SeverityWidening, SeverityWidening, strict), nil, shown(pair.b))
			continue
		case !pair.inB:
			d.say(a.under("properties", name), ChangePropertyRemoved, d.removal(after, needA, strict), shown(pair.a), nil)
			continue
		}
		d.need(at, needA, needB, strict)
		d.compare(spot{pair.a, a.under("properties", name)}, spot{pair.b, at}, strict)
	}
	for _, name := range sortedNames(neededA, neededB) {
		if neededA[name] != neededB[name] {
			d.need(b.under("required"), neededA[name], neededB[name], strict)
		}
	}
	d.others(a, b, before, after, strict)
}

// emptied tells of an object of schemas that is empty on the one side and absent
// on the other.
func (d *schemaDiff) emptied(pair two, at string, strict bool) {
	if a, b := pair.objects(); pair.inA != pair.inB && len(a)+len(b) == 0 {
		before, after := shownChange(pair)
		d.emit(at, ChangeRewritten, effectSame, strict, before, after)
	}
}

// removal judges a property that is no longer described: a caller that gives it
// is refused, ignored, or heard as before; a reader misses it.
func (d *schemaDiff) removal(after object, needed, strict bool) Severity {
	additional, present := after.get("additionalProperties")
	if needed || !d.output && present && additional == false {
		return SeverityBreaking
	}
	return d.either(SeverityNarrowing, SeverityNarrowing, strict)
}

// need tells that a property became needed, or no longer is.
func (d *schemaDiff) need(at string, before, after, strict bool) {
	switch {
	case after && !before:
		d.say(at, ChangeMadeRequired, d.either(SeverityBreaking, SeverityWidening, strict), shown(before), shown(after))
	case before && !after:
		d.say(at, ChangeMadeOptional, d.either(SeverityWidening, SeverityBreaking, strict), shown(before), shown(after))
	}
}

// others compares what properties may be that are not described.
func (d *schemaDiff) others(a, b spot, before, after object, strict bool) {
	const keyword = "additionalProperties"
	x, y := valueOf(before, keyword), valueOf(after, keyword)
	openA, openB := !hasMember(before, keyword) || allowsAll(x), !hasMember(after, keyword) || allowsAll(y)
	at := b.under(keyword)
	switch {
	case openA && openB:
	case y == false && x != false:
		d.emit(at, ChangeUnknownForbidden, effectTighter, strict, shownOrNil(x), shown(y))
	case x == false && y != false:
		d.say(at, ChangeUnknownAllowed, d.either(SeverityWidening, SeverityWidening, strict), shown(x), shownOrNil(y))
	case openA:
		d.emit(at, ChangeUnknownRestricted, effectTighter, strict, shownOrNil(x), shown(y))
	case openB:
		d.emit(at, ChangeUnknownAllowed, effectLooser, strict, shown(x), shownOrNil(y))
	default:
		d.compare(spot{x, a.under(keyword)}, spot{y, at}, strict)
	}
}

// element compares what may stand at one position. Behind the end of a list,
// what the keyword for the rest says counts.
func (d *schemaDiff) element(a, b sequence, i int, strict bool) {
	x, inA := a.element(i)
	y, inB := b.element(i)
	switch {
	case inA && inB:
		d.compare(x, y, strict)
	case inA:
		d.emit(x.at, ChangeConstraintRemoved, effectLooser, strict, shown(x.v), nil)
	case inB:
		d.emit(y.at, ChangeConstraintAdded, effectTighter, strict, nil, shown(y.v))
	}
}

// elements compares what stands in an array.
func (d *schemaDiff) elements(a, b spot, before, after object, strict bool) {
	x, y := newSequence(a, before), newSequence(b, after)
	if x.keyword != y.keyword && x.list != nil && y.list != nil {
		d.emit(b.under(y.keyword), ChangeRewritten, effectSame, strict, shownString(x.keyword), shownString(y.keyword))
	}
	for i := range max(len(x.list), len(y.list)) {
		d.element(x, y, i, strict)
	}
	switch {
	case x.hasRest && y.hasRest:
		d.compare(x.rest, y.rest, strict)
	case x.hasRest && allowsAll(x.rest.v), y.hasRest && allowsAll(y.rest.v):
		d.emit(y.rest.at, ChangeRewritten, effectSame, strict, shownOrNil(x.rest.v), shownOrNil(y.rest.v))
	case x.hasRest:
		d.emit(x.rest.at, ChangeConstraintRemoved, effectLooser, strict, shown(x.rest.v), nil)
	case y.hasRest:
		d.emit(y.rest.at, ChangeConstraintAdded, effectTighter, strict, nil, shown(y.rest.v))
	}
	for _, keyword := range []string{"additionalItems", "prefixItems"} { // where they mean nothing
		if !x.uses(keyword) && !y.uses(keyword) {
			d.change(pairOf(before, after, keyword), b.under(keyword), keywordKinds, [3]effect{effectTighterSoft, effectTighterSoft, effectTighterSoft}, strict)
		}
	}
}

// sequence is what a schema says about the elements of an array: those at the
// first positions, and the rest. A list of schemas by position is prefixItems in
// 2020-12 and was items before.
type sequence struct {
	spot

	keyword string // of the list
	list    []value
	behind  string // keyword of the rest
	rest    spot
	hasRest bool
}

func newSequence(s spot, o object) sequence {
	out := sequence{spot: s, keyword: "prefixItems", behind: "items"}
	if list, ok := valueOf(o, "items").([]value); ok {
		out.keyword, out.list, out.behind = "items", list, "additionalItems"
	} else {
		out.list, _ = valueOf(o, "prefixItems").([]value)
	}
	out.rest = spot{valueOf(o, out.behind), s.under(out.behind)}
	out.hasRest = hasMember(o, out.behind)
	return out
}

func (s sequence) uses(keyword string) bool { return keyword == s.keyword || keyword == s.behind }

// element is the schema for one position, if there is one.
func (s sequence) element(i int) (spot, bool) {
	if i < len(s.list) {
		return spot{s.list[i], s.under(s.keyword, strconv.Itoa(i))}, true
	}
	return s.rest, s.hasRest
}

// allowsAll says whether a schema says nothing, but for prose.
func allowsAll(v value) bool {
	if o, ok := v.(object); ok {
		return !slices.ContainsFunc(o, func(m member) bool {
			return roleOf(m.name) != roleProse && m.name != "$schema" && !(m.name == "additionalProperties" && allowsAll(m.value))
		})
	}
	return v == true
}

// pairOf gives the values of one name on both sides.
func pairOf(a, b object, name string) two {
	return two{valueOf(a, name), valueOf(b, name), hasMember(a, name), hasMember(b, name)}
}

// textOf gives a member that is a text.
func textOf(o object, name string) (string, bool) {
	s, ok := valueOf(o, name).(string)
	return s, ok
}

func valueOf(o object, name string) value {
	v, _ := o.get(name)
	return v
}

func shownOrNil(v value) []byte {
	if v == nil {
		return nil
	}
	return shown(v)
}

// namesIn reads a list of names; absent is an empty one.
func namesIn(o object, keyword string) (names map[string]bool, ok bool) {
	v, present := o.get(keyword)
	list, isList := v.([]value)
	names = map[string]bool{}
	ok = isList || !present
	for _, e := range list {
		if name, isString := e.(string); isString {
			names[name] = true
		} else {
			ok = false
		}
	}
	return names, ok
}

func sortedNames(sets ...map[string]bool) []string {
	var out []string
	for _, set := range sets {
		for name := range set {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func hasMember(o object, name string) bool {
	_, ok := o.get(name)
	return ok
}

// membersOf gives the object that stands under a name; anything else is empty.
func membersOf(o object, name string) object {
	members, _ := valueOf(o, name).(object)
	return members
}
