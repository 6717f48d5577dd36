package api

import (
	"context"

	"countersign/db"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
	"countersign/workflows"
)

// ActivateMcpServer implements McpServerService.
func (s servers) ActivateMcpServer(ctx context.Context, req *pb.ActivateMcpServerRequest) (*pb.ActivateMcpServerResponse, error) {
	if err := onceEach(req); err != nil {
		return nil, err
	}
	server, err := s.decide(ctx, req.GetServerId(), rulingIn(registry.VerbApprove, req))
	return &pb.ActivateMcpServerResponse{Server: server}, err
}

// RejectMcpServer implements McpServerService.
func (s servers) RejectMcpServer(ctx context.Context, req *pb.RejectMcpServerRequest) (*pb.RejectMcpServerResponse, error) {
	server, err := s.decide(ctx, req.GetServerId(), rulingIn(registry.VerbReject, req))
	return &pb.RejectMcpServerResponse{Server: server}, err
}

// ApproveLaunch implements McpServerService.
func (s servers) ApproveLaunch(ctx context.Context, req *pb.ApproveLaunchRequest) (*pb.ApproveLaunchResponse, error) {
	server, err := s.decide(ctx, req.GetServerId(), rulingIn(registry.VerbApproveLaunch, req))
	return &pb.ApproveLaunchResponse{Server: server}, err
}

// QuarantineMcpServer implements McpServerService.
func (s servers) QuarantineMcpServer(ctx context.Context, req *pb.QuarantineMcpServerRequest) (*pb.QuarantineMcpServerResponse, error) {
	server, err := s.decide(ctx, req.GetServerId(), rulingIn(registry.VerbQuarantine, req))
	return &pb.QuarantineMcpServerResponse{Server: server}, err
}

// RequestReview implements McpServerService.
func (s servers) RequestReview(ctx context.Context, req *pb.RequestReviewRequest) (*pb.RequestReviewResponse, error) {
	server, err := s.decide(ctx, req.GetServerId(), rulingIn(registry.VerbRequestReview, req))
	return &pb.RequestReviewResponse{Server: server}, err
}

// RetireMcpServer implements McpServerService. To retire what is retired is no
// fault and changes nothing (R171).
func (s servers) RetireMcpServer(ctx context.Context, req *pb.RetireMcpServerRequest) (*pb.RetireMcpServerResponse, error) {
	d, err := s.desk(ctx)
	if err != nil {
		return nil, err
	}
	v, err := d.server(ctx, req.GetServerId())
	if err != nil {
		return nil, err
	}
	if !v.Open() {
		return &pb.RetireMcpServerResponse{Server: serverOut(&v)}, nil
	}
	server, err := s.change(ctx, v.ServerID, "retire", func(ctx context.Context, v *db.ServerView, op registry.Operation) (registry.Server, error) {
		return s.opts.Workflows.Retire(ctx, v.Name, workflows.RetireInput{
			Tenant: v.TenantID, ServerID: v.ServerID, Operation: op, Etag: req.GetEtag(), Comment: req.GetComment(),
		})
	})
	return &pb.RetireMcpServerResponse{Server: server}, err
}

func (s servers) decide(ctx context.Context, ref string, ruling registry.Ruling) (*pb.McpServer, error) {
	return s.change(ctx, ref, string(ruling.Verb), func(ctx context.Context, v *db.ServerView, op registry.Operation) (registry.Server, error) {
		return s.opts.Workflows.Decide(ctx, v.Name, workflows.DecideInput{
			Tenant: v.TenantID, ServerID: v.ServerID, Operation: op, Ruling: ruling,
		})
	})
}

// decision is what the requests of all decisions have.
type decision interface {
	GetServerId() string
	GetEtag() string
	GetComment() string
}

// rulingIn is the decision in a request.
func rulingIn(verb registry.Verb, req decision) registry.Ruling {
	g := registry.Ruling{Verb: verb, Etag: req.GetEtag(), Comment: req.GetComment()}
	switch req := req.(type) {
	case *pb.ActivateMcpServerRequest:
		g.Digest, g.Approval = req.GetDigest(), approvalIn(req)
	case *pb.RejectMcpServerRequest:
		g.Digest = req.GetDigest()
	case *pb.WithdrawApprovalRequest:
		g.Digest = req.GetDigest()
	case *pb.RenewExceptionRequest:
		g.ExceptionExpiresAt = req.GetExpireTime().AsTime()
	case *pb.ApproveLaunchRequest:
		g.Digest = req.GetDigest()
	}
	return g
}
