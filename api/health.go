package api

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// defaultPeriod is how far back an uptime goes when nobody says.
const defaultPeriod = 24 * time.Hour

var outcomes = map[registry.Outcome]pb.ProbeOutcome{
	registry.OutcomeOK:         pb.ProbeOutcome_PROBE_OUTCOME_OK,
	registry.OutcomeFailed:     pb.ProbeOutcome_PROBE_OUTCOME_FAILED,
	registry.OutcomeListFault:  pb.ProbeOutcome_PROBE_OUTCOME_LIST_FAULT,
	registry.OutcomeDependency: pb.ProbeOutcome_PROBE_OUTCOME_DEPENDENCY_ERROR,
	registry.OutcomeDeferred:   pb.ProbeOutcome_PROBE_OUTCOME_DEFERRED,
}

// GetMcpServerHealth implements McpServerService.
func (s servers) GetMcpServerHealth(ctx context.Context, req *pb.GetMcpServerHealthRequest) (*pb.GetMcpServerHealthResponse, error) {
	d, err := s.desk(ctx)
	if err != nil {
		return nil, err
	}
	v, err := d.server(ctx, req.GetServerId())
	if err != nil {
		return nil, err
	}
	period := defaultPeriod
	if req.GetPeriod() != nil {
		period = req.GetPeriod().AsDuration()
	}
	since := time.Now().Add(-period)
	uptime, err := d.store.Uptime(ctx, v.ServerID, since)
	if err != nil {
		return nil, err
	}
	out := &pb.GetMcpServerHealthResponse{Health: healthOut(registry.HealthOf(&v.Server, v.LastProbe)), Uptime: uptimeOut(uptime, since)}
	if v.LastProbe != nil {
		out.LastProbe = probeOut(v.LastProbe)
	}
	return out, nil
}

// ListProbes implements McpServerService.
func (s servers) ListProbes(ctx context.Context, req *pb.ListProbesRequest) (*pb.ListProbesResponse, error) {
	d, err := s.desk(ctx)
	if err != nil {
		return nil, err
	}
	v, err := d.server(ctx, req.GetServerId())
	if err != nil {
		return nil, err
	}
	l := list{tenant: d.principal.Tenant, method: "probes", filter: v.ServerID}
	page, err := l.page(req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	_, probes, next, err := d.store.Probes(ctx, v.ServerID, page)
	if err != nil {
		return nil, err
	}
	out := &pb.ListProbesResponse{NextPageToken: l.token(next)}
	for i := range probes {
		out.Probes = append(out.Probes, probeOut(&probes[i]))
	}
	return out, nil
}

func uptimeOut(u registry.Uptime, since time.Time) *pb.Uptime {
	out := &pb.Uptime{
		StartTime: moment(since), Probes: count(u.Probes), Good: count(u.Good), Failed: count(u.Failed), ListFaults: count(u.ListFault),
		Withheld: count(u.Withheld), Changes: count(u.Changes), Flapping: u.Flapping(),
	}
	if share, known := u.Share(); known {
		out.Share = &share
	}
	if u.Good > 0 {
		out.LatencyP50, out.LatencyP90, out.LatencyP99 = durationpb.New(u.P50), durationpb.New(u.P90), durationpb.New(u.P99)
	}
	return out
}

func probeOut(p *registry.Probe) *pb.Probe {
	return &pb.Probe{
		Window: moment(p.Window), Time: moment(p.At), Outcome: outcomes[p.Outcome], Reason: string(p.Reason), Message: text(p.Message),
		Attempts: count(p.Attempts), Duration: durationpb.New(p.Duration), ProtocolVersion: p.ProtocolVersion,
		ServerVersion: text(p.ServerVersion), ToolsDigest: p.ToolsDigest, Since: moment(p.Since),
	}
}
