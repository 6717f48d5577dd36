package db

import (
	"context"
	"slices"

	"github.com/uptrace/bun"

	"countersign/registry"
)

// ImpactedTool is a tool that may be called now, and who has it: what stops when
// it does.
type ImpactedTool struct {
	ToolRef
	Assignments []registry.Assignment // by agent and workspace
}

// ToolImpact names every tool that a query asks for and that may be called now,
// with its assignments, by server and id, and at most limit of them; more says
// that there are others.
func (s *Store) ToolImpact(ctx context.Context, f ToolQuery, limit int) (tools []ImpactedTool, more bool, err error) {
	f.Conditions = append(slices.Clone(f.Conditions), Condition{Field: "callable", Op: OpIs, Value: "true"})
	refs, more, err := s.ToolRefs(ctx, f, limit)
	if err != nil || len(refs) == 0 {
		return nil, false, err
	}
	place := make(map[string]int, len(refs))
	tools = make([]ImpactedTool, len(refs))
	for i, ref := range refs {
		tools[i].ToolRef, place[key(ref.ToolID)] = ref, i
	}
	err = s.read(ctx, "read who has tools", func(ctx context.Context, q bun.IDB) error {
		var keys []string
		for _, ref := range refs {
			keys = append(keys, key(ref.ToolID))
		}
		for some := range slices.Chunk(keys, bulkRows) {
			var rows []assignmentRow
			err := q.NewSelect().Model(&rows).Where("a.tenant_id = ? AND a.tool_key IN (?)", s.tenant, bun.List(some)).
				OrderExpr("a.agent, a.workspace").Scan(ctx)
			if err != nil {
				return err
			}
			for _, row := range rows {
				i := place[row.ToolKey]
				tools[i].Assignments = append(tools[i].Assignments, row.Assignment)
			}
		}
		return nil
	})
	return tools, more, err
}
