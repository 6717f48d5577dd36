package activities

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/sdk/activity"

	"countersign/db"
	"countersign/failpoint"
	"countersign/mcpclient"
	"countersign/registry"
	"countersign/telemetry"
)

// Discover meets a server and writes what it saw: the snapshot first, by its
// content, then the server and its catalog in one transaction. Running twice
// writes once.
func (a *Activities) Discover(ctx context.Context, in DiscoverInput) (ServerOutput, error) {
	failpoint.Hit("discovery.begin")
	defer beating(ctx)()
	store := a.DB.Tenant(in.Tenant)
	view, err := store.Server(ctx, in.ServerID)
	if err != nil {
		return ServerOutput{}, err
	}
	if view.State == registry.StateRetired || view.TargetDigest != in.TargetDigest {
		return ServerOutput{Server: view.Server}, nil // nobody waits for this any more
	}
	telemetry.About(ctx, telemetry.KeyTenant.String(view.TenantID), telemetry.KeyServer.String(view.ServerID))
	target, err := a.target(&view.Server, view.Connection, view.Command)
	if err != nil {
		return ServerOutput{}, err
	}
	began := time.Now()
	surface, report, err := a.MCP.Discover(ctx, target, view.Era, func(step string) { activity.RecordHeartbeat(ctx, step) })
	a.met(ctx, in.ServerID, "discovery", time.Since(began), err)
	if err != nil {
		return ServerOutput{}, err
	}
	failpoint.Hit("discovery.listed")
	surface, origins, err := a.contributed(ctx, &view.Server, surface)
	if err != nil {
		return ServerOutput{}, err
	}
	snapshot, err := a.snapshot(ctx, store, surface, view.SnapshotDigest)
	if err != nil {
		return ServerOutput{}, err
	}
	if err := store.RememberEra(ctx, in.ServerID, report.Era); err != nil {
		return ServerOutput{}, err
	}
	failpoint.Hit("discovery.snapshot_saved")
	look := registry.Look{Number: in.Number, TargetDigest: in.TargetDigest, RequestedBy: in.RequestedBy, Origins: origins}
	applied, err := store.Apply(ctx, db.Change{
		ServerID:  in.ServerID,
		Operation: operation("discovered", in.Number),
		Catalog:   func(s *registry.Server) bool { return s.SnapshotDigest != snapshot.Digest || s.Doubted },
		// How badly a bound tool drifted is read from its bytes, then and now.
		Definitions: func(r *registry.Record) []string { return r.DriftedDefinitions(&snapshot.Snapshot) },
		Apply: func(r *registry.Record, now time.Time) error {
			if !snapshot.decoded && r.Server.SnapshotDigest != snapshot.Digest {
				// It was at this snapshot when it was asked, and is not any more.
				return registry.Errorf(registry.ReasonBusy, "the server changed while it was looked at")
			}
			a.govern(ctx, r)
			look.At = now
			return r.Discovered(&snapshot.Snapshot, look)
		},
	})
	if err != nil {
		return ServerOutput{}, err
	}
	counts := applied.Server.Discovery.Counts
	if applied.Server.SnapshotDigest != snapshot.Digest {
		counts = registry.Counts{} // a look that is not believed yet counts nothing
	}
	a.log(ctx, "discovered", &applied.Server, slog.Int("tools", len(surface.Tools)), slog.Int("new", counts.New),
		slog.Int("changed", counts.Changed), slog.Int("unavailable", counts.Unavailable), slog.String("protocol", surface.ProtocolVersion))
	return ServerOutput{Server: applied.Server}, nil
}

// seen is a snapshot that is kept. One that is not decoded has no items: it is
// the one that the server was at already.
type seen struct {
	registry.Snapshot

	decoded bool
}

// snapshot makes the snapshot of a surface and keeps it. held is the one that
// the server is at: the same bytes again are not decoded again.
func (a *Activities) snapshot(ctx context.Context, store *db.Store, surface registry.Surface, held string) (seen, error) {
	snapshot, decoded, err := a.memo.Snapshot(surface, a.Limits(), time.Now().UTC(), held)
	switch {
	case err != nil:
	case decoded:
		err = store.SaveSnapshot(ctx, &snapshot)
	default:
		err = store.SeeSnapshot(ctx, snapshot.Digest)
	}
	return seen{snapshot, decoded}, err
}

// FailDiscovery records that a discovery did not come about (R44).
func (a *Activities) FailDiscovery(ctx context.Context, in FailDiscoveryInput) (ServerOutput, error) {
	look := registry.Look{Number: in.Number, TargetDigest: in.TargetDigest, RequestedBy: in.RequestedBy}
	return a.apply(ctx, in.Tenant, "discovery failed", db.Change{
		ServerID:  in.ServerID,
		Operation: operation("discovery_failed", in.Number),
		Apply: func(r *registry.Record, now time.Time) error {
			look.At = now
			return r.DiscoveryFailed(in.Reason, in.Message, look)
		},
	}, slog.String("reason", string(in.Reason)), slog.String("message", in.Message))
}

func operation(name string, number int64) registry.Operation {
	return registry.Operation{
		ID: fmt.Sprintf("%s/%d", name, number), Name: name, Actor: registry.System("discovery"), Origin: registry.OriginSystem,
	}
}

// tested is the server of a test. That of a connection exists nowhere else.
func (a *Activities) tested(ctx context.Context, in TestInput) (db.ServerView, error) {
	store := a.DB.Tenant(in.Tenant)
	if in.Connection == "" {
		return store.Server(ctx, in.ServerID)
	}
	c, err := store.ConnectionView(ctx, in.Connection, 0)
	if err != nil {
		return db.ServerView{}, err
	}
	s := registry.Server{TenantID: in.Tenant, Name: in.Connection, Transport: registry.TransportStreamableHTTP}
	if c.AuthKind != registry.AuthKindNone || c.ClientCertificateRef != "" {
		s.Authentication = registry.AuthOAuth2 // which a server with credentials claims, so it is asked without (R22)
	}
	return db.ServerView{Server: s, Connection: c.Connection}, nil
}

// Test does a whole discovery and writes nothing (R52). That the server fails
// is the report, not an error.
func (a *Activities) Test(ctx context.Context, in TestInput) (TestReport, error) {
	defer beating(ctx)()
	view, err := a.tested(ctx, in)
	if err != nil {
		return TestReport{}, err
	}
	out, _, err := a.look(ctx, view)
	return out, err
}

// look does a whole discovery of a server and writes nothing. The snapshot is nil
// when the server fails.
func (a *Activities) look(ctx context.Context, view db.ServerView) (TestReport, *registry.Snapshot, error) {
	target, err := a.target(&view.Server, view.Connection, view.Command)
	if registry.ReasonOf(err) == registry.ReasonLaunchPending {
		return TestReport{}, nil, err
	}
	var (
		snapshot *registry.Snapshot
		surface  registry.Surface
		report   mcpclient.Report
	)
	if err == nil {
		began := time.Now()
		surface, report, err = a.MCP.Discover(ctx, target, view.Era, func(string) {})
		a.met(ctx, view.ServerID, "test", time.Since(began), err)
	}
	out := TestReport{
		OK: err == nil, ProtocolVersion: surface.ProtocolVersion, ServerName: surface.Name, ServerVersion: surface.Version,
		Kinds: surface.Kinds, Tools: len(surface.Tools), Resources: len(surface.Resources), Templates: len(surface.Templates),
		Prompts: len(surface.Prompts), Quirks: surface.Quirks,
	}
	for _, s := range report.Steps {
		out.Steps = append(out.Steps, TestStep{Name: s.Name, OK: s.OK, Detail: s.Detail, Duration: s.Duration})
	}
	if err == nil {
		seen, unreadable := registry.NewSnapshot(surface, a.Limits(), time.Now())
		snapshot, err, out.OK = &seen, unreadable, unreadable == nil
	}
	if err != nil {
		e, ours := registry.AsError(err)
		if !ours {
			return out, nil, err
		}
		snapshot = nil
		out.Reason, out.Message, out.Next = e.Reason, e.Message, e.Next
	}
	out.Health = registry.HealthOfTest(out.Reason, out.Message, out.Tools, time.Now().UTC())
	if out.Next == "" {
		out.Next = out.Health.Next
	}
	return out, snapshot, nil
}
