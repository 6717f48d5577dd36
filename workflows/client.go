package workflows

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"countersign/activities"
	"countersign/failpoint"
	"countersign/registry"
)

// Client asks workflows for things. The api knows no other way to change a
// server. Every method answers with a registry.Error when it refuses, and
// retries what the engine's limits refuse for as long as the caller's context
// allows.
type Client struct {
	Temporal  client.Client
	Namespace string // for lists and links; "default" when empty
	UIURL     string // base of the Temporal UI for links; empty: no links

	turns *turns // shared by all copies
}

// NewClient returns a client; namespace and uiURL may be empty.
func NewClient(temporal client.Client, namespace, uiURL string) Client {
	return Client{Temporal: temporal, Namespace: namespace, UIURL: uiURL, turns: newTurns()}
}

// Run is one workflow run of a server.
type Run struct {
	WorkflowID, RunID, Type, Status, URL string
	Start, Close                         time.Time
}

// StartedDiscovery names the run that a request started or joined.
type StartedDiscovery struct {
	Run      Run
	Number   int64
	Replayed bool
}

// Register starts the workflow of a name with the registration, or brings the
// registration to the one that is open: the transaction decides.
func (c Client) Register(ctx context.Context, in activities.RegisterInput) (activities.RegisterOutput, error) {
	failpoint.Hit("register.begin")
	var out activities.RegisterOutput
	tenant, name := in.Registration.TenantID, in.Registration.Name
	err := c.inTurn(ctx, ServerWorkflowID(tenant, name), func(ctx context.Context) error {
		start := c.Temporal.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
			ID: ServerWorkflowID(tenant, name), TaskQueue: TaskQueue,
			WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
			WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
			StaticSummary:            "server " + name,
			TypedSearchAttributes: temporal.NewSearchAttributes(AttributeTenant.ValueSet(tenant),
				AttributeServer.ValueSet(in.Registration.ServerID), AttributeState.ValueSet(string(registry.StateRegistered))),
		}, Server, ServerInput{Tenant: tenant, Name: name})
		handle, err := c.Temporal.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
			StartWorkflowOperation: start,
			UpdateOptions: client.UpdateWorkflowOptions{
				UpdateID: in.Operation.ID, UpdateName: UpdateRegister, Args: []any{in},
				WaitForStage: client.WorkflowUpdateStageCompleted,
			},
		})
		if err != nil {
			return err
		}
		return handle.Get(ctx, &out)
	})
	return out, err
}

// Decide brings a decision to the server of that name.
func (c Client) Decide(ctx context.Context, name string, in activities.DecideInput) (registry.Server, error) {
	return c.change(ctx, in.Tenant, name, string(in.Ruling.Verb), in.Operation.ID, in)
}

// Edit brings an edit to the server of that name.
func (c Client) Edit(ctx context.Context, name string, in activities.EditInput) (registry.Server, error) {
	return c.change(ctx, in.Tenant, name, UpdateEdit, in.Operation.ID, in)
}

// SetEnabled switches tools of the server of that name.
func (c Client) SetEnabled(ctx context.Context, name string, in activities.SetEnabledInput) (registry.Server, error) {
	return c.change(ctx, in.Tenant, name, UpdateSetEnabled, in.Operation.ID, in)
}

// RequireApproval says whether each call of tools of the server of that name
// needs a person's approval first.
func (c Client) RequireApproval(ctx context.Context, name string, in activities.RequireApprovalInput) (registry.Server, error) {
	return c.change(ctx, in.Tenant, name, UpdateRequireApproval, in.Operation.ID, in)
}

// Retire ends the server of that name.
func (c Client) Retire(ctx context.Context, name string, in activities.RetireInput) (registry.Server, error) {
	return c.change(ctx, in.Tenant, name, UpdateRetire, in.Operation.ID, in)
}

// EditConnection brings an edit to a connection. It waits until that is recorded,
// and not for the servers that use it: each takes it by itself.
func (c Client) EditConnection(ctx context.Context, in activities.EditConnectionInput) (activities.ConnectionOutput, error) {
	var out activities.ConnectionOutput
	_, err := c.startWith(ctx, ConnectionWorkflowID(in.Tenant, in.Name), "connection "+in.Name, in.Tenant,
		Connection, ConnectionInput{Tenant: in.Tenant, Name: in.Name}, UpdateEditConnection, in.Operation.ID, in, &out)
	return out, err
}

// SaveProvider makes a provider of the family AEP, or changes it, and begins a
// refresh when that is called for. It waits until the change is recorded, and not
// for the refresh.
func (c Client) SaveProvider(ctx context.Context, in activities.SaveProviderInput) (activities.ProviderOutput, error) {
	var out activities.ProviderOutput
	_, err := c.startWith(ctx, ProviderWorkflowID(in.Tenant, in.Name), "provider "+in.Name, in.Tenant,
		ProviderRefresh, ProviderRefreshInput{Tenant: in.Tenant, Name: in.Name}, UpdateSaveProvider, in.Operation.ID, in, &out)
	return out, err
}

// RefreshProvider starts a refresh of a provider of the family AEP, or joins the
// one that runs; [Client.AwaitRun] waits for its end.
func (c Client) RefreshProvider(ctx context.Context, in activities.BeginRefreshInput) (activities.ProviderOutput, Run, error) {
	var out activities.ProviderOutput
	id := ProviderWorkflowID(in.Tenant, in.Name)
	runID, err := c.startWith(ctx, id, "provider "+in.Name, in.Tenant,
		ProviderRefresh, ProviderRefreshInput{Tenant: in.Tenant, Name: in.Name}, UpdateRefreshProvider, in.Operation.ID, in, &out)
	return out, Run{WorkflowID: id, RunID: runID, Type: ProviderRefreshWorkflow, Status: "Running", URL: c.link(id, runID)}, err
}

// startWith brings an update to a workflow, which it starts when it is not open.
func (c Client) startWith(ctx context.Context, id, summary, tenant string, workflow, input any, update, updateID string, in, out any) (runID string, err error) {
	err = c.inTurn(ctx, id, func(ctx context.Context) error {
		start := c.Temporal.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
			ID: id, TaskQueue: TaskQueue,
			WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
			WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
			StaticSummary:            summary,
			TypedSearchAttributes:    temporal.NewSearchAttributes(AttributeTenant.ValueSet(tenant)),
		}, workflow, input)
		handle, err := c.Temporal.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
			StartWorkflowOperation: start,
			UpdateOptions: client.UpdateWorkflowOptions{
				UpdateID: updateID, UpdateName: update, Args: []any{in},
				WaitForStage: client.WorkflowUpdateStageCompleted,
			},
		})
		if err != nil {
			return err
		}
		runID = handle.RunID()
		return handle.Get(ctx, out)
	})
	return runID, err
}

// ApplyPolicy brings a published version of a bundle to the servers that it
// governs, which unbind what it does not admit. It does not wait for them. Once
// begun, a repeat changes nothing.
func (c Client) ApplyPolicy(ctx context.Context, in PolicyChangeInput) error {
	return c.patiently(ctx, func(ctx context.Context) error {
		_, err := c.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
			ID: PolicyWorkflowID(in.Tenant, in.Ref), TaskQueue: TaskQueue,
			WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
			WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
			StaticSummary:            "policy " + in.Ref,
			TypedSearchAttributes:    temporal.NewSearchAttributes(AttributeTenant.ValueSet(in.Tenant)),
		}, PolicyChange, in)
		if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
			return nil
		}
		return err
	})
}

func (c Client) change(ctx context.Context, tenant, name, update, id string, in any) (registry.Server, error) {
	var out activities.ServerOutput
	err := c.update(ctx, tenant, name, update, id, in, &out)
	return out.Server, err
}

// BeginDiscovery starts a discovery, or joins the one that runs.
func (c Client) BeginDiscovery(ctx context.Context, name string, in activities.BeginDiscoveryInput) (activities.BeginDiscoveryOutput, error) {
	var out activities.BeginDiscoveryOutput
	err := c.update(ctx, in.Tenant, name, UpdateDiscover, in.Operation.ID, in, &out)
	return out, err
}

// Discover starts a discovery, or joins the one that runs; it does not wait for
// the end.
func (c Client) Discover(ctx context.Context, name string, in activities.BeginDiscoveryInput) (StartedDiscovery, error) {
	out, err := c.BeginDiscovery(ctx, name, in)
	if err != nil {
		return StartedDiscovery{}, err
	}
	id := DiscoveryWorkflowID(in.Tenant, in.ServerID, out.Number)
	return StartedDiscovery{Run: Run{WorkflowID: id, RunID: out.RunID, Type: DiscoveryWorkflow, Status: "Running", URL: c.link(id, out.RunID)}, Number: out.Number, Replayed: out.Replayed}, nil
}

func (c Client) update(ctx context.Context, tenant, name, update, id string, in, out any) error {
	if err := fits(in); err != nil {
		return err
	}
	workflowID := ServerWorkflowID(tenant, name)
	return c.inTurn(ctx, workflowID, func(ctx context.Context) error {
		handle, err := c.Temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			WorkflowID: workflowID, UpdateID: id, UpdateName: update, Args: []any{in},
			WaitForStage: client.WorkflowUpdateStageCompleted,
		})
		if err == nil {
			err = handle.Get(ctx, out)
		}
		if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
			return closed(err)
		}
		return err
	})
}

// maxInput bounds the input of an update, in bytes: the engine refuses payloads
// of 2 MB, and the activity gets the same again.
const maxInput = 1_500_000

func fits(in any) error {
	raw, err := json.Marshal(in)
	if err != nil {
		return err
	}
	if len(raw) > maxInput {
		return registry.Errorf(registry.ReasonBodyTooLarge, "the change has %d bytes, the limit is %d", len(raw), maxInput).
			WithNext("approve in several parts: RequestReview opens the same digest again")
	}
	return nil
}

// closed is what a call for a server without an open workflow is told: the
// table has the answer when the server is retired.
func closed(err error) error {
	return &registry.Error{
		Code: registry.CodeUnavailable, Reason: registry.ReasonServerClosing, Err: err,
		Message: "the server's workflow is not open", Next: "read the server; if it is not retired, tell the operator",
	}
}

// inTurn makes a call to a workflow when it is this one's turn, and patiently.
func (c Client) inTurn(ctx context.Context, workflowID string, call func(context.Context) error) error {
	done, err := c.turns.wait(ctx, workflowID)
	if err != nil {
		return busy(err) // nothing was sent
	}
	defer done()
	return c.patiently(ctx, call)
}

// patiently repeats a call that the engine's limits refuse, or that met a
// workflow just as it ended, inside the caller's deadline.
func (c Client) patiently(ctx context.Context, call func(context.Context) error) error {
	return c.watched(ctx, func(ctx context.Context) error {
		wait := 20 * time.Millisecond
		for {
			err := call(ctx)
			if err == nil || !passing(err) {
				return err
			}
			select {
			case <-ctx.Done():
				return err
			case <-time.After(wait):
				wait = min(2*wait, 2*time.Second)
			}
		}
	})
}

// A call that takes longer than slow has the engine asked whether it is there,
// and given up when it does not answer that within patience: the SDK would
// repeat it until the caller's time is over, and the caller would not learn why.
const (
	slow     = time.Second
	patience = 3 * time.Second
)

func (c Client) watched(ctx context.Context, call func(context.Context) error) (err error) {
	defer Unreadable(&err)
	ctx, give := context.WithCancelCause(ctx)
	defer give(nil)
	watch := time.AfterFunc(slow, func() {
		asking, done := context.WithTimeout(ctx, patience)
		defer done()
		if gone := c.Ping(asking); gone != nil && ctx.Err() == nil {
			give(gone)
		}
	})
	defer watch.Stop()
	err = call(ctx)
	if gone, ok := registry.AsError(context.Cause(ctx)); ok && err != nil {
		return gone
	}
	return fromService(err)
}

// passing says whether an error is over in a moment.
func passing(err error) bool {
	if _, limited := errors.AsType[*serviceerror.ResourceExhausted](err); limited {
		return true
	}
	if application, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return application.Type() == string(registry.ReasonServerClosing) || application.Type() == "AcceptedUpdateCompletedWorkflow"
	}
	if _, ours := registry.AsError(err); ours {
		return false
	}
	// An update-with-start that met the workflow as it closed.
	_, gone := errors.AsType[*serviceerror.NotFound](err)
	_, aborted := errors.AsType[*serviceerror.Aborted](err)
	_, notReady := errors.AsType[*serviceerror.WorkflowNotReady](err)
	return gone || aborted || notReady
}

// Await waits until a discovery has ended, well or not, or the context is over.
func (c Client) Await(ctx context.Context, d StartedDiscovery) error {
	return c.AwaitRun(ctx, Run{WorkflowID: d.Run.WorkflowID})
}

// AwaitRun waits until a run has ended, well or not, or the context is over.
// Without a run id it is the last one of the workflow.
func (c Client) AwaitRun(ctx context.Context, run Run) error {
	err := c.Temporal.GetWorkflow(ctx, run.WorkflowID, run.RunID).Get(ctx, nil)
	if err == nil {
		return nil
	}
	if _, ended := errors.AsType[*temporal.WorkflowExecutionError](err); ended {
		return nil // the table says what became of it
	}
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return nil // older than the namespace keeps histories
	}
	return fromService(err)
}

// Test runs a connection test and waits for its report.
func (c Client) Test(ctx context.Context, in activities.TestInput) (activities.TestReport, error) {
	var report activities.TestReport
	attributes := temporal.NewSearchAttributes(AttributeTenant.ValueSet(in.Tenant), AttributeServer.ValueSet(in.ServerID))
	if in.ServerID == "" {
		attributes = temporal.NewSearchAttributes(AttributeTenant.ValueSet(in.Tenant))
	}
	err := c.watched(ctx, func(ctx context.Context) error {
		run, err := c.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
			ID: TestWorkflowID(in.Tenant, uuid.NewString()), TaskQueue: TaskQueue,
			WorkflowExecutionTimeout: 2 * time.Minute,
			StaticSummary:            "connection test of " + in.ServerID + in.Connection,
			TypedSearchAttributes:    attributes,
		}, ConnectionTest, in)
		if err != nil {
			return err
		}
		return run.Get(ctx, &report)
	})
	return report, err
}

// TestProvider runs a test of a provider of the family AEP and waits for its
// report.
func (c Client) TestProvider(ctx context.Context, in activities.TestProviderInput) (activities.ProviderTestReport, error) {
	var report activities.ProviderTestReport
	err := c.watched(ctx, func(ctx context.Context) error {
		run, err := c.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
			ID: TestWorkflowID(in.Tenant, uuid.NewString()), TaskQueue: TaskQueue,
			WorkflowExecutionTimeout: 2 * time.Minute,
			StaticSummary:            "test of provider " + in.Name,
			TypedSearchAttributes:    temporal.NewSearchAttributes(AttributeTenant.ValueSet(in.Tenant)),
		}, ProviderTest, in)
		if err != nil {
			return err
		}
		return run.Get(ctx, &report)
	})
	return report, err
}

// Runs lists the workflow runs of a server, newest first. The engine's index
// may lag behind by a moment.
func (c Client) Runs(ctx context.Context, tenant, serverID string, size int, token string) ([]Run, string, error) {
	page, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return nil, "", registry.Errorf(registry.ReasonInvalidPageToken, "the page token cannot be read")
	}
	var answer *workflowservice.ListWorkflowExecutionsResponse
	err = c.watched(ctx, func(ctx context.Context) (err error) {
		answer, err = c.Temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: c.namespace(), PageSize: int32(min(size, 1000)), NextPageToken: page,
			Query: fmt.Sprintf("%s = '%s' AND %s = '%s'", AttributeTenant.GetName(), tenant, AttributeServer.GetName(), serverID),
		})
		return err
	})
	if err != nil {
		return nil, "", err
	}
	runs := make([]Run, 0, len(answer.GetExecutions()))
	for _, e := range answer.GetExecutions() {
		r := Run{
			WorkflowID: e.GetExecution().GetWorkflowId(), RunID: e.GetExecution().GetRunId(), Type: e.GetType().GetName(),
			Status: e.GetStatus().String(), Start: e.GetStartTime().AsTime(),
			URL: c.link(e.GetExecution().GetWorkflowId(), e.GetExecution().GetRunId()),
		}
		if e.GetCloseTime() != nil {
			r.Close = e.GetCloseTime().AsTime()
		}
		runs = append(runs, r)
	}
	return runs, base64.RawURLEncoding.EncodeToString(answer.GetNextPageToken()), nil
}

func (c Client) namespace() string {
	if c.Namespace == "" {
		return client.DefaultNamespace
	}
	return c.Namespace
}

// link is where the Temporal UI shows a workflow, or one run of it.
func (c Client) link(workflowID, runID string) string {
	if c.UIURL == "" {
		return ""
	}
	link := strings.TrimSuffix(c.UIURL, "/") + "/namespaces/" + url.PathEscape(c.namespace()) + "/workflows/" + url.PathEscape(workflowID)
	if runID != "" {
		link += "/" + url.PathEscape(runID) + "/history"
	}
	return link
}

// Ping says whether the workflow engine answers.
func (c Client) Ping(ctx context.Context) error {
	_, err := c.Temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
	if err != nil {
		return away(err)
	}
	return nil
}
