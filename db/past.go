package db

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"countersign/registry"
)

// Explanation is what decides about a tool at a time, and what did before.
type Explanation struct {
	Facts        registry.ResolveFacts
	PolicyDigest string           // of the published bundle of its server then; empty: a built-in one, or none
	History      []registry.Dated // newest first, beginning with Facts; empty: not recorded
}

// Explain tells what decides about a tool, now or, from the records, at a time
// in the past. What was before the records began is refused as not_recorded.
func (s *Store) Explain(ctx context.Context, toolID string, by Caller, at time.Time) (Explanation, error) {
	found, err := s.resolve(ctx, []string{toolID}, by, true)
	if err != nil {
		return Explanation{}, err
	}
	var out Explanation
	out.Facts.Agent, out.Facts.Now = by.Agent, at
	view := found[toolID]
	if view == nil {
		return out, nil // what was discovered once is there for ever
	}
	past := !at.IsZero()
	switch {
	case !past:
		out.Facts, out.PolicyDigest, at = view.facts(by), view.PolicyDigest, view.Now
	case at.After(view.Now):
		return out, registry.Errorf(registry.ReasonInvalidArgument, "the time is in the future").WithField("at", "must not be in the future")
	}
	err = s.read(ctx, "read the records of a tool", func(ctx context.Context, q bun.IDB) error {
		p := pastOf{model: view.Model, by: by, now: at}
		if err := s.loadPast(ctx, q, &p, toolID, at); err != nil {
			return err
		}
		out.History = p.timeline()
		if !past {
			return nil
		}
		if len(out.History) == 0 {
			if view.Tool.FirstSeenAt.After(at) && p.complete() {
				return nil // it was not there yet
			}
			return registry.Errorf(registry.ReasonNotRecorded, "what decided about the tool at %s is not recorded", at.UTC().Format(time.RFC3339)).
				WithNext("ask for a later time: records begin with the first change after the registry began to keep them")
		}
		out.Facts = out.History[0].Facts
		return q.NewSelect().ColumnExpr(policyDigest).TableExpr("(SELECT ? AS tenant_id, ? AS governance_policy_ref) AS s", s.tenant, out.Facts.Server.GovernancePolicyRef).
			Scan(ctx, &out.PolicyDigest)
	})
	return out, err
}

// facts are what a view was judged by.
func (v *ToolView) facts(by Caller) registry.ResolveFacts {
	return registry.ResolveFacts{
		Tool: &v.Tool, Server: &v.Server, ProviderEnabled: v.ProviderEnabled, Binding: v.Binding, Capabilities: v.Model, Now: v.Now,
		Agent: by.Agent, Assigned: v.Assigned,
	}
}

// pastOf are the records of a tool, newest first.
type pastOf struct {
	model    *registry.CapabilityModel // as it is known today
	by       Caller
	now      time.Time
	tools    []dated[recordedTool]
	servers  map[string][]dated[registry.Server]
	provider map[string][]dated[providerFacts]
	assigned []dated[assignmentFacts]
}

type dated[T any] struct {
	from time.Time
	what T
}

func decode[T any](rows []factRecord) ([]dated[T], error) {
	out := make([]dated[T], len(rows))
	for i, row := range rows {
		out[i].from = row.At
		if err := json.Unmarshal(row.Facts, &out[i].what); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *Store) loadPast(ctx context.Context, q bun.IDB, p *pastOf, toolID string, at time.Time) error {
	rows, err := s.records(ctx, q, recordOfTool, key(toolID), at)
	if err != nil {
		return err
	}
	if p.tools, err = decode[recordedTool](rows); err != nil {
		return err
	}
	p.servers, p.provider = map[string][]dated[registry.Server]{}, map[string][]dated[providerFacts]{}
	for _, tool := range p.tools {
		id := tool.what.Tool.ServerID
		if _, known := p.servers[id]; known {
			continue
		}
		if rows, err = s.records(ctx, q, recordOfServer, id, at); err != nil {
			return err
		}
		if p.servers[id], err = decode[registry.Server](rows); err != nil {
			return err
		}
		for _, server := range p.servers[id] {
			provider := server.what.ProviderID
			if _, known := p.provider[provider]; known {
				continue
			}
			if rows, err = s.records(ctx, q, recordOfProvider, provider, at); err != nil {
				return err
			}
			if p.provider[provider], err = decode[providerFacts](rows); err != nil {
				return err
			}
		}
	}
	if p.by.Agent == "" {
		return nil
	}
	if rows, err = s.records(ctx, q, recordOfAssignment, assignmentKey(p.by.Agent, toolID), at); err != nil {
		return err
	}
	p.assigned, err = decode[assignmentFacts](rows)
	return err
}

// complete says whether no record of the tool, up to the time asked for, was
// left out: then there are none.
func (p *pastOf) complete() bool { return len(p.tools) == 0 }

// at gives the newest that began not after a time.
func at[T any](list []dated[T], when time.Time) *T {
	for i := range list {
		if !list[i].from.After(when) {
			return &list[i].what
		}
	}
	return nil
}

// factsAt gives what decided at a time; false when that is not recorded.
func (p *pastOf) factsAt(when time.Time) (registry.ResolveFacts, bool) {
	f := registry.ResolveFacts{Now: p.now, Agent: p.by.Agent, Capabilities: p.model, ProviderEnabled: true}
	tool := at(p.tools, when)
	if tool == nil {
		return f, false
	}
	f.Tool, f.Binding = &tool.Tool, tool.Binding
	if f.Server = at(p.servers[tool.Tool.ServerID], when); f.Server == nil {
		return f, false
	}
	if provider := at(p.provider[f.Server.ProviderID], when); provider != nil {
		f.ProviderEnabled = provider.Enabled
	}
	has := map[string]bool{} // by workspace
	for i := len(p.assigned) - 1; i >= 0 && !p.assigned[i].from.After(when); i-- {
		has[p.assigned[i].what.Workspace] = p.assigned[i].what.Assigned
	}
	f.Assigned = has[""] || has[p.by.Workspace]
	return f, true
}

// timeline gives the facts from each record on, newest first.
func (p *pastOf) timeline() []registry.Dated {
	var times []time.Time
	add := func(from time.Time) { times = append(times, from) }
	for _, r := range p.tools {
		add(r.from)
	}
	for _, list := range p.servers {
		for _, r := range list {
			add(r.from)
		}
	}
	for _, list := range p.provider {
		for _, r := range list {
			add(r.from)
		}
	}
	for _, r := range p.assigned {
		add(r.from)
	}
	slices.SortFunc(times, func(a, b time.Time) int { return b.Compare(a) })
	var out []registry.Dated
	for _, from := range slices.CompactFunc(times, time.Time.Equal) {
		f, recorded := p.factsAt(from)
		if !recorded {
			break
		}
		out = append(out, registry.Dated{From: from, Facts: f})
	}
	return out
}
