package registry

import (
	"bytes"
	"strings"
)

const blank = " \t\r"

// isTidy says whether a text has nothing in it that [appendTidy] would drop.
func isTidy(s []byte) bool {
	for from := 0; ; {
		i := bytes.IndexByte(s[from:], '\n')
		if i < 0 {
			break
		}
		if at := from + i; at > 0 && strings.IndexByte(blank, s[at-1]) >= 0 {
			return false
		}
		from += i + 1
	}
	return !endsBlank(s)
}

func endsBlank(s []byte) bool {
	return len(s) > 0 && strings.IndexByte(blank+"\n", s[len(s)-1]) >= 0
}

// appendTidy writes a text without what is noise to a reader: blanks at the end
// of a line, the style of line ends, empty lines at the end.
func appendTidy(dst, s []byte) []byte {
	from := len(dst)
	for line := range bytes.SplitSeq(s, []byte{'\n'}) {
		dst = append(append(dst, bytes.TrimRight(line, blank)...), '\n')
	}
	return dst[:from+len(bytes.TrimRight(dst[from:], "\n"))]
}

// tidy is appendTidy for one string.
func tidy(s string) string { return string(appendTidy(nil, []byte(s))) }

// TextDigest is the digest of a server's instructions, of which the style of
// line ends and trailing blanks do not count.
func TextDigest(s string) string {
	if s == "" {
		return noText
	}
	return digestValue(tidy(strings.ToValidUTF8(s, "\uFFFD")))
}

// noText is the digest of what most servers have to say.
var noText = digestValue("")
