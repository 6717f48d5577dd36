package api

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// What one asks of a server's health is what the server itself says.
func TestHealthIsSummedUpFromProbes(t *testing.T) {
	t.Parallel()
	h := open(t)
	s := h.active(t, alpha, "there", "a")
	for face, send := range ways {
		never := into(t, send(t, h, admin(alpha), doHealth, &pb.GetMcpServerHealthRequest{ServerId: "there"}, nil), &pb.GetMcpServerHealthResponse{})
		if never.GetHealth().GetReason() != "never_probed" || never.GetLastProbe() != nil || never.GetUptime().GetProbes() != 0 || never.GetUptime().Share != nil || never.GetUptime().GetLatencyP50() != nil {
			t.Fatalf("%s: %v", face, never)
		}
	}
	now := time.Now().UTC().Truncate(time.Minute)
	for i, outcome := range []registry.Outcome{registry.OutcomeFailed, registry.OutcomeOK, registry.OutcomeDependency, registry.OutcomeOK} {
		at := now.Add(time.Duration(i-4) * time.Minute)
		p := registry.Probe{
			TenantID: alpha, ServerID: s.ServerID, Window: at, At: at, Since: at, Outcome: outcome, TargetDigest: s.TargetDigest,
			Duration: 7 * time.Millisecond, Differing: []string{},
		}
		if _, err := h.db.System().RecordProbes(t.Context(), []registry.Probe{p}, 0); err != nil {
			t.Fatal(err)
		}
	}
	for face, send := range ways {
		got := into(t, send(t, h, admin(alpha), doHealth, &pb.GetMcpServerHealthRequest{ServerId: "there"}, nil), &pb.GetMcpServerHealthResponse{})
		u := got.GetUptime()
		if u.GetProbes() != 4 || u.GetGood() != 2 || u.GetFailed() != 1 || u.GetWithheld() != 1 || u.GetShare() != 2./3 || u.GetChanges() != 1 ||
			u.GetLatencyP99().AsDuration() != 7*time.Millisecond || !got.GetLastProbe().GetWindow().AsTime().Equal(now.Add(-time.Minute)) {
			t.Errorf("%s: %v", face, got)
		}
		server := into(t, send(t, h, admin(alpha), doGet, &pb.GetMcpServerRequest{ServerId: "there"}, nil), &pb.GetMcpServerResponse{})
		if !proto.Equal(server.GetServer().GetHealth(), got.GetHealth()) {
			t.Errorf("%s: %v, the server says %v", face, got.GetHealth(), server.GetServer().GetHealth())
		}
		short := into(t, send(t, h, admin(alpha), doHealth, &pb.GetMcpServerHealthRequest{ServerId: "there", Period: durationpb.New(150 * time.Second)}, nil), &pb.GetMcpServerHealthResponse{})
		if n := short.GetUptime().GetProbes(); n < 1 || n > 2 { // by the seconds of the minute
			t.Errorf("%s: %v", face, short)
		}
		for _, period := range []time.Duration{0, -time.Second, 93 * 24 * time.Hour} {
			if o := send(t, h, admin(alpha), doHealth, &pb.GetMcpServerHealthRequest{ServerId: "there", Period: durationpb.New(period)}, nil); o.reason != "invalid_argument" {
				t.Errorf("%s: the period %s comes to %+v", face, period, o)
			}
		}
		var seen []pb.ProbeOutcome
		for request := (&pb.ListProbesRequest{ServerId: "there", PageSize: 3}); ; {
			r := into(t, send(t, h, admin(alpha), doProbes, request, nil), &pb.ListProbesResponse{})
			for _, p := range r.GetProbes() {
				seen = append(seen, p.GetOutcome())
			}
			if request.PageToken = r.GetNextPageToken(); request.GetPageToken() == "" {
				break
			}
		}
		want := []pb.ProbeOutcome{
			pb.ProbeOutcome_PROBE_OUTCOME_OK, pb.ProbeOutcome_PROBE_OUTCOME_DEPENDENCY_ERROR, pb.ProbeOutcome_PROBE_OUTCOME_OK, pb.ProbeOutcome_PROBE_OUTCOME_FAILED,
		}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("%s: %s", face, diff)
		}
	}
}
