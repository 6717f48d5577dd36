package activities

import (
	"cmp"
	"context"
	"hash/fnv"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"countersign/db"
	"countersign/registry"
)

const (
	// quickLook is how long a server is waited for in the line with all others;
	// who takes longer is met apart from them, with all the time there is.
	quickLook = 3 * time.Second
	// restPage is how many servers that keep us waiting are met in one go.
	restPage = 2000
)

// PlanSweep cuts the servers of a window into pages.
func (a *Activities) PlanSweep(ctx context.Context, in PlanSweepInput) (PlanSweepOutput, error) {
	plan, err := a.DB.System().PlanSweep(ctx, in.Window, in.Page)
	return PlanSweepOutput{Cuts: plan.Cuts, Quick: plan.Quick, Slow: plan.Slow, Resting: plan.Resting}, err
}

// ProbeQuick meets one page of servers in one window, once each, at moments that
// are spread over a time and the same in each window (R140–R144). A server that
// fails, and did not before, is left for [Activities.ProbeRest]. One that is
// recorded or was left is not met again by a retry, which so goes on where a
// dead worker stopped. Only outcomes that change something are returned.
func (a *Activities) ProbeQuick(ctx context.Context, in ProbeQuickInput) (ProbeQuickOutput, error) {
	again := activity.GetInfo(ctx).Attempt > 1
	var tried []string
	if activity.HasHeartbeatDetails(ctx) {
		_ = activity.GetHeartbeatDetails(ctx, &tried) // what cannot be read is met once more
	}
	targets, err := a.DB.System().SweepTargets(ctx, db.SweepQuery{Window: in.Window, After: in.After, Until: in.Until, Recorded: again})
	if err != nil {
		return ProbeQuickOutput{}, err
	}
	slices.SortFunc(targets, func(a, b db.ProbeTarget) int { return cmp.Compare(place(&a), place(&b)) })
	l := a.ledger(targets, in.Interval)
	ctx, finish := l.keep(ctx)
	var met sync.WaitGroup
	for i := range targets {
		t := &targets[i]
		if p, done := t.RecordedIn(in.Window); done {
			l.known(p)
			continue
		}
		if slices.Contains(tried, t.Server.ServerID) {
			l.leave(t.Server.ServerID)
			continue
		}
		if !waitUntil(ctx, in.Start.Add(in.Spread*time.Duration(i)/time.Duration(len(targets)))) {
			break
		}
		met.Go(func() {
			p, seen := a.glance(ctx, t, in.Window)
			switch {
			case seen:
				l.add(ctx, p)
			case ctx.Err() == nil:
				l.leave(t.Server.ServerID)
			}
		})
	}
	met.Wait()
	if err := finish(); err != nil {
		return ProbeQuickOutput{}, err
	}
	return ProbeQuickOutput{Probed: l.probed, Left: len(l.tried), Changed: l.changed}, nil
}

// place gives a server's place in its page: among strangers, so that those of
// one tenant or host are not met in a row, and the same in every window.
func place(t *db.ProbeTarget) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(t.Server.ServerID))
	return h.Sum64()
}

// waitUntil says whether there is still somebody who wants it then.
func waitUntil(ctx context.Context, at time.Time) bool {
	wait := time.Until(at)
	if wait <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// glance is the first attempt of a window. What it sees counts unless it is a
// failure that a second attempt may mend.
func (a *Activities) glance(ctx context.Context, t *db.ProbeTarget, window time.Time) (registry.Probe, bool) {
	target, err := a.target(&t.Server, t.Connection, t.Command)
	leave, busy := a.meetings(false).take(ctx, t.Server.TenantID, hostOf(target))
	if busy != nil {
		return registry.Probe{}, false
	}
	defer leave()
	look, cancel := context.WithTimeout(ctx, quickLook)
	defer cancel()
	p := a.meet(look, t, target, err, window, 1)
	if look.Err() != nil || p.Reason == registry.ReasonDeadline {
		return p, false // our own time was over, or that of somebody who asked the same
	}
	return p, p.Outcome != registry.OutcomeFailed || p.Reason.Lasting() || failing(t)
}

// failing says whether the server failed in the window before. Then one more
// failure is no news, and needs no second attempt.
func failing(t *db.ProbeTarget) bool { return t.LastProbe != nil && t.LastProbe.Streak < 0 }

// ProbeRest meets the servers of a window that are not recorded yet: those that
// are known to be slow, or those that failed once in this window. They have as
// many attempts as there are, and time until the deadline; what is not met by
// then is met in the next window.
func (a *Activities) ProbeRest(ctx context.Context, in ProbeRestInput) (ProbeQuickOutput, error) {
	var out ProbeQuickOutput
	for again := activity.GetInfo(ctx).Attempt > 1; ; again = false {
		targets, err := a.DB.System().SweepTargets(ctx, db.SweepQuery{Window: in.Window, Slow: in.Slow, Recorded: again, Limit: restPage})
		if err != nil {
			return ProbeQuickOutput{}, err
		}
		probed, err := a.rest(ctx, in, targets, &out)
		if err != nil {
			return ProbeQuickOutput{}, err
		}
		if len(targets) == 0 || probed == 0 && !again {
			return out, nil
		}
	}
}

func (a *Activities) rest(ctx context.Context, in ProbeRestInput, targets []db.ProbeTarget, out *ProbeQuickOutput) (probed int, err error) {
	l := a.ledger(targets, in.Interval)
	ctx, finish := l.keep(ctx)
	until, cancel := context.WithDeadline(ctx, in.Deadline)
	defer cancel()
	var met sync.WaitGroup
	for i := range targets {
		t := &targets[i]
		if p, done := t.RecordedIn(in.Window); done {
			l.known(p)
			continue
		}
		met.Go(func() {
			first, last := 2, attempts
			if in.Slow {
				if first = 1; failing(t) {
					last = 1
				}
			}
			if p, seen := a.persist(until, t, in, first, last); seen {
				l.add(ctx, p)
			} else {
				l.leave(t.Server.ServerID)
			}
		})
	}
	met.Wait()
	if err := finish(); err != nil {
		return 0, err
	}
	if n := len(l.tried); n > 0 {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "servers not probed in this window: too many keep us waiting",
			slog.Time("window", in.Window), slog.Int("servers", n))
	}
	out.Probed, out.Left, out.Changed = out.Probed+l.probed, len(l.tried), append(out.Changed, l.changed...)
	return l.probed, nil
}

// persist makes the attempts of a window until one of them says something. Time
// that is over before the first has ended says nothing.
func (a *Activities) persist(ctx context.Context, t *db.ProbeTarget, in ProbeRestInput, first, last int) (p registry.Probe, seen bool) {
	for attempt := first; attempt <= last; attempt++ {
		if attempt > first || !in.Slow {
			wait := max(in.AttemptGap, p.RetryAfter)
			if !waitUntil(ctx, time.Now().Add(wait)) {
				return p, seen
			}
		}
		now, whole := a.attempt(ctx, t, in, attempt)
		if !whole {
			return p, seen
		}
		if p, seen = now, true; p.Outcome != registry.OutcomeFailed || p.Reason.Lasting() {
			break
		}
	}
	return p, seen
}

func (a *Activities) attempt(ctx context.Context, t *db.ProbeTarget, in ProbeRestInput, attempt int) (p registry.Probe, whole bool) {
	target, err := a.target(&t.Server, t.Connection, t.Command)
	leave, busy := a.meetings(true).take(ctx, t.Server.TenantID, hostOf(target))
	if busy != nil {
		return registry.Probe{}, false
	}
	defer leave()
	p = a.meet(ctx, t, target, err, in.Window, attempt)
	return p, ctx.Err() == nil && p.Reason != registry.ReasonDeadline
}
