package activities

import (
	"cmp"
	"context"
	"net/url"
	"sync"

	"countersign/registry"
)

// Defaults of how many servers are met at a time.
const (
	defaultConcurrency     = 16  // of a worker, servers that answer
	defaultSlowConcurrency = 256 // of a worker, servers that keep us waiting: they cost little but time
	defaultPerHost         = 4
)

// turns bounds how many servers are met at a time: by this worker, of one
// tenant and at one host. Who waits for a host holds up no one else.
type turns struct {
	worker            chan struct{}
	perHost, perOwner int

	mu   sync.Mutex
	keys map[string]*turn
}

// turn is one key's: it goes when nobody uses it.
type turn struct {
	slots chan struct{}
	users int
}

// newTurns gives turns for so many at a time, of which one tenant has half.
func newTurns(worker, perHost int) *turns {
	return &turns{worker: make(chan struct{}, worker), perHost: perHost, perOwner: max(worker/2, 1), keys: map[string]*turn{}}
}

// take waits until a server may be met; what it returns ends the meeting.
func (t *turns) take(ctx context.Context, tenant, host string) (leave func(), err error) {
	var held []func()
	leave = func() {
		for _, release := range held {
			release()
		}
	}
	for _, key := range []struct {
		name  string
		limit int
	}{{"host/" + host, t.perHost}, {"tenant/" + tenant, t.perOwner}} {
		release, err := t.enter(ctx, key.name, key.limit)
		if err != nil {
			leave()
			return nil, err
		}
		held = append(held, release)
	}
	select {
	case t.worker <- struct{}{}:
		held = append(held, func() { <-t.worker })
		return leave, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

func (t *turns) enter(ctx context.Context, key string, limit int) (leave func(), err error) {
	t.mu.Lock()
	one := t.keys[key]
	if one == nil {
		one = &turn{slots: make(chan struct{}, limit)}
		t.keys[key] = one
	}
	one.users++
	t.mu.Unlock()
	done := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(t.keys, key)
		}
	}
	select {
	case one.slots <- struct{}{}:
		return func() { <-one.slots; done() }, nil
	case <-ctx.Done():
		done()
		return nil, ctx.Err()
	}
}

// hostOf is where a target is met, for the turns.
func hostOf(t registry.Target) string {
	if t.Transport == registry.TransportStdio {
		return "process"
	}
	u, err := url.Parse(t.URL)
	if err != nil {
		return t.URL
	}
	return cmp.Or(u.Host, t.DialAddress)
}

// meetings are the turns of a worker: servers that keep it waiting have turns of
// their own, so that the others do not stand in line behind them.
func (a *Activities) meetings(slow bool) *turns {
	a.once.Do(func() {
		perHost := cmp.Or(a.ProbesPerHost, defaultPerHost)
		a.quick = newTurns(cmp.Or(a.ProbeConcurrency, defaultConcurrency), perHost)
		a.slow = newTurns(cmp.Or(a.SlowConcurrency, defaultSlowConcurrency), perHost)
	})
	if slow {
		return a.slow
	}
	return a.quick
}
