package embedded

import (
	"net/netip"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"
	"go.uber.org/fx"
)

// clusterName must never change: the namespaces in a database belong to it.
const clusterName = "active"

// storeName is the name of the only data store in the configuration.
const storeName = "sqlite"

// newServer assembles a server: its frontend on address, its other services on free ports of the same host.
func newServer(address netip.AddrPort, s *store, log *logger) (temporal.Server, error) {
	services := map[string]config.Service{}
	hosts := map[primitives.ServiceName]static.Hosts{}
	for _, service := range temporal.DefaultServices {
		at := address
		if service != string(primitives.FrontendService) {
			var err error
			if at, err = freePort(address.Addr()); err != nil {
				return nil, err
			}
		}
		// There is no HTTP port: it is the one that a web page in a browser could reach.
		services[service] = config.Service{RPC: config.RPC{GRPCPort: int(at.Port()), BindOnIP: at.Addr().String()}}
		// Hosts that are known from the beginning need no gossip, its port and its seconds.
		hosts[primitives.ServiceName(service)] = static.SingleLocalHost(at.String())
	}
	stores, visibility, number := s.dataStores()
	c := &config.Config{
		Services: services,
		// Nothing is joined here, but twice this is what the services have to start in: on a machine that is busy with
		// other things the usual 15 seconds are not enough.
		Global: config.Global{Membership: config.Membership{MaxJoinDuration: 30 * time.Second}},
		Persistence: config.Persistence{
			DefaultStore:     storeName,
			VisibilityStore:  visibility,
			NumHistoryShards: number, // cannot be changed in an existing database
			DataStores:       stores,
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        clusterName,
			CurrentClusterName:       clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{
				clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: address.String()},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		PublicClient:        config.PublicClient{HostPort: address.String()},
		Archival: config.Archival{
			History:    config.HistoryArchival{State: "disabled"},
			Visibility: config.VisibilityArchival{State: "disabled"},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: "disabled"},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"},
		}},
	}
	return temporal.NewServerFx(
		// OTEL_* variables are meant for the process around us. They do not make the server export its traces.
		fx.Options(temporal.TopLevelModule, fx.Replace([]trace.SpanExporter(nil))),
		temporal.WithConfig(c),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(hosts),
		temporal.WithLogger(log),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return authorization.NewNoopClaimMapper() }),
		temporal.WithCustomMetricsHandler(metrics.NoopMetricsHandler),
		temporal.WithDynamicConfigClient(settings()),
	)
}

// settings are the dynamic settings that differ from Temporal's own. Limits that a workflow can meet, such as those
// of updates and of payloads, are not among them: what works here must work on a production server.
func settings() dynamicconfig.StaticClient {
	const workers = 32
	return dynamicconfig.StaticClient{
		// It would ask a server of Temporal's about new versions.
		dynamicconfig.EnableServerVersionCheck.Key(): false,

		// One process needs no partitions: each costs pollers and forwarded tasks.
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():  1,
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(): 1,

		// Housekeeping for databases that live for months, done by system workflows from the first second on.
		dynamicconfig.TaskQueueScannerEnabled.Key():  false,
		dynamicconfig.HistoryScannerEnabled.Key():    false,
		dynamicconfig.ExecutionsScannerEnabled.Key(): false,
		dynamicconfig.BuildIdScavengerEnabled.Key():  false,
		// Parents with many children are closed without a system workflow then.
		dynamicconfig.EnableParentClosePolicyWorker.Key(): false,

		// The default of 10 lists and counts a second is soon used up by a page that refreshes, or by a test that polls.
		dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key(): 500,

		// Hundreds of workers behind one database connection only wait for it.
		dynamicconfig.TimerProcessorSchedulerWorkerCount.Key():       workers,
		dynamicconfig.TransferProcessorSchedulerWorkerCount.Key():    workers,
		dynamicconfig.VisibilityProcessorSchedulerWorkerCount.Key():  workers,
		dynamicconfig.MemoryTimerProcessorSchedulerWorkerCount.Key(): workers,
		dynamicconfig.HistoryCacheHostLevelMaxSize.Key():             8192,

		// Four services read all namespaces each time; the one that matters is there from the beginning.
		dynamicconfig.NamespaceCacheRefreshInterval.Key(): 10 * time.Second,

		// Schedules run on a worker of the server's own. After a restart their tasks wait this long for the old one.
		dynamicconfig.WorkerPerNamespaceWorkerOptions.Key(): worker.Options{StickyScheduleToStartTimeout: time.Second},
	}
}
