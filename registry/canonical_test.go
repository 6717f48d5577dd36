package registry

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

func TestNumbersInCanonicalForm(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"0": "0", "-0": "0", "0.000": "0", "0e5": "0", "1": "1", "1.0": "1", "1e0": "1", "10": "1e1", "1E+1": "1e1", "0.1": "1e-1",
		"-1.50": "-15e-1", "123": "123", "1230e-1": "123", "9007199254740993": "9007199254740993", "1e400": "1e400",
		"100e398": "1e400", "0.1e401": "1e400", "1e-400": "1e-400", "12345678901234567890.5": "123456789012345678905e-1",
	} {
		got, err := appendNumber(nil, []byte(in))
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v, want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"1e401", "10e400", "1e-401", "0.1e-400", "1e99999999999999999999", "0e9999999", strings.Repeat("1", 1001)} {
		if got, err := appendNumber(nil, []byte(in)); err == nil {
			t.Errorf("%s is taken as %s", in, got)
		}
	}
}

func TestTextsWithoutNoise(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", "a": "a", "a ": "a", "a\t\n": "a", "a\r\nb": "a\nb", "a  \nb\t\r\n\r\n": "a\nb", " a\n\n b": " a\n\n b", "\n\n": "", "\na": "\na",
		"a\u00a0": "a\u00a0", "a\rb": "a\rb",
	} {
		if got := tidy(in); got != want || isTidy([]byte(in)) != (in == want) {
			t.Errorf("%q: %q, tidy %v, want %q", in, got, isTidy([]byte(in)), want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOf(rapid.SampledFrom([]rune("ab \t\r\n"))).Draw(t, "text")
		once := tidy(s)
		if tidy(once) != once || !isTidy([]byte(once)) || isTidy([]byte(s)) != (s == once) {
			t.Fatalf("%q becomes %q, then %q", s, once, tidy(once))
		}
	})
}

// reference is a second reader of the same form: tokens of a general decoder,
// kept in Go values.
func reference(d *jsontext.Decoder, depth int) (value, error) {
	token, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case 'n':
		return nil, nil
	case 't', 'f':
		return token.Bool(), nil
	case '"':
		if s := token.String(); !strings.ContainsRune(s, 0) {
			return s, nil
		}
		return nil, &fault{ReasonMalformedField, "NUL"}
	case '0':
		n, err := appendNumber(nil, []byte(token.String()))
		return number(n), err
	default:
	}
	if depth == 0 {
		return nil, &fault{ReasonTooDeep, "deep"}
	}
	if token.Kind() == '[' {
		list := []value{}
		for d.PeekKind() != ']' {
			v, err := reference(d, depth-1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.ReadToken()
		return list, err
	}
	o := object{}
	for d.PeekKind() != '}' {
		name, err := reference(d, 0)
		if err != nil {
			return nil, err
		}
		v, err := reference(d, depth-1)
		if err != nil {
			return nil, err
		}
		o = append(o, member{name.(string), v})
	}
	slices.SortFunc(o, func(a, b member) int { return cmp.Compare(a.name, b.name) })
	_, err = d.ReadToken()
	return o, err
}

// compareReaders fails when the two readers do not agree on what bytes mean, or
// on whether they mean anything.
func compareReaders(t *testing.T, raw []byte) {
	t.Helper()
	d := jsontext.NewDecoder(bytes.NewReader(raw))
	want, wantErr := reference(d, 64)
	if wantErr == nil {
		if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
			wantErr = errors.New("bytes after the value")
		}
	}
	got, err := parse(raw, 64)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%q: %v, the reference says %v", raw, err, wantErr)
	}
	if err != nil {
		if _, ok := errors.AsType[*fault](err); !ok {
			t.Fatalf("%q: %v is no fault", raw, err)
		}
		return
	}
	if !reflect.DeepEqual(want, got) { // go-cmp takes very long for deep trees
		t.Fatalf("%q: %v, want %v", raw, got, want)
	}
	once := appendCanonical(nil, got)
	again, err := parse(once, 64)
	if err != nil {
		t.Fatalf("%q has a canonical form that cannot be read: %v", raw, err)
	}
	if twice := appendCanonical(nil, again); !bytes.Equal(once, twice) {
		t.Fatalf("%q becomes %s, then %s", raw, once, twice)
	}
	var doc document
	if err := doc.decode(raw, 64); err != nil {
		t.Fatal(err)
	}
	if direct := doc.appendNode(nil, doc.top()); !bytes.Equal(direct, once) {
		t.Fatalf("%q becomes %s by way of values and %s without", raw, once, direct)
	}
}

var awkward = []string{
	``, ` `, `null`, `nul`, `truex`, `false`, `[]`, `[ ]`, `[1,]`, `[,1]`, `[1 2]`, `{}`, `{ }`, `{"a":1,}`, `{,}`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a":1 "b":2}`,
	`{"b":1,"a":2}`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `[[]`, `[]]`, `{"a":[}`, `"`, `"a`, `"\`, `"\"`, `"\u`, `"\u00`, `"\u00e9"`, `"\u00E9"`, `"\x"`, `"\u0000"`, "\"\x00\"",
	"\"\n\"", "\"\x7f\"", `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00"`, `"\ud83d\u0041"`, `"\ud83d\ud83d\ude00"`, `"\ud83dx"`, "\"\xff\"", "\"\xc3\"", "\"\xed\xa0\x80\"", "\"\xf0\x9f\x98\x80\"",
	`0`, `-0`, `-`, `00`, `01`, `1.`, `.1`, `1.e1`, `1e`, `1e+`, `1E-7`, `+1`, `0x1`, `1e401`, `-1.0e400`, `NaN`, `1,2`, "\ufeff1", "\t\r\n 1 \n",
	`{"\n\t\b\f\r\/\\\"":"\n\t\b\f\r\/\\\""}`, strings.Repeat("[", 64) + strings.Repeat("]", 64), strings.Repeat("[", 65) + strings.Repeat("]", 65),
}

func TestTwoReadersAgree(t *testing.T) {
	t.Parallel()
	for _, raw := range awkward {
		compareReaders(t, []byte(raw))
	}
	files, _ := filepath.Glob("testdata/captures/*.json")
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		compareReaders(t, raw)
	}
}

// respell writes a value in another way that means the same.
func respell(dst []byte, v value, r *rand.Rand) []byte {
	gap := func() {
		for r.IntN(3) == 0 {
			dst = append(dst, " \t\r\n"[r.IntN(4)])
		}
	}
	gap()
	switch v := v.(type) {
	case string:
		dst = respellString(dst, v, r)
	case number:
		dst = respellNumber(dst, string(v), r)
	case []value:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = respell(dst, e, r)
		}
		dst = append(dst, ']')
	case object:
		dst = append(dst, '{')
		for i, at := range r.Perm(len(v)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			gap()
			dst = respellString(dst, v[at].name, r)
			gap()
			dst = respell(append(dst, ':'), v[at].value, r)
		}
		dst = append(dst, '}')
	default:
		dst = appendCanonical(dst, v)
	}
	gap()
	return dst
}

func respellString(dst []byte, s string, r *rand.Rand) []byte {
	dst = append(dst, '"')
	for _, c := range s {
		switch {
		case c == '/' && r.IntN(2) == 0:
			dst = append(dst, '\\', '/')
		case r.IntN(4) == 0:
			for _, unit := range utf16.Encode([]rune{c}) {
				dst = fmt.Appendf(dst, []string{`\u%04x`, `\u%04X`}[r.IntN(2)], unit)
			}
		default:
			quoted := appendString(nil, string(c))
			dst = append(dst, quoted[1:len(quoted)-1]...)
		}
	}
	return append(dst, '"')
}

func respellNumber(dst []byte, n string, r *rand.Rand) []byte {
	mantissa, exponent, _ := strings.Cut(n, "e")
	e, _ := strconv.Atoi(exponent)
	if mantissa == "0" {
		return append(dst, []string{"0", "-0", "0.00", "0e7", "-0E-3"}[r.IntN(5)]...)
	}
	if len(mantissa) > 900 {
		return append(dst, n...)
	}
	zeros := r.IntN(4)
	mantissa, e = mantissa+strings.Repeat("0", zeros), e-zeros
	if r.IntN(2) == 0 {
		mantissa += "." + strings.Repeat("0", 1+r.IntN(3))
	}
	switch {
	case e == 0 && r.IntN(2) == 0:
		return append(dst, mantissa...)
	case e >= 0 && r.IntN(2) == 0:
		return fmt.Appendf(dst, "%sE+%d", mantissa, e)
	}
	return fmt.Appendf(dst, "%se%d", mantissa, e)
}

// rewritten fails when another writing of an item is judged or digested
// differently.
func rewritten(t *testing.T, kind ItemKind, raw []byte, seed uint64) {
	t.Helper()
	limits := DefaultLimits()
	limits.ItemBytes = 0 // other writings have other lengths
	v, err := parse(raw, limits.Depth)
	if _, ok := v.(object); err != nil || !ok {
		NewItem(kind, "t", raw, limits) // has the digest of its bytes
		return
	}
	other := respell(nil, v, rand.New(rand.NewPCG(seed, 1)))
	a, b := NewItem(kind, "t", raw, limits), NewItem(kind, "t", other, limits)
	if a.Digests != b.Digests || a.Verdict != b.Verdict || a.Detail != b.Detail {
		t.Fatalf("%s\n%+v\n\n%s\n%+v", raw, a, other, b)
	}
	if canonical := NewItem(kind, "t", appendCanonical(nil, v), limits); canonical.Digests != a.Digests {
		t.Fatalf("%s: the canonical form has other digests", raw)
	}
}

// elements calls for every element of every captured list.
func elements(tb testing.TB, each func(kind ItemKind, raw []byte)) {
	tb.Helper()
	files, err := filepath.Glob("testdata/captures/*.json")
	if err != nil || len(files) == 0 {
		tb.Fatal("no captures")
	}
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			tb.Fatal(err)
		}
		var d document
		if err := d.decode(raw, 100); err != nil {
			tb.Fatal(err)
		}
		for _, l := range []struct {
			kind        ItemKind
			pages, list string
		}{
			{KindTool, "toolsListPages", "tools"},
			{KindResource, "resourcesListPages", "resources"},
			{KindTemplate, "resourceTemplatesListPages", "resourceTemplates"},
			{KindPrompt, "promptsListPages", "prompts"},
		} {
			for i := range d.kids(d.get(d.top(), l.pages)) {
				page := &d.kids(d.get(d.top(), l.pages))[i]
				for j := range d.kids(d.get(page, l.list)) {
					each(l.kind, d.appendNode(nil, &d.kids(d.get(page, l.list))[j]))
				}
			}
		}
	}
}

func TestAnotherWritingOfRealItemsMovesNoDigest(t *testing.T) {
	t.Parallel()
	n := uint64(0)
	elements(t, func(kind ItemKind, raw []byte) {
		n++
		rewritten(t, kind, raw, n)
	})
	if n < 600 {
		t.Errorf("only %d items", n)
	}
}

// H16: a server that shuffles its lists and keys and writes them differently
// each time is one server.
func TestTwoHundredWritingsOfARealSurfaceAreOneSnapshot(t *testing.T) {
	t.Parallel()
	lists := map[ItemKind][]value{}
	elements(t, func(kind ItemKind, raw []byte) {
		if v, err := parse(raw, 64); err == nil && len(lists[kind]) < 20 {
			lists[kind] = append(lists[kind], v)
		}
	})
	r := rand.New(rand.NewPCG(1, 2))
	written := func(kind ItemKind) (out [][]byte) {
		for _, i := range r.Perm(len(lists[kind])) {
			out = append(out, respell(nil, lists[kind][i], r))
		}
		return out
	}
	digests, tools := map[string]bool{}, map[string]bool{}
	for range 200 {
		surface := Surface{
			Tools: written(KindTool), Resources: written(KindResource), Templates: written(KindTemplate), Prompts: written(KindPrompt),
		}
		snap, err := NewSnapshot(surface, DefaultLimits(), time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		probed, err := ToolsDigest(surface.Tools, DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		digests[snap.Digest], tools[probed], tools[snap.ToolsDigest()] = true, true, true
	}
	if len(digests) != 1 || len(tools) != 1 {
		t.Errorf("%d snapshots, %d lists of tools", len(digests), len(tools))
	}
}

// Whatever changes in a real tool, something moves: one of the digests or the
// verdict.
func TestEveryChangeOfARealToolMovesSomething(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	elements(t, func(kind ItemKind, raw []byte) {
		if kind != KindTool || seen[string(raw)] || len(raw) > 1500 {
			return
		}
		seen[string(raw)] = true
		v, err := parse(raw, 64)
		if err != nil {
			t.Fatal(err)
		}
		before := NewItem(KindTool, "t", raw, DefaultLimits())
		for path, changed := range changes(v, "") {
			after := NewItem(KindTool, "t", appendCanonical(nil, changed), DefaultLimits())
			if after.Digests == before.Digests && after.Verdict == before.Verdict && !meansNothing(path) {
				t.Fatalf("%s: a change at %s moves nothing", raw, path)
			}
		}
	})
}

// changes gives a value with one thing changed at a time: a scalar made another
// one, or a member or element taken away.
func changes(v value, path string) func(yield func(string, value) bool) {
	return func(yield func(string, value) bool) {
		switch v := v.(type) {
		case nil:
			yield(path, true)
		case bool:
			yield(path, !v)
		case string:
			yield(path, v+"x")
		case number:
			yield(path, number("7"+string(v[len(v)-1:])))
		case []value:
			for i := range v {
				if !yield(path+"/-", slices.Delete(slices.Clone(v), i, i+1)) {
					return
				}
				for p, changed := range changes(v[i], path+"/"+strconv.Itoa(i)) {
					other := slices.Clone(v)
					other[i] = changed
					if !yield(p, other) {
						return
					}
				}
			}
		case object:
			for i := range v {
				here := path + "/" + pointer(v[i].name)
				if !yield(here+" gone", slices.Delete(slices.Clone(v), i, i+1)) {
					return
				}
				for p, changed := range changes(v[i].value, here) {
					other := slices.Clone(v)
					other[i].value = changed
					if !yield(p, other) {
						return
					}
				}
			}
		}
	}
}

// meansNothing says whether taking this away is a change to the default, or one
// of the dialect where no keyword depends on it.
func meansNothing(path string) bool {
	path, gone := strings.CutSuffix(path, " gone")
	if !gone {
		return strings.HasSuffix(path, "/name") && strings.Count(path, "/") == 1 // the caller gives the name
	}
	for _, s := range []string{"/name", "/$schema", "/additionalProperties", "Hint", "/taskSupport", "/execution", "/annotations", "/title", "/description"} {
		if strings.HasSuffix(path, s) {
			return true
		}
	}
	return false
}

func FuzzDecode(f *testing.F) {
	for _, raw := range awkward {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { compareReaders(t, raw) })
}

func FuzzCanonicalItems(f *testing.F) {
	n := 0
	elements(f, func(_ ItemKind, raw []byte) {
		if n++; n%7 == 0 && len(raw) < 4000 {
			f.Add(raw, uint64(n))
		}
	})
	for i, s := range []string{
		`{"name":"t","inputSchema":{"$id":"a","$defs":{"a":{"$id":"b/","$ref":"#/x"},"c":{"$ref":"b/#/$defs"}},"x":{"$ref":"#"}}}`,
		`{"name":"t","inputSchema":{"properties":{"a":{"x-mcp-header":"H","type":["string","null"],"pattern":"(?<n>[a]{2,3}"}},"dependencies":{"a":["b"],"c":{}}}}`,
		`{"name":"t","arguments":[{"name":"a"},{"name":"a","required":true}],"_meta":{"ui":{"resourceUri":"ui://a","visibility":["app"]}}}`,
		`{"inputSchema":{"enum":[1.0,{"b":[],"a":{}},"1"],"required":["b","a"],"items":[{"description":"x \r\n"}],"additionalProperties":{"description":""}}}`,
	} {
		f.Add([]byte(s), uint64(i))
	}
	f.Fuzz(func(t *testing.T, raw []byte, seed uint64) {
		for _, kind := range []ItemKind{KindTool, KindResource, KindTemplate, KindPrompt} {
			rewritten(t, kind, raw, seed)
		}
	})
}
