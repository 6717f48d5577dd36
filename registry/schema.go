package registry

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
)

// place is where a schema stands, which decides whether a parameter of it may
// be mirrored into a header.
type place uint8

const (
	results     place = iota // in an output schema, where headers mean nothing
	arguments                // the root of an input schema
	parameter                // reached from there by properties alone
	unreachable              // in an input schema, but not by properties alone
)

// inside gives the place of what a keyword other than properties holds.
func (p place) inside() place {
	if p == results {
		return p
	}
	return unreachable
}

// walk goes once through the JSON Schemas of a tool, writes what is contract,
// collects prose and header mappings, and judges (design.md §5). Names under
// properties and the like are never taken for keywords, nor is anything inside
// a literal.
type walk struct {
	document

	contract  []byte
	text      branch
	headers   branch
	behaviour []byte

	behaviours, metas recent

	path    trail
	verdict fault // the first one; its reason is empty when there is none
	strange bool  // there are unknown fields
	beside  bool  // there are fields that only meta covers

	// Of the schema that is walked now.
	place     place
	strict    bool // its dialect is known, so its keywords must be well-formed
	dialectal bool // a keyword occurs whose meaning depends on the dialect
	dialects  []dialect
	open      []int // schemas that say that they allow additional properties, which is the default
	leftovers bool  // unevaluatedProperties occurs, for which it makes a difference whether they say it
	schemas   int   // counted so far
	refs      []ref
	resources []resource
	resource  int            // in which the walk is
	bases     map[string]int // resources by base, the first so many
	based     int
	anchors   map[anchor]bool
	mirrored  map[string]bool // names of headers, in lower case

	spans []span
	spare []byte
}

// dialect is a $schema, by the number of the schema that it stands in.
type dialect struct {
	schema int
	uri    []byte
}

// standardDialect is the one of schemas that name none (MCP, since 2025-11-25).
var standardDialect = []byte("https://json-schema.org/draft/2020-12/schema")

// plainDialect drops the empty fragment, with which a dialect is the same.
func plainDialect(uri []byte) []byte { return bytes.TrimSuffix(uri, []byte{'#'}) }

// knownDialect says whether the keywords of a dialect are known here.
func knownDialect(uri []byte) bool {
	switch string(plainDialect(uri)) {
	case "https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft/2020-12/schema",
		"https://json-schema.org/draft/2019-09/schema", "http://json-schema.org/draft/2019-09/schema",
		"https://json-schema.org/draft-07/schema", "http://json-schema.org/draft-07/schema",
		"https://json-schema.org/draft-06/schema", "http://json-schema.org/draft-06/schema",
		"https://json-schema.org/draft-04/schema", "http://json-schema.org/draft-04/schema":
		return true
	}
	return false
}

func (w *walk) faultf(reason Reason, format string, args ...any) {
	if w.verdict.reason != "" {
		return
	}
	w.verdict = fault{reason, Visible(shorten(w.path.String()+" "+fmt.Sprintf(format, args...), maxDetail))}
}

func (w *walk) invalidf(format string, args ...any) { w.faultf(ReasonInvalidSchema, format, args...) }

// root writes the contract of one whole schema.
func (w *walk) root(name []byte, n *node, at place) {
	w.strict, w.dialectal, w.dialects, w.schemas, w.open, w.leftovers = true, false, w.dialects[:0], 0, w.open[:0], false
	w.refs, w.anchors, w.mirrored = w.refs[:0], nil, nil
	w.resources, w.resource, w.bases, w.based, w.place = append(w.resources[:0], resource{root: n}), 0, nil, 0, at
	if uri := w.get(n, "$schema"); uri != nil && uri.kind == '"' {
		w.strict = knownDialect(w.bytes(uri))
	} else {
		w.dialects = append(w.dialects, dialect{1, standardDialect})
	}
	w.path = append(w.path[:0], step{name: name})
	w.judgeRoot(n, at)
	w.schema(n, at)
	w.resolve()
	w.leave()
}

// judgeRoot judges what the protocol demands of a whole schema.
func (w *walk) judgeRoot(n *node, at place) {
	switch kind := w.get(n, "type"); {
	case n.kind != '{':
		w.invalidf("is not an object")
	case at == results:
	case kind != nil && !w.holds(kind, "object"):
		w.invalidf(`has a type other than "object"`)
	case !slices.ContainsFunc(w.kids(n), func(m node) bool { return string(w.name(&m)) != "$schema" }):
		// What a generator writes that does not understand its input. Taken as it
		// stands, it would let every argument pass.
		w.invalidf("says nothing about the arguments")
	}
}

// leave goes one step back.
func (w *walk) leave() {
	w.path = w.path[:len(w.path)-1]
	w.text.left(len(w.path))
	w.headers.left(len(w.path))
}

// appendContext writes what decides how the schema that was walked last is to be
// understood, as members of the contract: its dialects, and which of its schemas
// allow additional properties in so many words; either only if it matters.
func (w *walk) appendContext(dst []byte, name string) []byte {
	if w.dialectal {
		dst = append(appendString(append(dst, ','), name+"Dialect"), ':', '[')
		for i, d := range w.dialects {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(strconv.AppendInt(dst, int64(d.schema), 10), ',')
			dst = appendString(dst, plainDialect(d.uri))
		}
		dst = append(dst, ']')
	}
	if w.leftovers {
		dst = append(appendString(append(dst, ','), name+"Open"), ':')
		dst = fmt.Append(dst, w.open)
	}
	return dst
}

func (w *walk) schema(n *node, at place) {
	n.seen = true
	w.schemas++
	if n.kind != '{' {
		if n.kind != 't' && n.kind != 'f' {
			w.invalidf("is neither an object nor a boolean")
		}
		w.contract = w.appendNode(w.contract, n)
		return
	}
	members, number, outer := w.kids(n), w.schemas, w.resource
	if len(members) > 0 && bytes.HasPrefix(w.name(&members[0]), []byte{'$'}) {
		w.enter(n)
	}
	w.contract = append(w.contract, '{')
	for i := range members {
		m := &members[i]
		w.path = append(w.path, step{name: w.name(m)})
		w.member(n, m, at, number)
		w.leave()
	}
	w.contract = append(w.contract, '}')
	w.resource = outer
}

// member writes one member of a schema.
func (w *walk) member(n, m *node, at place, number int) {
	name := w.name(m)
	key := keywordOf(name)
	if key == keyUnknown {
		if twin := keywordVariants.of(name); twin != "" {
			w.faultf(ReasonAmbiguousKeys, "differs from %q only in case", twin)
		}
	}
	switch {
	case key == keyDialect:
		w.dialect(m, number)
		return
	case key.isProse():
		w.prose(m, key)
		return
	case key == keyHeader && at == parameter:
		w.header(n, m)
		return
	}
	mark := len(w.contract)
	w.contract = w.appendName(comma(w.contract), m)
	value := len(w.contract)
	switch key {
	case keySchema:
		w.schema(m, at.inside())
	case keyAdditionalItems:
		w.dialectal = true
		w.schema(m, at.inside())
	case keyAdditional:
		w.schema(m, at.inside())
		if s := w.contract[value:]; string(s) == "true" || string(s) == "{}" {
			w.contract = w.contract[:mark] // its default
			w.open = append(w.open, number)
		}
	case keyUnevaluated:
		w.leftovers = true
		w.schema(m, at.inside())
	case keyItems:
		if m.kind != '[' {
			w.schema(m, at.inside())
			break
		}
		w.dialectal = true
		w.schemaList(m, at.inside())
	case keySchemas:
		if m.kind != '[' || w.empty(m) {
			w.invalidf("is not a list of schemas")
			w.literal(m)
			break
		}
		w.schemaList(m, at.inside())
	case keyNamed, keyDefinitions, keyPatterns, keyDependencies:
		w.named(m, key, at, string(name) == "properties")
	case keyDependentRequired:
		w.dependentRequired(m)
	case keyRequired:
		if !w.allStrings(m) {
			w.invalidf("is not a list of names")
		}
		w.set(m)
	case keyType:
		if problem := w.typeProblem(m); problem != "" && w.strict {
			w.invalidf("%s", problem)
		}
		w.set(m)
	case keyEnum:
		if m.kind != '[' {
			w.invalidf("is not a list")
		}
		w.set(m)
	case keyRef:
		w.ref(n, m)
		w.literal(m)
	case keyHeader:
		if at == arguments || at == unreachable {
			w.faultf(ReasonInvalidHeaderMapping, "stands where no parameter can be reached by properties alone")
		}
		w.literal(m)
	default:
		if problem := w.problem(key, name, m); problem != "" && w.strict {
			w.invalidf("%s", problem)
		}
		w.dialectal = w.dialectal || key == keyBound && (m.kind == 't' || m.kind == 'f')
		w.literal(m)
	}
}

// comma separates a member of an object from the one before it.
func comma(dst []byte) []byte {
	if dst[len(dst)-1] == '{' {
		return dst
	}
	return append(dst, ',')
}

func (w *walk) empty(n *node) bool { return n.body.from == n.body.to }

func (w *walk) literal(n *node) { w.contract = w.appendNode(w.contract, n) }

// dialect notes a $schema.
func (w *walk) dialect(m *node, number int) {
	if m.kind != '"' {
		w.invalidf("is not a string")
		return
	}
	w.dialects = append(w.dialects, dialect{number, w.bytes(m)})
	if !knownDialect(w.bytes(m)) {
		w.dialectal = true // of all keywords nobody knows what they mean there
	}
}

// prose collects what is read, at the path that the walk is at.
func (w *walk) prose(m *node, key keyword) {
	switch {
	case m.kind == 'n':
	case m.kind == '"':
		w.say(m)
	default:
		if key == keyProse && w.strict {
			w.invalidf("is not a string")
		}
		w.text.at(w.path)
		w.text.buf = w.appendNode(w.text.buf, m)
	}
}

// say collects a text, unless it is empty.
func (w *walk) say(m *node) {
	s := w.bytes(m)
	if !m.plainBody && !isTidy(s) || endsBlank(s) {
		w.spare = appendTidy(w.spare[:0], s)
		s = w.spare
	}
	if len(s) == 0 {
		return
	}
	w.text.at(w.path)
	w.text.buf = appendWritten(w.text.buf, s, m.plainBody)
}

func (w *walk) schemaList(m *node, at place) {
	w.contract = append(w.contract, '[')
	list := w.kids(m)
	for i := range list {
		if i > 0 {
			w.contract = append(w.contract, ',')
		}
		w.path = append(w.path, step{index: i})
		w.schema(&list[i], at)
		w.leave()
	}
	w.contract = append(w.contract, ']')
}

// named writes an object whose names are no keywords.
func (w *walk) named(m *node, key keyword, at place, properties bool) {
	w.dialectal = w.dialectal || key == keyDefinitions || key == keyDependencies
	if m.kind != '{' {
		w.invalidf("is not an object")
		w.literal(m)
		return
	}
	switch {
	case properties && (at == arguments || at == parameter):
		at = parameter
	default:
		at = at.inside()
	}
	w.contract = append(w.contract, '{')
	members := w.kids(m)
	for i := range members {
		m := &members[i]
		w.path = append(w.path, step{name: w.name(m)})
		if key == keyPatterns && w.strict {
			if problem := patternProblem(string(w.name(m))); problem != "" {
				w.invalidf("is not a regular expression: %s", problem)
			}
		}
		w.contract = w.appendName(comma(w.contract), m)
		if key == keyDependencies && m.kind == '[' {
			w.names(m)
		} else {
			w.schema(m, at)
		}
		w.leave()
	}
	w.contract = append(w.contract, '}')
}

func (w *walk) dependentRequired(m *node) {
	if m.kind != '{' {
		w.invalidf("is not an object")
		w.literal(m)
		return
	}
	w.contract = append(w.contract, '{')
	members := w.kids(m)
	for i := range members {
		w.contract = w.appendName(comma(w.contract), &members[i])
		w.names(&members[i])
	}
	w.contract = append(w.contract, '}')
}

func (w *walk) names(m *node) {
	if !w.allStrings(m) {
		w.invalidf("is not a list of names")
	}
	w.set(m)
}

// set writes a list whose order means nothing, sorted by the canonical form of
// its elements. What is no list is written as it stands.
func (w *walk) set(m *node) {
	if m.kind != '[' {
		w.literal(m)
		return
	}
	from := len(w.contract)
	w.spans = w.spans[:0]
	list := w.kids(m)
	for i := range list {
		w.contract = append(w.contract, ',')
		begin := len(w.contract)
		w.contract = w.appendNode(w.contract, &list[i])
		w.spans = append(w.spans, span{uint32(begin - from), uint32(len(w.contract) - from)})
	}
	written := w.contract[from:]
	order := func(a, b span) int { return bytes.Compare(written[a.from:a.to], written[b.from:b.to]) }
	if !slices.IsSortedFunc(w.spans, order) {
		slices.SortFunc(w.spans, order)
		w.spare = append(w.spare[:0], written...)
		w.contract = w.contract[:from]
		for _, s := range w.spans {
			w.contract = append(append(w.contract, ','), w.spare[s.from:s.to]...)
		}
	}
	if len(list) == 0 {
		w.contract = append(w.contract, '[')
	} else {
		w.contract[from] = '['
	}
	w.contract = append(w.contract, ']')
}

func (w *walk) allStrings(m *node) bool {
	if m.kind != '[' {
		return false
	}
	for i := range w.kids(m) {
		if w.kids(m)[i].kind != '"' {
			return false
		}
	}
	return true
}

var typeNames = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

func (w *walk) typeProblem(m *node) string {
	known := func(n *node) bool { return n.kind == '"' && slices.Contains(typeNames, string(w.bytes(n))) }
	switch {
	case m.kind == '[':
		if w.empty(m) {
			return "is an empty list"
		}
		for i := range w.kids(m) {
			if !known(&w.kids(m)[i]) {
				return "names a type that does not exist"
			}
		}
		return ""
	case m.kind != '"':
		return "is neither a type nor a list of types"
	case !known(m):
		return "names a type that does not exist"
	}
	return ""
}

// problem says what is wrong with the value of a keyword that holds no schema.
func (w *walk) problem(key keyword, name []byte, m *node) string {
	switch key {
	case keyID, keyAnchor:
		if m.kind != '"' {
			return "is not a string"
		}
	case keyNumber, keyCount, keyBound:
		if m.kind == '0' {
			return w.numberProblem(key, name, m)
		}
		if key != keyBound || m.kind != 't' && m.kind != 'f' {
			return "is not a number"
		}
	case keyFlag:
		if m.kind != 't' && m.kind != 'f' && m.kind != 'n' {
			return "is not a boolean"
		}
	case keyString:
		if m.kind != '"' && m.kind != 'n' {
			return "is not a string"
		}
	case keyPattern:
		if m.kind != '"' {
			return "is not a string"
		}
		if problem := patternProblem(string(w.bytes(m))); problem != "" {
			return "is not a regular expression: " + problem
		}
	default:
	}
	return ""
}

func (w *walk) numberProblem(key keyword, name []byte, m *node) string {
	number, _ := appendNumber(w.spare[:0], w.bytes(m))
	w.spare = number
	switch {
	case key == keyCount && (number[0] == '-' || bytes.Contains(number, []byte("e-"))):
		return "is not a whole number from 0 on"
	case string(name) == "multipleOf" && (number[0] == '-' || number[0] == '0'):
		return "is not above 0"
	}
	return ""
}
