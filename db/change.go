package db

import (
	"time"

	"countersign/registry"
)

// Change is one change of one server: a transaction that locks the server,
// decides, and writes the server, its catalog, the audit row and the outbox
// rows together. The same Operation.ID on the same server is applied once; a
// repeat gets the recorded answer, a refusal too.
type Change struct {
	ServerID  string
	Operation registry.Operation
	// Claim ties the change to an idempotency key; nil when it has none.
	Claim *Claim
	// Catalog says, with the locked server in hand, whether Apply needs tools,
	// bindings, descriptors and snapshot; nil means no.
	Catalog func(*registry.Server) bool
	// Definitions names, of the record with its catalog, the definitions whose
	// bytes Apply needs in Record.Snapshot; nil: none.
	Definitions func(*registry.Record) []string
	// Stated names those of which Apply needs what rules see, in the same place.
	Stated func(*registry.Record) []string
	// PolicyRef is the reference whose bundle comes as Record.Bundle, where it is
	// not the server's own. Whoever publishes that bundle waits.
	PolicyRef string
	// Connection names the connection whose newest version comes as Record.Named.
	// Whoever changes that connection waits.
	Connection string
	// Decisions says that Apply needs the decisions by which something is bound,
	// and those of the approvals so far.
	Decisions bool
	// Descriptors are the ids that an approval names, loaded with the catalog.
	Descriptors []string
	// Apply decides. Its error refuses the change: nothing is written but the
	// audit row, the refused decision if there is one, and the operation. An
	// error whose code is retryable, or that is not the registry's, decides
	// nothing and is not recorded. Apply is called again, with a fresh record,
	// when another writer came first.
	Apply func(r *registry.Record, now time.Time) error
}

// Claim is an idempotency key with the hash of the body it came with (R170,
// R172).
type Claim struct {
	Operation string // register, discover
	Key       string
	BodyHash  string
	// Answer makes what a repeat of the key is told; nil stores nothing.
	Answer func(*registry.Server) string
}

// Applied is what a change came to.
type Applied struct {
	Server   registry.Server // after the change
	Answer   string          // of the claim: the first answer, when replayed
	Replayed bool            // the key or the operation was seen before
}

// ServerView is a server with everything that a reader is shown beside it.
type ServerView struct {
	registry.Server
	Connection      registry.Connection
	Command         *registry.Command // of the transport stdio
	ProviderEnabled bool
	Counts          Counts
	LastProbe       *registry.Probe           // nil: never probed
	Model           *registry.CapabilityModel // what the capability table says of it
	Era             string                    // how it shakes hands; empty: not known yet
}

// Counts of a server's catalog as of now.
type Counts struct {
	Tools          int `bun:"tools"`     // ever discovered
	Available      int `bun:"available"` // offered at the last good discovery, and nothing is wrong with them
	Enabled        int `bun:"enabled"`
	Bound          int `bun:"bound"`    // approved as they are now
	Callable       int `bun:"callable"` // none unless the server is active
	BoundResources int `bun:"-"`
	BoundPrompts   int `bun:"-"`
}

// ToolView is a tool with what decides about it.
type ToolView struct {
	Tool            registry.Tool
	Binding         *registry.ToolBinding
	Server          registry.Server
	Connection      registry.Connection
	Command         *registry.Command // of the transport stdio
	ProviderEnabled bool
	Model           *registry.CapabilityModel // of its server
	Denial          *registry.Denial          // nil: callable now, as far as the policy's rules for calls let it
	Assigned        bool                      // the agent that was asked for has it; false when none was
	PolicyDigest    string                    // of the published bundle of its server; empty: a built-in one, or none
	Now             time.Time                 // as of when; by the database's clock
	LastProbe       *registry.Probe           // of its server
	Definition      []byte                    // the bytes that the server sent; given by [Store.Tool] only
}

// Page asks for one page of a list. After is the key of the last row seen, as
// given with the page before; empty at the beginning.
type Page struct {
	Size  int
	After string
}
