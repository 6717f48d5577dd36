package registry

import (
	"encoding/json"
	"time"
)

// The outcomes of what is audited.
const (
	AuditApplied = "applied"
	AuditRefused = "refused"
)

// AuditEntry is one row of the audit trail: who did what to which object, and
// what came of it. Rows are only ever added.
type AuditEntry struct {
	AuditID       string          `bun:"audit_id"` // UUIDv7
	TenantID      string          `bun:"tenant_id"`
	At            time.Time       `bun:"at"` // by the database's clock, in microseconds
	Actor         string          `bun:"actor"`
	Roles         []Role          `bun:"roles,type:text"`
	Origin        Origin          `bun:"origin"`
	Action        string          `bun:"action"`      // name of the operation
	ObjectKind    string          `bun:"object_kind"` // server, descriptor, agent, policy, ...
	ObjectID      string          `bun:"object_id"`
	ObjectName    string          `bun:"object_name"` // as it was then; empty: none but the id
	OperationID   string          `bun:"operation_id"`
	Outcome       string          `bun:"outcome"`
	Reason        Reason          `bun:"reason"` // why it was refused
	VersionBefore int64           `bun:"version_before"`
	VersionAfter  int64           `bun:"version_after"`
	DigestBefore  string          `bun:"digest_before"` // ReviewDigest: snapshot and target; empty before the first discovery
	DigestAfter   string          `bun:"digest_after"`
	Note          string          `bun:"note"`
	Detail        json.RawMessage `bun:"detail,type:text"`  // an object
	Position      int64           `bun:"position,nullzero"` // in the tenant's chain, from 1; 0: not sealed yet
	PrevHash      string          `bun:"prev_hash,nullzero"`
	Hash          string          `bun:"hash,nullzero"`
}

// AuditPoint is a place in a tenant's chain: how many rows there are up to it,
// and the hash of the last of them. The zero value is before the first row.
type AuditPoint struct {
	Position int64
	Hash     string
}

// Point is the place of a sealed row.
func (e *AuditEntry) Point() AuditPoint { return AuditPoint{e.Position, e.Hash} }

// Seal puts the row into the chain, behind the last one.
func (e *AuditEntry) Seal(last AuditPoint) {
	e.Position, e.PrevHash = last.Position+1, last.Hash
	e.Hash = e.Digest()
}

// AuditBacklog is what of a tenant's audit trail is to be sealed.
type AuditBacklog struct {
	Tenant string
	Rows   int           // that are in no chain yet
	Lag    time.Duration // since the oldest of them was written
}

// SealedAudit is what one step of sealing came to.
type SealedAudit struct {
	Rows       int              // that were put into the chain
	Checkpoint *AuditCheckpoint // that was issued; nil: none
	More       bool             // more rows can be sealed at once
	Elsewhere  bool             // another process seals this tenant's rows now
	Broken     bool             // the row that was sealed last is gone, or another
}

// AuditEntryType begins the canonical form of a row, and says which form it is.
const AuditEntryType = "countersign.audit.event/1"

// auditTime is how times stand in canonical forms.
const auditTime = "2006-01-02T15:04:05.000000Z"

// Digest is the hash of the row: sha256 of its canonical form.
func (e *AuditEntry) Digest() string { return digestBytes(e.Canonical()) }

// Canonical is what the hash is of: the JSON object with every column that a
// reader is shown, but the hash itself, in the form of RFC 8785. The detail is
// a text in it, so that nobody has to agree on the form of numbers.
func (e *AuditEntry) Canonical() []byte { return e.appendJSON(make([]byte, 0, 1024), false) }

// Line is the row as a line of an export: the canonical form with the hash.
func (e *AuditEntry) Line() []byte { return e.appendJSON(make([]byte, 0, 1152), true) }

func (e *AuditEntry) appendJSON(dst []byte, withHash bool) []byte {
	o := canonicalObject{dst: append(dst, '{')}
	o.text("action", e.Action)
	o.text("actor", e.Actor)
	o.text("at", e.At.UTC().Format(auditTime))
	o.text("audit_id", e.AuditID)
	o.text("detail", string(e.Detail))
	o.text("digest_after", e.DigestAfter)
	o.text("digest_before", e.DigestBefore)
	if withHash {
		o.text("hash", e.Hash)
	}
	o.text("note", e.Note)
	o.text("object_id", e.ObjectID)
	o.text("object_kind", e.ObjectKind)
	o.text("object_name", e.ObjectName)
	o.text("operation_id", e.OperationID)
	o.text("origin", string(e.Origin))
	o.text("outcome", e.Outcome)
	o.number("position", e.Position)
	o.text("prev_hash", e.PrevHash)
	o.text("reason", string(e.Reason))
	o.key("roles")
	o.dst = append(o.dst, '[')
	for i, role := range e.Roles {
		if i > 0 {
			o.dst = append(o.dst, ',')
		}
		o.dst = appendJCS(o.dst, string(role))
	}
	o.dst = append(o.dst, ']')
	o.text("tenant_id", e.TenantID)
	o.text("type", AuditEntryType)
	o.number("version_after", e.VersionAfter)
	o.number("version_before", e.VersionBefore)
	return append(o.dst, '}')
}

// auditLine is what is read of a line of an export.
type auditLine struct {
	Type          string    `json:"type"`
	Action        string    `json:"action"`
	Actor         string    `json:"actor"`
	At            time.Time `json:"at"`
	AuditID       string    `json:"audit_id"`
	Detail        string    `json:"detail"`
	DigestAfter   string    `json:"digest_after"`
	DigestBefore  string    `json:"digest_before"`
	Hash          string    `json:"hash"`
	Note          string    `json:"note"`
	ObjectID      string    `json:"object_id"`
	ObjectKind    string    `json:"object_kind"`
	ObjectName    string    `json:"object_name"`
	OperationID   string    `json:"operation_id"`
	Origin        Origin    `json:"origin"`
	Outcome       string    `json:"outcome"`
	Position      int64     `json:"position"`
	PrevHash      string    `json:"prev_hash"`
	Reason        Reason    `json:"reason"`
	Roles         []Role    `json:"roles"`
	TenantID      string    `json:"tenant_id"`
	VersionAfter  int64     `json:"version_after"`
	VersionBefore int64     `json:"version_before"`

	// Of checkpoints and of the first line.
	Number    int64  `json:"number"`
	Count     int64  `json:"count"`
	Head      string `json:"head"`
	KeyID     string `json:"key_id"`
	Prev      string `json:"prev"`
	Signature []byte `json:"signature"`
	Filter    string `json:"filter"`
	After     int64  `json:"after"`
	AfterHash string `json:"after_hash"`
}

func (l *auditLine) entry() AuditEntry {
	return AuditEntry{
		AuditID: l.AuditID, TenantID: l.TenantID, At: l.At, Actor: l.Actor, Roles: l.Roles, Origin: l.Origin, Action: l.Action,
		ObjectKind: l.ObjectKind, ObjectID: l.ObjectID, ObjectName: l.ObjectName, OperationID: l.OperationID, Outcome: l.Outcome, Reason: l.Reason,
		VersionBefore: l.VersionBefore, VersionAfter: l.VersionAfter, DigestBefore: l.DigestBefore, DigestAfter: l.DigestAfter,
		Note: l.Note, Detail: json.RawMessage(l.Detail), Position: l.Position, PrevHash: l.PrevHash, Hash: l.Hash,
	}
}
