package registry

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Bounds of a number in canonical form (design.md §5): beyond them the tool is
// at fault, in constant time, because a number is never expanded.
const (
	maxDigits   = 1000
	maxExponent = 400
)

// value is one decoded JSON value: nil, bool, string, number, []value or
// object. It loses nothing that has a meaning.
type value any

// number is a JSON number in canonical form.
type number string

// member is one name and value of an object.
type member struct {
	name  string
	value value
}

// object is a JSON object with its names in code point order, each once.
type object []member

func (o object) get(name string) (value, bool) {
	i, found := slices.BinarySearchFunc(o, name, func(m member, n string) int { return cmp.Compare(m.name, n) })
	if !found {
		return nil, false
	}
	return o[i].value, true
}

// fault is what is wrong with the bytes of one item.
type fault struct {
	reason Reason
	detail string
}

func (f *fault) Error() string { return string(f.reason) + ": " + f.detail }

// parse decodes one item strictly, see [document.decode]. Where only digests are
// asked for, a document alone is faster. The error is a *fault.
func parse(raw []byte, depth int) (value, error) {
	var d document
	if err := d.decode(raw, depth); err != nil {
		return nil, err
	}
	return d.tree(d.top()), nil
}

// tree makes the Go value of a node.
func (d *document) tree(n *node) value {
	switch n.kind {
	case 'n':
		return nil
	case 't', 'f':
		return n.kind == 't'
	case '"':
		return string(d.bytes(n))
	case '[':
		list := make([]value, 0, n.body.to-n.body.from)
		for i := range d.kids(n) {
			list = append(list, d.tree(&d.kids(n)[i]))
		}
		return list
	case '{':
		o := make(object, 0, n.body.to-n.body.from)
		for i := range d.kids(n) {
			m := &d.kids(n)[i]
			o = append(o, member{string(d.name(m)), d.tree(m)})
		}
		return o
	}
	b, err := appendNumber(nil, d.bytes(n))
	if err != nil {
		panic("registry: decode let a number out of bounds pass")
	}
	return number(b)
}

// appendNumber writes a number as sign, digits without trailing zeros and
// exponent: 1, 1.0 and 1e0 are one number, -0 is 0. It is never expanded. The
// error is a *fault: more than 1,000 digits, or an exponent beyond ±400.
func appendNumber(dst, s []byte) ([]byte, error) {
	rest, negative := bytes.CutPrefix(s, []byte{'-'})
	mantissa, exponent := rest, 0
	if i := bytes.IndexAny(rest, "eE"); i >= 0 {
		mantissa = rest[:i]
		e, err := strconv.Atoi(string(rest[i+1:]))
		if err != nil || e > 1<<20 || e < -(1<<20) {
			return dst, &fault{ReasonMalformedField, "a number's exponent is out of bounds"}
		}
		exponent = e
	}
	whole, fraction, _ := bytes.Cut(mantissa, []byte{'.'})
	if len(whole)+len(fraction) > maxDigits {
		return dst, &fault{ReasonMalformedField, "a number has too many digits"}
	}
	exponent -= len(fraction)
	mark := len(dst)
	if negative {
		dst = append(dst, '-')
	}
	from := len(dst)
	dst = append(append(dst, whole...), fraction...)
	digits := bytes.TrimLeft(dst[from:], "0")
	kept := bytes.TrimRight(digits, "0")
	exponent += len(digits) - len(kept)
	if len(kept) == 0 {
		return append(dst[:mark], '0'), nil
	}
	if exponent > maxExponent || exponent < -maxExponent {
		return dst[:mark], &fault{ReasonMalformedField, "a number's exponent is out of bounds"}
	}
	dst = dst[:from+copy(dst[from:], kept)]
	if exponent != 0 {
		dst = strconv.AppendInt(append(dst, 'e'), int64(exponent), 10)
	}
	return dst, nil
}

// appendCanonical writes a value in canonical form.
func appendCanonical(dst []byte, v value) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case string:
		return appendString(dst, v)
	case number:
		return append(dst, v...)
	case []value:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendCanonical(dst, e)
		}
		return append(dst, ']')
	case object:
		dst = append(dst, '{')
		for i, m := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendString(dst, m.name), ':')
			dst = appendCanonical(dst, m.value)
		}
		return append(dst, '}')
	}
	panic("registry: a value that parse cannot make")
}

// appendNode is appendCanonical for a node of a document.
func (d *document) appendNode(dst []byte, n *node) []byte {
	switch n.kind {
	case 'n':
		return append(dst, "null"...)
	case 't':
		return append(dst, "true"...)
	case 'f':
		return append(dst, "false"...)
	case '"':
		return appendWritten(dst, d.bytes(n), n.plainBody)
	case '[':
		dst = append(dst, '[')
		for i := range d.kids(n) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = d.appendNode(dst, &d.kids(n)[i])
		}
		return append(dst, ']')
	case '{':
		dst = append(dst, '{')
		for i := range d.kids(n) {
			m := &d.kids(n)[i]
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = d.appendName(dst, m)
			dst = d.appendNode(dst, m)
		}
		return append(dst, '}')
	}
	dst, err := appendNumber(dst, d.bytes(n))
	if err != nil {
		panic("registry: decode let a number out of bounds pass")
	}
	return dst
}

// appendName writes a member's name and the colon after it.
func (d *document) appendName(dst []byte, m *node) []byte {
	return append(appendWritten(dst, d.name(m), m.plainName), ':')
}

// appendWritten is appendString for what may be known to need no escape.
func appendWritten(dst, s []byte, plain bool) []byte {
	if !plain {
		return appendString(dst, s)
	}
	return append(append(append(dst, '"'), s...), '"')
}

// appendString writes valid UTF-8 as a JSON string, with no more escapes than
// JSON demands.
func appendString[T ~string | ~[]byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	from := 0
	for i := plainWords(s); i < len(s); i++ {
		c := s[i]
		if c >= utf8.RuneSelf || plain[c] {
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i += plainWords(s[from:])
	}
	return append(append(dst, s[from:]...), '"')
}

const hexDigits = "0123456789abcdef"

func digestValue(v value) string { return digestBytes(appendCanonical(nil, v)) }

func digestBytes(b []byte) string {
	var text [digestSize]byte
	return string(appendDigest(text[:0], b))
}

// nothing is the digest of an empty object: of the text of what says nothing.
var nothing = digestBytes([]byte("{}"))

// digestsOf makes two digests, often in the memory of one.
func digestsOf(a, b []byte) (ofA, ofB string) {
	if string(b) == "{}" {
		return digestBytes(a), nothing
	}
	var text [2 * digestSize]byte
	all := string(appendDigest(appendDigest(text[:0], a), b))
	return all[:digestSize], all[digestSize:]
}

const (
	digestPrefix = "sha256:"
	digestSize   = len(digestPrefix) + 2*sha256.Size
)

func appendDigest(dst, b []byte) []byte {
	sum := sha256.Sum256(b)
	return hex.AppendEncode(append(dst, digestPrefix...), sum[:])
}

// digestJSON is the digest of one of our own values, whose encoding is fixed by
// its struct.
func digestJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("registry: " + err.Error()) // only strings, numbers and slices come here
	}
	return digestBytes(b)
}

// BodyHash is the digest of a request's bytes, for idempotency keys.
func BodyHash(b []byte) string { return digestBytes(b) }
