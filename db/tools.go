package db

import (
	"context"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"countersign/registry"
)

// ToolQuery asks for tools.
type ToolQuery struct {
	Page
	// Conditions may ask for tool_id, name, server_id, server (its name),
	// provider (its name), enabled, available and bound (approved as it is now).
	Conditions []Condition
	// Order is by tool_id or first_seen_time.
	Order Order
	// ShowRetired shows the tools of retired servers too.
	ShowRetired bool
}

var toolFields = map[string]field{
	"tool_id": {sql: "t.tool_id"}, "name": {sql: "t.external_id"}, "server_id": {sql: "t.server_id"}, "server": {sql: "s.name"},
	"provider": {sql: "p.name"}, "enabled": {"t.enabled", boolField}, "available": {"t.available", boolField},
	"bound": {bindingOf("TRUE") + " IS NOT NULL", boolField},
}

var toolOrders = map[string]struct {
	sql    string
	isTime bool
}{
	"":                {sql: "t.tool_key"},
	"tool_id":         {sql: "t.tool_key"},
	"first_seen_time": {"t.first_seen_at", true},
}

// toolFacts is a tool with all that decides about it, as one joined row.
type toolFacts struct {
	standing
	Tool     registry.Tool         `bun:"embed:t_"`
	Binding  *registry.ToolBinding `bun:"embed:b_"`
	ToolKey  string                `bun:"tool_key"`
	ExternID string                `bun:"external_key"`
	Now      time.Time             `bun:"now"`
}

// toolOwners joins the tables that a filter of tools can ask for.
const toolOwners = `tools AS t
JOIN mcp_servers AS s ON s.server_id = t.server_id AND s.tenant_id = t.tenant_id
JOIN providers AS p ON p.tenant_id = s.tenant_id AND p.provider_id = s.provider_id`

// toolTables joins the tables of toolFacts.
const toolTables = `tools AS t
JOIN mcp_servers AS s ON s.server_id = t.server_id AND s.tenant_id = t.tenant_id` + standingOf + `
LEFT JOIN mcp_tool_bindings AS b ON b.tenant_id = t.tenant_id AND b.server_id = t.server_id AND b.tool_name = t.external_key`

// toolColumns lists the columns of toolFacts, but for the time and what the
// server offers.
func toolColumns(db *bun.DB) string {
	return standingColumns(db) + ", " + columns[registry.Tool](db, "t") + ", " + columns[registry.ToolBinding](db, "b") +
		", t.tool_key, t.external_key"
}

// view judges the tool as of a time.
func (f *toolFacts) view(now time.Time, table *registry.CapabilityTable) ToolView {
	v := ToolView{
		Tool: f.Tool, Binding: f.Binding, Server: f.Server, ProviderEnabled: f.ProviderEnabled, LastProbe: f.Probe,
		Command: f.Command, Model: f.model(table),
	}
	if f.Connection != nil {
		v.Connection = *f.Connection
	}
	v.Denial = registry.Resolve(registry.ResolveFacts{
		Tool: &v.Tool, Server: &v.Server, ProviderEnabled: v.ProviderEnabled, Binding: v.Binding, Capabilities: v.Model,
		Now: now,
	})
	return v
}

// Tools lists tools, with the key of the next page, empty at the end, and the
// number of all that match.
func (s *Store) Tools(ctx context.Context, query ToolQuery) (views []ToolView, next string, total int, err error) {
	err = s.read(ctx, "list tools", func(ctx context.Context, q bun.IDB) error {
		order, known := toolOrders[query.Order.Field]
		if !known {
			return registry.Errorf(registry.ReasonInvalidOrder, "tools are ordered by tool_id or first_seen_time")
		}
		// The page is chosen first, so that only its rows are joined to all else.
		chosen := q.NewSelect().ColumnExpr("t.*").TableExpr(toolOwners).Where("t.tenant_id = ?", s.tenant)
		if !query.ShowRetired {
			chosen = chosen.Where("t.live")
		}
		for _, c := range query.Conditions {
			var err error
			if chosen, err = s.db.engine.where(chosen, c, toolFields); err != nil {
				return err
			}
		}
		if total, err = number(chosen.Count(ctx)); err != nil {
			return err
		}
		if chosen, err = query.after(chosen, query.Order.Desc, order.isTime, order.sql, "t.server_id", "t.external_key"); err != nil {
			return err
		}
		page := q.NewSelect().ColumnExpr(toolColumns(s.db.reader)).TableExpr(strings.Replace(toolTables, "tools AS t", "(?) AS t", 1), chosen)
		page = s.db.offeredColumn(page, s.capabilities)
		var rows []toolFacts
		if err := sort(page, query.Order.Desc, order.sql, "t.server_id", "t.external_key").Scan(ctx, &rows); err != nil {
			return err
		}
		rows, next = cut(query.Page, rows, func(f *toolFacts) cursor {
			first := f.ToolKey
			if order.isTime {
				first = timeKey(f.Tool.FirstSeenAt)
			}
			return cursor{first, f.Tool.ServerID, f.ExternID}
		})
		now, err := s.db.engine.now(ctx, q)
		if err != nil {
			return err
		}
		views = make([]ToolView, len(rows))
		for i := range rows {
			views[i] = rows[i].view(now, s.capabilities)
		}
		return nil
	})
	return views, next, total, err
}

// Tool gives a tool with its definition: that of the live server, else that of
// the last one that had the id. The error is tool_not_found when there is none.
func (s *Store) Tool(ctx context.Context, toolID string) (ToolView, error) {
	found, err := s.Resolve(ctx, []string{toolID})
	if err != nil {
		return ToolView{}, err
	}
	view := found[toolID]
	if view == nil {
		return ToolView{}, registry.Errorf(registry.ReasonToolNotFound, "there is no such tool").
			WithNext("list the tools; ids are those of the tenant")
	}
	definitions, err := s.Definitions(ctx, []string{view.Tool.Definition})
	view.Definition = definitions[view.Tool.Definition]
	return *view, err
}
