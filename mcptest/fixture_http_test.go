package mcptest_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/mcptest"
)

// peer is a script that runs, and a client that shows the bare exchange.
type peer struct {
	*mcptest.Server
	t      *testing.T
	client *http.Client
}

// reply is what came of one request.
type reply struct {
	status int
	header http.Header
	body   string
	err    error
}

func (p *peer) do(timeout time.Duration, method, url, body string, header ...string) reply {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 128<<20))
	return reply{resp.StatusCode, resp.Header, string(text), err}
}

const patience = 10 * time.Second

func request(method, params string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":` + params + `}`
}

// call asks as a client of the older era does.
func (p *peer) call(method, params string, header ...string) reply {
	p.t.Helper()
	return p.do(patience, http.MethodPost, p.URL, request(method, params), header...)
}

func (p *peer) list(header ...string) reply {
	p.t.Helper()
	return p.call("tools/list", "{}", header...)
}

// modern asks as a client of 2026-07-28 does.
func (p *peer) modern(method string) reply {
	p.t.Helper()
	return p.call(method, `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}`,
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method)
}

func (p *peer) is(what string, ok bool, got reply) {
	p.t.Helper()
	if !ok {
		got.body = got.body[:min(len(got.body), 400)]
		p.t.Errorf("%s: %d %v %q %v", what, got.status, got.header, got.body, got.err)
	}
}

func (p *peer) status(want int, got reply) {
	p.t.Helper()
	p.is(fmt.Sprintf("status %d", want), got.status == want && got.err == nil, got)
}

// says wants 200 with this text.
func (p *peer) says(want string, got reply) {
	p.t.Helper()
	p.is("says "+want, got.status == http.StatusOK && got.err == nil && got.body == want, got)
}

func (p *peer) contains(want string, got reply) {
	p.t.Helper()
	p.is("contains "+want, got.err == nil && strings.Contains(got.body, want), got)
}

// tools gives the names of the tools in an answer, and the cursor that follows.
func (p *peer) tools(got reply) (names []string, next *string) {
	p.t.Helper()
	var message struct {
		Result struct {
			Tools []struct {
				Name string `json:"name"`
			} `json:"tools"`
			Next *string `json:"nextCursor"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(got.body), &message); err != nil {
		p.is("a list", false, got)
	}
	for _, tool := range message.Result.Tools {
		names = append(names, tool.Name)
	}
	return names, message.Result.Next
}

// page reads one page and gives its tools and cursor as a text.
func (p *peer) page(params string) string {
	p.t.Helper()
	names, next := p.tools(p.call("tools/list", params))
	if next == nil {
		return strings.Join(names, " ") + "."
	}
	return strings.Join(names, " ") + " > " + *next
}

// bounded is for exchanges of which only the beginning is read.
func (p *peer) bounded() context.Context {
	ctx, cancel := context.WithTimeout(p.t.Context(), 3*patience)
	p.t.Cleanup(cancel)
	return ctx
}

// started gives the answer without waiting for its end; close it.
func (p *peer) started(method, body string) *http.Response {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.bounded(), method, p.URL, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// line reads lines until one is not empty.
func (p *peer) line(r *bufio.Reader) string {
	p.t.Helper()
	for {
		text, err := r.ReadString('\n')
		if err != nil {
			p.t.Fatalf("%q: %v", text, err)
		}
		if text = strings.TrimSpace(text); text != "" {
			return text
		}
	}
}

// silent says that nothing at all is answered.
func (p *peer) silent(method, body string) {
	p.t.Helper()
	got := p.do(200*time.Millisecond, method, p.URL, body)
	p.is("nothing", errors.Is(got.err, context.DeadlineExceeded) && got.status == 0, got)
}

const (
	three       = "tool_0000 tool_0001 tool_0002."
	initialize  = `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`
	wellKnown   = "/.well-known/oauth-protected-resource"
	plainObject = `{"type":"object"}`
)

func (p *peer) origin() string { return strings.TrimSuffix(p.URL, "/mcp") }

func (p *peer) get(path string) reply {
	p.t.Helper()
	return p.do(patience, http.MethodGet, p.origin()+path, "")
}

// httpFixtures shows, for every script over HTTP and HTTP+SSE, that it does what
// it says.
var httpFixtures = map[string]func(*peer){
	"honest": func(p *peer) {
		p.contains("supportedVersions", p.modern("server/discover"))
		p.contains(`"protocolVersion":"2025-11-25"`, p.call("initialize", initialize))
		p.contains("tool_0002", p.modern("tools/list"))
		p.page3()
	},
	"honest-modern": func(p *peer) {
		p.contains("supportedVersions", p.modern("server/discover"))
		p.status(404, p.call("initialize", initialize))
		p.status(400, p.list())
	},
	"honest-legacy": func(p *peer) {
		p.status(400, p.modern("server/discover"))
		p.status(400, p.list())
		begun := p.call("initialize", initialize)
		p.is("an event", strings.HasPrefix(begun.body, "event: message\ndata: {"), begun)
		session := begun.header.Get("Mcp-Session-Id")
		p.contains("tool_0002", p.list("Mcp-Session-Id", session))
		p.status(204, p.do(patience, http.MethodDelete, p.URL, "", "Mcp-Session-Id", session))
		p.status(404, p.list("Mcp-Session-Id", session))
	},
	"all-kinds": func(p *peer) {
		p.contains(`"capabilities":{"prompts":{},"resources":{},"tools":{}},"instructions":"Be kind."`, p.modern("server/discover"))
		p.contains("resource_0001", p.call("resources/list", "{}"))
		p.contains("template_0000", p.call("resources/templates/list", "{}"))
		p.contains("prompt_0001", p.call("prompts/list", "{}"))
	},
	"status-503": func(p *peer) {
		p.status(503, p.list())
		p.status(503, p.list())
		p.page3()
	},
	"status-every-third": func(p *peer) {
		for n := 1; n <= 6; n++ {
			p.status(map[bool]int{true: 500, false: 200}[n%3 == 0], p.list())
		}
	},
	"unavailable": func(p *peer) {
		got := p.call("initialize", initialize)
		p.is("Retry-After", got.status == 503 && got.header.Get("Retry-After") == "3", got)
	},
	"rate-limited": func(p *peer) {
		got := p.list()
		p.is("Retry-After", got.status == 429 && got.header.Get("Retry-After") == "7", got)
	},
	"forbidden": func(p *peer) { p.status(403, p.call("initialize", initialize)) },
	"host-rule": func(p *peer) {
		p.status(403, p.list())
		p.status(200, p.list("Host", "localhost:1"))
	},
	"html": func(p *peer) {
		got := p.modern("server/discover")
		p.is("HTML", got.status == 200 && got.header.Get("Content-Type") == "text/html" && strings.Contains(got.body, "<title>"), got)
	},
	"html-discover": func(p *peer) {
		p.says("<!doctype html>", p.modern("server/discover"))
		p.contains("protocolVersion", p.call("initialize", initialize))
	},
	"no-content-type": func(p *peer) {
		got := p.list()
		p.is("none", got.status == 200 && len(got.header.Values("Content-Type")) == 0 && strings.Contains(got.body, `"tools": []`), got)
	},
	"accepted-without-body": func(p *peer) {
		got := p.list()
		p.is("202", got.status == 202 && got.body == "", got)
	},
	"huge-header": func(p *peer) {
		got := p.list()
		if n := len(got.header.Get("X-Big")); n != 2_000_000 {
			p.t.Errorf("%d bytes, %v", n, got.err)
		}
	},
	"delay": func(p *peer) { p.took(500*time.Millisecond, func() { p.page3() }) },
	"pause": func(p *peer) {
		resp := p.started(http.MethodPost, request("tools/list", "{}"))
		p.took(300*time.Millisecond, func() {
			text, err := io.ReadAll(resp.Body)
			p.contains("tool_0002", reply{body: string(text), err: err})
		})
	},
	"slow-pages": func(p *peer) {
		p.took(600*time.Millisecond, func() { p.pages("{}", "tool_0001 > 1", `{"cursor":"1"}`, "tool_0002 > 2") })
	},
	"endless-1xx": func(p *peer) {
		_, read := p.raw(request("tools/list", "{}"))
		for range 100 {
			if got := p.line(read); got != "HTTP/1.1 103 Early Hints" && got != "Link: </a>; rel=preload" {
				p.t.Fatal(got)
			}
		}
	},
	"drip-all": func(p *peer) {
		resp := p.started(http.MethodPost, request("initialize", initialize))
		p.took(900*time.Millisecond, func() {
			two := make([]byte, 2)
			if _, err := io.ReadFull(resp.Body, two); err != nil || string(two) != `{"` {
				p.t.Errorf("%q %v", two, err)
			}
		})
	},
	"drip": func(p *peer) {
		resp := p.started(http.MethodPost, request("tools/list", "{}"))
		p.took(900*time.Millisecond, func() {
			two := make([]byte, 2)
			if _, err := io.ReadFull(resp.Body, two); err != nil || string(two) != `{"` {
				p.t.Errorf("%q %v", two, err)
			}
		})
	},
	"hang":            func(p *peer) { p.silent(http.MethodPost, request("initialize", initialize)) },
	"silent-discover": func(p *peer) { p.silent(http.MethodPost, request("server/discover", "{}")); p.page3() },
	"get-405":         func(p *peer) { p.status(405, p.get("/mcp")); p.page3() },
	"get-silent":      func(p *peer) { p.silent(http.MethodGet, ""); p.page3() },
	"get-empty-stream": func(p *peer) {
		if resp := p.started(http.MethodGet, ""); resp.Header.Get("Content-Type") != "text/event-stream" {
			p.t.Error(resp.Header)
		}
		got := p.do(200*time.Millisecond, http.MethodGet, p.URL, "")
		p.is("nothing comes", got.status == 200 && got.body == "" && errors.Is(got.err, context.DeadlineExceeded), got)
	},
	"close": func(p *peer) {
		got := p.list()
		p.is("EOF", errors.Is(got.err, io.EOF), got)
	},
	"reset": func(p *peer) {
		got := p.list()
		p.is("reset", errors.Is(got.err, syscall.ECONNRESET), got)
	},
	"reset-in-body": func(p *peer) {
		got := p.list()
		p.is("reset", errors.Is(got.err, syscall.ECONNRESET) && got.status == 200 || got.status == 0, got)
	},
	"truncated": func(p *peer) {
		got := p.list()
		p.is("20 bytes", errors.Is(got.err, io.ErrUnexpectedEOF) && got.body == `{"jsonrpc":"2.0","id`, got)
	},
	"half-close": func(p *peer) {
		conn, read := p.raw(request("tools/list", "{}"))
		text, err := io.ReadAll(read)
		if err != nil || !strings.HasSuffix(string(text), `{"jsonrpc":"2.0","id`) {
			p.t.Errorf("%q %v", text, err)
		}
		for range 3 { // the other half stays: writing does not fail
			if _, err := io.WriteString(conn, "still here"); err != nil {
				p.t.Error(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
	},
	"not-http": func(p *peer) {
		_, read := p.raw(request("tools/list", "{}"))
		if got := p.line(read); got != "SSH-2.0-OpenSSH_9.2" {
			p.t.Error(got)
		}
	},
	"endless-headers": func(p *peer) {
		_, read := p.raw(request("tools/list", "{}"))
		if got := p.line(read); got != "HTTP/1.1 200 OK" {
			p.t.Error(got)
		}
		for range 100 {
			if got := p.line(read); got != "X-Header: and another one" {
				p.t.Fatal(got)
			}
		}
	},
	"gzip-bomb": func(p *peer) {
		resp := p.startedWith("Accept-Encoding", "gzip")
		var packed counter
		z, err := gzip.NewReader(io.TeeReader(resp.Body, &packed))
		if err != nil {
			p.t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, z)
		if n != 100<<20 || err != nil || packed > 200_000 {
			p.t.Errorf("%d of %d bytes, %v", n, packed, err)
		}
	},
	"gzip": func(p *peer) {
		resp := p.startedWith("Accept-Encoding", "gzip")
		z, err := gzip.NewReader(resp.Body)
		if err != nil {
			p.t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		p.contains("tool_0002", reply{body: string(text), err: err})
	},
	"large-body": func(p *peer) {
		n, err := io.Copy(io.Discard, p.started(http.MethodPost, request("tools/list", "{}")).Body)
		if n != 100<<20 || err != nil {
			p.t.Errorf("%d bytes, %v", n, err)
		}
	},
	"endless-body": func(p *peer) {
		n, err := io.CopyN(io.Discard, p.started(http.MethodPost, request("tools/list", "{}")).Body, 50<<20)
		if err != nil {
			p.t.Errorf("%d bytes, %v", n, err)
		}
	},
	"many-tools": func(p *peer) {
		names, _ := p.tools(p.list())
		if len(names) != 10_001 || names[10_000] != "tool_10000" {
			p.t.Errorf("%d tools", len(names))
		}
	},
	"huge-page": func(p *peer) {
		got := p.list()
		p.is("9 MB", len(got.body) > 9_000_000 && len(got.body) < 9_010_000, reply{err: got.err})
	},
	"big-tool": func(p *peer) {
		got := p.list()
		p.is("300 kB", len(got.body) > 300_000 && len(got.body) < 300_200, got)
		if got := p.page(`{"cursor":"1"}`); got != "a." {
			p.t.Error(got)
		}
	},
	"deep-tool": func(p *peer) { p.contains(strings.Repeat(`"items":{"type":"array",`, 79), p.compact(p.list())) },
	"redirect": func(p *peer) {
		got := p.list()
		p.is("307", got.status == 307 && got.header.Get("Location") == p.origin()+"/moved", got)
		p.says("moved here", p.get("/moved"))
	},
	"redirect-chain": func(p *peer) {
		var hops []string
		at := p.URL
		for range 4 {
			got := p.do(patience, http.MethodPost, at, request("tools/list", "{}"))
			at = got.header.Get("Location")
			hops = append(hops, fmt.Sprintf("%d %s", got.status, strings.TrimPrefix(at, p.origin())))
		}
		if diff := cmp.Diff([]string{"307 /one", "302 /two", "308 /mcp", "307 /one"}, hops); diff != "" {
			p.t.Error(diff)
		}
	},
	"redirect-canary": func(p *peer) {
		got := p.list()
		p.is("elsewhere", got.status == 307 && got.header.Get("Location") == p.Canary.URL, got)
		p.seen(got.header.Get("Location"))
	},
	"auth-challenge": func(p *peer) {
		got := p.list()
		p.is("challenge", got.status == 401 && got.header.Get("WWW-Authenticate") ==
			`Bearer resource_metadata="`+p.origin()+wellKnown+`/mcp", scope="tools"`, got)
		p.says(p.metadata(), p.get(wellKnown+"/mcp"))
	},
	"auth-no-challenge": func(p *peer) {
		p.unauthorised()
		p.says(p.metadata(), p.get(wellKnown+"/mcp"))
	},
	"auth-root-metadata": func(p *peer) {
		p.unauthorised()
		p.status(404, p.get(wellKnown+"/mcp"))
		p.says(p.metadata(), p.get(wellKnown))
	},
	"auth-html-metadata": func(p *peer) {
		p.unauthorised()
		p.says("<!doctype html>", p.get(wellKnown+"/mcp"))
		p.says("<!doctype html>", p.get(wellKnown))
	},
	"auth-canary": func(p *peer) {
		got := p.list()
		_, address, _ := strings.Cut(got.header.Get("WWW-Authenticate"), `resource_metadata="`)
		p.is("401", got.status == 401, got)
		p.seen(strings.TrimSuffix(address, `"`))
	},
	"auth-metadata-canary": func(p *peer) {
		p.unauthorised()
		var metadata struct {
			Servers []string `json:"authorization_servers"`
		}
		if err := json.Unmarshal([]byte(p.get(wellKnown+"/mcp").body), &metadata); err != nil {
			p.t.Fatal(err)
		}
		p.seen(metadata.Servers[0])
	},
	"auth-token": func(p *peer) {
		p.status(401, p.list())
		p.status(401, p.list("Authorization", "Bearer guess"))
		p.status(200, p.list("Authorization", "Bearer letmein"))
	},
	"cursor-empty-page":  func(p *peer) { p.pages("{}", "a > ", `{"cursor":""}`, "b.") },
	"cursor-empty-loop":  func(p *peer) { p.pages("{}", "tool_0000 > ", `{"cursor":""}`, "tool_0000 > ") },
	"cursor-repeat":      func(p *peer) { p.pages("{}", "tool_0001 > again", `{"cursor":"again"}`, "tool_0002 > again") },
	"cursor-alternate":   func(p *peer) { p.pages("{}", "tool_0001 > 1", "{}", "tool_0000 > 0", "{}", "tool_0001 > 1") },
	"cursor-empty-pages": func(p *peer) { p.pages("{}", " > 1", `{"cursor":"1"}`, " > 2") },
	"cursor-endless": func(p *peer) {
		p.pages("{}", "tool_0005 tool_0006 tool_0007 tool_0008 tool_0009 > 1", "{}", "tool_0010 tool_0011 tool_0012 tool_0013 tool_0014 > 2")
	},
	"cursor-repeat-ttl": func(p *peer) {
		p.contains(`"nextCursor":"again","ttlMs":3600000,"cacheScope":"private"`, p.list())
		p.contains(`"nextCursor":"again","ttlMs":3600000`, p.list())
	},
	"pages": func(p *peer) {
		p.pages("{}", "tool_0000 tool_0001 > 1", `{"cursor":"1"}`, "a > 2", `{"cursor":"2"}`, "b.")
	},
	"session-lost": func(p *peer) {
		session := p.call("initialize", initialize).header.Get("Mcp-Session-Id")
		p.contains(`"nextCursor":"1"`, p.list("Mcp-Session-Id", session))
		got := p.call("tools/list", `{"cursor":"1"}`, "Mcp-Session-Id", session)
		p.is("lost", got.status == 404 && strings.Contains(got.body, "Session not found"), got)
		p.status(404, p.list("Mcp-Session-Id", session))
	},
	"session-lost-once": func(p *peer) {
		session := p.call("initialize", initialize).header.Get("Mcp-Session-Id")
		p.contains(`"nextCursor":"1"`, p.list("Mcp-Session-Id", session))
		p.status(404, p.call("tools/list", `{"cursor":"1"}`, "Mcp-Session-Id", session))
		session = p.call("initialize", initialize).header.Get("Mcp-Session-Id")
		p.contains(`"name":"b"`, p.compact(p.call("tools/list", `{"cursor":"1"}`, "Mcp-Session-Id", session)))
	},
	"versions-by-count": func(p *peer) {
		first := p.list()
		p.is("old", !strings.Contains(first.body, "Changed."), first)
		p.contains("Changed.", p.list())
	},
	"versions-by-time": func(p *peer) {
		first := p.list()
		p.is("old", !strings.Contains(first.body, "Changed.") || p.Calls()[0].At > 300*time.Millisecond, first)
		p.eventually(func() bool { return strings.Contains(p.list().body, "Changed.") })
	},
	"versions-by-user-agent": func(p *peer) {
		browser := p.list("User-Agent", "Mozilla/5.0")
		p.is("old", !strings.Contains(browser.body, "Changed."), browser)
		p.contains("Changed.", p.list("User-Agent", "mcp"))
	},
	"reencoded": func(p *peer) {
		seen := map[string]bool{}
		var meaning any
		for range 20 {
			got := p.list()
			seen[got.body] = true
			this := p.meaning(got.body)
			if meaning == nil {
				meaning = this
			}
			if diff := cmp.Diff(meaning, this); diff != "" {
				p.t.Fatal(diff)
			}
		}
		if len(seen) < 15 {
			p.t.Errorf("only %d texts of 20 are different", len(seen))
		}
	},
	"malformed-json":     func(p *peer) { p.says(`{"jsonrpc":"2.0","id":7,"result":{"tools":[`, p.list()) },
	"tools-null":         func(p *peer) { p.result(`{"tools":null}`) },
	"tools-missing":      func(p *peer) { p.result(`{}`) },
	"tools-null-element": func(p *peer) { p.result(`{"tools":[null,{"name":"a","inputSchema":` + plainObject + `}]}`) },
	"tools-without-name": func(p *peer) { p.pages("{}", " a.") },
	"tools-twice":        func(p *peer) { p.pages("{}", "a a b.") }, //nolint:dupword // twice indeed,
	"schemas": func(p *peer) {
		p.pages("{}", "a none null true dialect.")
		p.contains(`"inputSchema":null`, p.compact(p.list()))
	},
	"unadvertised": func(p *peer) {
		p.contains(`"resources":{}`, p.compact(p.modern("server/discover")))
		p.contains("-32601", p.call("resources/list", "{}"))
	},
	"id-wrong":      func(p *peer) { p.contains(`"id":987654321,"result"`, p.list()) },
	"id-other-type": func(p *peer) { p.contains(`"id":"7","result"`, p.list()) },
	"id-null":       func(p *peer) { p.contains(`"id":null,"result"`, p.list()) },
	"id-missing":    func(p *peer) { p.contains(`{"jsonrpc":"2.0","result"`, p.list()) },
	"id-twice":      func(p *peer) { got := p.list(); p.is("twice", strings.Count(got.body, `"id":7,"result"`) == 2, got) },
	"batch":         func(p *peer) { p.contains(`[{"jsonrpc":"2.0","id":7,"result"`, p.list()) },
	"bom":           func(p *peer) { got := p.list(); p.is("BOM", strings.HasPrefix(got.body, "\ufeff{"), got) },
	"tail":          func(p *peer) { got := p.list(); p.is("tail", strings.HasSuffix(got.body, "} and that was it"), got) },
	"neither":       func(p *peer) { p.says(`{"jsonrpc":"2.0","id":7}`, p.compact(p.list())) },
	"error": func(p *peer) {
		p.contains(`"id":7,"error":{"code":-32603,"message":"the database is away","data":{"retry":true}}`, p.compact(p.list()))
	},
	"version-old":     func(p *peer) { p.contains(`"protocolVersion":"2023-01-01"`, p.call("initialize", initialize)) },
	"version-future":  func(p *peer) { p.contains(`"protocolVersion":"2099-01-01"`, p.call("initialize", initialize)) },
	"version-missing": func(p *peer) { p.contains(`"result":{"capabilities"`, p.call("initialize", initialize)) },
	"version-unsupported": func(p *peer) {
		got := p.modern("server/discover")
		p.is("-32022", got.status == 400 && strings.Contains(got.body, "-32022"), got)
	},
	"no-server-info": func(p *peer) {
		got := p.call("initialize", initialize)
		p.is("none", !strings.Contains(got.body, "serverInfo") && strings.Contains(got.body, `"capabilities":null`), got)
	},
	"notifications-first": func(p *peer) { p.methods("notifications/message", "notifications/progress", "") },
	"storm": func(p *peer) {
		got := p.list()
		p.is("1000", strings.Count(got.body, "tools/list_changed") == 1000 && strings.Contains(got.body, "tool_0002"), got)
	},
	"storm-listen": func(p *peer) {
		got := p.do(300*time.Millisecond, http.MethodPost, p.URL, request("subscriptions/listen", "{}"))
		p.is("a storm", strings.HasPrefix(got.body, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"") &&
			strings.Count(got.body, "list_changed") > 10, got)
	},
	"storm-get":     func(p *peer) { p.lines(http.MethodGet, 50, "list_changed") },
	"comments-only": func(p *peer) { p.lines(http.MethodPost, 5, ": still here") },
	"stream-stays-open": func(p *peer) {
		got := p.do(300*time.Millisecond, http.MethodPost, p.URL, request("tools/list", "{}"))
		p.is("open", strings.Contains(got.body, "tool_0002") && errors.Is(got.err, context.DeadlineExceeded), got)
	},
	"tls-self-signed": func(p *peer) { p.certificate("unknown authority") },
	"tls-expired":     func(p *peer) { p.certificate("expired") },
	"tls-other-host":  func(p *peer) { p.certificate("127.0.0.1") },
	"sse-honest": func(p *peer) {
		s := p.events()
		p.status(202, s.post("tools/list"))
		p.contains(`"id":7,"result":{"tools"`, reply{body: s.data()})
		p.status(405, p.list())
	},
	"sse-cross-origin": func(p *peer) {
		s := p.events()
		p.is("elsewhere", strings.HasPrefix(s.endpoint, p.Canary.URL[:len(p.Canary.URL)-4]+"/message"), reply{body: s.endpoint})
		p.seen(s.endpoint)
	},
	"sse-no-endpoint": func(p *peer) { p.lines(http.MethodGet, 5, ": wait") },
	"sse-wrong-event": func(p *peer) { p.lines(http.MethodGet, 1, "event: hello") },
	"sse-post-500":    func(p *peer) { p.status(500, p.events().post("tools/list")) },
	"sse-id-wrong": func(p *peer) {
		s := p.events()
		p.status(202, s.post("tools/list"))
		p.contains(`"id":987654321,"result"`, reply{body: s.data()})
	},
	"sse-drip": func(p *peer) {
		s := p.events()
		p.status(202, s.post("tools/list"))
		p.took(time.Second, func() { p.contains("tool_0002", reply{body: s.data()}) })
	},
	"sse-hang": func(p *peer) {
		s := p.events()
		ctx, cancel := context.WithTimeout(p.t.Context(), 200*time.Millisecond)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.endpoint, strings.NewReader(request("tools/list", "{}")))
		if resp, err := p.client.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		p.status(202, s.post("initialize")) // what hangs holds up nobody
		p.contains("protocolVersion", reply{body: s.data()})
	},
}

// TestFixturesOverHTTP starts every script that is not for stdio.
func TestFixturesOverHTTP(t *testing.T) {
	t.Parallel()
	var names []string
	for _, name := range mcptest.Fixtures() {
		file, err := mcptest.Fixture(name)
		if err != nil {
			t.Fatal(err)
		}
		if file.Transport == mcptest.OverStdio {
			continue
		}
		names = append(names, name)
		show := httpFixtures[name]
		if show == nil {
			t.Errorf("nothing shows what %s does", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, err := file.Start()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(server.Close)
			client := &http.Client{
				Transport:     &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}},
				CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			}
			t.Cleanup(client.CloseIdleConnections)
			show(&peer{Server: server, t: t, client: client})
		})
	}
	if diff := cmp.Diff(names, slices.Sorted(maps.Keys(httpFixtures))); diff != "" {
		t.Errorf("scripts and what shows them (-scripts +shown):\n%s", diff)
	}
}

func (p *peer) page3() { p.t.Helper(); p.pages("{}", three) }

// pages wants pages: params, text, params, text.
func (p *peer) pages(steps ...string) {
	p.t.Helper()
	for i := 0; i < len(steps); i += 2 {
		if got := p.page(steps[i]); got != steps[i+1] {
			p.t.Errorf("page %s is %q, not %q", steps[i], got, steps[i+1])
		}
	}
}

func (p *peer) result(want string) {
	p.t.Helper()
	p.says(`{"jsonrpc":"2.0","id":7,"result":`+want+`}`, p.compact(p.list()))
}

func (p *peer) compact(got reply) reply {
	p.t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, []byte(got.body)); err != nil {
		p.is("JSON", false, got)
	}
	got.body = out.String()
	return got
}

func (p *peer) took(least time.Duration, what func()) {
	p.t.Helper()
	begin := time.Now()
	what()
	if took := time.Since(begin); took < least {
		p.t.Errorf("it took only %s", took)
	}
}

func (p *peer) eventually(what func() bool) {
	p.t.Helper()
	for end := time.Now().Add(patience); !what(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatal("it never happened")
		}
	}
}

func (p *peer) unauthorised() {
	p.t.Helper()
	got := p.list()
	p.is("401 without a challenge", got.status == 401 && got.header.Get("WWW-Authenticate") == "", got)
}

func (p *peer) metadata() string {
	return `{"resource":"` + p.URL + `","authorization_servers":["https://issuer.example"]}`
}

// seen goes where the server led, and finds it in the canary's records.
func (p *peer) seen(address string) {
	p.t.Helper()
	if n := len(p.Canary.Calls()); n != 0 {
		p.t.Errorf("%d calls before", n)
	}
	p.do(patience, http.MethodPost, address, "x", "Authorization", "Bearer secret")
	calls := p.Canary.Calls()
	if len(calls) != 1 || calls[0].Header.Get("Authorization") != "Bearer secret" || string(calls[0].Body) != "x" {
		p.t.Errorf("%+v", calls)
	}
	at, err := url.Parse(address)
	if err != nil || calls[0].Path != cmp2(at.RequestURI(), "/") {
		p.t.Errorf("%v %v", at, err)
	}
}

func cmp2(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// meaning is a list of tools without what may differ: the order of tools and
// of the lists that mean sets.
func (p *peer) meaning(body string) any {
	p.t.Helper()
	var message struct {
		Result struct {
			Tools []map[string]any `json:"tools"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(body), &message); err != nil {
		p.t.Fatal(err)
	}
	tools := map[string]any{}
	for _, tool := range message.Result.Tools {
		tools[fmt.Sprint(tool["name"])] = sorted(reflect.ValueOf(tool).Interface())
	}
	return tools
}

func sorted(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			v[key] = sorted(value)
		}
	case []any:
		slices.SortFunc(v, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	return v
}

// methods wants these messages in the events of one answer; "" is a result.
func (p *peer) methods(want ...string) {
	p.t.Helper()
	var got []string
	for line := range strings.Lines(p.list().body) {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var message struct {
			Method string `json:"method"`
		}
		if err := json.Unmarshal([]byte(data), &message); err != nil {
			p.t.Fatal(err)
		}
		got = append(got, message.Method)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		p.t.Error(diff)
	}
}

// lines wants n lines with this text in a stream.
func (p *peer) lines(method string, n int, want string) {
	p.t.Helper()
	body := request("tools/list", "{}")
	if method == http.MethodGet {
		body = ""
	}
	resp := p.started(method, body)
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		p.t.Error(got)
	}
	read := bufio.NewReader(resp.Body)
	for range n {
		if got := p.line(read); !strings.Contains(got, want) {
			p.t.Fatal(got)
		}
	}
}

func (p *peer) certificate(want string) {
	p.t.Helper()
	got := p.list()
	p.is(want, got.err != nil && strings.Contains(got.err.Error(), "x509") && strings.Contains(got.err.Error(), want), got)
	transport, _ := p.client.Transport.(*http.Transport)
	transport.TLSClientConfig.InsecureSkipVerify = true
	p.page3()
}

type counter int

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

func (p *peer) startedWith(header, value string) *http.Response {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.bounded(), http.MethodPost, p.URL, strings.NewReader(request("tools/list", "{}")))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set(header, value)
	resp, err := p.client.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// raw sends a request over a connection of its own.
func (p *peer) raw(body string) (net.Conn, *bufio.Reader) {
	p.t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(p.t.Context(), "tcp", strings.TrimPrefix(p.origin(), "http://"))
	if err != nil {
		p.t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(3 * patience))
	p.t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	if err != nil {
		p.t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// events opens the stream of HTTP+SSE.
func (p *peer) events() *sse {
	p.t.Helper()
	read := bufio.NewReader(p.started(http.MethodGet, "").Body)
	if got := p.line(read); got != "event: endpoint" {
		p.t.Fatal(got)
	}
	at, err := url.Parse(p.URL)
	if err != nil {
		p.t.Fatal(err)
	}
	to, err := at.Parse(strings.TrimPrefix(p.line(read), "data: "))
	if err != nil {
		p.t.Fatal(err)
	}
	return &sse{p, read, to.String()}
}

type sse struct {
	*peer
	read     *bufio.Reader
	endpoint string
}

func (s *sse) post(method string) reply {
	s.t.Helper()
	return s.do(patience, http.MethodPost, s.endpoint, request(method, "{}"))
}

func (s *sse) data() string {
	s.t.Helper()
	if got := s.line(s.read); got != "event: message" {
		s.t.Fatal(got)
	}
	return strings.TrimPrefix(s.line(s.read), "data: ")
}
