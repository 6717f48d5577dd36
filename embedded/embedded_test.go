package embedded

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
)

func TestAFileKeepsWorkflowsAndSchedulesOverARestart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "temporal ?#%41.db") // a URI would read some of these characters
	s := start(t, Options{DatabaseFile: file, SearchAttributes: attributes})
	c := dial(t, s)
	stopWorker := work(t, c)

	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID:                    "wait",
		TaskQueue:             queue,
		TypedSearchAttributes: temporal.NewSearchAttributes(tenant.ValueSet("acme")),
	}, wait)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ScheduleClient().Create(t.Context(), client.ScheduleOptions{
		ID:     "ticks",
		Spec:   client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: time.Second}}},
		Action: &client.ScheduleWorkflowAction{ID: "tick", TaskQueue: queue, Workflow: tick},
	}); err != nil {
		t.Fatal(err)
	}
	poll(t, "the workflow is found by its search attribute", func() bool {
		return count(t, c, `Tenant = "acme" AND ExecutionStatus = "Running"`) == 1
	})
	poll(t, "the schedule acts", func() bool { return ticks(t, c).Info.NumActions > 0 })

	// A stop in the middle of a task costs the ten seconds after which the task is given to another worker.
	schedule := c.ScheduleClient().GetHandle(t.Context(), "ticks")
	if err := schedule.Pause(t.Context(), client.SchedulePauseOptions{}); err != nil {
		t.Fatal(err)
	}
	poll(t, "the schedule pauses", func() bool { return ticks(t, c).Schedule.State.Paused })
	acted := ticks(t, c).Info.NumActions
	stopWorker()
	c.Close()
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("database file: mode %v, error %v; want 0600", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Dir(file) + "/*"); len(left) != 1 {
		t.Errorf("files after Stop: %v, want the database alone", left)
	}

	// The same port, and one more search attribute in the namespace that exists.
	more := map[string]enumspb.IndexedValueType{
		"Tenant": enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"Color":  enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	}
	s = start(t, Options{DatabaseFile: file, Listen: s.Address(), SearchAttributes: more})
	c = dial(t, s)
	work(t, c)

	poll(t, "the old search attribute still finds the workflow", func() bool { return count(t, c, `Tenant = "acme"`) == 1 })
	if err := c.SignalWorkflow(t.Context(), "wait", run.GetRunID(), "go", "on"); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := c.GetWorkflow(t.Context(), "wait", run.GetRunID()).Get(t.Context(), &got); err != nil || got != "went on" {
		t.Errorf("workflow after the restart: %q, %v; want %q", got, err, "went on")
	}
	schedule = c.ScheduleClient().GetHandle(t.Context(), "ticks")
	if err := schedule.Unpause(t.Context(), client.ScheduleUnpauseOptions{}); err != nil {
		t.Fatal(err)
	}
	poll(t, "the schedule goes on", func() bool { return ticks(t, c).Info.NumActions > acted })
	poll(t, "the new search attribute is indexed", func() bool { return count(t, c, `Color = "blue"`) == 1 })
}

func TestAServerInMemoryIsReadyWhenStartReturns(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Namespace: "mine", SearchAttributes: attributes})
	c, err := client.Dial(client.Options{HostPort: s.Address(), Namespace: "mine", Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()

	begin := time.Now()
	work(t, c)
	start := c.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
		ID:                       "wait",
		TaskQueue:                queue,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		TypedSearchAttributes:    temporal.NewSearchAttributes(tenant.ValueSet("acme")),
	}, wait)
	update, err := c.UpdateWithStartWorkflow(t.Context(), client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: start,
		UpdateOptions: client.UpdateWorkflowOptions{
			UpdateName: "go", Args: []any{"up"}, WaitForStage: client.WorkflowUpdateStageCompleted,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got string
	if err := update.Get(t.Context(), &got); err != nil || got != "went up" {
		t.Errorf("update: %q, %v; want %q", got, err, "went up")
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("the first update took %v", took)
	}

	description, err := c.WorkflowService().DescribeNamespace(t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	if got := description.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration(); got != retention {
		t.Errorf("retention %v, want %v", got, retention)
	}
}

func TestStopLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	s := start(t, Options{DatabaseFile: filepath.Join(t.TempDir(), "t.db"), UIListen: "127.0.0.1:0"})
	c := dial(t, s)
	work(t, c) // its polls are open when the server stops
	first := s.Stop()
	if second := s.Stop(); first != nil || second != nil {
		t.Errorf("Stop: %v, and again: %v", first, second)
	}
	for _, address := range []string{s.Address(), strings.TrimPrefix(s.UIURL(), "http://")} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Errorf("port after Stop: %v", err)
			continue
		}
		l.Close()
	}
	_, err := s.store.db.SelectFromNamespaceMetadata(context.Background())
	if err == nil || !strings.Contains(err.Error(), "database is closed") {
		t.Errorf("a statement after Stop: %v, want a closed database", err)
	}
}

func TestStartRefusesWhatItCannotServe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	if err := os.WriteFile(dir+"/text.db", []byte(strings.Repeat("no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, Options{DatabaseFile: dir + "/used.db"})
	if err := start(t, Options{DatabaseFile: dir + "/other.db", SearchAttributes: attributes}).Stop(); err != nil {
		t.Fatal(err)
	}

	tests := []struct {
		name    string
		options Options
		want    string
	}{
		{"a frontend for everybody", Options{Listen: "0.0.0.0:0"}, "not loopback"},
		{"a UI for everybody", Options{UIListen: ":8233"}, "no IP address"},
		{"a frontend port that is taken", Options{Listen: taken.Addr().String()}, "address already in use"},
		{"a UI port that is taken", Options{UIListen: taken.Addr().String()}, "address already in use"},
		{"a port that is no number", Options{Listen: "127.0.0.1:http"}, "no port"},
		{"a directory that does not exist", Options{DatabaseFile: dir + "/none/t.db"}, "no such file"},
		{"a file that is no database", Options{DatabaseFile: dir + "/text.db"}, "not a database"},
		{"a file that another server has open", Options{DatabaseFile: dir + "/used.db"}, "open in another server"},
		{"a search attribute that has another type", Options{
			DatabaseFile:     dir + "/other.db",
			SearchAttributes: map[string]enumspb.IndexedValueType{"Tenant": enumspb.INDEXED_VALUE_TYPE_INT},
		}, "is a Keyword already, not a Int"},
		{"more search attributes than columns", Options{SearchAttributes: map[string]enumspb.IndexedValueType{
			"A": enumspb.INDEXED_VALUE_TYPE_BOOL, "B": enumspb.INDEXED_VALUE_TYPE_BOOL,
			"C": enumspb.INDEXED_VALUE_TYPE_BOOL, "D": enumspb.INDEXED_VALUE_TYPE_BOOL,
		}}, "no column of type Bool is left"},
		{"a search attribute of Temporal's own", Options{SearchAttributes: map[string]enumspb.IndexedValueType{
			"WorkflowId": enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		}}, "belongs to Temporal"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, err := Start(t.Context(), test.options)
			if err == nil {
				s.Stop()
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Start: %v, want %q", err, test.want)
			}
		})
	}
}

func TestAStartThatIsGivenUpLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	file := filepath.Join(t.TempDir(), "t.db")
	if _, err := Start(ctx, Options{DatabaseFile: file, UIListen: "127.0.0.1:0"}); !errors.Is(err, context.Canceled) {
		t.Errorf("Start: %v, want %v", err, context.Canceled)
	}
	start(t, Options{DatabaseFile: file})
}

func TestAFileOfAnotherVersionIsRefused(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "t.db")
	s, err := openStore(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	admin, ok := s.db.(sqlplugin.AdminDB)
	if !ok {
		t.Fatalf("%T is no AdminDB", s.db)
	}
	if err := admin.UpdateSchemaVersion(schemaOwner, "0.1/0.1", "0.1/0.1"); err != nil {
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := openStore(t.Context(), file); err == nil || !strings.Contains(err.Error(), "version 0.1/0.1, and this build needs "+schemaVersion) {
		t.Errorf("openStore: %v", err)
	}
}

func TestWhatTemporalCallsFatalEndsTheStartOnly(t *testing.T) {
	t.Parallel()
	address, err := freePort(netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", address.String()) // after the port was chosen, as another process would
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	db, err := openStore(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.close()
	if err := db.register(t.Context(), "default", nil); err != nil {
		t.Fatal(err)
	}
	var logs journal
	s := &Server{address: address, store: db, log: newLogger(logs.logger())}
	if err := s.start(); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("start: %v, want a taken address", err)
	}
}

// What follows is the workflows of these tests, and small things they share.

const queue = "tests"

var (
	tenant     = temporal.NewSearchAttributeKeyKeyword("Tenant")
	color      = temporal.NewSearchAttributeKeyKeyword("Color")
	attributes = map[string]enumspb.IndexedValueType{"Tenant": enumspb.INDEXED_VALUE_TYPE_KEYWORD}
)

// wait ends when it is told to go, by signal or by update, and where to.
func wait(ctx workflow.Context) (string, error) {
	where := ""
	err := workflow.SetUpdateHandler(ctx, "go", func(ctx workflow.Context, to string) (string, error) {
		err := workflow.ExecuteActivity(short(ctx), went, to).Get(ctx, &where)
		return where, err
	})
	if err != nil {
		return "", err
	}
	workflow.Go(ctx, func(ctx workflow.Context) {
		var to string
		workflow.GetSignalChannel(ctx, "go").Receive(ctx, &to)
		_ = workflow.UpsertTypedSearchAttributes(ctx, color.ValueSet("blue"))
		_ = workflow.ExecuteActivity(short(ctx), went, to).Get(ctx, &where)
	})
	err = workflow.Await(ctx, func() bool { return where != "" && workflow.AllHandlersFinished(ctx) })
	return where, err
}

func went(_ context.Context, to string) (string, error) { return "went " + to, nil }

func tick(workflow.Context) error { return nil }

func short(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 10 * time.Second})
}

func work(t *testing.T, c client.Client) (stop func()) {
	t.Helper()
	// A task for a worker that went with the first server must not wait 5 s for it.
	w := worker.New(c, queue, worker.Options{StickyScheduleToStartTimeout: 200 * time.Millisecond})
	w.RegisterWorkflow(wait)
	w.RegisterWorkflow(tick)
	w.RegisterActivity(went)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(w.Stop)
	t.Cleanup(stop)
	return stop
}

// start starts a server that must not log anything.
func start(t *testing.T, o Options) *Server {
	t.Helper()
	var logs journal
	o.Logger = logs.logger()
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("Stop: %v", err)
		}
		if text := logs.String(); text != "" {
			t.Errorf("the server logged:\n%s", text)
		}
	})
	return s
}

func dial(t *testing.T, s *Server) client.Client {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: s.Address(), Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func count(t *testing.T, c client.Client, query string) int64 {
	t.Helper()
	response, err := c.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{Query: query})
	if err != nil {
		t.Fatal(err)
	}
	return response.GetCount()
}

func ticks(t *testing.T, c client.Client) *client.ScheduleDescription {
	t.Helper()
	description, err := c.ScheduleClient().GetHandle(t.Context(), "ticks").Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return description
}

func poll(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("20 s passed, and it is not so that %s", what)
		}
	}
}

// journal collects what a server logs.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

// quiet keeps the client's own log out of the tests' output.
type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}
