package db

import (
	"context"

	"github.com/uptrace/bun"

	"countersign/registry"
)

// Capabilities are all that one server offers, with what was approved of it.
type Capabilities struct {
	Server    ServerView
	Snapshot  *registry.Snapshot // of the last accepted discovery; nil: never discovered
	Tools     []CatalogTool      // all that were ever discovered, by name
	Resources []registry.ResourceBinding
	Prompts   []registry.PromptBinding
}

// CatalogTool is a tool of a known server.
type CatalogTool struct {
	registry.Tool
	Binding *registry.ToolBinding // nil: never approved
	Denial  *registry.Denial      // nil: callable now
}

// Capabilities gives what a server offers, by id or name as [Store.Server]
// does, as of one moment. The snapshot's items hold their bytes when
// definitions are wanted.
func (s *Store) Capabilities(ctx context.Context, idOrName string, definitions bool) (Capabilities, error) {
	var out Capabilities
	err := s.read(ctx, "read a catalog", func(ctx context.Context, q bun.IDB) (err error) {
		if out.Server, err = s.server(ctx, q, idOrName); err != nil {
			return err
		}
		if digest := out.Server.SnapshotDigest; digest != "" {
			if out.Snapshot, err = snapshotOf(ctx, q, s.tenant, digest); err != nil {
				return err
			}
			if definitions {
				if err := s.fill(ctx, q, out.Snapshot); err != nil {
					return err
				}
			}
		}
		return s.catalog(ctx, q, &out)
	})
	return out, err
}

func (s *Store) fill(ctx context.Context, q bun.IDB, snap *registry.Snapshot) error {
	digests := make([]string, len(snap.Items))
	for i, item := range snap.Items {
		digests[i] = item.Definition()
	}
	raw := make(map[string][]byte, len(digests))
	if err := definitionsOf(ctx, q, s.tenant, digests, raw); err != nil {
		return err
	}
	for i := range snap.Items {
		snap.Items[i].Raw = raw[snap.Items[i].Definition()]
	}
	return nil
}

func (s *Store) catalog(ctx context.Context, q bun.IDB, out *Capabilities) error {
	now, err := s.db.engine.now(ctx, q)
	if err != nil {
		return err
	}
	var (
		tools     []toolRow
		bindings  []bindingRow
		resources []resourceRow
		prompts   []promptRow
	)
	for _, list := range []struct {
		rows  any
		order string
	}{{&tools, "external_key"}, {&bindings, "tool_name"}, {&resources, "resource_key"}, {&prompts, "prompt_key"}} {
		err := q.NewSelect().Model(list.rows).Where("tenant_id = ? AND server_id = ?", s.tenant, out.Server.ServerID).
			OrderExpr(list.order).Scan(ctx)
		if err != nil {
			return err
		}
	}
	bound := make(map[string]*registry.ToolBinding, len(bindings))
	for i := range bindings {
		bound[bindings[i].ToolName] = &bindings[i].ToolBinding
	}
	out.Tools = make([]CatalogTool, len(tools))
	for i := range tools {
		t := CatalogTool{Tool: tools[i].Tool, Binding: bound[tools[i].ExternalID]}
		t.Denial = registry.Resolve(registry.ResolveFacts{
			Tool: &t.Tool, Server: &out.Server.Server, ProviderEnabled: out.Server.ProviderEnabled, Binding: t.Binding,
			Capabilities: out.Server.Model, Now: now,
		})
		out.Tools[i] = t
	}
	for i := range resources {
		out.Resources = append(out.Resources, resources[i].ResourceBinding)
	}
	for i := range prompts {
		out.Prompts = append(out.Prompts, prompts[i].PromptBinding)
	}
	return nil
}
