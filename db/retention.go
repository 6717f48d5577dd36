package db

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/uptrace/bun"
)

// Pruned is what a round of retention removed.
type Pruned struct {
	Snapshots   int
	Definitions int
	More        bool // there may be others
}

// unneeded holds for snapshots that nothing refers to: no server is at one, nor
// at its approval or review, and nobody decided about it. What is bound was
// approved by a decision, so that its snapshot stays for ever.
const unneeded = `n.seen_at < ?
AND NOT EXISTS (SELECT 1 FROM decisions AS d WHERE d.tenant_id = n.tenant_id AND d.snapshot_digest = n.digest)
AND NOT EXISTS (SELECT 1 FROM mcp_servers AS s WHERE s.tenant_id = n.tenant_id
  AND n.digest IN (s.snapshot_digest, s.approved_snapshot, s.review_snapshot, s.suspect))`

// PruneSnapshots removes snapshots that no discovery saw for as long as they
// are kept and that nothing refers to, the longest unseen first and at most
// limit of them, with the definitions that nothing else has. keep is at least
// two days: a discovery that has just seen a snapshot must find it.
func (y *SystemStore) PruneSnapshots(ctx context.Context, keep time.Duration, limit int) (Pruned, error) {
	keep = max(keep, 2*seenWithin)
	var (
		out  Pruned
		rows []struct {
			TenantID string `bun:"tenant_id"`
			Digest   string `bun:"digest"`
		}
		before time.Time
	)
	err := y.db.read(ctx, ofSystem, "list snapshots to prune", func(ctx context.Context, q bun.IDB) error {
		now, err := y.db.engine.now(ctx, q)
		if err != nil {
			return err
		}
		before = now.Add(-keep)
		return q.NewSelect().ColumnExpr("n.tenant_id, n.digest").TableExpr("snapshots AS n").Where(unneeded, before).
			OrderExpr("n.seen_at, n.tenant_id, n.digest").Limit(int64(limit)).Scan(ctx, &rows)
	})
	if err != nil {
		return out, err
	}
	byTenant := map[string][]string{}
	for _, row := range rows {
		byTenant[row.TenantID] = append(byTenant[row.TenantID], row.Digest)
	}
	for tenant, digests := range byTenant {
		n, definitions, err := y.prune(ctx, tenant, digests, before)
		if err != nil {
			return out, err
		}
		out.Snapshots, out.Definitions = out.Snapshots+n, out.Definitions+definitions
	}
	out.More = len(rows) == limit && out.Snapshots > 0
	return out, nil
}

// prune removes those of a tenant's snapshots that are still unneeded, once
// nobody saves any.
func (y *SystemStore) prune(ctx context.Context, tenant string, digests []string, before time.Time) (snapshots, definitions int, err error) {
	err = y.db.write(ctx, ofSystem, "prune snapshots", func(ctx context.Context, tx bun.Tx) error {
		snapshots, definitions = 0, 0
		if y.db.engine.pruning != "" {
			if _, err := tx.NewRaw(y.db.engine.pruning, tenant).Exec(ctx); err != nil {
				return err
			}
		}
		var doomed []string
		err := tx.NewSelect().ColumnExpr("n.digest").TableExpr("snapshots AS n").
			Where("n.tenant_id = ? AND n.digest IN (?)", tenant, bun.List(digests)).Where(unneeded, before).Scan(ctx, &doomed)
		if err != nil || len(doomed) == 0 {
			return err
		}
		var had []string
		err = tx.NewSelect().ColumnExpr("DISTINCT definition_digest").TableExpr("snapshot_items").
			Where("tenant_id = ? AND snapshot_digest IN (?)", tenant, bun.List(doomed)).Scan(ctx, &had)
		if err != nil {
			return err
		}
		if _, err := tx.NewDelete().TableExpr("snapshots").Where("tenant_id = ? AND digest IN (?)", tenant, bun.List(doomed)).Exec(ctx); err != nil {
			return err
		}
		snapshots = len(doomed)
		for chunk := range slices.Chunk(had, bulkRows) {
			result, err := tx.NewDelete().TableExpr("definitions AS d").Where("d.tenant_id = ? AND d.digest IN (?)", tenant, bun.List(chunk)).
				Where("NOT EXISTS (SELECT 1 FROM snapshot_items AS i WHERE i.tenant_id = d.tenant_id AND i.definition_digest = d.digest)").
				Where("d.digest NOT IN (SELECT t.definition_digest FROM tools AS t WHERE t.tenant_id = ? AND t.definition_digest IN (?))", tenant, bun.List(chunk)).
				Exec(ctx)
			if err != nil {
				return err
			}
			n, err := result.RowsAffected()
			if err != nil {
				return err
			}
			definitions += int(n)
		}
		return nil
	})
	return snapshots, definitions, err
}

// snapshotsStay keeps the tenant's snapshots from being pruned until the
// transaction ends.
func (t *tx) snapshotsStay(ctx context.Context) error {
	if t.engine.snapshotsStay == "" {
		return nil
	}
	_, err := t.NewRaw(t.engine.snapshotsStay, t.tenant).Exec(ctx)
	return err
}

// PruneProbes removes probes whose windows are older than they are kept, at most
// limit of them, and says how many that were. The latest probe of a server stays:
// it is how the server is.
func (y *SystemStore) PruneProbes(ctx context.Context, keep time.Duration, limit int) (int, error) {
	var removed int64
	err := y.db.write(ctx, ofSystem, "prune probes", func(ctx context.Context, tx bun.Tx) error {
		now, err := y.db.engine.now(ctx, tx)
		if err != nil {
			return err
		}
		doomed := tx.NewSelect().ColumnExpr("p.server_id, p.probe_window").TableExpr("probes AS p").
			Where("p.probe_window < ?", micro(now.Add(-keep))).
			Where("NOT EXISTS (SELECT 1 FROM server_probe_state AS ps WHERE ps.server_id = p.server_id AND ps.probe_window = p.probe_window)").
			OrderExpr("p.probe_window").Limit(int64(limit))
		result, err := tx.NewDelete().TableExpr("probes").Where("(server_id, probe_window) IN (?)", doomed).Exec(ctx)
		if err != nil {
			return err
		}
		removed, err = result.RowsAffected()
		return err
	})
	return int(removed), err
}

// PrunedOperations is what a round of retention removed of what makes repeats
// harmless.
type PrunedOperations struct {
	Keys       int
	Operations int
	More       bool // there may be others
}

// PruneOperations removes idempotency keys, and records of operations, that are
// older than each of them is kept, about limit of each at most; 0 keeps all of
// them (R172). A record is kept as long as keys are at least, since a key's
// repeat is answered from it: keys go first.
func (y *SystemStore) PruneOperations(ctx context.Context, keepKeys, keepOperations time.Duration, limit int) (PrunedOperations, error) {
	var out PrunedOperations
	err := y.db.write(ctx, ofSystem, "prune operations", func(ctx context.Context, tx bun.Tx) error {
		out = PrunedOperations{}
		now, err := y.db.engine.now(ctx, tx)
		if err != nil {
			return err
		}
		if keepKeys > 0 {
			if out.Keys, err = pruneBefore(ctx, tx, "idempotency_keys", "created_at", now.Add(-keepKeys), limit); err != nil {
				return err
			}
		}
		if out.More = out.Keys >= limit; out.More || keepKeys <= 0 || keepOperations <= 0 {
			return nil
		}
		out.Operations, err = pruneBefore(ctx, tx, "applied_operations", "at", now.Add(-max(keepKeys, keepOperations)), limit)
		out.More = out.Operations >= limit
		return err
	})
	return out, err
}

// pruneBefore removes rows whose time is before another, the oldest limit of
// them and those of the same microsecond. It looks at nothing but their times:
// more its role may not see.
func pruneBefore(ctx context.Context, tx bun.Tx, table, at string, before time.Time, limit int) (int, error) {
	var last time.Time
	err := tx.NewSelect().ColumnExpr("?", bun.Ident(at)).TableExpr("?", bun.Ident(table)).Where("? < ?", bun.Ident(at), micro(before)).
		OrderExpr("?", bun.Ident(at)).Offset(int64(limit)-1).Limit(1).Scan(ctx, &last)
	step := tx.NewDelete().TableExpr("?", bun.Ident(table)).Where("? < ?", bun.Ident(at), micro(before))
	switch {
	case err == nil:
		step = step.Where("? <= ?", bun.Ident(at), last)
	case !errors.Is(err, sql.ErrNoRows):
		return 0, err
	}
	result, err := step.Exec(ctx)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}
