package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"countersign/activities"
	"countersign/registry"
)

// ProviderRefreshInput starts the workflow of a provider's changes and refreshes,
// or carries it on.
type ProviderRefreshInput struct {
	Tenant string         `json:"tenant"`
	Name   string         `json:"name"`
	Wanted int64          `json:"wanted,omitempty"` // number of the refresh that is to run
	Done   int64          `json:"done,omitempty"`   // of the last one that ran
	Actor  registry.Actor `json:"actor,omitzero"`   // who wants it
}

// provider is a running ProviderRefresh workflow.
type provider struct {
	ProviderRefreshInput
	lock  workflow.Mutex
	asked bool // a change or a request has come
}

// ProviderRefresh takes changes of a provider of the family AEP and refreshes it:
// after each change of what a refresh does, and when somebody asks. One refresh
// runs at a time; who asks meanwhile joins it. It runs while there is something
// to do.
func ProviderRefresh(ctx workflow.Context, in ProviderRefreshInput) error {
	p := &provider{ProviderRefreshInput: in, lock: workflow.NewMutex(ctx)}
	if err := workflow.SetUpdateHandler(ctx, UpdateSaveProvider, p.onSave); err != nil {
		return err
	}
	if err := workflow.SetUpdateHandler(ctx, UpdateRefreshProvider, p.onRefresh); err != nil {
		return err
	}
	if !p.asked && p.Wanted == 0 { // it comes with the start, so the timer is for starts by hand
		if _, err := workflow.AwaitWithTimeout(ctx, registrationGrace, func() bool { return p.asked }); err != nil {
			return err
		}
	}
	for {
		if err := workflow.Await(ctx, func() bool { return p.Wanted > p.Done || workflow.AllHandlersFinished(ctx) }); err != nil {
			return err
		}
		if p.Wanted <= p.Done {
			return nil
		}
		number := p.Wanted
		if err := p.refresh(ctx, number, p.Actor); err != nil {
			return err
		}
		p.Done = number
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() && p.Wanted > p.Done && workflow.AllHandlersFinished(ctx) {
			return workflow.NewContinueAsNewError(ctx, ProviderRefresh, p.ProviderRefreshInput)
		}
	}
}

// onSave completes when the change is recorded; the transaction decides. A change
// of what a refresh does begins one.
func (p *provider) onSave(ctx workflow.Context, in activities.SaveProviderInput) (activities.ProviderOutput, error) {
	p.asked = true
	if err := p.lock.Lock(ctx); err != nil {
		return activities.ProviderOutput{}, err
	}
	defer p.lock.Unlock()
	in.Tenant, in.Name = p.Tenant, p.Name
	out, err := do(ctx, committing, in.Operation.Name, act.SaveProvider, in)
	if err != nil || out.Replayed || out.Provider.Config != out.Provider.Version {
		return out, err
	}
	op := in.Operation
	op.ID += "/refresh"
	begun, err := p.begin(ctx, op)
	if _, refused := registry.AsError(err); refused { // it was deleted just now
		return out, nil
	}
	return begun, err
}

// onRefresh completes when the refresh has its number; who waits for its end
// waits for the workflow.
func (p *provider) onRefresh(ctx workflow.Context, in activities.BeginRefreshInput) (activities.ProviderOutput, error) {
	p.asked = true
	if err := p.lock.Lock(ctx); err != nil {
		return activities.ProviderOutput{}, err
	}
	defer p.lock.Unlock()
	return p.begin(ctx, in.Operation)
}

// begin numbers a refresh, or joins the one that runs. The caller holds the lock.
func (p *provider) begin(ctx workflow.Context, op registry.Operation) (activities.ProviderOutput, error) {
	in := activities.BeginRefreshInput{Tenant: p.Tenant, Name: p.Name, Operation: op}
	if p.Wanted > p.Done {
		in.Running = p.Wanted
	}
	out, err := do(ctx, committing, "number the refresh", act.BeginRefresh, in)
	if err == nil && out.Provider.Refresh.Number > p.Wanted {
		p.Wanted, p.Actor = out.Provider.Refresh.Number, op.Actor
	}
	return out, err
}

// refresh is one refresh. One that a later one, or a deletion, overtakes is left.
func (p *provider) refresh(ctx workflow.Context, number int64, by registry.Actor) error {
	end := activities.EndRefreshInput{Tenant: p.Tenant, Name: p.Name, Number: number}
	plan, err := do(ctx, extending, "descriptor", act.PlanRefresh, activities.PlanRefreshInput{Tenant: p.Tenant, Name: p.Name, Number: number})
	switch {
	case overtaken(err):
		return nil
	case temporal.IsCanceledError(err):
		return err
	case err != nil:
		end.Failed = failed(err)
		workflow.SetCurrentDetails(ctx, "failed: "+string(end.Failed.Reason)+": "+end.Failed.Message)
	default:
		if end.Servers, err = p.bring(ctx, number, by, plan.Servers); err != nil {
			return err
		}
	}
	_, err = do(ctx, committing, "record how it ended", act.EndRefresh, end)
	if overtaken(err) {
		return nil
	}
	return err
}

// bring brings all servers to what the descriptor declares, side by side. What
// fails with one is its outcome.
func (p *provider) bring(ctx workflow.Context, number int64, by registry.Actor, servers []registry.ProviderServer) ([]registry.ServerOutcome, error) {
	outcomes, waiting := make([]registry.ServerOutcome, len(servers)), workflow.NewWaitGroup(ctx)
	var ended error
	for i, v := range servers {
		waiting.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer waiting.Done()
			out, err := do(ctx, bringing, v.Name, act.BringServer, activities.BringServerInput{
				Tenant: p.Tenant, Provider: p.Name, Number: number, Actor: by, Server: v,
			})
			switch {
			case temporal.IsCanceledError(err):
				ended = err
			case err != nil:
				e := failed(err)
				out = registry.ServerOutcome{ExternalID: v.ExternalID, Reason: e.Reason, Message: e.Message}
			}
			outcomes[i] = out
		})
	}
	waiting.Wait(ctx)
	return outcomes, ended
}

func overtaken(err error) bool {
	reason := registry.ReasonOf(err)
	return err != nil && (reason == registry.ReasonConflictingWrite || reason == registry.ReasonProviderNotFound)
}

// failed is what is recorded of an error.
func failed(err error) *registry.Error {
	if e, ours := registry.AsError(err); ours {
		return e
	}
	if temporal.IsTimeoutError(err) {
		return registry.Errorf(registry.ReasonTimeout, "it took too long")
	}
	return registry.Errorf(registry.ReasonInternal, "it failed on our side")
}

// ProviderTest does the whole discovery of a provider's servers, and writes
// nothing (R52, R107).
func ProviderTest(ctx workflow.Context, in activities.TestProviderInput) (activities.ProviderTestReport, error) {
	return do(ctx, trying, "descriptor and servers, for a look", act.TestProvider, in)
}
