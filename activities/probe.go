package activities

import (
	"context"
	"strconv"
	"time"

	"go.temporal.io/sdk/activity"
	"golang.org/x/sync/errgroup"

	"countersign/db"
	"countersign/failpoint"
	"countersign/mcpclient"
	"countersign/registry"
)

// attempts is how often a failing server is tried in one window (C3).
const attempts = 3

// ProbeBatch probes one page of servers in one window (R140–R144). A server
// whose window is recorded is not met again, so a retry goes on where a dead
// worker stopped. Only outcomes that change something are returned.
func (a *Activities) ProbeBatch(ctx context.Context, in ProbeBatchInput) (ProbeBatchOutput, error) {
	defer beating(ctx)()
	targets, next, err := a.DB.System().ProbePage(ctx, in.After, in.Limit)
	if err != nil {
		return ProbeBatchOutput{}, err
	}
	ids := make([]string, len(targets))
	for i, t := range targets {
		ids[i] = t.Server.ServerID
	}
	recorded, err := a.DB.System().RecordedProbes(ctx, in.Window, ids)
	if err != nil {
		return ProbeBatchOutput{}, err
	}
	var todo []db.ProbeTarget
	for _, t := range targets {
		if _, done := recorded[t.Server.ServerID]; !done {
			todo = append(todo, t)
		}
	}
	fresh, err := a.probe(ctx, todo, in)
	if err != nil {
		return ProbeBatchOutput{}, err
	}
	failpoint.Hit("probe.probed")
	rows, err := a.DB.System().RecordProbes(ctx, fresh, 0)
	if err != nil {
		return ProbeBatchOutput{}, err
	}
	failpoint.Hit("probe.recorded")
	for _, p := range rows {
		recorded[p.ServerID] = p
	}
	out := ProbeBatchOutput{Next: next, Probed: len(fresh)}
	for _, t := range targets {
		p, ok := recorded[t.Server.ServerID]
		if p.Held = a.Hysteresis.Holds(&p); ok && p.Changes(&t.Server) {
			out.Changed = append(out.Changed, ProbeSignal{Name: t.Server.Name, Probe: p})
		}
	}
	return out, nil
}

// probe meets the servers; those that fail are tried again after the gap.
func (a *Activities) probe(ctx context.Context, todo []db.ProbeTarget, in ProbeBatchInput) ([]registry.Probe, error) {
	limit := a.ProbeConcurrency
	if limit <= 0 {
		limit = 16
	}
	probes := make([]registry.Probe, len(todo))
	open := make([]int, len(todo))
	for i := range todo {
		open[i] = i
	}
	for attempt := 1; attempt <= attempts && len(open) > 0; attempt++ {
		if attempt > 1 {
			select {
			case <-time.After(in.AttemptGap):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		group := errgroup.Group{}
		group.SetLimit(limit)
		for _, i := range open {
			group.Go(func() error {
				target, err := a.target(&todo[i].Server, todo[i].Connection, todo[i].Command)
				probes[i] = a.meet(ctx, &todo[i], target, err, in.Window, attempt)
				return nil
			})
		}
		_ = group.Wait() // no probe returns an error: a failure is its outcome
		if ctx.Err() != nil {
			return nil, ctx.Err() // our own end says nothing about the servers
		}
		activity.RecordHeartbeat(ctx, attempt)
		var again []int
		for _, i := range open {
			if probes[i].Outcome == registry.OutcomeFailed && !probes[i].Reason.Lasting() {
				again = append(again, i)
			}
		}
		open = again
	}
	return probes, nil
}

// meet is one handshake with one look at the tools list, of a target that is
// known unless there is an error. Who asks for the same while it lasts gets the
// same.
func (a *Activities) meet(ctx context.Context, t *db.ProbeTarget, target registry.Target, err error, window time.Time, attempt int) registry.Probe {
	p := registry.Probe{
		TenantID: t.Server.TenantID, ServerID: t.Server.ServerID, Window: window, Attempts: attempt,
		TargetDigest: t.Server.TargetDigest, At: time.Now().UTC(), Outcome: registry.OutcomeOK,
	}
	var result mcpclient.ProbeResult
	if err == nil {
		flight, failed, _ := a.flights.Do(t.Server.ServerID+" "+t.Server.TargetDigest, func() (any, error) {
			began := time.Now()
			result, err := a.MCP.Probe(ctx, target, t.Era)
			a.met(ctx, t.Server.ServerID, "probe", time.Since(began), err)
			return result, err
		})
		result, _ = flight.(mcpclient.ProbeResult)
		err = failed
		p.Duration, p.ProtocolVersion, p.ServerVersion, p.Era = result.Duration, result.ProtocolVersion, result.Version, result.Era
	}
	surface := result.Surface
	if err == nil {
		surface, _, err = a.contributed(ctx, &t.Server, surface)
	}
	if err == nil {
		p.ToolsDigest, err = a.memo.ToolsDigest(surface.Tools, a.Limits())
	}
	if err == nil && p.ToolsDigest != t.Server.ToolsDigest {
		p.Differing, err = a.differing(ctx, &t.Server, surface.Tools)
	}
	if err != nil {
		p.Outcome, p.Reason, p.Message = outcomeOf(err)
		p.RetryAfter = retryAfter(err)
	}
	return p.Following(t.LastProbe)
}

// met counts a handshake with a server.
func (a *Activities) met(ctx context.Context, serverID, purpose string, took time.Duration, err error) {
	outcome := "ok"
	if err != nil {
		outcome = string(registry.ReasonOf(err))
	}
	a.Instruments.Handshake(ctx, serverID, purpose, outcome, took)
}

// retryAfter is how long a server asked to be left alone.
func retryAfter(err error) time.Duration {
	e, ours := registry.AsError(err)
	if !ours {
		return 0
	}
	seconds, err := strconv.ParseInt(e.Fact("retry_after_seconds"), 10, 32)
	if err != nil {
		return 0 // it did not
	}
	return time.Duration(seconds) * time.Second
}

// differing names the bound tools of a server that a list shows otherwise than
// they were approved.
func (a *Activities) differing(ctx context.Context, s *registry.Server, tools [][]byte) ([]string, error) {
	bound, err := a.DB.Tenant(s.TenantID).Bound(ctx, s.ServerID)
	if err != nil {
		return nil, err
	}
	return registry.Differing(tools, bound, a.Limits())
}

func outcomeOf(err error) (registry.Outcome, registry.Reason, string) {
	e, ours := registry.AsError(err)
	if !ours {
		return registry.OutcomeDependency, registry.ReasonInternal, "the probe failed on our side"
	}
	switch {
	case e.Reason == registry.ReasonRateLimited, e.Reason == registry.ReasonLaunchPending:
		return registry.OutcomeDeferred, e.Reason, e.Message
	case e.Reason.FaultsList():
		return registry.OutcomeListFault, e.Reason, e.Message
	case e.Reason == registry.ReasonCommandChanged, e.Reason == registry.ReasonUnknownCommand:
		return registry.OutcomeFailed, e.Reason, e.Message // it is no longer what was approved
	case e.Code == registry.CodeRemote || e.Code == registry.CodeRemotePermanent:
		return registry.OutcomeFailed, e.Reason, e.Message
	}
	return registry.OutcomeDependency, e.Reason, e.Message
}
