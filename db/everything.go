package db

import (
	"context"
	"strings"

	"github.com/uptrace/bun"

	"countersign/registry"
)

// everything gives what decides about all tools of a tenant, or about those
// that servers have or had, and with all or moved also to whom which are
// assigned. Of an id that several servers had, the live one counts, else the
// latest.
func (s *Store) everything(ctx context.Context, servers []string, all, moved bool) (views []ToolView, assigned []registry.Assignment, err error) {
	var rows []toolFacts
	err = s.read(ctx, "read all that decides", func(ctx context.Context, q bun.IDB) error {
		if all || moved {
			var found []assignmentRow
			if err := q.NewSelect().Model(&found).Where("a.tenant_id = ?", s.tenant).Scan(ctx); err != nil {
				return err
			}
			for i := range found {
				assigned = append(assigned, found[i].Assignment)
			}
		}
		if !all && len(servers) == 0 {
			return nil
		}
		now, err := s.db.engine.now(ctx, q)
		if err != nil {
			return err
		}
		of := q.NewSelect().ColumnExpr("t.*, row_number() OVER (PARTITION BY t.tool_key ORDER BY t.live DESC, t.server_id DESC) AS place").
			TableExpr("tools AS t").Where("t.tenant_id = ?", s.tenant)
		if !all {
			of = of.Where("t.tool_key IN (?)", q.NewSelect().TableExpr("tools AS o").ColumnExpr("o.tool_key").
				Where("o.tenant_id = ? AND o.server_id IN (?)", s.tenant, bun.List(servers)))
		}
		query := q.NewSelect().ColumnExpr(toolColumns(s.db.reader)+", "+policyDigest).
			TableExpr(strings.Replace(toolTables, "tools AS t", "(?) AS t", 1), of).Where("t.place = 1")
		if err := s.db.offeredColumn(query, s.capabilities).Scan(ctx, &rows); err != nil {
			return err
		}
		views = make([]ToolView, len(rows))
		for i := range rows {
			views[i] = rows[i].view(now, s.capabilities, "")
		}
		return nil
	})
	return views, assigned, err
}

// latestProbes gives the latest probe of each of the tenant's servers.
func (s *Store) latestProbes(ctx context.Context) (map[string]*registry.Probe, error) {
	var rows []probeRow
	err := s.read(ctx, "read the latest probes", func(ctx context.Context, q bun.IDB) error {
		return q.NewSelect().Model(&rows).ModelTableExpr("probes AS pr").
			Join("JOIN server_probe_state AS ps ON ps.server_id = pr.server_id AND ps.probe_window = pr.probe_window").
			Where("ps.tenant_id = ?", s.tenant).Scan(ctx)
	})
	out := make(map[string]*registry.Probe, len(rows))
	for i := range rows {
		out[rows[i].ServerID] = &rows[i].Probe
	}
	return out, err
}
