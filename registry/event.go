package registry

// EventType is the topic of an integration event (R160).
type EventType string

// The event types, version 1.
const (
	EventServerRegistered       EventType = "tool-execution.mcp-servers.v1.mcp-server-registered"
	EventServerStateChanged     EventType = "tool-execution.mcp-servers.v1.mcp-server-state-changed"
	EventCapabilitiesDiscovered EventType = "tool-execution.mcp-servers.v1.mcp-capabilities-discovered"
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
