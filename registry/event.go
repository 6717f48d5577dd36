package registry

import "time"

// EventType is the topic of an integration event (R160).
type EventType string

// The event types, version 1.
const (
	EventServerRegistered       EventType = "tool-execution.mcp-servers.v1.mcp-server-registered"
	EventServerStateChanged     EventType = "tool-execution.mcp-servers.v1.mcp-server-state-changed"
	EventCapabilitiesDiscovered EventType = "tool-execution.mcp-servers.v1.mcp-capabilities-discovered"

	EventApprovalExpiring  EventType = "tool-execution.mcp-servers.v1.mcp-approval-expiring"
	EventApprovalExpired   EventType = "tool-execution.mcp-servers.v1.mcp-approval-expired"
	EventApprovalWithdrawn EventType = "tool-execution.mcp-servers.v1.mcp-approval-withdrawn"
	EventRequestExpiring   EventType = "tool-execution.mcp-servers.v1.mcp-approval-request-expiring"
	EventExceptionExpiring EventType = "tool-execution.mcp-servers.v1.mcp-auth-exception-expiring"
	EventPolicyPublished   EventType = "tool-execution.governance-policies.v1.governance-policy-published"

	EventConnectionChanged EventType = "tool-execution.mcp-connections.v1.mcp-connection-changed"

	EventDescriptorDrafted    EventType = "tool-execution.tool-descriptors.v1.tool-descriptor-drafted"
	EventDescriptorPublished  EventType = "tool-execution.tool-descriptors.v1.tool-descriptor-published"
	EventDescriptorDeprecated EventType = "tool-execution.tool-descriptors.v1.tool-descriptor-deprecated"
	EventToolAssigned         EventType = "tool-execution.tool-assignments.v1.tool-assigned"
	EventToolUnassigned       EventType = "tool-execution.tool-assignments.v1.tool-unassigned"
)

// Event is one fact for others, written in the transaction of the change.
type Event struct {
	Type    EventType `json:"type"`
	Payload any       `json:"payload"`
}

// ServerRegistered is the payload of EventServerRegistered.
type ServerRegistered struct {
	ServerID       string         `json:"serverId"`
	TenantID       string         `json:"tenantId"`
	Direction      Direction      `json:"direction"`
	Transport      Transport      `json:"transport"`
	Authentication Authentication `json:"authentication"`
}

// ServerStateChanged is the payload of EventServerStateChanged.
type ServerStateChanged struct {
	ServerID  string `json:"serverId"`
	TenantID  string `json:"tenantId"`
	FromState State  `json:"fromState"`
	ToState   State  `json:"toState"`
}

// CapabilitiesDiscovered is the payload of EventCapabilitiesDiscovered; Unbound
// counts the tools that no binding holds (R162).
type CapabilitiesDiscovered struct {
	ServerID  string `json:"serverId"`
	TenantID  string `json:"tenantId"`
	Tools     int    `json:"tools"`
	Resources int    `json:"resources"`
	Prompts   int    `json:"prompts"`
	Unbound   int    `json:"unbound"`
}

// ApprovalExpiring is the payload of the events of an approval that expires, as a
// reminder and when it has; Bound counts what it holds.
type ApprovalExpiring struct {
	ServerID   string    `json:"serverId"`
	TenantID   string    `json:"tenantId"`
	DecisionID string    `json:"decisionId"`
	Bound      int       `json:"bound"`
	DueAt      time.Time `json:"dueAt"`
	EndsAt     time.Time `json:"endsAt"`
}

// ApprovalWithdrawn is the payload of EventApprovalWithdrawn: somebody took an
// approval back before the policy was met. Whoever decided after seeing it may
// want to look again.
type ApprovalWithdrawn struct {
	ServerID   string `json:"serverId"`
	TenantID   string `json:"tenantId"`
	Digest     string `json:"digest"` // of the review
	Subject    string `json:"subject"`
	DecisionID string `json:"decisionId"` // of the withdrawal
	Remaining  int    `json:"remaining"`  // approvals that stand
}

// RequestExpiring is the payload of EventRequestExpiring: nobody decided yet.
type RequestExpiring struct {
	ServerID string    `json:"serverId"`
	TenantID string    `json:"tenantId"`
	Digest   string    `json:"digest"` // what a decision must name
	EndsAt   time.Time `json:"endsAt"`
}

// ExceptionExpiring is the payload of EventExceptionExpiring: a server without
// authentication is taken out then.
type ExceptionExpiring struct {
	ServerID string    `json:"serverId"`
	TenantID string    `json:"tenantId"`
	EndsAt   time.Time `json:"endsAt"`
}

// PolicyPublished is the payload of EventPolicyPublished.
type PolicyPublished struct {
	TenantID string `json:"tenantId"`
	Name     string `json:"name"`
	Version  int    `json:"version"`
	Digest   string `json:"digest"`
}

// ConnectionChanged is the payload of EventConnectionChanged: a new version of a
// connection, which may be that of its deletion. Servers that use it take it by
// themselves.
type ConnectionChanged struct {
	TenantID string `json:"tenantId"`
	Name     string `json:"name"`
	Version  int    `json:"version"`
	Deleted  bool   `json:"deleted"`
}

// DescriptorChanged is the payload of the events of descriptors that people
// draft, publish and deprecate. What an approval publishes is in the decision.
type DescriptorChanged struct {
	TenantID     string           `json:"tenantId"`
	DescriptorID string           `json:"descriptorId"`
	Version      int64            `json:"version"`
	Class        Class            `json:"class"`
	Status       DescriptorStatus `json:"status"`
}

// AssignmentChanged is the payload of the events of assignments.
type AssignmentChanged struct {
	TenantID  string `json:"tenantId"`
	Agent     string `json:"agent"`
	ToolID    string `json:"toolId"`
	Workspace string `json:"workspace"`
}
