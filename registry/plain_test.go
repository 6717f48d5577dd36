package registry

import "testing"

// plainWords never counts a byte that is not plain, wherever it stands and
// whatever stands beside it.
func TestPlainWordsPassNothingSpecial(t *testing.T) {
	for c := range 256 {
		for at := range 24 {
			for _, beside := range []byte{'a', ' ', '!', '#', '[', ']', 0x7f, 0x00, 0xff, '"', '\\'} {
				s := make([]byte, 24)
				for i := range s {
					s[i] = beside
				}
				s[at] = byte(c)
				n := plainWords(s)
				if m := plainWords(string(s)); m != n {
					t.Fatalf("%q: %d as bytes, %d as a string", s, n, m)
				}
				for i := range n {
					if !plain[s[i]] {
						t.Fatalf("%q: counts %d, and byte %d is special", s, n, i)
					}
				}
				if beside == 'a' && plain[byte(c)] && n != 24 {
					t.Fatalf("%q: counts %d", s, n)
				}
			}
		}
	}
}
