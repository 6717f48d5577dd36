package registry_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/registry"
)

// lists compares two lists of tools.
func lists(t testing.TB, from, to []string) registry.Diff {
	t.Helper()
	raw := func(list []string) [][]byte {
		out := make([][]byte, len(list))
		for i, s := range list {
			out[i] = []byte(s)
		}
		return out
	}
	d, err := registry.CompareTools(raw(from), raw(to), registry.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// movedDigests names the digests that moved, by their first letters.
func movedDigests(d registry.ItemDiff) string {
	out := ""
	for _, m := range []struct {
		yes    bool
		letter string
	}{{d.Contract, "c"}, {d.Text, "t"}, {d.Behaviour, "b"}} {
		if m.yes {
			out += m.letter
		}
	}
	return out
}

// inputTool and outputTool are tools with a property x of their schema.
func inputTool(members string) string {
	return `{"name":"t","inputSchema":{"type":"object",` + members + `}}`
}

func outputTool(members string) string {
	return `{"name":"t","inputSchema":{"type":"object"},"outputSchema":{"type":"object",` + members + `}}`
}

func inputProperty(schema string) string  { return inputTool(`"properties":{"x":` + schema + `}`) }
func outputProperty(schema string) string { return outputTool(`"properties":{"x":` + schema + `}`) }

// toolWith is a plain tool with further fields.
func toolWith(fields string) string {
	return `{"name":"t","inputSchema":{"type":"object","properties":{"x":{"type":"string"}}},` + fields + `}`
}

func definitions(defs, use string) string {
	return inputTool(`"$defs":{` + defs + `},"properties":{"x":` + use + `}`)
}

const draft07, draft2020 = `"$schema":"http://json-schema.org/draft-07/schema#",`, `"$schema":"https://json-schema.org/draft/2020-12/schema",`

// driftRows are the rows of the drift table that are about one tool, and more.
// Moves has a letter for each digest that moves: contract, text, behaviour.
var driftRows = []struct {
	name, from, to, moves string
	severity              registry.Severity
	kinds                 string // of the changes, the worst first
}{
	// Same.
	{"order of keys", toolWith(`"title":"T","description":"D"`), toolWith(`"description":"D","title":"T"`), "", "", ""},
	{"white space", toolWith(`"title":"T"`), strings.ReplaceAll(toolWith(`"title":"T"`), ":", " :\n "), "", "", ""},
	{"escapes", toolWith(`"description":"é/<"`), toolWith(`"description":"\u00e9\/\u003c"`), "", "", ""},
	{"writing of numbers", inputProperty(`{"maximum":1}`), inputProperty(`{"maximum":1.0e0}`), "", "", ""},
	{"minus zero", inputProperty(`{"minimum":0}`), inputProperty(`{"minimum":-0}`), "", "", ""},
	{"order of definitions", definitions(`"A":{},"B":{}`, `{}`), definitions(`"B":{},"A":{}`, `{}`), "", "", ""},
	{"order of required", inputTool(`"required":["a","b"]`), inputTool(`"required":["b","a"]`), "", "", ""},
	{"order of enum", inputProperty(`{"enum":["a","b"]}`), inputProperty(`{"enum":["b","a"]}`), "", "", ""},
	{"order of types", inputProperty(`{"type":["string","null"]}`), inputProperty(`{"type":["null","string"]}`), "", "", ""},
	{"order of dependentRequired", inputTool(`"dependentRequired":{"a":["b","c"]}`), inputTool(`"dependentRequired":{"a":["c","b"]}`), "", "", ""},
	{"additionalProperties absent and true", inputTool(`"properties":{}`), inputTool(`"properties":{},"additionalProperties":true`), "", "", ""},
	{"additionalProperties absent and {}", inputTool(`"properties":{}`), inputTool(`"properties":{},"additionalProperties":{}`), "", "", ""},
	{"hints at their defaults", toolWith(`"title":"T"`), toolWith(`"title":"T","annotations":{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":false,"openWorldHint":true}`), "", "", ""},
	{"task support at its default", toolWith(`"title":"T"`), toolWith(`"title":"T","execution":{"taskSupport":"forbidden"}`), "", "", ""},

	// Recorded.
	{"_meta", toolWith(`"_meta":{"a":1}`), toolWith(`"_meta":{"a":2}`), "", "cosmetic", "recorded_field_changed"},
	{"icons", toolWith(`"icons":[]`), toolWith(`"icons":[{"src":"data:"}]`), "", "cosmetic", "recorded_field_changed"},
	{"an unknown field", toolWith(`"title":"T"`), toolWith(`"title":"T","price":1`), "", "cosmetic", "unknown_field_changed"},
	{"dialect alone", inputTool(draft07 + `"properties":{}`), inputTool(draft2020 + `"properties":{}`), "", "cosmetic", "recorded_field_changed"},

	{"trailing blanks and line ends", toolWith(`"description":"a\nb"`), toolWith(`"description":"a  \r\nb\n"`), "", "cosmetic", "text_whitespace"},

	// Text.
	{"description", toolWith(`"description":"a"`), toolWith(`"description":"b"`), "t", "text", "text_changed"},
	{"title comes", toolWith(`"description":"a"`), toolWith(`"description":"a","title":"b"`), "t", "text", "text_added"},
	{"title goes", toolWith(`"description":"a","title":"b"`), toolWith(`"description":"a"`), "t", "text", "text_removed"},
	{"title of the annotations", toolWith(`"annotations":{"title":"a"}`), toolWith(`"annotations":{"title":"b"}`), "t", "text", "text_changed"},
	{"examples changed", inputProperty(`{"examples":[1]}`), inputProperty(`{"examples":[2]}`), "t", "text", "text_changed"},
	{"examples reordered", inputProperty(`{"examples":[1,2]}`), inputProperty(`{"examples":[2,1]}`), "t", "text", "text_changed"},
	{"descriptions of two parameters swapped", inputTool(`"properties":{"a":{"description":"1"},"b":{"description":"2"}}`), inputTool(`"properties":{"a":{"description":"2"},"b":{"description":"1"}}`), "t", "text", "text_changed 2"},
	{"a parameter's title", inputProperty(`{"title":"a"}`), inputProperty(`{"title":"b"}`), "t", "text", "text_changed"},
	{"NFC and NFD", toolWith(`"description":"\u00e9"`), toolWith(`"description":"e\u0301"`), "t", "text", "lookalike_characters text_changed"},
	{"a zero-width character", toolWith(`"description":"ab"`), toolWith(`"description":"a\u200bb"`), "t", "text", "invisible_characters text_changed"},
	{"a bidirectional mark", toolWith(`"description":"ab"`), toolWith(`"description":"a\u202eb"`), "t", "text", "invisible_characters text_changed"},
	{"tag characters", toolWith(`"description":"ab"`), toolWith(`"description":"ab\udb40\udc41"`), "t", "text", "invisible_characters text_changed"},
	{"a homoglyph", toolWith(`"description":"paypal"`), toolWith(`"description":"p\u0430ypal"`), "t", "text", "lookalike_characters text_changed"},

	// Contract, said in another way: conservative, and no harm.
	{"anyOf reordered", inputProperty(`{"anyOf":[{"type":"string"},{"type":"null"}]}`), inputProperty(`{"anyOf":[{"type":"null"},{"type":"string"}]}`), "c", "widening", "alternatives_reordered"},
	{"oneOf reordered", inputProperty(`{"oneOf":[{"type":"string"},{"type":"null"}]}`), inputProperty(`{"oneOf":[{"type":"null"},{"type":"string"}]}`), "c", "widening", "alternatives_reordered"},
	{"allOf reordered", inputProperty(`{"allOf":[{"maxLength":2},{"minLength":1}]}`), inputProperty(`{"allOf":[{"minLength":1},{"maxLength":2}]}`), "c", "widening", "alternatives_reordered"},
	{"a definition renamed", definitions(`"A":{"type":"string"}`, `{"$ref":"#/$defs/A"}`), definitions(`"B":{"type":"string"}`, `{"$ref":"#/$defs/B"}`), "c", "widening", "definition_removed definition_added reference_renamed"},
	{"a reference inlined", definitions(`"A":{"type":"string"}`, `{"$ref":"#/$defs/A"}`), definitions(`"A":{"type":"string"}`, `{"type":"string"}`), "c", "widening", "rewritten"},
	{"a type as a list", inputProperty(`{"type":"string"}`), inputProperty(`{"type":["string"]}`), "c", "widening", "rewritten"},
	{"const as enum", inputProperty(`{"const":"a"}`), inputProperty(`{"enum":["a"]}`), "c", "widening", "rewritten"},
	{"true in place of nothing said", inputProperty(`{}`), inputProperty(`true`), "c", "widening", "rewritten"},
	{"values as titled constants", inputProperty(`{"type":"string","enum":["a","b"]}`), inputProperty(`{"oneOf":[{"const":"b","title":"B"},{"const":"a"}]}`), "ct", "widening", "rewritten text_added"},
	{"values as titled constants of a type", inputProperty(`{"type":"string","enum":["a","b"]}`), inputProperty(`{"type":"string","oneOf":[{"const":"a"},{"const":"b"}]}`), "c", "widening", "rewritten"},
	{"constants as values", inputProperty(`{"anyOf":[{"const":"a"},{"enum":["b","c"]}]}`), inputProperty(`{"enum":["a","b","c"]}`), "c", "widening", "rewritten"},
	{"values as constants, one more", inputProperty(`{"enum":["a","b"]}`), inputProperty(`{"oneOf":[{"const":"a"},{"const":"b"},{"const":"c"}]}`), "c", "widening", "enum_value_added"},
	{"values as constants, one less", inputProperty(`{"enum":["a","b"]}`), inputProperty(`{"anyOf":[{"const":"a"}]}`), "c", "breaking", "enum_value_removed rewritten"},
	{"values as constants that exclude each other", inputProperty(`{"enum":["a"]}`), inputProperty(`{"oneOf":[{"enum":["a","b"]},{"const":"b"}]}`), "c", "breaking", "alternative_added enum_value_added"},
	{"another limit beside the only one", inputProperty(`{"allOf":[{"type":"string"}]}`), inputProperty(`{"allOf":[{"type":"string"},{"maxLength":3}]}`), "c", "breaking", "constraint_added"},
	{"a limit less beside another", inputProperty(`{"allOf":[{"type":"string"},{"maxLength":3}]}`), inputProperty(`{"allOf":[{"type":"string"}]}`), "c", "widening", "constraint_removed"},
	{"nullable as alternatives", inputProperty(`{"type":["string","null"],"maxLength":3}`), inputProperty(`{"anyOf":[{"type":"string","maxLength":3},{"type":"null"}]}`), "c", "widening", "rewritten"},
	{"one alternative", inputProperty(`{"allOf":[{"type":"string"}]}`), inputProperty(`{"type":"string"}`), "c", "widening", "rewritten"},
	{"a tuple of draft-07 in 2020-12", inputTool(draft07 + `"properties":{"x":{"items":[{"type":"string"}]}}`), inputTool(draft2020 + `"properties":{"x":{"prefixItems":[{"type":"string"}]}}`), "c", "widening", "dialect_changed rewritten"},

	{"an unknown dialect", inputTool(`"properties":{}`), inputTool(`"$schema":"https://example.com/mine","properties":{}`), "c", "breaking", "dialect_changed"},
	{"a tuple of draft-07 read as 2020-12", inputTool(draft07 + `"properties":{"x":{"items":[{"type":"string"}]}}`), inputTool(draft2020 + `"properties":{"x":{"items":[{"type":"string"}]}}`), "c", "breaking", "dialect_changed"},
	{"definitions of draft-07 in 2020-12", inputTool(draft07 + `"definitions":{"A":{}}`), inputTool(draft2020 + `"definitions":{"A":{}}`), "c", "widening", "dialect_changed"},

	// Contract of the input.
	{"prefixItems reordered", inputProperty(`{"prefixItems":[{"type":"string"},{"type":"number"}]}`), inputProperty(`{"prefixItems":[{"type":"number"},{"type":"string"}]}`), "c", "breaking", "type_changed 2"},
	{"input: enum value added", inputProperty(`{"enum":["a"]}`), inputProperty(`{"enum":["a","b"]}`), "c", "widening", "enum_value_added"},
	{"input: enum value removed", inputProperty(`{"enum":["a","b"]}`), inputProperty(`{"enum":["a"]}`), "c", "breaking", "enum_value_removed"},
	{"input: values listed now", inputProperty(`{"type":"string"}`), inputProperty(`{"type":"string","enum":["a"]}`), "c", "breaking", "enum_added"},
	{"input: values listed no longer", inputProperty(`{"type":"string","enum":["a"]}`), inputProperty(`{"type":"string"}`), "c", "widening", "enum_removed"},
	{"input: const", inputProperty(`{"const":"a"}`), inputProperty(`{"const":"b"}`), "c", "breaking", "enum_value_removed enum_value_added"},
	{"default changed", inputProperty(`{"default":1}`), inputProperty(`{"default":2}`), "c", "narrowing", "default_changed"},
	{"default comes", inputProperty(`{"type":"integer"}`), inputProperty(`{"type":"integer","default":1}`), "c", "widening", "default_added"},
	{"default goes", inputProperty(`{"default":1}`), inputProperty(`{}`), "c", "narrowing", "default_removed"},
	{"a big maximum by one", inputProperty(`{"maximum":9007199254740993}`), inputProperty(`{"maximum":9007199254740992}`), "c", "narrowing", "bound_tightened"},
	{"a bound in another writing and looser", inputProperty(`{"maximum":0.15e2}`), inputProperty(`{"maximum":100}`), "c", "widening", "bound_loosened"},
	{"a negative bound tighter", inputProperty(`{"minimum":-10}`), inputProperty(`{"minimum":-9.5}`), "c", "narrowing", "bound_tightened"},
	{"a bound that bounds nothing", inputProperty(`{"type":"string"}`), inputProperty(`{"type":"string","minLength":0}`), "c", "widening", "rewritten"},
	{"a pattern", inputProperty(`{"type":"string"}`), inputProperty(`{"type":"string","pattern":"^a"}`), "c", "narrowing", "constraint_added"},
	{"additionalProperties false comes", inputTool(`"properties":{}`), inputTool(`"properties":{},"additionalProperties":false`), "c", "breaking", "unknown_properties_forbidden"},
	{"additionalProperties false goes", inputTool(`"properties":{},"additionalProperties":false`), inputTool(`"properties":{}`), "c", "widening", "unknown_properties_allowed"},
	{"additionalProperties of a type", inputTool(`"properties":{}`), inputTool(`"additionalProperties":{"type":"string"},"properties":{}`), "c", "breaking", "unknown_properties_restricted"},
	{"optional parameter added", inputTool(`"properties":{}`), inputTool(`"properties":{"x":{"type":"string"}}`), "c", "widening", "property_added"},
	{"required parameter added", inputTool(`"properties":{}`), inputTool(`"properties":{"x":{"type":"string"}},"required":["x"]`), "c", "breaking", "required_property_added"},
	{"parameter made required", inputProperty(`{}`), inputTool(`"properties":{"x":{}},"required":["x"]`), "c", "breaking", "property_made_required"},
	{"parameter made optional", inputTool(`"properties":{"x":{}},"required":["x"]`), inputProperty(`{}`), "c", "widening", "property_made_optional"},
	{"required without a description", inputTool(`"properties":{}`), inputTool(`"properties":{},"required":["x"]`), "c", "breaking", "property_made_required"},
	{"optional parameter removed, unknown ones allowed", inputProperty(`{}`), inputTool(`"properties":{}`), "c", "narrowing", "property_removed"},
	{"optional parameter removed, unknown ones refused", inputTool(`"additionalProperties":false,"properties":{"x":{}}`), inputTool(`"additionalProperties":false,"properties":{}`), "c", "breaking", "property_removed"},
	{"required parameter removed", inputTool(`"properties":{"x":{}},"required":["x"]`), inputTool(`"properties":{}`), "c", "breaking", "property_removed"},
	{"type narrowed", inputProperty(`{"type":"number"}`), inputProperty(`{"type":"integer"}`), "c", "breaking", "type_narrowed"},
	{"type widened", inputProperty(`{"type":"integer"}`), inputProperty(`{"type":["number","null"]}`), "c", "widening", "type_widened"},
	{"type changed", inputProperty(`{"type":"string"}`), inputProperty(`{"type":"number"}`), "c", "breaking", "type_changed"},
	{"type declared for listed values", inputProperty(`{"enum":["a"]}`), inputProperty(`{"enum":["a"],"type":"string"}`), "c", "widening", "rewritten"},
	{"a form added", inputProperty(`{"type":"object","properties":{"a":{}}}`), inputProperty(`{"anyOf":[{"type":"object","properties":{"a":{}}},{"type":"string"}]}`), "c", "widening", "alternative_added"},
	{"a form removed", inputProperty(`{"anyOf":[{"type":"object"},{"type":"string"}]}`), inputProperty(`{"type":"object"}`), "c", "breaking", "alternative_removed"},
	{"a form changed inside", inputProperty(`{"anyOf":[{"type":"object","properties":{"a":{}}},{"type":"string"}]}`), inputProperty(`{"anyOf":[{"type":"string"},{"type":"object","properties":{"a":{}},"required":["a"]}]}`), "c", "breaking", "property_made_required"},
	{"oneOf where two may fit", inputProperty(`{"oneOf":[{"type":"string"},{"type":"null"}]}`), inputProperty(`{"oneOf":[{"type":"string"},{"type":"null"},{}]}`), "c", "breaking", "alternative_added"},
	{"oneOf of separate forms", inputProperty(`{"oneOf":[{"type":"string"}]}`), inputProperty(`{"oneOf":[{"type":"string"},{"type":"null"}]}`), "c", "widening", "alternative_added"},
	{"below not", inputProperty(`{"not":{"enum":["a"]}}`), inputProperty(`{"not":{"enum":["a","b"]}}`), "c", "breaking", "constraint_changed"},
	{"a definition used below not", definitions(`"A":{"enum":["a"]}`, `{"not":{"$ref":"#/$defs/A"}}`), definitions(`"A":{"enum":["a","b"]}`, `{"not":{"$ref":"#/$defs/A"}}`), "c", "breaking", "enum_value_added"},
	{"a definition used in many places", definitions(`"A":{"enum":["a"]}`, `{"items":{"$ref":"#/$defs/A"},"default":{"$ref":1}}`), definitions(`"A":{"enum":["a","b"]}`, `{"items":{"$ref":"#/$defs/A"},"default":{"$ref":1}}`), "c", "widening", "enum_value_added"},
	{"a definition that refers to itself", definitions(`"A":{"properties":{"a":{"$ref":"#/$defs/A"}}}`, `{"$ref":"#/$defs/A"}`), definitions(`"A":{"properties":{"a":{"$ref":"#/$defs/A"}},"required":["a"]}`, `{"$ref":"#/$defs/A"}`), "c", "breaking", "property_made_required"},
	{"a reference by an anchor", definitions(`"A":{"$anchor":"a"}`, `{"$ref":"#/$defs/A"}`), definitions(`"A":{"$anchor":"a"}`, `{"$ref":"#a"}`), "c", "breaking", "reference_changed"},
	{"a reference that leads out of the tool", definitions(`"A":{}`, `{"$ref":"#/$defs/A"}`), definitions(`"A":{}`, `{"$ref":"https://example.com/schema"}`), "c", "breaking", "quarantined"},
	{"an array of another type", inputProperty(`{"type":"array","items":{"type":"string"}}`), inputProperty(`{"type":"array","items":{"type":"boolean"}}`), "c", "breaking", "type_changed"},
	{"a keyword of somebody's own", inputProperty(`{"x-order":1}`), inputProperty(`{"x-order":2}`), "c", "narrowing", "keyword_changed"},
	{"a parameter named description added", inputTool(`"properties":{}`), inputTool(`"properties":{"description":{"type":"string"}}`), "c", "widening", "property_added"},
	{"a parameter named title removed", inputTool(`"properties":{"title":{"type":"string"}}`), inputTool(`"properties":{}`), "c", "narrowing", "property_removed"},
	{"a parameter named type retyped", inputTool(`"properties":{"type":{"type":"string"}}`), inputTool(`"properties":{"type":{"type":"number"}}`), "c", "breaking", "type_changed"},
	{"a parameter named required", inputTool(`"properties":{"required":{"type":"string"}}`), inputTool(`"properties":{"required":{"type":"boolean"}}`), "c", "breaking", "type_changed"},

	// Contract of the output.
	{"output: enum value added", outputProperty(`{"enum":["a"]}`), outputProperty(`{"enum":["a","b"]}`), "c", "breaking", "enum_value_added"},
	{"output: enum value removed", outputProperty(`{"enum":["a","b"]}`), outputProperty(`{"enum":["a"]}`), "c", "narrowing", "enum_value_removed"},
	{"output: type added", outputProperty(`{"type":"string"}`), outputProperty(`{"type":["string","null"]}`), "c", "breaking", "type_widened"},
	{"output: a form added", outputProperty(`{"type":"string"}`), outputProperty(`{"anyOf":[{"type":"string"},{"type":"null"}]}`), "c", "breaking", "alternative_added"},
	{"output: required field no longer required", outputTool(`"properties":{"x":{}},"required":["x"]`), outputProperty(`{}`), "c", "breaking", "property_made_optional"},
	{"output: a field added", outputTool(`"properties":{}`), outputProperty(`{}`), "c", "widening", "property_added"},
	{"output: a required field added", outputTool(`"properties":{}`), outputTool(`"properties":{"x":{}},"required":["x"]`), "c", "widening", "required_property_added"},
	{"output: a promised field removed", outputTool(`"properties":{"x":{}},"required":["x"]`), outputTool(`"properties":{}`), "c", "breaking", "property_removed"},
	{"output: schema comes", toolWith(`"title":"T"`), toolWith(`"title":"T","outputSchema":{"type":"object"}`), "c", "widening", "output_schema_added"},
	{"output: schema goes", toolWith(`"title":"T","outputSchema":{"type":"object"}`), toolWith(`"title":"T"`), "c", "breaking", "output_schema_removed"},

	// Behaviour.
	{"readOnlyHint true to false", toolWith(`"annotations":{"readOnlyHint":true}`), toolWith(`"annotations":{"readOnlyHint":false}`), "b", "escalating", "hint_weakened"},
	{"readOnlyHint true to absent", toolWith(`"annotations":{"readOnlyHint":true}`), toolWith(`"annotations":{}`), "b", "escalating", "hint_weakened"},
	{"readOnlyHint false to true", toolWith(`"annotations":{}`), toolWith(`"annotations":{"readOnlyHint":true}`), "b", "narrowing", "hint_strengthened"},
	{"destructiveHint false to true", toolWith(`"annotations":{"destructiveHint":false}`), toolWith(`"annotations":{"destructiveHint":true}`), "b", "escalating", "hint_weakened"},
	{"destructiveHint false to absent", toolWith(`"annotations":{"destructiveHint":false}`), toolWith(`"annotations":{}`), "b", "escalating", "hint_weakened"},
	{"openWorldHint false to true", toolWith(`"annotations":{"openWorldHint":false}`), toolWith(`"annotations":{"openWorldHint":true}`), "b", "escalating", "hint_weakened"},
	{"idempotentHint true to false", toolWith(`"annotations":{"idempotentHint":true}`), toolWith(`"annotations":{"idempotentHint":false}`), "b", "escalating", "hint_weakened"},
	{"task support optional", toolWith(`"title":"T"`), toolWith(`"title":"T","execution":{"taskSupport":"optional"}`), "b", "widening", "task_support_changed"},
	{"a parameter copied into a header", inputProperty(`{"type":"string"}`), inputProperty(`{"type":"string","x-mcp-header":"X"}`), "b", "breaking", "header_mapping_changed"},
	{"a parameter copied into no header", inputProperty(`{"type":"string","x-mcp-header":"X"}`), inputProperty(`{"type":"string"}`), "b", "narrowing", "header_mapping_changed"},
	{"a page", toolWith(`"_meta":{}`), toolWith(`"_meta":{"ui":{"resourceUri":"ui://x"}}`), "b", "escalating", "page_binding_changed recorded_field_changed"},
	{"a page in the flat form", toolWith(`"_meta":{"ui/resourceUri":"ui://x"}`), toolWith(`"_meta":{"ui/resourceUri":"ui://y"}`), "b", "escalating", "page_binding_changed recorded_field_changed"},
	{"no page any more", toolWith(`"_meta":{"openai/outputTemplate":"ui://x"}`), toolWith(`"_meta":{}`), "b", "narrowing", "page_binding_changed recorded_field_changed"},
	{"task support required", toolWith(`"title":"T"`), toolWith(`"title":"T","execution":{"taskSupport":"required"}`), "b", "breaking", "task_support_changed"},

	// Faults of one tool.
	{"a faulty definition", toolWith(`"title":"T"`), toolWith(`"title":"T","title":"U"`), "c", "breaking", "quarantined"},
	{"a mended definition", toolWith(`"title":"T","title":"U"`), toolWith(`"title":"T"`), "c", "widening", "quarantine_ended"},
	{"a number beyond bounds", inputProperty(`{"maximum":1}`), inputProperty(`{"maximum":1e999999999}`), "c", "breaking", "quarantined"},
}

func TestDriftOfOneTool(t *testing.T) {
	t.Parallel()
	for _, c := range driftRows {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := lists(t, []string{c.from}, []string{c.to})
			var item registry.ItemDiff
			if len(d.Tools.Items) > 0 {
				item = d.Tools.Items[0]
			}
			if got := movedDigests(item); got != c.moves {
				t.Errorf("moved %q, want %q", got, c.moves)
			}
			if item.Severity != c.severity {
				t.Errorf("severity %q, want %q", item.Severity, c.severity)
			}
			var kinds []string
			for _, change := range item.Changes {
				kinds = append(kinds, string(change.Kind))
			}
			slices.Sort(kinds)
			want := strings.Fields(c.kinds)
			if len(want) == 2 && want[1] == "2" { // twice
				want[1] = want[0]
			}
			slices.Sort(want)
			if diff := cmp.Diff(want, kinds, cmp.Transformer("none", func(s []string) string { return strings.Join(s, " ") })); diff != "" {
				t.Errorf("kinds: %s\n%+v", diff, item.Changes)
			}
			if got, want := item.Unbinds(registry.Relaxed{}), c.moves != ""; got != want {
				t.Errorf("unbinds %t, want %t", got, want)
			}
		})
	}
}

func TestDriftOfLists(t *testing.T) {
	t.Parallel()
	a, b := `{"name":"a","inputSchema":{"type":"object"}}`, `{"name":"b","inputSchema":{"type":"object","properties":{"q":{"type":"string"}}}}`
	renamed := strings.Replace(b, `"b"`, `"find_b"`, 1)
	t.Run("order of tools", func(t *testing.T) {
		t.Parallel()
		d := lists(t, []string{a, b}, []string{b, a})
		if d.From != d.To || d.Severity != registry.SeverityNone || d.Tools.Counts != (registry.DiffCounts{Unchanged: 2}) {
			t.Errorf("%+v", d)
		}
	})
	t.Run("a tool is gone", func(t *testing.T) {
		t.Parallel()
		d := lists(t, []string{a, b}, []string{a})
		if d.Severity != registry.SeverityBreaking || d.Tools.Counts != (registry.DiffCounts{Removed: 1, Unchanged: 1}) || !d.Tools.Items[0].Unbinds(registry.Relaxed{}) {
			t.Errorf("%+v", d)
		}
	})
	t.Run("a tool is new", func(t *testing.T) {
		t.Parallel()
		d := lists(t, []string{a}, []string{a, b})
		if d.Severity != registry.SeverityWidening || d.Tools.Counts != (registry.DiffCounts{Added: 1, Unchanged: 1}) || d.Tools.Items[0].Unbinds(registry.Relaxed{}) {
			t.Errorf("%+v", d)
		}
	})
	t.Run("the same contract under another name", func(t *testing.T) {
		t.Parallel()
		d := lists(t, []string{a, b}, []string{a, renamed})
		want := []registry.Rename{{From: "b", To: "find_b", Score: d.Tools.Renamed[0].Score, Same: true}}
		if diff := cmp.Diff(want, d.Tools.Renamed); diff != "" || d.Tools.Counts != (registry.DiffCounts{Added: 1, Removed: 1, Renamed: 1, Unchanged: 1}) {
			t.Errorf("%s %+v", diff, d.Tools.Counts)
		}
	})
	t.Run("a tool without parameters under another name", func(t *testing.T) {
		t.Parallel()
		d := lists(t, []string{a}, []string{`{"name":"z","inputSchema":{"type":"object"}}`})
		if len(d.Tools.Renamed) != 1 {
			t.Errorf("%+v", d.Tools.Renamed)
		}
	})
	t.Run("worst first", func(t *testing.T) {
		t.Parallel()
		text := func(name, description string) string {
			return fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":{"type":"object"}}`, name, description)
		}
		d := lists(t,
			[]string{text("a", "1"), toolWith(`"annotations":{"readOnlyHint":true}`), text("gone", "")},
			[]string{text("a", "2"), toolWith(`"annotations":{}`), text("z", "completely other")})
		var names []string
		for _, item := range d.Tools.Items {
			names = append(names, item.Name)
		}
		if got := strings.Join(names, " "); got != "t gone z a" || d.Severity != registry.SeverityEscalating {
			t.Errorf("%s, %s", got, d.Severity)
		}
	})
}

func TestDriftOfTheServer(t *testing.T) {
	t.Parallel()
	surface := registry.Surface{
		ProtocolVersion: "2025-11-25", Name: "s", Version: "1", Instructions: "be good", Kinds: []string{"resources", "tools"},
		Prompts:   [][]byte{[]byte(`{"name":"p","arguments":[{"name":"a"},{"name":"b","required":true}]}`)},
		Resources: [][]byte{[]byte(`{"uri":"x:/1","name":"one","mimeType":"text/plain"}`)},
	}
	snapshot := func(change func(*registry.Surface)) *registry.Snapshot {
		s := surface
		if change != nil {
			change(&s)
		}
		snap, err := registry.NewSnapshot(s, registry.DefaultLimits(), time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		return &snap
	}
	for _, c := range []struct {
		name   string
		change func(*registry.Surface)
		want   string
	}{
		{"nothing", nil, ""},
		{"instructions", func(s *registry.Surface) { s.Instructions = "be bad" }, "text instructions_changed /instructions"},
		{"blanks behind instructions", func(s *registry.Surface) { s.Instructions += "\n" }, "cosmetic text_whitespace /instructions"},
		{"version", func(s *registry.Surface) { s.Version = "2" }, "cosmetic server_version_changed /serverInfo/version"},
		{"protocol", func(s *registry.Surface) { s.ProtocolVersion = "2026-07-28" }, "cosmetic protocol_version_changed /protocolVersion"},
		{"a kind of list is lost", func(s *registry.Surface) { s.Kinds = s.Kinds[1:] }, "breaking capability_lost /capabilities/resources"},
		{"a kind of list is new", func(s *registry.Surface) { s.Kinds = append([]string{"prompts"}, s.Kinds...) }, "widening capability_gained /capabilities/prompts"},
		{"a prompt's argument", func(s *registry.Surface) {
			s.Prompts = [][]byte{[]byte(`{"name":"p","arguments":[{"name":"b","required":true},{"name":"c","required":true}]}`)}
		}, "breaking required_argument_added /arguments/c, narrowing argument_removed /arguments/a"},
		{"what is said about a prompt's argument", func(s *registry.Surface) {
			s.Prompts = [][]byte{[]byte(`{"name":"p","arguments":[{"name":"b","required":true},{"name":"a","description":"new"}]}`)}
		}, "text text_added /arguments/a/description"},
		{"the rights of a page", func(s *registry.Surface) {
			s.Resources = [][]byte{[]byte(`{"uri":"x:/1","name":"one","mimeType":"text/plain","_meta":{"ui":{"csp":{}}}}`)}
		}, "escalating page_binding_changed /_meta/ui, cosmetic recorded_field_changed /_meta"},
		{"a resource's type", func(s *registry.Surface) {
			s.Resources = [][]byte{[]byte(`{"uri":"x:/1","name":"one","mimeType":"text/html"}`)}
		}, "breaking field_changed /mimeType"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := registry.Compare(snapshot(nil), snapshot(c.change))
			changes := d.Server
			for _, list := range []registry.ListDiff{d.Tools, d.Resources, d.Templates, d.Prompts} {
				for _, item := range list.Items {
					changes = append(changes, item.Changes...)
				}
			}
			var got []string
			for _, change := range changes {
				got = append(got, fmt.Sprintf("%s %s %s", change.Severity, change.Kind, change.Path))
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("got %s\nwant %s", text, c.want)
			}
		})
	}
}

func TestPolicyRelaxesTextAndMildBehaviourOnly(t *testing.T) {
	t.Parallel()
	all := registry.Relaxed{Text: true, Behaviour: true}
	for _, c := range []struct {
		name, from, to string
		unbinds        bool
	}{
		{"text", toolWith(`"title":"a"`), toolWith(`"title":"b"`), false},
		{"behaviour", toolWith(`"annotations":{}`), toolWith(`"annotations":{"readOnlyHint":true}`), false},
		{"escalating behaviour", toolWith(`"annotations":{"readOnlyHint":true}`), toolWith(`"annotations":{}`), true},
		{"contract", inputProperty(`{}`), inputProperty(`{"type":"string"}`), true},
		{"page", toolWith(`"_meta":{}`), toolWith(`"_meta":{"ui":{"resourceUri":"ui://x"}}`), true},
	} {
		d := lists(t, []string{c.from}, []string{c.to})
		if len(d.Tools.Items) == 0 || d.Tools.Items[0].Unbinds(all) != c.unbinds || c.name != "page" && !d.Tools.Items[0].Unbinds(registry.Relaxed{}) {
			t.Errorf("%s: %+v", c.name, d.Tools.Items)
		}
	}
}

func TestShownValuesAreBoundedAndShowTheDifference(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 5000)
	d := lists(t, []string{toolWith(`"description":"` + long + `a"`)}, []string{toolWith(`"description":"` + long + `b"`)})
	var before, after string
	change := d.Tools.Items[0].Changes[0]
	if err := json.Unmarshal(change.Before, &before); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(change.After, &after); err != nil {
		t.Fatal(err)
	}
	if len(before) > 200 || !strings.HasPrefix(before, "…") || !strings.HasSuffix(before, "word a") || !strings.HasSuffix(after, "word b") {
		t.Errorf("%q %q", before, after)
	}
	values := strings.Repeat(`"value",`, 5000)
	d = lists(t, []string{inputProperty(`{"default":[` + values + `1]}`)}, []string{inputProperty(`{"default":[` + values + `1.50,-0.25e-2]}`)})
	if change = d.Tools.Items[0].Changes[0]; len(change.Before) > 2000 || !json.Valid(change.Before) {
		t.Errorf("%d bytes", len(change.Before))
	}
	d = lists(t, []string{inputProperty(`{"default":[1000,0.001]}`)}, []string{inputProperty(`{"default":[-12.50,9007199254740993]}`)})
	if change = d.Tools.Items[0].Changes[0]; string(change.Before) != "[1000,0.001]" || string(change.After) != "[-12.5,9007199254740993]" {
		t.Errorf("%s %s", change.Before, change.After)
	}
}

func TestManyChangesOfOneToolAreCountedAndTheWorstListed(t *testing.T) {
	t.Parallel()
	var from, to []string
	for i := range 1000 {
		from = append(from, fmt.Sprintf(`"p%d":{"type":"string"}`, i))
		to = append(to, fmt.Sprintf(`"q%d":{"type":"string"}`, i))
	}
	d := lists(t, []string{inputTool(`"properties":{` + strings.Join(from, ",") + `}`)}, []string{inputTool(`"properties":{` + strings.Join(to, ",") + `}`)})
	changes := d.Tools.Items[0].Changes
	last := changes[len(changes)-1]
	if len(changes) != 201 || last.Kind != registry.ChangeMore || string(last.After) != "1800" {
		t.Errorf("%d changes, the last %+v", len(changes), last)
	}
}

// docs/drift.md ends with the one list of kinds.
func TestThePageOfDriftIsCurrent(t *testing.T) {
	t.Parallel()
	const path, heading = "../docs/drift.md", "## Kinds of changes\n"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, _, found := strings.Cut(string(text), heading)
	if !found {
		t.Fatalf("%s has no %q", path, heading)
	}
	page := before + heading + "\n| kind | what it means |\n|---|---|\n"
	for _, kind := range registry.ChangeKinds() {
		page += fmt.Sprintf("| `%s` | %s |\n", kind, kind.Means())
	}
	if *update {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if string(text) != page {
		t.Error("docs/drift.md does not end with the list of kinds; run go test ./registry -run PageOfDrift -update")
	}
}
