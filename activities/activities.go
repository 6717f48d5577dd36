package activities

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"golang.org/x/sync/singleflight"

	"countersign/db"
	"countersign/mcpclient"
	"countersign/registry"
	"countersign/telemetry"
)

// MCP meets servers; mcpclient.Client does.
type MCP interface {
	Discover(ctx context.Context, target registry.Target, era string, progress func(step string)) (registry.Surface, mcpclient.Report, error)
	Probe(ctx context.Context, target registry.Target, era string) (mcpclient.ProbeResult, error)
}

// Activities holds what the activities need. One value serves all of them.
type Activities struct {
	DB  *db.DB
	MCP MCP
	// Extensions and Servers are what refreshes of providers need.
	Extensions Extensions
	Servers    Servers
	Limits     func() registry.Limits
	// Command looks a command up in the operator's allow-list, as a tenant may
	// use it: unknown_command when there is none. Nil means an empty list.
	Command func(tenant, ref string) (registry.Command, error)
	// Installation says what a connection may hold.
	Installation registry.Installation
	// AcceptUnsigned lets decisions count that arrive as signals without a
	// decision token. Only the development process does.
	AcceptUnsigned bool
	// ProbeConcurrency bounds the servers that sweeps meet at a time here, half of
	// them for one tenant; 16 when 0.
	ProbeConcurrency int
	// SlowConcurrency bounds, besides, those that keep a sweep waiting; 256 when 0.
	SlowConcurrency int
	// ProbesPerHost bounds those at one host, of either kind; 4 when 0.
	ProbesPerHost int
	// Hysteresis says how long a probe's outcome must stand before it counts.
	Hysteresis registry.Hysteresis
	// KeepSnapshots is how long a snapshot is kept that no discovery sees any more
	// and nothing refers to; 0 keeps all for ever.
	KeepSnapshots time.Duration
	// KeepProbes is how long a probe is kept that is not its server's latest; 0
	// keeps all for ever.
	KeepProbes time.Duration
	// KeepKeys is how long an idempotency key is remembered, and KeepOperations how
	// long what an operation came to, at least as long; 0 keeps all for ever.
	KeepKeys, KeepOperations time.Duration

	Log         *slog.Logger           // one line per event of the domain
	Instruments *telemetry.Instruments // nil: nothing is counted

	memo        registry.Memo // of lists that were seen before
	once        sync.Once
	quick, slow *turns             // of probes
	flights     singleflight.Group // of probes, by server
}

// beating heartbeats until the returned function is called, so that a dead
// worker is noticed within the heartbeat timeout and a cancelled activity
// hears of it.
func beating(ctx context.Context) (stop func()) {
	done := make(chan struct{})
	go func() {
		ticker := time.NewTicker(2 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				activity.RecordHeartbeat(ctx)
			case <-done:
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { close(done) }
}

func (a *Activities) log(ctx context.Context, what string, s *registry.Server, attrs ...slog.Attr) {
	attrs = append([]slog.Attr{
		slog.String("tenant", s.TenantID), slog.String("server", s.Name), slog.String("state", string(s.State)),
	}, attrs...)
	a.Log.LogAttrs(ctx, slog.LevelInfo, what, attrs...)
}
