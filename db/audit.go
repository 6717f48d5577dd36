package db

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"
	"github.com/uptrace/bun"

	"countersign/registry"
)

// The outcomes of what is audited.
const (
	AuditApplied = registry.AuditApplied
	AuditRefused = registry.AuditRefused
)

// AuditEntry is one row of the audit trail.
type AuditEntry = registry.AuditEntry

type auditRow struct {
	bun.BaseModel `bun:"table:audit,alias:a"`
	ID            int64 `bun:"id,pk,autoincrement"` // by the database
	Tx            int64 `bun:"tx,nullzero"`         // by the database
	AuditEntry
}

// audit adds a row.
func (t *tx) audit(ctx context.Context, e AuditEntry) error {
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	e.AuditID, e.TenantID, e.At = id.String(), t.tenant, t.now
	if len(e.Detail) == 0 {
		e.Detail = json.RawMessage("{}")
	}
	_, err = t.NewInsert().Model(&auditRow{AuditEntry: e}).ExcludeColumn("id", "tx", "position", "prev_hash", "hash").Exec(ctx)
	return err
}

// entry is the audit row of an operation on a server.
func entry(op registry.Operation, s *registry.Server) AuditEntry {
	return AuditEntry{
		Actor: op.Actor.Subject, Roles: op.Actor.Roles, Origin: op.Origin, Action: op.Name,
		ObjectKind: "server", ObjectID: s.ServerID, ObjectName: s.Name, OperationID: op.ID, Outcome: AuditApplied,
	}
}

// refused makes the row that of a refusal, with the facts of the error.
func refused(e AuditEntry, err *registry.Error) AuditEntry {
	e.Outcome, e.Reason, e.Note = AuditRefused, err.Reason, err.Message
	if len(err.Facts) > 0 {
		facts := map[string]string{}
		for _, f := range err.Facts {
			facts[f.Key] = f.Value
		}
		e.Detail, _ = json.Marshal(facts) //nolint:errchkjson // strings marshal
	}
	return e
}

func reviewDigest(s *registry.Server) string {
	if s.SnapshotDigest == "" {
		return ""
	}
	return registry.ReviewDigest(s.SnapshotDigest, s.TargetDigest)
}

// AuditRefusal records what was refused before it reached a server: by the api,
// for want of a role. Of the entry its actor, origin, action, object, operation,
// reason, note and detail are taken.
func (s *Store) AuditRefusal(ctx context.Context, e AuditEntry) error {
	return s.write(ctx, "audit", func(ctx context.Context, t *tx) error {
		if err := t.setNow(ctx); err != nil {
			return err
		}
		e.Outcome = AuditRefused
		return t.audit(ctx, e)
	})
}
