package api

import (
	"context"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// Program is what runs, for whoever asks.
type Program struct {
	Version, Revision string
	Modified          bool // the source differed from the revision
	Go, Platform      string
	UI, Namespace     string // of Temporal
}

// Finding is what came of one check of the installation.
type Finding struct {
	Check, Found, Fix string
	Status            string // ok, warn or fail
	Reason            registry.Reason
}

// examinations is how many run at once in one process: each opens connections of
// its own.
const examinations = 1

// premises implements InstallationService.
type premises struct{ *Handler }

// GetInstallation implements InstallationService.
func (p premises) GetInstallation(ctx context.Context, _ *pb.GetInstallationRequest) (*pb.GetInstallationResponse, error) {
	caller, err := principalOf(ctx)
	if err != nil {
		return nil, err
	}
	program := p.opts.Program
	out := &pb.GetInstallationResponse{
		Version: program.Version, Revision: program.Revision, Modified: program.Modified, GoVersion: program.Go, Platform: program.Platform,
		StartTime:  moment(p.started),
		TemporalUi: program.UI, TemporalNamespace: program.Namespace,
	}
	var checks []checked
	out.Ready, checks = p.ready(ctx)
	for _, c := range checks {
		out.Checks = append(out.Checks, &pb.ReadinessCheck{Name: c.Name, Ok: c.OK, Optional: c.Optional, Reason: string(c.Reason)})
	}
	if p.opts.Commands != nil {
		out.Commands = p.opts.Commands(caller.Tenant)
	}
	return out, nil
}

var findingStatuses = map[string]pb.FindingStatus{
	"ok": pb.FindingStatus_FINDING_STATUS_OK, "warn": pb.FindingStatus_FINDING_STATUS_WARN, "fail": pb.FindingStatus_FINDING_STATUS_FAIL,
}

// ExamineInstallation implements InstallationService.
func (p premises) ExamineInstallation(ctx context.Context, _ *pb.ExamineInstallationRequest) (*pb.ExamineInstallationResponse, error) {
	if p.opts.Examine == nil {
		return &pb.ExamineInstallationResponse{Findings: []*pb.InstallationFinding{{
			Check: "examination", Status: pb.FindingStatus_FINDING_STATUS_WARN, Found: "this process cannot examine the installation",
			Fix: "run countersign doctor beside it",
		}}}, nil
	}
	select {
	case p.examining <- struct{}{}:
		defer func() { <-p.examining }()
	default:
		return nil, registry.Errorf(registry.ReasonTooManyRequests, "an examination is under way").WithNext("ask again when it has ended, in some seconds")
	}
	out := &pb.ExamineInstallationResponse{}
	for _, f := range p.opts.Examine(ctx) {
		out.Findings = append(out.Findings, &pb.InstallationFinding{
			Check: f.Check, Status: findingStatuses[f.Status], Found: text(f.Found), Reason: string(f.Reason), Fix: f.Fix,
		})
	}
	return out, nil
}
