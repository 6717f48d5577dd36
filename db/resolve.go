package db

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// Resolve says of each tool whether it may be called now: one query over what
// is committed, judged by the database's clock (R70–R73). An id that the
// tenant does not have is left out: its denial is tool_not_found. Where a
// retired server had the id, and no live one has it, the answer is about that.
func (s *Store) Resolve(ctx context.Context, toolIDs []string) (map[string]*ToolView, error) {
	out := make(map[string]*ToolView, len(toolIDs))
	if err := s.check(); err != nil || len(toolIDs) == 0 {
		return out, err
	}
	rows, err := s.facts(ctx, toolIDs)
	if err != nil {
		return nil, s.db.failure(ctx, "resolve", err)
	}
	for i := range rows {
		view := rows[i].view(rows[i].Now)
		out[view.Tool.ToolID] = &view
	}
	return out, nil
}

// facts runs on the pool that keeps statements prepared: it is asked before
// every call of a tool. The clock of SQLite is this process's.
func (s *Store) facts(ctx context.Context, toolIDs []string) ([]toolFacts, error) {
	keys := make([]string, len(toolIDs))
	for i, id := range toolIDs {
		keys[i] = key(asText(id))
	}
	now := time.Now().UTC()
	rows, err := s.db.ask(ctx, s.tenant, keys)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var facts []toolFacts
	if err := errors.Join(s.db.prepared.ScanRows(ctx, rows, &facts), rows.Err()); err != nil {
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
func (d *DB) ask(ctx context.Context, tenant string, keys []string) (*sql.Rows, error) {
	if d.engine.name == postgres.name { // whose driver keeps it prepared on each connection
		return d.prepared.DB.QueryContext(ctx, d.resolveQuery(), tenant, keys)
	}
	list, err := json.Marshal(keys)
	if err != nil {
		return nil, err
	}
	statement, err := d.resolveStatement(ctx) //nolint:sqlclosecheck // kept for all who ask
	if err != nil {
		return nil, err
	}
	return statement.QueryContext(ctx, tenant, string(list))
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
	now, keys := "clock_timestamp()", "t.tool_key = ANY($2)"
	if d.engine.name == sqlite.name {
		now, keys = "NULL", "t.tool_key IN (SELECT value FROM json_each($2))"
	}
	//nolint:unqueryvet // the outer query names the columns
	tools := `(SELECT t.*, row_number() OVER (PARTITION BY t.tool_key ORDER BY t.live DESC, t.server_id DESC) AS place
FROM tools AS t WHERE t.tenant_id = $1 AND ` + keys + `) AS t`
	return "SELECT " + toolColumns(d.prepared) + ", " + now + " AS now FROM " +
		strings.Replace(toolTables, "tools AS t", tools, 1) + " WHERE t.place = 1"
}
