package api

import (
	"maps"
	"slices"

	"countersign/db"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// The words of reviews and diffs.
var (
	reviewKinds = map[registry.ReviewKind]pb.ReviewKind{
		registry.ReviewFirst: pb.ReviewKind_REVIEW_KIND_FIRST,
		registry.ReviewDrift: pb.ReviewKind_REVIEW_KIND_DRIFT,
		registry.ReviewAgain: pb.ReviewKind_REVIEW_KIND_AGAIN,
	}
	severities = map[registry.Severity]pb.DriftSeverity{
		registry.SeverityNone:       pb.DriftSeverity_DRIFT_SEVERITY_UNSPECIFIED,
		registry.SeverityCosmetic:   pb.DriftSeverity_DRIFT_SEVERITY_COSMETIC,
		registry.SeverityText:       pb.DriftSeverity_DRIFT_SEVERITY_TEXT,
		registry.SeverityWidening:   pb.DriftSeverity_DRIFT_SEVERITY_WIDENING,
		registry.SeverityNarrowing:  pb.DriftSeverity_DRIFT_SEVERITY_NARROWING,
		registry.SeverityBreaking:   pb.DriftSeverity_DRIFT_SEVERITY_BREAKING,
		registry.SeverityEscalating: pb.DriftSeverity_DRIFT_SEVERITY_ESCALATING,
	}
	diffStatuses = map[registry.DiffStatus]pb.DiffStatus{
		registry.DiffAdded:     pb.DiffStatus_DIFF_STATUS_ADDED,
		registry.DiffRemoved:   pb.DiffStatus_DIFF_STATUS_REMOVED,
		registry.DiffChanged:   pb.DiffStatus_DIFF_STATUS_CHANGED,
		registry.DiffUnchanged: pb.DiffStatus_DIFF_STATUS_UNCHANGED,
	}
	itemKinds = map[registry.ItemKind]pb.ItemKind{
		registry.KindTool:     pb.ItemKind_ITEM_KIND_TOOL,
		registry.KindResource: pb.ItemKind_ITEM_KIND_RESOURCE,
		registry.KindTemplate: pb.ItemKind_ITEM_KIND_TEMPLATE,
		registry.KindPrompt:   pb.ItemKind_ITEM_KIND_PROMPT,
	}
)

// out is the review but for its items.
func (r *review) out() *pb.GetReviewResponse {
	s, snap := &r.Server.Server, r.Snapshot
	target := registry.TargetOf(s, r.Server.Connection, r.Server.Command)
	out := &pb.GetReviewResponse{
		ServerId: s.ServerID, ServerName: s.Name, Etag: s.Etag(), Review: reviewOut(&s.Review), Kind: reviewKinds[r.kind],
		Diff: snapshotDiffOut(&r.diff), Target: targetOut(&target),
		Instructions: text(snap.Instructions), ApprovedInstructions: text(r.approved.Instructions),
		InstructionHints: hintsOut(registry.TextHints("instructions", snap.Instructions)),
		LastApproval:     approvalOut(r.last()), EqualApproval: approvalOut(r.equal()),
		Reported:        &pb.ReportedIdentity{Name: text(s.Reported.Name), Version: text(s.Reported.Version)},
		ProtocolVersion: text(s.ProtocolVersion), Capabilities: strs(snap.Kinds), Quirks: strs(snap.Quirks),
		Gaps: gapsOut(r.gaps()),
	}
	if r.Approved == nil {
		out.Diff.ServerChanges = nil // there was no handshake to differ from
	}
	if r.ApprovedTarget != nil {
		out.ApprovedTarget = targetOut(r.ApprovedTarget)
		out.ChangedTargetFields = changedTarget(out.GetApprovedTarget(), out.GetTarget())
	}
	for _, items := range r.items {
		for i := range items {
			item := &items[i]
			if item.Now == nil {
				continue
			}
			if tool := r.tools[item.Name]; item.Now.Quarantined() || item.Kind == registry.KindTool && tool != nil && tool.Verdict != "" {
				out.QuarantinedItems++
			}
			if registry.Accuse(item.Hints) {
				out.HintedItems++
			}
			if item.Terms != nil && !item.Terms.Bound {
				out.UnboundItems++
			}
		}
	}
	return out
}

// changedTarget names the fields in which two targets differ.
func changedTarget(was, is *pb.Target) []string {
	var out []string
	command := func(t *pb.Target) string { return t.GetCommand().String() }
	for _, f := range []struct {
		name    string
		differs bool
	}{
		{"transport", was.GetTransport() != is.GetTransport()},
		{"url", was.GetUrl() != is.GetUrl()},
		{"dial_address", was.GetDialAddress() != is.GetDialAddress()},
		{"authentication", was.GetAuthentication() != is.GetAuthentication()},
		{"command", command(was) != command(is)},
		{"auth_kind", was.GetAuthKind() != is.GetAuthKind()},
		{"issuer", was.GetIssuer() != is.GetIssuer()},
		{"client_id", was.GetClientId() != is.GetClientId()},
		{"secret_ref", was.GetSecretRef() != is.GetSecretRef()},
		{"scopes", !slices.Equal(was.GetScopes(), is.GetScopes())},
		{"token_endpoint", was.GetTokenEndpoint() != is.GetTokenEndpoint()},
		{"step_up_scopes", !slices.Equal(was.GetStepUpScopes(), is.GetStepUpScopes())},
		{"allowed_networks", !slices.Equal(was.GetAllowedNetworks(), is.GetAllowedNetworks())},
		{"headers", !maps.Equal(was.GetHeaders(), is.GetHeaders())},
		{"ca_bundle", was.GetCaBundleDigest() != is.GetCaBundleDigest()},
		{"client_certificate_ref", was.GetClientCertificateRef() != is.GetClientCertificateRef()},
		{"client_key_ref", was.GetClientKeyRef() != is.GetClientKeyRef()},
	} {
		if f.differs {
			out = append(out, f.name)
		}
	}
	return out
}

func targetOut(t *registry.Target) *pb.Target {
	out := &pb.Target{
		Transport: transports[t.Transport], Url: text(t.URL), DialAddress: text(t.DialAddress), Authentication: authentications[t.Authentication],
		Command: commandOut(t.Command), Digest: t.Digest(), AuthKind: string(t.AuthKind), Issuer: text(t.Issuer), ClientId: text(t.ClientID),
		SecretRef: text(t.SecretRef), Scopes: strs(t.Scopes), AllowedNetworks: t.AllowedNetworks, Headers: t.Headers,
		ClientCertificateRef: t.ClientCertificateRef, ClientKeyRef: t.ClientKeyRef,
		TokenEndpoint: text(t.TokenEndpoint), StepUpScopes: strs(t.StepUpScopes),
	}
	if t.CABundle != "" {
		out.CaBundleDigest = registry.BodyHash([]byte(t.CABundle))
	}
	return out
}

// itemOut is an item of the review.
func (r *review) itemOut(i *registry.Inspected, full bool) *pb.ReviewItem {
	out := &pb.ReviewItem{NeedsLook: i.NeedsLook()}
	out.Diff = itemDiffOut(i.ItemDiff, map[string]registry.Rename{})
	out.Diff.RenamedFrom, out.Diff.RenamedTo = text(i.RenamedFrom), text(i.RenamedTo)
	out.Diff.Likeness, out.Diff.SameContract = i.Likeness, i.SameContract
	if tool := r.tools[i.Name]; i.Kind == registry.KindTool && tool != nil {
		out.ToolId, out.Enabled = tool.ToolID, tool.Enabled
	}
	if t := i.Terms; t != nil {
		out.Terms = termsOut(t)
	}
	if i.Now == nil {
		out.Title, out.Description = text(i.Was.Title), text(i.Was.Text)
		if full {
			out.ApprovedDefinitionJson = text(i.Was.Raw)
		}
		return out
	}
	item := *i.Now
	out.Title, out.Description, out.Digests = text(item.Title), text(item.Text), digestsOut(item.Digests)
	out.QuarantineReason, out.QuarantineDetail = string(item.Verdict), text(item.Detail)
	if tool := r.tools[i.Name]; i.Kind == registry.KindTool && tool != nil && tool.Verdict != "" {
		out.QuarantineReason, out.QuarantineDetail = string(tool.Verdict), text(tool.Detail) // also for what the catalog has against it
	}
	out.Hints = hintsOut(append(slices.Clip(i.Hints), r.Names.Hints(r.Server.Name, item)...))
	if class, why := registry.SuggestClass(item); class != "" && out.GetQuarantineReason() == "" {
		out.Suggestion = &pb.ClassSuggestion{Class: classes[class], Reason: registry.Visible(why)}
	}
	if full {
		out.DefinitionJson = text(item.Raw)
		if i.Was != nil && i.Was.Definition() != item.Definition() {
			out.ApprovedDefinitionJson = text(i.Was.Raw)
		}
	}
	return out
}

func termsOut(t *registry.Terms) *pb.ApprovedTerms {
	out := &pb.ApprovedTerms{
		ApprovedBy: t.By, ApproveTime: moment(t.At), Bound: t.Bound, UnboundReason: string(t.Unbound), Same: t.Same,
	}
	if b := t.Tool; b != nil {
		out.DeclaredClass, out.DescriptorId, out.DescriptorVersion = classes[b.DeclaredClass], b.ToolID, b.ToolVersion
		out.DecisionId = b.DecisionID
	}
	if b := t.Resource; b != nil {
		out.SourceId, out.Classification, out.Scope, out.DecisionId = b.SourceID, b.Classification, b.Scope, b.DecisionID
	}
	if b := t.Prompt; b != nil {
		out.SkillId, out.WorkflowStepRef, out.DecisionId = b.SkillID, b.WorkflowStepRef, b.DecisionID
	}
	return out
}

func hintsOut(hints []registry.Hint) []*pb.Hint {
	var out []*pb.Hint
	for _, h := range hints {
		out = append(out, &pb.Hint{Code: string(h.Code), Path: text(h.Path), Detail: text(h.Detail)})
	}
	return out
}

func approvalOut(a *db.Approval) *pb.PastApproval {
	if a == nil {
		return nil
	}
	return &pb.PastApproval{
		DecisionId: a.DecisionID, ApprovedBy: a.By, ApproveTime: moment(a.At), Digest: a.Pair, SnapshotDigest: a.Snapshot, TargetDigest: a.Target,
	}
}

func snapshotDiffOut(d *registry.Diff) *pb.SnapshotDiff {
	return &pb.SnapshotDiff{
		FromDigest: d.From, ToDigest: d.To, Severity: severities[d.Severity], ServerChanges: changesOut(d.Server),
		Tools: diffCountsOut(d.Tools.Counts), Resources: diffCountsOut(d.Resources.Counts), Templates: diffCountsOut(d.Templates.Counts),
		Prompts: diffCountsOut(d.Prompts.Counts),
	}
}

func diffCountsOut(c registry.DiffCounts) *pb.DiffCounts {
	return &pb.DiffCounts{
		Added: count(c.Added), Removed: count(c.Removed), Renamed: count(c.Renamed), Changed: count(c.Changed), Unchanged: count(c.Unchanged),
		Contract: count(c.Contract), Text: count(c.Text), Behaviour: count(c.Behaviour), Cosmetic: count(c.Cosmetic),
	}
}

// renamesOf gives the probable renames of each kind by both names.
func renamesOf(d *registry.Diff) map[registry.ItemKind]map[string]registry.Rename {
	out := map[registry.ItemKind]map[string]registry.Rename{}
	for kind, l := range map[registry.ItemKind]registry.ListDiff{
		registry.KindTool: d.Tools, registry.KindResource: d.Resources, registry.KindTemplate: d.Templates, registry.KindPrompt: d.Prompts,
	} {
		out[kind] = map[string]registry.Rename{}
		for _, pair := range l.Renamed {
			out[kind][pair.From], out[kind][pair.To] = pair, pair
		}
	}
	return out
}

func itemDiffOut(d registry.ItemDiff, renamed map[string]registry.Rename) *pb.ItemDiff {
	out := &pb.ItemDiff{
		Kind: itemKinds[d.Kind], Name: text(d.Name), Status: diffStatuses[d.Status], Severity: severities[d.Severity],
		Contract: d.Contract, Text: d.Text, Behaviour: d.Behaviour, Changes: changesOut(d.Changes),
	}
	if pair, is := renamed[d.Name]; is {
		out.Likeness, out.SameContract = pair.Score, pair.Same
		if pair.From == d.Name {
			out.RenamedTo = text(pair.To)
		} else {
			out.RenamedFrom = text(pair.From)
		}
	}
	return out
}

func changesOut(changes []registry.Change) []*pb.Change {
	var out []*pb.Change
	for _, c := range changes {
		out = append(out, &pb.Change{
			Path: text(c.Path), Kind: string(c.Kind), Severity: severities[c.Severity], BeforeJson: text(c.Before), AfterJson: text(c.After),
		})
	}
	return out
}

func versionOut(s *registry.Server, v *db.VersionView) *pb.ServerVersion {
	return &pb.ServerVersion{
		Number: v.Number, SnapshotDigest: v.Snapshot, TargetDigest: v.Target, ReviewDigest: v.Pair, FirstSeenTime: moment(v.FirstSeen),
		ProtocolVersion: text(v.Protocol), Reported: &pb.ReportedIdentity{Name: text(v.ServerName), Version: text(v.Reported)},
		Tools: count(v.Tools), Resources: count(v.Resources), Templates: count(v.Templates), Prompts: count(v.Prompts),
		QuarantinedItems: count(v.Faulty), Kept: v.Kept, Approval: approvalOut(v.Approval),
		Current:  v.Snapshot == s.SnapshotDigest && v.Target == s.TargetDigest,
		Approved: v.Snapshot == s.ApprovedSnapshot && v.Target == s.ApprovedTarget,
	}
}

// shownOut is what a review showed, nil when that was not kept.
func shownOut(s *registry.Shown) *pb.ShownReview {
	if s == nil {
		return nil
	}
	out := &pb.ShownReview{
		Kind: reviewKinds[s.Kind], ComparedDigest: s.Compared, QuarantinedItems: count(s.Quarantined), MoreHinted: count(s.More), Gaps: gapsOut(s.Gaps),
	}
	for _, item := range s.Hinted {
		out.Hinted = append(out.Hinted, &pb.HintedItem{Kind: itemKinds[item.Kind], Name: text(item.Name), Codes: item.Hints})
	}
	return out
}

func gapsOut(gaps []registry.Gap) (out []*pb.Gap) {
	for _, g := range gaps {
		out = append(out, &pb.Gap{Code: string(g), Detail: g.Means()})
	}
	return out
}

func decisionOut(v *db.DecisionView) *pb.Decision {
	out := &pb.Decision{
		DecisionId: v.DecisionID, Verb: string(v.Verb), Digest: v.Digest, SnapshotDigest: v.Snapshot, TargetDigest: v.Target,
		DecidedBy: v.Subject, Roles: strs(v.Roles), Comment: text(v.Comment), Origin: string(v.Origin), Applied: v.Applied,
		Reason: string(v.Reason), DecideTime: moment(v.DecidedAt), Tools: count(v.Tools), Resources: count(v.Resources), Prompts: count(v.Prompts),
	}
	if v.Verb == registry.VerbApprove && v.Applied {
		out.Sufficed = v.Evidence == nil || v.Evidence.Tally.Status == registry.TallyApproved
	}
	if v.Evidence != nil {
		out.Standing = text(v.Evidence.Tally.String())
		out.Policy, out.BundleDigest, out.Shown = v.Evidence.Verdict.Policy, v.Evidence.Verdict.Bundle, shownOut(v.Evidence.Shown)
	}
	if a := v.Approval; a != nil {
		out.Empty, out.ExceptionExpireTime = a.Empty, moment(a.ExceptionExpiresAt)
		for _, l := range a.Tools {
			out.ToolLines = append(out.ToolLines, &pb.ToolLine{
				Tool: text(l.Tool), Class: classes[l.Class], DescriptorId: l.DescriptorID, DescriptorVersion: l.DescriptorVersion, Enable: l.Enable,
			})
		}
		for _, l := range a.Resources {
			out.ResourceLines = append(out.ResourceLines, &pb.ResourceLine{
				Uri: text(l.URI), SourceId: l.SourceID, Classification: l.Classification, Scope: l.Scope,
			})
		}
		for _, l := range a.Prompts {
			out.PromptLines = append(out.PromptLines, &pb.PromptLine{Prompt: text(l.Prompt), SkillId: l.SkillID, WorkflowStepRef: l.WorkflowStepRef})
		}
	}
	return out
}
