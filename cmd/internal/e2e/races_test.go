package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"countersign/db/dbtest"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
	"countersign/workflows"
)

// Many callers at several processes, around one Postgres.
func TestRaces(t *testing.T) {
	t.Parallel()
	d := newDev(t)
	d.start(t)
	i := newInstallation(t, d, dbtest.Postgres(t), "COUNTERSIGN_PROBE_INTERVAL=2s")
	apis := []node{i.serve(t, "api"), i.serve(t, "api")}
	i.serve(t, "worker")
	i.serve(t, "worker")
	r := races{i: i, e: dial(t, d.temporal, i.namespace), c: []caller{i.caller(apis[0], first), i.caller(apis[1], first)}, other: i.caller(apis[0], second)}
	t.Run("many", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T){
			"a hundred registrations of one name (H2)":     r.oneName,
			"two tenants use the same name (H3)":           r.twoTenants,
			"many decide at once (H19)":                    r.oneDecision,
			"a lost server has nothing to call (H13)":      r.counts,
			"many registrations with one key, at once":     r.oneKey,
			"many edits and switches at once, one version": r.edits,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t)
			})
		}
	})
	r.e.checkSchedules(t)
	r.e.checkHistories(t)
	readPostgres(t, i.database).check(t)
}

type races struct {
	i     *installation
	e     engine
	c     []caller // of one tenant, at different processes
	other caller   // of the other tenant
}

// outcome is what one of many calls came to.
type outcome struct {
	server *pb.McpServer
	err    error
}

// together makes n calls at once and gives what came of each. One that was too
// much for the moment is repeated.
func together(n int, call func(n int) (*pb.McpServer, error)) []outcome {
	out := make([]outcome, n)
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range out {
		all.Go(func() {
			<-begin
			for end := time.Now().Add(patience); ; {
				out[i].server, out[i].err = call(i)
				if !passing(out[i].err) || time.Now().After(end) {
					return
				}
			}
		})
	}
	close(begin)
	all.Wait()
	return out
}

func (r races) peer(t *testing.T) *peer {
	t.Helper()
	p := newPeer(t)
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (r races) oneName(t *testing.T) {
	url := r.peer(t).url()
	var winner string
	outcomes := together(100, func(n int) (*pb.McpServer, error) {
		return r.c[n%2].register(t.Context(), fmt.Sprintf("dup %d", n), "dup", url)
	})
	for _, o := range outcomes {
		if o.err == nil {
			if winner != "" {
				t.Errorf("%s and %s were both registered", winner, o.server.GetServerId())
			}
			winner = o.server.GetServerId()
		}
	}
	late, err := r.c[0].register(t.Context(), "dup, late", "dup", url)
	for n, o := range append(outcomes, outcome{late, err}) {
		if o.err != nil && (connect.CodeOf(o.err) != connect.CodeAlreadyExists || reasonOf(o.err) != registry.ReasonServerExists ||
			infoOf(o.err).GetMetadata()["server_id"] != winner) {
			t.Errorf("caller %d got %v %v, the winner is %s", n, o.err, infoOf(o.err), winner)
		}
	}
	until(t, "it is verified", patience, func() error { _, err := r.c[0].in(t.Context(), "dup", verified); return err })
	if runs := r.e.runs(t, "WorkflowId = '"+server("dup")+"'"); len(runs) != 1 {
		t.Errorf("its workflow ran %d times", len(runs))
	}
	until(t, "its runs are listed", patience, func() error {
		list, err := r.c[0].servers.ListMcpServerRuns(t.Context(), &pb.ListMcpServerRunsRequest{ServerId: winner})
		if err == nil && len(list.GetRuns()) != 2 {
			err = fmt.Errorf("the runs are %v", list.GetRuns())
		}
		return err
	})
	l := readPostgres(t, r.i.database)
	if ids := l.named(first, "dup"); len(ids) != 1 || ids[0] != winner {
		t.Errorf("the rows are %v, the winner is %s", ids, winner)
	}
	if did := l.did(winner); did["register"] != 1 || did["discovered"] != 1 {
		t.Errorf("done was %v", did)
	}
}

func (r races) twoTenants(t *testing.T) {
	url := r.peer(t).url()
	ours, err := r.c[0].register(t.Context(), "github", "github", url)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := r.other.register(t.Context(), "github", "github", url) // even with the same key
	if err != nil || theirs.GetServerId() == ours.GetServerId() || theirs.GetTenantId() != second {
		t.Fatalf("the other tenant got %s: %v", theirs.GetServerId(), err)
	}
	for _, c := range r.c {
		if s, err := c.get(t.Context(), "github"); err != nil || s.GetServerId() != ours.GetServerId() {
			t.Errorf("we get %s: %v", s.GetServerId(), err)
		}
		if _, err := c.get(t.Context(), theirs.GetServerId()); reasonOf(err) != registry.ReasonServerNotFound {
			t.Errorf("we see the other tenant's server: %v", err)
		}
	}
	_, err = r.other.register(t.Context(), "another key", "github", url)
	if reasonOf(err) != registry.ReasonServerExists || infoOf(err).GetMetadata()["server_id"] != theirs.GetServerId() {
		t.Errorf("a third registration got %v", err)
	}
	if text := fmt.Sprint(err, infoOf(err)); strings.Contains(text, ours.GetServerId()) || strings.Contains(text, first) {
		t.Errorf("the refusal tells of another tenant: %s", text)
	}
}

func (r races) oneDecision(t *testing.T) {
	s := bring(t, r.c[0], "decided", r.peer(t).url(), verified)
	approval, err := r.c[0].approval(t.Context(), "decided")
	if err != nil {
		t.Fatal(err)
	}
	outcomes := together(60, func(n int) (*pb.McpServer, error) {
		c := r.c[n%2]
		if n%6 == 5 {
			response, err := c.servers.RejectMcpServer(t.Context(), &pb.RejectMcpServerRequest{
				ServerId: "decided", Digest: approval.GetDigest(), Etag: approval.GetEtag(), Comment: "no",
			})
			return response.GetServer(), err
		}
		response, err := c.servers.ActivateMcpServer(t.Context(), approval)
		return response.GetServer(), err
	})
	now, err := r.c[0].get(t.Context(), "decided")
	if err != nil {
		t.Fatal(err)
	}
	winners := 0
	for n, o := range outcomes {
		switch {
		case o.err == nil:
			winners++
		case connect.CodeOf(o.err) != connect.CodeAborted || infoOf(o.err).GetMetadata()["decision"] != now.GetReview().GetDecisionId():
			t.Errorf("caller %d got %v %v", n, o.err, infoOf(o.err))
		}
	}
	l := readPostgres(t, r.i.database)
	decided := l.decided(s.GetServerId())
	// A call that was too slow is repeated, and then its own first attempt may
	// be the winner.
	if winners > 1 || decided[registry.VerbApprove]+decided[registry.VerbReject] != 1 || now.GetVersion() != s.GetVersion()+1 {
		t.Errorf("%d won, decided is %v, and the version went from %d to %d", winners, decided, s.GetVersion(), now.GetVersion())
	}
}

func (r races) counts(t *testing.T) {
	p := r.peer(t)
	bring(t, r.c[0], "lost", p.url(), active)
	callable := func(want int32) func() error {
		return func() error {
			s, err := r.c[0].get(t.Context(), "lost")
			if err != nil {
				return err
			}
			list, err := r.c[1].servers.ListMcpServers(t.Context(), &pb.ListMcpServersRequest{Filter: `name = "lost"`})
			if err != nil {
				return err
			}
			tools, err := r.c[1].catalog.ListTools(t.Context(), &pb.ListToolsRequest{Filter: `server = "lost"`})
			if err != nil {
				return err
			}
			got := []int32{s.GetCounts().GetCallableTools(), list.GetServers()[0].GetCounts().GetCallableTools(), 0}
			for _, tool := range tools.GetTools() {
				if tool.GetCallable() {
					got[2]++
				}
			}
			if diff := cmp.Diff([]int32{want, want, want}, got); diff != "" || s.GetCounts().GetBoundTools() != 5 {
				return fmt.Errorf("the server is %s, %d bound; by Get, List and ListTools callable: %v", s.GetState(), s.GetCounts().GetBoundTools(), got)
			}
			return nil
		}
	}
	until(t, "five can be called", patience, callable(5))
	p.stop()
	until(t, "nothing of a lost server can be called", patience, callable(0))
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	until(t, "five can be called again", patience, callable(5))
}

func (r races) oneKey(t *testing.T) {
	url := r.peer(t).url()
	outcomes := together(20, func(n int) (*pb.McpServer, error) {
		return r.c[n%2].register(t.Context(), "one key", "one-key", url)
	})
	for n, o := range outcomes {
		if o.err != nil || o.server.GetServerId() != outcomes[0].server.GetServerId() || o.server.GetVersion() != 1 {
			t.Errorf("caller %d got %s, version %d: %v", n, o.server.GetServerId(), o.server.GetVersion(), o.err)
		}
	}
	// The same key for another request is refused.
	if _, err := r.c[0].register(t.Context(), "one key", "another-name", url); reasonOf(err) != registry.ReasonIdempotencyKeyReused {
		t.Errorf("the key for another request: %v", err)
	}
}

func (r races) edits(t *testing.T) {
	s := bring(t, r.c[0], "edited", r.peer(t).url(), active)
	outcomes := together(30, func(n int) (*pb.McpServer, error) {
		c := r.c[n%2]
		if n%3 == 0 {
			_, err := c.catalog.SetToolEnabled(t.Context(), &pb.SetToolEnabledRequest{ToolId: "edited.tool_0001", Enabled: n%2 == 0})
			return nil, err
		}
		response, err := c.servers.UpdateMcpServer(t.Context(), &pb.UpdateMcpServerRequest{
			ServerId: "edited", Server: &pb.ServerPatch{Owner: fmt.Sprintf("owner %d", n)}, UpdateMask: mask("owner"), Etag: s.GetEtag(),
		})
		return response.GetServer(), err
	})
	winners := 0
	for n, o := range outcomes {
		switch {
		case n%3 == 0 && o.err != nil:
			t.Errorf("switch %d: %v", n, o.err)
		case n%3 == 0:
		case o.err == nil:
			winners++
		case reasonOf(o.err) != registry.ReasonStaleEtag:
			t.Errorf("edit %d: %v", n, o.err)
		}
	}
	if winners > 1 {
		t.Errorf("%d edits of one etag won", winners)
	}
}

// A registration whose connection is cut is repeated: at once, many times, and
// after a restart (H20).
func TestARegistrationThatWasCutIsRepeated(t *testing.T) {
	t.Parallel()
	d := newDev(t)
	d.start(t)
	cut(t, d, "a key", registration("cut", d.demoURL()))
	again := func() (*pb.McpServer, bool, error) {
		ctx, replayed := keyed(t.Context(), "a key")
		response, err := d.admin().servers.RegisterMcpServer(ctx, registration("cut", d.demoURL()))
		return response.GetServer(), replayed(), err
	}
	outcomes := together(5, func(int) (*pb.McpServer, error) {
		s, _, err := again()
		return s, err
	})
	want := outcomes[0].server
	for n, o := range outcomes {
		if diff := same(want, o.server); o.err != nil || diff != "" {
			t.Errorf("caller %d: %v\n%s", n, o.err, diff)
		}
	}
	check := func(when string) {
		t.Helper()
		s, replayed, err := again()
		if diff := same(want, s); err != nil || !replayed || diff != "" {
			t.Errorf("%s: replayed %t, %v\n%s", when, replayed, err, diff)
		}
	}
	check("at once")
	bring(t, d.admin(), "another", d.demoURL(), verified)
	if err := d.admin().activate(t.Context(), "cut"); err != nil {
		t.Error(err)
	}
	check("after it went on")
	d.stop(t)
	d.start(t)
	check("after a restart")

	// The same with a discovery.
	second := func() (*pb.DiscoverMcpCapabilitiesResponse, bool) {
		t.Helper()
		ctx, replayed := keyed(t.Context(), "a discovery")
		response, err := d.admin().servers.DiscoverMcpCapabilities(ctx, &pb.DiscoverMcpCapabilitiesRequest{ServerId: "cut", Wait: durationpb.New(20 * time.Second)})
		if err != nil || !response.GetDone() {
			t.Fatalf("done %t: %v", response.GetDone(), err)
		}
		return response, replayed()
	}
	once, _ := second()
	twice, replayed := second()
	if once.GetRun().GetWorkflowId() != twice.GetRun().GetWorkflowId() || !replayed || twice.GetServer().GetDiscovery().GetNumber() != 2 {
		t.Errorf("the discovery ran as %s and %s, replayed %t", once.GetRun().GetWorkflowId(), twice.GetRun().GetWorkflowId(), replayed)
	}
	d.admin().end(t, "cut")
	check("after it was retired")
	dial(t, d.temporal, "default").awaitOpen(t, server("another"))
	d.stop(t)
	l := readSQLite(t, d.database())
	l.check(t)
	if ids := l.named(first, "cut"); len(ids) != 1 || l.did(ids[0])["register"] != 1 || l.did(ids[0])["begin_discovery"] != 1 {
		t.Errorf("the servers are %v", ids)
	}
}

// same compares what a registration answered.
func same(want, got *pb.McpServer) string {
	return cmp.Diff([]any{want.GetServerId(), want.GetVersion(), want.GetState(), want.GetEtag(), want.GetCreateTime().AsTime()},
		[]any{got.GetServerId(), got.GetVersion(), got.GetState(), got.GetEtag(), got.GetCreateTime().AsTime()})
}

// cut sends a registration and closes the connection without reading.
func cut(t *testing.T, d *dev, key string, request *pb.RegisterMcpServerRequest) {
	t.Helper()
	body := fmt.Sprintf(`{"name":%q,"endpointUrl":%q,"direction":%q,"transport":%q,"authentication":%q,"exceptionReason":%q,"governancePolicyRef":%q,"protocolVersion":%q}`,
		request.GetName(), request.GetEndpointUrl(), request.GetDirection(), request.GetTransport(), request.GetAuthentication(),
		request.GetExceptionReason(), request.GetGovernancePolicyRef(), request.GetProtocolVersion())
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url()+"/factory/mcp-servers", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+d.tokens[first][registry.RolePlatformAdmin])
	r.Header.Set("Idempotency-Key", key)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", d.listen)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Write(conn), conn.Close()); err != nil {
		t.Fatal(err)
	}
}

// A failure does not stick: a discovery by hand works as soon as the server
// does, one comes by itself, and a restart freezes nothing (H14).
func TestAFailedDiscoveryIsMended(t *testing.T) {
	t.Parallel()
	d := newDev(t)
	d.start(t)
	c := d.admin()
	byHand, byItself := newPeer(t), newPeer(t)
	for name, p := range map[string]*peer{"by-hand": byHand, "by-itself": byItself} {
		bring(t, c, name, p.url(), registered)
	}
	for _, name := range []string{"by-hand", "by-itself"} {
		until(t, "its discovery has failed", patience, func() error {
			s, err := c.get(t.Context(), name)
			if err == nil && (s.GetDiscovery().GetStatus() != pb.DiscoveryStatus_DISCOVERY_STATUS_FAILED || s.GetDiscovery().GetReason() != "unreachable" || s.GetState() != registered) {
				err = fmt.Errorf("the discovery is %v", s.GetDiscovery())
			}
			return err
		})
	}
	if err := errors.Join(byHand.start(), byItself.start()); err != nil {
		t.Fatal(err)
	}
	ctx, _ := keyed(t.Context(), "by hand")
	response, err := c.servers.DiscoverMcpCapabilities(ctx, &pb.DiscoverMcpCapabilitiesRequest{ServerId: "by-hand", Wait: durationpb.New(30 * time.Second)})
	if err != nil || !response.GetDone() || response.GetServer().GetState() != verified {
		t.Errorf("by hand: done %t, %s: %v", response.GetDone(), response.GetServer().GetState(), err)
	}
	d.kill()
	d.start(t)
	limit, cancel := context.WithTimeout(t.Context(), longPatience)
	defer cancel()
	if err := eventually(limit, func() error { _, err := c.in(limit, "by-itself", verified); return err }); err != nil {
		t.Error(err)
	}
	e := dial(t, d.temporal, "default")
	e.awaitOpen(t, server("by-hand"), server("by-itself"))
	if runs := e.runs(t, "WorkflowType = '"+workflows.DiscoveryWorkflow+"'"); len(runs) != 4 {
		t.Errorf("there were %d discoveries", len(runs))
	}
	e.checkHistories(t)
	d.stop(t)
	readSQLite(t, d.database()).check(t)
}
