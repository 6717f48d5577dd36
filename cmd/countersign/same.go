package main

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// anyone is who --same means when it names nobody.
const anyone = "*"

type vote = *registryv1.ReviewVote

// voteOf finds the approval that --same means among those of the review.
func (w *wish) voteOf(s server, votes []vote) (vote, error) {
	next := "countersign server describe " + s.GetName()
	if len(votes) == 0 {
		return nil, failf(registry.ReasonInvalidArgument, "nobody approved server %s yet", s.GetName()).
			withNext("countersign server approve %s --all --class CLASS", s.GetName())
	}
	if w.same != anyone {
		at := slices.IndexFunc(votes, func(v vote) bool { return v.GetSubject() == w.same })
		if at < 0 {
			return nil, failf(registry.ReasonInvalidArgument, "%s approved nothing in this review", w.same).withNext("%s", next)
		}
		return votes[at], nil
	}
	for _, v := range votes[1:] {
		if v.GetContentDigest() != votes[0].GetContentDigest() {
			return nil, failf(registry.ReasonInvalidArgument, "%s and %s approved different lines", votes[0].GetSubject(), v.GetSubject()).
				withNext("say whose: countersign server approve %s --same=%s", s.GetName(), votes[0].GetSubject())
		}
	}
	return votes[0], nil
}

// readApproval reads one approval with its lines. It is among the last
// decisions, which come first.
func (c *cli) readApproval(ctx context.Context, a *api, s server, id string) (*registryv1.Decision, error) {
	request := &registryv1.ListDecisionsRequest{ServerId: s.GetServerId(), ShowLines: true}
	for {
		r, err := a.servers.ListDecisions(ctx, request)
		if err != nil {
			return nil, err
		}
		for _, d := range r.GetDecisions() {
			if d.GetDecisionId() == id {
				return d, nil
			}
		}
		if request.PageToken = r.GetNextPageToken(); request.GetPageToken() == "" {
			return nil, failf(registry.ReasonInternal, "decision %s is not in the history of server %s", id, s.GetName())
		}
	}
}

// sameProposal makes an approval of the lines of another. The digest of the
// review is that of what is shown, so lines that it does not offer any more are
// refused.
func sameProposal(s server, review *registryv1.GetReviewResponse, before *registryv1.Decision, w *wish, now time.Time) (*proposal, error) {
	digest := w.digest
	if digest == "" {
		digest = review.GetReview().GetDigest()
	}
	p := &proposal{server: s, review: review, before: before, request: &registryv1.ActivateMcpServerRequest{
		ServerId: s.GetServerId(), Digest: digest, Empty: before.GetEmpty(), Comment: w.comment,
		Tools: before.GetToolLines(), Resources: before.GetResourceLines(), Prompts: before.GetPromptLines(),
	}}
	offered := p.offeredTools()
	for _, line := range p.request.GetTools() {
		at := slices.IndexFunc(offered, func(t reviewItem) bool { return t.GetDiff().GetName() == line.GetTool() })
		if at < 0 {
			return nil, p.notOffered(registry.ReasonUnknownTool, "tool", line.GetTool(), nil)
		}
		p.tools = append(p.tools, offered[at])
	}
	p.end(before.GetExceptionExpireTime(), now)
	return p, nil
}

// end says until when the server may be used without authentication, as another
// approval said; nil: it said nothing of it.
func (p *proposal) end(at *timestamppb.Timestamp, now time.Time) {
	if at != nil {
		p.request.ExceptionExpireTime, p.period = at, at.AsTime().Sub(now).Round(time.Second)
	}
}

// approvedBefore says whose approval is given again.
func approvedBefore(d *registryv1.Decision) string {
	return some(", ", d.GetDecidedBy(), when(d.GetDecideTime()), d.GetComment())
}

// otherLines names those whose approval is of other lines than the last one.
func otherLines(r *registryv1.Review) (out []string) {
	votes := r.GetVotes()
	for _, v := range votes {
		if v.GetContentDigest() != votes[len(votes)-1].GetContentDigest() {
			out = append(out, v.GetSubject())
		}
	}
	return out
}
