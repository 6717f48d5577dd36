package registry

import (
	"bytes"
	"encoding/json"
	"slices"
)

// typesOf reads the types that a schema declares; absent is all of them.
func typesOf(o object) (types, bool) {
	v, present := o.get("type")
	if !present {
		return typeAny, true
	}
	list, isList := v.([]value)
	if !isList {
		list = []value{v}
	}
	var out types
	for _, t := range list {
		name, _ := t.(string)
		mask, known := kindOfType[name]
		if !known {
			return 0, false
		}
		out |= mask
	}
	return out, true
}

// listed gives the values that a schema lists, by enum, const or both.
func listed(o object) ([]value, bool) {
	list, isList := valueOf(o, "enum").([]value)
	v, isConst := o.get("const")
	switch {
	case !isConst:
		return list, isList
	case isList && !slices.ContainsFunc(list, func(e value) bool { return sameValue(e, v) }):
		return []value{}, true
	}
	return []value{v}, true
}

func typesOfValues(list []value) types {
	var out types
	for _, v := range list {
		switch v := v.(type) {
		case nil:
			out |= typeNull
		case bool:
			out |= typeBoolean
		case string:
			out |= typeString
		case number:
			if _, _, exponent := decimal(v); exponent < 0 {
				out |= typeFraction
			} else {
				out |= typeInteger
			}
		case []value:
			out |= typeArray
		case object:
			out |= typeObject
		}
	}
	return out
}

// values compares type, enum and const.
func (d *schemaDiff) values(a, b spot, before, after object, strict bool) {
	valuesA, listedA := listed(before)
	valuesB, listedB := listed(after)
	d.types(b, before, after, valuesA, valuesB, strict)
	enums, constants := pairOf(before, after, "enum"), pairOf(before, after, "const")
	keyword := "enum"
	if constants.inA || constants.inB {
		keyword = "const"
	}
	switch {
	case !listedA && !listedB:
		d.change(enums, b.under("enum"), constraintKinds, [3]effect{effectUnclear, effectUnclear, effectUnclear}, strict) // no list
		return
	case !listedA:
		d.emit(b.under(keyword), ChangeEnumAdded, effectTighter, strict, nil, shown(valuesB))
		return
	case !listedB:
		d.emit(a.under(keyword), ChangeEnumRemoved, effectLooser, strict, shown(valuesA), nil)
		return
	}
	gone, come := valuesMissing(valuesA, valuesB), valuesMissing(valuesB, valuesA)
	if len(gone) > 0 {
		d.emit(b.under(keyword), ChangeEnumValueRemoved, effectTighter, strict, shown(gone), nil)
	}
	if len(come) > 0 {
		d.emit(b.under(keyword), ChangeEnumValueAdded, effectLooser, strict, nil, shown(come))
	}
	if len(gone)+len(come) == 0 && !(equalPair(enums) && equalPair(constants)) {
		d.emit(b.under(keyword), ChangeRewritten, effectSame, strict, shown(valuesA), shown(valuesB))
	}
}

// equal says whether both sides have the same, in whatever order.
func equalPair(p two) bool { return p.inA == p.inB && sameValue(sortedSet(p.a), sortedSet(p.b)) }

// missing gives the values of one list that the other does not have.
func valuesMissing(list, other []value) []value {
	there := make(map[string]bool, len(other))
	for _, v := range other {
		there[string(appendCanonical(nil, v))] = true
	}
	return slices.DeleteFunc(slices.Clone(list), func(v value) bool { return there[string(appendCanonical(nil, v))] })
}

// types compares the types that are allowed. Where they are not declared on one
// side, listed values have them.
func (d *schemaDiff) types(b spot, before, after object, valuesA, valuesB []value, strict bool) {
	x := pairOf(before, after, "type")
	if equalPair(x) {
		return
	}
	at := b.under("type")
	maskA, okA := typesOf(before)
	maskB, okB := typesOf(after)
	if x.inA != x.inB {
		if valuesA != nil {
			maskA &= typesOfValues(valuesA)
		}
		if valuesB != nil {
			maskB &= typesOfValues(valuesB)
		}
	}
	kind, e := ChangeRewritten, effectSame
	switch {
	case !okA || !okB:
		kind, e = ChangeType, effectUnclear
	case maskA == maskB:
	case maskA&maskB == maskB:
		kind, e = ChangeTypeNarrowed, effectTighter
	case maskA&maskB == maskA:
		kind, e = ChangeTypeWidened, effectLooser
	default:
		kind, e = ChangeType, effectUnclear
	}
	d.emit(at, kind, e, strict, shownOrNil(x.a), shownOrNil(x.b))
}

// set sorts a value whose order means nothing.
func sortedSet(v value) value {
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

// keyword compares one keyword that stands for itself.
func (d *schemaDiff) keyword(name string, pair two, a, b spot, strict bool) {
	at := b.under(name)
	clause, known := clauses[name]
	if !known || name == headerKeyword && d.output {
		clause = clauseUnknown
	}
	switch clause {
	case clauseNone:
	case clauseBound:
		d.bound(name, pair, at, strict)
	case clauseSoft:
		if name == "uniqueItems" && pair.a != true && pair.b != true {
			d.change(pair, at, [3]ChangeKind{ChangeRewritten, ChangeRewritten, ChangeRewritten}, [3]effect{}, strict)
			return
		}
		d.change(pair, at, constraintKinds, [3]effect{effectTighterSoft, effectLooserSoft, effectTighterSoft}, strict)
	case clauseHard:
		pair.a, pair.b = stripUnder(name, pair.a), stripUnder(name, pair.b)
		d.change(pair, at, constraintKinds, [3]effect{effectTighter, effectLooser, effectUnclear}, strict)
	case clauseIdentity:
		d.change(pair, at, [3]ChangeKind{ChangeReference, ChangeReference, ChangeReference}, [3]effect{effectUnclear, effectUnclear, effectUnclear}, strict)
	case clauseSchema:
		if pair.inA && pair.inB {
			d.compare(spot{pair.a, a.under(name)}, spot{pair.b, at}, strict)
			return
		}
		d.change(pair, at, constraintKinds, [3]effect{effectTighter, effectLooser, effectUnclear}, strict)
	case clauseNames:
		d.named(pair, a.under(name), at, strict)
	case clauseDefault:
		d.defaults(pair, at)
	case clauseDefinition:
		d.definitions(pair, a.under(name), at)
	default:
		// Whoever checks values ignores what he does not know, so it neither
		// widens nor breaks; but somebody should look.
		d.change(pair, at, keywordKinds, [3]effect{effectTighterSoft, effectTighterSoft, effectTighterSoft}, strict)
	}
}

var keywordKinds = [3]ChangeKind{ChangeKeywordAdded, ChangeKeywordRemoved, ChangeKeyword}

var constraintKinds = [3]ChangeKind{ChangeConstraintAdded, ChangeConstraintRemoved, ChangeConstraint}

// change tells of a keyword that came, went or changed, in this order of kinds
// and effects.
func (d *schemaDiff) change(pair two, at string, kinds [3]ChangeKind, effects [3]effect, strict bool) {
	i := 2
	switch {
	case !pair.inA && !pair.inB, pair.inA && pair.inB && sameValue(pair.a, pair.b):
		return
	case !pair.inA:
		i = 0
	case !pair.inB:
		i = 1
	}
	before, after := shownChange(pair)
	d.emit(at, kinds[i], effects[i], strict, before, after)
}

// bound compares a limit on size or number.
func (d *schemaDiff) bound(name string, pair two, at string, strict bool) {
	if pair.inA && pair.inB && sameValue(pair.a, pair.b) {
		return
	}
	before, after := shownChange(pair)
	x, okA := pair.a.(number)
	y, okB := pair.b.(number)
	if pair.inA && !okA || pair.inB && !okB { // a boolean of draft-04, or nonsense
		d.change(pair, at, constraintKinds, [3]effect{effectTighterSoft, effectLooserSoft, effectUnclear}, strict)
		return
	}
	order := 0 // 1 when the new one is tighter
	nothing, hasDefault := boundDefaults[name]
	switch {
	case okA && okB:
		order = compareDecimals(y, x)
		if !lowerBounds[name] {
			order = -order
		}
	case okA && !(hasDefault && x == nothing):
		order = -1
	case okB && !(hasDefault && y == nothing):
		order = 1
	}
	switch {
	case order > 0:
		d.emit(at, ChangeBoundTightened, effectTighterSoft, strict, before, after)
	case order < 0:
		d.emit(at, ChangeBoundLoosened, effectLooserSoft, strict, before, after)
	default:
		d.emit(at, ChangeRewritten, effectSame, strict, before, after)
	}
}

// named compares schemas for patterns of names.
func (d *schemaDiff) named(pair two, atA, atB string, strict bool) {
	before, okA := pair.a.(object)
	after, okB := pair.b.(object)
	if pair.inA && !okA || pair.inB && !okB {
		d.change(pair, atB, constraintKinds, [3]effect{effectUnclear, effectUnclear, effectUnclear}, strict)
		return
	}
	d.emptied(pair, atB, strict)
	for name, p := range union(before, after) {
		here := atB + "/" + pointer(name)
		if p.inA && p.inB {
			d.compare(spot{p.a, atA + "/" + pointer(name)}, spot{p.b, here}, strict)
			continue
		}
		d.change(p, here, constraintKinds, [3]effect{effectTighterSoft, effectLooserSoft, effectUnclear}, strict)
	}
}

// defaults compares what counts when nothing is given. No value is refused or
// allowed by it, but another one is used.
func (d *schemaDiff) defaults(pair two, at string) {
	var before, after json.RawMessage
	if pair.inA != pair.inB || !sameValue(pair.a, pair.b) {
		before, after = shownChange(pair)
	}
	switch {
	case before == nil && after == nil:
	case !pair.inA:
		d.say(at, ChangeDefaultAdded, SeverityWidening, before, after)
	case !pair.inB:
		d.say(at, ChangeDefaultRemoved, SeverityNarrowing, before, after)
	default:
		d.say(at, ChangeDefault, SeverityNarrowing, before, after)
	}
}

// definitions compares definitions of one name, and notes others: whether they
// matter is told where they are used.
func (d *schemaDiff) definitions(pair two, atA, atB string) {
	before, okA := pair.a.(object)
	after, okB := pair.b.(object)
	if pair.inA && !okA || pair.inB && !okB {
		d.change(pair, atB, constraintKinds, [3]effect{effectUnclear, effectUnclear, effectUnclear}, true)
		return
	}
	d.emptied(pair, atB, false)
	for name, p := range union(before, after) {
		a, b := spot{p.a, atA + "/" + pointer(name)}, spot{p.b, atB + "/" + pointer(name)}
		switch {
		case p.inA && p.inB:
			d.later(a, b, false)
		case p.inA:
			d.emit(a.at, ChangeDefinitionRemoved, effectSame, false, shown(p.a), nil)
		default:
			d.emit(b.at, ChangeDefinitionAdded, effectSame, false, nil, shown(p.b))
		}
	}
}
