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
	EventExceptionExpired  EventType = "tool-execution.mcp-servers.v1.mcp-auth-exception-expired"
	EventExceptionGranted  EventType = "tool-execution.mcp-servers.v1.mcp-auth-exception-granted"
	EventReviewRequested   EventType = "tool-execution.mcp-servers.v1.mcp-approval-requested"
	EventDecisionRecorded  EventType = "tool-execution.mcp-servers.v1.mcp-decision-recorded"
	EventBindingsChanged   EventType = "tool-execution.mcp-servers.v1.mcp-bindings-changed"
	EventToolsSwitched     EventType = "tool-execution.mcp-servers.v1.mcp-tools-switched"
	EventDriftDetected     EventType = "tool-execution.mcp-servers.v1.mcp-drift-detected"
	EventPolicyPublished   EventType = "tool-execution.governance-policies.v1.governance-policy-published"

	EventConnectionChanged EventType = "tool-execution.mcp-connections.v1.mcp-connection-changed"

	EventDescriptorDrafted    EventType = "tool-execution.tool-descriptors.v1.tool-descriptor-drafted"
	EventDescriptorPublished  EventType = "tool-execution.tool-descriptors.v1.tool-descriptor-published"
	EventDescriptorDeprecated EventType = "tool-execution.tool-descriptors.v1.tool-descriptor-deprecated"
	EventToolAssigned         EventType = "tool-execution.tool-assignments.v1.tool-assigned"
	EventToolUnassigned       EventType = "tool-execution.tool-assignments.v1.tool-unassigned"

	EventProviderChanged EventType = "tool-execution.tool-providers.v1.tool-provider-changed"

	EventSubscriptionChanged EventType = "tool-execution.event-subscriptions.v1.event-subscription-changed"
	EventTest                EventType = "tool-execution.event-subscriptions.v1.event-subscription-tested"
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

// ExceptionGranted is the payload of EventExceptionGranted: a server may be used
// without authentication until then, or for longer than before.
type ExceptionGranted struct {
	ServerID string    `json:"serverId"`
	TenantID string    `json:"tenantId"`
	Subject  string    `json:"subject"` // who let it
	EndsAt   time.Time `json:"endsAt"`
}

// ReviewRequested is the payload of EventReviewRequested: people have to decide
// about what a server is now.
type ReviewRequested struct {
	ServerID    string    `json:"serverId"`
	TenantID    string    `json:"tenantId"`
	Digest      string    `json:"digest"` // what a decision must name
	RequestedBy string    `json:"requestedBy"`
	EndsAt      time.Time `json:"endsAt"`
}

// DecisionRecorded is the payload of EventDecisionRecorded: a decision was taken
// and counts. Refused ones are in the audit.
type DecisionRecorded struct {
	ServerID   string `json:"serverId"`
	TenantID   string `json:"tenantId"`
	DecisionID string `json:"decisionId"`
	Verb       Verb   `json:"verb"`
	Digest     string `json:"digest"`
	Subject    string `json:"subject"`
}

// BindingsChanged is the payload of EventBindingsChanged: what may be called, read
// or asked for is bound, or is no longer. Bound and Unbound count; Changes names
// at most MaxEventItems of them.
type BindingsChanged struct {
	ServerID string          `json:"serverId"`
	TenantID string          `json:"tenantId"`
	Bound    int             `json:"bound"`
	Unbound  int             `json:"unbound"`
	Changes  []BindingChange `json:"changes"`
}

// BindingChange is one of them.
type BindingChange struct {
	Kind   ItemKind `json:"kind"`
	Name   string   `json:"name"` // as the server names it; of a resource its URI
	ToolID string   `json:"toolId,omitempty"`
	Bound  bool     `json:"bound"`
	Reason Reason   `json:"reason,omitempty"` // why it is bound no longer
}

// ToolsSwitched is the payload of EventToolsSwitched: an administrator turned a
// switch of tools. Count counts them; Tools names at most MaxEventItems.
type ToolsSwitched struct {
	ServerID string     `json:"serverId"`
	TenantID string     `json:"tenantId"`
	Switch   ToolSwitch `json:"switch"`
	On       bool       `json:"on"`
	Count    int        `json:"count"`
	Tools    []string   `json:"tools"` // canonical tool ids
}

// ToolSwitch names a switch of a tool.
type ToolSwitch string

// The switches.
const (
	SwitchEnabled          ToolSwitch = "enabled"
	SwitchRequiresApproval ToolSwitch = "requires_approval"
)

// DriftDetected is the payload of EventDriftDetected: a server with an approval
// was found to be another than the approved one. The counts are those of tools in
// the discovery that found it.
type DriftDetected struct {
	ServerID         string `json:"serverId"`
	TenantID         string `json:"tenantId"`
	ApprovedSnapshot string `json:"approvedSnapshot"`
	Snapshot         string `json:"snapshot"`
	New              int    `json:"new"`
	Changed          int    `json:"changed"`
	Unavailable      int    `json:"unavailable"`
	ServerText       bool   `json:"serverText"` // the server's instructions are others
}

// ProviderChanged is the payload of EventProviderChanged.
type ProviderChanged struct {
	TenantID string         `json:"tenantId"`
	Provider string         `json:"provider"`
	Change   ProviderChange `json:"change"`
}

// ProviderChange says what became of a provider.
type ProviderChange string

// What becomes of providers.
const (
	ProviderCreated   ProviderChange = "created"
	ProviderUpdated   ProviderChange = "updated"
	ProviderEnabled   ProviderChange = "enabled"
	ProviderDisabled  ProviderChange = "disabled"
	ProviderRefreshed ProviderChange = "refreshed"
	ProviderDeleted   ProviderChange = "deleted"
)

// SubscriptionChanged is the payload of EventSubscriptionChanged, and of
// EventTest, which is sent to one subscription only.
type SubscriptionChanged struct {
	TenantID       string `json:"tenantId"`
	SubscriptionID string `json:"subscriptionId"`
	Deleted        bool   `json:"deleted"`
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
