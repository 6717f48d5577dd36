package api

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"countersign/db"
	"countersign/policy"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
	"countersign/workflows"
)

// The words of the registry and of the proto. What is not in a table becomes
// the unspecified value, or "".
var (
	directions = map[registry.Direction]pb.McpDirection{
		registry.DirectionConsumed: pb.McpDirection_MCP_DIRECTION_CONSUMED,
		registry.DirectionExposed:  pb.McpDirection_MCP_DIRECTION_EXPOSED,
	}
	transports = map[registry.Transport]pb.McpTransport{
		registry.TransportStreamableHTTP: pb.McpTransport_MCP_TRANSPORT_STREAMABLE_HTTP,
		registry.TransportStdio:          pb.McpTransport_MCP_TRANSPORT_STDIO,
	}
	authentications = map[registry.Authentication]pb.McpAuthentication{
		registry.AuthOAuth2:           pb.McpAuthentication_MCP_AUTHENTICATION_OAUTH2_PROTECTED_RESOURCE,
		registry.AuthWorkloadIdentity: pb.McpAuthentication_MCP_AUTHENTICATION_WORKLOAD_IDENTITY,
		registry.AuthNoneException:    pb.McpAuthentication_MCP_AUTHENTICATION_NONE_EXCEPTION,
	}
	states = map[registry.State]pb.McpServerState{
		registry.StateRegistered: pb.McpServerState_MCP_SERVER_STATE_REGISTERED,
		registry.StateVerified:   pb.McpServerState_MCP_SERVER_STATE_VERIFIED,
		registry.StateActive:     pb.McpServerState_MCP_SERVER_STATE_ACTIVE,
		registry.StateDegraded:   pb.McpServerState_MCP_SERVER_STATE_DEGRADED,
		registry.StateRetired:    pb.McpServerState_MCP_SERVER_STATE_RETIRED,
	}
	classes = map[registry.Class]pb.SideEffectClass{
		registry.ClassRead:        pb.SideEffectClass_SIDE_EFFECT_CLASS_READ,
		registry.ClassSandbox:     pb.SideEffectClass_SIDE_EFFECT_CLASS_SANDBOX,
		registry.ClassSharedWrite: pb.SideEffectClass_SIDE_EFFECT_CLASS_SHARED_WRITE,
		registry.ClassPublication: pb.SideEffectClass_SIDE_EFFECT_CLASS_PUBLICATION,
	}
	levels = map[registry.Level]pb.HealthLevel{
		registry.LevelHealthy:   pb.HealthLevel_HEALTH_LEVEL_HEALTHY,
		registry.LevelDegraded:  pb.HealthLevel_HEALTH_LEVEL_DEGRADED,
		registry.LevelUnhealthy: pb.HealthLevel_HEALTH_LEVEL_UNHEALTHY,
		registry.LevelUnknown:   pb.HealthLevel_HEALTH_LEVEL_UNKNOWN,
	}
	probings = map[registry.Probing]pb.Probing{
		registry.ProbingDone:     pb.Probing_PROBING_PROBED,
		registry.ProbingNever:    pb.Probing_PROBING_NEVER_PROBED,
		registry.ProbingNot:      pb.Probing_PROBING_NOT_PROBED,
		registry.ProbingUnknown:  pb.Probing_PROBING_UNKNOWN,
		registry.ProbingWithheld: pb.Probing_PROBING_WITHHELD,
		registry.ProbingEmpty:    pb.Probing_PROBING_EMPTY,
	}
	reviews = map[registry.ReviewStatus]pb.ReviewStatus{
		registry.ReviewNone:     pb.ReviewStatus_REVIEW_STATUS_NONE,
		registry.ReviewPending:  pb.ReviewStatus_REVIEW_STATUS_PENDING,
		registry.ReviewApproved: pb.ReviewStatus_REVIEW_STATUS_APPROVED,
		registry.ReviewRejected: pb.ReviewStatus_REVIEW_STATUS_REJECTED,
		registry.ReviewExpired:  pb.ReviewStatus_REVIEW_STATUS_EXPIRED,
	}
	launches = map[registry.LaunchStatus]pb.LaunchStatus{
		registry.LaunchNotNeeded: pb.LaunchStatus_LAUNCH_STATUS_UNSPECIFIED,
		registry.LaunchPending:   pb.LaunchStatus_LAUNCH_STATUS_PENDING,
		registry.LaunchApproved:  pb.LaunchStatus_LAUNCH_STATUS_APPROVED,
	}
	axes = map[registry.Axis]pb.CapabilityAxis{
		registry.AxisServer:   pb.CapabilityAxis_CAPABILITY_AXIS_SERVER,
		registry.AxisProduct:  pb.CapabilityAxis_CAPABILITY_AXIS_PRODUCT,
		registry.AxisProtocol: pb.CapabilityAxis_CAPABILITY_AXIS_PROTOCOL,
	}
	blockers = map[registry.Blocker]pb.CapabilityBlocker{
		registry.BlockedByTable:   pb.CapabilityBlocker_CAPABILITY_BLOCKER_TABLE,
		registry.BlockedByLook:    pb.CapabilityBlocker_CAPABILITY_BLOCKER_LOOK,
		registry.BlockedByVersion: pb.CapabilityBlocker_CAPABILITY_BLOCKER_VERSION,
		registry.BlockedByTool:    pb.CapabilityBlocker_CAPABILITY_BLOCKER_TOOL,
		registry.BlockedByArg:     pb.CapabilityBlocker_CAPABILITY_BLOCKER_ARGUMENT,
	}
	descriptorStatuses = map[registry.DescriptorStatus]pb.ToolDescriptorStatus{
		registry.DescriptorDraft:      pb.ToolDescriptorStatus_TOOL_DESCRIPTOR_STATUS_DRAFT,
		registry.DescriptorPublished:  pb.ToolDescriptorStatus_TOOL_DESCRIPTOR_STATUS_PUBLISHED,
		registry.DescriptorDeprecated: pb.ToolDescriptorStatus_TOOL_DESCRIPTOR_STATUS_DEPRECATED,
	}
	tokenDecisions = map[registry.Verb]pb.TokenDecision{
		registry.VerbApprove:       pb.TokenDecision_TOKEN_DECISION_APPROVE,
		registry.VerbReject:        pb.TokenDecision_TOKEN_DECISION_REJECT,
		registry.VerbApproveLaunch: pb.TokenDecision_TOKEN_DECISION_APPROVE_LAUNCH,
	}
	discoveries = map[registry.DiscoveryStatus]pb.DiscoveryStatus{
		registry.DiscoveryNever:     pb.DiscoveryStatus_DISCOVERY_STATUS_NEVER,
		registry.DiscoveryRunning:   pb.DiscoveryStatus_DISCOVERY_STATUS_RUNNING,
		registry.DiscoverySucceeded: pb.DiscoveryStatus_DISCOVERY_STATUS_SUCCEEDED,
		registry.DiscoveryFailed:    pb.DiscoveryStatus_DISCOVERY_STATUS_FAILED,
	}
)

// word gives the registry's word for a value of the proto.
func word[W ~string, V comparable](table map[W]V, value V) W {
	for w, v := range table {
		if v == value {
			return w
		}
	}
	return ""
}

// moment gives a time, or nothing for none.
func moment(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// text makes a string of a stranger fit for the proto, whose strings are UTF-8.
func text[S ~string | ~[]byte](s S) string { return strings.ToValidUTF8(string(s), "\uFFFD") }

func strs[S ~string](list []S) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = text(s)
	}
	return out
}

func count(n int) int32 { return int32(min(n, 1<<31-1)) }

// serverOut is a server as everybody sees it.
func serverOut(v *db.ServerView) *pb.McpServer {
	s := &v.Server
	out := &pb.McpServer{
		ServerId: s.ServerID, TenantId: s.TenantID, Name: s.Name, Direction: directions[s.Direction], Transport: transports[s.Transport],
		EndpointRef: s.EndpointRef, CommandRef: s.CommandRef, Authentication: authentications[s.Authentication],
		GovernancePolicyRef: s.GovernancePolicyRef, ProtocolVersion: text(s.ProtocolVersion), State: states[s.State],
		ReleaseId: s.ReleaseID, LastHandshakeAt: moment(registry.LastHandshake(s, v.LastProbe)), Version: s.Version, Etag: s.Etag(),
		ProviderId: s.ProviderID, Description: s.Description, Owner: s.Owner, Labels: s.Labels, ProductVersion: s.ProductVersion,
		EndpointUrl: v.Connection.URL, DialAddress: v.Connection.DialAddress,
		Causes: strs(s.Causes), Health: healthOut(registry.HealthOf(s, v.LastProbe)), Review: reviewOut(&s.Review),
		Discovery: discoveryOut(&s.Discovery), Counts: countsOut(v.Counts),
		Reported:     &pb.ReportedIdentity{Name: text(s.Reported.Name), Version: text(s.Reported.Version)},
		TargetDigest: s.TargetDigest, SnapshotDigest: s.SnapshotDigest, ApprovedSnapshotDigest: s.ApprovedSnapshot,
		CreateTime: moment(s.CreatedAt), CreatedBy: s.CreatedBy, UpdateTime: moment(s.UpdatedAt), RetireTime: moment(s.RetiredAt),
	}
	if x := s.Exception; x != (registry.Exception{}) {
		out.AuthenticationException = &pb.AuthenticationException{
			Reason: x.Reason, ApprovedBy: x.ApprovedBy, ApproveTime: moment(x.ApprovedAt), ExpireTime: moment(x.ExpiresAt),
		}
	}
	if k := v.Command; k != nil {
		out.Command = commandOut(k)
		l := s.Launch
		out.Launch = &pb.Launch{
			Status: launches[l.Status], TargetDigest: l.Target, ApprovedBy: l.ApprovedBy, ApproveTime: moment(l.ApprovedAt), DecisionId: l.DecisionID,
		}
		if k.Sandbox == registry.SandboxNone {
			out.Warnings = append(out.Warnings, "its process runs without a sandbox: it can read and do what the worker can")
		}
	}
	if registry.LooksLikeKey(v.Connection.URL) {
		out.Warnings = append(out.Warnings, "a part of the URL's path looks like a key: everybody who reads this server sees it; "+
			"give credentials by reference instead")
	}
	return out
}

// commandOut is a command, nil when there is none.
func commandOut(k *registry.Command) *pb.Command {
	if k == nil {
		return nil
	}
	return &pb.Command{
		Ref: k.Ref, Argv: strs(k.Argv), Image: text(k.Image), WorkingDirectory: text(k.Dir), Env: k.Env, Network: k.Network,
		Sandbox: string(k.Sandbox), Mounts: strs(k.Mounts),
	}
}

func healthOut(h registry.Health) *pb.Health {
	return &pb.Health{
		Level: levels[h.Level], Reason: h.Reason, Summary: text(h.Summary), NextStep: h.Next, Since: moment(h.Since),
		Probing: probings[h.Probing], WhoCanAct: wordList(h.Who),
	}
}

func reviewOut(r *registry.Review) *pb.Review {
	out := &pb.Review{
		Status: reviews[r.Status], Digest: r.Digest, SnapshotDigest: r.Snapshot, TargetDigest: r.Target, RequestedBy: r.RequestedBy,
		OpenTime: moment(r.OpenedAt), ExpireTime: moment(r.ExpiresAt), DecidedBy: r.DecidedBy, DecideTime: moment(r.DecidedAt),
		DecisionId: r.DecisionID, WithdrawnBy: strs(r.Withdrawn),
	}
	if t := r.Tally; t != nil {
		out.Standing, out.PeopleMissing = text(t.String()), count(t.People)
	}
	for _, v := range r.Votes {
		out.Votes = append(out.Votes, &pb.ReviewVote{
			Subject: v.Subject, Roles: strs(v.Roles), Time: moment(v.At), Comment: v.Comment, DecisionId: v.DecisionID, ContentDigest: v.Content,
		})
	}
	return out
}

func discoveryOut(d *registry.DiscoveryRun) *pb.Discovery {
	return &pb.Discovery{
		Number: d.Number, Status: discoveries[d.Status], Reason: string(d.Reason), Message: text(d.Message), RequestedBy: d.RequestedBy,
		FinishTime: moment(d.FinishedAt), SucceedTime: moment(d.SucceededAt), NewTools: count(d.Counts.New),
		ChangedTools: count(d.Counts.Changed), UnchangedTools: count(d.Counts.Unchanged),
		UnavailableTools: count(d.Counts.Unavailable), TotalTools: count(d.Counts.Total),
	}
}

func countsOut(c db.Counts) *pb.BindingCounts {
	return &pb.BindingCounts{
		Tools: count(c.Tools), AvailableTools: count(c.Available), EnabledTools: count(c.Enabled), BoundTools: count(c.Bound),
		CallableTools: count(c.Callable), BoundResources: count(c.BoundResources), BoundPrompts: count(c.BoundPrompts),
	}
}

func digestsOut(d registry.Digests) *pb.Digests {
	return &pb.Digests{Contract: d.Contract, Text: d.Text, Behaviour: d.Behaviour, Meta: d.Meta}
}

// toolOut is a tool; definition is the JSON that the server sent, or nothing.
func toolOut(v *db.ToolView, definition []byte) *pb.Tool {
	t := &v.Tool
	out := &pb.Tool{
		ToolId: t.ToolID, ServerId: t.ServerID, ServerName: v.Server.Name, Name: text(t.ExternalID), Title: text(t.Title),
		Description: text(t.Description), Enabled: t.Enabled, Available: t.Available, Callable: v.Denial == nil,
		QuarantineReason: string(t.Verdict), QuarantineDetail: text(t.Detail), Digests: digestsOut(t.Digests),
		DefinitionJson: text(definition), FirstSeenTime: moment(t.FirstSeenAt), LastSeenTime: moment(t.LastSeenAt),
		RequiresApproval: t.RequiresApproval,
	}
	if t.Available { // R51
		out.LastSeenTime = moment(v.Server.Discovery.SucceededAt)
	}
	if v.Denial != nil {
		out.DenialReason, out.DenialDetail = string(v.Denial.Reason), text(v.Denial.Detail)
	}
	if b := v.Binding; b != nil {
		out.Bound = b.Bound && b.Holds(t.Digests, v.Server.TargetDigest) && !b.Ended(v.Now)
		out.DeclaredClass, out.DescriptorId, out.DescriptorVersion = classes[b.DeclaredClass], b.ToolID, b.ToolVersion
		out.ApprovedDigests = digestsOut(registry.Digests{Contract: b.SchemaHash, Text: b.Text, Behaviour: b.Behaviour})
		out.ApprovalDueTime, out.ApprovalEndTime = moment(b.DueAt), moment(b.EndsAt)
	}
	return out
}

// resourceOut is a resource or template with its binding, if it has one.
func resourceOut(item registry.Item, b *registry.ResourceBinding, full bool) *pb.Resource {
	out := &pb.Resource{
		Uri: text(item.Name), Template: item.Kind == registry.KindTemplate, Title: text(item.Title), Description: text(item.Text),
		QuarantineReason: string(item.Verdict),
	}
	if full {
		out.DefinitionJson = text(item.Raw)
	}
	if b != nil {
		out.Bound, out.SourceId, out.Classification, out.Scope = b.Bound, b.SourceID, b.Classification, b.Scope
		out.UnboundReason = string(b.UnboundBy)
	}
	return out
}

// promptOut is a prompt with its binding, if it has one.
func promptOut(item registry.Item, b *registry.PromptBinding, full bool) *pb.Prompt {
	out := &pb.Prompt{
		Name: text(item.Name), Title: text(item.Title), Description: text(item.Text), QuarantineReason: string(item.Verdict),
	}
	if full {
		out.DefinitionJson = text(item.Raw)
	}
	if b != nil {
		out.Bound, out.SkillId, out.WorkflowStepRef = b.Bound, b.SkillID, b.WorkflowStepRef
		out.UnboundReason = string(b.UnboundBy)
	}
	return out
}

// reportOut is the capability table as it is for a server, and the tools that
// the server offers, sorted into those that count, foreign and quarantined ones.
func reportOut(v *db.ServerView, tools []db.OfferedTool) *pb.CapabilityReport {
	m := v.Model
	out := &pb.CapabilityReport{
		ServerId: v.ServerID, ServerName: v.Name, Reported: &pb.ReportedIdentity{Name: text(m.Facts.Reported), Version: text(m.Facts.ServerVersion)},
		ProtocolVersion: text(m.Facts.Protocol), ProductVersion: m.Facts.ProductVersion, Doubt: text(m.Facts.Doubt), LookTime: moment(m.Facts.At),
	}
	for _, k := range m.Known {
		out.KnownServers = append(out.KnownServers, &pb.KnownServer{
			Id: k.ID, Title: text(k.Title), ProductVersion: text(k.ProductVersion), ProductVersionDeclared: k.Declared,
		})
	}
	for _, s := range m.States {
		row := s.Row
		state := &pb.CapabilityState{
			Key: row.Key, KnownServerId: s.KnownServer, Feature: text(row.Feature), Available: s.Available, Blocker: blockers[s.BlockedBy],
			BlockerText: text(s.Why), Note: text(row.Note), SinceAxis: axes[row.Since.Axis], SinceVersion: row.Since.Version,
			RequiredTools: strs(row.RequiresTools), GatedTools: strs(row.Gates),
		}
		for _, a := range row.RequiresArgs {
			state.RequiredArguments = append(state.RequiredArguments, &pb.RequiredArgument{Tool: text(a.Tool), Argument: text(a.Arg)})
		}
		out.Capabilities = append(out.Capabilities, state)
	}
	for _, t := range tools {
		tool := &pb.ReportedTool{Name: text(t.Name), Arguments: strs(t.Args), QuarantineReason: string(t.Verdict)}
		switch {
		case t.Verdict != "":
			out.QuarantinedTools = append(out.QuarantinedTools, tool)
		case m.Foreign(t.Name):
			out.ForeignTools = append(out.ForeignTools, tool)
		default:
			out.Tools = append(out.Tools, tool)
		}
	}
	out.ToolCount = count(len(out.GetTools()))
	return out
}

func runOut(r workflows.Run) *pb.Run {
	return &pb.Run{
		WorkflowId: r.WorkflowID, RunId: r.RunID, Type: r.Type, Status: r.Status, StartTime: moment(r.Start), CloseTime: moment(r.Close),
		TemporalUrl: r.URL,
	}
}

func testOut(r *workflows.TestReport) *pb.TestMcpServerResponse {
	out := &pb.TestMcpServerResponse{
		Ok: r.OK, Reason: string(r.Reason), Message: text(r.Message), NextStep: r.Next, ProtocolVersion: text(r.ProtocolVersion),
		Reported:     &pb.ReportedIdentity{Name: text(r.ServerName), Version: text(r.ServerVersion)},
		Capabilities: strs(r.Kinds), Tools: count(r.Tools), Resources: count(r.Resources), Prompts: count(r.Prompts),
		Templates: count(r.Templates), Quirks: strs(r.Quirks), Health: healthOut(r.Health),
	}
	for _, s := range r.Steps {
		out.Steps = append(out.Steps, &pb.TestStep{Name: s.Name, Ok: s.OK, Detail: text(s.Detail), Duration: durationpb.New(s.Duration)})
	}
	return out
}

// resolutionOut is the answer about one tool.
// denied is an answer but for what is known of the tool.
func denied(toolID string, denial *registry.Denial, bundle string) *pb.ResolveToolResponse {
	out := &pb.ResolveToolResponse{ToolId: toolID, Callable: denial == nil, GovernancePolicyDigest: bundle}
	if denial != nil {
		out.Reason, out.Detail, out.Message, out.NextStep = string(denial.Reason), text(denial.Detail), denial.Reason.Means(), denial.Next()
	}
	return out
}

// withheld says whether nobody is told where to call. A degraded server is on
// its way back, and its callers may prepare (C20). Of all others nobody learns
// how to pass by us.
func withheld(denial *registry.Denial) bool {
	return denial != nil && denial.Reason != registry.ReasonServerDegraded
}

func resolutionOut(toolID string, v *db.ToolView, denial *registry.Denial, bundle string) *pb.ResolveToolResponse {
	out := denied(toolID, denial, bundle)
	if v == nil {
		return out
	}
	out.Health = healthOut(registry.HealthOf(&v.Server, v.LastProbe))
	out.RequiresApproval = v.Tool.RequiresApproval
	b := v.Binding
	if b == nil || withheld(denial) {
		return out
	}
	out.Routing = routingOf(v)
	complete(out.GetRouting(), text(v.Tool.CallName()), b.DeclaredClass, &knownBinding{b.SchemaHash, b.ToolID, b.ToolVersion, b.Target}, bundle)
	return out
}

// routingOf is what routing to all tools of a server has in common.
func routingOf(v *db.ToolView) *pb.Routing {
	s := &v.Server
	return &pb.Routing{
		ServerId: s.ServerID, ServerName: s.Name, Transport: transports[s.Transport], EndpointUrl: v.Connection.URL,
		DialAddress: v.Connection.DialAddress, ProtocolVersion: text(s.ProtocolVersion), Authentication: authentications[s.Authentication],
		EndpointRef: s.EndpointRef, GovernancePolicyRef: s.GovernancePolicyRef, CommandRef: s.CommandRef,
	}
}

// complete adds what routing to one tool has for itself.
func complete(to *pb.Routing, name string, class registry.Class, b *knownBinding, bundle string) {
	to.ToolName, to.DeclaredClass, to.SchemaHash, to.DescriptorId = name, classes[class], b.schema, b.descriptor
	to.DescriptorVersion, to.TargetDigest, to.GovernancePolicyDigest = b.version, b.target, bundle
}

func facetOut(f *db.Facet) *pb.ToolFacet {
	out := &pb.ToolFacet{Field: f.Field, OtherValues: count(f.Others)}
	for _, v := range f.Values {
		out.Values = append(out.Values, &pb.ToolFacetValue{Value: text(v.Value), Count: count(v.Count)})
	}
	return out
}

func descriptorOut(v *db.DescriptorView) *pb.ToolDescriptor {
	return &pb.ToolDescriptor{
		DescriptorId: v.DescriptorID, Version: v.Version, Class: classes[v.Class], Description: text(v.Description),
		Status: descriptorStatuses[v.Status], Health: healthOut(v.Health), Active: v.Active, Tools: count(v.Tools), ServerId: v.ServerID,
		SchemaHash: v.SchemaHash, CreateTime: moment(v.CreatedAt), CreatedBy: v.CreatedBy, PublishTime: moment(v.PublishedAt),
		PublishedBy: v.PublishedBy, DeprecateTime: moment(v.DeprecatedAt), DeprecatedBy: v.DeprecatedBy,
	}
}

func assignmentOut(v *db.AssignmentView) *pb.ToolAssignment {
	out := &pb.ToolAssignment{
		AssignmentId: v.AssignmentID, Agent: v.Agent, ToolId: text(v.ToolID), Workspace: v.Workspace, CreateTime: moment(v.CreatedAt),
		CreatedBy: v.CreatedBy, DenialReason: string(registry.ReasonToolNotFound),
	}
	if v.Tool != nil {
		out.Available, out.Callable, out.DenialReason = v.Tool.Tool.Available, v.Tool.Denial == nil, ""
		if v.Tool.Denial != nil {
			out.DenialReason = string(v.Tool.Denial.Reason)
		}
	}
	return out
}

func capabilityOut(i *db.ExposedItem) *pb.Capability {
	return &pb.Capability{
		ServerId: i.ServerID, ServerName: i.ServerName, Kind: string(i.Kind), Name: text(i.Name), ToolId: i.ToolID,
		DeclaredClass: classes[i.DeclaredClass], Classification: i.Classification,
	}
}

// registrationIn is a registration as asked for; who asks and the new id come
// from elsewhere.
func registrationIn(req *pb.RegisterMcpServerRequest) registry.Registration {
	return registry.Registration{
		Name: req.GetName(), Direction: word(directions, req.GetDirection()), Transport: word(transports, req.GetTransport()),
		URL: req.GetEndpointUrl(), DialAddress: req.GetDialAddress(), ConnectionName: req.GetEndpointRef(), CommandRef: req.GetCommandRef(), Authentication: word(authentications, req.GetAuthentication()),
		ExceptionReason: req.GetExceptionReason(), GovernancePolicyRef: req.GetGovernancePolicyRef(),
		ProtocolVersion: req.GetProtocolVersion(), ReleaseID: req.GetReleaseId(), Description: req.GetDescription(),
		Owner: req.GetOwner(), Labels: req.GetLabels(), ProductVersion: req.GetProductVersion(),
	}
}

// approvalIn is what an approval names.
func approvalIn(req *pb.ActivateMcpServerRequest) *registry.Approval {
	a := &registry.Approval{Digest: req.GetDigest(), Empty: req.GetEmpty()}
	if t := req.GetExceptionExpireTime(); t != nil {
		a.ExceptionExpiresAt = t.AsTime()
	}
	for _, l := range req.GetTools() {
		a.Tools = append(a.Tools, registry.ToolLine{
			Tool: l.GetTool(), Class: word(classes, l.GetClass()), DescriptorID: l.GetDescriptorId(),
			DescriptorVersion: l.GetDescriptorVersion(), Enable: l.GetEnable(),
		})
	}
	for _, l := range req.GetResources() {
		a.Resources = append(a.Resources, registry.ResourceLine{
			URI: l.GetUri(), SourceID: l.GetSourceId(), Classification: l.GetClassification(), Scope: l.GetScope(),
		})
	}
	for _, l := range req.GetPrompts() {
		a.Prompts = append(a.Prompts, registry.PromptLine{Prompt: l.GetPrompt(), SkillID: l.GetSkillId(), WorkflowStepRef: l.GetWorkflowStepRef()})
	}
	return a
}

// editIn takes the fields that the mask names; the others stay as they are,
// whatever the patch says of them.
func editIn(req *pb.UpdateMcpServerRequest) (registry.Edit, error) {
	e := registry.Edit{Etag: req.GetEtag()}
	p := req.GetServer()
	bad := registry.Errorf(registry.ReasonInvalidArgument, "the update is not valid")
	for _, path := range req.GetUpdateMask().GetPaths() {
		switch path {
		case "description":
			e.Description = new(p.GetDescription())
		case "owner":
			e.Owner = new(p.GetOwner())
		case "labels":
			labels := p.GetLabels()
			if labels == nil {
				labels = map[string]string{} // named and empty: all are taken off
			}
			e.Labels = &labels
		case "product_version":
			e.ProductVersion = new(p.GetProductVersion())
		case "governance_policy_ref":
			e.GovernancePolicyRef = new(p.GetGovernancePolicyRef())
		case "endpoint_url":
			e.URL = new(p.GetEndpointUrl())
		case "dial_address":
			e.DialAddress = new(p.GetDialAddress())
		case "endpoint_ref":
			e.ConnectionName = new(p.GetEndpointRef())
		case "command_ref":
			e.CommandRef = new(p.GetCommandRef())
		default:
			bad.WithField("update_mask", "%q is not a field that can be changed; there are %s", path, changeable(p))
		}
	}
	if len(req.GetUpdateMask().GetPaths()) == 0 {
		bad.WithField("update_mask", "names no field; there are %s", changeable(p))
	}
	if len(bad.Fields) > 0 {
		return registry.Edit{}, bad
	}
	return e, nil
}

// policyOut is a version of a bundle. p is what was compiled of it, nil in lists.
func policyOut(v *db.PolicyView, p *policy.Policy) *pb.Policy {
	out := &pb.Policy{
		Name: v.Name, Version: count(v.Version), Digest: v.Digest, Description: text(v.Description), BuiltIn: v.Name == registry.PolicyDefault,
		Newest: v.Newest, Servers: count(v.Servers), PublishTime: moment(v.PublishedAt), PublishedBy: v.PublishedBy,
	}
	if p != nil {
		b := p.Bundle()
		out.Document, out.Tests = text(v.Document), count(len(b.Tests))
		out.Rules = count(len(b.Approval) + len(b.Drift) + len(b.Calls))
	}
	return out
}

func unfitOut(user db.PolicyUser, u registry.Unfit) *pb.Unfit {
	return &pb.Unfit{
		ServerId: user.ServerID, ServerName: user.Name, Kind: string(u.Kind), Name: text(u.Name), ToolId: u.ToolID, DeclaredClass: classes[u.Class],
		Reason: string(u.Reason), Detail: text(u.Detail), DecisionId: u.DecisionID,
	}
}

func expiringOut(e *db.Expiring) *pb.Expiring {
	return &pb.Expiring{
		Kind: e.Kind, ServerId: e.ServerID, ServerName: e.ServerName, EndTime: moment(e.EndsAt), DueTime: moment(e.DueAt), Bound: count(e.Bound),
		DecisionId: e.DecisionID, Digest: e.Digest, By: e.By,
	}
}

func auditOut(e *db.AuditEntry) *pb.AuditEvent {
	return &pb.AuditEvent{
		AuditId: text(e.AuditID), Time: moment(e.At), Actor: text(e.Actor), Roles: strs(e.Roles), Origin: text(e.Origin), Action: text(e.Action),
		ObjectKind: text(e.ObjectKind), ObjectId: text(e.ObjectID), ObjectName: text(e.ObjectName), Outcome: text(e.Outcome), Reason: text(e.Reason),
		Note: text(e.Note), Detail: text(e.Detail), VersionBefore: e.VersionBefore, VersionAfter: e.VersionAfter, DigestBefore: text(e.DigestBefore),
		DigestAfter: text(e.DigestAfter), OperationId: text(e.OperationID), Position: e.Position, PrevHash: text(e.PrevHash), Hash: text(e.Hash),
	}
}

func checkpointOut(c *registry.AuditCheckpoint) *pb.AuditCheckpoint {
	return &pb.AuditCheckpoint{
		Number: c.Number, Count: c.Count, Head: text(c.Head), Time: moment(c.At), KeyId: text(c.KeyID), Prev: text(c.Prev), Signature: c.Signature,
		Line: text(c.Line()),
	}
}

func faultOut(f *registry.AuditFault) *pb.AuditFault {
	return &pb.AuditFault{
		Kind: text(f.Kind), Position: f.Position, Through: f.Through, AuditId: text(f.AuditID), Checkpoint: f.Checkpoint, Detail: text(f.Detail),
	}
}
