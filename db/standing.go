package db

import (
	"reflect"
	"strings"

	"github.com/uptrace/bun"

	"countersign/registry"
)

// standing is a server and what stands beside it, as one joined row.
type standing struct {
	Server          registry.Server      `bun:"embed:s_"`
	Connection      *registry.Connection `bun:"embed:c_"` // nil for stdio
	Command         *registry.Command    `bun:"embed:k_"` // nil but for stdio
	Probe           *registry.Probe      `bun:"embed:pr_"`
	ProviderEnabled bool                 `bun:"provider_enabled"`
	Era             string               `bun:"era"`
	Offered         string               `bun:"offered"` // see offeredOf; empty: nothing that the capability table asks for
}

// standingOf joins mcp_servers AS s to what stands beside a server.
const standingOf = `
JOIN providers AS p ON p.tenant_id = s.tenant_id AND p.provider_id = s.provider_id
LEFT JOIN connections AS c ON c.tenant_id = s.tenant_id AND c.name = s.connection_name AND c.version = s.connection_version
LEFT JOIN commands AS k ON k.tenant_id = s.tenant_id AND k.target_digest = s.target_digest
LEFT JOIN server_probe_state AS ps ON ps.server_id = s.server_id
LEFT JOIN probes AS pr ON pr.server_id = ps.server_id AND pr.probe_window = ps.probe_window`

// standings joins the rows of mcp_servers that were chosen to what stands
// beside them. They are chosen first, so that no more of them are joined.
func (d *DB) standings(q bun.IDB, chosen *bun.SelectQuery, table *registry.CapabilityTable) *bun.SelectQuery {
	query := q.NewSelect().ColumnExpr(standingColumns(d.reader)).TableExpr("(?) AS s "+standingOf, chosen)
	return d.offeredColumn(query, table)
}

// standingColumns lists the columns of standing, but for what the server offers
// and some of the connection.
func standingColumns(db *bun.DB, but ...string) string {
	return strings.Join([]string{
		columns[registry.Server](db, "s"), columnsBut[registry.Connection](db, "c", but...), columns[registry.Command](db, "k"),
		columns[registry.Probe](db, "pr"),
		"p.enabled AS provider_enabled", "COALESCE(ps.era, '') AS era",
	}, ", ")
}

// columns lists the columns of a struct in a table, each named with the alias
// before it, as a field with bun:"embed:ALIAS_" reads them.
func columns[T any](db *bun.DB, alias string) string {
	var b strings.Builder
	for i, field := range db.Table(reflect.TypeFor[T]()).Fields {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(alias + "." + field.Name + " AS " + alias + "_" + field.Name)
	}
	return b.String()
}

// bindingOf is followed by what is wanted of the tool's binding b, if that
// holds: it is of what the tool t and the server s are now. This is
// registry.ToolBinding.Holds in SQL. A join would do as well, but Postgres gets
// it wrong by orders of magnitude while a large new catalog has no statistics.
func bindingOf(wanted string) string {
	return `(SELECT ` + wanted + ` FROM mcp_tool_bindings AS b
WHERE b.tenant_id = t.tenant_id AND b.server_id = t.server_id AND b.tool_name = t.external_key
  AND b.bound AND b.schema_hash = t.contract_digest AND b.text_digest = t.text_digest
  AND b.behaviour_digest = t.behaviour_digest AND b.target_digest = s.target_digest AND ` + lasting("b") + `)`
}

// lasting is the condition that an approval is not over, to the second.
func lasting(binding string) string {
	return "(" + binding + ".ends_at IS NULL OR " + binding + ".ends_at > CURRENT_TIMESTAMP)"
}

func (st *standing) view(counts Counts, model *registry.CapabilityModel) ServerView {
	v := ServerView{
		Server: st.Server, LastProbe: st.Probe, Era: st.Era, ProviderEnabled: st.ProviderEnabled, Counts: counts, Command: st.Command,
		Model: model,
	}
	if st.Connection != nil {
		v.Connection = *st.Connection
	}
	return v
}
