package db

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"countersign/registry"
)

// Apply makes one change of one server, once: a repeat of the operation is told
// what was recorded, refusals too, and so is a repeat of the claim's key. A
// refusal leaves an audit row, and the refused decision if it was one; a change
// that changes nothing leaves neither, only the record of the operation. The
// error has a reason of the registry; server_not_found, conflicting_write,
// dependency_error and deadline_exceeded are of the store itself.
func (s *Store) Apply(ctx context.Context, c Change) (Applied, error) {
	var (
		out     Applied
		refusal error
	)
	err := s.write(ctx, c.Operation.Name, func(ctx context.Context, t *tx) error {
		out, refusal = Applied{}, nil
		row, err := t.lockServer(ctx, c.ServerID)
		if err != nil {
			return err
		}
		if done, err := t.recorded(ctx, c.ServerID, c.Operation.ID); err != nil || done != nil {
			if done != nil {
				out, refusal = done.answer()
			}
			return err
		}
		if err := t.setNow(ctx); err != nil {
			return err
		}
		earlier, err := t.claimed(ctx, c.Claim)
		if earlier != nil {
			out = Applied{Server: row.Server, Answer: earlier.Answer, Replayed: true}
			return nil
		}
		if e, ok := registry.AsError(err); ok {
			refusal = e
			return t.refuse(ctx, row.Server, c.Operation, e, nil)
		}
		if err != nil {
			return err
		}
		out, refusal, err = t.apply(ctx, row, c)
		return err
	})
	if err != nil {
		return Applied{}, err
	}
	return out, refusal
}

// apply decides and writes. A refusal is written too; an error is not.
func (t *tx) apply(ctx context.Context, row *serverRow, c Change) (out Applied, refusal, err error) {
	record, err := t.load(ctx, row, c)
	if err != nil {
		return out, nil, err
	}
	before := row.Server
	record.Begin()
	if err := c.Apply(record, t.now); err != nil {
		e, ok := registry.AsError(err)
		if !ok || e.Code.Retryable() {
			return out, nil, err // no decision was taken
		}
		return out, e, t.refuse(ctx, before, c.Operation, e, record.Refused())
	}
	changes := record.Done(t.now)
	if err := t.save(ctx, row, record, changes, c.Operation); err != nil {
		return out, nil, err
	}
	if changed(changes) || changes.Asked {
		e := entry(c.Operation, &before)
		e.VersionBefore, e.VersionAfter = before.Version, record.Server.Version
		e.DigestBefore, e.DigestAfter = reviewDigest(&before), reviewDigest(&record.Server)
		e.Note = changes.Note
		if changes.Detail != nil {
			if e.Detail, err = json.Marshal(changes.Detail); err != nil {
				return out, nil, err
			}
		}
		if changes.Asked {
			e.Detail = json.RawMessage(`{"unchanged":true}`)
		}
		if err := t.audit(ctx, e); err != nil {
			return out, nil, err
		}
	}
	out.Server = record.Server
	if out.Answer, err = t.claim(ctx, c.Claim, c.Operation, &record.Server); err != nil {
		return out, nil, err
	}
	return out, nil, t.recordApplied(ctx, before.ServerID, c.Operation, out)
}

// changed says whether a change left anything to write.
func changed(c registry.Changes) bool {
	return c.Server || len(c.Tools)+len(c.Bindings)+len(c.Resources)+len(c.Prompts)+len(c.Descriptors)+len(c.Events) > 0 ||
		c.Connection != nil || c.Decision != nil
}

// refuse writes what a refused operation leaves behind.
func (t *tx) refuse(ctx context.Context, s registry.Server, op registry.Operation, refusal *registry.Error, d *registry.Decision) error {
	if d != nil {
		if _, err := t.NewInsert().Model(&decisionRow{Decision: *d}).Exec(ctx); err != nil {
			return err
		}
	}
	e := refused(entry(op, &s), refusal)
	e.VersionBefore, e.VersionAfter = s.Version, s.Version
	e.DigestBefore, e.DigestAfter = reviewDigest(&s), reviewDigest(&s)
	if err := t.audit(ctx, e); err != nil {
		return err
	}
	return t.recordRefused(ctx, s.ServerID, op, refusal)
}

// lockServer keeps other writers of the server off until the transaction ends.
func (t *tx) lockServer(ctx context.Context, serverID string) (*serverRow, error) {
	if t.engine.queue != "" {
		if _, err := t.NewRaw(t.engine.queue, serverID).Exec(ctx); err != nil {
			return nil, err
		}
	}
	var row serverRow
	q := t.NewSelect().Model(&row).Where("s.tenant_id = ? AND s.server_id = ?", t.tenant, serverID)
	if t.engine.forUpdate != "" {
		q = q.For(t.engine.forUpdate)
	}
	if err := q.Scan(ctx); errors.Is(err, sql.ErrNoRows) {
		return nil, serverNotFound()
	} else if err != nil {
		return nil, err
	}
	return &row, nil
}

// RefuseDecision records a decision that nobody may take, with its audit row,
// once for each operation. Its reason says why; d.Applied is ignored.
func (s *Store) RefuseDecision(ctx context.Context, serverID string, d registry.Decision, op registry.Operation) error {
	return s.write(ctx, op.Name, func(ctx context.Context, t *tx) error {
		row, err := t.lockServer(ctx, serverID)
		if err != nil {
			return err
		}
		done, err := t.recorded(ctx, serverID, op.ID)
		if err != nil || done != nil {
			return err
		}
		if err := t.setNow(ctx); err != nil {
			return err
		}
		d.TenantID, d.ServerID, d.Applied, d.DecidedAt = s.tenant, serverID, false, t.now
		if d.DecisionID == "" {
			d.DecisionID = "dec_" + registry.DecisionKey(serverID, op.ID)
		}
		return t.refuse(ctx, row.Server, op, registry.Errorf(d.Reason, "%s", d.Reason.Means()), &d)
	})
}
