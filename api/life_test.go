package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
	"countersign/workflows"
)

// The life of a server by the six paths that others rely on, and curl's way of
// sending JSON.
func TestTheLifeOfAServerByREST(t *testing.T) {
	t.Parallel()
	h := open(t)
	body := `{"name":"demo","direction":"MCP_DIRECTION_CONSUMED","transport":"MCP_TRANSPORT_STREAMABLE_HTTP","endpointUrl":"http://127.0.0.1:8090/mcp",
"authentication":"MCP_AUTHENTICATION_NONE_EXCEPTION","exceptionReason":"a demo","governancePolicyRef":"default","protocolVersion":"2026-07-28"}`
	curl := func(key string) http.Header {
		return with("Content-Type", "application/x-www-form-urlencoded", "Idempotency-Key", key)
	}
	o := h.raw(t, http.MethodPost, "/factory/mcp-servers", body, curl("1"))
	var server struct {
		ServerID string `json:"serverId"`
		State    string `json:"state"`
		Review   struct {
			Digest string `json:"digest"`
			Status string `json:"status"`
		} `json:"review"`
	}
	read := func(o outcome) {
		t.Helper()
		if err := json.Unmarshal([]byte(o.raw), &server); err != nil || o.status >= 300 {
			t.Fatalf("%d %v %s", o.status, err, o.raw)
		}
	}
	read(o)
	if o.status != http.StatusCreated || o.header.Get("Location") != "/factory/mcp-servers/"+server.ServerID || server.State != "MCP_SERVER_STATE_REGISTERED" {
		t.Errorf("the registration answers %d, %s: %s", o.status, o.header.Get("Location"), o.raw)
	}

	o = h.raw(t, http.MethodPost, "/factory/mcp-servers/demo/discover", `{"wait":"0s"}`, curl("2"))
	if o.status != http.StatusAccepted || o.header.Get("Location") != "/factory/mcp-servers/"+server.ServerID || !strings.Contains(o.raw, `"done":false`) {
		t.Errorf("a discovery that is not waited for answers %d, %s: %s", o.status, o.header.Get("Location"), o.raw)
	}
	row, err := h.db.Tenant(alpha).Server(t.Context(), "demo")
	if err != nil {
		t.Fatal(err)
	}
	h.discovered(t, row.Server, surface("hash_compute", "json_compact"))

	o = h.raw(t, http.MethodGet, "/factory/mcp-servers", "", nil)
	if o.status != 200 || !strings.Contains(o.raw, `"totalSize":1`) || !strings.Contains(o.raw, "MCP_SERVER_STATE_VERIFIED") {
		t.Errorf("the list is %d %s", o.status, o.raw)
	}
	o = h.raw(t, http.MethodGet, "/factory/mcp-servers/"+server.ServerID+"/capabilities?view=CAPABILITY_VIEW_FULL", "", nil)
	read(o)
	if !strings.Contains(o.raw, `"definitionJson":"{\"name\":\"hash_compute\"`) || server.Review.Status != "REVIEW_STATUS_PENDING" {
		t.Errorf("the capabilities are %s", o.raw)
	}

	until := time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)
	o = h.raw(t, http.MethodPost, "/factory/mcp-servers/demo/activate", `{"digest":"`+server.Review.Digest+`","exceptionExpireTime":"`+until+`",
"tools":[{"tool":"hash_compute","class":"SIDE_EFFECT_CLASS_READ","enable":true}]}`, curl(""))
	read(o)
	if server.State != "MCP_SERVER_STATE_ACTIVE" {
		t.Errorf("the approved server is %s", o.raw)
	}
	if o = h.raw(t, http.MethodGet, "/factory/tools/demo.hash_compute/resolve", "", nil); !strings.Contains(o.raw, `"callable":true`) ||
		!strings.Contains(o.raw, `"endpointUrl":"http://127.0.0.1:8090/mcp"`) {
		t.Errorf("the tool resolves to %s", o.raw)
	}

	for range 2 { // the second time it changes nothing
		o = h.raw(t, http.MethodPost, "/factory/mcp-servers/demo/retire", ``, nil)
		read(o)
		if o.status != 200 || server.State != "MCP_SERVER_STATE_RETIRED" {
			t.Errorf("retiring answers %d %s", o.status, o.raw)
		}
	}
	if o = h.raw(t, http.MethodGet, "/factory/tools/demo.hash_compute/resolve", "", nil); !strings.Contains(o.raw, `"reason":"server_retired"`) {
		t.Errorf("the tool of a retired server resolves to %s", o.raw)
	}
	if o = h.raw(t, http.MethodPost, "/factory/mcp-servers", body, curl("3")); o.status != http.StatusCreated {
		t.Errorf("the name cannot be used again: %s", o.raw)
	}
}

func TestClosedServersAnswerFromTheTable(t *testing.T) {
	t.Parallel()
	h := open(t)
	s := h.changed(t, h.active(t, alpha, "old", "x"), retire)
	for procedure, wants := range map[string]string{
		doGet: "", doShow: "", doRuns: "", doTool: "", doResolve: "", doRetire: "",
		doUpdate: "server_retired", doDiscover: "server_retired", doTest: "server_retired", doActivate: "server_retired",
		doReject: "server_retired", doReview: "server_retired", doEnable: "server_retired",
	} {
		for face, send := range ways {
			o := send(t, h, admin(alpha), procedure, about[procedure](s.ServerID, "old.x"), keyed("k"))
			if (o.answer == nil) != (wants != "") || o.reason != wants || wants != "" && o.status != 0 && face == "REST" && o.status != http.StatusConflict {
				t.Errorf("%s by %s comes to %+v", procedure, face, o)
			}
		}
	}
	if asked := h.flows.took(); strings.Trim(strings.Join(asked, ""), "runs") != "" {
		t.Errorf("the workflows were asked to %v", asked)
	}
}

func TestRegisterAndDiscoverNeedAKey(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.registered(t, alpha, "there")
	for face, send := range ways {
		for _, procedure := range []string{doRegister, doDiscover} {
			o := send(t, h, admin(alpha), procedure, about[procedure]("there", ""), nil)
			if o.reason != string(registry.ReasonIdempotencyKeyRequired) || o.code != "invalid_argument" || o.next == "" {
				t.Errorf("%s by %s without a key comes to %+v", procedure, face, o)
			}
			for name, header := range map[string]http.Header{
				"too long": keyed(strings.Repeat("k", 256)), "not ASCII": keyed("schlüssel"), "two": with("Idempotency-Key", "a", "Idempotency-Key", "b"),
			} {
				if o := send(t, h, admin(alpha), procedure, about[procedure]("there", ""), header); o.reason != string(registry.ReasonInvalidArgument) {
					t.Errorf("%s by %s with a key that is %s comes to %+v", procedure, face, name, o)
				}
			}
		}
	}
	if asked := h.flows.took(); len(asked) > 0 {
		t.Errorf("the workflows were asked to %v", asked)
	}
}

// H20, I13: a repeat gets the first answer, whatever happened since, and is
// told so.
func TestARepeatedRegistrationGetsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	h := open(t)
	var first *pb.McpServer
	answers := make(chan outcome, 5)
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() { answers <- ways["REST"](t, h, admin(alpha), doRegister, good("one"), keyed("k")) })
	}
	all.Wait()
	close(answers)
	replays := 0
	for o := range answers {
		got := into(t, o, &pb.RegisterMcpServerResponse{}).GetServer()
		if o.status != http.StatusCreated {
			t.Errorf("one of them answers %d", o.status)
		}
		if first == nil {
			first = got
		}
		if diff := cmp.Diff(first, got, protocmp.Transform()); diff != "" {
			t.Error(diff)
		}
		if o.header.Get("Idempotent-Replayed") == "true" {
			replays++
		}
	}
	if replays != 4 {
		t.Errorf("%d of 5 say that they are replays", replays)
	}
	update := &pb.UpdateMcpServerRequest{
		ServerId: "one", Server: &pb.ServerPatch{Description: "changed", EndpointUrl: "https://elsewhere.example/"}, UpdateMask: mask("description", "endpoint_url"),
	}
	if o := ways["REST"](t, h, admin(alpha), doUpdate, update, nil); o.answer == nil || o.get("server.endpoint_url") != "https://elsewhere.example/" {
		t.Fatalf("%+v", o)
	}
	for _, then := range []func(){
		func() {},
		func() { ways["REST"](t, h, admin(alpha), doRetire, &pb.RetireMcpServerRequest{ServerId: "one"}, nil) },
	} {
		then()
		for face, send := range ways {
			o := send(t, h, admin(alpha), doRegister, good("one"), keyed("k"))
			if o.header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("%s does not say that it is a replay", face)
			}
			got := into(t, o, &pb.RegisterMcpServerResponse{}).GetServer()
			if diff := cmp.Diff(first, got, protocmp.Transform()); diff != "" {
				t.Errorf("%s: %s", face, diff)
			}
			other := good("one")
			other.Description = "another"
			o = send(t, h, admin(alpha), doRegister, other, keyed("k"))
			if o.reason != string(registry.ReasonIdempotencyKeyReused) || o.code != "failed_precondition" || face == "REST" && o.status != http.StatusUnprocessableEntity {
				t.Errorf("%s: the key with another body comes to %+v", face, o)
			}
		}
	}
}

func TestARepeatedDiscoveryIsTheSameOne(t *testing.T) {
	t.Parallel()
	h := open(t)
	s := h.registered(t, alpha, "one")
	request := &pb.DiscoverMcpCapabilitiesRequest{ServerId: "one", Wait: durationpb.New(0)}
	first := ways["gRPC"](t, h, admin(alpha), doDiscover, request, keyed("k"))
	id := first.get("run.workflow_id")
	if id != discoveryOf(s, 1) || first.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("the first is %+v", first)
	}
	request.ServerId = s.ServerID // the same, by its other name
	for face, send := range ways {
		o := send(t, h, admin(alpha), doDiscover, request, keyed("k"))
		if o.get("run.workflow_id") != id || o.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s: the repeat is %+v", face, o)
		}
	}
	other := &pb.DiscoverMcpCapabilitiesRequest{ServerId: h.registered(t, alpha, "two").ServerID, Wait: durationpb.New(0)}
	if o := ways["REST"](t, h, admin(alpha), doDiscover, other, keyed("k")); o.status != http.StatusUnprocessableEntity {
		t.Errorf("the key for another server comes to %+v", o)
	}
}

// discoveryOf is the id of the n-th discovery that is asked for after the
// registration.
func discoveryOf(s registry.Server, n int64) string {
	return fmt.Sprintf("discovery/%s/%s/%d", s.TenantID, s.ServerID, s.Discovery.Number+n)
}

func TestADiscoveryIsWaitedForAsLongAsTheCallerWants(t *testing.T) {
	t.Parallel()
	h := open(t)
	s := h.registered(t, alpha, "one")
	request := &pb.DiscoverMcpCapabilitiesRequest{ServerId: "one", Wait: durationpb.New(20 * time.Millisecond)}
	if o := ways["REST"](t, h, admin(alpha), doDiscover, request, keyed("1")); o.status != http.StatusAccepted || o.get("done") != "false" {
		t.Errorf("one that lasts comes to %+v", o)
	}
	close(h.flows.end(discoveryOf(s, 2)))
	request.Wait = nil
	if o := ways["REST"](t, h, admin(alpha), doDiscover, request, keyed("2")); o.status != http.StatusOK || o.get("done") != "true" || o.header.Get("Location") != "" {
		t.Errorf("one that ends comes to %+v", o)
	}
}

// What a client asks twice it gets twice; what somebody else did meanwhile it
// is told (R1).
func TestStaleEtagsAreRefused(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.active(t, alpha, "there", "x")
	for procedure, request := range map[string]proto.Message{
		doUpdate: &pb.UpdateMcpServerRequest{ServerId: "there", Server: &pb.ServerPatch{Owner: "me"}, UpdateMask: mask("owner"), Etag: `"1"`},
		doRetire: &pb.RetireMcpServerRequest{ServerId: "there", Etag: `"1"`},
		doReview: &pb.RequestReviewRequest{ServerId: "there", Etag: `"1"`},
	} {
		o := ways["REST"](t, h, admin(alpha), procedure, request, nil)
		if o.status != http.StatusConflict || o.code != "aborted" || o.reason != string(registry.ReasonStaleEtag) || o.facts["etag"] == "" || o.next == "" {
			t.Errorf("%s comes to %+v", procedure, o)
		}
	}
}

func TestALargeCatalogFits(t *testing.T) {
	t.Parallel()
	h := open(t)
	names := make([]string, registry.DefaultLimits().Items)
	request := &pb.ActivateMcpServerRequest{ServerId: "large"}
	for i := range names {
		names[i] = fmt.Sprintf("a_tool_with_a_rather_long_name_as_some_have_them_%05d", i)
		request.Tools = append(request.Tools, &pb.ToolLine{Tool: names[i], Class: pb.SideEffectClass_SIDE_EFFECT_CLASS_SHARED_WRITE, Enable: true})
	}
	request.Digest = h.discovered(t, h.registered(t, alpha, "large"), surface(names...)).Review.Digest
	o := ways["REST"](t, h, admin(alpha), doShow, &pb.GetMcpCapabilitiesRequest{ServerId: "large", View: pb.CapabilityView_CAPABILITY_VIEW_FULL}, nil)
	if got := into(t, o, &pb.GetMcpCapabilitiesResponse{}).GetTools(); len(got) != len(names) || got[0].GetDefinitionJson() == "" {
		t.Errorf("%d tools are shown", len(got))
	}
	// How long the approval takes is the database's affair.
	h.flows.refuse = registry.Errorf(registry.ReasonSuperseded, "a test wants this")
	for face, send := range ways {
		h.flows.lines = 0
		o := send(t, h, admin(alpha), doActivate, request, nil)
		if h.flows.lines != len(names) || o.reason != string(registry.ReasonSuperseded) {
			t.Errorf("%s brings %d lines: %s %s", face, h.flows.lines, o.code, o.message)
		}
	}
}

func TestCapabilitiesShowWhatIsThereAndWhatIsBound(t *testing.T) {
	t.Parallel()
	h := open(t)
	s := h.active(t, alpha, "there", "x", "y")
	s = h.discovered(t, s, surface("x", "y", "z"))
	s = h.discovered(t, s, surface("x", "z", "w")) // y is gone
	for face, send := range ways {
		o := send(t, h, tokenOf(alpha, registry.RoleObserver), doShow, &pb.GetMcpCapabilitiesRequest{ServerId: "there"}, nil)
		c := into(t, o, &pb.GetMcpCapabilitiesResponse{})
		if c.GetEtag() != s.Etag() || c.GetSnapshotDigest() != s.SnapshotDigest || c.GetReview().GetDigest() != s.Review.Digest || c.GetInstructions() != "Be careful." {
			t.Errorf("%s: %v", face, c)
		}
		var got []string
		for _, tool := range c.GetTools() {
			got = append(got, fmt.Sprintf("%s available=%t enabled=%t bound=%t callable=%t %s", tool.GetName(), tool.GetAvailable(), tool.GetEnabled(),
				tool.GetBound(), tool.GetCallable(), tool.GetDenialReason()))
			if tool.GetDefinitionJson() != "" {
				t.Errorf("%s: the basic view shows %s", face, tool.GetDefinitionJson())
			}
		}
		want := []string{
			"w available=true enabled=false bound=false callable=false tool_disabled",
			"x available=true enabled=true bound=true callable=true ",
			"y available=false enabled=true bound=true callable=false tool_unavailable",
			"z available=true enabled=false bound=false callable=false tool_disabled",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", face, diff)
		}
		if len(c.GetResources()) != 2 || len(c.GetPrompts()) != 1 || !c.GetPrompts()[0].GetBound() || c.GetPrompts()[0].GetSkillId() != "greeting" {
			t.Errorf("%s: %v %v", face, c.GetResources(), c.GetPrompts())
		}
		for _, r := range c.GetResources() {
			if r.GetBound() == r.GetTemplate() || r.GetBound() && r.GetClassification() != "internal" {
				t.Errorf("%s: %v", face, r)
			}
		}
	}
}

func TestATestIsReportedStepByStep(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.registered(t, alpha, "there")
	h.flows.report = workflows.TestReport{
		Reason: registry.ReasonAuthRequired, Message: "it wants credentials", Next: "give some",
		Steps: []workflows.TestStep{{Name: "handshake", OK: false, Detail: "401", Duration: 5 * time.Millisecond}},
	}
	o := ways["REST"](t, h, tokenOf(alpha, registry.RoleOperator), doTest, &pb.TestMcpServerRequest{ServerId: "there"}, nil)
	got := into(t, o, &pb.TestMcpServerResponse{})
	if o.status != http.StatusOK || got.GetOk() || got.GetReason() != "auth_required" || got.GetSteps()[0].GetDuration().AsDuration() != 5*time.Millisecond {
		t.Errorf("it is %+v", got)
	}
	if !strings.Contains(o.raw, `"ok":false`) {
		t.Errorf("the failure is not visible: %s", o.raw)
	}
}

// R72, R74: a denial is an answer, and one denial withholds all routing.
func TestResolve(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.active(t, alpha, "good", "x", "y")
	sick := h.active(t, alpha, "sick", "x")
	h.changed(t, sick, func(r *registry.Record, now time.Time) error {
		return r.Probed(registry.Probe{Outcome: registry.OutcomeFailed, Reason: registry.ReasonTimeout, TargetDigest: r.Server.TargetDigest, At: now})
	})
	h.discovered(t, h.registered(t, alpha, "unasked"), surface("x"))
	for face, send := range ways {
		for id, want := range map[string]string{
			"good.x": "", "sick.x": "server_degraded handshake", "unasked.x": "server_not_active verified", "nobody.x": "tool_not_found", "x": "tool_not_found",
		} {
			o := send(t, h, tokenOf(alpha, executor), doResolve, &pb.ResolveToolRequest{ToolId: id}, nil)
			r := into(t, o, &pb.ResolveToolResponse{})
			got := strings.TrimSpace(r.GetReason() + " " + r.GetDetail())
			if r.GetToolId() != id || r.GetCallable() != (want == "") || got != want || (r.GetMessage() == "") != (want == "") {
				t.Errorf("%s by %s: %v", id, face, r)
			}
			if routed := id == "good.x" || id == "sick.x"; (r.GetRouting() != nil) != routed {
				t.Errorf("%s by %s has the routing %v", id, face, r.GetRouting())
			}
		}
		batch := func(ids ...string) *pb.BatchResolveToolsResponse {
			o := send(t, h, tokenOf(alpha, executor), doBatch, &pb.BatchResolveToolsRequest{ToolIds: ids}, nil)
			return into(t, o, &pb.BatchResolveToolsResponse{})
		}
		whole := batch("good.y", "good.x")
		if !whole.GetCallable() || whole.GetResolutions()[0].GetRouting().GetToolName() != "y" || whole.GetResolutions()[1].GetRouting().GetToolName() != "x" {
			t.Errorf("%s: %v", face, whole)
		}
		part := batch("good.x", "sick.x", "nobody.x")
		var reasons []string
		for _, r := range part.GetResolutions() {
			reasons = append(reasons, r.GetReason())
			if r.GetRouting() != nil {
				t.Errorf("%s: %s has a routing in a batch with denials", face, r.GetToolId())
			}
		}
		if diff := cmp.Diff([]string{"", "server_degraded", "tool_not_found"}, reasons); diff != "" || part.GetCallable() {
			t.Errorf("%s: %s", face, diff)
		}
	}
	// Each call sees what is committed (R73).
	off := &pb.SetToolEnabledRequest{ToolId: "good.x"}
	if o := ways["REST"](t, h, admin(alpha), doEnable, off, nil); o.get("tool.denial_reason") != "tool_disabled" {
		t.Errorf("switching off comes to %+v", o)
	}
	if o := ways["gRPC"](t, h, admin(alpha), doResolve, &pb.ResolveToolRequest{ToolId: "good.x"}, nil); o.get("reason") != "tool_disabled" {
		t.Errorf("a tool that was switched off resolves to %+v", o)
	}
}

func TestExposedServersOfferWhatIsBound(t *testing.T) {
	t.Parallel()
	h := open(t)
	s := h.registered(t, alpha, "ours", func(g *registry.Registration) { g.Direction = registry.DirectionExposed })
	h.approved(t, h.discovered(t, s, surface("x", "y", "z")), "x", "y")
	h.active(t, alpha, "theirs", "x")
	for face, send := range ways {
		var got []string
		token := ""
		for {
			o := send(t, h, tokenOf(alpha, executor), doOffer, &pb.ListCapabilitiesRequest{PageSize: 2, PageToken: token}, nil)
			page := into(t, o, &pb.ListCapabilitiesResponse{})
			for _, c := range page.GetCapabilities() {
				got = append(got, strings.Join([]string{c.GetServerName(), c.GetKind(), c.GetName(), c.GetToolId(), c.GetDeclaredClass().String(), c.GetClassification()}, " "))
			}
			if token = page.GetNextPageToken(); token == "" {
				break
			}
		}
		want := []string{
			"ours prompt greet  SIDE_EFFECT_CLASS_UNSPECIFIED ", "ours resource file:///readme  SIDE_EFFECT_CLASS_UNSPECIFIED internal",
			"ours tool x ours.x SIDE_EFFECT_CLASS_READ ", "ours tool y ours.y SIDE_EFFECT_CLASS_READ ",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", face, diff)
		}
	}
}

// A request for an exception that a person without the role may not grant.
func TestOnlyAdministratorsGrantExceptions(t *testing.T) {
	t.Parallel()
	h := open(t)
	s := h.registered(t, alpha, "bare", func(g *registry.Registration) {
		g.Authentication, g.ExceptionReason = registry.AuthNoneException, "a demo"
	})
	s = h.discovered(t, s, surface("x"))
	request := &pb.ActivateMcpServerRequest{
		ServerId: "bare", Digest: s.Review.Digest, Empty: true, ExceptionExpireTime: timestamppb.New(time.Now().Add(time.Hour)),
	}
	if o := ways["REST"](t, h, tokenOf(alpha, registry.RoleAssetMaintainer), doActivate, request, nil); o.status != http.StatusForbidden {
		t.Errorf("a maintainer's approval comes to %+v", o)
	}
	if o := ways["REST"](t, h, admin(alpha), doActivate, request, nil); o.answer == nil || o.get("server.authentication_exception.approved_by") != "platformadmin" {
		t.Errorf("an administrator's approval comes to %+v", o)
	}
}
