package registry

import (
	"strings"
	"unicode"
)

// Bounds of the full-text search over tools.
const (
	MaxSearchWords = 16   // of a query
	maxIndexed     = 1000 // words of one tool; what comes later is not found
	maxWord        = 64   // bytes; a longer word is found by its beginning
)

// SearchText is what a tool is found by, as words between single blanks. Words
// are letters, marks and digits in lower case, and nothing else.
type SearchText struct {
	Names  string // of its name at the server
	Titles string // of its title
	Words  string // of these, its server's name and its description, each once
}

// SearchTextOf makes the words of a tool. Names are found as they are and by
// their parts: getForecast by "getforecast", "get" and "forecast".
func SearchTextOf(t *Tool, server string) SearchText {
	names, titles := newWords(), newWords()
	names.add(t.ExternalID, true)
	titles.add(t.Title, true)
	all := newWords()
	for _, word := range append(names.list, titles.list...) {
		all.one(word)
	}
	all.add(server, true)
	all.add(t.Description, false)
	return SearchText{names.String(), titles.String(), all.String()}
}

// SearchWords gives the words that a query asks for: all must be found, each
// as the beginning of a word. The error is invalid_argument when there are
// none or too many.
func SearchWords(query string) ([]string, error) {
	w := newWords()
	w.add(query, false)
	switch {
	case len(w.list) == 0:
		return nil, Errorf(ReasonInvalidArgument, "the search has no word").
			WithField("search", "has no letter or digit")
	case len(w.list) > MaxSearchWords:
		return nil, Errorf(ReasonInvalidArgument, "the search has %d words, the limit is %d", len(w.list), MaxSearchWords).
			WithField("search", "has more than %d words", MaxSearchWords)
	}
	return w.list, nil
}

// words collects words, each once.
type words struct {
	list []string
	has  map[string]bool
}

func newWords() *words { return &words{has: map[string]bool{}} }

func (w *words) String() string { return strings.Join(w.list, " ") }

func (w *words) one(word string) {
	if len(word) > maxWord {
		word = strings.ToValidUTF8(word[:maxWord], "")
	}
	if word == "" || w.has[word] || len(w.list) >= maxIndexed {
		return
	}
	w.has[word] = true
	w.list = append(w.list, word)
}

// add takes the words of a text, and with parts also those that a change from
// lower to upper case separates. Scripts without blanks between words give a
// word for each character. What cannot be seen separates nothing, so that a
// name with hidden characters is found by what it looks like.
func (w *words) add(text string, parts bool) {
	var whole, part []rune
	var before rune
	end := func() {
		if len(part) < len(whole) && parts {
			w.one(string(part))
		}
		w.one(string(whole))
		whole, part = whole[:0], part[:0]
	}
	for _, r := range text {
		switch {
		case len(w.list) >= maxIndexed:
			return
		case r == unicode.ReplacementChar:
			end()
		case unicode.Is(unicode.Cf, r):
			continue
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) && unicode.IsLetter(r):
			end()
			w.one(string(r))
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) && len(whole) > 0:
			if parts && unicode.IsUpper(r) && unicode.IsLower(before) {
				w.one(string(part))
				part = part[:0]
			}
			lower := unicode.ToLower(r)
			whole, part = append(whole, lower), append(part, lower)
		default:
			end()
		}
		before = r
	}
	end()
}
