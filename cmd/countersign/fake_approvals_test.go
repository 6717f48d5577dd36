package main

import (
	"context"
	"slices"

	"connectrpc.com/connect"

	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// WithdrawApproval takes back what ada, who asks, approved.
func (f *fakeAPI) WithdrawApproval(_ context.Context, r *registryv1.WithdrawApprovalRequest) (*registryv1.WithdrawApprovalResponse, error) {
	s, err := f.find(r.GetServerId())
	if err != nil {
		return nil, err
	}
	review := s.GetReview()
	if r.GetDigest() != review.GetDigest() {
		return nil, refusal(connect.CodeAborted, registry.ReasonSuperseded, "", nil, "the server is now at %s", review.GetDigest())
	}
	if review.GetStatus() != reviewPending {
		return nil, refusal(connect.CodeAborted, registry.ReasonAlreadyDecided, "what was approved is in force: quarantine server "+s.GetName(), nil, "this digest was approved")
	}
	if !slices.Contains(review.GetWithdrawnBy(), "ada") {
		review.WithdrawnBy = append(review.GetWithdrawnBy(), "ada")
	}
	review.Votes = slices.DeleteFunc(review.GetVotes(), func(v *registryv1.ReviewVote) bool { return v.GetSubject() == "ada" })
	return &registryv1.WithdrawApprovalResponse{Server: s}, nil
}

// waiting are what search and demo wait for.
func (f *fakeAPI) waiting() []*registryv1.Approval {
	search := &registryv1.Approval{
		ServerId: "srv_search", ServerName: "search", Owner: "team-search", Labels: map[string]string{"environment": "prod"}, State: stateActive,
		GovernancePolicyRef: "payments", Kind: registryv1.ReviewKind_REVIEW_KIND_DRIFT, ApprovedSnapshotDigest: digestOf("a"), Etag: `"3"`,
		Review: &registryv1.Review{
			Status: reviewPending, Digest: digestOf("r"), SnapshotDigest: digestOf("b"), TargetDigest: digestOf("t"), RequestedBy: "bob",
			OpenTime: day(3), ExpireTime: day(10), WithdrawnBy: []string{"eve\x1b[2J"},
			Votes: []*registryv1.ReviewVote{{Subject: "ada", Time: day(4), Comment: "fine", DecisionId: "dec_2"}},
		},
		Counts: &registryv1.ApprovalCounts{
			Severity: registryv1.DriftSeverity_DRIFT_SEVERITY_ESCALATING, Escalating: 1, Breaking: 2, Removed: 1, Added: 3, Unbound: 1, InstructionsChanged: true,
		},
		Demand: &registryv1.ApprovalDemand{
			Basis: registryv1.DemandBasis_DEMAND_BASIS_APPROVAL, Policy: "payments@2", People: 2, Roles: map[string]int32{"PlatformAdmin": 1}, NotBy: "bob",
			CommentRequired: true, DecidedBy: []string{"ada"}, PeopleMissing: 1, RolesMissing: map[string]int32{"PlatformAdmin": 1},
			Ignored: []*registryv1.IgnoredApproval{{Subject: "carl", Reason: "superseded"}}, Standing: "1 more approval is needed, 1 by a PlatformAdmin, not by bob",
		},
		Decided: true,
	}
	demo := &registryv1.Approval{
		ServerId: "srv_demo", ServerName: "demo", State: stateVerified, GovernancePolicyRef: "default", Kind: registryv1.ReviewKind_REVIEW_KIND_FIRST, Etag: `"3"`,
		Review: &registryv1.Review{Status: reviewPending, Digest: "sha256:under-review", RequestedBy: "ada", OpenTime: day(4), ExpireTime: day(11)},
		Counts: &registryv1.ApprovalCounts{Severity: registryv1.DriftSeverity_DRIFT_SEVERITY_WIDENING, Added: 4, Quarantined: 1, Hinted: 1},
		Demand: &registryv1.ApprovalDemand{
			Basis: registryv1.DemandBasis_DEMAND_BASIS_FORECAST, Policy: "default@1", People: 1, PeopleMissing: 1, Standing: "1 more approval is needed",
		},
		CanDecide: true,
	}
	return []*registryv1.Approval{search, demo}
}

func (f *fakeAPI) ListApprovals(_ context.Context, r *registryv1.ListApprovalsRequest) (*registryv1.ListApprovalsResponse, error) {
	all := f.waiting()
	total := int32(len(all))
	if r.GetDecidable() {
		all, total = all[1:], 0
	}
	items, next := cutPage(all, 1, r.GetPageToken())
	return &registryv1.ListApprovalsResponse{Approvals: items, NextPageToken: next, TotalSize: total}, nil
}

func (f *fakeAPI) GetApproval(_ context.Context, r *registryv1.GetApprovalRequest) (*registryv1.GetApprovalResponse, error) {
	for _, a := range f.waiting() {
		if r.GetServerId() != a.GetServerName() {
			continue
		}
		if r.GetDigest() != "" && r.GetDigest() != a.GetReview().GetDigest() {
			return nil, refusal(connect.CodeNotFound, registry.ReasonApprovalNotFound, "", nil, "server %s was never up for this approval", a.GetServerName())
		}
		out := &registryv1.GetApprovalResponse{Approval: a}
		if a.GetDecided() {
			out.Decisions = []*registryv1.Decision{
				{DecisionId: "dec_3", Verb: "withdraw_approval", DecidedBy: "eve", Applied: true, Comment: "seen too late", DecideTime: day(5), Digest: a.GetReview().GetDigest()},
				{DecisionId: "dec_2", Verb: "approve", DecidedBy: "ada", Applied: true, Tools: 3, Comment: "fine", DecideTime: day(4), Standing: "1 more approval is needed"},
			}
		}
		return out, nil
	}
	return nil, refusal(connect.CodeNotFound, registry.ReasonServerNotFound, "", nil, "there is no server %q", r.GetServerId())
}
