// Package app puts the rooms together for both programs: from the database and
// Temporal up to the api and the worker.
package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime/debug"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/worker"
	"golang.org/x/sync/errgroup"

	"countersign/activities"
	"countersign/aep"
	"countersign/api"
	"countersign/cmd/internal/config"
	"countersign/db"
	"countersign/mcpclient"
	"countersign/oauth"
	"countersign/outbound"
	"countersign/registry"
	"countersign/telemetry"
	"countersign/worker"
	"countersign/workflows"
)

// App is a process of Countersign: an api, a worker, or both.
type App struct {
	Config    config.Config
	Reload    func() (config.Config, error) // on SIGHUP; nil: nothing is reloaded
	DB        *db.DB
	Temporal  client.Client
	Namespace string
	Codec     *workflows.Codec   // of Temporal's data; nil: it is not encrypted
	Auth      *api.Authenticator // for the api
	Audit     AuditKeys          // of the audit trail's checkpoints
	Mint      *oauth.Mint        // our own issuer; nil: there is none
	Listener  net.Listener       // of the api; nil: no api
	Worker    bool
	// InternalListener has McpRegistryService alone, and Listener no more; nil:
	// Listener has everything.
	InternalListener net.Listener
	// Fallback answers, without a token, what is not the api's; may be nil.
	Fallback http.Handler
	// AcceptUnsigned lets decisions by unsigned signals count. Only the
	// development process sets it.
	AcceptUnsigned bool
	// Examine checks the installation for whoever administers the platform; nil: it
	// cannot be.
	Examine func(context.Context) []api.Finding
	// Telemetry is where spans and metrics go; nil: nowhere.
	Telemetry *Telemetry
	Ready     func() // called once everything takes requests; may be nil
	Log       *slog.Logger
}

// gcPercent collects garbage sooner than Go does by default, unless GOGC says
// otherwise: a discovery of ten thousand tools stays within 200 MB.
const gcPercent = 60

// Run works until the context is over or a part fails, and then stops in good
// order: the api first says that it is not ready, then drains; then the worker,
// which does what the api was asked for, lets running activities end.
func (a App) Run(ctx context.Context) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	settings, err := a.settings(ctx)
	if err != nil {
		return err
	}
	secure, err := secured(a.Config.TLS, a.Log)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.Telemetry.serve(ctx, a.Log) })
	drained := make(chan struct{})
	if a.Listener == nil {
		close(drained)
	} else {
		// The listener takes connections already; they are answered from here on.
		group.Go(func() error {
			defer close(drained)
			return a.serve(ctx, secure, settings)
		})
	}
	if a.Worker {
		if err := a.Telemetry.watch(a.DB); err != nil {
			return err
		}
		group.Go(func() error {
			a.sealer().Run(ctx)
			return nil
		})
		relay, err := a.relay(ctx)
		if err != nil {
			return err
		}
		group.Go(func() error {
			relay.Run(ctx)
			return nil
		})
		told, err := a.natsInbound(ctx)
		if err != nil {
			return err
		}
		if told != nil {
			group.Go(func() error {
				told.Run(ctx)
				return nil
			})
		}
		inbound, err := a.inbound()
		if err != nil {
			return err
		}
		group.Go(func() error {
			inbound.Run(ctx)
			return nil
		})
	}
	group.Go(func() error {
		if a.Worker {
			keeper, err := a.keeper(ctx)
			if err != nil {
				return err
			}
			defer keeper.Close()
			w, err := a.work(ctx, settings, keeper)
			if w == nil {
				return err
			}
			defer w.Stop()
		}
		if a.Ready != nil {
			a.Ready()
		}
		if a.Worker {
			a.schedule(ctx)
		}
		<-ctx.Done()
		<-drained
		return nil
	})
	context.AfterFunc(ctx, func() {
		a.Log.LogAttrs(context.WithoutCancel(ctx), slog.LevelInfo, "stopping")
	})
	return group.Wait()
}

func (a App) serve(ctx context.Context, secure func(net.Listener) net.Listener, settings *settings) error {
	engine := workflows.NewClient(a.Temporal, a.Namespace, a.Config.Temporal.UIURL)
	networks, err := a.Config.ConnectionNetworks()
	if err != nil {
		return err
	}
	receive, err := a.receive()
	if err != nil {
		return err
	}
	options := api.Options{
		Receive:      receive,
		DB:           a.DB,
		Workflows:    engine,
		Auth:         a.Auth,
		Installation: a.installation(networks),
		Log:          a.Log,
		Hosts:        a.hosts(a.Listener),
		Checks:       []api.Check{{Name: "temporal", Optional: true, Run: engine.Ping}},
		DrainDelay:   a.Config.ShutdownDelay,
		DrainTimeout: a.Config.ShutdownTimeout,
		Base:         a.Config.Console.BasePath,
		Fallback:     a.Fallback,
		Program:      a.program(),
		Commands:     settings.commands,
		Examine:      a.Examine,
		Open:         a.open(),
		Limits:       limiter(a.Config.Limits),
		Codec:        a.Codec.Handler(),
		AuditKeys:    a.Audit.Public(),
		SignsAudit:   a.Audit.Signer != nil,
		UIOrigin:     origin(a.Config.Temporal.UIURL),
	}
	a.Telemetry.observe(&options)
	if a.InternalListener == nil {
		return listen(ctx, secure(a.Listener), options)
	}
	internal := options
	options.Side, internal.Side = api.SidePublic, api.SideInternal
	internal.Hosts, internal.Fallback, internal.Open = a.hosts(a.InternalListener), nil, nil
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return listen(ctx, secure(a.Listener), options) })
	group.Go(func() error { return listen(ctx, secure(a.InternalListener), internal) })
	return group.Wait()
}

func (a App) program() api.Program {
	b := ReadBuild()
	return api.Program{
		Version: b.Version, Revision: b.Revision, Modified: b.Modified, Go: b.Go, Platform: b.Platform,
		UI: a.Config.Temporal.UIURL, Namespace: a.Namespace,
	}
}

func (a App) installation(networks []netip.Prefix) registry.Installation {
	return registry.Installation{
		AllowNoneExceptions: a.Config.AllowNoneAuthenticationExceptions, ConnectionNetworks: networks, OwnIssuer: a.Mint != nil,
		RegistrationIssuers: a.Config.OAuth.RegistrationIssuers,
	}
}

func limiter(l config.Limits) *api.Limiter {
	of := func(r config.Rate) api.Rate { return api.Rate{PerSecond: r.RequestsPerSecond, Burst: r.Burst} }
	return api.NewLimiter(api.Rates{Principal: of(l.Principal), Tenant: of(l.Tenant), Resolve: of(l.Resolve), Changes: of(l.Changes), Concurrent: l.Concurrent})
}

func listen(ctx context.Context, listener net.Listener, o api.Options) error {
	handler, err := api.New(o)
	if err != nil {
		return err
	}
	return api.Serve(ctx, listener, handler)
}

// hosts are the names in the Host header that are served. When none are
// configured an api on loopback answers to loopback's names only, so that no
// web page can reach it by a name that is made to point here (threat B6); at
// any other address whoever made it reachable decides.
func (a App) hosts(listener net.Listener) []string {
	if len(a.Config.Hosts) > 0 {
		return a.Config.Hosts
	}
	if at, ok := listener.Addr().(*net.TCPAddr); ok && at.IP.IsLoopback() {
		return []string{"localhost", "127.0.0.1", "::1"}
	}
	return nil
}

// work starts the worker. A Temporal that is away is waited for, since an api
// in the same process does without it; the worker is nil when the context is
// over before.
func (a App) work(ctx context.Context, settings *settings, keeper *mcpclient.Keeper) (sdk.Worker, error) {
	networks, err := a.Config.Networks()
	if err != nil {
		return nil, err
	}
	resolver, err := references(a.Config)
	if err != nil {
		return nil, err
	}
	guard := outbound.NewGuard(outbound.Options{AllowNetworks: networks})
	broker, err := a.broker(resolver, guard)
	if err != nil {
		return nil, err
	}
	acts := &activities.Activities{
		DB: a.DB,
		MCP: &mcpclient.Client{
			Guard: guard, Limits: settings.limits,
			Credentials: broker.Credential, Transport: broker.Transport, Commands: a.launcher(resolver),
			Processes: a.Config.Processes, Keeper: keeper, AskBare: true,
		},
		Extensions:       &aep.Client{Guard: guard, Timeout: func() time.Duration { return settings.limits().Connect }},
		Servers:          workflows.NewClient(a.Temporal, a.Namespace, ""),
		Limits:           settings.limits,
		Command:          settings.command,
		Installation:     a.installation(broker.Networks),
		AcceptUnsigned:   a.AcceptUnsigned,
		ProbeConcurrency: a.Config.Probe.Concurrency,
		SlowConcurrency:  a.Config.Probe.SlowConcurrency,
		ProbesPerHost:    a.Config.Probe.PerHost,
		Hysteresis:       registry.Hysteresis{DegradeAfter: a.Config.Probe.DegradeAfter, RecoverAfter: a.Config.Probe.RecoverAfter},
		KeepSnapshots:    a.Config.Retention.Snapshots,
		KeepProbes:       a.Config.Retention.Probes,
		KeepKeys:         a.Config.Retention.IdempotencyKeys,
		KeepOperations:   a.Config.Retention.Operations,
		Log:              a.Log,
		Instruments:      a.Telemetry.instruments(),
	}
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		// One that did not start cannot be started again.
		w := worker.New(a.Temporal, acts, worker.Options{Deployment: a.Config.Worker.Deployment, Build: a.Config.Worker.Build, StopTimeout: a.Config.ShutdownTimeout})
		if err := worker.Readable(ctx, a.Temporal, a.Codec); registry.ReasonOf(err) == registry.ReasonWorkflowKeyUnknown {
			return nil, err
		}
		err := w.Start()
		if err == nil {
			return w, nil
		}
		if _, away := errors.AsType[*serviceerror.Unavailable](err); !away && !errors.Is(err, context.DeadlineExceeded) {
			return nil, err
		}
		a.Log.LogAttrs(ctx, slog.LevelWarn, "the worker waits for Temporal", slog.Any("error", err))
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// schedule brings the probe schedule to what the configuration says; that
// Temporal is away just then is not the end.
func (a App) schedule(ctx context.Context) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := worker.EnsureSchedule(ctx, a.Temporal, a.Codec, a.Config.Probe.Interval)
		if err == nil || ctx.Err() != nil {
			return
		}
		a.Log.LogAttrs(ctx, slog.LevelWarn, "the probe schedule cannot be set yet", slog.Any("error", err))
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// Logger makes the process's logger. It hides what has the name of a secret.
func Logger(c config.Log) *slog.Logger { return logger(c, os.Stderr) }

func logger(c config.Log, out io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		level = slog.LevelInfo
	}
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: redact}
	if c.Format == "text" {
		return slog.New(telemetry.WithTrace(slog.NewTextHandler(out, options)))
	}
	return slog.New(telemetry.WithTrace(slog.NewJSONHandler(out, options)))
}

// Quiet is a logger for parts that talk too much: warnings and worse.
func Quiet(l *slog.Logger) *slog.Logger {
	return slog.New(levelAbove{l.Handler(), slog.LevelWarn})
}

type levelAbove struct {
	slog.Handler
	least slog.Level
}

// Handle drops what the SDK says at error of activities that fail as servers
// do: each failure has its reason in the workflow and a line of our own. And
// that a worker polls no longer while it stops is what stopping means.
func (h levelAbove) Handle(ctx context.Context, r slog.Record) error {
	drop := r.Message == "Activity error."
	if r.Message == "Failed to poll for task." {
		r.Attrs(func(a slog.Attr) bool {
			drop = drop || a.Key == "Error" && a.Value.String() == "worker stopping"
			return true
		})
	}
	if drop {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h levelAbove) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= h.least && h.Handler.Enabled(ctx, l)
}

func (h levelAbove) WithAttrs(attrs []slog.Attr) slog.Handler {
	return levelAbove{h.Handler.WithAttrs(attrs), h.least}
}

func (h levelAbove) WithGroup(name string) slog.Handler {
	return levelAbove{h.Handler.WithGroup(name), h.least}
}
