package db

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/uptrace/bun"

	"countersign/registry"
)

// Review is all that there is to see for whoever signs what a server is now.
type Review struct {
	Capabilities // the snapshot's items hold their bytes

	Approved       *registry.Snapshot // that was approved last; nil: never, or it is not kept
	ApprovedTarget *registry.Target   // nil: never, or not known any more
	Approvals      []Approval         // that counted, the oldest first
	Names          registry.Names     // of the tools of the tenant
}

// Review gives what there is to sign about a server, found as by [Store.Server],
// as of one moment. The error is nothing_discovered when nothing is known of
// what it offers at its target.
func (s *Store) Review(ctx context.Context, idOrName string) (Review, error) {
	var out Review
	err := s.read(ctx, "read a review", func(ctx context.Context, q bun.IDB) (err error) {
		if out.Server, err = s.server(ctx, q, idOrName); err != nil {
			return err
		}
		server := &out.Server.Server
		if server.SnapshotDigest == "" {
			return registry.Errorf(registry.ReasonNothingDiscovered, "nothing is known yet of what server %s offers there", server.Name).
				WithNext("start a discovery and look at what it finds")
		}
		if out.Approvals, err = s.approvals(ctx, q, server.ServerID); err != nil {
			return err
		}
		if out.Snapshot, err = snapshotOf(ctx, q, s.tenant, server.SnapshotDigest); err != nil {
			return err
		}
		if server.ApprovedSnapshot != "" {
			if out.Approved, err = s.keptSnapshot(ctx, q, server.ApprovedSnapshot); err != nil {
				return err
			}
			if out.ApprovedTarget, err = s.targetOf(ctx, q, &out.Server, server.ApprovedTarget); err != nil {
				return err
			}
		}
		if err := s.fillBoth(ctx, q, out.Snapshot, out.Approved); err != nil {
			return err
		}
		if err := s.catalog(ctx, q, &out.Capabilities); err != nil {
			return err
		}
		return s.toolNames(ctx, q, &out)
	})
	return out, err
}

// keptSnapshot gives a snapshot, nil when it is not kept any more.
func (s *Store) keptSnapshot(ctx context.Context, q bun.IDB, digest string) (*registry.Snapshot, error) {
	snap, err := snapshotOf(ctx, q, s.tenant, digest)
	if registry.ReasonOf(err) == registry.ReasonNothingDiscovered {
		return nil, nil //nolint:nilnil // as the comment says
	}
	return snap, err
}

// fillBoth adds the bytes of the items of two snapshots, reading once what is in
// both. The second may be nil.
func (s *Store) fillBoth(ctx context.Context, q bun.IDB, a, b *registry.Snapshot) error {
	items := slices.Clone(a.Items)
	if b != nil {
		items = append(items, b.Items...)
	}
	digests := make([]string, len(items))
	for i := range items {
		digests[i] = items[i].Definition()
	}
	slices.Sort(digests)
	raw := make(map[string][]byte, len(digests))
	if err := definitionsOf(ctx, q, s.tenant, slices.Compact(digests), raw); err != nil {
		return err
	}
	for _, snap := range []*registry.Snapshot{a, b} {
		if snap == nil {
			continue
		}
		for i := range snap.Items {
			snap.Items[i].Raw = raw[snap.Items[i].Definition()]
		}
	}
	return nil
}

// targetOf finds a target of the server by its digest among all that it had.
func (s *Store) targetOf(ctx context.Context, q bun.IDB, v *ServerView, digest string) (*registry.Target, error) {
	if v.Transport == registry.TransportStdio {
		command, err := commandOf(ctx, q, s.tenant, digest)
		if err != nil || command == nil {
			return nil, err
		}
		return new(registry.TargetOf(&v.Server, registry.Connection{}, command)), nil
	}
	var from targetRow
	err := q.NewSelect().Model(&from).Where("tenant_id = ? AND server_id = ? AND target_digest = ?", s.tenant, v.ServerID, digest).Scan(ctx)
	if err == nil {
		c, err := connectionOf(ctx, q, s.tenant, from.ConnectionName, from.ConnectionVersion)
		if err != nil {
			return nil, err
		}
		return new(registry.TargetOf(&v.Server, *c, nil)), nil
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	var rows []connectionRow
	err = q.NewSelect().Model(&rows).Where("tenant_id = ? AND name = ?", s.tenant, v.Connection.Name).OrderExpr("version DESC").Scan(ctx)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if target := registry.TargetOf(&v.Server, row.Connection, nil); target.Digest() == digest {
			return &target, nil
		}
	}
	return nil, nil //nolint:nilnil // it is not known any more
}

// toolNames reads the names of the tools that the tenant's servers offer.
func (s *Store) toolNames(ctx context.Context, q bun.IDB, out *Review) error {
	var rows []struct {
		Server string `bun:"server"`
		Tool   string `bun:"tool"`
	}
	err := q.NewSelect().ColumnExpr("s.name AS server, t.external_id AS tool").
		TableExpr("tools AS t JOIN mcp_servers AS s ON s.tenant_id = t.tenant_id AND s.server_id = t.server_id").
		Where("t.tenant_id = ? AND t.live AND t.available AND t.server_id <> ?", s.tenant, out.Server.ServerID).
		OrderExpr("s.name, t.external_key").Scan(ctx, &rows)
	if err != nil {
		return err
	}
	for _, row := range rows {
		out.Names.Add(row.Server, row.Tool)
	}
	for _, item := range out.Snapshot.Of(registry.KindTool) {
		out.Names.Add(out.Server.Name, item.Name)
	}
	return nil
}

// Snapshots gives two snapshots of the tenant with the bytes of their items, to
// be compared. The error is snapshot_not_found when one of them is not there.
func (s *Store) Snapshots(ctx context.Context, from, to string) (a, b *registry.Snapshot, err error) {
	err = s.read(ctx, "read snapshots", func(ctx context.Context, q bun.IDB) (err error) {
		for _, wanted := range []struct {
			digest string
			into   **registry.Snapshot
		}{{from, &a}, {to, &b}} {
			if *wanted.into, err = s.keptSnapshot(ctx, q, wanted.digest); err != nil {
				return err
			}
			if *wanted.into == nil {
				return registry.Errorf(registry.ReasonSnapshotNotFound, "there is no such snapshot").With("digest", wanted.digest).
					WithNext("list the versions of the server; only what somebody decided about is kept for ever")
			}
		}
		return s.fillBoth(ctx, q, a, b)
	})
	return a, b, err
}

// DecisionView is a decision and how much its approval names.
type DecisionView struct {
	registry.Decision
	Tools, Resources, Prompts int
}

// DecisionPage lists what was decided about a server, refused decisions too,
// the newest first, with the key of the next page, empty at the end, and the
// number of all. The server is found as by [Store.Server]. The lines of the
// approvals come only when they are wanted.
func (s *Store) DecisionPage(ctx context.Context, idOrName string, lines bool, page Page) (server ServerView, views []DecisionView, next string, total int, err error) {
	err = s.read(ctx, "list decisions", func(ctx context.Context, q bun.IDB) error {
		if server, err = s.server(ctx, q, idOrName); err != nil {
			return err
		}
		var rows []decisionRow
		chosen := q.NewSelect().Model(&rows).ExcludeColumn("approval").Where("d.tenant_id = ? AND d.server_id = ?", s.tenant, server.ServerID)
		if total, err = number(chosen.Count(ctx)); err != nil {
			return err
		}
		if chosen, err = page.after(chosen, true, true, "d.decided_at", "d.decision_id"); err != nil {
			return err
		}
		if err := chosen.Scan(ctx); err != nil {
			return err
		}
		rows, next = cut(page, rows, func(row *decisionRow) cursor { return cursor{timeKey(row.DecidedAt), row.DecisionID} })
		views = make([]DecisionView, len(rows))
		for i := range rows {
			views[i].Decision = rows[i].Decision
			if rows[i].Verb != registry.VerbApprove {
				continue
			}
			// One at a time: each may have ten thousand lines.
			var row decisionRow
			err := q.NewSelect().Model(&row).Column("approval").Where("d.tenant_id = ? AND d.decision_id = ?", s.tenant, rows[i].DecisionID).Scan(ctx)
			if err != nil {
				return err
			}
			if a := row.Approval; a != nil {
				views[i].Tools, views[i].Resources, views[i].Prompts = len(a.Tools), len(a.Resources), len(a.Prompts)
				if lines {
					views[i].Approval = a
				}
			}
		}
		return nil
	})
	return server, views, next, total, err
}
