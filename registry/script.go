package registry

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// twins are letters of other scripts that look like one of ASCII in most fonts,
// a part of what Unicode's confusables (UTS #39) list.
var twins = map[rune]rune{
	// Cyrillic
	'а': 'a', 'е': 'e', 'о': 'o', 'р': 'p', 'с': 'c', 'у': 'y', 'х': 'x', 'і': 'i', 'ј': 'j', 'ѕ': 's', 'ԁ': 'd', 'һ': 'h', 'ԛ': 'q', 'ԝ': 'w', 'ӏ': 'l', 'ɡ': 'g',
	'А': 'A', 'В': 'B', 'Е': 'E', 'К': 'K', 'М': 'M', 'Н': 'H', 'О': 'O', 'Р': 'P', 'С': 'C', 'Т': 'T', 'Х': 'X', 'І': 'I', 'Ј': 'J', 'Ѕ': 'S', 'У': 'Y',
	// Greek
	'ο': 'o', 'α': 'a', 'ν': 'v', 'ρ': 'p', 'ι': 'i', 'κ': 'k', 'υ': 'u', 'γ': 'y', 'ϲ': 'c', 'ϳ': 'j',
	'Α': 'A', 'Β': 'B', 'Ε': 'E', 'Ζ': 'Z', 'Η': 'H', 'Ι': 'I', 'Κ': 'K', 'Μ': 'M', 'Ν': 'N', 'Ο': 'O', 'Ρ': 'P', 'Τ': 'T', 'Υ': 'Y', 'Χ': 'X',
	// Armenian, Cherokee, Latin outside of ASCII
	'օ': 'o', 'ս': 'u', 'հ': 'h', 'ո': 'n', 'ց': 'g', 'զ': 'q', 'Ꭺ': 'A', 'Ꭼ': 'E', 'Ꮃ': 'W', 'Ꭲ': 'T', 'ı': 'i', 'ȷ': 'j', 'ℓ': 'l',
}

// ascii gives the letter of ASCII that a character looks like, or the character.
func ascii(r rune) rune {
	if r < utf8.RuneSelf {
		return r
	}
	if t, ok := twins[r]; ok {
		return t
	}
	switch {
	case r >= '！' && r <= '～': // full width
		return r - '！' + '!'
	case r >= 0x1D400 && r <= 0x1D6A3: // mathematical alphabets, 26 capitals and 26 small letters each
		if n := (r - 0x1D400) % 52; n < 26 {
			return 'A' + n
		} else { //nolint:revive // the two halves of one alphabet
			return 'a' + n - 26
		}
	case r >= 0x1D7CE && r <= 0x1D7FF: // mathematical digits
		return '0' + (r-0x1D7CE)%10
	}
	return r
}

// legible is a text as a reader takes it in: without what cannot be seen, look-
// alikes as what they look like, in lower case, with single spaces.
func legible(s string) string {
	var b strings.Builder
	space := false
	for _, r := range s {
		if r == utf8.RuneError {
			continue
		}
		if unicode.IsSpace(r) {
			space = b.Len() > 0
			continue
		}
		if r >= utf8.RuneSelf && invisible(r) {
			continue
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(unicode.ToLower(ascii(r)))
	}
	return b.String()
}

// scripts are those whose letters are taken for each other.
var scripts = map[string]*unicode.RangeTable{
	"Latin": unicode.Latin, "Cyrillic": unicode.Cyrillic, "Greek": unicode.Greek, "Armenian": unicode.Armenian, "Cherokee": unicode.Cherokee,
}

// mixedWord gives the first word that has letters of ASCII and letters of other
// scripts that look like such, with their code points. A unit or formula (µs, Δx)
// is none: its letters look like themselves.
func mixedWord(s string) string {
	if plainASCII(s) {
		return ""
	}
	for word := range strings.FieldsFuncSeq(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) }) {
		latin, others := false, []string(nil)
		for _, r := range word {
			switch _, twin := twins[r]; {
			case r < utf8.RuneSelf:
				latin = true
			case twin && !unicode.Is(unicode.Latin, r):
				others = append(others, fmt.Sprintf("%c is %U (%s)", r, r, scriptOf(r)))
			}
		}
		if latin && len(others) > 0 {
			return shorten(word, 80) + ": " + strings.Join(others[:min(len(others), 8)], ", ")
		}
	}
	return ""
}

// disguised gives what a name looks like that has no letter of ASCII and looks
// as if all were, "" for other names.
func disguised(name string) string {
	letters := 0
	looks := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) {
			if letters++; r < utf8.RuneSelf || ascii(r) == r {
				letters = -len(name)
			}
		}
		return ascii(r)
	}, name)
	if letters <= 0 {
		return ""
	}
	return looks
}

func scriptOf(r rune) string {
	for name, table := range scripts {
		if unicode.Is(table, r) {
			return name
		}
	}
	return "another script"
}
