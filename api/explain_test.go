package api

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/db"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
	"countersign/workflows"
)

// What people read of a request that is wrong names what is wrong, in words.
func TestFaultsAreToldInWords(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.active(t, alpha, "there", "x")
	for name, c := range map[string]struct {
		method, path, body string
		detail, next       string // parts of them
		fields             []string
	}{
		"nothing but braces": {"POST", "/factory/mcp-servers", "{}", "the request is not valid", "", []string{
			"name: is required: 1 to 63 of a-z, 0-9, _ and -, a letter or digit at both ends",
			`direction: is required, one of consumed, exposed; in JSON as "MCP_DIRECTION_CONSUMED"`,
			`transport: is required, one of streamable_http, stdio; in JSON as "MCP_TRANSPORT_STREAMABLE_HTTP"`,
			`authentication: is required, one of oauth2_protected_resource, workload_identity, none_exception; in JSON as "MCP_AUTHENTICATION_OAUTH2_PROTECTED_RESOURCE"`,
			"governance_policy_ref: is required",
			"protocol_version: is required: a version of the protocol is a date, such as 2026-07-28",
		}},
		"no body":                 {"POST", "/factory/mcp-servers", "", "the request has no body", "", nil},
		"no body, Connect":        {"POST", doList, "", "the request has no body", "", nil},
		"a short name of an enum": {"POST", "/factory/mcp-servers", `{"direction":"consumed"}`, "the request is not valid", "", []string{`direction: "consumed" is not known, one of consumed, exposed; in JSON as "MCP_DIRECTION_CONSUMED"`}},
		"an unknown field":        {"POST", "/factory/mcp-servers", `{"nam":1}`, `a field "nam", which does not exist in RegisterMcpServerRequest`, "RegisterMcpServerRequest", []string{"nam: does not exist"}},
		"a word for a number":     {"GET", "/factory/mcp-servers?pageSize=abc", "", "the request is not valid", "", []string{"page_size: is not valid"}},
		"a tool twice": {
			"POST", "/factory/mcp-servers/there/activate",
			`{"digest":"x","tools":[{"tool":"a","class":"SIDE_EFFECT_CLASS_READ"},{"tool":"a","class":"SIDE_EFFECT_CLASS_SANDBOX"}]}`,
			"the approval names a tool twice", "",
			[]string{`tools[1].tool: "a" stands in tools[0] already`},
		},
		"a path that JSON lacks": {
			"PATCH", "/factory/mcp-servers/there", `{"server":{},"updateMask":"endpoint_url"}`, "the request is not valid", "",
			[]string{`update_mask: "endpoint_url" is not a path in JSON, which writes "endpointUrl"`},
		},
		"a path that nobody changes": {
			"PATCH", "/factory/mcp-servers/there", `{"server":{},"updateMask":"state"}`, "the update is not valid", "",
			[]string{`update_mask: "state" is not a field that can be changed; there are description, owner, labels, product_version, governance_policy_ref, endpoint_url, dial_address, command_ref, endpoint_ref`},
		},
		"an AND and nothing": {"GET", "/factory/mcp-servers?filter=name%3Dx+AND", "", "a comparison is missing behind AND", "=, != and :", []string{"filter: a comparison is missing behind AND"}},
		"a NOT": {
			"GET", "/factory/mcp-servers?filter=NOT+name%3Dx", "", "only comparisons joined by AND", `such as name = "demo"`,
			[]string{`filter: a comparison is expected, not "NOT name=x": OR, NOT, - and parentheses are not supported, only comparisons joined by AND`},
		},
		"nothing at the path": {"GET", "/factory/nope", "", "there is nothing at /factory/nope", "/openapi.json", nil},
		"a server of no name": {"GET", "/factory/mcp-servers/no%E2%80%AEpe", "", `there is no server "no\u202epe"`, "list the servers", nil},
		"its capabilities":    {"GET", "/factory/mcp-servers/nope/capabilities", "", `there is no server "nope"`, "list the servers", nil},
		"a tool of no name":   {"GET", "/factory/tools/a.nope", "", `there is no tool "a.nope"`, "list the tools", nil},
	} {
		header := with("Idempotency-Key", "k")
		if c.method != http.MethodGet {
			header.Set("Content-Type", "application/json")
		}
		_, _, body := h.call(t, c.method, c.path, admin(alpha), c.body, header)
		var got struct {
			Message string           `json:"message"` // on Connect
			Detail  string           `json:"detail"`
			Next    string           `json:"next_step"`
			Fields  []registry.Field `json:"fields"`
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatalf("%s: %v: %s", name, err, body)
		}
		if !strings.Contains(got.Detail+got.Message, c.detail) || !strings.Contains(got.Next, c.next) {
			t.Errorf("%s: %s", name, body)
		}
		var fields []string
		for _, f := range got.Fields {
			fields = append(fields, f.Path+": "+f.Message)
		}
		if diff := cmp.Diff(c.fields, fields); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if asked := h.flows.took(); len(asked) > 0 {
		t.Errorf("the workflows were asked to %v", asked)
	}
}

// Who may not do something is told what would allow it; a host or a page that
// is not served is no matter of roles.
func TestRefusedAccessSaysWhatWouldAllowIt(t *testing.T) {
	t.Parallel()
	h := open(t, func(o *Options) { o.Hosts = []string{"127.0.0.1"} })
	s := h.registered(t, alpha, "there")
	h.changed(t, s, retire)
	for name, c := range map[string]struct {
		got        outcome
		said, next string
	}{
		"a role":  {ways["REST"](t, h, tokenOf(alpha, registry.RoleOperator), doRetire, &pb.RetireMcpServerRequest{ServerId: "there"}, nil), "one of the roles", "AssetMaintainer, PlatformAdmin"},
		"a scope": {ways["REST"](t, h, tokenOf(alpha, registry.RoleObserver), doResolve, &pb.ResolveToolRequest{ToolId: "x"}, nil), "scope", "ask for a token with the scope factory.tools.internal"},
		"retired": {ways["REST"](t, h, admin(alpha), doTest, &pb.TestMcpServerRequest{ServerId: "there"}, nil), "is retired", "register it again under the same name"},
		"a key":   {ways["REST"](t, h, admin(alpha), doRegister, good("new"), keyed("\x80")), "Idempotency-Key must be", "UUID"},
	} {
		if !strings.Contains(c.got.message, c.said) || !strings.Contains(c.got.next, c.next) {
			t.Errorf("%s: %+v", name, c.got)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+"/factory/mcp-servers", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "elsewhere.example:8080"
	response, err := plain.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var p problem
	if err := json.NewDecoder(response.Body).Decode(&p); err != nil {
		t.Fatal(err)
	}
	if p.Reason != registry.ReasonPermissionDenied || p.Detail != `the Host header "elsewhere.example:8080" is not served here` ||
		!strings.Contains(p.NextStep, "`hosts`") || strings.Contains(p.Title, "role") {
		t.Errorf("it is %+v", p)
	}
}

// A HEAD is a GET without its body (RFC 9110, section 9.3.2).
func TestHEADIsAnsweredAsGETWithoutBody(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.active(t, alpha, "there", "x")
	for _, path := range []string{
		"/factory/mcp-servers", "/factory/mcp-servers/there", "/factory/mcp-servers/there/capabilities", "/factory/tools", "/factory/tools/there.x",
		"/factory/mcp-servers/nobody", "/factory/mcp-servers/there/retire", "/readyz", "/livez", "/openapi.json",
	} {
		got, header, _ := h.call(t, http.MethodGet, path, admin(alpha), "", nil)
		status, headers, body := h.call(t, http.MethodHead, path, admin(alpha), "", nil)
		if status != got || body != "" || headers.Get("Content-Type") != header.Get("Content-Type") || headers.Get("Allow") != header.Get("Allow") {
			t.Errorf("%s is %d by GET; by HEAD %d %v %q", path, got, status, headers, body)
		}
	}
	if status, header, _ := h.call(t, http.MethodDelete, "/factory/mcp-servers/there", admin(alpha), "", nil); status != http.StatusMethodNotAllowed || header.Get("Allow") != "GET, HEAD, PATCH" {
		t.Errorf("DELETE is %d, allowed are %q", status, header.Get("Allow"))
	}
}

// overtaken are workflows whose every change is followed by somebody else's
// before the answer is made.
type overtaken struct {
	*flows
}

func (o overtaken) then(ctx context.Context, s registry.Server, err error) (registry.Server, error) {
	if err != nil {
		return s, err
	}
	owner := "somebody else"
	_, err = o.apply(ctx, s.TenantID, db.Change{
		ServerID: s.ServerID, Operation: operationOf("edit"), Catalog: always,
		Apply: func(r *registry.Record, now time.Time) error {
			return r.Edit(registry.Edit{Owner: &owner}, operationOf("edit"), now)
		},
	})
	return s, err
}

func (o overtaken) Decide(ctx context.Context, name string, in workflows.DecideInput) (registry.Server, error) {
	s, err := o.flows.Decide(ctx, name, in)
	return o.then(ctx, s, err)
}

func (o overtaken) Edit(ctx context.Context, name string, in workflows.EditInput) (registry.Server, error) {
	s, err := o.flows.Edit(ctx, name, in)
	return o.then(ctx, s, err)
}

func TestTheAnswerToAChangeIsWhatThisChangeLeft(t *testing.T) {
	t.Parallel()
	var o overtaken
	h := open(t, func(options *Options) {
		flows, _ := options.Workflows.(*flows)
		o.flows = flows
		options.Workflows = &o
	})
	s := h.discovered(t, h.registered(t, alpha, "there"), surface("x"))
	edited := into(t, ways["REST"](t, h, admin(alpha), doUpdate, &pb.UpdateMcpServerRequest{
		ServerId: "there", Server: &pb.ServerPatch{Owner: "me"}, UpdateMask: mask("owner"),
	}, nil), &pb.UpdateMcpServerResponse{}).GetServer()
	if edited.GetOwner() != "me" || edited.GetVersion() != s.Version+1 || edited.GetCounts().GetTools() != 1 || edited.GetEndpointUrl() == "" {
		t.Errorf("the edit is answered by %v", edited)
	}
	rejected := into(t, ways["gRPC"](t, h, admin(alpha), doReject, &pb.RejectMcpServerRequest{
		ServerId: "there", Digest: s.Review.Digest, Comment: "no",
	}, nil), &pb.RejectMcpServerResponse{}).GetServer()
	if rejected.GetVersion() != s.Version+3 || rejected.GetReview().GetStatus() != pb.ReviewStatus_REVIEW_STATUS_REJECTED {
		t.Errorf("the rejection is answered by %v", rejected)
	}
}

// A probe every second must not fill the log while Temporal is away.
func TestTheLogTellsOnceThatADependencyIsAway(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	h := open(t, func(o *Options) {
		o.Checks = []Check{{Name: "temporal", Optional: true, Run: func(context.Context) error {
			if away.Load() {
				return registry.Errorf(registry.ReasonDependency, "no connection")
			}
			return nil
		}}}
	})
	for _, is := range []bool{false, true, true, true, false, false, true} {
		away.Store(is)
		if status, _, _ := h.call(t, http.MethodGet, "/readyz", "", "", nil); status != http.StatusOK {
			t.Errorf("it is %d", status)
		}
	}
	var lines []string
	for line := range strings.Lines(h.logs.String()) {
		var l struct {
			Msg   string `json:"msg"`
			Level string `json:"level"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l.Level+" "+l.Msg)
	}
	want := []string{"WARN a dependency is away", "INFO a dependency is back", "WARN a dependency is away"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
}

func TestCallersMistakesAreNoWarnings(t *testing.T) {
	t.Parallel()
	for reason, want := range map[registry.Reason]slog.Level{
		registry.ReasonInvalidArgument: slog.LevelDebug, registry.ReasonServerNotFound: slog.LevelDebug, registry.ReasonMethodNotAllowed: slog.LevelDebug,
		registry.ReasonStaleEtag: slog.LevelDebug, registry.ReasonBodyTooLarge: slog.LevelDebug, registry.ReasonUnsupportedMediaType: slog.LevelDebug,
		registry.ReasonIdempotencyKeyReused: slog.LevelDebug, registry.ReasonBusy: slog.LevelDebug,
		registry.ReasonUnauthenticated: slog.LevelWarn, registry.ReasonPermissionDenied: slog.LevelWarn,
		registry.ReasonDependency: slog.LevelWarn, registry.ReasonDeadline: slog.LevelWarn, registry.ReasonInternal: slog.LevelError,
	} {
		if got := levelOf(registry.Errorf(reason, "x")); got != want {
			t.Errorf("%s is logged at %s, want %s", reason, got, want)
		}
	}
}
