package api

import (
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/proto/countersign/registry/v1/registryv1connect"
	"countersign/registry"
)

func (h *house) registry(token string, options ...connect.ClientOption) registryv1connect.McpRegistryServiceClient {
	return registryv1connect.NewMcpRegistryServiceClient(bringing{overHTTP2, token}, h.url, options...)
}

// What is answered from memory is what the database says, word by word, of
// every tool in every state.
func TestBoundedAnswersAreTheSame(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.active(t, alpha, "good", "x", "y")
	h.registered(t, alpha, "new")
	h.changed(t, h.active(t, alpha, "old", "x"), retire)
	h.active(t, beta, "theirs", "x")
	client := h.registry(tokenOf(alpha, executor))
	ids := []string{"good.x", "good.y", "old.x", "none.x", "theirs.x"}
	for range 2 {
		for _, agent := range []string{"", "bot"} {
			ask := func(c pb.Consistency) *pb.BatchResolveToolsResponse {
				r, err := client.BatchResolveTools(t.Context(), &pb.BatchResolveToolsRequest{ToolIds: ids, Agent: agent, Consistency: c})
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			now, known := ask(pb.Consistency_CONSISTENCY_FULLY_CONSISTENT), ask(pb.Consistency_CONSISTENCY_BOUNDED)
			if diff := cmp.Diff(now, known, protocmp.Transform()); diff != "" {
				t.Errorf("agent %q (database -, memory +): %s", agent, diff)
			}
			for _, id := range ids {
				one := &pb.ResolveToolRequest{ToolId: id, Agent: agent}
				is, err := client.ResolveTool(t.Context(), one)
				if err != nil {
					t.Fatal(err)
				}
				one.Consistency, one.MaxAge = pb.Consistency_CONSISTENCY_BOUNDED, durationpb.New(time.Minute)
				was, err := client.ResolveTool(t.Context(), one)
				if diff := cmp.Diff(is, was, protocmp.Transform()); err != nil || diff != "" {
					t.Errorf("%s for %q (database -, memory +): %v %s", id, agent, err, diff)
				}
				if !is.GetCallable() && is.GetNextStep() == "" {
					t.Errorf("%s is denied as %s without a next step", id, is.GetReason())
				}
			}
		}
		if o := ways["REST"](t, h, admin(alpha), doEnable, &pb.SetToolEnabledRequest{ToolId: "good.y"}, nil); o.answer == nil {
			t.Fatalf("%+v", o)
		}
		// The writer and the reader are one process: it is told at once, and waits for nothing here.
		if err := h.api.mirror.Poll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestConsistencyIsChecked(t *testing.T) {
	t.Parallel()
	h := open(t)
	client := h.registry(tokenOf(alpha, executor))
	for name, r := range map[string]*pb.ResolveToolRequest{
		"an unknown one":   {ToolId: "a.x", Consistency: 9},
		"age of nothing":   {ToolId: "a.x", MaxAge: durationpb.New(time.Second)},
		"too short an age": {ToolId: "a.x", Consistency: pb.Consistency_CONSISTENCY_BOUNDED, MaxAge: durationpb.New(time.Millisecond)},
	} {
		if _, err := client.ResolveTool(t.Context(), r); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A watcher is told all at first, then what changes; who comes back with a
// token is told what changed meanwhile and nothing else.
func TestWatchersAreToldWhatChanges(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]connect.ClientOption{"Connect": nil, "gRPC": {connect.WithGRPC()}, "gRPC-Web": {connect.WithGRPCWeb()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := open(t)
			h.active(t, alpha, "good", "x", "y")
			client := h.registry(tokenOf(alpha, executor), options...)
			request := &pb.WatchResolutionsRequest{ToolIds: []string{"good.x", "good.y", "none.x"}}
			enable := func(is bool) {
				t.Helper()
				if o := ways["REST"](t, h, admin(alpha), doEnable, &pb.SetToolEnabledRequest{ToolId: "good.y", Enabled: is}, nil); o.answer == nil {
					t.Fatalf("%+v", o)
				}
			}
			stream, err := client.WatchResolutions(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			// next gives the next message with news.
			next := func() (ids []string, last *pb.WatchResolutionsResponse) {
				t.Helper()
				for stream.Receive() {
					last = proto.CloneOf(stream.Msg())
					for _, r := range last.GetResolutions() {
						ids = append(ids, r.GetToolId())
					}
					if len(ids) > 0 {
						return ids, last
					}
				}
				t.Fatal(stream.Err())
				return nil, nil
			}
			if ids, _ := next(); !cmp.Equal(ids, request.GetToolIds()) {
				t.Errorf("at first %v is told", ids)
			}
			enable(false)
			ids, last := next()
			if !cmp.Equal(ids, []string{"good.y"}) || last.GetResolutions()[0].GetReason() != string(registry.ReasonToolDisabled) {
				t.Errorf("then %v", last)
			}
			if err := stream.Close(); err != nil {
				t.Log(err) // hanging up says that it was hung up
			}
			enable(true)
			request.ResumeToken = last.GetResumeToken()
			if stream, err = client.WatchResolutions(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			if ids, last := next(); !cmp.Equal(ids, []string{"good.y"}) || !last.GetResolutions()[0].GetCallable() {
				t.Errorf("after coming back %v", last)
			}
			_ = stream.Close()
		})
	}
}

func TestWatchingIsRefusedAsAllElse(t *testing.T) {
	t.Parallel()
	h := open(t)
	good := func() *pb.WatchResolutionsRequest { return &pb.WatchResolutionsRequest{ToolIds: []string{"good.x"}} }
	for name, c := range map[string]struct {
		token string
		with  func(*pb.WatchResolutionsRequest)
		want  connect.Code
	}{
		"nobody":           {"", nil, connect.CodeUnauthenticated},
		"an observer":      {tokenOf(alpha, registry.RoleObserver), nil, connect.CodePermissionDenied},
		"no tools":         {tokenOf(alpha, executor), func(r *pb.WatchResolutionsRequest) { r.ToolIds = nil }, connect.CodeInvalidArgument},
		"a tool twice":     {tokenOf(alpha, executor), func(r *pb.WatchResolutionsRequest) { r.ToolIds = []string{"a.x", "a.x"} }, connect.CodeInvalidArgument},
		"a token of other": {tokenOf(alpha, executor), func(r *pb.WatchResolutionsRequest) { r.ResumeToken = "AAAA" }, connect.CodeInvalidArgument},
		"a workspace only": {tokenOf(alpha, executor), func(r *pb.WatchResolutionsRequest) { r.Workspace = "blue" }, connect.CodeInvalidArgument},
	} {
		for face, options := range map[string][]connect.ClientOption{"Connect": nil, "gRPC": {connect.WithGRPC()}} {
			r := good()
			if c.with != nil {
				c.with(r)
			}
			stream, err := h.registry(c.token, options...).WatchResolutions(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if stream.Receive() || connect.CodeOf(stream.Err()) != c.want {
				t.Errorf("%s by %s: %v", name, face, stream.Err())
			}
			_ = stream.Close() // it is over
		}
	}
}

// Every condition is shown, with who can change it; the first that does not
// hold is the reason that resolve gives.
func TestAToolIsExplained(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.active(t, alpha, "good", "x")
	before := time.Now()
	if o := ways["REST"](t, h, admin(alpha), doEnable, &pb.SetToolEnabledRequest{ToolId: "good.x"}, nil); o.answer == nil {
		t.Fatalf("%+v", o)
	}
	for face, send := range ways {
		r := into(t, send(t, h, tokenOf(alpha, executor), doExplain, &pb.ExplainToolRequest{ToolId: "good.x"}, nil), &pb.ExplainToolResponse{})
		if r.GetCallable() || r.GetReason() != string(registry.ReasonToolDisabled) || r.GetNextStep() == "" || len(r.GetConditions()) != len(registry.DenialOrder()) {
			t.Errorf("%s: %v", face, r)
		}
		for _, c := range r.GetConditions() {
			wrong := c.GetReason() == string(registry.ReasonToolDisabled)
			if c.GetHolds() == wrong || wrong && (c.GetSinceTime().AsTime().Before(before) || len(c.GetRoles()) == 0) || c.GetValue() == "" {
				t.Errorf("%s: %v", face, c)
			}
		}
		o := send(t, h, tokenOf(alpha, executor), doExplain, &pb.ExplainToolRequest{ToolId: "none.x"}, nil)
		if r := into(t, o, &pb.ExplainToolResponse{}); r.GetReason() != string(registry.ReasonToolNotFound) || len(r.GetConditions()) != 1 {
			t.Errorf("%s: %v", face, r)
		}
	}
	status, _, body := h.call(t, http.MethodGet, "/factory/tools/good.x/explain?at=2999-01-01T00:00:00Z", tokenOf(alpha, executor), "", nil)
	if status != http.StatusBadRequest {
		t.Errorf("of the future: %d %s", status, body)
	}
}
