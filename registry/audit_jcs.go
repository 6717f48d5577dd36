package registry

import (
	"strconv"
	"strings"
)

// canonicalObject writes an object of texts and integers in the form of RFC
// 8785. Whoever uses it writes the keys in their order.
type canonicalObject struct{ dst []byte }

func (o *canonicalObject) key(name string) {
	if o.dst[len(o.dst)-1] != '{' {
		o.dst = append(o.dst, ',')
	}
	o.dst = append(appendJCS(o.dst, name), ':')
}

func (o *canonicalObject) text(name, value string) {
	o.key(name)
	o.dst = appendJCS(o.dst, value)
}

// number writes an integer; below 2^53 that is what RFC 8785 writes.
func (o *canonicalObject) number(name string, value int64) {
	o.key(name)
	o.dst = strconv.AppendInt(o.dst, value, 10)
}

// appendJCS writes a text as RFC 8785, section 3.2.2.2, does: the short escapes
// where JSON has one, \u00xx for the other control characters, and all else as
// it is. What is no UTF-8 becomes U+FFFD.
func appendJCS(dst []byte, s string) []byte {
	s = strings.ToValidUTF8(s, "\uFFFD")
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, `\b`...)
		case '\t':
			dst = append(dst, `\t`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\f':
			dst = append(dst, `\f`...)
		case '\r':
			dst = append(dst, `\r`...)
		default:
			if c < ' ' {
				dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			} else {
				dst = append(dst, c)
			}
		}
	}
	return append(dst, '"')
}
