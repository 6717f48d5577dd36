package api

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// Somebody who knows the address only finds out by reflection what to ask, and
// asks it.
func TestAGenericClientCallsByReflection(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.active(t, alpha, "there", "x")
	client := bringing{overHTTP2, admin(alpha)}
	stream := grpcreflect.NewClient(client, h.url).NewStream(t.Context())
	t.Cleanup(func() { _, _ = stream.Close() })
	names, err := stream.ListServices()
	if err != nil || len(names) != 11 {
		t.Fatalf("the services are %v, %v", names, err)
	}
	files := &descriptorpb.FileDescriptorSet{}
	known := map[string]bool{}
	var load func(list []*descriptorpb.FileDescriptorProto)
	load = func(list []*descriptorpb.FileDescriptorProto) {
		for _, f := range list {
			if known[f.GetName()] {
				continue
			}
			known[f.GetName()] = true
			files.File = append(files.File, f)
			for _, dependency := range f.GetDependency() {
				if known[dependency] {
					continue
				}
				more, err := stream.FileByFilename(dependency)
				if err != nil {
					t.Fatalf("%s: %v", dependency, err)
				}
				load(more)
			}
		}
	}
	list, err := stream.FileContainingSymbol("countersign.registry.v1.McpRegistryService")
	if err != nil {
		t.Fatal(err)
	}
	load(list)
	all, err := protodesc.NewFiles(files)
	if err != nil {
		t.Fatal(err)
	}
	found, err := all.FindDescriptorByName("countersign.registry.v1.McpRegistryService.ResolveTool")
	if err != nil {
		t.Fatal(err)
	}
	md, ok := found.(protoreflect.MethodDescriptor)
	if !ok {
		t.Fatalf("it is a %T", found)
	}
	request := dynamicpb.NewMessage(md.Input())
	request.Set(md.Input().Fields().ByName("tool_id"), protoreflect.ValueOfString("there.x"))
	response, err := connect.NewClient[dynamicpb.Message, dynamicpb.Message](client, h.url+doResolve, connect.WithGRPC(), connect.WithSchema(md),
		connect.WithResponseInitializer(func(_ connect.Spec, message any) error {
			if m, ok := message.(*dynamicpb.Message); ok {
				*m = *dynamicpb.NewMessage(md.Output())
			}
			return nil
		})).CallUnary(t.Context(), connect.NewRequest(request))
	if err != nil {
		t.Fatal(err)
	}
	if !response.Msg.Get(md.Output().Fields().ByName("callable")).Bool() {
		t.Errorf("the tool is %v", response.Msg)
	}
}

func TestReadsAreForConnectGET(t *testing.T) {
	t.Parallel()
	h := open(t)
	s := h.active(t, alpha, "there", "x")
	asks(t, h, platform, doSubscribe, about[doSubscribe]("hook", ""), &pb.CreateSubscriptionResponse{})
	for procedure, md := range methods() {
		options, _ := md.Options().(*descriptorpb.MethodOptions)
		isRead := options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
		request := about[procedure](s.ServerID, "there.x")
		if procedure == doEvent {
			request = &pb.GetAuditEventRequest{AuditId: h.audits(t, alpha, "register")[0].AuditID}
		}
		if procedure == doHook || procedure == doDeliveries {
			request = about[procedure]("hook", "")
		}
		if procedure == doProvider {
			request = &pb.GetToolProviderRequest{Name: "there"}
		}
		raw, err := jsonOut.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		o := h.raw(t, http.MethodGet, procedure+"?connect=v1&encoding=json&message="+url.QueryEscape(string(raw)), "", nil)
		if isRead != (o.status == http.StatusOK) || !isRead && o.status != http.StatusMethodNotAllowed {
			t.Errorf("%s by GET answers %d %s", procedure, o.status, o.raw)
		}
		if isRead && o.header.Get("Cache-Control") != "private, no-cache" {
			t.Errorf("%s by GET may be cached: %q", procedure, o.header.Get("Cache-Control"))
		}
		if method, _, _ := restRequest(t, procedure, about[procedure]("x", "x.x")); isRead != (method == http.MethodGet) {
			t.Errorf("%s is %s on REST", procedure, method)
		}
	}
}

// A page that a browser shows cannot make it call us (threats B6).
func TestPagesOfOthersCannotCall(t *testing.T) {
	t.Parallel()
	h := open(t, func(o *Options) { o.Hosts = []string{"127.0.0.1", "countersign.example"} })
	h.registered(t, alpha, "there")
	for name, c := range map[string]struct {
		method, path, host string
		header             http.Header
		status             int
	}{
		"another origin, POST":         {"POST", "/factory/mcp-servers/there/retire", "", with("Origin", "https://evil.example", "Content-Type", "application/json"), 403},
		"another origin, Connect":      {"POST", doRetire, "", with("Origin", "https://evil.example", "Content-Type", "application/json"), 403},
		"another site":                 {"POST", doRetire, "", with("Sec-Fetch-Site", "cross-site", "Content-Type", "application/json"), 403},
		"a name that resolves to us":   {"GET", "/factory/mcp-servers", "evil.example", nil, 403},
		"the same, without a token":    {"GET", "/readyz", "evil.example:8080", nil, 403},
		"our name":                     {"GET", "/factory/mcp-servers", "Countersign.example:8080", nil, 200},
		"a form of another page":       {"POST", "/factory/mcp-servers/there/retire", "", with("Sec-Fetch-Site", "cross-site", "Content-Type", "application/x-www-form-urlencoded"), 403},
		"text, which needs no consent": {"POST", doRetire, "", with("Content-Type", "text/plain"), 415},
		"our own page":                 {"GET", "/factory/mcp-servers", "", with("Sec-Fetch-Site", "same-origin"), 200},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), c.method, h.url+c.path, strings.NewReader(map[string]string{"POST": "{}"}[c.method]))
			if err != nil {
				t.Fatal(err)
			}
			r.Header = c.header.Clone()
			if r.Header == nil {
				r.Header = http.Header{}
			}
			r.Header.Set("Authorization", "Bearer "+admin(alpha))
			r.Host = c.host
			response, err := plain.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.StatusCode != c.status {
				t.Errorf("it answers %d", response.StatusCode)
			}
		})
	}
	if asked := h.flows.took(); len(asked) > 0 {
		t.Errorf("the workflows were asked to %v", asked)
	}
}

func TestAFailedRequestIsOneLineOfTheLog(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.registered(t, alpha, "there")
	for name, c := range map[string]struct {
		send          func() outcome
		level, reason string
		method        string
	}{
		"by an RPC": {func() outcome {
			return ways["gRPC"](t, h, admin(alpha), doUpdate, &pb.UpdateMcpServerRequest{
				ServerId: "nobody", Server: &pb.ServerPatch{Description: "a-secret-thing"}, UpdateMask: mask("description"),
			}, nil)
		}, "DEBUG", "server_not_found", doUpdate},
		"before one": {func() outcome { return h.raw(t, "POST", "/factory/mcp-servers", `{"a-secret-thing":1}`, nil) }, "DEBUG", "unknown_field", "POST /factory/mcp-servers"},
		"at the door": {func() outcome {
			return ways["REST"](t, h, "a-secret-thing-of-a-token", doGet, &pb.GetMcpServerRequest{ServerId: "x"}, nil)
		}, "WARN", "unauthenticated", "GET /factory/mcp-servers/x"},
		"for no reason": {func() outcome {
			h.flows.refuse = errors.New("the true cause")
			defer func() { h.flows.refuse = nil }()
			return ways["Connect JSON"](t, h, admin(alpha), doReview, &pb.RequestReviewRequest{ServerId: "there"}, nil)
		}, "ERROR", "internal", doReview},
		"by a panic": {func() outcome {
			h.flows.panics = true
			defer func() { h.flows.panics = false }()
			return ways["REST"](t, h, admin(alpha), doTest, &pb.TestMcpServerRequest{ServerId: "there"}, nil)
		}, "ERROR", "internal", doTest},
	} {
		before := len(h.logs.String())
		o := c.send()
		lines := strings.Split(strings.TrimSpace(h.logs.String()[before:]), "\n")
		if len(lines) != 1 {
			t.Fatalf("%s: %d lines\n%s", name, len(lines), strings.Join(lines, "\n"))
		}
		var line map[string]any
		if err := json.Unmarshal([]byte(lines[0]), &line); err != nil {
			t.Fatal(err)
		}
		tenant, subject := "alpha", "platformadmin"
		if c.reason == "unauthenticated" {
			tenant, subject = "", ""
		}
		if line["level"] != c.level || line["reason"] != c.reason || line["method"] != c.method || line["tenant"] != tenant || line["subject"] != subject {
			t.Errorf("%s: %s", name, lines[0])
		}
		if strings.Contains(lines[0], "a-secret-thing-of-a-token") || c.reason == "server_not_found" && strings.Contains(lines[0], "a-secret-thing") {
			t.Errorf("%s: the log repeats the request: %s", name, lines[0])
		}
		if line["request_id"] != o.header.Get("X-Request-ID") || line["request_id"] == "" {
			t.Errorf("%s: the log has id %v, the answer %q", name, line["request_id"], o.header.Get("X-Request-ID"))
		}
		if c.level == "ERROR" {
			cause, _ := line["error"].(string)
			if o.message != "internal error" || o.facts["request_id"] != line["request_id"] || strings.Contains(o.raw, "true cause") || cause == "" {
				t.Errorf("%s: it leaves as %+v, the log has the cause %q", name, o, cause)
			}
		}
	}
}

// R206: without the workflows there is nothing to change, and everything to see.
func TestReadsWorkWithoutTheWorkflows(t *testing.T) {
	t.Parallel()
	h := open(t, func(o *Options) {
		o.Checks = []Check{{Name: "temporal", Optional: true, Run: func(context.Context) error {
			return registry.Errorf(registry.ReasonDependency, "no connection to temporal.internal:7233")
		}}}
	})
	s := h.active(t, alpha, "there", "x")
	h.flows.refuse = registry.Errorf(registry.ReasonDependency, "the workflow engine does not answer")
	needs := []string{doRegister, doUpdate, doDiscover, doTest, doActivate, doReject, doReview, doLaunch, doIsolate, doRetire, doRuns, doEnable, doRequire, doRenew, doWithdraw, doPolicy, doReroute, doDial, doProvide, doReprovide, doSound, doRefresh}
	order := []string{doDraft, doPublish, doOutdate, doConnect, doWay, doFormer, doCut, doSubscribe, doHook, doRehook, doKnock, doDeliveries, doReplay, doUnhook} // of one id, in the life of a version
	spare := []string{doProvider, doReprovide, doSound, doRefresh, doAdmit, doBar, doUnprovide}
	if _, _, err := h.db.Tenant(alpha).CreateProvider(t.Context(), "spare", extensionIn(extensionOf("spare")), registry.Operation{ID: "spare", Name: "create_provider"}, nil); err != nil {
		t.Fatal(err)
	}
	order = append(order, spare...)
	for _, procedure := range append(order, slices.DeleteFunc(sorted(about), func(p string) bool { return slices.Contains(order, p) })...) {
		request := about[procedure]
		o := ways["REST"](t, h, admin(alpha), procedure, request(s.ServerID, "there.x"), keyed("k"))
		if procedure == doRegister {
			o = ways["REST"](t, h, admin(alpha), procedure, good("another"), keyed("k"))
		}
		if procedure == doDraft || procedure == doPublish || procedure == doOutdate {
			o = ways["REST"](t, h, admin(alpha), procedure, request(s.ServerID, "drafted"), keyed("k"))
		}
		if slices.Contains([]string{doConnect, doWay, doFormer, doCut}, procedure) {
			o = ways["REST"](t, h, admin(alpha), procedure, request("shared", ""), keyed("k"))
		}
		if slices.Contains([]string{doSubscribe, doHook, doRehook, doKnock, doDeliveries, doReplay, doUnhook}, procedure) {
			o = ways["REST"](t, h, admin(alpha), procedure, request("hook", ""), nil)
		}
		if slices.Contains(spare, procedure) {
			o = ways["REST"](t, h, admin(alpha), procedure, request("spare", ""), nil)
		}
		if procedure == doProvide {
			o = ways["REST"](t, h, admin(alpha), procedure, request("one-more", ""), nil)
		}
		if procedure == doUnassign {
			a, err := registry.NewAssignment(alpha, "bot", "there.x", "")
			if err != nil {
				t.Fatal(err)
			}
			o = ways["REST"](t, h, admin(alpha), procedure, &pb.DeleteToolAssignmentRequest{AssignmentId: a.AssignmentID}, keyed("k"))
		}
		if procedure == doEvent {
			o = ways["REST"](t, h, admin(alpha), procedure, &pb.GetAuditEventRequest{AuditId: h.audits(t, alpha, "register")[0].AuditID}, nil)
		}
		away := o.status == http.StatusServiceUnavailable && o.header.Get("Retry-After") != ""
		if needed := slices.Contains(needs, procedure); needed != away || needed == (o.answer != nil) {
			t.Errorf("%s comes to %+v", procedure, o)
		}
	}
	status, _, body := h.call(t, http.MethodGet, "/readyz?verbose", "", "", nil)
	var ready readiness
	if err := json.Unmarshal([]byte(body), &ready); err != nil {
		t.Fatal(err)
	}
	if status != http.StatusOK || ready.Status != "ready" || len(ready.Checks) != 4 || !ready.Checks[0].OK || ready.Checks[2].OK || ready.Checks[2].Reason != "dependency_error" {
		t.Errorf("it is %d %s", status, body)
	}
	if strings.Contains(body, "temporal.internal") {
		t.Errorf("it tells everybody %s", body)
	}
}

// While a newer version migrates, the one before says so and goes on.
func TestAProcessIsReadyAfterANewerVersionMigrated(t *testing.T) {
	t.Parallel()
	for reason, want := range map[registry.Reason]int{
		registry.ReasonSchemaNewer: http.StatusOK, registry.ReasonSchemaOlder: http.StatusServiceUnavailable, registry.ReasonRowSecurity: http.StatusServiceUnavailable,
	} {
		h := open(t, func(o *Options) {
			o.Checks = []Check{{Name: "schema", Run: func(context.Context) error { return registry.Errorf(reason, "as it is") }}}
		})
		status, _, body := h.call(t, http.MethodGet, "/readyz?verbose", "", "", nil)
		if status != want || !strings.Contains(body, `"reason":"`+string(reason)+`"`) {
			t.Errorf("%s: it is %d %s", reason, status, body)
		}
	}
}

func TestWithoutADatabaseItIsNotReady(t *testing.T) {
	t.Parallel()
	h := open(t, func(o *Options) {
		o.Checks = []Check{{Name: "needed", Run: func(context.Context) error { return errors.New("away") }}}
	})
	if status, _, body := h.call(t, http.MethodGet, "/readyz", "", "", nil); status != http.StatusServiceUnavailable || body != "not ready\n" {
		t.Errorf("it is %d %s", status, body)
	}
	if status, _, _ := h.call(t, http.MethodGet, "/livez", "", "", nil); status != http.StatusOK {
		t.Errorf("it is not even alive: %d", status)
	}
	response, err := grpchealth.NewClient(overHTTP2, h.url).Check(t.Context(), &grpchealth.CheckRequest{Service: h.api.services[0]})
	if err != nil || response.Status != grpchealth.StatusNotServing {
		t.Errorf("health says %v, %v", response, err)
	}
	if _, err := grpchealth.NewClient(overHTTP2, h.url).Check(t.Context(), &grpchealth.CheckRequest{Service: "nope"}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("health of an unknown service is %v", err)
	}
}

// A process that ends says so first, and answers those who wait.
func TestDraining(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.registered(t, alpha, "there")
	o := h.api.opts
	o.DrainDelay = 300 * time.Millisecond
	second, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serving, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(serving, listener, second) }()
	h.url = "http://" + listener.Addr().String()
	waits := make(chan outcome, 1)
	go func() {
		waits <- ways["REST"](t, h, admin(alpha), doDiscover, &pb.DiscoverMcpCapabilitiesRequest{ServerId: "there", Wait: durationpb.New(30 * time.Second)}, keyed("k"))
	}()
	eventually(t, "the discovery is asked for", func() bool { return len(h.flows.took()) > 0 })
	begin := time.Now()
	stop()
	eventually(t, "it is not ready", func() bool {
		status, _, _ := h.call(t, http.MethodGet, "/readyz", "", "", nil)
		return status == http.StatusServiceUnavailable
	})
	if o := <-waits; o.status != http.StatusAccepted || o.get("done") != "false" {
		t.Errorf("who waits is told %+v", o)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took < o.DrainDelay || took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestTheConsoleIsServedBesides(t *testing.T) {
	t.Parallel()
	h := open(t, func(o *Options) {
		o.Fallback = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/gone" {
				http.NotFound(w, r)
				return
			}
			_, _ = w.Write([]byte("the console at " + r.URL.Path))
		})
	})
	for path, want := range map[string]int{
		"/": 200, "/servers/x": 200, "/gone": 404, "/factory/mcp-servers": 401, "/factory": 401, doList: 401, "/countersign.registry.v1.Nope/X": 401,
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": 401,
	} {
		status, header, body := h.call(t, http.MethodGet, path, "", "", nil)
		if status != want || want == 200 && body != "the console at "+path || want == 404 && header.Get("Content-Type") == "application/problem+json" {
			t.Errorf("%s answers %d %s", path, status, body)
		}
	}
}

// A proxy may leave the path on at which it shows the installation.
func TestThePathOfAProxyIsTakenOff(t *testing.T) {
	t.Parallel()
	h := open(t, func(o *Options) { o.Base = "/registry/" })
	for path, want := range map[string]int{
		"/registry/factory/mcp-servers": 200, "/factory/mcp-servers": 200, "/registry/livez": 200, "/registry/factory/mcp-servers/a%2Fb": 404,
		"/registry/registry/livez": 404, "/registries/livez": 404,
	} {
		if status, _, body := h.call(t, http.MethodGet, path, admin(alpha), "", nil); status != want {
			t.Errorf("%s answers %d %s", path, status, body)
		}
	}
}

func TestTheAPINeedsItsParts(t *testing.T) {
	t.Parallel()
	if _, err := New(Options{}); registry.ReasonOf(err) != registry.ReasonInvalidArgument {
		t.Errorf("without anything it is made: %v", err)
	}
}

var anyVariable = regexp.MustCompile(`\{[A-Za-z_]+\}`)

// The document describes every RPC's path.
func TestTheOpenAPIDocumentHasEveryPath(t *testing.T) {
	t.Parallel()
	var document struct {
		OpenAPI string                    `json:"openapi"`
		Paths   map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal(openAPIDocument, &document); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(document.OpenAPI, "3.1") {
		t.Errorf("it is OpenAPI %s", document.OpenAPI)
	}
	for procedure, md := range methods() {
		rule := httpRule(md)
		path, method := rule.GetGet()+rule.GetPost()+rule.GetPatch(), "get"
		if rule.GetPost() != "" {
			method = "post"
		} else if rule.GetPatch() != "" {
			method = "patch"
		}
		found := false
		for p, operations := range document.Paths {
			if anyVariable.ReplaceAllString(p, "{}") == anyVariable.ReplaceAllString(path, "{}") {
				_, found = operations[method]
			}
			if found {
				break
			}
		}
		if !found {
			t.Errorf("%s: %s %s is not in it", procedure, method, path)
		}
	}
}
