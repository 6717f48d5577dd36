package db_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"countersign/db"
	"countersign/registry"
)

// Every method of Store is here, so that a new one is not forgotten. Each is
// called as another tenant would, with what belongs to the first one: what it
// says must be what it says of things that do not exist.
func TestTenantsSeeNothingOfEachOther(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		ctx, acme := t.Context(), newWorld(t, d, "acme")
		g := acme.registration("weather")
		g.Direction = registry.DirectionExposed
		op := named("register")
		s := acme.must(acme.Register(ctx, g, op, claim("k", "b")))
		s = acme.approve(acme.discover(s.ServerID, surface("forecast")), "forecast")
		c, err := acme.Capabilities(ctx, s.ServerID, true)
		if err != nil {
			t.Fatal(err)
		}
		definition := c.Tools[0].Definition
		none := acme.registration("none").ServerID
		window := time.Now().UTC().Truncate(time.Minute)
		_, err = d.System().RecordProbes(ctx, []registry.Probe{{
			TenantID: "acme", ServerID: s.ServerID, Window: window, Outcome: registry.OutcomeOK, TargetDigest: s.TargetDigest, At: window,
			Differing: []string{"forecast"},
		}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		assigned := acme.assign("agent", "weather.forecast", "")
		bundle := bundle("payments", 1)
		all := func(registry.DecisionToken) error { return nil }
		if _, _, err := acme.PublishPolicy(ctx, bundle, named("publish")); err != nil {
			t.Fatal(err)
		}
		if _, err := acme.MintToken(ctx, registry.DecisionToken{TokenID: "dtk_1", ServerID: s.ServerID, Verb: registry.VerbReject, Digest: "d", Subject: "ann"},
			"secret", time.Hour, named("mint")); err != nil {
			t.Fatal(err)
		}
		sealed(t, d, "acme")
		audited, _, err := acme.Audit(ctx, db.AuditQuery{})
		if err != nil {
			t.Fatal(err)
		}

		if _, _, err := acme.CreateConnection(ctx, registry.Connection{Name: "shared", URL: "https://shared.example/mcp"}, named("create_connection"), nil); err != nil {
			t.Fatal(err)
		}

		acme.extend("tools")
		_, planned := acme.plan("tools", declared([]string{"utils"}, [3]string{"hash", "utils", "hash"}))
		utils := planned[0]
		extension := func(name string) string { return map[string]string{"weather": "tools"}[name] }
		if _, err := acme.CreateSubscription(ctx, subscription("sub_1"), named("subscribe")); err != nil {
			t.Fatal(err)
		}
		told, err := acme.OutboxEnd(ctx)
		if err != nil || told.Last == "" {
			t.Fatal(told, err)
		}
		sub := func(name string) string { return map[string]string{"weather": "sub_1"}[name] }

		type call struct {
			// one calls the method about the first tenant's things, other about things that do not exist.
			one, other func(*db.Store) (any, error)
		}
		of := func(f func(s *db.Store, id, name, tool, digest, key string) (any, error)) call {
			return call{
				func(st *db.Store) (any, error) {
					return f(st, s.ServerID, "weather", "weather.forecast", c.Snapshot.Digest, "k")
				},
				func(st *db.Store) (any, error) { return f(st, none, "none", "none.none", "sha256:none", "none") },
			}
		}
		nothing := func(*registry.Record, time.Time) error { return nil }
		calls := map[string]call{
			"Server": of(func(st *db.Store, id, name, _, _, _ string) (any, error) {
				_, byName := st.Server(ctx, name)
				v, byID := st.Server(ctx, id)
				return v, errors.Join(byName, byID)
			}),
			"Servers": of(func(st *db.Store, _, _, _, _, _ string) (any, error) {
				v, next, total, err := st.Servers(ctx, db.ServerQuery{ShowRetired: true})
				return []any{v, next, total}, err
			}),
			"Probes": of(func(st *db.Store, id, _, _, _, _ string) (any, error) {
				v, probes, next, err := st.Probes(ctx, id, db.Page{})
				return []any{v, probes, next}, err
			}),
			"Fleet": of(func(st *db.Store, _, _, _, _, _ string) (any, error) {
				v, err := st.Fleet(ctx)
				v.At = time.Time{}
				return v, err
			}),
			"FleetWindows": of(func(st *db.Store, _, _, _, _, _ string) (any, error) {
				return st.FleetWindows(ctx, time.Now().Add(-time.Hour), time.Now().Add(time.Hour), 4)
			}),
			"Uptime": of(func(st *db.Store, id, _, _, _, _ string) (any, error) { return st.Uptime(ctx, id, time.Time{}) }),
			"Tools": of(func(st *db.Store, id, _, _, _, _ string) (any, error) {
				v, next, total, err := st.Tools(ctx, db.ToolQuery{Conditions: []db.Condition{{Field: "server_id", Op: db.OpIs, Value: id}}})
				return []any{v, next, total}, err
			}),
			"Tool": of(func(st *db.Store, _, _, tool, _, _ string) (any, error) { return st.Tool(ctx, tool) }),
			"Resolve": of(func(st *db.Store, _, _, tool, _, _ string) (any, error) {
				return st.Resolve(ctx, []string{tool})
			}),
			"ResolveFor": of(func(st *db.Store, _, _, tool, _, _ string) (any, error) {
				return st.ResolveFor(ctx, []string{tool}, db.Caller{Agent: "agent"})
			}),
			"Explain": of(func(st *db.Store, _, _, tool, _, _ string) (any, error) {
				v, err := st.Explain(ctx, tool, db.Caller{}, time.Time{})
				return v, err
			}),
			"ToolRefs": of(func(st *db.Store, _, _, tool, _, _ string) (any, error) {
				v, more, err := st.ToolRefs(ctx, db.ToolQuery{IDs: []string{tool}}, 10)
				return []any{v, more}, err
			}),
			"ToolImpact": of(func(st *db.Store, _, _, tool, _, _ string) (any, error) {
				v, more, err := st.ToolImpact(ctx, db.ToolQuery{IDs: []string{tool}}, 10)
				return []any{v, more}, err
			}),
			"ToolFacets": of(func(st *db.Store, _, _, tool, _, _ string) (any, error) {
				v, total, err := st.ToolFacets(ctx, db.ToolQuery{IDs: []string{tool}}, nil)
				return []any{v, total}, err
			}),
			"Assign": of(func(st *db.Store, _, _, tool, _, _ string) (any, error) {
				return st.Assign(ctx, registry.Assignment{Agent: "agent", ToolID: tool, AssignmentID: tool}, named("assign"))
			}),
			"Unassign": of(func(st *db.Store, _, _, _, digest, _ string) (any, error) {
				id := assigned.AssignmentID
				if digest == "sha256:none" {
					id = "none"
				}
				return st.Unassign(ctx, id, named("unassign"))
			}),
			"Assignment": of(func(st *db.Store, _, _, _, digest, _ string) (any, error) {
				id := assigned.AssignmentID
				if digest == "sha256:none" {
					id = "none"
				}
				return st.Assignment(ctx, id)
			}),
			"Assignments": of(func(st *db.Store, _, _, tool, _, _ string) (any, error) {
				v, next, total, err := st.Assignments(ctx, db.AssignmentQuery{Conditions: []db.Condition{{Field: "tool_id", Op: db.OpIs, Value: tool}}})
				return []any{v, next, total}, err
			}),
			"Descriptor": of(func(st *db.Store, _, _, tool, _, _ string) (any, error) { return st.Descriptor(ctx, tool, 0) }),
			"Descriptors": of(func(st *db.Store, _, _, tool, _, _ string) (any, error) {
				v, next, total, err := st.Descriptors(ctx, db.DescriptorQuery{Conditions: []db.Condition{{Field: "descriptor_id", Op: db.OpIs, Value: tool}}})
				return []any{v, next, total}, err
			}),
			"ChangeDescriptor": of(func(st *db.Store, _, _, tool, _, _ string) (any, error) {
				return st.ChangeDescriptor(ctx, tool, 1, op, func(*registry.Descriptor, time.Time) (bool, error) { return true, nil })
			}),
			// The other tenant has none of this id, whatever the first one has.
			"CreateDescriptor": of(func(st *db.Store, _, _, _, _, _ string) (any, error) {
				v, err := st.CreateDescriptor(ctx, registry.Descriptor{DescriptorID: "No Id " + st.Tenant(), Class: "none"}, named("draft"))
				return v.Version, err
			}),
			"Capabilities": of(func(st *db.Store, id, _, _, _, _ string) (any, error) { return st.Capabilities(ctx, id, true) }),
			"CapabilityReport": of(func(st *db.Store, id, _, _, _, _ string) (any, error) {
				v, tools, err := st.CapabilityReport(ctx, id)
				return []any{v, tools}, err
			}),
			"Exposed": of(func(st *db.Store, _, _, _, _, _ string) (any, error) {
				v, next, err := st.Exposed(ctx, "", db.Page{})
				return []any{v, next}, err
			}),
			"Claimed":  of(func(st *db.Store, _, _, _, _, key string) (any, error) { return st.Claimed(ctx, "register", key) }),
			"Snapshot": of(func(st *db.Store, _, _, _, digest, _ string) (any, error) { return st.Snapshot(ctx, digest) }),
			"Definitions": of(func(st *db.Store, _, _, _, _, _ string) (any, error) {
				return st.Definitions(ctx, []string{definition})
			}),
			"Connection": of(func(st *db.Store, id, _, _, _, _ string) (any, error) { return st.Connection(ctx, id, 1) }),
			"ConnectionView": of(func(st *db.Store, _, name, _, _, _ string) (any, error) {
				return st.ConnectionView(ctx, map[string]string{"weather": "shared"}[name], 0)
			}),
			"Connections": of(func(st *db.Store, _, _, _, _, _ string) (any, error) {
				v, next, total, err := st.Connections(ctx, db.Page{})
				return []any{v, next, total}, err
			}),
			"ConnectionVersions": of(func(st *db.Store, _, name, _, _, _ string) (any, error) {
				v, next, total, err := st.ConnectionVersions(ctx, map[string]string{"weather": "shared"}[name], db.Page{})
				return []any{v, next, total}, err
			}),
			"ConnectionUsers": of(func(st *db.Store, id, _, _, _, _ string) (any, error) {
				return st.ConnectionUsers(ctx, id, 2, "", 10)
			}),
			"CreateConnection": of(func(st *db.Store, _, name, _, _, _ string) (any, error) { // without an operation nothing is written
				_, _, err := st.CreateConnection(ctx, registry.Connection{Name: name}, registry.Operation{}, nil)
				return nil, err
			}),
			"EditConnection": of(func(st *db.Store, _, name, _, _, _ string) (any, error) {
				_, _, err := st.EditConnection(ctx, map[string]string{"weather": "shared"}[name], registry.ConnectionEdit{}, named("edit_connection"), nil, nil)
				return nil, err
			}),
			"DeleteConnection": of(func(st *db.Store, _, name, _, _, _ string) (any, error) {
				return nil, st.DeleteConnection(ctx, map[string]string{"weather": "shared"}[name], "", named("delete_connection"))
			}),
			"Provider": of(func(st *db.Store, _, name, _, _, _ string) (any, error) { return st.Provider(ctx, extension(name)) }),
			"Providers": of(func(st *db.Store, _, _, _, _, _ string) (any, error) {
				v, next, total, err := st.Providers(ctx, db.ProviderQuery{})
				return []any{v, next, total}, err
			}),
			"Contributions": of(func(st *db.Store, id, _, _, _, _ string) (any, error) {
				if id == s.ServerID {
					id = utils.ServerID
				}
				return st.Contributions(ctx, id)
			}),
			"CreateProvider": of(func(st *db.Store, _, name, _, _, _ string) (any, error) { // without an operation nothing is written
				_, _, err := st.CreateProvider(ctx, extension(name), registry.ProviderConfig{}, registry.Operation{}, nil)
				return nil, err
			}),
			"EditProvider": of(func(st *db.Store, _, name, _, _, _ string) (any, error) {
				_, _, err := st.EditProvider(ctx, extension(name), registry.ProviderEdit{}, named("edit_provider"), nil, nil)
				return nil, err
			}),
			"SwitchProvider": of(func(st *db.Store, _, name, _, _, _ string) (any, error) {
				return st.SwitchProvider(ctx, extension(name), false, "", named("disable_provider"))
			}),
			"DeleteProvider": of(func(st *db.Store, _, name, _, _, _ string) (any, error) {
				return nil, st.DeleteProvider(ctx, extension(name), "", named("delete_provider"))
			}),
			"BeginRefresh": of(func(st *db.Store, _, name, _, _, _ string) (any, error) {
				return st.BeginRefresh(ctx, extension(name), 0, named("refresh_provider"))
			}),
			"PlanRefresh": of(func(st *db.Store, _, name, _, _, _ string) (any, error) {
				return st.PlanRefresh(ctx, extension(name), 1, 1, db.Declared{})
			}),
			"EndRefresh": of(func(st *db.Store, _, name, _, _, _ string) (any, error) {
				return st.EndRefresh(ctx, extension(name), 1, nil, nil)
			}),
			"DiscoveryEnd": of(func(st *db.Store, id, _, _, _, _ string) (any, error) { return st.DiscoveryEnd(ctx, id, 1) }),
			"Command": of(func(st *db.Store, _, _, _, _, _ string) (any, error) { // TestACommandIsKeptUnderItsTarget looks closer
				return st.Command(ctx, "sha256:none")
			}),
			"Versions": of(func(st *db.Store, id, _, _, _, _ string) (any, error) {
				v, views, next, total, err := st.Versions(ctx, id, db.Page{})
				return []any{v, views, next, total}, err
			}),
			"Review": of(func(st *db.Store, id, _, _, _, _ string) (any, error) {
				v, err := st.Review(ctx, id)
				return v.Approvals, err
			}),
			"Snapshots": of(func(st *db.Store, _, _, _, digest, _ string) (any, error) {
				a, b, err := st.Snapshots(ctx, digest, digest)
				return []any{a, b}, err
			}),
			"DecisionPage": of(func(st *db.Store, id, _, _, _, _ string) (any, error) {
				v, views, next, total, err := st.DecisionPage(ctx, id, true, db.Page{})
				return []any{v, views, next, total}, err
			}),
			"Bound":     of(func(st *db.Store, id, _, _, _, _ string) (any, error) { return st.Bound(ctx, id) }),
			"Differing": of(func(st *db.Store, id, _, _, _, _ string) (any, error) { return st.Differing(ctx, id, window) }),
			"SeeSnapshot": of(func(st *db.Store, _, _, _, digest, _ string) (any, error) {
				return nil, st.SeeSnapshot(ctx, digest)
			}),
			"Decisions": of(func(st *db.Store, id, _, _, _, _ string) (any, error) { return st.Decisions(ctx, id) }),
			"Audit": of(func(st *db.Store, id, _, _, _, _ string) (any, error) {
				v, next, err := st.Audit(ctx, db.AuditQuery{ObjectID: id})
				return []any{v, next}, err
			}),
			"AuditPage": of(func(st *db.Store, id, _, _, _, _ string) (any, error) {
				v, next, total, err := st.AuditPage(ctx, db.AuditQuery{Object: id})
				return []any{v, next, total}, err
			}),
			"AuditEvent": of(func(st *db.Store, id, _, _, _, _ string) (any, error) {
				e := "none"
				if id == s.ServerID {
					e = audited[0].AuditID
				}
				return st.AuditEvent(ctx, e)
			}),
			"AuditCheckpoints": of(func(st *db.Store, _, _, _, _, _ string) (any, error) {
				v, next, total, err := st.AuditCheckpoints(ctx, db.Page{})
				return []any{v, next, total}, err
			}),
			"AuditExport": of(func(st *db.Store, _, _, _, _, key string) (any, error) {
				after := int64(len(audited))
				if key == "none" {
					after = 1000
				}
				v, err := st.AuditExport(ctx, db.AuditQuery{}, after, 0, 10)
				if registry.ReasonOf(err) == registry.ReasonAuditEventNotFound {
					err = registry.Errorf(registry.ReasonAuditEventNotFound, "there is no such row") // the message repeats the position
				}
				v.Unsealed = 0 // our own
				v.After = registry.AuditPoint{}
				return v, err
			}),
			"VerifyAudit": of(func(st *db.Store, _, _, _, _, _ string) (any, error) {
				v, more, err := st.VerifyAudit(ctx, registry.AuditPoint{}, nil, 1000)
				v.Unsealed = 0 // our own
				return []any{v, more}, err
			}),
			"OutboxAfter": of(func(st *db.Store, _, _, _, _, _ string) (any, error) {
				v, _, err := st.OutboxAfter(ctx, db.Position{}, 10)
				return v, err
			}),
			"OutboxEnd": of(func(st *db.Store, _, _, _, _, _ string) (any, error) { // the database's number, or the tenant's own
				_, err := st.OutboxEnd(ctx)
				return nil, err
			}),
			"OutboxResume": of(func(st *db.Store, _, name, _, _, _ string) (any, error) {
				at := db.Place{Position: told.Position, Last: map[string]string{"weather": told.Last}[name], History: told.History}
				if at.Last == "" {
					at.Last = uuid.NewString()
				}
				return st.OutboxResume(ctx, at)
			}),
			"CreateSubscription": of(func(st *db.Store, _, _, _, _, _ string) (any, error) { // the other tenant may use the same id
				_, err := st.CreateSubscription(ctx, registry.Subscription{SubscriptionID: "sub_1", Direction: "none"}, registry.Operation{})
				return nil, err
			}),
			"Subscription":     of(func(st *db.Store, _, name, _, _, _ string) (any, error) { return st.Subscription(ctx, sub(name)) }),
			"SubscriptionView": of(func(st *db.Store, _, name, _, _, _ string) (any, error) { return st.SubscriptionView(ctx, sub(name)) }),
			"DryRun": of(func(st *db.Store, _, name, _, _, _ string) (any, error) {
				return nil, st.DryRun().DeleteConnection(ctx, map[string]string{"weather": "shared"}[name], "", named("delete_connection"))
			}),
			"Subscriptions": of(func(st *db.Store, _, _, _, _, _ string) (any, error) {
				views, sinks, err := st.Subscriptions(ctx)
				return []any{views, sinks}, err
			}),
			"ChangeSubscription": of(func(st *db.Store, _, name, _, _, _ string) (any, error) {
				return st.ChangeSubscription(ctx, sub(name), named("change"), func(*registry.Subscription) (bool, error) { return true, nil })
			}),
			"DeleteSubscription": of(func(st *db.Store, _, name, _, _, _ string) (any, error) {
				return nil, st.DeleteSubscription(ctx, sub(name), "", named("unsubscribe"))
			}),
			"Deliveries": of(func(st *db.Store, _, name, _, _, _ string) (any, error) {
				v, next, err := st.Deliveries(ctx, db.DeliveryQuery{SubscriptionID: sub(name)})
				return []any{v, next}, err
			}),
			"ReplayEvents": of(func(st *db.Store, _, name, _, _, _ string) (any, error) {
				n, more, err := st.ReplayEvents(ctx, sub(name), db.Replay{}, named("replay"))
				return []any{n, more}, err
			}),
			"TestSubscription": of(func(st *db.Store, _, name, _, _, _ string) (any, error) {
				return st.TestSubscription(ctx, sub(name), named("test"))
			}),
			"TakeIn": of(func(st *db.Store, _, name, _, _, _ string) (any, error) {
				return st.TakeIn(ctx, registry.InboundEvent{SubscriptionID: sub(name), EventID: "e", Data: []byte("{}")})
			}),
			"Revoked":        of(func(st *db.Store, _, name, _, _, _ string) (any, error) { return st.Revoked(ctx, name) }),
			"ReleaseServers": of(func(st *db.Store, _, name, _, _, _ string) (any, error) { return st.ReleaseServers(ctx, name) }),
			"Inbound":        of(func(st *db.Store, _, name, _, _, _ string) (any, error) { return st.Inbound(ctx, sub(name), 10) }),
			"Apply": of(func(st *db.Store, id, _, _, _, _ string) (any, error) {
				return st.Apply(ctx, db.Change{ServerID: id, Operation: op, Apply: nothing})
			}),
			"Consider": of(func(st *db.Store, id, _, _, _, _ string) (any, error) {
				return nil, st.Consider(ctx, db.Change{ServerID: id, Apply: nothing})
			}),
			"Decision": of(func(st *db.Store, id, _, _, _, _ string) (any, error) {
				d := "dec_none"
				if id == s.ServerID {
					d = s.Review.DecisionID
				}
				return st.Decision(ctx, id, d)
			}),
			"Inbox": of(func(st *db.Store, _, name, _, _, _ string) (any, error) {
				v, next, total, err := st.Inbox(ctx, db.InboxQuery{Conditions: []db.Condition{{Field: "server", Op: db.OpIs, Value: name}}})
				return []any{v, next, total}, err
			}),
			"Request": of(func(st *db.Store, id, _, _, _, _ string) (any, error) { return st.Request(ctx, id) }),
			"Asked":   of(func(st *db.Store, id, _, _, _, _ string) (any, error) { return st.Asked(ctx, id, "") }),
			"Expiring": of(func(st *db.Store, _, _, _, _, _ string) (any, error) {
				v, next, total, err := st.Expiring(ctx, time.Time{}, db.Page{})
				return []any{v, next, total}, err
			}),
			"Policy": of(func(st *db.Store, _, name, _, _, _ string) (any, error) {
				return st.Policy(ctx, registry.PolicyRef{Name: map[string]string{"weather": "payments"}[name]})
			}),
			"Policies": of(func(st *db.Store, _, _, _, _, _ string) (any, error) {
				v, next, total, err := st.Policies(ctx, "", db.Page{})
				return []any{v, next, total}, err
			}),
			"PolicyDocument": of(func(st *db.Store, _, name, _, _, _ string) (any, error) {
				return st.PolicyDocument(ctx, map[string]string{"weather": bundle.Digest}[name])
			}),
			"PolicyUsers": of(func(st *db.Store, _, _, _, _, _ string) (any, error) {
				return st.PolicyUsers(ctx, registry.PolicyRef{Name: registry.PolicyDefault}, true, "", 10)
			}),
			"PublishPolicy": of(func(st *db.Store, _, _, _, _, _ string) (any, error) { // what no tenant can publish
				_, _, err := st.PublishPolicy(ctx, registry.PolicyBundle{Name: registry.PolicyDefault, Version: 1}, named("publish"))
				return nil, err
			}),
			"MintToken": of(func(st *db.Store, id, _, _, _, _ string) (any, error) {
				return st.MintToken(ctx, registry.DecisionToken{TokenID: "dtk_2", ServerID: id, Subject: "eve"}, "mine", time.Hour, named("mint"))
			}),
			"ClaimToken": of(func(st *db.Store, _, name, _, _, _ string) (any, error) {
				return st.ClaimToken(ctx, map[string]string{"weather": "secret"}[name], "signal", all)
			}),
			"RefuseDecision": of(func(st *db.Store, id, _, _, _, _ string) (any, error) {
				return nil, st.RefuseDecision(ctx, id, registry.Decision{Reason: registry.ReasonUnsignedSignal}, named("refuse"))
			}),
			"RememberEra": of(func(st *db.Store, id, _, _, _, _ string) (any, error) {
				return nil, st.RememberEra(ctx, id, "modern")
			}),
			// These write rows of the caller's own; what they need of others is checked elsewhere.
			"Register": of(func(st *db.Store, _, _, _, _, _ string) (any, error) {
				_, err := st.Register(ctx, g, op, nil) // of the first tenant
				return nil, err
			}),
			"SaveSnapshot": of(func(st *db.Store, _, _, _, _, _ string) (any, error) {
				return nil, st.SaveSnapshot(ctx, &registry.Snapshot{Digest: "sha256:mine"})
			}),
			"AuditRefusal": of(func(st *db.Store, _, _, _, _, _ string) (any, error) {
				return nil, st.AuditRefusal(ctx, db.AuditEntry{Action: "x"})
			}),
		}
		rows := traces(t, d)
		globex := d.Tenant("globex")
		for name, call := range calls {
			got, err := call.one(globex)
			want, wantErr := call.other(globex)
			if diff := cmp.Diff(text(wantErr), text(err)); diff != "" {
				t.Errorf("%s: the error tells that it exists: %s", name, diff)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: the answer tells that it exists: %s", name, diff)
			}
			if _, err := call.one(d.Tenant("No Tenant")); registry.ReasonOf(err) != registry.ReasonInvalidArgument {
				t.Errorf("%s works for a tenant that cannot be: %v", name, err)
			}
			if _, err := call.one(d.Tenant("")); registry.ReasonOf(err) != registry.ReasonInvalidArgument {
				t.Errorf("%s works without a tenant: %v", name, err)
			}
		}
		for method := range reflect.TypeFor[*db.Store]().Methods() {
			if _, known := calls[method.Name]; !known && method.Name != "Tenant" {
				t.Errorf("method %s is not in this test", method.Name)
			}
		}
		rows["audit"] += 2 // both of AuditRefusal
		if diff := cmp.Diff(rows, traces(t, d)); diff != "" {
			t.Errorf("rows: %s", diff)
		}
		acme.resolves("weather.forecast", "")
	})
}

func text(err error) string {
	if err == nil {
		return ""
	}
	e, _ := registry.AsError(err)
	return string(e.Reason) + ": " + e.Error() + " " + e.Next
}
