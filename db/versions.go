package db

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"countersign/registry"
)

type versionRow struct {
	bun.BaseModel `bun:"table:server_versions,alias:v"`
	registry.Version
}

// saveVersion notes that the server is at a pair of snapshot and target, if it
// was never before. The snapshot is there.
func (t *tx) saveVersion(ctx context.Context, s *registry.Server) error {
	_, err := t.NewRaw(`INSERT INTO server_versions (tenant_id, server_id, pair_digest, snapshot_digest, target_digest, number, first_seen_at,
  protocol_version, server_name, server_version, tools, resources, templates, prompts, faulty)
SELECT n.tenant_id, ?, ?, n.digest, ?,
  (SELECT COALESCE(max(number), 0) + 1 FROM server_versions AS v WHERE v.tenant_id = n.tenant_id AND v.server_id = ?), ?, ?, ?, ?,
  COALESCE(sum(CASE WHEN i.kind = ? THEN 1 ELSE 0 END), 0), COALESCE(sum(CASE WHEN i.kind = ? THEN 1 ELSE 0 END), 0),
  COALESCE(sum(CASE WHEN i.kind = ? THEN 1 ELSE 0 END), 0), COALESCE(sum(CASE WHEN i.kind = ? THEN 1 ELSE 0 END), 0),
  COALESCE(sum(CASE WHEN i.verdict <> '' THEN 1 ELSE 0 END), 0)
FROM snapshots AS n LEFT JOIN snapshot_items AS i ON i.tenant_id = n.tenant_id AND i.snapshot_digest = n.digest
WHERE n.tenant_id = ? AND n.digest = ?
GROUP BY n.tenant_id, n.digest
ON CONFLICT DO NOTHING`,
		s.ServerID, registry.ReviewDigest(s.SnapshotDigest, s.TargetDigest), s.TargetDigest, s.ServerID, t.now,
		s.ProtocolVersion, s.Reported.Name, s.Reported.Version,
		registry.KindTool, registry.KindResource, registry.KindTemplate, registry.KindPrompt,
		t.tenant, s.SnapshotDigest).Exec(ctx)
	return err
}

// version finds a version of a server by its pair, for [registry.Record.Version].
// An error leaves the transaction to fail at its next step.
func (t *tx) version(ctx context.Context, serverID string) func(pair string) (registry.Version, bool) {
	return func(pair string) (registry.Version, bool) {
		var row versionRow
		err := t.NewSelect().Model(&row).Where("tenant_id = ? AND server_id = ? AND pair_digest = ?", t.tenant, serverID, pair).Scan(ctx)
		return row.Version, err == nil
	}
}

// VersionView is a version and what became of it.
type VersionView struct {
	registry.Version
	Kept     bool // the snapshot is still there
	Approval *Approval
}

// Approval is an approval that counted, without its lines.
type Approval struct {
	DecisionID string
	Pair       string // digest of what was approved
	Snapshot   string
	Target     string
	By         string // all who approved, where several had to
	At         time.Time
}

// Versions lists what a server was at, the newest first, with the key of the
// next page, empty at the end, and the number of all. The server is found as by
// [Store.Server].
func (s *Store) Versions(ctx context.Context, idOrName string, page Page) (server ServerView, views []VersionView, next string, total int, err error) {
	err = s.read(ctx, "list versions", func(ctx context.Context, q bun.IDB) error {
		if server, err = s.server(ctx, q, idOrName); err != nil {
			return err
		}
		var rows []struct {
			registry.Version
			Kept bool `bun:"kept"`
		}
		chosen := q.NewSelect().TableExpr("server_versions AS v").Where("v.tenant_id = ? AND v.server_id = ?", s.tenant, server.ServerID)
		if total, err = number(chosen.Count(ctx)); err != nil {
			return err
		}
		chosen = chosen.ColumnExpr("v.*, EXISTS (SELECT 1 FROM snapshots AS n WHERE n.tenant_id = v.tenant_id AND n.digest = v.snapshot_digest) AS kept")
		if chosen, err = page.before(chosen, "number"); err != nil {
			return err
		}
		if err := chosen.Scan(ctx, &rows); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if len(rows) > page.size() {
			rows = rows[:page.size()]
			next = cursor{idKey(rows[len(rows)-1].Number)}.String()
		}
		approvals, err := s.approvals(ctx, q, server.ServerID)
		if err != nil {
			return err
		}
		views = make([]VersionView, len(rows))
		for i, row := range rows {
			views[i] = VersionView{Version: row.Version, Kept: row.Kept}
			for _, a := range approvals { // the last one stays
				if a.Pair == row.Pair {
					views[i].Approval = &a
				}
			}
		}
		return nil
	})
	return server, views, next, total, err
}

// approvals lists the approvals of a server that counted, the oldest first: where
// the policy wants several people, the one that was enough, with all of them.
func (s *Store) approvals(ctx context.Context, q bun.IDB, serverID string) ([]Approval, error) {
	var rows []decisionRow
	err := q.NewSelect().Model(&rows).ExcludeColumn("approval", "comment", "roles").
		Where("tenant_id = ? AND server_id = ? AND verb = ? AND applied", s.tenant, serverID, registry.VerbApprove).
		OrderExpr("decided_at, decision_id").Scan(ctx)
	var out []Approval
	for _, row := range rows {
		by := []string{row.Subject}
		if e := row.Evidence; e != nil {
			if e.Tally.Status != registry.TallyApproved {
				continue
			}
			by = e.Tally.Counted
		}
		out = append(out, Approval{row.DecisionID, row.Digest, row.Snapshot, row.Target, strings.Join(by, ", "), row.DecidedAt})
	}
	return out, err
}
