package registry

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// What is looked for first never hides a match: no text matches an expression
// and lacks what the expression is said to need.
func TestWhatPatternsNeedIsInEveryMatch(t *testing.T) {
	t.Parallel()
	all := slices.Concat(orders, secretWords)
	for _, p := range all {
		if len(p.needs) == 0 {
			t.Fatalf("nothing is looked for before %s", p)
		}
	}
	fillers := []string{"", " ", " the ", " a ", ".", " user ", " to ", "s ", "|", "/", "~/.", "_", " x ", "'s ", "key", " or "}
	matched := 0
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		for range rapid.IntRange(1, 2).Draw(t, "patterns") {
			for _, set := range rapid.SampledFrom(all).Draw(t, "pattern").needs {
				text.WriteString(rapid.SampledFrom(fillers).Draw(t, "filler"))
				text.WriteString(rapid.SampledFrom(set).Draw(t, "word"))
			}
		}
		text.WriteString(rapid.SampledFrom(fillers).Draw(t, "end"))
		for _, p := range all {
			if at := p.FindStringIndex(text.String()); at != nil {
				matched++
				if p.find(text.String()) == nil {
					t.Fatalf("%q matches %s and is not found", text.String(), p)
				}
			}
		}
	})
	if matched < 20 {
		t.Errorf("only %d texts matched anything", matched)
	}
}
