package registry

import (
	"bytes"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// span is a range: of bytes in document.buf, or of nodes in document.nodes.
type span struct{ from, to uint32 }

// node is one value of a document. What a value holds is a span, not a pointer,
// so that the memory of one document serves the next.
type node struct {
	kind byte // how its JSON begins: n t f " 0 [ {
	seen bool // a walk over schemas has been here
	// Written without escapes, and so in canonical form as it was sent.
	plainName, plainBody bool
	name                 span // of a member of an object, decoded
	body                 span // string: its bytes, decoded; number: its bytes, as sent; array, object: its children
}

// document is one decoded JSON value: a tree in two flat slices. Objects have
// their names in code point order, each once.
//
// It exists because tokens of a general decoder, kept in a tree of Go values,
// were too slow for what is decoded at every probe: see BenchmarkDigests.
type document struct {
	buf   []byte // a copy of what was sent, in which strings are decoded in place
	nodes []node
	open  []node // children of the containers that are still open
	pos   int
	end   int

	scratch []byte
}

// maxDocument is what spans can address.
const maxDocument = 1 << 31

// decode reads one JSON value strictly (RFC 8259, RFC 7493): valid UTF-8, no
// lone surrogates, no NUL, no name twice in one object, numbers and depth within
// bounds, nothing after it. The root is the last node. The error is a *fault.
func (d *document) decode(raw []byte, depth int) error {
	d.nodes, d.open, d.pos = d.nodes[:0], d.open[:0], 0
	if len(raw) >= maxDocument {
		return &fault{ReasonTooLarge, "larger than can be read"}
	}
	d.buf = append(d.buf[:0], raw...)
	d.end = len(raw)
	d.blanks()
	root, err := d.value(depth)
	if err != nil {
		return err
	}
	d.blanks()
	if d.pos != d.end {
		return &fault{ReasonMalformedField, "bytes after the end of the value"}
	}
	d.nodes = append(d.nodes, node{kind: root.kind, plainBody: root.plain, body: root.body})
	return nil
}

func (d *document) top() *node { return &d.nodes[len(d.nodes)-1] }

// bytes gives what a string holds, or a number's text, nil for other values.
func (d *document) bytes(n *node) []byte {
	if n.kind != '"' && n.kind != '0' {
		return nil
	}
	return d.buf[n.body.from:n.body.to]
}

// name gives a member's name.
func (d *document) name(n *node) []byte { return d.buf[n.name.from:n.name.to] }

// kids gives the children of an array or object, nil for other values.
func (d *document) kids(n *node) []node {
	if n == nil || n.kind != '{' && n.kind != '[' {
		return nil
	}
	return d.nodes[n.body.from:n.body.to]
}

// holds says whether a value is this string.
func (d *document) holds(n *node, s string) bool { return n.kind == '"' && string(d.bytes(n)) == s }

// get gives a member of an object, nil when it has none of this name.
func (d *document) get(n *node, name string) *node {
	if n == nil || n.kind != '{' {
		return nil
	}
	kids := d.kids(n)
	for len(kids) > few {
		if half := len(kids) / 2; string(d.name(&kids[half])) > name {
			kids = kids[:half]
		} else {
			kids = kids[half:]
		}
	}
	for i := range kids {
		if string(d.name(&kids[i])) == name {
			return &kids[i]
		}
	}
	return nil
}

// few is how many names are sooner compared one by one.
const few = 8

// given is get without members that are null, which say nothing.
func (d *document) given(n *node, name string) *node {
	if m := d.get(n, name); m != nil && m.kind != 'n' {
		return m
	}
	return nil
}

// str gives a member that is a string.
func (d *document) str(n *node, name string) (string, bool) {
	if m := d.get(n, name); m != nil && m.kind == '"' {
		return string(d.bytes(m)), true
	}
	return "", false
}

var errNotJSON = &fault{ReasonMalformedField, "not valid JSON"}

func (d *document) blanks() {
	for d.pos < d.end {
		switch d.buf[d.pos] {
		case ' ', '\n', '\r', '\t':
			d.pos++
		default:
			return
		}
	}
}

// next takes a byte after white space, 0 at the end.
func (d *document) next() byte {
	d.blanks()
	if d.pos == d.end {
		return 0
	}
	d.pos++
	return d.buf[d.pos-1]
}

// held is a value without a name, small enough for registers.
type held struct {
	kind  byte
	plain bool
	body  span
}

func (d *document) value(depth int) (held, error) {
	if d.pos == d.end {
		return held{}, errNotJSON
	}
	switch c := d.buf[d.pos]; c {
	case '"':
		d.pos++
		body, plain, err := d.text()
		return held{'"', plain, body}, err
	case '{', '[':
		if depth <= 0 {
			return held{}, &fault{ReasonTooDeep, "nested deeper than the limit"}
		}
		d.pos++
		if c == '{' {
			return d.object(depth - 1)
		}
		return d.array(depth - 1)
	case 'n':
		return d.word("null")
	case 't':
		return d.word("true")
	case 'f':
		return d.word("false")
	default:
		return d.number()
	}
}

func (d *document) word(w string) (held, error) {
	if d.end-d.pos < len(w) || string(d.buf[d.pos:d.pos+len(w)]) != w {
		return held{}, errNotJSON
	}
	d.pos += len(w)
	return held{kind: w[0]}, nil
}

func (d *document) array(depth int) (held, error) {
	mark := len(d.open)
	if d.blanks(); d.pos < d.end && d.buf[d.pos] == ']' {
		d.pos++
		return d.shut('[', mark), nil
	}
	for {
		d.blanks()
		v, err := d.value(depth)
		if err != nil {
			return held{}, err
		}
		d.open = append(d.open, node{kind: v.kind, plainBody: v.plain, body: v.body})
		switch d.next() {
		case ',':
		case ']':
			return d.shut('[', mark), nil
		default:
			return held{}, errNotJSON
		}
	}
}

func (d *document) object(depth int) (held, error) {
	mark := len(d.open)
	if d.blanks(); d.pos < d.end && d.buf[d.pos] == '}' {
		d.pos++
		return d.shut('{', mark), nil
	}
	for {
		if d.next() != '"' {
			return held{}, errNotJSON
		}
		name, plain, err := d.text()
		if err != nil {
			return held{}, err
		}
		if d.next() != ':' {
			return held{}, errNotJSON
		}
		d.blanks()
		v, err := d.value(depth)
		if err != nil {
			return held{}, err
		}
		d.open = append(d.open, node{kind: v.kind, plainName: plain, plainBody: v.plain, name: name, body: v.body})
		switch d.next() {
		case ',':
		case '}':
			if err := d.order(d.open[mark:]); err != nil {
				return held{}, err
			}
			return d.shut('{', mark), nil
		default:
			return held{}, errNotJSON
		}
	}
}

// shut moves the children of a container to their place.
func (d *document) shut(kind byte, mark int) held {
	from := len(d.nodes)
	d.nodes = append(d.nodes, d.open[mark:]...)
	d.open = d.open[:mark]
	return held{kind: kind, body: span{uint32(from), uint32(len(d.nodes))}}
}

// order sorts members by name and finds names that stand twice.
func (d *document) order(members []node) error {
	compare := func(a, b int) int { return d.compareNames(&members[a], &members[b]) }
	sorted := true
	for i := 1; i < len(members) && sorted; i++ {
		sorted = compare(i-1, i) < 0
	}
	switch {
	case sorted:
		return nil
	case len(members) <= few:
		for i := 1; i < len(members); i++ {
			for j := i; j > 0 && compare(j-1, j) > 0; j-- {
				members[j-1], members[j] = members[j], members[j-1]
			}
		}
	default:
		slices.SortFunc(members, func(a, b node) int { return d.compareNames(&a, &b) })
	}
	for i := 1; i < len(members); i++ {
		if compare(i-1, i) == 0 {
			return &fault{ReasonAmbiguousKeys, "the key " + quote(string(d.name(&members[i]))) + " stands twice in one object"}
		}
	}
	return nil
}

// compareNames orders members by code points; most names differ in the first.
func (d *document) compareNames(a, b *node) int {
	x, y := d.name(a), d.name(b)
	if len(x) > 0 && len(y) > 0 && x[0] != y[0] {
		return int(x[0]) - int(y[0])
	}
	return bytes.Compare(x, y)
}

// plain are the bytes that stand for themselves in a string.
var plain = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// text reads a string after its opening quote, and says whether it was written
// without escapes. What it holds is never longer than how it was written, so it
// is decoded in place.
func (d *document) text() (body span, unescaped bool, err error) {
	from := d.pos
	buf, r := d.buf[:d.end], d.pos
	r += plainWords(buf[r:])
	for r < len(buf) && plain[buf[r]] {
		r++
	}
	w := r
	unescaped = true
	for r < len(buf) {
		switch c := buf[r]; {
		case c == '"':
			d.pos = r + 1
			return span{uint32(from), uint32(w)}, unescaped, nil
		case c == '\\':
			char, size, err := escaped(buf[r:])
			if err != nil {
				return span{}, false, err
			}
			unescaped = false
			w = len(utf8.AppendRune(buf[:w], char))
			r += size
			n := plainWords(buf[r:])
			copy(buf[w:], buf[r:r+n])
			w, r = w+n, r+n
		case c < utf8.RuneSelf:
			if !plain[c] {
				return span{}, false, errNotJSON
			}
			buf[w] = c
			w, r = w+1, r+1
		default:
			_, size := utf8.DecodeRune(buf[r:])
			if size == 1 {
				return span{}, false, &fault{ReasonMalformedField, "not valid UTF-8"}
			}
			w += copy(buf[w:], buf[r:r+size])
			r += size
		}
	}
	return span{}, false, errNotJSON
}

// plainWords counts the bytes of s at its beginning that are plain, in words of
// eight: there may be up to seven more, or after a special byte that it saw in
// the wrong place, since a borrow runs on.
func plainWords[T ~string | ~[]byte](s T) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	rest := s // at fixed places of which the compiler makes one load of eight
	for ; len(rest) >= 8; rest = rest[8:] {
		w := uint64(rest[0]) | uint64(rest[1])<<8 | uint64(rest[2])<<16 | uint64(rest[3])<<24 |
			uint64(rest[4])<<32 | uint64(rest[5])<<40 | uint64(rest[6])<<48 | uint64(rest[7])<<56
		// In each of its bytes: beyond ASCII, a control character, a quote, a backslash.
		if (w|(w-' '*ones)|((w^'"'*ones)-ones)|((w^'\\'*ones)-ones))&tops != 0 {
			break
		}
	}
	return len(s) - len(rest)
}

// escaped decodes the escape at the beginning of s and gives how long it is.
func escaped(s []byte) (char rune, size int, err error) {
	if len(s) < 2 {
		return 0, 0, errNotJSON
	}
	switch s[1] {
	case '"', '\\', '/':
		return rune(s[1]), 2, nil
	case 'b':
		return '\b', 2, nil
	case 'f':
		return '\f', 2, nil
	case 'n':
		return '\n', 2, nil
	case 'r':
		return '\r', 2, nil
	case 't':
		return '\t', 2, nil
	case 'u':
		r, ok := hex4(s[2:])
		switch {
		case !ok:
			return 0, 0, errNotJSON
		case r == 0:
			return 0, 0, &fault{ReasonMalformedField, "a string holds NUL"}
		case !utf16.IsSurrogate(r):
			return r, 6, nil
		}
		if len(s) >= 12 && s[6] == '\\' && s[7] == 'u' {
			if low, ok := hex4(s[8:]); ok {
				if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
					return pair, 12, nil
				}
			}
		}
		return 0, 0, &fault{ReasonMalformedField, "a string holds half a surrogate pair"}
	}
	return 0, 0, errNotJSON
}

func hex4(s []byte) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range s[:4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// number reads a number and checks its bounds; it stays as it was sent.
func (d *document) number() (held, error) {
	from := d.pos
	if d.buf[d.pos] == '-' {
		d.pos++
	}
	whole := d.pos
	if d.digits() == 0 || d.buf[whole] == '0' && d.pos > whole+1 {
		return held{}, errNotJSON
	}
	integer := d.pos
	if d.pos < d.end && d.buf[d.pos] == '.' {
		d.pos++
		if d.digits() == 0 {
			return held{}, errNotJSON
		}
	}
	if d.pos < d.end && d.buf[d.pos]|0x20 == 'e' {
		d.pos++
		if d.pos < d.end && (d.buf[d.pos] == '+' || d.buf[d.pos] == '-') {
			d.pos++
		}
		if d.digits() == 0 {
			return held{}, errNotJSON
		}
	}
	number := held{kind: '0', body: span{uint32(from), uint32(d.pos)}}
	if d.pos == integer && d.pos-from <= maxExponent {
		return number, nil // not even its zeros could be too many
	}
	var err error
	d.scratch, err = appendNumber(d.scratch[:0], d.buf[from:d.pos])
	return number, err
}

func (d *document) digits() int {
	from := d.pos
	for d.pos < d.end && d.buf[d.pos] >= '0' && d.buf[d.pos] <= '9' {
		d.pos++
	}
	return d.pos - from
}
