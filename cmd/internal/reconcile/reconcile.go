// Package reconcile compares the tables with the workflows and schedules, which
// belong together and are kept in two places: one of them may have been restored
// from a backup, or lost. The tables decide, since resolve goes by them.
package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"

	"countersign/db"
	"countersign/registry"
	"countersign/worker"
	"countersign/workflows"
)

// Kind of a difference.
type Kind string

// The kinds.
const (
	WorkflowMissing  Kind = "workflow_missing"      // a live server without an open workflow
	WorkflowStray    Kind = "workflow_stray"        // an open workflow without a live server
	StateDiffers     Kind = "state_differs"         // the workflow has another server, state or version than the row
	ConnectionBehind Kind = "connection_behind"     // a server does not use the newest version of its connection
	ScheduleMissing  Kind = "schedule_missing"      // no server is probed
	ScheduleDiffers  Kind = "schedule_differs"      // it is not what the configuration says
	ScheduleStray    Kind = "schedule_stray"        // another one starts sweeps, too
	grace                 = 2 * time.Minute         // of a registration that is being recorded
	reason                = "countersign reconcile" // for the engine's records
	pageSize              = 500
	queries               = 8 // at a time
)

// Difference is one thing that does not fit.
type Difference struct {
	Kind     Kind   `json:"kind"`
	Tenant   string `json:"tenant,omitempty"`
	Name     string `json:"name,omitempty"` // of the server, or of the schedule
	ServerID string `json:"server_id,omitempty"`
	Found    string `json:"found"`
	Repair   string `json:"repair"` // what is done about it
	Repaired bool   `json:"repaired"`
	Fault    string `json:"fault,omitempty"` // why it could not be repaired

	row  registry.Server
	open workflows.OpenServer
	told workflows.ConnectionSignal
}

// Reconciler compares, and repairs.
type Reconciler struct {
	DB        *db.DB
	Workflows workflows.Client
	Temporal  client.Client
	Codec     *workflows.Codec
	Interval  time.Duration // of probes
	// Settle is how long a difference has to last: what is being changed differs for
	// a moment.
	Settle time.Duration
	// Deep also asks each workflow for its copy of the server, for which it needs a
	// worker. Otherwise the state that the engine's index has is compared.
	Deep bool
}

// Look gives the differences that were there twice, with Settle in between.
func (r Reconciler) Look(ctx context.Context) ([]Difference, error) {
	first, err := r.look(ctx)
	if err != nil || len(first) == 0 {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(r.Settle):
	}
	second, err := r.look(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(second, func(d Difference) bool {
		return !slices.ContainsFunc(first, func(b Difference) bool {
			return b.Kind == d.Kind && b.Tenant == d.Tenant && b.Name == d.Name && b.ServerID == d.ServerID && b.Found == d.Found
		})
	}), nil
}

func (r Reconciler) look(ctx context.Context) ([]Difference, error) {
	open := map[string]workflows.OpenServer{}
	if err := r.Workflows.OpenServers(ctx, func(o workflows.OpenServer) { open[o.WorkflowID] = o }); err != nil {
		return nil, err
	}
	out, err := r.schedules(ctx)
	if err != nil {
		return nil, err
	}
	for after := ""; ; {
		page, next, err := r.DB.System().LiveServers(ctx, after, pageSize)
		if err != nil {
			return nil, err
		}
		found, err := r.page(ctx, page, open)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
		if after = next; after == "" {
			break
		}
	}
	for _, o := range open { // what no row took
		if time.Since(o.Started) < grace && o.ServerID == "" {
			continue
		}
		out = append(out, Difference{
			Kind: WorkflowStray, Tenant: o.Tenant, Name: o.Name, ServerID: o.ServerID,
			Found: "the workflow " + o.WorkflowID + " is open, and there is no live server of this name", Repair: "end the workflow", open: o,
		})
	}
	slices.SortStableFunc(out, func(a, b Difference) int {
		return strings.Compare(string(a.Kind)+"\x00"+a.Tenant+"\x00"+a.Name, string(b.Kind)+"\x00"+b.Tenant+"\x00"+b.Name)
	})
	return out, nil
}

// page compares some rows with their workflows, and takes these from open.
func (r Reconciler) page(ctx context.Context, page []db.LiveServer, open map[string]workflows.OpenServer) (out []Difference, err error) {
	var mu sync.Mutex
	add := func(live db.LiveServer, d Difference) {
		mu.Lock()
		defer mu.Unlock()
		d.Tenant, d.Name, d.ServerID, d.row = live.Server.TenantID, live.Server.Name, live.Server.ServerID, live.Server
		out = append(out, d)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(queries)
	for _, live := range page {
		v := &live.Server
		id := workflows.ServerWorkflowID(v.TenantID, v.Name)
		o, is := open[id]
		delete(open, id)
		const anew = "begin the workflow anew from the row"
		switch {
		case !is:
			add(live, Difference{Kind: WorkflowMissing, Found: fmt.Sprintf("the server is %s, and no workflow is open for it", v.State), Repair: "begin its workflow from the row"})
			continue
		case o.ServerID != v.ServerID || o.State != v.State:
			add(live, Difference{
				Kind: StateDiffers, open: o, Repair: anew,
				Found: fmt.Sprintf("the row has %s, %s; the workflow %s, %s", v.ServerID, v.State, o.ServerID, o.State),
			})
			continue
		case live.Behind > 0:
			add(live, Difference{
				Kind: ConnectionBehind, told: workflows.ConnectionSignal{Name: live.Connection, Version: live.Behind},
				Found: fmt.Sprintf("the server uses an older version of %s than %d", live.Connection, live.Behind), Repair: "tell the server",
			})
		}
		if !r.Deep {
			continue
		}
		group.Go(func() error {
			told, err := r.Workflows.Status(ctx, v.TenantID, v.Name)
			if err != nil {
				return err
			}
			if told.ServerID != v.ServerID || told.State != v.State || told.Version != v.Version ||
				told.Discovery.Number != v.Discovery.Number || told.Revision > v.Revision {
				add(live, Difference{
					Kind: StateDiffers, open: o, Repair: anew,
					Found: fmt.Sprintf("the row has %s, %s, version %d, discovery %d; the workflow %s, %s, version %d, discovery %d",
						v.ServerID, v.State, v.Version, v.Discovery.Number, told.ServerID, told.State, told.Version, told.Discovery.Number),
				})
			}
			return nil
		})
	}
	return out, group.Wait()
}

func (r Reconciler) schedules(ctx context.Context) (out []Difference, err error) {
	facts, err := worker.DescribeSchedule(ctx, r.Temporal)
	switch {
	case err != nil:
		return nil, err
	case facts == nil:
		out = append(out, Difference{
			Kind: ScheduleMissing, Name: workflows.ScheduleProbe, Found: "there is no probe schedule: no server is probed", Repair: "make it",
		})
	case facts.Interval != r.Interval:
		out = append(out, Difference{
			Kind: ScheduleDiffers, Name: workflows.ScheduleProbe, Repair: "set it",
			Found: fmt.Sprintf("it probes every %s, and the configuration says %s", facts.Interval, r.Interval),
		})
	}
	strays, err := worker.StraySchedules(ctx, r.Temporal)
	for _, id := range strays {
		out = append(out, Difference{Kind: ScheduleStray, Name: id, Found: "the schedule starts sweeps, besides " + workflows.ScheduleProbe, Repair: "remove it"})
	}
	return out, err
}

// Repair does what each difference says, and notes in it what came of that.
func (r Reconciler) Repair(ctx context.Context, all []Difference) {
	for i := range all {
		if err := r.repair(ctx, &all[i]); err != nil {
			all[i].Fault = err.Error()
		} else {
			all[i].Repaired = true
		}
	}
}

func (r Reconciler) repair(ctx context.Context, d *Difference) error {
	switch d.Kind {
	case WorkflowMissing, StateDiffers:
		// As it is now: somebody may have retired it meanwhile.
		view, err := r.DB.Tenant(d.Tenant).Server(ctx, d.ServerID)
		if err != nil {
			return err
		}
		if view.Server.State == registry.StateRetired {
			return r.Workflows.End(ctx, d.open, reason)
		}
		if open, err := r.Workflows.IsOpen(ctx, d.Tenant, d.Name); err != nil || open && d.Kind == WorkflowMissing {
			return err
		}
		return r.Workflows.Restart(ctx, view.Server, reason)
	case WorkflowStray:
		return r.Workflows.End(ctx, d.open, reason)
	case ConnectionBehind:
		return r.Workflows.TellConnection(ctx, d.Tenant, d.Name, d.told)
	case ScheduleMissing, ScheduleDiffers:
		return worker.EnsureSchedule(ctx, r.Temporal, r.Codec, r.Interval)
	case ScheduleStray:
		return r.Temporal.ScheduleClient().GetHandle(ctx, d.Name).Delete(ctx)
	}
	return fmt.Errorf("nobody knows how to repair %s", d.Kind)
}
