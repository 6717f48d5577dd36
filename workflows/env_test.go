package workflows_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/testsuite"

	"countersign/activities"
	"countersign/db"
	"countersign/mcpclient"
	"countersign/registry"
	"countersign/worker"
	"countersign/workflows"
)

// peer stands for the MCP server, where the wire leaves the house.
type peer struct {
	mu      sync.Mutex
	surface registry.Surface
	err     error
	looks   int
	met     registry.Target // by the last look
	hold    chan struct{}   // when not nil, a look waits for it or for its context
}

func (p *peer) Discover(ctx context.Context, target registry.Target, _ string, _ func(string)) (registry.Surface, mcpclient.Report, error) {
	p.mu.Lock()
	p.looks++
	p.met = target
	hold := p.hold
	p.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return registry.Surface{}, mcpclient.Report{}, ctx.Err()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.surface, mcpclient.Report{}, p.err
}

func (p *peer) Probe(context.Context, registry.Target, string) (mcpclient.ProbeResult, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return mcpclient.ProbeResult{Surface: p.surface, Listed: p.err == nil}, p.err
}

func (p *peer) offers(tools ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = nil
	p.surface = registry.Surface{ProtocolVersion: "2026-07-28", Name: "peer", Kinds: []string{"tools"}}
	for _, t := range tools {
		p.surface.Tools = append(p.surface.Tools, fmt.Appendf(nil, `{"name":%q,"inputSchema":{"type":"object"}}`, t))
	}
}

func (p *peer) fails(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

func (p *peer) seen() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.looks
}

// house is a database with activities on it.
type house struct {
	*testing.T
	db   *db.DB
	peer *peer
	acts *activities.Activities
}

func newHouse(t *testing.T) *house {
	t.Helper()
	store, err := db.Open(t.Context(), db.Options{URL: "sqlite:" + filepath.Join(t.TempDir(), "c.db"), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	if _, err := store.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := &peer{}
	p.offers("a", "b")
	return &house{T: t, db: store, peer: p, acts: &activities.Activities{
		DB: store, MCP: p, Limits: registry.DefaultLimits, Log: slog.New(slog.DiscardHandler),
	}}
}

func (h *house) server(name string) registry.Server {
	h.Helper()
	v, err := h.db.Tenant("default").Server(context.Background(), name)
	if err != nil {
		h.Fatal(err)
	}
	return v.Server
}

const serverID = "srv_0190b8a0000070008000000000000001"

var admin = registry.Actor{Subject: "ann", Roles: []registry.Role{registry.RolePlatformAdmin}}

func registration() activities.RegisterInput {
	return activities.RegisterInput{
		Registration: registry.Registration{
			TenantID: "default", ServerID: serverID, Name: "demo", Direction: registry.DirectionConsumed,
			Transport: registry.TransportStreamableHTTP, URL: "http://127.0.0.1:1/mcp", Authentication: registry.AuthWorkloadIdentity,
			GovernancePolicyRef: registry.PolicyDefault, ProtocolVersion: "2026-07-28",
		},
		Operation: registry.Operation{ID: "op-register", Name: "register", Actor: admin, Origin: registry.OriginAPI},
		Key:       "k", BodyHash: "h",
	}
}

// play runs the Server workflow in skipped time. Steps happen at their time.
type play struct {
	*house
	env *testsuite.TestWorkflowEnvironment
	n   int
}

func (h *house) play() *play {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetFailureConverter(workflows.FailureConverter())
	worker.RegisterWorkflows(env)
	env.RegisterActivity(h.acts)
	env.SetTestTimeout(time.Minute)
	return &play{house: h, env: env}
}

// at does something at a time after the start.
func (p *play) at(when time.Duration, do func()) { p.env.RegisterDelayedCallback(do, when) }

// update sends an update and hands its outcome on.
func (p *play) update(name, id string, in any, done func(out any, err error)) {
	p.Helper()
	if done == nil {
		done = func(_ any, err error) {
			if err != nil {
				p.Errorf("%s: %v", name, err)
			}
		}
	}
	p.env.UpdateWorkflow(name, id, &testsuite.TestUpdateCallback{
		OnAccept:   func() {},
		OnReject:   func(err error) { done(nil, err) },
		OnComplete: done,
	}, in)
}

func (p *play) register() {
	p.update(workflows.UpdateRegister, "op-register", registration(), nil)
}

func (p *play) op(name string) registry.Operation {
	p.n++
	return registry.Operation{ID: fmt.Sprintf("op-%s-%d", name, p.n), Name: name, Actor: admin, Origin: registry.OriginAPI}
}

func (p *play) approval(tools ...string) activities.DecideInput {
	p.Helper()
	a := &registry.Approval{Digest: p.server("demo").Review.Digest}
	for _, t := range tools {
		a.Tools = append(a.Tools, registry.ToolLine{Tool: t, Class: registry.ClassRead, Enable: true})
	}
	return activities.DecideInput{Tenant: "default", ServerID: serverID, Operation: p.op("approve"), Ruling: registry.Ruling{Verb: registry.VerbApprove, Approval: a}}
}

func (p *play) approve(tools ...string) {
	in := p.approval(tools...)
	p.update(workflows.DecisionApprove, in.Operation.ID, in, nil)
}

func (p *play) retire() {
	op := p.op("retire")
	p.update(workflows.UpdateRetire, op.ID, activities.RetireInput{Tenant: "default", ServerID: serverID, Operation: op}, nil)
}

// run plays it all and wants the workflow to have ended well.
func (p *play) run() {
	p.Helper()
	p.env.ExecuteWorkflow(workflows.ServerWorkflow, workflows.ServerInput{Tenant: "default", Name: "demo"})
	if !p.env.IsWorkflowCompleted() {
		p.Fatal("the workflow has not ended")
	}
	if err := p.env.GetWorkflowError(); err != nil {
		p.Fatal(err)
	}
}

func (p *play) is(want registry.State) {
	p.Helper()
	if got := p.server("demo"); got.State != want {
		p.Errorf("the server is %s %v (%s), want %s", got.State, got.Causes, got.Discovery.Message, want)
	}
}
