package events

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"countersign/registry"
	"countersign/telemetry"
)

// Store is where events wait; db.SystemStore is one.
type Store interface {
	RelayEvents(ctx context.Context, sinks []string, limit int) (int, error)
	ClaimLanes(ctx context.Context, busy []string, limit int, lease time.Duration) ([]registry.Lane, error)
	Parcels(ctx context.Context, lane registry.Lane, limit int) ([]registry.Parcel, *registry.Subscription, error)
	SettleLane(ctx context.Context, lane registry.Lane, attempts []registry.Attempt, again time.Duration) (bool, error)
	PruneEvents(ctx context.Context, keep time.Duration, limit int) (int, error)
}

// Sink delivers events of all tenants somewhere. A repeat has the same id.
type Sink interface {
	Deliver(ctx context.Context, e registry.OutboxEvent, envelope []byte) error
}

// Relay delivers the outbox: every event at least once to every sink that wants
// it, those of a subject in order, each with the id that it has for ever (R163).
// Every worker process has one; they share the work by leases in the database, and
// need no Temporal. What fails is tried again, ever more slowly, until it is given
// up as a dead letter, which releases the next event of its subject.
type Relay struct {
	Store    Store
	Webhooks *Webhooks
	Sinks    map[string]Sink // of the installation, by name
	Source   string          // of the CloudEvents
	Log      *slog.Logger

	Instruments *telemetry.Instruments // nil: nothing is counted

	// Zero values mean the defaults named with each field.
	Interval    time.Duration // between two looks when there is nothing to do; default 1 s
	Concurrency int           // lanes at a time; default 32
	PerSink     int           // of these, to one sink; default 8
	Timeout     time.Duration // of one attempt; default 10 s
	Lease       time.Duration // of a lane; longer than Timeout by far; default 2 min
	First       time.Duration // wait after a first failure, which doubles with each; default 5 s
	Most        time.Duration // the longest wait; default 1 h
	GiveUp      time.Duration // since the first attempt; default 24 h
	Keep        time.Duration // how long events are kept; 0: for ever

	mu   sync.Mutex
	busy map[string]int // lanes under way, by sink
}

const (
	relayStep = 500  // events of one transaction
	laneStep  = 20   // deliveries of one visit
	pruneStep = 5000 // rows of one transaction
	pruneWait = time.Minute
)

func (r *Relay) defaults() {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&r.Interval, time.Second},
		{&r.Timeout, 10 * time.Second},
		{&r.Lease, 2 * time.Minute},
		{&r.First, 5 * time.Second},
		{&r.Most, time.Hour},
		{&r.GiveUp, 24 * time.Hour},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if r.Concurrency <= 0 {
		r.Concurrency = 32
	}
	if r.PerSink <= 0 {
		r.PerSink = 8
	}
	if r.Source == "" {
		r.Source = Source
	}
	r.busy = map[string]int{}
}

// Run delivers until the context is over, and returns when what was under way has
// ended.
func (r *Relay) Run(ctx context.Context) {
	r.defaults()
	var working sync.WaitGroup
	defer working.Wait()
	done := make(chan struct{}, 1)
	failing := false
	var pruned time.Time
	for ctx.Err() == nil {
		more, err := r.round(ctx, &working, done)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			r.Log.LogAttrs(ctx, slog.LevelWarn, "events cannot be relayed", slog.Any("error", err))
		case err == nil && failing:
			r.Log.LogAttrs(ctx, slog.LevelInfo, "events are relayed again")
		}
		failing = err != nil
		if r.Keep > 0 && time.Since(pruned) > pruneWait {
			pruned = time.Now()
			r.prune(ctx)
		}
		if more {
			continue
		}
		select {
		case <-done: // its lane may have more
		case <-time.After(r.Interval):
		case <-ctx.Done():
		}
	}
}

// round offers what is new and begins to go along what is due; more says that
// there is more of it now.
func (r *Relay) round(ctx context.Context, working *sync.WaitGroup, done chan<- struct{}) (more bool, err error) {
	sinks := make([]string, 0, len(r.Sinks))
	for name := range r.Sinks {
		sinks = append(sinks, name)
	}
	slices.Sort(sinks)
	n, err := r.Store.RelayEvents(ctx, sinks, relayStep)
	if err != nil {
		return false, err
	}
	free, busy := r.room()
	if free <= 0 {
		return n == relayStep, nil
	}
	lanes, err := r.Store.ClaimLanes(ctx, busy, min(free, r.PerSink), r.Lease)
	if err != nil {
		return false, err
	}
	for _, lane := range lanes {
		r.enter(lane.Sink, 1)
		working.Go(func() {
			defer func() {
				r.enter(lane.Sink, -1)
				select {
				case done <- struct{}{}:
				default:
				}
			}()
			// Whoever stops lets what was sent be recorded.
			if err := r.along(ctx, lane); err != nil && ctx.Err() == nil {
				r.Log.LogAttrs(ctx, slog.LevelWarn, "a delivery could not be recorded", slog.String("tenant", lane.TenantID), slog.String("sink", lane.Sink), slog.Any("error", err))
			}
		})
	}
	return n == relayStep || len(lanes) > 0, nil
}

func (r *Relay) enter(sink string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy[sink] += n; r.busy[sink] <= 0 {
		delete(r.busy, sink)
	}
}

// room says how many lanes can be gone along besides, and to which sinks none.
func (r *Relay) room() (free int, busy []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	free = r.Concurrency
	for sink, n := range r.busy {
		free -= n
		if n >= r.PerSink {
			busy = append(busy, sink)
		}
	}
	slices.Sort(busy)
	return free, busy
}

// along delivers what waits in a lane, in order, until one cannot be delivered or
// half of the lease is over.
func (r *Relay) along(ctx context.Context, lane registry.Lane) error {
	parcels, u, err := r.Store.Parcels(ctx, lane, laneStep)
	if err != nil {
		// Given back, so that nobody waits for the end of the lease of a process that stops.
		_, given := r.Store.SettleLane(context.WithoutCancel(ctx), lane, nil, r.First)
		return errors.Join(err, given)
	}
	if u != nil && !u.Enabled {
		_, err := r.Store.SettleLane(ctx, lane, nil, -1)
		return err
	}
	var (
		attempts []registry.Attempt
		again    time.Duration
		began    = time.Now()
	)
	for _, p := range parcels {
		if ctx.Err() != nil || time.Since(began) > r.Lease/2 {
			break
		}
		a, wait := r.attempt(ctx, lane, u, p)
		if ctx.Err() != nil && a.State != registry.DeliveryDelivered {
			break // we stop: that is no failure of the receiver's
		}
		attempts = append(attempts, a)
		r.count(ctx, lane, u, a)
		if a.State == registry.DeliveryPending {
			again = wait
			break
		}
	}
	_, err = r.Store.SettleLane(context.WithoutCancel(ctx), lane, attempts, again)
	return err
}

// attempt sends one event; wait is when to try again what stays pending.
func (r *Relay) attempt(ctx context.Context, lane registry.Lane, u *registry.Subscription, p registry.Parcel) (registry.Attempt, time.Duration) {
	now := time.Now()
	a := registry.Attempt{DeliveryID: p.Delivery.ID, State: registry.DeliveryDelivered, At: now}
	status, err := r.send(ctx, lane, u, p, now)
	a.Status = status
	if err == nil {
		return a, 0
	}
	wait := r.backoff(p.Delivery.Attempts)
	a.State, a.Problem = registry.DeliveryPending, "the sink failed"
	if f, ok := errors.AsType[*DeliveryError](err); ok {
		a.Status, a.Problem, wait = f.Status, f.Problem, max(wait, f.After)
	} else {
		r.Log.LogAttrs(ctx, slog.LevelWarn, "a sink failed", slog.String("sink", lane.Sink), slog.Any("error", err))
	}
	if first := p.Delivery.FirstAt; !first.IsZero() && now.Sub(first) >= r.GiveUp {
		a.State = registry.DeliveryDead
		r.Log.LogAttrs(ctx, slog.LevelWarn, "an event is given up", slog.String("tenant", lane.TenantID), slog.String("sink", lane.Sink),
			slog.String("event", p.Event.EventID), slog.String("problem", a.Problem))
	}
	return a, wait
}

// count tells of an attempt; all webhooks are one sink there.
func (r *Relay) count(ctx context.Context, lane registry.Lane, u *registry.Subscription, a registry.Attempt) {
	sink, outcome := lane.Sink, string(a.State)
	if u != nil {
		sink = "webhook"
	}
	if a.State == registry.DeliveryPending {
		outcome = "failed"
	}
	r.Instruments.Delivery(ctx, sink, outcome)
}

func (r *Relay) send(ctx context.Context, lane registry.Lane, u *registry.Subscription, p registry.Parcel, now time.Time) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	envelope, err := Envelope(p.Event, r.Source)
	if err != nil {
		return 0, err
	}
	if u != nil {
		return r.Webhooks.Send(ctx, *u, p.Event.EventID, envelope, now)
	}
	sink := r.Sinks[lane.Sink]
	if sink == nil {
		return 0, &DeliveryError{Problem: "this installation has no such sink any more"}
	}
	return 0, sink.Deliver(ctx, p.Event, envelope)
}

// backoff is the wait after so many failures besides this one, and up to a fifth
// less, so that not all come back at once.
func (r *Relay) backoff(failures int) time.Duration {
	wait := r.Most
	if failures < 20 {
		wait = min(r.First<<failures, r.Most)
	}
	if wait <= 0 {
		wait = r.Most
	}
	return wait - rand.N(wait/5+1) //nolint:gosec // not a secret, only not the same for all
}

func (r *Relay) prune(ctx context.Context) {
	for ctx.Err() == nil {
		n, err := r.Store.PruneEvents(ctx, r.Keep, pruneStep)
		if err != nil && ctx.Err() == nil {
			r.Log.LogAttrs(ctx, slog.LevelWarn, "old events cannot be removed", slog.Any("error", err))
		}
		if err != nil || n < pruneStep {
			return
		}
	}
}
