package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/proto/countersign/registry/v1/registryv1connect"
	"countersign/registry"
)

// The states, by shorter names.
const (
	registered = pb.McpServerState_MCP_SERVER_STATE_REGISTERED
	verified   = pb.McpServerState_MCP_SERVER_STATE_VERIFIED
	active     = pb.McpServerState_MCP_SERVER_STATE_ACTIVE
	degraded   = pb.McpServerState_MCP_SERVER_STATE_DEGRADED
	retired    = pb.McpServerState_MCP_SERVER_STATE_RETIRED
)

// caller is the API as one bearer of a token sees it.
type caller struct {
	servers  registryv1connect.McpServerServiceClient
	catalog  registryv1connect.ToolCatalogServiceClient
	registry registryv1connect.McpRegistryServiceClient
}

// call makes a caller with connections of its own.
func call(url, token string) caller {
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	client := &http.Client{Transport: transport, Timeout: patience}
	options := connect.WithInterceptors(connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			request.Header().Set("Authorization", "Bearer "+token)
			return next(ctx, request)
		}
	}))
	return caller{
		servers:  registryv1connect.NewMcpServerServiceClient(client, url, options),
		catalog:  registryv1connect.NewToolCatalogServiceClient(client, url, options),
		registry: registryv1connect.NewMcpRegistryServiceClient(client, url, options),
	}
}

// keyed gives the context of a call with an idempotency key, and afterwards
// says whether the answer was a replay.
func keyed(ctx context.Context, key string) (_ context.Context, replayed func() bool) {
	ctx, info := connect.NewClientContext(ctx)
	info.RequestHeader().Set("Idempotency-Key", key)
	return ctx, func() bool { return info.ResponseHeader().Get("Idempotent-Replayed") == "true" }
}

// registration asks for a server without authentication.
func registration(name, url string) *pb.RegisterMcpServerRequest {
	return &pb.RegisterMcpServerRequest{
		Name: name, EndpointUrl: url,
		Direction: pb.McpDirection_MCP_DIRECTION_CONSUMED, Transport: pb.McpTransport_MCP_TRANSPORT_STREAMABLE_HTTP,
		Authentication:  pb.McpAuthentication_MCP_AUTHENTICATION_NONE_EXCEPTION,
		ExceptionReason: "a test on loopback", GovernancePolicyRef: "default", ProtocolVersion: "2026-07-28",
	}
}

func mask(fields ...string) *fieldmaskpb.FieldMask { return &fieldmaskpb.FieldMask{Paths: fields} }

func patchURL(ref, url string) *pb.UpdateMcpServerRequest {
	return &pb.UpdateMcpServerRequest{ServerId: ref, Server: &pb.ServerPatch{EndpointUrl: url}, UpdateMask: mask("endpoint_url")}
}

func (c caller) register(ctx context.Context, key, name, url string) (*pb.McpServer, error) {
	ctx, _ = keyed(ctx, key)
	response, err := c.servers.RegisterMcpServer(ctx, registration(name, url))
	return response.GetServer(), err
}

func (c caller) get(ctx context.Context, ref string) (*pb.McpServer, error) {
	response, err := c.servers.GetMcpServer(ctx, &pb.GetMcpServerRequest{ServerId: ref})
	return response.GetServer(), err
}

// in wants a server to be in a state.
func (c caller) in(ctx context.Context, ref string, state pb.McpServerState) (*pb.McpServer, error) {
	s, err := c.get(ctx, ref)
	if err == nil && s.GetState() != state {
		err = fmt.Errorf("server %s is %s (%s), not %s", ref, s.GetState(), s.GetHealth().GetSummary(), state)
	}
	return s, err
}

// approval approves every tool of what is under review, as reading only.
func (c caller) approval(ctx context.Context, ref string) (*pb.ActivateMcpServerRequest, error) {
	offers, err := c.servers.GetMcpCapabilities(ctx, &pb.GetMcpCapabilitiesRequest{ServerId: ref})
	if err != nil {
		return nil, err
	}
	request := &pb.ActivateMcpServerRequest{
		ServerId: ref, Digest: offers.GetReview().GetDigest(), Etag: offers.GetEtag(),
		ExceptionExpireTime: timestamppb.New(time.Now().Add(24 * time.Hour)),
	}
	for _, tool := range offers.GetTools() {
		request.Tools = append(request.Tools, &pb.ToolLine{Tool: tool.GetName(), Class: pb.SideEffectClass_SIDE_EFFECT_CLASS_READ, Enable: true})
	}
	return request, nil
}

func (c caller) approve(ctx context.Context, ref string) (*pb.McpServer, error) {
	request, err := c.approval(ctx, ref)
	if err != nil {
		return nil, err
	}
	response, err := c.servers.ActivateMcpServer(ctx, request)
	return response.GetServer(), err
}

// callable wants a tool to be callable.
func (c caller) callable(ctx context.Context, tool string) error {
	return c.denied(ctx, tool, "")
}

// denied wants a tool to be denied for a reason; "" wants it callable.
func (c caller) denied(ctx context.Context, tool string, reason registry.Reason) error {
	answer, err := c.registry.ResolveTool(ctx, &pb.ResolveToolRequest{ToolId: tool})
	if err == nil && (answer.GetReason() != string(reason) || answer.GetCallable() != (reason == "")) {
		err = fmt.Errorf("tool %s is callable: %t, reason %q, not %q", tool, answer.GetCallable(), answer.GetReason(), reason)
	}
	return err
}

// infoOf gives what an error of the API says to programs, nil when it did not
// come from the API.
func infoOf(err error) *errdetails.ErrorInfo {
	e, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return nil
	}
	for _, detail := range e.Details() {
		value, err := detail.Value()
		if info, ok := value.(*errdetails.ErrorInfo); ok && err == nil {
			return info
		}
	}
	return nil
}

func reasonOf(err error) registry.Reason { return registry.Reason(infoOf(err).GetReason()) }

// passing says whether an error is one that callers repeat a call after: the
// process died meanwhile, or was too slow.
func passing(err error) bool {
	switch connect.CodeOf(err) { //nolint:exhaustive // the others are answers
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded:
		return true
	}
	return err != nil && infoOf(err) == nil
}

// bring brings a new server to a state by calls that are repeated as callers
// would, and gives it as it is then.
func bring(t testing.TB, c caller, name, url string, to pb.McpServerState) *pb.McpServer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longPatience)
	defer cancel()
	s, err := c.bring(ctx, name, url, to)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (c caller) bring(ctx context.Context, name, url string, to pb.McpServerState) (s *pb.McpServer, err error) {
	err = eventually(ctx, func() (err error) {
		s, err = c.register(ctx, "key of "+name, name, url)
		if err != nil && !passing(err) {
			return final{err}
		}
		return err
	})
	id := s.GetServerId()
	if err == nil && to != registered {
		err = eventually(ctx, func() error {
			_, err := c.in(ctx, id, verified)
			return err
		})
	}
	if err == nil && to != registered && to != verified {
		err = c.activate(ctx, id)
	}
	if err != nil {
		return s, err
	}
	return c.get(ctx, id)
}

// activate approves until the server is active, as somebody would who does not
// know what became of a call.
func (c caller) activate(ctx context.Context, ref string) error {
	return eventually(ctx, func() error {
		_, err := c.in(ctx, ref, active)
		if err == nil {
			return nil
		}
		if _, err := c.approve(ctx, ref); err != nil {
			return err
		}
		_, err = c.in(ctx, ref, active)
		return err
	})
}
