package registry

import (
	"strconv"
	"strings"
	"time"
)

// Direction says who offers the server's tools (R9).
type Direction string

// The directions.
const (
	DirectionConsumed Direction = "consumed" // others offer, we call
	DirectionExposed  Direction = "exposed"  // we offer, others call
)

// Transport says how a server is reached (R20).
type Transport string

// The transports.
const (
	TransportStreamableHTTP Transport = "streamable_http"
	TransportStdio          Transport = "stdio"
)

// Authentication says as whom a server is reached (R22).
type Authentication string

// The kinds of authentication.
const (
	AuthOAuth2           Authentication = "oauth2_protected_resource"
	AuthWorkloadIdentity Authentication = "workload_identity"
	AuthNoneException    Authentication = "none_exception" // needs an installation that allows it, an approval and an expiry
)

// Server is one registered MCP server of one tenant: the aggregate (R1). The
// Server workflow owns it, the table mcp_servers is its projection. Version
// moves by exactly one with every accepted change and never with a probe.
type Server struct {
	ServerID            string         `json:"serverId" bun:"server_id,pk"`
	TenantID            string         `json:"tenantId" bun:"tenant_id"`
	Name                string         `json:"name" bun:"name"` // never changes
	Direction           Direction      `json:"direction" bun:"direction"`
	Transport           Transport      `json:"transport" bun:"transport"`
	EndpointRef         string         `json:"endpointRef" bun:"endpoint_ref"` // "name@version" of a connection
	CommandRef          string         `json:"commandRef" bun:"command_ref"`
	Authentication      Authentication `json:"authentication" bun:"authentication"`
	GovernancePolicyRef string         `json:"governancePolicyRef" bun:"governance_policy_ref"`
	ProtocolVersion     string         `json:"protocolVersion" bun:"protocol_version"` // requested, then negotiated
	State               State          `json:"state" bun:"state"`
	ReleaseID           string         `json:"releaseId" bun:"release_id"`
	LastHandshakeAt     time.Time      `json:"lastHandshakeAt" bun:"last_handshake_at,nullzero"`
	Version             int64          `json:"version" bun:"version"`
	Revision            int64          `json:"revision" bun:"revision"` // moves with every write of the row, probes too; orders copies of it

	ProviderID     string            `json:"providerId" bun:"provider_id"`
	Description    string            `json:"description" bun:"description"`
	Owner          string            `json:"owner" bun:"owner"`
	Labels         map[string]string `json:"labels" bun:"labels,type:text"`
	ProductVersion string            `json:"productVersion" bun:"product_version"`
	ExposedURL     string            `json:"exposedUrl" bun:"exposed_url"` // where an exposed server is handshaken

	Causes   CauseSet `json:"causes" bun:"causes,type:text"` // why it is degraded
	Suspect  string   `json:"suspect" bun:"suspect"`         // snapshot digest of a suspicious look that waits for a second one
	Doubted  bool     `json:"doubted" bun:"doubted"`         // a probe saw bound tools otherwise, and no discovery looked since
	Kinds    []string `json:"kinds" bun:"kinds,type:text"`   // advertised at the last accepted discovery
	Reported Finding  `json:"reported" bun:"embed:server_"`  // what the server says of itself

	TargetDigest     string `json:"targetDigest" bun:"target_digest"`
	SnapshotDigest   string `json:"snapshotDigest" bun:"snapshot_digest"` // last accepted discovery
	ToolsDigest      string `json:"toolsDigest" bun:"tools_digest"`       // of its tools list: what a probe compares
	ApprovedTarget   string `json:"approvedTarget" bun:"approved_target"`
	ApprovedSnapshot string `json:"approvedSnapshot" bun:"approved_snapshot"`
	ApprovedText     string `json:"approvedText" bun:"approved_text"` // digest of the instructions that were approved

	Review    Review       `json:"review" bun:"embed:review_"`
	Discovery DiscoveryRun `json:"discovery" bun:"embed:discovery_"`
	Launch    Launch       `json:"launch,omitzero" bun:"embed:launch_"`
	Exception Exception    `json:"exception" bun:"embed:exception_"`
	Terms     []Term       `json:"terms,omitempty" bun:"terms,type:text"` // of approvals that expire, and reminders of what else ends

	CreatedAt time.Time `json:"createdAt" bun:"created_at"`
	CreatedBy string    `json:"createdBy" bun:"created_by"`
	UpdatedAt time.Time `json:"updatedAt" bun:"updated_at"`
	RetiredAt time.Time `json:"retiredAt" bun:"retired_at,nullzero"`
}

// Finding is what a server says of itself. It is shown and never trusted.
type Finding struct {
	Name       string `json:"name" bun:"name"`
	Version    string `json:"version" bun:"version"`
	TextDigest string `json:"textDigest" bun:"text_digest"` // of its instructions
}

// Exception is the recorded permission to be reached without authentication
// (R23–R25). The reason is given at registration; who approved it and until
// when comes with the approval.
type Exception struct {
	Reason     string    `json:"reason" bun:"reason"`
	ApprovedBy string    `json:"approvedBy" bun:"approved_by"`
	ApprovedAt time.Time `json:"approvedAt" bun:"approved_at,nullzero"`
	ExpiresAt  time.Time `json:"expiresAt" bun:"expires_at,nullzero"`
}

// Expired says whether the exception is over at that time: an expiry equal to
// now is over.
func (e Exception) Expired(now time.Time) bool {
	return !e.ExpiresAt.IsZero() && !now.Before(e.ExpiresAt)
}

// DiscoveryStatus is what became of the last discovery.
type DiscoveryStatus string

// The statuses.
const (
	DiscoveryNever     DiscoveryStatus = "never"
	DiscoveryRunning   DiscoveryStatus = "running"
	DiscoverySucceeded DiscoveryStatus = "succeeded"
	DiscoveryFailed    DiscoveryStatus = "failed"
)

// DiscoveryRun is the last discovery of a server (R44).
type DiscoveryRun struct {
	Number      int64           `json:"number" bun:"number"` // counts up; part of the workflow id
	Status      DiscoveryStatus `json:"status" bun:"status"`
	Reason      Reason          `json:"reason" bun:"reason"`
	Message     string          `json:"message" bun:"message"`
	RequestedBy string          `json:"requestedBy" bun:"requested_by"`
	FinishedAt  time.Time       `json:"finishedAt" bun:"finished_at,nullzero"`
	SucceededAt time.Time       `json:"succeededAt" bun:"succeeded_at,nullzero"` // "last seen" of every available tool (R51)
	Counts      Counts          `json:"counts" bun:"embed:counts_"`
}

// Counts are what a refresh did to the catalog (R42, Appendix B).
type Counts struct {
	New         int `json:"new" bun:"new"`
	Changed     int `json:"changed" bun:"changed"`
	Unchanged   int `json:"unchanged" bun:"unchanged"`
	Unavailable int `json:"unavailable" bun:"unavailable"` // transitions in this refresh
	Total       int `json:"total" bun:"total"`
}

// Connection gives the name and version of the connection that the server pins,
// and whether it pins one.
func (s *Server) Connection() (name string, version int, pinned bool) {
	name, number, found := strings.Cut(s.EndpointRef, "@")
	version, err := strconv.Atoi(number)
	return name, version, found && err == nil && name != ""
}

// Etag is the optimistic lock as callers see it.
func (s *Server) Etag() string { return formatEtag(s.Version) }

// Open says whether the server is live: neither unknown nor retired.
func (s *Server) Open() bool { return s.ServerID != "" && s.State != StateRetired }
