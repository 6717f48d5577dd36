package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	sdklog "go.temporal.io/sdk/log"
	sdkworker "go.temporal.io/sdk/worker"

	"countersign/activities"
	"countersign/aep"
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

// newEngine starts a Temporal server of the test's own, in memory.
func newEngine(t testing.TB) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(context.Background(), embedded.Options{SearchAttributes: worker.SearchAttributes(), Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop() })
	return s
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// house is an installation in this process: database, Temporal namespace,
// worker and client.
type house struct {
	testing.TB
	url       string // of the database
	db        *db.DB
	temporal  client.Client
	namespace string
	engine    string // address of the Temporal server
	client    workflows.Client
	acts      *activities.Activities
	worker    sdkworker.Worker
	codec     *workflows.Codec
	stop      func() // the worker
}

// newHouse builds an installation on a new database: "sqlite" or "postgres".
func newHouse(t testing.TB, kind string) *house {
	t.Helper()
	return newHouseWith(t, kind, nil)
}

// newHouseWith builds one whose workflow data a codec encrypts.
func newHouseWith(t testing.TB, kind string, codec *workflows.Codec) *house {
	t.Helper()
	url := "sqlite:" + filepath.Join(t.TempDir(), "c.db")
	if kind == "postgres" {
		url = dbtest.Template(t, func(dsn string) error {
			d, err := db.Open(context.Background(), db.Options{URL: dsn, Logger: quiet()})
			if err != nil {
				return err
			}
			defer d.Close()
			_, err = d.Up(context.Background())
			return err
		})
	}
	store, err := db.Open(t.Context(), db.Options{URL: url, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	if _, err := store.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	h := &house{TB: t, db: store, namespace: client.DefaultNamespace, codec: codec}
	h.engine = newEngine(t).Address()
	h.temporal = h.dial(h.engine)
	h.client = workflows.NewClient(h.temporal, h.namespace, "")
	guard := outbound.NewGuard(outbound.Options{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	h.url = url
	h.acts = &activities.Activities{
		DB: store, MCP: &mcpclient.Client{Guard: guard, Limits: registry.DefaultLimits}, Limits: registry.DefaultLimits,
		Extensions: &aep.Client{Guard: guard, Timeout: func() time.Duration { return 5 * time.Second }}, Servers: h.client,
		AcceptUnsigned: true, KeepSnapshots: 48 * time.Hour, KeepProbes: 24 * time.Hour, Log: quiet(),
	}
	h.start()
	return h
}

// dial makes a client whose identity names no machine, since it stands in
// every recorded history.
func (h *house) dial(address string) client.Client {
	h.Helper()
	return h.dialWith(address)
}

// dialWith makes one whose workers go through interceptors.
func (h *house) dialWith(address string, in ...interceptor.ClientInterceptor) client.Client {
	h.Helper()
	c, err := client.Dial(client.Options{
		HostPort: address, Namespace: h.namespace, Identity: "test", Logger: sdklog.NewStructuredLogger(quiet()), Interceptors: in,
		DataConverter: h.codec.DataConverter(), FailureConverter: h.codec.FailureConverter(),
	})
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(c.Close)
	return c
}

// start runs a worker until the test ends or stop is called.
func (h *house) start() (stop func()) {
	h.Helper()
	h.worker = worker.New(h.temporal, h.acts, worker.Options{StopTimeout: time.Millisecond})
	if err := h.worker.Start(); err != nil {
		h.Fatal(err)
	}
	h.stop = sync.OnceFunc(h.worker.Stop)
	h.Cleanup(h.stop)
	return h.stop
}

func (h *house) store() *db.Store { return h.db.Tenant("default") }

func (h *house) get(name string) db.ServerView {
	h.Helper()
	v, err := h.store().Server(context.Background(), name)
	if err != nil {
		h.Fatal(err)
	}
	return v
}

var admin = registry.Actor{Subject: "ann", Roles: []registry.Role{registry.RolePlatformAdmin}}

func operation(name string) registry.Operation {
	return registry.Operation{ID: uuid.NewString(), Name: name, Actor: admin, Origin: registry.OriginAPI}
}

// register registers a server and returns its id.
func (h *house) register(name, url string, edit ...func(*workflows.RegisterInput)) registry.Server {
	h.Helper()
	in := registration(name, url)
	for _, e := range edit {
		e(&in)
	}
	out, err := h.client.Register(h.Context(), in)
	if err != nil {
		h.Fatal(err)
	}
	return out.Server
}

func registration(name, url string) workflows.RegisterInput {
	id := uuid.Must(uuid.NewV7()).String()
	return workflows.RegisterInput{
		Registration: registry.Registration{
			TenantID: "default", ServerID: registry.ServerID(id), Name: name, Direction: registry.DirectionConsumed,
			Transport: registry.TransportStreamableHTTP, URL: url, Authentication: registry.AuthWorkloadIdentity,
			GovernancePolicyRef: registry.PolicyDefault, ProtocolVersion: "2026-07-28",
		},
		Operation: operation("register"), Key: id, BodyHash: "h-" + id,
	}
}

// discover runs a discovery to its end.
func (h *house) discover(name string) db.ServerView {
	h.Helper()
	op := operation("discover")
	d, err := h.client.Discover(h.Context(), name, workflows.BeginDiscoveryInput{
		Tenant: "default", ServerID: h.get(name).ServerID, Operation: op, Key: op.ID, BodyHash: "h",
	})
	if err == nil {
		err = h.client.Await(h.Context(), d)
	}
	if err != nil {
		h.Fatal(err)
	}
	return h.get(name)
}

func approval(v db.ServerView, tools ...string) workflows.DecideInput {
	a := &registry.Approval{Digest: v.Review.Digest, Empty: len(tools) == 0}
	for _, t := range tools {
		a.Tools = append(a.Tools, registry.ToolLine{Tool: t, Class: registry.ClassRead, Enable: true})
	}
	return workflows.DecideInput{
		Tenant: "default", ServerID: v.ServerID, Operation: operation("approve"), Ruling: registry.Ruling{Verb: registry.VerbApprove, Approval: a, Comment: "as it is"},
	}
}

func (h *house) approve(name string, tools ...string) {
	h.Helper()
	if _, err := h.client.Decide(h.Context(), name, approval(h.get(name), tools...)); err != nil {
		h.Fatal(err)
	}
}

func (h *house) retire(name string) {
	h.Helper()
	_, err := h.client.Retire(h.Context(), name, workflows.RetireInput{
		Tenant: "default", ServerID: h.get(name).ServerID, Operation: operation("retire"),
	})
	if err != nil {
		h.Fatal(err)
	}
}

// sweep probes everything once.
func (h *house) sweep(window time.Time) {
	h.Helper()
	run, err := h.temporal.ExecuteWorkflow(h.Context(), client.StartWorkflowOptions{
		ID: "sweep-" + uuid.NewString(), TaskQueue: workflows.TaskQueue,
	}, workflows.ProbeSweepWorkflow, workflows.SweepInput{Interval: 100 * time.Millisecond, Window: window})
	if err == nil {
		err = run.Get(h.Context(), nil)
	}
	if err != nil {
		h.Fatal(err)
	}
}

// until waits for a server to be as wanted.
func (h *house) until(name, what string, ok func(db.ServerView) bool) db.ServerView {
	h.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		v := h.get(name)
		if ok(v) {
			return v
		}
		if time.Now().After(deadline) {
			h.Fatalf("%s is not %s: %s %v, discovery %+v, review %+v", name, what, v.State, v.Causes, v.Discovery, v.Review)
		}
		time.Sleep(pause)
	}
}

func (h *house) is(name string, state registry.State) db.ServerView {
	h.Helper()
	return h.until(name, string(state), func(v db.ServerView) bool { return v.State == state })
}

// tool writes a tool's definition.
func tool(name, text string) string {
	return fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":{"type":"object"}}`, name, text)
}

// offers makes a peer that offers tools.
func offers(t testing.TB, names ...string) *mcptest.Server {
	s := mcptest.New(t, mcptest.Script{})
	offer(s, names...)
	return s
}

func offer(s *mcptest.Server, names ...string) {
	var items []string
	for _, n := range names {
		items = append(items, tool(n, "does "+n))
	}
	s.Edit(func(script *mcptest.Script) { script.List("tools/list", mcptest.Items(items...)) })
}

// denial is what resolve says; empty when the tool is callable.
func (h *house) denial(toolID string) registry.Reason {
	h.Helper()
	views, err := h.store().Resolve(h.Context(), []string{toolID})
	if err != nil {
		h.Fatal(err)
	}
	if d := views[toolID].Denial; d != nil {
		return d.Reason
	}
	return ""
}

// closed waits until a workflow has ended.
func (h *house) closed(id string) {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), time.Minute)
	defer cancel()
	err := h.temporal.GetWorkflow(ctx, id, "").Get(ctx, nil)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		h.Fatalf("workflow %s has not ended: %v", id, err)
	}
}
