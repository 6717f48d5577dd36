package db

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"countersign/registry"
)

// InboxQuery asks for requests for approval that are open.
type InboxQuery struct {
	Page
	// Conditions may ask for server, kind, owner, requested_by, policy and
	// labels.KEY.
	Conditions []Condition
	// Before is when they end at the latest; zero: whenever.
	Before time.Time
	// Order is by expire_time, open_time or server.
	Order Order
}

var inboxFields = map[string]field{
	"server": {sql: "s.name"}, "owner": {sql: "s.owner"}, "requested_by": {sql: "s.review_requested_by"},
	"policy": {sql: "s.governance_policy_ref"}, "labels": {kind: labelField},
	// As registry.Server.ReviewKind says it of one that is pending.
	"kind": {sql: `CASE WHEN s.approved_snapshot = '' THEN 'first'
  WHEN s.approved_snapshot <> s.snapshot_digest OR s.approved_target <> s.target_digest THEN 'drift' ELSE 'again' END`},
}

var inboxOrders = map[string]struct {
	sql string
	key func(*registry.Server) time.Time // nil: the name
}{
	"":            {"s.review_expires_at", func(s *registry.Server) time.Time { return s.Review.ExpiresAt }},
	"expire_time": {"s.review_expires_at", func(s *registry.Server) time.Time { return s.Review.ExpiresAt }},
	"open_time":   {"s.review_opened_at", func(s *registry.Server) time.Time { return s.Review.OpenedAt }},
	"server":      {sql: "s.name"},
}

// Waiting is a server with an open request for approval, and the key of the page
// after it.
type Waiting struct {
	Server registry.Server
	Key    string
}

// Inbox lists servers that wait for an approval, with the key of the next page,
// empty at the end, and the number of all that match.
func (s *Store) Inbox(ctx context.Context, query InboxQuery) (list []Waiting, next string, total int, err error) {
	order, known := inboxOrders[query.Order.Field]
	if !known {
		return nil, "", 0, registry.Errorf(registry.ReasonInvalidOrder, "requests are ordered by expire_time, open_time or server")
	}
	err = s.read(ctx, "list requests for approval", func(ctx context.Context, q bun.IDB) error {
		var rows []serverRow
		chosen := q.NewSelect().Model(&rows).
			Where("s.tenant_id = ? AND s.review_status = 'pending' AND s.state <> ?", s.tenant, registry.StateRetired)
		if !query.Before.IsZero() {
			chosen = chosen.Where("s.review_expires_at < ?", query.Before)
		}
		for _, c := range query.Conditions {
			if chosen, err = s.db.engine.where(chosen, c, inboxFields); err != nil {
				return err
			}
		}
		if total, err = number(chosen.Count(ctx)); err != nil {
			return err
		}
		if chosen, err = query.after(chosen, query.Order.Desc, order.key != nil, order.sql, "s.server_id"); err != nil {
			return err
		}
		if err := chosen.Scan(ctx); err != nil {
			return err
		}
		key := func(row *serverRow) cursor {
			if order.key != nil {
				return cursor{timeKey(order.key(&row.Server)), row.ServerID}
			}
			return cursor{row.Name, row.ServerID}
		}
		rows, next = cut(query.Page, rows, key)
		for i := range rows {
			list = append(list, Waiting{rows[i].Server, key(&rows[i]).String()})
		}
		return nil
	})
	return list, next, total, err
}

// Request is a server's request for approval with all that is needed to weigh it.
type Request struct {
	Record registry.Record    // without connection, command and descriptors; what items state is there
	Was    *registry.Snapshot // that was approved last; nil: never, or it is not kept
	Now    time.Time          // by the database's clock
}

// Items counts what was read of the server.
func (r *Request) Items() int {
	n := 0
	for _, snap := range []*registry.Snapshot{r.Record.Snapshot, r.Was} {
		if snap != nil {
			n += len(snap.Items)
		}
	}
	return n
}

// Request gives what is asked to be approved about a server, by its id, as of one
// moment. Of what changed since the last approval both snapshots hold the bytes. The
// error is nothing_discovered when nothing is known of what it offers at its target.
func (s *Store) Request(ctx context.Context, serverID string) (*Request, error) {
	out := &Request{}
	err := s.readTx(ctx, "read a request for approval", func(ctx context.Context, t *tx) error {
		var row serverRow
		err := t.NewSelect().Model(&row).Where("s.tenant_id = ? AND s.server_id = ?", t.tenant, serverID).Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return serverNotFound()
		}
		if err != nil {
			return err
		}
		r := &out.Record
		r.Server = row.Server
		if out.Now, err = t.engine.now(ctx, t); err != nil {
			return err
		}
		if r.Server.SnapshotDigest == "" {
			return registry.Errorf(registry.ReasonNothingDiscovered, "nothing is known yet of what server %s offers there", r.Server.Name).
				WithNext("start a discovery and look at what it finds")
		}
		if r.Snapshot, err = snapshotOf(ctx, t, t.tenant, r.Server.SnapshotDigest); err != nil {
			return err
		}
		if approved := r.Server.ApprovedSnapshot; approved != "" {
			if out.Was, err = s.keptSnapshot(ctx, t, approved); err != nil {
				return err
			}
		}
		if err := t.loadBundle(ctx, r, Change{}); err != nil {
			return err
		}
		if err := t.loadCatalog(ctx, r); err != nil {
			return err
		}
		every := func(r *registry.Record) []string { return stateable(r.Snapshot) }
		if err := t.loadGovernance(ctx, r, Change{Decisions: true, Stated: every}); err != nil {
			return err
		}
		return t.fillChanged(ctx, out.Was, r.Snapshot)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// stateable lists the definitions of all items.
func stateable(snap *registry.Snapshot) []string {
	known := make(map[string]bool, len(snap.Items))
	var out []string
	for _, item := range snap.Items {
		if !known[item.Definition()] {
			known[item.Definition()] = true
			out = append(out, item.Definition())
		}
	}
	return out
}

// fillChanged adds the bytes of the items that are in both snapshots and differ.
// The first may be nil.
func (t *tx) fillChanged(ctx context.Context, was, now *registry.Snapshot) error {
	if was == nil || was.Digest == now.Digest {
		return nil
	}
	var digests []string
	for _, before := range was.Items {
		if item, there := now.Find(before.Kind, before.Name); there && item.Definition() != before.Definition() {
			digests = append(digests, before.Definition(), item.Definition())
		}
	}
	raw := map[string][]byte{}
	if err := definitionsOf(ctx, t, t.tenant, digests, raw); err != nil {
		return err
	}
	for _, snap := range []*registry.Snapshot{was, now} {
		for i := range snap.Items {
			if bytes := raw[snap.Items[i].Definition()]; bytes != nil {
				snap.Items[i].Raw = bytes
			}
		}
	}
	return nil
}

// Asked is a request for approval by its address, whatever became of it.
type Asked struct {
	Server    ServerView
	Version   registry.Version // whose pair it is about; its number is 0 when it is the server's own review of a pair that is not kept
	Decisions []DecisionView   // about it, the newest first, without their lines
}

// maxAsked bounds how many decisions come with a request.
const maxAsked = 200

// Asked finds a request by the digest of its pair, the server's last one when the
// digest is empty. The error is approval_not_found when the server never was at
// that pair.
func (s *Store) Asked(ctx context.Context, idOrName, digest string) (Asked, error) {
	var out Asked
	err := s.readTx(ctx, "read a request for approval", func(ctx context.Context, t *tx) (err error) {
		if out.Server, err = s.server(ctx, t, idOrName); err != nil {
			return err
		}
		review := &out.Server.Review
		if digest == "" {
			if digest = review.Digest; digest == "" {
				return approvalNotFound(out.Server.Name)
			}
		}
		version, known := t.version(ctx, out.Server.ServerID)(digest)
		switch {
		case known:
			out.Version = version
		case review.Digest == digest:
			out.Version = registry.Version{Pair: digest, Snapshot: review.Snapshot, Target: review.Target}
		default:
			return approvalNotFound(out.Server.Name).With("digest", digest)
		}
		var rows []decisionRow
		err = t.NewSelect().Model(&rows).ExcludeColumn("approval").
			Where("d.tenant_id = ? AND d.server_id = ? AND d.digest = ?", t.tenant, out.Server.ServerID, digest).
			OrderExpr("d.decided_at DESC, d.decision_id DESC").Limit(maxAsked).Scan(ctx)
		for i := range rows {
			out.Decisions = append(out.Decisions, DecisionView{Decision: rows[i].Decision})
		}
		return err
	})
	return out, err
}

func approvalNotFound(server string) *registry.Error {
	return registry.Errorf(registry.ReasonApprovalNotFound, "server %s was never up for this approval", server).
		WithNext("list the approvals, or the versions of the server")
}

var errNoTransaction = errors.New("a read without a transaction")

// readTx is read for what shares its queries with changes.
func (s *Store) readTx(ctx context.Context, doing string, fn func(ctx context.Context, t *tx) error) error {
	return s.read(ctx, doing, func(ctx context.Context, q bun.IDB) error {
		t, ok := q.(bun.Tx)
		if !ok {
			return errNoTransaction
		}
		return fn(ctx, &tx{Tx: t, engine: s.db.engine, tenant: s.tenant})
	})
}
