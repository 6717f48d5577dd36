package worker_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"countersign/activities"
	"countersign/db"
	"countersign/mcptest"
	"countersign/registry"
	"countersign/worker"
	"countersign/workflows"
)

// both runs a test on both databases.
func both(t *testing.T, test func(t *testing.T, h *house)) {
	t.Helper()
	t.Parallel()
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, newHouse(t, kind))
		})
	}
}

func TestTheWholeLifeOnRealTemporalAndBothDatabases(t *testing.T) {
	both(t, func(t *testing.T, h *house) {
		peer := offers(t, "a", "b", "c")
		h.register("demo", peer.URL)
		h.is("demo", registry.StateVerified)
		h.approve("demo", "a", "b")
		if got := h.denial("demo.a"); got != "" {
			t.Fatalf("denied: %s", got)
		}
		peer.Edit(func(s *mcptest.Script) { s.Fault(mcptest.Any, mcptest.Status(503, nil, "")) })
		window := time.Now().UTC().Truncate(time.Minute)
		h.sweep(window)
		v := h.is("demo", registry.StateDegraded)
		if got := h.denial("demo.a"); got != registry.ReasonServerDegraded || v.Counts.Callable != 0 || v.Counts.Bound != 2 {
			t.Errorf("%s, %+v", got, v.Counts)
		}
		peer.Edit(func(s *mcptest.Script) { s.Faults = nil })
		h.sweep(window) // the same window is not met again
		h.sweep(window.Add(time.Minute))
		h.is("demo", registry.StateActive)
		if v = h.get("demo"); v.Counts.Callable != 2 {
			t.Errorf("%+v", v.Counts) // H13
		}
		h.retire("demo")
		if got := h.denial("demo.a"); got != registry.ReasonServerRetired {
			t.Errorf("%s", got)
		}
		first := v.ServerID
		again := h.register("demo", peer.URL)
		if again.ServerID == first {
			t.Error("the retired server came back")
		}
		h.is("demo", registry.StateVerified)
	})
}

// H12: what a faulty list does to an active server.
func TestMalformedListsOfAnActiveServer(t *testing.T) {
	both(t, func(t *testing.T, h *house) {
		peer := offers(t, "x", "y", "z")
		h.register("demo", peer.URL)
		h.is("demo", registry.StateVerified)
		h.approve("demo", "x", "y", "z")
		snapshot := h.get("demo").SnapshotDigest
		window := time.Now().UTC().Truncate(time.Minute)
		next := func() { window = window.Add(time.Minute); h.sweep(window) }
		for _, raw := range []string{`{"tools":null}`, `{"tools":[null]}`, `{"tools":{}}`, `{"tools":[{"name":""}]}`, `{}`} {
			peer.Edit(func(s *mcptest.Script) { s.List("tools/list", mcptest.Raw(raw)) })
			next()
			v := h.is("demo", registry.StateDegraded)
			if !v.Causes.Has(registry.CauseMalformedList) || v.SnapshotDigest != snapshot || v.Counts.Bound != 3 {
				t.Errorf("%s: %v %+v", raw, v.Causes, v.Counts)
			}
			offer(peer, "x", "y", "z")
			next() // a good probe starts a discovery, which clears it
			h.is("demo", registry.StateActive)
		}
		// One faulty tool takes itself away and nothing else.
		for _, bad := range []string{`{"name":"z","inputSchema":null}`, `{"name":"z","inputSchema":true}`, tool("z", "one") + "," + tool("z", "two")} {
			peer.Edit(func(s *mcptest.Script) {
				s.List("tools/list", mcptest.Raw(`{"tools":[`+tool("x", "does x")+`,`+tool("y", "does y")+`,`+bad+`]}`))
			})
			v := h.discover("demo")
			if v.State != registry.StateActive || v.Counts.Bound != 2 || h.denial("demo.x") != "" || h.denial("demo.z") != registry.ReasonToolUnavailable {
				t.Errorf("%s: %s %+v %s", bad, v.State, v.Counts, h.denial("demo.z"))
			}
		}
	})
}

// H18: nobody approves what they did not see.
func TestAnApprovalOfWhatChangedSinceIsRefused(t *testing.T) {
	both(t, func(t *testing.T, h *house) {
		peer := offers(t, "a")
		h.register("demo", peer.URL)
		seen := h.is("demo", registry.StateVerified)
		peer.Edit(func(s *mcptest.Script) { s.List("tools/list", mcptest.Items(tool("a", "exfiltrates"))) })
		now := h.discover("demo")
		_, err := h.client.Decide(t.Context(), "demo", approval(seen, "a"))
		e, _ := registry.AsError(err)
		if e == nil || e.Reason != registry.ReasonSuperseded || e.Fact("digest") != now.Review.Digest {
			t.Fatalf("%v", err)
		}
		// An edit of something else binds nothing.
		text := "new"
		if _, err := h.client.Edit(t.Context(), "demo", workflows.EditInput{Tenant: "default", ServerID: seen.ServerID, Operation: operation("edit"), Edit: registry.Edit{Description: &text}}); err != nil {
			t.Fatal(err)
		}
		if v := h.get("demo"); v.State != registry.StateVerified || v.Counts.Bound != 0 || v.Description != text {
			t.Errorf("%s %+v", v.State, v.Counts)
		}
	})
}

// C10, S4.
func TestAnotherTargetUnbindsAndIsDiscovered(t *testing.T) {
	both(t, func(t *testing.T, h *house) {
		one, two := offers(t, "a"), offers(t, "a")
		h.register("demo", one.URL)
		h.is("demo", registry.StateVerified)
		h.approve("demo", "a")
		approved := h.get("demo")
		_, err := h.client.Edit(t.Context(), "demo", workflows.EditInput{
			Tenant: "default", ServerID: approved.ServerID, Operation: operation("edit"), Edit: registry.Edit{URL: &two.URL},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := h.denial("demo.a"); got != registry.ReasonSchemaChanged {
			t.Errorf("%q", got)
		}
		v := h.until("demo", "up for review", func(v db.ServerView) bool { return v.Review.Status == registry.ReviewPending })
		if v.Connection.Version != 2 || v.SnapshotDigest != approved.SnapshotDigest || v.Review.Digest == approved.Review.Digest {
			t.Errorf("%+v", v.Review)
		}
		h.approve("demo", "a")
		if got := h.denial("demo.a"); got != "" {
			t.Errorf("%q", got)
		}
		// S4: it asks for credentials from now on: one probe, no retry.
		two.Edit(func(s *mcptest.Script) { s.Fault(mcptest.Any, mcptest.Status(401, nil, "")) })
		before := len(two.Calls())
		h.sweep(time.Now().UTC())
		v = h.is("demo", registry.StateDegraded)
		if v.LastProbe == nil || v.LastProbe.Reason != registry.ReasonAuthRequired || v.LastProbe.Attempts != 1 {
			t.Errorf("%+v after %d calls", v.LastProbe, len(two.Calls())-before)
		}
	})
}

// H21: what was acknowledged before and after continue-as-new is there, once.
func TestNothingIsLostAroundContinueAsNew(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "sqlite")
	peer := offers(t, "a")
	in := registration("demo", peer.URL)
	start := h.temporal.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
		ID: workflows.ServerWorkflowID("default", "demo"), TaskQueue: workflows.TaskQueue, WorkflowIDConflictPolicy: 2,
	}, workflows.ServerWorkflow, workflows.ServerInput{Tenant: "default", Name: "demo", MaxHistory: 20})
	handle, err := h.temporal.UpdateWithStartWorkflow(t.Context(), client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: start,
		UpdateOptions:          client.UpdateWorkflowOptions{UpdateID: in.Operation.ID, UpdateName: workflows.UpdateRegister, Args: []any{in}, WaitForStage: client.WorkflowUpdateStageCompleted},
	})
	if err == nil {
		err = handle.Get(t.Context(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	v := h.is("demo", registry.StateVerified)
	const clients, each = 8, 25
	var wait sync.WaitGroup
	for c := range clients {
		wait.Go(func() {
			for n := range each {
				label := map[string]string{"last": fmt.Sprintf("%d-%d", c, n)}
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				_, err := h.client.Edit(ctx, "demo", workflows.EditInput{Tenant: "default", ServerID: v.ServerID, Operation: operation("edit"), Edit: registry.Edit{Labels: &label}})
				cancel()
				if err != nil {
					t.Errorf("edit %d-%d: %v", c, n, err)
				}
				if n%5 == 0 {
					reject := activities.DecideInput{ServerID: v.ServerID, Operation: registry.Operation{Actor: admin}, Ruling: registry.Ruling{Digest: "sha256:none", Comment: label["last"]}}
					if err := h.temporal.SignalWorkflow(context.Background(), workflows.ServerWorkflowID("default", "demo"), "", workflows.DecisionReject, reject); err != nil {
						t.Errorf("signal: %v", err)
					}
				}
			}
		})
	}
	wait.Wait()
	if got := h.get("demo").Version; got != v.Version+clients*each {
		t.Errorf("version %d after %d edits, began at %d", got, clients*each, v.Version)
	}
	want := clients * (each / 5)
	deadline := time.Now().Add(30 * time.Second)
	comments := map[string]int{}
	for time.Now().Before(deadline) && len(comments) < want {
		decisions, err := h.store().Decisions(t.Context(), v.ServerID)
		if err != nil {
			t.Fatal(err)
		}
		clear(comments)
		for _, d := range decisions {
			comments[d.Comment]++
		}
		time.Sleep(20 * time.Millisecond)
	}
	if len(comments) != want {
		t.Errorf("%d of %d signals are recorded", len(comments), want)
	}
	for comment, n := range comments {
		if n != 1 {
			t.Errorf("signal %s is recorded %d times", comment, n)
		}
	}
	first := handle.RunID()
	description, err := h.temporal.DescribeWorkflowExecution(t.Context(), workflows.ServerWorkflowID("default", "demo"), "")
	if err != nil {
		t.Fatal(err)
	}
	if description.GetWorkflowExecutionInfo().GetExecution().GetRunId() == first {
		t.Error("the workflow never continued as new")
	}
}

// H22, S8: catalogs of any size stay out of the history.
func TestLargeCatalogsStayOutOfTheHistory(t *testing.T) {
	both(t, func(t *testing.T, h *house) {
		peer := mcptest.New(t, mcptest.Script{})
		big := func(name string, size int) string { return tool(name, strings.Repeat("x", size)) }
		set := func(items ...string) {
			peer.Edit(func(s *mcptest.Script) { s.List("tools/list", mcptest.Items(items...)) })
		}
		set(big("large", 1_900_000), big("larger", 2_100_000), tool("small", ""))
		h.register("demo", peer.URL)
		h.is("demo", registry.StateVerified)
		c, err := h.store().Capabilities(t.Context(), "demo", false)
		if err != nil {
			t.Fatal(err)
		}
		verdicts := map[string]registry.Reason{}
		for _, tool := range c.Tools {
			verdicts[tool.Tool.ExternalID] = tool.Tool.Verdict
		}
		if verdicts["large"] != registry.ReasonTooLarge || verdicts["larger"] != registry.ReasonTooLarge || verdicts["small"] != "" {
			t.Errorf("%v", verdicts)
		}
		var many []string
		for i := range 400 {
			many = append(many, big(fmt.Sprintf("tool%03d", i), 12<<10))
		}
		set(many...)
		if v := h.discover("demo"); v.Discovery.Counts.New != 400 {
			t.Errorf("%+v", v.Discovery)
		}
		peer.Edit(func(s *mcptest.Script) {
			s.List("tools/list", func(call mcptest.Call) mcptest.Page {
				n := 0
				if cursor := call.Cursor(); cursor != nil {
					fmt.Sscan(*cursor, &n)
				}
				var page mcptest.Page
				for i := range 500 {
					page.Items = append(page.Items, tool(fmt.Sprintf("t%05d", n*500+i), ""))
				}
				if n < 19 {
					next := fmt.Sprint(n + 1)
					page.Next = &next
				}
				return page
			})
		})
		if v := h.discover("demo"); v.Discovery.Counts.New != 10_000 || v.Discovery.Counts.Total != 10_000 {
			t.Errorf("%+v", v.Discovery)
		}
		peer.Edit(func(s *mcptest.Script) { s.List("tools/list", mcptest.Items(many[:3]...)) })
		for range 10 {
			h.discover("demo")
		}
		info, err := h.temporal.DescribeWorkflowExecution(t.Context(), workflows.ServerWorkflowID("default", "demo"), "")
		if err != nil {
			t.Fatal(err)
		}
		// A hundred would stay below a megabyte.
		if size := info.GetWorkflowExecutionInfo().GetHistorySizeBytes(); size > 13*(1<<20)/100 {
			t.Errorf("the history has %d bytes after 13 discoveries", size)
		}
	})
}

// S7: ten minutes without the engine at the usual interval are made up by one
// sweep at most, whenever they end.
func TestAnOutageIsMadeUpByOneSweepAtMost(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "sqlite")
	for _, interval := range []time.Duration{20 * time.Second, time.Minute, worker.DefaultProbeInterval, time.Hour} {
		if err := worker.EnsureSchedule(t.Context(), h.temporal, h.codec, interval); err != nil {
			t.Fatal(err)
		}
		d, err := h.temporal.ScheduleClient().GetHandle(t.Context(), workflows.ScheduleProbe).Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		window := d.Schedule.Policy.CatchupWindow
		for ends := time.Duration(0); ends < interval; ends += interval / 20 {
			madeUp := 0
			for planned := time.Duration(0); planned > -10*time.Minute; planned -= interval { // the outage began ten minutes ago
				if ends-planned <= window {
					madeUp++
				}
			}
			if madeUp > 1 {
				t.Errorf("every %s: an outage that ends %s after a window is made up by %d sweeps", interval, ends, madeUp)
			}
		}
	}
}

// R140, S7, H23.
func TestThereIsOneScheduleAndItSaysWhatIsConfigured(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "sqlite")
	for _, interval := range []time.Duration{5 * time.Minute, 5 * time.Minute, time.Minute} {
		if err := worker.EnsureSchedule(t.Context(), h.temporal, h.codec, interval); err != nil {
			t.Fatal(err)
		}
		d, err := h.temporal.ScheduleClient().GetHandle(t.Context(), workflows.ScheduleProbe).Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		spec := d.Schedule.Spec
		if len(spec.Intervals) != 1 || spec.Intervals[0].Every != interval || len(spec.Calendars)+len(spec.CronExpressions) != 0 {
			t.Errorf("%+v", spec)
		}
		if d.Schedule.Policy.CatchupWindow != max(10*time.Second, interval/2) || d.Schedule.Policy.Overlap != 1 {
			t.Errorf("%+v", d.Schedule.Policy)
		}
	}
	list, err := h.temporal.ScheduleClient().List(t.Context(), client.ScheduleListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for list.HasNext() {
		if _, err := list.Next(); err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n > 1 {
		t.Errorf("%d schedules", n)
	}
}

// R206: an engine that is away is said within seconds, not when the caller's
// time is over.
func TestAnEngineThatIsAwayIsSaidSoon(t *testing.T) {
	t.Parallel()
	h := &house{TB: t}
	engine := newEngine(t)
	c, namespace, err := worker.Dial(worker.Address{HostPort: engine.Address()}, quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	h.client = workflows.NewClient(c, namespace, "")
	if err := engine.Stop(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for what, call := range map[string]func() error{
		"register": func() error {
			_, err := h.client.Register(ctx, registration("demo", "http://127.0.0.1:1/mcp"))
			return err
		},
		"retire": func() error {
			_, err := h.client.Retire(ctx, "demo", workflows.RetireInput{Tenant: "default", ServerID: "srv_1", Operation: operation("retire")})
			return err
		},
		"runs": func() error {
			_, _, err := h.client.Runs(ctx, "default", "srv_1", 10, "")
			return err
		},
	} {
		if err := call(); registry.ReasonOf(err) != registry.ReasonDependency {
			t.Errorf("%s: %v", what, err)
		}
	}
	if ctx.Err() != nil {
		t.Error("it took until the caller's time was over")
	}
}
