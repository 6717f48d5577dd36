package registry

import (
	"strconv"
	"strings"
	"time"
)

// approve binds exactly what the approval names (R4, R13, R121, R126).
func (r *Record) approve(g Ruling, op Operation, now time.Time) error {
	s, snap := &r.Server, r.Snapshot
	if g.Approval == nil {
		return Errorf(ReasonInvalidArgument, "an approval names what it approves").WithField("approval", "is required")
	}
	a := *g.Approval
	g.Digest = a.Digest
	if err := r.current(a.Digest); err != nil {
		// An equal repeat is no fault: it finds what it asks for (C18).
		if ReasonOf(err) == ReasonAlreadyDecided && s.Review.Status == ReviewApproved && r.alreadySo(a) {
			r.asked("approved already: " + short(a.Digest))
			return nil
		}
		return err
	}
	if !op.Actor.Has(RoleAssetMaintainer, RolePlatformAdmin) {
		return Errorf(ReasonPermissionDenied, "approving needs the role %s or %s", RoleAssetMaintainer, RolePlatformAdmin)
	}
	if len(a.Tools)+len(a.Resources)+len(a.Prompts) == 0 && !a.Empty {
		return Errorf(ReasonInvalidArgument, "the approval names nothing").
			WithField("tools", "is empty").WithNext("name tools, resources or prompts, or ask for the empty set explicitly")
	}
	if a.Empty && len(a.Tools)+len(a.Resources)+len(a.Prompts) > 0 {
		return Errorf(ReasonInvalidArgument, "the approval is marked empty and names something").WithField("empty", "contradicts the lines")
	}
	if s.Authentication != AuthNoneException && snap.Open() {
		return Errorf(ReasonAuthNotEnforced, "server %s is registered with %s, but answered without any authentication", s.Name, s.Authentication).
			WithNext("let the server refuse requests without credentials and discover it again; if it must stay open, register it with none_exception")
	}
	exception, err := r.except(a, op, now)
	if err != nil {
		return err
	}
	lines, err := r.checkTools(a.Tools, snap)
	if err != nil {
		return err
	}
	resources, err := r.checkResources(a.Resources, snap)
	if err != nil {
		return err
	}
	prompts, err := r.checkPrompts(a.Prompts, snap)
	if err != nil {
		return err
	}

	e, err := r.weigh(g, op, now)
	r.weighed = e
	if err != nil {
		return err
	}
	if e.Tally.Status != TallyApproved {
		r.collect(g, op, e, now)
		return nil
	}

	// From here nothing can be refused.
	r.decided(g, op, ReviewApproved, now)
	r.changes.Decision.Evidence = e
	s.Review.Votes, s.Review.Tally = e.Votes, &e.Tally
	s.Review.Withdrawn = minus(s.Review.Withdrawn, op.Actor.Subject)
	dates := e.Verdict.Expiry.Dates(now)
	if !exception.ExpiresAt.Equal(s.Exception.ExpiresAt) {
		r.remind(TermException, exception.ExpiresAt, now)
	}
	s.Exception = exception
	s.ApprovedSnapshot, s.ApprovedTarget, s.ApprovedText = s.SnapshotDigest, s.TargetDigest, snap.TextDigest
	s.Causes = s.Causes.Without(CauseServerTextChanged, CauseQuarantined, CauseAuthExceptionExpired)
	for _, line := range lines {
		r.bindTool(line, dates, op, now)
	}
	for _, b := range resources {
		b.DecisionID, b.EndsAt = r.changes.Decision.DecisionID, dates.EndsAt
		r.Resources[b.ResourceURI] = b
		r.changes.Resources[b.ResourceURI] = true
	}
	for _, b := range prompts {
		b.DecisionID, b.EndsAt = r.changes.Decision.DecisionID, dates.EndsAt
		r.Prompts[b.PromptName] = b
		r.changes.Prompts[b.PromptName] = true
	}
	r.beginTerm(r.changes.Decision.DecisionID, dates)
	if s.State == StateVerified {
		if err := s.move(StateActive); err != nil {
			return err
		}
	}
	r.note("approved " + strconv.Itoa(len(a.Tools)) + " tools, " + strconv.Itoa(len(a.Resources)) + " resources, " +
		strconv.Itoa(len(a.Prompts)) + " prompts: " + short(a.Digest))
	return s.settle()
}

// alreadySo says whether everything that the approval asks for is there.
func (r *Record) alreadySo(a Approval) bool {
	for _, line := range a.Tools {
		b, tool := r.Bindings[line.Tool], r.Tools[line.Tool]
		if b == nil || tool == nil || !b.Bound || b.DeclaredClass != line.Class || line.Enable && !tool.Enabled {
			return false
		}
	}
	for _, line := range a.Resources {
		if b := r.Resources[line.URI]; b == nil || !b.Bound || b.Classification != classification(line) || b.SourceID != line.SourceID || b.Scope != line.Scope {
			return false
		}
	}
	for _, line := range a.Prompts {
		if b := r.Prompts[line.Prompt]; b == nil || !b.Bound || b.SkillID != line.SkillID || b.WorkflowStepRef != line.WorkflowStepRef {
			return false
		}
	}
	return a.ExceptionExpiresAt.IsZero() || a.ExceptionExpiresAt.Equal(r.Server.Exception.ExpiresAt)
}

// except checks the exception of a server without authentication (R24).
func (r *Record) except(a Approval, op Operation, now time.Time) (Exception, error) {
	s := &r.Server
	current := s.Exception
	if s.Authentication != AuthNoneException {
		if !a.ExceptionExpiresAt.IsZero() {
			return current, Errorf(ReasonInvalidArgument, "server %s authenticates and needs no exception", s.Name).
				WithField("exception_expires_at", "is only for authentication none_exception")
		}
		return current, nil
	}
	if a.ExceptionExpiresAt.IsZero() && s.excepted(now) {
		return current, nil // the one that was approved before still runs
	}
	if !op.Actor.Has(RolePlatformAdmin) {
		return current, Errorf(ReasonPermissionDenied, "only a %s may approve a server without authentication", RolePlatformAdmin)
	}
	if current.Reason == "" {
		return current, Errorf(ReasonExceptionRequired, "the exception of server %s has no reason", s.Name)
	}
	if !a.ExceptionExpiresAt.After(now) {
		return current, Errorf(ReasonExceptionExpiry, "the exception must end at a time in the future").
			WithField("exception_expires_at", "must be in the future").
			WithNext("say until when the server may be used without authentication")
	}
	current.ApprovedBy, current.ApprovedAt, current.ExpiresAt = op.Actor.Subject, now, a.ExceptionExpiresAt
	return current, nil
}

func (r *Record) checkTools(lines []ToolLine, snap *Snapshot) ([]ToolLine, error) {
	seen := map[string]bool{}
	out := make([]ToolLine, 0, len(lines))
	for _, line := range lines {
		if seen[line.Tool] {
			return nil, Errorf(ReasonInvalidArgument, "the approval names tool %q twice", line.Tool)
		}
		seen[line.Tool] = true
		if !line.Class.Valid() {
			return nil, Errorf(ReasonInvalidArgument, "tool %q needs a side-effect class: read, sandbox, shared_write or publication", line.Tool)
		}
		item, found := snap.Find(KindTool, line.Tool)
		tool := r.Tools[line.Tool]
		switch {
		case !found || tool == nil:
			return nil, Errorf(ReasonUnknownTool, "server %s offers no tool %q", r.Server.Name, line.Tool)
		case item.Quarantined() || tool.Verdict != "":
			verdict := max(item.Verdict, tool.Verdict)
			return nil, Errorf(ReasonToolQuarantined, "tool %q is quarantined: %s", line.Tool, verdict).With("verdict", string(verdict))
		}
		if line.DescriptorID != "" {
			if err := r.checkDescriptor(line); err != nil {
				return nil, err
			}
		} else if line.DescriptorVersion != 0 {
			return nil, Errorf(ReasonInvalidArgument, "tool %q has a descriptor version without a descriptor", line.Tool)
		}
		out = append(out, line)
	}
	return out, nil
}

// checkDescriptor wants a published version of the class (R123).
func (r *Record) checkDescriptor(line ToolLine) error {
	for _, d := range r.Descriptors[line.DescriptorID] {
		if d.Version != line.DescriptorVersion {
			continue
		}
		if d.Status != DescriptorPublished {
			return Errorf(ReasonDescriptorNotPublished, "descriptor %s version %d is %s", d.DescriptorID, d.Version, d.Status)
		}
		if d.Class != line.Class {
			return Errorf(ReasonDescriptorClassMismatch, "descriptor %s version %d is of class %s, the approval says %s",
				d.DescriptorID, d.Version, d.Class, line.Class)
		}
		return nil
	}
	return Errorf(ReasonDescriptorNotPublished, "there is no descriptor %s version %d", line.DescriptorID, line.DescriptorVersion)
}

func (r *Record) bindTool(line ToolLine, dates ExpiryDates, op Operation, now time.Time) {
	s, tool := &r.Server, r.Tools[line.Tool]
	id, version := line.DescriptorID, line.DescriptorVersion
	if id == "" {
		id, version = tool.ToolID, 1
		for _, d := range r.Descriptors[id] {
			version = max(version, d.Version+1)
		}
		r.changes.Descriptors = append(r.changes.Descriptors, Descriptor{
			TenantID: s.TenantID, DescriptorID: id, Version: version, Class: line.Class, Status: DescriptorPublished,
			ServerID: s.ServerID, SchemaHash: tool.Contract, CreatedAt: now, CreatedBy: op.Actor.Subject,
			PublishedAt: now, PublishedBy: op.Actor.Subject,
		})
	}
	r.Bindings[line.Tool] = &ToolBinding{
		TenantID: s.TenantID, ServerID: s.ServerID, ToolName: line.Tool, SchemaHash: tool.Contract, Text: tool.Text,
		Behaviour: tool.Behaviour, Target: s.TargetDigest, ToolID: id, ToolVersion: strconv.FormatInt(version, 10),
		DeclaredClass: line.Class, Bound: true, DecisionID: r.changes.Decision.DecisionID,
		DueAt: dates.DueAt, EndsAt: dates.EndsAt,
	}
	r.changes.Bindings[line.Tool] = true
	if line.Enable && !tool.Enabled {
		tool.Enabled = true
		r.changes.Tools[line.Tool] = true
	}
}

func classification(line ResourceLine) string {
	if line.Classification == "" {
		return DefaultClassification
	}
	return line.Classification
}

func (r *Record) checkResources(lines []ResourceLine, snap *Snapshot) ([]*ResourceBinding, error) {
	var out []*ResourceBinding
	for _, line := range lines {
		item, found := snap.resource(line.URI)
		if !found || item.Quarantined() {
			return nil, Errorf(ReasonUnknownResource, "server %s offers no usable resource %q", r.Server.Name, line.URI)
		}
		out = append(out, &ResourceBinding{
			TenantID: r.Server.TenantID, ServerID: r.Server.ServerID, ResourceURI: line.URI, SourceID: line.SourceID,
			Classification: classification(line), Scope: line.Scope, Contract: item.Digests.Contract, Text: item.Digests.Text, Bound: true,
		})
	}
	return out, nil
}

func (r *Record) checkPrompts(lines []PromptLine, snap *Snapshot) ([]*PromptBinding, error) {
	var out []*PromptBinding
	for _, line := range lines {
		item, found := snap.Find(KindPrompt, line.Prompt)
		if !found || item.Quarantined() {
			return nil, Errorf(ReasonUnknownPrompt, "server %s offers no usable prompt %q", r.Server.Name, line.Prompt)
		}
		if (line.SkillID == "") == (line.WorkflowStepRef == "") {
			return nil, Errorf(ReasonInvalidArgument, "prompt %q needs either a skill or a workflow step", line.Prompt)
		}
		for _, target := range []string{line.SkillID, line.WorkflowStepRef} {
			if strings.HasPrefix(strings.ToLower(target), "policy") {
				return nil, Errorf(ReasonInvalidArgument, "prompt %q cannot be bound to a policy", line.Prompt)
			}
		}
		out = append(out, &PromptBinding{
			TenantID: r.Server.TenantID, ServerID: r.Server.ServerID, PromptName: line.Prompt, SkillID: line.SkillID,
			WorkflowStepRef: line.WorkflowStepRef, Contract: item.Digests.Contract, Text: item.Digests.Text, Bound: true,
		})
	}
	return out, nil
}
