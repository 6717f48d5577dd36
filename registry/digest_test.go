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
	const draft7, draft2020 = `"$schema":"http://json-schema.org/draft-07/schema#"`, `"$schema":"https://json-schema.org/draft/2020-12/schema"`
	schema := func(s string) string { return with(`"inputSchema":` + s) }
	property := func(s string) string { return schema(`{"type":"object","properties":{"a":` + s + `}}`) }
	output := func(s string) string { return with(plain + `,"outputSchema":` + s) }
	described := func(s string) string { return with(`"description":"` + s + `",` + plain) }
	for _, c := range []struct {
		name, before, after, moves string // moves: letters of c, t, b
	}{
		// The writing of JSON.
		{"order of keys and white space", with(plain), `{ "inputSchema" : {"required":["b","a"],"properties":{"b":{"type":"integer"},"a":{"type":"string"}},"type":"object"}, "name":"t"}`, ""},
		{"escapes", described(`é/<`), described(`\u00e9\/\u003c`), ""},
		{"escapes of keys", property(`{"const":{"é":1}}`), property(`{"const":{"\u00e9":1}}`), ""},
		{"a character beyond the basic plane and its surrogates", described(`😀`), described(`\ud83d\ude00`), ""},
		{"writing of numbers", schema(`{"type":"object","maxProperties":10}`), schema(`{"type":"object","maxProperties":1.0e1}`), ""},
		{"1 and 1.0", property(`{"const":1}`), property(`{"const":1.0}`), ""},
		{"1 and 1e0", property(`{"const":1}`), property(`{"const":1e0}`), ""},
		{"100 and 1E+2", property(`{"const":100}`), property(`{"const":1E+2}`), ""},
		{"0.5 and 5e-1", property(`{"const":0.5}`), property(`{"const":5e-1}`), ""},
		{"minus zero", schema(`{"minProperties":0}`), schema(`{"minProperties":-0}`), ""},
		{"1 and a string", property(`{"const":1}`), property(`{"const":"1"}`), "c"},
		{"order of $defs", schema(`{"$defs":{"x":{},"y":{"type":"null"}}}`), schema(`{"$defs":{"y":{"type":"null"},"x":{}}}`), ""},

		// Sets and lists.
		{"order of required", schema(`{"required":["a","b"]}`), schema(`{"required":["b","a"]}`), ""},
		{"order of an enum", property(`{"enum":["x","y"]}`), property(`{"enum":["y","x"]}`), ""},
		{"order of an enum of all sorts", property(`{"enum":[1,"1",null,{"b":1,"a":[2]},true]}`), property(`{"enum":[true,{"a":[2],"b":1.0},null,"1",1]}`), ""},
		{"order of types", property(`{"type":["string","null"]}`), property(`{"type":["null","string"]}`), ""},
		{"order of dependentRequired", schema(`{"dependentRequired":{"a":["b","c"]}}`), schema(`{"dependentRequired":{"a":["c","b"]}}`), ""},
		{"order of dependencies that are names", schema(`{"dependencies":{"a":["b","c"]}}`), schema(`{"dependencies":{"a":["c","b"]}}`), ""},
		{"order of anyOf", property(`{"anyOf":[{"type":"string"},{"type":"null"}]}`), property(`{"anyOf":[{"type":"null"},{"type":"string"}]}`), "c"},
		{"order of oneOf", property(`{"oneOf":[{"type":"string"},{"type":"null"}]}`), property(`{"oneOf":[{"type":"null"},{"type":"string"}]}`), "c"},
		{"order of allOf", property(`{"allOf":[{"type":"string"},{"minLength":1}]}`), property(`{"allOf":[{"minLength":1},{"type":"string"}]}`), "c"},
		{"order of prefixItems", property(`{"prefixItems":[{"type":"string"},{"type":"null"}]}`), property(`{"prefixItems":[{"type":"null"},{"type":"string"}]}`), "c"},
		{"order of a list that is a default", property(`{"default":["a","b"]}`), property(`{"default":["b","a"]}`), "c"},
		{"order of a list named required inside a constant", property(`{"const":{"required":["a","b"]}}`), property(`{"const":{"required":["b","a"]}}`), "c"},

		// Contract.
		{"an enum value added", property(`{"enum":["x"]}`), property(`{"enum":["x","y"]}`), "c"},
		{"an enum value removed", property(`{"enum":["x","y"]}`), property(`{"enum":["x"]}`), "c"},
		{"a constant", property(`{"const":1}`), property(`{"const":2}`), "c"},
		{"a big integer by one", property(`{"maximum":9007199254740993}`), property(`{"maximum":9007199254740992}`), "c"},
		{"an integer of 40 digits by one", property(`{"maximum":1234567890123456789012345678901234567891}`), property(`{"maximum":1234567890123456789012345678901234567892}`), "c"},
		{"a default", property(`{"default":1}`), property(`{"default":2}`), "c"},
		{"a default that is null", property(`{"default":null}`), property(`{}`), "c"},
		{"additionalProperties absent and true", schema(`{"type":"object"}`), schema(`{"type":"object","additionalProperties":true}`), ""},
		{"additionalProperties absent and {}", schema(`{"type":"object"}`), schema(`{"type":"object","additionalProperties":{}}`), ""},
		{"additionalProperties absent and {} inside", property(`{"type":"object"}`), property(`{"type":"object","additionalProperties":{}}`), ""},
		{"additionalProperties absent and prose alone", schema(`{"type":"object"}`), schema(`{"type":"object","additionalProperties":{"description":"any"}}`), "t"},
		{"additionalProperties absent and false", schema(`{"type":"object"}`), schema(`{"type":"object","additionalProperties":false}`), "c"},
		{"additionalProperties absent and true where the rest is looked at", schema(`{"unevaluatedProperties":false,"allOf":[{"type":"object"}]}`), schema(`{"unevaluatedProperties":false,"allOf":[{"type":"object","additionalProperties":true}]}`), "c"},
		{"a property named additionalProperties", property(`{}`), schema(`{"type":"object","properties":{"a":{},"additionalProperties":true}}`), "c"},
		{"a definition renamed with its references", schema(`{"$defs":{"A":{}},"properties":{"a":{"$ref":"#/$defs/A"}}}`), schema(`{"$defs":{"B":{}},"properties":{"a":{"$ref":"#/$defs/B"}}}`), "c"},
		{"a reference inlined", schema(`{"$defs":{"A":{"type":"null"}},"properties":{"a":{"$ref":"#/$defs/A"}}}`), schema(`{"$defs":{"A":{"type":"null"}},"properties":{"a":{"type":"null"}}}`), "c"},
		{"a type and a list of it", property(`{"type":"string"}`), property(`{"type":["string"]}`), "c"},
		{"an optional parameter added", schema(`{"properties":{"a":{}}}`), schema(`{"properties":{"a":{},"b":{}}}`), "c"},
		{"a parameter made required", schema(`{"properties":{"a":{}}}`), schema(`{"properties":{"a":{}},"required":["a"]}`), "c"},
		{"an output schema", with(plain), output(`{"type":"object"}`), "c"},
		{"an output schema that is null", with(plain), output(`null`), ""},
		{"a field of the output", output(`{"properties":{"a":{}}}`), output(`{"properties":{"a":{},"b":{}}}`), "c"},
		{"an unknown keyword", schema(`{"type":"object","x-y":1}`), schema(`{"type":"object","x-y":2}`), "c"},
		{"prose in an unknown keyword", schema(`{"type":"object","x-y":{"description":"a"}}`), schema(`{"type":"object","x-y":{"description":"b"}}`), "c"},
		{"$id", schema(`{"type":"object","$id":"https://a.test/1"}`), schema(`{"type":"object","$id":"https://a.test/2"}`), "c"},
		{"a pattern", property(`{"pattern":"^a"}`), property(`{"pattern":"^b"}`), "c"},

		// Names that are no keywords.
		{"a parameter named description", schema(`{"properties":{"description":{"type":"string"}}}`), schema(`{"properties":{"description":{"type":"integer"}}}`), "c"},
		{"a parameter named title goes", schema(`{"properties":{"title":{"type":"string"}}}`), schema(`{"properties":{}}`), "c"},
		{"a parameter named type comes", schema(`{"properties":{}}`), schema(`{"properties":{"type":{}}}`), "c"},
		{"a parameter named required", schema(`{"properties":{"required":{"type":"string"}}}`), schema(`{"properties":{"required":{"type":"boolean"}}}`), "c"},
		{"a parameter named $schema", schema(`{"properties":{"$schema":{"type":"string"}}}`), schema(`{"properties":{"$schema":{"type":"boolean"}}}`), "c"},
		{"a definition named examples", schema(`{"$defs":{"examples":{"type":"string"}}}`), schema(`{"$defs":{"examples":{"type":"boolean"}}}`), "c"},
		{"a pattern of properties named title", schema(`{"patternProperties":{"title":{"type":"string"}}}`), schema(`{"patternProperties":{"title":{"type":"boolean"}}}`), "c"},
		{"a description inside a constant", property(`{"const":{"description":"a"}}`), property(`{"const":{"description":"b"}}`), "c"},
		{"a description inside a default", property(`{"default":{"description":"a"}}`), property(`{"default":{"description":"b"}}`), "c"},
		{"a description inside an enum", property(`{"enum":[{"description":"a"}]}`), property(`{"enum":[{"description":"b"}]}`), "c"},
		{"a description inside an example", property(`{"examples":[{"description":"a"}]}`), property(`{"examples":[{"description":"b"}]}`), "t"},
		{"a description inside dependencies", schema(`{"dependencies":{"a":{"description":"a"}}}`), schema(`{"dependencies":{"a":{"description":"b"}}}`), "t"},

		// Text.
		{"description", described("a"), described("b"), "t"},
		{"description absent and empty", with(plain), described(""), ""},
		{"title", with(plain), with(`"title":"T",` + plain), "t"},
		{"the title of annotations", with(plain), with(`"annotations":{"title":"T"},` + plain), "t"},
		{"a title that moves", with(`"title":"T",` + plain), with(`"annotations":{"title":"T"},` + plain), "t"},
		{"a parameter's description", property(`{"description":"x"}`), property(`{"description":"y"}`), "t"},
		{"a parameter's title", property(`{}`), property(`{"title":"y"}`), "t"},
		{"a comment", property(`{}`), property(`{"$comment":"y"}`), "t"},
		{"two parameters' descriptions swapped", schema(`{"properties":{"a":{"description":"x"},"b":{"description":"y"}}}`), schema(`{"properties":{"a":{"description":"y"},"b":{"description":"x"}}}`), "t"},
		{"a description that moves to the input schema", with(`"description":"x","inputSchema":{"type":"object"}`), schema(`{"type":"object","description":"x"}`), "t"},
		{"prose deep in lists", property(`{"anyOf":[{},{"items":{"not":{"description":"x"}}}]}`), property(`{"anyOf":[{},{"items":{"not":{"description":"y"}}}]}`), "t"},
		{"prose of the output", output(`{"properties":{"a":{"description":"x"}}}`), output(`{"properties":{"a":{"description":"y"}}}`), "t"},
		{"examples changed", schema(`{"examples":[1,2]}`), schema(`{"examples":[1,3]}`), "t"},
		{"examples reordered", schema(`{"examples":[1,2]}`), schema(`{"examples":[2,1]}`), "t"},
		{"an invisible character", described("a"), described(`a\u200b`), "t"},
		{"a bidirectional mark", described("a"), described(`\u202ea`), "t"},
		{"a tag character", described("a"), described("a󠁁"), "t"},
		{"a homoglyph", described("paypal"), described("pаypal"), "t"},
		{"NFC and NFD", described(`\u00e9`), described(`e\u0301`), "t"},
		{"trailing blanks and line ends", described(`a\nb`), described(`a  \r\nb \n`), ""},
		{"trailing blanks of a parameter's description", property(`{"description":"x"}`), property(`{"description":"x \r\n"}`), ""},
		{"leading blanks", described("a"), described(" a"), "t"},
		{"blanks inside", described("a b"), described("a  b"), "t"},

		// Behaviour.
		{"a tool is no longer read-only", with(`"annotations":{"readOnlyHint":true},` + plain), with(`"annotations":{"readOnlyHint":false},` + plain), "b"},
		{"a hint that goes", with(`"annotations":{"readOnlyHint":true},` + plain), with(plain), "b"},
		{"a tool becomes destructive", with(`"annotations":{"destructiveHint":false},` + plain), with(`"annotations":{"destructiveHint":true},` + plain), "b"},
		{"a tool reaches the open world", with(`"annotations":{"openWorldHint":false},` + plain), with(plain), "b"},
		{"hints at their defaults", with(plain), with(`"annotations":{"readOnlyHint":false,"destructiveHint":true,"openWorldHint":true,"idempotentHint":false},` + plain), ""},
		{"annotations null", with(plain), with(`"annotations":null,` + plain), ""},
		{"task support at its default", with(plain), with(`"execution":{"taskSupport":"forbidden"},` + plain), ""},
		{"execution empty", with(plain), with(`"execution":{},` + plain), ""},
		{"task support", with(plain), with(`"execution":{"taskSupport":"required"},` + plain), "b"},
		{"execution of another sort", with(plain), with(`"execution":{"elsewhere":true},` + plain), "b"},
		{"a parameter becomes a header", property(`{"type":"string"}`), property(`{"type":"string","x-mcp-header":"Region"}`), "b"},
		{"a parameter becomes another header", property(`{"type":"string","x-mcp-header":"Zone"}`), property(`{"type":"string","x-mcp-header":"Region"}`), "b"},
		{"a header of another parameter", schema(`{"properties":{"a":{"type":"string","x-mcp-header":"H"},"b":{"type":"string"}}}`), schema(`{"properties":{"a":{"type":"string"},"b":{"type":"string","x-mcp-header":"H"}}}`), "b"},
		{"a parameter named x-mcp-header", schema(`{"properties":{"x-mcp-header":{"type":"string"}}}`), schema(`{"properties":{"x-mcp-header":{"type":"null"}}}`), "c"},
		{"a page", with(plain), with(`"_meta":{"ui":{"resourceUri":"ui://a"}},` + plain), "b"},
		{"another page", with(`"_meta":{"ui":{"resourceUri":"ui://b"}},` + plain), with(`"_meta":{"ui":{"resourceUri":"ui://a"}},` + plain), "b"},
		{"a page by the older key", with(plain), with(`"_meta":{"ui/resourceUri":"ui://a"},` + plain), "b"},
		{"a page by the key of another host", with(plain), with(`"_meta":{"openai/outputTemplate":"ui://a"},` + plain), "b"},
		{"who may call", with(plain), with(`"_meta":{"ui":{"visibility":["app"]}},` + plain), "b"},
		{"who may call at its default", with(plain), with(`"_meta":{"ui":{"visibility":["app","model"]}},` + plain), ""},

		// What moves nothing.
		{"_meta and icons", with(plain), with(`"_meta":{"x":1},"icons":[],` + plain), ""},
		{"the rest of _meta.ui", with(plain), with(`"_meta":{"ui":{"prefersBorder":true}},` + plain), ""},
		{"an unknown field", with(plain), with(`"zzz":1,` + plain), ""},
		{"an unknown hint", with(plain), with(`"annotations":{"zzz":1},` + plain), ""},
		{"fields of the list", with(plain), with(`"ttlMs":1,"cacheScope":"private",` + plain), ""},

		// Dialects.
		{"dialect and nothing else", schema(`{"type":"object",` + draft7 + `}`), schema(`{"type":"object",` + draft2020 + `}`), ""},
		{"dialect with a list of schemas", schema(`{"prefixItems":[{}],"not":{"items":{}},` + draft7 + `}`), schema(`{"prefixItems":[{}],"not":{"items":{}},` + draft2020 + `}`), ""},
		{"dialect and none", schema(`{"type":"object",` + draft7 + `}`), schema(`{"type":"object"}`), ""},
		{"dialect of the output", output(`{"type":"object",` + draft7 + `}`), output(`{"type":"object",` + draft2020 + `}`), ""},
		{"dialect with a tuple", schema(`{"properties":{"a":{"items":[{}]}},` + draft7 + `}`), schema(`{"properties":{"a":{"items":[{}]}},` + draft2020 + `}`), "c"},
		{"dialect with additionalItems", schema(`{"properties":{"a":{"additionalItems":false}},` + draft7 + `}`), schema(`{"properties":{"a":{"additionalItems":false}},` + draft2020 + `}`), "c"},
		{"dialect with definitions", schema(`{"definitions":{"a":{}},` + draft7 + `}`), schema(`{"definitions":{"a":{}},` + draft2020 + `}`), "c"},
		{"dialect with dependencies", schema(`{"dependencies":{"a":["b"]},` + draft7 + `}`), schema(`{"dependencies":{"a":["b"]},` + draft2020 + `}`), "c"},
		{"dialect with something beside a reference", schema(`{"$defs":{"a":{}},"properties":{"a":{"$ref":"#/$defs/a","minLength":1}},` + draft7 + `}`), schema(`{"$defs":{"a":{}},"properties":{"a":{"$ref":"#/$defs/a","minLength":1}},` + draft2020 + `}`), "c"},
		{"dialect with prose beside a reference", schema(`{"$defs":{"a":{}},"properties":{"a":{"$ref":"#/$defs/a","description":"d"}},` + draft7 + `}`), schema(`{"$defs":{"a":{}},"properties":{"a":{"$ref":"#/$defs/a","description":"d"}},` + draft2020 + `}`), ""},
		{"dialect with a boolean bound", schema(`{"properties":{"a":{"exclusiveMinimum":true}},` + draft7 + `}`), schema(`{"properties":{"a":{"exclusiveMinimum":true}},` + draft2020 + `}`), "c"},
		{"dialect with a bound that is a number", schema(`{"properties":{"a":{"exclusiveMaximum":1}},` + draft7 + `}`), schema(`{"properties":{"a":{"exclusiveMaximum":1}},` + draft2020 + `}`), ""},
		{"dialect with a parameter named definitions", schema(`{"properties":{"definitions":{}},` + draft7 + `}`), schema(`{"properties":{"definitions":{}},` + draft2020 + `}`), ""},
		{"the dialect that is meant by none", schema(`{"definitions":{"a":{}}}`), schema(`{"definitions":{"a":{}},` + draft2020 + `}`), ""},
		{"a dialect with and without its empty fragment", schema(`{"definitions":{"a":{}},` + draft7 + `}`), schema(`{"definitions":{"a":{}},"$schema":"http://json-schema.org/draft-07/schema"}`), ""},
		{"an unknown dialect", schema(`{"type":"object",` + draft7 + `}`), schema(`{"type":"object","$schema":"https://a.test/dialect"}`), "c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, b := tool(t, c.before), tool(t, c.after)
			if a.Verdict+b.Verdict != "" {
				t.Fatalf("quarantined: %s %s, %s %s", a.Verdict, a.Detail, b.Verdict, b.Detail)
			}
			if moved := moved(a.Digests, b.Digests); moved != c.moves {
				t.Errorf("moved %q, want %q", moved, c.moves)
			}
		})
	}
}

// moved gives the first letters of the digests that differ.
func moved(a, b registry.Digests) string {
	s := ""
	if a.Contract != b.Contract {
		s += "c"
	}
	if a.Text != b.Text {
		s += "t"
	}
	if a.Behaviour != b.Behaviour {
		s += "b"
	}
	return s
}

func TestWhatMovesWhichDigestOfOtherItems(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                 string
		kind                 registry.ItemKind
		before, after, moves string
	}{
		{"order of keys", registry.KindResource, `{"uri":"a:b","name":"n"}`, `{"name":"n","uri":"a:b"}`, ""},
		{"the name of a resource", registry.KindResource, `{"uri":"a:b","name":"n"}`, `{"uri":"a:b","name":"m"}`, "c"},
		{"the type of a resource", registry.KindResource, `{"uri":"a:b"}`, `{"uri":"a:b","mimeType":"text/html"}`, "c"},
		{"the description of a resource", registry.KindResource, `{"uri":"a:b"}`, `{"uri":"a:b","description":"d"}`, "t"},
		{"the title of a resource", registry.KindResource, `{"uri":"a:b","title":"a"}`, `{"uri":"a:b","title":"a "}`, ""},
		{"size, annotations, icons and _meta of a resource", registry.KindResource, `{"uri":"a:b"}`, `{"uri":"a:b","size":7,"annotations":{"lastModified":"2026-01-01"},"icons":[],"_meta":{}}`, ""},
		{"an unknown field of a resource", registry.KindResource, `{"uri":"a:b"}`, `{"uri":"a:b","text":"t"}`, ""},
		{"what a page may do", registry.KindResource, `{"uri":"ui://b"}`, `{"uri":"ui://b","_meta":{"ui":{"csp":{"connectDomains":["https://a.test"]}}}}`, "b"},
		{"a template", registry.KindTemplate, `{"uriTemplate":"a:{b}"}`, `{"uriTemplate":"a:{c}"}`, "c"},
		{"the description of a template", registry.KindTemplate, `{"uriTemplate":"a:{b}"}`, `{"uriTemplate":"a:{b}","description":"d"}`, "t"},
		{"order of arguments", registry.KindPrompt, `{"name":"p","arguments":[{"name":"a"},{"name":"b"}]}`, `{"name":"p","arguments":[{"name":"b"},{"name":"a"}]}`, ""},
		{"an argument", registry.KindPrompt, `{"name":"p","arguments":[{"name":"a"}]}`, `{"name":"p","arguments":[{"name":"a"},{"name":"b"}]}`, "c"},
		{"an argument that is required", registry.KindPrompt, `{"name":"p","arguments":[{"name":"a"}]}`, `{"name":"p","arguments":[{"name":"a","required":true}]}`, "c"},
		{"an argument that is not required", registry.KindPrompt, `{"name":"p","arguments":[{"name":"a"}]}`, `{"name":"p","arguments":[{"name":"a","required":false}]}`, ""},
		{"the description of an argument", registry.KindPrompt, `{"name":"p","arguments":[{"name":"a"}]}`, `{"name":"p","arguments":[{"name":"a","description":"d"}]}`, "t"},
		{"descriptions of arguments swapped", registry.KindPrompt, `{"name":"p","arguments":[{"name":"a","description":"d"},{"name":"b"}]}`, `{"name":"p","arguments":[{"name":"a"},{"name":"b","description":"d"}]}`, "t"},
		{"no arguments", registry.KindPrompt, `{"name":"p"}`, `{"name":"p","description":"d"}`, "t"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := registry.NewItem(c.kind, "p", []byte(c.before), registry.DefaultLimits())
			b := registry.NewItem(c.kind, "p", []byte(c.after), registry.DefaultLimits())
			if a.Verdict+b.Verdict != "" {
				t.Fatalf("quarantined: %s %s, %s %s", a.Verdict, a.Detail, b.Verdict, b.Detail)
			}
			if moved := moved(a.Digests, b.Digests); moved != c.moves {
				t.Errorf("moved %q, want %q", moved, c.moves)
			}
		})
	}
}

func TestWhatMovesTheSnapshot(t *testing.T) {
	t.Parallel()
	base := func() registry.Surface {
		return registry.Surface{
			Instructions: "Be kind.", Kinds: []string{"tools"}, Version: "1", ProtocolVersion: "2025-11-25",
			Tools: [][]byte{[]byte(with(plain)), []byte(`{"name":"u","inputSchema":{"type":"object"}}`)},
		}
	}
	digest := func(s registry.Surface) string {
		snap, err := registry.NewSnapshot(s, registry.DefaultLimits(), time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		return snap.Digest
	}
	for name, c := range map[string]struct {
		change func(*registry.Surface)
		moves  bool
	}{
		"order of tools":            {func(s *registry.Surface) { slices.Reverse(s.Tools) }, false},
		"version of the server":     {func(s *registry.Surface) { s.Version = "2" }, false},
		"version of the protocol":   {func(s *registry.Surface) { s.ProtocolVersion = "2026-07-28" }, false},
		"_meta of a tool":           {func(s *registry.Surface) { s.Tools[0] = []byte(with(plain + `,"_meta":{"a":1}`)) }, false},
		"line ends of the text":     {func(s *registry.Surface) { s.Instructions = "Be kind.\r\n" }, false},
		"instructions":              {func(s *registry.Surface) { s.Instructions = "Be quick." }, true},
		"a kind":                    {func(s *registry.Surface) { s.Kinds = []string{"prompts", "tools"} }, true},
		"a tool":                    {func(s *registry.Surface) { s.Tools = s.Tools[:1] }, true},
		"a resource":                {func(s *registry.Surface) { s.Resources = [][]byte{[]byte(`{"uri":"a:b"}`)} }, true},
		"an unknown field":          {func(s *registry.Surface) { s.Tools[0] = []byte(with(plain + `,"zzz":1`)) }, true},
		"an unknown hint":           {func(s *registry.Surface) { s.Tools[0] = []byte(with(plain + `,"annotations":{"zzz":1}`)) }, true},
		"a tool that has a fault":   {func(s *registry.Surface) { s.Tools[0] = []byte(with(plain + `,"zzz":1e999`)) }, true},
		"a tool under another name": {func(s *registry.Surface) { s.Tools[1] = []byte(`{"name":"v","inputSchema":{"type":"object"}}`) }, true},
	} {
		s := base()
		c.change(&s)
		if got := digest(s) != digest(base()); got != c.moves {
			t.Errorf("%s: moved %v, want %v", name, got, c.moves)
		}
	}
}

// What two parsers could read differently is a fault of the tool, as is what refers
// elsewhere (threats B20, B22).
func TestFaultsOfOneTool(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"not":`, 80) + "{}" + strings.Repeat("}", 80)
	schema := func(s string) string { return with(`"inputSchema":` + s) }
	property := func(s string) string { return schema(`{"type":"object","properties":{"a":` + s + `}}`) }
	header := func(name string) string { return `{"type":"string","x-mcp-header":` + name + `}` }
	const (
		ok        = registry.Reason("")
		malformed = registry.ReasonMalformedField
		ambiguous = registry.ReasonAmbiguousKeys
		invalid   = registry.ReasonInvalidSchema
		remote    = registry.ReasonRemoteRef
		mapping   = registry.ReasonInvalidHeaderMapping
	)
	for _, c := range []struct {
		name, raw string
		want      registry.Reason
	}{
		{"plain", with(plain), ok},
		{"too deep", with(`"inputSchema":` + deep), registry.ReasonTooDeep},
		{"too large", with(`"description":"` + strings.Repeat("a", 300<<10) + `",` + plain), registry.ReasonTooLarge},

		{"duplicate key", with(`"description":"a","description":"b",` + plain), ambiguous},
		{"duplicate key by an escape", with(`"description":"a","descriptio\u006e":"b",` + plain), ambiguous},
		{"duplicate key deep inside", property(`{"const":{"b":1,"a":1,"b":1}}`), ambiguous},
		{"key that differs in case", with(`"description":"a","Description":"b",` + plain), ambiguous},
		{"key that differs in case, alone", with(`"Description":"b",` + plain), ambiguous},
		{"case by a folding character", with(`"deſcription":"b",` + plain), ambiguous},
		{"case by the sign for kelvin", with(`"execution":{"tas\u212aSupport":"required"},` + plain), ambiguous},
		{"hint that differs in case", with(`"annotations":{"readonlyHint":true},` + plain), ambiguous},
		{"execution that differs in case", with(`"execution":{"tasksupport":"required"},` + plain), ambiguous},
		{"keyword that differs in case", property(`{"Type":"string"}`), ambiguous},
		{"keyword by a folding character", property(`{"conſt":1}`), ambiguous},
		{"parameter that differs from a keyword in case", schema(`{"properties":{"Type":{},"TITLE":{}}}`), ok},

		{"NUL", with(`"description":"a\u0000",` + plain), malformed},
		{"NUL in a key", with(`"name\u0000":"a",` + plain), malformed},
		{"half a surrogate pair", with(`"description":"\ud800",` + plain), malformed},
		{"the other half of a surrogate pair", with(`"description":"\udc00\ud800",` + plain), malformed},
		{"half a surrogate pair in a key", property(`{"const":{"\ud800":1}}`), malformed},
		{"exponent beyond bounds", property(`{"maximum":1e999999999}`), malformed},
		{"exponent beyond bounds by one", property(`{"maximum":1e401}`), malformed},
		{"exponent at the bound", property(`{"maximum":1e400}`), ok},
		{"negative exponent beyond bounds", property(`{"maximum":1e-401}`), malformed},
		{"exponent of 100 digits", property(`{"maximum":1e` + strings.Repeat("9", 100) + `}`), malformed},
		{"a number of 1,000 digits", property(`{"maximum":` + strings.Repeat("9", 1000) + `}`), ok},
		{"a number of 1,001 digits", property(`{"maximum":` + strings.Repeat("9", 1001) + `}`), malformed},
		{"a number of 100,000 digits", property(`{"maximum":` + strings.Repeat("9", 100_000) + `}`), malformed},
		{"description of another type", with(`"description":7,` + plain), malformed},
		{"description null", with(`"description":null,` + plain), ok},
		{"annotations of another type", with(`"annotations":[],` + plain), malformed},
		{"hint of another type", with(`"annotations":{"readOnlyHint":"yes"},` + plain), malformed},
		{"task support of another type", with(`"execution":{"taskSupport":true},` + plain), malformed},
		{"icons of another type", with(`"icons":"x",` + plain), malformed},
		{"_meta of another type", with(`"_meta":7,` + plain), malformed},

		{"no input schema", with(""), invalid},
		{"input schema null", with(`"inputSchema":null`), invalid},
		{"input schema true", with(`"inputSchema":true`), invalid},
		{"input schema empty", with(`"inputSchema":{}`), invalid},
		{"input schema of a dialect alone", with(`"inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#"}`), invalid},
		{"input schema of a string", with(`"inputSchema":{"type":"string"}`), invalid},
		{"input schema without a type", schema(`{"properties":{}}`), ok},
		{"input schema of alternatives", schema(`{"oneOf":[{"required":["a"]},{"required":["b"]}]}`), ok},
		{"output schema true", with(plain + `,"outputSchema":true`), invalid},
		{"output schema of a list", with(plain + `,"outputSchema":{"type":"array","items":{}}`), ok},
		{"boolean schemas", schema(`{"properties":{"a":true,"b":false},"additionalProperties":false}`), ok},
		{"a schema that is a string", property(`"string"`), invalid},
		{"a schema that is null", property(`null`), invalid},
		{"properties that are a list", schema(`{"properties":[]}`), invalid},
		{"a type that does not exist", property(`{"type":"unknown"}`), invalid},
		{"a list with a type that does not exist", property(`{"type":["string","any"]}`), invalid},
		{"a type that is a schema", property(`{"type":{"a":1}}`), invalid},
		{"no types", property(`{"type":[]}`), invalid},
		{"required that is a boolean", property(`{"required":true}`), invalid},
		{"required of numbers", schema(`{"required":[1]}`), invalid},
		{"an enum that is no list", property(`{"enum":"a"}`), invalid},
		{"no alternatives", property(`{"anyOf":[]}`), invalid},
		{"alternatives that are an object", property(`{"anyOf":{}}`), invalid},
		{"a tuple", property(`{"items":[{},true]}`), ok},
		{"a bound that is a string", property(`{"minimum":"1"}`), invalid},
		{"a boolean bound", property(`{"minimum":1,"exclusiveMinimum":true}`), ok},
		{"a length that is negative", property(`{"minLength":-1}`), invalid},
		{"a length that is no whole number", property(`{"minLength":1.5}`), invalid},
		{"a length that is a whole number", property(`{"minLength":1.0}`), ok},
		{"multiples of 0", property(`{"multipleOf":0}`), invalid},
		{"prose of another type", property(`{"description":7}`), invalid},
		{"prose that is null", property(`{"description":null}`), ok},
		{"examples of another type", property(`{"examples":"x"}`), ok},
		{"keywords of an unknown dialect", schema(`{"$schema":"https://a.test/d","type":"any","properties":{"a":{"type":"thing","minimum":"x"}}}`), invalid},
		{"keywords of an unknown dialect inside", schema(`{"$schema":"https://a.test/d","properties":{"a":{"type":"thing","minimum":"x"}}}`), ok},

		{"a pattern", property(`{"pattern":"^(?:a|b)[^\\]x]{2,3}$"}`), ok},
		{"a pattern that looks ahead and behind", property(`{"pattern":"(?=a)(?!b)(?<=c)(?<!d)(?<n>e)\\k<n>"}`), ok},
		{"a pattern with braces that mean themselves", property(`{"pattern":"{a}{,3}x{"}`), ok},
		{"a pattern with an empty class", property(`{"pattern":"[]|[^]"}`), ok},
		{"a pattern with a class that does not close", property(`{"pattern":"[a"}`), invalid},
		{"a pattern with a group that does not close", property(`{"pattern":"(a"}`), invalid},
		{"a pattern with a group that is not open", property(`{"pattern":"a)"}`), invalid},
		{"a pattern that repeats nothing", property(`{"pattern":"*a"}`), invalid},
		{"a pattern that repeats nothing in an alternative", property(`{"pattern":"a|+"}`), invalid},
		{"a pattern that ends in an escape", property(`{"pattern":"a\\"}`), invalid},
		{"a pattern with bounds reversed", property(`{"pattern":"a{3,2}"}`), invalid},
		{"a pattern of properties", schema(`{"patternProperties":{"(":{}}}`), invalid},

		{"a reference", schema(`{"$defs":{"a":{}},"properties":{"a":{"$ref":"#/$defs/a"}}}`), ok},
		{"a reference to the root", property(`{"$ref":"#"}`), ok},
		{"a reference to itself", schema(`{"$defs":{"a":{"$ref":"#/$defs/a"}}}`), ok},
		{"a reference to a parameter", schema(`{"properties":{"a":{},"b":{"$ref":"#/properties/a"}}}`), ok},
		{"a reference with escapes", schema(`{"$defs":{"a/b~c d":{}},"properties":{"a":{"$ref":"#/$defs/a~1b~0c%20d"}}}`), ok},
		{"a reference to an alternative", schema(`{"anyOf":[{}],"properties":{"a":{"$ref":"#/anyOf/0"}}}`), ok},
		{"a reference to an anchor", schema(`{"$defs":{"a":{"$anchor":"x"}},"properties":{"a":{"$ref":"#x"}}}`), ok},
		{"a reference to an anchor of draft 7", schema(`{"definitions":{"a":{"$id":"#x"}},"properties":{"a":{"$ref":"#x"}}}`), ok},
		{"a dynamic reference", schema(`{"$dynamicAnchor":"n","properties":{"a":{"$dynamicRef":"#n"}}}`), ok},
		{"a reference into an unknown keyword", schema(`{"type":"object","x":{"a":{"type":"string"}},"properties":{"a":{"$ref":"#/x/a"}}}`), ok},
		{"a reference to nothing", property(`{"$ref":"#/$defs/a"}`), invalid},
		{"a reference to a string", property(`{"$ref":"#/type"}`), invalid},
		{"a reference to an anchor that is not there", property(`{"$ref":"#x"}`), invalid},
		{"a reference from the output to the input", schema(`{"type":"object","$defs":{"a":{}}},"outputSchema":{"$ref":"#/$defs/a"}`), invalid},
		{"a reference that is a number", property(`{"$ref":1}`), invalid},
		{"a parameter named $ref", schema(`{"properties":{"$ref":{"type":"string"}}}`), ok},
		{"a reference in a constant", property(`{"const":{"$ref":"https://a.test/"}}`), ok},
		{"a remote reference", property(`{"$ref":"https://a.test/schema.json#/x"}`), remote},
		{"a remote reference of the output", with(plain + `,"outputSchema":{"properties":{"a":{"$ref":"https://a.test/"}}}`), remote},
		{"a reference to a file", property(`{"$ref":"file:///etc/passwd"}`), remote},
		{"a relative reference", property(`{"$ref":"other.json"}`), remote},
		{"a remote dynamic reference", property(`{"$dynamicRef":"https://a.test/#n"}`), remote},
		{"a reference without a scheme", property(`{"$ref":"//a.test/x"}`), remote},
		{"a reference relative to $id", schema(`{"$id":"https://a.test/s","properties":{"a":{"$ref":"other"}}}`), remote},
		{"a reference to its own $id", schema(`{"$id":"https://a.test/s","properties":{"a":{"$ref":"s#/properties"},"b":{"$ref":"https://a.test/s#"}}}`), ok},
		{"a reference to a resource inside", schema(`{"$id":"https://a.test/s","$defs":{"x":{"$id":"d/x"}},"properties":{"a":{"$ref":"d/x"}}}`), ok},
		{"a reference that is relative to a resource inside", schema(`{"$id":"https://a.test/s","$defs":{"x":{"$id":"d/x","properties":{"b":{"$ref":"y"}}},"y":{"$id":"/d/y"}}}`), ok},
		{"a pointer within a resource inside", schema(`{"$defs":{"x":{"$id":"https://a.test/x","$defs":{"y":{}},"not":{"$ref":"#/$defs/y"}}},"type":"object"}`), ok},
		{"a pointer that its resource does not have", schema(`{"$defs":{"y":{},"x":{"$id":"https://a.test/x","not":{"$ref":"#/$defs/y"}}},"type":"object"}`), invalid},
		{"a remote reference behind an unknown keyword", schema(`{"type":"object","x":{"a":{"$ref":"https://a.test/"}},"properties":{"a":{"$ref":"#/x/a"}}}`), remote},
		{"a remote reference in an unknown dialect", schema(`{"$schema":"https://a.test/d","properties":{"a":{"$ref":"https://a.test/"}}}`), remote},

		{"a header", property(header(`"Region"`)), ok},
		{"a header of a nested parameter", property(`{"type":"object","properties":{"b":` + header(`"Region"`) + `}}`), ok},
		{"a header of a parameter that may be null", property(`{"type":["string","null"],"x-mcp-header":"H"}`), ok},
		{"headers", schema(`{"properties":{"a":` + header(`"A"`) + `,"b":{"type":"integer","x-mcp-header":"B"},"c":{"type":"boolean","x-mcp-header":"!#$%&'*+-.^_|~09"}}}`), ok},
		{"a header without a name", property(header(`""`)), mapping},
		{"a header that is a number", property(header(`1`)), mapping},
		{"a header that is null", property(header(`null`)), mapping},
		{"a header with a space", property(header(`"a b"`)), mapping},
		{"a header with a line end", property(header(`"a\r\nb"`)), mapping},
		{"a header with a colon", property(header(`"a:"`)), mapping},
		{"a header beyond ASCII", property(header(`"é"`)), mapping},
		{"a header twice but for case", schema(`{"properties":{"a":` + header(`"A"`) + `,"b":{"type":"object","properties":{"c":` + header(`"a"`) + `}}}}`), mapping},
		{"a header of a number", property(`{"type":"number","x-mcp-header":"H"}`), mapping},
		{"a header of an object", property(`{"type":"object","x-mcp-header":"H","properties":{"b":` + header(`"B"`) + `}}`), mapping},
		{"a header of no type", property(`{"x-mcp-header":"H"}`), mapping},
		{"a header of the root", schema(`{"type":"object","x-mcp-header":"H"}`), mapping},
		{"a header in a list", property(`{"type":"array","items":` + header(`"H"`) + `}`), mapping},
		{"a header in an alternative", schema(`{"anyOf":[{"properties":{"a":` + header(`"H"`) + `}}]}`), mapping},
		{"a header in a definition", schema(`{"type":"object","$defs":{"a":` + header(`"H"`) + `}}`), mapping},
		{"a header of additional properties", schema(`{"type":"object","additionalProperties":` + header(`"H"`) + `}`), mapping},
		{"a header in the output", with(plain + `,"outputSchema":{"properties":{"a":` + header(`""`) + `}}`), ok},
		{"a header in a default", property(`{"default":` + header(`""`) + `}`), ok},
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
