package mcptest

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rows gives the knobs of a struct as the documentation lists them: key, kind
// and transports.
func rows(prefix string, t reflect.Type) (out []string) {
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous {
			continue
		}
		only := f.Tag.Get("on")
		if only == "" {
			only = "all"
		}
		out = append(out, prefix+f.Tag.Get("json")+" | "+kindName(f.Type)+" | "+strings.ReplaceAll(only, ",", ", "))
	}
	return out
}

// TestTheDocumentationKnowsEveryKnob of docs/fault-server.md, with its kind and
// its transports, and no other.
func TestTheDocumentationKnowsEveryKnob(t *testing.T) {
	t.Parallel()
	code := slices.Concat(
		rows("", reflect.TypeFor[fileSpec]()),
		rows("fault.", reflect.TypeFor[faultSpec]()),
		rows("when.", reflect.TypeFor[when]()),
		rows("error.", reflect.TypeFor[errorSpec]()),
		rows("cut.", reflect.TypeFor[cutSpec]()),
		rows("content.", reflect.TypeFor[content]()),
		rows("list.", reflect.TypeFor[listSpec]()),
		rows("page.", reflect.TypeFor[pageSpec]()),
		rows("version.", reflect.TypeFor[versionSpec]()),
		rows("endless.", reflect.TypeFor[endlessSpec]()),
		rows("process.", reflect.TypeFor[processSpec]()),
		rows("fork.", reflect.TypeFor[ForkSpec]()),
	)
	page, err := os.ReadFile("../docs/fault-server.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` (\\| [^|]+ \\| [^|]+?) \\|").FindAllStringSubmatch(string(page), -1) {
		documented = append(documented, row[1]+" "+row[2])
	}
	slices.Sort(code)
	slices.Sort(documented)
	if diff := cmp.Diff(code, documented); diff != "" {
		t.Errorf("knobs of the code and of docs/fault-server.md (-code +page):\n%s", diff)
	}
	// Every word that a knob takes is on the page as well.
	for _, words := range [][]string{idKinds, cuts, listKinds, endlessItems, endlessNexts, reencodings, certificates} {
		for _, word := range words {
			if word != "" && !strings.Contains(string(page), "`"+word+"`") {
				t.Errorf("%q is missing", word)
			}
		}
	}
}

// TestTheExamplesOfTheDocumentationAreScripts that load.
func TestTheExamplesOfTheDocumentationAreScripts(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/fault-server.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(examples) < 3 {
		t.Errorf("%d examples", len(examples))
	}
	for _, example := range examples {
		if _, err := Parse("example", []byte(example[1])); err != nil {
			t.Error(err)
		}
	}
}
