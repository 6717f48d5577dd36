package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// deceives says whether a character moves the cursor, hides or reorders text,
// or shows as nothing: controls, bidirectional and zero-width marks, tags,
// variation selectors, fillers, unassigned and private characters, and every
// space but the common one.
func deceives(r rune) bool {
	return !unicode.IsPrint(r) || r == '\u2800' ||
		unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// hides says whether a text holds what deceives, other than line ends and tabs.
func hides(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && r != '\r' && r != '\t' && deceives(r) })
}

// printable makes text of strangers fit for a terminal: one line in which
// everything that deceives is shown as an escape and nothing is left out.
// Printing the result again changes nothing.
func printable(text string) string {
	clean := true
	for _, r := range text {
		if r == utf8.RuneError || deceives(r) {
			clean = false
			break
		}
	}
	if clean {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case !deceives(r):
			b.WriteRune(r)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		text = text[size:]
	}
	return b.String()
}

// escapeInQuotes replaces what deceives in a document by escapes that mean the
// same there. Such characters may stand in quoted strings only; line ends
// outside of them are kept.
func escapeInQuotes(document string, escape func(rune) string) string {
	var b strings.Builder
	for _, r := range document {
		if r == '\n' || !deceives(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(escape(r))
		}
	}
	return b.String()
}
