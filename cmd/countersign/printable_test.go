package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

func TestPrintable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"plain text stays", `Grüße, 世界 — "a\b" 👍`, `Grüße, 世界 — "a\b" 👍`},
		{"line ends and tabs are shown", "a\nb\r\tc", `a\nb\r\tc`},
		{"colours do not work", "\x1b[31mred\x1b[0m", `\x1b[31mred\x1b[0m`},
		{"titles and bells do not work", "\x1b]0;t\a\b\x00\x7f", `\x1b]0;t\x07\x08\x00\x7f`},
		{"C1 controls do not work", "\u009b31m\u0085", `\u009b31m\u0085`},
		{"bidirectional marks are shown", "\u202e\u202c\u2066\u2069\u200e\u200f\u061c", `\u202e\u202c\u2066\u2069\u200e\u200f\u061c`},
		{"zero-width characters are shown", "a\u200b\u200c\u200d\u2060\ufeff\u00adb", `a\u200b\u200c\u200d\u2060\ufeff\u00adb`},
		{"tags are shown", "\U000e0041\U000e007f", `\U000e0041\U000e007f`},
		{"variation selectors are shown", "x\ufe0f\U000e0100", `x\ufe0f\U000e0100`},
		{"fillers are shown", "\u115f\u1160\u3164\uffa0\u034f\u2800", `\u115f\u1160\u3164\uffa0\u034f\u2800`},
		{"odd spaces and line separators are shown", "\u00a0\u2003\u3000\u2028\u2029", `\u00a0\u2003\u3000\u2028\u2029`},
		{"private and unassigned characters are shown", "\ue000\U000f0000\u0378", `\ue000\U000f0000\u0378`},
		{"broken UTF-8 is shown", "a\xff\xc3(\xe2\x80", `a\xff\xc3(\xe2\x80`},
		{"a replacement character is a character", "a\ufffdb", "a\ufffdb"},
		{"nothing stays nothing", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := printable(c.text)
			if got != c.want {
				t.Errorf("printable(%q) = %q, want %q", c.text, got, c.want)
			}
			if again := printable(got); again != got {
				t.Errorf("printing it again gives %q", again)
			}
		})
	}
}

func FuzzNothingDeceives(f *testing.F) {
	f.Add("a\x1b[2J\u202e\U000e0041\xff\n")
	f.Fuzz(func(t *testing.T, text string) {
		if got := printable(text); !utf8.ValidString(got) || strings.ContainsFunc(got, deceives) {
			t.Errorf("printable(%q) = %q", text, got)
		}
		if !utf8.ValidString(text) {
			return // no message can hold it
		}
		document, err := json.Marshal(map[string]string{"text": text})
		if err != nil {
			t.Fatal(err)
		}
		outside := func(r rune) bool { return r != '\n' && deceives(r) }
		var fromJSON, fromYAML struct {
			Text string `json:"text" yaml:"text"`
		}
		shown := escapeInQuotes(string(document), jsonEscape)
		if err := json.Unmarshal([]byte(shown), &fromJSON); err != nil || fromJSON.Text != text || strings.ContainsFunc(shown, outside) {
			t.Errorf("as JSON %q is %s (%v)", text, shown, err)
		}
		inYAML, err := toYAML(document)
		if err != nil {
			t.Fatalf("%q cannot be YAML: %v", text, err)
		}
		if err := yaml.Unmarshal(inYAML, &fromYAML); err != nil || fromYAML.Text != text || bytes.ContainsFunc(inYAML, outside) {
			t.Errorf("as YAML %q is %s (%v)", text, inYAML, err)
		}
	})
}
