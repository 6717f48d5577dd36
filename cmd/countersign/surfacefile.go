package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"countersign/registry"
)

// surfaceFormat marks a file that "capture" wrote, and surfaceVersion is the
// newest version of it that this program knows. docs/drift.md describes it.
const (
	surfaceFormat  = "countersign/surface"
	surfaceVersion = 1
)

// maxSurfaceFile bounds what is read of one file, in bytes.
const maxSurfaceFile = 128 << 20

// surfaceHead is a surface file but for its lists.
type surfaceHead struct {
	Format          string     `json:"format"`
	Version         int        `json:"version"`
	ProtocolVersion string     `json:"protocolVersion"`
	ServerInfo      serverInfo `json:"serverInfo"`
	Instructions    string     `json:"instructions"`
	Kinds           []string   `json:"kinds"`
	Quirks          []string   `json:"quirks"`
}

type serverInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// encodeSurface writes a surface file: every item on lines of its own, as the
// server sent it, to the byte.
func encodeSurface(s registry.Surface) ([]byte, error) {
	head, err := json.MarshalIndent(surfaceHead{
		Format: surfaceFormat, Version: surfaceVersion, ProtocolVersion: s.ProtocolVersion,
		ServerInfo: serverInfo{s.Name, s.Version}, Instructions: s.Instructions,
		Kinds: append([]string{}, s.Kinds...), Quirks: append([]string{}, s.Quirks...),
	}, "", "  ")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.Write(bytes.TrimSuffix(head, []byte("\n}")))
	for _, list := range []struct {
		name  string
		items [][]byte
	}{
		{"tools", s.Tools}, {"resources", s.Resources}, {"resourceTemplates", s.Templates}, {"prompts", s.Prompts},
	} {
		fmt.Fprintf(&b, ",\n  %q: [", list.name)
		for i, item := range list.items {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString("\n    ")
			b.Write(item)
		}
		if len(list.items) > 0 {
			b.WriteString("\n  ")
		}
		b.WriteByte(']')
	}
	b.WriteString("\n}\n")
	return b.Bytes(), nil
}

// surfacePage is what one result of a list method has, and what surface files and
// captures have besides. Items stay as they were written.
type surfacePage struct {
	surfaceHead

	Tools             *[]json.RawMessage `json:"tools"`
	Resources         *[]json.RawMessage `json:"resources"`
	ResourceTemplates *[]json.RawMessage `json:"resourceTemplates"`
	Prompts           *[]json.RawMessage `json:"prompts"`
	NextCursor        string             `json:"nextCursor"`

	Name        json.RawMessage `json:"name"` // of a tool, or of a capture
	InputSchema json.RawMessage `json:"inputSchema"`
	Result      json.RawMessage `json:"result"` // of JSON-RPC
	Error       json.RawMessage `json:"error"`

	// A capture keeps the pages of each list by its method.
	Capabilities   map[string]json.RawMessage `json:"capabilities"`
	ToolPages      []json.RawMessage          `json:"toolsListPages"`
	ResourcePages  []json.RawMessage          `json:"resourcesListPages"`
	TemplatePages  []json.RawMessage          `json:"resourceTemplatesListPages"`
	PromptPages    []json.RawMessage          `json:"promptsListPages"`
	DiscoverResult json.RawMessage            `json:"discover"`
}

// seen is what a file tells about a server.
type seen struct {
	surface   registry.Surface
	handshake bool                       // it tells what the handshake told
	lists     map[registry.ItemKind]bool // which lists it has
	more      bool                       // the last page says that there is another one
}

// readSurface reads what a server offers from a surface file, a capture, a raw
// result of a list method, one as JSON-RPC, an array of those, or an array of
// tools.
func (c *cli) readSurface(name string) (*seen, error) {
	raw, err := c.readFile(name)
	if err != nil {
		return nil, err
	}
	s := &seen{lists: map[registry.ItemKind]bool{}}
	if err := s.add(raw, true); err != nil {
		return nil, failf(registry.ReasonMalformedList, "%s: %s", name, err).
			withNext("give a file of countersign capture, the result of tools/list, or an array of its pages")
	}
	return s, nil
}

func (c *cli) readFile(name string) ([]byte, error) {
	in := c.stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, usagef("%s", err)
		}
		defer file.Close()
		in = file
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxSurfaceFile+1))
	switch {
	case err != nil:
		return nil, usagef("%s: %s", name, err)
	case len(raw) > maxSurfaceFile:
		return nil, usagef("%s: larger than %d bytes", name, maxSurfaceFile)
	}
	return raw, nil
}

// add adds what one JSON value tells.
func (s *seen) add(raw []byte, top bool) error {
	raw = bytes.TrimSpace(raw)
	if !json.Valid(raw) {
		return malformed("not valid JSON")
	}
	if raw[0] == '[' && top {
		return s.addArray(raw)
	}
	var p surfacePage
	if err := json.Unmarshal(raw, &p); err != nil {
		return malformed("not what a server lists: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	switch {
	case raw[0] != '{':
		return malformed("neither an object nor an array")
	case p.Error != nil:
		return malformed("it holds an error instead of a result")
	case p.Result != nil:
		return s.add(p.Result, false)
	case p.Format != "":
		if p.Format != surfaceFormat {
			return malformed("its format %q is not %s", p.Format, surfaceFormat)
		}
		if p.Version < 1 || p.Version > surfaceVersion {
			return malformed("its version %d is not known to this program", p.Version)
		}
		s.met(p.surfaceHead)
	case p.ToolPages != nil || p.ResourcePages != nil || p.PromptPages != nil:
		return s.addCapture(&p)
	}
	return s.addLists(raw, &p)
}

func malformed(format string, args ...any) error { return fmt.Errorf(format, args...) }

// addArray adds an array of pages, or of tools.
func (s *seen) addArray(raw []byte) error {
	var elements []json.RawMessage
	if err := json.Unmarshal(raw, &elements); err != nil {
		return err
	}
	s.lists[registry.KindTool] = true
	for i, element := range elements {
		var p surfacePage
		tool := json.Unmarshal(element, &p) != nil || p.Tools == nil && (p.InputSchema != nil || p.Name != nil)
		if tool {
			s.surface.Tools = append(s.surface.Tools, element)
			continue
		}
		if err := s.add(element, false); err != nil {
			return malformed("element %d: %w", i, err)
		}
	}
	return nil
}

// addCapture adds the pages of a capture.
func (s *seen) addCapture(p *surfacePage) error {
	for kind := range p.Capabilities {
		if kind == "tools" || kind == "resources" || kind == "prompts" {
			p.Kinds = append(p.Kinds, kind)
		}
	}
	s.met(p.surfaceHead)
	for _, pages := range [][]json.RawMessage{p.ToolPages, p.ResourcePages, p.TemplatePages, p.PromptPages} {
		for i, one := range pages {
			if err := s.add(one, false); err != nil {
				return malformed("page %d: %w", i, err)
			}
		}
	}
	s.more = false
	return nil
}

// met notes what the handshake told; every list is known then, also one that the
// server does not have.
func (s *seen) met(head surfaceHead) {
	s.handshake = true
	s.surface.ProtocolVersion, s.surface.Instructions = head.ProtocolVersion, head.Instructions
	s.surface.Name, s.surface.Version = head.ServerInfo.Name, head.ServerInfo.Version
	s.surface.Kinds, s.surface.Quirks = slices.Sorted(slices.Values(head.Kinds)), slices.Sorted(slices.Values(head.Quirks))
	for _, kind := range []registry.ItemKind{registry.KindTool, registry.KindResource, registry.KindTemplate, registry.KindPrompt} {
		s.lists[kind] = true
	}
}

// addLists adds the lists of one object. A list that is there must be one.
func (s *seen) addLists(raw []byte, p *surfacePage) error {
	var names map[string]json.RawMessage
	if err := json.Unmarshal(raw, &names); err != nil {
		return err
	}
	found := s.handshake
	for _, list := range []struct {
		name  string
		kind  registry.ItemKind
		items *[]json.RawMessage
		into  *[][]byte
	}{
		{"tools", registry.KindTool, p.Tools, &s.surface.Tools},
		{"resources", registry.KindResource, p.Resources, &s.surface.Resources},
		{"resourceTemplates", registry.KindTemplate, p.ResourceTemplates, &s.surface.Templates},
		{"prompts", registry.KindPrompt, p.Prompts, &s.surface.Prompts},
	} {
		if _, there := names[list.name]; !there {
			continue
		}
		if list.items == nil {
			return malformed("%s is null", list.name)
		}
		found = true
		s.lists[list.kind] = true
		for _, item := range *list.items {
			*list.into = append(*list.into, item)
		}
	}
	if !found {
		return malformed("it has no list")
	}
	s.more = p.NextCursor != ""
	return nil
}

// snapshot judges what a file tells.
func (s *seen) snapshot(name string) (*registry.Snapshot, error) {
	snap, err := registry.NewSnapshot(s.surface, registry.DefaultLimits(), time.Time{})
	if err != nil {
		e, _ := registry.AsError(err)
		return nil, failf(e.Reason, "%s: %s", name, e.Message)
	}
	return &snap, nil
}

// onlyShared forgets what only one of two files tells: that a file does not tell
// something does not mean that the server does not have it.
func onlyShared(a, b *seen) {
	for _, s := range []*seen{a, b} {
		if !a.handshake || !b.handshake {
			s.surface.ProtocolVersion, s.surface.Name, s.surface.Version, s.surface.Instructions = "", "", "", ""
			s.surface.Kinds, s.surface.Quirks = nil, nil
		}
		for kind, list := range map[registry.ItemKind]*[][]byte{
			registry.KindTool: &s.surface.Tools, registry.KindResource: &s.surface.Resources,
			registry.KindTemplate: &s.surface.Templates, registry.KindPrompt: &s.surface.Prompts,
		} {
			if !a.lists[kind] || !b.lists[kind] {
				*list = nil
			}
		}
	}
}

// label names what a file is about.
func (s *seen) label(name string) string {
	if said := some(" ", s.surface.Name, s.surface.Version); said != "" {
		return said
	}
	return filepath.Base(name)
}
