package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// before are the definitions that were approved, of tools that are others now.
var before = map[string]string{
	"search/reindex": `{"name":"reindex","description":"Builds the index anew","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"destructiveHint":false}}`,
	"search/forget":  `{"name":"forget","description":"Takes a page out","inputSchema":{"type":"object"}}`,
}

// reviewed is the review of a server, made of what the fake offers.
func (f *fakeAPI) reviewed(s *registryv1.McpServer) *registryv1.GetReviewResponse {
	offers := f.offers[s.GetServerId()]
	r := &registryv1.GetReviewResponse{
		ServerId: s.GetServerId(), ServerName: s.GetName(), Etag: s.GetEtag(), Review: s.GetReview(), Kind: registryv1.ReviewKind_REVIEW_KIND_FIRST,
		Diff:         &registryv1.SnapshotDiff{ToDigest: digestOf("b"), Tools: &registryv1.DiffCounts{}, Resources: &registryv1.DiffCounts{}},
		Target:       &registryv1.Target{Transport: s.GetTransport(), Url: s.GetEndpointUrl(), DialAddress: s.GetDialAddress()},
		Instructions: offers.GetInstructions(), Reported: s.GetReported(), ProtocolVersion: s.GetProtocolVersion(), Capabilities: offers.GetCapabilities(),
	}
	for _, h := range registry.TextHints("instructions", r.GetInstructions()) {
		r.InstructionHints = append(r.InstructionHints, &registryv1.Hint{Code: string(h.Code), Path: h.Path, Detail: h.Detail})
	}
	counts := r.GetDiff().GetTools()
	for _, t := range offers.GetTools() {
		if !t.GetAvailable() && t.GetQuarantineReason() == "" {
			continue
		}
		item := fakeItem(s, t)
		switch item.GetDiff().GetStatus() {
		case itemAdded:
			counts.Added++
		case itemChanged:
			counts.Changed++
		default:
			counts.Unchanged++
		}
		if t.GetQuarantineReason() != "" {
			r.QuarantinedItems++
		}
		if terms := item.GetTerms(); terms != nil && !terms.GetBound() {
			r.UnboundItems++
		}
		r.Tools = append(r.Tools, item)
	}
	for _, x := range offers.GetResources() {
		item := &registryv1.ReviewItem{NeedsLook: true, Title: x.GetTitle(), Diff: &registryv1.ItemDiff{Name: x.GetUri(), Status: itemAdded}}
		r.Diff.Resources.Added++
		if x.GetTemplate() {
			r.Templates = append(r.Templates, item)
		} else {
			r.Resources = append(r.Resources, item)
		}
	}
	for _, x := range offers.GetPrompts() {
		r.Prompts = append(r.Prompts, &registryv1.ReviewItem{NeedsLook: true, Diff: &registryv1.ItemDiff{Name: x.GetName(), Status: itemAdded}})
	}
	if s.GetName() == "search" {
		f.drift(r)
	}
	if s.GetName() == "demo" {
		r.Gaps = []*registryv1.Gap{{Code: string(registry.GapToolBehaviour), Detail: registry.GapToolBehaviour.Means()}}
	}
	return r
}

// drift makes the review one of drift: of the server search.
func (f *fakeAPI) drift(r *registryv1.GetReviewResponse) {
	r.Kind = registryv1.ReviewKind_REVIEW_KIND_DRIFT
	r.LastApproval = &registryv1.PastApproval{DecisionId: "dec_1", ApprovedBy: "ada", ApproveTime: day(1), SnapshotDigest: digestOf("a")}
	r.Diff.FromDigest, r.Diff.Severity = digestOf("a"), registryv1.DriftSeverity_DRIFT_SEVERITY_ESCALATING
	r.Diff.ServerChanges = []*registryv1.Change{{
		Path: "/serverInfo/version", Kind: "server_version_changed", Severity: registryv1.DriftSeverity_DRIFT_SEVERITY_COSMETIC, BeforeJson: `"4.1"`, AfterJson: `"4.2"`,
	}}
	r.ApprovedTarget = &registryv1.Target{Transport: r.GetTarget().GetTransport(), Url: "https://old.example.com/mcp"}
	r.ChangedTargetFields = []string{"url"}
	r.Tools = append(r.Tools, &registryv1.ReviewItem{
		NeedsLook: true, ApprovedDefinitionJson: before["search/forget"], ToolId: "search.forget",
		Diff: &registryv1.ItemDiff{
			Kind: registryv1.ItemKind_ITEM_KIND_TOOL, Name: "forget", Status: itemRemoved, Severity: registryv1.DriftSeverity_DRIFT_SEVERITY_BREAKING,
			RenamedTo: "query", Likeness: 0.81,
		},
		Terms: &registryv1.ApprovedTerms{DeclaredClass: registryv1.SideEffectClass_SIDE_EFFECT_CLASS_SHARED_WRITE, ApprovedBy: "ada", ApproveTime: day(1)},
	})
	r.Diff.Tools.Removed, r.Diff.Tools.Renamed = 1, 1
}

func digestOf(letter string) string { return "sha256:" + strings.Repeat(letter, 64) }

// fakeItem judges a tool as the API does.
func fakeItem(s *registryv1.McpServer, t *registryv1.Tool) *registryv1.ReviewItem {
	item := registry.NewItem(registry.KindTool, t.GetName(), []byte(t.GetDefinitionJson()), registry.DefaultLimits())
	out := &registryv1.ReviewItem{
		NeedsLook: true, ToolId: t.GetToolId(), Title: t.GetTitle(), Description: t.GetDescription(), Enabled: t.GetEnabled(), Digests: t.GetDigests(),
		QuarantineReason: t.GetQuarantineReason(), QuarantineDetail: t.GetQuarantineDetail(), DefinitionJson: t.GetDefinitionJson(),
		Diff: &registryv1.ItemDiff{Kind: registryv1.ItemKind_ITEM_KIND_TOOL, Name: t.GetName(), Status: itemAdded},
	}
	for _, h := range registry.Hints(item) {
		out.Hints = append(out.Hints, &registryv1.Hint{Code: string(h.Code), Path: h.Path, Detail: h.Detail})
	}
	if class, why := registry.SuggestClass(item); t.GetQuarantineReason() == "" {
		value, _ := parseWord[registryv1.SideEffectClass]("", string(class))
		out.Suggestion = &registryv1.ClassSuggestion{Class: value, Reason: why}
	}
	if t.GetApprovedDigests() == nil {
		return out
	}
	same := t.GetApprovedDigests().GetContract() == t.GetDigests().GetContract()
	out.Terms = &registryv1.ApprovedTerms{
		DeclaredClass: t.GetDeclaredClass(), DescriptorId: t.GetToolId(), DescriptorVersion: "1", ApprovedBy: "ada", ApproveTime: day(1),
		DecisionId: "dec_1", Bound: same, Same: same,
	}
	out.Diff.Status, out.NeedsLook = itemUnchanged, !same
	if !same {
		out.Terms.UnboundReason = "schema_changed"
		fakeChanges(s.GetName()+"/"+t.GetName(), t.GetDefinitionJson(), out.GetDiff())
	}
	return out
}

// fakeChanges compares a tool with what was approved of it.
func fakeChanges(key, now string, out *registryv1.ItemDiff) {
	d, err := registry.CompareTools([][]byte{[]byte(before[key])}, [][]byte{[]byte(now)}, registry.DefaultLimits())
	if err != nil || len(d.Tools.Items) != 1 {
		panic("the fixture " + key + " cannot be compared")
	}
	item := d.Tools.Items[0]
	severity := func(s registry.Severity) registryv1.DriftSeverity {
		value, _ := parseWord[registryv1.DriftSeverity]("", string(s))
		return value
	}
	out.Status, out.Severity = itemChanged, severity(item.Severity)
	out.Contract, out.Text, out.Behaviour = item.Contract, item.Text, item.Behaviour
	for _, c := range item.Changes {
		out.Changes = append(out.Changes, &registryv1.Change{
			Path: c.Path, Kind: string(c.Kind), Severity: severity(c.Severity), BeforeJson: string(c.Before), AfterJson: string(c.After),
		})
	}
}

func (f *fakeAPI) GetReview(_ context.Context, r *registryv1.GetReviewRequest) (*registryv1.GetReviewResponse, error) {
	s, err := f.find(r.GetServerId())
	if err != nil {
		return nil, err
	}
	if s.GetState() == stateRegistered {
		return nil, refusal(connect.CodeFailedPrecondition, registry.ReasonNothingDiscovered, "start a discovery and look at what it finds", nil, "nothing is known yet of what server %s offers there", s.GetName())
	}
	out := f.reviewed(s)
	if !r.GetShowUnchanged() {
		out.Tools = slices.DeleteFunc(out.GetTools(), func(i *registryv1.ReviewItem) bool { return !i.GetNeedsLook() })
	}
	out.TotalSize = int32(len(out.GetTools()) + len(out.GetResources()) + len(out.GetTemplates()) + len(out.GetPrompts()))
	// Two pages, whatever the size: all tools but one, and the rest.
	if n := len(out.GetTools()); n > 1 {
		if r.GetPageToken() == "" {
			out.Tools, out.Resources, out.Templates, out.Prompts, out.NextPageToken = out.GetTools()[:n-1], nil, nil, nil, "rest"
		} else {
			out.Tools = out.GetTools()[n-1:]
		}
	}
	return out, nil
}

func (f *fakeAPI) GetDiff(_ context.Context, r *registryv1.GetDiffRequest) (*registryv1.GetDiffResponse, error) {
	s, err := f.find(r.GetServerId())
	if err != nil {
		return nil, err
	}
	if s.GetName() != "search" {
		return nil, refusal(connect.CodeFailedPrecondition, registry.ReasonNothingApproved, "name from_digest, or read the review, which has all of it", nil, "nothing of server %s was approved yet", s.GetName())
	}
	all := f.reviewed(s)
	out := &registryv1.GetDiffResponse{Diff: all.GetDiff()}
	if r.GetFromDigest() == digestOf("b") && r.GetToDigest() == digestOf("b") {
		out.Diff = &registryv1.SnapshotDiff{FromDigest: digestOf("b"), ToDigest: digestOf("b")}
		return out, nil
	}
	var items []*registryv1.ItemDiff
	for _, item := range all.GetTools() {
		if item.GetDiff().GetStatus() != itemUnchanged {
			items = append(items, item.GetDiff())
		}
	}
	out.Items, out.NextPageToken = cutPage(items, 1, r.GetPageToken())
	return out, nil
}

func (f *fakeAPI) GetMcpServerHealth(_ context.Context, r *registryv1.GetMcpServerHealthRequest) (*registryv1.GetMcpServerHealthResponse, error) {
	s, err := f.find(r.GetServerId())
	if err != nil {
		return nil, err
	}
	out := &registryv1.GetMcpServerHealthResponse{Health: s.GetHealth(), Uptime: &registryv1.Uptime{StartTime: day(1)}}
	if all := pastProbes(r.GetServerId()); len(all) > 0 {
		share := 2. / 3
		out.LastProbe = all[0]
		out.Uptime = &registryv1.Uptime{
			StartTime: day(1), Probes: 4, Good: 2, Failed: 1, Withheld: 1, Share: &share, Changes: 4, Flapping: true,
			LatencyP50: durationpb.New(3 * time.Millisecond), LatencyP90: durationpb.New(4 * time.Millisecond), LatencyP99: durationpb.New(1500 * time.Millisecond),
		}
	}
	return out, nil
}

func (f *fakeAPI) ListProbes(_ context.Context, r *registryv1.ListProbesRequest) (*registryv1.ListProbesResponse, error) {
	if _, err := f.find(r.GetServerId()); err != nil {
		return nil, err
	}
	items, next := cutPage(pastProbes(r.GetServerId()), r.GetPageSize(), r.GetPageToken())
	return &registryv1.ListProbesResponse{Probes: items, NextPageToken: next}, nil
}

// pastProbes are what only the server search has.
func pastProbes(name string) []*registryv1.Probe {
	if name != "search" {
		return nil
	}
	return []*registryv1.Probe{
		{Window: day(3), Time: day(3), Outcome: registryv1.ProbeOutcome_PROBE_OUTCOME_OK, Attempts: 1, Duration: durationpb.New(3 * time.Millisecond), ProtocolVersion: "2026-07-28", ServerVersion: "1\u200b"},
		{Window: day(2), Time: day(2), Outcome: registryv1.ProbeOutcome_PROBE_OUTCOME_FAILED, Reason: "timeout", Message: "no ans\u202ewer", Attempts: 3, Duration: durationpb.New(10 * time.Second)},
		{Window: day(1), Time: day(1), Outcome: registryv1.ProbeOutcome_PROBE_OUTCOME_DEPENDENCY_ERROR, Reason: "dependency_error", Attempts: 1},
	}
}

func (f *fakeAPI) ListSnapshots(_ context.Context, r *registryv1.ListSnapshotsRequest) (*registryv1.ListSnapshotsResponse, error) {
	if _, err := f.find(r.GetServerId()); err != nil {
		return nil, err
	}
	all := []*registryv1.ServerVersion{
		{Number: 2, SnapshotDigest: digestOf("b"), TargetDigest: "sha256:t", ReviewDigest: "sha256:r2", FirstSeenTime: day(2), ProtocolVersion: "2026-07-28", Tools: 2, Current: true, Kept: true},
		{
			Number: 1, SnapshotDigest: digestOf("a"), TargetDigest: "sha256:t", ReviewDigest: "sha256:r1", FirstSeenTime: day(1), ProtocolVersion: "2026-07-28", Tools: 3, Approved: true, Kept: true,
			Reported: &registryv1.ReportedIdentity{Name: "ni\u200bce", Version: "1"}, Approval: &registryv1.PastApproval{ApprovedBy: "ada", ApproveTime: day(1)},
		},
	}
	items, next := cutPage(all, r.GetPageSize(), r.GetPageToken())
	return &registryv1.ListSnapshotsResponse{Versions: items, NextPageToken: next, TotalSize: int32(len(all))}, nil
}

func (f *fakeAPI) ListDecisions(_ context.Context, r *registryv1.ListDecisionsRequest) (*registryv1.ListDecisionsResponse, error) {
	if _, err := f.find(r.GetServerId()); err != nil {
		return nil, err
	}
	all := []*registryv1.Decision{
		{DecisionId: "dec_2", Verb: "reject", DecidedBy: "bob", Reason: "superseded", Comment: "not\x1b[2J like this", DecideTime: day(2), Origin: "api"},
		{DecisionId: "dec_1", Verb: "approve", DecidedBy: "ada", Applied: true, Sufficed: true, Tools: 3, Prompts: 1, DecideTime: day(1), Roles: []string{"AssetMaintainer"}, Digest: "sha256:r1", Origin: "api"},
	}
	if r.GetShowLines() {
		all[1].ToolLines = []*registryv1.ToolLine{{Tool: "query", Class: registryv1.SideEffectClass_SIDE_EFFECT_CLASS_READ}}
	}
	items, next := cutPage(all, r.GetPageSize(), r.GetPageToken())
	return &registryv1.ListDecisionsResponse{Decisions: items, NextPageToken: next, TotalSize: int32(len(all))}, nil
}
