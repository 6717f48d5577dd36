package db

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"countersign/registry"
)

// Vitals counts what metrics tell, of all tenants (R201). It reads every server
// and every tool once, so whoever asks often remembers the answer.
func (y *SystemStore) Vitals(ctx context.Context) (registry.Vitals, error) {
	out := registry.Vitals{Unbound: map[string]int64{}}
	err := y.db.read(ctx, ofSystem, "count what there is", func(ctx context.Context, q bun.IDB) error {
		err := q.NewSelect().TableExpr("mcp_servers").ColumnExpr("tenant_id, direction, state, authentication, count(*) AS servers").
			GroupExpr("tenant_id, direction, state, authentication").Scan(ctx, &out.Servers)
		if err != nil {
			return err
		}
		var unbound []struct {
			Tenant string `bun:"tenant_id"`
			Tools  int64  `bun:"tools"`
		}
		err = q.NewSelect().TableExpr("tools AS t").ColumnExpr("t.tenant_id, count(*) AS tools").
			Join("LEFT JOIN mcp_tool_bindings AS b ON b.tenant_id = t.tenant_id AND b.server_id = t.server_id AND b.tool_name = t.external_key AND b.bound").
			Where("t.live AND b.tool_name IS NULL").GroupExpr("t.tenant_id").Scan(ctx, &unbound)
		if err != nil {
			return err
		}
		for _, row := range unbound {
			out.Unbound[row.Tenant] = row.Tools
		}
		var reviews []time.Time
		err = q.NewSelect().TableExpr("mcp_servers").Column("review_opened_at").
			Where("review_status = ? AND state <> ? AND review_opened_at IS NOT NULL", registry.ReviewPending, registry.StateRetired).
			OrderExpr("review_opened_at").Scan(ctx, &reviews)
		if err != nil {
			return err
		}
		if out.Reviews = int64(len(reviews)); len(reviews) > 0 {
			out.OldestReview = reviews[0].UTC()
		}
		var windows []time.Time
		if err := q.NewSelect().TableExpr("server_probe_state").Column("probe_window").Where("probe_window IS NOT NULL").OrderExpr("probe_window DESC").Limit(1).Scan(ctx, &windows); err != nil {
			return err
		}
		if len(windows) > 0 {
			out.LastWindow = windows[0].UTC()
		}
		out.At, err = y.db.engine.now(ctx, q)
		return err
	})
	if err != nil {
		return out, err
	}
	if out.Events, err = y.EventBacklog(ctx); err != nil {
		return out, err
	}
	backlogs, err := y.AuditBacklogs(ctx, false)
	for _, b := range backlogs {
		out.Unsealed += int64(b.Rows)
		out.SealLag = max(out.SealLag, b.Lag)
	}
	return out, err
}
