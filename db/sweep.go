package db

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"countersign/registry"
)

// SweepPlan is how the servers of a window are cut into pages.
type SweepPlan struct {
	Cuts    []string // the last key of each page of quick ones, in order; all after the last cut is a page, too
	Quick   int      // servers that are not known to be slow
	Slow    int      // those that are
	Resting int      // those that are left alone in this window
}

// PlanSweep cuts the servers that are probed, active and degraded ones (R140,
// R143), into pages, by their keys.
func (y *SystemStore) PlanSweep(ctx context.Context, window time.Time, page int) (plan SweepPlan, err error) {
	err = y.db.read(ctx, ofSystem, "plan a sweep", func(ctx context.Context, q bun.IDB) error {
		due := q.NewSelect().ColumnExpr("s.tenant_id, s.server_id, COALESCE(ps.slow, FALSE) AS slow").
			ColumnExpr("COALESCE(ps.not_before > ?, FALSE) AS resting", micro(window)).
			TableExpr("mcp_servers AS s").Join("LEFT JOIN server_probe_state AS ps ON ps.server_id = s.server_id").
			Where("s.state IN ('active', 'degraded')")
		var sums []struct {
			Slow, Resting bool
			Servers       int
		}
		if err := q.NewSelect().ColumnExpr("d.slow, d.resting, count(*) AS servers").TableExpr("(?) AS d", due).
			GroupExpr("d.slow, d.resting").Scan(ctx, &sums); err != nil {
			return err
		}
		for _, sum := range sums {
			switch {
			case sum.Resting:
				plan.Resting += sum.Servers
			case sum.Slow:
				plan.Slow += sum.Servers
			default:
				plan.Quick += sum.Servers
			}
		}
		if plan.Quick <= page {
			return nil
		}
		numbered := q.NewSelect().ColumnExpr("d.tenant_id, d.server_id, row_number() OVER (ORDER BY d.tenant_id, d.server_id) AS n").
			TableExpr("(?) AS d", due).Where("NOT d.slow AND NOT d.resting")
		var cuts []struct{ TenantID, ServerID string }
		err := q.NewSelect().ColumnExpr("n.tenant_id, n.server_id").TableExpr("(?) AS n", numbered).
			Where("n.n % ? = 0 AND n.n < ?", page, plan.Quick).OrderExpr("n.n").Scan(ctx, &cuts)
		for _, cut := range cuts {
			plan.Cuts = append(plan.Cuts, cursor{cut.TenantID, cut.ServerID}.String())
		}
		return err
	})
	return plan, err
}

// SweepQuery says which servers of a window are wanted.
type SweepQuery struct {
	Window   time.Time
	After    string // key of the last server before; empty: from the first one
	Until    string // key of the last one; empty: to the end
	Slow     bool   // those that are known to be slow, else the others
	Recorded bool   // also those that were probed in this window already
	Limit    int    // 0: none
}

// SweepTargets gives servers that are to be probed in a window, in the order of
// tenants and ids. A server that is to be left alone is none of them.
func (y *SystemStore) SweepTargets(ctx context.Context, sweep SweepQuery) (targets []ProbeTarget, err error) {
	window := micro(sweep.Window)
	err = y.db.read(ctx, ofSystem, "list servers to probe", func(ctx context.Context, q bun.IDB) error {
		chosen := q.NewSelect().ColumnExpr("s.*").TableExpr("mcp_servers AS s").
			Join("LEFT JOIN server_probe_state AS ps ON ps.server_id = s.server_id").
			Where("s.state IN ('active', 'degraded')").
			Where("COALESCE(ps.slow, FALSE) = ?", sweep.Slow).
			Where("(ps.not_before IS NULL OR ps.not_before <= ?)", window)
		if !sweep.Recorded {
			chosen = chosen.Where("(ps.probe_window IS NULL OR ps.probe_window < ?)", window)
		}
		for _, bound := range []struct{ key, beyond string }{{sweep.After, ">"}, {sweep.Until, "<="}} {
			if bound.key == "" {
				continue
			}
			values, err := Page{After: bound.key}.cursor(2, false)
			if err != nil {
				return err
			}
			chosen = chosen.Where("(s.tenant_id, s.server_id) "+bound.beyond+" (?)", bun.List(values))
		}
		if sweep.Limit > 0 {
			chosen = sort(chosen, false, "s.tenant_id", "s.server_id").Limit(int64(sweep.Limit))
		}
		var rows []standing
		if err := sort(y.db.standings(q, chosen, nil), false, "s.tenant_id", "s.server_id").Scan(ctx, &rows); err != nil {
			return err
		}
		targets = probeTargets(rows)
		return nil
	})
	return targets, err
}

func probeTargets(rows []standing) []ProbeTarget {
	targets := make([]ProbeTarget, len(rows))
	for i, row := range rows {
		targets[i] = ProbeTarget{Server: row.Server, Era: row.Era, LastProbe: row.Probe, Command: row.Command}
		if row.Connection != nil {
			targets[i].Connection = *row.Connection
		}
	}
	return targets
}

// RecordedIn says whether the target was probed in a window, or in a later one.
func (t *ProbeTarget) RecordedIn(window time.Time) (registry.Probe, bool) {
	if t.LastProbe == nil || t.LastProbe.Window.Before(micro(window)) {
		return registry.Probe{}, false
	}
	return *t.LastProbe, true
}
