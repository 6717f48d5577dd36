package secrets

import (
	"unicode/utf16"
	"unicode/utf8"
)

// notation is a way to read a text: which escapes stand for other bytes. What is
// no escape stands for itself, so every text can be read in every notation.
type notation uint8

const (
	escapes  notation = 1 << iota // \n, \", \/, \u00e9, \x1b: JSON and Go
	percents                      // %2F: URLs
	pluses                        // "+" is a space: queries of URLs
)

const (
	// widest is how many bytes an escape takes for one byte: \u001b.
	widest = 6
	// longestEscape is how many bytes one escape takes: a surrogate pair.
	longestEscape = 12
)

// kinds says which notations read a byte as something else.
var kinds = [256]notation{'\\': escapes, '%': percents, '+': pluses}

// special says whether a byte means something else in any notation.
func special(b byte) bool { return kinds[b] != 0 }

// unit is the first thing in a text: size bytes, that are written in width bytes.
type unit struct {
	bytes       [utf8.UTFMax]byte
	size, width int
}

// first reads the first thing in a text, which is not empty.
func first[T ~string | ~[]byte](n notation, text T) unit {
	switch b := text[0]; {
	case b == '\\' && n&escapes != 0:
		if u, ok := escape(text); ok {
			return u
		}
	case b == '%' && n&percents != 0:
		if v, ok := hexadecimal(text, 1, 2); ok {
			return one(byte(v), 3)
		}
	case b == '+' && n&pluses != 0:
		return one(' ', 1)
	}
	return one(text[0], 1)
}

func one(b byte, width int) unit { return unit{[utf8.UTFMax]byte{b}, 1, width} }

// simple are the escapes of two characters.
var simple = [256]byte{
	'"': '"', '\'': '\'', '\\': '\\', '/': '/',
	'a': '\a', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v',
}

// escape reads a text that begins with a backslash; false when that is no escape.
func escape[T ~string | ~[]byte](text T) (unit, bool) {
	if len(text) < 2 {
		return unit{}, false
	}
	switch text[1] {
	case 'x':
		v, ok := hexadecimal(text, 2, 2)
		return one(byte(v), 4), ok
	case 'u':
		v, ok := hexadecimal(text, 2, 4)
		width := 6
		if utf16.IsSurrogate(v) {
			width = longestEscape
			ok = len(text) >= width && text[6] == '\\' && text[7] == 'u'
			if ok {
				low, _ := hexadecimal(text, 8, 4)
				v = utf16.DecodeRune(v, low)
				ok = v != utf8.RuneError
			}
		}
		u := unit{width: width}
		u.size = utf8.EncodeRune(u.bytes[:], v)
		return u, ok
	}
	b := simple[text[1]]
	return one(b, 2), b != 0
}

// hexadecimal reads digits from a place of a text on.
func hexadecimal[T ~string | ~[]byte](text T, at, digits int) (rune, bool) {
	if len(text) < at+digits {
		return 0, false
	}
	v := rune(0)
	for i := at; i < at+digits; i++ {
		switch b := text[i]; {
		case b >= '0' && b <= '9':
			v = v<<4 | rune(b-'0')
		case b >= 'a' && b <= 'f':
			v = v<<4 | rune(b-'a'+10)
		case b >= 'A' && b <= 'F':
			v = v<<4 | rune(b-'A'+10)
		default:
			return 0, false
		}
	}
	return v, true
}

// window gives the first 4 bytes that a text stands for, false when it is shorter,
// and which escapes were used.
func window[T ~string | ~[]byte](n notation, text T) (key uint32, used notation, ok bool) {
	at := 0
	for size := 0; size < 4; {
		if at == len(text) {
			return 0, used, false
		}
		if b := text[at]; !special(b) {
			key = key<<8 | uint32(b)
			at++
			size++
			continue
		}
		u := first(n, text[at:])
		if u.width > 1 || u.bytes[0] != text[at] {
			used |= kinds[text[at]]
		}
		at += u.width
		for i := 0; i < u.size && size < 4; i++ {
			key = key<<8 | uint32(u.bytes[i])
			size++
		}
	}
	return key, used, true
}

// match says in how many bytes a text begins with a pattern; 0 when it does not.
func match[T ~string | ~[]byte](n notation, text T, pattern string) int {
	at := 0
	for done := 0; done < len(pattern); {
		if at == len(text) {
			return 0
		}
		if b := text[at]; !special(b) {
			if b != pattern[done] {
				return 0
			}
			at++
			done++
			continue
		}
		u := first(n, text[at:])
		at += u.width
		for i := range u.size {
			// A character may be longer than the end of a pattern that ends in it.
			if done < len(pattern) && u.bytes[i] != pattern[done] {
				return 0
			}
			done++
		}
	}
	return at
}

// whole gives the bounds of the escape with a backslash in whose middle a place
// is, or else the place itself.
func whole[T ~string | ~[]byte](text T, place int) (from, to int) {
	for from := place - 1; from >= max(0, place-longestEscape+1); from-- {
		if text[from] != '\\' || !introduces(text, from) {
			continue
		}
		if to := from + first(escapes, text[from:]).width; to > place {
			return from, to
		}
	}
	return place, place
}

// introduces says whether a backslash is not itself the second one of an escape.
func introduces[T ~string | ~[]byte](text T, at int) bool {
	before := 0
	for before < at && text[at-1-before] == '\\' {
		before++
	}
	return before%2 == 0
}
