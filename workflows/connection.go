package workflows

import (
	"go.temporal.io/sdk/workflow"

	"countersign/activities"
)

// ConnectionInput starts the workflow of a connection's edits, or carries it on.
type ConnectionInput struct {
	Tenant  string `json:"tenant"`
	Name    string `json:"name"`
	Version int    `json:"version,omitempty"` // that the servers are to hear of
	Told    int    `json:"told,omitempty"`    // that all of them were told of
	After   string `json:"after,omitempty"`   // the last server that was told of Version
}

// ConnectionSignal tells a server that its connection has a newer version.
type ConnectionSignal struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
}

// connection is a running Connection workflow.
type connection struct {
	ConnectionInput
	lock  workflow.Mutex
	asked bool // an edit has come
}

// connectionPage is how many servers are told at a time.
const connectionPage = 100

// Connection takes edits of a connection and tells each live server that uses
// it, by a signal: each takes the new version in a transaction of its own, and
// what one pins counts until then (design.md §4). It runs while there is
// something to tell; an edit that comes meanwhile is told as well. A server that
// is registered or moved meanwhile begins with the newest version.
func Connection(ctx workflow.Context, in ConnectionInput) error {
	c := &connection{ConnectionInput: in, lock: workflow.NewMutex(ctx)}
	if err := workflow.SetUpdateHandler(ctx, UpdateEditConnection, c.onEdit); err != nil {
		return err
	}
	if !c.asked && c.Version == 0 { // it comes with the start, so the timer is for starts by hand
		if _, err := workflow.AwaitWithTimeout(ctx, registrationGrace, func() bool { return c.asked }); err != nil {
			return err
		}
	}
	for {
		if err := workflow.Await(ctx, func() bool { return c.Version > c.Told || workflow.AllHandlersFinished(ctx) }); err != nil {
			return err
		}
		if c.Version <= c.Told {
			return nil
		}
		if err := c.tell(ctx); err != nil {
			return err
		}
	}
}

// onEdit completes when the edit is recorded; the transaction decides.
func (c *connection) onEdit(ctx workflow.Context, in activities.EditConnectionInput) (activities.ConnectionOutput, error) {
	c.asked = true
	if err := c.lock.Lock(ctx); err != nil {
		return activities.ConnectionOutput{}, err
	}
	defer c.lock.Unlock()
	in.Tenant, in.Name = c.Tenant, c.Name
	out, err := do(ctx, committing, "edit", act.EditConnection, in)
	if err == nil && out.Connection.Version > c.Version {
		c.Version, c.After = out.Connection.Version, "" // from the first server on
	}
	return out, err
}

// tell tells the servers of a version, page by page.
func (c *connection) tell(ctx workflow.Context) error {
	for version := c.Version; version == c.Version; {
		out, err := do(ctx, committing, "servers of "+c.Name, act.ConnectionUsers, activities.ConnectionUsersInput{
			Tenant: c.Tenant, Name: c.Name, Version: version, After: c.After, Limit: connectionPage,
		})
		if err != nil {
			return err
		}
		sent := make([]workflow.Future, len(out.Names))
		for i, name := range out.Names {
			sent[i] = workflow.SignalExternalWorkflow(ctx, ServerWorkflowID(c.Tenant, name), "", SignalConnection, ConnectionSignal{Name: c.Name, Version: version})
		}
		for i, f := range sent {
			if err := f.Get(ctx, nil); err != nil { // it has just been retired
				workflow.GetLogger(ctx).Debug("edit of the connection not delivered", "server", out.Names[i], "error", err)
			}
		}
		if version != c.Version {
			return nil // an edit came meanwhile
		}
		if out.Next == "" {
			c.Told, c.After = version, ""
			return nil
		}
		c.After = out.Next
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() && workflow.AllHandlersFinished(ctx) {
			return workflow.NewContinueAsNewError(ctx, Connection, c.ConnectionInput)
		}
	}
	return nil
}
