package db

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/uptrace/bun"

	"countersign/registry"
)

// BeginRefresh numbers a refresh of a provider of the family AEP, or joins the one
// that runs, whose number the caller knows; 0: none does.
func (s *Store) BeginRefresh(ctx context.Context, name string, running int64, op registry.Operation) (registry.Provider, error) {
	out, _, err := s.changeProvider(ctx, name, op, nil, func(ctx context.Context, t *tx, row *providerRow) (*providerRow, string, error) {
		if err := ofExtension(row); err != nil {
			return nil, "", err
		}
		next := *row
		if !next.Begin(op.Actor.Subject, running, t.now) {
			return &next, "", nil
		}
		if err := t.updateProvider(ctx, &next); err != nil {
			return nil, "", err
		}
		return &next, "", t.auditRefresh(ctx, &next, op)
	})
	return out, err
}

// auditRefresh records that somebody wanted a refresh. The version stays.
func (t *tx) auditRefresh(ctx context.Context, row *providerRow, op registry.Operation) error {
	e := by(op, AuditEntry{
		ObjectKind: "provider", ObjectID: row.Name, ObjectName: row.Name, VersionBefore: row.Version, VersionAfter: row.Version, Note: "refresh",
	})
	e.Outcome = AuditApplied
	return t.audit(ctx, e)
}

// refreshed runs fn on a provider whose refresh of that number still runs, for
// the configuration that it has, and writes what fn made of it. One that was
// deleted, or whose configuration changed meanwhile, is provider_not_found or
// conflicting_write.
func (s *Store) refreshed(ctx context.Context, name string, number int64, doing string, fn func(ctx context.Context, t *tx, row *providerRow) error) (out registry.Provider, err error) {
	err = s.write(ctx, doing, func(ctx context.Context, t *tx) error {
		if t.engine.queue != "" {
			if _, err := t.NewRaw(t.engine.queue, t.tenant+"/"+providerAggregate(name)).Exec(ctx); err != nil {
				return err
			}
		}
		if err := t.setNow(ctx); err != nil {
			return err
		}
		row, err := t.extension(ctx, name)
		if err != nil {
			return err
		}
		if row.Refresh.Number != number {
			return registry.Errorf(registry.ReasonConflictingWrite, "another refresh of provider %s began meanwhile", name)
		}
		if row.Refresh.Status != registry.RefreshRunning { // it ended, and the caller did not hear of it
			out = row.Provider
			return nil
		}
		if err := fn(ctx, t, row); err != nil {
			return err
		}
		out = row.Provider
		return t.updateProvider(ctx, row)
	})
	return out, err
}

// Declared is what a descriptor declares.
type Declared struct {
	URL           string // where it was
	Extension     registry.Extension
	Warnings      []registry.Field
	Servers       []registry.ProviderServer // of each its external id and its URL
	Contributions []registry.Contribution
}

// PlanRefresh takes what a descriptor declares: the contributions as they are
// now, and the servers, each with the id that it is registered under. Those that
// are declared no more come with Declared false, until they are retired. A
// descriptor without any server, of an extension that had some, is refused: it
// is more likely broken than meant. Running twice plans once.
func (s *Store) PlanRefresh(ctx context.Context, name string, number, config int64, d Declared) (servers []registry.ProviderServer, err error) {
	_, err = s.refreshed(ctx, name, number, "plan_refresh", func(ctx context.Context, t *tx, row *providerRow) error {
		servers = nil
		if row.Config != config {
			return registry.Errorf(registry.ReasonConflictingWrite, "the configuration of provider %s changed meanwhile", name)
		}
		var known []providerServerRow
		mine := func(q *bun.SelectQuery) *bun.SelectQuery {
			return q.Where("tenant_id = ? AND provider_id = ?", t.tenant, row.ProviderID)
		}
		if err := mine(t.NewSelect().Model(&known)).OrderExpr("external_id").Scan(ctx); err != nil {
			return err
		}
		if len(d.Servers) == 0 && slices.ContainsFunc(known, func(v providerServerRow) bool { return v.Declared }) {
			return registry.Errorf(registry.ReasonDescriptorInvalid, "the descriptor declares no server, and declared some before").
				WithField("mcp.servers", "is empty; the extension had %d servers", len(known)).
				WithNext("if that is meant, retire the servers; else have the extension's people correct its descriptor")
		}
		rows := make([]providerServerRow, 0, len(known)+len(d.Servers))
		for _, v := range known {
			v.Declared = false
			rows = append(rows, v)
		}
		for _, declared := range d.Servers {
			i := slices.IndexFunc(rows, func(v providerServerRow) bool { return v.ExternalID == declared.ExternalID })
			if i < 0 {
				id, err := uuid.NewV7()
				if err != nil {
					return err
				}
				rows = append(rows, providerServerRow{ProviderServer: registry.ProviderServer{
					TenantID: t.tenant, ProviderID: row.ProviderID, ExternalID: declared.ExternalID,
					ServerID: registry.ServerID(id.String()), Name: registry.ProviderServerName(name, declared.ExternalID),
				}})
				i = len(rows) - 1
			}
			rows[i].URL, rows[i].Declared = declared.URL, true
		}
		if err := upsert(ctx, t, rows, "tenant_id, provider_id, external_id"); err != nil {
			return err
		}
		if _, err := t.NewDelete().TableExpr("provider_contributions").
			Where("tenant_id = ? AND provider_id = ?", t.tenant, row.ProviderID).Exec(ctx); err != nil {
			return err
		}
		contributions := make([]contributionRow, len(d.Contributions))
		for i, c := range d.Contributions {
			c.TenantID, c.ProviderID = t.tenant, row.ProviderID
			contributions[i] = contributionRow{Contribution: c}
		}
		if err := insert(ctx, t, contributions, ""); err != nil {
			return err
		}
		row.Refresh.URL, row.Refresh.Extension, row.Refresh.Warnings = d.URL, d.Extension, d.Warnings
		for _, v := range rows {
			servers = append(servers, v.ProviderServer)
		}
		return nil
	})
	return servers, err
}

// EndRefresh records how a refresh ended: with what failed it, or with what it
// came to for each server. Servers that are declared no more, and have ended, are
// forgotten.
func (s *Store) EndRefresh(ctx context.Context, name string, number int64, failed *registry.Error, outcomes []registry.ServerOutcome) (registry.Provider, error) {
	return s.refreshed(ctx, name, number, "end_refresh", func(ctx context.Context, t *tx, row *providerRow) error {
		r := &row.Refresh
		if failed != nil {
			r.Fail(failed, t.now)
			return nil //nolint:nilerr // it is what is recorded
		}
		r.Status, r.FinishedAt, r.SucceededAt, r.Counts = registry.RefreshSucceeded, t.now, t.now, registry.Counts{}
		for _, o := range outcomes {
			r.Counts = r.Counts.Plus(o.Counts)
			_, err := t.NewUpdate().Model((*providerServerRow)(nil)).Set("reason = ?, message = ?", o.Reason, asText(o.Message)).
				Where("v.tenant_id = ? AND v.provider_id = ? AND v.external_id = ?", t.tenant, row.ProviderID, o.ExternalID).Exec(ctx)
			if err != nil {
				return err
			}
		}
		_, err := t.NewDelete().Model((*providerServerRow)(nil)).
			Where("v.tenant_id = ? AND v.provider_id = ? AND NOT v.declared", t.tenant, row.ProviderID).
			Where("NOT EXISTS (SELECT 1 FROM mcp_servers AS s WHERE s.tenant_id = v.tenant_id AND s.server_id = v.server_id AND s.state <> ?)",
				registry.StateRetired).Exec(ctx)
		if err != nil {
			return err
		}
		op := registry.Operation{ID: fmt.Sprintf("refreshed/%d", number), Name: "refreshed"}
		return t.announce(ctx, providerAggregate(name), op, *t.providerEvent(row, registry.ProviderRefreshed))
	})
}

// Contributions gives what the extension of a server contributes by way of it,
// by id; nothing when no extension has the server.
func (s *Store) Contributions(ctx context.Context, serverID string) ([]registry.Contribution, error) {
	var rows []contributionRow
	err := s.read(ctx, "read contributions", func(ctx context.Context, q bun.IDB) error {
		return q.NewSelect().Model(&rows).
			Join("JOIN provider_servers AS v ON v.tenant_id = c.tenant_id AND v.provider_id = c.provider_id AND v.external_id = c.server_external_id").
			Where("c.tenant_id = ? AND v.server_id = ?", s.tenant, asText(serverID)).OrderExpr("c.contribution_id").Scan(ctx)
	})
	out := make([]registry.Contribution, len(rows))
	for i := range rows {
		out[i] = rows[i].Contribution
	}
	return out, err
}

// ProviderView is a provider and what there is of it.
type ProviderView struct {
	registry.Provider
	ServerCount       int `bun:"server_count"`       // live ones
	ContributionCount int `bun:"contribution_count"` // of the family AEP

	// Server is that of a provider of the family MCP.
	Server *registry.Server `bun:"embed:s_"`

	Servers       []ProviderServerView `bun:"-"` // of the family AEP; given by [Store.Provider] only
	Contributions []ContributionView   `bun:"-"` // likewise
}

// ProviderServerView is a server that an extension declares, with the one that is
// registered for it; nil: none is.
type ProviderServerView struct {
	registry.ProviderServer
	State     registry.State        `bun:"state"` // empty: not registered
	Discovery registry.DiscoveryRun `bun:"embed:discovery_"`
}

// ContributionView is a contribution with the tool that it became, if it did.
type ContributionView struct {
	registry.Contribution
	ServerID   string          `bun:"server_id"`
	ServerName string          `bun:"server_name"`
	Refused    registry.Reason `bun:"refused"` // what the last refresh could not do with the server
	Message    string          `bun:"message"`
	State      registry.State  `bun:"state"`
	Snapshot   string          `bun:"snapshot_digest"`

	DiscoveryStatus  registry.DiscoveryStatus `bun:"discovery_status"`
	DiscoveryReason  registry.Reason          `bun:"discovery_reason"`
	DiscoveryMessage string                   `bun:"discovery_message"`

	ToolID    string          `bun:"tool_id"` // canonical; empty: it became none yet
	Available bool            `bun:"available"`
	Verdict   registry.Reason `bun:"verdict"`
	Detail    string          `bun:"detail"`
}

// Issue says why a contribution is no tool that could be used; empty when it is
// one, or nothing is known yet.
func (c *ContributionView) Issue() (reason registry.Reason, message string) {
	switch {
	case c.Refused != "":
		return c.Refused, c.Message
	case c.State == registry.StateRetired:
		return registry.ReasonServerRetired, "the server " + c.ServerName + " is retired"
	case c.Verdict != "":
		return c.Verdict, c.Detail
	case c.Available:
		return "", ""
	case c.DiscoveryStatus == registry.DiscoveryFailed:
		return c.DiscoveryReason, c.DiscoveryMessage
	case c.Snapshot != "" && c.DiscoveryStatus == registry.DiscoverySucceeded:
		return registry.ReasonMCPToolNotFound, "server " + c.ServerName + " lists no tool " + c.Tool
	}
	return "", ""
}

// providerViews selects the live providers p that were chosen, with what there is
// of them.
func providerViews(q bun.IDB, db *bun.DB, chosen *bun.SelectQuery) *bun.SelectQuery {
	var own strings.Builder
	for _, field := range db.Table(reflect.TypeFor[registry.Provider]()).Fields {
		own.WriteString("p." + field.Name + ", ")
	}
	return q.NewSelect().TableExpr("(?) AS p", chosen).ColumnExpr(own.String() + columns[registry.Server](db, "s")).
		ColumnExpr("(SELECT count(*) FROM mcp_servers AS n WHERE n.tenant_id = p.tenant_id AND n.provider_id = p.provider_id AND n.state <> 'retired') AS server_count").
		ColumnExpr("(SELECT count(*) FROM provider_contributions AS c WHERE c.tenant_id = p.tenant_id AND c.provider_id = p.provider_id) AS contribution_count").
		Join("LEFT JOIN mcp_servers AS s ON p.family = 'mcp' AND s.tenant_id = p.tenant_id AND s.provider_id = p.provider_id")
}

// Provider gives a live provider with its servers and contributions; the error is
// provider_not_found when the tenant has none of the name.
func (s *Store) Provider(ctx context.Context, name string) (ProviderView, error) {
	var views []ProviderView
	err := s.read(ctx, "read a provider", func(ctx context.Context, q bun.IDB) error {
		chosen := q.NewSelect().TableExpr("providers AS p").ColumnExpr("p.*").Where("p.tenant_id = ? AND p.name = ? AND p.live", s.tenant, asText(name))
		if err := providerViews(q, s.db.reader, chosen).Scan(ctx, &views); err != nil {
			return err
		}
		if len(views) == 0 {
			return registry.ProviderNotFound()
		}
		v := &views[0]
		if v.Family != registry.FamilyAEP {
			return nil
		}
		err := q.NewSelect().TableExpr("provider_servers AS v").ColumnExpr("v.*, COALESCE(s.state, '') AS state").
			ColumnExpr("COALESCE(s.discovery_status, '') AS discovery_status, COALESCE(s.discovery_number, 0) AS discovery_number").
			ColumnExpr("COALESCE(s.discovery_reason, '') AS discovery_reason, COALESCE(s.discovery_message, '') AS discovery_message").
			Join("LEFT JOIN mcp_servers AS s ON s.tenant_id = v.tenant_id AND s.server_id = v.server_id").
			Where("v.tenant_id = ? AND v.provider_id = ?", s.tenant, v.ProviderID).OrderExpr("v.external_id").Scan(ctx, &v.Servers)
		if err != nil {
			return err
		}
		return q.NewSelect().TableExpr("provider_contributions AS c").
			ColumnExpr("c.*, v.server_id, v.name AS server_name, v.reason AS refused, v.message").
			ColumnExpr("COALESCE(s.state, '') AS state, COALESCE(s.snapshot_digest, '') AS snapshot_digest").
			ColumnExpr("COALESCE(s.discovery_status, '') AS discovery_status, COALESCE(s.discovery_reason, '') AS discovery_reason, COALESCE(s.discovery_message, '') AS discovery_message").
			ColumnExpr("COALESCE(t.tool_id, '') AS tool_id, COALESCE(t.available, FALSE) AS available, COALESCE(t.verdict, '') AS verdict, COALESCE(t.detail, '') AS detail").
			Join("JOIN provider_servers AS v ON v.tenant_id = c.tenant_id AND v.provider_id = c.provider_id AND v.external_id = c.server_external_id").
			Join("LEFT JOIN mcp_servers AS s ON s.tenant_id = v.tenant_id AND s.server_id = v.server_id").
			Join("LEFT JOIN tools AS t ON t.tenant_id = v.tenant_id AND t.server_id = v.server_id AND t.external_key = c.contribution_id").
			Where("c.tenant_id = ? AND c.provider_id = ?", s.tenant, v.ProviderID).OrderExpr("c.contribution_id").Scan(ctx, &v.Contributions)
	})
	if err != nil {
		return ProviderView{}, err
	}
	return views[0], nil
}

// ProviderQuery asks for providers.
type ProviderQuery struct {
	Family registry.ProviderFamily // empty: both
	Page
}

// Providers lists live providers by name, with the key of the next page and the
// number of all.
func (s *Store) Providers(ctx context.Context, query ProviderQuery) (views []ProviderView, next string, total int, err error) {
	err = s.read(ctx, "list providers", func(ctx context.Context, q bun.IDB) error {
		chosen := q.NewSelect().TableExpr("providers AS p").ColumnExpr("p.*").Where("p.tenant_id = ? AND p.live", s.tenant)
		if query.Family != "" {
			chosen = chosen.Where("p.family = ?", query.Family)
		}
		var err error
		if total, err = number(chosen.Count(ctx)); err != nil {
			return err
		}
		rows, err := query.after(providerViews(q, s.db.reader, chosen), false, false, "p.name")
		if err != nil {
			return err
		}
		if err := rows.Scan(ctx, &views); err != nil {
			return err
		}
		views, next = cut(query.Page, views, func(v *ProviderView) cursor { return cursor{v.Name} })
		return nil
	})
	return views, next, total, err
}

// awaits is how often [Store.DiscoveryEnd] looks.
const awaits = 250 * time.Millisecond

// DiscoveryEnd waits until a discovery of a server has ended, well or not, or the
// context is over, and gives the server as it is then.
func (s *Store) DiscoveryEnd(ctx context.Context, serverID string, number int64) (ServerView, error) {
	for {
		v, err := s.Server(ctx, serverID)
		if err != nil || !v.Open() || v.Discovery.Number >= number && v.Discovery.Status != registry.DiscoveryRunning {
			return v, err
		}
		select {
		case <-ctx.Done():
			return v, ctx.Err()
		case <-time.After(awaits):
		}
	}
}
