package registry

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
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

// parse decodes one item strictly: no duplicate names, valid Unicode, no NUL,
// bounded depth and numbers.
func parse(raw []byte, depth int) (value, error) {
	d := jsontext.NewDecoder(bytes.NewReader(raw))
	v, err := parseValue(d, depth)
	if err != nil {
		return nil, asFault(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, &fault{ReasonMalformedField, "bytes after the end of the value"}
	}
	return v, nil
}

func asFault(err error) error {
	if f, ok := errors.AsType[*fault](err); ok {
		return f
	}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return &fault{ReasonAmbiguousKeys, "a key stands twice in one object"}
	}
	return &fault{ReasonMalformedField, "not valid JSON"}
}

func parseValue(d *jsontext.Decoder, depth int) (value, error) {
	token, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case 'n':
		return nil, nil
	case 't', 'f':
		return token.Bool(), nil
	case '"':
		return checkString(token.String())
	case '0':
		return canonicalNumber(token.String())
	default: // '[' or '{': the reader gives an end only where one is due
		if depth == 0 {
			return nil, &fault{ReasonTooDeep, "nested deeper than the limit"}
		}
		if token.Kind() == '[' {
			return parseArray(d, depth-1)
		}
		return parseObject(d, depth-1)
	}
}

func parseArray(d *jsontext.Decoder, depth int) (value, error) {
	list := []value{}
	for d.PeekKind() != ']' {
		v, err := parseValue(d, depth)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := d.ReadToken()
	return list, err
}

func parseObject(d *jsontext.Decoder, depth int) (value, error) {
	o := object{}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		key, err := checkString(name.String())
		if err != nil {
			return nil, err
		}
		v, err := parseValue(d, depth)
		if err != nil {
			return nil, err
		}
		o = append(o, member{key, v})
	}
	slices.SortFunc(o, func(a, b member) int { return cmp.Compare(a.name, b.name) })
	_, err := d.ReadToken()
	return o, err
}

func checkString(s string) (string, error) {
	if strings.ContainsRune(s, 0) {
		return "", &fault{ReasonMalformedField, "a string holds NUL"}
	}
	return s, nil
}

// canonicalNumber gives a number as sign, digits without trailing zeros and
// exponent: 1, 1.0 and 1e0 are one number, -0 is 0.
func canonicalNumber(s string) (number, error) {
	rest, negative := strings.CutPrefix(s, "-")
	mantissa, exponent := rest, 0
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		mantissa = rest[:i]
		e, err := strconv.Atoi(rest[i+1:])
		if err != nil || e > 1<<20 || e < -(1<<20) {
			return "", &fault{ReasonMalformedField, "a number's exponent is out of bounds"}
		}
		exponent = e
	}
	if len(mantissa) > maxDigits {
		return "", &fault{ReasonMalformedField, "a number has too many digits"}
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	exponent -= len(fraction)
	trimmed := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(trimmed)
	if trimmed == "" {
		return "0", nil
	}
	if exponent > maxExponent || exponent < -maxExponent {
		return "", &fault{ReasonMalformedField, "a number's exponent is out of bounds"}
	}
	out := trimmed
	if exponent != 0 {
		out += "e" + strconv.Itoa(exponent)
	}
	if negative {
		out = "-" + out
	}
	return number(out), nil
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

func appendString(dst []byte, s string) []byte {
	// The error is for invalid UTF-8 only, which parse has refused; callers that
	// bring strings of their own get the replacement character.
	out, err := jsontext.AppendQuote(dst, strings.ToValidUTF8(s, "\uFFFD"))
	if err != nil {
		return append(dst, `""`...)
	}
	return out
}

func digestValue(v value) string { return digestBytes(appendCanonical(nil, v)) }

func digestBytes(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
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
