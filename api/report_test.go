package api

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"countersign/db"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

func TestEveryFieldOfAReportIsShown(t *testing.T) {
	t.Parallel()
	v := view()
	m := filled[registry.CapabilityModel](3000)
	m.States[0].Row.Since.Axis, m.States[0].BlockedBy = registry.AxisProduct, registry.BlockedByVersion
	v.Model = &m
	own := filled[db.OfferedTool](4000)
	own.Verdict = ""
	got := gaps(reportOut(&v, []db.OfferedTool{own, filled[db.OfferedTool](5000)}))
	want := []string{
		"foreign_tools",           // nothing says which they are
		"tools.quarantine_reason", // then it would be elsewhere
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// R86–R88: the report says what resolve does, on every face.
func TestTheReportTellsWhatResolveDoes(t *testing.T) {
	t.Parallel()
	h := open(t)
	table, err := registry.NewCapabilityTable([]registry.KnownServer{{
		ID: "theirs", Title: "Their server", Registered: []string{"there"}, Foreign: []string{"far-*"}, Rows: []registry.CapabilityRow{
			{Key: "b.new", Feature: "Is new", Available: true, Since: registry.Since{Axis: registry.AxisProduct, Version: "2.0"}, Gates: []string{"x"}, Note: "a note"},
			{Key: "a.pair", Feature: "Is two", Available: true, RequiresTools: []string{"x", "y"}},
			{Key: "c.arg", Feature: "Takes more", Available: true, RequiresArgs: []registry.ToolArg{{Tool: "y", Arg: "more"}}},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	h.db.SetCapabilities(table)
	long := strings.Repeat("z", 200)
	s := h.discovered(t, h.registered(t, alpha, "there"), surface("y", "x", "far-z", long))
	h.approved(t, s, "x", "y")
	resolved := func(id string) *pb.ResolveToolResponse {
		return into(t, ways["REST"](t, h, tokenOf(alpha, executor), doResolve, &pb.ResolveToolRequest{ToolId: id}, nil), &pb.ResolveToolResponse{})
	}
	if got := resolved("there.x"); got.GetCallable() || got.GetReason() != "tool_unavailable" || got.GetDetail() != "capability:b.new" || got.GetRouting() != nil {
		t.Errorf("there.x resolves to %v", got)
	}
	if got := resolved("there.y"); !got.GetCallable() {
		t.Errorf("there.y resolves to %v", got)
	}
	want := &pb.CapabilityReport{
		ServerId: s.ServerID, ServerName: "there", Reported: &pb.ReportedIdentity{Name: "test", Version: "1"}, ProtocolVersion: "2026-07-28",
		KnownServers: []*pb.KnownServer{{Id: "theirs", Title: "Their server"}},
		Capabilities: []*pb.CapabilityState{
			{Key: "a.pair", KnownServerId: "theirs", Feature: "Is two", Available: true, RequiredTools: []string{"x", "y"}},
			{
				Key: "b.new", KnownServerId: "theirs", Feature: "Is new", Blocker: pb.CapabilityBlocker_CAPABILITY_BLOCKER_VERSION,
				BlockerText: "needs product version 2.0, and none is known: declare it as the server's product_version", Note: "a note",
				SinceAxis: pb.CapabilityAxis_CAPABILITY_AXIS_PRODUCT, SinceVersion: "2.0", GatedTools: []string{"x"},
			},
			{
				Key: "c.arg", KnownServerId: "theirs", Feature: "Takes more", Blocker: pb.CapabilityBlocker_CAPABILITY_BLOCKER_ARGUMENT,
				BlockerText:       "the server offers no tool y with an argument more",
				RequiredArguments: []*pb.RequiredArgument{{Tool: "y", Argument: "more"}},
			},
		},
		Tools:     []*pb.ReportedTool{{Name: "x"}, {Name: "y"}},
		ToolCount: 2, ForeignTools: []*pb.ReportedTool{{Name: "far-z"}},
		QuarantinedTools: []*pb.ReportedTool{{Name: long, QuarantineReason: "unsafe_name"}},
	}
	ask := func(face, ref string) *pb.CapabilityReport {
		o := ways[face](t, h, tokenOf(alpha, registry.RoleObserver), doReport, &pb.GetCapabilityReportRequest{ServerId: ref}, nil)
		return into(t, o, &pb.GetCapabilityReportResponse{}).GetReport()
	}
	for face := range ways {
		got := ask(face, "there")
		if got.GetLookTime() == nil {
			t.Errorf("%s does not say when the server was looked at", face)
		}
		if diff := cmp.Diff(want, got, protocmp.Transform(), protocmp.IgnoreFields(want, "look_time")); diff != "" {
			t.Errorf("%s: %s", face, diff)
		}
	}
	o := ways["REST"](t, h, admin(alpha), doUpdate, &pb.UpdateMcpServerRequest{
		ServerId: "there", Server: &pb.ServerPatch{ProductVersion: "2.0.1"}, UpdateMask: mask("product_version"),
	}, nil)
	if o.answer == nil {
		t.Fatalf("%+v", o)
	}
	if got := ask("gRPC", s.ServerID); !got.GetCapabilities()[1].GetAvailable() || !got.GetKnownServers()[0].GetProductVersionDeclared() {
		t.Errorf("with the version declared the report is %v", got)
	}
	if got := resolved("there.x"); !got.GetCallable() {
		t.Errorf("there.x resolves to %v", got)
	}
	h.registered(t, alpha, "new")
	if got := ask("REST", "new"); got.GetDoubt() != "it was not discovered yet" || got.GetLookTime() != nil || len(got.GetKnownServers()) != 0 {
		t.Errorf("of a server that was never met the report is %v", got)
	}
}
