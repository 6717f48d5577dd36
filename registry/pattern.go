package registry

import (
	"strconv"
	"strings"
)

// patternProblem says what is wrong with a regular expression that is one in no
// dialect: groups and classes that do not close, a repetition of nothing, an
// escape of nothing. Patterns are ECMA-262's, of which Go's regexp knows a part
// only, and are never run here, so that more than this would be a guess.
func patternProblem(p string) string {
	depth, repeatable := 0, false
	for i := 0; i < len(p); i++ {
		switch p[i] {
		case '\\':
			if i++; i == len(p) {
				return "it ends in an escape"
			}
			repeatable = true
		case '[':
			end := classEnd(p, i+1)
			if end < 0 {
				return "a class does not close"
			}
			i, repeatable = end, true
		case '(':
			depth++
			i += groupPrefix(p[i+1 : min(len(p), i+1+longestPrefix)])
			repeatable = false
		case ')':
			if depth--; depth < 0 {
				return "a group closes that is not open"
			}
			repeatable = true
		case '|':
			repeatable = false
		case '*', '+', '?':
			if !repeatable {
				return "a repetition of nothing"
			}
			if i+1 < len(p) && (p[i+1] == '?' || p[i+1] == '+') {
				i++ // lazy, or possessive
			}
			repeatable = false
		case '{':
			low, high, end := counts(p[i:min(len(p), i+longestPrefix)])
			if end == 0 {
				repeatable = true // it stands for itself
				continue
			}
			if high >= 0 && low > high {
				return "a repetition with its bounds reversed"
			}
			i += end - 1
			if i+1 < len(p) && (p[i+1] == '?' || p[i+1] == '+') {
				i++
			}
			repeatable = false
		default:
			repeatable = true
		}
	}
	if depth > 0 {
		return "a group does not close"
	}
	return ""
}

// longestPrefix bounds how far ahead of a bracket is looked, so that a pattern of
// many brackets takes no longer than another one.
const longestPrefix = 80

// classEnd gives where a class ends whose content begins at i, -1 when it does
// not.
func classEnd(p string, i int) int {
	for ; i < len(p); i++ {
		switch p[i] {
		case '\\':
			i++
		case ']':
			return i
		}
	}
	return -1
}

// groupPrefix gives how long what follows the bracket of a group is before its
// content: ?: ?= ?! ?<= ?<! ?<name> ?P<name>.
func groupPrefix(p string) int {
	if !strings.HasPrefix(p, "?") {
		return 0
	}
	if end := strings.IndexAny(p, ":=!>)"); end > 0 && p[end] != ')' {
		return end + 1
	}
	return 1
}

// counts reads {n}, {n,} or {n,m}; end is 0 when it is none of them, high -1
// when there is no upper bound.
func counts(p string) (low, high, end int) {
	content, _, found := strings.Cut(p[1:], "}")
	if !found {
		return 0, 0, 0
	}
	first, second, two := strings.Cut(content, ",")
	low, err := strconv.Atoi(first)
	if err != nil || low < 0 || first[0] == '+' {
		return 0, 0, 0
	}
	switch high, err = strconv.Atoi(second); {
	case !two:
		high = low
	case second == "":
		high = -1
	case err != nil || high < 0:
		return 0, 0, 0
	}
	return low, high, len(content) + 2
}
