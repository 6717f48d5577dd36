package registry

import "time"

// Version is one state of what a server offers: a snapshot as it was met at a
// target. A server that goes back to what it was goes back to that version.
type Version struct {
	TenantID   string    `json:"tenantId" bun:"tenant_id,pk"`
	ServerID   string    `json:"serverId" bun:"server_id,pk"`
	Pair       string    `json:"pair" bun:"pair_digest,pk"` // [ReviewDigest] of the two below
	Snapshot   string    `json:"snapshot" bun:"snapshot_digest"`
	Target     string    `json:"target" bun:"target_digest"`
	Number     int64     `json:"number" bun:"number"` // counts up from 1 for each server
	FirstSeen  time.Time `json:"firstSeen" bun:"first_seen_at"`
	Protocol   string    `json:"protocol" bun:"protocol_version"`
	ServerName string    `json:"serverName" bun:"server_name"`         // as the server said when it was first seen
	Reported   string    `json:"reportedVersion" bun:"server_version"` // likewise
	Tools      int       `json:"tools" bun:"tools"`
	Resources  int       `json:"resources" bun:"resources"`
	Templates  int       `json:"templates" bun:"templates"`
	Prompts    int       `json:"prompts" bun:"prompts"`
	Faulty     int       `json:"faulty" bun:"faulty"` // items in quarantine
}
