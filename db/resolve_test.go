package db_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/db"
	"countersign/registry"
)

// Each condition of R70 flipped alone in the tables is one denial, and of all
// flipped together the first in the order of Appendix B is told.
func TestDenialsComeInTheirOrder(t *testing.T) {
	flips := []struct {
		reason    registry.Reason
		statement string
	}{
		{registry.ReasonNotAssigned, "DELETE FROM assignments"},
		{registry.ReasonToolUnbound, "DELETE FROM mcp_tool_bindings"},
		{registry.ReasonSchemaChanged, "UPDATE tools SET contract_digest = 'other'"},
		{registry.ReasonApprovalExpired, "UPDATE mcp_tool_bindings SET ends_at = '2020-01-01 00:00:00+00:00'"},
		{registry.ReasonToolUnavailable, "UPDATE tools SET available = FALSE"},
		{registry.ReasonToolDisabled, "UPDATE tools SET enabled = FALSE"},
		{registry.ReasonServerNotActive, "UPDATE mcp_servers SET state = 'verified'"},
		{registry.ReasonServerDegraded, `UPDATE mcp_servers SET state = 'degraded', causes = '["handshake"]'`},
		{registry.ReasonServerQuarantined, `UPDATE mcp_servers SET state = 'degraded', causes = '["handshake","quarantined"]'`},
		{registry.ReasonAuthExceptionExpired, "UPDATE mcp_servers SET exception_expires_at = '2020-01-01 00:00:00+00:00'"},
		{registry.ReasonServerRetired, "UPDATE mcp_servers SET state = 'retired', retired_at = '2020-01-01 00:00:00+00:00', causes = '[]'"},
		{registry.ReasonProviderDisabled, "UPDATE providers SET enabled = FALSE"},
		{registry.ReasonToolNotFound, "DELETE FROM tools"},
	}
	engines(t, func(t on) {
		d := t.db
		var order []registry.Reason
		for _, flip := range slices.Backward(flips) {
			order = append(order, flip.reason)
		}
		if diff := cmp.Diff(registry.DenialOrder(), order); diff != "" {
			t.Fatalf("the test does not know every denial: %s", diff)
		}
		for i, flip := range flips {
			w := newWorld(t, d, fmt.Sprintf("acme-%d", i))
			s := w.register("weather")
			w.approve(w.discover(s.ServerID, surface("forecast")), "forecast")
			w.assign("agent", "weather.forecast", "")
			w.resolvesFor("agent", "", "weather.forecast", "")
			w.callable("weather.forecast")
			exec(t, d, flip.statement+" WHERE tenant_id = '"+w.Tenant()+"'")
			w.resolvesFor("agent", "", "weather.forecast", flip.reason)
			if flip.reason != registry.ReasonNotAssigned { // of an agent that nobody names
				w.callable()
			}
		}
		w := newWorld(t, d, "everything")
		s := w.register("weather")
		w.approve(w.discover(s.ServerID, surface("forecast")), "forecast")
		for _, flip := range slices.Concat(flips[:1], flips[2:]) { // a tool that was never approved cannot have changed since
			exec(t, d, flip.statement+" WHERE tenant_id = '"+w.Tenant()+"'")
			w.resolvesFor("agent", "", "weather.forecast", flip.reason)
		}
	})
}

func TestResolveTellsAllThatACallNeeds(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		w := newWorld(t, d, "acme")
		s := w.register("weather")
		s = w.approve(w.discover(s.ServerID, surface("forecast", "alerts")), "forecast")
		probe := registry.Probe{
			TenantID: "acme", ServerID: s.ServerID, Window: time.Now().UTC().Truncate(time.Minute), Outcome: registry.OutcomeFailed,
			Reason: registry.ReasonTimeout, Message: "too slow", Attempts: 3, TargetDigest: s.TargetDigest, Duration: time.Second, At: time.Now().UTC().Truncate(time.Microsecond),
		}
		if _, err := d.System().RecordProbes(t.Context(), []registry.Probe{probe}, 0); err != nil {
			t.Fatal(err)
		}
		found, err := w.Resolve(t.Context(), []string{"weather.forecast", "weather.alerts", "weather.none", "weather.forecast"})
		if err != nil || len(found) != 2 {
			t.Fatalf("%d found: %v", len(found), err)
		}
		v := found["weather.forecast"]
		if v.Denial != nil || v.Connection.URL != "https://weather.example/mcp" || !v.ProviderEnabled || v.Binding == nil ||
			v.Binding.DeclaredClass != registry.ClassRead || v.Binding.ToolID != "weather.forecast" || v.Binding.ToolVersion != "1" || v.Binding.SchemaHash != v.Tool.Contract {
			t.Errorf("forecast: %+v", v)
		}
		if diff := cmp.Diff(s, v.Server); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(&probe, v.LastProbe); diff != "" {
			t.Error(diff)
		}
		if v := found["weather.alerts"]; v.Binding != nil || v.Denial == nil {
			t.Errorf("alerts: %+v", v)
		}
		tool, err := w.Tool(t.Context(), "weather.forecast")
		if err != nil || string(tool.Definition) != string(surface("forecast").Tools[0]) {
			t.Errorf("definition %q: %v", tool.Definition, err)
		}
		_, err = w.Tool(t.Context(), "weather.none")
		refused(t, err, registry.ReasonToolNotFound)
		if found, err := w.Resolve(t.Context(), nil); err != nil || len(found) != 0 {
			t.Errorf("nothing asked: %v, %v", found, err)
		}
	})
}

// What SQL counts and filters by is what the registry says.
func TestCountsAgreeWithTheRegistry(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		w := newWorld(t, d, "acme")
		s := w.register("weather")
		names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
		s = w.approve(w.discover(s.ServerID, surface(names...)), "a", "b", "c", "d", "e")
		check := func(what string) {
			t.Helper()
			c, err := w.Capabilities(t.Context(), "weather", false)
			if err != nil {
				t.Fatal(err)
			}
			var want db.Counts
			var bound []string
			for _, tool := range c.Tools {
				want.Tools++
				if tool.Available {
					want.Available++
				}
				if tool.Enabled {
					want.Enabled++
				}
				if tool.Binding != nil && tool.Binding.Bound && tool.Binding.Holds(tool.Digests, c.Server.TargetDigest) {
					want.Bound++
					bound = append(bound, tool.ToolID)
				}
				if tool.Denial == nil {
					want.Callable++
				}
			}
			want.BoundResources, want.BoundPrompts = 1, 1
			if diff := cmp.Diff(want, c.Server.Counts); diff != "" {
				t.Errorf("%s: counts (registry -, SQL +): %s", what, diff)
			}
			tools, _, total, err := w.Tools(t.Context(), db.ToolQuery{Conditions: []db.Condition{{Field: "bound", Op: db.OpIs, Value: "true"}}})
			if err != nil || total != len(bound) {
				t.Errorf("%s: %d bound, want %d: %v", what, total, len(bound), err)
			}
			for i, tool := range tools {
				if tool.Tool.ToolID != bound[i] {
					t.Errorf("%s: %s is bound, want %s", what, tool.Tool.ToolID, bound[i])
				}
			}
		}
		check("approved")
		w.must(w.change(s.ServerID, "set_enabled", func(r *registry.Record, _ time.Time) error { return r.SetEnabled("a", false) }))
		check("one disabled")
		w.discover(s.ServerID, surface("a", "b", "c", "d", "g", "h", "i", "!b"))
		check("one changed, two gone, one new")
		exec(t, d, "UPDATE tools SET text_digest = 'x' WHERE external_id = 'c'", "UPDATE tools SET behaviour_digest = 'x' WHERE external_id = 'd'")
		check("text and behaviour moved")
		exec(t, d, "UPDATE providers SET enabled = FALSE")
		check("provider disabled")
		exec(t, d, "UPDATE providers SET enabled = TRUE", "UPDATE mcp_servers SET exception_expires_at = '2020-01-01 00:00:00+00:00'")
		check("exception expired")
		exec(t, d, "UPDATE mcp_servers SET exception_expires_at = NULL", `UPDATE mcp_servers SET state = 'degraded', causes = '["handshake"]'`)
		check("degraded")
		exec(t, d, "UPDATE mcp_servers SET state = 'active', causes = '[]', target_digest = 'other'")
		check("another target")
	})
}

func TestTheDatabasesClockEndsAnException(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		w := newWorld(t, d, "acme")
		g := w.registration("weather")
		g.Authentication, g.ExceptionReason = registry.AuthNoneException, "a trial"
		s := w.must(w.Register(t.Context(), g, named("register"), nil))
		s = w.discover(s.ServerID, surface("forecast"))
		op := named("approve")
		var until time.Time
		w.must(w.Apply(t.Context(), db.Change{
			ServerID: s.ServerID, Operation: op, Catalog: func(*registry.Server) bool { return true },
			Apply: func(r *registry.Record, now time.Time) error {
				r.Governance = demands(registry.ApprovalVerdict{Needed: 1})
				until = now.Add(500 * time.Millisecond)
				return r.Decide(registry.Ruling{Verb: registry.VerbApprove, Approval: &registry.Approval{
					Digest: s.Review.Digest, ExceptionExpiresAt: until, Tools: []registry.ToolLine{{Tool: "forecast", Class: registry.ClassRead, Enable: true}},
				}}, op, now)
			},
		}))
		for end := time.Now().Add(20 * time.Second); ; {
			started := time.Now()
			found, err := w.Resolve(t.Context(), []string{"weather.forecast"})
			if err != nil {
				t.Fatal(err)
			}
			denial := found["weather.forecast"].Denial
			if denial != nil {
				if denial.Reason != registry.ReasonAuthExceptionExpired || time.Now().Before(until) {
					t.Errorf("denied for %s at %v, it runs until %v", denial.Reason, time.Now(), until)
				}
				return
			}
			if started.After(until) {
				t.Fatal("callable after the end")
			}
			if time.Now().After(end) {
				t.Fatal("it never ends")
			}
		}
	})
}

// What is asked before every call has fewer columns; what decides is the same.
func TestAnswersDecideByTheSame(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		s := w.register("weather")
		s = w.discover(s.ServerID, surface("bound", "plain", "changed"))
		s = w.approve(s, "bound", "changed")
		w.discover(s.ServerID, surface("bound", "plain", "changed", "!changed"))
		w.register("fresh")
		gone := w.register("gone")
		gone = w.discover(gone.ServerID, surface("x"))
		w.retire(w.approve(gone, "x").ServerID)
		ids := []string{"weather.bound", "weather.plain", "weather.changed", "gone.x"}
		whole, err := w.Resolve(t.Context(), ids)
		if err != nil || len(whole) != len(ids) {
			t.Fatal(len(whole), err)
		}
		answers, err := w.ResolveFor(t.Context(), ids, db.Caller{})
		if err != nil || len(answers) != len(ids) {
			t.Fatal(len(answers), err)
		}
		for _, id := range ids {
			a, b := whole[id], answers[id]
			if diff := cmp.Diff(a.Denial, b.Denial); diff != "" {
				t.Errorf("%s: %s", id, diff)
			}
			if diff := cmp.Diff(registry.HealthOf(&a.Server, a.LastProbe), registry.HealthOf(&b.Server, b.LastProbe)); diff != "" {
				t.Errorf("%s: %s", id, diff)
			}
			at, atDenial := a.Later()
			bt, btDenial := b.Later()
			if !at.Equal(bt) || !cmp.Equal(atDenial, btDenial) {
				t.Errorf("%s: later %s %v, %s %v", id, at, atDenial, bt, btDenial)
			}
			told := func(v *db.ToolView) []any {
				s, c := &v.Server, &v.Connection
				out := []any{
					s.ServerID, s.Name, s.Transport, c.URL, c.DialAddress, s.ProtocolVersion, s.Authentication, s.EndpointRef, s.GovernancePolicyRef, s.CommandRef,
					s.Owner, s.Labels, s.Direction, s.State, v.PolicyDigest, v.Tool.ExternalID, v.Tool.CallName(), v.Tool.RequiresApproval, v.Tool.Digests.Contract, v.Assigned,
				}
				if b := v.Binding; b != nil {
					out = append(out, b.DeclaredClass, b.SchemaHash, b.ToolID, b.ToolVersion, b.Target, b.Bound, b.UnboundBy, b.EndsAt)
				}
				return out
			}
			if diff := cmp.Diff(told(a), told(b)); diff != "" {
				t.Errorf("%s: %s", id, diff)
			}
		}
	})
}
