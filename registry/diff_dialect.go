package registry

import (
	"cmp"
	"slices"
)

// dialects compares $schema. The same keywords mean the same in each dialect,
// but for a few.
func (d *schemaDiff) dialects(a, b value, base string) {
	before, after := dialectsOf(a, base), dialectsOf(b, base)
	dependsA, dependsB := dialectual(a, plainText(before, base)), dialectual(b, plainText(after, base))
	depends := max(dependsA, dependsB)
	if len(d.out) == 0 && min(dependsA, dependsB) == notDialectual && depends != notDialectual {
		// A keyword came or went that means nothing, but makes the dialect count.
		d.emit(base, ChangeRewritten, effectSame, false, nil, nil)
	}
	for at, pair := range union(before, after) {
		x, y := plainText(before, at), plainText(after, at)
		if x == y {
			continue
		}
		c := Change{Path: at + "/$schema", Kind: ChangeRecorded, Severity: SeverityCosmetic}
		c.Before, c.After = shownChange(pair)
		switch {
		case depends == readOtherwise, !knownDialect([]byte(x)), !knownDialect([]byte(y)):
			c.Kind, c.Severity, c.part = ChangeDialect, SeverityBreaking, partContract
		case depends == spelledOtherwise:
			c.Kind, c.Severity, c.part = ChangeDialect, SeverityWidening, partContract
		}
		d.out = append(d.out, c)
	}
}

// dialectsOf gives every $schema of a schema by where it stands; the root has
// one also when it does not say so.
func dialectsOf(v value, base string) object {
	out := object{}
	if o, _ := v.(object); !hasMember(o, "$schema") {
		out = append(out, member{base, string(standardDialect)})
	}
	var walk func(v value, at string)
	walk = func(v value, at string) {
		o, _ := v.(object)
		if uri, ok := textOf(o, "$schema"); ok {
			out = append(out, member{at, uri})
		}
		below(o, at, func(_, here string, e value) { walk(e, here) })
	}
	walk(v, base)
	slices.SortFunc(out, func(x, y member) int { return cmp.Compare(x.name, y.name) })
	return out
}

func plainText(o object, name string) string {
	s, _ := textOf(o, name)
	return string(plainDialect([]byte(s)))
}

// How much a schema depends on its dialect.
const (
	notDialectual    = iota
	spelledOtherwise // has a keyword that only some dialects have, and that is compared by its meaning
	readOtherwise    // has a keyword that dialects read differently
)

// dialectual says how much a schema depends on its dialect.
func dialectual(v value, dialect string) int {
	o, _ := v.(object)
	out := notDialectual
	for _, m := range o {
		_, isBool := m.value.(bool)
		_, isList := m.value.([]value)
		switch {
		case m.name == "dependencies", isBool && (m.name == "exclusiveMinimum" || m.name == "exclusiveMaximum"):
			return readOtherwise
		case m.name == "items" && isList && dialect == string(standardDialect): // it has no such form any more
			return readOtherwise
		case m.name == "definitions", m.name == "additionalItems", m.name == "items" && isList:
			out = spelledOtherwise
		case !hasMember(o, "$ref") || m.name == "$ref" || m.name == "$schema" || roleOf(m.name) == roleProse:
		case aside(m.name), m.name == "$defs":
			out = spelledOtherwise // beside a reference, and of no effect on what it allows
		default:
			return readOtherwise
		}
	}
	below(o, "", func(_, _ string, e value) { out = max(out, dialectual(e, dialect)) })
	return out
}
