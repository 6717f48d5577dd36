package registry

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
)

const (
	// renamedFrom is the score from which a pair is shown.
	renamedFrom = 0.6
	// maxRenamePairs bounds how many pairs are looked at closely; beyond it only
	// those with equal contracts are.
	maxRenamePairs = 20_000
)

// likeness is what an item looks like, for finding it under another name.
type likeness struct {
	name     string
	words    []string
	contract string          // canonical, without the name
	features map[string]bool // what there is in its schemas
	text     map[string]bool // words of its description
}

// renames finds the pairs of removed and added items that probably are one. Each
// item is in one pair at most.
func renames(gone, come []Item) []Rename {
	if len(gone) == 0 || len(come) == 0 {
		return nil
	}
	from, to := likenesses(gone), likenesses(come)
	var pairs []Rename
	look := func(a, b *likeness) {
		if score := alikeness(a, b); score >= renamedFrom {
			pairs = append(pairs, Rename{a.name, b.name, math.Round(score*100) / 100, a.contract == b.contract})
		}
	}
	if len(from)*len(to) <= maxRenamePairs {
		for i := range from {
			for j := range to {
				look(&from[i], &to[j])
			}
		}
	} else {
		lookByContract(from, to, look)
	}
	pairs = append(pairs, onlyPlain(from, to)...)
	slices.SortStableFunc(pairs, func(a, b Rename) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	usedFrom, usedTo := map[string]bool{}, map[string]bool{}
	return slices.DeleteFunc(pairs, func(p Rename) bool {
		if usedFrom[p.From] || usedTo[p.To] {
			return true
		}
		usedFrom[p.From], usedTo[p.To] = true, true
		return false
	})
}

// lookByContract looks at pairs with equal contracts: of many in both lists, at
// those of about the same rank among them.
func lookByContract(from, to []likeness, look func(a, b *likeness)) {
	byContract := map[string][]*likeness{}
	for j := range to {
		byContract[to[j].contract] = append(byContract[to[j].contract], &to[j])
	}
	rank := map[string]int{}
	for i := range from {
		list, r := byContract[from[i].contract], rank[from[i].contract]
		rank[from[i].contract]++
		for _, b := range list[min(max(r-1, 0), len(list)):min(r+2, len(list))] {
			look(&from[i], b)
		}
	}
}

// onlyPlain pairs the only item that left with the only one that came whose
// contract is the same and says nothing, like that of a tool without parameters.
func onlyPlain(from, to []likeness) []Rename {
	lone := func(list []likeness, contract string) *likeness {
		var found *likeness
		for i := range list {
			if list[i].contract == contract {
				if found != nil {
					return nil
				}
				found = &list[i]
			}
		}
		return found
	}
	if len(from) > 100 || len(to) > 100 {
		return nil
	}
	var out []Rename
	for i := range from {
		a := lone(from, from[i].contract)
		if a == nil || len(a.features) > 0 {
			continue
		}
		if b := lone(to, a.contract); b != nil {
			out = append(out, Rename{a.name, b.name, 0.5, true})
		}
	}
	return out
}

func likenesses(items []Item) []likeness {
	out := make([]likeness, 0, len(items))
	for _, item := range items {
		if item.Quarantined() {
			continue
		}
		l := likeness{name: item.Name, words: nameWords(item.Name), features: map[string]bool{}, text: map[string]bool{}}
		o := fieldsOf(item.Raw)
		if item.Kind == KindTool {
			input, output := strip(valueOf(o, "inputSchema")), strip(valueOf(o, "outputSchema"))
			l.contract = string(appendCanonical(appendCanonical(nil, input), output))
			l.look(input, "in", 0)
			l.look(output, "out", 0)
		} else {
			l.contract = string(appendCanonical(nil, valueOf(o, "mimeType")))
			for _, a := range argumentsOf(o) {
				l.features[a.name] = true
				l.contract += fmt.Sprintf(" %q %t", a.name, a.required())
			}
		}
		for i, word := range nameWords(item.Text) {
			if i < 200 {
				l.text[word] = true
			}
		}
		out = append(out, l)
	}
	return out
}

// maxFeatures bounds what of one item is looked at.
const maxFeatures = 500

// look collects the properties of a schema with their types.
func (l *likeness) look(v value, at string, depth int) {
	o, ok := v.(object)
	if !ok || depth > 8 || len(l.features) > maxFeatures {
		return
	}
	for _, m := range membersOf(o, "properties") {
		property, _ := m.value.(object)
		here := at + "." + m.name
		l.features[here] = true
		mask, _ := typesOf(property)
		l.features[here+":"+string(rune('0'+mask))] = true
		l.look(property, here, depth+1)
	}
	if items := membersOf(o, "items"); items != nil {
		l.look(items, at+"[]", depth+1)
	}
	for _, keyword := range []string{"anyOf", "oneOf", "allOf"} {
		list, _ := valueOf(o, keyword).([]value)
		for _, e := range list {
			l.look(e, at, depth+1)
		}
	}
}

// alikeness is how probable it is that two items are one, from 0 to 1: by their
// names, their contracts and their descriptions.
func alikeness(a, b *likeness) float64 {
	sum, weight := 0.4*wordScore(a.words, b.words), 0.4
	if len(a.features)+len(b.features) > 0 {
		score := 1.0
		if a.contract != b.contract {
			score = 0.9 * overlap(a.features, b.features)
		}
		sum, weight = sum+0.4*score, weight+0.4
	}
	if len(a.text) > 0 && len(b.text) > 0 {
		sum, weight = sum+0.2*overlap(a.text, b.text), weight+0.2
	}
	score := sum / weight
	if a.contract == b.contract && len(a.features) > 0 {
		return max(score, 0.5+score/2) // the contract is what callers are bound to
	}
	return score
}

// overlap is how many members two sets share, of all that they have.
func overlap(a, b map[string]bool) float64 {
	shared := 0
	for k := range a {
		if b[k] {
			shared++
		}
	}
	all := len(a) + len(b) - shared
	if all == 0 {
		return 0
	}
	return float64(shared) / float64(all)
}

// wordScore compares names: by their words, and letter by letter.
func wordScore(a, b []string) float64 {
	shared := 0
	for _, w := range a {
		if slices.Contains(b, w) {
			shared++
		}
	}
	byWords := 0.0
	if len(a)+len(b) > 0 {
		byWords = 2 * float64(shared) / float64(len(a)+len(b))
	}
	return max(byWords, letterScore(strings.Join(a, ""), strings.Join(b, "")))
}

// letterScore is 1 less the share of letters to edit (Levenshtein).
func letterScore(a, b string) float64 {
	x, y := []rune(cutText(a, 128)), []rune(cutText(b, 128))
	longest := max(len(x), len(y))
	if longest == 0 {
		return 0
	}
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		diagonal := row[0]
		row[0] = i + 1
		for j := range y {
			cost := diagonal
			if x[i] != y[j] {
				cost++
			}
			diagonal, row[j+1] = row[j+1], min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return 1 - float64(row[len(y)])/float64(longest)
}

// nameWords takes a name or a text apart, at signs and where capitals begin.
func nameWords(s string) []string {
	var out []string
	var word []rune
	end := func() {
		if len(word) > 0 {
			out = append(out, strings.ToLower(string(word)))
			word = word[:0]
		}
	}
	runes := []rune(cutText(s, 4096))
	for i, r := range runes {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			end()
			continue
		}
		if i > 0 && unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsUpper(runes[i-1]) && unicode.IsLower(runes[i+1])) {
			end()
		}
		word = append(word, r)
	}
	end()
	return out
}
