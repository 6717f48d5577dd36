package db

import (
	"context"
	"strings"

	"github.com/uptrace/bun"

	"countersign/registry"
)

// searchRow is what a tool is found by. Both engines search the words that the
// program made, so that they find the same.
type searchRow struct {
	bun.BaseModel `bun:"table:tool_search,alias:q"`
	ID            int64  `bun:"id,pk,autoincrement"`
	TenantID      string `bun:"tenant_id"`
	ServerID      string `bun:"server_id"`
	ExternalKey   string `bun:"external_key"`
	Names         string `bun:"names"`
	Titles        string `bun:"titles"`
	Words         string `bun:"words"`
}

func searchRowOf(t *registry.Tool, server string) searchRow {
	text := registry.SearchTextOf(t, server)
	return searchRow{
		TenantID: t.TenantID, ServerID: t.ServerID, ExternalKey: key(t.ExternalID), Names: text.Names, Titles: text.Titles, Words: text.Words,
	}
}

// searched are the texts by which a tool is found.
type searched struct{ title, description string }

// saysAsBefore says whether a tool was loaded with the words that it has.
func (t *tx) saysAsBefore(tool *registry.Tool) bool {
	before, known := t.loaded[tool.ExternalID]
	return known && before == searched{tool.Title, tool.Description}
}

// saveSearch keeps the words of the tools that are new or read otherwise than
// when they were loaded.
func (t *tx) saveSearch(ctx context.Context, server string, tools []toolRow) error {
	var rows []searchRow
	for i := range tools {
		if tool := &tools[i].Tool; !t.saysAsBefore(tool) {
			rows = append(rows, searchRowOf(tool, server))
		}
	}
	return insertSearch(ctx, t, rows, "CONFLICT (tenant_id, server_id, external_key) DO UPDATE SET names = EXCLUDED.names, titles = EXCLUDED.titles, words = EXCLUDED.words")
}

func insertSearch(ctx context.Context, q bun.IDB, rows []searchRow, on string) error {
	for len(rows) > 0 {
		n := min(bulkRows, len(rows))
		chunk := rows[:n]
		rows = rows[n:]
		if _, err := q.NewInsert().Model(&chunk).ExcludeColumn("id").On(on).Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// fillSearch makes the words of tools that a program before wrote without.
func (d *DB) fillSearch(ctx context.Context) error {
	for {
		var tools []struct {
			registry.Tool
			Server string `bun:"server"`
		}
		err := d.read(ctx, ofMigration, "read tools without words", func(ctx context.Context, q bun.IDB) error {
			return q.NewSelect().
				ColumnExpr("t.tenant_id, t.server_id, t.external_id, t.title, t.description, s.name AS server").
				TableExpr("tools AS t JOIN mcp_servers AS s ON s.server_id = t.server_id AND s.tenant_id = t.tenant_id").
				Where("NOT EXISTS (SELECT 1 FROM tool_search AS q WHERE q.tenant_id = t.tenant_id AND q.server_id = t.server_id AND q.external_key = t.external_key)").
				Limit(bulkRows).Scan(ctx, &tools)
		})
		if err != nil || len(tools) == 0 {
			return err
		}
		rows := make([]searchRow, len(tools))
		for i := range tools {
			rows[i] = searchRowOf(&tools[i].Tool, tools[i].Server)
		}
		err = d.write(ctx, ofMigration, "save the words of tools", func(ctx context.Context, tx bun.Tx) error {
			return insertSearch(ctx, tx, rows, "CONFLICT DO NOTHING")
		})
		if err != nil {
			return err
		}
	}
}

// The queries of the engines for all words, each as the beginning of one.
func ftsQuery(words []string) string {
	return `"` + strings.Join(words, `" * AND "`) + `" *`
}

func tsQuery(words []string) string {
	return "'" + strings.Join(words, "':* & '") + "':*"
}
