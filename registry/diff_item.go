package registry

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
)

// maxChanges is how many changes of one item are listed.
const maxChanges = 200

// diffDepth bounds the nesting of what is compared. Items were judged by the
// limits of their discovery, which are lower.
const diffDepth = 1000

// compareItems tells what became of one item.
func compareItems(a, b Item) ItemDiff {
	d := ItemDiff{
		Kind: b.Kind, Name: b.Name, Status: DiffUnchanged,
		Contract:  a.Digests.Contract != b.Digests.Contract || a.Verdict != b.Verdict,
		Text:      a.Digests.Text != b.Digests.Text,
		Behaviour: a.Digests.Behaviour != b.Digests.Behaviour,
	}
	if a.Definition() == b.Definition() && a.Verdict == b.Verdict {
		return d
	}
	var found []Change
	from, to := fieldsOf(a.Raw), fieldsOf(b.Raw)
	if c, yes := verdictChange(a, b); yes {
		found = []Change{c}
		if a.Verdict != b.Verdict {
			// What is faulty is not compared further: nobody can use it.
			d.Text, d.Behaviour = false, false
			from, to = nil, nil
		}
	}
	if from != nil && to != nil {
		found = append(found, differences(a, b, from, to)...)
	}
	return d.settle(found, from, to)
}

// differences tells how two items differ, whatever the digests say.
func differences(a, b Item, from, to object) []Change {
	out := compareTexts(textsOf(a.Kind, from), textsOf(b.Kind, to))
	if b.Kind == KindTool {
		out = append(out, compareSchemas(from, to)...)
	} else {
		out = append(out, compareFields(b.Kind, from, to)...)
	}
	out = append(out, compareBehaviour(a, b)...)
	return append(out, compareRest(b.Kind, from, to)...)
}

// verdictChange tells that an item came into quarantine, left it, or is in it
// for a definition that cannot be compared.
func verdictChange(a, b Item) (Change, bool) {
	c := Change{part: partContract}
	switch {
	case !a.Quarantined() && !b.Quarantined():
		return c, false
	case !a.Quarantined():
		c.Kind, c.Severity, c.After = ChangeQuarantined, SeverityBreaking, shownString(verdictOf(b))
	case !b.Quarantined():
		c.Kind, c.Severity, c.Before = ChangeReleased, SeverityWidening, shownString(verdictOf(a))
	case a.Verdict != b.Verdict, a.Digests.Contract != b.Digests.Contract:
		c.Kind, c.Severity = ChangeFaultyDefinition, SeverityBreaking
		c.Before, c.After = shownPair(verdictOf(a), verdictOf(b))
	default:
		return c, false
	}
	return c, true
}

// settle keeps the changes that the digests confirm, and sees to it that each
// moved digest has one.
func (d ItemDiff) settle(found []Change, from, to object) ItemDiff {
	var moved, explained part
	for p, yes := range map[part]bool{partContract: d.Contract, partText: d.Text, partBehaviour: d.Behaviour} {
		if yes {
			moved |= p
		}
	}
	for _, c := range found {
		if c.part != 0 && c.part&moved == 0 {
			continue // by the digests it is none
		}
		explained |= c.part & moved
		d.Changes = append(d.Changes, c)
	}
	for _, rest := range []struct {
		part     part
		severity Severity
	}{{partContract, SeverityBreaking}, {partText, SeverityText}, {partBehaviour, SeverityEscalating}} {
		if moved&rest.part != 0 && explained&rest.part == 0 {
			path, before, after := firstDifference(from, to)
			d.Changes = append(d.Changes, Change{Path: path, Kind: ChangeOther, Severity: rest.severity, Before: before, After: after, part: rest.part})
		}
	}
	return d.finish()
}

// finish sorts and bounds the changes and makes status and severity of them.
func (d ItemDiff) finish() ItemDiff {
	sortChanges(d.Changes)
	for _, c := range d.Changes {
		d.Severity = worse(d.Severity, c.Severity)
		if c.part != 0 || c.Kind != ChangeRecorded {
			d.Status = DiffChanged
		}
	}
	if over := len(d.Changes) - maxChanges; over > 0 {
		more := d.Changes[maxChanges]
		d.Changes = append(slices.Clip(d.Changes[:maxChanges]), Change{
			Kind: ChangeMore, Severity: more.Severity, After: json.RawMessage(strconv.Itoa(over)), part: more.part,
		})
	}
	return d
}

func verdictOf(item Item) string {
	if item.Detail == "" {
		return string(item.Verdict)
	}
	return string(item.Verdict) + ": " + item.Detail
}

// fieldsOf reads an item that was judged before; what cannot be read is empty.
func fieldsOf(raw []byte) object {
	v, err := parse(raw, diffDepth)
	if err != nil {
		return nil
	}
	o, _ := v.(object)
	return o
}

// firstDifference is where two items differ at the top, for changes that
// nothing else explains.
func firstDifference(from, to object) (path string, before, after json.RawMessage) {
	for name, pair := range union(from, to) {
		if pair.inA != pair.inB || !sameValue(pair.a, pair.b) {
			before, after = shownChange(pair)
			return "/" + pointer(name), before, after
		}
	}
	return "", nil, nil
}

// two are the values of one name on both sides; a missing one is not null.
type two struct {
	a, b     value
	inA, inB bool
}

// union walks the names of two objects in order, with the values of both.
func union(a, b object) func(yield func(string, two) bool) {
	return func(yield func(string, two) bool) {
		for len(a) > 0 || len(b) > 0 {
			var name string
			var t two
			if len(b) == 0 || len(a) > 0 && a[0].name <= b[0].name {
				name, t.a, t.inA = a[0].name, a[0].value, true
			}
			if len(a) == 0 || len(b) > 0 && b[0].name <= a[0].name {
				name, t.b, t.inB = b[0].name, b[0].value, true
			}
			if t.inA {
				a = a[1:]
			}
			if t.inB {
				b = b[1:]
			}
			if !yield(name, t) {
				return
			}
		}
	}
}

// same says whether two values are equal in canonical form.
func sameValue(a, b value) bool {
	switch a := a.(type) {
	case object:
		b, ok := b.(object)
		return ok && slices.EqualFunc(a, b, func(x, y member) bool { return x.name == y.name && sameValue(x.value, y.value) })
	case []value:
		b, ok := b.([]value)
		return ok && slices.EqualFunc(a, b, sameValue)
	}
	switch b.(type) {
	case object, []value:
		return false
	}
	return bytes.Equal(appendCanonical(nil, a), appendCanonical(nil, b))
}

// argument is one argument of a prompt.
type argument struct {
	name   string
	fields object
}

func (a argument) required() bool { return valueOf(a.fields, "required") == true }

// argumentsOf gives the arguments of a prompt by their names. Their order means
// nothing.
func argumentsOf(prompt object) []argument {
	list, _ := valueOf(prompt, "arguments").([]value)
	out := make([]argument, 0, len(list))
	for _, e := range list {
		o, _ := e.(object)
		if name, ok := textOf(o, "name"); ok {
			out = append(out, argument{name, o})
		}
	}
	slices.SortStableFunc(out, func(a, b argument) int { return cmp.Compare(a.name, b.name) })
	return slices.CompactFunc(out, func(a, b argument) bool { return a.name == b.name })
}

// compareArguments tells how the arguments of two prompts differ.
func compareArguments(from, to []argument) []Change {
	was := make(map[string]argument, len(from))
	for _, a := range from {
		was[a.name] = a
	}
	var out []Change
	say := func(name string, kind ChangeKind, severity Severity, before, after json.RawMessage) {
		out = append(out, Change{Path: "/arguments/" + pointer(name), Kind: kind, Severity: severity, Before: before, After: after, part: partContract})
	}
	for _, b := range to {
		a, known := was[b.name]
		delete(was, b.name)
		switch {
		case !known && b.required():
			say(b.name, ChangeRequiredArgument, SeverityBreaking, nil, shown(b.fields))
		case !known:
			say(b.name, ChangeArgumentAdded, SeverityWidening, nil, shown(b.fields))
		case b.required() && !a.required():
			say(b.name, ChangeArgumentRequired, SeverityBreaking, shown(false), shown(true))
		case a.required() && !b.required():
			say(b.name, ChangeArgumentOptional, SeverityWidening, shown(true), shown(false))
		}
	}
	for _, a := range from {
		if _, gone := was[a.name]; gone {
			say(a.name, ChangeArgumentRemoved, SeverityNarrowing, shown(a.fields), nil)
		}
	}
	return out
}
