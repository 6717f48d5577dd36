package activities

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"countersign/db"
	"countersign/failpoint"
	"countersign/registry"
)

const (
	// ledgerRows is how many probes one statement records at most, and
	// ledgerTime how long one waits for it. What is in between is what a worker
	// that dies has met in vain.
	ledgerRows = 250
	ledgerTime = 5 * time.Second
	// ledgerTries is how often a record is tried, a second and more apart.
	ledgerTries = 5
)

// ledger records what a round of probes sees, many at a time, and keeps what
// changes something. It heartbeats who was met in vain.
type ledger struct {
	a        *Activities
	interval time.Duration
	targets  map[string]*db.ProbeTarget
	stop     func() // what cannot be recorded need not be met

	writing sync.Mutex // one record at a time
	mu      sync.Mutex
	pending []registry.Probe
	tried   []string // servers that are left for later
	probed  int
	changed []ProbeSignal
	fault   error
}

func (a *Activities) ledger(targets []db.ProbeTarget, interval time.Duration) *ledger {
	l := &ledger{a: a, interval: interval, targets: make(map[string]*db.ProbeTarget, len(targets))}
	for i := range targets {
		l.targets[targets[i].Server.ServerID] = &targets[i]
	}
	return l
}

// keep records and heartbeats until the returned function is called, which
// records the rest, even when the activity's time is over. The context ends when
// something cannot be recorded.
func (l *ledger) keep(parent context.Context) (ctx context.Context, finish func() error) {
	ctx, l.stop = context.WithCancel(parent)
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(ledgerTime)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				l.beat(ctx)
				l.flush(ctx)
			case <-done:
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() error {
		defer l.stop()
		close(done)
		<-stopped
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		if ctx.Err() != nil {
			last, cancel = context.WithTimeout(context.WithoutCancel(ctx), ledgerTime)
		}
		defer cancel()
		l.flush(last)
		l.mu.Lock()
		defer l.mu.Unlock()
		return cmp.Or(l.fault, parent.Err())
	}
}

func (l *ledger) beat(ctx context.Context) {
	l.mu.Lock()
	tried := slices.Clone(l.tried)
	l.mu.Unlock()
	activity.RecordHeartbeat(ctx, tried)
}

// add takes a probe that is to be recorded.
func (l *ledger) add(ctx context.Context, p registry.Probe) {
	l.mu.Lock()
	l.pending = append(l.pending, p)
	full := len(l.pending) >= ledgerRows
	l.mu.Unlock()
	if full {
		l.flush(ctx)
	}
}

// leave notes a server that is to be met again, by others.
func (l *ledger) leave(serverID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tried = append(l.tried, serverID)
}

// known takes what is recorded of a server in this window already.
func (l *ledger) known(p registry.Probe) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell(p)
}

// tell keeps a probe that its server must hear of.
func (l *ledger) tell(p registry.Probe) {
	t := l.targets[p.ServerID]
	if t == nil {
		return
	}
	p.Held = l.a.Hysteresis.Holds(&p)
	if p.Changes(&t.Server) {
		l.changed = append(l.changed, ProbeSignal{Name: t.Server.Name, Probe: p})
	}
}

func (l *ledger) flush(ctx context.Context) {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	batch := l.pending
	l.pending = nil
	l.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	failpoint.Hit("probe.probed")
	rows, err := l.record(ctx, batch)
	failpoint.Hit("probe.recorded")
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.fault = err
		l.stop()
		return
	}
	l.probed += len(batch)
	for _, p := range rows {
		l.tell(p)
	}
}

// record tries for a while: a database that is away for a moment is no reason to
// meet all servers again.
func (l *ledger) record(ctx context.Context, batch []registry.Probe) (rows []registry.Probe, err error) {
	for try := 1; ; try++ {
		if rows, err = l.a.DB.System().RecordProbes(ctx, batch, l.interval); err == nil || try == ledgerTries {
			return rows, err
		}
		l.a.Log.LogAttrs(ctx, slog.LevelWarn, "probes not recorded yet", slog.Int("probes", len(batch)), slog.Any("error", err))
		select {
		case <-time.After(time.Duration(try) * time.Second):
		case <-ctx.Done():
			return nil, err
		}
	}
}
