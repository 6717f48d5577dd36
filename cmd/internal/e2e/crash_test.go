package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"countersign/failpoint"
	"countersign/mcptest"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// story is one server of a development process that dies in the middle.
type story struct {
	*dev

	name, url string
	peer      *peer // the server behind url, when it is not the demo server
}

// crash is a way to a failpoint and on from there.
type crash struct {
	point, way string
	// before is done by a process that is not armed yet; nil when nothing that
	// leads to the point passes it too early.
	before func(context.Context, caller, *story) error
	// reach leads to the point. Its error is that of a process that dies.
	reach func(context.Context, caller, *story) error
	// resume is what callers do with the process that came after.
	resume func(context.Context, caller, *story) error
	// more is what is done to the server besides the usual.
	more map[string]int
}

// usual is what is done once to every server that goes the straight way.
var usual = map[string]int{"register": 1, "discovered": 1, "approve": 1, "retire": 1}

// crashes has every point.
var crashes = slices.Concat(
	ways("register, again with the same key", register, activate, nil,
		"register.begin", "register.before_commit", "register.after_commit", "discovery.begin", "discovery.listed", "discovery.snapshot_saved",
		"discovered.before_commit", "discovered.after_commit"),
	after(activate, ways("discover, again with the same key", discover, discover, map[string]int{"begin_discovery": 1, "discovered": 1},
		"begin_discovery.before_commit", "begin_discovery.after_commit")),
	ways("register what cannot be reached", registerClosed, rediscover, map[string]int{"begin_discovery": 1, "discovery_failed": 1},
		"discovery_failed.before_commit", "discovery_failed.after_commit"),
	ways("approve", activate, activate, nil, "approve.before_commit", "approve.after_commit"),
	ways("reject", reject, reject, map[string]int{"reject": 1, "request_review": 1}, "reject.before_commit", "reject.after_commit"),
	ways("ask for a review again", reject, reject, map[string]int{"reject": 1, "request_review": 1},
		"request_review.before_commit", "request_review.after_commit"),
	ways("switch a tool off and on", toggle, toggle, map[string]int{"set_enabled": 2}, "set_enabled.before_commit", "set_enabled.after_commit"),
	ways("edit what people read", describe, describe, map[string]int{"edit": 1}, "edit.before_commit", "edit.after_commit"),
	ways("edit where it is", move, move, map[string]int{"edit": 1, "begin_discovery": 1, "discovered": 1, "approve": 1},
		"edit.before_commit", "edit.after_commit"),
	after(activate, ways("be probed", nothing, beProbed, nil, "probe.probed", "probe.recorded")),
	ways("be probed while away", goAway, beProbed, nil, "probe.before_commit", "probe.after_commit"),
	ways("retire", retire, retire, nil, "retire.before_commit", "retire.after_commit"),
)

func ways(way string, reach, resume func(context.Context, caller, *story) error, more map[string]int, points ...string) (out []crash) {
	for _, point := range points {
		out = append(out, crash{point: point, way: way, reach: reach, resume: resume, more: more})
	}
	return out
}

func after(before func(context.Context, caller, *story) error, list []crash) []crash {
	for i := range list {
		list[i].before = before
	}
	return list
}

func TestTheCrashesReachEveryFailpoint(t *testing.T) {
	t.Parallel()
	points := map[string]bool{}
	for _, c := range crashes {
		points[c.point] = true
	}
	for _, point := range providerCrashes {
		points[point] = true
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(failpoint.Points)), slices.Sorted(maps.Keys(points))); diff != "" {
		t.Error(diff)
	}
}

// The process dies at every failpoint; after the restart the life goes on
// where it was, and nothing is doubled.
func TestALifeGoesOnAfterACrash(t *testing.T) {
	t.Parallel()
	for _, c := range crashes {
		t.Run(c.point+"/"+c.way, func(t *testing.T) {
			t.Parallel()
			c.test(t)
		})
	}
}

func (c crash) test(t *testing.T) {
	s := newStory(t)
	if c.before != nil {
		s.start(t)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := c.before(ctx, s.admin(), s); err != nil {
			t.Fatalf("before: %v", err)
		}
		s.stop(t)
	}
	s.interval = time.Second
	hit := filepath.Join(t.TempDir(), "hit")
	s.launch(t, "COUNTERSIGN_FAILPOINT="+c.point, "COUNTERSIGN_FAILPOINT_LOG="+hit)
	if s.awaitReady(t) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		ended := s.ended
		go func() {
			select {
			case <-ended:
				cancel()
			case <-ctx.Done():
			}
		}()
		if err := c.reach(ctx, s.admin(), s); err != nil && !s.over() {
			t.Logf("on the way: %v", err) // it may be dying just now
		}
	}
	s.awaitKilled(t)
	if name, err := os.ReadFile(hit); err != nil || string(name) != c.point {
		t.Fatalf("the process died, but not at the failpoint: %s, %v", name, err)
	}
	s.start(t)
	ctx, cancel := context.WithTimeout(t.Context(), longPatience)
	defer cancel()
	if err := c.resume(ctx, s.admin(), s); err != nil {
		t.Fatalf("after the restart: %v", err)
	}
	s.end(t, c.more)
}

func newStory(t *testing.T) *story {
	t.Helper()
	d := newDev(t)
	return &story{dev: d, name: "story", url: d.demoURL(), peer: newPeer(t)}
}

// end retires the server, gives its name to another one, and looks for
// anything that is missing or there twice. More is what was done to the server
// besides the usual.
func (s *story) end(t *testing.T, more map[string]int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longPatience)
	defer cancel()
	c := s.admin()
	tool := s.name + ".hash_compute"
	if s.peer.open() {
		tool = s.name + ".tool_0000"
	}
	e := dial(t, s.temporal, "default")
	if got, err := c.get(ctx, s.name); err != nil {
		t.Fatal(err)
	} else if got.GetState() != retired {
		if err := c.callable(ctx, tool); err != nil {
			t.Error(err)
		}
		e.awaitOpen(t, server(s.name))
	}
	if err := retire(ctx, c, s); err != nil {
		t.Fatalf("retire: %v", err)
	}
	if err := eventually(ctx, func() error { return c.denied(ctx, tool, registry.ReasonServerRetired) }); err != nil {
		t.Error(err)
	}
	e.awaitOpen(t)
	if _, err := c.register(ctx, "the next of this name", s.name, s.url); err != nil {
		t.Errorf("the name is not free: %v", err)
	}
	if err := eventually(ctx, func() error { _, err := c.in(ctx, s.name, verified); return err }); err != nil {
		t.Error(err)
	}
	e.awaitOpen(t, server(s.name))
	e.checkSchedules(t)
	e.checkHistories(t)
	s.stop(t)

	l := readSQLite(t, s.database())
	l.check(t)
	ids := l.named(first, s.name)
	if len(ids) != 2 {
		t.Fatalf("there are %d servers", len(ids))
	}
	want := maps.Clone(usual)
	for action, n := range more {
		want[action] += n
	}
	did := l.did(ids[0]) // the ids of UUIDv7 sort by their time
	delete(did, "probe") // how often it was away is a matter of time
	if diff := cmp.Diff(want, did); diff != "" {
		t.Errorf("what was done to the server:\n%s", diff)
	}
	decided := map[registry.Verb]int{}
	for _, verb := range []registry.Verb{registry.VerbApprove, registry.VerbReject, registry.VerbRequestReview} {
		if n := want[string(verb)]; n > 0 {
			decided[verb] = n
		}
	}
	if diff := cmp.Diff(decided, l.decided(ids[0])); diff != "" {
		t.Errorf("the decisions:\n%s", diff)
	}
}

func nothing(context.Context, caller, *story) error { return nil }

func register(ctx context.Context, c caller, s *story) error {
	_, err := c.bring(ctx, s.name, s.url, registered)
	return err
}

// activate takes the straight way to an active server, from wherever it is.
func activate(ctx context.Context, c caller, s *story) error {
	got, err := c.get(ctx, s.name)
	if err == nil && got.GetState() != registered {
		return c.activate(ctx, s.name)
	}
	_, err = c.bring(ctx, s.name, s.url, active)
	return err
}

// again repeats a call until its effect is seen, as somebody would who does
// not know what became of the call before.
func (c caller) again(ctx context.Context, ref string, seen func(*pb.McpServer) bool, do func(*pb.McpServer) error) error {
	return eventually(ctx, func() error {
		s, err := c.get(ctx, ref)
		if err != nil || seen(s) {
			return err
		}
		if err := do(s); err != nil {
			return err
		}
		if s, err = c.get(ctx, ref); err == nil && !seen(s) {
			err = fmt.Errorf("a call succeeded and had no effect: the server is %s, review %s", s.GetState(), s.GetReview().GetStatus())
		}
		return err
	})
}

func discover(ctx context.Context, c caller, s *story) error {
	return eventually(ctx, func() error {
		keyed, _ := keyed(ctx, "the second discovery")
		answer, err := c.servers.DiscoverMcpCapabilities(keyed, &pb.DiscoverMcpCapabilitiesRequest{ServerId: s.name, Wait: durationpb.New(30 * time.Second)})
		if err == nil && (!answer.GetDone() || answer.GetServer().GetDiscovery().GetNumber() != 2) {
			err = fmt.Errorf("done: %t, number %d", answer.GetDone(), answer.GetServer().GetDiscovery().GetNumber())
		}
		return err
	})
}

// registerClosed registers a server at a port where nobody listens.
func registerClosed(ctx context.Context, c caller, s *story) error {
	s.url = s.peer.url()
	return register(ctx, c, s)
}

// rediscover waits until the discovery is known to have failed, opens the port
// and asks for another one.
func rediscover(ctx context.Context, c caller, s *story) error {
	err := eventually(ctx, func() error {
		got, err := c.get(ctx, s.name)
		if err == nil && got.GetDiscovery().GetStatus() != pb.DiscoveryStatus_DISCOVERY_STATUS_FAILED {
			err = fmt.Errorf("the discovery is %s", got.GetDiscovery().GetStatus())
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := s.peer.start(); err != nil {
		return err
	}
	if err := discover(ctx, c, s); err != nil {
		return err
	}
	return activate(ctx, c, s)
}

// reject rejects, asks for a review again, and approves.
func reject(ctx context.Context, c caller, s *story) error {
	server, err := c.bring(ctx, s.name, s.url, verified)
	if err != nil {
		return err
	}
	is := func(status pb.ReviewStatus) func(*pb.McpServer) bool {
		return func(s *pb.McpServer) bool { return s.GetReview().GetStatus() == status }
	}
	if server.GetReview().GetDecidedBy() == "" && !asked(server) {
		err = c.again(ctx, s.name, is(pb.ReviewStatus_REVIEW_STATUS_REJECTED), func(got *pb.McpServer) error {
			_, err := c.servers.RejectMcpServer(ctx, &pb.RejectMcpServerRequest{ServerId: s.name, Digest: got.GetReview().GetDigest(), Comment: "not yet"})
			return err
		})
	}
	if err != nil {
		return err
	}
	err = c.again(ctx, s.name, is(pb.ReviewStatus_REVIEW_STATUS_PENDING), func(*pb.McpServer) error {
		_, err := c.servers.RequestReview(ctx, &pb.RequestReviewRequest{ServerId: s.name, Comment: "please"})
		return err
	})
	if err != nil {
		return err
	}
	return activate(ctx, c, s)
}

// asked says whether the review was opened again after the first discovery.
func asked(s *pb.McpServer) bool {
	return s.GetReview().GetOpenTime().AsTime().After(s.GetDiscovery().GetSucceedTime().AsTime())
}

// toggle switches a tool off and on.
func toggle(ctx context.Context, c caller, s *story) error {
	if err := activate(ctx, c, s); err != nil {
		return err
	}
	const name = ".text_upper"
	tool := s.name + name
	for _, on := range []bool{false, true} {
		err := eventually(ctx, func() error {
			got, err := c.catalog.GetTool(ctx, &pb.GetToolRequest{ToolId: tool})
			if err != nil || got.GetTool().GetEnabled() == on {
				return err
			}
			if _, err := c.catalog.SetToolEnabled(ctx, &pb.SetToolEnabledRequest{ToolId: tool, Enabled: on}); err != nil {
				return err
			}
			return c.denied(ctx, tool, map[bool]registry.Reason{false: registry.ReasonToolDisabled, true: ""}[on])
		})
		if err != nil {
			return err
		}
	}
	return c.callable(ctx, tool)
}

// describe edits the description.
func describe(ctx context.Context, c caller, s *story) error {
	return edit(ctx, c, s, "description", &pb.ServerPatch{Description: "changed"}, func(s *pb.McpServer) bool { return s.GetDescription() == "changed" })
}

// move edits the URL, to another one of the same server: what was approved is
// no longer callable until somebody approves it there.
func move(ctx context.Context, c caller, s *story) error {
	elsewhere := s.url + "?elsewhere=1"
	err := edit(ctx, c, s, "endpoint_url", &pb.ServerPatch{EndpointUrl: elsewhere}, func(s *pb.McpServer) bool { return s.GetEndpointUrl() == elsewhere })
	if err != nil {
		return err
	}
	return eventually(ctx, func() error {
		err := c.callable(ctx, s.name+".hash_compute")
		if err == nil {
			return nil
		}
		if _, err := c.approve(ctx, s.name); err != nil {
			return err
		}
		return c.callable(ctx, s.name+".hash_compute")
	})
}

func edit(ctx context.Context, c caller, s *story, field string, patch *pb.ServerPatch, seen func(*pb.McpServer) bool) error {
	if err := activate(ctx, c, s); err != nil {
		return err
	}
	return c.again(ctx, s.name, seen, func(*pb.McpServer) error {
		_, err := c.servers.UpdateMcpServer(ctx, &pb.UpdateMcpServerRequest{
			ServerId: s.name, Server: patch, UpdateMask: mask(field),
		})
		return err
	})
}

// goAway stops the demo server of an active server.
func goAway(ctx context.Context, c caller, s *story) error {
	if err := activate(ctx, c, s); err != nil {
		return err
	}
	return s.switchDemo(ctx, "stop")
}

// beProbed wants the probes to see the demo server stop and start.
func beProbed(ctx context.Context, c caller, s *story) error {
	for _, step := range []struct {
		what   string
		reason registry.Reason
	}{{"stop", registry.ReasonServerDegraded}, {"start", ""}} {
		if err := s.switchDemo(ctx, step.what); err != nil {
			return err
		}
		if err := eventually(ctx, func() error { return c.denied(ctx, s.name+".hash_compute", step.reason) }); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

func retire(ctx context.Context, c caller, s *story) error {
	got, err := c.get(ctx, s.name)
	if reasonOf(err) == registry.ReasonServerNotFound {
		err = activate(ctx, c, s)
	}
	if err == nil && got.GetState() == retired {
		return nil
	}
	if err != nil {
		return err
	}
	return c.again(ctx, s.name, func(s *pb.McpServer) bool { return s.GetState() == retired }, func(*pb.McpServer) error {
		_, err := c.servers.RetireMcpServer(ctx, &pb.RetireMcpServerRequest{ServerId: s.name})
		return err
	})
}

// The process is killed while an approval waits.
func TestAnApprovalWaitsThroughACrash(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.start(t)
	before := bring(t, s.admin(), s.name, s.url, verified)
	s.kill()
	s.start(t)
	got, err := s.admin().in(t.Context(), s.name, verified)
	if err != nil || got.GetReview().GetDigest() != before.GetReview().GetDigest() || got.GetVersion() != before.GetVersion() {
		t.Errorf("after the restart the review is %v: %v", got.GetReview(), err)
	}
	if err := activate(t.Context(), s.admin(), s); err != nil {
		t.Error(err)
	}
	s.end(t, nil)
}

// The process is killed while a discovery waits for a server that says nothing.
func TestADiscoveryIsTakenUpAfterACrash(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.peer.script.Fault("tools/list", mcptest.Hang())
	if err := s.peer.start(); err != nil {
		t.Fatal(err)
	}
	s.url = s.peer.url()
	s.start(t)
	bring(t, s.admin(), s.name, s.url, registered)
	until(t, "the discovery hangs", patience, func() error {
		if s.peer.server.Count("tools/list") == 0 {
			return errors.New("nobody asked for the tools")
		}
		return nil
	})
	s.kill()
	s.peer.server.Edit(func(script *mcptest.Script) { script.Fault("tools/list", nil) })
	s.start(t)
	ctx, cancel := context.WithTimeout(t.Context(), longPatience)
	defer cancel()
	if err := eventually(ctx, func() error { _, err := s.admin().in(ctx, s.name, verified); return err }); err != nil {
		t.Fatal(err)
	}
	if err := s.admin().activate(ctx, s.name); err != nil {
		t.Error(err)
	}
	s.end(t, nil)
}
