package api

import (
	"context"
	"net/http"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/workflows"
)

// DiscoverMcpCapabilities implements McpServerService. How long it waits is the
// caller's choice; the discovery goes on anyway (C16).
func (s servers) DiscoverMcpCapabilities(ctx context.Context, req *pb.DiscoverMcpCapabilitiesRequest) (*pb.DiscoverMcpCapabilitiesResponse, error) {
	d, err := s.desk(ctx)
	if err != nil {
		return nil, err
	}
	key, err := idempotencyKey(ctx)
	if err != nil {
		return nil, err
	}
	v, err := d.server(ctx, req.GetServerId())
	if err != nil {
		return nil, err
	}
	if !v.Open() {
		return nil, retired(&v.Server)
	}
	// By its id or by its name, it is the same request.
	same := proto.CloneOf(req)
	same.ServerId = v.ServerID
	hash, err := bodyHash(same)
	if err != nil {
		return nil, err
	}
	claimed, err := d.store.Claimed(ctx, "discover", key)
	if err != nil {
		return nil, err
	}
	if claimed != nil && claimed.BodyHash != hash {
		return nil, keyReused()
	}
	callOf(ctx).sent = true
	started, err := s.discover(ctx, v.Name, workflows.BeginDiscoveryInput{
		Tenant: v.TenantID, ServerID: v.ServerID, Operation: d.operation("discover", key, hash), Key: key, BodyHash: hash,
		Running: 0, // the workflow knows
	})
	if err != nil {
		return nil, err
	}
	if started.Replayed || claimed != nil { // a workflow that knows the request just gives its answer again
		setHeader(ctx, "Idempotent-Replayed", "true")
	}
	done, err := s.await(ctx, started, req)
	if err != nil {
		return nil, err
	}
	if v, err = d.store.Server(ctx, v.ServerID); err != nil {
		return nil, err
	}
	if c := callOf(ctx); !done {
		c.status, c.location = http.StatusAccepted, "/factory/mcp-servers/"+v.ServerID
	}
	return &pb.DiscoverMcpCapabilitiesResponse{Run: runOut(started.Run), Server: serverOut(&v), Done: done}, nil
}

func (s servers) discover(ctx context.Context, name string, in workflows.BeginDiscoveryInput) (workflows.StartedDiscovery, error) {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	return s.opts.Workflows.Discover(ctx, name, in)
}

// await waits until the discovery has ended (true), or as long as the caller
// and the process allow.
func (s servers) await(ctx context.Context, d workflows.StartedDiscovery, req *pb.DiscoverMcpCapabilitiesRequest) (bool, error) {
	return s.awaitRun(ctx, workflows.Run{WorkflowID: d.Run.WorkflowID}, req.GetWait())
}

// awaitRun waits until a run has ended (true), or as long as the caller and the
// process allow.
func (s servers) awaitRun(ctx context.Context, run workflows.Run, asked *durationpb.Duration) (bool, error) {
	wait := defaultWait
	if asked != nil {
		wait = asked.AsDuration()
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	defer context.AfterFunc(s.draining, cancel)() //nolint:contextcheck // the end of the process is nobody's call
	err := s.opts.Workflows.AwaitRun(waiting, run)
	if err != nil && waiting.Err() == nil {
		return false, err
	}
	return err == nil, ctx.Err()
}

// TestMcpServer implements McpServerService.
func (s servers) TestMcpServer(ctx context.Context, req *pb.TestMcpServerRequest) (*pb.TestMcpServerResponse, error) {
	d, err := s.desk(ctx)
	if err != nil {
		return nil, err
	}
	v, err := d.server(ctx, req.GetServerId())
	if err != nil {
		return nil, err
	}
	if !v.Open() {
		return nil, retired(&v.Server)
	}
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	report, err := s.opts.Workflows.Test(ctx, workflows.TestInput{Tenant: v.TenantID, ServerID: v.ServerID})
	if err != nil {
		return nil, err
	}
	return testOut(&report), nil
}

// ListMcpServerRuns implements McpServerService.
func (s servers) ListMcpServerRuns(ctx context.Context, req *pb.ListMcpServerRunsRequest) (*pb.ListMcpServerRunsResponse, error) {
	d, err := s.desk(ctx)
	if err != nil {
		return nil, err
	}
	v, err := d.server(ctx, req.GetServerId())
	if err != nil {
		return nil, err
	}
	page := list{tenant: d.principal.Tenant, method: "runs", filter: v.ServerID}
	after, err := page.after(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	runs, next, err := s.opts.Workflows.Runs(ctx, v.TenantID, v.ServerID, pageSize(req.GetPageSize()), after)
	if err != nil {
		return nil, err
	}
	out := &pb.ListMcpServerRunsResponse{NextPageToken: page.token(next)}
	for _, r := range runs {
		out.Runs = append(out.Runs, runOut(r))
	}
	return out, nil
}
