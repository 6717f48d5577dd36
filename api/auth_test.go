package api

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

const goodToken = "a-token-of-enough-bytes"

func TestTokenFilesThatAreRead(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		"YAML with a token": "tokens:\n- {token: a-token-of-enough-bytes, tenant: default, subject: ci, roles: [Operator]}\n",
		"YAML with a hash":  "tokens:\n- sha256: 6d9ad9d5bb74bbd04a2c4e2ae7ed1e1f7a3f2a8f1e9bb4b0f3fd5b8f5b9fce60\n  tenant: default\n  subject: ci\n  roles: [Operator]\n- {token: a-token-of-enough-bytes, tenant: default, subject: ci, roles: [Operator]}\n",
		"JSON":              `{"tokens": [{"token": "a-token-of-enough-bytes", "tenant": "default", "subject": "ci", "roles": ["Operator"]}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tokens, err := ReadTokens(write(t, file))
			if err != nil {
				t.Fatal(err)
			}
			a, err := NewAuthenticator(AuthOptions{Tokens: tokens})
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set("Authorization", "bearer  "+goodToken)
			p, refused := a.Authenticate(r)
			if refused != nil {
				t.Fatal(refused)
			}
			want := registry.Principal{
				Tenant: "default", Subject: "ci", Roles: []registry.Role{registry.RoleOperator},
				Scopes: []registry.Scope{registry.ScopeRead, registry.ScopeAdmin},
			}
			if diff := cmp.Diff(want, p); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTokenFilesThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		"empty":               "",
		"no tokens":           "tokens: []",
		"not YAML":            "tokens: [",
		"an unknown key":      "tokens:\n- {token: a-token-of-enough-bytes, tenant: default, subject: ci, roles: [Operator], admin: true}",
		"no tenant":           "tokens:\n- {token: a-token-of-enough-bytes, subject: ci, roles: [Operator]}",
		"a bad tenant":        "tokens:\n- {token: a-token-of-enough-bytes, tenant: 'A B', subject: ci, roles: [Operator]}",
		"no subject":          "tokens:\n- {token: a-token-of-enough-bytes, tenant: default, roles: [Operator]}",
		"a subject of ours":   "tokens:\n- {token: a-token-of-enough-bytes, tenant: default, subject: 'system:probe', roles: [Operator]}",
		"nothing it may do":   "tokens:\n- {token: a-token-of-enough-bytes, tenant: default, subject: ci}",
		"an unknown role":     "tokens:\n- {token: a-token-of-enough-bytes, tenant: default, subject: ci, roles: [Root]}",
		"an unknown scope":    "tokens:\n- {token: a-token-of-enough-bytes, tenant: default, subject: ci, scopes: [all]}",
		"no token":            "tokens:\n- {tenant: default, subject: ci, roles: [Operator]}",
		"a short token":       "tokens:\n- {token: secret, tenant: default, subject: ci, roles: [Operator]}",
		"both":                "tokens:\n- {token: a-token-of-enough-bytes, sha256: ab, tenant: default, subject: ci, roles: [Operator]}",
		"a short hash":        "tokens:\n- {sha256: abcd, tenant: default, subject: ci, roles: [Operator]}",
		"a hash of no digits": "tokens:\n- {sha256: " + strings.Repeat("x", 64) + ", tenant: default, subject: ci, roles: [Operator]}",
		"twice": "tokens:\n- {token: a-token-of-enough-bytes, tenant: a, subject: ci, roles: [Operator]}\n" +
			"- {token: a-token-of-enough-bytes, tenant: b, subject: ci, roles: [Operator]}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tokens, err := ReadTokens(write(t, file))
			if err == nil {
				_, err = NewAuthenticator(AuthOptions{Tokens: tokens})
			}
			if err == nil {
				t.Fatal("it is taken")
			}
			if strings.Contains(err.Error(), goodToken) {
				t.Errorf("the error shows the token: %v", err)
			}
		})
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestNobodyComesInWithoutAKnownToken(t *testing.T) {
	t.Parallel()
	a, err := NewAuthenticator(AuthOptions{Tokens: []Token{{Token: goodToken, Tenant: "default", Subject: "ci", Roles: registry.Roles()}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, headers := range map[string][]string{
		"no header": nil, "an empty one": {""}, "no token": {"Bearer"}, "an empty token": {"Bearer "}, "blanks": {"Bearer    "},
		"another token": {"Bearer another-token-of-bytes"}, "part of it": {"Bearer " + goodToken[:20]}, "more": {"Bearer " + goodToken + "x"},
		"another case": {"Bearer " + strings.ToUpper(goodToken)}, "another scheme": {"Basic " + goodToken}, "no scheme": {goodToken},
		"two": {"Bearer " + goodToken, "Bearer " + goodToken}, "two in one": {"Bearer " + goodToken + ", Bearer " + goodToken},
		"a JWT of no algorithm": {"Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9."},
	} {
		r := httptest.NewRequest(http.MethodGet, "/?access_token="+goodToken, nil)
		r.Header["Authorization"] = headers
		p, refused := a.Authenticate(r)
		if refused == nil || refused.Reason != registry.ReasonUnauthenticated || !cmp.Equal(p, registry.Principal{}) {
			t.Errorf("%s: %+v comes in, %v", name, p, refused)
		}
	}
	if _, err := principalOf(t.Context()); registry.ReasonOf(err) != registry.ReasonUnauthenticated {
		t.Error("a context without a principal has one")
	}
}

// methods lists all RPCs of one answer by procedure; watch_test.go has the other.
func methods() map[string]protoreflect.MethodDescriptor {
	out := rpcs()
	maps.DeleteFunc(out, func(_ string, m protoreflect.MethodDescriptor) bool { return m.IsStreamingServer() })
	return out
}

// rpcs lists all RPCs by procedure.
func rpcs() map[string]protoreflect.MethodDescriptor {
	out := map[string]protoreflect.MethodDescriptor{}
	protoregistry.GlobalFiles.RangeFilesByPackage(pb.File_countersign_registry_v1_types_proto.Package(), func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				m := service.Methods().Get(j)
				out["/"+string(service.FullName())+"/"+string(m.Name())] = m
			}
		}
		return true
	})
	return out
}

func TestEveryRPCHasARule(t *testing.T) {
	t.Parallel()
	all := rpcs()
	for procedure := range all {
		if _, ok := access[procedure]; !ok {
			t.Errorf("nothing says who may call %s", procedure)
		}
	}
	for procedure, rule := range access {
		if all[procedure] == nil {
			t.Errorf("there is a rule for %s, which is no RPC", procedure)
		}
		if rule.anybody != (rule.scope == "") || rule.scope != "" && !slices.Contains(scopes, rule.scope) {
			t.Errorf("%s needs the scope %q", procedure, rule.scope)
		}
	}
}

func TestWhoMayCallWhat(t *testing.T) {
	t.Parallel()
	read := []string{"GetMcpServer", "ListMcpServers", "GetMcpCapabilities", "GetCapabilityReport", "ListMcpServerRuns", "ListTools", "GetTool"}
	read = append(read, "GetReview", "GetDiff", "ListSnapshots", "ListDecisions", "GetMcpServerHealth", "GetFleetHealth", "GetInstallation", "ListProbes", "ListToolFacets", "GetToolImpact", "GetToolDescriptor", "ListToolDescriptors", "ListToolAssignments")
	read = append(read, "ListApprovals", "GetApproval", "ListExpiring", "GetPolicy", "ListPolicies", "CheckPolicy", "TestPolicy", "GetConnection", "ListConnections", "ListConnectionVersions")
	read = append(read, "GetSubscription", "ListSubscriptions", "ListDeliveries", "WatchEvents")
	read = append(read, "GetToolProvider", "ListToolProviders")
	operate := []string{"DiscoverMcpCapabilities", "TestMcpServer", "QuarantineMcpServer", "TestConnection", "WithdrawApproval", "TestToolProvider", "RefreshToolProvider"}
	maintain := []string{
		"RegisterMcpServer", "UpdateMcpServer", "ActivateMcpServer", "RejectMcpServer", "RequestReview", "RetireMcpServer", "SetToolEnabled",
		"SetToolsEnabled", "SetToolRequiresApproval", "CreateToolDescriptor", "PublishToolDescriptor", "DeprecateToolDescriptor",
		"CreateToolAssignment", "DeleteToolAssignment", "MintDecisionToken", "PreviewPolicy",
		"CreateConnection", "UpdateConnection", "DeleteConnection",
		"CreateSubscription", "UpdateSubscription", "DeleteSubscription", "TestSubscription", "ReplayEvents",
		"CreateToolProvider", "UpdateToolProvider", "EnableToolProvider", "DisableToolProvider", "DeleteToolProvider",
	}
	launch := []string{"ExamineInstallation", "ApproveLaunch", "RenewException", "PublishPolicy"}
	audit := []string{"ListAuditEvents", "GetAuditEvent", "ExportAuditEvents", "VerifyAudit", "ListAuditCheckpoints", "GetAuditKeys"}
	resolve := []string{"ResolveTool", "BatchResolveTools", "ListCapabilities", "ExplainTool", "WatchResolutions"}
	for name, c := range map[string]struct {
		who registry.Principal
		may []string
	}{
		"an observer":         {of(registry.RoleObserver), read},
		"an auditor":          {of(registry.RoleAuditor), slices.Concat(read, audit)},
		"an operator":         {of(registry.RoleOperator), slices.Concat(read, operate)},
		"a maintainer":        {of(registry.RoleAssetMaintainer), slices.Concat(read, operate, maintain)},
		"an administrator":    {of(registry.RolePlatformAdmin), slices.Concat(read, operate, maintain, launch, audit, resolve)},
		"an executor":         {registry.Principal{Scopes: []registry.Scope{registry.ScopeInternal}}, resolve},
		"a reading token":     {registry.Principal{Roles: registry.Roles(), Scopes: []registry.Scope{registry.ScopeRead}}, slices.Concat(read, audit)},
		"roles without scope": {registry.Principal{Roles: registry.Roles()}, nil},
		"scope without roles": {registry.Principal{Scopes: []registry.Scope{registry.ScopeRead, registry.ScopeAdmin}}, nil},
	} {
		for procedure := range access {
			method := procedure[strings.LastIndex(procedure, "/")+1:]
			err := permit(c.who, procedure)
			if (err == nil) != (slices.Contains(c.may, method) || method == "WhoAmI") {
				t.Errorf("%s calls %s: %v", name, method, err)
			}
			if err != nil && registry.ReasonOf(err) != registry.ReasonPermissionDenied {
				t.Errorf("%s is refused %s with %v", name, method, err)
			}
		}
	}
	if permit(of(registry.RolePlatformAdmin), "/countersign.registry.v1.McpServerService/Nope") == nil {
		t.Error("an RPC without a rule can be called")
	}
}

func of(role registry.Role) registry.Principal {
	return registry.Principal{Roles: []registry.Role{role}, Scopes: ScopesOf(role)}
}
