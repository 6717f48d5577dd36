package secrets

import (
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
)

// Masked stands where a secret stood. Inside a JSON string it is valid as it is.
const Masked = "[masked]"

// Bounds of what is masked, in bytes.
const (
	// minValue is the shortest value: shorter ones occur everywhere by chance.
	minValue = 4
	// minLine is the shortest line of a value of several lines that is masked by
	// itself.
	minLine = 8
	// piece is how long the pieces are that a longer value is looked for in, in any
	// encoding. It bounds the work that a text can make.
	piece = 64
)

// Mask is a set of secret values that are replaced in texts. It is not changed
// after it was made, so it can be shared. A nil mask masks nothing.
//
// A value is found as it is, in base64 (standard and URL alphabets, padded or
// not, also as a part of a longer encoded text) and in hexadecimal; and each of
// these plain, escaped as in a JSON string or a literal of Go (whatever is escaped
// of it), percent-encoded (whatever is encoded of it, a space as "+" or "%20"), or
// both. Everything that belongs to any occurrence is replaced, so values that
// overlap leave no rests, and escapes are replaced whole, so that a text in a JSON
// string stays one. A value of several lines counts as a whole, and so does each of
// its lines of at least 8 bytes.
//
// Not masked are values shorter than 4 bytes and the words true, false and null:
// replacing every "1" would destroy a text and hide nothing. Nor can a secret be
// found that was hashed, encrypted, compressed, encoded twice, cut into pieces or
// otherwise disguised: a mask helps against accidents, not against somebody who
// wants to tell what he knows.
type Mask struct {
	patterns  map[uint32][]pattern // by their first 4 bytes
	starts    [1 << 16 / 64]uint64 // a filter for those: one bit for each hash
	notations []notation
	longest   int
}

// pattern is what is looked for.
type pattern struct {
	text string
	bits bool // base64: the characters beside it hold bits of the value
}

// NewMask makes the mask of some values. What is too short to be masked is left
// out.
func NewMask(values ...Value) *Mask {
	m := &Mask{patterns: map[uint32][]pattern{}, notations: []notation{0, escapes, escapes | percents}}
	for _, v := range values {
		text := v.Reveal()
		m.add(text)
		m.add(strings.TrimSpace(text))
		if !strings.Contains(text, "\n") {
			continue
		}
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); len(line) >= minLine {
				m.add(line)
			}
		}
	}
	return m
}

// add adds a value and its encodings. Their notations are read, not listed.
func (m *Mask) add(value string) {
	if len(value) < minValue || slices.Contains([]string{"true", "false", "null"}, value) {
		return
	}
	if plus := escapes | percents | pluses; strings.Contains(value, " ") && !slices.Contains(m.notations, plus) {
		m.notations = append(m.notations, plus)
	}
	m.put(pattern{text: value})
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			m.put(pattern{text: inner(encoding, value, before), bits: true})
		}
	}
	digits := hex.EncodeToString([]byte(value))
	m.put(pattern{text: digits})
	m.put(pattern{text: strings.ToUpper(digits)})
}

// inner gives the characters of a value in the base64 of a longer text, as far as
// nothing but the value decides them. before is how many bytes are ahead of it,
// from a multiple of 3 on. A value of 4 bytes decides at least 4 characters.
func inner(encoding *base64.Encoding, value string, before int) string {
	text := encoding.EncodeToString([]byte(strings.Repeat("\x00", before) + value))
	return text[(8*before+5)/6 : 8*(before+len(value))/6]
}

// put adds a pattern, in pieces when it is long; the last two may overlap.
func (m *Mask) put(p pattern) {
	for len(p.text) > piece {
		m.putOne(pattern{p.text[:piece], p.bits})
		p.text = p.text[min(piece, len(p.text)-piece):]
	}
	m.putOne(p)
}

func (m *Mask) putOne(p pattern) {
	key := uint32(p.text[0])<<24 | uint32(p.text[1])<<16 | uint32(p.text[2])<<8 | uint32(p.text[3])
	if slices.Contains(m.patterns[key], p) {
		return
	}
	m.patterns[key] = append(m.patterns[key], p)
	hash := bucket(key)
	m.starts[hash/64] |= 1 << (hash % 64)
	m.longest = max(m.longest, widest*(len(p.text)+2))
}

func bucket(key uint32) uint32 { return key * 0x9E3779B1 >> 16 }

// may says whether a pattern may begin with these 4 bytes; false is certain.
func (m *Mask) may(key uint32) bool {
	hash := bucket(key)
	return m.starts[hash/64]>>(hash%64)&1 == 1
}

// Longest says how many bytes a value may take in a text, in any notation.
func (m *Mask) Longest() int {
	if m == nil {
		return 0
	}
	return m.longest
}

// Bytes gives a text with every value replaced by [Masked]. Without any, it is the
// same slice; the text is never changed in place.
func (m *Mask) Bytes(text []byte) []byte {
	found := spans(m, text)
	if len(found) == 0 {
		return text
	}
	return replace(text, found, 0)
}

// String is [Mask.Bytes] for strings.
func (m *Mask) String(text string) string {
	found := spans(m, text)
	if len(found) == 0 {
		return text
	}
	return string(replace(text, found, 0))
}

// Tail gives the end of a text whose beginning was cut off, masked, at most limit
// bytes of it. The text must reach back [Mask.Longest] bytes further, unless there
// was no more of it: then nothing is left of a value that was cut.
func (m *Mask) Tail(text []byte, limit int) []byte {
	masked := replace(text, spans(m, text), max(0, len(text)-limit))
	return masked[max(0, len(masked)-limit):]
}

// span is a part of a text, from its first byte to the one after its last.
type span struct{ from, to int }

// replace gives a text from an offset on, with its spans replaced.
func replace[T ~string | ~[]byte](text T, found []span, from int) []byte {
	out := make([]byte, 0, len(text)-from)
	for _, s := range found {
		if s.to <= from {
			continue
		}
		out = append(out, text[from:max(from, s.from)]...)
		out = append(out, Masked...)
		from = s.to
	}
	return append(out, text[from:]...)
}

// spans finds all that is to be replaced: in order, and apart from each other.
func spans[T ~string | ~[]byte](m *Mask, text T) []span {
	if m == nil || len(m.patterns) == 0 || len(text) < minValue {
		return nil
	}
	var found []span
	escaped := -1 // the last byte so far that may begin an escape of some notation
	for i := range minValue - 1 {
		if special(text[i]) {
			escaped = i
		}
	}
	key := uint32(text[0])<<16 | uint32(text[1])<<8 | uint32(text[2])
	for i := range len(text) - minValue + 1 {
		last := text[i+minValue-1]
		if key = key<<8 | uint32(last); special(last) {
			escaped = i + minValue - 1
		}
		switch {
		case escaped >= i:
			found = read(m, found, text, i)
		case m.may(key): // all notations read the same bytes here
			for _, n := range m.notations {
				found = look(m, found, n, key, text, i)
			}
		}
	}
	return found
}

// read adds the patterns that stand at a place where there may be escapes.
func read[T ~string | ~[]byte](m *Mask, found []span, text T, at int) []span {
	// Each notation has the escapes of the one before. Without those that were used
	// here, it reads nothing else.
	_, used, _ := window(m.notations[len(m.notations)-1], text[at:])
	var key uint32
	var may bool
	for i, n := range m.notations {
		if i == 0 || n&used != m.notations[i-1]&used {
			key, _, may = window(n, text[at:])
			may = may && m.may(key)
		}
		if may {
			found = look(m, found, n, key, text, at)
		}
	}
	return found
}

// look adds the patterns that stand at one place of the text.
func look[T ~string | ~[]byte](m *Mask, found []span, n notation, key uint32, text T, at int) []span {
	for _, p := range m.patterns[key] {
		width := match(n, text[at:], p.text)
		if width == 0 {
			continue
		}
		s := span{at, at + width}
		if p.bits {
			if s.from > 0 && isBase64(text[s.from-1]) {
				s.from--
			}
			if s.to < len(text) && isBase64(text[s.to]) {
				s.to++
			}
		}
		s.from, _ = whole(text, s.from)
		_, s.to = whole(text, s.to)
		for len(found) > 0 && s.from <= found[len(found)-1].to {
			last := found[len(found)-1]
			s = span{min(s.from, last.from), max(s.to, last.to)}
			found = found[:len(found)-1]
		}
		found = append(found, s)
	}
	return found
}

func isBase64(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '+' || b == '/' || b == '-' || b == '_'
}
