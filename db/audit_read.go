package db

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"time"

	"github.com/uptrace/bun"

	"countersign/registry"
)

// AuditQuery asks for audit rows of the tenant.
type AuditQuery struct {
	Page
	ObjectID   string      // empty: of all objects
	Outcome    string      // empty: all
	Object     string      // an id or a name; empty: of all objects
	Conditions []Condition // by the names of auditFields
	From       time.Time   // not before; zero: from the first on
	Before     time.Time   // zero: to the last
	Oldest     bool        // the oldest first; else the latest
}

// auditFields are what audit rows can be asked for by.
var auditFields = map[string]field{
	"actor": {sql: "a.actor"}, "action": {sql: "a.action"}, "object_kind": {sql: "a.object_kind"}, "object_id": {sql: "a.object_id"},
	"object_name": {sql: "a.object_name"}, "outcome": {sql: "a.outcome"}, "reason": {sql: "a.reason"}, "origin": {sql: "a.origin"},
	"operation_id": {sql: "a.operation_id"},
}

// rows selects what the query asks for.
func (a AuditQuery) rows(s *Store, q *bun.SelectQuery) (*bun.SelectQuery, error) {
	q = q.Where("a.tenant_id = ?", s.tenant)
	if a.ObjectID != "" {
		q = q.Where("a.object_id = ?", asText(a.ObjectID))
	}
	if a.Object != "" {
		object := asText(a.Object)
		q = q.Where("(a.object_id = ? OR a.object_name = ?)", object, object)
	}
	if a.Outcome != "" {
		q = q.Where("a.outcome = ?", asText(a.Outcome))
	}
	if !a.From.IsZero() {
		q = q.Where("a.at >= ?", a.From.UTC())
	}
	if !a.Before.IsZero() {
		q = q.Where("a.at < ?", a.Before.UTC())
	}
	for _, c := range a.Conditions {
		var err error
		if q, err = s.db.engine.where(q, c, auditFields); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// Audit lists audit rows, in the order in which they were written, with the key
// of the next page.
func (s *Store) Audit(ctx context.Context, query AuditQuery) (entries []AuditEntry, next string, err error) {
	err = s.read(ctx, "list audit rows", func(ctx context.Context, q bun.IDB) error {
		entries, next, err = s.audit(ctx, q, query)
		return err
	})
	return entries, next, err
}

// AuditPage is Audit with the number of all rows that match.
func (s *Store) AuditPage(ctx context.Context, query AuditQuery) (entries []AuditEntry, next string, total int, err error) {
	err = s.read(ctx, "list audit rows", func(ctx context.Context, q bun.IDB) error {
		all, err := query.rows(s, q.NewSelect().Model((*auditRow)(nil)))
		if err != nil {
			return err
		}
		if total, err = number(all.Count(ctx)); err != nil {
			return err
		}
		entries, next, err = s.audit(ctx, q, query)
		return err
	})
	return entries, next, total, err
}

func (s *Store) audit(ctx context.Context, q bun.IDB, query AuditQuery) (entries []AuditEntry, next string, err error) {
	var rows []auditRow
	selection, err := query.rows(s, q.NewSelect().Model(&rows))
	if err != nil {
		return nil, "", err
	}
	if query.Oldest {
		selection, err = query.beyond(selection, "a.id")
	} else {
		selection, err = query.before(selection, "a.id")
	}
	if err != nil {
		return nil, "", err
	}
	if err := selection.Scan(ctx); err != nil {
		return nil, "", err
	}
	rows, next = cut(query.Page, rows, func(r *auditRow) cursor { return cursor{idKey(r.ID)} })
	return entriesOf(rows), next, nil
}

func entriesOf(rows []auditRow) []AuditEntry {
	var out []AuditEntry
	for i := range rows {
		out = append(out, rows[i].AuditEntry)
	}
	return out
}

// AuditEvent gives one row; the error is audit_event_not_found.
func (s *Store) AuditEvent(ctx context.Context, auditID string) (entry AuditEntry, err error) {
	err = s.read(ctx, "read an audit row", func(ctx context.Context, q bun.IDB) error {
		var row auditRow
		err := q.NewSelect().Model(&row).Where("a.tenant_id = ? AND a.audit_id = ?", s.tenant, asText(auditID)).Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return registry.Errorf(registry.ReasonAuditEventNotFound, "there is no such audit event").WithNext("list the audit events of the tenant")
		}
		entry = row.AuditEntry
		return err
	})
	return entry, err
}

// AuditCheckpoints lists the checkpoints of the tenant, the latest first, with
// the key of the next page and the number of all.
func (s *Store) AuditCheckpoints(ctx context.Context, page Page) (list []registry.AuditCheckpoint, next string, total int, err error) {
	err = s.read(ctx, "list audit checkpoints", func(ctx context.Context, q bun.IDB) error {
		var rows []checkpointRow
		if total, err = number(q.NewSelect().Model((*checkpointRow)(nil)).Where("c.tenant_id = ?", s.tenant).Count(ctx)); err != nil {
			return err
		}
		chosen, err := page.before(q.NewSelect().Model(&rows).Where("c.tenant_id = ?", s.tenant), "c.number")
		if err != nil {
			return err
		}
		if err := chosen.Scan(ctx); err != nil {
			return err
		}
		rows, next = cut(page, rows, func(r *checkpointRow) cursor { return cursor{strconv.FormatInt(r.Number, 10)} })
		for i := range rows {
			list = append(list, rows[i].AuditCheckpoint)
		}
		return nil
	})
	return list, next, total, err
}

// AuditStretch is a part of a tenant's chain.
type AuditStretch struct {
	After       registry.AuditPoint // the row behind which it begins
	Entries     []AuditEntry        // in the order of positions
	Checkpoints []registry.AuditCheckpoint
	Head        registry.AuditHead // as the database remembers it
	Unsealed    int                // rows of the tenant that are in no chain yet
	More        bool               // the chain goes on behind the last entry
}

// AuditExport reads sealed rows for an export: those that the query matches,
// behind a position and not behind another, at most limit of them. Checkpoints
// come with it that lie in the same stretch.
func (s *Store) AuditExport(ctx context.Context, query AuditQuery, after, through int64, limit int) (stretch AuditStretch, err error) {
	err = s.read(ctx, "export audit rows", func(ctx context.Context, q bun.IDB) error {
		if stretch, err = s.stretch(ctx, q, after); err != nil {
			return err
		}
		if through == 0 {
			through = stretch.Head.Position
		}
		return s.entries(ctx, q, &stretch, query, through, limit)
	})
	return stretch, err
}

// stretch begins to read a part of the chain.
func (s *Store) stretch(ctx context.Context, q bun.IDB, after int64) (stretch AuditStretch, err error) {
	head := auditHeadRow{TenantID: s.tenant}
	err = q.NewSelect().Model(&head).WherePK().Scan(ctx)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return stretch, err
	}
	stretch.Head = registry.AuditHead{AuditPoint: head.point(), Checkpoints: head.Checkpoints}
	stretch.Unsealed, err = number(q.NewSelect().Model((*auditRow)(nil)).Where("a.tenant_id = ? AND a.position IS NULL", s.tenant).Count(ctx))
	if err != nil || after <= 0 {
		return stretch, err
	}
	stretch.After.Position = after
	err = q.NewSelect().TableExpr("audit").ColumnExpr("COALESCE(hash, '')").Where("tenant_id = ? AND position = ?", s.tenant, after).Scan(ctx, &stretch.After.Hash)
	if errors.Is(err, sql.ErrNoRows) {
		err = registry.Errorf(registry.ReasonAuditEventNotFound, "there is no row at position %d of the chain", after).WithNext("begin at an earlier position")
	}
	return stretch, err
}

// entries adds the next rows to a stretch, with the checkpoints among them.
func (s *Store) entries(ctx context.Context, q bun.IDB, stretch *AuditStretch, query AuditQuery, through int64, limit int) error {
	last := stretch.After.Position
	if n := len(stretch.Entries); n > 0 {
		last = stretch.Entries[n-1].Position
	}
	var rows []auditRow
	selection, err := query.rows(s, q.NewSelect().Model(&rows))
	if err != nil {
		return err
	}
	selection = selection.Where("a.position > ?", last)
	if through > 0 {
		selection = selection.Where("a.position <= ?", through)
	}
	if err := selection.OrderExpr("a.position").Limit(int64(limit + 1)).Scan(ctx); err != nil {
		return err
	}
	stretch.More = len(rows) > limit
	rows = rows[:min(len(rows), limit)]
	stretch.Entries = append(stretch.Entries, entriesOf(rows)...)
	if stretch.More {
		through = rows[len(rows)-1].Position
	}
	var checkpoints []checkpointRow
	chosen := q.NewSelect().Model(&checkpoints).Where("c.tenant_id = ? AND c.count > ?", s.tenant, last)
	if through > 0 {
		chosen = chosen.Where("c.count <= ?", through)
	}
	if err := chosen.OrderExpr("c.number").Scan(ctx); err != nil {
		return err
	}
	for i := range checkpoints {
		stretch.Checkpoints = append(stretch.Checkpoints, checkpoints[i].AuditCheckpoint)
	}
	return nil
}

// verifyPage is how many rows are in memory while a chain is verified.
const verifyPage = 1000

// VerifyAudit looks at the tenant's chain behind a place whose hash the caller
// knows, at most limit rows of it and all on one state of the database. kept
// are checkpoints that somebody kept elsewhere. more says that the chain goes
// on: from the report's last place.
func (s *Store) VerifyAudit(ctx context.Context, from registry.AuditPoint, kept []registry.AuditCheckpoint, limit int, keys ...registry.AuditPublicKey) (report registry.AuditReport, more bool, err error) {
	err = s.read(ctx, "verify the audit trail", func(ctx context.Context, q bun.IDB) error {
		stretch, err := s.stretch(ctx, q, 0)
		if err != nil {
			return err
		}
		v := registry.NewAuditVerifier(from, keys...)
		stretch.After, stretch.More = from, true
		if from.Position > 0 {
			c, err := s.checkpointBefore(ctx, q, from.Position)
			if err != nil {
				return err
			}
			if c != nil {
				v.Checkpoint(*c)
			}
		}
		for looked := 0; stretch.More && looked < limit; {
			if err := s.entries(ctx, q, &stretch, AuditQuery{}, 0, min(verifyPage, limit-looked)); err != nil {
				return err
			}
			for i := range stretch.Entries {
				v.Row(&stretch.Entries[i])
			}
			for _, c := range stretch.Checkpoints {
				v.Checkpoint(c)
			}
			looked += len(stretch.Entries)
			if n := len(stretch.Entries); n > 0 {
				stretch.After = stretch.Entries[n-1].Point()
			}
			stretch.Entries, stretch.Checkpoints = nil, nil
		}
		more = stretch.More
		for _, c := range kept {
			// What is before this part was compared with the parts before, what is behind it will be with those to come.
			if c.Count > from.Position && (!more || c.Count <= stretch.After.Position) {
				v.Checkpoint(c)
			}
		}
		report = v.End(&stretch.Head, !more)
		report.Unsealed = int64(stretch.Unsealed)
		return nil
	})
	return report, more, err
}

// checkpointBefore gives the last checkpoint that is of no more rows; nil: none.
func (s *Store) checkpointBefore(ctx context.Context, q bun.IDB, position int64) (*registry.AuditCheckpoint, error) {
	var row checkpointRow
	err := q.NewSelect().Model(&row).Where("c.tenant_id = ? AND c.count <= ?", s.tenant, position).OrderExpr("c.count DESC").Limit(1).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &row.AuditCheckpoint, err
}
