package api

import (
	"strings"

	"countersign/proto/countersign/registry/v1/registryv1connect"
	"countersign/registry"
)

// rule says who may call an RPC: the credential has the scope, and its bearer
// one of the roles. No roles: the scope is enough; anybody: everybody with a
// valid token. What changes something has either a decision or a change, by
// which refusals are audited (R122, refusal.go); a test wants that too.
type rule struct {
	anybody  bool
	scope    registry.Scope
	roles    []registry.Role
	decision registry.Verb // of decisions, as their audit rows name them
	change   string        // of other changes, likewise: as activities and the store name them
}

// changes says whether the RPC changes something.
func (r rule) changes() bool { return r.change != "" || r.decision != "" }

var (
	readers     = registry.Roles()
	operators   = []registry.Role{registry.RoleOperator, registry.RoleAssetMaintainer, registry.RolePlatformAdmin}
	auditors    = []registry.Role{registry.RoleAuditor, registry.RolePlatformAdmin}
	maintainers = []registry.Role{registry.RoleAssetMaintainer, registry.RolePlatformAdmin}
)

// How refused retirements and publications of policies stand in the audit.
const (
	verbRetire  registry.Verb = "retire"
	verbPublish registry.Verb = "publish_policy"
)

// access is the only table of permissions (R182, R183, R185). An RPC without a
// row cannot be called, and a test wants a row for each.
var access = map[string]rule{
	registryv1connect.McpServerServiceRegisterMcpServerProcedure:       {scope: registry.ScopeAdmin, roles: maintainers, change: "register"},
	registryv1connect.McpServerServiceGetMcpServerProcedure:            {scope: registry.ScopeRead, roles: readers},
	registryv1connect.McpServerServiceListMcpServersProcedure:          {scope: registry.ScopeRead, roles: readers},
	registryv1connect.McpServerServiceUpdateMcpServerProcedure:         {scope: registry.ScopeAdmin, roles: maintainers, change: "edit"},
	registryv1connect.McpServerServiceDiscoverMcpCapabilitiesProcedure: {scope: registry.ScopeAdmin, roles: operators, change: "begin_discovery"},
	registryv1connect.McpServerServiceTestMcpServerProcedure:           {scope: registry.ScopeAdmin, roles: operators},
	registryv1connect.McpServerServiceGetMcpCapabilitiesProcedure:      {scope: registry.ScopeRead, roles: readers},
	registryv1connect.McpServerServiceGetCapabilityReportProcedure:     {scope: registry.ScopeRead, roles: readers},
	registryv1connect.McpServerServiceGetReviewProcedure:               {scope: registry.ScopeRead, roles: readers},
	registryv1connect.McpServerServiceGetDiffProcedure:                 {scope: registry.ScopeRead, roles: readers},
	registryv1connect.McpServerServiceGetMcpServerHealthProcedure:      {scope: registry.ScopeRead, roles: readers},
	registryv1connect.McpServerServiceGetFleetHealthProcedure:          {scope: registry.ScopeRead, roles: readers},
	registryv1connect.McpServerServiceListProbesProcedure:              {scope: registry.ScopeRead, roles: readers},
	registryv1connect.McpServerServiceListSnapshotsProcedure:           {scope: registry.ScopeRead, roles: readers},
	registryv1connect.McpServerServiceListDecisionsProcedure:           {scope: registry.ScopeRead, roles: readers},
	registryv1connect.McpServerServiceActivateMcpServerProcedure:       {scope: registry.ScopeAdmin, roles: maintainers, decision: registry.VerbApprove},
	registryv1connect.McpServerServiceRejectMcpServerProcedure:         {scope: registry.ScopeAdmin, roles: maintainers, decision: registry.VerbReject},
	registryv1connect.McpServerServiceRequestReviewProcedure:           {scope: registry.ScopeAdmin, roles: maintainers, decision: registry.VerbRequestReview},
	registryv1connect.McpServerServiceRetireMcpServerProcedure:         {scope: registry.ScopeAdmin, roles: maintainers, decision: verbRetire},
	registryv1connect.McpServerServiceQuarantineMcpServerProcedure:     {scope: registry.ScopeAdmin, roles: operators, decision: registry.VerbQuarantine},
	registryv1connect.McpServerServiceApproveLaunchProcedure:           {scope: registry.ScopeAdmin, roles: []registry.Role{registry.RolePlatformAdmin}, decision: registry.VerbApproveLaunch},
	registryv1connect.McpServerServiceListMcpServerRunsProcedure:       {scope: registry.ScopeRead, roles: readers},

	registryv1connect.ToolCatalogServiceListToolsProcedure:               {scope: registry.ScopeRead, roles: readers},
	registryv1connect.ToolCatalogServiceListToolFacetsProcedure:          {scope: registry.ScopeRead, roles: readers},
	registryv1connect.ToolCatalogServiceGetToolProcedure:                 {scope: registry.ScopeRead, roles: readers},
	registryv1connect.ToolCatalogServiceGetToolImpactProcedure:           {scope: registry.ScopeRead, roles: readers},
	registryv1connect.ToolCatalogServiceSetToolEnabledProcedure:          {scope: registry.ScopeAdmin, roles: maintainers, change: "set_enabled"},
	registryv1connect.ToolCatalogServiceSetToolsEnabledProcedure:         {scope: registry.ScopeAdmin, roles: maintainers, change: "set_enabled"},
	registryv1connect.ToolCatalogServiceSetToolRequiresApprovalProcedure: {scope: registry.ScopeAdmin, roles: maintainers, change: "set_requires_approval"},
	registryv1connect.ToolCatalogServiceCreateToolDescriptorProcedure:    {scope: registry.ScopeAdmin, roles: maintainers, change: "create_descriptor"},
	registryv1connect.ToolCatalogServiceGetToolDescriptorProcedure:       {scope: registry.ScopeRead, roles: readers},
	registryv1connect.ToolCatalogServiceListToolDescriptorsProcedure:     {scope: registry.ScopeRead, roles: readers},
	registryv1connect.ToolCatalogServicePublishToolDescriptorProcedure:   {scope: registry.ScopeAdmin, roles: maintainers, change: "publish_descriptor"},
	registryv1connect.ToolCatalogServiceDeprecateToolDescriptorProcedure: {scope: registry.ScopeAdmin, roles: maintainers, change: "deprecate_descriptor"},
	registryv1connect.ToolCatalogServiceCreateToolAssignmentProcedure:    {scope: registry.ScopeAdmin, roles: maintainers, change: "assign_tool"},
	registryv1connect.ToolCatalogServiceDeleteToolAssignmentProcedure:    {scope: registry.ScopeAdmin, roles: maintainers, change: "unassign_tool"},
	registryv1connect.ToolCatalogServiceListToolAssignmentsProcedure:     {scope: registry.ScopeRead, roles: readers},

	// A token is given to whoever may take the decision; the handler looks.
	registryv1connect.ApprovalServiceMintDecisionTokenProcedure: {scope: registry.ScopeAdmin, roles: maintainers, change: "mint_decision_token"},
	registryv1connect.ApprovalServiceListApprovalsProcedure:     {scope: registry.ScopeRead, roles: readers},
	registryv1connect.ApprovalServiceGetApprovalProcedure:       {scope: registry.ScopeRead, roles: readers},
	// Whoever gave an approval may take it back, with whatever role is left.
	registryv1connect.ApprovalServiceWithdrawApprovalProcedure: {scope: registry.ScopeAdmin, roles: operators, decision: registry.VerbWithdrawApproval},
	registryv1connect.ApprovalServiceRenewExceptionProcedure:   {scope: registry.ScopeAdmin, roles: []registry.Role{registry.RolePlatformAdmin}, decision: registry.VerbRenew},
	registryv1connect.ApprovalServiceListExpiringProcedure:     {scope: registry.ScopeRead, roles: readers},

	registryv1connect.PolicyServicePublishPolicyProcedure: {scope: registry.ScopeAdmin, roles: []registry.Role{registry.RolePlatformAdmin}, decision: verbPublish},
	registryv1connect.PolicyServiceGetPolicyProcedure:     {scope: registry.ScopeRead, roles: readers},
	registryv1connect.PolicyServiceListPoliciesProcedure:  {scope: registry.ScopeRead, roles: readers},
	registryv1connect.PolicyServiceCheckPolicyProcedure:   {scope: registry.ScopeRead, roles: readers},
	registryv1connect.PolicyServiceTestPolicyProcedure:    {scope: registry.ScopeRead, roles: readers},
	registryv1connect.PolicyServicePreviewPolicyProcedure: {scope: registry.ScopeAdmin, roles: maintainers},

	registryv1connect.AuditServiceListAuditEventsProcedure:      {scope: registry.ScopeRead, roles: auditors},
	registryv1connect.AuditServiceGetAuditEventProcedure:        {scope: registry.ScopeRead, roles: auditors},
	registryv1connect.AuditServiceExportAuditEventsProcedure:    {scope: registry.ScopeRead, roles: auditors},
	registryv1connect.AuditServiceVerifyAuditProcedure:          {scope: registry.ScopeRead, roles: auditors},
	registryv1connect.AuditServiceListAuditCheckpointsProcedure: {scope: registry.ScopeRead, roles: auditors},
	registryv1connect.AuditServiceGetAuditKeysProcedure:         {scope: registry.ScopeRead, roles: auditors},

	registryv1connect.EventServiceCreateSubscriptionProcedure: {scope: registry.ScopeAdmin, roles: maintainers, change: "create_subscription"},
	registryv1connect.EventServiceGetSubscriptionProcedure:    {scope: registry.ScopeRead, roles: readers},
	registryv1connect.EventServiceListSubscriptionsProcedure:  {scope: registry.ScopeRead, roles: readers},
	registryv1connect.EventServiceUpdateSubscriptionProcedure: {scope: registry.ScopeAdmin, roles: maintainers, change: "edit_subscription"},
	registryv1connect.EventServiceDeleteSubscriptionProcedure: {scope: registry.ScopeAdmin, roles: maintainers, change: "delete_subscription"},
	registryv1connect.EventServiceTestSubscriptionProcedure:   {scope: registry.ScopeAdmin, roles: maintainers, change: "test_subscription"},
	registryv1connect.EventServiceListDeliveriesProcedure:     {scope: registry.ScopeRead, roles: readers},
	registryv1connect.EventServiceReplayEventsProcedure:       {scope: registry.ScopeAdmin, roles: maintainers, change: "replay_events"},
	registryv1connect.EventServiceWatchEventsProcedure:        {scope: registry.ScopeRead, roles: readers},

	registryv1connect.ConnectionServiceCreateConnectionProcedure:       {scope: registry.ScopeAdmin, roles: maintainers, change: "create_connection"},
	registryv1connect.ConnectionServiceGetConnectionProcedure:          {scope: registry.ScopeRead, roles: readers},
	registryv1connect.ConnectionServiceListConnectionsProcedure:        {scope: registry.ScopeRead, roles: readers},
	registryv1connect.ConnectionServiceListConnectionVersionsProcedure: {scope: registry.ScopeRead, roles: readers},
	registryv1connect.ConnectionServiceUpdateConnectionProcedure:       {scope: registry.ScopeAdmin, roles: maintainers, change: "edit_connection"},
	registryv1connect.ConnectionServiceDeleteConnectionProcedure:       {scope: registry.ScopeAdmin, roles: maintainers, change: "delete_connection"},
	registryv1connect.ConnectionServiceTestConnectionProcedure:         {scope: registry.ScopeAdmin, roles: operators},

	registryv1connect.ToolProviderServiceCreateToolProviderProcedure:  {scope: registry.ScopeAdmin, roles: maintainers, change: "create_provider"},
	registryv1connect.ToolProviderServiceGetToolProviderProcedure:     {scope: registry.ScopeRead, roles: readers},
	registryv1connect.ToolProviderServiceListToolProvidersProcedure:   {scope: registry.ScopeRead, roles: readers},
	registryv1connect.ToolProviderServiceUpdateToolProviderProcedure:  {scope: registry.ScopeAdmin, roles: maintainers, change: "edit_provider"},
	registryv1connect.ToolProviderServiceTestToolProviderProcedure:    {scope: registry.ScopeAdmin, roles: operators},
	registryv1connect.ToolProviderServiceRefreshToolProviderProcedure: {scope: registry.ScopeAdmin, roles: operators, change: "refresh_provider"},
	registryv1connect.ToolProviderServiceEnableToolProviderProcedure:  {scope: registry.ScopeAdmin, roles: maintainers, change: "enable_provider"},
	registryv1connect.ToolProviderServiceDisableToolProviderProcedure: {scope: registry.ScopeAdmin, roles: maintainers, change: "disable_provider"},
	registryv1connect.ToolProviderServiceDeleteToolProviderProcedure:  {scope: registry.ScopeAdmin, roles: maintainers, change: "delete_provider"},

	registryv1connect.McpRegistryServiceResolveToolProcedure:       {scope: registry.ScopeInternal},
	registryv1connect.McpRegistryServiceBatchResolveToolsProcedure: {scope: registry.ScopeInternal},
	registryv1connect.McpRegistryServiceExplainToolProcedure:       {scope: registry.ScopeInternal},
	registryv1connect.McpRegistryServiceWatchResolutionsProcedure:  {scope: registry.ScopeInternal},
	registryv1connect.McpRegistryServiceListCapabilitiesProcedure:  {scope: registry.ScopeInternal},

	registryv1connect.IdentityServiceWhoAmIProcedure: {anybody: true},

	registryv1connect.InstallationServiceGetInstallationProcedure:     {scope: registry.ScopeRead, roles: readers},
	registryv1connect.InstallationServiceExamineInstallationProcedure: {scope: registry.ScopeAdmin, roles: []registry.Role{registry.RolePlatformAdmin}},
}

// permit says whether the principal may call the RPC.
func permit(p registry.Principal, procedure string) error {
	need, known := access[procedure]
	switch {
	case !known:
		return registry.Errorf(registry.ReasonPermissionDenied, "nobody may call %s", procedure)
	case need.anybody:
	case !p.May(need.scope):
		return registry.Errorf(registry.ReasonPermissionDenied, "this needs a token with the scope %s", need.scope).
			With("scope", string(need.scope)).WithNext("ask for a token with the scope %s", need.scope)
	case len(need.roles) > 0 && !p.Has(need.roles...):
		return registry.Errorf(registry.ReasonPermissionDenied, "this needs one of the roles %s", words(need.roles)).
			With("roles", words(need.roles)).
			WithNext("ask for a token with one of the roles %s, or ask somebody who has one", words(need.roles))
	}
	return nil
}

func words[S ~string](list []S) string { return strings.Join(wordList(list), ", ") }

func wordList[S ~string](list []S) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}
