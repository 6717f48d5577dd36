package main

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "countersign/proto/countersign/registry/v1"
)

func TestWhoseApprovalSameMeans(t *testing.T) {
	t.Parallel()
	s := &registryv1.McpServer{Name: "demo"}
	ann, bob := &registryv1.ReviewVote{Subject: "ann", ContentDigest: "x"}, &registryv1.ReviewVote{Subject: "bob", ContentDigest: "y"}
	like := &registryv1.ReviewVote{Subject: "cleo", ContentDigest: "x"}
	for name, c := range map[string]struct {
		same  string
		votes []vote
		want  vote
		fault string
	}{
		"the only one":          {anyone, []vote{ann}, ann, ""},
		"two of the same lines": {anyone, []vote{ann, like}, ann, ""},
		"two of other lines":    {anyone, []vote{ann, bob}, nil, "ann and bob approved different lines"},
		"one of them":           {"bob", []vote{ann, bob}, bob, ""},
		"somebody else":         {"dan", []vote{ann, bob}, nil, "dan approved nothing"},
		"nobody":                {anyone, nil, nil, "nobody approved server demo yet"},
	} {
		w := wish{same: c.same}
		got, err := w.voteOf(s, c.votes)
		if got != c.want || (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for _, v := range [][]vote{{ann, like}, {ann, bob}} {
		if got := otherLines(&registryv1.Review{Votes: v}); (len(got) == 0) != (v[1] == like) {
			t.Errorf("other lines than the last: %v", got)
		}
	}
}

// Everything of the approval before is in the one that follows: the digest of
// their lines is the same.
func TestTheSameApprovalAgain(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	item := func(name string) reviewItem {
		return &registryv1.ReviewItem{Diff: &registryv1.ItemDiff{Name: name, Status: registryv1.DiffStatus_DIFF_STATUS_ADDED}}
	}
	review := &registryv1.GetReviewResponse{
		Review: &registryv1.Review{Digest: "sha256:r"}, Tools: []reviewItem{item("a"), item("b"), item("c")},
	}
	before := &registryv1.Decision{
		ToolLines: []*registryv1.ToolLine{
			{Tool: "c", Class: registryv1.SideEffectClass_SIDE_EFFECT_CLASS_READ, DescriptorId: "d", DescriptorVersion: 2},
			{Tool: "a", Class: registryv1.SideEffectClass_SIDE_EFFECT_CLASS_PUBLICATION, Enable: true},
		},
		ResourceLines: []*registryv1.ResourceLine{{Uri: "file:///x", Classification: "public", Scope: "w"}},
		PromptLines:   []*registryv1.PromptLine{{Prompt: "p", SkillId: "s"}}, ExceptionExpireTime: timestamppb.New(now.Add(time.Hour + 7)),
	}
	s := &registryv1.McpServer{Name: "demo", ServerId: "srv_demo"}
	p, err := sameProposal(s, review, before, &wish{same: anyone, comment: "me too"}, now)
	if err != nil {
		t.Fatal(err)
	}
	want := &registryv1.ActivateMcpServerRequest{
		ServerId: "srv_demo", Digest: "sha256:r", Comment: "me too", Tools: before.GetToolLines(), Resources: before.GetResourceLines(),
		Prompts: before.GetPromptLines(), ExceptionExpireTime: before.GetExceptionExpireTime(),
	}
	if !proto.Equal(p.request, want) || p.tools[0].GetDiff().GetName() != "c" || p.period != time.Hour {
		t.Errorf("%v for %s", p.request, p.period)
	}
	before.ToolLines[0].Tool = "gone"
	if _, err := sameProposal(s, review, before, &wish{same: anyone}, now); err == nil || !strings.Contains(err.Error(), `offers no tool "gone"`) {
		t.Errorf("of a tool that is gone: %v", err)
	}
}
