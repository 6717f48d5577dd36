package registry

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxShown bounds before and after of one change, in bytes.
const maxShown = 1000

// shownBefore is how much of what two long texts have in common is shown before
// the first difference.
const shownBefore = 80

// shown gives a value as JSON for people: numbers as they are commonly written,
// and not longer than the bound.
func shown(v value) json.RawMessage {
	if s, ok := v.(string); ok {
		return shownString(s)
	}
	out, whole := appendShown(nil, v, 4*maxShown)
	if whole && len(out) <= maxShown {
		return out
	}
	return appendString(nil, cutText(string(out), maxShown))
}

func shownString(s string) json.RawMessage { return appendString(nil, cutText(s, maxShown)) }

// shownChange gives both sides of a change; a side that is missing is null.
func shownChange(p two) (before, after json.RawMessage) {
	a, okA := p.a.(string)
	b, okB := p.b.(string)
	if okA && okB {
		return shownPair(a, b)
	}
	if p.inA {
		before = shown(p.a)
	}
	if p.inB {
		after = shown(p.b)
	}
	return before, after
}

// shownPair gives two texts; of long ones the part around the first difference.
func shownPair(a, b string) (before, after json.RawMessage) {
	if len(a) > maxShown || len(b) > maxShown {
		n := 0
		for n < len(a) && n < len(b) && a[n] == b[n] {
			n++
		}
		if n -= shownBefore; n > 0 {
			a, b = "…"+fromRune(a, n), "…"+fromRune(b, n)
		}
	}
	return shownString(a), shownString(b)
}

// fromRune gives the text from a byte on, or from the next character on when
// the byte is inside of one.
func fromRune(s string, n int) string {
	for n < len(s) && !utf8.RuneStart(s[n]) {
		n++
	}
	return s[n:]
}

// cutText shortens a text to a number of bytes.
func cutText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}

// appendShown writes JSON until there is enough of it, and says whether it is
// whole.
func appendShown(dst []byte, v value, most int) ([]byte, bool) {
	if len(dst) > most {
		return dst, false
	}
	var whole bool
	switch v := v.(type) {
	case string:
		return appendString(dst, v), true
	case number:
		return appendPlainNumber(dst, v), true
	case []value:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, whole = appendShown(dst, e, most); !whole {
				return dst, false
			}
		}
		return append(dst, ']'), true
	case object:
		dst = append(dst, '{')
		for i, m := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendString(dst, m.name), ':')
			if dst, whole = appendShown(dst, m.value, most); !whole {
				return dst, false
			}
		}
		return append(dst, '}'), true
	}
	return appendCanonical(dst, v), true
}

// appendPlainNumber writes a number without exponent where that is short.
func appendPlainNumber(dst []byte, n number) []byte {
	negative, digits, exponent := decimal(n)
	if len(digits) > 40 || exponent > 21 || exponent < -21 {
		return append(dst, n...)
	}
	if negative {
		dst = append(dst, '-')
	}
	if exponent >= 0 {
		return append(append(dst, digits...), strings.Repeat("0", exponent)...)
	}
	if missing := 1 - exponent - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	point := len(digits) + exponent
	return append(append(append(dst, digits[:point]...), '.'), digits[point:]...)
}

// decimal takes a number apart: its value is digits × 10^exponent.
func decimal(n number) (negative bool, digits string, exponent int) {
	rest, negative := strings.CutPrefix(string(n), "-")
	digits, e, _ := strings.Cut(rest, "e")
	exponent, _ = strconv.Atoi(e) // none is 0
	return negative, digits, exponent
}

// compareDecimals compares two numbers without expanding them.
func compareDecimals(a, b number) int {
	negA, digitsA, expA := decimal(a)
	negB, digitsB, expB := decimal(b)
	sign := func(negative bool, digits string) int {
		switch {
		case digits == "0":
			return 0
		case negative:
			return -1
		}
		return 1
	}
	signA, signB := sign(negA, digitsA), sign(negB, digitsB)
	if signA != signB || signA == 0 {
		return signA - signB
	}
	order := (len(digitsA) + expA) - (len(digitsB) + expB) // of magnitude
	if order == 0 {
		order = strings.Compare(digitsA, digitsB) // no trailing zeros, so a prefix is the smaller one
	}
	return order * signA
}
