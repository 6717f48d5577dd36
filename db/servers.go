package db

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"countersign/registry"
)

// ServerQuery asks for servers.
type ServerQuery struct {
	Page
	// Conditions may ask for name, state, direction, transport, authentication,
	// owner, connection, review (its status), health (its level), drifted, expiring
	// and labels.KEY.
	Conditions []Condition
	// Order is by name, create_time or update_time.
	Order Order
	// ShowRetired shows retired servers too; so does a condition that asks for them.
	ShowRetired bool
}

var serverFields = map[string]field{
	"name": {sql: "s.name"}, "state": {sql: "s.state"}, "direction": {sql: "s.direction"}, "transport": {sql: "s.transport"},
	"authentication": {sql: "s.authentication"}, "owner": {sql: "s.owner"}, "connection": {sql: "s.connection_name"},
	"review": {sql: "s.review_status"}, "labels": {kind: labelField},
	"drifted": {sql: drifted, kind: boolField}, "expiring": {sql: expiringServers, kind: boolField},
}

var serverOrders = map[string]struct {
	sql string
	key func(*registry.Server) time.Time // nil: the name
}{
	"":            {sql: "s.name"},
	"name":        {sql: "s.name"},
	"create_time": {"s.created_at", func(s *registry.Server) time.Time { return s.CreatedAt }},
	"update_time": {"s.updated_at", func(s *registry.Server) time.Time { return s.UpdatedAt }},
}

// Server gives a server by its id, or by its name: the live one of that name,
// else the last one that had it. Of another tenant's there is nothing to see.
func (s *Store) Server(ctx context.Context, idOrName string) (ServerView, error) {
	var view ServerView
	err := s.read(ctx, "read a server", func(ctx context.Context, q bun.IDB) (err error) {
		view, err = s.server(ctx, q, idOrName)
		return err
	})
	return view, err
}

func (s *Store) server(ctx context.Context, q bun.IDB, idOrName string) (ServerView, error) {
	chosen := s.servers(q).Where("s.server_id = ? OR s.name = ?", idOrName, idOrName).
		OrderExpr("CASE WHEN s.server_id = ? THEN 0 WHEN s.state <> ? THEN 1 ELSE 2 END, s.server_id DESC", idOrName, registry.StateRetired).
		Limit(1)
	var row standing
	err := s.db.standings(q, chosen, s.capabilities).Scan(ctx, &row)
	if errors.Is(err, sql.ErrNoRows) {
		return ServerView{}, serverNotFound()
	}
	if err != nil {
		return ServerView{}, err
	}
	views, err := s.views(ctx, q, []standing{row})
	if err != nil {
		return ServerView{}, err
	}
	return views[0], nil
}

// servers selects the tenant's servers.
func (s *Store) servers(q bun.IDB) *bun.SelectQuery {
	return q.NewSelect().ColumnExpr("s.*").TableExpr("mcp_servers AS s").Where("s.tenant_id = ?", s.tenant)
}

// Servers lists servers, with the key of the next page, empty at the end, and
// the number of all that match.
func (s *Store) Servers(ctx context.Context, query ServerQuery) (views []ServerView, next string, total int, err error) {
	err = s.read(ctx, "list servers", func(ctx context.Context, q bun.IDB) error {
		order, known := serverOrders[query.Order.Field]
		if !known {
			return registry.Errorf(registry.ReasonInvalidOrder, "servers are ordered by name, create_time or update_time")
		}
		chosen, counted, err := s.serverFilter(ctx, q, query)
		if err != nil {
			return err
		}
		if total = counted; counted < 0 {
			if total, err = number(chosen.Count(ctx)); err != nil {
				return err
			}
		}
		chosen, err = query.after(chosen, query.Order.Desc, order.key != nil, order.sql, "s.server_id")
		if err != nil {
			return err
		}
		var rows []standing
		if err := sort(s.db.standings(q, chosen, s.capabilities), query.Order.Desc, order.sql, "s.server_id").Scan(ctx, &rows); err != nil {
			return err
		}
		rows, next = cut(query.Page, rows, func(row *standing) cursor {
			if order.key != nil {
				return cursor{timeKey(order.key(&row.Server)), row.Server.ServerID}
			}
			return cursor{row.Server.Name, row.Server.ServerID}
		})
		views, err = s.views(ctx, q, rows)
		return err
	})
	return views, next, total, err
}

// serverFilter chooses servers and says how many they are, or -1 when that has to
// be counted.
func (s *Store) serverFilter(ctx context.Context, q bun.IDB, query ServerQuery) (chosen *bun.SelectQuery, total int, err error) {
	now, err := s.db.engine.now(ctx, q)
	if err != nil {
		return nil, 0, err
	}
	chosen, total = s.servers(q), -1
	retired := query.ShowRetired || slices.Contains(query.Conditions, Condition{"state", OpIs, string(registry.StateRetired)})
	for _, c := range query.Conditions {
		switch c.Field {
		case "health":
			chosen, total, err = s.asWell(ctx, q, chosen, c, retired)
		case "expiring":
			chosen, err = s.db.engine.where(chosen, c, serverFields, s.tenant, now.Add(ExpiringSoon))
		default:
			chosen, err = s.db.engine.where(chosen, c, serverFields)
		}
		if err != nil {
			return nil, 0, err
		}
	}
	if len(query.Conditions) > 1 {
		total = -1
	}
	if !retired {
		chosen = chosen.Where("s.state <> ?", registry.StateRetired)
	}
	return chosen, total, nil
}

// views counts what the servers of a page have, in two queries for all.
func (s *Store) views(ctx context.Context, q bun.IDB, rows []standing) ([]ServerView, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	now, err := s.db.engine.now(ctx, q)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(rows))
	models := make(map[string]*registry.CapabilityModel, len(rows))
	for i := range rows {
		ids[i] = rows[i].Server.ServerID
		models[ids[i]] = rows[i].model(s.capabilities)
	}
	counts, err := s.counts(ctx, q, ids, models)
	if err != nil {
		return nil, err
	}
	views := make([]ServerView, len(rows))
	for i := range rows {
		views[i] = rows[i].view(counts[ids[i]], models[ids[i]])
		if !rows[i].callable(now) {
			views[i].Counts.Callable = 0
		}
	}
	return views, nil
}

// callable says whether any tool of the server can be: of a tool that has all
// but a binding, only that is denied.
func (st *standing) callable(now time.Time) bool {
	denial := registry.Resolve(registry.ResolveFacts{
		Tool: &registry.Tool{Enabled: true, Available: true}, Server: &st.Server, ProviderEnabled: st.ProviderEnabled, Now: now,
	})
	return denial != nil && denial.Reason == registry.ReasonToolUnbound
}

func (s *Store) counts(ctx context.Context, q bun.IDB, ids []string, models map[string]*registry.CapabilityModel) (map[string]Counts, error) {
	var rows []struct {
		ServerID string `bun:"server_id"`
		Counts
	}
	err := q.NewRaw(`SELECT server_id, count(*) AS tools,
  sum(CASE WHEN available THEN 1 ELSE 0 END) AS available,
  sum(CASE WHEN enabled THEN 1 ELSE 0 END) AS enabled,
  sum(bound) AS bound,
  sum(CASE WHEN enabled AND available AND NOT blocked THEN bound ELSE 0 END) AS callable
FROM (
  SELECT t.server_id, t.available, t.enabled, ? AS blocked, COALESCE(`+bindingOf("1")+`, 0) AS bound
  FROM tools AS t JOIN mcp_servers AS s ON s.server_id = t.server_id AND s.tenant_id = t.tenant_id
  WHERE t.tenant_id = ? AND t.server_id IN (?)
) AS tools
GROUP BY server_id`, blocked(models), s.tenant, bun.List(ids)).Scan(ctx, &rows)
	if err != nil {
		return nil, err
	}
	var others []struct {
		ServerID  string
		Resources int
		Prompts   int
	}
	err = q.NewRaw(`SELECT server_id, sum(resources) AS resources, sum(prompts) AS prompts FROM (
  SELECT server_id, 1 AS resources, 0 AS prompts FROM mcp_resource_bindings WHERE bound AND tenant_id = ? AND server_id IN (?)
  UNION ALL
  SELECT server_id, 0, 1 FROM mcp_prompt_bindings WHERE bound AND tenant_id = ? AND server_id IN (?)
) AS bound GROUP BY server_id`, s.tenant, bun.List(ids), s.tenant, bun.List(ids)).Scan(ctx, &others)
	if err != nil {
		return nil, err
	}
	out := make(map[string]Counts, len(rows))
	for _, row := range rows {
		out[row.ServerID] = row.Counts
	}
	for _, other := range others {
		c := out[other.ServerID]
		c.BoundResources, c.BoundPrompts = other.Resources, other.Prompts
		out[other.ServerID] = c
	}
	return out, nil
}

// Decisions lists what was decided about a server, refused decisions too, the
// oldest first.
func (s *Store) Decisions(ctx context.Context, serverID string) ([]registry.Decision, error) {
	var rows []decisionRow
	err := s.read(ctx, "list decisions", func(ctx context.Context, q bun.IDB) error {
		return q.NewSelect().Model(&rows).Where("tenant_id = ? AND server_id = ?", s.tenant, serverID).
			OrderExpr("decided_at, decision_id").Scan(ctx)
	})
	out := make([]registry.Decision, len(rows))
	for i := range rows {
		out[i] = rows[i].Decision
	}
	return out, err
}
