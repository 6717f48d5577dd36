package db

import (
	"context"
	"database/sql"
	"errors"

	"github.com/uptrace/bun"

	"countersign/registry"
)

type assignmentRow struct {
	bun.BaseModel `bun:"table:assignments,alias:a"`
	registry.Assignment
	ToolKey string `bun:"tool_key"`
}

// AssignmentView is an assignment with the tool as it is now.
type AssignmentView struct {
	registry.Assignment
	Tool *ToolView // nil: the tenant no longer has one of this id
}

// AssignmentQuery asks for assignments.
type AssignmentQuery struct {
	Page
	// Conditions may ask for agent, tool_id and workspace.
	Conditions []Condition
}

var assignmentFields = map[string]field{
	"agent": {sql: "a.agent"}, "tool_id": {sql: "a.tool_id"}, "workspace": {sql: "a.workspace"},
}

// Assign gives an agent a tool, which must have been discovered once; that it
// is away now is allowed (R65). What is assigned already stays as it is.
func (s *Store) Assign(ctx context.Context, a registry.Assignment, op registry.Operation) (AssignmentView, error) {
	err := s.govern(ctx, op, "agent/"+a.Agent, AuditEntry{ObjectKind: "agent", ObjectID: a.Agent, ObjectName: a.Agent}, func(ctx context.Context, t *tx) (*AuditEntry, *registry.Event, error) {
		is, err := t.NewSelect().TableExpr("tools").Where("tenant_id = ? AND tool_key = ?", t.tenant, key(asText(a.ToolID))).Exists(ctx)
		if err != nil {
			return nil, nil, err
		}
		if !is {
			return nil, nil, registry.Errorf(registry.ReasonToolNotFound, "there is no such tool").
				WithNext("list the tools; ids are those of the tenant")
		}
		a.TenantID, a.CreatedAt, a.CreatedBy = t.tenant, t.now, op.Actor.Subject
		row := assignmentRow{Assignment: a, ToolKey: key(a.ToolID)}
		result, err := t.NewInsert().Model(&row).On("CONFLICT DO NOTHING").Exec(ctx)
		if err != nil {
			return nil, nil, err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return nil, nil, err
		}
		entry, event := assignmentChanged(&a, "assigned "+a.ToolID, registry.EventToolAssigned)
		return entry, event, t.recordAssignment(ctx, a, true)
	})
	if err != nil {
		return AssignmentView{}, err
	}
	views, _, _, err := s.Assignments(ctx, AssignmentQuery{Conditions: []Condition{
		{"agent", OpIs, a.Agent}, {"tool_id", OpIs, a.ToolID}, {"workspace", OpIs, a.Workspace},
	}})
	if err != nil || len(views) == 0 {
		return AssignmentView{Assignment: a}, err // taken away at once by somebody else
	}
	return views[0], nil
}

// Assignment gives one by its id; the error is assignment_not_found when there is
// none.
func (s *Store) Assignment(ctx context.Context, assignmentID string) (registry.Assignment, error) {
	var found assignmentRow
	err := s.read(ctx, "read an assignment", func(ctx context.Context, q bun.IDB) error {
		err := q.NewSelect().Model(&found).Where("a.tenant_id = ? AND a.assignment_id = ?", s.tenant, asText(assignmentID)).Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return assignmentNotFound()
		}
		return err
	})
	return found.Assignment, err
}

func assignmentNotFound() *registry.Error {
	return registry.Errorf(registry.ReasonAssignmentNotFound, "there is no such assignment").WithNext("list the assignments")
}

// Unassign takes an assignment away; the error is assignment_not_found when
// there is none of this id.
func (s *Store) Unassign(ctx context.Context, assignmentID string, op registry.Operation) (registry.Assignment, error) {
	a, err := s.Assignment(ctx, assignmentID)
	if err != nil {
		return registry.Assignment{}, err
	}
	err = s.govern(ctx, op, "agent/"+a.Agent, AuditEntry{ObjectKind: "agent", ObjectID: a.Agent, ObjectName: a.Agent}, func(ctx context.Context, t *tx) (*AuditEntry, *registry.Event, error) {
		result, err := t.NewDelete().TableExpr("assignments").Where("tenant_id = ? AND assignment_id = ?", t.tenant, assignmentID).Exec(ctx)
		if err != nil {
			return nil, nil, err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return nil, nil, errors.Join(err, assignmentNotFound())
		}
		entry, event := assignmentChanged(&a, "took away "+a.ToolID, registry.EventToolUnassigned)
		return entry, event, t.recordAssignment(ctx, a, false)
	})
	return a, err
}

func assignmentChanged(a *registry.Assignment, note string, event registry.EventType) (*AuditEntry, *registry.Event) {
	if a.Workspace != "" {
		note += " in " + a.Workspace
	}
	return &AuditEntry{ObjectKind: "agent", ObjectID: a.Agent, ObjectName: a.Agent, Note: note}, &registry.Event{
		Type: event, Payload: registry.AssignmentChanged{TenantID: a.TenantID, Agent: a.Agent, ToolID: a.ToolID, Workspace: a.Workspace},
	}
}

// Assignments lists assignments by agent, tool and workspace, with the key of
// the next page and the number of all that match. Whether a tool may be called
// is judged without its agent.
func (s *Store) Assignments(ctx context.Context, query AssignmentQuery) (views []AssignmentView, next string, total int, err error) {
	var rows []assignmentRow
	err = s.read(ctx, "list assignments", func(ctx context.Context, q bun.IDB) error {
		chosen := q.NewSelect().Model(&rows).Where("a.tenant_id = ?", s.tenant)
		for _, c := range query.Conditions {
			var err error
			if chosen, err = s.db.engine.where(chosen, c, assignmentFields); err != nil {
				return err
			}
		}
		if total, err = number(chosen.Count(ctx)); err != nil {
			return err
		}
		if chosen, err = query.after(chosen, false, false, "a.agent", "a.tool_key", "a.workspace"); err != nil {
			return err
		}
		if err := chosen.Scan(ctx); err != nil {
			return err
		}
		rows, next = cut(query.Page, rows, func(r *assignmentRow) cursor { return cursor{r.Agent, r.ToolKey, r.Workspace} })
		return nil
	})
	if err != nil {
		return nil, "", 0, err
	}
	ids := make([]string, len(rows))
	for i := range rows {
		ids[i] = rows[i].ToolID
	}
	tools, err := s.Resolve(ctx, ids)
	if err != nil {
		return nil, "", 0, err
	}
	views = make([]AssignmentView, len(rows))
	for i := range rows {
		views[i] = AssignmentView{Assignment: rows[i].Assignment, Tool: tools[rows[i].ToolID]}
	}
	return views, next, total, nil
}
