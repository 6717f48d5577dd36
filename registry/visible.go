package registry

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// invisible says whether a character hides, reorders or imitates white space:
// controls, bidirectional and zero-width marks, tags, variation selectors,
// fillers, unassigned and private characters, and every space but the common
// one.
func invisible(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' || r == 0x7f
	}
	return !unicode.IsPrint(r) || r == '\u2800' ||
		unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// unseen is invisible but for line ends and tabs, which text may have.
func unseen(r rune) bool { return r != '\n' && r != '\t' && invisible(r) }

// Visible makes text of strangers fit for the eyes of a reviewer: what is
// invisible, reorders text or imitates a space shows as ⟨U+200B⟩, bytes that are
// no UTF-8 as ⟨0xFF⟩. Line feeds and tabs stay; nothing is left out. A text that
// already holds such a mark has its bracket shown as ⟨U+27E8⟩, so that no mark
// can be forged.
func Visible(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r == '⟨' || unseen(r) }) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		rest := s[size:]
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, "⟨0x%02X⟩", s[0])
		case unseen(r), r == '⟨' && (strings.HasPrefix(rest, "U+") || strings.HasPrefix(rest, "0x")):
			fmt.Fprintf(&b, "⟨%U⟩", r)
		default:
			b.WriteRune(r)
		}
		s = rest
	}
	return b.String()
}

// maxDetail bounds what is said about one fault, in bytes.
const maxDetail = 400

// shorten cuts a text at a character so that it has at most n bytes, and marks
// that something is missing.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// quote shows a short text of strangers in quotation marks.
func quote(s string) string { return `"` + Visible(shorten(s, 80)) + `"` }
