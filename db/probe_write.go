package db

import (
	"context"

	"github.com/uptrace/bun"
)

// record writes a batch of probes that nobody recorded before, and what is
// remembered of their servers. It says whether all of them were new: on
// Postgres both tables are written by one statement, on SQLite by one each.
func (e engine) record(ctx context.Context, tx bun.Tx, b probesToRecord) (fresh bool, err error) {
	probes := tx.NewInsert().Model(&b.rows).On("CONFLICT (server_id, probe_window) DO NOTHING")
	states := tx.NewInsert().Model(&b.states).On("CONFLICT (server_id) DO UPDATE").Set("probe_window = EXCLUDED.probe_window").
		Set("era = COALESCE(NULLIF(EXCLUDED.era, ''), ps.era)").Set("slow = EXCLUDED.slow").Set("not_before = EXCLUDED.not_before").
		Set("outcome = EXCLUDED.outcome").Set("reason = EXCLUDED.reason").Set("probed_at = EXCLUDED.probed_at").
		Set("target_digest = EXCLUDED.target_digest").Set("no_tools = EXCLUDED.no_tools").
		Where("ps.probe_window IS NULL OR ps.probe_window < EXCLUDED.probe_window")
	if e.writesInWith {
		var counts struct{ Probes int }
		err := tx.NewSelect().With("recorded", probes.Returning("1")).With("remembered", states.Returning("1")).
			ColumnExpr("count(*) AS probes").TableExpr("recorded").Scan(ctx, &counts)
		return counts.Probes == len(b.rows), err
	}
	result, err := probes.Exec(ctx)
	if err != nil {
		return false, err
	}
	if _, err := states.Exec(ctx); err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return int(n) == len(b.rows), err
}
