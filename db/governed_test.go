package db_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/db"
	"countersign/registry"
)

func (w *world) draft(id string, class registry.Class) db.DescriptorView {
	w.tb.Helper()
	d, err := registry.NewDescriptor(id, class, "does "+id)
	if err != nil {
		w.tb.Fatal(err)
	}
	view, err := w.CreateDescriptor(w.tb.Context(), d, named("draft"))
	if err != nil {
		w.tb.Fatal(err)
	}
	return view
}

func (w *world) publish(id string, version int64) (db.DescriptorView, error) {
	op := named("publish")
	return w.ChangeDescriptor(w.tb.Context(), id, version, op, func(d *registry.Descriptor, now time.Time) (bool, error) {
		return d.Publish(op.Actor, now)
	})
}

func (w *world) deprecate(id string, version int64) (db.DescriptorView, error) {
	op := named("deprecate")
	return w.ChangeDescriptor(w.tb.Context(), id, version, op, func(d *registry.Descriptor, now time.Time) (bool, error) {
		return d.Deprecate(op.Actor, now)
	})
}

func TestTheLifeOfADescriptor(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		first := w.draft("hash", registry.ClassRead)
		if first.Version != 1 || first.Status != registry.DescriptorDraft || first.Active || first.CreatedBy != "ann" || first.Description != "does hash" {
			t.Errorf("%+v", first)
		}
		if second := w.draft("hash", registry.ClassSandbox); second.Version != 2 {
			t.Errorf("the second version is %d", second.Version)
		}
		s := w.register("weather")
		s = w.discover(s.ServerID, surface("forecast"))
		approve := func(version int64, class registry.Class) error {
			op := named("approve")
			applied, err := w.Apply(t.Context(), db.Change{
				ServerID: s.ServerID, Operation: op, Catalog: func(*registry.Server) bool { return true }, Descriptors: []string{"hash"},
				Apply: approving(op, registry.Approval{Digest: s.Review.Digest, Tools: []registry.ToolLine{
					{Tool: "forecast", Class: class, DescriptorID: "hash", DescriptorVersion: version, Enable: true},
				}}),
			})
			s = applied.Server
			return err
		}
		keep := s
		refused(t, approve(1, registry.ClassRead), registry.ReasonDescriptorNotPublished)
		s = keep
		v, err := w.publish("hash", 1)
		if err != nil || v.Status != registry.DescriptorPublished || v.PublishedBy != "ann" || v.PublishedAt.IsZero() || !v.Active || v.Health.Reason != "not_bound" {
			t.Fatalf("%+v, %v", v, err)
		}
		if err := approve(1, registry.ClassRead); err != nil {
			t.Fatal(err)
		}
		w.resolves("weather.forecast", "")
		if v, err = w.Descriptor(t.Context(), "hash", 1); err != nil || v.Tools != 1 || v.Health.Level != registry.LevelHealthy || !v.Active {
			t.Errorf("bound: %+v, %v", v, err)
		}

		// Deprecated, it cannot be named any more; what is bound stays callable.
		if v, err = w.deprecate("hash", 1); err != nil || v.Active || v.DeprecatedBy != "ann" {
			t.Errorf("%+v, %v", v, err)
		}
		w.resolves("weather.forecast", "")
		_, err = w.publish("hash", 1)
		refused(t, err, registry.ReasonDescriptorStatus)
		_, err = w.publish("hash", 3)
		refused(t, err, registry.ReasonDescriptorNotFound)
		_, err = w.Descriptor(t.Context(), "none", 0)
		refused(t, err, registry.ReasonDescriptorNotFound)

		// R147.
		exec(t, t.db, `UPDATE mcp_servers SET state = 'degraded', causes = '["handshake"]'`)
		if v, err = w.Descriptor(t.Context(), "hash", 1); err != nil || v.Health.Level != registry.LevelUnhealthy {
			t.Errorf("its server is degraded: %+v, %v", v, err)
		}
		exec(t, t.db, `UPDATE mcp_servers SET state = 'active', causes = '[]'`)
		w.retire(s.ServerID)
		if v, err = w.Descriptor(t.Context(), "hash", 1); err != nil || v.Health.Reason != "server_retired" || v.Active {
			t.Errorf("its server is retired: %+v, %v", v, err)
		}

		// Each change once, with one audit row and one event, numbered.
		if _, err := w.publish("hash", 2); err != nil {
			t.Fatal(err)
		}
		if _, err := w.publish("hash", 2); err != nil {
			t.Fatal(err)
		}
		events, _ := follow(t, count(t, t.db, "SELECT count(*) FROM outbox WHERE tenant_id = 'acme'"), w.OutboxAfter)
		var got []string
		for _, e := range events {
			if e.Aggregate == "descriptor/hash" {
				got = append(got, fmt.Sprintf("%d %s %s", e.Seq, e.Type[strings.LastIndex(string(e.Type), ".")+1:], e.Data))
			}
		}
		of := func(version int, class, status string) string {
			return fmt.Sprintf(`{"tenantId":"acme","descriptorId":"hash","version":%d,"class":%q,"status":%q}`, version, class, status)
		}
		want := []string{
			"1 tool-descriptor-drafted " + of(1, "read", "draft"), "2 tool-descriptor-drafted " + of(2, "sandbox", "draft"),
			"3 tool-descriptor-published " + of(1, "read", "published"), "4 tool-descriptor-deprecated " + of(1, "read", "deprecated"),
			"5 tool-descriptor-published " + of(2, "sandbox", "published"),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		entries, _, err := w.Audit(t.Context(), db.AuditQuery{ObjectID: "hash@1"})
		if err != nil || len(entries) != 4 || entries[0].Outcome != db.AuditRefused || entries[1].Action != "deprecate" || entries[0].ObjectKind != "descriptor" || entries[0].Actor != "ann" {
			t.Errorf("%+v, %v", entries, err)
		}
	})
}

func TestDescriptorsAreListedTheLatestVersionFirst(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		for i := range 12 {
			w.draft("b", registry.ClassRead)
			if i < 3 {
				w.draft(string(rune('a'+2*i)), registry.ClassSandbox)
			}
		}
		list := func(size int, conditions ...db.Condition) (got []string) {
			t.Helper()
			for page := (db.Page{Size: size}); ; {
				views, next, total, err := w.Descriptors(t.Context(), db.DescriptorQuery{Page: page, Conditions: conditions})
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range views {
					got = append(got, fmt.Sprintf("%s@%d", v.DescriptorID, v.Version))
				}
				if page.After = next; next == "" {
					if total != len(got) {
						t.Errorf("%d listed of %d", len(got), total)
					}
					return got
				}
			}
		}
		want := strings.Fields("a@1 b@12 b@11 b@10 b@9 b@8 b@7 b@6 b@5 b@4 b@3 b@2 b@1 c@1 e@1")
		for _, size := range []int{2, 100} {
			if diff := cmp.Diff(want, list(size)); diff != "" {
				t.Error(diff)
			}
		}
		if _, err := w.publish("b", 4); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"b@4"}, list(10, conditions("status = published;descriptor_id = b;class = read")...)); diff != "" {
			t.Error(diff)
		}
		if v, err := w.Descriptor(t.Context(), "b", 0); err != nil || v.Version != 12 {
			t.Errorf("the latest is %d: %v", v.Version, err)
		}
	})
}

func TestDraftsThatMeetGetVersionsOfTheirOwn(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		var wait sync.WaitGroup
		versions := make([]int64, 8)
		for i := range versions {
			wait.Go(func() {
				d, err := registry.NewDescriptor("hash", registry.ClassRead, "")
				if err == nil {
					var v db.DescriptorView
					v, err = w.CreateDescriptor(t.Context(), d, named("draft"))
					versions[i] = v.Version
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		views, _, total, err := w.Descriptors(t.Context(), db.DescriptorQuery{})
		if err != nil || total != len(versions) || views[0].Version != int64(len(versions)) {
			t.Errorf("%d versions: %v, %v", total, versions, err)
		}
	})
}

func TestAnAgentMayCallWhatIsAssignedToIt(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		s := w.register("weather")
		s = w.approve(w.discover(s.ServerID, surface("forecast", "alerts")), "forecast", "alerts")
		w.resolvesFor("bot", "", "weather.forecast", registry.ReasonNotAssigned)
		w.resolves("weather.forecast", "") // nobody is named

		everywhere := w.assign("bot", "weather.forecast", "")
		w.assign("bot", "weather.alerts", "team-a")
		w.resolvesFor("bot", "", "weather.forecast", "")
		w.resolvesFor("bot", "team-b", "weather.forecast", "")
		w.resolvesFor("other", "", "weather.forecast", registry.ReasonNotAssigned)
		w.resolvesFor("Bot", "", "weather.forecast", registry.ReasonNotAssigned)
		w.resolvesFor("bot", "team-a", "weather.alerts", "")
		w.resolvesFor("bot", "", "weather.alerts", registry.ReasonNotAssigned)
		w.resolvesFor("bot", "team-b", "weather.alerts", registry.ReasonNotAssigned)
		w.resolvesFor("bot\x00", "", "weather.forecast", registry.ReasonNotAssigned)
		globex := newWorld(t, t.db, "globex")
		globex.approve(globex.discover(globex.register("weather").ServerID, surface("forecast")), "forecast")
		globex.resolvesFor("bot", "", "weather.forecast", registry.ReasonNotAssigned)

		// Away is allowed, and flagged; unknown is not.
		w.discover(s.ServerID, surface("forecast"))
		away := w.assign("bot", "weather.alerts", "")
		views, _, total, err := w.Assignments(t.Context(), db.AssignmentQuery{Conditions: conditions("tool_id = weather.alerts")})
		if err != nil || total != 2 || views[0].AssignmentID != away.AssignmentID || views[0].Tool.Tool.Available || views[0].Tool.Denial == nil {
			t.Errorf("%+v, %v", views, err)
		}
		none, err := registry.NewAssignment("acme", "bot", "weather.none", "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Assign(t.Context(), none, named("assign"))
		refused(t, err, registry.ReasonToolNotFound)

		// Again it changes nothing; taken away it is gone, once.
		if again := w.assign("bot", "weather.forecast", ""); again != everywhere {
			t.Errorf("%+v, first %+v", again, everywhere)
		}
		if _, err := w.Unassign(t.Context(), everywhere.AssignmentID, named("unassign")); err != nil {
			t.Fatal(err)
		}
		_, err = w.Unassign(t.Context(), everywhere.AssignmentID, named("unassign"))
		refused(t, err, registry.ReasonAssignmentNotFound)
		w.resolvesFor("bot", "", "weather.forecast", registry.ReasonNotAssigned)
		_, err = globex.Unassign(t.Context(), away.AssignmentID, named("unassign"))
		refused(t, err, registry.ReasonAssignmentNotFound)

		events, _ := follow(t, count(t, t.db, "SELECT count(*) FROM outbox WHERE tenant_id = 'acme'"), w.OutboxAfter)
		var got []string
		for _, e := range events {
			if e.Aggregate == "agent/bot" {
				got = append(got, fmt.Sprintf("%d %s", e.Seq, e.Data))
			}
		}
		of := func(n int, tool, workspace string) string {
			return fmt.Sprintf(`%d {"tenantId":"acme","agent":"bot","toolId":%q,"workspace":%q}`, n, tool, workspace)
		}
		want := []string{
			of(1, "weather.forecast", ""), of(2, "weather.alerts", "team-a"), of(3, "weather.alerts", ""), of(4, "weather.forecast", ""),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		entries, _, err := w.Audit(t.Context(), db.AuditQuery{ObjectID: "bot"})
		if err != nil || len(entries) != 4 || entries[0].Note != "took away weather.forecast" || entries[2].Note != "assigned weather.alerts in team-a" {
			t.Errorf("%+v, %v", entries, err)
		}
	})
}
