package registry

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// What the differ calls harmless is harmless: whatever a caller could give
// before is accepted still, and a reader meets nothing that it could not meet
// before. A validator of somebody else's decides, on made-up schemas and values.
func TestWhatIsCalledHarmlessIsHarmless(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	harmless, harmful := 0, 0
	for range 2000 {
		root := schemaMaker{random}.root()
		before := encoded(t, root)
		schemaMaker{random}.alter(root)
		after := encoded(t, root)
		old, ok1 := compiled(before)
		now, ok2 := compiled(after)
		circles := strings.Contains(string(encoded(t, root["$defs"])), `"$ref"`) // the validator runs in them
		if !ok1 || !ok2 || circles || string(before) == string(after) {
			continue
		}
		for _, output := range []bool{false, true} {
			a, err := parse(before, 100)
			if err != nil {
				t.Fatal(err)
			}
			b, err := parse(after, 100)
			if err != nil {
				t.Fatal(err)
			}
			changes := compareDocuments(a, b, "/s", output)
			if slices.ContainsFunc(changes, func(c Change) bool {
				// By convention: who gives or meets a property that was not
				// described before knew nothing of it.
				return !SeverityWidening.AtLeast(c.Severity) || c.Kind == ChangePropertyAdded || c.Kind == ChangeRequiredPropertyAdded || output && c.Kind == ChangeUnknownAllowed
			}) {
				harmful++
				continue
			}
			harmless++
			for range 40 {
				v := schemaMaker{random}.instance(3)
				wide, narrow := now, old
				if output {
					wide, narrow = old, now
				}
				if narrow.Validate(v) == nil && wide.Validate(v) != nil {
					t.Fatalf("output %t: %v\nbefore %s\nafter  %s\nchanges %+v", output, v, before, after, changes)
				}
			}
		}
	}
	if harmless < 100 || harmful < 100 {
		t.Errorf("only %d harmless and %d harmful changes were made up", harmless, harmful)
	}
}

func encoded(t testing.TB, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func compiled(raw []byte) (*jsonschema.Resolved, bool) {
	var schema jsonschema.Schema
	if json.Unmarshal(raw, &schema) != nil {
		return nil, false
	}
	resolved, err := schema.Resolve(nil)
	return resolved, err == nil
}

// schemaMaker makes up small schemas, changes of them, and values for them.
type schemaMaker struct{ *rand.Rand }

func (m schemaMaker) root() map[string]any {
	s := m.schema(3)
	s["$defs"] = map[string]any{"A": m.schema(1), "B": m.schema(1)}
	return s
}

func (m schemaMaker) schema(depth int) map[string]any {
	s := map[string]any{}
	for range 1 + m.IntN(2) {
		m.set(s, depth)
	}
	return s
}

func (m schemaMaker) set(s map[string]any, depth int) {
	types := []string{"null", "boolean", "integer", "number", "string", "array", "object"}
	values := []any{nil, true, 1, 2, 1.5, "a", "bb"}
	sub := func() any {
		switch {
		case depth == 0 || m.IntN(5) == 0:
			return map[string]any{"type": types[m.IntN(len(types))]}
		case m.IntN(8) == 0:
			return m.IntN(2) == 0
		}
		return m.schema(depth - 1)
	}
	list := func() any {
		out := make([]any, 1+m.IntN(3))
		for i := range out {
			out[i] = sub()
		}
		return out
	}
	switch m.IntN(22) {
	case 0, 1, 2:
		s["type"] = types[m.IntN(len(types))]
	case 3:
		s["type"] = []string{types[m.IntN(4)], types[4+m.IntN(3)]}
	case 4:
		s["enum"] = values[:1+m.IntN(len(values))]
	case 5:
		s["const"] = values[m.IntN(len(values))]
	case 6:
		s["minimum"] = m.IntN(3)
	case 7:
		s["maximum"] = m.IntN(3)
	case 8:
		s["maxLength"] = m.IntN(3)
	case 9, 10:
		s["properties"] = map[string]any{"x": sub(), "y": sub()}
	case 11:
		s["required"] = []string{"x", "y"}[:1+m.IntN(2)]
	case 12:
		s["additionalProperties"] = sub()
	case 13:
		s["items"] = sub()
	case 14:
		s["prefixItems"] = list()
	case 15:
		s["anyOf"] = list()
	case 16:
		s["oneOf"] = list()
	case 17:
		s["allOf"] = list()
	case 18:
		s["not"] = sub()
	case 19:
		s["$ref"] = []string{"#/$defs/A", "#/$defs/B"}[m.IntN(2)]
		if depth < 2 {
			delete(s, "$ref") // definitions do not refer, so nothing goes round in circles
		}
	case 20:
		s["if"], s["then"] = sub(), sub()
	case 21:
		s["propertyNames"] = map[string]any{"maxLength": m.IntN(3)}
	}
}

// alter changes one schema somewhere in s.
func (m schemaMaker) alter(s map[string]any) {
	var all []map[string]any
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			all = append(all, v)
			for _, e := range v {
				walk(e)
			}
		case []any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(s)
	target := all[m.IntN(len(all))]
	keys := make([]string, 0, len(target))
	for key := range target {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	switch {
	case len(keys) > 0 && m.IntN(3) == 0:
		if key := keys[m.IntN(len(keys))]; key != "$defs" {
			delete(target, key)
		}
	case len(keys) > 0 && m.IntN(4) == 0:
		if list, ok := target[keys[m.IntN(len(keys))]].([]any); ok {
			m.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		}
	default:
		m.set(target, 2)
	}
}

func (m schemaMaker) instance(depth int) any {
	switch n := m.IntN(11); {
	case n == 0:
		return nil
	case n == 1:
		return m.IntN(2) == 0
	case n < 4:
		return float64(m.IntN(4))
	case n == 4:
		return 1.5
	case n < 7:
		return []string{"", "a", "bb", "ccc"}[m.IntN(4)]
	case n < 9 && depth > 0:
		list := make([]any, m.IntN(4))
		for i := range list {
			list[i] = m.instance(depth - 1)
		}
		return list
	case depth > 0:
		o := map[string]any{}
		for _, key := range []string{"x", "y", fmt.Sprint("z", m.IntN(3))} {
			if m.IntN(3) > 0 {
				o[key] = m.instance(depth - 1)
			}
		}
		return o
	}
	return "a"
}
