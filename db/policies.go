package db

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"

	"github.com/uptrace/bun"

	"countersign/registry"
)

type policyRow struct {
	bun.BaseModel `bun:"table:policies,alias:y"`
	registry.PolicyBundle
}

// policyDigest selects the digest of the published bundle that the reference of
// a server s names: that version, or the newest one of the name. It is empty
// for the built-in bundle, whose name nobody can publish, and for one that does
// not exist.
const policyDigest = `COALESCE((SELECT y.digest FROM policies AS y
WHERE y.tenant_id = s.tenant_id AND s.governance_policy_ref <> 'default' AND (y.name = s.governance_policy_ref OR y.ref = s.governance_policy_ref)
ORDER BY y.version DESC LIMIT 1), '') AS policy_digest`

func policyAggregate(name string) string { return "policy/" + name }

func policyNotFound() error {
	return registry.Errorf(registry.ReasonPolicyNotFound, "there is no such policy bundle").
		WithNext("list the policies; names are those of the tenant")
}

// PublishPolicy keeps a version of a bundle, with its audit row and its event.
// Versions go up. The same version with the same digest is what it was, and
// published is false; with another one the error is policy_version_exists. The
// bundle must have been checked.
func (s *Store) PublishPolicy(ctx context.Context, b registry.PolicyBundle, op registry.Operation) (out registry.PolicyBundle, published bool, err error) {
	err = s.govern(ctx, op, policyAggregate(b.Name), AuditEntry{ObjectKind: "policy", ObjectID: b.Ref, ObjectName: b.Name}, func(ctx context.Context, t *tx) (*AuditEntry, *registry.Event, error) {
		out, published = registry.PolicyBundle{}, false
		var latest policyRow
		err := t.NewSelect().Model(&latest).Where("y.tenant_id = ? AND y.name = ?", t.tenant, b.Name).OrderExpr("y.version DESC").Limit(1).Scan(ctx)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, nil, err
		}
		if err == nil && b.Version <= latest.Version {
			same, err := policyOf(ctx, t, t.tenant, registry.PolicyRef{Name: b.Name, Version: b.Version})
			if err == nil && same.Digest == b.Digest {
				out = *same
				return nil, nil, nil
			}
			return nil, nil, registry.Errorf(registry.ReasonPolicyExists, "version %d of policy %s is published", latest.Version, b.Name).
				With("latest", latest.Ref).WithField("version", "must be more than %d", latest.Version).
				WithNext("give it version %d", latest.Version+1)
		}
		b.TenantID, b.PublishedAt, b.PublishedBy = t.tenant, t.now, op.Actor.Subject
		if _, err := t.NewInsert().Model(&policyRow{PolicyBundle: b}).Exec(ctx); err != nil {
			return nil, nil, err
		}
		out, published = b, true
		return &AuditEntry{ObjectKind: "policy", ObjectID: b.Ref, ObjectName: b.Name, DigestAfter: b.Digest, Note: "published"}, &registry.Event{
			Type:    registry.EventPolicyPublished,
			Payload: registry.PolicyPublished{TenantID: b.TenantID, Name: b.Name, Version: b.Version, Digest: b.Digest},
		}, nil
	})
	return out, published, err
}

// Policy gives a version of a published bundle, the newest one when the
// reference names none; the error is policy_not_found.
func (s *Store) Policy(ctx context.Context, ref registry.PolicyRef) (*registry.PolicyBundle, error) {
	var b *registry.PolicyBundle
	err := s.read(ctx, "read a policy", func(ctx context.Context, q bun.IDB) (err error) {
		b, err = policyOf(ctx, q, s.tenant, ref)
		return err
	})
	return b, err
}

// PolicyDocument gives the document of a published bundle by its digest; the
// error is policy_not_found.
func (s *Store) PolicyDocument(ctx context.Context, digest string) ([]byte, error) {
	var document []byte
	err := s.read(ctx, "read a policy", func(ctx context.Context, q bun.IDB) error {
		err := q.NewSelect().TableExpr("policies").Column("document").Where("tenant_id = ? AND digest = ?", s.tenant, digest).Limit(1).Scan(ctx, &document)
		if errors.Is(err, sql.ErrNoRows) {
			return policyNotFound()
		}
		return err
	})
	return document, err
}

func policyOf(ctx context.Context, q bun.IDB, tenant string, ref registry.PolicyRef) (*registry.PolicyBundle, error) {
	var row policyRow
	chosen := q.NewSelect().Model(&row).Where("y.tenant_id = ? AND y.name = ?", tenant, asText(ref.Name)).OrderExpr("y.version DESC").Limit(1)
	if ref.Version != 0 {
		chosen = chosen.Where("y.version = ?", ref.Version)
	}
	err := chosen.Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, policyNotFound()
	}
	return &row.PolicyBundle, err
}

// PolicyView is a published version and who goes by it.
type PolicyView struct {
	registry.PolicyBundle      // without the document
	Servers               int  `bun:"servers"` // live ones that it governs now
	Newest                bool `bun:"newest"`

	Place string `bun:"place"` // of the version in the list
}

// Policies lists published versions, by name and with the newest first; of one
// name when it is not empty. next is the key of the next page, total the number
// of all that match.
func (s *Store) Policies(ctx context.Context, name string, page Page) (views []PolicyView, next string, total int, err error) {
	err = s.read(ctx, "list policies", func(ctx context.Context, q bun.IDB) error {
		chosen := q.NewSelect().TableExpr("policies AS y").Where("y.tenant_id = ?", s.tenant)
		if name != "" {
			chosen = chosen.Where("y.name = ?", asText(name))
		}
		if total, err = number(chosen.Count(ctx)); err != nil {
			return err
		}
		// Versions are listed backwards, so their key counts down from where no version gets.
		const place = "y.place"
		rows := q.NewSelect().TableExpr("(?) AS y", chosen.ColumnExpr(`y.*, CAST(1000000000000 - y.version AS TEXT) AS place,
NOT EXISTS (SELECT 1 FROM policies AS later WHERE later.tenant_id = y.tenant_id AND later.name = y.name AND later.version > y.version) AS newest`)).
			ColumnExpr(`y.tenant_id, y.name, y.version, y.ref, y.digest, y.description, y.published_at, y.published_by, y.newest, y.place,
(SELECT count(*) FROM mcp_servers AS s WHERE s.tenant_id = y.tenant_id AND s.state <> 'retired'
  AND (s.governance_policy_ref = y.ref OR y.newest AND s.governance_policy_ref = y.name)) AS servers`)
		rows, err = page.after(rows, false, false, "y.name", place)
		if err != nil {
			return err
		}
		if err := rows.Scan(ctx, &views); err != nil {
			return err
		}
		views, next = cut(page, views, func(v *PolicyView) cursor { return cursor{v.Name, v.Place} })
		return nil
	})
	return views, next, total, err
}

// PolicyUsers lists the live servers that a version of a bundle governs, or would
// govern when it is the newest of its name: by name, at most limit of them after
// one.
func (s *Store) PolicyUsers(ctx context.Context, ref registry.PolicyRef, newest bool, after string, limit int) (users []PolicyUser, err error) {
	refs := []string{ref.String()}
	if newest {
		refs = append(refs, ref.Name)
	}
	err = s.read(ctx, "list the servers of a policy", func(ctx context.Context, q bun.IDB) error {
		return q.NewSelect().ColumnExpr("s.server_id, s.name").TableExpr("mcp_servers AS s").
			Where("s.tenant_id = ? AND s.state <> ? AND s.governance_policy_ref IN (?) AND s.name > ?", s.tenant, registry.StateRetired, bun.List(refs), after).
			OrderExpr("s.name").Limit(int64(limit)).Scan(ctx, &users)
	})
	return users, err
}

// PolicyUser is a server that a bundle governs.
type PolicyUser struct {
	ServerID string `bun:"server_id"`
	Name     string `bun:"name"`
}

// loadBundle reads the bundle that a server's policy names, unless that is the
// built-in one.
func (t *tx) loadBundle(ctx context.Context, r *registry.Record, c Change) error {
	asked := r.Server.GovernancePolicyRef
	if c.PolicyRef != "" {
		asked = c.PolicyRef
	}
	if ref, err := registry.ParsePolicyRef(asked); err == nil && ref.Name != registry.PolicyDefault {
		if c.PolicyRef != "" && t.engine.queue != "" {
			if _, err := t.NewRaw(t.engine.queue, t.tenant+"/"+policyAggregate(ref.Name)).Exec(ctx); err != nil {
				return err
			}
		}
		r.Bundle, err = policyOf(ctx, t, t.tenant, ref)
		if registry.ReasonOf(err) == registry.ReasonPolicyNotFound {
			r.Bundle = nil // and nothing can be approved
		} else if err != nil {
			return err
		}
	}
	return nil
}

// loadGovernance reads what the policy needs to be asked besides the bundle: the
// bytes of the definitions that count, and what is bound by whom.
func (t *tx) loadGovernance(ctx context.Context, r *registry.Record, c Change) error {
	if c.Decisions {
		if err := t.loadDecisions(ctx, r); err != nil {
			return err
		}
	}
	if r.Snapshot == nil {
		return nil
	}
	if c.Definitions != nil {
		raw := map[string][]byte{}
		if err := definitionsOf(ctx, t, t.tenant, c.Definitions(r), raw); err != nil {
			return err
		}
		for i := range r.Snapshot.Items {
			item := &r.Snapshot.Items[i]
			item.Raw = raw[item.Definition()]
		}
	}
	if c.Stated != nil {
		return t.loadStated(ctx, r.Snapshot, c.Stated(r))
	}
	return nil
}

// loadStated reads what definitions state. Of those that were saved before
// anybody looked it gives the bytes.
func (t *tx) loadStated(ctx context.Context, snap *registry.Snapshot, digests []string) error {
	stated := make(statements, len(digests))
	var unread []string
	for chunk := range slices.Chunk(digests, bulkRows) {
		var rows []struct {
			Digest string  `bun:"digest"`
			Stated *string `bun:"stated"`
		}
		err := t.NewSelect().TableExpr("definitions").Column("digest", "stated").
			Where("tenant_id = ? AND digest IN (?)", t.tenant, bun.List(chunk)).Scan(ctx, &rows)
		if err != nil {
			return err
		}
		for _, row := range rows {
			var said map[registry.ItemKind]registry.Stated
			if row.Stated != nil && json.Unmarshal([]byte(*row.Stated), &said) == nil {
				stated[row.Digest] = said
			}
		}
	}
	wanted := make(map[string]bool, len(digests))
	for _, digest := range digests {
		wanted[digest] = true
	}
	for i := range snap.Items {
		item := &snap.Items[i]
		said, known := stated[item.Definition()][item.Kind]
		switch {
		case known:
			item.Stated = &said
		case wanted[item.Definition()]:
			unread = append(unread, item.Definition())
		}
	}
	raw := map[string][]byte{}
	if err := definitionsOf(ctx, t, t.tenant, unread, raw); err != nil {
		return err
	}
	for i := range snap.Items {
		if bytes := raw[snap.Items[i].Definition()]; bytes != nil {
			snap.Items[i].Raw = bytes
		}
	}
	return nil
}

func (t *tx) loadDecisions(ctx context.Context, r *registry.Record) error {
	var rows []decisionRow
	err := t.NewSelect().Model(&rows).Where("d.tenant_id = ? AND d.server_id = ? AND d.decision_id IN (?)", t.tenant, r.Server.ServerID,
		bun.List(append(r.Asked(), ""))).Scan(ctx) // a list of none is no SQL
	if err != nil {
		return err
	}
	r.Decisions = make(map[string]registry.Decision, len(rows))
	for _, row := range rows {
		r.Decisions[row.DecisionID] = row.Decision
	}
	return nil
}

// errConsidered rolls a transaction back that was only a question.
var errConsidered = registry.Errorf(registry.ReasonInternal, "nothing was meant to be written")

// Consider calls Apply of a change on the server as it is, and writes nothing.
// The error is Apply's, or the store's own.
func (s *Store) Consider(ctx context.Context, c Change) error {
	err := s.write(ctx, "consider", func(ctx context.Context, t *tx) error {
		row, err := t.lockServer(ctx, c.ServerID)
		if err != nil {
			return err
		}
		if err := t.setNow(ctx); err != nil {
			return err
		}
		record, err := t.load(ctx, row, c)
		if err != nil {
			return err
		}
		record.Begin()
		if err := c.Apply(record, t.now); err != nil {
			return err
		}
		return errConsidered
	})
	if errors.Is(err, errConsidered) {
		return nil
	}
	return err
}

// Decision gives a decision of a server by its id, nil when there is none.
func (s *Store) Decision(ctx context.Context, serverID, decisionID string) (*registry.Decision, error) {
	var found *registry.Decision
	err := s.read(ctx, "read a decision", func(ctx context.Context, q bun.IDB) error {
		var row decisionRow
		err := q.NewSelect().Model(&row).Where("tenant_id = ? AND server_id = ? AND decision_id = ?", s.tenant, serverID, decisionID).Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		found = &row.Decision
		return err
	})
	return found, err
}
