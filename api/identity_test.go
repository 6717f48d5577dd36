package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"countersign/db"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// about makes, for each RPC, a request that is valid when ref is a server and
// toolID a tool of it. An RPC that is missing here fails the tests below.
var about = map[string]func(ref, toolID string) proto.Message{
	doRegister: func(ref, _ string) proto.Message { return good(ref) },
	doGet:      func(ref, _ string) proto.Message { return &pb.GetMcpServerRequest{ServerId: ref} },
	doList: func(ref, _ string) proto.Message {
		return &pb.ListMcpServersRequest{Filter: `name="` + ref + `"`, ShowRetired: true}
	},
	doUpdate: func(ref, _ string) proto.Message {
		return &pb.UpdateMcpServerRequest{ServerId: ref, Server: &pb.ServerPatch{Description: "x"}, UpdateMask: mask("description")}
	},
	doDiscover: func(ref, _ string) proto.Message { return &pb.DiscoverMcpCapabilitiesRequest{ServerId: ref} },
	doTest:     func(ref, _ string) proto.Message { return &pb.TestMcpServerRequest{ServerId: ref} },
	doShow:     func(ref, _ string) proto.Message { return &pb.GetMcpCapabilitiesRequest{ServerId: ref} },
	doReport:   func(ref, _ string) proto.Message { return &pb.GetCapabilityReportRequest{ServerId: ref} },
	doInspect:  func(ref, _ string) proto.Message { return &pb.GetReviewRequest{ServerId: ref} },
	doDiff:     func(ref, _ string) proto.Message { return &pb.GetDiffRequest{ServerId: ref} },
	doHealth:   func(ref, _ string) proto.Message { return &pb.GetMcpServerHealthRequest{ServerId: ref} },
	doFleet:    func(string, string) proto.Message { return &pb.GetFleetHealthRequest{} },
	doProbes:   func(ref, _ string) proto.Message { return &pb.ListProbesRequest{ServerId: ref} },
	doPast:     func(ref, _ string) proto.Message { return &pb.ListSnapshotsRequest{ServerId: ref} },
	doDecided:  func(ref, _ string) proto.Message { return &pb.ListDecisionsRequest{ServerId: ref, ShowLines: true} },
	doActivate: func(ref, _ string) proto.Message {
		return &pb.ActivateMcpServerRequest{ServerId: ref, Digest: "d", Empty: true}
	},
	doReject: func(ref, _ string) proto.Message {
		return &pb.RejectMcpServerRequest{ServerId: ref, Digest: "d", Comment: "no"}
	},
	doReview: func(ref, _ string) proto.Message { return &pb.RequestReviewRequest{ServerId: ref} },
	doIsolate: func(ref, _ string) proto.Message {
		return &pb.QuarantineMcpServerRequest{ServerId: ref, Comment: "looks wrong"}
	},
	doLaunch: func(ref, _ string) proto.Message { return &pb.ApproveLaunchRequest{ServerId: ref, Digest: "d"} },
	doRetire: func(ref, _ string) proto.Message { return &pb.RetireMcpServerRequest{ServerId: ref} },
	doRuns:   func(ref, _ string) proto.Message { return &pb.ListMcpServerRunsRequest{ServerId: ref} },
	doTools: func(ref, _ string) proto.Message {
		return &pb.ListToolsRequest{Filter: `server="` + ref + `"`, ShowRetired: true}
	},
	doTool:   func(_, toolID string) proto.Message { return &pb.GetToolRequest{ToolId: toolID} },
	doEnable: func(_, toolID string) proto.Message { return &pb.SetToolEnabledRequest{ToolId: toolID, Enabled: true} },
	doImpact: func(ref, _ string) proto.Message { return &pb.GetToolImpactRequest{Filter: `server="` + ref + `"`} },
	doFacets: func(ref, _ string) proto.Message {
		return &pb.ListToolFacetsRequest{Filter: `server="` + ref + `"`, ShowRetired: true}
	},
	doSwitch: func(ref, _ string) proto.Message {
		return &pb.SetToolsEnabledRequest{Filter: `server="` + ref + `"`, Enabled: true}
	},
	doRequire: func(_, toolID string) proto.Message {
		return &pb.SetToolRequiresApprovalRequest{ToolId: toolID, RequiresApproval: true}
	},
	doDraft: func(_, toolID string) proto.Message {
		return &pb.CreateToolDescriptorRequest{DescriptorId: toolID, Class: pb.SideEffectClass_SIDE_EFFECT_CLASS_READ}
	},
	doVersion:  func(_, toolID string) proto.Message { return &pb.GetToolDescriptorRequest{DescriptorId: toolID} },
	doVersions: func(string, string) proto.Message { return &pb.ListToolDescriptorsRequest{Filter: "status = draft"} },
	doPublish: func(_, toolID string) proto.Message {
		return &pb.PublishToolDescriptorRequest{DescriptorId: toolID, Version: 1}
	},
	doOutdate: func(_, toolID string) proto.Message {
		return &pb.DeprecateToolDescriptorRequest{DescriptorId: toolID, Version: 1}
	},
	doAssign: func(_, toolID string) proto.Message {
		return &pb.CreateToolAssignmentRequest{Agent: "bot", ToolId: toolID}
	},
	doUnassign: func(string, string) proto.Message { return &pb.DeleteToolAssignmentRequest{AssignmentId: "asg_none"} },
	doAssigned: func(_, toolID string) proto.Message {
		return &pb.ListToolAssignmentsRequest{Filter: `tool_id="` + toolID + `"`}
	},
	doResolve: func(_, toolID string) proto.Message { return &pb.ResolveToolRequest{ToolId: toolID} },
	doBatch:   func(_, toolID string) proto.Message { return &pb.BatchResolveToolsRequest{ToolIds: []string{toolID}} },
	doExplain: func(_, toolID string) proto.Message { return &pb.ExplainToolRequest{ToolId: toolID} },
	doOffer:   func(string, string) proto.Message { return &pb.ListCapabilitiesRequest{} },
	doMint: func(ref, _ string) proto.Message {
		return &pb.MintDecisionTokenRequest{ServerId: ref, Decision: pb.TokenDecision_TOKEN_DECISION_REJECT, Digest: "d"}
	},
	doInbox: func(ref, _ string) proto.Message {
		return &pb.ListApprovalsRequest{Filter: `server="` + ref + `"`}
	},
	doAsked: func(ref, _ string) proto.Message { return &pb.GetApprovalRequest{ServerId: ref} },
	doWithdraw: func(ref, _ string) proto.Message {
		return &pb.WithdrawApprovalRequest{ServerId: ref, Digest: "d"}
	},
	doRenew: func(ref, _ string) proto.Message {
		return &pb.RenewExceptionRequest{ServerId: ref, ExpireTime: timestamppb.New(time.Now().Add(time.Hour)), Comment: "still a trial"}
	},
	doExpiring: func(string, string) proto.Message { return &pb.ListExpiringRequest{} },
	doPolicy: func(string, string) proto.Message {
		return &pb.PublishPolicyRequest{Document: bundleOf("payments", 1, "")}
	},
	doBundle:  func(string, string) proto.Message { return &pb.GetPolicyRequest{Name: registry.PolicyDefault} },
	doBundles: func(string, string) proto.Message { return &pb.ListPoliciesRequest{} },
	doCheck: func(string, string) proto.Message {
		return &pb.CheckPolicyRequest{Document: bundleOf("payments", 1, "")}
	},
	doTry: func(string, string) proto.Message { return &pb.TestPolicyRequest{Policy: registry.PolicyDefault} },
	doPreview: func(ref, _ string) proto.Message {
		return &pb.PreviewPolicyRequest{Policy: registry.PolicyDefault, ServerId: ref}
	},
	doConnect: func(ref, _ string) proto.Message {
		return &pb.CreateConnectionRequest{Name: ref, Spec: &pb.ConnectionSpec{BaseUrl: "https://" + ref + ".example/mcp"}}
	},
	doWay:    func(ref, _ string) proto.Message { return &pb.GetConnectionRequest{Name: ref} },
	doWays:   func(string, string) proto.Message { return &pb.ListConnectionsRequest{} },
	doFormer: func(ref, _ string) proto.Message { return &pb.ListConnectionVersionsRequest{Name: ref} },
	doReroute: func(ref, _ string) proto.Message {
		return &pb.UpdateConnectionRequest{Name: ref, Spec: &pb.ConnectionSpec{Description: "x"}, UpdateMask: mask("description")}
	},
	doCut:  func(ref, _ string) proto.Message { return &pb.DeleteConnectionRequest{Name: ref} },
	doDial: func(ref, _ string) proto.Message { return &pb.TestConnectionRequest{Name: ref} },
	doSubscribe: func(ref, _ string) proto.Message {
		return &pb.CreateSubscriptionRequest{
			SubscriptionId: ref, Direction: pb.SubscriptionDirection_SUBSCRIPTION_DIRECTION_SEND,
			Spec: &pb.SubscriptionSpec{Url: "https://" + ref + ".example/hook", Secret: "env:HOOK"},
		}
	},
	doHook:  func(ref, _ string) proto.Message { return &pb.GetSubscriptionRequest{SubscriptionId: ref} },
	doHooks: func(string, string) proto.Message { return &pb.ListSubscriptionsRequest{} },
	doRehook: func(ref, _ string) proto.Message {
		return &pb.UpdateSubscriptionRequest{SubscriptionId: ref, Spec: &pb.SubscriptionSpec{Description: "x"}, UpdateMask: mask("description")}
	},
	doUnhook:     func(ref, _ string) proto.Message { return &pb.DeleteSubscriptionRequest{SubscriptionId: ref} },
	doKnock:      func(ref, _ string) proto.Message { return &pb.TestSubscriptionRequest{SubscriptionId: ref} },
	doDeliveries: func(ref, _ string) proto.Message { return &pb.ListDeliveriesRequest{SubscriptionId: ref} },
	doReplay:     func(ref, _ string) proto.Message { return &pb.ReplayEventsRequest{SubscriptionId: ref, Dead: true} },
	doTrail:      func(ref, _ string) proto.Message { return &pb.ListAuditEventsRequest{Object: ref} },
	doEvent:      func(string, string) proto.Message { return &pb.GetAuditEventRequest{AuditId: "none"} },
	doExport:     func(ref, _ string) proto.Message { return &pb.ExportAuditEventsRequest{Object: ref} },
	doVerify:     func(string, string) proto.Message { return &pb.VerifyAuditRequest{} },
	doMarks:      func(string, string) proto.Message { return &pb.ListAuditCheckpointsRequest{} },
	doKeys:       func(string, string) proto.Message { return &pb.GetAuditKeysRequest{} },
	doRuntime:    func(string, string) proto.Message { return &pb.GetInstallationRequest{} },
	doExamine:    func(string, string) proto.Message { return &pb.ExamineInstallationRequest{} },
	doWhoAmI:     func(string, string) proto.Message { return &pb.WhoAmIRequest{} },
	doProvide: func(ref, _ string) proto.Message {
		return &pb.CreateToolProviderRequest{Name: ref, Config: &pb.CreateToolProviderRequest_Aep{Aep: extensionOf(ref)}}
	},
	doProvider:  func(ref, _ string) proto.Message { return &pb.GetToolProviderRequest{Name: ref} },
	doProviders: func(string, string) proto.Message { return &pb.ListToolProvidersRequest{} },
	doReprovide: func(ref, _ string) proto.Message {
		return &pb.UpdateToolProviderRequest{Name: ref, Description: "x", UpdateMask: mask("description")}
	},
	doSound: func(ref, _ string) proto.Message { return &pb.TestToolProviderRequest{Name: ref} },
	doRefresh: func(ref, _ string) proto.Message {
		return &pb.RefreshToolProviderRequest{Name: ref, Wait: durationpb.New(0)}
	},
	doAdmit:     func(ref, _ string) proto.Message { return &pb.EnableToolProviderRequest{Name: ref} },
	doBar:       func(ref, _ string) proto.Message { return &pb.DisableToolProviderRequest{Name: ref} },
	doUnprovide: func(ref, _ string) proto.Message { return &pb.DeleteToolProviderRequest{Name: ref} },
}

// credential makes the token of a role in a tenant.
type credential func(tenant string, role registry.Role) string

func (c credential) admin(tenant string) string { return c(tenant, registry.RolePlatformAdmin) }

// eachCredential runs a test for each kind of token that there is.
func eachCredential(t *testing.T, test func(t *testing.T, h *house, token credential)) {
	t.Helper()
	t.Run("by a token of the file", func(t *testing.T) {
		t.Parallel()
		test(t, open(t), tokenOf)
	})
	t.Run("by a token of an issuer", func(t *testing.T) {
		t.Parallel()
		h := open(t)
		test(t, h, h.issuer.token)
	})
}

// B17: no token, no entry, on every RPC of every face.
func TestNoTokenNoEntry(t *testing.T) {
	t.Parallel()
	h := open(t)
	s := h.active(t, alpha, "there", "x")
	strangers := map[string]string{
		"none": "", "a random one": "0123456789abcdef0123456789abcdef", "part of one": admin(alpha)[:20],
		"a JWT of nobody": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiIsInRlbmFudCI6ImFscGhhIn0.",
	}
	for name, bad := range badTokens {
		strangers[name] = bad(h.issuer)
	}
	for _, procedure := range sorted(methods()) {
		if about[procedure] == nil {
			t.Errorf("no request is known for %s", procedure)
			continue
		}
		for face, send := range ways {
			for name, token := range strangers {
				o := send(t, h, token, procedure, about[procedure](s.ServerID, "there.x"), keyed("k"))
				if o.answer != nil || o.code != "unauthenticated" || o.reason != "unauthenticated" || o.status != 0 && o.status != http.StatusUnauthorized {
					t.Errorf("%s with %s by %s comes to %+v", procedure, name, face, o)
				}
				if o.header.Get("WWW-Authenticate") != `Bearer realm="countersign"` {
					t.Errorf("%s with %s by %s: the challenge is %q", procedure, name, face, o.header.Get("WWW-Authenticate"))
				}
			}
		}
	}
	for _, path := range []string{"/", "/factory", "/factory/nope", "/metrics", "/debug/pprof/", doGet + "?connect=v1&encoding=json&message=%7B%7D", "/livez/x"} {
		if status, _, body := h.call(t, http.MethodGet, path, "", "", nil); status != http.StatusUnauthorized {
			t.Errorf("%s answers %d: %s", path, status, body)
		}
	}
	for name, token := range strangers {
		stream := grpcreflect.NewClient(bringing{overHTTP2, token}, h.url).NewStream(t.Context())
		if names, err := stream.ListServices(); err == nil {
			t.Errorf("with %s the stream of reflection shows %v", name, names)
		}
	}
	if asked := h.flows.took(); len(asked) > 0 {
		t.Errorf("the workflows were asked to %v", asked)
	}
}

func TestWhatIsOpenToEverybody(t *testing.T) {
	t.Parallel()
	h := open(t, func(o *Options) {
		o.Open = map[string]http.Handler{"/ours/": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte("{}"))
		})}
	})
	if status, _, _ := h.call(t, http.MethodGet, "/our", "", "", nil); status != http.StatusUnauthorized {
		t.Errorf("what is beside it answers %d", status)
	}
	for path, kind := range map[string]string{
		"/ours/keys": "application/json",
		"/livez":     "text/plain; charset=utf-8", "/readyz": "text/plain; charset=utf-8", "/readyz?verbose": "application/json", "/openapi.json": "application/json",
		"/asyncapi.json": "application/json", "/schemas/events/tool-execution.mcp-servers.v1.mcp-server-registered.schema.json": "application/json",
	} {
		status, header, body := h.call(t, http.MethodGet, path, "", "", nil)
		if status != http.StatusOK || header.Get("Content-Type") != kind || body == "" {
			t.Errorf("%s answers %d %s", path, status, header.Get("Content-Type"))
		}
	}
	response, err := grpchealth.NewClient(overHTTP2, h.url).Check(t.Context(), &grpchealth.CheckRequest{})
	if err != nil || response.Status != grpchealth.StatusServing {
		t.Errorf("health says %v, %v", response, err)
	}
}

// The table of permissions holds on every face.
func TestRolesHoldOnEveryFace(t *testing.T) {
	t.Parallel()
	eachCredential(t, func(t *testing.T, h *house, token credential) {
		h.active(t, alpha, "there", "x")
		for face, send := range ways {
			for role, procedures := range map[registry.Role][]string{
				registry.RoleObserver:        {doRegister, doUpdate, doDiscover, doTest, doActivate, doReject, doReview, doRetire, doEnable, doResolve, doBatch, doOffer},
				registry.RoleAuditor:         {doRegister, doActivate, doResolve},
				registry.RoleOperator:        {doRegister, doUpdate, doActivate, doReject, doReview, doRetire, doEnable, doResolve},
				registry.RoleAssetMaintainer: {doResolve, doBatch, doOffer},
				executor:                     {doGet, doList, doRegister, doActivate, doTools, doTool},
			} {
				for _, procedure := range procedures {
					o := send(t, h, token(alpha, role), procedure, about[procedure]("there", "there.x"), keyed("k"))
					if o.answer != nil || o.code != "permission_denied" || o.reason != "permission_denied" || o.status != 0 && o.status != http.StatusForbidden {
						t.Errorf("%s as %s by %s comes to %+v", procedure, role, face, o)
					}
				}
			}
			for role, procedures := range map[registry.Role][]string{
				registry.RoleObserver: {doGet, doList, doShow, doRuns, doTools, doTool, doInspect, doDiff, doPast, doDecided, doHealth, doFleet, doProbes}, executor: {doResolve, doBatch, doOffer},
				registry.RoleOperator: {doTest},
			} {
				for _, procedure := range procedures {
					if o := send(t, h, token(alpha, role), procedure, about[procedure]("there", "there.x"), nil); o.answer == nil {
						t.Errorf("%s as %s by %s comes to %+v", procedure, role, face, o)
					}
				}
			}
		}
	})
}

// H24: what is another tenant's is not there: the same answer as for what
// nobody has, byte for byte, on every RPC, by id and by name.
func TestAnotherTenantsIsNotThere(t *testing.T) {
	t.Parallel()
	eachCredential(t, func(t *testing.T, h *house, token credential) {
		tenants := map[string]registry.Server{alpha: h.active(t, alpha, "one-of-a", "x"), beta: h.active(t, beta, "one-of-b", "x")}
		old := h.active(t, alpha, "old", "x")
		h.changed(t, old, retire)
		// As long as the true ones, so that the answers can be compared.
		nobodys := map[string]string{"id": registry.ServerID(strings.Repeat("f", 32)), "name": "one-of-n"}
		for _, procedure := range sorted(methods()) {
			for face, send := range ways {
				for mine, theirs := range map[string]registry.Server{alpha: tenants[beta], beta: tenants[alpha]} {
					for by, ref := range map[string]string{"id": theirs.ServerID, "name": theirs.Name} {
						if procedure == doRegister || procedure == doDraft || procedure == doPolicy || procedure == doConnect || procedure == doSubscribe || procedure == doProvide {
							continue // below: what is theirs is free
						}
						ask := func(ref, tool string) string {
							o := send(t, h, token.admin(mine), procedure, about[procedure](ref, tool), keyed("k"))
							if o.answer == nil && o.code != "not_found" {
								t.Errorf("%s of %s by %s, %s: %+v", procedure, theirs.TenantID, by, face, o)
							}
							if o.raw == "" && o.answer != nil {
								o.raw = o.answer.String()
							}
							all := o.code + o.reason + o.message + strings.Join(o.fields, "") + o.raw
							if strings.Contains(all, theirs.ServerID) && by != "id" || strings.Contains(all, "tenant:"+theirs.TenantID) {
								t.Errorf("%s of %s by %s, %s shows %s", procedure, theirs.TenantID, by, face, all)
							}
							return strings.NewReplacer(ref, "REF", tool, "TOOL").Replace(all)
						}
						got, want := ask(ref, theirs.Name+".x"), ask(nobodys[by], "one-of-n.x")
						if diff := cmp.Diff(want, got); diff != "" {
							t.Errorf("%s of %s by %s, %s is told from what nobody has: %s", procedure, theirs.TenantID, by, face, diff)
						}
					}
				}
			}
		}
		if asked := h.flows.took(); len(asked) > 0 {
			t.Errorf("the workflows were asked to %v", asked)
		}
		for tenant, own := range map[string]int32{alpha: 2, beta: 1} {
			o := ways["Connect JSON"](t, h, token.admin(tenant), doList, &pb.ListMcpServersRequest{ShowRetired: true}, nil)
			all := into(t, o, &pb.ListMcpServersResponse{})
			if all.GetTotalSize() != own || len(all.GetServers()) != int(own) {
				t.Errorf("%s sees %d servers of %d", tenant, len(all.GetServers()), all.GetTotalSize())
			}
			for _, s := range all.GetServers() {
				if s.GetTenantId() != tenant {
					t.Errorf("%s sees a server of %s", tenant, s.GetTenantId())
				}
			}
		}
		for tenant := range tenants {
			if rows := h.audits(t, tenant, "approve"); len(rows) != 0 {
				t.Errorf("%s has %d audit rows of what was not there", tenant, len(rows))
			}
		}
	})
}

// A page token of one tenant is none of the other's.
func TestPageTokensDoNotCrossTenants(t *testing.T) {
	t.Parallel()
	eachCredential(t, func(t *testing.T, h *house, token credential) {
		for _, name := range []string{"a", "b", "c"} {
			h.active(t, alpha, name, "x")
			h.active(t, beta, name, "x")
		}
		for name, c := range map[string]struct {
			procedure string
			first     proto.Message
			again     func(page string) proto.Message
		}{
			"servers": {doList, &pb.ListMcpServersRequest{PageSize: 1}, func(page string) proto.Message { return &pb.ListMcpServersRequest{PageSize: 1, PageToken: page} }},
			"tools":   {doTools, &pb.ListToolsRequest{PageSize: 1}, func(page string) proto.Message { return &pb.ListToolsRequest{PageSize: 1, PageToken: page} }},
		} {
			send := ways["Connect JSON"]
			next := send(t, h, token.admin(alpha), c.procedure, c.first, nil).get("next_page_token")
			if next == "" {
				t.Fatalf("%s have one page only", name)
			}
			if o := send(t, h, token.admin(alpha), c.procedure, c.again(next), nil); o.answer == nil {
				t.Errorf("%s: the tenant's own token comes to %+v", name, o)
			}
			if o := send(t, h, token.admin(beta), c.procedure, c.again(next), nil); o.reason != string(registry.ReasonInvalidPageToken) {
				t.Errorf("%s: the other tenant's token comes to %+v", name, o)
			}
		}
	})
}

// H3: a name is a tenant's own.
func TestTwoTenantsHaveServersOfOneName(t *testing.T) {
	t.Parallel()
	eachCredential(t, func(t *testing.T, h *house, token credential) {
		send := ways["REST"]
		request := good("github")
		request.EndpointUrl = "https://127.0.0.1:9001/mcp"
		ids := map[string]string{}
		for _, tenant := range []string{alpha, beta} {
			o := send(t, h, token.admin(tenant), doRegister, request, keyed("one-key"))
			if o.answer == nil {
				t.Fatalf("%s: %+v", tenant, o)
			}
			ids[tenant] = o.get("server.server_id")
		}
		if ids[alpha] == ids[beta] {
			t.Error("both have one id")
		}
		for tenant, id := range ids {
			if got := send(t, h, token.admin(tenant), doGet, &pb.GetMcpServerRequest{ServerId: "github"}, nil).get("server.server_id"); got != id {
				t.Errorf("%s gets %s by name", tenant, got)
			}
		}
		o := send(t, h, token.admin(alpha), doRegister, request, keyed("another-key"))
		if o.status != http.StatusConflict || o.reason != string(registry.ReasonServerExists) || o.facts["server_id"] != ids[alpha] {
			t.Errorf("a second one of the name comes to %+v", o)
		}
		if strings.Contains(o.raw, ids[beta]) || strings.Contains(o.raw, beta) {
			t.Errorf("it tells of the other tenant: %s", o.raw)
		}
	})
}

// Refused decisions leave an audit row, whoever refused them (R122).
func TestRefusedDecisionsAreAudited(t *testing.T) {
	t.Parallel()
	eachCredential(t, func(t *testing.T, h *house, token credential) {
		s := h.active(t, alpha, "there", "x")
		for face, send := range ways {
			for action, c := range map[string]struct {
				procedure string
				request   proto.Message
				role      registry.Role
				reason    registry.Reason
			}{
				"approve":        {doActivate, about[doActivate]("there", ""), registry.RoleObserver, registry.ReasonPermissionDenied},
				"reject":         {doReject, &pb.RejectMcpServerRequest{ServerId: s.ServerID, Digest: "d"}, registry.RolePlatformAdmin, registry.ReasonInvalidArgument},
				"request_review": {doReview, about[doReview](s.ServerID, ""), registry.RoleOperator, registry.ReasonPermissionDenied},
				"retire":         {doRetire, about[doRetire]("there", ""), executor, registry.ReasonPermissionDenied},
			} {
				before := len(h.audits(t, alpha, action))
				send(t, h, token(alpha, c.role), c.procedure, c.request, nil)
				rows := h.audits(t, alpha, action)
				if len(rows) != before+1 {
					t.Fatalf("%s by %s leaves %d rows", action, face, len(rows)-before)
				}
				for _, row := range rows {
					if row.Outcome != db.AuditRefused || row.Reason != c.reason || row.ObjectID != s.ServerID || row.Actor != strings.ToLower(string(c.role)) {
						t.Errorf("%s by %s leaves %+v", action, face, row)
					}
				}
			}
		}
		// What the change itself refuses is recorded there, and once.
		before := len(h.audits(t, alpha, "reject"))
		o := ways["gRPC"](t, h, token.admin(alpha), doReject, about[doReject]("there", ""), nil)
		rows := h.audits(t, alpha, "reject")
		if o.reason != string(registry.ReasonSuperseded) || len(rows) != before+1 {
			t.Errorf("a superseded rejection comes to %+v and leaves %d rows", o, len(rows)-before)
		}
	})
}

// Who one is, and what one may call, is said on every face, to everybody with a
// token.
func TestEverybodyMayAskWhoTheyAre(t *testing.T) {
	t.Parallel()
	eachCredential(t, func(t *testing.T, h *house, token credential) {
		for face, send := range ways {
			for role, may := range map[registry.Role]struct {
				scopes      []string
				has, lacks  string
				permissions int
			}{
				registry.RoleObserver: {[]string{"factory.tools.read"}, "McpServerService/GetMcpServer", "McpServerService/RegisterMcpServer", 0},
				executor:              {[]string{"factory.tools.internal"}, "McpRegistryService/ResolveTool", "McpServerService/GetMcpServer", 6},
				registry.RolePlatformAdmin: {
					[]string{"factory.tools.read", "factory.tools.admin", "factory.tools.internal"}, "McpServerService/ApproveLaunch", "Nothing/Nothing", len(access),
				},
			} {
				who := into(t, send(t, h, token(alpha, role), doWhoAmI, &pb.WhoAmIRequest{}, nil), &pb.WhoAmIResponse{})
				if who.GetTenant() != alpha || who.GetSubject() != strings.ToLower(string(role)) || !cmp.Equal(who.GetScopes(), may.scopes) {
					t.Errorf("%s by %s is %v", role, face, who)
				}
				if all := who.GetPermissions(); !slices.Contains(all, may.has) || slices.Contains(all, may.lacks) || may.permissions > 0 && len(all) != may.permissions {
					t.Errorf("%s by %s may %v", role, face, all)
				}
				if signed := who.GetIssuer() != ""; signed != (who.GetExpireTime() != nil) {
					t.Errorf("%s by %s: issuer %q and end %v", role, face, who.GetIssuer(), who.GetExpireTime())
				}
			}
		}
	})
}

// An issuer that is away refuses whom it vouches for, and says that it is no
// fault of theirs; everybody else is served.
func TestAnIssuerThatIsAwayOnEveryFace(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.active(t, alpha, "there", "x")
	h.issuer.now(func(i *testIssuer) { i.away = true })
	for _, procedure := range sorted(methods()) {
		for face, send := range ways {
			o := send(t, h, h.issuer.token(alpha, registry.RolePlatformAdmin), procedure, about[procedure]("there", "there.x"), keyed("k"))
			if o.answer != nil || o.code != "unavailable" || o.reason != "dependency_error" || o.status != 0 && o.status != http.StatusServiceUnavailable {
				t.Errorf("%s by %s comes to %+v", procedure, face, o)
			}
		}
	}
	if asked := h.flows.took(); len(asked) > 0 {
		t.Errorf("the workflows were asked to %v", asked)
	}
	for face, send := range ways {
		if o := send(t, h, admin(alpha), doGet, about[doGet]("there", ""), nil); o.answer == nil {
			t.Errorf("a token of the file by %s comes to %+v", face, o)
		}
	}
	status, _, body := h.call(t, http.MethodGet, "/readyz?verbose", "", "", nil)
	if status != http.StatusOK || !strings.Contains(body, `{"name":"identity","ok":false,"optional":true,"reason":"dependency_error"`) {
		t.Errorf("readiness is %d %s", status, body)
	}
}

// R185: with a listener of its own the internal service is there and nowhere
// else, on every face.
func TestTheInternalServiceCanHaveAListenerOfItsOwn(t *testing.T) {
	t.Parallel()
	public := open(t, func(o *Options) { o.Side = SidePublic })
	internal := open(t, func(o *Options) { o.Side = SideInternal })
	for side, h := range map[string]*house{"the public side": public, "the internal side": internal} {
		h.active(t, alpha, "there", "x")
		for _, procedure := range sorted(methods()) {
			isInternal := strings.Contains(procedure, "McpRegistryService")
			here := isInternal == (h == internal) || procedure == doWhoAmI
			for face, send := range ways {
				// Who may do nothing is told so only where it could be done.
				o := send(t, h, tokenOf(alpha, registry.RoleAuditor), procedure, about[procedure]("there", "there.x"), keyed("k"))
				if gone := o.reason == string(registry.ReasonNoSuchOperation); gone == here {
					t.Errorf("%s by %s on %s comes to %+v", procedure, face, side, o)
				}
			}
		}
		stream := grpcreflect.NewClient(bringing{overHTTP2, admin(alpha)}, h.url).NewStream(t.Context())
		names, err := stream.ListServices()
		if err != nil || slices.ContainsFunc(names, func(n protoreflect.FullName) bool { return strings.HasSuffix(string(n), "McpRegistryService") }) != (h == internal) {
			t.Errorf("on %s reflection shows %v, %v", side, names, err)
		}
		_, _ = stream.Close()
		for _, path := range []string{"/livez", "/readyz"} {
			if status, _, _ := h.call(t, http.MethodGet, path, "", "", nil); status != http.StatusOK {
				t.Errorf("%s on %s answers %d", path, side, status)
			}
		}
	}
}

// Where to sign in is said to everybody.
func TestWhereToSignIn(t *testing.T) {
	t.Parallel()
	issuer := newTestIssuer(t)
	trusted := issuer.trusted()
	trusted.LoginClientID, trusted.LoginScopes = "the-client", []string{"openid"}
	silent := Issuer{Issuer: "https://services.example.com", Audience: testAudience, SubjectPrefix: "service:"}
	h := open(t, func(o *Options) { o.Auth = knower(t, newClock(), issuer.server.Client(), trusted, silent) })
	status, header, body := h.call(t, http.MethodGet, loginPath, "", "", nil)
	want := `{"issuers":[{"issuer":"` + issuer.server.URL + `","client_id":"the-client","scopes":["openid"]}]}` + "\n"
	if status != http.StatusOK || header.Get("Content-Type") != "application/json" || body != want {
		t.Errorf("it is %d %s", status, body)
	}
}
