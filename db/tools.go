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
	// provider (its name), class (of its binding), enabled, available, bound
	// (approved as it is now), callable, quarantined, requires_approval and
	// labels.KEY of the server.
	Conditions []Condition
	// Words must all be found in name, title, description or the server's name,
	// each as the beginning of a word; registry.SearchWords makes them. None: no
	// search.
	Words []string
	// IDs are the only tools that count; nil: all.
	IDs []string
	// ShowRetired shows the tools of retired servers too.
	ShowRetired bool
	// Order is by tool_id, first_seen_time or, of a search, relevance. When it
	// is empty, a search is ordered by relevance and all else by tool_id.
	Order Order
}

// OrderRelevance puts first what a search found in names.
const OrderRelevance = "relevance"

type toolOrder struct {
	sql    string // of the tool t, and in a search of its words q
	chosen string // the same of a chosen tool
	isTime bool
	key    func(*toolFacts) string
}

func toolOrderOf(query *ToolQuery) (toolOrder, error) {
	byID := toolOrder{sql: "t.tool_key", chosen: "t.tool_key", key: func(f *toolFacts) string { return f.ToolKey }}
	wanted := query.Order.Field
	if wanted == "" && len(query.Words) > 0 {
		wanted = OrderRelevance
	}
	switch wanted {
	case "", "tool_id":
		return byID, nil
	case "first_seen_time":
		return toolOrder{"t.first_seen_at", "t.first_seen_at", true, func(f *toolFacts) string { return timeKey(f.Tool.FirstSeenAt) }}, nil
	case OrderRelevance:
		switch {
		case len(query.Words) == 0:
			return byID, registry.Errorf(registry.ReasonInvalidOrder, "only a search is ordered by relevance")
		case query.Order.Desc:
			return byID, registry.Errorf(registry.ReasonInvalidOrder, "relevance has one direction: the best first")
		}
		return toolOrder{rankOf(query.Words), "t.rank", false, func(f *toolFacts) string { return f.Rank }}, nil
	}
	return byID, registry.Errorf(registry.ReasonInvalidOrder, "tools are ordered by tool_id, first_seen_time or relevance")
}

// toolFacts is a tool with all that decides about it, as one joined row.
type toolFacts struct {
	standing
	Tool     registry.Tool         `bun:"embed:t_"`
	Binding  *registry.ToolBinding `bun:"embed:b_"`
	ToolKey  string                `bun:"tool_key"`
	ExternID string                `bun:"external_key"`
	Rank     string                `bun:"rank"` // of a search
	Assigned bool                  `bun:"assigned"`
	Now      time.Time             `bun:"now"`
	Policy   string                `bun:"policy_digest"` // of the bundle that the server's reference names
}

// toolTables joins the tables of toolFacts.
const toolTables = `tools AS t
JOIN mcp_servers AS s ON s.server_id = t.server_id AND s.tenant_id = t.tenant_id` + standingOf + `
LEFT JOIN mcp_tool_bindings AS b ON b.tenant_id = t.tenant_id AND b.server_id = t.server_id AND b.tool_name = t.external_key`

// toolColumns lists the columns of toolFacts, but for the time and what the
// server offers.
func toolColumns(db *bun.DB) string {
	// Of the connection, callers need to know the way and not whom we trust: a
	// bundle for each tool would be much to read before each call.
	return standingColumns(db, "ca_bundle") + ", " + columns[registry.Tool](db, "t") + ", " + columns[registry.ToolBinding](db, "b") +
		", t.tool_key, t.external_key"
}

// view judges the tool as of a time, for an agent if one is named.
func (f *toolFacts) view(now time.Time, table *registry.CapabilityTable, agent string) ToolView {
	v := ToolView{
		Tool: f.Tool, Binding: f.Binding, Server: f.Server, ProviderEnabled: f.ProviderEnabled, LastProbe: f.Probe,
		Command: f.Command, Model: f.model(table), PolicyDigest: f.Policy, Assigned: f.Assigned, Now: now,
	}
	if f.Connection != nil {
		v.Connection = *f.Connection
	}
	v.Denial = registry.Resolve(v.facts(Caller{Agent: agent}))
	return v
}

// Later says from when on, as far as is known, another denial holds, and which:
// what ends does so by the clock alone. The zero time is never.
func (v *ToolView) Later() (time.Time, *registry.Denial) {
	f := v.facts(Caller{})
	var until time.Time
	soonest := func(end time.Time) {
		if end.After(v.Now) && (until.IsZero() || end.Before(until)) {
			until = end
		}
	}
	soonest(v.Server.Exception.ExpiresAt)
	if v.Binding != nil {
		soonest(v.Binding.EndsAt)
	}
	if until.IsZero() {
		return until, nil
	}
	f.Now = until
	return until, registry.Resolve(f)
}

// Tools lists tools, with the key of the next page, empty at the end, and the
// number of all that match.
func (s *Store) Tools(ctx context.Context, query ToolQuery) (views []ToolView, next string, total int, err error) {
	err = s.read(ctx, "list tools", func(ctx context.Context, q bun.IDB) error {
		order, err := toolOrderOf(&query)
		if err != nil {
			return err
		}
		now, err := s.db.engine.now(ctx, q)
		if err != nil {
			return err
		}
		// The page is chosen first, so that only its rows are joined to all else.
		chosen, err := s.chosenTools(ctx, q, &query, now)
		if err != nil {
			return err
		}
		if total, err = number(chosen.Count(ctx)); err != nil {
			return err
		}
		rank := "''"
		if order.chosen == "t.rank" {
			rank = order.sql
		}
		chosen = chosen.ColumnExpr("t.*, " + rank + " AS rank")
		if chosen, err = query.after(chosen, query.Order.Desc, order.isTime, order.sql, "t.server_id", "t.external_key"); err != nil {
			return err
		}
		page := q.NewSelect().ColumnExpr(toolColumns(s.db.reader)+", t.rank").
			TableExpr(strings.Replace(toolTables, "tools AS t", "(?) AS t", 1), chosen)
		page = s.db.offeredColumn(page, s.capabilities)
		var rows []toolFacts
		if err := sort(page, query.Order.Desc, order.chosen, "t.server_id", "t.external_key").Scan(ctx, &rows); err != nil {
			return err
		}
		rows, next = cut(query.Page, rows, func(f *toolFacts) cursor {
			return cursor{order.key(f), f.Tool.ServerID, f.ExternID}
		})
		views = make([]ToolView, len(rows))
		for i := range rows {
			views[i] = rows[i].view(now, s.capabilities, "")
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
