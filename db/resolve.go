package db

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Resolve says of each tool whether it may be called now: one query over what
// is committed, judged by the database's clock (R70–R73). An id that the
// tenant does not have is left out: its denial is tool_not_found. Where a
// retired server had the id, and no live one has it, the answer is about that.
func (s *Store) Resolve(ctx context.Context, toolIDs []string) (map[string]*ToolView, error) {
	return s.ResolveFor(ctx, toolIDs, Caller{})
}

// Caller is who is to call a tool.
type Caller struct {
	Agent     string // empty: nobody is named, so that assignments do not count
	Workspace string // in which; empty: in none, where only assignments for everywhere count
}

// ResolveFor is Resolve for an agent: a tool that is not assigned to it is
// denied for that, when for nothing else.
func (s *Store) ResolveFor(ctx context.Context, toolIDs []string, by Caller) (map[string]*ToolView, error) {
	out := make(map[string]*ToolView, len(toolIDs))
	if err := s.check(); err != nil || len(toolIDs) == 0 {
		return out, err
	}
	rows, err := s.facts(ctx, toolIDs, by)
	if err != nil {
		return nil, s.db.failure(ctx, "resolve", err)
	}
	for i := range rows {
		view := rows[i].view(rows[i].Now, s.capabilities, by.Agent)
		out[view.Tool.ToolID] = &view
	}
	return out, nil
}

// facts runs on the pool that keeps statements prepared: it is asked before
// every call of a tool. The clock of SQLite is this process's.
func (s *Store) facts(ctx context.Context, toolIDs []string, by Caller) ([]toolFacts, error) {
	mentions := s.capabilities.Mentions()
	now := time.Now().UTC()
	facts, err := s.db.ask(ctx, s.tenant, by, keys(toolIDs), mentions.Reported, mentions.Registered, keys(mentions.Tools))
	if err != nil {
		return nil, err
	}
	for i := range facts {
		if facts[i].Now.IsZero() {
			facts[i].Now = now
		}
	}
	return facts, nil
}

// ask sends the prepared query.
func (d *DB) ask(ctx context.Context, tenant string, by Caller, lists ...[]string) (facts []toolFacts, err error) {
	args := []any{tenant}
	for _, list := range lists {
		if d.engine.name == postgres.name {
			args = append(args, list)
			continue
		}
		text, err := json.Marshal(list)
		if err != nil {
			return nil, err
		}
		args = append(args, string(text))
	}
	args = append(args, asText(by.Agent), asText(by.Workspace))
	if d.engine.name == postgres.name { // whose driver keeps it prepared on each connection
		return askScoped[toolFacts](ctx, d, ofTenant(tenant), d.resolveQuery(), args...)
	}
	statement, err := d.resolveStatement(ctx) //nolint:sqlclosecheck // kept for all who ask
	if err != nil {
		return nil, err
	}
	rows, err := statement.QueryContext(ctx, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	return facts, errors.Join(d.prepared.ScanRows(ctx, rows, &facts), rows.Err())
}

// resolveStatement prepares the query when it is asked for first: by then the
// tables are there. Preparing takes three times as long as asking.
func (d *DB) resolveStatement(ctx context.Context) (*sql.Stmt, error) {
	d.preparing.Lock()
	defer d.preparing.Unlock()
	if d.resolving == nil {
		statement, err := d.prepared.PrepareContext(ctx, d.resolveQuery())
		if err != nil {
			return nil, err
		}
		d.resolving = statement.Stmt
	}
	return d.resolving, nil
}

// resolveQuery selects the facts of each tool key once: those of the live
// server, else of the latest one. Ids of servers order them by time.
func (d *DB) resolveQuery() string {
	now, in := "clock_timestamp()", " = ANY($%d::text[])"
	if d.engine.name == sqlite.name {
		now, in = "NULL", " IN (SELECT value FROM json_each($%d))"
	}
	among := func(column string, n int) string { return column + fmt.Sprintf(in, n) }
	offered := d.engine.offeredOf(among("s.server_name", 3), among("s.name", 4), among("o.external_key", 5))
	//nolint:unqueryvet // the outer query names the columns
	tools := `(SELECT t.*, row_number() OVER (PARTITION BY t.tool_key ORDER BY t.live DESC, t.server_id DESC) AS place
FROM tools AS t WHERE t.tenant_id = $1 AND ` + among("t.tool_key", 2) + `) AS t`
	// Without an agent there is none of an empty name to be looked for.
	assigned := `EXISTS (SELECT 1 FROM assignments AS a
WHERE a.tenant_id = t.tenant_id AND a.agent = $6 AND a.tool_key = t.tool_key AND a.workspace IN ('', $7)) AS assigned`
	return "SELECT " + toolColumns(d.prepared) + ", " + offered + ", " + assigned + ", " + policyDigest + ", " + now + " AS now FROM " +
		strings.Replace(toolTables, "tools AS t", tools, 1) + " WHERE t.place = 1"
}
