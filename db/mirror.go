package db

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"countersign/registry"
)

// Mirror keeps in memory what decides about tools, and follows the database. A
// tenant is loaded when it is first asked for and forgotten when it was not for
// ten minutes; a change reads the tools of its server again. What it says was
// true at [Mirror.Age] ago, or since.
//
// S is what is kept of a server, T of a tool; both are made once for each change.
type Mirror[S, T any] struct {
	db       *DB
	ofServer func(*ToolView) S
	ofTool   func(*ToolView) T
	tick     time.Duration

	start   sync.Once
	started chan struct{}
	polling sync.Mutex // one at a time
	reader  reader
	bell    bell         // rings after changes were taken in
	current atomic.Int64 // since base, in ns: up to when it is current
	ahead   atomic.Int64 // of the database's clock before ours, in ns
	base    time.Time

	mu      sync.Mutex
	tenants map[string]*mirrored[S, T]
}

// mirrored is one tenant.
type mirrored[S, T any] struct {
	used atomic.Int64 // when, as Mirror.current

	loading sync.Mutex // one at a time loads

	mu       sync.RWMutex
	epoch    int64 // moves with every change of the tenant
	loaded   bool
	broken   bool            // a change could not be taken in: load anew
	dirty    map[string]bool // servers that changed and were not read since
	moved    bool            // assignments changed and were not read since
	servers  map[string]*kept[S]
	tools    map[string]Known[S, T]
	of       map[string][]string          // tool ids by server
	assigned map[assignedTool]assignments // to whom
	probed   time.Time                    // when probes were read
}

type kept[S any] struct {
	view ToolView // without its tool
	made atomic.Pointer[S]
}

type assignedTool struct{ agent, toolID string }

type assignments []string // workspaces

// Known is what a mirror knows of a tool.
type Known[S, T any] struct {
	server *kept[S]
	Tool   T
}

// Server is what is known of its server.
func (k *Known[S, T]) Server() S { return *k.server.made.Load() }

// Times of mirrors.
const (
	mirrorTick  = time.Second      // between two looks when there is no hint
	mirrorKeeps = 10 * time.Minute // a tenant that nobody asks for
	mirrorLooks = 30 * time.Second // at probes, of which nobody is told
)

// NewMirror makes a mirror. It follows from the first question on, until the
// context is over.
func NewMirror[S, T any](d *DB, ofServer func(*ToolView) S, ofTool func(*ToolView) T) *Mirror[S, T] {
	return &Mirror[S, T]{
		db: d, ofServer: ofServer, ofTool: ofTool, tick: mirrorTick, started: make(chan struct{}), base: time.Now(),
		tenants: map[string]*mirrored[S, T]{},
	}
}

// Follow follows the database until the context is over, from the first
// question on.
func (m *Mirror[S, T]) Follow(ctx context.Context) {
	select {
	case <-m.started:
	case <-ctx.Done():
		return
	}
	hint := make(chan struct{}, 1)
	go m.db.hinted(ctx, func() {
		select {
		case hint <- struct{}{}:
		default:
		}
	})
	ticks := time.NewTicker(m.tick)
	defer ticks.Stop()
	for {
		select {
		case <-hint:
		case <-ticks.C:
			m.forget()
			m.lookAtProbes(ctx)
		case <-ctx.Done():
			return
		}
		if err := m.Poll(ctx); err != nil && ctx.Err() == nil {
			m.db.log.LogAttrs(ctx, slog.LevelDebug, "database: cannot be followed", slog.Any("error", err))
		}
	}
}

// Age is how long ago it was certainly current.
func (m *Mirror[S, T]) Age() time.Duration {
	return time.Since(m.base) - time.Duration(m.current.Load())
}

// Now is the database's clock, as it went on since it was read.
func (m *Mirror[S, T]) Now() time.Time { return time.Now().Add(time.Duration(m.ahead.Load())).UTC() }

// Changed is closed when changes are taken in the next time.
func (m *Mirror[S, T]) Changed() <-chan struct{} { return m.bell.next() }

// Poll takes in what was committed. It costs one question when there is nothing.
func (m *Mirror[S, T]) Poll(ctx context.Context) error {
	m.start.Do(func() { close(m.started) })
	m.polling.Lock()
	defer m.polling.Unlock()
	before := time.Now()
	list, all, now, err := m.reader.read(ctx, m.db)
	if err != nil {
		return err
	}
	m.ahead.Store(int64(time.Until(now)))
	m.mark(list, all)
	if err := m.takeIn(ctx); err != nil {
		return err
	}
	m.current.Store(int64(before.Sub(m.base)))
	if all || len(list) > 0 {
		m.bell.ring()
	}
	return nil
}

// mark notes what is no longer known.
func (m *Mirror[S, T]) mark(list []alteration, all bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if all {
		for _, t := range m.tenants {
			t.mu.Lock()
			t.epoch++
			t.broken = true
			t.mu.Unlock()
		}
		return
	}
	for _, c := range list {
		t := m.tenants[c.TenantID]
		if t == nil {
			continue
		}
		t.mu.Lock()
		t.epoch++
		switch c.Kind {
		case "server":
			t.dirty[c.ObjectID] = true
		case "agent":
			t.moved = true
		case "descriptor", "connection": // decide by their server, which changes
		default:
			t.broken = true
		}
		t.mu.Unlock()
	}
}

// takeIn reads again what changed of the tenants that are known.
func (m *Mirror[S, T]) takeIn(ctx context.Context) error {
	m.mu.Lock()
	tenants := make(map[string]*mirrored[S, T], len(m.tenants))
	for name, t := range m.tenants {
		t.mu.RLock()
		if t.loaded && (t.broken || t.moved || len(t.dirty) > 0) {
			tenants[name] = t
		}
		t.mu.RUnlock()
	}
	m.mu.Unlock()
	for name, t := range tenants {
		if err := m.load(ctx, name, t, false); err != nil {
			return err
		}
	}
	return nil
}

// Get gives what is known of tools: one that is missing does not exist. It is
// as current as maxAge wants, or refused as snapshot_too_old.
func (m *Mirror[S, T]) Get(ctx context.Context, tenant string, toolIDs []string, by Caller, maxAge time.Duration, each func(i int, k *Known[S, T], assigned bool)) error {
	if !registry.ValidTenant(tenant) {
		return registry.Errorf(registry.ReasonInvalidArgument, "not a tenant's name")
	}
	if err := m.fresh(ctx, maxAge); err != nil {
		return err
	}
	m.mu.Lock()
	t := m.tenants[tenant]
	if t == nil {
		t = &mirrored[S, T]{dirty: map[string]bool{}}
		m.tenants[tenant] = t
	}
	m.mu.Unlock()
	t.used.Store(int64(time.Since(m.base)))
	for {
		if t.tell(toolIDs, by, each) {
			return nil
		}
		if err := m.load(ctx, tenant, t, true); err != nil {
			return err
		}
	}
}

// fresh looks at the database when it was not looked at for longer than that.
func (m *Mirror[S, T]) fresh(ctx context.Context, maxAge time.Duration) error {
	m.start.Do(func() { close(m.started) })
	if m.current.Load() != 0 && m.Age() <= maxAge {
		return nil
	}
	asked, cancel := context.WithTimeout(ctx, max(min(maxAge, 2*time.Second), 200*time.Millisecond))
	defer cancel()
	if err := m.Poll(asked); err != nil && (m.current.Load() == 0 || m.Age() > maxAge) {
		m.db.log.LogAttrs(ctx, slog.LevelWarn, "database: cannot be followed", slog.Any("error", err))
		return registry.Errorf(registry.ReasonStaleSnapshot, "what is known is older than %v, and the database cannot be followed", maxAge).
			WithNext("try again, allow more, or ask for fully_consistent")
	}
	return nil
}

// tell answers, unless the tenant is to be loaded first.
func (t *mirrored[S, T]) tell(toolIDs []string, by Caller, each func(i int, k *Known[S, T], assigned bool)) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if !t.loaded {
		return false
	}
	for i, id := range toolIDs {
		k, known := t.tools[id]
		if !known {
			each(i, nil, false)
			continue
		}
		assigned := false
		if by.Agent != "" {
			for _, workspace := range t.assigned[assignedTool{by.Agent, id}] {
				assigned = assigned || workspace == "" || workspace == by.Workspace
			}
		}
		each(i, &k, assigned)
	}
	return true
}

// load reads a tenant, or what changed of it. What changed meanwhile is read
// again by whoever noticed that.
func (m *Mirror[S, T]) load(ctx context.Context, tenant string, t *mirrored[S, T], first bool) error {
	t.loading.Lock()
	defer t.loading.Unlock()
	for {
		t.mu.Lock()
		if first && t.loaded {
			t.mu.Unlock()
			return nil
		}
		epoch, whole, moved := t.epoch, !t.loaded || t.broken, t.moved
		var servers []string
		for id := range t.dirty {
			servers = append(servers, id)
		}
		t.mu.Unlock()
		if !whole && !moved && len(servers) == 0 {
			return nil
		}
		rows, assigned, err := m.db.Tenant(tenant).everything(ctx, servers, whole, moved)
		if err != nil {
			return err
		}
		fresh := m.take(rows, assigned)
		t.mu.Lock()
		if t.epoch == epoch {
			t.put(fresh, servers, whole, moved)
			t.mu.Unlock()
			return nil
		}
		t.mu.Unlock()
	}
}

// take makes what is kept of what was read.
func (m *Mirror[S, T]) take(rows []ToolView, assigned []registry.Assignment) *mirrored[S, T] {
	out := &mirrored[S, T]{
		servers: map[string]*kept[S]{}, tools: make(map[string]Known[S, T], len(rows)), of: map[string][]string{}, probed: time.Now(),
		assigned: map[assignedTool]assignments{},
	}
	for i := range rows {
		v := &rows[i]
		s := out.servers[v.Server.ServerID]
		if s == nil {
			s = &kept[S]{view: *v}
			s.view.Tool, s.view.Binding, s.view.Denial = registry.Tool{}, nil, nil
			made := m.ofServer(v)
			s.made.Store(&made)
			out.servers[v.Server.ServerID] = s
		}
		out.tools[v.Tool.ToolID] = Known[S, T]{s, m.ofTool(v)}
		out.of[v.Server.ServerID] = append(out.of[v.Server.ServerID], v.Tool.ToolID)
	}
	for _, a := range assigned {
		key := assignedTool{a.Agent, a.ToolID}
		out.assigned[key] = append(out.assigned[key], a.Workspace)
	}
	return out
}

// put replaces what was read again.
func (t *mirrored[S, T]) put(fresh *mirrored[S, T], servers []string, whole, moved bool) {
	if moved {
		t.assigned, t.moved = fresh.assigned, false
	}
	if whole {
		t.loaded, t.broken, t.moved, t.dirty = true, false, false, map[string]bool{}
		t.servers, t.tools, t.of, t.assigned, t.probed = fresh.servers, fresh.tools, fresh.of, fresh.assigned, fresh.probed
		return
	}
	for _, id := range servers {
		for _, tool := range t.of[id] {
			delete(t.tools, tool)
		}
		delete(t.of, id)
		delete(t.servers, id)
		delete(t.dirty, id)
	}
	for id, k := range fresh.servers {
		t.servers[id] = k
		t.of[id] = fresh.of[id] // of a server that took over ids of another one: these
	}
	maps.Copy(t.tools, fresh.tools)
}

// forget drops tenants that nobody asks for.
func (m *Mirror[S, T]) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, t := range m.tenants {
		if time.Since(m.base)-time.Duration(t.used.Load()) > mirrorKeeps {
			delete(m.tenants, name)
		}
	}
}

// lookAtProbes brings how servers are up to date, of tenants that are asked for.
func (m *Mirror[S, T]) lookAtProbes(ctx context.Context) {
	m.mu.Lock()
	stale := map[string]*mirrored[S, T]{}
	for name, t := range m.tenants {
		t.mu.RLock()
		if t.loaded && time.Since(t.probed) > mirrorLooks && time.Since(m.base)-time.Duration(t.used.Load()) < mirrorLooks {
			stale[name] = t
		}
		t.mu.RUnlock()
	}
	m.mu.Unlock()
	for name, t := range stale {
		probes, err := m.db.Tenant(name).latestProbes(ctx)
		if err != nil {
			return // the next look may do better
		}
		t.mu.Lock()
		t.probed = time.Now()
		for id, k := range t.servers {
			p := probes[id]
			if p == nil || k.view.LastProbe != nil && k.view.LastProbe.Window.Equal(p.Window) {
				continue
			}
			k.view.LastProbe = p
			made := m.ofServer(&k.view)
			k.made.Store(&made)
		}
		t.mu.Unlock()
	}
}
