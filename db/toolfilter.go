package db

import (
	"context"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"countersign/registry"
)

// toolOwners joins the tables that a filter of tools can ask for.
const toolOwners = `
JOIN mcp_servers AS s ON s.server_id = t.server_id AND s.tenant_id = t.tenant_id
JOIN providers AS p ON p.tenant_id = s.tenant_id AND p.provider_id = s.provider_id`

// classOf is the class that was declared when the tool was approved, whether or
// not that still holds.
const classOf = `COALESCE((SELECT b.declared_class FROM mcp_tool_bindings AS b
WHERE b.tenant_id = t.tenant_id AND b.server_id = t.server_id AND b.tool_name = t.external_key), '')`

// serving is what must be so of a server and its provider for any tool to be
// callable: registry.Resolve in SQL.
const serving = `(p.enabled AND s.state = 'active' AND (s.exception_expires_at IS NULL OR s.exception_expires_at > ?))`

var toolFields = map[string]field{
	"tool_id": {sql: "t.tool_id"}, "name": {sql: "t.external_id"}, "server_id": {sql: "t.server_id"}, "server": {sql: "s.name"},
	"provider": {sql: "p.name"}, "class": {sql: classOf}, "enabled": {"t.enabled", boolField}, "available": {"t.available", boolField},
	"bound": {bindingOf("TRUE") + " IS NOT NULL", boolField}, "quarantined": {"t.verdict <> ''", boolField},
	"requires_approval": {"t.requires_approval", boolField}, "labels": {kind: labelField},
	"callable": {kind: boolField}, // asks for more than the row
}

// chosenTools selects the tenant's tools t, with their servers s and providers
// p, that the filter asks for. Columns are still to be named.
func (s *Store) chosenTools(ctx context.Context, q bun.IDB, f *ToolQuery, now time.Time) (*bun.SelectQuery, error) {
	chosen := q.NewSelect().TableExpr("tools AS t"+toolOwners).Where("t.tenant_id = ?", s.tenant)
	if len(f.Words) > 0 {
		chosen = q.NewSelect().TableExpr(s.db.engine.searched+toolOwners, s.tenant, s.db.engine.search(f.Words))
	}
	if !f.ShowRetired {
		chosen = chosen.Where("t.live")
	}
	if f.IDs != nil {
		chosen = chosen.Where("t.tool_key IN (?)", bun.List(append(keys(f.IDs), ""))) // a list of none is no SQL
	}
	for _, c := range f.Conditions {
		if c.Field == "callable" {
			models, err := s.mentioned(ctx, q)
			if err != nil {
				return nil, err
			}
			fields := map[string]field{"callable": {"?", boolField}}
			chosen, err = s.db.engine.where(chosen, c, fields, callable(now, models))
			if err != nil {
				return nil, err
			}
			continue
		}
		var err error
		if chosen, err = s.db.engine.where(chosen, c, toolFields); err != nil {
			return nil, err
		}
	}
	return chosen, nil
}

// callable is the condition that a tool can be called by an agent that nobody
// named: registry.Resolve in SQL. A test holds the two against each other.
func callable(now time.Time, models map[string]*registry.CapabilityModel) any {
	return bun.SafeQuery("("+serving+" AND t.enabled AND t.available AND NOT ? AND "+bindingOf("TRUE")+" IS NOT NULL)", now, blocked(models))
}

// mentioned resolves the capability table for those active servers that it has
// rows about.
func (s *Store) mentioned(ctx context.Context, q bun.IDB) (map[string]*registry.CapabilityModel, error) {
	m := s.capabilities.Mentions()
	models := map[string]*registry.CapabilityModel{}
	if len(m.Tools) == 0 {
		return models, nil
	}
	list := func(names []string) any { return bun.List(append([]string{""}, names...)) }
	chosen := s.servers(q).Where("s.state = 'active' AND (s.server_name IN (?) OR s.name IN (?))", list(m.Reported), list(m.Registered))
	var rows []standing
	if err := s.db.standings(q, chosen, s.capabilities).Scan(ctx, &rows); err != nil {
		return nil, err
	}
	for i := range rows {
		models[rows[i].Server.ServerID] = rows[i].model(s.capabilities)
	}
	return models, nil
}

// ToolRef names a tool and says how it is switched.
type ToolRef struct {
	ToolID     string `bun:"tool_id"`
	ServerID   string `bun:"server_id"`
	ServerName string `bun:"server_name"`
	ExternalID string `bun:"external_id"`
	Enabled    bool   `bun:"enabled"`
}

// ToolRefs names every tool of live servers that a query asks for, by server
// and id whatever its page and order, and at most limit of them; more says that
// there are others.
func (s *Store) ToolRefs(ctx context.Context, f ToolQuery, limit int) (refs []ToolRef, more bool, err error) {
	f.ShowRetired = false
	err = s.read(ctx, "choose tools", func(ctx context.Context, q bun.IDB) error {
		now, err := s.db.engine.now(ctx, q)
		if err != nil {
			return err
		}
		chosen, err := s.chosenTools(ctx, q, &f, now)
		if err != nil {
			return err
		}
		err = chosen.ColumnExpr("t.tool_id, t.server_id, s.name AS server_name, t.external_id, t.enabled").
			OrderExpr("s.name, t.server_id, t.tool_key").Limit(int64(limit+1)).Scan(ctx, &refs)
		if len(refs) > limit {
			refs, more = refs[:limit], true
		}
		return err
	})
	return refs, more, err
}

// rankOf is where a tool comes among those that a search found, the smallest
// first: three digits and, for equals, its id. A word that is in the name counts more than the beginning
// of one, that more than one in the title, and that more than all else. Words
// have letters, marks and digits only, so they can stand in SQL.
func rankOf(words []string) string {
	var b strings.Builder
	b.WriteString("CAST(900")
	for _, word := range words {
		b.WriteString(` - (CASE WHEN ' ' || q.names || ' ' LIKE '% ` + word + ` %' THEN 8` +
			` WHEN ' ' || q.names LIKE '% ` + word + `%' THEN 4 WHEN ' ' || q.titles LIKE '% ` + word + `%' THEN 2 ELSE 1 END)`)
	}
	b.WriteString(" AS TEXT) || t.tool_key")
	return b.String()
}
