package reconcile_test

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"countersign/activities"
	"countersign/cmd/internal/reconcile"
	"countersign/db"
	"countersign/db/dbtest"
	"countersign/embedded"
	"countersign/mcpclient"
	"countersign/mcptest"
	"countersign/outbound"
	"countersign/registry"
	"countersign/worker"
	"countersign/workflows"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// site is an installation whose database and Temporal can be changed for others.
type site struct {
	*testing.T
	db       *db.DB
	temporal client.Client
	client   workflows.Client
	stop     func() // the worker
}

func (s *site) open(url string) {
	s.Helper()
	var err error
	if s.db, err = db.Open(s.Context(), db.Options{URL: url, Logger: quiet()}); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { s.db.Close() })
	if _, err := s.db.Up(s.Context()); err != nil {
		s.Fatal(err)
	}
}

// engine gives the installation a Temporal that knows nothing.
func (s *site) engine() {
	s.Helper()
	e, err := embedded.Start(context.Background(), embedded.Options{SearchAttributes: worker.SearchAttributes(), Logger: quiet()})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = e.Stop() })
	if s.temporal, _, err = worker.Dial(worker.Address{HostPort: e.Address()}, quiet()); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(s.temporal.Close)
	s.client = workflows.NewClient(s.temporal, "", "")
}

func (s *site) work() {
	s.Helper()
	guard := outbound.NewGuard(outbound.Options{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	w := worker.New(s.temporal, &activities.Activities{
		DB: s.db, MCP: &mcpclient.Client{Guard: guard, Limits: registry.DefaultLimits}, Limits: registry.DefaultLimits, Log: quiet(),
	}, worker.Options{StopTimeout: time.Millisecond})
	if err := w.Start(); err != nil {
		s.Fatal(err)
	}
	stopped := false
	s.stop = func() {
		if !stopped {
			stopped = true
			w.Stop()
		}
	}
	s.Cleanup(s.stop)
}

// differ gives what differs, as "kind name", and the reconciler.
func (s *site) differ(deep bool) ([]string, []reconcile.Difference, reconcile.Reconciler) {
	s.Helper()
	r := reconcile.Reconciler{
		DB: s.db, Workflows: s.client, Temporal: s.temporal, Interval: time.Hour, Settle: 300 * time.Millisecond, Deep: deep,
	}
	all, err := r.Look(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	var out []string
	for _, d := range all {
		out = append(out, string(d.Kind)+" "+d.Name)
	}
	slices.Sort(out)
	return out, all, r
}

// repairs wants these differences, and none after they are repaired.
func (s *site) repairs(deep bool, want ...string) {
	s.Helper()
	got, all, r := s.differ(deep)
	if diff := cmp.Diff(want, got); diff != "" {
		s.Fatalf("what differs:\n%s\n%+v", diff, all)
	}
	r.Repair(s.Context(), all)
	for _, d := range all {
		if !d.Repaired || d.Fault != "" {
			s.Errorf("%s of %s is not repaired: %s", d.Kind, d.Name, d.Fault)
		}
	}
	s.until("nothing differs", func() bool {
		got, _, _ := s.differ(false)
		return len(got) == 0
	})
}

func (s *site) until(what string, ok func() bool) {
	s.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("%s: not in time", what)
		}
	}
}

func (s *site) get(name string) db.ServerView {
	s.Helper()
	v, err := s.db.Tenant("default").Server(s.Context(), name)
	if err != nil {
		s.Fatal(err)
	}
	return v
}

func operation(name string) registry.Operation {
	return registry.Operation{
		ID: uuid.NewString(), Name: name, Origin: registry.OriginAPI,
		Actor: registry.Actor{Subject: "ann", Roles: []registry.Role{registry.RolePlatformAdmin}},
	}
}

// register registers a server and waits for the end of its first discovery.
func (s *site) register(name, url string) {
	s.Helper()
	id := uuid.Must(uuid.NewV7()).String()
	if _, err := s.client.Register(s.Context(), workflows.RegisterInput{
		Registration: registry.Registration{
			TenantID: "default", ServerID: registry.ServerID(id), Name: name, Direction: registry.DirectionConsumed,
			Transport: registry.TransportStreamableHTTP, URL: url, Authentication: registry.AuthWorkloadIdentity,
			GovernancePolicyRef: registry.PolicyDefault, ProtocolVersion: "2026-07-28",
		},
		Operation: operation("register"), Key: id, BodyHash: "h-" + id,
	}); err != nil {
		s.Fatal(err)
	}
	s.until("the discovery of "+name+" ends", func() bool { return s.get(name).Discovery.Status != registry.DiscoveryRunning })
}

func (s *site) approve(name string) {
	s.Helper()
	v := s.get(name)
	if _, err := s.client.Decide(s.Context(), name, workflows.DecideInput{
		Tenant: "default", ServerID: v.ServerID, Operation: operation("approve"),
		Ruling: registry.Ruling{Verb: registry.VerbApprove, Approval: &registry.Approval{Digest: v.Review.Digest, Tools: []registry.ToolLine{
			{Tool: "echo", Class: registry.ClassRead, Enable: true},
		}}, Comment: "as it is"},
	}); err != nil {
		s.Fatalf("%s: %v", name, err)
	}
	if got := s.get(name).State; got != registry.StateActive {
		s.Fatalf("%s is %s", name, got)
	}
}

func (s *site) retire(name string) {
	s.Helper()
	if _, err := s.client.Retire(s.Context(), name, workflows.RetireInput{
		Tenant: "default", ServerID: s.get(name).ServerID, Operation: operation("retire"),
	}); err != nil {
		s.Fatalf("%s: %v", name, err)
	}
}

// discover runs a discovery to its end and gives its number.
func (s *site) discover(name string) int64 {
	s.Helper()
	op := operation("discover")
	d, err := s.client.Discover(s.Context(), name, workflows.BeginDiscoveryInput{
		Tenant: "default", ServerID: s.get(name).ServerID, Operation: op, Key: op.ID, BodyHash: "h",
	})
	if err == nil {
		err = s.client.Await(s.Context(), d)
	}
	if err != nil {
		s.Fatalf("%s: %v", name, err)
	}
	s.until("the discovery of "+name+" is recorded", func() bool { return s.get(name).Discovery.Status == registry.DiscoverySucceeded })
	return d.Number
}

func (s *site) describe(name, text string) {
	s.Helper()
	if _, err := s.client.Edit(s.Context(), name, workflows.EditInput{
		Tenant: "default", ServerID: s.get(name).ServerID, Operation: operation("edit"), Edit: registry.Edit{Description: &text},
	}); err != nil {
		s.Fatalf("%s: %v", name, err)
	}
}

func peer(t *testing.T) *mcptest.Server {
	t.Helper()
	var script mcptest.Script
	script.List("tools/list", mcptest.Items(`{"name":"echo","description":"echoes","inputSchema":{"type":"object"}}`))
	return mcptest.New(t, script)
}

// The database was restored, or kept, and Temporal is a new one: every server
// goes on where its row is.
func TestADatabaseWithoutItsTemporal(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, at := &site{T: t}, peer(t)
			if kind == "postgres" {
				s.open(dbtest.Postgres(t))
			} else {
				s.open("sqlite:" + filepath.Join(t.TempDir(), "c.db"))
			}
			s.engine()
			s.work()
			closed := peer(t)
			closed.Close()
			for _, name := range []string{"active", "verified", "retired"} {
				s.register(name, at.URL)
			}
			s.register("away", closed.URL)
			s.approve("active")
			s.retire("retired")
			if err := worker.EnsureSchedule(t.Context(), s.temporal, nil, time.Hour); err != nil {
				t.Fatal(err)
			}
			if got, all, _ := s.differ(true); len(got) > 0 {
				t.Fatalf("before the loss differ %+v", all)
			}
			s.stop()

			s.engine()
			s.repairs(false, "schedule_missing handshake-probe", "workflow_missing active", "workflow_missing away", "workflow_missing verified")
			s.work()
			if got, all, _ := s.differ(true); len(got) > 0 {
				t.Errorf("after the repair differ %+v", all)
			}
			s.approve("verified")
			if n := s.discover("active"); n != 2 {
				t.Errorf("the next discovery has the number %d", n)
			}
			s.retire("active")
			// The retry of a first discovery that failed is a minute off.
			d, err := s.temporal.DescribeWorkflowExecution(t.Context(), workflows.ServerWorkflowID("default", "away"), "")
			if err != nil || d.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
				t.Errorf("%v %v", d, err)
			}
			events := s.temporal.GetWorkflowHistory(t.Context(), workflows.ServerWorkflowID("default", "away"), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
			timers := 0
			for events.HasNext() {
				event, err := events.Next()
				if err != nil {
					t.Fatal(err)
				}
				if timer := event.GetTimerStartedEventAttributes(); timer != nil && timer.GetStartToFireTimeout().AsDuration() <= time.Minute {
					timers++
				}
			}
			if timers != 1 {
				t.Errorf("%d timers were set for the retry", timers)
			}
		})
	}
}

// Temporal was kept, and the database restored from a backup of before: what the
// workflows know more than the rows is forgotten.
func TestATemporalWithADatabaseOfBefore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, backup := filepath.Join(dir, "c.db"), filepath.Join(dir, "backup.db")
	s, at := &site{T: t}, peer(t)
	s.open("sqlite:" + file)
	s.engine()
	s.work()
	if err := worker.EnsureSchedule(t.Context(), s.temporal, nil, time.Hour); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kept", "old", "gone", "same"} {
		s.register(name, at.URL)
	}
	s.approve("kept")
	s.stop()
	s.db.Close()
	copied(t, file, backup)

	s.open("sqlite:" + file)
	s.work()
	s.describe("kept", "as it is now")
	if n := s.discover("kept"); n != 2 {
		t.Fatalf("discovery %d", n)
	}
	s.approve("old")
	s.retire("gone")
	s.register("later", at.URL)
	s.stop()
	s.db.Close()
	copied(t, backup, file)

	s.open("sqlite:" + file)
	s.work()
	s.repairs(true, "state_differs kept", "state_differs old", "workflow_missing gone", "workflow_stray later")
	if got, all, _ := s.differ(true); len(got) > 0 {
		t.Errorf("after the repair differ %+v", all)
	}
	s.describe("kept", "as it is after")
	// The number 2 is one that Temporal knows already.
	if n, after := s.discover("kept"), s.get("kept").Discovery.Number; n != 2 || after != 3 {
		t.Errorf("discovery %d, and then %d", n, after)
	}
	s.approve("old")
	s.retire("gone")
	s.register("later", at.URL)
	if got := s.get("later").State; got != registry.StateVerified {
		t.Errorf("later is %s", got)
	}
}

// A discovery that ran when Temporal was lost is begun again.
func TestADiscoveryThatWasLostIsBegunAgain(t *testing.T) {
	t.Parallel()
	s, at := &site{T: t}, peer(t)
	s.open("sqlite:" + filepath.Join(t.TempDir(), "c.db"))
	s.engine()
	s.work()
	s.register("x", at.URL)
	at.Edit(func(script *mcptest.Script) { script.Fault("tools/list", mcptest.Hang()) })
	op := operation("discover")
	if _, err := s.client.Discover(t.Context(), "x", workflows.BeginDiscoveryInput{
		Tenant: "default", ServerID: s.get("x").ServerID, Operation: op, Key: op.ID, BodyHash: "h",
	}); err != nil {
		t.Fatal(err)
	}
	s.stop()
	at.Edit(func(script *mcptest.Script) { script.Fault("tools/list", nil) })
	s.engine()
	s.repairs(false, "schedule_missing handshake-probe", "workflow_missing x")
	s.work()
	s.until("it is discovered", func() bool {
		d := s.get("x").Discovery
		return d.Status == registry.DiscoverySucceeded && d.Number == 3
	})
}

func copied(t *testing.T, from, to string) {
	t.Helper()
	raw, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, beside := range []string{"-wal", "-shm"} {
		_ = os.Remove(to + beside) // of the file before
	}
	if err := os.WriteFile(to, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Schedules: a second one that starts sweeps, and one that says something else.
func TestSchedulesAreReconciled(t *testing.T) {
	t.Parallel()
	s := &site{T: t}
	s.open("sqlite:" + filepath.Join(t.TempDir(), "c.db"))
	s.engine()
	if err := worker.EnsureSchedule(t.Context(), s.temporal, nil, 2*time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := s.temporal.ScheduleClient().Create(t.Context(), client.ScheduleOptions{
		ID: "handshake-probe-old", Paused: true, Spec: client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: time.Hour}}},
		Action: &client.ScheduleWorkflowAction{ID: "old", Workflow: workflows.ProbeSweepWorkflow, TaskQueue: workflows.TaskQueue},
	}); err != nil {
		t.Fatal(err)
	}
	s.until("the index has both", func() bool { got, _, _ := s.differ(false); return len(got) == 2 })
	s.repairs(false, "schedule_differs handshake-probe", "schedule_stray handshake-probe-old")
}
