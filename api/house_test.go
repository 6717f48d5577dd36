package api

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"countersign/db"
	"countersign/policy"
	"countersign/registry"
	"countersign/workflows"
)

// The two tenants of every house.
const (
	alpha = "alpha"
	beta  = "beta"
)

// house is the API on a listener of its own, over a real database.
type house struct {
	url    string
	db     *db.DB
	flows  *flows
	logs   *lockedBuffer
	api    *Handler
	issuer *testIssuer
}

// lockedBuffer is a log that tests read while it is written.
type lockedBuffer struct {
	sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.Lock()
	defer b.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.Lock()
	defer b.Unlock()
	return b.Buffer.String()
}

// tokenOf is the token of a role in a tenant; "Executor" has the internal scope
// and no role.
func tokenOf(tenant string, role registry.Role) string {
	return "token-of-" + tenant + "-" + string(role) + "-for-tests"
}

const executor registry.Role = "Executor"

func admin(tenant string) string { return tokenOf(tenant, registry.RolePlatformAdmin) }

// installation is what the operator of a house allows.
var installation = registry.Installation{
	AllowNoneExceptions: true, ConnectionNetworks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
}

// open makes a house; with changes the options.
func open(t *testing.T, with ...func(*Options)) *house {
	t.Helper()
	ctx := t.Context()
	d, err := db.Open(ctx, db.Options{URL: "sqlite:" + filepath.Join(t.TempDir(), "house.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := d.Up(ctx); err != nil {
		t.Fatal(err)
	}
	var tokens []Token
	for _, tenant := range []string{alpha, beta} {
		for _, role := range registry.Roles() {
			tokens = append(tokens, Token{Token: tokenOf(tenant, role), Tenant: tenant, Subject: strings.ToLower(string(role)), Roles: []registry.Role{role}})
		}
		tokens = append(tokens, Token{Token: tokenOf(tenant, executor), Tenant: tenant, Subject: "executor", Scopes: []registry.Scope{registry.ScopeInternal}})
	}
	issuer := newTestIssuer(t)
	auth, err := NewAuthenticator(AuthOptions{Tokens: tokens, Issuers: []Issuer{issuer.trusted()}, Client: issuer.server.Client(), Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	h := &house{issuer: issuer, db: d, flows: &flows{db: d, ended: map[string]chan struct{}{}}, logs: &lockedBuffer{}}
	o := Options{
		DB: d, Workflows: h.flows, Auth: auth, Installation: installation,
		Log: slog.New(slog.NewJSONHandler(h.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, change := range with {
		change(&o)
	}
	if h.api, err = New(o); err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.url = "http://" + listener.Addr().String()
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- Serve(serving, listener, h.api) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return h
}

// flows stand for the workflows: they bring each change to the database at
// once, as the activities do.
type flows struct {
	db *db.DB

	mu      sync.Mutex
	asked   []string // what was asked of them
	ended   map[string]chan struct{}
	refuse  error // what they answer everything with
	panics  bool
	report  workflows.TestReport
	tested  workflows.ProviderTestReport
	allRuns int
	lines   int              // of the last approval
	broken  map[string]error // what changes of single servers are answered with
}

func (f *flows) refuses(serverID string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.broken[serverID]
}

func (f *flows) ask(what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, what)
	if f.panics {
		panic("a test wants this")
	}
	return f.refuse
}

// took gives what was asked since it was called last.
func (f *flows) took() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.asked
	f.asked = nil
	return out
}

func (f *flows) Register(ctx context.Context, in workflows.RegisterInput) (workflows.RegisterOutput, error) {
	if err := f.ask("register"); err != nil {
		return workflows.RegisterOutput{}, err
	}
	if in.Registration.CommandRef != "" {
		in.Registration.Command = command(in.Registration.CommandRef)
	}
	applied, err := f.db.Tenant(in.Registration.TenantID).Register(ctx, in.Registration, in.Operation,
		&db.Claim{Operation: "register", Key: in.Key, BodyHash: in.BodyHash})
	return workflows.RegisterOutput{Server: applied.Server, Replayed: applied.Replayed}, err
}

func (f *flows) apply(ctx context.Context, tenant string, change db.Change) (registry.Server, error) {
	applied, err := f.db.Tenant(tenant).Apply(ctx, change)
	return applied.Server, err
}

// governed lets a change ask the policy of its server, as the activities do.
func governed(change func(*registry.Record, time.Time) error) func(*registry.Record, time.Time) error {
	return func(r *registry.Record, now time.Time) error {
		p, err := policy.NewCache(1).Of(r)
		if err != nil {
			return err
		}
		r.Governance = p.Governance()
		return change(r, now)
	}
}

func always(*registry.Server) bool { return true }

func (f *flows) Decide(ctx context.Context, _ string, in workflows.DecideInput) (registry.Server, error) {
	if in.Ruling.Approval != nil {
		f.mu.Lock()
		f.lines = len(in.Ruling.Approval.Tools)
		f.mu.Unlock()
	}
	if err := f.ask(string(in.Ruling.Verb)); err != nil {
		return registry.Server{}, err
	}
	return f.apply(ctx, in.Tenant, db.Change{
		ServerID: in.ServerID, Operation: in.Operation, Catalog: always,
		Decisions: in.Ruling.Verb == registry.VerbWithdrawApproval, Stated: func(r *registry.Record) []string {
			if in.Ruling.Approval != nil {
				return in.Ruling.Approval.Definitions(r.Snapshot)
			}
			return r.VotedDefinitions()
		},
		Apply: governed(func(r *registry.Record, now time.Time) error { return r.Decide(in.Ruling, in.Operation, now) }),
	})
}

func (f *flows) Edit(ctx context.Context, _ string, in workflows.EditInput) (registry.Server, error) {
	if err := f.ask("edit"); err != nil {
		return registry.Server{}, err
	}
	if in.Edit.CommandRef != nil {
		in.Edit.Command = command(*in.Edit.CommandRef)
	}
	return f.apply(ctx, in.Tenant, db.Change{
		ServerID: in.ServerID, Operation: in.Operation, Catalog: always,
		Apply: func(r *registry.Record, now time.Time) error { return r.Edit(in.Edit, in.Operation, now) },
	})
}

func (f *flows) SetEnabled(ctx context.Context, _ string, in workflows.SetEnabledInput) (registry.Server, error) {
	if err := f.ask("set_enabled"); err != nil {
		return registry.Server{}, err
	}
	if err := f.refuses(in.ServerID); err != nil {
		return registry.Server{}, err
	}
	in.Operation.Name = "set_enabled" // as the activity does
	return f.apply(ctx, in.Tenant, db.Change{
		ServerID: in.ServerID, Operation: in.Operation, Catalog: always,
		Apply: func(r *registry.Record, _ time.Time) error {
			if len(in.Tools) > 0 {
				return r.SetAllEnabled(in.Tools, in.Enabled)
			}
			return r.SetEnabled(in.Tool, in.Enabled)
		},
	})
}

func (f *flows) RequireApproval(ctx context.Context, _ string, in workflows.RequireApprovalInput) (registry.Server, error) {
	if err := f.ask("require_approval"); err != nil {
		return registry.Server{}, err
	}
	return f.apply(ctx, in.Tenant, db.Change{
		ServerID: in.ServerID, Operation: in.Operation, Catalog: always,
		Apply: func(r *registry.Record, _ time.Time) error { return r.RequireApproval(in.Tools, in.Required) },
	})
}

func (f *flows) Retire(ctx context.Context, _ string, in workflows.RetireInput) (registry.Server, error) {
	if err := f.ask("retire"); err != nil {
		return registry.Server{}, err
	}
	return f.apply(ctx, in.Tenant, db.Change{
		ServerID: in.ServerID, Operation: in.Operation,
		Apply: func(r *registry.Record, now time.Time) error {
			if err := registry.CheckEtag(in.Etag, r.Server.Version); err != nil {
				return err
			}
			return r.Retire(in.Operation, in.Comment, now)
		},
	})
}

func (f *flows) Discover(ctx context.Context, name string, in workflows.BeginDiscoveryInput) (workflows.StartedDiscovery, error) {
	if err := f.ask("discover"); err != nil {
		return workflows.StartedDiscovery{}, err
	}
	in.Operation.Name = "begin_discovery" // as the workflow does
	applied, err := f.db.Tenant(in.Tenant).Apply(ctx, db.Change{
		ServerID: in.ServerID, Operation: in.Operation,
		Claim: &db.Claim{
			Operation: "discover", Key: in.Key, BodyHash: in.BodyHash,
			Answer: func(s *registry.Server) string { return strconv.FormatInt(s.Discovery.Number, 10) },
		},
		Apply: func(r *registry.Record, _ time.Time) error { return r.BeginDiscovery(0, in.Operation.Actor) },
	})
	if err != nil {
		return workflows.StartedDiscovery{}, err
	}
	number, err := strconv.ParseInt(applied.Answer, 10, 64)
	return workflows.StartedDiscovery{
		Run:    workflows.Run{WorkflowID: "discovery/" + in.Tenant + "/" + in.ServerID + "/" + applied.Answer, Type: "Discovery"},
		Number: number, Replayed: applied.Replayed,
	}, err
}

func (f *flows) EditConnection(ctx context.Context, in workflows.EditConnectionInput) (workflows.ConnectionOutput, error) {
	if err := f.ask("edit connection " + in.Name); err != nil {
		return workflows.ConnectionOutput{}, err
	}
	var claim *db.Claim
	if in.Key != "" {
		claim = &db.Claim{Operation: in.Operation.Name, Key: in.Key, BodyHash: in.BodyHash}
	}
	c, replayed, err := f.db.Tenant(in.Tenant).EditConnection(ctx, in.Name, in.Edit, in.Operation, claim,
		func(next registry.Connection) error { return next.Check(installation) })
	return workflows.ConnectionOutput{Connection: c, Replayed: replayed}, err
}

func (f *flows) SaveProvider(ctx context.Context, in workflows.SaveProviderInput) (workflows.ProviderOutput, error) {
	if err := f.ask(in.Operation.Name + " " + in.Name); err != nil {
		return workflows.ProviderOutput{}, err
	}
	var claim *db.Claim
	if in.Key != "" {
		claim = &db.Claim{Operation: in.Operation.Name, Key: in.Key, BodyHash: in.BodyHash}
	}
	store := f.db.Tenant(in.Tenant)
	if in.Create != nil {
		p, replayed, err := store.CreateProvider(ctx, in.Name, *in.Create, in.Operation, claim)
		return workflows.ProviderOutput{Provider: p, Replayed: replayed}, err
	}
	p, replayed, err := store.EditProvider(ctx, in.Name, in.Edit, in.Operation, claim, func(c registry.ProviderConfig) error { return c.Check(installation) })
	return workflows.ProviderOutput{Provider: p, Replayed: replayed}, err
}

func (f *flows) RefreshProvider(ctx context.Context, in workflows.BeginRefreshInput) (workflows.ProviderOutput, workflows.Run, error) {
	if err := f.ask("refresh provider " + in.Name); err != nil {
		return workflows.ProviderOutput{}, workflows.Run{}, err
	}
	p, err := f.db.Tenant(in.Tenant).BeginRefresh(ctx, in.Name, in.Running, in.Operation)
	return workflows.ProviderOutput{Provider: p}, workflows.Run{WorkflowID: "provider/" + in.Tenant + "/" + in.Name, Type: "ProviderRefresh"}, err
}

func (f *flows) TestProvider(_ context.Context, in workflows.TestProviderInput) (workflows.ProviderTestReport, error) {
	if err := f.ask("test provider " + in.Name); err != nil {
		return workflows.ProviderTestReport{}, err
	}
	return f.tested, nil
}

func (f *flows) ApplyPolicy(ctx context.Context, in workflows.PolicyChangeInput) error {
	if err := f.ask("apply policy " + in.Ref); err != nil {
		return err
	}
	store := f.db.Tenant(in.Tenant)
	users, err := store.PolicyUsers(ctx, registry.PolicyRef{Name: in.Name, Version: in.Version}, true, "", 1000)
	for _, user := range users {
		_, err := f.apply(ctx, in.Tenant, db.Change{
			ServerID: user.ServerID, Operation: registry.Operation{ID: "policy/" + in.Digest, Name: "reevaluate"}, Catalog: always,
			Decisions: true, Stated: (*registry.Record).BoundDefinitions,
			Apply: governed(func(r *registry.Record, now time.Time) error { _, err := r.Reevaluate(now); return err }),
		})
		if err != nil {
			return err
		}
	}
	return err
}

// end lets all discoveries end that are waited for.
func (f *flows) end(workflowID string) chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended[workflowID] == nil {
		f.ended[workflowID] = make(chan struct{})
	}
	return f.ended[workflowID]
}

func (f *flows) AwaitRun(ctx context.Context, run workflows.Run) error {
	select {
	case <-f.end(run.WorkflowID):
		return nil
	case <-ctx.Done():
		return registry.Errorf(registry.ReasonDeadline, "the caller's time is over")
	}
}

func (f *flows) Test(context.Context, workflows.TestInput) (workflows.TestReport, error) {
	err := f.ask("test")
	return f.report, err
}

func (f *flows) Runs(_ context.Context, tenant, serverID string, size int, token string) ([]workflows.Run, string, error) {
	if err := f.ask("runs"); err != nil {
		return nil, "", err
	}
	first, _ := strconv.Atoi(token)
	var runs []workflows.Run
	for i := first; i < f.allRuns && len(runs) < size; i++ {
		runs = append(runs, workflows.Run{WorkflowID: "server/" + tenant + "/" + serverID, RunID: strconv.Itoa(i)})
	}
	if first+len(runs) < f.allRuns {
		return runs, strconv.Itoa(first + len(runs)), nil
	}
	return runs, "", nil
}

// surface is what the servers of tests offer.
func surface(tools ...string) registry.Surface {
	s := registry.Surface{
		ProtocolVersion: "2026-07-28", Name: "test", Version: "1", Instructions: "Be careful.", Kinds: []string{"prompts", "resources", "tools"},
		Resources: [][]byte{[]byte(`{"uri":"file:///readme","name":"readme","title":"Read me"}`)},
		Templates: [][]byte{[]byte(`{"uriTemplate":"file:///{path}","name":"files"}`)},
		Prompts:   [][]byte{[]byte(`{"name":"greet","description":"Says hello"}`)},
	}
	for _, name := range tools {
		s.Tools = append(s.Tools, fmt.Appendf(nil, `{"name":%q,"title":"T","description":"D","inputSchema":{"type":"object"}}`, name))
	}
	return s
}

var by = registry.Actor{Subject: "seed", Roles: registry.Roles()}

var seeded atomic.Int64

func operationOf(name string) registry.Operation {
	return registry.Operation{ID: fmt.Sprintf("seed/%d", seeded.Add(1)), Name: name, Actor: by, Origin: registry.OriginAPI}
}

// registered puts a server into the database, past the API.
func (h *house) registered(t *testing.T, tenant, name string, with ...func(*registry.Registration)) registry.Server {
	t.Helper()
	g := registry.Registration{
		TenantID: tenant, ServerID: registry.ServerID(fmt.Sprintf("%032d", seeded.Add(1))), Name: name, Direction: registry.DirectionConsumed,
		Transport: registry.TransportStreamableHTTP, URL: "https://" + name + ".example/mcp", Authentication: registry.AuthOAuth2,
		GovernancePolicyRef: registry.PolicyDefault, ProtocolVersion: "2026-07-28",
	}
	for _, change := range with {
		change(&g)
	}
	applied, err := h.db.Tenant(tenant).Register(t.Context(), g, operationOf("register"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return applied.Server
}

// discovered brings what a server offers to its catalog.
func (h *house) discovered(t *testing.T, s registry.Server, offered registry.Surface) registry.Server {
	t.Helper()
	snap, err := registry.NewSnapshot(offered, registry.DefaultLimits(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	store := h.db.Tenant(s.TenantID)
	if err := store.SaveSnapshot(t.Context(), &snap); err != nil {
		t.Fatal(err)
	}
	return h.changed(t, s, func(r *registry.Record, now time.Time) error {
		return r.Discovered(&snap, registry.Look{Number: 1, TargetDigest: r.Server.TargetDigest, RequestedBy: "seed", At: now})
	})
}

func (h *house) changed(t *testing.T, s registry.Server, change func(r *registry.Record, now time.Time) error) registry.Server {
	t.Helper()
	applied, err := h.db.Tenant(s.TenantID).Apply(t.Context(), db.Change{
		ServerID: s.ServerID, Operation: operationOf("change"), Catalog: always, Apply: governed(change),
	})
	if err != nil {
		t.Fatal(err)
	}
	return applied.Server
}

// active makes a server whose tools are bound as read and enabled.
func (h *house) active(t *testing.T, tenant, name string, tools ...string) registry.Server {
	t.Helper()
	return h.approved(t, h.discovered(t, h.registered(t, tenant, name), surface(tools...)), tools...)
}

func (h *house) approved(t *testing.T, s registry.Server, tools ...string) registry.Server {
	t.Helper()
	a := &registry.Approval{Digest: s.Review.Digest, Empty: len(tools) == 0}
	for _, tool := range tools {
		a.Tools = append(a.Tools, registry.ToolLine{Tool: tool, Class: registry.ClassRead, Enable: true})
	}
	if len(tools) > 0 {
		a.Resources = []registry.ResourceLine{{URI: "file:///readme"}}
		a.Prompts = []registry.PromptLine{{Prompt: "greet", SkillID: "greeting"}}
	}
	return h.changed(t, s, func(r *registry.Record, now time.Time) error {
		return r.Decide(registry.Ruling{Verb: registry.VerbApprove, Approval: a}, operationOf("approve"), now)
	})
}

// audits gives the audit rows of an action.
func (h *house) audits(t *testing.T, tenant, action string) []db.AuditEntry {
	t.Helper()
	all, _, err := h.db.Tenant(tenant).Audit(t.Context(), db.AuditQuery{})
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(e db.AuditEntry) bool { return e.Action != action })
}

// onlyTried wants no trace of what fn asks.
func (h *house) onlyTried(t *testing.T, fn func()) {
	t.Helper()
	before := len(h.trail(t))
	fn()
	if after := len(h.trail(t)); after != before {
		t.Errorf("the audit trail had %d rows and has %d", before, after)
	}
}

func with(pairs ...string) http.Header {
	out := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		out.Add(pairs[i], pairs[i+1])
	}
	return out
}

func keyed(key string) http.Header { return with("Idempotency-Key", key) }

func sorted[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func retire(r *registry.Record, now time.Time) error {
	return r.Retire(registry.Operation{ID: "retire", Actor: by}, "", now)
}

func mask(paths ...string) *fieldmaskpb.FieldMask { return &fieldmaskpb.FieldMask{Paths: paths} }
