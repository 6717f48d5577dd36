package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// found gives the ids that a list of tools answers, through all its pages.
func (h *house) found(t *testing.T, send way, request *pb.ListToolsRequest) []string {
	t.Helper()
	var ids []string
	for {
		page := into(t, send(t, h, tokenOf(alpha, registry.RoleObserver), doTools, request, nil), &pb.ListToolsResponse{})
		for _, tool := range page.GetTools() {
			ids = append(ids, tool.GetToolId())
		}
		if request.PageToken = page.GetNextPageToken(); request.GetPageToken() == "" {
			return ids
		}
	}
}

func TestToolsAreSearchedFilteredAndCounted(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.active(t, alpha, "weather", "get_forecast", "list_alerts")
	s := h.registered(t, alpha, "maps", func(g *registry.Registration) { g.Labels = map[string]string{"team": "geo"} })
	h.discovered(t, s, surface("find_forecast", "find_place"))
	h.active(t, beta, "weather", "get_forecast")
	for face, send := range ways {
		for _, c := range []struct {
			request *pb.ListToolsRequest
			want    string
		}{
			{&pb.ListToolsRequest{Search: "forecast"}, "maps.find_forecast weather.get_forecast"},
			{&pb.ListToolsRequest{Search: "Forecast", PageSize: 1}, "maps.find_forecast weather.get_forecast"},
			{&pb.ListToolsRequest{Search: "fore weather"}, "weather.get_forecast"},
			{&pb.ListToolsRequest{Search: "forecast", OrderBy: "tool_id desc"}, "weather.get_forecast maps.find_forecast"},
			{&pb.ListToolsRequest{Search: "forecast", Filter: "callable = true"}, "weather.get_forecast"},
			{&pb.ListToolsRequest{Search: "nothing"}, ""},
			{&pb.ListToolsRequest{Filter: "class = read"}, "weather.get_forecast weather.list_alerts"},
			{&pb.ListToolsRequest{Filter: "class = SIDE_EFFECT_CLASS_SANDBOX"}, ""},
			{&pb.ListToolsRequest{Filter: "labels.team = geo AND quarantined = false AND requires_approval = false"}, "maps.find_forecast maps.find_place"},
		} {
			if got := strings.Join(h.found(t, send, c.request), " "); got != c.want {
				t.Errorf("%s: %v finds %q, want %q", face, c.request, got, c.want)
			}
		}
		facets := into(t, send(t, h, tokenOf(alpha, registry.RoleObserver), doFacets, &pb.ListToolFacetsRequest{
			Search: "forecast", Facets: []string{"server", "callable"},
		}, nil), &pb.ListToolFacetsResponse{})
		var got []string
		for _, f := range facets.GetFacets() {
			for _, v := range f.GetValues() {
				got = append(got, fmt.Sprint(f.GetField(), " ", v.GetValue(), " ", v.GetCount()))
			}
		}
		if diff := cmp.Diff([]string{"server maps 1", "server weather 1", "callable false 1", "callable true 1"}, got); diff != "" || facets.GetTotalSize() != 2 {
			t.Errorf("%s: of %d: %s", face, facets.GetTotalSize(), diff)
		}
		for name, c := range map[string]struct {
			procedure string
			request   *pb.ListToolsRequest
			reason    registry.Reason
		}{
			"a search without words": {doTools, &pb.ListToolsRequest{Search: "?!"}, registry.ReasonInvalidArgument},
			"relevance of a list":    {doTools, &pb.ListToolsRequest{OrderBy: "relevance"}, registry.ReasonInvalidOrder},
			"relevance backwards":    {doTools, &pb.ListToolsRequest{Search: "a", OrderBy: "relevance desc"}, registry.ReasonInvalidOrder},
			"no such class":          {doTools, &pb.ListToolsRequest{Filter: "class = all"}, registry.ReasonInvalidFilter},
			"no such field":          {doTools, &pb.ListToolsRequest{Filter: "weather = fine"}, registry.ReasonInvalidFilter},
		} {
			if o := send(t, h, admin(alpha), c.procedure, c.request, nil); o.reason != string(c.reason) {
				t.Errorf("%s, %s: %+v", face, name, o)
			}
		}
		if o := send(t, h, admin(alpha), doFacets, &pb.ListToolFacetsRequest{Facets: []string{"weather"}}, nil); o.reason != string(registry.ReasonInvalidArgument) {
			t.Errorf("%s: facets of nothing: %+v", face, o)
		}
	}
	// A page token is good for its search only.
	page := into(t, ways["REST"](t, h, admin(alpha), doTools, &pb.ListToolsRequest{Search: "forecast", PageSize: 1}, nil), &pb.ListToolsResponse{})
	o := ways["REST"](t, h, admin(alpha), doTools, &pb.ListToolsRequest{Search: "forecasts", PageSize: 1, PageToken: page.GetNextPageToken()}, nil)
	if o.reason != string(registry.ReasonInvalidPageToken) {
		t.Errorf("another search: %+v", o)
	}
}

func TestManyToolsAreSwitchedByOneCall(t *testing.T) {
	t.Parallel()
	h := open(t)
	one := h.active(t, alpha, "one", "a", "b")
	h.discovered(t, h.registered(t, alpha, "two"), surface("a", "b", "c"))
	three := h.discovered(t, h.registered(t, alpha, "three"), surface("a"))
	h.active(t, beta, "one", "a")
	gone := h.active(t, alpha, "gone", "a")
	h.changed(t, gone, retire)
	ask := func(request *pb.SetToolsEnabledRequest) *pb.SetToolsEnabledResponse {
		t.Helper()
		return into(t, ways["REST"](t, h, tokenOf(alpha, registry.RoleAssetMaintainer), doSwitch, request, nil), &pb.SetToolsEnabledResponse{})
	}
	told := func(r *pb.SetToolsEnabledResponse) []string {
		var out []string
		for _, s := range r.GetServers() {
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s: %s, %d so already %s", s.GetServerName(), strings.Join(s.GetToolIds(), " "), s.GetUnchangedTools(), s.GetReason())))
		}
		return append(out, fmt.Sprintf("%d changed, %d unchanged, %d failed", r.GetChangedTools(), r.GetUnchangedTools(), r.GetFailedTools()))
	}
	check := func(what string, r *pb.SetToolsEnabledResponse, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, told(r)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	h.flows.took()
	on := &pb.SetToolsEnabledRequest{Filter: "name = a", Enabled: true, DryRun: true}
	want := []string{"one: , 1 so already", "three: three.a, 0 so already", "two: two.a, 0 so already", "2 changed, 1 unchanged, 0 failed"}
	check("a dry run", ask(on), want...)
	if asked := h.flows.took(); len(asked) != 0 {
		t.Errorf("a dry run asks for %v", asked)
	}
	on.DryRun = false
	check("the run", ask(on), want...)
	if asked := h.flows.took(); len(asked) != 2 {
		t.Errorf("two servers are changed by %v", asked)
	}
	check("again", ask(on), "one: , 1 so already", "three: , 1 so already", "two: , 1 so already", "0 changed, 3 unchanged, 0 failed")

	// One that fails keeps no other from its change.
	h.flows.broken = map[string]error{one.ServerID: registry.Errorf(registry.ReasonBusy, "too much at once")}
	check("partly", ask(&pb.SetToolsEnabledRequest{Filter: "tool_id:*"}),
		"one: one.a one.b, 0 so already busy", "three: three.a, 0 so already", "two: two.a, 2 so already", "2 changed, 2 unchanged, 2 failed")
	if v, err := h.db.Tenant(alpha).Tool(t.Context(), "one.a"); err != nil || !v.Tool.Enabled {
		t.Errorf("told that it failed, and done: %v", err)
	}
	h.flows.broken = nil

	r := ask(&pb.SetToolsEnabledRequest{ToolIds: []string{"two.c", "none.x", "one.a", "gone.a"}, Enabled: true, Search: ""})
	check("a list", r, "one: , 1 so already", "two: two.c, 0 so already", "1 changed, 1 unchanged, 0 failed")
	if diff := cmp.Diff([]string{"none.x", "gone.a"}, r.GetUnknownToolIds()); diff != "" {
		t.Error(diff)
	}
	check("a search of a list", ask(&pb.SetToolsEnabledRequest{ToolIds: []string{"two.c", "two.b"}, Search: "c", Enabled: true}),
		"two: , 1 so already", "0 changed, 1 unchanged, 0 failed")
	for name, request := range map[string]*pb.SetToolsEnabledRequest{
		"nothing chosen": {Enabled: true}, "a filter that cannot be read": {Filter: "x"}, "a tool twice": {ToolIds: []string{"one.a", "one.a"}},
	} {
		for face, send := range ways {
			if o := send(t, h, admin(alpha), doSwitch, request, nil); o.code != "invalid_argument" {
				t.Errorf("%s, %s: %+v", name, face, o)
			}
		}
	}
	// What was done stands in the audit, tool by tool.
	var notes []string
	for _, e := range h.audits(t, alpha, "set_enabled") {
		notes = append(notes, e.Note)
	}
	slices.Sort(notes)
	if diff := cmp.Diff([]string{
		"disabled three.a", "disabled two.a", "enabled three.a", "enabled two.a", "enabled two.c",
	}, notes); diff != "" {
		t.Error(diff)
	}
	ask(&pb.SetToolsEnabledRequest{Filter: "server = one"})
	if e := h.audits(t, alpha, "set_enabled"); len(e) == 0 || string(e[0].Detail) != `{"tools":["one.a","one.b"]}` {
		t.Errorf("the audit says %+v", e[0])
	}
	_ = three
}

// However long the names that a server gives its tools: each change fits into a
// workflow's payload.
func TestChangesOfToolsWithLongNamesAreSplit(t *testing.T) {
	t.Parallel()
	var names []string
	for range 3000 {
		names = append(names, strings.Repeat("\x01", 100)) // 600 bytes as JSON
	}
	rounds := 0
	for done := 0; done < len(names); rounds++ {
		n := fitting(names[done:])
		if n < 1 || n*602 > maxNamesBytes {
			t.Fatalf("%d names at once", n)
		}
		done += n
	}
	if rounds != 3 {
		t.Errorf("%d rounds", rounds)
	}
	if n := fitting([]string{strings.Repeat("x", 1<<20), "y"}); n != 1 {
		t.Errorf("%d", n)
	}
}

func TestRequiresApprovalIsSetAndReported(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.active(t, alpha, "one", "a")
	for face, send := range ways {
		for _, required := range []bool{true, false} {
			o := send(t, h, tokenOf(alpha, registry.RoleAssetMaintainer), doRequire, &pb.SetToolRequiresApprovalRequest{ToolId: "one.a", RequiresApproval: required}, nil)
			tool := into(t, o, &pb.SetToolRequiresApprovalResponse{}).GetTool()
			said := into(t, send(t, h, tokenOf(alpha, executor), doResolve, &pb.ResolveToolRequest{ToolId: "one.a"}, nil), &pb.ResolveToolResponse{})
			if tool.GetRequiresApproval() != required || !tool.GetCallable() || said.GetRequiresApproval() != required || !said.GetCallable() {
				t.Errorf("%s: set to %v: %v, %v", face, required, tool, said)
			}
		}
	}
}

func TestDescriptorsLiveOnEveryFace(t *testing.T) {
	t.Parallel()
	h := open(t)
	s := h.discovered(t, h.registered(t, alpha, "one"), surface("a"))
	for face, send := range ways {
		id := "hash-" + strings.ToLower(strings.ReplaceAll(face, " ", "-"))
		maintainer := tokenOf(alpha, registry.RoleAssetMaintainer)
		draft := into(t, send(t, h, maintainer, doDraft, &pb.CreateToolDescriptorRequest{
			DescriptorId: id, Class: pb.SideEffectClass_SIDE_EFFECT_CLASS_READ, Description: "hashes",
		}, nil), &pb.CreateToolDescriptorResponse{}).GetDescriptor_()
		if draft.GetVersion() != 1 || draft.GetStatus() != pb.ToolDescriptorStatus_TOOL_DESCRIPTOR_STATUS_DRAFT || draft.GetActive() || draft.GetCreatedBy() != "assetmaintainer" {
			t.Errorf("%s: %v", face, draft)
		}
		published := into(t, send(t, h, maintainer, doPublish, &pb.PublishToolDescriptorRequest{DescriptorId: id, Version: 1}, nil), &pb.PublishToolDescriptorResponse{}).GetDescriptor_()
		if !published.GetActive() || published.GetPublishedBy() != "assetmaintainer" || published.GetHealth().GetReason() != "not_bound" {
			t.Errorf("%s: %v", face, published)
		}
		again := into(t, send(t, h, maintainer, doDraft, &pb.CreateToolDescriptorRequest{
			DescriptorId: id, Class: pb.SideEffectClass_SIDE_EFFECT_CLASS_SANDBOX,
		}, nil), &pb.CreateToolDescriptorResponse{}).GetDescriptor_()
		got := into(t, send(t, h, admin(alpha), doVersion, &pb.GetToolDescriptorRequest{DescriptorId: id}, nil), &pb.GetToolDescriptorResponse{}).GetDescriptor_()
		if again.GetVersion() != 2 || got.GetVersion() != 2 || got.GetClass() != pb.SideEffectClass_SIDE_EFFECT_CLASS_SANDBOX {
			t.Errorf("%s: %v, %v", face, again, got)
		}
		old := into(t, send(t, h, maintainer, doOutdate, &pb.DeprecateToolDescriptorRequest{DescriptorId: id, Version: 1}, nil), &pb.DeprecateToolDescriptorResponse{}).GetDescriptor_()
		if old.GetStatus() != pb.ToolDescriptorStatus_TOOL_DESCRIPTOR_STATUS_DEPRECATED || old.GetActive() {
			t.Errorf("%s: %v", face, old)
		}
		var listed []string
		for token := ""; ; {
			page := into(t, send(t, h, admin(alpha), doVersions, &pb.ListToolDescriptorsRequest{PageSize: 1, PageToken: token, Filter: `descriptor_id = "` + id + `"`}, nil), &pb.ListToolDescriptorsResponse{})
			for _, d := range page.GetDescriptors() {
				listed = append(listed, fmt.Sprintf("%d %s", d.GetVersion(), d.GetStatus()))
			}
			if token = page.GetNextPageToken(); token == "" {
				break
			}
		}
		if diff := cmp.Diff([]string{"2 TOOL_DESCRIPTOR_STATUS_DRAFT", "1 TOOL_DESCRIPTOR_STATUS_DEPRECATED"}, listed); diff != "" {
			t.Errorf("%s: %s", face, diff)
		}
		for want, o := range map[string]outcome{
			"descriptor_status":    send(t, h, maintainer, doPublish, &pb.PublishToolDescriptorRequest{DescriptorId: id, Version: 1}, nil),
			"descriptor_not_found": send(t, h, maintainer, doPublish, &pb.PublishToolDescriptorRequest{DescriptorId: id, Version: 9}, nil),
			"invalid_argument":     send(t, h, maintainer, doDraft, &pb.CreateToolDescriptorRequest{DescriptorId: "a b", Class: pb.SideEffectClass_SIDE_EFFECT_CLASS_READ}, nil),
			"invalid_filter":       send(t, h, maintainer, doVersions, &pb.ListToolDescriptorsRequest{Filter: "status = new"}, nil),
		} {
			if o.reason != want {
				t.Errorf("%s: %+v, want %s", face, o, want)
			}
		}
	}
	// A draft is refused by an approval, published it is bound (R123).
	into(t, ways["REST"](t, h, admin(alpha), doDraft, &pb.CreateToolDescriptorRequest{DescriptorId: "mine", Class: pb.SideEffectClass_SIDE_EFFECT_CLASS_READ}, nil), &pb.CreateToolDescriptorResponse{})
	approve := func(version int64) outcome {
		return ways["REST"](t, h, admin(alpha), doActivate, &pb.ActivateMcpServerRequest{ServerId: "one", Digest: s.Review.Digest, Tools: []*pb.ToolLine{
			{Tool: "a", Class: pb.SideEffectClass_SIDE_EFFECT_CLASS_READ, DescriptorId: "mine", DescriptorVersion: version},
		}}, nil)
	}
	if o := approve(1); o.reason != string(registry.ReasonDescriptorNotPublished) {
		t.Errorf("a draft: %+v", o)
	}
}

func TestAssignmentsDecideForWhomAToolResolves(t *testing.T) {
	t.Parallel()
	h := open(t)
	s := h.active(t, alpha, "one", "a", "b")
	for face, send := range ways {
		agent := "bot-" + strings.ToLower(strings.ReplaceAll(face, " ", "-"))
		maintainer := tokenOf(alpha, registry.RoleAssetMaintainer)
		resolve := func(agent, workspace string) string {
			t.Helper()
			r := into(t, send(t, h, tokenOf(alpha, executor), doResolve, &pb.ResolveToolRequest{ToolId: "one.a", Agent: agent, Workspace: workspace}, nil), &pb.ResolveToolResponse{})
			if (r.GetRouting() != nil) != r.GetCallable() {
				t.Errorf("%s: %v", face, r)
			}
			return r.GetReason()
		}
		if got := []string{resolve("", ""), resolve(agent, ""), resolve(agent, "team")}; !slices.Equal(got, []string{"", "not_assigned", "not_assigned"}) {
			t.Errorf("%s: %v", face, got)
		}
		a := into(t, send(t, h, maintainer, doAssign, &pb.CreateToolAssignmentRequest{Agent: agent, ToolId: "one.a", Workspace: "team"}, nil), &pb.CreateToolAssignmentResponse{}).GetAssignment()
		if !a.GetAvailable() || !a.GetCallable() || a.GetCreatedBy() != "assetmaintainer" {
			t.Errorf("%s: %v", face, a)
		}
		if got := []string{resolve(agent, ""), resolve(agent, "team"), resolve(agent, "other")}; !slices.Equal(got, []string{"not_assigned", "", "not_assigned"}) {
			t.Errorf("%s: %v", face, got)
		}
		batch := into(t, send(t, h, tokenOf(alpha, executor), doBatch, &pb.BatchResolveToolsRequest{ToolIds: []string{"one.a", "one.b"}, Agent: agent, Workspace: "team"}, nil), &pb.BatchResolveToolsResponse{})
		if batch.GetCallable() || batch.GetResolutions()[1].GetReason() != "not_assigned" || batch.GetResolutions()[0].GetRouting() != nil {
			t.Errorf("%s: %v", face, batch)
		}
		list := into(t, send(t, h, admin(alpha), doAssigned, &pb.ListToolAssignmentsRequest{Filter: "agent = " + agent + " AND workspace = team"}, nil), &pb.ListToolAssignmentsResponse{})
		if list.GetTotalSize() != 1 || list.GetAssignments()[0].GetAssignmentId() != a.GetAssignmentId() {
			t.Errorf("%s: %v", face, list)
		}
		remove := &pb.DeleteToolAssignmentRequest{AssignmentId: a.GetAssignmentId()}
		into(t, send(t, h, maintainer, doUnassign, remove, nil), &pb.DeleteToolAssignmentResponse{})
		for want, o := range map[string]outcome{
			"assignment_not_found": send(t, h, maintainer, doUnassign, remove, nil),
			"tool_not_found":       send(t, h, maintainer, doAssign, &pb.CreateToolAssignmentRequest{Agent: agent, ToolId: "one.none"}, nil),
			"invalid_argument":     send(t, h, maintainer, doAssign, &pb.CreateToolAssignmentRequest{Agent: "a b", ToolId: "one.a"}, nil),
		} {
			if o.reason != want {
				t.Errorf("%s: %+v, want %s", face, o, want)
			}
		}
		if got := resolve(agent, "team"); got != "not_assigned" {
			t.Errorf("%s: taken away, and %q", face, got)
		}
		if o := send(t, h, tokenOf(alpha, executor), doResolve, &pb.ResolveToolRequest{ToolId: "one.a", Workspace: "team"}, nil); o.reason != "invalid_argument" {
			t.Errorf("%s: a workspace without an agent: %+v", face, o)
		}
	}
	// Away is allowed and flagged.
	h.changed(t, s, func(r *registry.Record, now time.Time) error {
		snap, err := registry.NewSnapshot(surface("b"), registry.DefaultLimits(), now)
		if err != nil {
			return err
		}
		return r.Discovered(&snap, registry.Look{Number: 2, TargetDigest: r.Server.TargetDigest, RequestedBy: "seed", At: now})
	})
	a := into(t, ways["REST"](t, h, admin(alpha), doAssign, &pb.CreateToolAssignmentRequest{Agent: "bot", ToolId: "one.a"}, nil), &pb.CreateToolAssignmentResponse{}).GetAssignment()
	if a.GetAvailable() || a.GetCallable() || a.GetDenialReason() != "tool_unavailable" {
		t.Errorf("a tool that is away: %v", a)
	}
}

func TestRolesHoldInTheCatalog(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.active(t, alpha, "there", "x")
	reads := []string{doFacets, doVersion, doVersions, doAssigned}
	writes := []string{doSwitch, doRequire, doDraft, doPublish, doOutdate, doAssign, doUnassign}
	for face, send := range ways {
		for role, procedures := range map[registry.Role][]string{
			registry.RoleObserver: writes, registry.RoleAuditor: writes, registry.RoleOperator: writes, executor: slices.Concat(reads, writes),
		} {
			for _, procedure := range procedures {
				if o := send(t, h, tokenOf(alpha, role), procedure, about[procedure]("there", "there.x"), nil); o.reason != "permission_denied" {
					t.Errorf("%s as %s by %s comes to %+v", procedure, role, face, o)
				}
			}
		}
		for _, procedure := range reads {
			if o := send(t, h, tokenOf(alpha, registry.RoleObserver), procedure, about[procedure]("there", "there.x"), nil); o.answer == nil {
				t.Errorf("%s by %s comes to %+v", procedure, face, o)
			}
		}
	}
}
