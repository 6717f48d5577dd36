package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
)

// TaskQueue is where all workers of an installation listen.
const TaskQueue = "countersign"

// Names on the wire. They are API: never renamed, because running workflows,
// recorded histories and other people's clients use them.
const (
	ServerWorkflow         = "Server"
	DiscoveryWorkflow      = "Discovery"
	ConnectionTestWorkflow = "ConnectionTest"
	ProbeSweepWorkflow     = "ProbeSweep"
	ProbeShardWorkflow     = "ProbeShard"
	PolicyChangeWorkflow   = "PolicyChange"
	ConnectionWorkflow     = "Connection"

	ProviderRefreshWorkflow = "ProviderRefresh"
	ProviderTestWorkflow    = "ProviderTest"

	UpdateRegister        = "register"
	UpdateEdit            = "edit"
	UpdateDiscover        = "discover"
	UpdateSetEnabled      = "set_enabled"
	UpdateRequireApproval = "set_requires_approval"
	UpdateRetire          = "retire"
	UpdateEditConnection  = "edit_connection"
	UpdateSaveProvider    = "save_provider"
	UpdateRefreshProvider = "refresh_provider"

	// Decisions, as updates and as signals with the same payload.
	DecisionApprove        = "approve"
	DecisionReject         = "reject"
	DecisionRequestReview  = "request_review"
	DecisionWithdrawServer = "withdraw" // of the whole registration: it retires the server
	DecisionApproveLaunch  = "approve_launch"
	DecisionQuarantine     = "quarantine"
	DecisionRenew          = "renew_exception"

	// DecisionWithdrawApproval takes somebody's approval back before it counted.
	// It comes as an update alone: nobody but the one who gave it may do that, and
	// no token is for it.
	DecisionWithdrawApproval = "withdraw_approval"

	SignalProbe  = "probe_outcome"
	SignalPolicy = "policy_changed"

	SignalConnection = "connection_changed"

	QueryStatus = "status"
	QueryReview = "pending_approval"

	// ScheduleProbe is the one schedule of an installation.
	ScheduleProbe = "handshake-probe"
)

// decisions lists the decisions that come as updates and as signals.
var decisions = []string{DecisionApprove, DecisionReject, DecisionRequestReview, DecisionWithdrawServer, DecisionApproveLaunch, DecisionQuarantine, DecisionRenew}

// Search attributes, to be registered in the namespace.
var (
	AttributeTenant = temporal.NewSearchAttributeKeyKeyword("CountersignTenant")
	AttributeServer = temporal.NewSearchAttributeKeyKeyword("CountersignServer")
	AttributeState  = temporal.NewSearchAttributeKeyKeyword("CountersignState")
)

// ServerWorkflowID names the workflow of a live name: that it is open makes the
// name unique.
func ServerWorkflowID(tenant, name string) string { return "server/" + tenant + "/" + name }

// DiscoveryWorkflowID names one discovery of a server.
func DiscoveryWorkflowID(tenant, serverID string, number int64) string {
	return fmt.Sprintf("discovery/%s/%s/%d", tenant, serverID, number)
}

// ShardWorkflowID names a part of a window's sweep: however often a window is
// triggered, each part of it runs once.
func ShardWorkflowID(window time.Time, number int) string {
	return fmt.Sprintf("%s/%s/%d", ScheduleProbe, window.UTC().Format(time.RFC3339), number)
}

// PolicyWorkflowID names what brings a published version of a bundle to the
// servers that it governs.
func PolicyWorkflowID(tenant, ref string) string { return "policy/" + tenant + "/" + ref }

// ConnectionWorkflowID names what brings edits of a connection to the servers
// that use it.
func ConnectionWorkflowID(tenant, name string) string { return "connection/" + tenant + "/" + name }

// ProviderWorkflowID names what changes and refreshes a provider.
func ProviderWorkflowID(tenant, name string) string { return "provider/" + tenant + "/" + name }

// TestWorkflowID names one connection test.
func TestWorkflowID(tenant, id string) string { return "test/" + tenant + "/" + id }
