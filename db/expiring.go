package db

import (
	"context"
	"time"

	"github.com/uptrace/bun"
)

// Expiring is something that ends by itself unless somebody does something.
type Expiring struct {
	Kind       string    `bun:"kind"` // exception, approval or request
	ServerID   string    `bun:"server_id"`
	ServerName string    `bun:"server_name"`
	EndsAt     time.Time `bun:"ends_at"`
	DueAt      time.Time `bun:"due_at"`      // of an approval: when it is to be renewed; of the others EndsAt
	Bound      int       `bun:"bound"`       // of an approval: how many tools it binds; of the others: how many the server has bound
	DecisionID string    `bun:"decision_id"` // of an approval
	Digest     string    `bun:"digest"`      // of a request
	By         string    `bun:"by_whom"`     // who gave the exception, or asked for the approval
}

// The kinds of what expires.
const (
	ExpiringException = "exception"
	ExpiringApproval  = "approval"
	ExpiringRequest   = "request"
)

// expiring selects all of a tenant that ends by itself.
//
//nolint:dupword // of SQL: a request is due when it ends
const expiring = `
SELECT 'exception' AS kind, s.server_id, s.name AS server_name, s.exception_expires_at AS ends_at, s.exception_expires_at AS due_at,
  (SELECT count(*) FROM mcp_tool_bindings AS b WHERE b.tenant_id = s.tenant_id AND b.server_id = s.server_id AND b.bound) AS bound,
  '' AS decision_id, '' AS digest, s.exception_approved_by AS by_whom
FROM mcp_servers AS s
WHERE s.tenant_id = ?0 AND s.state <> 'retired' AND s.exception_expires_at IS NOT NULL AND s.causes NOT LIKE '%auth_exception_expired%'
UNION ALL
SELECT 'request', s.server_id, s.name, s.review_expires_at, s.review_expires_at,
  (SELECT count(*) FROM mcp_tool_bindings AS b WHERE b.tenant_id = s.tenant_id AND b.server_id = s.server_id AND b.bound),
  '', s.review_digest, s.review_requested_by
FROM mcp_servers AS s
WHERE s.tenant_id = ?0 AND s.state <> 'retired' AND s.review_status = 'pending' AND s.review_expires_at IS NOT NULL
UNION ALL
SELECT 'approval', s.server_id, s.name, a.ends_at, a.due_at, a.bound, a.decision_id, '', COALESCE((SELECT d.subject FROM decisions AS d
  WHERE d.tenant_id = s.tenant_id AND d.decision_id = a.decision_id), '')
FROM mcp_servers AS s JOIN (
  SELECT x.tenant_id, x.server_id, x.decision_id, min(x.ends_at) AS ends_at, min(x.due_at) AS due_at, count(*) AS bound FROM (
    SELECT tenant_id, server_id, decision_id, ends_at, due_at FROM mcp_tool_bindings WHERE tenant_id = ?0 AND bound AND ends_at IS NOT NULL
    UNION ALL
    SELECT tenant_id, server_id, decision_id, ends_at, ends_at FROM mcp_resource_bindings WHERE tenant_id = ?0 AND bound AND ends_at IS NOT NULL
    UNION ALL
    SELECT tenant_id, server_id, decision_id, ends_at, ends_at FROM mcp_prompt_bindings WHERE tenant_id = ?0 AND bound AND ends_at IS NOT NULL
  ) AS x GROUP BY x.tenant_id, x.server_id, x.decision_id
) AS a ON a.tenant_id = s.tenant_id AND a.server_id = s.server_id
WHERE s.state <> 'retired'`

// Expiring lists what of live servers ends by itself before a time, whatever
// comes first first; the zero time: everything. next is the key of the next
// page, total the number of all.
func (s *Store) Expiring(ctx context.Context, before time.Time, page Page) (list []Expiring, next string, total int, err error) {
	err = s.read(ctx, "list what expires", func(ctx context.Context, q bun.IDB) error {
		chosen := q.NewSelect().TableExpr("("+expiring+") AS x", s.tenant)
		if !before.IsZero() {
			chosen = chosen.Where("x.ends_at < ?", before)
		}
		if total, err = number(chosen.Count(ctx)); err != nil {
			return err
		}
		chosen, err := page.after(chosen.ColumnExpr("x.*"), false, true, "x.ends_at", "x.kind", "x.server_id", "x.decision_id")
		if err != nil {
			return err
		}
		if err := chosen.Scan(ctx, &list); err != nil {
			return err
		}
		list, next = cut(page, list, func(e *Expiring) cursor {
			return cursor{timeKey(e.EndsAt), e.Kind, e.ServerID, e.DecisionID}
		})
		return nil
	})
	return list, next, total, err
}
