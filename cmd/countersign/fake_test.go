package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/proto/countersign/registry/v1/registryv1connect"
	"countersign/registry"
)

const fakeToken = "token-of-an-administrator"

// fakeAPI stands where the wire leaves the program: the generated handlers
// over a few servers in memory, with the answers of the true API.
type fakeAPI struct {
	registryv1connect.UnimplementedMcpServerServiceHandler
	registryv1connect.UnimplementedToolCatalogServiceHandler
	registryv1connect.UnimplementedMcpRegistryServiceHandler
	registryv1connect.UnimplementedApprovalServiceHandler
	registryv1connect.UnimplementedPolicyServiceHandler
	registryv1connect.UnimplementedConnectionServiceHandler
	registryv1connect.UnimplementedToolProviderServiceHandler

	mu          sync.Mutex
	servers     []*registryv1.McpServer
	offers      map[string]*registryv1.GetMcpCapabilitiesResponse // by server id
	reports     map[string]*registryv1.CapabilityReport           // by server id
	keys        map[string]string                                 // server id by idempotency key
	descriptors []*registryv1.ToolDescriptor
	assignments []*registryv1.ToolAssignment
	connections []*registryv1.Connection // in the order of their making
	providers   []*registryv1.ToolProvider
	calls       []string
	refusals    []error               // of the next calls
	later       map[string][]lateTurn // by server name
	hangs       bool
}

// lateTurn is a change of a server that becomes visible after some looks.
type lateTurn struct {
	looks int
	state registryv1.McpServerState
}

// refusal makes an error as the API makes it.
func refusal(code connect.Code, reason registry.Reason, next string, facts map[string]string, format string, args ...any) error {
	return refusalWith(nil, code, reason, next, facts, format, args...)
}

func refusalWith(more proto.Message, code connect.Code, reason registry.Reason, next string, facts map[string]string, format string, args ...any) error {
	e := connect.NewError(code, fmt.Errorf(format, args...))
	info := &errdetails.ErrorInfo{Reason: string(reason), Domain: "countersign", Metadata: map[string]string{}}
	maps.Copy(info.GetMetadata(), facts)
	if next != "" {
		info.Metadata["next_step"] = next
	}
	for _, message := range []proto.Message{info, more} {
		if detail, err := connect.NewErrorDetail(message); message != nil && err == nil {
			e.AddDetail(detail)
		}
	}
	return e
}

func invalid(field, message string) error {
	return refusalWith(&errdetails.BadRequest{
		FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field, Description: message}},
	}, connect.CodeInvalidArgument, registry.ReasonInvalidArgument, "", nil, "the request is not valid")
}

// startFake serves a fake API on a loopback port until the end of the test.
func startFake() (*fakeAPI, *httptest.Server) {
	f := &fakeAPI{
		servers: fixtureServers(), offers: fixtureOffers(), reports: fixtureReports(), keys: map[string]string{}, later: map[string][]lateTurn{},
	}
	mux := http.NewServeMux()
	guard := connect.WithInterceptors(connect.UnaryInterceptorFunc(f.guard))
	mux.Handle(registryv1connect.NewMcpServerServiceHandler(f, guard))
	mux.Handle(registryv1connect.NewToolCatalogServiceHandler(f, guard))
	mux.Handle(registryv1connect.NewMcpRegistryServiceHandler(f, guard))
	mux.Handle(registryv1connect.NewApprovalServiceHandler(f, guard))
	mux.Handle(registryv1connect.NewPolicyServiceHandler(f, guard))
	mux.Handle(registryv1connect.NewConnectionServiceHandler(f, guard))
	mux.Handle(registryv1connect.NewToolProviderServiceHandler(f, guard))
	mux.Handle(registryv1connect.NewEventServiceHandler(&fakeEvents{}, guard))
	mux.HandleFunc("/elsewhere/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.TrimPrefix(r.URL.Path, "/elsewhere"), http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/foreign/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no such method here", http.StatusMethodNotAllowed)
	})
	return f, httptest.NewServer(mux)
}

// guard lets in who has the token, writes down what came, and refuses what a
// test wants refused.
func (f *fakeAPI) guard(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		call := request.Spec().Procedure[strings.LastIndexByte(request.Spec().Procedure, '/')+1:]
		text, err := protojson.Marshal(request.Any().(proto.Message))
		if err != nil {
			return nil, err
		}
		var compacted bytes.Buffer
		if json.Compact(&compacted, text) == nil { // protojson's own spacing varies
			call += " " + compacted.String()
		}
		if key := request.Header().Get("Idempotency-Key"); key != "" {
			call += " key=" + key
		}
		f.mu.Lock()
		f.calls = append(f.calls, call)
		var refused error
		if len(f.refusals) > 0 {
			refused, f.refusals = f.refusals[0], f.refusals[1:]
		}
		hangs := f.hangs
		f.mu.Unlock()
		switch {
		case request.Header().Get("Authorization") != "Bearer "+fakeToken:
			return nil, refusal(connect.CodeUnauthenticated, registry.ReasonUnauthenticated, "", nil, "no usable token")
		case refused != nil:
			return nil, refused
		case hangs:
			<-ctx.Done()
			return nil, ctx.Err()
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		return next(ctx, request)
	}
}

func (f *fakeAPI) find(name string) (*registryv1.McpServer, error) {
	for _, live := range []bool{true, false} { // the name of a retired server is another's first
		for _, s := range f.servers {
			if s.GetServerId() == name || s.GetName() == name && (s.GetState() != stateRetired) == live {
				return s, nil
			}
		}
	}
	return nil, refusal(connect.CodeNotFound, registry.ReasonServerNotFound, "countersign server list", nil, "there is no server %q", name)
}

func (f *fakeAPI) RegisterMcpServer(ctx context.Context, r *registryv1.RegisterMcpServerRequest) (*registryv1.RegisterMcpServerResponse, error) {
	info, _ := connect.CallInfoForHandlerContext(ctx)
	key := info.RequestHeader().Get("Idempotency-Key")
	if key == "" {
		return nil, refusal(connect.CodeInvalidArgument, registry.ReasonIdempotencyKeyRequired, "", nil, "an Idempotency-Key header is required")
	}
	if id, ok := f.keys[key]; ok {
		s, err := f.find(id)
		return &registryv1.RegisterMcpServerResponse{Server: s}, err
	}
	stdio := r.GetTransport() == registryv1.McpTransport_MCP_TRANSPORT_STDIO
	if stdio && r.GetCommandRef() == "unknown" {
		return nil, refusal(connect.CodeFailedPrecondition, registry.ReasonUnknownCommand,
			"have the operator add it to commands in the configuration of the workers", nil, "the operator's allow-list has no command %q", r.GetCommandRef())
	}
	if strings.Contains(r.GetEndpointUrl(), "@") {
		return nil, invalid("endpoint_url", "must not hold credentials")
	}
	if s, err := f.find(r.GetName()); err == nil && s.GetState() != stateRetired {
		return nil, refusal(connect.CodeAlreadyExists, registry.ReasonServerExists, "choose another name, or retire it",
			map[string]string{"server_id": s.GetServerId()}, "there is a server %q already", r.GetName())
	}
	s := newServer(r.GetName(), stateRegistered)
	s.Direction, s.Transport, s.Authentication = r.GetDirection(), r.GetTransport(), r.GetAuthentication()
	s.EndpointUrl, s.DialAddress, s.GovernancePolicyRef, s.ProtocolVersion = r.GetEndpointUrl(), r.GetDialAddress(), r.GetGovernancePolicyRef(), r.GetProtocolVersion()
	s.Description, s.Owner, s.Labels, s.ProductVersion, s.ReleaseId = r.GetDescription(), r.GetOwner(), r.GetLabels(), r.GetProductVersion(), r.GetReleaseId()
	s.Health = &registryv1.Health{Level: registryv1.HealthLevel_HEALTH_LEVEL_UNKNOWN, Reason: "discovering", Summary: "The first discovery is under way"}
	s.Discovery = &registryv1.Discovery{Number: 1, Status: discoveryRunning}
	if r.GetExceptionReason() != "" {
		s.AuthenticationException = &registryv1.AuthenticationException{Reason: r.GetExceptionReason()}
	}
	if stdio {
		s.CommandRef, s.TargetDigest, s.Discovery = r.GetCommandRef(), "sha256:target-of-"+r.GetCommandRef(), nil
		s.Command = &registryv1.Command{
			Ref: r.GetCommandRef(), Argv: []string{"/usr/bin/node", "/opt/files.js", "--root", "/srv/a b\x1b[2J", strings.Repeat("x", 300)},
			WorkingDirectory: "/srv", Env: map[string]string{"API_KEY": "env:FILES_KEY", "LOG_LEVEL": "plain:warn"}, Sandbox: "bubblewrap",
		}
		if r.GetCommandRef() == "open" {
			s.Command.Sandbox = "none"
			s.Warnings = []string{"its process runs without a sandbox: it can read and do what the worker can"}
		}
		s.Launch = &registryv1.Launch{Status: launchPending}
	}
	if name := r.GetEndpointRef(); name != "" {
		c, err := f.newestConnection(name)
		if err != nil {
			return nil, err
		}
		s.EndpointRef, s.EndpointUrl = c.GetRef(), c.GetSpec().GetBaseUrl()
	}
	if strings.HasPrefix(r.GetEndpointUrl(), "http://") {
		s.Warnings = []string{"the endpoint is not encrypted"}
	}
	f.servers = append(f.servers, s)
	f.keys[key] = s.GetServerId()
	return &registryv1.RegisterMcpServerResponse{Server: s}, nil
}

func (f *fakeAPI) QuarantineMcpServer(_ context.Context, r *registryv1.QuarantineMcpServerRequest) (*registryv1.QuarantineMcpServerResponse, error) {
	s, err := f.find(r.GetServerId())
	if err != nil {
		return nil, err
	}
	s.State, s.Causes = stateDegraded, []string{"quarantined"}
	s.Review = &registryv1.Review{Status: reviewPending, Digest: "sha256:review"}
	return &registryv1.QuarantineMcpServerResponse{Server: s}, nil
}

func (f *fakeAPI) ApproveLaunch(_ context.Context, r *registryv1.ApproveLaunchRequest) (*registryv1.ApproveLaunchResponse, error) {
	s, err := f.find(r.GetServerId())
	if err != nil {
		return nil, err
	}
	if r.GetDigest() != s.GetTargetDigest() {
		return nil, refusal(connect.CodeAborted, registry.ReasonSuperseded, "look at the command as it is now", nil, "the command is another one now")
	}
	s.Launch = &registryv1.Launch{Status: registryv1.LaunchStatus_LAUNCH_STATUS_APPROVED, TargetDigest: r.GetDigest(), ApprovedBy: "ann"}
	return &registryv1.ApproveLaunchResponse{Server: s}, nil
}

func (f *fakeAPI) GetMcpServer(_ context.Context, r *registryv1.GetMcpServerRequest) (*registryv1.GetMcpServerResponse, error) {
	s, err := f.find(r.GetServerId())
	if err != nil {
		return nil, err
	}
	if turns := f.later[s.GetName()]; len(turns) > 0 {
		if turns[0].looks--; turns[0].looks < 0 {
			f.later[s.GetName()] = turns[1:]
			f.turn(s, turns[0].state)
			s.Counts.AvailableTools = max(s.GetCounts().GetAvailableTools(), 3)
		}
	}
	return &registryv1.GetMcpServerResponse{Server: s}, nil
}

// turn brings a server into a state, with the health that goes with it.
func (f *fakeAPI) turn(s *registryv1.McpServer, state registryv1.McpServerState) {
	s.State, s.Causes = state, nil
	s.Discovery = &registryv1.Discovery{Number: 1, Status: registryv1.DiscoveryStatus_DISCOVERY_STATUS_SUCCEEDED, FinishTime: day(1), SucceedTime: day(1), TotalTools: 3, NewTools: 3}
	switch state {
	case stateVerified:
		s.Review = &registryv1.Review{Status: reviewPending, Digest: "sha256:under-review", RequestedBy: "ada", OpenTime: day(1), ExpireTime: day(8)}
		s.Health = health(registryv1.HealthLevel_HEALTH_LEVEL_HEALTHY, "awaiting_approval", "Discovered; nothing is callable before an approval", "Review and approve it")
	case stateActive:
		s.Review = &registryv1.Review{Status: registryv1.ReviewStatus_REVIEW_STATUS_APPROVED, Digest: "sha256:under-review", DecidedBy: "ada", DecideTime: day(2)}
		s.Health = health(registryv1.HealthLevel_HEALTH_LEVEL_HEALTHY, "ok", "Handshakes succeed", "")
	case stateDegraded:
		s.Causes = []string{"handshake"}
		s.Health = health(registryv1.HealthLevel_HEALTH_LEVEL_UNHEALTHY, "unreachable", "Handshakes fail: connection refused", "Mend the server; it recovers by itself with the next good probe")
	case stateRetired:
		s.Health = health(registryv1.HealthLevel_HEALTH_LEVEL_UNKNOWN, "retired", "Retired servers are not watched", "")
		s.RetireTime = day(3)
	default:
	}
}

func (f *fakeAPI) ListMcpServers(_ context.Context, r *registryv1.ListMcpServersRequest) (*registryv1.ListMcpServersResponse, error) {
	if strings.Contains(r.GetFilter(), "colour") {
		return nil, refusal(connect.CodeInvalidArgument, registry.ReasonInvalidFilter, "filter by name, state or owner", nil, "the filter cannot be read: no field %q", "colour")
	}
	var all []*registryv1.McpServer
	for _, s := range f.servers {
		if (s.GetState() != stateRetired || r.GetShowRetired()) && !strings.Contains(r.GetFilter(), "nobody") {
			all = append(all, s)
		}
	}
	if strings.HasSuffix(r.GetOrderBy(), " desc") {
		slices.Reverse(all)
	}
	items, next := cutPage(all, r.GetPageSize(), r.GetPageToken())
	return &registryv1.ListMcpServersResponse{Servers: items, NextPageToken: next, TotalSize: int32(len(all))}, nil
}

func cutPage[M any](all []M, size int32, token string) (items []M, next string) {
	start, _ := strconv.Atoi(token)
	if size == 0 {
		size = 50
	}
	end := min(start+int(size), len(all))
	if end < len(all) {
		next = strconv.Itoa(end)
	}
	return all[start:end], next
}

func (f *fakeAPI) UpdateMcpServer(_ context.Context, r *registryv1.UpdateMcpServerRequest) (*registryv1.UpdateMcpServerResponse, error) {
	s, err := f.find(r.GetServerId())
	if err != nil {
		return nil, err
	}
	if r.GetEtag() != "" && r.GetEtag() != s.GetEtag() {
		return nil, refusal(connect.CodeAborted, registry.ReasonStaleEtag, "read the server again and repeat the change on what it is now",
			map[string]string{"etag": s.GetEtag()}, "the server is at etag %s, not %s", s.GetEtag(), r.GetEtag())
	}
	for _, path := range r.GetUpdateMask().GetPaths() {
		switch path {
		case "owner":
			s.Owner = r.GetServer().GetOwner()
		case "description":
			s.Description = r.GetServer().GetDescription()
		case "endpoint_url":
			s.EndpointUrl = r.GetServer().GetEndpointUrl()
			f.later[s.GetName()] = []lateTurn{{1, stateVerified}}
			f.turn(s, stateRegistered)
		}
	}
	return &registryv1.UpdateMcpServerResponse{Server: s}, nil
}

func (f *fakeAPI) DiscoverMcpCapabilities(_ context.Context, r *registryv1.DiscoverMcpCapabilitiesRequest) (*registryv1.DiscoverMcpCapabilitiesResponse, error) {
	s, err := f.find(r.GetServerId())
	if err != nil {
		return nil, err
	}
	out := &registryv1.DiscoverMcpCapabilitiesResponse{Server: s, Done: true, Run: fixtureRuns(s)[0]}
	switch s.GetName() {
	case "flaky":
		s.Discovery = &registryv1.Discovery{Number: 4, Status: discoveryFailed, Reason: "unreachable", Message: "connection refused", FinishTime: day(2)}
	case "slow":
		s.Discovery = &registryv1.Discovery{Number: 2, Status: discoveryRunning}
		out.Done = false
	}
	return out, nil
}

func (f *fakeAPI) TestMcpServer(_ context.Context, r *registryv1.TestMcpServerRequest) (*registryv1.TestMcpServerResponse, error) {
	s, err := f.find(r.GetServerId())
	if err != nil {
		return nil, err
	}
	step := func(name string, ok bool, detail string) *registryv1.TestStep {
		return &registryv1.TestStep{Name: name, Ok: ok, Detail: detail, Duration: durationpb.New(12 * time.Millisecond)}
	}
	if s.GetName() == "flaky" {
		return &registryv1.TestMcpServerResponse{
			Reason: "unreachable", Message: "no connection to the server: \x1b[31mconnection refused", NextStep: "mend the server or its address",
			Steps:  []*registryv1.TestStep{step("connect", false, "connection refused")},
			Health: health(registryv1.HealthLevel_HEALTH_LEVEL_UNHEALTHY, "unreachable", "Handshakes fail: connection refused", "mend the server or its address"),
		}, nil
	}
	return &registryv1.TestMcpServerResponse{
		Ok: true, ProtocolVersion: "2026-07-28", Reported: s.GetReported(), Capabilities: []string{"tools"}, Tools: 3,
		Health: health(registryv1.HealthLevel_HEALTH_LEVEL_HEALTHY, "ok", "Handshakes succeed", ""),
		Steps:  []*registryv1.TestStep{step("connect", true, ""), step("server/discover", true, "2026-07-28"), step("tools/list", true, "3 in 1 page")},
	}, nil
}

func (f *fakeAPI) GetMcpCapabilities(_ context.Context, r *registryv1.GetMcpCapabilitiesRequest) (*registryv1.GetMcpCapabilitiesResponse, error) {
	s, err := f.find(r.GetServerId())
	if err != nil {
		return nil, err
	}
	offers := proto.CloneOf(f.offers[s.GetServerId()])
	if offers == nil {
		offers = &registryv1.GetMcpCapabilitiesResponse{}
	}
	offers.ServerId, offers.Etag, offers.Review = s.GetServerId(), s.GetEtag(), s.GetReview()
	if r.GetView() != registryv1.CapabilityView_CAPABILITY_VIEW_FULL {
		for _, t := range offers.GetTools() {
			t.DefinitionJson = ""
		}
	}
	return offers, nil
}

func (f *fakeAPI) GetCapabilityReport(_ context.Context, r *registryv1.GetCapabilityReportRequest) (*registryv1.GetCapabilityReportResponse, error) {
	s, err := f.find(r.GetServerId())
	if err != nil {
		return nil, err
	}
	report := proto.CloneOf(f.reports[s.GetServerId()])
	if report == nil {
		report = &registryv1.CapabilityReport{Doubt: "it was not discovered yet"}
	}
	report.ServerId, report.ServerName, report.Reported = s.GetServerId(), s.GetName(), s.GetReported()
	return &registryv1.GetCapabilityReportResponse{Report: report}, nil
}

func (f *fakeAPI) ActivateMcpServer(_ context.Context, r *registryv1.ActivateMcpServerRequest) (*registryv1.ActivateMcpServerResponse, error) {
	s, err := f.find(r.GetServerId())
	if err != nil {
		return nil, err
	}
	if r.GetDigest() != s.GetReview().GetDigest() {
		return nil, refusal(connect.CodeAborted, registry.ReasonSuperseded, "look at what is under review now",
			superseded(s), "digest %s is no longer under review", r.GetDigest())
	}
	f.turn(s, stateActive)
	for _, line := range r.GetTools() {
		for _, t := range f.offers[s.GetServerId()].GetTools() {
			if t.GetName() == line.GetTool() {
				t.Bound, t.Callable, t.DenialReason, t.DeclaredClass = true, t.GetEnabled() || line.GetEnable(), "", line.GetClass()
				t.Enabled = t.GetEnabled() || line.GetEnable()
				s.Counts.CallableTools++
			}
		}
	}
	return &registryv1.ActivateMcpServerResponse{Server: s}, nil
}

// superseded are the facts about a decision on what is no more.
func superseded(s *registryv1.McpServer) map[string]string {
	facts := map[string]string{"digest": s.GetReview().GetDigest()}
	if s.GetName() == "search" {
		facts["from_digest"], facts["to_digest"] = digestOf("a"), digestOf("b")
	}
	return facts
}

func (f *fakeAPI) RejectMcpServer(_ context.Context, r *registryv1.RejectMcpServerRequest) (*registryv1.RejectMcpServerResponse, error) {
	s, err := f.find(r.GetServerId())
	if err != nil {
		return nil, err
	}
	if r.GetDigest() != s.GetReview().GetDigest() {
		return nil, refusal(connect.CodeAborted, registry.ReasonSuperseded, "", superseded(s), "digest %s is no longer under review", r.GetDigest())
	}
	s.Review.Status = registryv1.ReviewStatus_REVIEW_STATUS_REJECTED
	return &registryv1.RejectMcpServerResponse{Server: s}, nil
}

func (f *fakeAPI) RequestReview(_ context.Context, r *registryv1.RequestReviewRequest) (*registryv1.RequestReviewResponse, error) {
	s, err := f.find(r.GetServerId())
	if err != nil {
		return nil, err
	}
	if s.GetState() == stateRegistered {
		return nil, refusal(connect.CodeFailedPrecondition, registry.ReasonNothingDiscovered, "discover it first", nil, "server %q was never discovered", s.GetName())
	}
	s.Review = &registryv1.Review{Status: reviewPending, Digest: "sha256:asked-again"}
	return &registryv1.RequestReviewResponse{Server: s}, nil
}

func (f *fakeAPI) RetireMcpServer(_ context.Context, r *registryv1.RetireMcpServerRequest) (*registryv1.RetireMcpServerResponse, error) {
	s, err := f.find(r.GetServerId())
	if err != nil {
		return nil, err
	}
	f.turn(s, stateRetired)
	return &registryv1.RetireMcpServerResponse{Server: s}, nil
}

func (f *fakeAPI) ListMcpServerRuns(_ context.Context, r *registryv1.ListMcpServerRunsRequest) (*registryv1.ListMcpServerRunsResponse, error) {
	s, err := f.find(r.GetServerId())
	if err != nil {
		return nil, err
	}
	items, next := cutPage(fixtureRuns(s), r.GetPageSize(), r.GetPageToken())
	return &registryv1.ListMcpServerRunsResponse{Runs: items, NextPageToken: next}, nil
}

func (f *fakeAPI) tools() []*registryv1.Tool {
	var all []*registryv1.Tool
	for _, s := range f.servers {
		all = append(all, f.offers[s.GetServerId()].GetTools()...)
	}
	return all
}

func (f *fakeAPI) findTool(id string) (*registryv1.Tool, error) {
	for _, t := range f.tools() {
		if t.GetToolId() == id {
			return t, nil
		}
	}
	return nil, refusal(connect.CodeNotFound, registry.ReasonToolNotFound, "countersign tools list", nil, "there is no tool %q", id)
}

func (f *fakeAPI) ListTools(_ context.Context, r *registryv1.ListToolsRequest) (*registryv1.ListToolsResponse, error) {
	all := f.chosen(r.GetFilter(), r.GetSearch(), nil)
	if strings.Contains(r.GetFilter(), "nobody") {
		all = nil
	}
	items, next := cutPage(all, r.GetPageSize(), r.GetPageToken())
	return &registryv1.ListToolsResponse{Tools: items, NextPageToken: next, TotalSize: int32(len(all))}, nil
}

func (f *fakeAPI) GetTool(_ context.Context, r *registryv1.GetToolRequest) (*registryv1.GetToolResponse, error) {
	t, err := f.findTool(r.GetToolId())
	return &registryv1.GetToolResponse{Tool: t}, err
}

func (f *fakeAPI) SetToolEnabled(_ context.Context, r *registryv1.SetToolEnabledRequest) (*registryv1.SetToolEnabledResponse, error) {
	t, err := f.findTool(r.GetToolId())
	if err != nil {
		return nil, err
	}
	t.Enabled = r.GetEnabled()
	t.Callable = t.GetEnabled() && t.GetBound()
	t.DenialReason = ""
	if !t.GetEnabled() {
		t.DenialReason = "tool_disabled"
	} else if !t.GetBound() {
		t.DenialReason = "tool_unbound"
	}
	return &registryv1.SetToolEnabledResponse{Tool: t}, nil
}

func (f *fakeAPI) resolve(id string) *registryv1.ResolveToolResponse {
	t, err := f.findTool(id)
	if err != nil {
		return &registryv1.ResolveToolResponse{ToolId: id, Reason: "tool_not_found", Message: "the tenant has no tool of this id"}
	}
	out := &registryv1.ResolveToolResponse{ToolId: id, Callable: t.GetCallable(), Reason: t.GetDenialReason(), RequiresApproval: t.GetRequiresApproval()}
	s, _ := f.find(t.GetServerId())
	out.Health = s.GetHealth()
	if !out.GetCallable() {
		out.Message = registry.Reason(t.GetDenialReason()).Means()
	}
	out.Routing = &registryv1.Routing{
		ServerId: s.GetServerId(), ServerName: s.GetName(), Transport: s.GetTransport(), EndpointUrl: s.GetEndpointUrl(),
		ProtocolVersion: s.GetProtocolVersion(), Authentication: s.GetAuthentication(), EndpointRef: s.GetServerId() + "@1",
		ToolName: t.GetName(), DeclaredClass: t.GetDeclaredClass(), SchemaHash: t.GetDigests().GetContract(),
		DescriptorId: t.GetDescriptorId(), DescriptorVersion: t.GetDescriptorVersion(), GovernancePolicyRef: "default",
	}
	return out
}

func (f *fakeAPI) ResolveTool(_ context.Context, r *registryv1.ResolveToolRequest) (*registryv1.ResolveToolResponse, error) {
	return f.resolve(r.GetToolId()), nil
}

func (f *fakeAPI) ExplainTool(_ context.Context, r *registryv1.ExplainToolRequest) (*registryv1.ExplainToolResponse, error) {
	said := f.resolve(r.GetToolId())
	out := &registryv1.ExplainToolResponse{
		ToolId: r.GetToolId(), Callable: said.GetCallable(), Reason: said.GetReason(), Message: said.GetMessage(), At: day(3),
		Conditions: []*registryv1.ResolveCondition{
			{Reason: "server_not_active", Holds: true, Value: "the server is active", Roles: []string{"AssetMaintainer"}},
			{Reason: "tool_disabled", Holds: said.GetCallable(), Value: "the tool is disabled", SinceTime: day(2), Roles: []string{"AssetMaintainer", "PlatformAdmin"}, NextStep: "switch the tool on"},
		},
	}
	if r.GetAt() != nil {
		out.At = r.GetAt()
	}
	return out, nil
}

func (f *fakeAPI) BatchResolveTools(_ context.Context, r *registryv1.BatchResolveToolsRequest) (*registryv1.BatchResolveToolsResponse, error) {
	out := &registryv1.BatchResolveToolsResponse{Callable: true}
	for _, id := range r.GetToolIds() {
		answer := f.resolve(id)
		out.Callable = out.GetCallable() && answer.GetCallable()
		out.Resolutions = append(out.Resolutions, answer)
	}
	if !out.GetCallable() {
		for _, answer := range out.GetResolutions() {
			answer.Routing = nil
		}
	}
	return out, nil
}

// day gives noon of a day of a month that every test knows.
func day(n int) *timestamppb.Timestamp {
	return timestamppb.New(time.Date(2026, time.November, n, 12, 0, 0, 0, time.UTC))
}

func health(level registryv1.HealthLevel, reason, summary, next string) *registryv1.Health {
	h := &registryv1.Health{Level: level, Reason: reason, Summary: summary, NextStep: next, Since: day(2), Probing: registryv1.Probing_PROBING_PROBED}
	if next != "" {
		h.WhoCanAct = []string{"server_operator", "PlatformAdmin"}
	}
	return h
}

func testServer(t *testing.T) (*fakeAPI, string) {
	t.Helper()
	fake, server := startFake()
	t.Cleanup(server.Close)
	return fake, server.URL
}
