package secrets_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"countersign/secrets"
)

func maskOf(values ...string) *secrets.Mask {
	var all []secrets.Value
	for _, v := range values {
		all = append(all, secrets.Secret(v))
	}
	return secrets.NewMask(all...)
}

func TestValuesAreMasked(t *testing.T) {
	t.Parallel()
	const odd = `s/e "c\r` + "\n<é😀>+&%=" // all that needs escaping somewhere
	for _, tt := range []struct {
		name       string
		values     []string
		text, want string
	}{
		{"as it is", []string{"hunter2!"}, "the password is hunter2!.", "the password is [masked]."},
		{"at both ends", []string{"hunter2!"}, "hunter2! or hunter2!", "[masked] or [masked]"},
		{"twice in a row", []string{"hunter2!"}, "hunter2!hunter2!", "[masked]"},
		{"nothing", []string{"hunter2!"}, "hunter2", "hunter2"},
		{"no values", nil, "hunter2", "hunter2"},
		{"an empty text", []string{"hunter2!"}, "", ""},
		{"a short text", []string{"hunter2!"}, "hun", "hun"},
		{"four bytes", []string{"1234"}, "in 12345", "in [masked]5"},
		{"fewer are not masked", []string{"123", "", "1"}, "in 12345", "in 12345"},
		{"words of JSON are not masked", []string{"true", "null", "false"}, `[true,null,false]`, `[true,null,false]`},
		{"one that begins another", []string{"abcd", "abcdef"}, "abcdef abcd", "[masked] [masked]"},
		{"one that ends another", []string{"cdef", "abcdef"}, "abcdef cdefgh", "[masked] [masked]gh"},
		{"overlapping ones", []string{"abcdef", "efghij"}, "-abcdefghij-", "-[masked]-"},
		{"one within another", []string{"abcdefgh", "cdef"}, "-abcdefgh-", "-[masked]-"},
		{"repeating itself", []string{"abab"}, "ababab!", "[masked]!"},
		{"with blanks around it", []string{" token\t"}, "token", "[masked]"},
		{"lines of one of several lines", []string{"-----BEGIN KEY-----\r\nMIIEvQIBADAN\r\nab==\r\n"}, "MIIEvQIBADAN\nab==", "[masked]\nab=="},
		{"one of several lines in JSON", []string{"first line\nsecond"}, `{"a":"first line\nsecond"}`, `{"a":"[masked]"}`},
		{"in JSON", []string{odd}, `"s\/e \"c\\r\n\u003cé😀\u003e+\u0026%="`, `"[masked]"`},
		{"in JSON of ASCII", []string{odd}, `"\u0073/e\u0020\"c\\r\u000a<\u00E9\ud83d\ude00>+&%="`, `"[masked]"`},
		{"in Go", []string{"a\x1b\xffb\a\v"}, `a\x1b\xffb\a\v`, `[masked]`},
		{"in a path", []string{odd}, "/s%2fe%20%22c%5Cr%0a%3c%c3%a9%f0%9f%98%80%3e+&%25=/", "/[masked]/"},
		{"in a query", []string{odd}, "a=s%2Fe+%22c%5Cr%0A%3C%C3%A9%F0%9F%98%80%3E%2B%26%25%3D", "a=[masked]"},
		{"a query without percent signs", []string{"correct horse battery"}, "p=correct+horse+battery", "p=[masked]"},
		{"all percent-encoded", []string{"abcd"}, "%61%62%63%64", "[masked]"},
		{"percent-encoded and escaped", []string{"a b/c"}, `"a%20b\/c"`, `"[masked]"`},
		{"one that looks encoded", []string{`a%41\n`}, `a%41\n a%2541%5Cn "a%41\\n"`, `[masked] [masked] "[masked]"`},
		{"a plus in a path", []string{"ab+cd"}, "ab+cd ab%2Bcd ab%2bcd ab cd", "[masked] [masked] [masked] ab cd"},
		{"in base64", []string{"hunter2!"}, "aHVudGVyMiE= aHVudGVyMiE", "[masked]= [masked]"},
		{"in a header", []string{"hunter2!"}, "Basic " + base64.StdEncoding.EncodeToString([]byte("me:hunter2!")), "Basic bWU[masked]="},
		{"in base64 in a query", []string{"???>>>???"}, "Pz8%2FPj4%2BPz8%2F Pz8_Pj4-Pz8_", "[masked] [masked]"},
		{"in base64 in JSON", []string{"???>>>???"}, `"Pz8\/Pj4+Pz8\/"`, `"[masked]"`},
		{"in hexadecimal", []string{"hunter2!"}, "68756e7465723221 68756E7465723221", "[masked] [masked]"},
		{"after an escape in JSON", []string{"none"}, `"one\none"`, `"one[masked]"`},
		{"after a backslash in JSON", []string{"none"}, `"one\\none"`, `"one\\[masked]"`},
		{"within an escape", []string{"e9ab"}, `"\u00e9ab"`, `"[masked]"`},
		{"up to an escape", []string{`abc\`}, `"abc\n"`, `"[masked]"`},
		{"the mask itself", []string{"masked"}, "masked", "[masked]"},
		{"broken escapes", []string{"hunter2!"}, `\`, `\`},
		{"more broken escapes", []string{"hunter2!"}, `%4 \u00 \ud83d \ud83d\u0041 \x %zz \q hunter2!\`, `%4 \u00 \ud83d \ud83d\u0041 \x %zz \q [masked]\`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := maskOf(tt.values...)
			if got := m.String(tt.text); got != tt.want {
				t.Errorf("%s\nis not\n%s", got, tt.want)
			}
			before := strings.Clone(tt.text)
			given := []byte(tt.text)
			if got := m.Bytes(given); string(got) != tt.want {
				t.Errorf("%s\nis not\n%s", got, tt.want)
			}
			if string(given) != before {
				t.Error("the text was changed in place")
			}
			if got := m.Tail([]byte(tt.text), 1000); string(got) != tt.want {
				t.Errorf("%s\nis not\n%s", got, tt.want)
			}
		})
	}
	var none *secrets.Mask
	if none.String("hunter2!") != "hunter2!" || none.Longest() != 0 || string(none.Tail([]byte("hunter2!"), 3)) != "r2!" {
		t.Error("no mask masks")
	}
}

// forms gives a text in the notations that programs write it in.
func forms(text string) []string {
	all := []string{
		text, hex.EncodeToString([]byte(text)), strings.ToUpper(hex.EncodeToString([]byte(text))),
		url.PathEscape(text), url.QueryEscape(text), lower(url.PathEscape(text)), lower(url.QueryEscape(text)),
	}
	every := ""
	for _, b := range []byte(text) {
		every += fmt.Sprintf("%%%02x", b)
	}
	all = append(all, every)
	if !utf8.ValidString(text) {
		return all // JSON has no way to write it
	}
	var plain bytes.Buffer
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	_ = e.Encode(text)
	html, _ := json.Marshal(text)
	units := ""
	for _, u := range utf16.Encode([]rune(text)) {
		units += fmt.Sprintf(`\u%04x`, u)
	}
	inside := strings.TrimSpace(plain.String())
	return append(all, inside[1:len(inside)-1], string(html[1:len(html)-1]), strings.ReplaceAll(string(html[1:len(html)-1]), "/", `\/`), units)
}

var percent = regexp.MustCompile("%[0-9A-F]{2}")

func lower(text string) string { return percent.ReplaceAllStringFunc(text, strings.ToLower) }

// FuzzMask: after masking, no notation of a value is left, and the text of a JSON
// string is still one.
func FuzzMask(f *testing.F) {
	for _, value := range []string{"hunter2!", "s/e \"c\\r\n<é😀>+&%=", "none", "e9ab", "\x00\xff\x00\xff", "aaaa", `abc\`, "a b c", "1234", "%41%", "\ufffd\ufffd", "[masked]"} {
		f.Add("me:", value, "@h", "other")
		f.Add(`"\`, value, `\u00`, value[:4])
		f.Add("", value, "", value[1:])
	}
	f.Fuzz(func(t *testing.T, before, value, after, other string) {
		if len(value) < 4 || value == "true" || value == "false" || value == "null" {
			return
		}
		m := maskOf(value, other)
		masked := func(text string) []string {
			got := m.String(text)
			if same := string(m.Bytes([]byte(text))); same != got {
				t.Errorf("%q as bytes is %q, as a string %q", text, same, got)
			}
			if !strings.Contains(got, secrets.Masked) {
				t.Errorf("nothing is masked in %q", text)
			}
			return strings.Split(got, secrets.Masked)
		}
		for _, form := range forms(value) {
			for _, part := range masked(before + form + after) {
				if strings.Contains(part, form) && !strings.Contains(secrets.Masked, form) { //nolint:gocritic // what is a part of the mask says nothing
					t.Errorf("%q is left in %q", form, part)
				}
			}
		}
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
			for length := range 3 { // all alignments
				encoded := encoding.EncodeToString([]byte(before[:len(before)/3*3] + "xx"[:length] + value + after))
				for _, part := range append(masked(encoded), masked("q="+url.QueryEscape(encoded))...) {
					part = strings.NewReplacer("%2B", "+", "%2F", "/", "%3D", "=").Replace(part)
					for len(part) > 0 {
						if decoded, _ := encoding.DecodeString(part); bytes.Contains(decoded, []byte(value)) {
							t.Errorf("%q is left in %q, in base64", value, part)
						}
						part = part[1:]
					}
				}
			}
		}
		if text, err := json.Marshal(before + value + after); err == nil && !strings.Contains(value+other, `"`) {
			if got := m.Bytes(text); !json.Valid(got) {
				t.Errorf("%s became %s", text, got)
			}
		}
	})
}

// TestTheTailHoldsNoRests of a value that was cut, wherever the cut is.
func TestTheTailHoldsNoRests(t *testing.T) {
	t.Parallel()
	const value, limit = "0123456789abcdefghijklmnopqrstuvwxyz", 100
	m := maskOf(value)
	for _, form := range forms(value) {
		for _, filler := range []string{"-", value + " "} { // masking makes the second one shorter
			for cut := range len(form) {
				kept := form[cut:]
				left := limit + m.Longest() - len(kept)
				kept += strings.Repeat("-", left%len(filler)) + strings.Repeat(filler, left/len(filler))
				got := m.Tail([]byte(kept), limit)
				if len(got) > limit || strings.ContainsAny(strings.ReplaceAll(string(got), secrets.Masked, ""), "xyz789") {
					t.Fatalf("%d: %s", cut, got)
				}
			}
		}
	}
	if got := m.Tail([]byte("short "+value), limit); string(got) != "short [masked]" {
		t.Error(string(got))
	}
	if got := m.Tail([]byte(value+strings.Repeat("-", limit-1)), limit); string(got) != "[masked]"[7:]+strings.Repeat("-", limit-1) {
		t.Error(string(got))
	}
}

// A megabyte each of what servers send: JSON with few and with many escapes.
var texts = map[string][]byte{
	"plain":        bytes.Repeat([]byte(`{"name":"create_issue","description":"Creates an issue in a repository, with labels","inputSchema":{"type":"object"}},`), 1<<20/116),
	"json in json": bytes.Repeat([]byte(`"{\"name\":\"create_issue\",\"description\":\"Creates an issue in a repository, with labels\"}",`), 1<<20/98),
	"escaped":      bytes.Repeat([]byte(`"a \"b\" c\n%20\u00e9+"`), 1<<20/26),
}

func BenchmarkMaskWithoutAHit(b *testing.B) {
	m := maskOf("ghp_0123456789abcdef0123456789abcdef", "sk-live-ABCDEFGHIJKLMNOP", "postgres://user:password@host/db", "two words")
	for name, text := range texts {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if got := m.Bytes(text); len(got) != len(text) {
					b.Fatal("something was masked")
				}
			}
		})
	}
}

// TestNothingIsAllocatedWithoutAHit.
func TestNothingIsAllocatedWithoutAHit(t *testing.T) {
	m := maskOf("ghp_0123456789abcdef0123456789abcdef", "two words")
	for name, text := range texts {
		s := string(text)
		if n := testing.AllocsPerRun(3, func() { m.Bytes(text); _ = m.String(s) }); n > 0 {
			t.Errorf("%s: %v", name, n)
		}
	}
}
