package db

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"countersign/registry"
)

type (
	auditHeadRow struct {
		bun.BaseModel    `bun:"table:audit_heads,alias:h"`
		TenantID         string `bun:"tenant_id,pk"`
		Position         int64  `bun:"position"`
		Hash             string `bun:"hash"`
		Checkpoints      int64  `bun:"checkpoints"`
		Checkpointed     int64  `bun:"checkpointed"`
		CheckpointDigest string `bun:"checkpoint_digest"`
	}

	checkpointRow struct {
		bun.BaseModel `bun:"table:audit_checkpoints,alias:c"`
		registry.AuditCheckpoint
	}
)

func (h *auditHeadRow) point() registry.AuditPoint {
	return registry.AuditPoint{Position: h.Position, Hash: h.Hash}
}

// AuditBacklogs says which tenants have rows to be sealed. With unsigned also
// those whose chain goes on behind their last checkpoint.
func (y *SystemStore) AuditBacklogs(ctx context.Context, unsigned bool) ([]registry.AuditBacklog, error) {
	var (
		out  []registry.AuditBacklog
		rows []struct {
			TenantID string    `bun:"tenant_id"`
			Rows     int       `bun:"n"`
			Oldest   time.Time `bun:"at"`
		}
		behind []string
	)
	err := y.db.read(ctx, ofSystem, "list audit rows to be sealed", func(ctx context.Context, q bun.IDB) error {
		now, err := y.db.engine.now(ctx, q)
		if err != nil {
			return err
		}
		// The time is read from the oldest row itself: SQLite knows the type of columns only.
		err = q.NewRaw(`SELECT u.tenant_id, u.n, a.at FROM (
  SELECT tenant_id, count(*) AS n, min(id) AS id FROM audit WHERE position IS NULL GROUP BY tenant_id
) AS u JOIN audit AS a ON a.id = u.id ORDER BY u.tenant_id`).Scan(ctx, &rows)
		if err != nil {
			return err
		}
		for _, r := range rows {
			out = append(out, registry.AuditBacklog{Tenant: r.TenantID, Rows: r.Rows, Lag: max(now.Sub(r.Oldest), 0)})
		}
		if !unsigned {
			return nil
		}
		return q.NewSelect().Model((*auditHeadRow)(nil)).Column("tenant_id").Where("h.position > h.checkpointed").Scan(ctx, &behind)
	})
	for _, tenant := range behind {
		if !slices.ContainsFunc(out, func(b registry.AuditBacklog) bool { return b.Tenant == tenant }) {
			out = append(out, registry.AuditBacklog{Tenant: tenant})
		}
	}
	return out, err
}

// SealAudit puts a tenant's next rows into its chain, at most limit of them,
// and issues a checkpoint when it has come to the last one; without sign it
// issues none. All of it is one transaction, so that a step that dies is as if
// it had never begun.
//
// Rows are taken in the order of their transactions' numbers, and only those
// before which none can come any more: ids do not commit in order. The chain
// goes on from where it ended, whatever became of the rows since.
func (y *SystemStore) SealAudit(ctx context.Context, tenant string, limit int, sign func(registry.AuditCheckpoint) registry.AuditCheckpoint) (registry.SealedAudit, error) {
	var out registry.SealedAudit
	err := y.db.write(ctx, ofSystem, "seal audit rows", func(ctx context.Context, t bun.Tx) error {
		out = registry.SealedAudit{}
		if y.db.engine.sealing != "" {
			var ours bool
			if err := t.NewRaw(y.db.engine.sealing, tenant).Scan(ctx, &ours); err != nil || !ours {
				out.Elsewhere = err == nil
				return err
			}
		}
		head := auditHeadRow{TenantID: tenant}
		err := t.NewSelect().Model(&head).WherePK().Scan(ctx)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if out.Broken, err = broken(ctx, t, &head); err != nil {
			return err
		}
		var rows []auditRow
		err = t.NewSelect().Model(&rows).Where("a.tenant_id = ? AND a.position IS NULL", tenant).Where(y.db.engine.settled).
			OrderExpr("a.tx, a.id").Limit(int64(max(limit, 1))).Scan(ctx)
		if err != nil {
			return err
		}
		for i := range rows {
			rows[i].Seal(head.point())
			head.Position, head.Hash = rows[i].Position, rows[i].Hash
		}
		if err := saveSeals(ctx, t, rows); err != nil {
			return err
		}
		out.Rows, out.More = len(rows), len(rows) >= limit
		if sign != nil && !out.More && head.Position > head.Checkpointed {
			now, err := y.db.engine.now(ctx, t)
			if err != nil {
				return err
			}
			c := sign(registry.AuditCheckpoint{
				TenantID: tenant, Number: head.Checkpoints + 1, Count: head.Position, Head: head.Hash, At: now, Prev: head.CheckpointDigest,
			})
			if _, err := t.NewInsert().Model(&checkpointRow{AuditCheckpoint: c}).Exec(ctx); err != nil {
				return err
			}
			head.Checkpoints, head.Checkpointed, head.CheckpointDigest = c.Number, c.Count, c.Digest()
			out.Checkpoint = &c
		}
		if out.Rows == 0 && out.Checkpoint == nil {
			return nil
		}
		_, err = t.NewInsert().Model(&head).On("CONFLICT (tenant_id) DO UPDATE").Exec(ctx)
		return err
	})
	return out, err
}

// broken says whether the row at the head is not the one that was sealed there.
func broken(ctx context.Context, q bun.IDB, head *auditHeadRow) (bool, error) {
	if head.Position == 0 {
		return false, nil
	}
	var hash string
	err := q.NewSelect().TableExpr("audit").ColumnExpr("COALESCE(hash, '')").Where("tenant_id = ? AND position = ?", head.TenantID, head.Position).Scan(ctx, &hash)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	return hash != head.Hash, err
}

// saveSeals writes the places of rows in the chain. A row that has one already
// is not touched, and then nothing is.
func saveSeals(ctx context.Context, q bun.IDB, rows []auditRow) error {
	for chunk := range slices.Chunk(rows, bulkRows) {
		args := make([]any, 0, 4*len(chunk))
		for i := range chunk {
			args = append(args, chunk[i].ID, chunk[i].Position, chunk[i].PrevHash, chunk[i].Hash)
		}
		values := strings.Repeat(", (?, ?, ?, ?)", len(chunk))[2:]
		result, err := q.NewRaw("UPDATE audit SET position = v.column2, prev_hash = v.column3, hash = v.column4 FROM (VALUES "+values+
			") AS v WHERE audit.id = v.column1 AND audit.position IS NULL", args...).Exec(ctx)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || int(n) != len(chunk) {
			return errors.Join(err, registry.Errorf(registry.ReasonConflictingWrite, "%d audit rows of %d could be sealed", n, len(chunk)))
		}
	}
	return nil
}
