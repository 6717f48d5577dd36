package api

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"countersign/db"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/proto/countersign/registry/v1/registryv1connect"
	"countersign/registry"
)

// What one page of the inbox costs at most, in items of servers that are read and
// weighed, and in servers that are looked at for one that the caller can decide.
const (
	inboxItems   = 10_000
	inboxServers = 200
)

var inboxFilter = map[string]field{
	"server": {kind: textField}, "owner": {kind: textField}, "requested_by": {kind: textField}, "policy": {kind: textField},
	"kind": wordsOf(reviewKinds), "labels": {kind: mapField},
}

// ListApprovals implements ApprovalService.
func (a approvals) ListApprovals(ctx context.Context, req *pb.ListApprovalsRequest) (*pb.ListApprovalsResponse, error) {
	d, err := a.desk(ctx)
	if err != nil {
		return nil, err
	}
	mine := req.GetDecidable()
	l := list{
		tenant: d.principal.Tenant, method: "approvals within " + req.GetWithin().String() + strconv.FormatBool(mine), filter: req.GetFilter(), order: req.GetOrderBy(),
	}
	var query db.InboxQuery
	if query.Page, err = l.page(req.GetPageSize(), req.GetPageToken()); err != nil {
		return nil, err
	}
	if query.Conditions, err = parseFilter(req.GetFilter(), inboxFilter); err != nil {
		return nil, err
	}
	if query.Order, err = parseOrder(req.GetOrderBy(), "expire_time", "open_time", "server"); err != nil {
		return nil, err
	}
	if req.GetWithin() != nil {
		query.Before = time.Now().Add(req.GetWithin().AsDuration())
	}
	size := query.Size
	if mine {
		query.Size = inboxServers
	}
	waiting, next, total, err := d.store.Inbox(ctx, query)
	if err != nil {
		return nil, err
	}
	out := &pb.ListApprovalsResponse{NextPageToken: l.token(next)}
	if !mine {
		out.TotalSize = count(total)
	}
	items := 0
	for i := range waiting {
		if items >= inboxItems || len(out.GetApprovals()) >= size {
			out.NextPageToken = l.token(waiting[i-1].Key)
			break
		}
		request, err := d.store.Request(ctx, waiting[i].Server.ServerID)
		if reason := registry.ReasonOf(err); err != nil && (reason == registry.ReasonServerNotFound || reason == registry.ReasonNothingDiscovered) {
			continue // it changed since the list was read
		}
		if err != nil {
			return nil, err
		}
		items += request.Items()
		if request.Record.Server.Review.Status != registry.ReviewPending {
			continue // somebody was faster
		}
		if one := a.weighed(ctx, d, request); one.GetCanDecide() || !mine {
			out.Approvals = append(out.Approvals, one)
		}
	}
	return out, nil
}

// GetApproval implements ApprovalService.
func (a approvals) GetApproval(ctx context.Context, req *pb.GetApprovalRequest) (*pb.GetApprovalResponse, error) {
	d, err := a.desk(ctx)
	if err != nil {
		return nil, err
	}
	asked, err := d.store.Asked(ctx, req.GetServerId(), req.GetDigest())
	if registry.ReasonOf(err) == registry.ReasonApprovalNotFound {
		return nil, err
	}
	if err != nil {
		return nil, notFound(err, "server", req.GetServerId())
	}
	out := &pb.GetApprovalResponse{}
	s := &asked.Server.Server
	if s.Review.Status == registry.ReviewPending && s.Review.Digest == asked.Version.Pair {
		request, err := d.store.Request(ctx, s.ServerID)
		if err != nil {
			return nil, err
		}
		if request.Record.Server.Review.Digest == asked.Version.Pair {
			out.Approval = a.weighed(ctx, d, request)
		}
	}
	if out.GetApproval() == nil {
		out.Approval = approvalOf(s)
		out.Approval.Review = askedOut(&asked)
		if now := registry.ReviewDigest(s.SnapshotDigest, s.TargetDigest); s.SnapshotDigest != "" && now != asked.Version.Pair {
			out.Approval.Kind, out.Approval.SupersededBy = 0, now
		}
	}
	for i := range asked.Decisions {
		out.Decisions = append(out.Decisions, decisionOut(&asked.Decisions[i]))
	}
	return out, nil
}

// weighed is an open request as the caller sees it, with what the policy that is
// in force now wants of it.
func (a approvals) weighed(ctx context.Context, d desk, request *db.Request) *pb.Approval {
	r := &request.Record
	p, err := a.policies.Of(r)
	if err != nil {
		a.log.LogAttrs(ctx, slog.LevelWarn, "the policy cannot be used", slog.String("tenant", d.principal.Tenant),
			slog.String("policy", r.Server.GovernancePolicyRef), slog.Any("error", err))
	}
	r.Governance = p.Governance() // of none: everything is refused
	outlook := r.Outlook(d.principal.Actor(), request.Now)
	out := approvalOf(&r.Server)
	counts := r.ReviewCounts(request.Was)
	out.Counts, out.Demand = reviewCountsOut(&counts), demandOut(&outlook)
	out.Decided = outlook.Given
	blocked := outlook.Blocked
	if e, refused := registry.AsError(permit(d.principal, registryv1connect.McpServerServiceActivateMcpServerProcedure)); refused && !outlook.Given {
		blocked = e
	}
	if blocked != nil {
		out.BlockedReason, out.BlockedDetail = string(blocked.Reason), text(blocked.Message)
	}
	out.CanDecide = blocked == nil && !outlook.Given
	return out
}

// approvalOf is the last request of a server, without what only an open one has.
func approvalOf(s *registry.Server) *pb.Approval {
	return &pb.Approval{
		ServerId: s.ServerID, ServerName: s.Name, Owner: s.Owner, Labels: s.Labels, State: states[s.State], GovernancePolicyRef: s.GovernancePolicyRef,
		Kind: reviewKinds[s.ReviewKind()], Review: reviewOut(&s.Review), ApprovedSnapshotDigest: s.ApprovedSnapshot, Etag: s.Etag(),
	}
}

// askedOut is where a request stands: as the server says it of its last one, and
// by the decisions of one before.
func askedOut(asked *db.Asked) *pb.Review {
	s, v := &asked.Server.Server, &asked.Version
	if s.Review.Digest == v.Pair {
		return reviewOut(&s.Review)
	}
	out := &pb.Review{
		Status: pb.ReviewStatus_REVIEW_STATUS_NONE, Digest: v.Pair, SnapshotDigest: v.Snapshot, TargetDigest: v.Target, OpenTime: moment(v.FirstSeen),
	}
	for i := range asked.Decisions { // the newest first
		x := &asked.Decisions[i]
		switch {
		case !x.Applied:
			continue
		case x.Verb == registry.VerbReject:
			out.Status = pb.ReviewStatus_REVIEW_STATUS_REJECTED
		case x.Verb == registry.VerbApprove && (x.Evidence == nil || x.Evidence.Tally.Status == registry.TallyApproved):
			out.Status = pb.ReviewStatus_REVIEW_STATUS_APPROVED
		default:
			continue
		}
		out.DecidedBy, out.DecideTime, out.DecisionId = x.Subject, moment(x.DecidedAt), x.DecisionID
		break
	}
	return out
}

func reviewCountsOut(c *registry.ReviewCounts) *pb.ApprovalCounts {
	by := func(s registry.Severity) int32 { return count(c.By[s]) }
	return &pb.ApprovalCounts{
		Severity: severities[c.Worst], Escalating: by(registry.SeverityEscalating), Breaking: by(registry.SeverityBreaking),
		Narrowing: by(registry.SeverityNarrowing), Widening: by(registry.SeverityWidening), Text: by(registry.SeverityText),
		Cosmetic: by(registry.SeverityCosmetic), Added: count(c.Added), Removed: count(c.Removed), Quarantined: count(c.Quarantined),
		Hinted: count(c.Hinted), Unbound: count(c.Unbound), InstructionsChanged: c.Text, TargetChanged: c.Target,
	}
}

func demandOut(o *registry.Outlook) *pb.ApprovalDemand {
	v, t := &o.Verdict, &o.Tally
	out := &pb.ApprovalDemand{
		Basis: pb.DemandBasis_DEMAND_BASIS_APPROVAL, Policy: v.Policy, BundleDigest: v.Bundle, People: count(v.Needed), Roles: rolesOut(v.Roles),
		CommentRequired: len(v.CommentDemandedBy) > 0, DecidedBy: t.Counted, PeopleMissing: count(t.People), RolesMissing: rolesOut(t.Roles),
		Standing: text(t.String()),
	}
	if o.Forecast {
		out.Basis = pb.DemandBasis_DEMAND_BASIS_FORECAST
	}
	if v.DistinctFromRequester {
		out.NotBy = v.Requester
	}
	if t.Refusal != nil {
		out.RefusedReason = string(t.Refusal.Reason)
	}
	for _, x := range t.Ignored {
		out.Ignored = append(out.Ignored, &pb.IgnoredApproval{Subject: x.Subject, Reason: string(x.Reason)})
	}
	return out
}

func rolesOut(roles map[registry.Role]int) map[string]int32 {
	if len(roles) == 0 {
		return nil
	}
	out := make(map[string]int32, len(roles))
	for role, n := range roles {
		out[string(role)] = count(n)
	}
	return out
}
