package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"countersign/registry"
)

// ConnectionView is a version of a connection and who uses it.
type ConnectionView struct {
	registry.Connection
	Servers int  `bun:"servers"` // live ones that pin this version
	Users   int  `bun:"users"`   // live ones that pin any version
	Newest  bool `bun:"newest"`

	Place string `bun:"place"` // of the version in the list
}

// ConnectionUser is a live server that uses a connection.
type ConnectionUser struct {
	ServerID string `bun:"server_id"`
	Name     string `bun:"name"`
}

func connectionAggregate(name string) string { return "connection/" + name }

// connectionOperation is the record of an operation on a connection.
type connectionOperation struct {
	bun.BaseModel `bun:"table:applied_operations,alias:o"`
	TenantID      string               `bun:"tenant_id,pk"`
	Object        string               `bun:"server_id,pk"` // connection/NAME
	OperationID   string               `bun:"operation_id,pk"`
	Name          string               `bun:"name"`
	At            time.Time            `bun:"at"`
	Answer        string               `bun:"answer"`
	Result        *registry.Connection `bun:"result,type:text"`
}

// changeConnection makes one change of a connection, once: decide gets the newest version,
// nil when there is none, and gives the next one with what to note of it; nil
// when all stays as it is. A repeat of the operation, or of the claim's key with
// the same body, is told what the first one was. Registrations and edits of
// servers that name the connection wait, and so does this for them.
func (s *Store) changeConnection(ctx context.Context, name string, op registry.Operation, claim *Claim,
	decide func(ctx context.Context, t *tx, newest *registry.Connection) (*registry.Connection, string, error),
) (out registry.Connection, replayed bool, err error) {
	object := connectionAggregate(name)
	err = s.govern(ctx, op, object, AuditEntry{ObjectKind: "connection", ObjectID: name, ObjectName: name}, func(ctx context.Context, t *tx) (*AuditEntry, *registry.Event, error) {
		out, replayed = registry.Connection{}, false
		if op.ID == "" {
			return nil, nil, registry.Errorf(registry.ReasonInternal, "the change has no operation id")
		}
		earlier, err := t.claimed(ctx, claim)
		if err != nil {
			return nil, nil, err
		}
		id := op.ID
		if earlier != nil {
			id = earlier.OperationID
		}
		var done connectionOperation
		err = t.NewSelect().Model(&done).Where("tenant_id = ? AND server_id = ? AND operation_id = ?", t.tenant, object, id).Scan(ctx)
		switch {
		case err == nil && done.Result != nil:
			out, replayed = *done.Result, true
			return nil, nil, nil
		case !errors.Is(err, sql.ErrNoRows):
			return nil, nil, errors.Join(err, registry.Errorf(registry.ReasonInternal, "the operation has no result"))
		}
		newest, err := t.newestConnection(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		next, note, err := decide(ctx, t, newest)
		if err != nil {
			return nil, nil, err
		}
		entry, event := t.connectionChanged(newest, next, note, op)
		if next == nil {
			out = *newest
		} else {
			if _, err := t.NewInsert().Model(&connectionRow{Connection: *next}).Exec(ctx); err != nil {
				return nil, nil, err
			}
			out = *next
		}
		if _, err := t.claim(ctx, claim, op, &registry.Server{ServerID: object}); err != nil {
			return nil, nil, err
		}
		_, err = t.NewInsert().Model(&connectionOperation{
			TenantID: t.tenant, Object: object, OperationID: op.ID, Name: op.Name, At: t.now, Result: &out,
		}).Exec(ctx)
		return entry, event, err
	})
	return out, replayed, err
}

// connectionChanged completes the next version, and gives its audit row and its
// event; nothing when there is none.
func (t *tx) connectionChanged(newest, next *registry.Connection, note string, op registry.Operation) (*AuditEntry, *registry.Event) {
	if next == nil {
		return nil, nil
	}
	next.TenantID, next.Version, next.CreatedAt, next.CreatedBy = t.tenant, 1, t.now, op.Actor.Subject
	entry := &AuditEntry{ObjectKind: "connection", Note: note}
	if newest != nil {
		next.Version = newest.Version + 1
		entry.VersionBefore = int64(newest.Version)
	}
	entry.ObjectID, entry.ObjectName, entry.VersionAfter = next.Name, next.Name, int64(next.Version)
	return entry, &registry.Event{Type: registry.EventConnectionChanged, Payload: registry.ConnectionChanged{
		TenantID: t.tenant, Name: next.Name, Version: next.Version, Deleted: next.Deleted,
	}}
}

// CreateConnection keeps the first version of a connection, or the next one of a
// name whose connection was deleted. The error is connection_already_exists when
// there is one. The connection must have been checked.
func (s *Store) CreateConnection(ctx context.Context, c registry.Connection, op registry.Operation, claim *Claim) (registry.Connection, bool, error) {
	return s.changeConnection(ctx, c.Name, op, claim, func(ctx context.Context, t *tx, newest *registry.Connection) (*registry.Connection, string, error) {
		if newest != nil && !newest.Deleted {
			return nil, "", registry.Errorf(registry.ReasonConnectionExists, "there is a connection named %s", c.Name).
				With("connection", newest.Ref()).WithNext("choose another name, or change that connection")
		}
		if err := t.roomForConnection(ctx); err != nil {
			return nil, "", err
		}
		next := c
		next.Deleted, next.Authentication = false, ""
		return &next, "created", nil
	})
}

// EditConnection makes the next version of a connection, if the edit changes
// anything. check judges it; servers that use it must go with it.
func (s *Store) EditConnection(ctx context.Context, name string, e registry.ConnectionEdit, op registry.Operation, claim *Claim, check func(registry.Connection) error) (registry.Connection, bool, error) {
	return s.changeConnection(ctx, name, op, claim, func(ctx context.Context, t *tx, newest *registry.Connection) (*registry.Connection, string, error) {
		if err := changeable(newest, e.Etag); err != nil {
			return nil, "", err
		}
		next, fields := newest.Edit(e)
		if len(fields) == 0 {
			return nil, "", nil
		}
		if err := check(next); err != nil {
			return nil, "", err
		}
		var kinds []registry.Authentication
		err := t.NewSelect().TableExpr("mcp_servers").ColumnExpr("DISTINCT authentication").
			Where("tenant_id = ? AND connection_name = ? AND state <> ?", t.tenant, name, registry.StateRetired).Scan(ctx, &kinds)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, "", err
		}
		for _, kind := range kinds {
			if err := next.Fits(kind); err != nil {
				return nil, "", err
			}
		}
		return &next, "edited " + strings.Join(fields, ", "), nil
	})
}

// DeleteConnection ends a connection that no live server uses. Its versions stay,
// for those that were approved under them.
func (s *Store) DeleteConnection(ctx context.Context, name, etag string, op registry.Operation) error {
	_, _, err := s.changeConnection(ctx, name, op, nil, func(ctx context.Context, t *tx, newest *registry.Connection) (*registry.Connection, string, error) {
		if err := changeable(newest, etag); err != nil {
			return nil, "", err
		}
		users, err := connectionUsers(ctx, t, t.tenant, name, newest.Version+1, "", namedUsers+1)
		if err != nil {
			return nil, "", err
		}
		if len(users) > 0 {
			return nil, "", inUse(name, users)
		}
		next := *newest
		next.Deleted = true
		return &next, "deleted", nil
	})
	return err
}

// namedUsers bounds how many servers a message names.
const namedUsers = 5

func inUse(name string, users []ConnectionUser) error {
	names := make([]string, 0, namedUsers+1)
	for _, u := range users[:min(len(users), namedUsers)] {
		names = append(names, u.Name)
	}
	if len(users) > namedUsers {
		names = append(names, "…")
	}
	return registry.Errorf(registry.ReasonConnectionInUse, "connection %s is used by %s", name, strings.Join(names, ", ")).
		With("servers", strings.Join(names, ", ")).WithNext("give those servers another connection, or retire them")
}

// changeable says whether a connection is there to be changed.
func changeable(newest *registry.Connection, etag string) error {
	switch {
	case newest == nil || newest.Deleted:
		return registry.ConnectionNotFound()
	case newest.Owned():
		return registry.Errorf(registry.ReasonConnectionOwned, "the connection %s belongs to one server", newest.Name).
			With("server_id", newest.Name).WithNext("change the server: countersign server update %s --url URL", newest.Name)
	}
	return newest.CheckEtag(etag)
}

// roomForConnection refuses one more connection than the tenant may have.
func (t *tx) roomForConnection(ctx context.Context) error {
	limit := t.quotas.Connections
	if limit == 0 {
		return nil
	}
	if err := t.alone(ctx, "connections"); err != nil {
		return err
	}
	var there int64
	err := t.NewSelect().TableExpr("connections AS c").ColumnExpr("count(*)").
		Where("c.tenant_id = ? AND "+namedAndThere, t.tenant).Scan(ctx, &there)
	if err != nil || there < limit {
		return err
	}
	return registry.Errorf(registry.ReasonQuotaExceeded, "the tenant has %d connections, and may have %d", there, limit).
		With("quota", "connections").With("limit", strconv.FormatInt(limit, 10)).
		WithNext("delete connections that nobody needs, or have the operator raise quotas.connections")
}

// namedAndThere holds for the newest version of each connection that has a name
// and is not deleted.
const namedAndThere = `c.authentication = '' AND NOT c.deleted AND ` + newestVersion

const newestVersion = `NOT EXISTS (SELECT 1 FROM connections AS later
WHERE later.tenant_id = c.tenant_id AND later.name = c.name AND later.version > c.version)`

// holdConnection keeps changes of a connection off until the transaction ends,
// and gives its newest version; nil when there is none.
func (t *tx) holdConnection(ctx context.Context, name string) (*registry.Connection, error) {
	if t.engine.queue != "" {
		if _, err := t.NewRaw(t.engine.queue, t.tenant+"/"+connectionAggregate(name)).Exec(ctx); err != nil {
			return nil, err
		}
	}
	return t.newestConnection(ctx, name)
}

func (t *tx) newestConnection(ctx context.Context, name string) (*registry.Connection, error) {
	c, err := connectionOf(ctx, t, t.tenant, name, 0)
	if registry.ReasonOf(err) == registry.ReasonConnectionNotFound {
		return nil, nil //nolint:nilnil // there is none
	}
	return c, err
}

// Connection gives a version of a connection, the newest one for 0; the error is
// connection_not_found when the tenant has none.
func (s *Store) Connection(ctx context.Context, name string, version int) (*registry.Connection, error) {
	var c *registry.Connection
	err := s.read(ctx, "read a connection", func(ctx context.Context, q bun.IDB) (err error) {
		c, err = connectionOf(ctx, q, s.tenant, name, version)
		return err
	})
	return c, err
}

func connectionOf(ctx context.Context, q bun.IDB, tenant, name string, version int) (*registry.Connection, error) {
	var row connectionRow
	chosen := q.NewSelect().Model(&row).Where("tenant_id = ? AND name = ?", tenant, asText(name)).OrderExpr("version DESC").Limit(1)
	if version != 0 {
		chosen = chosen.Where("version = ?", version)
	}
	err := chosen.Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, registry.ConnectionNotFound()
	}
	return &row.Connection, err
}

// connectionViews selects versions of connections, that were chosen, with those
// who use them.
func connectionViews(q bun.IDB, chosen *bun.SelectQuery) *bun.SelectQuery {
	live := func(condition string) string {
		return "(SELECT count(*) FROM mcp_servers AS s WHERE s.tenant_id = c.tenant_id AND s.connection_name = c.name AND s.state <> 'retired'" + condition + ")"
	}
	// Versions are listed backwards, so their key counts down from where no version gets.
	return q.NewSelect().TableExpr("(?) AS c", chosen.ColumnExpr("c.*, CAST(1000000000000 - c.version AS TEXT) AS place, "+newestVersion+" AS newest")).
		ColumnExpr("c.*, " + live(" AND s.connection_version = c.version") + " AS servers, " + live("") + " AS users")
}

// ConnectionView gives a version of a connection with those who use it, the
// newest one for 0. A deleted one is there by its versions only.
func (s *Store) ConnectionView(ctx context.Context, name string, version int) (ConnectionView, error) {
	var views []ConnectionView
	err := s.read(ctx, "read a connection", func(ctx context.Context, q bun.IDB) error {
		chosen := q.NewSelect().TableExpr("connections AS c").Where("c.tenant_id = ? AND c.name = ?", s.tenant, asText(name)).OrderExpr("c.version DESC").Limit(1)
		if version != 0 {
			chosen = chosen.Where("c.version = ?", version)
		}
		return connectionViews(q, chosen).Scan(ctx, &views)
	})
	if err != nil {
		return ConnectionView{}, err
	}
	if len(views) == 0 || version == 0 && views[0].Deleted {
		return ConnectionView{}, registry.ConnectionNotFound()
	}
	return views[0], nil
}

// Connections lists the newest versions of connections that have names, by name,
// with the key of the next page and the number of all.
func (s *Store) Connections(ctx context.Context, page Page) (views []ConnectionView, next string, total int, err error) {
	err = s.read(ctx, "list connections", func(ctx context.Context, q bun.IDB) error {
		chosen := q.NewSelect().TableExpr("connections AS c").Where("c.tenant_id = ? AND "+namedAndThere, s.tenant)
		var err error
		if total, err = number(chosen.Count(ctx)); err != nil {
			return err
		}
		rows, err := page.after(connectionViews(q, chosen), false, false, "c.name")
		if err != nil {
			return err
		}
		if err := rows.Scan(ctx, &views); err != nil {
			return err
		}
		views, next = cut(page, views, func(v *ConnectionView) cursor { return cursor{v.Name} })
		return nil
	})
	return views, next, total, err
}

// ConnectionVersions lists all versions of a connection, the newest first, also
// of a deleted one. The error is connection_not_found when there are none.
func (s *Store) ConnectionVersions(ctx context.Context, name string, page Page) (views []ConnectionView, next string, total int, err error) {
	err = s.read(ctx, "list versions of a connection", func(ctx context.Context, q bun.IDB) error {
		chosen := q.NewSelect().TableExpr("connections AS c").Where("c.tenant_id = ? AND c.name = ?", s.tenant, asText(name))
		var err error
		if total, err = number(chosen.Count(ctx)); err != nil {
			return err
		}
		if total == 0 {
			return registry.ConnectionNotFound()
		}
		rows, err := page.after(connectionViews(q, chosen), false, false, "c.place")
		if err != nil {
			return err
		}
		if err := rows.Scan(ctx, &views); err != nil {
			return err
		}
		views, next = cut(page, views, func(v *ConnectionView) cursor { return cursor{v.Place} })
		return nil
	})
	return views, next, total, err
}

// ConnectionUsers lists the live servers that pin an older version of a
// connection than this one: by name, at most limit of them after one.
func (s *Store) ConnectionUsers(ctx context.Context, name string, version int, after string, limit int) (users []ConnectionUser, err error) {
	err = s.read(ctx, "list the servers of a connection", func(ctx context.Context, q bun.IDB) (err error) {
		users, err = connectionUsers(ctx, q, s.tenant, name, version, after, limit)
		return err
	})
	return users, err
}

func connectionUsers(ctx context.Context, q bun.IDB, tenant, name string, version int, after string, limit int) (users []ConnectionUser, err error) {
	err = q.NewSelect().ColumnExpr("s.server_id, s.name").TableExpr("mcp_servers AS s").
		Where("s.tenant_id = ? AND s.connection_name = ? AND s.state <> ? AND s.connection_version < ? AND s.name > ?",
			tenant, asText(name), registry.StateRetired, version, after).
		OrderExpr("s.name").Limit(int64(limit)).Scan(ctx, &users)
	return users, err
}

// targetRow says by which version of which connection a server had a target.
type targetRow struct {
	bun.BaseModel     `bun:"table:server_targets,alias:g"`
	TenantID          string `bun:"tenant_id,pk"`
	ServerID          string `bun:"server_id,pk"`
	TargetDigest      string `bun:"target_digest,pk"`
	ConnectionName    string `bun:"connection_name"`
	ConnectionVersion int    `bun:"connection_version"`
}

// saveTarget notes where a server has its target from.
func (t *tx) saveTarget(ctx context.Context, row *serverRow) error {
	if row.ConnectionName == "" {
		return nil
	}
	return insert(ctx, t, []targetRow{{
		TenantID: t.tenant, ServerID: row.ServerID, TargetDigest: row.TargetDigest,
		ConnectionName: row.ConnectionName, ConnectionVersion: row.ConnectionVersion,
	}}, "CONFLICT DO NOTHING")
}

// namedConnection gives the connection that a registration names.
func (t *tx) namedConnection(ctx context.Context, g *registry.Registration) error {
	if g.ConnectionName == "" {
		return nil
	}
	c, err := t.holdConnection(ctx, g.ConnectionName)
	if err != nil {
		return err
	}
	if c == nil || c.Deleted {
		return registry.ConnectionNotFound().WithField("endpoint_ref", "there is no connection of this name")
	}
	g.Connection = c
	return c.Fits(g.Authentication)
}

// columnsBut lists columns as columns does, without some.
func columnsBut[T any](db *bun.DB, alias string, but ...string) string {
	var kept []string
	for column := range strings.SplitSeq(columns[T](db, alias), ", ") {
		if !slices.ContainsFunc(but, func(name string) bool { return strings.HasPrefix(column, fmt.Sprintf("%s.%s ", alias, name)) }) {
			kept = append(kept, column)
		}
	}
	return strings.Join(kept, ", ")
}
