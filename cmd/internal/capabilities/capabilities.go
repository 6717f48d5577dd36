// Package capabilities reads the capability table: the one that is built in,
// and what a file of the installation adds to it or says otherwise.
package capabilities

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"countersign/registry"
)

//go:embed table.yaml
var builtIn []byte

// builtInName stands for a file's name in faults of the table that is built in.
const builtInName = "built-in table"

// Load gives the built-in table together with the file, if one is named. A
// server of an id that is there already gets what the file says of it: a row of
// the same key in place of the old one, other rows besides. Faults are told by
// file and line, all of them.
func Load(file string) (*registry.CapabilityTable, error) {
	m := &merged{}
	if err := m.add(builtInName, builtIn); err != nil {
		return nil, err
	}
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := m.add(file, text); err != nil {
			return nil, err
		}
	}
	return m.table()
}

// The form of a file.
type (
	document struct {
		Servers []known `yaml:"servers"`
	}

	known struct {
		ID    string `yaml:"id"`
		Title string `yaml:"title"`
		Match struct {
			Reported   []string `yaml:"reported"`
			Registered []string `yaml:"registered"`
		} `yaml:"match"`
		Product      string   `yaml:"product"`
		Foreign      []string `yaml:"foreign"`
		Capabilities []row    `yaml:"capabilities"`
	}

	row struct {
		Key       string `yaml:"key"`
		Feature   string `yaml:"feature"`
		Available *bool  `yaml:"available"`
		Since     struct {
			Axis    registry.Axis `yaml:"axis"`
			Version string        `yaml:"version"`
		} `yaml:"since"`
		RequiresTools []string `yaml:"requires_tools"`
		RequiresArgs  []struct {
			Tool string `yaml:"tool"`
			Arg  string `yaml:"arg"`
		} `yaml:"requires_args"`
		Gates []string `yaml:"gates"`
		Note  string   `yaml:"note"`
	}
)

func (r row) row() registry.CapabilityRow {
	out := registry.CapabilityRow{
		Key: r.Key, Feature: r.Feature, Available: r.Available != nil && *r.Available, Since: registry.Since(r.Since),
		RequiresTools: r.RequiresTools, Gates: r.Gates, Note: r.Note,
	}
	for _, a := range r.RequiresArgs {
		out.RequiresArgs = append(out.RequiresArgs, registry.ToolArg(a))
	}
	return out
}

// place is a part of a file.
type place struct {
	file string
	node *yaml.Node
}

// merged are the servers of all files so far, with the places where each part
// of them was said last.
type merged struct {
	servers []registry.KnownServer
	places  []places
}

type places struct {
	whole  place
	fields map[string]place // by the name of the field
	rows   []place
}

// add reads a file over what is there.
func (m *merged) add(file string, text []byte) error {
	doc, root, err := read(file, text)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for i, k := range doc.Servers {
		node := item(field(root, "servers"), i)
		if seen[k.ID] {
			return fmt.Errorf("%s:%d: there are two servers of the id %q", file, at(node, "id").Line, k.ID)
		}
		seen[k.ID] = true
		if err := m.server(place{file, node}, k); err != nil {
			return err
		}
	}
	return nil
}

// read decodes a file strictly.
func read(file string, text []byte) (document, *yaml.Node, error) {
	var (
		doc    document
		nodes  yaml.Node
		faults *yaml.TypeError
	)
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	err := decoder.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		return doc, nil, fmt.Errorf("%s: is empty", file)
	case errors.As(err, &faults):
		lines := make([]string, len(faults.Errors))
		for i, fault := range faults.Errors {
			lines[i] = file + ":" + strings.TrimPrefix(fault, "line ")
		}
		return doc, nil, errors.New(strings.Join(lines, "\n"))
	case err != nil:
		return doc, nil, fmt.Errorf("%s:%s", file, strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "line "))
	}
	var more yaml.Node
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return doc, nil, fmt.Errorf("%s:%d: there is a second document", file, more.Line)
	}
	if err := yaml.Unmarshal(text, &nodes); err != nil {
		return doc, nil, fmt.Errorf("%s: %w", file, err)
	}
	return doc, nodes.Content[0], nil
}

// server takes what a file says of one server.
func (m *merged) server(where place, k known) error {
	n := -1
	for i := range m.servers {
		if m.servers[i].ID == k.ID {
			n = i
		}
	}
	if n < 0 {
		n = len(m.servers)
		m.servers = append(m.servers, registry.KnownServer{ID: k.ID})
		m.places = append(m.places, places{whole: where, fields: map[string]place{}})
	}
	server, at := &m.servers[n], &m.places[n]
	for name, take := range map[string]func(){
		"title":   func() { server.Title = k.Title },
		"match":   func() { server.Reported, server.Registered = k.Match.Reported, k.Match.Registered },
		"product": func() { server.Product = k.Product },
		"foreign": func() { server.Foreign = k.Foreign },
	} {
		if node := field(where.node, name); node != nil {
			at.fields[name] = place{where.file, node}
			take()
		}
	}
	rows := map[string]bool{}
	for i, r := range k.Capabilities {
		node := item(field(where.node, "capabilities"), i)
		if r.Available == nil {
			return fmt.Errorf("%s:%d: available: is required, true or false", where.file, node.Line)
		}
		j := 0
		for j < len(server.Rows) && (server.Rows[j].Key != r.Key || rows[r.Key]) {
			j++
		}
		rows[r.Key] = true
		if j == len(server.Rows) {
			server.Rows, at.rows = append(server.Rows, registry.CapabilityRow{}), append(at.rows, place{})
		}
		server.Rows[j], at.rows[j] = r.row(), place{where.file, node}
	}
	return nil
}

// table checks what was merged.
func (m *merged) table() (*registry.CapabilityTable, error) {
	table, err := registry.NewCapabilityTable(m.servers)
	if err == nil {
		return table, nil
	}
	e, ok := registry.AsError(err)
	if !ok || len(e.Fields) == 0 {
		return nil, err
	}
	lines := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		lines[i] = m.locate(f)
	}
	return nil, errors.New(strings.Join(lines, "\n"))
}

// locate says a fault by file and line. Its path is one of
// [registry.NewCapabilityTable].
func (m *merged) locate(f registry.Field) string {
	var n, j int
	rest := f.Path
	if _, err := fmt.Sscanf(rest, "servers[%d]", &n); err != nil || n >= len(m.places) {
		return f.Path + ": " + f.Message
	}
	_, rest, _ = strings.Cut(rest, "].")
	places := m.places[n]
	where := places.whole
	if _, err := fmt.Sscanf(rest, "capabilities[%d]", &j); err == nil && j < len(places.rows) {
		where = places.rows[j]
		_, rest, _ = strings.Cut(rest, "].")
		return fmt.Sprintf("%s:%d: %s: %s", where.file, at(where.node, rest).Line, rest, f.Message)
	}
	name, below, _ := strings.Cut(rest, ".")
	name, index, listed := strings.Cut(name, "[")
	if said, ok := places.fields[name]; ok {
		if listed {
			below = "[" + index
		}
		return fmt.Sprintf("%s:%d: %s: %s", said.file, at(said.node, below).Line, rest, f.Message)
	}
	return fmt.Sprintf("%s:%d: %s: %s", where.file, at(where.node, rest).Line, rest, f.Message)
}

// at follows a path such as since.version or gates[1] as far as there is
// something, and gives the node there.
func at(node *yaml.Node, path string) *yaml.Node {
	for path != "" {
		var next *yaml.Node
		step, rest, _ := strings.Cut(path, ".")
		name, index, listed := strings.Cut(step, "[")
		if listed {
			var i int
			if _, err := fmt.Sscanf(index, "%d]", &i); err != nil {
				return node
			}
			list := node
			if name != "" {
				list = field(node, name)
			}
			next = item(list, i)
		} else {
			next = field(node, name)
		}
		if next == nil {
			return node
		}
		node, path = next, rest
	}
	return node
}

// field gives the value of a mapping's key, or nil.
func field(node *yaml.Node, name string) *yaml.Node {
	if node == nil || node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			return node.Content[i+1]
		}
	}
	return nil
}

// item gives an element of a list, or nil.
func item(node *yaml.Node, i int) *yaml.Node {
	if node == nil || node.Kind != yaml.SequenceNode || i >= len(node.Content) {
		return nil
	}
	return node.Content[i]
}
