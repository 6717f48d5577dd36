package api

import (
	"maps"
	"slices"
	"strings"

	"countersign/db"
	"countersign/registry"
)

// maxTerms is how many comparisons a filter may have.
const maxTerms = 20

// kinds of fields: what a value of one must be, and what it is to the database.
type fieldKind int

const (
	textField fieldKind = iota
	boolField
	wordField // a word of an enum
	mapField
)

// field is one field that filters can compare.
type field struct {
	kind  fieldKind
	words map[string]string // of a wordField: upper case name in the proto, or our word, to our word
}

// parseFilter reads the subset of AIP-160 that lists understand: comparisons
// by =, != and : (contains; of * anything at all) joined by AND, values bare or
// quoted. A filter that it does not understand is refused, never half applied.
func parseFilter(filter string, fields map[string]field) ([]db.Condition, error) {
	p := &filterParser{rest: filter}
	var terms []db.Condition
	for p.blanks(); p.rest != ""; p.blanks() {
		if len(terms) > 0 && !p.keyword("AND") {
			return nil, p.fault("AND is expected between comparisons, before %q: %s", cut(p.rest), onlyAnd)
		}
		if p.rest == "" {
			return nil, p.fault("a comparison is missing behind AND")
		}
		if p.unsupported() {
			return nil, p.fault("a comparison is expected, not %q: %s", cut(p.rest), onlyAnd)
		}
		t, err := p.term(fields)
		if err != nil {
			return nil, err
		}
		if terms = append(terms, t); len(terms) > maxTerms {
			return nil, p.fault("more than %d comparisons", maxTerms)
		}
	}
	return terms, nil
}

type filterParser struct{ rest string }

func (p *filterParser) fault(format string, args ...any) error {
	e := registry.Errorf(registry.ReasonInvalidFilter, format, args...)
	return e.WithField("filter", "%s", e.Message).
		WithNext(`compare by =, != and : (contains; :* anything), joined by AND, such as name = "demo" AND name != "other"`)
}

func (p *filterParser) blanks() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

func (p *filterParser) keyword(word string) bool {
	rest, found := strings.CutPrefix(p.rest, word)
	if !found || rest != "" && !strings.ContainsAny(rest[:1], " \t\r\n") {
		return false
	}
	p.rest = rest
	p.blanks()
	return true
}

// onlyAnd says what of AIP-160 there is.
const onlyAnd = "OR, NOT, - and parentheses are not supported, only comparisons joined by AND"

// unsupported says whether a part of AIP-160 follows that we do not have.
func (p *filterParser) unsupported() bool {
	if strings.ContainsAny(p.rest[:1], "(-") {
		return true
	}
	return slices.ContainsFunc([]string{"NOT", "OR", "AND"}, func(word string) bool {
		rest, found := strings.CutPrefix(p.rest, word)
		return found && (rest == "" || strings.ContainsAny(rest[:1], " \t\r\n("))
	})
}

func (p *filterParser) term(fields map[string]field) (db.Condition, error) {
	name := p.while(isName)
	f, known := fields[name]
	if !known {
		return db.Condition{}, p.fault("there is no field %q to filter by; there are %s", cut(name+p.rest), strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
	}
	c := db.Condition{Field: name}
	if f.kind == mapField {
		rest, found := strings.CutPrefix(p.rest, ".")
		if !found {
			return db.Condition{}, p.fault("%s needs a key: %s.KEY", name, name)
		}
		p.rest = rest
		key, err := p.value(isKey)
		if err != nil {
			return db.Condition{}, err
		}
		c.Field += "." + key
	}
	p.blanks()
	for _, c.Op = range []db.Op{db.OpIsNot, db.OpIs, db.OpHas, ""} {
		if rest, found := strings.CutPrefix(p.rest, string(c.Op)); found {
			p.rest = rest
			break
		}
	}
	if c.Op == "" || c.Op == db.OpHas && f.kind != textField && f.kind != mapField {
		return db.Condition{}, p.fault("another comparison is expected after %s: = or !=, and for texts :", name)
	}
	p.blanks()
	var err error
	if c.Value, err = p.value(isBare); err != nil {
		return db.Condition{}, err
	}
	switch f.kind {
	case boolField:
		if c.Value != "true" && c.Value != "false" {
			return db.Condition{}, p.fault("%s is true or false, not %q", name, cut(c.Value))
		}
	case wordField:
		word, ok := f.words[c.Value]
		if !ok {
			return db.Condition{}, p.fault("%s is one of %s, not %q", name, strings.Join(f.list(), ", "), cut(c.Value))
		}
		c.Value = word
	case textField, mapField:
	}
	return c, nil
}

func (f field) list() []string {
	return slices.Compact(slices.Sorted(maps.Values(f.words)))
}

func (p *filterParser) while(ok func(byte) bool) string {
	n := 0
	for n < len(p.rest) && ok(p.rest[n]) {
		n++
	}
	out := p.rest[:n]
	p.rest = p.rest[n:]
	return out
}

// value reads a bare word of the bytes that are ok, or a quoted string in
// which a backslash stands before what is meant literally.
func (p *filterParser) value(ok func(byte) bool) (string, error) {
	if p.rest == "" {
		return "", p.fault("a value is missing at the end")
	}
	quote := p.rest[0]
	if quote != '"' && quote != '\'' {
		bare := p.while(ok)
		if bare == "" {
			return "", p.fault("a value is expected before %q", cut(p.rest))
		}
		return bare, nil
	}
	var out strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == quote:
			p.rest = p.rest[i+1:]
			return out.String(), nil
		case c == '\\' && i+1 < len(p.rest):
			i++
			out.WriteByte(p.rest[i])
		default:
			out.WriteByte(c)
		}
	}
	return "", p.fault("a quoted value does not end")
}

func isName(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }

func isKey(c byte) bool {
	return isName(c) || c >= 'A' && c <= 'Z' || c == '.' || c == '-' || c == '/'
}

func isBare(c byte) bool { return c > ' ' && c != '(' && c != ')' && c != '"' && c != '\'' && c != ',' }

func cut(s string) string {
	if len(s) > 40 {
		return strings.ToValidUTF8(s[:40], "") + "…"
	}
	return s
}

// parseOrder reads an AIP-132 order of one field, ascending unless "desc" is
// behind it.
func parseOrder(order string, sortable ...string) (db.Order, error) {
	words := strings.Fields(order)
	if len(words) == 0 {
		return db.Order{Field: sortable[0]}, nil
	}
	directed := len(words) == 2 && (words[1] == "desc" || words[1] == "asc")
	if (len(words) == 1 || directed) && slices.Contains(sortable, words[0]) {
		return db.Order{Field: words[0], Desc: directed && words[1] == "desc"}, nil
	}
	return db.Order{}, registry.Errorf(registry.ReasonInvalidOrder, "the order %q is not known", cut(order)).
		WithField("order_by", "must be one of %s, alone or with \" desc\"", strings.Join(sortable, ", "))
}
