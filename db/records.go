package db

import (
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"time"

	"github.com/uptrace/bun"

	"countersign/registry"
)

// factRecord is what decided from a time on, of one thing. It is written with
// the change, so that what was callable at any time can be told afterwards.
type factRecord struct {
	bun.BaseModel `bun:"table:fact_records,alias:f"`
	ID            int64           `bun:"id,pk,autoincrement"` // by the database
	TenantID      string          `bun:"tenant_id"`
	Kind          string          `bun:"kind"`
	ItemKey       string          `bun:"item_key"`
	At            time.Time       `bun:"at"`
	Facts         json.RawMessage `bun:"facts,type:text"`
}

// The kinds of records.
const (
	recordOfServer     = "server"     // by server id: registry.Server, as far as it decides
	recordOfProvider   = "provider"   // by provider id: providerFacts; none: enabled. A trigger writes them
	recordOfTool       = "tool"       // by tool id: recordedTool
	recordOfAssignment = "assignment" // by agent and tool id: assignmentFacts
)

type providerFacts struct {
	Enabled bool `json:"enabled"`
}

type recordedTool struct {
	Tool    registry.Tool         `json:"tool"`
	Binding *registry.ToolBinding `json:"binding,omitempty"`
}

type assignmentFacts struct {
	Workspace string `json:"workspace,omitempty"`
	Assigned  bool   `json:"assigned"`
}

func assignmentKey(agent, toolID string) string { return key(agent + "/" + toolID) }

// deciding is what of a server decides whether its tools may be called, the
// rules of policies included.
func deciding(s *registry.Server) registry.Server {
	return registry.Server{
		ServerID: s.ServerID, TenantID: s.TenantID, Name: s.Name, Direction: s.Direction, Transport: s.Transport, EndpointRef: s.EndpointRef,
		CommandRef: s.CommandRef, Authentication: s.Authentication, GovernancePolicyRef: s.GovernancePolicyRef, State: s.State,
		ProviderID: s.ProviderID, Owner: s.Owner, Labels: s.Labels, Causes: s.Causes, TargetDigest: s.TargetDigest, Exception: s.Exception,
	}
}

// recordFacts writes what a change of a server changed of what decides.
func (t *tx) recordFacts(ctx context.Context, before *registry.Server, r *registry.Record, c registry.Changes) error {
	var rows []factRecord
	if now := deciding(&r.Server); before == nil || !reflect.DeepEqual(deciding(before), now) {
		row, err := t.record(recordOfServer, now.ServerID, now)
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	names := maps.Clone(c.Tools)
	if names == nil {
		names = map[string]bool{}
	}
	maps.Copy(names, c.Bindings)
	for _, name := range sorted(names) {
		if r.Tools[name] == nil {
			continue
		}
		tool := *r.Tools[name]
		tool.Title, tool.Description = "", ""
		row, err := t.record(recordOfTool, key(tool.ToolID), recordedTool{tool, r.Bindings[name]})
		if err != nil {
			return err
		}
		if rows = append(rows, row); len(rows) == bulkRows { // those of ten thousand tools would be megabytes at once
			if err := t.insertRecords(ctx, rows); err != nil {
				return err
			}
			rows = rows[:0]
		}
	}
	return t.insertRecords(ctx, rows)
}

// recordAssignment writes that an agent has a tool from now on, or no more.
func (t *tx) recordAssignment(ctx context.Context, a registry.Assignment, assigned bool) error {
	row, err := t.record(recordOfAssignment, assignmentKey(a.Agent, a.ToolID), assignmentFacts{a.Workspace, assigned})
	if err != nil {
		return err
	}
	return t.insertRecords(ctx, []factRecord{row})
}

func (t *tx) record(kind, itemKey string, facts any) (factRecord, error) {
	raw, err := json.Marshal(facts)
	return factRecord{TenantID: t.tenant, Kind: kind, ItemKey: itemKey, At: t.now, Facts: raw}, err
}

// insertRecords writes at most bulkRows rows.
func (t *tx) insertRecords(ctx context.Context, rows []factRecord) error {
	if len(rows) == 0 {
		return nil
	}
	_, err := t.NewInsert().Model(&rows).ExcludeColumn("id").Exec(ctx)
	return err
}

// recordsRead is the most records of one thing that are looked at.
const recordsRead = 200

// records gives the newest records of a thing up to a time, the newest first.
func (s *Store) records(ctx context.Context, q bun.IDB, kind, itemKey string, until time.Time) ([]factRecord, error) {
	var rows []factRecord
	err := q.NewSelect().Model(&rows).Where("f.tenant_id = ? AND f.kind = ? AND f.item_key = ? AND f.at <= ?", s.tenant, kind, asText(itemKey), micro(until)).
		OrderExpr("f.at DESC, f.id DESC").Limit(recordsRead).Scan(ctx)
	return rows, err
}
