package api

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"countersign/db"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// operation is an RPC that changes something, with what it leaves in the audit.
type operation struct {
	action, kind, name string
	// ready gives a request that succeeds, and one that is refused to somebody
	// who may call the RPC; nil when only the role can be wanting.
	ready  func(t *testing.T, h *house) (succeeds, refused proto.Message)
	reason registry.Reason // of the refused one
	role   registry.Role   // who sends that, if not the administrator
}

// harmless are the RPCs that are not marked as reads and change nothing, with
// why.
var harmless = map[string]string{
	doTest:    "writes nothing (R52)",
	doCheck:   "reads a document",
	doTry:     "reads a document",
	doPreview: "says what a publication would do",
	doVerify:  "reads, and what it is handed may be long",
	doDial:    "writes nothing (R52)",
	doSound:   "writes nothing (R52)",
}

// operations has every other one. Whoever adds an RPC that changes something
// says here what it leaves.
var operations = map[string]operation{
	doRegister: {action: "register", kind: "server", name: "new", reason: registry.ReasonServerExists, ready: func(*testing.T, *house) (succeeds, refused proto.Message) {
		return good("new"), good("new")
	}},
	doUpdate: {action: "edit", kind: "server", name: "edited", reason: registry.ReasonStaleEtag, ready: func(t *testing.T, h *house) (succeeds, refused proto.Message) {
		h.registered(t, alpha, "edited")
		return about[doUpdate]("edited", ""), &pb.UpdateMcpServerRequest{ServerId: "edited", Etag: `"900"`, Server: &pb.ServerPatch{Description: "y"}, UpdateMask: mask("description")}
	}},
	doDiscover: {action: "begin_discovery", kind: "server", name: "found", reason: registry.ReasonIdempotencyKeyReused, ready: func(t *testing.T, h *house) (succeeds, refused proto.Message) {
		s := h.registered(t, alpha, "found")
		close(h.flows.end("discovery/" + alpha + "/" + s.ServerID + "/1"))
		return about[doDiscover]("found", ""), &pb.DiscoverMcpCapabilitiesRequest{ServerId: "found", Wait: durationpb.New(0)}
	}},
	doActivate: {action: "approve", kind: "server", name: "approved", reason: registry.ReasonSuperseded, ready: func(t *testing.T, h *house) (succeeds, refused proto.Message) {
		s := h.discovered(t, h.registered(t, alpha, "approved"), surface("x"))
		return &pb.ActivateMcpServerRequest{ServerId: "approved", Digest: s.Review.Digest, Tools: []*pb.ToolLine{{Tool: "x", Class: pb.SideEffectClass_SIDE_EFFECT_CLASS_READ}}}, about[doActivate]("approved", "")
	}},
	doReject: {action: "reject", kind: "server", name: "rejected", reason: registry.ReasonSuperseded, ready: func(t *testing.T, h *house) (succeeds, refused proto.Message) {
		s := h.discovered(t, h.registered(t, alpha, "rejected"), surface("x"))
		return &pb.RejectMcpServerRequest{ServerId: "rejected", Digest: s.Review.Digest, Comment: "no"}, about[doReject]("rejected", "")
	}},
	doReview: {action: "request_review", kind: "server", name: "reviewed", reason: registry.ReasonStaleEtag, ready: func(t *testing.T, h *house) (succeeds, refused proto.Message) {
		h.active(t, alpha, "reviewed", "x")
		return about[doReview]("reviewed", ""), &pb.RequestReviewRequest{ServerId: "reviewed", Etag: `"900"`}
	}},
	doRetire: {action: "retire", kind: "server", name: "retired", reason: registry.ReasonStaleEtag, ready: func(t *testing.T, h *house) (succeeds, refused proto.Message) {
		h.active(t, alpha, "retired", "x")
		h.active(t, alpha, "kept", "x")
		return about[doRetire]("retired", ""), &pb.RetireMcpServerRequest{ServerId: "kept", Etag: `"900"`}
	}},
	doIsolate: {action: "quarantine", kind: "server", name: "isolated", reason: registry.ReasonStaleEtag, ready: func(t *testing.T, h *house) (succeeds, refused proto.Message) {
		h.active(t, alpha, "isolated", "x")
		return about[doIsolate]("isolated", ""), &pb.QuarantineMcpServerRequest{ServerId: "isolated", Comment: "looks wrong", Etag: `"900"`}
	}},
	doLaunch: {action: "approve_launch", kind: "server", name: "launched", reason: registry.ReasonSuperseded, ready: func(t *testing.T, h *house) (succeeds, refused proto.Message) {
		s := h.registered(t, alpha, "launched", func(g *registry.Registration) {
			g.Transport, g.URL, g.CommandRef, g.Command, g.Authentication = registry.TransportStdio, "", "launched", command("launched"), registry.AuthWorkloadIdentity
		})
		return &pb.ApproveLaunchRequest{ServerId: "launched", Digest: s.TargetDigest}, about[doLaunch]("launched", "")
	}},
	doEnable: {action: "set_enabled", kind: "server", name: "switched", reason: registry.ReasonServerRetired, ready: func(t *testing.T, h *house) (succeeds, refused proto.Message) {
		h.active(t, alpha, "switched", "x")
		return &pb.SetToolEnabledRequest{ToolId: "switched.x"}, &pb.SetToolEnabledRequest{ToolId: h.gone(t, "switched-gone")}
	}},
	doSwitch: {action: "set_enabled", kind: "server", name: "many", ready: func(t *testing.T, h *house) (succeeds, refused proto.Message) {
		h.active(t, alpha, "many", "x", "y")
		return &pb.SetToolsEnabledRequest{Filter: `server="many"`}, nil
	}},
	doRequire: {action: "set_requires_approval", kind: "server", name: "required", reason: registry.ReasonServerRetired, ready: func(t *testing.T, h *house) (succeeds, refused proto.Message) {
		h.active(t, alpha, "required", "x")
		return about[doRequire]("", "required.x"), about[doRequire]("", h.gone(t, "required-gone"))
	}},
	doDraft: {action: "create_descriptor", kind: "descriptor", name: "drafted", ready: func(*testing.T, *house) (succeeds, refused proto.Message) {
		return about[doDraft]("", "drafted"), nil
	}},
	doPublish: {action: "publish_descriptor", kind: "descriptor", name: "published", reason: registry.ReasonDescriptorStatus, ready: func(t *testing.T, h *house) (succeeds, refused proto.Message) {
		for range 2 {
			asks(t, h, platform, doDraft, about[doDraft]("", "published"), &pb.CreateToolDescriptorResponse{})
		}
		asks(t, h, platform, doPublish, &pb.PublishToolDescriptorRequest{DescriptorId: "published", Version: 2}, &pb.PublishToolDescriptorResponse{})
		asks(t, h, platform, doOutdate, &pb.DeprecateToolDescriptorRequest{DescriptorId: "published", Version: 2}, &pb.DeprecateToolDescriptorResponse{})
		return about[doPublish]("", "published"), &pb.PublishToolDescriptorRequest{DescriptorId: "published", Version: 2}
	}},
	doOutdate: {action: "deprecate_descriptor", kind: "descriptor", name: "outdated", ready: func(t *testing.T, h *house) (succeeds, refused proto.Message) {
		asks(t, h, platform, doDraft, about[doDraft]("", "outdated"), &pb.CreateToolDescriptorResponse{})
		asks(t, h, platform, doPublish, about[doPublish]("", "outdated"), &pb.PublishToolDescriptorResponse{})
		return about[doOutdate]("", "outdated"), nil
	}},
	doAssign: {action: "assign_tool", kind: "agent", name: "bot", ready: func(t *testing.T, h *house) (succeeds, refused proto.Message) {
		h.active(t, alpha, "assigned", "x")
		return about[doAssign]("", "assigned.x"), nil
	}},
	doUnassign: {action: "unassign_tool", kind: "agent", name: "bot-of-before", ready: func(t *testing.T, h *house) (succeeds, refused proto.Message) {
		h.active(t, alpha, "unassigned", "x")
		made := asks(t, h, platform, doAssign, &pb.CreateToolAssignmentRequest{Agent: "bot-of-before", ToolId: "unassigned.x"}, &pb.CreateToolAssignmentResponse{})
		return &pb.DeleteToolAssignmentRequest{AssignmentId: made.GetAssignment().GetAssignmentId()}, nil
	}},
	doMint: {
		action: "mint_decision_token", kind: "server", name: "minted", reason: registry.ReasonPermissionDenied, role: registry.RoleAssetMaintainer,
		ready: func(t *testing.T, h *house) (succeeds, refused proto.Message) {
			h.active(t, alpha, "minted", "x")
			return about[doMint]("minted", ""), &pb.MintDecisionTokenRequest{ServerId: "minted", Decision: pb.TokenDecision_TOKEN_DECISION_APPROVE_LAUNCH, Digest: "d"}
		},
	},
	doWithdraw: {action: "withdraw_approval", kind: "server", name: "withdrawn", reason: registry.ReasonSuperseded, ready: func(t *testing.T, h *house) (succeeds, refused proto.Message) {
		s := h.discovered(t, h.registered(t, alpha, "withdrawn"), surface("x"))
		asks(t, h, platform, doActivate, &pb.ActivateMcpServerRequest{
			ServerId: "withdrawn", Digest: s.Review.Digest, Comment: "as it is", // by one of two
			Tools: []*pb.ToolLine{{Tool: "x", Class: pb.SideEffectClass_SIDE_EFFECT_CLASS_PUBLICATION}},
		}, &pb.ActivateMcpServerResponse{})
		return &pb.WithdrawApprovalRequest{ServerId: "withdrawn", Digest: s.Review.Digest}, about[doWithdraw]("withdrawn", "")
	}},
	doRenew: {action: "renew_exception", kind: "server", name: "excepted", reason: registry.ReasonExceptionExpiry, ready: func(t *testing.T, h *house) (succeeds, refused proto.Message) {
		s := h.discovered(t, h.registered(t, alpha, "excepted", func(g *registry.Registration) {
			g.Authentication, g.ExceptionReason = registry.AuthNoneException, "a trial"
		}), surface("x"))
		asks(t, h, platform, doActivate, &pb.ActivateMcpServerRequest{
			ServerId: "excepted", Digest: s.Review.Digest, ExceptionExpireTime: timestamppb.New(time.Now().Add(time.Hour)),
			Tools: []*pb.ToolLine{{Tool: "x", Class: pb.SideEffectClass_SIDE_EFFECT_CLASS_READ}},
		}, &pb.ActivateMcpServerResponse{})
		renew := func(in time.Duration) proto.Message {
			return &pb.RenewExceptionRequest{ServerId: "excepted", ExpireTime: timestamppb.New(time.Now().Add(in)), Comment: "still a trial"}
		}
		return renew(2 * time.Hour), renew(-time.Hour)
	}},
	doConnect: {action: "create_connection", kind: "connection", name: "way", reason: registry.ReasonConnectionExists, ready: func(*testing.T, *house) (succeeds, refused proto.Message) {
		other, _ := about[doConnect]("way", "").(*pb.CreateConnectionRequest)
		other.Spec.Description = "another"
		return about[doConnect]("way", ""), other
	}},
	doReroute: {action: "edit_connection", kind: "connection", name: "rerouted", reason: registry.ReasonStaleEtag, ready: func(t *testing.T, h *house) (succeeds, refused proto.Message) {
		asks(t, h, platform, doConnect, about[doConnect]("rerouted", ""), &pb.CreateConnectionResponse{})
		stale, _ := about[doReroute]("rerouted", "").(*pb.UpdateConnectionRequest)
		stale.Etag = `"900"`
		return about[doReroute]("rerouted", ""), stale
	}},
	doCut: {action: "delete_connection", kind: "connection", name: "cut", reason: registry.ReasonStaleEtag, ready: func(t *testing.T, h *house) (succeeds, refused proto.Message) {
		asks(t, h, platform, doConnect, about[doConnect]("cut", ""), &pb.CreateConnectionResponse{})
		asks(t, h, platform, doConnect, about[doConnect]("uncut", ""), &pb.CreateConnectionResponse{})
		return about[doCut]("cut", ""), &pb.DeleteConnectionRequest{Name: "uncut", Etag: `"900"`}
	}},
	doSubscribe: {action: "create_subscription", kind: "subscription", name: "hook", reason: registry.ReasonSubscriptionExists, ready: func(t *testing.T, h *house) (succeeds, refused proto.Message) {
		other, _ := about[doSubscribe]("hook", "").(*pb.CreateSubscriptionRequest)
		other.Spec.Url = "https://other.example/hook"
		return about[doSubscribe]("hook", ""), other
	}},
	doRehook: {action: "edit_subscription", kind: "subscription", name: "rehooked", reason: registry.ReasonStaleEtag, ready: func(t *testing.T, h *house) (succeeds, refused proto.Message) {
		asks(t, h, platform, doSubscribe, about[doSubscribe]("rehooked", ""), &pb.CreateSubscriptionResponse{})
		stale, _ := about[doRehook]("rehooked", "").(*pb.UpdateSubscriptionRequest)
		stale.Etag = `"900"`
		return about[doRehook]("rehooked", ""), stale
	}},
	doUnhook: {action: "delete_subscription", kind: "subscription", name: "unhooked", reason: registry.ReasonStaleEtag, ready: func(t *testing.T, h *house) (succeeds, refused proto.Message) {
		asks(t, h, platform, doSubscribe, about[doSubscribe]("unhooked", ""), &pb.CreateSubscriptionResponse{})
		asks(t, h, platform, doSubscribe, about[doSubscribe]("hooked", ""), &pb.CreateSubscriptionResponse{})
		return about[doUnhook]("unhooked", ""), &pb.DeleteSubscriptionRequest{SubscriptionId: "hooked", Etag: `"900"`}
	}},
	doKnock: {action: "test_subscription", kind: "subscription", name: "knocked", reason: registry.ReasonInvalidArgument, ready: func(t *testing.T, h *house) (succeeds, refused proto.Message) {
		h.receives(t, "silent")
		asks(t, h, platform, doSubscribe, about[doSubscribe]("knocked", ""), &pb.CreateSubscriptionResponse{})
		return about[doKnock]("knocked", ""), about[doKnock]("silent", "")
	}},
	doReplay: {action: "replay_events", kind: "subscription", name: "replayed", reason: registry.ReasonInvalidArgument, ready: func(t *testing.T, h *house) (succeeds, refused proto.Message) {
		h.receives(t, "mute")
		asks(t, h, platform, doSubscribe, about[doSubscribe]("replayed", ""), &pb.CreateSubscriptionResponse{})
		return about[doReplay]("replayed", ""), about[doReplay]("mute", "")
	}},
	doProvide: {action: "create_provider", kind: "provider", name: "source", reason: registry.ReasonProviderExists, ready: func(*testing.T, *house) (succeeds, refused proto.Message) {
		other, _ := about[doProvide]("source", "").(*pb.CreateToolProviderRequest)
		other.Description = "another"
		return about[doProvide]("source", ""), other
	}},
	doReprovide: {action: "edit_provider", kind: "provider", name: "resourced", reason: registry.ReasonStaleEtag, ready: provided("resourced", doReprovide, "")},
	doRefresh:   {action: "refresh_provider", kind: "provider", name: "refreshed", ready: provided("refreshed", doRefresh, "")},
	doBar:       {action: "disable_provider", kind: "provider", name: "barred", reason: registry.ReasonStaleEtag, ready: provided("barred", doBar, "")},
	doAdmit:     {action: "enable_provider", kind: "provider", name: "admitted", reason: registry.ReasonStaleEtag, ready: provided("admitted", doAdmit, doBar)},
	doUnprovide: {action: "delete_provider", kind: "provider", name: "unsourced", reason: registry.ReasonStaleEtag, ready: provided("unsourced", doUnprovide, "")},
	doPolicy: {action: "publish_policy", kind: "policy", name: "trail", reason: registry.ReasonPolicyExists, ready: func(t *testing.T, h *house) (succeeds, refused proto.Message) {
		asks(t, h, platform, doPolicy, &pb.PublishPolicyRequest{Document: bundleOf("trail", 1, "")}, &pb.PublishPolicyResponse{})
		return &pb.PublishPolicyRequest{Document: bundleOf("trail", 2, "")}, &pb.PublishPolicyRequest{Document: strings.Replace(bundleOf("trail", 1, ""), "approvers: 1", "approvers: 2", 1)}
	}},
}

// receives makes a subscription that receives.
func (h *house) receives(t *testing.T, id string) {
	t.Helper()
	asks(t, h, platform, doSubscribe, &pb.CreateSubscriptionRequest{
		SubscriptionId: id, Direction: pb.SubscriptionDirection_SUBSCRIPTION_DIRECTION_RECEIVE, Spec: &pb.SubscriptionSpec{Secret: "env:PLATFORM"},
	}, &pb.CreateSubscriptionResponse{})
}

// provided makes two providers, and gives the change of one, and where it takes an
// etag that of the other with one that is none of its own.
func provided(name, procedure, before string) func(*testing.T, *house) (succeeds, refused proto.Message) {
	return func(t *testing.T, h *house) (succeeds, refused proto.Message) {
		for _, each := range []string{name, name + "-2"} {
			asks(t, h, platform, doProvide, about[doProvide](each, ""), &pb.CreateToolProviderResponse{})
		}
		if before != "" {
			asks(t, h, platform, before, about[before](name, ""), &pb.DisableToolProviderResponse{})
		}
		stale := about[procedure](name+"-2", "")
		if field := stale.ProtoReflect().Descriptor().Fields().ByName("etag"); field != nil {
			stale.ProtoReflect().Set(field, protoreflect.ValueOfString(`"900"`))
			refused = stale
		}
		return about[procedure](name, ""), refused
	}
}

// gone is the id of a tool of a server that is retired.
func (h *house) gone(t *testing.T, name string) string {
	t.Helper()
	h.changed(t, h.active(t, alpha, name, "x"), retire)
	return name + ".x"
}

// B23: every operation leaves one row that says who did what to which object, and
// what came of it: when it was done, when a rule refused it, and when somebody
// asked who may not.
func TestEveryOperationLeavesOneAuditRow(t *testing.T) {
	t.Parallel()
	h := open(t)
	// added gives what a call adds to the trail.
	added := func(call func()) []db.AuditEntry {
		t.Helper()
		before := len(h.trail(t))
		call()
		after := h.trail(t)
		return after[:len(after)-before] // the latest first
	}
	for _, procedure := range sorted(methods()) {
		md := methods()[procedure]
		options, _ := md.Options().(*descriptorpb.MethodOptions)
		o, changes := operations[procedure]
		if reads := options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS; reads || harmless[procedure] != "" {
			if changes || access[procedure].change != "" || access[procedure].decision != "" {
				t.Errorf("%s is a change and is not", procedure)
			}
			continue
		}
		if !changes {
			t.Errorf("nothing says what %s leaves in the audit", procedure)
			continue
		}
		succeeds, refused := o.ready(t, h)
		send := func(face string, role registry.Role, request proto.Message, key string) outcome {
			return ways[face](t, h, tokenOf(alpha, role), procedure, request, keyed(key))
		}
		want := func(rows []db.AuditEntry, role registry.Role, outcome string, reason registry.Reason, kind string) {
			t.Helper()
			if len(rows) != 1 {
				t.Errorf("%s leaves %d rows, %s %s: %+v", procedure, len(rows), outcome, reason, rows)
				return
			}
			r := rows[0]
			if r.Actor != strings.ToLower(string(role)) || (role != executor && !slices.Equal(r.Roles, []registry.Role{role})) || r.Action != o.action || r.ObjectKind != kind || r.Outcome != outcome ||
				r.Reason != reason || r.Origin != registry.OriginAPI || r.OperationID == "" || r.AuditID == "" || r.At.IsZero() {
				t.Errorf("%s by %s leaves %+v", procedure, role, r)
			}
			if outcome == db.AuditRefused && r.Note == "" {
				t.Errorf("%s: a refusal without words: %+v", procedure, r)
			}
		}
		for _, role := range []registry.Role{registry.RoleObserver, executor} {
			for face := range ways {
				kind := o.kind
				if procedure == doSwitch {
					kind = "tool" // of which servers was not asked yet
				}
				rows := added(func() {
					if o := send(face, role, succeeds, "denied"); o.reason != string(registry.ReasonPermissionDenied) {
						t.Errorf("%s as %s by %s comes to %+v", procedure, role, face, o)
					}
				})
				want(rows, role, db.AuditRefused, registry.ReasonPermissionDenied, kind)
				if len(rows) == 1 && rows[0].ObjectName != o.name && procedure != doSwitch && procedure != doPolicy {
					t.Errorf("%s by %s: the denial is about %q", procedure, face, rows[0].ObjectName)
				}
			}
		}
		rows := added(func() {
			if o := send("REST", platform, succeeds, "once"); o.answer == nil {
				t.Errorf("%s comes to %+v", procedure, o)
			}
		})
		want(rows, platform, db.AuditApplied, "", o.kind)
		if len(rows) == 1 && (rows[0].ObjectName != o.name || rows[0].ObjectID == "") {
			t.Errorf("%s: the row is about %q %q", procedure, rows[0].ObjectID, rows[0].ObjectName)
		}
		if refused == nil {
			continue
		}
		role := o.role
		if role == "" {
			role = platform
		}
		key := "again"
		if o.reason == registry.ReasonIdempotencyKeyReused {
			key = "once"
		}
		rows = added(func() {
			if got := send("gRPC", role, refused, key); got.reason != string(o.reason) {
				t.Errorf("%s comes to %+v, want %s", procedure, got, o.reason)
			}
		})
		want(rows, role, db.AuditRefused, o.reason, o.kind)
	}
	for procedure := range operations {
		if methods()[procedure] == nil {
			t.Errorf("%s is no RPC", procedure)
		}
	}
}

// What somebody who may nothing brings along is not kept: neither a text that
// no rule admits, nor the name of what is another tenant's.
func TestADeniedRequestWritesNothingOfItsOwn(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.active(t, beta, "theirs", "x")
	observer := tokenOf(alpha, registry.RoleObserver)
	long := good("x")
	long.Name = "=cmd|' /C calc'!A0" + string(make([]byte, 5000))
	for name, c := range map[string]struct {
		procedure string
		request   proto.Message
		rows      int
	}{
		"a name that is none":     {doRegister, long, 1},
		"an agent without a name": {doAssign, &pb.CreateToolAssignmentRequest{ToolId: "x"}, 1},
		"another tenant's server": {doUpdate, about[doUpdate]("theirs", ""), 0},
		"another tenant's tool":   {doEnable, about[doEnable]("", "theirs.x"), 0},
		"no such assignment":      {doUnassign, about[doUnassign]("", ""), 0},
	} {
		before := len(h.trail(t))
		if o := ways["gRPC"](t, h, observer, c.procedure, c.request, keyed("k")); o.reason != string(registry.ReasonPermissionDenied) {
			t.Errorf("%s comes to %+v", name, o)
		}
		rows := h.trail(t)
		if len(rows)-before != c.rows {
			t.Errorf("%s leaves %d rows", name, len(rows)-before)
		}
		if c.rows > 0 && (rows[0].ObjectName != "" || rows[0].ObjectID != "") {
			t.Errorf("%s: kept %q %q", name, rows[0].ObjectID, rows[0].ObjectName)
		}
	}
}

// trail gives all audit rows of a tenant, the latest first.
func (h *house) trail(t *testing.T) []db.AuditEntry {
	t.Helper()
	var all []db.AuditEntry
	for q := (db.AuditQuery{Page: db.Page{Size: 200}}); ; {
		page, next, err := h.db.Tenant(alpha).Audit(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, page...); next == "" {
			return all
		}
		q.After = next
	}
}
