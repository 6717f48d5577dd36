package db

import (
	"context"

	"github.com/uptrace/bun"

	"countersign/registry"
)

// LiveServer is a server that is not retired, so that a workflow has to be open
// for it.
type LiveServer struct {
	Server     registry.Server
	Connection string // that it uses; empty: none
	Behind     int    // the newest version of it, when the server uses an older one; 0: it does not
}

// LiveServers gives the live servers of all tenants, in the order of tenants and
// ids, after a key that a page before gave as next; next is empty at the end.
func (y *SystemStore) LiveServers(ctx context.Context, after string, limit int) (servers []LiveServer, next string, err error) {
	page := Page{Size: limit, After: after}
	err = y.db.read(ctx, ofSystem, "list live servers", func(ctx context.Context, q bun.IDB) error {
		var rows []struct {
			Server     registry.Server `bun:"embed:s_"`
			Connection string          `bun:"connection_name"`
			Version    int             `bun:"connection_version"`
			Newest     int             `bun:"newest"`
		}
		query := q.NewSelect().ColumnExpr(columns[registry.Server](y.db.reader, "s")).TableExpr("mcp_servers AS s").
			ColumnExpr("COALESCE(s.connection_name, '') AS connection_name, COALESCE(s.connection_version, 0) AS connection_version").
			ColumnExpr("COALESCE((SELECT max(c.version) FROM connections AS c WHERE c.tenant_id = s.tenant_id AND c.name = s.connection_name), 0) AS newest").
			Where("s.state <> ?", registry.StateRetired)
		query, err := page.after(query, false, false, "s.tenant_id", "s.server_id")
		if err != nil {
			return err
		}
		if err := query.Scan(ctx, &rows); err != nil {
			return err
		}
		servers = make([]LiveServer, len(rows))
		for i, row := range rows {
			servers[i] = LiveServer{Server: row.Server, Connection: row.Connection}
			if row.Connection != "" && row.Newest > row.Version {
				servers[i].Behind = row.Newest
			}
		}
		servers, next = cut(page, servers, func(s *LiveServer) cursor { return cursor{s.Server.TenantID, s.Server.ServerID} })
		return nil
	})
	return servers, next, err
}
