package registry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// capturedTools gives the raw tools of all captures, by capture.
func capturedTools(t testing.TB) map[string][][]byte {
	t.Helper()
	files, err := filepath.Glob("testdata/captures/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(err, "no captures")
	}
	out := map[string][][]byte{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var capture struct {
			Pages []struct {
				Tools []json.RawMessage `json:"tools"`
			} `json:"toolsListPages"`
		}
		if err := json.Unmarshal(raw, &capture); err != nil {
			t.Fatal(err)
		}
		for _, page := range capture.Pages {
			for _, tool := range page.Tools {
				out[filepath.Base(file)] = append(out[filepath.Base(file)], tool)
			}
		}
	}
	return out
}

// agree compares what the differ found with what the digests say, for two tools
// that are not in quarantine. It returns nothing when they agree.
func agree(a, b Item) string {
	if a.Quarantined() || b.Quarantined() {
		return ""
	}
	from, to := fieldsOf(a.Raw), fieldsOf(b.Raw)
	var found part
	for _, c := range differences(a, b, from, to) {
		found |= c.part
	}
	var moved part
	for p, differ := range map[part]bool{
		partContract:  a.Digests.Contract != b.Digests.Contract,
		partText:      a.Digests.Text != b.Digests.Text,
		partBehaviour: a.Digests.Behaviour != b.Digests.Behaviour,
	} {
		if differ {
			moved |= p
		}
	}
	if found == moved {
		return ""
	}
	return fmt.Sprintf("digests moved %03b, the differ found %03b", moved, found)
}

// Any single change anywhere in a tool is found by the differ iff it moves a
// digest, and by the same one.
func TestTheDifferAgreesWithTheDigests(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	captures := capturedTools(t)
	for _, file := range slices.Sorted(maps.Keys(captures)) {
		for i, raw := range captures[file] {
			if len(raw) > 20_000 && i > 2 {
				continue // of the same sort as others
			}
			a := NewItem(KindTool, "t", raw, DefaultLimits())
			for range 2 {
				changed, what := mutate(raw, random)
				b := NewItem(KindTool, "t", changed, DefaultLimits())
				if text := agree(a, b); text != "" {
					t.Errorf("%s: %s: %s\nfrom %.2000s\nto   %.2000s", file, what, text, raw, changed)
				}
				if i < 3 {
					checkDiff(t, [][]byte{raw}, [][]byte{changed})
				}
			}
		}
	}
}

// mutate makes one random change at one random place.
func mutate(raw []byte, random *rand.Rand) (out []byte, what string) {
	var tree any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&tree) != nil {
		return raw, "nothing"
	}
	var places []func() string
	var walk func(v any, at string, set func(any))
	walk = func(v any, at string, set func(any)) {
		put := func(text string, value any) {
			places = append(places, func() string { set(value); return text + " at " + at })
		}
		switch v := v.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				walk(v[key], at+"/"+key, func(n any) { v[key] = n })
				places = append(places, func() string { delete(v, key); return "removed " + at + "/" + key })
			}
			for _, extra := range []string{
				`{"description":"new"}`, `{"title":"new"}`, `{"enum":["new"]}`, `{"type":"boolean"}`, `{"required":["new"]}`,
				`{"additionalProperties":false}`, `{"additionalProperties":true}`, `{"properties":{"new":{}}}`, `{"minimum":3}`,
				`{"$ref":"#/$defs/new"}`, `{"examples":[1]}`, `{"x-new":{"description":"a"}}`, `{"default":null}`, `{"not":{}}`,
				`{"anyOf":[{"type":"string"},{"type":"null"}]}`, `{"readOnlyHint":true}`, `{"items":{"type":"string"}}`,
				`{"$defs":{"new":{"description":"x"}}}`, `{"patternProperties":{"^x":{"title":"y"}}}`, `{"pattern":"^a"}`,
			} {
				var more map[string]any
				_ = json.Unmarshal([]byte(extra), &more)
				for key, e := range more { // one
					places = append(places, func() string { v[key] = e; return "set " + at + "/" + key })
				}
			}
		case []any:
			for i, e := range v {
				walk(e, fmt.Sprintf("%s/%d", at, i), func(n any) { v[i] = n })
			}
			if len(v) > 0 {
				put("one less", v[1:])
				put("once more", append(slices.Clip(v), v[0]))
				places = append(places, func() string {
					random.Shuffle(len(v), func(i, j int) { v[i], v[j] = v[j], v[i] })
					return "shuffled " + at
				})
			}
		case string:
			put("another text", v+"x")
			put("trailing blank", v+" ")
			put("a number", json.Number("12"))
		case json.Number:
			put("another number", json.Number("17"))
			put("the number otherwise", json.Number(v.String()+"e0"))
		case bool:
			put("the opposite", !v)
		}
		put("null", nil)
	}
	walk(tree, "", func(n any) { tree = n })
	what = places[random.IntN(len(places))]()
	out, err := json.Marshal(tree)
	if err != nil {
		return raw, "nothing"
	}
	return out, what
}

// checkDiff holds a diff of two lists of tools to what is true of all diffs.
func checkDiff(t testing.TB, from, to [][]byte) {
	t.Helper()
	begin := time.Now()
	there, err := CompareTools(from, to, DefaultLimits())
	if err != nil {
		return // the list as a whole is malformed
	}
	size := 0
	for _, list := range [][][]byte{from, to} {
		for _, raw := range list {
			size += len(raw)
		}
	}
	if took := time.Since(begin); took > 20*time.Second+time.Duration(size)*20*time.Microsecond { // on a busy machine
		t.Errorf("took %s for %d bytes", took, size)
	}
	back, err := CompareTools(to, from, DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	again, _ := CompareTools(from, to, DefaultLimits())
	if !reflect.DeepEqual(there, again) {
		t.Error("another diff the second time")
	}
	a, b := there.Tools.Counts, back.Tools.Counts
	if a.Added != b.Removed || a.Removed != b.Added || a.Changed-a.Cosmetic != b.Changed-b.Cosmetic ||
		a.Contract != b.Contract || a.Text != b.Text || a.Behaviour != b.Behaviour {
		t.Errorf("there %+v, back %+v", a, b)
	}
	for _, list := range [][][]byte{from, to} {
		if self, err := CompareTools(list, list, DefaultLimits()); err != nil || self.Severity != SeverityNone || len(self.Tools.Items) > 0 {
			t.Errorf("a list and itself: %+v, %v", self, err)
		}
	}
	if moved := a.Added+a.Removed+a.Contract+a.Text+a.Behaviour > 0; there.From == there.To && moved || there.From != there.To && !moved && a.Cosmetic == 0 {
		t.Errorf("digests are equal: %t, counts %+v", there.From == there.To, a)
	}
	for i, item := range there.Tools.Items {
		if i > 0 && item.Severity.rank() > there.Tools.Items[i-1].Severity.rank() {
			t.Error("not the worst first")
		}
		checkItem(t, item)
	}
}

func checkItem(t testing.TB, item ItemDiff) {
	t.Helper()
	var explained part
	for _, c := range item.Changes {
		explained |= c.part
		if c.Kind.Means() == "" || c.Severity == SeverityNone || !item.Severity.AtLeast(c.Severity) || c.Path != "" && !strings.HasPrefix(c.Path, "/") {
			t.Errorf("a change without a meaning: %+v", c)
		}
		for _, shown := range []json.RawMessage{c.Before, c.After} {
			if shown != nil && !json.Valid(shown) || len(shown) > 7*maxShown {
				t.Errorf("%s: shown as %d bytes: %.100s", c.Path, len(shown), shown)
			}
		}
	}
	if len(item.Changes) > maxChanges {
		return // what explains a digest may not be among those listed
	}
	for p, differ := range map[part]bool{partContract: item.Contract, partText: item.Text, partBehaviour: item.Behaviour} {
		if differ != (explained&p != 0) {
			t.Errorf("%s: digest %03b moved is %t, changes %+v", item.Name, p, differ, item.Changes)
		}
	}
}

// FuzzDiff compares lists of tools that somebody made up. With a seed, the newer
// list is the older one changed at random places; without a list, schemas are
// made up as well.
func FuzzDiff(f *testing.F) {
	n := uint64(0)
	for _, tools := range capturedTools(f) {
		for i, raw := range tools {
			if len(raw) < 4000 && i > 0 {
				n++
				f.Add([]byte("["+string(raw)+"]"), []byte("["+string(tools[i-1])+"]"), n%3)
			}
		}
	}
	for _, schema := range []string{
		`{"$ref":"#"}`, `{"$ref":"#/properties/a","properties":{"a":{"$ref":"#"}}}`, `{"anyOf":[{"$ref":"#/anyOf/0"}]}`, `{"allOf":[true,false]}`,
		`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"not":{"$ref":"#/$defs/a"}}`, `{"enum":[1,1.0,"a"],"const":null}`,
		`{"oneOf":[{"const":1},{"const":2}],"items":[{}],"prefixItems":[{}],"type":["object"],"required":[1]}`,
	} {
		tool := `{"name":"t","description":"d","inputSchema":` + schema + `}`
		f.Add([]byte("["+tool+"]"), []byte(`[{"name":"t","inputSchema":{"type":"object","properties":{"a":{}}}}]`), uint64(0))
	}
	for seed := range uint64(100) {
		f.Add([]byte{}, []byte{}, seed)
	}
	f.Fuzz(func(t *testing.T, before, after []byte, seed uint64) {
		random := rand.New(rand.NewPCG(seed, seed))
		if len(before) == 0 {
			maker := schemaMaker{random}
			root := maker.root()
			root["type"] = "object"
			before = []byte(`[{"name":"t","inputSchema":` + string(encoded(t, root)) + `}]`)
		}
		from, ok1 := listElements(before)
		to, ok2 := listElements(after)
		if seed != 0 && ok1 {
			to, ok2 = nil, true
			for _, raw := range from {
				for range 1 + seed%4 {
					raw, _ = mutate(raw, random)
				}
				to = append(to, raw)
			}
		}
		if !ok1 || !ok2 {
			return
		}
		checkDiff(t, from, to)
		for i := range min(len(from), len(to)) {
			a, b := NewItem(KindTool, "t", from[i], DefaultLimits()), NewItem(KindTool, "t", to[i], DefaultLimits())
			if text := agree(a, b); text != "" {
				t.Errorf("%s\n%s\n%s", text, from[i], to[i])
			}
		}
	})
}

func listElements(raw []byte) ([][]byte, bool) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil, false
	}
	out := make([][]byte, len(list))
	for i, e := range list {
		out[i] = e
	}
	return out, true
}

// References that could pair every definition with every other one.
func TestEntangledReferencesAreComparedInBoundedTime(t *testing.T) {
	t.Parallel()
	web := func(n, step int) []byte {
		var b strings.Builder
		b.WriteString(`{"name":"t","inputSchema":{"type":"object","$ref":"#/$defs/d0","$defs":{`)
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `"d%d":{"items":{"$ref":"#/$defs/d%d"},"not":{"$ref":"#/$defs/d%d"}}`, i, (i+step)%n, (i*i+step)%n)
		}
		b.WriteString(`}}}`)
		return []byte(b.String())
	}
	d, err := CompareTools([][]byte{web(499, 1)}, [][]byte{web(491, 2)}, DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	changes := d.Tools.Items[0].Changes
	if !slices.ContainsFunc(changes, func(c Change) bool { return c.Kind == ChangeTooComplex }) || d.Severity != SeverityBreaking {
		t.Errorf("%s, %d changes, the first %+v", d.Severity, len(changes), changes[0])
	}
	checkItem(t, d.Tools.Items[0])
}

func BenchmarkCompare(b *testing.B) {
	all := capturedTools(b)
	for _, pair := range [][2]string{{"notion@2.2.1.json", "notion.json"}, {"brave@2.0.json", "brave.json"}} {
		b.Run(pair[1], func(b *testing.B) {
			var snapshots [2]Snapshot
			size := 0
			for i, file := range pair {
				s, err := NewSnapshot(Surface{Tools: all[file]}, DefaultLimits(), time.Time{})
				if err != nil {
					b.Fatal(err)
				}
				snapshots[i] = s
				for _, raw := range all[file] {
					size += len(raw)
				}
			}
			b.SetBytes(int64(size))
			for b.Loop() {
				Compare(&snapshots[0], &snapshots[1])
			}
		})
	}
}
