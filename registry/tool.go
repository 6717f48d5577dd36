package registry

import "time"

// Tool is one row of the catalog: discovered once, never deleted. Enabled,
// Available and Bound (of its binding) are three independent facts (R61, C4).
type Tool struct {
	TenantID   string `json:"tenantId" bun:"tenant_id,pk"`
	ServerID   string `json:"serverId" bun:"server_id,pk"`
	ExternalID string `json:"externalId" bun:"external_id,pk"` // the MCP tool name, or the id of an extension's contribution
	ToolID     string `json:"toolId" bun:"tool_id"`            // canonical, unique in the tenant
	// Origin is the tool's name at the MCP server, where that is not the external id;
	// see [Tool.CallName].
	Origin string `json:"origin,omitempty" bun:"origin"`

	Title       string `json:"title" bun:"title"`
	Description string `json:"description" bun:"description"`
	Definition  string `json:"definition" bun:"definition_digest"`
	Digests     `bun:"embed:"`

	Enabled   bool `json:"enabled" bun:"enabled"`     // an administrator's; survives everything
	Available bool `json:"available" bun:"available"` // discovery's
	// RequiresApproval is an administrator's too: whoever calls the tool asks a
	// person first, each time. It survives everything; resolve reports it (R66).
	RequiresApproval bool   `json:"requiresApproval" bun:"requires_approval"`
	Verdict          Reason `json:"verdict" bun:"verdict"` // quarantined when not empty
	Detail           string `json:"detail" bun:"detail"`

	FirstSeenAt time.Time `json:"firstSeenAt" bun:"first_seen_at"`
	LastSeenAt  time.Time `json:"lastSeenAt" bun:"last_seen_at"` // of an unavailable tool; else the server's last discovery (R51)
}

// CallName is the name by which the MCP server is asked for the tool.
func (t *Tool) CallName() string {
	if t.Origin != "" {
		return t.Origin
	}
	return t.ExternalID
}

// ToolBinding ties a tool to a descriptor version with its declared class
// (R12, R13). The digests are those that were approved.
type ToolBinding struct {
	TenantID      string `json:"tenantId" bun:"tenant_id,pk"`
	ServerID      string `json:"serverId" bun:"server_id,pk"`
	ToolName      string `json:"toolName" bun:"tool_name,pk"`
	SchemaHash    string `json:"schemaHash" bun:"schema_hash"` // the approved contract digest
	Text          string `json:"text" bun:"text_digest"`
	Behaviour     string `json:"behaviour" bun:"behaviour_digest"`
	Target        string `json:"target" bun:"target_digest"`
	ToolID        string `json:"toolId" bun:"tool_id"`           // descriptor id
	ToolVersion   string `json:"toolVersion" bun:"tool_version"` // descriptor version
	DeclaredClass Class  `json:"declaredClass" bun:"declared_class"`
	Bound         bool   `json:"bound" bun:"bound"`
	UnboundBy     Reason `json:"unboundBy" bun:"unbound_by"` // why it is no longer bound
	DecisionID    string `json:"decisionId" bun:"decision_id"`

	DueAt   time.Time `json:"dueAt,omitzero" bun:"due_at,nullzero"`   // when the approval is to be renewed; zero: never
	EndsAt  time.Time `json:"endsAt,omitzero" bun:"ends_at,nullzero"` // from when it holds no more; zero: for ever
	Doubted bool      `json:"doubted" bun:"doubted"`                  // a probe saw the tool otherwise; the next discovery ends that
}

// Ended says whether the approval behind the binding is over at a time.
func (b ToolBinding) Ended(now time.Time) bool { return !b.EndsAt.IsZero() && !now.Before(b.EndsAt) }

// Holds says whether what was approved is what is there now.
func (b ToolBinding) Holds(now Digests, target string) bool {
	approved := Digests{Contract: b.SchemaHash, Text: b.Text, Behaviour: b.Behaviour}
	return approved.Binds(now) && b.Target == target
}

// ResourceBinding ties a resource to a knowledge source (R15).
type ResourceBinding struct {
	TenantID       string `json:"tenantId" bun:"tenant_id,pk"`
	ServerID       string `json:"serverId" bun:"server_id,pk"`
	ResourceURI    string `json:"resourceUri" bun:"resource_uri,pk"`
	SourceID       string `json:"sourceId" bun:"source_id"`
	Classification string `json:"classification" bun:"classification"` // never empty
	Scope          string `json:"scope" bun:"scope"`                   // workspace label; empty = tenant
	Contract       string `json:"contract" bun:"contract_digest"`
	Text           string `json:"text" bun:"text_digest"`
	Bound          bool   `json:"bound" bun:"bound"`
	UnboundBy      Reason `json:"unboundBy" bun:"unbound_by"` // why it is no longer bound
	DecisionID     string `json:"decisionId" bun:"decision_id"`

	EndsAt time.Time `json:"endsAt,omitzero" bun:"ends_at,nullzero"` // from when the approval holds no more; zero: for ever
}

// PromptBinding ties a prompt to a skill or a workflow step, never to a policy
// (R14).
type PromptBinding struct {
	TenantID        string `json:"tenantId" bun:"tenant_id,pk"`
	ServerID        string `json:"serverId" bun:"server_id,pk"`
	PromptName      string `json:"promptName" bun:"prompt_name,pk"`
	SkillID         string `json:"skillId" bun:"skill_id"`
	WorkflowStepRef string `json:"workflowStepRef" bun:"workflow_step_ref"`
	Contract        string `json:"contract" bun:"contract_digest"`
	Text            string `json:"text" bun:"text_digest"`
	Bound           bool   `json:"bound" bun:"bound"`
	UnboundBy       Reason `json:"unboundBy" bun:"unbound_by"` // why it is no longer bound
	DecisionID      string `json:"decisionId" bun:"decision_id"`

	EndsAt time.Time `json:"endsAt,omitzero" bun:"ends_at,nullzero"` // from when the approval holds no more; zero: for ever
}
