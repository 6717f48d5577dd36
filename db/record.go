package db

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"countersign/registry"
)

// load reads what a change can touch: the connection always, the catalog when
// it is asked for.
func (t *tx) load(ctx context.Context, row *serverRow, c Change) (*registry.Record, error) {
	r := &registry.Record{Server: row.Server, Version: t.version(ctx, row.ServerID)}
	if row.ConnectionName != "" {
		connection, err := connectionOf(ctx, t, t.tenant, row.ConnectionName, row.ConnectionVersion)
		if err != nil {
			return nil, err
		}
		r.Connection = *connection
	}
	if c.Connection != "" {
		var err error
		if r.Named, err = t.holdConnection(ctx, c.Connection); err != nil {
			return nil, err
		}
	}
	if r.Server.Transport == registry.TransportStdio {
		command, err := commandOf(ctx, t, t.tenant, r.Server.TargetDigest)
		if err != nil {
			return nil, err
		}
		if command == nil {
			return nil, registry.Errorf(registry.ReasonInternal, "the command of server %s is not kept", r.Server.ServerID)
		}
		r.Command = command
	}
	if err := t.loadBundle(ctx, r, c); err != nil {
		return nil, err
	}
	if r.Server.Contributed() {
		err := t.NewSelect().TableExpr("providers").Column("name").
			Where("tenant_id = ? AND provider_id = ?", t.tenant, r.Server.ProviderID).Scan(ctx, &r.Provider)
		if err != nil {
			return nil, err
		}
	}
	if c.Catalog == nil || !c.Catalog(&r.Server) {
		return r, nil
	}
	if digest := r.Server.SnapshotDigest; digest != "" {
		snapshot, err := snapshotOf(ctx, t, t.tenant, digest)
		if err != nil {
			return nil, err
		}
		r.Snapshot = snapshot
	}
	if err := t.loadCatalog(ctx, r); err != nil {
		return nil, err
	}
	if err := t.loadGovernance(ctx, r, c); err != nil {
		return nil, err
	}
	var err error
	if r.Descriptors, err = t.descriptors(ctx, r.Server.ServerID, c.Descriptors); err != nil {
		return nil, err
	}
	r.Taken, err = t.taken(ctx, r)
	return r, err
}

func (t *tx) loadCatalog(ctx context.Context, r *registry.Record) error {
	var (
		tools     []toolRow
		bindings  []bindingRow
		resources []resourceRow
		prompts   []promptRow
	)
	for _, rows := range []any{&tools, &bindings, &resources, &prompts} {
		err := t.NewSelect().Model(rows).Where("tenant_id = ? AND server_id = ?", t.tenant, r.Server.ServerID).Scan(ctx)
		if err != nil {
			return err
		}
	}
	r.Tools = make(map[string]*registry.Tool, len(tools))
	t.loaded = make(map[string]searched, len(tools))
	for i := range tools {
		tool := &tools[i].Tool
		r.Tools[tool.ExternalID] = tool
		t.loaded[tool.ExternalID] = searched{tool.Title, tool.Description}
	}
	r.Bindings = make(map[string]*registry.ToolBinding, len(bindings))
	for i := range bindings {
		r.Bindings[bindings[i].ToolName] = &bindings[i].ToolBinding
	}
	r.Resources = make(map[string]*registry.ResourceBinding, len(resources))
	for i := range resources {
		r.Resources[resources[i].ResourceURI] = &resources[i].ResourceBinding
	}
	r.Prompts = make(map[string]*registry.PromptBinding, len(prompts))
	for i := range prompts {
		r.Prompts[prompts[i].PromptName] = &prompts[i].PromptBinding
	}
	return nil
}

// descriptors gives all versions of the descriptors that bear the ids of the
// server's tools, whoever published them, and of those named.
func (t *tx) descriptors(ctx context.Context, serverID string, named []string) (map[string][]registry.Descriptor, error) {
	var rows []descriptorRow
	err := t.NewSelect().Model(&rows).Where("d.tenant_id = ?", t.tenant).
		WhereGroup(" AND ", func(q *bun.SelectQuery) *bun.SelectQuery {
			q = q.Where("d.descriptor_id IN (SELECT tool_id FROM tools WHERE tenant_id = ? AND server_id = ?)", t.tenant, serverID)
			if len(named) > 0 {
				q = q.WhereOr("d.descriptor_id IN (?)", bun.List(named))
			}
			return q
		}).OrderExpr("descriptor_id, version").Scan(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string][]registry.Descriptor{}
	for _, row := range rows {
		out[row.DescriptorID] = append(out[row.DescriptorID], row.Descriptor)
	}
	return out, nil
}

// taken says which tool ids a newcomer cannot have. Ids begin with the name of
// their provider and a dot, which no name holds, so few ids of others come into
// question. Each newcomer asks once.
func (t *tx) taken(ctx context.Context, r *registry.Record) (func(string) bool, error) {
	var others []string
	namespace := r.Namespace()
	err := t.NewSelect().TableExpr("tools").Column("tool_id").
		Where("tenant_id = ? AND server_id <> ? AND live", t.tenant, r.Server.ServerID).
		Where("tool_key >= ? AND tool_key < ?", namespace+".", namespace+"/").Scan(ctx, &others) // "/" comes after "."
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	ids := make(map[string]bool, len(others)+len(r.Tools))
	for _, id := range others {
		ids[id] = true
	}
	for _, tool := range r.Tools {
		ids[tool.ToolID] = true
	}
	return func(id string) bool {
		was := ids[id]
		ids[id] = true
		return was
	}, nil
}

// save writes what the change marked.
func (t *tx) save(ctx context.Context, row *serverRow, r *registry.Record, c registry.Changes, op registry.Operation) error {
	before, wasAt := row.Version, [2]string{row.SnapshotDigest, row.TargetDigest}
	if err := t.recordFacts(ctx, &row.Server, r, c); err != nil {
		return err
	}
	row.Server = r.Server
	if row.SnapshotDigest != "" && wasAt != [2]string{row.SnapshotDigest, row.TargetDigest} {
		if err := t.saveVersion(ctx, &row.Server); err != nil {
			return err
		}
	}
	if c.Connection != nil {
		if _, err := t.NewInsert().Model(&connectionRow{Connection: *c.Connection}).Exec(ctx); err != nil {
			return err
		}
	}
	if c.Connection != nil || c.Pinned || c.Command != nil {
		// How another target shakes hands is not known, nor how long it takes.
		_, err := t.NewUpdate().Model((*probeStateRow)(nil)).Set("era = '', slow = FALSE, not_before = NULL").
			Where("ps.tenant_id = ? AND ps.server_id = ?", t.tenant, row.ServerID).Exec(ctx)
		if err != nil {
			return err
		}
	}
	if err := t.saveCommand(ctx, r.Server.TargetDigest, c.Command); err != nil {
		return err
	}
	if err := t.emit(ctx, row, op, c.Events); err != nil {
		return err
	}
	if c.Server || len(c.Events) > 0 {
		if err := t.updateServer(ctx, row, before); err != nil {
			return err
		}
	}
	if c.Connection != nil || c.Pinned {
		if err := t.saveTarget(ctx, row); err != nil {
			return err
		}
	}
	if err := t.saveCatalog(ctx, r, c); err != nil {
		return err
	}
	if c.Decision != nil {
		if _, err := t.NewInsert().Model(&decisionRow{Decision: *c.Decision}).Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) updateServer(ctx context.Context, row *serverRow, before int64) error {
	if err := row.pin(); err != nil {
		return err
	}
	result, err := t.NewUpdate().Model(row).
		Where("s.tenant_id = ? AND s.server_id = ? AND s.version = ?", t.tenant, row.ServerID, before).Exec(ctx)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return errors.Join(err, registry.Errorf(registry.ReasonConflictingWrite, "the server changed while it was locked"))
	}
	if row.State != registry.StateRetired {
		return nil
	}
	// Its name, and the ids that begin with it, are free.
	for _, table := range []string{"tools", "providers"} {
		q := t.NewUpdate().TableExpr(table).Set("live = FALSE").Where("tenant_id = ?", t.tenant)
		if table == "tools" {
			q = q.Where("server_id = ?", row.ServerID)
		} else {
			q = q.Where("provider_id = ? AND family = ?", row.ProviderID, registry.FamilyMCP)
		}
		if _, err := q.Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// pin takes the reference to the connection apart.
func (row *serverRow) pin() error {
	row.ConnectionName, row.ConnectionVersion = "", 0
	if row.EndpointRef == "" {
		return nil
	}
	name, version, pinned := row.Connection()
	if !pinned {
		return registry.Errorf(registry.ReasonInternal, "the server's endpoint reference is malformed")
	}
	row.ConnectionName, row.ConnectionVersion = name, version
	return nil
}

func (t *tx) saveCatalog(ctx context.Context, r *registry.Record, c registry.Changes) error {
	// What a tool says is most of its row, and seldom what changed: a switch of
	// 10,000 tools need not write it.
	tools := make([]toolRow, 0, len(c.Tools))
	var told, kept []toolRow
	for _, name := range sorted(c.Tools) {
		tool := *r.Tools[name]
		row := toolRow{Tool: tool, ExternalKey: key(tool.ExternalID), ToolKey: key(tool.ToolID), Live: true}
		tools = append(tools, row)
		if t.saysAsBefore(&tool) {
			row.Title, row.Description = "", ""
			kept = append(kept, row)
		} else {
			told = append(told, row)
		}
	}
	if err := upsert(ctx, t, told, "tenant_id, server_id, external_key"); err != nil {
		return err
	}
	if err := upsert(ctx, t, kept, "tenant_id, server_id, external_key", "title", "description"); err != nil {
		return err
	}
	if err := t.roomForTools(ctx, tools); err != nil {
		return err
	}
	if err := t.saveSearch(ctx, r.Server.Name, tools); err != nil {
		return err
	}
	var bindings []bindingRow
	for _, name := range sorted(c.Bindings) {
		bindings = append(bindings, bindingRow{ToolBinding: *r.Bindings[name]})
	}
	if err := upsert(ctx, t, bindings, "tenant_id, server_id, tool_name"); err != nil {
		return err
	}
	var resources []resourceRow
	for _, uri := range sorted(c.Resources) {
		resources = append(resources, resourceRow{ResourceBinding: *r.Resources[uri], ResourceKey: key(uri)})
	}
	if err := upsert(ctx, t, resources, "tenant_id, server_id, resource_key"); err != nil {
		return err
	}
	var prompts []promptRow
	for _, name := range sorted(c.Prompts) {
		prompts = append(prompts, promptRow{PromptBinding: *r.Prompts[name], PromptKey: key(name)})
	}
	if err := upsert(ctx, t, prompts, "tenant_id, server_id, prompt_key"); err != nil {
		return err
	}
	var descriptors []descriptorRow
	for _, d := range c.Descriptors {
		descriptors = append(descriptors, descriptorRow{Descriptor: d})
	}
	return insert(ctx, t, descriptors, "")
}

func sorted(marked map[string]bool) []string { return slices.Sorted(maps.Keys(marked)) }
