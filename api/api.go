package api

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"connectrpc.com/vanguard"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"countersign/db"
	"countersign/policy"
	"countersign/proto/countersign/registry/v1/registryv1connect"
	"countersign/registry"
	"countersign/telemetry"
	"countersign/workflows"
)

// rpcPrefix begins the path of every RPC of ours.
const rpcPrefix = "/countersign.registry.v1."

// Side says which of the services one listener has. IdentityService is on both
// sides.
type Side int

// The sides.
const (
	SideAll      Side = iota // everything: the only listener
	SidePublic               // all but McpRegistryService, which another listener has
	SideInternal             // McpRegistryService, for executors (R185)
)

// service is one service at its path.
type service struct {
	name    string
	path    string
	handler http.Handler
}

func serve(name string) func(path string, handler http.Handler) service {
	return func(path string, handler http.Handler) service { return service{name, path, handler} }
}

// cachedPolicies is how many compiled policy bundles a process keeps.
const cachedPolicies = 1024

// DefaultMaxBody is how many bytes a request may have, as sent and inflated:
// enough for an approval of 10,000 lines.
const DefaultMaxBody = 4 << 20

// Changes is what handlers ask of the workflows (workflows.Client). Whatever
// it refuses is a registry.Error.
//
//nolint:interfacebloat // one method for each thing that only a workflow may do
type Changes interface {
	Register(ctx context.Context, in workflows.RegisterInput) (workflows.RegisterOutput, error)
	Decide(ctx context.Context, name string, in workflows.DecideInput) (registry.Server, error)
	Edit(ctx context.Context, name string, in workflows.EditInput) (registry.Server, error)
	SetEnabled(ctx context.Context, name string, in workflows.SetEnabledInput) (registry.Server, error)
	RequireApproval(ctx context.Context, name string, in workflows.RequireApprovalInput) (registry.Server, error)
	Retire(ctx context.Context, name string, in workflows.RetireInput) (registry.Server, error)
	Discover(ctx context.Context, name string, in workflows.BeginDiscoveryInput) (workflows.StartedDiscovery, error)
	AwaitRun(ctx context.Context, run workflows.Run) error
	ApplyPolicy(ctx context.Context, in workflows.PolicyChangeInput) error
	EditConnection(ctx context.Context, in workflows.EditConnectionInput) (workflows.ConnectionOutput, error)
	Test(ctx context.Context, in workflows.TestInput) (workflows.TestReport, error)
	SaveProvider(ctx context.Context, in workflows.SaveProviderInput) (workflows.ProviderOutput, error)
	RefreshProvider(ctx context.Context, in workflows.BeginRefreshInput) (workflows.ProviderOutput, workflows.Run, error)
	TestProvider(ctx context.Context, in workflows.TestProviderInput) (workflows.ProviderTestReport, error)
	Runs(ctx context.Context, tenant, serverID string, size int, token string) ([]workflows.Run, string, error)
}

// Options is what the API needs.
type Options struct {
	// Required.
	DB        *db.DB
	Workflows Changes
	Auth      *Authenticator

	// Optional.
	Installation registry.Installation
	Log          *slog.Logger // slog.Default() when nil
	Checks       []Check      // of readiness, besides the database's
	Hosts        []string     // names in the Host header that are served; empty: all
	Side         Side
	SignsAudit   bool                            // the first of AuditKeys signs now
	AuditKeys    []registry.AuditPublicKey       // that checkpoints are checked with, the one that signs now first; none: no signature is checked
	Limits       *Limiter                        // of requests, shared by all listeners of a process; nil: none
	Codec        http.Handler                    // encrypts and decrypts workflow data for Temporal's UI; nil: there is no such endpoint
	UIOrigin     string                          // of Temporal's UI, whose pages may ask Codec; empty: none may
	Base         string                          // path at which browsers see the API, such as /registry/; requests that still have it lose it
	Fallback     http.Handler                    // answers all paths that are not the API's, without a token: the console
	Open         map[string]http.Handler         // by pattern: what else everybody may read
	MaxBody      int64                           // DefaultMaxBody when 0
	DrainTimeout time.Duration                   // for requests that are under way then; 0: 20 s
	DrainDelay   time.Duration                   // between "not ready" and the end of listening, for load balancers to notice
	Program      Program                         // what runs
	Commands     func(tenant string) []string    // names of the commands that a tenant may register; nil: none is known
	Examine      func(context.Context) []Finding // checks the installation; nil: it cannot be
	Receive      Receive                         // verifies events that others send; nil: none are received
	Spans        trace.TracerProvider            // one span a call; nil: none
	Instruments  *telemetry.Instruments          // nil: nothing is counted
	Metrics      metric.MeterProvider            // rates and latencies of calls; nil: none
	Inner        connect.Interceptor             // stands innermost around RPCs, for measurements; nil: none
}

// Handler is the API: one http.Handler for one listener.
type Handler struct {
	opts      Options
	log       *slog.Logger
	validator protovalidate.Validator
	open      *http.ServeMux // without a token
	closed    *http.ServeMux
	guard     *http.CrossOriginProtection
	policies  *policy.Cache // compiled bundles
	services  []string      // names of those that are here
	found     standing      // of the checks of readiness
	hints     hintMemo
	mirror    *mirror // for answers from memory
	watching  atomic.Int64
	receiving chan struct{} // places of events that are received
	examining chan struct{} // places of examinations of the installation
	started   time.Time

	draining context.Context //nolint:containedctx // over as soon as the process wants to end
	drain    context.CancelFunc
}

// New makes the API.
func New(o Options) (*Handler, error) {
	if o.DB == nil || o.Workflows == nil || o.Auth == nil {
		return nil, registry.Errorf(registry.ReasonInvalidArgument, "the API needs a database, workflows and an authenticator")
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.MaxBody == 0 {
		o.MaxBody = DefaultMaxBody
	}
	validator, err := protovalidate.New()
	if err != nil {
		return nil, err
	}
	h := &Handler{
		opts: o, log: o.Log, validator: validator, open: http.NewServeMux(), closed: http.NewServeMux(),
		guard: http.NewCrossOriginProtection(), policies: policy.NewCache(cachedPolicies),
		examining: make(chan struct{}, examinations), started: time.Now(),
	}
	h.draining, h.drain = context.WithCancel(context.Background()) //nolint:forbidigo // the process's own, not a caller's
	h.mirror = newMirror(o.DB)
	go h.mirror.Follow(h.draining)
	if err := h.mount(); err != nil {
		return nil, err
	}
	return h, nil
}

// mount puts every face at its paths.
func (h *Handler) mount() error {
	around := []connect.Interceptor{interceptor{h}}
	if h.opts.Spans != nil || h.opts.Metrics != nil {
		observed, err := observe(h.opts.Spans, h.opts.Metrics)
		if err != nil {
			return err
		}
		around = slices.Insert(around, 0, connect.Interceptor(observed))
	}
	if h.opts.Inner != nil {
		around = append(around, h.opts.Inner)
	}
	common := connect.WithHandlerOptions(strict(), connect.WithReadMaxBytes(int(h.opts.MaxBody)), connect.WithInterceptors(around...))
	var transcoded []*vanguard.Service
	for _, s := range h.here(common) {
		h.closed.Handle(s.path, onlyParameters(s.handler))
		transcoded = append(transcoded, vanguard.NewService(s.path, s.handler))
		h.services = append(h.services, s.name)
	}
	rest, err := restHandler(transcoded)
	if err != nil {
		return err
	}
	h.closed.Handle("/factory/", rest)

	reflector := grpcreflect.NewStaticReflector(h.services...)
	h.closed.Handle(grpcreflect.NewHandlerV1(reflector))
	h.closed.Handle(grpcreflect.NewHandlerV1Alpha(reflector))

	h.open.Handle(grpchealth.NewHandler(health{h}))
	h.open.HandleFunc("GET /livez", livez)
	h.open.HandleFunc("GET /readyz", h.readyz)
	h.open.HandleFunc("GET /openapi.json", openAPI)
	h.open.HandleFunc("GET /asyncapi.json", asyncAPI)
	if h.opts.Receive != nil && h.opts.Side != SideInternal {
		h.receiving = make(chan struct{}, receiving)
		h.open.HandleFunc("POST "+ReceivePath, h.receiveEvent)
	}
	h.open.HandleFunc("GET "+schemasPath+"{name}", eventSchema)
	h.open.HandleFunc("GET "+loginPath, h.login)
	for pattern, handler := range h.opts.Open {
		h.open.Handle(pattern, handler)
	}
	h.mountCodec()
	return nil
}

// here gives the services of this side.
func (h *Handler) here(common connect.HandlerOption) []service {
	internal := serve(registryv1connect.McpRegistryServiceName)(registryv1connect.NewMcpRegistryServiceHandler(resolver{h}, common))
	public := []service{
		serve(registryv1connect.McpServerServiceName)(registryv1connect.NewMcpServerServiceHandler(servers{h}, common)),
		serve(registryv1connect.ToolCatalogServiceName)(registryv1connect.NewToolCatalogServiceHandler(tools{h}, common)),
	}
	public = append(public,
		serve(registryv1connect.ApprovalServiceName)(registryv1connect.NewApprovalServiceHandler(approvals{h}, common)),
		serve(registryv1connect.ConnectionServiceName)(registryv1connect.NewConnectionServiceHandler(connections{h}, common)),
		serve(registryv1connect.ToolProviderServiceName)(registryv1connect.NewToolProviderServiceHandler(providers{h}, common)),
		serve(registryv1connect.PolicyServiceName)(registryv1connect.NewPolicyServiceHandler(governance{h}, common)),
		serve(registryv1connect.EventServiceName)(registryv1connect.NewEventServiceHandler(notices{h}, common)),
		serve(registryv1connect.AuditServiceName)(registryv1connect.NewAuditServiceHandler(trail{h}, common)),
		serve(registryv1connect.InstallationServiceName)(registryv1connect.NewInstallationServiceHandler(premises{h}, common)),
	)
	both := serve(registryv1connect.IdentityServiceName)(registryv1connect.NewIdentityServiceHandler(whoami{h}, common))
	switch h.opts.Side {
	case SidePublic:
		return append(public, both)
	case SideInternal:
		return []service{internal, both}
	case SideAll:
	}
	return append(public, internal, both)
}
