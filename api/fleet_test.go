package api

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// The fleet's numbers are those of the lists that its filters find, of one tenant alone.
func TestTheFleetIsCountedAsItIsListed(t *testing.T) {
	t.Parallel()
	h := open(t)
	s := h.active(t, alpha, "there", "a")
	h.discovered(t, h.registered(t, alpha, "waiting"), surface("a"))
	h.active(t, beta, "elsewhere", "a")
	at := time.Now().UTC().Truncate(time.Minute)
	p := registry.Probe{
		TenantID: alpha, ServerID: s.ServerID, Window: at, At: at, Since: at, Outcome: registry.OutcomeFailed, Reason: registry.ReasonTimeout,
		TargetDigest: s.TargetDigest, Differing: []string{},
	}
	if _, err := h.db.System().RecordProbes(t.Context(), []registry.Probe{p}, 0); err != nil {
		t.Fatal(err)
	}
	for face, send := range ways {
		got := into(t, send(t, h, admin(alpha), doFleet, &pb.GetFleetHealthRequest{}, nil), &pb.GetFleetHealthResponse{})
		if got.GetServers() != 2 || len(got.GetStates()) != 2 || got.GetHealth()[0].GetReason() != "timeout" {
			t.Errorf("%s: %v", face, got)
		}
		if w := got.GetHistory(); len(w) != 1 || w[0].GetFailed() != 1 || w[0].GetOk() != 0 || w[0].GetLatencyP50() != nil || !w[0].GetWindow().AsTime().Equal(at) {
			t.Errorf("%s: the history is %v", face, w)
		}
		list := func(filter string) int32 {
			return into(t, send(t, h, admin(alpha), doList, &pb.ListMcpServersRequest{Filter: filter}, nil), &pb.ListMcpServersResponse{}).GetTotalSize()
		}
		counted := map[pb.HealthLevel]int32{}
		for _, c := range got.GetHealth() {
			counted[c.GetLevel()] += c.GetServers()
		}
		for filter, want := range map[string]int32{
			"": got.GetServers(), "review = pending": got.GetNeedsReview(), "drifted = true": got.GetDrifted(), "expiring = true": got.GetExpiring(),
			"health = healthy": counted[pb.HealthLevel_HEALTH_LEVEL_HEALTHY], "health = degraded": counted[pb.HealthLevel_HEALTH_LEVEL_DEGRADED],
			"health = HEALTH_LEVEL_UNKNOWN": counted[pb.HealthLevel_HEALTH_LEVEL_UNKNOWN], "health != healthy": got.GetServers() - counted[pb.HealthLevel_HEALTH_LEVEL_HEALTHY],
		} {
			if n := list(filter); n != want {
				t.Errorf("%s: %q finds %d, the fleet has %d", face, filter, n, want)
			}
		}
		if list("health = degraded") != 1 || list("review = pending") == 0 {
			t.Errorf("%s: nothing is told apart", face)
		}
		for _, bad := range []*pb.GetFleetHealthRequest{{Period: durationpb.New(time.Second)}, {Period: durationpb.New(93 * 24 * time.Hour)}, {Parts: 101}, {Parts: -1}} {
			if o := send(t, h, admin(alpha), doFleet, bad, nil); o.reason != "invalid_argument" {
				t.Errorf("%s: %v comes to %+v", face, bad, o)
			}
		}
		if o := send(t, h, admin(alpha), doList, &pb.ListMcpServersRequest{Filter: "health = fine"}, nil); o.reason != "invalid_filter" {
			t.Errorf("%s: %+v", face, o)
		}
	}
}
