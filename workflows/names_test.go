package workflows_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/workflows"
)

// Names on the wire, written out once more: a rename shows here.
func TestNamesOnTheWireNeverChange(t *testing.T) {
	t.Parallel()
	got := []string{
		workflows.TaskQueue, workflows.ServerWorkflow, workflows.DiscoveryWorkflow, workflows.ConnectionTestWorkflow, workflows.ProbeSweepWorkflow,
		workflows.UpdateRegister, workflows.UpdateEdit, workflows.UpdateDiscover, workflows.UpdateSetEnabled, workflows.UpdateRequireApproval, workflows.UpdateRetire,
		workflows.DecisionApprove, workflows.DecisionReject, workflows.DecisionRequestReview, workflows.DecisionWithdrawServer, workflows.DecisionWithdrawApproval, workflows.SignalProbe,
		workflows.QueryStatus, workflows.QueryReview, workflows.ScheduleProbe,
		workflows.AttributeTenant.GetName(), workflows.AttributeServer.GetName(), workflows.AttributeState.GetName(),
		workflows.PolicyChangeWorkflow, workflows.DecisionRenew, workflows.SignalPolicy, workflows.PolicyWorkflowID("t", "n@1"),
		workflows.ConnectionWorkflow, workflows.UpdateEditConnection, workflows.SignalConnection, workflows.ConnectionWorkflowID("t", "n"),
		workflows.ProviderRefreshWorkflow, workflows.ProviderTestWorkflow, workflows.UpdateSaveProvider, workflows.UpdateRefreshProvider, workflows.ProviderWorkflowID("t", "n"),
		workflows.ServerWorkflowID("t", "n"), workflows.DiscoveryWorkflowID("t", "srv_1", 3), workflows.TestWorkflowID("t", "x"),
		workflows.ProbeShardWorkflow, workflows.ShardWorkflowID(time.Date(2026, 11, 30, 12, 5, 0, 0, time.UTC), 3),
	}
	want := []string{
		"countersign", "Server", "Discovery", "ConnectionTest", "ProbeSweep",
		"register", "edit", "discover", "set_enabled", "set_requires_approval", "retire",
		"approve", "reject", "request_review", "withdraw", "withdraw_approval", "probe_outcome",
		"status", "pending_approval", "handshake-probe",
		"CountersignTenant", "CountersignServer", "CountersignState",
		"PolicyChange", "renew_exception", "policy_changed", "policy/t/n@1",
		"Connection", "edit_connection", "connection_changed", "connection/t/n",
		"ProviderRefresh", "ProviderTest", "save_provider", "refresh_provider", "provider/t/n",
		"server/t/n", "discovery/t/srv_1/3", "test/t/x",
		"ProbeShard", "handshake-probe/2026-11-30T12:05:00Z/3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
