package db

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"countersign/registry"
)

// SystemStore is the database as the few jobs see it that serve all tenants.
// These methods are all of them.
type SystemStore struct{ db *DB }

// System gives the rows of all tenants to the product's own jobs.
func (d *DB) System() *SystemStore { return &SystemStore{d} }

// ProbeTarget is a server to be probed.
type ProbeTarget struct {
	Server     registry.Server
	Connection registry.Connection
	Command    *registry.Command // of the transport stdio
	Era        string            // how it shakes hands; empty: not known yet
	LastProbe  *registry.Probe   // nil: never probed
}

// ProbePage gives the servers that are probed, active and degraded ones (R140,
// R143), in the order of tenants and ids, after a key that a page before gave
// as next; next is empty at the end.
func (y *SystemStore) ProbePage(ctx context.Context, after string, limit int) (targets []ProbeTarget, next string, err error) {
	page := Page{Size: limit, After: after}
	err = y.db.read(ctx, ofSystem, "list servers to probe", func(ctx context.Context, q bun.IDB) error {
		// The states stand in the text as they do in the index.
		chosen := q.NewSelect().ColumnExpr("s.*").TableExpr("mcp_servers AS s").Where("s.state IN ('active', 'degraded')")
		chosen, err := page.after(chosen, false, false, "s.tenant_id", "s.server_id")
		if err != nil {
			return err
		}
		var rows []standing
		if err := sort(y.db.standings(q, chosen, nil), false, "s.tenant_id", "s.server_id").Scan(ctx, &rows); err != nil {
			return err
		}
		rows, next = cut(page, rows, func(row *standing) cursor { return cursor{row.Server.TenantID, row.Server.ServerID} })
		targets = probeTargets(rows)
		return nil
	})
	return targets, next, err
}

// RecordProbes records each server's window once (R141) and gives, for each
// probe and in its place, the row that counts: that of the first who recorded
// the window. The latest probe of a server is never replaced by an older one,
// and no server's version moves. With it goes how the server shook hands, and
// when it may be met again, if windows are so far apart.
func (y *SystemStore) RecordProbes(ctx context.Context, probes []registry.Probe, interval time.Duration) ([]registry.Probe, error) {
	if len(probes) == 0 {
		return nil, nil
	}
	batch := probeBatch(probes, interval)
	out := make([]registry.Probe, len(probes))
	err := y.db.write(ctx, ofSystem, "record probes", func(ctx context.Context, tx bun.Tx) error {
		fresh, err := y.db.engine.record(ctx, tx, batch)
		if err != nil {
			return err
		}
		byKey := make(map[string]registry.Probe, len(batch.rows))
		for _, row := range batch.rows {
			byKey[windowKey(row.ServerID, row.Window)] = row.Probe
		}
		if !fresh {
			var recorded []probeRow
			err := tx.NewSelect().Model(&recorded).Where("server_id IN (?) AND probe_window IN (?)", bun.List(batch.ids), bun.List(batch.windows)).Scan(ctx)
			if err != nil {
				return err
			}
			for _, row := range recorded {
				byKey[windowKey(row.ServerID, row.Window)] = row.Probe
			}
		}
		for i, p := range probes {
			out[i] = byKey[windowKey(p.ServerID, micro(p.Window))]
		}
		return nil
	})
	return out, err
}

// probesToRecord are the rows of probes, each in one order, so that two who
// record at once do not wait in a circle.
type probesToRecord struct {
	rows    []probeRow
	states  []probeStateRow // the latest of each server
	ids     []string
	windows []time.Time
}

func probeBatch(probes []registry.Probe, interval time.Duration) probesToRecord {
	var b probesToRecord
	latest := make(map[string]probeStateRow, len(probes))
	seen := make(map[time.Time]bool, 1)
	for _, p := range probes {
		p.Window, p.At, p.Since = micro(p.Window), micro(p.At), micro(p.Since)
		b.rows = append(b.rows, probeRow{Probe: asStored(p), Differing: append([]string{}, p.Differing...)})
		b.ids = append(b.ids, p.ServerID)
		if !seen[p.Window] {
			seen[p.Window] = true
			b.windows = append(b.windows, p.Window)
		}
		if p.Window.After(latest[p.ServerID].ProbeWindow) {
			latest[p.ServerID] = probeStateRow{
				ServerID: p.ServerID, TenantID: p.TenantID, ProbeWindow: p.Window, Era: p.Era, Slow: p.Slow(), NotBefore: p.NotBefore(interval),
				Outcome: p.Outcome, Reason: p.Reason, ProbedAt: p.At, TargetDigest: p.TargetDigest, NoTools: p.ToolsDigest == noTools,
			}
		}
	}
	slices.SortStableFunc(b.rows, func(a, b probeRow) int { return strings.Compare(a.ServerID, b.ServerID) })
	b.states = slices.SortedFunc(maps.Values(latest), func(a, b probeStateRow) int { return strings.Compare(a.ServerID, b.ServerID) })
	return b
}

// asStored is a probe as it is read from its row.
func asStored(p registry.Probe) registry.Probe {
	p.Era, p.Differing, p.Held, p.RetryAfter = "", nil, false, 0
	return p
}

// RecordedProbes gives what is recorded of servers in one window.
func (y *SystemStore) RecordedProbes(ctx context.Context, window time.Time, serverIDs []string) (map[string]registry.Probe, error) {
	out := make(map[string]registry.Probe, len(serverIDs))
	if len(serverIDs) == 0 {
		return out, nil
	}
	err := y.db.read(ctx, ofSystem, "read probes", func(ctx context.Context, q bun.IDB) error {
		var rows []probeRow
		err := q.NewSelect().Model(&rows).Where("probe_window = ? AND server_id IN (?)", micro(window), bun.List(serverIDs)).Scan(ctx)
		for _, row := range rows {
			out[row.ServerID] = row.Probe
		}
		return err
	})
	return out, err
}

// Bound gives the digests by which the tools of a server are bound.
func (s *Store) Bound(ctx context.Context, serverID string) (map[string]registry.Digests, error) {
	out := map[string]registry.Digests{}
	err := s.read(ctx, "read bindings", func(ctx context.Context, q bun.IDB) error {
		var rows []bindingRow
		err := q.NewSelect().Model(&rows).Where("tenant_id = ? AND server_id = ? AND bound", s.tenant, serverID).Scan(ctx)
		for _, row := range rows {
			out[row.ToolName] = registry.Digests{Contract: row.SchemaHash, Text: row.Text, Behaviour: row.Behaviour}
		}
		return err
	})
	return out, err
}

// Differing gives the bound tools that the probe of a window saw otherwise than
// they were approved.
func (s *Store) Differing(ctx context.Context, serverID string, window time.Time) ([]string, error) {
	var row probeRow
	err := s.read(ctx, "read a probe", func(ctx context.Context, q bun.IDB) error {
		err := q.NewSelect().Model(&row).Column("differing").
			Where("tenant_id = ? AND server_id = ? AND probe_window = ?", s.tenant, serverID, micro(window)).Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return nil // an outcome that came without a probe of ours
		}
		return err
	})
	return row.Differing, err
}

// RememberEra keeps how a server shakes hands, of one that has just done so: it
// is probed again with the next window, however long it was to be left alone.
func (s *Store) RememberEra(ctx context.Context, serverID, era string) error {
	return s.write(ctx, "remember an era", func(ctx context.Context, t *tx) error {
		is, err := t.NewSelect().TableExpr("mcp_servers").Where("tenant_id = ? AND server_id = ?", t.tenant, serverID).Exists(ctx)
		if err != nil {
			return err
		}
		if !is {
			return serverNotFound()
		}
		row := probeStateRow{ServerID: serverID, TenantID: t.tenant, Era: era}
		_, err = t.NewInsert().Model(&row).On("CONFLICT (server_id) DO UPDATE").Set("era = EXCLUDED.era").
			Set("slow = FALSE").Set("not_before = NULL"). // it has just been met
			Where("ps.tenant_id = EXCLUDED.tenant_id").Exec(ctx)
		return err
	})
}

func micro(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

func windowKey(serverID string, window time.Time) string { return serverID + " " + timeKey(window) }
