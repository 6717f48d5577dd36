package outbound

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Excerpt makes a stranger's text fit for an error, a log line or a screen: at
// most limit bytes of it, with control, formatting and invisible characters and
// invalid UTF-8 as Go escapes. A cut is marked by "…".
func Excerpt[T ~string | ~[]byte](text T, limit int) string {
	s, cut := string(text[:min(len(text), limit)]), ""
	if len(text) > limit {
		cut = "…"
		for i := 0; i < utf8.UTFMax && len(s) > 0; i++ {
			if r, size := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || size != 1 {
				break
			}
			s = s[:len(s)-1] // half a character
		}
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`) + cut
}
