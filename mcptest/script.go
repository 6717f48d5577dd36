package mcptest

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Era says which handshakes a server knows.
type Era int

// The eras.
const (
	Both   Era = iota // server/discover and initialize
	Modern            // server/discover only (2026-07-28)
	Legacy            // initialize only (2025-11-25 and older)
)

// Framing is how answers travel.
type Framing int

// The framings.
const (
	JSON Framing = iota // application/json
	SSE                 // text/event-stream, one event
)

// Modern20260728 is the first revision without initialize.
const Modern20260728 = "2026-07-28"

// Any is the key of a fault that meets every call.
const Any = "*"

// Script is what a [Server] says. Its zero value is an honest server of both
// eras that offers nothing. A script that is in use is changed by [Server.Edit],
// which must replace maps rather than write into them; [Script.Fault] and
// [Script.List] do.
type Script struct {
	Era     Era
	Framing Framing
	// Sessions makes a legacy server hand out a session id and insist on it.
	Sessions bool

	Version      string // protocol revision it settles on; "" = the newest of its era; "-" names none
	Name         string // serverInfo.name; "" = "mcptest"
	Instructions string
	ServerInfo   string // raw JSON in place of serverInfo; "-" leaves it out
	Capabilities string // raw JSON; "" = what Lists has

	// Lists answers list methods, by method. A method that is absent is
	// unknown to the server (-32601).
	Lists map[string]List
	// Faults come first, by JSON-RPC method, by HTTP method where a request has
	// no JSON-RPC one, or [Any].
	Faults map[string]Fault
	// Paths comes before Faults: what is answered at other places than the
	// endpoint, such as /.well-known/oauth-protected-resource, by URL path.
	Paths map[string]Fault
	// Endpoint makes it a server of the older transport HTTP+SSE: a GET gets a
	// stream that names this address, relative or whole, for the POSTs, with
	// $SESSION in it. "" = streamable HTTP.
	Endpoint string
}

// List sets what a list method answers, and removes it when list is nil.
func (s *Script) List(method string, list List) {
	s.Lists = replaced(s.Lists, method, list, list == nil)
}

// Fault sets the fault of a method, and removes it when fault is nil.
func (s *Script) Fault(method string, fault Fault) {
	s.Faults = replaced(s.Faults, method, fault, fault == nil)
}

func replaced[V any](m map[string]V, key string, value V, remove bool) map[string]V {
	m = maps.Clone(m)
	if m == nil {
		m = map[string]V{}
	}
	m[key] = value
	if remove {
		delete(m, key)
	}
	return m
}

// keys names the member of a list result by its method.
var keys = map[string]string{
	"tools/list": "tools", "resources/list": "resources", "resources/templates/list": "resourceTemplates", "prompts/list": "prompts",
}

// result is the honest answer to a request; false when the method is unknown.
func (s *Script) result(call Call) (string, bool) {
	switch call.Method {
	case "server/discover":
		return `{` + s.version(`"supportedVersions":[`, Modern20260728, `],`) + `"capabilities":` + s.capabilities() +
			s.instructions() + `,"resultType":"complete","ttlMs":0,"cacheScope":"private"` + s.serverInfo(`"_meta":{"io.modelcontextprotocol/serverInfo":`, "}") + `}`, true
	case "initialize":
		var params struct {
			ProtocolVersion string `json:"protocolVersion"`
		}
		_ = json.Unmarshal(call.Params, &params)
		return `{` + s.version(`"protocolVersion":`, params.ProtocolVersion, `,`) + `"capabilities":` + s.capabilities() +
			s.instructions() + s.serverInfo(`"serverInfo":`, "") + `}`, true
	}
	list := s.Lists[call.Method]
	if list == nil {
		return "", false
	}
	page := list(call)
	if page.Raw != "" {
		return page.Raw, true
	}
	result := `{"` + keys[call.Method] + `":[` + strings.Join(page.Items, ",") + `]`
	if page.Next != nil {
		result += `,"nextCursor":` + quote(*page.Next)
	}
	if page.More != "" {
		result += "," + page.More
	}
	return result + `}`, true
}

func (s *Script) version(before, asked, after string) string {
	if s.Version == "-" {
		return ""
	}
	return before + quote(cmp.Or(s.Version, asked)) + after
}

func (s *Script) capabilities() string {
	if s.Capabilities != "" {
		return s.Capabilities
	}
	kinds := map[string]bool{}
	for method := range s.Lists {
		kind, _, _ := strings.Cut(method, "/")
		kinds[`"`+kind+`":{}`] = true
	}
	return "{" + strings.Join(slices.Sorted(maps.Keys(kinds)), ",") + "}"
}

func (s *Script) instructions() string {
	if s.Instructions == "" {
		return ""
	}
	return `,"instructions":` + quote(s.Instructions)
}

func (s *Script) serverInfo(before, after string) string {
	if s.ServerInfo == "-" {
		return ""
	}
	return "," + before + cmp.Or(s.ServerInfo, `{"name":`+quote(cmp.Or(s.Name, "mcptest"))+`,"version":"1.0.0"}`) + after
}

func quote(s string) string {
	b, _ := json.Marshal(s) //nolint:errchkjson // a string always can be written
	return string(b)
}

// Page is one page of a list: raw items and the next cursor (nil = the last
// page), or a whole raw result in their place.
type Page struct {
	Items []string
	Next  *string
	More  string // further members of the result, such as "ttlMs":60000
	Raw   string
}

// List answers one page request.
type List func(Call) Page

// Items is a list of one page.
func Items(items ...string) List {
	return func(Call) Page { return Page{Items: items} }
}

// Raw is a list whose result is exactly this, whatever the cursor.
func Raw(result string) List {
	return func(Call) Page { return Page{Raw: result} }
}

// Pages is a list of several pages with the cursors "1", "2", and so on.
func Pages(pages ...[]string) List {
	return func(call Call) Page {
		n := 0
		if cursor := call.Cursor(); cursor != nil {
			n, _ = strconv.Atoi(*cursor)
		}
		if n < 0 || n >= len(pages) {
			return Page{}
		}
		page := Page{Items: pages[n]}
		if n+1 < len(pages) {
			page.Next = new(strconv.Itoa(n + 1))
		}
		return page
	}
}

// Cursors is a list that follows a map from the cursor of the request to the
// page; first is the page of a request without one.
func Cursors(first Page, next map[string]Page) List {
	return func(call Call) Page {
		cursor := call.Cursor()
		if cursor == nil {
			return first
		}
		return next[*cursor]
	}
}

// Endless is a list that never ends: page n (from 1) holds what items gives,
// and next gives the cursor that follows it.
func Endless(items func(n int) []string, next func(n int) string) List {
	return func(call Call) Page {
		return Page{Items: items(call.Nth), Next: new(next(call.Nth))}
	}
}

// Tool gives a plain tool definition.
func Tool(name string) string {
	return `{"name":` + quote(name) + `,"description":` + quote("Does "+name+".") +
		`,"inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}`
}

// Tools gives n plain tool definitions, tool_0000 and so on.
func Tools(n int) []string {
	out := make([]string, n)
	for i := range out {
		number := strconv.Itoa(i)
		out[i] = Tool("tool_" + strings.Repeat("0", max(4-len(number), 0)) + number)
	}
	return out
}
