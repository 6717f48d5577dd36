package registry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// readable is one piece of what a person or a model reads.
type readable struct {
	path string
	text string // as sent; JSON when it was no string
}

// textsOf gives all that is read of an item, sorted by path. Arguments of a
// prompt are named in it, not counted.
func textsOf(kind ItemKind, item object) []readable {
	out := appendFields(nil, item, "")
	switch kind {
	case KindTool:
		out = appendReadable(out, "/annotations/title", valueOf(membersOf(item, "annotations"), "title"))
		for _, name := range []string{"inputSchema", "outputSchema"} {
			out = appendTexts(out, valueOf(item, name), "/"+name)
		}
	case KindPrompt:
		for _, argument := range argumentsOf(item) {
			out = appendFields(out, argument.fields, "/arguments/"+pointer(argument.name))
		}
	default:
	}
	slices.SortFunc(out, func(a, b readable) int { return cmp.Compare(a.path, b.path) })
	return out
}

func appendFields(out []readable, o object, at string) []readable {
	for _, name := range []string{"description", "title"} {
		if text, ok := textOf(o, name); ok {
			out = appendReadable(out, at+"/"+name, text)
		}
	}
	return out
}

// appendReadable adds what is read, unless it is nothing.
func appendReadable(out []readable, path string, v value) []readable {
	text, ok := v.(string)
	switch {
	case v == nil, ok && tidy(text) == "":
		return out
	case !ok:
		text = string(appendCanonical(nil, v))
	}
	return append(out, readable{path, text})
}

// appendTexts collects the prose of a schema, at schema positions only.
func appendTexts(out []readable, v value, at string) []readable {
	o, _ := v.(object)
	for _, m := range o {
		if roleOf(m.name) == roleProse {
			out = appendReadable(out, at+"/"+pointer(m.name), m.value)
		}
	}
	below(o, at, func(_, here string, e value) { out = appendTexts(out, e, here) })
	return out
}

// compareTexts tells which texts differ. One that only stands elsewhere is told
// once.
func compareTexts(from, to []readable) []Change {
	var out []Change
	var gone, come []readable
	for len(from) > 0 || len(to) > 0 {
		switch {
		case len(to) == 0 || len(from) > 0 && from[0].path < to[0].path:
			gone, from = append(gone, from[0]), from[1:]
		case len(from) == 0 || to[0].path < from[0].path:
			come, to = append(come, to[0]), to[1:]
		default:
			out = append(out, compareText(to[0].path, from[0].text, to[0].text)...)
			from, to = from[1:], to[1:]
		}
	}
	places := map[string][]string{} // where a text stood that is gone from there
	for _, g := range gone {
		text := tidy(g.text)
		places[text] = append(places[text], g.path)
	}
	for _, c := range come {
		text := tidy(c.text)
		if was := places[text]; len(was) > 0 {
			places[text] = was[1:]
			out = append(out, Change{
				Path: c.path, Kind: ChangeTextMoved, Severity: SeverityText,
				Before: shownString(was[0]), After: shownString(c.path), part: partText,
			})
			continue
		}
		out = append(out, Change{Path: c.path, Kind: ChangeTextAdded, Severity: SeverityText, After: shownString(c.text), part: partText})
		out = append(out, textMarks(c.path, "", c.text)...)
	}
	for _, g := range gone {
		text := tidy(g.text)
		if left := places[text]; len(left) > 0 && left[0] == g.path {
			places[text] = left[1:]
			out = append(out, Change{Path: g.path, Kind: ChangeTextRemoved, Severity: SeverityText, Before: shownString(g.text), part: partText})
		}
	}
	return out
}

func compareText(path, before, after string) []Change {
	if before == after {
		return nil
	}
	a, b := shownPair(before, after)
	if tidy(before) == tidy(after) {
		return []Change{{Path: path, Kind: ChangeTextWhitespace, Severity: SeverityCosmetic, Before: a, After: b}}
	}
	change := Change{Path: path, Kind: ChangeText, Severity: SeverityText, Before: a, After: b, part: partText}
	return append([]Change{change}, textMarks(path, before, after)...)
}

// textMarks points out what the eye would miss in a new text: characters that
// show as nothing, and characters that look like others.
func textMarks(path, before, after string) []Change {
	var out []Change
	if hidden := hiddenIn(after); hidden != "" && hidden != hiddenIn(before) {
		out = append(out, Change{Path: path, Kind: ChangeInvisibleText, Severity: SeverityText, After: shownString(hidden), part: partText})
	}
	words := lookalikes(after)
	if len(words) > 0 && !slices.Equal(words, lookalikes(before)) || before != after && before != "" && skeleton(before) == skeleton(after) {
		out = append(out, Change{Path: path, Kind: ChangeLookalikeText, Severity: SeverityText, After: shownString(strings.Join(words, " ")), part: partText})
	}
	return out
}

// hiddenIn lists the characters of a text that cannot be seen, each by its
// number, in order of appearance.
func hiddenIn(s string) string {
	var out []string
	for _, r := range s {
		if unseen(r) && r != '\r' {
			if out = append(out, fmt.Sprintf("%U", r)); len(out) == 100 {
				return strings.Join(append(out, "…"), " ")
			}
		}
	}
	return strings.Join(out, " ")
}

// lookalike are letters of other scripts by the Latin ones that they look like:
// the common ones of Cyrillic, Greek and Armenian.
var lookalike = map[rune]rune{
	'а': 'a', 'в': 'b', 'с': 'c', 'ԁ': 'd', 'е': 'e', 'һ': 'h', 'і': 'i', 'ј': 'j', 'ӏ': 'l', 'о': 'o', 'р': 'p',
	'ԛ': 'q', 'ѕ': 's', 'ԝ': 'w', 'х': 'x', 'у': 'y', 'А': 'A', 'В': 'B', 'С': 'C', 'Е': 'E', 'Н': 'H', 'І': 'I',
	'Ј': 'J', 'К': 'K', 'М': 'M', 'О': 'O', 'Р': 'P', 'Ѕ': 'S', 'Т': 'T', 'Х': 'X', 'У': 'Y', 'α': 'a', 'ι': 'i',
	'κ': 'k', 'ν': 'v', 'ο': 'o', 'ρ': 'p', 'υ': 'u', 'Α': 'A', 'Β': 'B', 'Ε': 'E', 'Ζ': 'Z', 'Η': 'H', 'Ι': 'I',
	'Κ': 'K', 'Μ': 'M', 'Ν': 'N', 'Ο': 'O', 'Ρ': 'P', 'Τ': 'T', 'Υ': 'Y', 'Χ': 'X', 'օ': 'o', 'ս': 'u', 'ո': 'n',
}

// skeleton is what a text looks like.
func skeleton(s string) string {
	return strings.Map(func(r rune) rune {
		if latin, ok := lookalike[r]; ok {
			return latin
		}
		return r
	}, norm.NFKC.String(s))
}

// lookalikes lists the words of a text that mix Latin letters with such as look
// like them.
func lookalikes(s string) []string {
	var out []string
	for word := range strings.FieldsFuncSeq(s, func(r rune) bool { return !unicode.IsLetter(r) }) {
		latin := strings.ContainsFunc(word, func(r rune) bool { return unicode.Is(unicode.Latin, r) })
		if latin && strings.ContainsFunc(word, func(r rune) bool { return lookalike[r] != 0 }) {
			if out = append(out, cutText(word, 100)); len(out) == 20 {
				break
			}
		}
	}
	return out
}
