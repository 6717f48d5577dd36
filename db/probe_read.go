package db

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"countersign/registry"
)

// Probes lists the probes of a server that are kept, the newest first, with the
// key of the next page, empty at the end. The server is found as by
// [Store.Server].
func (s *Store) Probes(ctx context.Context, idOrName string, page Page) (server ServerView, probes []registry.Probe, next string, err error) {
	err = s.read(ctx, "list probes", func(ctx context.Context, q bun.IDB) error {
		if server, err = s.server(ctx, q, idOrName); err != nil {
			return err
		}
		chosen, err := page.after(s.probesOf(q, server.ServerID), true, true, "pr.probe_window")
		if err != nil {
			return err
		}
		if err := chosen.Scan(ctx, &probes); err != nil {
			return err
		}
		probes, next = cut(page, probes, func(p *registry.Probe) cursor { return cursor{timeKey(p.Window)} })
		return nil
	})
	return server, probes, next, err
}

// Uptime sums up the probes of a server whose windows began since a time.
func (s *Store) Uptime(ctx context.Context, serverID string, since time.Time) (registry.Uptime, error) {
	var probes []registry.Probe
	err := s.read(ctx, "read probes", func(ctx context.Context, q bun.IDB) error {
		return s.probesOf(q, serverID).Where("pr.probe_window >= ?", micro(since)).OrderExpr("pr.probe_window").Scan(ctx, &probes)
	})
	return registry.UptimeOf(probes), err
}

func (s *Store) probesOf(q bun.IDB, serverID string) *bun.SelectQuery {
	return q.NewSelect().Model((*probeRow)(nil)).ExcludeColumn("differing").
		Where("pr.tenant_id = ? AND pr.server_id = ?", s.tenant, serverID)
}
