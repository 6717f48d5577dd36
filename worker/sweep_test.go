package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"countersign/db"
	"countersign/mcpclient"
	"countersign/mcptest"
	"countersign/registry"
	"countersign/workflows"
)

// gate stands before a peer and gives each server an address of its own, by the
// first element of the path. It counts handshakes and may hang or refuse.
type gate struct {
	*httptest.Server
	mu     sync.Mutex
	met    map[string]int // handshakes, by server
	asleep map[string]chan struct{}
	dead   map[string]bool
}

func newGate(t testing.TB, peer *mcptest.Server) *gate {
	g := &gate{met: map[string]int{}, asleep: map[string]chan struct{}{}, dead: map[string]bool{}}
	at, err := url.Parse(peer.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL, r.Out.Host = at, at.Host
	}}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.Trim(r.URL.Path, "/")
		g.mu.Lock()
		if r.Header.Get("Mcp-Method") == "server/discover" {
			g.met[name]++
		}
		asleep, dead := g.asleep[name], g.dead[name]
		g.mu.Unlock()
		if asleep != nil {
			select {
			case <-asleep:
			case <-r.Context().Done():
				return
			}
		}
		if dead {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		g.CloseClientConnections()
		g.Close()
	})
	return g
}

func (g *gate) set(do func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	do()
}

// forget starts the count over.
func (g *gate) forget() { g.set(func() { g.met = map[string]int{} }) }

func (g *gate) most() (total, most int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, n := range g.met {
		total, most = total+n, max(most, n)
	}
	return total, most
}

// fleet registers and approves servers behind a gate.
func (h *house) fleet(g *gate, n int) []string {
	h.Helper()
	names := make([]string, n)
	var wg sync.WaitGroup
	for i := range names {
		names[i] = fmt.Sprintf("s%03d", i)
		wg.Go(func() {
			h.register(names[i], g.URL+"/"+names[i])
			h.is(names[i], registry.StateVerified)
			h.approve(names[i], "a")
		})
		if i%8 == 7 {
			wg.Wait()
		}
	}
	wg.Wait()
	return names
}

// probesOf gives the windows that are recorded of a server, the newest first.
func (h *house) probesOf(name string) []registry.Probe {
	h.Helper()
	_, probes, _, err := h.store().Probes(context.Background(), name, db.Page{Size: 200})
	if err != nil {
		h.Fatal(err)
	}
	return probes
}

func (h *house) startSweep(in workflows.SweepInput) client.WorkflowRun {
	h.Helper()
	run, err := h.temporal.ExecuteWorkflow(h.Context(), client.StartWorkflowOptions{
		ID: fmt.Sprintf("sweep-%d", sweeps.Add(1)), TaskQueue: workflows.TaskQueue,
	}, workflows.ProbeSweepWorkflow, in)
	if err != nil {
		h.Fatal(err)
	}
	return run
}

var sweeps atomic.Int64

// A window that is triggered twice at the same time is recorded once, by shards
// of which each runs once; and it is met once.
func TestAWindowThatIsTriggeredTwiceIsMetOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "sqlite")
	g := newGate(t, offers(t, "a"))
	names := h.fleet(g, 24)
	g.forget()
	window := time.Now().UTC().Truncate(time.Minute)
	in := workflows.SweepInput{Interval: 2 * time.Second, Page: 4, Window: window}
	one, two := h.startSweep(in), h.startSweep(in)
	for _, run := range []client.WorkflowRun{one, two} {
		if err := run.Get(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if total, most := g.most(); total != len(names) || most != 1 {
		t.Errorf("%d handshakes with %d servers, %d with one", total, len(names), most)
	}
	for _, name := range names {
		if probes := h.probesOf(name); len(probes) != 1 || probes[0].Outcome != registry.OutcomeOK || !probes[0].Window.Equal(window) {
			t.Errorf("%s: %+v", name, probes)
		}
	}
	for number := range 6 {
		h.closed(workflows.ShardWorkflowID(window, number))
	}
}

// A worker that ends in the middle of a sweep is followed by another, which meets
// nobody again but those that were being met.
func TestAnotherWorkerGoesOnWithASweep(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "sqlite")
	g := newGate(t, offers(t, "a"))
	names := h.fleet(g, 40)
	hold := make(chan struct{})
	g.set(func() { // it answers nobody any more once it is asked for this one
		g.asleep[names[0]] = hold
	})
	g.forget()
	window := time.Now().UTC().Truncate(time.Minute)
	run := h.startSweep(workflows.SweepInput{Interval: 2 * time.Second, Page: 40, Window: window})
	for {
		if total, _ := g.most(); total > 20 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	h.stop()
	g.set(func() { delete(g.asleep, names[0]) })
	close(hold)
	h.start()
	if err := run.Get(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	total, most := g.most()
	if inFlight := 16; total > len(names)+inFlight || most > 2 {
		t.Errorf("%d handshakes with %d servers, %d with one", total, len(names), most)
	}
	for _, name := range names {
		if probes := h.probesOf(name); len(probes) != 1 || probes[0].Outcome != registry.OutcomeOK {
			t.Errorf("%s: %+v", name, probes)
		}
	}
}

// Servers that hang or are dead hold up nobody: the others are recorded while
// these are still waited for, and everybody is recorded once.
func TestThoseThatHangHoldUpNobody(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "sqlite")
	limits := registry.DefaultLimits()
	limits.Connect = 4 * time.Second
	h.acts.MCP.(*mcpclient.Client).Limits = func() registry.Limits { return limits }
	h.acts.ProbeConcurrency, h.acts.ProbesPerHost = 8, 16
	g := newGate(t, offers(t, "a"))
	names := h.fleet(g, 30)
	hold := make(chan struct{})
	defer close(hold)
	g.set(func() {
		for _, name := range names[:6] {
			g.asleep[name] = hold
		}
		g.dead[names[6]] = true
	})
	window := time.Now().UTC().Truncate(time.Minute)
	run := h.startSweep(workflows.SweepInput{Interval: time.Second, Window: window})
	for _, name := range names[:7] {
		h.is(name, registry.StateDegraded)
	}
	if err := run.Get(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		probes := h.probesOf(name)
		if len(probes) != 1 {
			t.Fatalf("%s: %+v", name, probes)
		}
	}
	for _, name := range names[:7] {
		if p := h.probesOf(name)[0]; p.Outcome != registry.OutcomeFailed || p.Attempts != 3 || p.Streak != -1 {
			t.Errorf("%s: %+v", name, p)
		}
	}
	// In the next window those that hang are not in the line of the others any
	// more, and have one attempt.
	next := time.Now().UTC()
	if err := h.startSweep(workflows.SweepInput{Interval: time.Second, Window: window.Add(time.Minute)}).Get(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		p := h.probesOf(name)[0]
		if p.Outcome == registry.OutcomeOK && p.At.Sub(next) > 3*time.Second {
			t.Errorf("%s waited for %s", name, p.At.Sub(next))
		}
		if p.Outcome == registry.OutcomeFailed && (p.Attempts != 1 || p.Streak != -2) {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// A server that asks for patience is left alone for as long, and one that comes
// and goes needs more than one good window.
func TestPatienceAndFlapping(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "sqlite")
	g := newGate(t, offers(t, "a"))
	name := h.fleet(g, 1)[0]
	window := time.Now().UTC().Truncate(time.Minute)
	at := func(minute int, up bool) registry.State {
		g.set(func() { g.dead[name] = !up })
		h.sweep(window.Add(time.Duration(minute) * time.Minute))
		p := h.probesOf(name)[0]
		if good := p.Outcome == registry.OutcomeOK; good != up {
			t.Fatalf("minute %d: %+v", minute, p)
		}
		want := registry.StateDegraded
		if up && (!p.Flapping() || p.Streak >= 3) {
			want = registry.StateActive
		}
		return h.is(name, want).State
	}
	var got []registry.State
	for i, up := range []bool{true, false, true, false, true, true, true} {
		got = append(got, at(i, up))
	}
	const a, d = registry.StateActive, registry.StateDegraded
	if want := []registry.State{a, d, a, d, d, d, a}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("states %v, want %v", got, want)
	}
	run := h.startSweep(workflows.SweepInput{Interval: time.Minute, Window: window.Add(time.Hour)})
	if err := run.Get(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if n := h.events(run.GetID()); n > 30 {
		t.Errorf("a sweep of one server takes %d events", n)
	}
}

// S7, H23: servers that come and go for many windows leave short histories and no
// record twice, and the others have nothing to do with it.
func TestManyWindowsOfFlapping(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "sqlite")
	g := newGate(t, offers(t, "a"))
	names := h.fleet(g, 20)
	flapping := names[:2]
	begun := make(map[string]int, len(names))
	for _, name := range names {
		begun[name] = h.events(workflows.ServerWorkflowID("default", name))
	}
	const windows = 24
	first := time.Now().UTC().Truncate(time.Minute)
	for w := range windows {
		g.set(func() {
			for _, name := range flapping {
				g.dead[name] = w%2 == 1
			}
		})
		run := h.startSweep(workflows.SweepInput{Interval: 200 * time.Millisecond, Window: first.Add(time.Duration(w) * time.Minute)})
		if err := run.Get(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if n := h.events(run.GetID()); n > 40 {
			t.Errorf("window %d takes %d events", w, n)
		}
	}
	for _, name := range names {
		probes := h.probesOf(name)
		seen := map[time.Time]bool{}
		for _, p := range probes {
			seen[p.Window] = true
		}
		if len(probes) != windows || len(seen) != windows {
			t.Errorf("%s: %d records of %d windows, of %d", name, len(probes), len(seen), windows)
		}
		grown := h.events(workflows.ServerWorkflowID("default", name)) - begun[name]
		switch {
		case !slices.Contains(flapping, name) && grown > 0:
			t.Errorf("%s: %d events of windows in which it was well", name, grown)
		case grown > 12*windows:
			t.Errorf("%s: %d events in %d windows", name, grown, windows)
		}
	}
	for _, name := range flapping { // damped: it was let back at first, and not any more
		if p := h.probesOf(name)[0]; !p.Flapping() {
			t.Errorf("%s: %+v", name, p)
		}
		h.is(name, registry.StateDegraded)
	}
}
