package api

import (
	lru "container/list"
	"context"
	"math"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"countersign/proto/countersign/registry/v1/registryv1connect"
	"countersign/registry"
)

// Rate is how often something may be called: so many requests per second in
// the long run, and a burst of so many at once. Zero per second is no limit.
type Rate struct {
	PerSecond float64
	Burst     int
}

// Rates are the limits of one process. Resolve is apart, so that neither the
// people who look at lists nor the executors can starve the other.
type Rates struct {
	Principal Rate // of each caller
	Tenant    Rate // of all callers of one tenant together
	Resolve   Rate // of McpRegistryService, of one tenant, instead of the two others
	// Changes are those requests of one tenant that change something, which cost a
	// hundred times what others do: most begin or tell a workflow. They count against
	// the first two as well (threats B24).
	Changes Rate
	// Concurrent is how many requests of one tenant are under way at once, those to
	// McpRegistryService aside; 0: no limit. So a tenant whose requests take long
	// keeps nobody else's from the database (threats B24).
	Concurrent int
}

// maxBuckets is how many callers, and how many tenants, are remembered. One
// that was forgotten for being idle the longest begins with a full bucket.
const maxBuckets = 16384

// Limiter counts the requests of one process, on all of its listeners. Its
// memory is bounded.
type Limiter struct {
	rates      Rates
	now        func() time.Time
	principals *buckets
	tenants    *buckets
	resolves   *buckets
	changes    *buckets
	underWay   inFlight
	held       chan struct{} // a place for each refused request that is held
}

// How refused requests are held before their answer, so that a caller who does not
// wait as he is told to costs as little as one who does.
const (
	maxHold     = time.Second
	maxHeldBack = 1024 // of one process at once; the others are answered at once
)

// NewLimiter makes a limiter that has seen nobody yet.
func NewLimiter(r Rates) *Limiter {
	return &Limiter{
		rates: r, now: time.Now,
		principals: newBuckets(r.Principal, maxBuckets), tenants: newBuckets(r.Tenant, maxBuckets), resolves: newBuckets(r.Resolve, maxBuckets),
		changes:  newBuckets(r.Changes, maxBuckets),
		underWay: inFlight{most: r.Concurrent, of: map[string]int{}},
		held:     make(chan struct{}, maxHeldBack),
	}
}

// admit counts a request, or refuses it with too_many_requests and the facts
// limit (principal, tenant or resolve) and retry_after, a duration as in 1.5s.
func (l *Limiter) admit(p registry.Principal, path string) *registry.Error {
	if l == nil {
		return nil
	}
	now := l.now()
	if isResolve(path) {
		return l.resolves.take(whose{tenant: p.Tenant}, "resolve", now)
	}
	// The caller's own limit first: what it refuses costs the tenant nothing.
	if err := l.principals.take(whose{p.Tenant, p.Subject}, "principal", now); err != nil {
		return err
	}
	return l.tenants.take(whose{tenant: p.Tenant}, "tenant", now)
}

// change counts a request that changes something, or refuses it as [Limiter.admit]
// does; limit is changes.
func (l *Limiter) change(p registry.Principal) *registry.Error {
	if l == nil {
		return nil
	}
	return l.changes.take(whose{tenant: p.Tenant}, "changes", l.now())
}

// hold keeps a request that was refused from its answer, for as long as its caller
// is to wait and a second at most.
func (l *Limiter) hold(ctx context.Context, refused *registry.Error) {
	select {
	case l.held <- struct{}{}:
		defer func() { <-l.held }()
	default:
		return
	}
	timer := time.NewTimer(min(retryDelay(refused), maxHold))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// begin counts a request as under way until done is called, or refuses it with
// too_many_requests and the facts of [Limiter.admit]; limit is concurrent.
func (l *Limiter) begin(p registry.Principal, path string) (done func(), err *registry.Error) {
	if l == nil || l.underWay.most <= 0 || isResolve(path) {
		return func() {}, nil
	}
	return l.underWay.begin(p.Tenant)
}

// inFlight counts what is under way, by tenant.
type inFlight struct {
	most int

	mu sync.Mutex
	of map[string]int
}

func (f *inFlight) begin(tenant string) (done func(), err *registry.Error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of[tenant] >= f.most {
		return nil, registry.Errorf(registry.ReasonTooManyRequests, "your tenant has %d requests under way", f.most).
			With("limit", "concurrent").With("retry_after", retryAfter.String()).
			WithNext("wait until some have their answer and try again; the operator sets limits.concurrent")
	}
	f.of[tenant]++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.of[tenant]--; f.of[tenant] == 0 {
			delete(f.of, tenant)
		}
	}, nil
}

// isResolve says whether a path is one of McpRegistryService, by whatever face.
func isResolve(path string) bool {
	switch {
	case strings.HasPrefix(path, "/"+registryv1connect.McpRegistryServiceName+"/"),
		path == "/factory/resolve", path == "/factory/capabilities":
		return true
	}
	return strings.HasPrefix(path, "/factory/tools/") && (strings.HasSuffix(path, "/resolve") || strings.HasSuffix(path, "/explain"))
}

// whose says whose bucket it is. Subjects are a tenant's own.
type whose struct{ tenant, subject string }

// buckets are token buckets of one rate, the least recently used forgotten.
type buckets struct {
	rate Rate
	most int

	mu    sync.Mutex
	by    map[whose]*lru.Element
	order *lru.List // of *bucket, the one used last in front
}

type bucket struct {
	whose whose
	*rate.Limiter
}

func newBuckets(r Rate, most int) *buckets {
	return &buckets{rate: r, most: most, by: map[whose]*lru.Element{}, order: lru.New()}
}

func (b *buckets) of(w whose) *rate.Limiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.by[w]; e != nil {
		b.order.MoveToFront(e)
		return e.Value.(*bucket).Limiter //nolint:forcetypeassert,errcheck // nothing else is in the list
	}
	if b.order.Len() >= b.most {
		last := b.order.Back()
		delete(b.by, b.order.Remove(last).(*bucket).whose) //nolint:forcetypeassert,errcheck // nothing else is in the list
	}
	fresh := &bucket{w, rate.NewLimiter(rate.Limit(b.rate.PerSecond), b.rate.Burst)}
	b.by[w] = b.order.PushFront(fresh)
	return fresh.Limiter
}

// take takes a token, or says when there will be one.
func (b *buckets) take(w whose, name string, now time.Time) *registry.Error {
	if b.rate.PerSecond <= 0 {
		return nil
	}
	limiter := b.of(w)
	if limiter.AllowN(now, 1) {
		return nil
	}
	wait := time.Duration((1 - limiter.TokensAt(now)) / b.rate.PerSecond * float64(time.Second))
	wait = max(wait, time.Millisecond).Round(time.Millisecond)
	whom := "your tenant calls"
	switch name {
	case "principal":
		whom = "you call"
	case "changes":
		whom = "your tenant asks for changes"
	}
	return registry.Errorf(registry.ReasonTooManyRequests, "%s more often than %g times a second", whom, b.rate.PerSecond).
		With("limit", name).With("retry_after", wait.String()).
		WithNext("wait %s and try again; the operator sets limits.%s", wait, name)
}

// retryDelay is how long the caller of a refused request should wait.
func retryDelay(e *registry.Error) time.Duration {
	if d, err := time.ParseDuration(e.Fact("retry_after")); err == nil && d > 0 {
		return d
	}
	return retryAfter
}

// wholeSeconds is a delay as the header Retry-After has it: rounded up.
func wholeSeconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }
