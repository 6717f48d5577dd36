package registry_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign/registry"
)

func tool(t *testing.T, raw string) registry.Item {
	t.Helper()
	return registry.NewItem(registry.KindTool, "t", []byte(raw), registry.DefaultLimits())
}

// with puts members into an otherwise plain tool.
func with(members string) string {
	if members != "" {
		members = "," + members
	}
	return `{"name":"t"` + members + `}`
}

const plain = `"inputSchema":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a","b"]}`

func TestWhatMovesWhichDigest(t *testing.T) {
	t.Parallel()
	schema := func(s string) string { return with(`"inputSchema":` + s) }
	for _, c := range []struct {
		name, before, after, moves string // moves: letters of c, t, b
	}{
		{"order of keys and white space", with(plain), `{ "inputSchema" : {"required":["b","a"],"properties":{"b":{"type":"integer"},"a":{"type":"string"}},"type":"object"}, "name":"t"}`, ""},
		{"escapes", with(`"description":"é/<",` + plain), with(`"description":"\u00e9\/\u003c",` + plain), ""},
		{"writing of numbers", schema(`{"type":"object","maxProperties":10}`), schema(`{"type":"object","maxProperties":1.0e1}`), ""},
		{"minus zero", schema(`{"minProperties":0}`), schema(`{"minProperties":-0}`), ""},
		{"order of an enum", schema(`{"properties":{"a":{"enum":["x","y"]}}}`), schema(`{"properties":{"a":{"enum":["y","x"]}}}`), ""},
		{"order of anyOf", schema(`{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`), schema(`{"properties":{"a":{"anyOf":[{"type":"null"},{"type":"string"}]}}}`), "c"},
		{"an enum value", schema(`{"properties":{"a":{"enum":["x"]}}}`), schema(`{"properties":{"a":{"enum":["x","y"]}}}`), "c"},
		{"a big integer by one", schema(`{"properties":{"a":{"maximum":9007199254740993}}}`), schema(`{"properties":{"a":{"maximum":9007199254740992}}}`), "c"},
		{"a default", schema(`{"properties":{"a":{"default":1}}}`), schema(`{"properties":{"a":{"default":2}}}`), "c"},
		{"additionalProperties absent and true", schema(`{"type":"object"}`), schema(`{"type":"object","additionalProperties":true}`), ""},
		{"additionalProperties absent and {}", schema(`{"type":"object"}`), schema(`{"type":"object","additionalProperties":{}}`), ""},
		{"additionalProperties absent and false", schema(`{"type":"object"}`), schema(`{"type":"object","additionalProperties":false}`), "c"},
		{"a parameter named description", schema(`{"properties":{"description":{"type":"string"}}}`), schema(`{"properties":{"description":{"type":"integer"}}}`), "c"},
		{"a parameter named title goes", schema(`{"properties":{"title":{"type":"string"}}}`), schema(`{"properties":{}}`), "c"},
		{"a parameter named required", schema(`{"properties":{"required":{"type":"string"}}}`), schema(`{"properties":{"required":{"type":"boolean"}}}`), "c"},
		{"a parameter's description", schema(`{"properties":{"a":{"description":"x"}}}`), schema(`{"properties":{"a":{"description":"y"}}}`), "t"},
		{"two parameters' descriptions swapped", schema(`{"properties":{"a":{"description":"x"},"b":{"description":"y"}}}`), schema(`{"properties":{"a":{"description":"y"},"b":{"description":"x"}}}`), "t"},
		{"examples", schema(`{"examples":[1,2]}`), schema(`{"examples":[2,1]}`), "t"},
		{"description", with(`"description":"a",` + plain), with(`"description":"b",` + plain), "t"},
		{"an invisible character in the description", with(`"description":"a",` + plain), with(`"description":"a\u200b",` + plain), "t"},
		{"NFC and NFD", with(`"description":"\u00e9",` + plain), with(`"description":"e\u0301",` + plain), "t"},
		{"trailing blanks and CRLF", with(`"description":"a\nb",` + plain), with(`"description":"a  \r\nb \n",` + plain), ""},
		{"title", with(plain), with(`"title":"T",` + plain), "t"},
		{"a hint that gets weaker", with(`"annotations":{"readOnlyHint":true},` + plain), with(plain), "b"},
		{"a hint at its default", with(plain), with(`"annotations":{"readOnlyHint":false,"destructiveHint":true,"openWorldHint":true,"idempotentHint":false},` + plain), ""},
		{"task support at its default", with(plain), with(`"execution":{"taskSupport":"forbidden"},` + plain), ""},
		{"task support", with(plain), with(`"execution":{"taskSupport":"required"},` + plain), "b"},
		{"_meta and icons", with(plain), with(`"_meta":{"x":1},"icons":[],` + plain), ""},
		{"an unknown field", with(plain), with(`"zzz":1,` + plain), ""},
		{"output schema", with(plain), with(`"outputSchema":{"type":"object"},` + plain), "c"},
		{"a unknown keyword", schema(`{"type":"object","x-y":{"description":"a"}}`), schema(`{"type":"object","x-y":{"description":"b"}}`), "c"},
		{"dialect and nothing else", schema(`{"type":"object","$schema":"http://json-schema.org/draft-07/schema#"}`), schema(`{"type":"object","$schema":"https://json-schema.org/draft/2020-12/schema"}`), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, b := tool(t, c.before), tool(t, c.after)
			if a.Verdict+b.Verdict != "" {
				t.Fatalf("quarantined: %s %s, %s %s", a.Verdict, a.Detail, b.Verdict, b.Detail)
			}
			moved := ""
			if a.Digests.Contract != b.Digests.Contract {
				moved += "c"
			}
			if a.Digests.Text != b.Digests.Text {
				moved += "t"
			}
			if a.Digests.Behaviour != b.Digests.Behaviour {
				moved += "b"
			}
			if moved != c.moves {
				t.Errorf("moved %q, want %q", moved, c.moves)
			}
		})
	}
}

func TestFaultsOfOneTool(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"not":`, 80) + "{}" + strings.Repeat("}", 80)
	for _, c := range []struct {
		name, raw string
		want      registry.Reason
	}{
		{"no input schema", with(""), registry.ReasonInvalidSchema},
		{"input schema null", with(`"inputSchema":null`), registry.ReasonInvalidSchema},
		{"input schema true", with(`"inputSchema":true`), registry.ReasonInvalidSchema},
		{"input schema empty", with(`"inputSchema":{}`), registry.ReasonInvalidSchema},
		{"input schema of a dialect alone", with(`"inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#"}`), registry.ReasonInvalidSchema},
		{"input schema of a string", with(`"inputSchema":{"type":"string"}`), registry.ReasonInvalidSchema},
		{"duplicate key", with(`"description":"a","description":"b",` + plain), registry.ReasonAmbiguousKeys},
		{"key that differs in case", with(`"description":"a","Description":"b",` + plain), registry.ReasonAmbiguousKeys},
		{"case by a folding character", with(`"deſcription":"b",` + plain), registry.ReasonAmbiguousKeys},
		{"NUL", with(`"description":"a\u0000",` + plain), registry.ReasonMalformedField},
		{"lone surrogate", with(`"description":"\ud800",` + plain), registry.ReasonMalformedField},
		{"exponent beyond bounds", with(`"inputSchema":{"maxProperties":1e999999999}`), registry.ReasonMalformedField},
		{"a number of 100,000 digits", with(`"inputSchema":{"maxProperties":` + strings.Repeat("9", 100_000) + `}`), registry.ReasonMalformedField},
		{"too deep", with(`"inputSchema":` + deep), registry.ReasonTooDeep},
		{"too large", with(`"description":"` + strings.Repeat("a", 300<<10) + `",` + plain), registry.ReasonTooLarge},
		{"description of another type", with(`"description":7,` + plain), registry.ReasonMalformedField},
		{"hint of another type", with(`"annotations":{"readOnlyHint":"yes"},` + plain), registry.ReasonMalformedField},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := tool(t, c.raw); got.Verdict != c.want {
				t.Errorf("verdict %q (%s), want %q", got.Verdict, got.Detail, c.want)
			}
		})
	}
	for name, bad := range map[string]bool{"ok": false, "greet (with Icons)": false, " a": true, "a\u200b": true, "a\nb": true, strings.Repeat("x", 129): true} {
		item := registry.NewItem(registry.KindTool, name, []byte(with(plain)), registry.DefaultLimits())
		if got := item.Verdict == registry.ReasonUnsafeName; got != bad {
			t.Errorf("name %q: unsafe %v, want %v", name, got, bad)
		}
	}
}

func TestMalformedElementsRefuseTheList(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{`null`, `7`, `"x"`, `[]`, `{}`, `{"name":""}`, `{"name":7}`, `{"name":null}`} {
		_, err := registry.NewSnapshot(registry.Surface{Tools: [][]byte{[]byte(with(plain)), []byte(raw)}}, registry.DefaultLimits(), time.Time{})
		if registry.ReasonOf(err) != registry.ReasonMalformedList {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestTwoToolsOfOneNameAreBothQuarantinedAndTheRestGoesOn(t *testing.T) {
	t.Parallel()
	snap, err := registry.NewSnapshot(registry.Surface{Tools: [][]byte{
		[]byte(`{"name":"x","inputSchema":{}}`), []byte(`{"name":"y","inputSchema":{"type":"object"}}`), []byte(`{"name":"x","inputSchema":{"type":"object"}}`),
	}}, registry.DefaultLimits(), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	x, _ := snap.Find(registry.KindTool, "x")
	y, _ := snap.Find(registry.KindTool, "y")
	if len(snap.Items) != 2 || x.Verdict != registry.ReasonDuplicateName || y.Verdict != "" {
		t.Errorf("%+v", snap.Items)
	}
	if !strings.Contains(string(x.Raw), `"object"`) {
		t.Error("the second definition is not visible")
	}
}

// H16: order of tools, keys and sets, and the writing of strings, do not count.
func TestShuffledSurfacesAreOneSnapshot(t *testing.T) {
	t.Parallel()
	var first string
	for round := range 50 {
		r := rand.New(rand.NewPCG(1, uint64(round)))
		var tools [][]byte
		for i := range 8 {
			tools = append(tools, shuffledTool(r, fmt.Sprintf("tool%d", i)))
		}
		r.Shuffle(len(tools), func(i, j int) { tools[i], tools[j] = tools[j], tools[i] })
		snap, err := registry.NewSnapshot(registry.Surface{Tools: tools}, registry.DefaultLimits(), time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = snap.Digest
		}
		if snap.Digest != first {
			t.Fatalf("round %d has another digest", round)
		}
		probe, err := registry.ToolsDigest(tools, registry.DefaultLimits())
		if err != nil || probe != snap.ToolsDigest() {
			t.Fatalf("a probe sees another list than the discovery: %v", err)
		}
	}
}

func shuffledTool(r *rand.Rand, name string) []byte {
	members := []string{
		fmt.Sprintf(`"name":%q`, name), `"description":"d\u00e9"`,
		`"inputSchema":{` + strings.Join(shuffled(r, `"type":"object"`, `"required":`+list(r, "a", "b", "c"), `"properties":{`+
			strings.Join(shuffled(r, `"a":{"enum":`+list(r, "x", "y")+`}`, `"b":{"type":`+list(r, "string", "null")+`}`, `"c":{}`), ",")+`}`), ",") + `}`,
	}
	r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return []byte("{" + strings.Join(members, " , ") + "}")
}

func shuffled(r *rand.Rand, s ...string) []string {
	r.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
	return s
}

func list(r *rand.Rand, s ...string) string {
	b, _ := json.Marshal(shuffled(r, slices.Clone(s)...))
	return string(b)
}

// Canonicalising is idempotent in its effect: decoding and encoding a tool by
// another library changes nothing but the writing, so no digest moves.
func TestRewritingAToolMovesNoDigest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		schema := map[string]any{"type": "object", "properties": rapid.MapOfN(
			rapid.StringMatching(`[a-z]{1,8}`),
			rapid.Custom(func(t *rapid.T) any {
				return map[string]any{
					"description": rapid.String().Filter(func(s string) bool { return !strings.ContainsRune(s, 0) }).Draw(t, "text"),
					"maximum":     rapid.Int32().Draw(t, "max"),
				}
			}), 0, 6).Draw(t, "properties")}
		compact, err := json.Marshal(map[string]any{"name": "t", "inputSchema": schema})
		if err != nil {
			t.Fatal(err)
		}
		wide, err := json.MarshalIndent(map[string]any{"inputSchema": schema, "name": "t"}, " ", "\t")
		if err != nil {
			t.Fatal(err)
		}
		a := registry.NewItem(registry.KindTool, "t", compact, registry.DefaultLimits())
		b := registry.NewItem(registry.KindTool, "t", wide, registry.DefaultLimits())
		if a.Verdict != b.Verdict || a.Digests != b.Digests {
			t.Fatalf("%s\n%+v\n%+v", compact, a, b)
		}
	})
}

func FuzzNewItem(f *testing.F) {
	f.Add([]byte(with(plain)))
	f.Add([]byte(`{"name":"t","inputSchema":{"$defs":{"a":{"$ref":"#/$defs/a"}}}}`))
	f.Add([]byte(`[[[`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		a := registry.NewItem(registry.KindTool, "t", raw, registry.DefaultLimits())
		b := registry.NewItem(registry.KindTool, "t", raw, registry.DefaultLimits())
		if a.Verdict != b.Verdict || a.Digests != b.Digests {
			t.Fatal("two looks at the same bytes differ")
		}
	})
}

func BenchmarkNewItem(b *testing.B) {
	raw := []byte(with(`"description":"` + strings.Repeat("words and words ", 60) + `",` + plain))
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		registry.NewItem(registry.KindTool, "t", raw, registry.DefaultLimits())
	}
}
