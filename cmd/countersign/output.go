package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// The forms that results can have.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatJSONL = "jsonl"
	formatYAML  = "yaml"
	formatName  = "name"
)

func formats() []string {
	return []string{formatTable, formatWide, formatJSON, formatJSONL, formatYAML, formatName}
}

// show writes one result: data as it is, text by the function, and for -o name
// the names, one a line.
func (c *cli) show(value any, names []string, text func(*sheet)) error {
	switch c.output {
	case formatJSON, formatYAML:
		document, err := encode(value)
		if err != nil {
			return err
		}
		return c.write(document)
	case formatJSONL:
		line, err := encode(value)
		if err != nil {
			return err
		}
		return c.writeLines([]json.RawMessage{line})
	case formatName:
		return c.writeNames(names)
	}
	s := &sheet{wide: c.output == formatWide, colour: c.colour()}
	text(s)
	return c.emit(s.bytes())
}

// showRow writes one object, as text in a table of one row.
func showRow[M any](c *cli, v view[M], object M) error {
	return c.show(object, []string{v.name(object)}, func(s *sheet) { writeTable(s, v.columns, []M{object}) })
}

// showList writes objects: a JSON array or a YAML list, one JSON object a
// line, or a table, which stays away when there is nothing to show.
func showList[M any](c *cli, v view[M], objects []M) error {
	switch c.output {
	case formatName:
		names := make([]string, len(objects))
		for i, object := range objects {
			names[i] = v.name(object)
		}
		return c.writeNames(names)
	case formatTable, formatWide:
		if len(objects) == 0 {
			c.notef("no %s", v.plural)
			return nil
		}
		s := &sheet{wide: c.output == formatWide, colour: c.colour()}
		writeTable(s, v.columns, objects)
		return c.emit(s.bytes())
	}
	items := make([]json.RawMessage, len(objects))
	for i, object := range objects {
		item, err := encode(object)
		if err != nil {
			return err
		}
		items[i] = item
	}
	if c.output == formatJSONL {
		return c.writeLines(items)
	}
	document, err := json.Marshal(items)
	if err != nil {
		return err
	}
	return c.write(document)
}

// encode makes JSON of a message, with false, 0 and empty lists in it, or of
// any other value.
func encode(value any) (json.RawMessage, error) {
	if message, ok := value.(proto.Message); ok {
		return protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(message)
	}
	return json.Marshal(value)
}

// write writes a JSON document as indented JSON or as YAML.
func (c *cli) write(document json.RawMessage) error {
	if c.output == formatYAML {
		text, err := toYAML(document)
		if err != nil {
			return err
		}
		return c.emit(text)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, document, "", "  "); err != nil { // protojson's own spacing varies on purpose
		return err
	}
	b.WriteByte('\n')
	return c.emit([]byte(escapeInQuotes(b.String(), jsonEscape)))
}

func (c *cli) writeLines(items []json.RawMessage) error {
	var b bytes.Buffer
	for _, item := range items {
		if err := json.Compact(&b, item); err != nil {
			return err
		}
		b.WriteByte('\n')
	}
	return c.emit([]byte(escapeInQuotes(b.String(), jsonEscape)))
}

func (c *cli) writeNames(names []string) error {
	var b bytes.Buffer
	for _, name := range names {
		fmt.Fprintln(&b, printable(name))
	}
	return c.emit(b.Bytes())
}

func (c *cli) emit(text []byte) error {
	if _, err := c.stdout.Write(text); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

func jsonEscape(r rune) string {
	if high, low := utf16.EncodeRune(r); r >= 0x10000 {
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

func yamlEscape(r rune) string {
	if r >= 0x10000 {
		return fmt.Sprintf(`\U%08x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// toYAML turns JSON into block YAML with the keys in the same order. A string
// with anything that deceives is quoted, so that it can be escaped.
func toYAML(document json.RawMessage) ([]byte, error) {
	var node yaml.Node // JSON is YAML, but for a few characters
	if err := yaml.Unmarshal([]byte(escapeInQuotes(string(document), yamlEscape)), &node); err != nil {
		return nil, err
	}
	blockStyle(&node)
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(&node); err != nil {
		return nil, err
	}
	return []byte(escapeInQuotes(b.String(), yamlEscape)), nil
}

func blockStyle(node *yaml.Node) {
	node.Style = 0
	if node.Kind == yaml.ScalarNode && strings.ContainsFunc(node.Value, func(r rune) bool { return r != '\n' && deceives(r) }) {
		node.Style = yaml.DoubleQuotedStyle
	}
	for _, child := range node.Content {
		blockStyle(child)
	}
}
