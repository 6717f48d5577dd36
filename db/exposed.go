package db

import (
	"context"

	"github.com/uptrace/bun"

	"countersign/registry"
)

// ExposedItem is one thing that an exposed server offers (R75).
type ExposedItem struct {
	ServerID       string            `bun:"server_id"`
	ServerName     string            `bun:"server_name"`
	Kind           registry.ItemKind `bun:"kind"` // tool, resource or prompt
	Name           string            `bun:"name"` // the tool's or prompt's, or the resource's URI
	ToolID         string            `bun:"tool_id"`
	DeclaredClass  registry.Class    `bun:"declared_class"`
	Classification string            `bun:"classification"`

	ItemKey string `bun:"item_key"`
}

// exposed selects what the active exposed servers of a tenant offer: bound, and
// in the last snapshot as it was approved. A resource of a scope is for that
// scope only; all else is for everybody.
var exposed = `
SELECT s.server_id, s.name AS server_name, 'tool' AS kind, t.external_id AS name, t.external_key AS item_key, t.tool_id,
  ` + bindingOf("b.declared_class") + ` AS declared_class, '' AS classification
FROM mcp_servers AS s
JOIN tools AS t ON t.tenant_id = s.tenant_id AND t.server_id = s.server_id
WHERE s.tenant_id = ?0 AND s.server_id IN (?1) AND t.enabled AND t.available AND NOT ?3
UNION ALL
SELECT s.server_id, s.name, 'resource', r.resource_uri, r.resource_key, '', '', r.classification
FROM mcp_servers AS s
JOIN mcp_resource_bindings AS r ON r.tenant_id = s.tenant_id AND r.server_id = s.server_id
WHERE s.tenant_id = ?0 AND s.server_id IN (?1) AND s.target_digest = s.approved_target AND r.bound AND ` + lasting("r") + ` AND (r.scope = '' OR r.scope = ?2)
  AND 0 < (SELECT count(*) FROM snapshot_items AS i
    WHERE i.tenant_id = s.tenant_id AND i.snapshot_digest = s.snapshot_digest AND i.kind IN ('resource', 'template')
      AND i.item_key = r.resource_key AND i.verdict = '' AND i.contract_digest = r.contract_digest AND i.text_digest = r.text_digest)
UNION ALL
SELECT s.server_id, s.name, 'prompt', m.prompt_name, m.prompt_key, '', '', ''
FROM mcp_servers AS s
JOIN mcp_prompt_bindings AS m ON m.tenant_id = s.tenant_id AND m.server_id = s.server_id
WHERE s.tenant_id = ?0 AND s.server_id IN (?1) AND s.target_digest = s.approved_target AND m.bound AND ` + lasting("m") + `
  AND 0 < (SELECT count(*) FROM snapshot_items AS i
    WHERE i.tenant_id = s.tenant_id AND i.snapshot_digest = s.snapshot_digest AND i.kind = 'prompt'
      AND i.item_key = m.prompt_key AND i.verdict = '' AND i.contract_digest = m.contract_digest AND i.text_digest = m.text_digest)`

// Exposed lists what the tenant's exposed servers offer a scope, a workspace's
// label or empty for the whole tenant, by server, kind and name, with the key
// of the next page.
func (s *Store) Exposed(ctx context.Context, scope string, page Page) (items []ExposedItem, next string, err error) {
	err = s.read(ctx, "list exposed capabilities", func(ctx context.Context, q bun.IDB) error {
		now, err := s.db.engine.now(ctx, q)
		if err != nil {
			return err
		}
		var servers []standing
		chosen := s.servers(q).Where("s.direction = ? AND s.state = ?", registry.DirectionExposed, registry.StateActive)
		err = s.db.standings(q, chosen, s.capabilities).Scan(ctx, &servers)
		if err != nil {
			return err
		}
		var ids []string
		models := map[string]*registry.CapabilityModel{}
		for i := range servers {
			if id := servers[i].Server.ServerID; servers[i].callable(now) {
				ids, models[id] = append(ids, id), servers[i].model(s.capabilities)
			}
		}
		if len(ids) == 0 {
			return nil
		}
		query := q.NewSelect().TableExpr("("+exposed+") AS x", s.tenant, bun.List(ids), scope, blocked(models)).Where("x.declared_class IS NOT NULL")
		query, err = page.after(query, false, false, "x.server_name", "x.kind", "x.item_key")
		if err != nil {
			return err
		}
		if err := query.Scan(ctx, &items); err != nil {
			return err
		}
		items, next = cut(page, items, func(i *ExposedItem) cursor { return cursor{i.ServerName, string(i.Kind), i.ItemKey} })
		return nil
	})
	return items, next, err
}
