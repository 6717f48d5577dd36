package api

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"countersign/db"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/proto/countersign/registry/v1/registryv1connect"
	"countersign/registry"
)

const (
	doRegister   = registryv1connect.McpServerServiceRegisterMcpServerProcedure
	doGet        = registryv1connect.McpServerServiceGetMcpServerProcedure
	doList       = registryv1connect.McpServerServiceListMcpServersProcedure
	doUpdate     = registryv1connect.McpServerServiceUpdateMcpServerProcedure
	doDiscover   = registryv1connect.McpServerServiceDiscoverMcpCapabilitiesProcedure
	doTest       = registryv1connect.McpServerServiceTestMcpServerProcedure
	doShow       = registryv1connect.McpServerServiceGetMcpCapabilitiesProcedure
	doReport     = registryv1connect.McpServerServiceGetCapabilityReportProcedure
	doInspect    = registryv1connect.McpServerServiceGetReviewProcedure
	doDiff       = registryv1connect.McpServerServiceGetDiffProcedure
	doHealth     = registryv1connect.McpServerServiceGetMcpServerHealthProcedure
	doFleet      = registryv1connect.McpServerServiceGetFleetHealthProcedure
	doProbes     = registryv1connect.McpServerServiceListProbesProcedure
	doPast       = registryv1connect.McpServerServiceListSnapshotsProcedure
	doDecided    = registryv1connect.McpServerServiceListDecisionsProcedure
	doActivate   = registryv1connect.McpServerServiceActivateMcpServerProcedure
	doReject     = registryv1connect.McpServerServiceRejectMcpServerProcedure
	doReview     = registryv1connect.McpServerServiceRequestReviewProcedure
	doIsolate    = registryv1connect.McpServerServiceQuarantineMcpServerProcedure
	doLaunch     = registryv1connect.McpServerServiceApproveLaunchProcedure
	doRetire     = registryv1connect.McpServerServiceRetireMcpServerProcedure
	doRuns       = registryv1connect.McpServerServiceListMcpServerRunsProcedure
	doTools      = registryv1connect.ToolCatalogServiceListToolsProcedure
	doTool       = registryv1connect.ToolCatalogServiceGetToolProcedure
	doEnable     = registryv1connect.ToolCatalogServiceSetToolEnabledProcedure
	doImpact     = registryv1connect.ToolCatalogServiceGetToolImpactProcedure
	doFacets     = registryv1connect.ToolCatalogServiceListToolFacetsProcedure
	doSwitch     = registryv1connect.ToolCatalogServiceSetToolsEnabledProcedure
	doRequire    = registryv1connect.ToolCatalogServiceSetToolRequiresApprovalProcedure
	doDraft      = registryv1connect.ToolCatalogServiceCreateToolDescriptorProcedure
	doVersion    = registryv1connect.ToolCatalogServiceGetToolDescriptorProcedure
	doVersions   = registryv1connect.ToolCatalogServiceListToolDescriptorsProcedure
	doPublish    = registryv1connect.ToolCatalogServicePublishToolDescriptorProcedure
	doOutdate    = registryv1connect.ToolCatalogServiceDeprecateToolDescriptorProcedure
	doAssign     = registryv1connect.ToolCatalogServiceCreateToolAssignmentProcedure
	doUnassign   = registryv1connect.ToolCatalogServiceDeleteToolAssignmentProcedure
	doAssigned   = registryv1connect.ToolCatalogServiceListToolAssignmentsProcedure
	doResolve    = registryv1connect.McpRegistryServiceResolveToolProcedure
	doExplain    = registryv1connect.McpRegistryServiceExplainToolProcedure
	doBatch      = registryv1connect.McpRegistryServiceBatchResolveToolsProcedure
	doOffer      = registryv1connect.McpRegistryServiceListCapabilitiesProcedure
	doMint       = registryv1connect.ApprovalServiceMintDecisionTokenProcedure
	doInbox      = registryv1connect.ApprovalServiceListApprovalsProcedure
	doAsked      = registryv1connect.ApprovalServiceGetApprovalProcedure
	doWithdraw   = registryv1connect.ApprovalServiceWithdrawApprovalProcedure
	doRenew      = registryv1connect.ApprovalServiceRenewExceptionProcedure
	doExpiring   = registryv1connect.ApprovalServiceListExpiringProcedure
	doPolicy     = registryv1connect.PolicyServicePublishPolicyProcedure
	doBundle     = registryv1connect.PolicyServiceGetPolicyProcedure
	doBundles    = registryv1connect.PolicyServiceListPoliciesProcedure
	doCheck      = registryv1connect.PolicyServiceCheckPolicyProcedure
	doTry        = registryv1connect.PolicyServiceTestPolicyProcedure
	doPreview    = registryv1connect.PolicyServicePreviewPolicyProcedure
	doTrail      = registryv1connect.AuditServiceListAuditEventsProcedure
	doEvent      = registryv1connect.AuditServiceGetAuditEventProcedure
	doExport     = registryv1connect.AuditServiceExportAuditEventsProcedure
	doVerify     = registryv1connect.AuditServiceVerifyAuditProcedure
	doMarks      = registryv1connect.AuditServiceListAuditCheckpointsProcedure
	doKeys       = registryv1connect.AuditServiceGetAuditKeysProcedure
	doConnect    = registryv1connect.ConnectionServiceCreateConnectionProcedure
	doWay        = registryv1connect.ConnectionServiceGetConnectionProcedure
	doWays       = registryv1connect.ConnectionServiceListConnectionsProcedure
	doFormer     = registryv1connect.ConnectionServiceListConnectionVersionsProcedure
	doReroute    = registryv1connect.ConnectionServiceUpdateConnectionProcedure
	doCut        = registryv1connect.ConnectionServiceDeleteConnectionProcedure
	doSubscribe  = registryv1connect.EventServiceCreateSubscriptionProcedure
	doHook       = registryv1connect.EventServiceGetSubscriptionProcedure
	doHooks      = registryv1connect.EventServiceListSubscriptionsProcedure
	doRehook     = registryv1connect.EventServiceUpdateSubscriptionProcedure
	doUnhook     = registryv1connect.EventServiceDeleteSubscriptionProcedure
	doKnock      = registryv1connect.EventServiceTestSubscriptionProcedure
	doDeliveries = registryv1connect.EventServiceListDeliveriesProcedure
	doReplay     = registryv1connect.EventServiceReplayEventsProcedure
	doDial       = registryv1connect.ConnectionServiceTestConnectionProcedure
	doRuntime    = registryv1connect.InstallationServiceGetInstallationProcedure
	doExamine    = registryv1connect.InstallationServiceExamineInstallationProcedure
	doWhoAmI     = registryv1connect.IdentityServiceWhoAmIProcedure
	doProvide    = registryv1connect.ToolProviderServiceCreateToolProviderProcedure
	doProvider   = registryv1connect.ToolProviderServiceGetToolProviderProcedure
	doProviders  = registryv1connect.ToolProviderServiceListToolProvidersProcedure
	doReprovide  = registryv1connect.ToolProviderServiceUpdateToolProviderProcedure
	doSound      = registryv1connect.ToolProviderServiceTestToolProviderProcedure
	doRefresh    = registryv1connect.ToolProviderServiceRefreshToolProviderProcedure
	doAdmit      = registryv1connect.ToolProviderServiceEnableToolProviderProcedure
	doBar        = registryv1connect.ToolProviderServiceDisableToolProviderProcedure
	doUnprovide  = registryv1connect.ToolProviderServiceDeleteToolProviderProcedure
)

// good is a registration that is accepted.
func good(name string) *pb.RegisterMcpServerRequest {
	return &pb.RegisterMcpServerRequest{
		Name: name, Direction: pb.McpDirection_MCP_DIRECTION_CONSUMED, Transport: pb.McpTransport_MCP_TRANSPORT_STREAMABLE_HTTP,
		EndpointUrl: "https://" + name + ".example/mcp", Authentication: pb.McpAuthentication_MCP_AUTHENTICATION_OAUTH2_PROTECTED_RESOURCE,
		GovernancePolicyRef: "default", ProtocolVersion: "2026-07-28",
	}
}

// H1: bad input is InvalidArgument with the path of each fault, the same on
// every face; nothing is stored and no workflow hears of it.
func TestBadInputGetsTheSameVerdictOnEveryFace(t *testing.T) {
	t.Parallel()
	h := open(t)
	s := h.active(t, alpha, "there", "x")
	before := h.flows.took()
	bad := func(change func(*pb.RegisterMcpServerRequest)) *pb.RegisterMcpServerRequest {
		m := good("new")
		change(m)
		return m
	}
	for name, c := range map[string]struct {
		procedure string
		request   proto.Message
		reason    registry.Reason
		fields    []string
	}{
		"an empty registration": {doRegister, &pb.RegisterMcpServerRequest{}, registry.ReasonInvalidArgument, []string{
			"authentication", "direction", "governance_policy_ref", "name", "protocol_version", "transport",
		}},
		"a name with a slash": {doRegister, bad(func(m *pb.RegisterMcpServerRequest) { m.Name = "t/a" }), registry.ReasonInvalidArgument, []string{"name"}},
		"a name like an id":   {doRegister, bad(func(m *pb.RegisterMcpServerRequest) { m.Name = registry.ServerID(strings.Repeat("0", 32)) }), registry.ReasonInvalidArgument, []string{"name"}},
		"an empty transport":  {doRegister, bad(func(m *pb.RegisterMcpServerRequest) { m.EndpointUrl = "" }), registry.ReasonInvalidArgument, []string{"endpoint_url"}},
		"stdio without a command": {doRegister, bad(func(m *pb.RegisterMcpServerRequest) {
			m.Transport, m.EndpointUrl = pb.McpTransport_MCP_TRANSPORT_STDIO, ""
			m.Authentication = pb.McpAuthentication_MCP_AUTHENTICATION_WORKLOAD_IDENTITY
		}), registry.ReasonInvalidArgument, []string{"command_ref"}},
		"stdio with a URL": {doRegister, bad(func(m *pb.RegisterMcpServerRequest) {
			m.Transport, m.CommandRef = pb.McpTransport_MCP_TRANSPORT_STDIO, "c"
			m.Authentication = pb.McpAuthentication_MCP_AUTHENTICATION_WORKLOAD_IDENTITY
		}), registry.ReasonInvalidArgument, []string{"endpoint_url"}},
		"a command over HTTP":     {doRegister, bad(func(m *pb.RegisterMcpServerRequest) { m.CommandRef = "c" }), registry.ReasonInvalidArgument, []string{"command_ref"}},
		"no authentication":       {doRegister, bad(func(m *pb.RegisterMcpServerRequest) { m.Authentication = 0 }), registry.ReasonInvalidArgument, []string{"authentication"}},
		"an unknown enum value":   {doRegister, bad(func(m *pb.RegisterMcpServerRequest) { m.Direction = 99 }), registry.ReasonInvalidArgument, []string{"direction"}},
		"an empty label key":      {doRegister, bad(func(m *pb.RegisterMcpServerRequest) { m.Labels = map[string]string{"": "x"} }), registry.ReasonInvalidArgument, []string{`labels[""]`}},
		"a long label":            {doRegister, bad(func(m *pb.RegisterMcpServerRequest) { m.Labels = map[string]string{"a": strings.Repeat("x", 257)} }), registry.ReasonInvalidArgument, []string{`labels["a"]`}},
		"a file":                  {doRegister, bad(func(m *pb.RegisterMcpServerRequest) { m.EndpointUrl = "file:///etc/passwd" }), registry.ReasonInvalidArgument, []string{"endpoint_url"}},
		"credentials in the URL":  {doRegister, bad(func(m *pb.RegisterMcpServerRequest) { m.EndpointUrl = "https://u:hunter2@a.example/" }), registry.ReasonSecretInRequest, nil},
		"a token in the query":    {doRegister, bad(func(m *pb.RegisterMcpServerRequest) { m.EndpointUrl = "https://a.example/?token=hunter2" }), registry.ReasonSecretInRequest, nil},
		"an unknown policy":       {doRegister, bad(func(m *pb.RegisterMcpServerRequest) { m.GovernancePolicyRef = "nope" }), registry.ReasonInvalidArgument, []string{"governance_policy_ref"}},
		"an exception not needed": {doRegister, bad(func(m *pb.RegisterMcpServerRequest) { m.ExceptionReason = "why not" }), registry.ReasonInvalidArgument, []string{"exception_reason"}},
		"two faults at once":      {doRegister, bad(func(m *pb.RegisterMcpServerRequest) { m.DialAddress, m.CommandRef = "x", "c" }), registry.ReasonInvalidArgument, []string{"command_ref", "dial_address"}},
		"no mask":                 {doUpdate, &pb.UpdateMcpServerRequest{ServerId: s.ServerID, Server: &pb.ServerPatch{}}, registry.ReasonInvalidArgument, []string{"update_mask"}},
		"an empty mask":           {doUpdate, &pb.UpdateMcpServerRequest{ServerId: s.ServerID, Server: &pb.ServerPatch{}, UpdateMask: &fieldmaskpb.FieldMask{}}, registry.ReasonInvalidArgument, []string{"update_mask"}},
		"a mask of another field": {doUpdate, &pb.UpdateMcpServerRequest{ServerId: s.ServerID, Server: &pb.ServerPatch{}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"name"}}}, registry.ReasonInvalidArgument, []string{"update_mask"}},
		"a wait too long":         {doDiscover, &pb.DiscoverMcpCapabilitiesRequest{ServerId: s.ServerID, Wait: durationpb.New(31e9)}, registry.ReasonInvalidArgument, []string{"wait"}},
		"a wait below nothing":    {doDiscover, &pb.DiscoverMcpCapabilitiesRequest{ServerId: s.ServerID, Wait: durationpb.New(-1e9)}, registry.ReasonInvalidArgument, []string{"wait"}},
		"no digest":               {doActivate, &pb.ActivateMcpServerRequest{ServerId: s.ServerID, Empty: true}, registry.ReasonInvalidArgument, []string{"digest"}},
		"a line of no class":      {doActivate, &pb.ActivateMcpServerRequest{ServerId: s.ServerID, Digest: "d", Tools: []*pb.ToolLine{{Tool: "x"}}}, registry.ReasonInvalidArgument, []string{"tools[0].class"}},
		"a rejection of silence":  {doReject, &pb.RejectMcpServerRequest{ServerId: s.ServerID, Digest: "d"}, registry.ReasonInvalidArgument, []string{"comment"}},
		"a page too large":        {doList, &pb.ListMcpServersRequest{PageSize: 201}, registry.ReasonInvalidArgument, []string{"page_size"}},
		"a page below nothing":    {doTools, &pb.ListToolsRequest{PageSize: -1}, registry.ReasonInvalidArgument, []string{"page_size"}},
		"a token of nothing":      {doList, &pb.ListMcpServersRequest{PageToken: "x"}, registry.ReasonInvalidPageToken, []string{"page_token"}},
		"a filter by nothing":     {doTools, &pb.ListToolsRequest{Filter: "colour=red"}, registry.ReasonInvalidFilter, []string{"filter"}},
		"an order by nothing":     {doTools, &pb.ListToolsRequest{OrderBy: "colour"}, registry.ReasonInvalidOrder, []string{"order_by"}},
		"NUL in a text":           {doRegister, bad(func(m *pb.RegisterMcpServerRequest) { m.Description = "a\x00b" }), registry.ReasonInvalidArgument, []string{"description"}},
		"NUL in a label":          {doRegister, bad(func(m *pb.RegisterMcpServerRequest) { m.Labels = map[string]string{"a": "\x00"} }), registry.ReasonInvalidArgument, []string{"labels"}},
		"NUL in a line":           {doActivate, &pb.ActivateMcpServerRequest{ServerId: s.ServerID, Digest: "d", Tools: []*pb.ToolLine{{Tool: "x\x00", Class: 1}}}, registry.ReasonInvalidArgument, []string{"tools[0].tool"}},
		"NUL in an id":            {doBatch, &pb.BatchResolveToolsRequest{ToolIds: []string{"a", "b\x00"}}, registry.ReasonInvalidArgument, []string{"tool_ids"}},
		"an id twice":             {doBatch, &pb.BatchResolveToolsRequest{ToolIds: []string{"a.b", "a.b"}}, registry.ReasonInvalidArgument, []string{"tool_ids"}},
		"no ids":                  {doBatch, &pb.BatchResolveToolsRequest{}, registry.ReasonInvalidArgument, []string{"tool_ids"}},
	} {
		for face, send := range ways {
			t.Run(name+" by "+face, func(t *testing.T) {
				o := send(t, h, admin(alpha), c.procedure, c.request, keyed("k"))
				if o.answer != nil || o.code != "invalid_argument" || o.reason != string(c.reason) || o.status != 0 && o.status != http.StatusBadRequest {
					t.Fatalf("the verdict is %+v", o)
				}
				var paths []string
				for _, f := range o.fields {
					path, _, _ := strings.Cut(f, ": ")
					paths = append(paths, path)
				}
				slices.Sort(paths)
				if diff := cmp.Diff(c.fields, slices.Compact(paths)); diff != "" {
					t.Errorf("%s\n%s", diff, strings.Join(o.fields, "\n"))
				}
				if strings.Contains(o.raw+o.message, "hunter2") {
					t.Errorf("the error repeats the credential: %s", o.raw)
				}
			})
		}
	}
	if asked := h.flows.took(); len(before)+len(asked) > 0 {
		t.Errorf("the workflows were asked to %v", asked)
	}
	if _, _, total, err := h.db.Tenant(alpha).Servers(t.Context(), db.ServerQuery{}); err != nil || total != 1 {
		t.Errorf("there are %d servers, %v", total, err)
	}
	if strings.Contains(h.logs.String(), "hunter2") {
		t.Error("the log repeats the credential")
	}
}

// A field that does not exist is refused, wherever it stands.
func TestUnknownFieldsAreRefusedOnEveryFace(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.registered(t, alpha, "there")
	unknown := &pb.GetMcpServerRequest{ServerId: "there"}
	unknown.ProtoReflect().SetUnknown([]byte{0xa2, 0x06, 1, 'x'}) // field 100
	deep := good("new")
	asJSON, err := protojson.Marshal(deep)
	if err != nil {
		t.Fatal(err)
	}
	withField := strings.TrimSuffix(string(asJSON), "}") + `,"nope":1}`
	message := url.QueryEscape(`{"serverId":"there","nope":1}`)
	kind := with("Content-Type", "application/json", "Idempotency-Key", "k")
	for name, send := range map[string]func() outcome{
		"Connect JSON": func() outcome { return h.raw(t, http.MethodPost, doRegister, withField, kind) },
		"Connect GET": func() outcome {
			return h.raw(t, http.MethodGet, doGet+"?connect=v1&encoding=json&message="+message, "", nil)
		},
		"Connect proto":      func() outcome { return ways["Connect proto"](t, h, admin(alpha), doGet, unknown, nil) },
		"gRPC":               func() outcome { return ways["gRPC"](t, h, admin(alpha), doGet, unknown, nil) },
		"REST body":          func() outcome { return h.raw(t, http.MethodPost, "/factory/mcp-servers", withField, kind) },
		"REST query":         func() outcome { return h.raw(t, http.MethodGet, "/factory/mcp-servers?nope=1", "", nil) },
		"REST query below":   func() outcome { return h.raw(t, http.MethodGet, "/factory/mcp-servers/there?view.nope=1", "", nil) },
		"REST query of POST": func() outcome { return h.raw(t, http.MethodPost, "/factory/mcp-servers?name=x", "{}", kind) },
		"REST connect=v1": func() outcome {
			return h.raw(t, http.MethodGet, "/factory/mcp-servers?connect=v1&message=%7B%7D", "", nil)
		},
		"REST token in query": func() outcome { return h.raw(t, http.MethodGet, "/factory/mcp-servers?access_token=x", "", nil) },
		"Connect GET query": func() outcome {
			return h.raw(t, http.MethodGet, doList+"?connect=v1&encoding=json&message=%7B%7D&nope=1", "", nil)
		},
		"Connect POST query": func() outcome { return h.raw(t, http.MethodPost, doList+"?pageSize=1", "{}", kind) },
	} {
		t.Run(name, func(t *testing.T) {
			o := send()
			if o.code != "invalid_argument" || o.reason != string(registry.ReasonUnknownField) || o.status != 0 && o.status != 400 || len(o.fields) != 1 {
				t.Errorf("it comes to %+v", o)
			}
		})
	}
	if asked := h.flows.took(); len(asked) > 0 {
		t.Errorf("the workflows were asked to %v", asked)
	}
}

// raw sends what no well-behaved client sends, as the tenant's administrator.
func (h *house) raw(t *testing.T, method, path, body string, header http.Header) outcome {
	t.Helper()
	status, got, raw := h.call(t, method, path, admin(alpha), body, header)
	o := outcome{status: status, header: got, raw: raw}
	switch {
	case status < 400:
	case strings.HasPrefix(path, rpcPrefix):
		o.readConnectError(t)
	default:
		o.readProblem(t)
	}
	return o
}

func TestWhatCannotBeReadIsTheCallersFaultOnEveryFace(t *testing.T) {
	t.Parallel()
	h := open(t, func(o *Options) { o.MaxBody = 10_000 })
	h.registered(t, alpha, "there")
	large := `{"name":"` + strings.Repeat("x", 10_001) + `"}`
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	if _, err := z.Write(bytes.Repeat([]byte(" "), 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	asJSON := "application/json"
	for name, c := range map[string]struct {
		method, path, body string
		header             http.Header
		status             int
		reason             registry.Reason
	}{
		"REST, broken JSON":           {"POST", "/factory/mcp-servers", "{", with("Content-Type", asJSON), 400, registry.ReasonInvalidArgument},
		"REST, no object":             {"POST", "/factory/mcp-servers", `[1]`, with("Content-Type", asJSON), 400, registry.ReasonInvalidArgument},
		"REST, a wrong type":          {"POST", "/factory/mcp-servers", `{"name":1}`, with("Content-Type", asJSON), 400, registry.ReasonInvalidArgument},
		"REST, a key twice":           {"POST", "/factory/mcp-servers", `{"name":"a","name":"b"}`, with("Content-Type", asJSON), 400, registry.ReasonInvalidArgument},
		"REST, two values":            {"POST", "/factory/mcp-servers", `{}{}`, with("Content-Type", asJSON), 400, registry.ReasonInvalidArgument},
		"REST, an unknown enum":       {"POST", "/factory/mcp-servers", `{"direction":"SIDEWAYS"}`, with("Content-Type", asJSON), 400, registry.ReasonInvalidArgument},
		"REST, no UTF-8":              {"POST", "/factory/mcp-servers", "{\"name\":\"\xff\"}", with("Content-Type", asJSON), 400, registry.ReasonInvalidArgument},
		"REST, a broken query":        {"GET", "/factory/mcp-servers?page_size=%zz", "", nil, 400, registry.ReasonInvalidArgument},
		"REST, a query of words":      {"GET", "/factory/mcp-servers?page_size=many", "", nil, 400, registry.ReasonInvalidArgument},
		"REST, a GET with a body":     {"GET", "/factory/mcp-servers", "{}", with("Content-Type", asJSON), 400, registry.ReasonInvalidArgument},
		"REST, too large":             {"POST", "/factory/mcp-servers", large, with("Content-Type", asJSON), 413, registry.ReasonBodyTooLarge},
		"REST, compressed":            {"POST", "/factory/mcp-servers", bomb.String(), with("Content-Type", asJSON, "Content-Encoding", "gzip"), 415, registry.ReasonUnsupportedMediaType},
		"REST, text":                  {"POST", "/factory/mcp-servers", "{}", with("Content-Type", "text/plain"), 415, registry.ReasonUnsupportedMediaType},
		"REST, a form with files":     {"POST", "/factory/mcp-servers", "{}", with("Content-Type", "multipart/form-data; boundary=x"), 415, registry.ReasonUnsupportedMediaType},
		"REST, another charset":       {"POST", "/factory/mcp-servers", "{}", with("Content-Type", "application/json; charset=latin1"), 415, registry.ReasonUnsupportedMediaType},
		"REST, as gRPC":               {"POST", "/factory/mcp-servers", "{}", with("Content-Type", "application/grpc"), 415, registry.ReasonUnsupportedMediaType},
		"REST, no such path":          {"GET", "/factory/nope", "", nil, 404, registry.ReasonNoSuchOperation},
		"REST, the root":              {"GET", "/factory/", "", nil, 404, registry.ReasonNoSuchOperation},
		"REST, another method":        {"DELETE", "/factory/mcp-servers/there", "", nil, 405, registry.ReasonMethodNotAllowed},
		"REST, a slash in a name":     {"GET", "/factory/mcp-servers/a%2Fb", "", nil, 404, registry.ReasonNoSuchOperation},
		"elsewhere":                   {"GET", "/nope", "", nil, 404, registry.ReasonNoSuchOperation},
		"Connect, broken JSON":        {"POST", doRegister, "{", with("Content-Type", asJSON), 400, registry.ReasonInvalidArgument},
		"Connect, no body":            {"POST", doList, "", with("Content-Type", asJSON), 400, registry.ReasonInvalidArgument},
		"Connect, broken proto":       {"POST", doRegister, "\xff\xff", with("Content-Type", "application/proto"), 400, registry.ReasonInvalidArgument},
		"Connect, a key twice":        {"POST", doRegister, `{"name":"a","name":"b"}`, with("Content-Type", asJSON), 400, registry.ReasonInvalidArgument},
		"Connect, too large":          {"POST", doRegister, large, with("Content-Type", asJSON), 413, registry.ReasonBodyTooLarge},
		"Connect, a bomb":             {"POST", doRegister, bomb.String(), with("Content-Type", asJSON, "Content-Encoding", "gzip"), 413, registry.ReasonBodyTooLarge},
		"Connect, unknown encoding":   {"POST", doList, "{}", with("Content-Type", asJSON, "Content-Encoding", "br"), 415, registry.ReasonUnsupportedMediaType},
		"Connect, text":               {"POST", doList, "{}", with("Content-Type", "text/plain"), 415, registry.ReasonUnsupportedMediaType},
		"Connect, a form":             {"POST", doList, "{}", with("Content-Type", "application/x-www-form-urlencoded"), 415, registry.ReasonUnsupportedMediaType},
		"Connect, GET of a change":    {"GET", doRetire + "?connect=v1&encoding=json&message=%7B%7D", "", nil, 405, registry.ReasonMethodNotAllowed},
		"Connect, GET of nothing":     {"GET", doList, "", nil, 415, registry.ReasonUnsupportedMediaType},
		"Connect, GET, broken":        {"GET", doList + "?connect=v1&encoding=json&message=%7B", "", nil, 400, registry.ReasonInvalidArgument},
		"Connect, GET, no version":    {"GET", doList + "?encoding=json&message=%7B%7D&connect=v9", "", nil, 400, registry.ReasonInvalidArgument},
		"Connect, no such RPC":        {"POST", "/countersign.registry.v1.McpServerService/Nope", "{}", with("Content-Type", asJSON), 404, registry.ReasonNoSuchOperation},
		"Connect, no such service":    {"POST", "/countersign.registry.v1.Nope/Get", "{}", with("Content-Type", asJSON), 404, registry.ReasonNoSuchOperation},
		"Connect, a timeout of words": {"POST", doList, "{}", with("Content-Type", asJSON, "Connect-Timeout-Ms", "soon"), 400, registry.ReasonInvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			o := h.raw(t, c.method, c.path, c.body, c.header)
			if o.status != c.status || o.reason != string(c.reason) {
				t.Errorf("it comes to status %d: %s", o.status, o.raw)
			}
			if o.header.Get("X-Request-ID") == "" {
				t.Error("the answer has no request id")
			}
			if c.status == 405 && o.header.Get("Allow") == "" {
				t.Error("it does not say which methods are allowed")
			}
		})
	}
	if asked := h.flows.took(); len(asked) > 0 {
		t.Errorf("the workflows were asked to %v", asked)
	}
}

func TestAChunkedBodyIsLimitedToo(t *testing.T) {
	t.Parallel()
	h := open(t, func(o *Options) { o.MaxBody = 10_000 })
	for path, kind := range map[string]string{"/factory/mcp-servers": "application/json", doRegister: "application/json"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+path, struct{ *strings.Reader }{strings.NewReader(`{"name":"` + strings.Repeat("x", 50_000) + `"}`)})
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", kind)
		r.Header.Set("Authorization", "Bearer "+admin(alpha))
		response, err := plain.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%s answers %d", path, response.StatusCode)
		}
	}
}

func TestGRPCErrorsOfTheLibraryHaveAReasonToo(t *testing.T) {
	t.Parallel()
	h := open(t, func(o *Options) { o.MaxBody = 10_000 })
	large := good("x")
	large.Description = strings.Repeat("x", 20_000)
	for _, face := range []string{"gRPC", "gRPC-Web"} {
		o := ways[face](t, h, admin(alpha), doRegister, large, keyed("k"))
		if o.code != "invalid_argument" || o.reason != string(registry.ReasonBodyTooLarge) {
			t.Errorf("%s: too large comes to %+v", face, o)
		}
	}
}

func TestJSONIsTheDefaultOnREST(t *testing.T) {
	t.Parallel()
	h := open(t)
	for name, kind := range map[string]string{
		"none": "", "what curl says": "application/x-www-form-urlencoded", "JSON": "application/json", "JSON in UTF-8": "application/json; charset=UTF-8",
	} {
		body, err := protojson.Marshal(good(strings.ReplaceAll(strings.ToLower(name), " ", "-")))
		if err != nil {
			t.Fatal(err)
		}
		header := keyed(name)
		if kind != "" {
			header.Set("Content-Type", kind)
		}
		if o := h.raw(t, http.MethodPost, "/factory/mcp-servers", string(body), header); o.status != http.StatusCreated {
			t.Errorf("%s: %d %s", name, o.status, o.raw)
		}
	}
}

func TestFalseIsVisible(t *testing.T) {
	t.Parallel()
	h := open(t)
	for name, o := range map[string]outcome{
		"REST":        h.raw(t, http.MethodGet, "/factory/tools/nope.x/resolve", "", nil),
		"Connect":     h.raw(t, http.MethodPost, doResolve, `{"toolId":"nope.x"}`, with("Content-Type", "application/json")),
		"Connect GET": h.raw(t, http.MethodGet, doResolve+"?connect=v1&encoding=json&message="+url.QueryEscape(`{"toolId":"nope.x"}`), "", nil),
	} {
		var body map[string]any
		if err := json.Unmarshal([]byte(o.raw), &body); err != nil {
			t.Fatalf("%s: %v %s", name, err, o.raw)
		}
		if callable, there := body["callable"]; !there || callable != false || body["reason"] != "tool_not_found" {
			t.Errorf("%s answers %s", name, o.raw)
		}
		if cache := o.header.Get("Cache-Control"); cache != "private, no-cache" {
			t.Errorf("%s: Cache-Control is %q", name, cache)
		}
	}
}
