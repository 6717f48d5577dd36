package policy

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// maxDepth bounds the nesting of a JSON document; no field of a bundle is as deep.
const maxDepth = 20

// parseJSON reads a JSON document (RFC 8259) into the nodes that YAML is read into. YAML's own reader would refuse some
// of JSON: tabs between values, and escapes of characters outside the basic plane.
func parseJSON(document []byte) (*yaml.Node, *Problem) {
	r := &jsonReader{document: document, line: 1, decoder: jsontext.NewDecoder(bytes.NewReader(document), jsontext.AllowDuplicateNames(true))}
	root, err := r.value(maxDepth)
	if err == nil {
		_, err = r.decoder.ReadToken()
		if errors.Is(err, io.EOF) {
			return root, nil
		}
		if err == nil {
			err = errors.New("there is something after the end of the document")
		}
	}
	at := int(r.decoder.InputOffset())
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at, err = int(syntactic.ByteOffset), syntactic.Err
	}
	line, column := r.place(at)
	return nil, &Problem{Line: line, Column: column, Message: "this is not JSON: " + err.Error()}
}

type jsonReader struct {
	document    []byte
	decoder     *jsontext.Decoder
	start, line int // of the line that place found last
}

func (r *jsonReader) value(depth int) (*yaml.Node, error) {
	kind := r.decoder.PeekKind()
	at := int(r.decoder.InputOffset())
	// The offset is that of the last value's end; what is next stands after blanks and a comma or colon.
	at += len(r.document[at:]) - len(bytes.TrimLeft(r.document[at:], " \t\r\n,:"))
	token, err := r.decoder.ReadToken()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	n := &yaml.Node{Kind: yaml.ScalarNode}
	n.Line, n.Column = r.place(at)
	if depth == 0 {
		return nil, errors.New("nested too deeply")
	}
	switch kind {
	case 'n':
		n.Tag, n.Value = "!!null", "null"
	case 't', 'f':
		n.Tag, n.Value = "!!bool", token.String()
	case '0':
		n.Tag, n.Value = "!!int", token.String()
		if strings.ContainsAny(n.Value, ".eE") {
			n.Tag = "!!float"
		}
	case '"':
		n.Tag, n.Value, n.Style = "!!str", token.String(), yaml.DoubleQuotedStyle
	case '[':
		n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		return n, r.elements(n, ']', depth-1)
	default:
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
		return n, r.elements(n, '}', depth-1)
	}
	return n, nil
}

// elements reads up to the end of an array or object.
func (r *jsonReader) elements(n *yaml.Node, end jsontext.Kind, depth int) error {
	for r.decoder.PeekKind() != end {
		element, err := r.value(depth)
		if err != nil {
			return err
		}
		n.Content = append(n.Content, element)
	}
	_, err := r.decoder.ReadToken()
	return err
}

// place gives line and column of a byte, both from 1. Bytes are asked for in their order, or the last line again.
func (r *jsonReader) place(at int) (line, column int) {
	at = min(max(at, r.start), len(r.document))
	between := r.document[r.start:at]
	r.line += bytes.Count(between, []byte("\n"))
	r.start += bytes.LastIndexByte(between, '\n') + 1
	return r.line, utf8.RuneCount(r.document[r.start:at]) + 1
}
