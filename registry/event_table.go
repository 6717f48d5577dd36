package registry

import (
	"slices"
	"strings"
)

// EventKind describes one type of event: what it says, and its payload, from
// which the published schemas are made.
type EventKind struct {
	Type    EventType
	About   string // one sentence
	Payload any    // the zero value of the payload's type
}

var eventKinds = []EventKind{
	{EventServerRegistered, "A server was registered.", ServerRegistered{}},
	{EventServerStateChanged, "A server went from one state to another.", ServerStateChanged{}},
	{EventCapabilitiesDiscovered, "A discovery found a server to offer something else than before.", CapabilitiesDiscovered{}},
	{EventReviewRequested, "People have to decide about what a server is now.", ReviewRequested{}},
	{EventDecisionRecorded, "Somebody decided about a server.", DecisionRecorded{}},
	{EventBindingsChanged, "Tools, resources or prompts of a server were bound, or are bound no longer.", BindingsChanged{}},
	{EventToolsSwitched, "An administrator turned a switch of tools.", ToolsSwitched{}},
	{EventDriftDetected, "A server is another than the approved one.", DriftDetected{}},
	{EventApprovalExpiring, "A reminder: an approval expires.", ApprovalExpiring{}},
	{EventApprovalExpired, "An approval expired, and what it bound is unbound.", ApprovalExpiring{}},
	{EventApprovalWithdrawn, "Somebody took an approval back before the policy was met.", ApprovalWithdrawn{}},
	{EventRequestExpiring, "A reminder: a request for approval expires.", RequestExpiring{}},
	{EventExceptionGranted, "A server may be used without authentication until a time.", ExceptionGranted{}},
	{EventExceptionExpiring, "A reminder: the exception of a server without authentication expires.", ExceptionExpiring{}},
	{EventExceptionExpired, "The exception of a server without authentication expired.", ExceptionExpiring{}},
	{EventPolicyPublished, "A governance policy was published.", PolicyPublished{}},
	{EventConnectionChanged, "A connection has a new version.", ConnectionChanged{}},
	{EventDescriptorDrafted, "A tool descriptor was drafted.", DescriptorChanged{}},
	{EventDescriptorPublished, "A tool descriptor was published.", DescriptorChanged{}},
	{EventDescriptorDeprecated, "A tool descriptor was deprecated.", DescriptorChanged{}},
	{EventToolAssigned, "An agent was given a tool.", AssignmentChanged{}},
	{EventToolUnassigned, "A tool was taken from an agent.", AssignmentChanged{}},
	{EventProviderChanged, "A provider was made, changed, switched, refreshed or deleted.", ProviderChanged{}},
	{EventSubscriptionChanged, "A subscription of events was made, changed or deleted.", SubscriptionChanged{}},
	{EventTest, "A test of one subscription; nothing happened.", SubscriptionChanged{}},
}

// EventKinds lists all types of events.
func EventKinds() []EventKind { return slices.Clone(eventKinds) }

// KnownEvent says whether there is such a type of event.
func KnownEvent(t EventType) bool {
	return slices.ContainsFunc(eventKinds, func(k EventKind) bool { return k.Type == t })
}

// Inbound events are what the platform tells Countersign (R164).
const (
	EventAssetReleasePublished EventType = "agent-registry.asset-releases.v1.asset-release-published"
	EventAssetReleaseRevoked   EventType = "agent-registry.asset-releases.v1.asset-release-revoked"
)

// AssetReleasePublished is the payload of EventAssetReleasePublished: an MCP
// server was published as an asset, and is to be registered and verified. The
// tenant is the subscription's; a tenant in the payload is not read.
type AssetReleasePublished struct {
	ReleaseID           string         `json:"releaseId"`
	Name                string         `json:"name"` // of the server
	Direction           Direction      `json:"direction,omitempty"`
	Transport           Transport      `json:"transport,omitempty"`
	URL                 string         `json:"url,omitempty"`
	ConnectionName      string         `json:"connectionName,omitempty"`
	CommandRef          string         `json:"commandRef,omitempty"`
	Authentication      Authentication `json:"authentication"`
	ExceptionReason     string         `json:"exceptionReason,omitempty"`
	GovernancePolicyRef string         `json:"governancePolicyRef,omitempty"`
	Description         string         `json:"description,omitempty"`
	Owner               string         `json:"owner,omitempty"`
	ProductVersion      string         `json:"productVersion,omitempty"`
}

// AssetReleaseRevoked is the payload of EventAssetReleaseRevoked: every server of
// the release is retired, whatever its state.
type AssetReleaseRevoked struct {
	ReleaseID string `json:"releaseId"`
	Reason    string `json:"reason,omitempty"`
}

// InboundEventKinds lists the types of events that are taken in.
func InboundEventKinds() []EventKind {
	return []EventKind{
		{EventAssetReleasePublished, "An MCP server was published as an asset: it is registered and verified.", AssetReleasePublished{}},
		{EventAssetReleaseRevoked, "A release was revoked: its servers are retired.", AssetReleaseRevoked{}},
	}
}

// Name is the last word of the topic.
func (t EventType) Name() string { return string(t[strings.LastIndexByte(string(t), '.')+1:]) }
