package db

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/uptrace/bun"

	"countersign/registry"
)

// Rows are structs of the registry and what only the table knows.
type (
	serverRow struct {
		bun.BaseModel `bun:"table:mcp_servers,alias:s"`
		registry.Server
		ConnectionName    string `bun:"connection_name,nullzero"`
		ConnectionVersion int    `bun:"connection_version,nullzero"`
		EventSeq          int64  `bun:"event_seq"`
	}

	providerRow struct {
		bun.BaseModel `bun:"table:providers,alias:p"`
		registry.Provider
		Live bool `bun:"live"`
	}

	providerServerRow struct {
		bun.BaseModel `bun:"table:provider_servers,alias:v"`
		registry.ProviderServer
	}

	contributionRow struct {
		bun.BaseModel `bun:"table:provider_contributions,alias:c"`
		registry.Contribution
	}

	connectionRow struct {
		bun.BaseModel `bun:"table:connections,alias:c"`
		registry.Connection
	}

	commandRow struct {
		bun.BaseModel `bun:"table:commands,alias:k"`
		TenantID      string `bun:"tenant_id,pk"`
		Target        string `bun:"target_digest,pk"`
		registry.Command
		CreatedAt time.Time `bun:"created_at"`
	}

	toolRow struct {
		bun.BaseModel `bun:"table:tools,alias:t"`
		registry.Tool
		ExternalKey string `bun:"external_key"`
		ToolKey     string `bun:"tool_key"`
		Live        bool   `bun:"live"`
	}

	bindingRow struct {
		bun.BaseModel `bun:"table:mcp_tool_bindings,alias:b"`
		registry.ToolBinding
	}

	resourceRow struct {
		bun.BaseModel `bun:"table:mcp_resource_bindings,alias:r"`
		registry.ResourceBinding
		ResourceKey string `bun:"resource_key"`
	}

	promptRow struct {
		bun.BaseModel `bun:"table:mcp_prompt_bindings,alias:m"`
		registry.PromptBinding
		PromptKey string `bun:"prompt_key"`
	}

	descriptorRow struct {
		bun.BaseModel `bun:"table:descriptors,alias:d"`
		registry.Descriptor
	}

	decisionRow struct {
		bun.BaseModel `bun:"table:decisions,alias:d"`
		registry.Decision
	}

	probeRow struct {
		bun.BaseModel `bun:"table:probes,alias:pr"`
		registry.Probe
		Differing []string `bun:"differing,type:text"`
	}

	probeStateRow struct {
		bun.BaseModel `bun:"table:server_probe_state,alias:ps"`
		ServerID      string    `bun:"server_id,pk"`
		TenantID      string    `bun:"tenant_id"`
		Era           string    `bun:"era"`
		ProbeWindow   time.Time `bun:"probe_window,nullzero"`
		Slow          bool      `bun:"slow"`
		NotBefore     time.Time `bun:"not_before,nullzero"`
		// What the latest probe said, as its own row does.
		Outcome      registry.Outcome `bun:"outcome"`
		Reason       registry.Reason  `bun:"reason"`
		ProbedAt     time.Time        `bun:"probed_at,nullzero"`
		TargetDigest string           `bun:"target_digest"`
		NoTools      bool             `bun:"no_tools"`
	}
)

// maxKey is the longest text that is a key of an index as it is, in bytes.
// Postgres allows about 2,700 for a whole row of an index.
const maxKey = 512

// key makes a text of strangers short enough for an index: a longer one keeps
// its beginning and gets its hash. Short texts, all names that can be bound
// among them, stay as they are; no long one can pass for a short one.
func key(text string) string {
	if len(text) <= maxKey {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return text[:maxKey] + hex.EncodeToString(sum[:])
}
