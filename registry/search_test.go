package registry_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"countersign/registry"
)

func TestAToolIsFoundByItsWords(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, title, description string
		want                     registry.SearchText
	}{
		{
			"hash_compute", "Compute a Hash", "SHA-256 of the UTF-8.",
			registry.SearchText{Names: "hash compute", Titles: "compute a hash", Words: "hash compute a demo sha 256 of the utf 8"},
		},
		{"getForecast", "", "", registry.SearchText{Names: "get forecast getforecast", Words: "get forecast getforecast demo"}},
		{"b/c", "B C", "b", registry.SearchText{Names: "b c", Titles: "b c", Words: "b c demo"}},
		{"ha\u200bsh", "", "", registry.SearchText{Names: "hash", Words: "hash demo"}},
		{"ÜBER", "", "naïve e\u0301", registry.SearchText{Names: "über", Words: "über demo naïve e\u0301"}},
		{"天気_予報", "", "", registry.SearchText{Names: "天 気 予 報", Words: "天 気 予 報 demo"}},
		{"", "", "' ? \\ \" % & | ! :*", registry.SearchText{Words: "demo"}},
		{"x\xff\xfey", "", "", registry.SearchText{Names: "x y", Words: "x y demo"}},
	} {
		got := registry.SearchTextOf(&registry.Tool{ExternalID: test.name, Title: test.title, Description: test.description}, "demo")
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%q: %s", test.name, diff)
		}
	}
}

func TestAHugeDescriptionGivesABoundedNumberOfShortWords(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 5000 {
		text.WriteString(strings.Repeat("ä", 100) + strings.Repeat("x", i%7) + "-" + string(rune('a'+i%26)) + strings.Repeat("y", i/26) + " ")
	}
	got := strings.Fields(registry.SearchTextOf(&registry.Tool{ExternalID: "a", Description: text.String()}, "demo").Words)
	if len(got) > 1000 {
		t.Errorf("%d words", len(got))
	}
	for _, word := range got {
		if len(word) > 64 {
			t.Errorf("%q has %d bytes", word, len(word))
		}
	}
}

func TestSearchWords(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"Hash": "hash", "hash_compute, hash!": "hash compute", "getForecast": "getforecast", "天気": "天 気", "a&b|!c:*'\"": "a b c",
	} {
		got, err := registry.SearchWords(query)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %q, %v, want %q", query, got, err, want)
		}
	}
	for _, query := range []string{"", " ", "?!", strings.Repeat("a b c d e f ", 1) + "g h i j k l m n o p q"} {
		if got, err := registry.SearchWords(query); registry.ReasonOf(err) != registry.ReasonInvalidArgument {
			t.Errorf("%q: %q, %v", query, got, err)
		}
	}
}

func FuzzSearchWords(f *testing.F) {
	f.Add("getForecast 天気 a'b\x00\u200b")
	f.Fuzz(func(t *testing.T, text string) {
		s := registry.SearchTextOf(&registry.Tool{ExternalID: text, Title: text, Description: text}, text)
		for _, r := range s.Names + s.Titles + s.Words {
			if strings.ContainsRune("'\"\\?%:&|!()*\x00", r) {
				t.Fatalf("%q has %q", s, r)
			}
		}
	})
}
