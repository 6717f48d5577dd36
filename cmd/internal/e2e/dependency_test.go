package e2e

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"countersign/db/dbtest"
	"countersign/mcptest"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/proto/countersign/registry/v1/registryv1connect"
	"countersign/registry"
)

// soon is how long a person waits at most to hear that something of ours is
// away.
const soon = 15 * time.Second

// R146, R204, R206: a secret store and a database that are away are said soon to
// whoever waits, take no server's health, and stop no workflow: it goes on when
// they are back. (Of Temporal TestSeveralProcesses says it, of the callers'
// issuers TestServeTrustsAnIssuer.)
func TestDependenciesThatAreAway(t *testing.T) {
	t.Parallel()
	d := newDev(t) // lends its Temporal
	d.start(t)
	postgres, err := dbtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	stopPostgres := sync.OnceValue(postgres.Stop)
	t.Cleanup(func() { _ = stopPostgres() })
	vault := newVault(t, vaultSecret)
	i := newInstallation(t, d, postgres.DSN, "COUNTERSIGN_PROBE_INTERVAL=2s", "COUNTERSIGN_CONFIG="+write(t, fmt.Sprintf(`
secrets:
  tenants: [{tenants: [%s], prefixes: ["vault:kv/%[1]s/"]}]
  vault: {address: %s, token_file: %s, allow_networks: [127.0.0.0/8]}
`, first, vault.URL, write(t, "vault-token"))))
	api, worker := i.serve(t, "api"), i.serve(t, "worker")
	c := i.caller(api, first)
	ctx := t.Context()

	// A server that wants a header, whose secret is in Vault.
	wanted := func(call mcptest.Call) bool { return call.Header.Get("Authorization") != "Bearer "+vaultSecret }
	var script mcptest.Script
	script.List("tools/list", mcptest.Items(mcptest.Tools(2)...))
	script.Fault("*", mcptest.When(wanted, mcptest.Status(http.StatusUnauthorized, http.Header{"Www-Authenticate": {"Bearer"}}, "")))
	peer := mcptest.New(t, script)
	connections := registryv1connect.NewConnectionServiceClient(http.DefaultClient, api.url(), bearing(i.tokens[first]))
	if _, err := connections.CreateConnection(ctx, &pb.CreateConnectionRequest{Name: "search", Spec: &pb.ConnectionSpec{
		BaseUrl: peer.URL, AuthKind: pb.ConnectionAuthKind_CONNECTION_AUTH_KIND_HEADERS,
		Headers: map[string]string{"Authorization": "vault:kv/" + first + "/search#header"},
	}}); err != nil {
		t.Fatal(err)
	}
	register := func(name string) {
		t.Helper()
		ask := registration(name, "")
		ask.EndpointRef, ask.Authentication, ask.ExceptionReason = "search", pb.McpAuthentication_MCP_AUTHENTICATION_WORKLOAD_IDENTITY, ""
		ctx, _ := keyed(ctx, name)
		if _, err := c.servers.RegisterMcpServer(ctx, ask); err != nil {
			t.Fatal(err)
		}
	}
	register("search")
	until(t, "it is verified", patience, func() error { _, err := c.in(ctx, "search", verified); return err })
	approval, err := c.approval(ctx, "search")
	if err != nil {
		t.Fatal(err)
	}
	approval.ExceptionExpireTime = nil // it authenticates
	if _, err := c.servers.ActivateMcpServer(ctx, approval); err != nil {
		t.Fatal(err)
	}

	// Vault is away.
	vault.away.Store(true)
	asked := vault.asked.Load()
	register("late")
	until(t, "probes and discoveries found Vault away", patience, func() error {
		late, err := c.in(ctx, "late", registered)
		if err != nil {
			return err
		}
		if s, err := c.get(ctx, "search"); err != nil || s.GetHealth().GetReason() != string(registry.ReasonDependency) || late.GetHealth().GetReason() != string(registry.ReasonDependency) {
			return fmt.Errorf("search: %v, late: %v, %w", s.GetHealth(), late.GetHealth(), errors.Join(err, errors.New("not yet")))
		}
		if n := vault.asked.Load() - asked; n < 4 {
			return fmt.Errorf("it was asked %d times", n)
		}
		return nil
	})
	if s, err := c.in(ctx, "search", active); err != nil || len(s.GetCauses()) > 0 {
		t.Errorf("the server pays for it: %v %v", s.GetCauses(), err)
	}
	if err := c.callable(ctx, "search.tool_0000"); err != nil {
		t.Error(err)
	}
	begin := time.Now()
	tested, err := connections.TestConnection(ctx, &pb.TestConnectionRequest{Name: "search"})
	if err != nil || tested.GetReport().GetOk() || tested.GetReport().GetReason() != string(registry.ReasonDependency) || tested.GetReport().GetNextStep() == "" {
		t.Errorf("a test of the connection says %v, %v", tested, err)
	}
	if took := time.Since(begin); took > soon {
		t.Errorf("it took %s to say so", took)
	}
	vault.away.Store(false)
	until(t, "the workflow went on by itself", longPatience, func() error { _, err := c.in(ctx, "late", verified); return err })
	until(t, "the server is healthy", patience, func() error {
		s, err := c.in(ctx, "search", active)
		if err == nil && s.GetHealth().GetLevel() != pb.HealthLevel_HEALTH_LEVEL_HEALTHY {
			err = fmt.Errorf("it is %v", s.GetHealth())
		}
		return err
	})

	// The database is away in the middle of a discovery.
	owner, err := sql.Open("pgx", maintenance(t, postgres.DSN))
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	admit := func(yes bool) {
		t.Helper()
		for _, statement := range []string{
			fmt.Sprintf("ALTER DATABASE postgres ALLOW_CONNECTIONS %t", yes),
			"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'postgres'",
		} {
			if _, err := owner.ExecContext(ctx, statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	before, err := c.get(ctx, "search")
	if err != nil {
		t.Fatal(err)
	}
	lists := peer.Count("tools/list")
	hold := make(chan struct{})
	peer.Edit(func(s *mcptest.Script) { s.Fault("tools/list", mcptest.Delay(3*time.Second)) })
	go func() {
		defer close(hold)
		ctx, _ := keyed(ctx, "during an outage")
		_, _ = c.servers.DiscoverMcpCapabilities(ctx, &pb.DiscoverMcpCapabilitiesRequest{ServerId: "search", Wait: durationpb.New(0)})
	}()
	until(t, "the discovery is on its way", patience, func() error {
		if peer.Count("tools/list") == lists {
			return errors.New("nobody asked for the tools")
		}
		return nil
	})
	<-hold
	admit(false)
	away := time.Now()
	checkAway(t, api, c)
	time.Sleep(time.Until(away.Add(7 * time.Second))) // three windows
	peer.Edit(func(s *mcptest.Script) { s.Fault("tools/list", nil) })
	admit(true)
	until(t, "the api is ready again", patience, func() error { return api.readyz(t, http.StatusOK) })
	until(t, "the discovery went on", longPatience, func() error {
		s, err := c.in(ctx, "search", active)
		if err == nil && s.GetDiscovery().GetNumber() <= before.GetDiscovery().GetNumber() {
			err = fmt.Errorf("the last discovery is %v", s.GetDiscovery())
		}
		return err
	})
	if s, err := c.in(ctx, "search", active); err != nil || len(s.GetCauses()) > 0 {
		t.Errorf("the server pays for the database: %v %v", s.GetCauses(), err)
	}
	// The servers of the windows in which nobody could write are none the worse.
	until(t, "probes are recorded again", patience, func() error {
		r, err := c.servers.ListProbes(ctx, &pb.ListProbesRequest{ServerId: "search", PageSize: 200})
		if err != nil {
			return err
		}
		for _, p := range r.GetProbes() {
			if p.GetOutcome() == pb.ProbeOutcome_PROBE_OUTCOME_FAILED {
				return final{fmt.Errorf("a probe blames the server: %v", p)}
			}
		}
		if last := r.GetProbes()[0]; last.GetTime().AsTime().Before(away.Add(7*time.Second)) || last.GetOutcome() != pb.ProbeOutcome_PROBE_OUTCOME_OK {
			return fmt.Errorf("the last is %v", last)
		}
		return nil
	})
	e := dial(t, d.temporal, i.namespace)
	e.checkHistories(t)

	// It stops for good.
	if err := stopPostgres(); err != nil {
		t.Logf("Postgres ended: %v", err)
	}
	checkAway(t, api, c)
	worker.stop(t)
	api.stop(t)
}

// checkAway wants everybody to be told soon that the database is away.
func checkAway(t *testing.T, api node, c caller) {
	t.Helper()
	ctx := t.Context()
	for what, ask := range map[string]func() error{
		"a read":    func() error { _, err := c.get(ctx, "search"); return err },
		"a resolve": func() error { return c.callable(ctx, "search.tool_0000") },
		"a change": func() error {
			_, err := c.servers.RetireMcpServer(ctx, &pb.RetireMcpServerRequest{ServerId: "search"})
			return err
		},
	} {
		begin := time.Now()
		if err := ask(); connect.CodeOf(err) != connect.CodeUnavailable || reasonOf(err) != registry.ReasonDependency {
			t.Errorf("%s says %v", what, err)
		}
		if took := time.Since(begin); took > soon {
			t.Errorf("%s took %s to say so", what, took)
		}
	}
	if err := api.readyz(t, http.StatusServiceUnavailable); err != nil {
		t.Error(err)
	}
	get(t, api.url()+"/livez", http.StatusOK)
}

// vaultSecret is what the fake store has.
const vaultSecret = "canary-in-vault-51aa"

// fakeVault answers as HashiCorp Vault does, and can be away.
type fakeVault struct {
	*httptest.Server
	plain string // of the field plain
	away  atomic.Bool
	asked atomic.Int64
}

func newVault(t *testing.T, secret string) *fakeVault {
	t.Helper()
	v := &fakeVault{}
	v.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v.asked.Add(1)
		switch {
		case v.away.Load():
			http.Error(w, `{"errors":["Vault is sealed"]}`, http.StatusServiceUnavailable)
		case r.Header.Get("X-Vault-Token") != "vault-token":
			http.Error(w, `{"errors":["permission denied"]}`, http.StatusForbidden)
		default:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{
				"data": map[string]any{"header": "Bearer " + secret, "plain": v.plain}, "metadata": map[string]any{"version": 1, "created_time": "2026-01-02T03:04:05Z"},
			}})
		}
	}))
	t.Cleanup(v.Close)
	return v
}

// maintenance names another database of the same server.
func maintenance(t *testing.T, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/template1"
	return u.String()
}
