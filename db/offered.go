package db

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"countersign/registry"
)

// offeredOf selects, of a server s that the capability table may know, the
// tools that the table mentions and the server offers, each with its arguments:
// [["name","[\"argument\"]"]]. The conditions say which servers and tools these
// are; of other servers nothing is read.
func (e engine) offeredOf(reported, registered, tools string) string {
	return `COALESCE(CASE WHEN ` + reported + ` OR ` + registered + ` THEN (
SELECT ` + e.pairs + ` FROM tools AS o
JOIN definitions AS od ON od.tenant_id = o.tenant_id AND od.digest = o.definition_digest
WHERE o.tenant_id = s.tenant_id AND o.server_id = s.server_id AND o.available AND ` + tools + `) END, '') AS offered`
}

// offeredColumn adds the column to a query that Bun writes.
func (d *DB) offeredColumn(q *bun.SelectQuery, table *registry.CapabilityTable) *bun.SelectQuery {
	m := table.Mentions()
	if len(m.Tools) == 0 {
		return q.ColumnExpr("'' AS offered")
	}
	// A list of none would be no SQL. Nothing bears an empty name.
	list := func(names []string) any { return bun.List(append([]string{""}, names...)) }
	return q.ColumnExpr(d.engine.offeredOf("s.server_name IN (?)", "s.name IN (?)", "o.external_key IN (?)"),
		list(m.Reported), list(m.Registered), list(keys(m.Tools)))
}

func keys(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = key(asText(name))
	}
	return out
}

// model resolves the capability table for the server, with what is committed.
// A tool whose arguments nobody looked at yet has none (R85).
func (st *standing) model(table *registry.CapabilityTable) *registry.CapabilityModel {
	var pairs [][2]*string
	tools := map[string][]string{}
	if json.Unmarshal([]byte(st.Offered), &pairs) == nil {
		for _, pair := range pairs {
			if pair[0] != nil {
				tools[*pair[0]] = argsOf(pair[1])
			}
		}
	}
	m := table.Resolve(registry.CapabilityFactsOf(&st.Server, st.Probe, tools))
	return &m
}

func argsOf(column *string) []string {
	var args []string
	if column == nil || json.Unmarshal([]byte(*column), &args) != nil {
		return nil
	}
	return args
}

// blocked is a condition of the tools t that capabilities switch off.
func blocked(models map[string]*registry.CapabilityModel) schema.QueryWithArgs {
	var (
		b    strings.Builder
		args []any
	)
	b.WriteString("FALSE")
	for id, m := range models {
		if off := m.Blocked(); len(off) > 0 {
			b.WriteString(" OR t.server_id = ? AND t.external_key IN (?)")
			args = append(args, id, bun.List(keys(off)))
		}
	}
	return bun.SafeQuery("("+b.String()+")", args...)
}

// OfferedTool is a tool that the last accepted discovery of a server saw.
type OfferedTool struct {
	Name    string
	Args    []string        // the properties of its input schema, sorted
	Verdict registry.Reason // quarantined when not empty
}

// CapabilityReport gives a server, by id or name as [Store.Server] does, with
// the capability table resolved for it, and the tools that it offers, by name,
// as of one moment.
func (s *Store) CapabilityReport(ctx context.Context, idOrName string) (view ServerView, tools []OfferedTool, err error) {
	err = s.read(ctx, "read a capability report", func(ctx context.Context, q bun.IDB) (err error) {
		if view, err = s.server(ctx, q, idOrName); err != nil {
			return err
		}
		var rows []struct {
			ExternalID string          `bun:"external_id"`
			Verdict    registry.Reason `bun:"verdict"`
			Args       *string         `bun:"args"`
		}
		err = q.NewSelect().ColumnExpr("t.external_id, t.verdict, d.args").
			TableExpr("tools AS t JOIN definitions AS d ON d.tenant_id = t.tenant_id AND d.digest = t.definition_digest").
			Where("t.tenant_id = ? AND t.server_id = ? AND (t.available OR t.verdict <> '')", s.tenant, view.ServerID).
			OrderExpr("t.external_key").Scan(ctx, &rows)
		tools = make([]OfferedTool, len(rows))
		for i, row := range rows {
			tools[i] = OfferedTool{Name: row.ExternalID, Args: argsOf(row.Args), Verdict: row.Verdict}
		}
		return err
	})
	return view, tools, err
}
