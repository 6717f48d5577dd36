//go:build record

package worker_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"

	"countersign/db"
	"countersign/mcptest"
	"countersign/registry"
	"countersign/workflows"
)

const histories = "../workflows/testdata/history"

// TestRecord plays every path on real Temporal and writes the histories that
// the replay tests read. Files that exist are left alone: a history is never
// edited, a changed workflow gets new ones beside the old.
func TestRecord(t *testing.T) {
	h := newHouse(t, "sqlite")
	peer := offers(t, "a", "b")

	// The whole life.
	h.register("life", peer.URL)
	h.is("life", registry.StateVerified)
	h.approve("life", "a", "b")
	window := time.Now().UTC().Truncate(time.Minute)
	peer.Edit(func(s *mcptest.Script) { s.Fault(mcptest.Any, mcptest.Status(503, nil, "")) })
	h.sweep(window)
	h.is("life", registry.StateDegraded)
	peer.Edit(func(s *mcptest.Script) { s.Faults = nil })
	h.sweep(window.Add(time.Minute))
	h.is("life", registry.StateActive)
	offer(peer, "a", "c")
	h.sweep(window.Add(2 * time.Minute)) // drift starts a discovery
	v := h.until("life", "up for review", func(v db.ServerView) bool { return v.Review.Status == registry.ReviewPending })
	if _, err := h.client.SetEnabled(t.Context(), "life", workflows.SetEnabledInput{Tenant: "default", ServerID: v.ServerID, Operation: operation("set_enabled"), Tool: "b", Enabled: false}); err != nil {
		t.Fatal(err)
	}
	h.retire("life")
	h.save("server-life", workflows.ServerWorkflowID("default", "life"))
	h.save("discovery-ok", workflows.DiscoveryWorkflowID("default", v.ServerID, 1))

	// Rejected, asked again, approved by signal, repointed.
	one, two := offers(t, "a"), offers(t, "a")
	h.register("decided", one.URL)
	v = h.is("decided", registry.StateVerified)
	h.decide("decided", registry.Ruling{Verb: registry.VerbReject, Digest: v.Review.Digest, Comment: "not yet"})
	h.decide("decided", registry.Ruling{Verb: registry.VerbRequestReview})
	in := approval(h.get("decided"), "a")
	if err := h.temporal.SignalWorkflow(t.Context(), workflows.ServerWorkflowID("default", "decided"), "", workflows.DecisionApprove, in); err != nil {
		t.Fatal(err)
	}
	h.is("decided", registry.StateActive)
	if err := h.temporal.SignalWorkflow(t.Context(), workflows.ServerWorkflowID("default", "decided"), "", workflows.DecisionApprove, "nonsense"); err != nil {
		t.Fatal(err)
	}
	url := two.URL
	if _, err := h.client.Edit(t.Context(), "decided", workflows.EditInput{Tenant: "default", ServerID: v.ServerID, Operation: operation("edit"), Edit: registry.Edit{URL: &url}}); err != nil {
		t.Fatal(err)
	}
	h.until("decided", "up for review", func(v db.ServerView) bool { return v.Review.Status == registry.ReviewPending })
	h.retire("decided")
	h.save("server-decided", workflows.ServerWorkflowID("default", "decided"))

	// A first discovery that fails, is joined, and is tried by hand.
	dead := offers(t, "a")
	dead.Edit(func(s *mcptest.Script) { s.Fault(mcptest.Any, mcptest.Status(404, nil, "")) })
	h.register("dead", dead.URL)
	h.until("dead", "failed", func(v db.ServerView) bool { return v.Discovery.Status == registry.DiscoveryFailed })
	id := h.get("dead").ServerID
	dead.Edit(func(s *mcptest.Script) { s.Faults = nil })
	h.discover("dead")
	h.is("dead", registry.StateVerified)
	h.decide("dead", registry.Ruling{Verb: registry.VerbWithdrawServer})
	h.save("server-first-discovery-failed", workflows.ServerWorkflowID("default", "dead"))
	h.save("discovery-failed", workflows.DiscoveryWorkflowID("default", id, 1))

	// Retired while a discovery hangs.
	slow := offers(t, "a")
	slow.Edit(func(s *mcptest.Script) { s.Fault(mcptest.Any, mcptest.Hang()) })
	h.register("slow", slow.URL)
	h.until("slow", "discovering", func(v db.ServerView) bool { return v.Discovery.Status == registry.DiscoveryRunning })
	h.retire("slow")
	h.save("server-retired-while-discovering", workflows.ServerWorkflowID("default", "slow"))

	// An exception that expires.
	open := offers(t, "a")
	h.register("open", open.URL, func(in *workflows.RegisterInput) {
		in.Registration.Authentication, in.Registration.ExceptionReason = registry.AuthNoneException, "a demo"
	})
	h.is("open", registry.StateVerified)
	exception := approval(h.get("open"), "a")
	exception.Ruling.Approval.ExceptionExpiresAt = time.Now().Add(time.Second)
	if _, err := h.client.Decide(t.Context(), "open", exception); err != nil {
		t.Fatal(err)
	}
	h.is("open", registry.StateDegraded)
	h.retire("open")
	h.save("server-exception-expired", workflows.ServerWorkflowID("default", "open"))

	// A registration that is refused, on a workflow of its own.
	taken := registration("taken", peer.URL)
	if _, err := h.acts.Register(context.Background(), taken); err != nil {
		t.Fatal(err)
	}
	if _, err := h.client.Register(t.Context(), registration("taken", peer.URL)); err == nil {
		t.Fatal("a taken name was given twice")
	}
	h.closed(workflows.ServerWorkflowID("default", "taken"))
	h.save("server-refused", workflows.ServerWorkflowID("default", "taken"))

	// Continued as new.
	carried := registration("carried", one.URL)
	start := h.temporal.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
		ID: workflows.ServerWorkflowID("default", "carried"), TaskQueue: workflows.TaskQueue, WorkflowIDConflictPolicy: 2,
	}, workflows.ServerWorkflow, workflows.ServerInput{Tenant: "default", Name: "carried", MaxHistory: 20})
	handle, err := h.temporal.UpdateWithStartWorkflow(t.Context(), client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: start,
		UpdateOptions:          client.UpdateWorkflowOptions{UpdateID: carried.Operation.ID, UpdateName: workflows.UpdateRegister, Args: []any{carried}, WaitForStage: client.WorkflowUpdateStageCompleted},
	})
	if err != nil {
		t.Fatal(err)
	}
	h.is("carried", registry.StateVerified)
	h.approve("carried", "a")
	h.until("carried", "continued", func(db.ServerView) bool {
		d, err := h.temporal.DescribeWorkflowExecution(t.Context(), workflows.ServerWorkflowID("default", "carried"), "")
		return err == nil && d.GetWorkflowExecutionInfo().GetExecution().GetRunId() != handle.RunID()
	})
	h.retire("carried")
	h.saveRun("server-continues-as-new", workflows.ServerWorkflowID("default", "carried"), handle.RunID())
	h.save("server-continued", workflows.ServerWorkflowID("default", "carried"))

	h.launched("launched")
	h.save("server-launched", workflows.ServerWorkflowID("default", "launched"))

	// Under a policy: two people, terms that pass, another version, an exception
	// that is renewed, a decision with a token.
	h.publishes("name: pair\nversion: 1\napproval:\n  - {name: all, when: 'true', approvers: 2, expiry: {after: 3s, recertify: 2s, remind: [1s]}}\n")
	h.register("governed", one.URL, under("pair"), func(in *workflows.RegisterInput) {
		in.Registration.Authentication, in.Registration.ExceptionReason = registry.AuthNoneException, "a demo"
	})
	h.is("governed", registry.StateVerified)
	governed := approval(h.get("governed"), "a")
	governed.Ruling.Approval.ExceptionExpiresAt = time.Now().Add(time.Hour)
	if _, err := h.client.Decide(t.Context(), "governed", governed); err != nil {
		t.Fatal(err)
	}
	second := governed
	second.Token = "secret"
	k := registry.DecisionToken{
		TokenID: "dtk_1", ServerID: governed.ServerID, Verb: registry.VerbApprove, Digest: governed.Ruling.Approval.Digest,
		Subject: "bob", Roles: []registry.Role{registry.RolePlatformAdmin},
	}
	if _, err := h.store().MintToken(t.Context(), k, second.Token, time.Hour, operation("mint_decision_token")); err != nil {
		t.Fatal(err)
	}
	if err := h.temporal.SignalWorkflow(t.Context(), workflows.ServerWorkflowID("default", "governed"), "", workflows.DecisionApprove, second); err != nil {
		t.Fatal(err)
	}
	h.is("governed", registry.StateActive)
	h.decide("governed", registry.Ruling{Verb: registry.VerbRenew, ExceptionExpiresAt: time.Now().Add(2 * time.Hour), Comment: "still a demo"})
	h.until("governed", "to be approved again", func(v db.ServerView) bool { return v.Review.Status == registry.ReviewPending })
	b := h.publishes("name: pair\nversion: 2\napproval:\n  - {name: all, when: 'true', approvers: 3}\n")
	h.until("governed", "under the new version", func(v db.ServerView) bool { return v.Counts.Bound == 0 })
	h.retire("governed")
	h.save("server-governed", workflows.ServerWorkflowID("default", "governed"))
	h.save("policy-change", workflows.PolicyWorkflowID("default", b.Ref))
	h.publishes("name: brief\nversion: 1\napproval:\n  - {name: all, when: 'true', approvers: 1, expiry: {after: 2s, remind: [1s]}}\n")
	h.register("brief", one.URL, under("brief"))
	h.is("brief", registry.StateVerified)
	h.approve("brief", "a")
	h.until("brief", "expired", func(v db.ServerView) bool { return v.Counts.Bound == 0 && len(v.Terms) == 0 })
	h.retire("brief")
	h.save("server-approval-expired", workflows.ServerWorkflowID("default", "brief"))

	// An approval that is taken back before it counted, and afterwards cannot be.
	h.publishes("name: eyes\nversion: 1\napproval:\n  - {name: all, when: 'true', approvers: 2}\n")
	h.register("withdrawn", one.URL, under("eyes"))
	asked := h.is("withdrawn", registry.StateVerified)
	for _, in := range []workflows.DecideInput{
		approvedBy(asked, somebody("bob"), "a"), withdrawal(asked, somebody("bob")), approvedBy(asked, somebody("carl"), "a"),
		withdrawal(asked, somebody("bob")), approvedBy(asked, somebody("dora"), "a"),
	} {
		if _, err := h.client.Decide(t.Context(), "withdrawn", in); err != nil {
			t.Fatal(err)
		}
	}
	h.is("withdrawn", registry.StateActive)
	if _, err := h.client.Decide(t.Context(), "withdrawn", withdrawal(asked, somebody("carl"))); registry.ReasonOf(err) != registry.ReasonAlreadyDecided {
		t.Fatal(err)
	}
	h.retire("withdrawn")
	h.save("server-approval-withdrawn", workflows.ServerWorkflowID("default", "withdrawn"))

	// A connection that is edited, and a server that takes what it became.
	shared := registry.Connection{Name: "shared", URL: one.URL}.Normal()
	if _, _, err := h.store().CreateConnection(t.Context(), shared, operation("create_connection"), nil); err != nil {
		t.Fatal(err)
	}
	h.register("reached", "", func(in *workflows.RegisterInput) { in.Registration.ConnectionName = "shared" })
	h.is("reached", registry.StateVerified)
	h.approve("reached", "a")
	for _, edit := range []registry.ConnectionEdit{{Description: new("for people")}, {URL: &two.URL}} {
		in := workflows.EditConnectionInput{Tenant: "default", Name: "shared", Operation: operation("edit_connection"), Edit: edit}
		if _, err := h.client.EditConnection(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		h.closed(workflows.ConnectionWorkflowID("default", "shared"))
	}
	h.until("reached", "up for review", func(v db.ServerView) bool {
		return v.EndpointRef == "shared@3" && v.Review.Status == registry.ReviewPending
	})
	h.retire("reached")
	h.save("server-takes-connection", workflows.ServerWorkflowID("default", "reached"))
	h.save("connection-edited", workflows.ConnectionWorkflowID("default", "shared"))

	// An extension whose servers come, are looked at again, move and go; a refresh
	// that fails, and one that another configuration overtakes.
	ext := extends(t)
	ext.servers = [][2]string{{"utils", one.URL}, {"more", two.URL}}
	ext.tools = [][3]string{{"a", "utils", "a"}, {"b", "more", "a"}}
	h.provides("extended", ext.config())
	h.save("provider-created", workflows.ProviderWorkflowID("default", "extended"))
	h.save("server-of-provider", workflows.ServerWorkflowID("default", "extended-more"))
	ext.edit(func(e *extension) {
		e.servers, e.tools = [][2]string{{"utils", two.URL}}, [][3]string{{"a", "utils", "a"}}
	})
	h.refreshes("extended")
	h.save("provider-refreshed", workflows.ProviderWorkflowID("default", "extended"))
	ext.edit(func(e *extension) { e.identity = "somebody.else" })
	h.refreshes("extended")
	h.save("provider-refresh-failed", workflows.ProviderWorkflowID("default", "extended"))
	hold := make(chan struct{})
	ext.edit(func(e *extension) { e.identity, e.hold = "acme.tools", hold })
	for range 2 { // the second joins the first
		in := workflows.BeginRefreshInput{Tenant: "default", Name: "extended", Operation: operation("refresh_provider")}
		if _, _, err := h.client.RefreshProvider(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	edit := workflows.SaveProviderInput{Tenant: "default", Name: "extended", Operation: operation("edit_provider"), Edit: registry.ProviderEdit{ExceptionReason: new(""), BaseURL: new(ext.URL + "/")}}
	if _, err := h.client.SaveProvider(t.Context(), edit); err != nil {
		t.Fatal(err)
	}
	close(hold)
	h.closed(workflows.ProviderWorkflowID("default", "extended"))
	h.save("provider-overtaken", workflows.ProviderWorkflowID("default", "extended"))
	looked, err := h.temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "test/default/2", TaskQueue: workflows.TaskQueue},
		workflows.ProviderTestWorkflow, workflows.TestProviderInput{Tenant: "default", Name: "extended"})
	if err == nil {
		err = looked.Get(t.Context(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	h.save("provider-test", "test/default/2")

	// A connection test, and a sweep that has something to tell.
	h.register("tested", one.URL)
	tested := h.is("tested", registry.StateVerified)
	run, err := h.temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "test/default/1", TaskQueue: workflows.TaskQueue},
		workflows.ConnectionTestWorkflow, workflows.TestInput{Tenant: "default", ServerID: tested.ServerID})
	if err == nil {
		err = run.Get(t.Context(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	h.save("connection-test", "test/default/1")
	h.approve("tested", "a")
	one.Edit(func(s *mcptest.Script) { s.Fault(mcptest.Any, mcptest.Status(503, nil, "")) })
	sweep, err := h.temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "sweep", TaskQueue: workflows.TaskQueue},
		workflows.ProbeSweepWorkflow, workflows.SweepInput{Interval: 100 * time.Millisecond, Page: 1, Window: window.Add(time.Hour)})
	if err == nil {
		err = sweep.Get(t.Context(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	h.save("sweep", "sweep")

	// Many tools switched at once, approval required of each call, and a sweep
	// that ends with a round of retention.
	many := h.register("many", two.URL)
	h.is("many", registry.StateVerified)
	if _, err := h.client.SetEnabled(t.Context(), "many", workflows.SetEnabledInput{Tenant: "default", ServerID: many.ServerID, Operation: operation("enable_tools"), Tools: []string{"a"}, Enabled: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.client.RequireApproval(t.Context(), "many", workflows.RequireApprovalInput{Tenant: "default", ServerID: many.ServerID, Operation: operation("set_requires_approval"), Tools: []string{"a"}, Required: true}); err != nil {
		t.Fatal(err)
	}
	h.retire("many")
	h.save("server-switches", workflows.ServerWorkflowID("default", "many"))
	pruning, err := h.temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "sweep-prunes", TaskQueue: workflows.TaskQueue},
		workflows.ProbeSweepWorkflow, workflows.SweepInput{Interval: 100 * time.Millisecond, Window: window.Truncate(time.Hour)})
	if err == nil {
		err = pruning.Get(t.Context(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	h.save("sweep-prunes", "sweep-prunes")

	// A sweep in two shards, of which one has a server that fails at first.
	h.register("other", two.URL)
	h.is("other", registry.StateVerified)
	h.approve("other", "a")
	two.Edit(func(s *mcptest.Script) { s.Fault(mcptest.Any, mcptest.Status(503, nil, "")) })
	sharded := window.Add(2*time.Hour + time.Minute)
	run, err = h.temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "sweep-shards", TaskQueue: workflows.TaskQueue},
		workflows.ProbeSweepWorkflow, workflows.SweepInput{Interval: 100 * time.Millisecond, Page: 1, Window: sharded})
	if err == nil {
		err = run.Get(t.Context(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	h.is("other", registry.StateDegraded)
	h.save("sweep-shards", "sweep-shards")
	h.save("sweep-shard", workflows.ShardWorkflowID(sharded, 0))
}

func (h *house) save(name, id string) {
	h.Helper()
	if name != "sweep" {
		h.closed(id)
	}
	h.saveRun(name, id, "")
}

func (h *house) saveRun(name, id, runID string) {
	h.Helper()
	path := filepath.Join(histories, name+".json")
	if _, err := os.Stat(path); err == nil {
		return
	}
	var history historypb.History
	events := h.temporal.GetWorkflowHistory(h.Context(), id, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			h.Fatal(err)
		}
		history.Events = append(history.Events, event)
	}
	raw, err := protojson.MarshalOptions{Indent: " "}.Marshal(&history)
	if err != nil {
		h.Fatal(err)
	}
	if err := os.WriteFile(path, append(raw, '\n'), 0o600); err != nil {
		h.Fatal(err)
	}
	h.Logf("%s: %d events", name, len(history.GetEvents()))
}
