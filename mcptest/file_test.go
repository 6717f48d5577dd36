package mcptest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"countersign/mcptest"
)

func TestWhatIsWrongWithAScriptIsSaidWithItsPlace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"no JSON", "{\n\"about\": \"x\",\n}", "x.json: line 3: "},
		{"no object", `[]`, "x.json: the file: not an object"},
		{"no about", `{}`, "x.json: about: it must say in one line"},
		{"unknown key", `{"about":"x","fault":[]}`, `x.json: the file: unknown key "fault"; it knows about, `},
		{"key in other letters", `{"About":"x"}`, `unknown key "About"`},
		{"key twice", `{"about":"x","about":"y"}`, `x.json: the file: the key "about" comes twice`},
		{"key deep inside", `{"about":"x","faults":[{"hang":true},{"when":{"frist":1}}]}`, `x.json: faults[1].when: unknown key "frist"; it knows after, cursor, during, every, first, lacks, since, userAgent`},
		{"another kind", `{"about":"x","faults":[{"status":"503"}]}`, "x.json: faults[0].status: not a number"},
		{"null", `{"about":"x","faults":[{"status":null}]}`, "x.json: faults[0].status: null is no value here"},
		{"duration", `{"about":"x","faults":[{"delay":"5"}]}`, `x.json: faults[0].delay: time: missing unit`},
		{"negative duration", `{"about":"x","faults":[{"delay":"-5s"}]}`, `faults[0].delay: a duration cannot be negative`},
		{"duration as number", `{"about":"x","faults":[{"delay":5}]}`, `x.json: faults[0].delay: not a number of seconds but a text such as "5s"`},
		{"transport", `{"about":"x","transport":"tcp"}`, `x.json: transport: "tcp" is none of`},
		{"knob of HTTP", `{"about":"x","transport":"stdio","faults":[{"redirect":"/"}]}`, "x.json: faults[0].redirect: not for the transport stdio, only for http,sse"},
		{"knob of stdio", `{"about":"x","process":{"deaf":true}}`, "x.json: process: not for the transport http, only for stdio"},
		{"two answers", `{"about":"x","faults":[{"hang":true,"body":"x"}]}`, "x.json: faults[0]: only one of hang, "},
		{"era", `{"about":"x","era":"future"}`, `x.json: era: "future" is none of`},
		{"era of HTTP+SSE", `{"about":"x","transport":"sse","era":"modern"}`, "x.json: era: HTTP+SSE ended"},
		{"id", `{"about":"x","faults":[{"id":"odd"}]}`, `x.json: faults[0].id: "odd" is none of`},
		{"cut", `{"about":"x","faults":[{"cut":{"by":"axe"}}]}`, `x.json: faults[0].cut.by: "axe" is none of`},
		{"list", `{"about":"x","lists":{"tools":{}}}`, `x.json: lists["tools"]: no list method`},
		{"endless", `{"about":"x","lists":{"tools/list":{"endless":{"items":"some","cursor":""}}}}`, `x.json: lists["tools/list"].endless.items: "some" is none of`},
		{"reencode", `{"about":"x","lists":{"tools/list":{"reencode":["rot13"]}}}`, `x.json: lists["tools/list"].reencode: "rot13" is none of`},
		{"pages and items", `{"about":"x","lists":{"tools/list":{"plain":1,"pages":[]}}}`, `x.json: lists["tools/list"]: pages goes with none of`},
		{"path", `{"about":"x","paths":{"x":{"status":200}}}`, `x.json: paths["x"]: a path begins with /`},
		{"tls", `{"about":"x","tls":"good"}`, `x.json: tls: "good" is none of`},
		{"fork", `{"about":"x","transport":"stdio","process":{"fork":{"seconds":0}}}`, `x.json: process.fork.seconds: from 1 to 3600`},
		{"exit", `{"about":"x","transport":"stdio","process":{"exit":256}}`, `x.json: process.exit: an exit code`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := mcptest.Parse("x.json", []byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v", err)
			}
		})
	}
	if _, err := mcptest.Load(filepath.Join(t.TempDir(), "none.json")); err == nil {
		t.Error("a file that is not there is read")
	}
	if _, err := mcptest.Fixture("none"); err == nil {
		t.Error("a script that is not there is read")
	}
}

func TestItemsOfAScriptTravelByteByByte(t *testing.T) {
	t.Parallel()
	const item = `{"name":"x", "name":"\u0078","n":1e999999999,"s":"\ud800"}`
	s := start(t, `{"about":"x","lists":{"tools/list":{"items":[`+item+`]}}}`, nil)
	if got := s.list(); !strings.Contains(got.body, item) {
		t.Error(got.body)
	}
}

func TestTheFirstFaultThatMeetsACallAnswersIt(t *testing.T) {
	t.Parallel()
	s := start(t, `{"about":"x","lists":{"tools/list":{"plain":3}},"faults":[
		{"on":["tools/list","prompts/list"],"when":{"first":1},"status":501},
		{"on":"tools/list","when":{"first":2},"status":502},
		{"when":{"after":2,"first":3},"status":503}]}`, nil)
	s.status(501, s.call("prompts/list", "{}"))
	for _, status := range []int{501, 502, 503, 200} {
		s.status(status, s.list())
	}
}

func start(t *testing.T, text string, log *bytes.Buffer) *peer {
	t.Helper()
	file, err := mcptest.Parse("script", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var server *mcptest.Server
	if log == nil {
		server, err = file.Start()
	} else {
		server, err = file.Listen("127.0.0.1:0", log)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	return &peer{Server: server, t: t, client: client}
}

func TestAServerIsAskedAndToldOverHTTP(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := start(t, `{"about":"x","lists":{"tools/list":{"plain":1}},"paths":{"/x":{"redirect":"$CANARY/y"}}}`, &log)
	s.list("Authorization", "Bearer secret")
	s.do(patience, http.MethodGet, s.origin()+"/x", "") // follows
	calls := func(of string) (out []string) {
		got := s.get(mcptest.ControlPath + "calls" + of)
		var calls []mcptest.Call
		if err := json.Unmarshal([]byte(got.body), &calls); err != nil {
			s.is("calls", false, got)
		}
		for _, c := range calls {
			out = append(out, c.HTTP+" "+c.Path+" "+c.Method+" "+c.Header.Get("Authorization"))
		}
		return out
	}
	if diff := cmp.Diff([][]string{{"POST /mcp tools/list Bearer secret", "GET /x  "}, {"GET /y  "}}, [][]string{calls(""), calls("?of=canary")}); diff != "" {
		t.Error(diff)
	}
	s.contains(`"calls":2,`, s.get(mcptest.ControlPath+"state"))
	s.contains(`"canaryCalls":1,"canaryConnections":1`, s.get(mcptest.ControlPath+"state"))

	put := func(text string) reply {
		return s.do(patience, http.MethodPut, s.origin()+mcptest.ControlPath+"script", text)
	}
	s.status(204, put(`{"about":"y","faults":[{"status":418}],"paths":{"/z":{"body":"$CANARY"}}}`))
	s.status(418, s.list())
	s.says(strings.TrimSuffix(s.Canary.URL, "/mcp"), s.get("/z"))
	s.status(400, put(`{"about":"y","faults":[{"stauts":418}]}`))
	s.status(400, put(`{"about":"y","transport":"stdio"}`))
	s.status(418, s.list())
	s.status(204, s.do(patience, http.MethodDelete, s.origin()+mcptest.ControlPath+"calls", ""))
	if got := calls(""); len(got) != 0 || s.Count("tools/list") != 0 {
		t.Error(got)
	}

	s.Close()
	var events []string
	for line := range strings.Lines(log.String()) {
		var r mcptest.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.Call != nil {
			r.Event += r.Of + " " + r.Call.Path
		}
		events = append(events, r.Event)
	}
	if diff := cmp.Diff([]string{"start", "call /mcp", "call /x", "callcanary /y", "call /mcp", "call /z", "call /mcp"}, events); diff != "" {
		t.Error(diff)
	}
}

func TestAScriptForStdioIsServedInProcessToo(t *testing.T) {
	t.Parallel()
	file, err := mcptest.Parse("script", []byte(`{"about":"x","transport":"stdio","era":"modern","lists":{"tools/list":{"plain":1}},"faults":[{"on":"prompts/list","exit":7}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Start(); err == nil {
		t.Error("it has an address")
	}
	serve := func(in string) (string, int) {
		var out bytes.Buffer
		code, err := file.Serve(context.WithoutCancel(t.Context()), mcptest.Process{In: strings.NewReader(in), Out: &out, Err: &out})
		if err != nil {
			t.Fatal(err)
		}
		return out.String(), code
	}
	meta := `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}`
	out, code := serve(request("server/discover", meta) + "\n" + request("tools/list", meta) + "\n" + request("initialize", "{}") + "\n")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(lines)
	if code != 0 || len(lines) != 3 || !strings.Contains(lines[0], "-32601") || !strings.Contains(lines[1], "supportedVersions") || !strings.Contains(lines[2], "tool_0000") {
		t.Errorf("%d %q", code, lines)
	}
	if out, code := serve(request("prompts/list", meta)); code != 7 || out != "" {
		t.Errorf("%d %q", code, out)
	}
}
