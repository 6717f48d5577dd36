package workflows

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"countersign/registry"
)

// OpenServer is an open Server workflow, as the engine's index has it.
type OpenServer struct {
	WorkflowID, RunID string
	Tenant, Name      string
	ServerID          string // empty: its registration is not recorded yet
	State             registry.State
	Started           time.Time
}

// OpenServers gives each open Server workflow of the namespace.
func (c Client) OpenServers(ctx context.Context, each func(OpenServer)) error {
	return c.list(ctx, fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", ServerWorkflow), func(info *workflowpb.WorkflowExecutionInfo) error {
		each(openServer(info))
		return nil
	})
}

func openServer(info *workflowpb.WorkflowExecutionInfo) OpenServer {
	id := info.GetExecution().GetWorkflowId()
	o := OpenServer{WorkflowID: id, RunID: info.GetExecution().GetRunId(), Started: info.GetStartTime().AsTime()}
	if parts := strings.SplitN(id, "/", 3); len(parts) == 3 {
		o.Tenant, o.Name = parts[1], parts[2]
	}
	fields := info.GetSearchAttributes().GetIndexedFields()
	o.ServerID = keyword(fields[AttributeServer.GetName()])
	o.State = registry.State(keyword(fields[AttributeState.GetName()]))
	return o
}

// keyword reads a search attribute, which is never encrypted.
func keyword(p *commonpb.Payload) (text string) {
	if p != nil {
		_ = converter.GetDefaultDataConverter().FromPayload(p, &text) // one that cannot be read is none
	}
	return text
}

func (c Client) list(ctx context.Context, query string, each func(*workflowpb.WorkflowExecutionInfo) error) error {
	for token := []byte(nil); ; {
		var page *workflowservice.ListWorkflowExecutionsResponse
		err := c.patiently(ctx, func(ctx context.Context) (err error) {
			page, err = c.Temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
				Namespace: c.namespace(), PageSize: 1000, Query: query, NextPageToken: token,
			})
			return err
		})
		if err != nil {
			return err
		}
		for _, info := range page.GetExecutions() {
			if err := each(info); err != nil {
				return err
			}
		}
		if token = page.GetNextPageToken(); len(token) == 0 {
			return nil
		}
	}
}

// IsOpen says, from the engine itself and not from its index, whether the
// workflow of a name is open.
func (c Client) IsOpen(ctx context.Context, tenant, name string) (bool, error) {
	d, err := c.Temporal.DescribeWorkflowExecution(ctx, ServerWorkflowID(tenant, name), "")
	if _, absent := errors.AsType[*serviceerror.NotFound](err); absent {
		return false, nil
	}
	if err != nil {
		return false, fromService(err)
	}
	return d.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, nil
}

// Status asks the workflow of a name for its copy of the server. It needs a
// worker.
func (c Client) Status(ctx context.Context, tenant, name string) (registry.Server, error) {
	var v registry.Server
	answer, err := c.Temporal.QueryWorkflow(ctx, ServerWorkflowID(tenant, name), "", QueryStatus)
	if err != nil {
		return v, fromService(err)
	}
	return v, answer.Get(&v)
}

// End ends an open Server workflow for good, without a change to any row.
func (c Client) End(ctx context.Context, o OpenServer, reason string) error {
	err := c.Temporal.TerminateWorkflow(ctx, o.WorkflowID, o.RunID, reason)
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return nil
	}
	return err
}

// Restart begins the workflow of a live server anew from its row, which then is
// all that it knows: an open one is ended, and discoveries that the row has not
// heard of are forgotten, since their numbers are given once more. A discovery
// that the row waits for is begun again.
func (c Client) Restart(ctx context.Context, v registry.Server, reason string) error {
	id := ServerWorkflowID(v.TenantID, v.Name)
	if open, err := c.IsOpen(ctx, v.TenantID, v.Name); err != nil {
		return err
	} else if open {
		if err := c.End(ctx, OpenServer{WorkflowID: id}, reason); err != nil {
			return err
		}
	}
	state := ServerState{Server: v, Begun: v.Discovery.Number}
	switch {
	case v.Discovery.Status == registry.DiscoveryRunning:
		state.Discover = registry.System("reconcile").Subject
	case v.State == registry.StateRegistered && v.Discovery.Status == registry.DiscoveryFailed:
		state.RetryDelay, state.RetryAt = firstRetry, v.UpdatedAt.Add(firstRetry)
	}
	return c.patiently(ctx, func(ctx context.Context) error {
		_, err := c.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
			ID: id, TaskQueue: TaskQueue,
			WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
			WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
			StaticSummary:            "server " + v.Name,
			TypedSearchAttributes: temporal.NewSearchAttributes(AttributeTenant.ValueSet(v.TenantID),
				AttributeServer.ValueSet(v.ServerID), AttributeState.ValueSet(string(v.State))),
		}, Server, ServerInput{Tenant: v.TenantID, Name: v.Name, State: state})
		return err
	})
}

// TellConnection tells a server that its connection has a newer version.
func (c Client) TellConnection(ctx context.Context, tenant, name string, told ConnectionSignal) error {
	return c.patiently(ctx, func(ctx context.Context) error {
		return c.Temporal.SignalWorkflow(ctx, ServerWorkflowID(tenant, name), "", SignalConnection, told)
	})
}
