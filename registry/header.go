package registry

import (
	"slices"
	"strings"
)

// header collects a parameter's x-mcp-header, by which clients that speak HTTP
// send its value in the header Mcp-Param-{name} too, and judges it by the
// constraints of MCP 2026-07-28 (SEP-2243). Clients drop a tool that breaks them,
// and so do we, whatever the transport.
func (w *walk) header(n, m *node) {
	bad := func(problem string) { w.faultf(ReasonInvalidHeaderMapping, "%s", problem) }
	w.headers.at(w.path)
	w.headers.buf = w.appendNode(w.headers.buf, m)
	if m.kind != '"' || w.empty(m) {
		bad("is not the name of a header")
		return
	}
	name := strings.ToLower(string(w.bytes(m)))
	switch {
	case strings.ContainsFunc(name, notToken):
		bad("holds characters that a header's name cannot have")
	case w.mirrored[name]:
		bad("names a header that another parameter has")
	case !w.primitive(w.get(n, "type")):
		bad("stands at a parameter that is no string, integer or boolean")
	}
	if w.mirrored == nil {
		w.mirrored = map[string]bool{}
	}
	w.mirrored[name] = true
}

// primitive says whether a type can be mirrored into a header: one of three,
// perhaps with null, for which no header is sent.
func (w *walk) primitive(kind *node) bool {
	one := func(n *node) bool {
		return n.kind == '"' && slices.Contains([]string{"boolean", "integer", "string"}, string(w.bytes(n)))
	}
	switch {
	case kind == nil:
		return false
	case kind.kind != '[':
		return one(kind)
	}
	found := 0
	for i := range w.kids(kind) {
		switch n := &w.kids(kind)[i]; {
		case one(n):
			found++
		case n.kind != '"' || string(w.bytes(n)) != "null":
			return false
		}
	}
	return found == 1
}

// notToken says whether a character cannot stand in a token (RFC 9110, 5.6.2).
func notToken(r rune) bool {
	letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}
