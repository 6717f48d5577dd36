package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// S1: pages lose nothing and repeat nothing, whatever comes and goes between
// them.
func TestPagesLoseAndRepeatNothing(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"", "name desc", "create_time", "create_time desc", "update_time"} {
		t.Run("ordered by "+order, func(t *testing.T) {
			t.Parallel()
			h := open(t)
			stay := map[string]bool{}
			var leave []registry.Server
			for i := range 100 {
				s := h.registered(t, alpha, fmt.Sprintf("s%03d", (i*37)%100))
				if i%10 == 3 {
					leave = append(leave, s)
				} else {
					stay[s.Name] = true
				}
			}
			seen := map[string]int{}
			token, pages := "", 0
			for {
				o := ways["Connect proto"](t, h, admin(alpha), doList, &pb.ListMcpServersRequest{PageSize: 7, PageToken: token, OrderBy: order}, nil)
				page := into(t, o, &pb.ListMcpServersResponse{})
				for _, s := range page.GetServers() {
					seen[s.GetName()]++
				}
				pages++
				if token = page.GetNextPageToken(); token == "" {
					break
				}
				if len(page.GetServers()) != 7 {
					t.Errorf("page %d has %d servers", pages, len(page.GetServers()))
				}
				h.registered(t, alpha, fmt.Sprintf("new-%d", pages))
				if len(leave) > 0 {
					h.changed(t, leave[0], retire)
					leave = leave[1:]
				}
			}
			for name, n := range seen {
				if n > 1 {
					t.Errorf("%s was listed %d times", name, n)
				}
			}
			for name := range stay {
				if seen[name] != 1 {
					t.Errorf("%s was lost", name)
				}
			}
		})
	}
}

func TestServersAreFilteredAndOrdered(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.registered(t, alpha, "a", func(g *registry.Registration) {
		g.Owner, g.Labels = "Team One", map[string]string{"env": "prod", "a/b": "x"}
	})
	h.registered(t, alpha, "b", func(g *registry.Registration) { g.Direction, g.Owner = registry.DirectionExposed, "team two" })
	h.registered(t, alpha, "c", func(g *registry.Registration) {
		g.Authentication, g.ExceptionReason = registry.AuthNoneException, "a demo"
		g.Labels = map[string]string{"env": "test"}
	})
	h.active(t, alpha, "d", "x")
	h.changed(t, h.registered(t, alpha, "e"), retire)
	h.discovered(t, h.registered(t, alpha, "f"), surface("x"))
	for _, c := range []struct {
		request *pb.ListMcpServersRequest
		want    []string
	}{
		{&pb.ListMcpServersRequest{}, []string{"a", "b", "c", "d", "f"}},
		{&pb.ListMcpServersRequest{ShowRetired: true}, []string{"a", "b", "c", "d", "e", "f"}},
		{&pb.ListMcpServersRequest{Filter: "state=retired"}, []string{"e"}},
		{&pb.ListMcpServersRequest{Filter: "state = MCP_SERVER_STATE_ACTIVE"}, []string{"d"}},
		{&pb.ListMcpServersRequest{Filter: "state != active"}, []string{"a", "b", "c", "f"}},
		{&pb.ListMcpServersRequest{Filter: "direction=exposed"}, []string{"b"}},
		{&pb.ListMcpServersRequest{Filter: "transport=streamable_http AND authentication=none_exception"}, []string{"c"}},
		{&pb.ListMcpServersRequest{Filter: `owner="Team One"`}, []string{"a"}},
		{&pb.ListMcpServersRequest{Filter: `owner:team`}, []string{"a", "b"}},
		{&pb.ListMcpServersRequest{Filter: "labels.env=prod"}, []string{"a"}},
		{&pb.ListMcpServersRequest{Filter: "labels.env:*"}, []string{"a", "c"}},
		{&pb.ListMcpServersRequest{Filter: `labels."a/b" = x AND name != b`}, []string{"a"}},
		{&pb.ListMcpServersRequest{Filter: "review = pending"}, []string{"f"}},
		{&pb.ListMcpServersRequest{Filter: "review = REVIEW_STATUS_APPROVED"}, []string{"d"}},
		{&pb.ListMcpServersRequest{Filter: "review != none AND owner != nobody"}, []string{"d", "f"}},
		{&pb.ListMcpServersRequest{Filter: "name=nobody"}, nil},
		{&pb.ListMcpServersRequest{Filter: `name="' OR 1=1 --"`}, nil},
		{&pb.ListMcpServersRequest{OrderBy: "name desc"}, []string{"f", "d", "c", "b", "a"}},
		{&pb.ListMcpServersRequest{OrderBy: "create_time desc", PageSize: 2}, []string{"f", "d"}},
		{&pb.ListMcpServersRequest{OrderBy: "update_time desc", PageSize: 1}, []string{"f"}},
	} {
		for face, send := range ways {
			got := into(t, send(t, h, tokenOf(alpha, registry.RoleObserver), doList, c.request, nil), &pb.ListMcpServersResponse{})
			var names []string
			for _, s := range got.GetServers() {
				names = append(names, s.GetName())
			}
			if diff := cmp.Diff(c.want, names); diff != "" {
				t.Errorf("%v by %s: %s", c.request, face, diff)
			}
			if c.request.GetPageSize() == 0 && int(got.GetTotalSize()) != len(c.want) {
				t.Errorf("%v by %s counts %d", c.request, face, got.GetTotalSize())
			}
		}
	}
}

func TestToolsAreFilteredAndOrdered(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.active(t, alpha, "a", "x", "y")
	b := h.discovered(t, h.registered(t, alpha, "b"), surface("x"))
	h.changed(t, h.active(t, alpha, "old", "x"), retire)
	for _, c := range []struct {
		request *pb.ListToolsRequest
		want    []string
	}{
		{&pb.ListToolsRequest{}, []string{"a.x", "a.y", "b.x"}},
		{&pb.ListToolsRequest{ShowRetired: true}, []string{"a.x", "a.y", "b.x", "old.x"}},
		{&pb.ListToolsRequest{Filter: "bound=true"}, []string{"a.x", "a.y"}},
		{&pb.ListToolsRequest{Filter: "enabled=false"}, []string{"b.x"}},
		{&pb.ListToolsRequest{Filter: "available=true AND name=x"}, []string{"a.x", "b.x"}},
		{&pb.ListToolsRequest{Filter: "server=a AND name != x"}, []string{"a.y"}},
		{&pb.ListToolsRequest{Filter: "provider=b"}, []string{"b.x"}},
		{&pb.ListToolsRequest{Filter: "server_id=" + b.ServerID}, []string{"b.x"}},
		{&pb.ListToolsRequest{Filter: "tool_id=a.y"}, []string{"a.y"}},
		{&pb.ListToolsRequest{OrderBy: "tool_id desc"}, []string{"b.x", "a.y", "a.x"}},
	} {
		for face, send := range ways {
			got := into(t, send(t, h, tokenOf(alpha, registry.RoleObserver), doTools, c.request, nil), &pb.ListToolsResponse{})
			var ids []string
			for _, tool := range got.GetTools() {
				ids = append(ids, tool.GetToolId())
			}
			if diff := cmp.Diff(c.want, ids); diff != "" || int(got.GetTotalSize()) != len(c.want) {
				t.Errorf("%v by %s, %d in all: %s", c.request, face, got.GetTotalSize(), diff)
			}
		}
	}
}

func TestRunsArePaged(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.registered(t, alpha, "there")
	other := h.registered(t, alpha, "other")
	h.flows.allRuns = 5
	var got []string
	token := ""
	for {
		o := ways["REST"](t, h, admin(alpha), doRuns, &pb.ListMcpServerRunsRequest{ServerId: "there", PageSize: 2, PageToken: token}, nil)
		page := into(t, o, &pb.ListMcpServerRunsResponse{})
		for _, r := range page.GetRuns() {
			got = append(got, r.GetRunId())
		}
		if token != "" {
			o := ways["REST"](t, h, admin(alpha), doRuns, &pb.ListMcpServerRunsRequest{ServerId: other.ServerID, PageSize: 2, PageToken: token}, nil)
			if o.reason != string(registry.ReasonInvalidPageToken) {
				t.Errorf("the token of another server's runs comes to %+v", o)
			}
		}
		if token = page.GetNextPageToken(); token == "" {
			break
		}
	}
	if !slices.Equal(got, []string{"0", "1", "2", "3", "4"}) {
		t.Errorf("the runs are %v", got)
	}
}

// A server cannot stop its tenant's lists by the names of its tools.
func TestLongNamesDoNotStopAList(t *testing.T) {
	t.Parallel()
	h := open(t)
	names := []string{strings.Repeat("<", 500), strings.Repeat("é", 250), strings.Repeat("&>", 5000), "zz"}
	h.discovered(t, h.registered(t, alpha, "there"), surface(names...))
	for face, send := range ways {
		seen, token := 0, ""
		for {
			page := into(t, send(t, h, admin(alpha), doTools, &pb.ListToolsRequest{PageSize: 1, PageToken: token}, nil), &pb.ListToolsResponse{})
			seen += len(page.GetTools())
			if token = page.GetNextPageToken(); token == "" {
				break
			}
		}
		if seen != len(names) {
			t.Errorf("%s lists %d tools", face, seen)
		}
	}
}
