package api

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"time"

	"github.com/google/uuid"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/proto/countersign/registry/v1/registryv1connect"
	"countersign/registry"
)

// approvals implements ApprovalService.
type approvals struct{ *Handler }

// tokenPrefix begins every decision token, so that one is known where it was
// left lying about.
const tokenPrefix = "cdt_"

// takes says by which RPC each decision comes that a token can be for: who may
// call that may have the token.
var takes = map[registry.Verb]string{
	registry.VerbApprove:       registryv1connect.McpServerServiceActivateMcpServerProcedure,
	registry.VerbReject:        registryv1connect.McpServerServiceRejectMcpServerProcedure,
	registry.VerbApproveLaunch: registryv1connect.McpServerServiceApproveLaunchProcedure,
}

// MintDecisionToken implements ApprovalService (R186).
func (a approvals) MintDecisionToken(ctx context.Context, req *pb.MintDecisionTokenRequest) (*pb.MintDecisionTokenResponse, error) {
	d, err := a.desk(ctx)
	if err != nil {
		return nil, err
	}
	verb := word(tokenDecisions, req.GetDecision())
	if err := permit(d.principal, takes[verb]); err != nil {
		return nil, err
	}
	v, err := d.server(ctx, req.GetServerId())
	if err != nil {
		return nil, err
	}
	if !v.Open() {
		return nil, retired(&v.Server)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return nil, err
	}
	token := tokenPrefix + base64.RawURLEncoding.EncodeToString(secret)
	ttl := registry.TokenTTL
	if req.GetTtl() != nil {
		ttl = min(req.GetTtl().AsDuration(), registry.MaxTokenTTL)
	}
	kept, err := d.store.MintToken(ctx, registry.DecisionToken{
		TokenID: "dtk_" + id.String(), ServerID: v.ServerID, Verb: verb, Digest: req.GetDigest(), Subject: d.principal.Subject, Roles: d.principal.Roles,
	}, token, ttl, d.operation("mint_decision_token", "", ""))
	if err != nil {
		return nil, err
	}
	setHeader(ctx, "Cache-Control", "no-store")
	return &pb.MintDecisionTokenResponse{Token: token, TokenId: kept.TokenID, ExpireTime: moment(kept.ExpiresAt)}, nil
}

// WithdrawApproval implements ApprovalService.
func (a approvals) WithdrawApproval(ctx context.Context, req *pb.WithdrawApprovalRequest) (*pb.WithdrawApprovalResponse, error) {
	server, err := servers(a).decide(ctx, req.GetServerId(), rulingIn(registry.VerbWithdrawApproval, req))
	return &pb.WithdrawApprovalResponse{Server: server}, err
}

// RenewException implements ApprovalService.
func (a approvals) RenewException(ctx context.Context, req *pb.RenewExceptionRequest) (*pb.RenewExceptionResponse, error) {
	if !a.opts.Installation.AllowNoneExceptions {
		return nil, registry.Errorf(registry.ReasonNoneExceptionForbidden, "this installation does not accept servers without authentication").
			WithNext("protect the server, or ask the operator to set allow_none_authentication_exceptions")
	}
	server, err := servers(a).decide(ctx, req.GetServerId(), rulingIn(registry.VerbRenew, req))
	return &pb.RenewExceptionResponse{Server: server}, err
}

// ListExpiring implements ApprovalService.
func (a approvals) ListExpiring(ctx context.Context, req *pb.ListExpiringRequest) (*pb.ListExpiringResponse, error) {
	d, err := a.desk(ctx)
	if err != nil {
		return nil, err
	}
	l := list{tenant: d.principal.Tenant, method: "expiring", filter: req.GetWithin().String()}
	page, err := l.page(req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	var before time.Time
	if req.GetWithin() != nil {
		before = time.Now().Add(req.GetWithin().AsDuration())
	}
	found, next, total, err := d.store.Expiring(ctx, before, page)
	if err != nil {
		return nil, err
	}
	out := &pb.ListExpiringResponse{NextPageToken: l.token(next), TotalSize: count(total)}
	for i := range found {
		out.Expiring = append(out.Expiring, expiringOut(&found[i]))
	}
	return out, nil
}
