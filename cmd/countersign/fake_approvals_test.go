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
