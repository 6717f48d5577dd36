package aep

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"countersign/registry"
)

// Version is the one protocol version that is understood, exactly (R101).
const Version = "2026-08-01"

// Limits of a descriptor. They are ours: the protocol has none.
const (
	MaxBytes         = 1 << 20 // of the answer
	MaxServers       = 32
	MaxContributions = 1000
	MaxIDLength      = 256  // of every id, name and version, in bytes
	MaxTextLength    = 4096 // of a description, in bytes
)

// Descriptor is what an extension says of itself, judged and without faults.
type Descriptor struct {
	Extension    Extension
	Capabilities map[string]Capability // by name, unknown ones too
	Tools        []Contribution
	Servers      []Server
	Warnings     []registry.Field // what is odd and does no harm
}

// Extension is who the descriptor is of.
type Extension struct{ ID, Name, Version, Description string }

// Capability is one ability of an extension, such as aep.health.
type Capability struct{ Version, Endpoint string }

// Contribution is one tool that the extension contributes: a name for people,
// and which tool of which of its MCP servers it is.
type Contribution struct{ ID, DisplayName, Description, Server, Tool string }

// Server is an MCP server that the extension declares. URL is its endpoint,
// resolved against the extension's base.
type Server struct{ ID, Endpoint, URL string }

// Parse reads and judges a descriptor that was got from a base URL; want is the
// id that the extension must have (R101). The error lists every fault (R102),
// also when one of them, another version or identity, is the reason.
func Parse(raw []byte, base, want string) (Descriptor, error) {
	p := parser{base: base, ids: map[string]bool{}}
	top, err := p.object(raw)
	if err != nil {
		return Descriptor{}, invalidResponse("the answer is not a JSON object: %s", err.Error())
	}
	version := p.text(top, "protocolVersion", "protocolVersion", MaxIDLength, true)
	if version != "" && version != Version {
		p.faultf("protocolVersion", "is %q, and must be %q", version, Version)
	}
	p.extension(p.member(top, "extension", "extension", true))
	p.capabilities(p.member(top, "capabilities", "capabilities", false))
	p.servers(p.member(top, "mcp", "mcp", false))
	p.tools(p.member(top, "contributions", "contributions", false))
	other := p.out.Extension.ID != "" && p.out.Extension.ID != want
	if other {
		p.faultf("extension.id", "is %q, and the provider is configured for %q", p.out.Extension.ID, want)
	}
	if len(p.faults) == 0 {
		return p.out, nil
	}
	e := registry.Errorf(registry.ReasonDescriptorInvalid, "the descriptor has %d faults: %s", len(p.faults), first(p.faults)).
		WithNext("have the extension's people correct its descriptor, then refresh the provider")
	switch {
	case version != "" && version != Version:
		e = registry.Errorf(registry.ReasonProtocolIncompatible, "the extension speaks version %q of the protocol, and must speak %s", version, Version).
			WithNext("run a version of the extension that speaks AEP %s", Version)
	case other:
		e = registry.Errorf(registry.ReasonIdentityMismatch, "the extension calls itself %q, and the provider is configured for %q", p.out.Extension.ID, want).
			WithNext("check the provider's base URL, or give the provider the extension id that you mean")
	}
	e.Fields = p.faults
	return Descriptor{}, e
}

func first(faults []registry.Field) string { return faults[0].Path + " " + faults[0].Message }

func invalidResponse(format string, args ...any) *registry.Error {
	return registry.Errorf(registry.ReasonInvalidResponse, format, args...).
		WithNext("check the provider's base URL: an AEP descriptor is JSON at %s", Path)
}

// parser collects what it reads and every fault of it.
type parser struct {
	base   string
	out    Descriptor
	faults []registry.Field
	ids    map[string]bool // of the servers
}

// maxFaults bounds how many faults one answer lists.
const maxFaults = 100

func (p *parser) faultf(path, format string, args ...any) {
	if len(p.faults) < maxFaults {
		p.faults = append(p.faults, registry.Field{Path: path, Message: fmt.Sprintf(format, args...)})
	}
}

func (p *parser) extension(fields map[string]json.RawMessage) {
	if fields == nil {
		return
	}
	p.out.Extension = Extension{
		ID:      p.text(fields, "id", "extension.id", MaxIDLength, true),
		Name:    p.text(fields, "name", "extension.name", MaxIDLength, true),
		Version: p.text(fields, "version", "extension.version", MaxIDLength, true),

		Description: p.text(fields, "description", "extension.description", MaxTextLength, false),
	}
}

// capabilities keeps unknown names too. Without a version one is an error,
// outside of "aep." a warning.
func (p *parser) capabilities(fields map[string]json.RawMessage) {
	p.out.Capabilities = map[string]Capability{}
	for _, name := range sortedKeys(fields) {
		path := fmt.Sprintf("capabilities[%q]", name)
		if !strings.HasPrefix(name, "aep.") {
			p.out.Warnings = append(p.out.Warnings, registry.Field{Path: path, Message: `is not a capability of the protocol: its name does not begin with "aep."`})
		}
		if isNull(fields[name]) {
			p.faultf(path+".version", "is missing")
			continue
		}
		capability, err := p.object(fields[name])
		if err != nil {
			p.faultf(path, "is no object: %s", err.Error())
			continue
		}
		p.out.Capabilities[name] = Capability{
			Version:  p.text(capability, "version", path+".version", MaxIDLength, true),
			Endpoint: p.text(capability, "endpoint", path+".endpoint", MaxTextLength, false),
		}
	}
}

func (p *parser) servers(fields map[string]json.RawMessage) {
	list := p.list(fields, "servers", "mcp.servers", MaxServers)
	for i, raw := range list {
		path := fmt.Sprintf("mcp.servers[%d]", i)
		server, err := p.object(raw)
		if err != nil {
			p.faultf(path, "is no object: %s", err.Error())
			continue
		}
		s := Server{ID: p.text(server, "id", path+".id", MaxIDLength, true)}
		switch {
		case s.ID == "":
		case p.ids[s.ID]:
			p.faultf(path+".id", "%q is the id of another server, too", s.ID)
		default:
			p.ids[s.ID] = true
		}
		if s.Endpoint = p.text(server, "endpoint", path+".endpoint", MaxTextLength, true); s.Endpoint != "" {
			if s.URL, err = Resolve(p.base, s.Endpoint); err != nil {
				p.faultf(path+".endpoint", "%s", err.Error())
			}
		}
		p.out.Servers = append(p.out.Servers, s)
	}
}

func (p *parser) tools(fields map[string]json.RawMessage) {
	seen := map[string]bool{}
	for i, raw := range p.list(fields, "tools", "contributions.tools", MaxContributions) {
		path := fmt.Sprintf("contributions.tools[%d]", i)
		tool, err := p.object(raw)
		if err != nil {
			p.faultf(path, "is no object: %s", err.Error())
			continue
		}
		c := Contribution{
			ID:          p.text(tool, "id", path+".id", MaxIDLength, true),
			DisplayName: p.text(tool, "displayName", path+".displayName", MaxIDLength, true),
			Description: p.text(tool, "description", path+".description", MaxTextLength, false),
		}
		if c.ID != "" && seen[c.ID] {
			p.faultf(path+".id", "%q is the id of another contribution, too", c.ID)
		}
		seen[c.ID] = true
		if mcp := p.member(tool, "mcp", path+".mcp", true); mcp != nil {
			c.Server = p.text(mcp, "server", path+".mcp.server", MaxIDLength, true)
			c.Tool = p.text(mcp, "tool", path+".mcp.tool", MaxIDLength, true)
		}
		if c.Server != "" && !p.ids[c.Server] {
			p.faultf(path+".mcp.server", "%q is not declared in mcp.servers", c.Server)
		}
		p.out.Tools = append(p.out.Tools, c)
	}
}

// member gives a field that is an object; nil when it is null, absent or none.
func (p *parser) member(fields map[string]json.RawMessage, name, path string, required bool) map[string]json.RawMessage {
	raw, there := fields[name]
	if !there || isNull(raw) {
		if required {
			p.faultf(path, "is missing")
		}
		return nil
	}
	object, err := p.object(raw)
	if err != nil {
		p.faultf(path, "is no object: %s", err.Error())
	}
	return object
}

// list gives a field that is an array; nil when it is null, absent or none.
func (p *parser) list(fields map[string]json.RawMessage, name, path string, most int) []json.RawMessage {
	raw, there := fields[name]
	if !there || isNull(raw) {
		return nil
	}
	var list []json.RawMessage
	switch err := json.Unmarshal(raw, &list); {
	case err != nil:
		p.faultf(path, "is no array")
	case len(list) > most:
		p.faultf(path, "has %d elements, and may have %d", len(list), most)
		return nil
	}
	return list
}

// text gives a field that is a string of what can be seen; "" when there is
// none, which is a fault of one that is required.
func (p *parser) text(fields map[string]json.RawMessage, name, path string, most int, required bool) string {
	raw, there := fields[name]
	if !there || isNull(raw) {
		if required {
			p.faultf(path, "is missing")
		}
		return ""
	}
	var s string
	switch err := json.Unmarshal(raw, &s); {
	case err != nil:
		p.faultf(path, "is no string")
		return ""
	case required && strings.TrimSpace(s) == "":
		p.faultf(path, "is empty")
		return ""
	case len(s) > most:
		p.faultf(path, "is longer than %d bytes", most)
		return ""
	case !utf8.ValidString(s) || required && strings.ContainsFunc(s, unseen):
		p.faultf(path, "has characters that cannot be seen")
		return ""
	}
	return strings.ReplaceAll(s, "\x00", "\uFFFD") // no database keeps NUL in a text
}

// unseen says whether a character cannot be seen: controls, and what formats or
// hides (S5).
func unseen(r rune) bool { return !unicode.IsPrint(r) && r != ' ' }

// Resolve gives the absolute URL of an endpoint: the base gets one trailing
// slash, then RFC 3986, section 5.2 (R105).
func Resolve(base, endpoint string) (string, error) {
	b, err := url.Parse(base)
	if err != nil {
		return "", registry.Errorf(registry.ReasonInvalidArgument, "the base URL cannot be read")
	}
	b.RawQuery, b.Fragment = "", ""
	b.Path = strings.TrimRight(b.Path, "/") + "/"
	b.RawPath = ""
	ref, err := url.Parse(endpoint)
	if err != nil {
		return "", registry.Errorf(registry.ReasonInvalidArgument, "is no URL reference")
	}
	resolved := b.ResolveReference(ref).String()
	if err := registry.CheckEndpoint(resolved); err != nil {
		return "", err
	}
	return resolved, nil
}
