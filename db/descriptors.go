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

// DescriptorView is a descriptor version with what its servers make of it.
type DescriptorView struct {
	registry.Descriptor
	Health registry.Health
	Active bool // published, and not all of its servers are retired (R147)
	Tools  int  // that are bound to it, and whose approval holds or held until they drifted
}

// DescriptorQuery asks for descriptor versions.
type DescriptorQuery struct {
	Page
	// Conditions may ask for descriptor_id, class, status and server_id.
	Conditions []Condition
}

var descriptorFields = map[string]field{
	"descriptor_id": {sql: "d.descriptor_id"}, "class": {sql: "d.class"}, "status": {sql: "d.status"}, "server_id": {sql: "d.server_id"},
}

func descriptorNotFound() error {
	return registry.Errorf(registry.ReasonDescriptorNotFound, "there is no such descriptor version").
		WithNext("list the descriptors; ids are those of the tenant")
}

// CreateDescriptor keeps a draft as the next version of its id.
func (s *Store) CreateDescriptor(ctx context.Context, d registry.Descriptor, op registry.Operation) (DescriptorView, error) {
	err := s.govern(ctx, op, descriptorAggregate(d.DescriptorID), AuditEntry{ObjectKind: "descriptor", ObjectID: d.DescriptorID, ObjectName: d.DescriptorID}, func(ctx context.Context, t *tx) (*AuditEntry, *registry.Event, error) {
		var last int64
		err := t.NewSelect().TableExpr("descriptors").ColumnExpr("COALESCE(max(version), 0)").
			Where("tenant_id = ? AND descriptor_id = ?", t.tenant, d.DescriptorID).Scan(ctx, &last)
		if err != nil {
			return nil, nil, err
		}
		d.TenantID, d.Version, d.CreatedAt, d.CreatedBy = t.tenant, last+1, t.now, op.Actor.Subject
		if _, err := t.NewInsert().Model(&descriptorRow{Descriptor: d}).Exec(ctx); err != nil {
			return nil, nil, err
		}
		entry, event := descriptorChanged(&d, "drafted", registry.EventDescriptorDrafted)
		return entry, event, nil
	})
	if err != nil {
		return DescriptorView{}, err
	}
	return s.Descriptor(ctx, d.DescriptorID, d.Version)
}

// ChangeDescriptor takes a version to another status. change says whether it
// did; when it did not, nothing is written.
func (s *Store) ChangeDescriptor(ctx context.Context, id string, version int64, op registry.Operation, change func(d *registry.Descriptor, now time.Time) (bool, error)) (DescriptorView, error) {
	object := AuditEntry{ObjectKind: "descriptor", ObjectID: id + "@" + strconv.FormatInt(version, 10), ObjectName: id}
	err := s.govern(ctx, op, descriptorAggregate(id), object, func(ctx context.Context, t *tx) (*AuditEntry, *registry.Event, error) {
		var row descriptorRow
		q := t.NewSelect().Model(&row).Where("d.tenant_id = ? AND d.descriptor_id = ? AND d.version = ?", t.tenant, id, version)
		if t.engine.forUpdate != "" {
			q = q.For(t.engine.forUpdate)
		}
		if err := q.Scan(ctx); errors.Is(err, sql.ErrNoRows) {
			return nil, nil, descriptorNotFound()
		} else if err != nil {
			return nil, nil, err
		}
		changed, err := change(&row.Descriptor, t.now)
		if err != nil || !changed {
			return nil, nil, err
		}
		if _, err := t.NewUpdate().Model(&row).WherePK().Exec(ctx); err != nil {
			return nil, nil, err
		}
		event := registry.EventDescriptorPublished
		if row.Status == registry.DescriptorDeprecated {
			event = registry.EventDescriptorDeprecated
		}
		entry, e := descriptorChanged(&row.Descriptor, string(row.Status), event)
		return entry, e, nil
	})
	if err != nil {
		return DescriptorView{}, err
	}
	return s.Descriptor(ctx, id, version)
}

func descriptorAggregate(id string) string { return "descriptor/" + id }

func descriptorChanged(d *registry.Descriptor, note string, event registry.EventType) (*AuditEntry, *registry.Event) {
	id := d.DescriptorID + "@" + strconv.FormatInt(d.Version, 10)
	return &AuditEntry{ObjectKind: "descriptor", ObjectID: id, ObjectName: d.DescriptorID, Note: note + " as " + string(d.Class)}, &registry.Event{
		Type: event, Payload: registry.DescriptorChanged{
			TenantID: d.TenantID, DescriptorID: d.DescriptorID, Version: d.Version, Class: d.Class, Status: d.Status,
		},
	}
}

// Descriptor gives a descriptor version; version 0 is the latest one. The error
// is descriptor_not_found when there is none.
func (s *Store) Descriptor(ctx context.Context, id string, version int64) (DescriptorView, error) {
	var view DescriptorView
	err := s.read(ctx, "read a descriptor", func(ctx context.Context, q bun.IDB) error {
		var row descriptorRow
		chosen := q.NewSelect().Model(&row).Where("d.tenant_id = ? AND d.descriptor_id = ?", s.tenant, id).OrderExpr("d.version DESC").Limit(1)
		if version != 0 {
			chosen = chosen.Where("d.version = ?", version)
		}
		if err := chosen.Scan(ctx); errors.Is(err, sql.ErrNoRows) {
			return descriptorNotFound()
		} else if err != nil {
			return err
		}
		views, err := s.descriptorViews(ctx, q, []descriptorRow{row})
		if err == nil {
			view = views[0]
		}
		return err
	})
	return view, err
}

// Descriptors lists descriptor versions by id, the latest version of each
// first, with the key of the next page and the number of all that match.
func (s *Store) Descriptors(ctx context.Context, query DescriptorQuery) (views []DescriptorView, next string, total int, err error) {
	err = s.read(ctx, "list descriptors", func(ctx context.Context, q bun.IDB) error {
		var rows []descriptorRow
		chosen := q.NewSelect().Model(&rows).Where("d.tenant_id = ?", s.tenant)
		for _, c := range query.Conditions {
			var err error
			if chosen, err = s.db.engine.where(chosen, c, descriptorFields); err != nil {
				return err
			}
		}
		if total, err = number(chosen.Count(ctx)); err != nil {
			return err
		}
		// Versions run backwards: a text of fixed length that falls as they rise.
		if chosen, err = query.after(chosen, false, false, "d.descriptor_id", latestFirst); err != nil {
			return err
		}
		if err := chosen.Scan(ctx); err != nil {
			return err
		}
		rows, next = cut(query.Page, rows, func(r *descriptorRow) cursor {
			return cursor{r.DescriptorID, strconv.FormatInt(versionsEnd-r.Version, 10)}
		})
		views, err = s.descriptorViews(ctx, q, rows)
		return err
	})
	return views, next, total, err
}

// versionsEnd is more than any version, and one digit longer than most.
const (
	versionsEnd = 2_000_000_000_000
	latestFirst = "CAST(2000000000000 - d.version AS TEXT)"
)

// descriptorViews asks in one query for the servers of all bindings.
func (s *Store) descriptorViews(ctx context.Context, q bun.IDB, rows []descriptorRow) ([]DescriptorView, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	ids := make([]string, len(rows))
	for i := range rows {
		ids[i] = rows[i].DescriptorID
	}
	var bound []struct {
		ToolID      string `bun:"tool_id"`
		ToolVersion string `bun:"tool_version"`
		ServerID    string `bun:"server_id"`
		Tools       int    `bun:"tools"`
	}
	err := q.NewSelect().ColumnExpr("b.tool_id, b.tool_version, b.server_id, count(*) AS tools").TableExpr("mcp_tool_bindings AS b").
		Where("b.tenant_id = ? AND b.tool_id IN (?)", s.tenant, bun.List(ids)).GroupExpr("1, 2, 3").OrderExpr("3").Scan(ctx, &bound)
	if err != nil {
		return nil, err
	}
	servers := map[string]registry.BoundServer{}
	if len(bound) > 0 {
		of := make([]string, len(bound))
		for i := range bound {
			of[i] = bound[i].ServerID
		}
		var standings []standing
		chosen := s.servers(q).Where("s.server_id IN (?)", bun.List(of))
		if err := s.db.standings(q, chosen, nil).Scan(ctx, &standings); err != nil {
			return nil, err
		}
		for i := range standings {
			server := &standings[i].Server
			servers[server.ServerID] = registry.BoundServer{
				Health: registry.HealthOf(server, standings[i].Probe), Retired: server.State == registry.StateRetired,
			}
		}
	}
	views := make([]DescriptorView, len(rows))
	for i := range rows {
		v := DescriptorView{Descriptor: rows[i].Descriptor}
		var mine []registry.BoundServer
		for _, b := range bound {
			if b.ToolID == v.DescriptorID && b.ToolVersion == strconv.FormatInt(v.Version, 10) {
				mine = append(mine, servers[b.ServerID])
				v.Tools += b.Tools
			}
		}
		v.Health, v.Active = registry.DescriptorHealth(&v.Descriptor, mine)
		views[i] = v
	}
	return views, nil
}
