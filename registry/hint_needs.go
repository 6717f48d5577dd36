package registry

import (
	"cmp"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// pattern is a regular expression, and what a text must have in it for it to
// match: of every set one of its words. Looking for words first is a hundred
// times faster than the expressions, and nearly no text has them all.
type pattern struct {
	*regexp.Regexp

	needs [][]string
}

func patterns(expressions ...string) []pattern {
	out := make([]pattern, len(expressions))
	for i, e := range expressions {
		out[i].Regexp = regexp.MustCompile(e)
		if tree, err := syntax.Parse(e, syntax.Perl); err == nil {
			out[i].needs = needs(tree.Simplify())
		}
	}
	return out
}

// find is where the pattern matches a legible text, nil when it does not.
func (p pattern) find(s string) []int {
	for _, set := range p.needs {
		if !slices.ContainsFunc(set, func(word string) bool { return strings.Contains(s, word) }) {
			return nil
		}
	}
	return p.FindStringIndex(s)
}

// mostSpelled bounds the texts that an expression is written out to, and
// mostNeeded the words of a set.
const (
	mostSpelled = 16
	mostNeeded  = 64
)

// needs gives sets of words, of each of which every match has one.
func needs(tree *syntax.Regexp) [][]string {
	if whole := spelled(tree); whole != nil && !slices.Contains(whole, "") {
		return [][]string{whole}
	}
	switch tree.Op {
	case syntax.OpCapture, syntax.OpPlus:
		return needs(tree.Sub[0])
	case syntax.OpConcat:
		var out [][]string
		for _, sub := range tree.Sub {
			out = append(out, needs(sub)...)
		}
		return out
	case syntax.OpAlternate:
		// One set that covers all branches: of each its most telling one.
		var set []string
		for _, sub := range tree.Sub {
			sets := needs(sub)
			if len(sets) == 0 {
				return nil
			}
			set = append(set, slices.MinFunc(sets, byTelling)...)
		}
		if len(set) > mostNeeded {
			return nil
		}
		return [][]string{set}
	default:
		return nil
	}
}

// byTelling orders sets of words: those first that texts seldom have, which
// are the ones whose shortest word is long.
func byTelling(a, b []string) int {
	return cmp.Or(cmp.Compare(shortest(b), shortest(a)), cmp.Compare(len(a), len(b)))
}

func shortest(words []string) int {
	return len(slices.MinFunc(words, func(a, b string) int { return cmp.Compare(len(a), len(b)) }))
}

// spelled gives all texts that an expression matches, nil when they are many or
// it is not only letters.
func spelled(tree *syntax.Regexp) []string {
	if tree.Flags&syntax.FoldCase != 0 {
		return nil
	}
	switch tree.Op {
	case syntax.OpLiteral:
		return []string{string(tree.Rune)}
	case syntax.OpEmptyMatch:
		return []string{""}
	case syntax.OpCapture:
		return spelled(tree.Sub[0])
	case syntax.OpQuest:
		if inner := spelled(tree.Sub[0]); inner != nil {
			return append([]string{""}, inner...)
		}
	case syntax.OpCharClass:
		var out []string
		for i := 0; i+1 < len(tree.Rune); i += 2 {
			for r := tree.Rune[i]; r <= tree.Rune[i+1]; r++ {
				if out = append(out, string(r)); len(out) > mostSpelled {
					return nil
				}
			}
		}
		return out
	case syntax.OpAlternate:
		var out []string
		for _, sub := range tree.Sub {
			inner := spelled(sub)
			if inner == nil {
				return nil
			}
			out = append(out, inner...)
		}
		if len(out) <= mostSpelled {
			return out
		}
	case syntax.OpConcat:
		out := []string{""}
		for _, sub := range tree.Sub {
			inner := spelled(sub)
			if inner == nil || len(out)*len(inner) > mostSpelled {
				return nil
			}
			var longer []string
			for _, head := range out {
				for _, tail := range inner {
					longer = append(longer, head+tail)
				}
			}
			out = longer
		}
		return out
	default:
	}
	return nil
}
