//go:build cluster

package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"countersign/db/dbtest"
	"countersign/registry"
)

// The settings of a run, from the environment.
const (
	seedEnv    = "SEED"    // of what is disturbed when; printed, so that it can be given again
	minutesEnv = "MINUTES" // of disturbances; 2 when it is not set
)

// Three apis, three workers and a Temporal of its own on Postgres, of which one
// is killed or stopped every few seconds, while callers bring servers through
// their lives and race each other. Afterwards the invariants of cases.md hold.
func TestCluster(t *testing.T) {
	seed := rand.Uint64()
	if text := os.Getenv(seedEnv); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", seedEnv, err)
		}
	}
	minutes := 2.0
	if text := os.Getenv(minutesEnv); text != "" {
		var err error
		if minutes, err = strconv.ParseFloat(text, 64); err != nil {
			t.Fatalf("%s: %v", minutesEnv, err)
		}
	}
	fmt.Printf("SEED=%d MINUTES=%g\n", seed, minutes)
	c := newCluster(t, seed)
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(minutes*float64(time.Minute))+longPatience+10*time.Minute)
	defer cancel()
	var callers sync.WaitGroup
	over := make(chan struct{})
	for n := range lives {
		callers.Go(func() { c.live(ctx, n, over) })
	}
	c.disturb(t, time.Duration(minutes*float64(time.Minute)))
	close(over)
	c.calm(t)
	calmed := time.Now()
	callers.Wait()
	c.check(t, calmed)
}

// lives is how many servers are on their way at once.
const lives = 10

// cluster is an installation in many processes.
type cluster struct {
	*installation
	chance *rand.Rand // of the disturbances alone
	parts  []*part
	apis   []*part
	peers  []*peer
	log    *actions
	faults map[string]int
	at     string // address of Temporal
}

// part is one process, which is started again when it ended.
type part struct {
	name, role string
	node       node
	launch     func()
	launched   time.Time
	ended      int // by itself
	stopped    bool
	logs       []*process
}

func newCluster(t *testing.T, seed uint64) *cluster {
	t.Helper()
	command := exec.Command("go", "build", "-ldflags=-s -w", "-o", programs, "./cmd/internal/temporal")
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("building Temporal: %v\n%s", err, out)
	}
	c := &cluster{chance: rand.New(rand.NewPCG(seed, 0)), log: newActions(), faults: map[string]int{}, at: address(t)}
	dsn := dbtest.Postgres(t)
	for _, name := range []string{"_temporal", "_temporal_visibility"} {
		t.Cleanup(func() { dropDatabase(t, dsn, name) })
	}
	temporal := &part{name: "temporal", role: "temporal"}
	temporal.launch = func() {
		temporal.node.process = launch(t, "temporal", nil, "--listen", c.at, "--postgres", dsn)
	}
	c.add(temporal)
	until(t, "Temporal is ready", patience, func() error {
		if temporal.node.over() {
			return final{fmt.Errorf("it ended: %s", temporal.node.process.log.String())}
		}
		if !strings.Contains(temporal.node.process.out.String(), "ready") {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	c.installation = newInstallation(t, &dev{temporal: c.at, ui: "127.0.0.1:1"}, dsn, "COUNTERSIGN_PROBE_INTERVAL=2s", "COUNTERSIGN_AUDIT_SEAL_INTERVAL=1s")
	for n := range 6 {
		role := []string{"api", "worker"}[n%2]
		p := &part{name: fmt.Sprintf("%s-%d", role, n/2+1), role: role, node: node{listen: address(t)}}
		p.launch = func() { p.node.launch(t, c.installation, role) }
		c.add(p)
		if role == "api" {
			c.apis = append(c.apis, p)
		}
	}
	for _, p := range c.parts[1:] {
		p.node.awaitReady(t, p.role)
	}
	for range 3 {
		p := newPeer(t)
		if err := p.start(); err != nil {
			t.Fatal(err)
		}
		c.peers = append(c.peers, p)
	}
	return c
}

func (c *cluster) add(p *part) {
	p.start()
	c.parts = append(c.parts, p)
}

func (p *part) start() {
	p.launch()
	p.launched = time.Now()
	p.logs = append(p.logs, p.node.process)
}

func dropDatabase(t *testing.T, dsn, after string) {
	t.Helper()
	at, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	name := at.Path[1:] + after
	at.Path = "/postgres"
	db, err := sql.Open("pgx", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(context.WithoutCancel(t.Context()), "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
		t.Error(err)
	}
}

// disturb kills, stops or cuts off something every few seconds. It is the only
// one that starts and ends processes.
func (c *cluster) disturb(t *testing.T, long time.Duration) {
	t.Helper()
	for end := time.Now().Add(long); time.Now().Before(end); {
		c.wait(t, time.Duration(1500+c.chance.IntN(3500))*time.Millisecond)
		victim := c.chance.IntN(len(c.parts) + 1)
		how, much := c.chance.IntN(5), time.Duration(c.chance.IntN(8000))*time.Millisecond
		if victim == len(c.parts) {
			c.faults["database connections cut"]++
			c.cut(t)
			continue
		}
		p := c.parts[victim]
		if how < 3 {
			c.faults[p.role+" killed"]++
			p.node.kill()
			c.wait(t, much/4)
			p.start()
			continue
		}
		c.faults[p.role+" stopped"]++
		p.node.signal(t, syscall.SIGSTOP)
		p.stopped = true
		c.wait(t, 500*time.Millisecond+much)
		p.node.signal(t, syscall.SIGCONT)
		p.stopped = false
	}
}

// wait lets time pass, and starts again what ended by itself.
func (c *cluster) wait(t *testing.T, long time.Duration) {
	t.Helper()
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for _, p := range c.parts {
			if !p.node.over() {
				continue
			}
			if state := p.node.cmd.ProcessState; state.ExitCode() != -1 {
				p.ended++
				// At the start it may miss what it needs; later nothing may end it.
				if lived := time.Since(p.launched); lived > 30*time.Second {
					t.Errorf("%s ended by itself (%s) after %s: %s", p.name, state, lived.Round(time.Second), tail(p.node.log.String()))
				}
				p.start()
			}
		}
	}
}

// cut ends all connections to the databases of the product and of Temporal.
func (c *cluster) cut(t *testing.T) {
	t.Helper()
	db, err := sql.Open("pgx", c.database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname LIKE current_database() || '%' AND pid <> pg_backend_pid()`); err != nil {
		t.Error(err)
	}
}

// calm lets everything run again.
func (c *cluster) calm(t *testing.T) {
	t.Helper()
	for _, p := range c.parts {
		if p.node.over() {
			p.start()
		}
	}
	for _, p := range c.parts[1:] {
		until(t, p.name+" is ready", longPatience, func() error {
			if p.node.over() {
				p.start()
			}
			if !strings.Contains(p.node.log.String(), `"msg":"ready"`) {
				return fmt.Errorf("it says %s", tail(p.node.log.String()))
			}
			return nil
		})
	}
}

// anyone is somebody at one of the apis.
func (c *cluster) anyone() caller {
	return c.caller(c.apis[rand.IntN(len(c.apis))].node, first)
}

// actions is what callers were told, to be compared afterwards.
type actions struct {
	mu       sync.Mutex
	keys     map[string]ack  // registrations, by idempotency key
	retired  map[string]bool // ids whose retirement was acknowledged
	edits    map[string]int  // acknowledged, by id
	internal []string        // answers that say internal
	strange  []string        // answers that nobody should get
	races    map[string]int  // what came of races
}

type ack struct{ id, name, url string }

func newActions() *actions {
	return &actions{
		keys: map[string]ack{}, retired: map[string]bool{}, edits: map[string]int{}, races: map[string]int{},
	}
}

func (a *actions) do(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

// see takes the answer of a race, which must be one of those allowed.
func (a *actions) see(race string, err error, allowed ...registry.Reason) {
	a.mu.Lock()
	defer a.mu.Unlock()
	what := "done"
	switch {
	case err == nil:
	case infoOf(err) == nil || passing(err):
		what = "not answered"
	default:
		what = string(reasonOf(err))
		known := false
		for _, reason := range allowed {
			known = known || string(reason) == what
		}
		if reasonOf(err) == registry.ReasonInternal {
			a.internal = append(a.internal, race+": "+err.Error())
		} else if !known {
			a.strange = append(a.strange, race+": "+err.Error())
		}
	}
	a.races[race+": "+what]++
}
