package db

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"countersign/registry"
)

// Resolve says of each tool whether it may be called now: one query over what
// is committed, judged by the database's clock (R70–R73). An id that the
// tenant does not have is left out: its denial is tool_not_found. Where a
// retired server had the id, and no live one has it, the answer is about that.
func (s *Store) Resolve(ctx context.Context, toolIDs []string) (map[string]*ToolView, error) {
	return s.resolve(ctx, toolIDs, Caller{}, true)
}

// Caller is who is to call a tool.
type Caller struct {
	Agent     string // empty: nobody is named, so that assignments do not count
	Workspace string // in which; empty: in none, where only assignments for everywhere count
}

// ResolveFor is Resolve for an agent: a tool that is not assigned to it is
// denied for that, when for nothing else. It is asked before every call of a
// tool, so that views have only what decides and what an answer tells.
func (s *Store) ResolveFor(ctx context.Context, toolIDs []string, by Caller) (map[string]*ToolView, error) {
	return s.resolve(ctx, toolIDs, by, false)
}

func (s *Store) resolve(ctx context.Context, toolIDs []string, by Caller, whole bool) (map[string]*ToolView, error) {
	out := make(map[string]*ToolView, len(toolIDs))
	if err := s.check(); err != nil || len(toolIDs) == 0 {
		return out, err
	}
	rows, err := s.facts(ctx, toolIDs, by, whole)
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
func (s *Store) facts(ctx context.Context, toolIDs []string, by Caller, whole bool) ([]toolFacts, error) {
	mentions := s.capabilities.Mentions()
	now := time.Now().UTC()
	facts, err := s.db.ask(ctx, whole, s.tenant, by, keys(toolIDs), mentions.Reported, mentions.Registered, keys(mentions.Tools))
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
func (d *DB) ask(ctx context.Context, whole bool, tenant string, by Caller, lists ...[]string) (facts []toolFacts, err error) {
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
		return askScoped[toolFacts](ctx, d, ofTenant(tenant), d.resolveText(whole), args...)
	}
	statement, err := d.resolveStatement(ctx, whole) //nolint:sqlclosecheck // kept for all who ask
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

// resolving is the query of all columns or of those that an answer needs.
type resolving struct {
	text      string
	statement *sql.Stmt // on SQLite
}

// resolveText gives the query, which is put together once.
func (d *DB) resolveText(whole bool) string {
	d.preparing.Lock()
	defer d.preparing.Unlock()
	return d.resolvingOf(whole).text
}

func (d *DB) resolvingOf(whole bool) *resolving {
	r := &d.resolving
	if whole {
		r = &d.resolvingWhole
	}
	if r.text == "" {
		r.text = d.resolveQuery(whole)
	}
	return r
}

// resolveStatement prepares the query when it is asked for first: by then the
// tables are there. Preparing takes three times as long as asking.
func (d *DB) resolveStatement(ctx context.Context, whole bool) (*sql.Stmt, error) {
	d.preparing.Lock()
	defer d.preparing.Unlock()
	r := d.resolvingOf(whole)
	if r.statement == nil {
		statement, err := d.prepared.PrepareContext(ctx, r.text)
		if err != nil {
			return nil, err
		}
		r.statement = statement.Stmt
	}
	return r.statement, nil
}

// answerColumns are those of toolColumns without what neither decides whether a
// tool may be called nor is told to who asks: reading a column costs as much as
// finding it.
func answerColumns(db *bun.DB) string {
	return strings.Join([]string{
		columnsBut[registry.Server](db, "s", "revision", "release_id", "description", "suspect", "server_text_digest", "approved_snapshot", "approved_text",
			"review_digest", "review_snapshot", "review_target", "review_requested_by", "review_expires_at", "review_decided_by", "review_decision_id",
			"review_votes", "review_tally", "review_withdrawn", "discovery_number", "discovery_requested_by", "discovery_counts_new",
			"discovery_counts_changed", "discovery_counts_unchanged", "discovery_counts_unavailable", "discovery_counts_total", "launch_approved_by",
			"launch_approved_at", "launch_decision_id", "exception_reason", "exception_approved_by", "exception_approved_at", "terms", "created_by"),
		"c.name AS c_name, c.url AS c_url, c.dial_address AS c_dial_address, k.ref AS k_ref",
		columnsBut[registry.Probe](db, "pr", "tenant_id", "server_id", "attempts", "duration_ns"),
		columnsBut[registry.Tool](db, "t", "tenant_id", "server_id", "title", "description", "definition_digest", "meta_digest", "first_seen_at"),
		columnsBut[registry.ToolBinding](db, "b", "tenant_id", "server_id", "decision_id", "due_at", "doubted"),
		"p.enabled AS provider_enabled, COALESCE(ps.era, '') AS era, t.tool_key, t.external_key",
	}, ", ")
}

// resolveQuery selects the facts of each tool key once: those of the live
// server, else of the latest one. Ids of servers order them by time.
func (d *DB) resolveQuery(whole bool) string {
	wanted := answerColumns
	if whole {
		wanted = toolColumns
	}
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
	return "SELECT " + wanted(d.prepared) + ", " + offered + ", " + assigned + ", " + policyDigest + ", " + now + " AS now FROM " +
		strings.Replace(toolTables, "tools AS t", tools, 1) + " WHERE t.place = 1"
}
