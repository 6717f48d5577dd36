package e2e

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/durationpb"

	"countersign/db/dbtest"
	"countersign/mcptest"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// Two apis and two workers around one Postgres and one Temporal bring servers
// through their lives together, and a worker that is killed costs nothing.
func TestSeveralProcesses(t *testing.T) {
	t.Parallel()
	d := newDev(t) // lends its Temporal
	d.start(t)
	i := newInstallation(t, d, dbtest.Postgres(t), "COUNTERSIGN_PROBE_INTERVAL=2s")
	apis := []node{i.serve(t, "api"), i.serve(t, "api")}
	workers := []node{i.serve(t, "worker"), i.serve(t, "worker")}
	c := []caller{i.caller(apis[0], first), i.caller(apis[1], first)}
	e := dial(t, d.temporal, i.namespace)

	const servers = 20
	peers, names, open := make([]*mcptest.Server, servers), make([]string, servers), make([]string, servers)
	for n := range servers {
		script := mcptest.Script{Sessions: n%2 == 1, Era: mcptest.Era(n % 3)}
		script.List("tools/list", mcptest.Items(mcptest.Tools(1+n)...))
		peers[n], names[n] = mcptest.New(t, script), fmt.Sprintf("server-%d", n)
		open[n] = server(names[n])
	}
	ctx, cancel := context.WithTimeout(t.Context(), longPatience)
	defer cancel()
	var group errgroup.Group
	var known atomic.Int32
	for n := range servers {
		group.Go(func() error {
			if _, err := c[n%2].bring(ctx, names[n], peers[n].URL, verified); err != nil {
				return fmt.Errorf("%s: %w", names[n], err)
			}
			if known.Add(1) == servers/4 {
				workers[0].kill() // in the middle of what the others do
			}
			return c[(n+1)%2].activate(ctx, names[n])
		})
	}
	until(t, "a worker is killed", patience, func() error {
		if !workers[0].over() {
			return errors.New("not yet")
		}
		return nil
	})
	workers[0] = i.serve(t, "worker")
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for n := range servers {
		for _, c := range c {
			if err := c.callable(ctx, names[n]+".tool_0000"); err != nil {
				t.Error(err)
			}
		}
	}
	e.awaitOpen(t, open...)
	e.checkSchedules(t)
	l := readPostgres(t, i.database)
	l.check(t)
	want := maps.Clone(usual)
	delete(want, "retire")
	for _, name := range names {
		if diff := cmp.Diff(want, l.did(l.named(first, name)[0])); diff != "" {
			t.Errorf("what was done to %s:\n%s", name, diff)
		}
	}

	checkSweeps(t, i, workers, c[0], names, peers)
	e.checkSchedules(t)
	e.awaitOpen(t, open...)
	checkQuarantine(t, c, names[4])
	checkReadiness(t, apis[0])
	drain(t, i, &apis[1], peers[2], names[2])
	withoutTemporal(t, i, d, apis[0], workers, names[3])
	e.checkHistories(t)
	for _, n := range append(workers, apis[0]) {
		n.stop(t)
		if mentions(n.log.String(), "canary") {
			t.Errorf("a log has a token:\n%s", n.log.String())
		}
	}
	l = readPostgres(t, i.database)
	l.check(t)
	i.findNoSecret(t)
}

// checkQuarantine quarantines a server at one api: from then on every api denies
// it, and an approval at another one undoes it everywhere.
func checkQuarantine(t *testing.T, c []caller, name string) {
	t.Helper()
	ctx := t.Context()
	if _, err := c[0].servers.QuarantineMcpServer(ctx, &pb.QuarantineMcpServerRequest{ServerId: name, Comment: "it answers nonsense"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range c {
		if err := c.denied(ctx, name+".tool_0000", registry.ReasonServerQuarantined); err != nil {
			t.Error(err)
		}
	}
	if _, err := c[1].approve(ctx, name); err != nil {
		t.Fatal(err)
	}
	for _, c := range c {
		if err := c.callable(ctx, name+".tool_0000"); err != nil {
			t.Error(err)
		}
	}
}

// end retires a server.
func (c caller) end(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longPatience)
	defer cancel()
	err := c.again(ctx, name, func(s *pb.McpServer) bool { return s.GetState() == retired }, func(*pb.McpServer) error {
		_, err := c.servers.RetireMcpServer(ctx, &pb.RetireMcpServerRequest{ServerId: name})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// checkSweeps retires the first server, gives its name to another one and
// starts the workers anew, twice: the retired one is in no sweep (H23).
func checkSweeps(t *testing.T, i *installation, workers []node, c caller, names []string, peers []*mcptest.Server) {
	t.Helper()
	name := names[0]
	c.end(t, name)
	var script mcptest.Script
	script.List("tools/list", mcptest.Items(mcptest.Tools(2)...))
	next := mcptest.New(t, script)
	if _, err := c.register(t.Context(), "the next of this name", name, next.URL); err != nil {
		t.Fatalf("the name is not free: %v", err)
	}
	until(t, "the next server of the name is verified", patience, func() error { _, err := c.in(t.Context(), name, verified); return err })
	undisturbed(t, c, names[4], func() {
		for range 2 {
			for n := range workers {
				workers[n].stop(t)
				workers[n].start(t, i, "worker")
			}
		}
	})
	before, seen := len(peers[0].Calls()), peers[1].Count("tools/list")
	until(t, "two more sweeps", patience, func() error {
		if now := peers[1].Count("tools/list"); now < seen+2 {
			return fmt.Errorf("the neighbour's list was read %d times", now-seen)
		}
		return nil
	})
	if now := len(peers[0].Calls()); now != before {
		t.Errorf("the retired server was met %d times", now-before)
	}
}

// undisturbed changes a server again and again while something is done, and
// wants every change to succeed.
func undisturbed(t *testing.T, c caller, name string, do func()) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		longest := time.Duration(0)
		for n := 0; ; n++ {
			begin := time.Now()
			_, err := c.servers.UpdateMcpServer(t.Context(), &pb.UpdateMcpServerRequest{
				ServerId: name, Server: &pb.ServerPatch{Description: fmt.Sprint("edit ", n)}, UpdateMask: mask("description"),
			})
			if err != nil {
				t.Errorf("edit %d: %v", n, err)
			}
			longest = max(longest, time.Since(begin))
			if ctx.Err() != nil || err != nil {
				t.Logf("%d edits, the longest took %s", n+1, longest.Round(time.Millisecond))
				return
			}
		}
	})
	do()
	end()
	all.Wait()
}

func checkReadiness(t *testing.T, api node) {
	t.Helper()
	var ready struct {
		Status string `json:"status"`
		Checks []struct {
			Name string `json:"name"`
			OK   bool   `json:"ok"`
		} `json:"checks"`
	}
	raw := get(t, api.url()+"/readyz?verbose", http.StatusOK)
	if err := json.Unmarshal(raw, &ready); err != nil || ready.Status != "ready" || len(ready.Checks) != 3 {
		t.Errorf("%s: %v", raw, err)
	}
	for _, check := range ready.Checks {
		if !check.OK {
			t.Errorf("%s is not ok", check.Name)
		}
	}
	get(t, api.url()+"/livez", http.StatusOK)
}

// withoutTemporal takes Temporal away: reads and resolve work, changes are
// refused soon, processes start, and all is well when it is back.
func withoutTemporal(t *testing.T, i *installation, temporal *dev, api node, workers []node, name string) {
	t.Helper()
	temporal.kill()
	workers[0].kill()
	workers[1].stop(t)
	late := i.serve(t, "api")
	workers[0].launch(t, i, "worker")
	for _, n := range []node{api, late} {
		c := i.caller(n, first)
		if err := c.callable(t.Context(), name+".tool_0000"); err != nil {
			t.Error(err)
		}
		if _, err := c.in(t.Context(), name, active); err != nil {
			t.Error(err)
		}
		begin := time.Now()
		_, err := c.servers.RetireMcpServer(t.Context(), &pb.RetireMcpServerRequest{ServerId: name})
		if connect.CodeOf(err) != connect.CodeUnavailable || reasonOf(err) != registry.ReasonDependency {
			t.Errorf("a change says %v", err)
		}
		if took := time.Since(begin); took > 15*time.Second {
			t.Errorf("it took %s to say so", took)
		}
		get(t, n.url()+"/readyz", http.StatusOK)
	}
	if strings.Contains(workers[0].log.String(), `"msg":"ready"`) || workers[0].over() {
		t.Errorf("a worker without Temporal says %s", workers[0].log.String())
	}
	temporal.start(t)
	workers[0].awaitReady(t, "worker")
	i.caller(late, first).end(t, name)
	late.stop(t)
	workers[1].start(t, i, "worker")
}

// drain ends an api while somebody waits at it for a discovery: it says that
// it is not ready, answers, and ends well.
func drain(t *testing.T, i *installation, api *node, peer *mcptest.Server, name string) {
	t.Helper()
	asked := peer.Count("tools/list")
	peer.Edit(func(s *mcptest.Script) { s.Fault("tools/list", mcptest.Hang()) })
	defer peer.Edit(func(s *mcptest.Script) { s.Fault("tools/list", nil) })
	type answer struct {
		done bool
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		ctx, _ := keyed(t.Context(), "a discovery that hangs")
		got, err := i.caller(*api, first).servers.DiscoverMcpCapabilities(ctx, &pb.DiscoverMcpCapabilitiesRequest{
			ServerId: name, Wait: durationpb.New(30 * time.Second),
		})
		answers <- answer{got.GetDone(), err}
	}()
	until(t, "the discovery hangs", patience, func() error {
		if peer.Count("tools/list") == asked {
			return errors.New("nobody asked for the tools")
		}
		return nil
	})
	api.signal(t, syscall.SIGTERM)
	until(t, "the api is not ready", patience, func() error { return api.readyz(t, http.StatusServiceUnavailable) })
	begin := time.Now()
	if code := api.await(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("it took %s to end", took)
	}
	if got := <-answers; got.err != nil || got.done {
		t.Errorf("who waited was told: done %t, %v", got.done, got.err)
	}
}

// findNoSecret looks for the tokens in everything that the database holds.
func (i *installation) findNoSecret(t *testing.T) {
	t.Helper()
	db, err := sql.Open("pgx", i.database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var tables []string
	query(t, db, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'", func(scan func(...any) error) error {
		var name string
		err := scan(&name)
		tables = append(tables, name)
		return err
	})
	if len(tables) < 10 {
		t.Errorf("the database has only %v", tables)
	}
	for _, table := range tables {
		query(t, db, "SELECT r::text FROM "+table+" AS r WHERE r::text LIKE '%canary%'", func(scan func(...any) error) error {
			var row string
			err := scan(&row)
			t.Errorf("%s: %s", table, row)
			return err
		})
	}
}

// get wants a status and gives the body.
func get(t *testing.T, url string, want int) []byte {
	t.Helper()
	status, body := fetch(t, url)
	if status != want {
		t.Errorf("%s: %d, not %d: %s", url, status, want, body)
	}
	return body
}

// serve does not start where it could not work, and says why.
func TestServeRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	database := "sqlite:" + dir + "/registry.db"
	i := &installation{env: []string{"COUNTERSIGN_DATABASE_URL=" + database}}
	tokens := i.writeTokens(t)
	for _, step := range []struct {
		name string
		env  []string
		do   func(t *testing.T)
		says []string
	}{
		{
			name: "without anybody who may call", env: []string{"COUNTERSIGN_DATABASE_URL=" + database},
			says: []string{"error: serve needs to know who may call", "next: set auth.issuers, or auth.tokens_file"},
		},
		{
			name: "without a database", env: []string{tokens},
			says: []string{"error: no database is configured", "next: set database.url"},
		},
		{
			name: "on a database that was never migrated", env: []string{tokens, "COUNTERSIGN_DATABASE_URL=" + database},
			says: []string{"reason: schema_older", "countersign migrate up"},
		},
		{
			name: "on a database of a newer version", env: []string{tokens, "COUNTERSIGN_DATABASE_URL=" + database},
			do: func(t *testing.T) {
				t.Helper()
				i.command(t, "applied ", "migrate", "up")
				i.command(t, "applied", "migrate", "status")
				db, err := sql.Open("sqlite", "file:"+dir+"/registry.db")
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				if _, err := db.ExecContext(t.Context(), "INSERT INTO schema_migrations (name, group_id, migrated_at) VALUES ('9999', 1, '2030-01-01 00:00:00+00:00')"); err != nil {
					t.Fatal(err)
				}
			},
			says: []string{"reason: schema_newer"},
		},
		{
			name: "with a key that it does not know", env: []string{"COUNTERSIGN_CONFIG=" + write(t, "listen: 127.0.0.1:0\nlisen: 127.0.0.1:0\n")},
			says: []string{"lisen"},
		},
	} {
		t.Run(step.name, func(t *testing.T) {
			if step.do != nil {
				step.do(t)
			}
			p := launch(t, "countersign", step.env, "serve", "--listen", "127.0.0.1:0")
			if code := p.await(t); code == 0 || code == -1 {
				t.Errorf("%s", p.cmd.ProcessState)
			}
			for _, text := range step.says {
				if !strings.Contains(p.log.String(), text) {
					t.Errorf("it does not say %q: %s", text, p.log.String())
				}
			}
		})
	}
}
