package api

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"countersign/db"
	"countersign/policy"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// bundleOf is a bundle in which one person approves, with more rules.
func bundleOf(name string, version int, more string) string {
	return fmt.Sprintf("name: %s\nversion: %d\napproval:\n  - name: all\n    when: 'true'\n    approvers: 1\n%s", name, version, more)
}

// asks calls an RPC as somebody and wants an answer.
func asks[M proto.Message](t *testing.T, h *house, role registry.Role, procedure string, request proto.Message, answer M) M {
	t.Helper()
	o := ways["Connect JSON"](t, h, tokenOf(alpha, role), procedure, request, nil)
	if o.answer == nil {
		t.Fatalf("%s comes to %+v", procedure, o)
	}
	return into(t, o, answer)
}

// refuses calls an RPC as somebody and wants a refusal.
func refuses(t *testing.T, h *house, role registry.Role, procedure string, request proto.Message, want registry.Reason) outcome {
	t.Helper()
	o := ways["Connect JSON"](t, h, tokenOf(alpha, role), procedure, request, nil)
	if o.reason != string(want) {
		t.Fatalf("%s comes to %+v, want %s", procedure, o, want)
	}
	return o
}

const platform, asset = registry.RolePlatformAdmin, registry.RoleAssetMaintainer

func publish(t *testing.T, h *house, document string) *pb.Policy {
	t.Helper()
	return asks(t, h, platform, doPolicy, &pb.PublishPolicyRequest{Document: document}, &pb.PublishPolicyResponse{}).GetPolicy()
}

func TestOnlyGoodBundlesArePublished(t *testing.T) {
	t.Parallel()
	h := open(t)
	failing := "tests:\n  - name: two are needed\n    approval: {items: [{name: a, class: read}], approvers: [{subject: ann}]}\n    expect: {approvers: 2}\n"
	for name, c := range map[string]struct {
		document string
		want     registry.Reason
		field    string
	}{
		"not YAML":            {"name: [", registry.ReasonInvalidPolicy, ""},
		"no rules":            {"name: payments\nversion: 1\n", registry.ReasonInvalidPolicy, "approval"},
		"the built-in's name": {bundleOf("default", 2, ""), registry.ReasonInvalidPolicy, "name"},
		"a rule that is none": {bundleOf("payments", 1, "calls: [{name: x, when: now, deny: no}]\n"), registry.ReasonInvalidPolicy, "calls[0].when"},
		"a test that fails":   {bundleOf("payments", 1, failing), registry.ReasonPolicyTests, "tests[0]"},
	} {
		o := refuses(t, h, platform, doPolicy, &pb.PublishPolicyRequest{Document: c.document}, c.want)
		if !slices.ContainsFunc(o.fields, func(f string) bool { return strings.HasPrefix(f, c.field) }) {
			t.Errorf("%s: the fields are %v", name, o.fields)
		}
	}
	refuses(t, h, asset, doPolicy, &pb.PublishPolicyRequest{Document: bundleOf("payments", 1, "")}, registry.ReasonPermissionDenied)
	first := publish(t, h, bundleOf("payments", 1, ""))
	if first.GetDigest() == "" || first.GetPublishedBy() != "platformadmin" || !first.GetNewest() || first.GetRules() != 1 {
		t.Errorf("%v", first)
	}
	if again := publish(t, h, "# a comment\n"+bundleOf("payments", 1, "")); again.GetDigest() != first.GetDigest() || !again.GetPublishTime().AsTime().Equal(first.GetPublishTime().AsTime()) {
		t.Errorf("the same again is %v", again)
	}
	refuses(t, h, platform, doPolicy, &pb.PublishPolicyRequest{Document: bundleOf("payments", 1, "description: other\n")}, registry.ReasonPolicyExists)
	publish(t, h, bundleOf("payments", 2, "description: other\n"))

	list := asks(t, h, registry.RoleObserver, doBundles, &pb.ListPoliciesRequest{}, &pb.ListPoliciesResponse{})
	var got []string
	for _, p := range list.GetPolicies() {
		got = append(got, fmt.Sprintf("%s@%d %t", p.GetName(), p.GetVersion(), p.GetNewest()))
	}
	if diff := cmp.Diff([]string{"default@1 true", "payments@2 true", "payments@1 false"}, got); diff != "" || list.GetTotalSize() != 3 {
		t.Errorf("%d, %s", list.GetTotalSize(), diff)
	}
	for name, version := range map[string]int32{"payments": 2, "payments@1": 1, "default": 1, "default@1": 1} {
		p := asks(t, h, registry.RoleObserver, doBundle, &pb.GetPolicyRequest{Name: name}, &pb.GetPolicyResponse{}).GetPolicy()
		back, err := policy.Load([]byte(p.GetDocument()))
		if err != nil || p.GetVersion() != version || back.Digest() != p.GetDigest() || p.GetBuiltIn() != strings.HasPrefix(name, "default") {
			t.Errorf("%s is %v, %v", name, p, err)
		}
	}
	refuses(t, h, registry.RoleObserver, doBundle, &pb.GetPolicyRequest{Name: "payments@3"}, registry.ReasonPolicyNotFound)
	refuses(t, h, registry.RoleObserver, doBundle, &pb.GetPolicyRequest{Name: "default@9"}, registry.ReasonPolicyNotFound)
	refuses(t, h, registry.RoleObserver, doBundle, &pb.GetPolicyRequest{Name: "a b"}, registry.ReasonUnknownPolicy)
	if o := ways["gRPC"](t, h, admin(beta), doBundle, &pb.GetPolicyRequest{Name: "payments"}, nil); o.reason != string(registry.ReasonPolicyNotFound) {
		t.Errorf("another tenant sees it: %+v", o)
	}
}

func TestDocumentsAreCheckedAndTested(t *testing.T) {
	t.Parallel()
	h := open(t)
	bad := asks(t, h, registry.RoleObserver, doCheck, &pb.CheckPolicyRequest{Document: bundleOf("payments", 1, "calls:\n  - name: x\n    when: nowhere == 1\n    deny: no\n")}, &pb.CheckPolicyResponse{})
	if p := bad.GetProblems(); len(p) != 1 || p[0].GetRule() != "x" || p[0].GetPath() != "calls[0].when" || p[0].GetLine() != 9 || bad.GetPolicy() != nil {
		t.Errorf("%v", bad)
	}
	good := asks(t, h, registry.RoleObserver, doCheck, &pb.CheckPolicyRequest{Document: bundleOf("payments", 1, "")}, &pb.CheckPolicyResponse{})
	if len(good.GetProblems()) > 0 || good.GetPolicy().GetDigest() == "" {
		t.Errorf("%v", good)
	}
	more := "tests:\n  - name: one is enough\n    approval: {items: [{name: a, class: publication}], approvers: [{subject: ann}]}\n    expect: {status: approved}\n"
	tested := asks(t, h, registry.RoleObserver, doTry, &pb.TestPolicyRequest{Policy: registry.PolicyDefault, Tests: more}, &pb.TestPolicyResponse{})
	results := tested.GetResults()
	if last := results[len(results)-1]; tested.GetPassed() || last.GetPassed() || last.GetName() != "one is enough" || len(last.GetDifferences()) == 0 || !results[0].GetPassed() {
		t.Errorf("%v", tested)
	}
	if o := asks(t, h, registry.RoleObserver, doTry, &pb.TestPolicyRequest{Document: bundleOf("payments", 1, ""), Tests: more}, &pb.TestPolicyResponse{}); !o.GetPassed() {
		t.Errorf("%v", o)
	}
	for _, r := range []*pb.TestPolicyRequest{{}, {Document: "x", Policy: "default"}} {
		refuses(t, h, registry.RoleObserver, doTry, r, registry.ReasonInvalidArgument)
	}
	refuses(t, h, registry.RoleObserver, doTry, &pb.TestPolicyRequest{Policy: "none"}, registry.ReasonPolicyNotFound)
}

// Acceptance: a bundle change says what it would unbind before it does.
func TestABundleSaysWhatItWouldUnbindBeforeItDoes(t *testing.T) {
	t.Parallel()
	h := open(t)
	publish(t, h, bundleOf("payments", 1, ""))
	for _, name := range []string{"one", "two"} {
		s := h.registered(t, alpha, name, func(g *registry.Registration) {
			g.GovernancePolicyRef = map[string]string{"one": "payments", "two": "payments@1"}[name]
		})
		h.approved(t, h.discovered(t, s, surface("x", "y")), "x", "y")
	}
	strict := bundleOf("payments", 2, "  - name: two-for-x\n    when: tool.name == \"x\"\n    approvers: 2\n")
	preview := asks(t, h, asset, doPreview, &pb.PreviewPolicyRequest{Document: strict}, &pb.PreviewPolicyResponse{})
	if u := preview.GetUnbound(); preview.GetServers() != 1 || len(u) != 1 || u[0].GetServerName() != "one" || u[0].GetToolId() != "one.x" ||
		u[0].GetReason() != string(registry.ReasonPolicyChanged) || u[0].GetDetail() != "1 more approval is needed" || u[0].GetDecisionId() == "" {
		t.Fatalf("%v", preview)
	}
	resolve := func(id string) string {
		return ways["REST"](t, h, tokenOf(alpha, executor), doResolve, &pb.ResolveToolRequest{ToolId: id}, nil).get("reason")
	}
	if got := resolve("one.x"); got != "" {
		t.Fatalf("a preview did something: %s", got)
	}
	h.flows.took()
	o := refuses(t, h, platform, doPolicy, &pb.PublishPolicyRequest{Document: strict}, registry.ReasonPolicyUnbinds)
	if !strings.Contains(o.facts["unbinds"], "one: x") || len(h.flows.took()) > 0 || resolve("one.x") != "" {
		t.Errorf("%+v", o)
	}
	done := asks(t, h, platform, doPolicy, &pb.PublishPolicyRequest{Document: strict, AllowUnbinding: true}, &pb.PublishPolicyResponse{})
	if len(done.GetUnbound()) != 1 || done.GetPolicy().GetVersion() != 2 {
		t.Errorf("%v", done)
	}
	for id, want := range map[string]registry.Reason{"one.x": registry.ReasonSchemaChanged, "one.y": "", "two.x": "", "two.y": ""} {
		if got := resolve(id); got != string(want) {
			t.Errorf("%s is denied as %q, want %q", id, got, want)
		}
	}
	// A server that is put under it says the same.
	moved := asks(t, h, asset, doPreview, &pb.PreviewPolicyRequest{Policy: "payments@2", ServerId: "two"}, &pb.PreviewPolicyResponse{})
	if u := moved.GetUnbound(); len(u) != 1 || u[0].GetToolId() != "two.x" {
		t.Errorf("%v", moved)
	}
	refuses(t, h, asset, doPreview, &pb.PreviewPolicyRequest{Policy: "payments@2"}, registry.ReasonInvalidArgument)
}

// A denial by a rule, by a rule that fails, and by a bundle that is gone.
func TestCallsArePutToThePolicy(t *testing.T) {
	t.Parallel()
	h := open(t)
	rules := `calls:
  - name: nobody
    when: tool.name == "x" && agent.id == "bot"
    deny: Not by the bot.
  - name: broken
    when: tool.name == "y" && server.labels["team"] == "a"
    deny: Not for team a.
`
	published := publish(t, h, bundleOf("payments", 1, rules))
	s := h.registered(t, alpha, "there", func(g *registry.Registration) { g.GovernancePolicyRef = "payments" })
	h.approved(t, h.discovered(t, s, surface("x", "y", "z")), "x", "y", "z")
	asks(t, h, asset, doAssign, &pb.CreateToolAssignmentRequest{Agent: "bot", ToolId: "there.x"}, &pb.CreateToolAssignmentResponse{})
	ask := func(id, agent string) *pb.ResolveToolResponse {
		t.Helper()
		return asks(t, h, executor, doResolve, &pb.ResolveToolRequest{ToolId: id, Agent: agent}, &pb.ResolveToolResponse{})
	}
	if r := ask("there.x", ""); !r.GetCallable() || r.GetGovernancePolicyDigest() != published.GetDigest() || r.GetRouting().GetGovernancePolicyDigest() != published.GetDigest() {
		t.Errorf("%v", r)
	}
	if r := ask("there.x", "bot"); r.GetReason() != "policy_denied" || r.GetDetail() != "Not by the bot." || r.GetRouting() != nil || r.GetGovernancePolicyDigest() != published.GetDigest() {
		t.Errorf("%v", r)
	}
	if r := ask("there.y", ""); r.GetReason() != "policy_error" || !strings.Contains(r.GetDetail(), "broken") || r.GetRouting() != nil {
		t.Errorf("%v", r)
	}
	h.changed(t, s, func(r *registry.Record, now time.Time) error {
		return r.Edit(registry.Edit{GovernancePolicyRef: new("gone@1")}, operationOf("edit"), now)
	})
	if r := ask("there.z", ""); r.GetReason() != "policy_error" || r.GetRouting() != nil || r.GetGovernancePolicyDigest() != "" {
		t.Errorf("a bundle that is not there: %v", r)
	}
	batch := asks(t, h, executor, doBatch, &pb.BatchResolveToolsRequest{ToolIds: []string{"there.z", "there.x"}}, &pb.BatchResolveToolsResponse{})
	if batch.GetCallable() {
		t.Errorf("%v", batch)
	}
	// What was tampered with denies, too.
	other := h.active(t, alpha, "other", "z")
	h.changed(t, other, func(r *registry.Record, now time.Time) error {
		return r.Edit(registry.Edit{GovernancePolicyRef: new("forged")}, operationOf("edit"), now)
	})
	_, _, err := h.db.Tenant(alpha).PublishPolicy(t.Context(), registry.PolicyBundle{
		Name: "forged", Version: 1, Ref: "forged@1", Digest: "sha256:another", Document: []byte(bundleOf("forged", 1, "")),
	}, operationOf("publish"))
	if err != nil {
		t.Fatal(err)
	}
	if r := ask("other.z", ""); r.GetReason() != "policy_error" {
		t.Errorf("a forged bundle: %v", r)
	}
}

func TestServersGoUnderPoliciesThatThereAre(t *testing.T) {
	t.Parallel()
	h := open(t)
	publish(t, h, bundleOf("payments", 1, ""))
	for ref, ok := range map[string]bool{"payments": true, "payments@1": true, "payments@2": false, "default@1": true, "default@2": false, "none": false, "a b": false} {
		request := good("s-" + registry.BodyHash([]byte(ref))[7:20])
		request.GovernancePolicyRef = ref
		o := ways["gRPC"](t, h, admin(alpha), doRegister, request, keyed(ref))
		if (o.answer != nil) != ok || !ok && (o.reason != string(registry.ReasonInvalidArgument) || !strings.HasPrefix(strings.Join(o.fields, ""), "governance_policy_ref")) {
			t.Errorf("registered under %s: %+v", ref, o)
		}
	}
	h.active(t, alpha, "there", "x")
	for ref, ok := range map[string]bool{"payments": true, "payments@2": false} {
		o := ways["gRPC"](t, h, admin(alpha), doUpdate, &pb.UpdateMcpServerRequest{
			ServerId: "there", Server: &pb.ServerPatch{GovernancePolicyRef: ref}, UpdateMask: mask("governance_policy_ref"),
		}, nil)
		if (o.answer != nil) != ok || !ok && !strings.HasPrefix(strings.Join(o.fields, ""), "governance_policy_ref") {
			t.Errorf("put under %s: %+v", ref, o)
		}
	}
}

// N of M, through the API: each sees where it stands.
func TestAPublicationNeedsTwoPeople(t *testing.T) {
	t.Parallel()
	h := open(t)
	s := h.discovered(t, h.registered(t, alpha, "there"), surface("x"))
	request := &pb.ActivateMcpServerRequest{ServerId: "there", Digest: s.Review.Digest, Tools: []*pb.ToolLine{{
		Tool: "x", Class: pb.SideEffectClass_SIDE_EFFECT_CLASS_PUBLICATION, Enable: true,
	}}}
	first := asks(t, h, asset, doActivate, request, &pb.ActivateMcpServerResponse{}).GetServer()
	if r := first.GetReview(); first.GetState() != pb.McpServerState_MCP_SERVER_STATE_VERIFIED || r.GetPeopleMissing() != 1 || len(r.GetVotes()) != 1 ||
		r.GetStanding() != "1 more approval is needed, 1 by a PlatformAdmin, not by seed" || r.GetVotes()[0].GetSubject() != "assetmaintainer" {
		t.Fatalf("%v", r)
	}
	version := first.GetVersion()
	if again := asks(t, h, asset, doActivate, request, &pb.ActivateMcpServerResponse{}).GetServer(); again.GetVersion() != version {
		t.Errorf("the same approval again moves the version to %d", again.GetVersion())
	}
	second := asks(t, h, platform, doActivate, request, &pb.ActivateMcpServerResponse{}).GetServer()
	if r := second.GetReview(); second.GetState() != pb.McpServerState_MCP_SERVER_STATE_ACTIVE || len(r.GetVotes()) != 2 || r.GetPeopleMissing() != 0 {
		t.Fatalf("%v", r)
	}
	tool := asks(t, h, asset, doTool, &pb.GetToolRequest{ToolId: "there.x"}, &pb.GetToolResponse{}).GetTool()
	if end := tool.GetApprovalEndTime().AsTime(); !end.Equal(tool.GetApprovalDueTime().AsTime()) || time.Until(end) < 179*24*time.Hour {
		t.Errorf("the approval ends at %s", end)
	}
	list := asks(t, h, registry.RoleObserver, doExpiring, &pb.ListExpiringRequest{}, &pb.ListExpiringResponse{})
	if e := list.GetExpiring(); len(e) != 1 || e[0].GetKind() != db.ExpiringApproval || e[0].GetBound() != 1 || e[0].GetBy() != "platformadmin" {
		t.Errorf("%v", e)
	}
	if soon := asks(t, h, registry.RoleObserver, doExpiring, &pb.ListExpiringRequest{Within: durationpb.New(time.Hour)}, &pb.ListExpiringResponse{}); len(soon.GetExpiring()) > 0 {
		t.Errorf("%v", soon)
	}
}

func TestFiftyDecisionsAtOnceHaveOneOutcomeAndAnAuditRowEach(t *testing.T) {
	t.Parallel()
	h := open(t)
	s := h.discovered(t, h.registered(t, alpha, "there"), surface("x"))
	var wg sync.WaitGroup
	for n := range 50 {
		wg.Go(func() {
			who := []registry.Role{asset, platform}[n%2]
			var request proto.Message = &pb.ActivateMcpServerRequest{ServerId: "there", Digest: s.Review.Digest, Tools: []*pb.ToolLine{{
				Tool: "x", Class: pb.SideEffectClass_SIDE_EFFECT_CLASS_READ, Enable: true,
			}}}
			procedure := doActivate
			if n%5 == 4 {
				procedure, request = doReject, &pb.RejectMcpServerRequest{ServerId: "there", Digest: s.Review.Digest, Comment: "no"}
			}
			o := ways["gRPC"](t, h, tokenOf(alpha, who), procedure, request, nil)
			if o.answer == nil && o.reason != string(registry.ReasonAlreadyDecided) {
				t.Errorf("%+v", o)
			}
		})
	}
	wg.Wait()
	decisions, err := h.db.Tenant(alpha).Decisions(t.Context(), s.ServerID)
	if err != nil {
		t.Fatal(err)
	}
	applied := 0
	for _, d := range decisions {
		if d.Applied {
			applied++
		}
	}
	if rows := len(h.audits(t, alpha, "approve")) + len(h.audits(t, alpha, "reject")); applied != 1 || rows != 50 {
		t.Errorf("%d outcomes, %d audit rows", applied, rows)
	}
}

func TestADecisionTokenIsForWhoMayTakeTheDecision(t *testing.T) {
	t.Parallel()
	h := open(t)
	s := h.discovered(t, h.registered(t, alpha, "there"), surface("x"))
	for _, c := range []struct {
		decision pb.TokenDecision
		role     registry.Role
		ok       bool
	}{
		{pb.TokenDecision_TOKEN_DECISION_APPROVE, asset, true},
		{pb.TokenDecision_TOKEN_DECISION_REJECT, platform, true},
		{pb.TokenDecision_TOKEN_DECISION_APPROVE, registry.RoleOperator, false},
		{pb.TokenDecision_TOKEN_DECISION_APPROVE_LAUNCH, asset, false},
		{pb.TokenDecision_TOKEN_DECISION_APPROVE_LAUNCH, platform, true},
	} {
		request := &pb.MintDecisionTokenRequest{ServerId: "there", Decision: c.decision, Digest: s.Review.Digest, Ttl: durationpb.New(time.Hour)}
		if !c.ok {
			refuses(t, h, c.role, doMint, request, registry.ReasonPermissionDenied)
			continue
		}
		k := asks(t, h, c.role, doMint, request, &pb.MintDecisionTokenResponse{})
		if !strings.HasPrefix(k.GetToken(), tokenPrefix) || len(k.GetToken()) < 40 || time.Until(k.GetExpireTime().AsTime()) > time.Hour+time.Minute {
			t.Errorf("%v", k)
		}
		if strings.Contains(h.logs.String(), k.GetToken()) {
			t.Error("the token is in the log")
		}
	}
	rows := h.audits(t, alpha, "mint_decision_token") // three were minted, two refused
	if len(rows) != 5 || strings.Contains(rows[0].Note, tokenPrefix) {
		t.Errorf("%+v", rows)
	}
}

func TestRenewalsObeyTheInstallation(t *testing.T) {
	t.Parallel()
	request := func(until time.Duration) *pb.RenewExceptionRequest {
		return &pb.RenewExceptionRequest{ServerId: "there", ExpireTime: timestamppb.New(time.Now().Add(until)), Comment: "still a trial"}
	}
	closed := open(t, func(o *Options) { o.Installation.AllowNoneExceptions = false })
	refuses(t, closed, platform, doRenew, request(time.Hour), registry.ReasonNoneExceptionForbidden)
	h := open(t)
	s := h.registered(t, alpha, "there", func(g *registry.Registration) {
		g.Authentication, g.ExceptionReason = registry.AuthNoneException, "a trial"
	})
	s = h.discovered(t, s, surface("x"))
	asks(t, h, platform, doActivate, &pb.ActivateMcpServerRequest{
		ServerId: "there", Digest: s.Review.Digest, ExceptionExpireTime: timestamppb.New(time.Now().Add(time.Hour)),
		Tools: []*pb.ToolLine{{Tool: "x", Class: pb.SideEffectClass_SIDE_EFFECT_CLASS_READ}},
	}, &pb.ActivateMcpServerResponse{})
	refuses(t, h, asset, doRenew, request(2*time.Hour), registry.ReasonPermissionDenied)
	refuses(t, h, platform, doRenew, request(-time.Hour), registry.ReasonExceptionExpiry)
	renewed := asks(t, h, platform, doRenew, request(2*time.Hour), &pb.RenewExceptionResponse{}).GetServer()
	if end := renewed.GetAuthenticationException().GetExpireTime().AsTime(); time.Until(end) < 90*time.Minute {
		t.Errorf("it ends at %s", end)
	}
	if rows := h.audits(t, alpha, "renew_exception"); len(rows) != 3 {
		t.Errorf("%d audit rows", len(rows))
	}
}
