package policy

import (
	"bytes"
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Parse reads a bundle from a YAML or JSON document. It refuses what it does not know: unknown and repeated fields,
// values of another type, anchors, tags, a second document. What the rules say is checked by Check.
func Parse(document []byte) (*Bundle, []Problem) {
	b := &Bundle{marks: map[string]mark{}}
	return b, read(document, b, b)
}

// ParseCases reads tests from a document of their own, which holds nothing but the field tests.
func ParseCases(document []byte) ([]Case, []Problem) {
	var file struct {
		Tests []Case `json:"tests"`
	}
	b := &Bundle{marks: map[string]mark{}}
	problems := read(document, &file, b)
	b.Tests = file.Tests
	if len(problems) == 0 {
		problems = b.checkTests()
	}
	return file.Tests, problems
}

// read decodes a document into a struct and notes in b where everything stands.
func read(document []byte, into any, b *Bundle) []Problem {
	if len(document) > MaxDocument {
		return []Problem{{Message: fmt.Sprintf("the document has %d bytes, the limit is %d", len(document), MaxDocument)}}
	}
	if !utf8.Valid(document) {
		return []Problem{{Message: "the document is not UTF-8"}}
	}
	parse := parseYAML
	if text := bytes.TrimLeft(document, " \t\r\n"); len(text) > 0 && text[0] == '{' {
		parse = parseJSON
	}
	root, problem := parse(document)
	if problem != nil {
		return []Problem{*problem}
	}
	d := decoder{bundle: b, lines: strings.Split(string(document), "\n")}
	d.value(root, reflect.ValueOf(into).Elem(), "")
	for i, p := range d.problems {
		if section, rest, ok := strings.Cut(p.Path, "["); ok {
			index, _, _ := strings.Cut(rest, "]")
			if n, err := strconv.Atoi(index); err == nil {
				d.problems[i].Rule = b.ruleAt(section, n)
			}
		}
	}
	return d.problems
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

func parseYAML(document []byte) (*yaml.Node, *Problem) {
	decoder := yaml.NewDecoder(bytes.NewReader(document))
	var root, second yaml.Node
	if err := decoder.Decode(&root); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, &Problem{Message: "the document is empty"}
		}
		found := yamlLine.FindStringSubmatch(err.Error())
		p := &Problem{Message: strings.TrimPrefix(err.Error(), "yaml: ")}
		if found != nil && found[1] != "" {
			p.Message = strings.TrimPrefix(err.Error(), found[0])
			p.Line, _ = strconv.Atoi(found[1])
			p.Column = 1
		}
		return nil, p
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, &Problem{Line: max(second.Line, 1), Column: 1, Message: "there is a second document"}
	}
	return root.Content[0], nil
}

// decoder turns nodes into values, strictly.
type decoder struct {
	bundle   *Bundle
	lines    []string // of the document
	problems []Problem
}

func (d *decoder) faultf(n *yaml.Node, path, format string, args ...any) {
	d.problems = append(d.problems, Problem{Path: path, Line: n.Line, Column: n.Column, Message: fmt.Sprintf(format, args...)})
}

var textual = reflect.TypeFor[encoding.TextUnmarshaler]()

func (d *decoder) value(n *yaml.Node, v reflect.Value, path string) {
	if n.Anchor != "" || n.Kind == yaml.AliasNode {
		d.faultf(n, path, "anchors and aliases are not understood here")
		return
	}
	d.bundle.marks[path] = mark{position: position{n.Line, n.Column}}
	switch {
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), path)
	case v.Addr().Type().Implements(textual):
		d.text(n, v.Addr(), path)
	case v.Kind() == reflect.Struct:
		d.object(n, v, path)
	case v.Kind() == reflect.Slice:
		d.list(n, v, path)
	case v.Kind() == reflect.Map:
		d.mapping(n, v, path)
	default:
		d.scalar(n, v, path)
	}
}

func (d *decoder) text(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		d.faultf(n, path, "must be a single value")
		return
	}
	unmarshaler, _ := reflect.TypeAssert[encoding.TextUnmarshaler](v)
	if err := unmarshaler.UnmarshalText([]byte(n.Value)); err != nil {
		message := err.Error()
		if strings.HasPrefix(message, "parsing time") {
			message = "must be a time such as 2026-01-31T08:00:00Z"
		}
		d.faultf(n, path, "%s", message)
	}
	if t, ok := reflect.TypeAssert[*time.Time](v); ok {
		*t = t.UTC() // so that equal times have one canonical form
	}
}

func (d *decoder) object(n *yaml.Node, v reflect.Value, path string) {
	fields := map[string]reflect.Value{}
	for i := range v.NumField() {
		if name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); name != "" {
			fields[name] = v.Field(i)
		}
	}
	d.members(n, path, func(key, value *yaml.Node, here string) {
		field, known := fields[key.Value]
		if !known {
			names := make([]string, 0, len(fields))
			for name := range fields {
				names = append(names, name)
			}
			slices.Sort(names)
			d.faultf(key, here, "there is no such field here; there are %s", strings.Join(names, ", "))
			return
		}
		d.value(value, field, here)
	})
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string) {
	v.Set(reflect.MakeMap(v.Type()))
	d.members(n, path, func(key, value *yaml.Node, here string) {
		element := reflect.New(v.Type().Elem()).Elem()
		d.value(value, element, here)
		v.SetMapIndex(reflect.ValueOf(key.Value).Convert(v.Type().Key()), element)
	})
}

// members walks over the fields of an object, each of which stands once.
func (d *decoder) members(n *yaml.Node, path string, visit func(key, value *yaml.Node, path string)) {
	if n.Kind != yaml.MappingNode {
		d.faultf(n, path, "must be an object")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" || key.Anchor != "" {
			d.faultf(key, path, "a field's name must be a text")
			continue
		}
		here := strings.TrimPrefix(path+"."+key.Value, ".")
		if seen[key.Value] {
			d.faultf(key, here, "stands twice")
			continue
		}
		seen[key.Value] = true
		visit(key, value, here)
	}
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode {
		d.faultf(n, path, "must be a list")
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, element := range n.Content {
		d.value(element, v.Index(i), fmt.Sprintf("%s[%d]", path, i))
	}
}

func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string) {
	kind := n.ShortTag()
	if n.Kind != yaml.ScalarNode {
		kind = "another kind of value"
	}
	switch v.Kind() {
	case reflect.String:
		if kind != "!!str" {
			d.faultf(n, path, "must be a text; write it in quotes")
			return
		}
		v.SetString(n.Value)
		m := d.bundle.marks[path]
		m.lines = d.locate(n)
		d.bundle.marks[path] = m
	case reflect.Bool:
		if kind != "!!bool" {
			d.faultf(n, path, "must be true or false")
			return
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
	case reflect.Int:
		number, err := strconv.Atoi(n.Value)
		if kind != "!!int" || err != nil {
			d.faultf(n, path, "must be a whole number")
			return
		}
		v.SetInt(int64(number))
	default:
		panic("policy: a field of a kind that no document can hold: " + v.Type().String())
	}
}

// locate finds the lines of a text in the document, as they stand. It gives nil when the document writes them
// otherwise, folded or with escapes: then positions inside the text are counted from its own beginning.
func (d *decoder) locate(n *yaml.Node) []position {
	first, from := n.Line, n.Column-1
	if n.Style == yaml.LiteralStyle {
		first, from = n.Line+1, 0
	}
	var out []position
	for i, line := range strings.Split(strings.TrimRight(n.Value, "\n"), "\n") {
		at := first + i
		if at < 1 || at > len(d.lines) {
			return nil
		}
		source := []rune(d.lines[at-1])
		if i > 0 {
			from = 0
		}
		if from < 0 || from > len(source) {
			return nil
		}
		before, after, found := strings.Cut(string(source[from:]), line)
		if !found || n.Style == yaml.LiteralStyle && strings.TrimRight(after, "\r") != "" {
			return nil
		}
		out = append(out, position{at, from + utf8.RuneCountInString(before) + 1})
	}
	return out
}

// comparePositions orders problems as a reader meets them.
func comparePositions(a, b Problem) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
}
