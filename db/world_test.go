package db_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"countersign/db"
	"countersign/registry"
)

// world is a tenant of a test, with the steps that tests take.
type world struct {
	*db.Store
	tb testing.TB
	db *db.DB
}

func newWorld(tb testing.TB, d *db.DB, tenant string) *world {
	tb.Helper()
	return &world{d.Tenant(tenant), tb, d}
}

var operations atomic.Int64

// person is a new operation of somebody who may do everything.
func person(name string) registry.Operation {
	return registry.Operation{
		ID: fmt.Sprintf("op-%d", operations.Add(1)), Origin: registry.OriginAPI,
		Actor: registry.Actor{Subject: name, Roles: []registry.Role{registry.RolePlatformAdmin, registry.RoleAssetMaintainer}},
	}
}

func named(name string) registry.Operation {
	op := person("ann")
	op.Name = name
	return op
}

func (w *world) registration(name string) registry.Registration {
	id, err := uuid.NewV7()
	if err != nil {
		w.tb.Fatal(err)
	}
	return registry.Registration{
		TenantID: w.Tenant(), ServerID: registry.ServerID(id.String()), Name: name, Direction: registry.DirectionConsumed,
		Transport: registry.TransportStreamableHTTP, URL: "https://" + name + ".example/mcp", Authentication: registry.AuthWorkloadIdentity,
		GovernancePolicyRef: registry.PolicyDefault, ProtocolVersion: "2026-07-28", Owner: "team " + name,
		Labels: map[string]string{"team/x.y": name, "env": "prod"},
	}
}

func (w *world) register(name string) registry.Server {
	w.tb.Helper()
	return w.must(w.Register(w.tb.Context(), w.registration(name), named("register"), nil))
}

func (w *world) must(a db.Applied, err error) registry.Server {
	w.tb.Helper()
	if err != nil {
		w.tb.Fatal(err)
	}
	return a.Server
}

func (w *world) change(serverID, name string, apply func(*registry.Record, time.Time) error) (db.Applied, error) {
	return w.Apply(w.tb.Context(), db.Change{
		ServerID: serverID, Operation: named(name), Catalog: func(*registry.Server) bool { return true }, Apply: governed(apply),
	})
}

// surface lists tools; a name with "!" before it changes the tool of that name.
func surface(names ...string) registry.Surface {
	s := registry.Surface{
		ProtocolVersion: "2026-07-28", Name: "the server", Version: "1.2.3", Instructions: "Be kind.", Kinds: []string{"prompts", "resources", "tools"},
		Resources: [][]byte{[]byte(`{"uri":"file:///readme","name":"readme"}`)},
		Prompts:   [][]byte{[]byte(`{"name":"greet","description":"greets"}`)},
	}
	var changed []string
	for _, name := range names {
		if of, found := strings.CutPrefix(name, "!"); found {
			changed = append(changed, of)
		}
	}
	for _, name := range names {
		if strings.HasPrefix(name, "!") {
			continue
		}
		schema := `{"type":"object"}`
		if slices.Contains(changed, name) {
			schema = `{"type":"object","required":["more"]}`
		}
		s.Tools = append(s.Tools, fmt.Appendf(nil, `{"name":%q,"description":"does %s","inputSchema":%s}`, name, name, schema))
	}
	return s
}

func (w *world) snapshot(s registry.Surface) *registry.Snapshot {
	w.tb.Helper()
	snap, err := registry.NewSnapshot(s, registry.DefaultLimits(), time.Now().UTC().Truncate(time.Microsecond))
	if err != nil {
		w.tb.Fatal(err)
	}
	return &snap
}

func (w *world) discover(serverID string, s registry.Surface) registry.Server {
	w.tb.Helper()
	snap := w.snapshot(s)
	if err := w.SaveSnapshot(w.tb.Context(), snap); err != nil {
		w.tb.Fatal(err)
	}
	view, err := w.Server(w.tb.Context(), serverID)
	if err != nil {
		w.tb.Fatal(err)
	}
	look := registry.Look{Number: view.Discovery.Number + 1, TargetDigest: view.TargetDigest, RequestedBy: "ann"}
	return w.must(w.change(serverID, "discovered", func(r *registry.Record, now time.Time) error {
		look.At = now
		return r.Discovered(snap, look)
	}))
}

// approve binds and enables tools, and binds the resource and the prompt.
func (w *world) approve(s registry.Server, tools ...string) registry.Server {
	w.tb.Helper()
	op := named("approve")
	approval := registry.Approval{
		Digest:    s.Review.Digest,
		Resources: []registry.ResourceLine{{URI: "file:///readme"}},
		Prompts:   []registry.PromptLine{{Prompt: "greet", SkillID: "skill-1"}},
	}
	for _, tool := range tools {
		approval.Tools = append(approval.Tools, registry.ToolLine{Tool: tool, Class: registry.ClassRead, Enable: true})
	}
	return w.must(w.Apply(w.tb.Context(), db.Change{
		ServerID: s.ServerID, Operation: op, Catalog: func(*registry.Server) bool { return true },
		Apply: approving(op, approval),
	}))
}

// resolves checks that a tool is denied for a reason; "" means callable.
func (w *world) resolves(toolID string, want registry.Reason) {
	w.tb.Helper()
	found, err := w.Resolve(w.tb.Context(), []string{toolID})
	if err != nil {
		w.tb.Fatal(err)
	}
	got := registry.ReasonToolNotFound
	if v := found[toolID]; v != nil {
		if got = ""; v.Denial != nil {
			got = v.Denial.Reason
		}
	}
	if got != want {
		w.tb.Errorf("tool %s is denied for %q, want %q", toolID, got, want)
	}
}

func (w *world) retire(serverID string) registry.Server {
	w.tb.Helper()
	op := named("retire")
	return w.must(w.Apply(w.tb.Context(), db.Change{
		ServerID: serverID, Operation: op,
		Apply: func(r *registry.Record, now time.Time) error { return r.Retire(op, "", now) },
	}))
}

func approving(op registry.Operation, a registry.Approval) func(*registry.Record, time.Time) error {
	return governed(func(r *registry.Record, now time.Time) error {
		return r.Decide(registry.Ruling{Verb: registry.VerbApprove, Approval: &a}, op, now)
	})
}

// demands is a policy that wants the same of every approval.
func demands(v registry.ApprovalVerdict) registry.Governance {
	return registry.Governance{Approve: func(r *registry.Record, a registry.Approval, _ []registry.Vote, now time.Time) registry.ApprovalVerdict {
		v := v
		v.Bundle, v.Policy, v.EvaluatedAt = "sha256:bundle", "test@1", now
		v.Review, v.Content, v.Requester = a.Digest, a.ContentDigest(), r.Server.Review.RequestedBy
		return v
	}}
}

// governed makes a change under a policy that wants one person.
func governed(apply func(*registry.Record, time.Time) error) func(*registry.Record, time.Time) error {
	return func(r *registry.Record, now time.Time) error {
		r.Governance = demands(registry.ApprovalVerdict{Needed: 1})
		return apply(r, now)
	}
}

func (w *world) assign(agent, toolID, workspace string) registry.Assignment {
	w.tb.Helper()
	a, err := registry.NewAssignment(w.Tenant(), agent, toolID, workspace)
	if err != nil {
		w.tb.Fatal(err)
	}
	view, err := w.Assign(w.tb.Context(), a, named("assign"))
	if err != nil {
		w.tb.Fatal(err)
	}
	return view.Assignment
}

// resolvesFor is resolves for an agent in a workspace.
func (w *world) resolvesFor(agent, workspace, toolID string, want registry.Reason) {
	w.tb.Helper()
	found, err := w.ResolveFor(w.tb.Context(), []string{toolID}, db.Caller{Agent: agent, Workspace: workspace})
	if err != nil {
		w.tb.Fatal(err)
	}
	got := registry.ReasonToolNotFound
	if v := found[toolID]; v != nil {
		if got = ""; v.Denial != nil {
			got = v.Denial.Reason
		}
	}
	if got != want {
		w.tb.Errorf("tool %s is denied to %s in %q for %q, want %q", toolID, agent, workspace, got, want)
	}
}

// finds gives the ids of the tools that a query finds, in their order.
func (w *world) finds(query db.ToolQuery) []string {
	w.tb.Helper()
	views, _, _, err := w.Tools(w.tb.Context(), query)
	if err != nil {
		w.tb.Fatal(err)
	}
	var ids []string
	for _, v := range views {
		ids = append(ids, v.Tool.ToolID)
	}
	return ids
}

// callable checks which tools the filter of that name finds.
func (w *world) callable(want ...string) {
	w.tb.Helper()
	got := w.finds(db.ToolQuery{Conditions: []db.Condition{{Field: "callable", Op: db.OpIs, Value: "true"}}})
	if !slices.Equal(got, want) {
		w.tb.Errorf("the filter finds %v callable, want %v", got, want)
	}
}
