package api

import (
	"cmp"
	"context"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	"countersign/db"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// defaultParts is in how many parts the history of a fleet is told when nobody
// says.
const defaultParts = 48

// GetFleetHealth implements McpServerService.
func (s servers) GetFleetHealth(ctx context.Context, req *pb.GetFleetHealthRequest) (*pb.GetFleetHealthResponse, error) {
	d, err := s.desk(ctx)
	if err != nil {
		return nil, err
	}
	fleet, err := d.store.Fleet(ctx)
	if err != nil {
		return nil, err
	}
	period := defaultPeriod
	if req.GetPeriod() != nil {
		period = req.GetPeriod().AsDuration()
	}
	history, err := d.store.FleetWindows(ctx, fleet.At.Add(-period), fleet.At, cmp.Or(int(req.GetParts()), defaultParts))
	if err != nil {
		return nil, err
	}
	out := &pb.GetFleetHealthResponse{
		Servers:     count(fleet.Servers),
		NeedsReview: count(fleet.NeedsReview), Drifted: count(fleet.Drifted), Expiring: count(fleet.Expiring),
	}
	for state, n := range fleet.States {
		out.States = append(out.States, &pb.StateCount{State: states[state], Servers: count(n)})
	}
	slices.SortFunc(out.GetStates(), func(a, b *pb.StateCount) int { return cmp.Compare(a.GetState(), b.GetState()) })
	for _, h := range fleet.Healths {
		out.Health = append(out.Health, &pb.HealthCount{Level: levels[h.Level], Reason: h.Reason, Servers: count(h.Servers)})
	}
	for i := range history {
		out.History = append(out.History, fleetWindowOut(&history[i]))
	}
	return out, nil
}

func fleetWindowOut(w *db.FleetWindow) *pb.FleetWindow {
	out := &pb.FleetWindow{
		Window: moment(w.Window), Ok: count(w.Outcomes[registry.OutcomeOK]), Failed: count(w.Outcomes[registry.OutcomeFailed]),
		ListFaults: count(w.Outcomes[registry.OutcomeListFault]),
		Withheld:   count(w.Outcomes[registry.OutcomeDependency] + w.Outcomes[registry.OutcomeDeferred]),
	}
	if out.GetOk() > 0 {
		out.LatencyP50, out.LatencyP90 = durationpb.New(w.P50), durationpb.New(w.P90)
	}
	return out
}
