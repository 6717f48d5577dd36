package workflows_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"countersign/activities"
	"countersign/aep"
	"countersign/db"
	"countersign/registry"
	"countersign/worker"
	"countersign/workflows"
)

// descriptors stands for the extension.
type descriptors struct {
	mu    sync.Mutex
	found aep.Found
	err   error
	asked int
	hold  <-chan struct{} // answers nothing until it is closed; nil: answers at once
}

func (d *descriptors) Fetch(context.Context, string, string) (aep.Found, error) {
	if d.hold != nil {
		<-d.hold
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	return d.found, d.err
}

// direct stands for the workflows of servers: what they would do is done at once.
type direct struct {
	acts *activities.Activities
	err  error // instead of an answer, after what it is about was done
}

func (d *direct) Register(ctx context.Context, in activities.RegisterInput) (activities.RegisterOutput, error) {
	out, err := d.acts.Register(ctx, in)
	if err == nil {
		err = d.discover(ctx, out.Server)
	}
	return out, errors.Join(err, d.err)
}

func (d *direct) Edit(ctx context.Context, _ string, in activities.EditInput) (registry.Server, error) {
	out, err := d.acts.Edit(ctx, in)
	return out.Server, err
}

func (d *direct) Retire(ctx context.Context, _ string, in activities.RetireInput) (registry.Server, error) {
	out, err := d.acts.Retire(ctx, in)
	return out.Server, err
}

func (d *direct) BeginDiscovery(ctx context.Context, _ string, in activities.BeginDiscoveryInput) (activities.BeginDiscoveryOutput, error) {
	in.Operation.Name = "begin_discovery"
	out, err := d.acts.BeginDiscovery(ctx, in)
	if err == nil {
		err = d.discover(ctx, out.Server)
	}
	return out, err
}

func (d *direct) discover(ctx context.Context, s registry.Server) error {
	_, err := d.acts.Discover(ctx, activities.DiscoverInput{
		Tenant: s.TenantID, ServerID: s.ServerID, Number: s.Discovery.Number, RequestedBy: "ann", TargetDigest: s.TargetDigest,
	})
	return err
}

// extended is a house with a provider, and what the extension says.
func extended(t *testing.T) (*house, *descriptors, *direct) {
	t.Helper()
	h, d := newHouse(t), &descriptors{}
	servers := &direct{acts: h.acts}
	h.acts.Extensions, h.acts.Servers = d, servers
	d.found = aep.Found{URL: "http://127.0.0.1:1/.well-known/aep", Descriptor: aep.Descriptor{
		Extension: aep.Extension{ID: "acme.tools", Name: "Tools", Version: "1"},
		Servers:   []aep.Server{{ID: "utils", URL: "http://127.0.0.1:1/mcp"}},
		Tools:     []aep.Contribution{{ID: "one", DisplayName: "One", Server: "utils", Tool: "a"}},
	}}
	return h, d, servers
}

// provided makes an environment for the workflows of providers.
func (h *house) provided() *testsuite.TestWorkflowEnvironment {
	h.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetFailureConverter(workflows.FailureConverter())
	worker.RegisterWorkflows(env)
	env.RegisterActivity(h.acts)
	env.SetTestTimeout(time.Minute)
	return env
}

// refreshing runs the ProviderRefresh workflow in skipped time.
func (h *house) refreshing(first func(env *testsuite.TestWorkflowEnvironment)) *testsuite.TestWorkflowEnvironment {
	h.Helper()
	env := h.provided()
	env.RegisterDelayedCallback(func() { first(env) }, 0)
	env.ExecuteWorkflow(workflows.ProviderRefreshWorkflow, workflows.ProviderRefreshInput{Tenant: "default", Name: "tools"})
	if !env.IsWorkflowCompleted() || env.GetWorkflowError() != nil {
		h.Fatalf("the workflow has not ended well: %v", env.GetWorkflowError())
	}
	return env
}

func creates(t *testing.T) func(env *testsuite.TestWorkflowEnvironment) {
	in := activities.SaveProviderInput{
		Operation: registry.Operation{ID: "op-create", Name: "create_provider", Actor: admin, Origin: registry.OriginAPI},
		Create: &registry.ProviderConfig{
			BaseURL: "http://127.0.0.1:1", ExtensionID: "acme.tools", Authentication: registry.AuthWorkloadIdentity, GovernancePolicyRef: registry.PolicyDefault,
		},
	}
	return func(env *testsuite.TestWorkflowEnvironment) {
		env.UpdateWorkflow(workflows.UpdateSaveProvider, in.Operation.ID, &testsuite.TestUpdateCallback{
			OnAccept: func() {}, OnReject: func(err error) { t.Error(err) },
			OnComplete: func(out any, err error) {
				got, _ := out.(activities.ProviderOutput)
				if err != nil || got.Provider.Refresh.Status != registry.RefreshRunning || got.Provider.Refresh.Number != 1 {
					t.Errorf("%+v, %v", got.Provider, err)
				}
			},
		}, in)
	}
}

func TestAnExtensionThatIsAwayIsAskedThrice(t *testing.T) {
	t.Parallel()
	h, d, _ := extended(t)
	d.err = registry.Errorf(registry.ReasonExtensionUnreachable, "nobody there")
	h.refreshing(creates(t))
	v, err := h.db.Tenant("default").Provider(t.Context(), "tools")
	if err != nil || d.asked != 3 || v.Refresh.Status != registry.RefreshFailed || v.Refresh.Reason != registry.ReasonExtensionUnreachable {
		t.Errorf("asked %d times: %+v, %v", d.asked, v.Refresh, err)
	}
	// What a repeat cannot mend is asked once.
	d.err, d.asked = registry.Errorf(registry.ReasonProtocolIncompatible, "another version"), 0
	h.refreshing(func(env *testsuite.TestWorkflowEnvironment) {
		in := activities.BeginRefreshInput{Operation: registry.Operation{ID: "op-again", Actor: admin}}
		env.UpdateWorkflow(workflows.UpdateRefreshProvider, "op-again", &testsuite.TestUpdateCallback{
			OnAccept: func() {}, OnReject: func(err error) { t.Error(err) }, OnComplete: func(any, error) {},
		}, in)
	})
	if v, err = h.db.Tenant("default").Provider(t.Context(), "tools"); err != nil || d.asked != 1 || v.Refresh.Number != 2 || v.Refresh.Reason != registry.ReasonProtocolIncompatible {
		t.Errorf("asked %d times: %+v, %v", d.asked, v.Refresh, err)
	}
}

// Whatever of a refresh runs twice, because nobody heard of the first time, does
// the same once more.
func TestStepsOfARefreshMayRunTwice(t *testing.T) {
	t.Parallel()
	h, d, servers := extended(t)
	servers.err = errors.New("nobody hears of it")
	h.refreshing(creates(t))
	ctx, store := t.Context(), h.db.Tenant("default")
	v, err := store.Provider(ctx, "tools")
	if err != nil || v.Refresh.Status != registry.RefreshSucceeded || v.Servers[0].State != registry.StateVerified || v.Servers[0].Reason != "" {
		t.Fatalf("%+v, %+v, %v", v.Refresh, v.Servers, err)
	}
	if _, _, total, err := store.Servers(ctx, db.ServerQuery{}); err != nil || total != 1 {
		t.Errorf("%d servers, %v", total, err)
	}
	servers.err = nil
	begun, err := h.acts.BeginRefresh(ctx, activities.BeginRefreshInput{Tenant: "default", Name: "tools", Operation: registry.Operation{ID: "op-2", Actor: admin}})
	if err != nil {
		t.Fatal(err)
	}
	again, err := h.acts.BeginRefresh(ctx, activities.BeginRefreshInput{Tenant: "default", Name: "tools", Operation: registry.Operation{ID: "op-2", Actor: admin}})
	if err != nil || again.Provider.Refresh.Number != begun.Provider.Refresh.Number {
		t.Errorf("%+v, %v", again.Provider.Refresh, err)
	}
	d.found.Servers[0].URL = "http://127.0.0.1:2/mcp"
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(h.acts)
	var plan activities.PlanRefreshOutput
	var outcomes [2]registry.ServerOutcome
	for i := range outcomes {
		value, err := env.ExecuteActivity(h.acts.PlanRefresh, activities.PlanRefreshInput{Tenant: "default", Name: "tools", Number: 2})
		if err == nil {
			err = value.Get(&plan)
		}
		if err != nil || len(plan.Servers) != 1 || plan.Servers[0].ServerID != v.Servers[0].ServerID {
			t.Fatalf("%+v, %v", plan, err)
		}
		value, err = env.ExecuteActivity(h.acts.BringServer, activities.BringServerInput{Tenant: "default", Provider: "tools", Number: 2, Actor: admin, Server: plan.Servers[0]})
		if err == nil {
			err = value.Get(&outcomes[i])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if outcomes[0] != outcomes[1] || outcomes[0].Reason != "" {
		t.Errorf("%+v", outcomes)
	}
	s, err := store.Server(ctx, "tools-utils")
	if err != nil || s.Discovery.Number != 3 || // one at the registration, one since nobody heard of that
		s.Connection.URL != "http://127.0.0.1:2/mcp" || s.Connection.Version != 2 {
		t.Errorf("discovery %d at %s: %v", s.Discovery.Number, s.Connection.URL, err)
	}
	for range 2 {
		out, err := h.acts.EndRefresh(ctx, activities.EndRefreshInput{Tenant: "default", Name: "tools", Number: 2, Servers: outcomes[:1]})
		if err != nil || out.Provider.Refresh.Counts != outcomes[0].Counts {
			t.Errorf("%+v, %v", out.Provider.Refresh, err)
		}
	}
}

// A refresh that is asked for while one runs goes on in the next run when the
// history has grown long, with its number and by whom it is wanted, and is run
// there once.
func TestContinueAsNewCarriesTheRefreshOver(t *testing.T) {
	t.Parallel()
	h, d, _ := extended(t)
	edited := make(chan struct{})
	d.hold = edited // the first refresh runs until the change has its number
	bob := registry.Actor{Subject: "bob", Roles: admin.Roles}
	edit := activities.SaveProviderInput{
		Operation: registry.Operation{ID: "op-edit", Name: "edit_provider", Actor: bob, Origin: registry.OriginAPI},
		Edit:      registry.ProviderEdit{BaseURL: new("http://127.0.0.1:1/other")},
	}
	env := h.provided()
	env.SetContinueAsNewSuggested(true)
	env.RegisterDelayedCallback(func() { creates(t)(env) }, 0)
	env.RegisterDelayedCallback(func() {
		env.UpdateWorkflow(workflows.UpdateSaveProvider, edit.Operation.ID, &testsuite.TestUpdateCallback{
			OnAccept: func() {}, OnReject: func(err error) { t.Error(err) },
			OnComplete: func(out any, err error) {
				if got, _ := out.(activities.ProviderOutput); err != nil || got.Provider.Refresh.Number != 2 {
					t.Errorf("%+v, %v", got.Provider, err)
				}
				close(edited)
			},
		}, edit)
	}, 0)
	env.ExecuteWorkflow(workflows.ProviderRefreshWorkflow, workflows.ProviderRefreshInput{Tenant: "default", Name: "tools"})
	var next *workflow.ContinueAsNewError
	if err := env.GetWorkflowError(); !errors.As(err, &next) {
		t.Fatalf("%v", err)
	}
	var in workflows.ProviderRefreshInput
	if err := converter.GetDefaultDataConverter().FromPayloads(next.Input, &in); err != nil {
		t.Fatal(err)
	}
	want := workflows.ProviderRefreshInput{Tenant: "default", Name: "tools", Wanted: 2, Done: 1, Actor: bob}
	if diff := cmp.Diff(want, in); diff != "" {
		t.Fatal(diff)
	}
	ctx, store := t.Context(), h.db.Tenant("default")
	if v, err := store.Provider(ctx, "tools"); err != nil || v.Refresh.Number != 2 || v.Refresh.Status != registry.RefreshRunning {
		t.Fatalf("%+v, %v", v.Refresh, err)
	}
	asked := d.asked
	env = h.provided()
	env.ExecuteWorkflow(workflows.ProviderRefreshWorkflow, in)
	if err := env.GetWorkflowError(); err != nil || !env.IsWorkflowCompleted() {
		t.Fatal(err)
	}
	v, err := store.Provider(ctx, "tools")
	if err != nil || v.Refresh.Number != 2 || v.Refresh.Status != registry.RefreshSucceeded || v.Refresh.RequestedBy != "bob" || d.asked != asked+1 {
		t.Errorf("asked %d times more: %+v, %v", d.asked-asked, v.Refresh, err)
	}
	if len(v.Servers) != 1 || v.Servers[0].State != registry.StateVerified {
		t.Errorf("%+v", v.Servers)
	}
}
