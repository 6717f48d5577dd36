// Package config is the one configuration struct of both programs, its
// defaults, and where its values come from: flags over environment over file
// over defaults.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/structs"
	"github.com/knadh/koanf/v2"

	"countersign/db"
)

// Prefix begins every environment variable: database.url is
// COUNTERSIGN_DATABASE_URL.
const Prefix = "COUNTERSIGN_"

// Config is everything that can be configured. docs/configuration.md describes
// each key and a test compares the two.
type Config struct {
	Listen string `koanf:"listen"`
	// InternalListen, when set, has McpRegistryService, and Listen no more.
	InternalListen string `koanf:"internal_listen"`

	TLS       TLS       `koanf:"tls"`
	Hosts     []string  `koanf:"hosts"`
	Limits    Limits    `koanf:"limits"`
	Quotas    Quotas    `koanf:"quotas"`
	Database  Database  `koanf:"database"`
	Temporal  Temporal  `koanf:"temporal"`
	Auth      Auth      `koanf:"auth"`
	Outbound  Outbound  `koanf:"outbound"`
	Secrets   Secrets   `koanf:"secrets"`
	Probe     Probe     `koanf:"probe"`
	Worker    Worker    `koanf:"worker"`
	Retention Retention `koanf:"retention"`
	Events    Events    `koanf:"events"`
	Audit     Audit     `koanf:"audit"`
	Console   Console   `koanf:"console"`
	Log       Log       `koanf:"log"`
	Telemetry Telemetry `koanf:"telemetry"`

	OAuth            OAuth            `koanf:"oauth"`
	WorkloadIdentity WorkloadIdentity `koanf:"workload_identity"`

	// Commands is the allow-list of what may be started as a server. Reloaded on
	// SIGHUP (C11).
	Commands []Command `koanf:"commands"`
	// Capabilities says where what is known of servers is told. Reloaded on
	// SIGHUP.
	Capabilities Capabilities `koanf:"capabilities"`

	// Processes is how many of them run at once in one worker.
	Processes int `koanf:"processes"`

	// HandshakeTimeoutSeconds bounds one handshake. Reloaded on SIGHUP (R200).
	HandshakeTimeoutSeconds int `koanf:"handshake_timeout_seconds"`
	// AllowNoneAuthenticationExceptions lets servers without authentication be
	// registered at all. Not reloadable (R23, R200).
	AllowNoneAuthenticationExceptions bool `koanf:"allow_none_authentication_exceptions"`
	// ShutdownDelay is how long a process says that it is not ready before it
	// stops taking requests.
	ShutdownDelay time.Duration `koanf:"shutdown_delay"`
	// ShutdownTimeout is how long it then waits for what is under way: requests,
	// and activities.
	ShutdownTimeout time.Duration `koanf:"shutdown_timeout"`
}

// Database says where the tables are.
type Database struct {
	URL DSN `koanf:"url"` // sqlite:PATH or postgres://…
	// SystemURL and MigrateURL are logins of their own, on Postgres.
	SystemURL  DSN `koanf:"system_url"`
	MigrateURL DSN `koanf:"migrate_url"`
	// AppRole and SystemRole are what transactions run as, on Postgres.
	AppRole        string `koanf:"app_role"`
	SystemRole     string `koanf:"system_role"`
	MigrateOnStart bool   `koanf:"migrate_on_start"`
}

// Temporal says where the workflow engine is. Everything else about the
// connection (TLS, API key) comes from Temporal's own environment variables
// and configuration file.
type Temporal struct {
	Address   string `koanf:"address"`
	Namespace string `koanf:"namespace"`
	UIURL     string `koanf:"ui_url"`
	// CodecKeys encrypt workflow data: the first one does, all of them decrypt.
	CodecKeys []CodecKey `koanf:"codec_keys"`
}

// Outbound says where we may go.
type Outbound struct {
	AllowNetworks []string `koanf:"allow_networks"`
	// ConnectionNetworks are those that connections may open for themselves.
	ConnectionNetworks []string `koanf:"connection_networks"`
}

// Probe says how servers are watched.
type Probe struct {
	Interval        time.Duration `koanf:"interval"`
	Concurrency     int           `koanf:"concurrency"`      // servers at a time, of a worker
	SlowConcurrency int           `koanf:"slow_concurrency"` // besides, those that keep a sweep waiting
	PerHost         int           `koanf:"per_host"`         // of these, at one host
	DegradeAfter    int           `koanf:"degrade_after"`    // failed windows in a row
	RecoverAfter    int           `koanf:"recover_after"`    // good ones
}

func (p Probe) validate() error {
	if p.Interval < time.Second {
		return fmt.Errorf("probe.interval must be at least 1s, not %s", p.Interval)
	}
	for _, bound := range []struct {
		key       string
		is, least int
		most      int
	}{
		{"concurrency", p.Concurrency, 1, 1024},
		{"slow_concurrency", p.SlowConcurrency, 1, 4096},
		{"per_host", p.PerHost, 1, 1024},
		{"degrade_after", p.DegradeAfter, 1, 6}, // half an hour at the usual interval (R203)
		{"recover_after", p.RecoverAfter, 1, 60},
	} {
		if bound.is < bound.least || bound.is > bound.most {
			return fmt.Errorf("probe.%s must be %d to %d, not %d", bound.key, bound.least, bound.most, bound.is)
		}
	}
	return nil
}

// Capabilities say where the installation's own capability table is.
type Capabilities struct {
	Table string `koanf:"table"` // file that is added to the built-in table; empty: that alone
}

// Retention says how long is kept what nothing refers to.
type Retention struct {
	Snapshots time.Duration `koanf:"snapshots"` // since a discovery last saw one; 0 keeps all
	Probes    time.Duration `koanf:"probes"`    // since their window; 0 keeps all

	// IdempotencyKeys are kept since they were used first, and Operations, what
	// each came to, as long at least; 0 keeps all (R172).
	IdempotencyKeys time.Duration `koanf:"idempotency_keys"`
	Operations      time.Duration `koanf:"operations"`
	Events          time.Duration `koanf:"events"` // and their deliveries; 0 keeps all
}

func (r Retention) validate() error {
	for _, kept := range []struct {
		key         string
		long, least time.Duration
	}{
		{"snapshots", r.Snapshots, 48 * time.Hour},
		{"probes", r.Probes, 24 * time.Hour},
		{"idempotency_keys", r.IdempotencyKeys, 24 * time.Hour},
		{"operations", r.Operations, 24 * time.Hour},
		{"events", r.Events, 48 * time.Hour}, // longer than deliveries are tried
	} {
		if kept.long != 0 && kept.long < kept.least {
			return fmt.Errorf("retention.%s must be 0 or at least %s, not %s", kept.key, kept.least, kept.long)
		}
	}
	if r.Operations != 0 && (r.IdempotencyKeys == 0 || r.Operations < r.IdempotencyKeys) {
		return fmt.Errorf("retention.operations must be 0 or at least as long as retention.idempotency_keys, whose repeats are answered from them")
	}
	return nil
}

// Worker says under which version this build runs workflows, and by what a worker
// keeps the processes that it starts.
type Worker struct {
	Deployment string `koanf:"deployment"`
	Build      string `koanf:"build"`
	StateDir   string `koanf:"state_dir"` // where workers of a machine note that they live
	Cgroup     string `koanf:"cgroup"`    // a delegated one; empty: the worker's own, if it is one; none
}

// Telemetry says where metrics are scraped. Spans, and metrics by OTLP, go where
// OpenTelemetry's environment variables say.
type Telemetry struct {
	Listen string `koanf:"listen"` // empty: nowhere
}

// Log says what is logged and how.
type Log struct {
	Level  string `koanf:"level"`  // debug, info, warn, error
	Format string `koanf:"format"` // text, json
}

// Default is the configuration of a production process that was told nothing.
func Default() Config {
	return Config{
		Listen:    "127.0.0.1:8080",
		Database:  Database{AppRole: db.DefaultAppRole, SystemRole: db.DefaultSystemRole},
		Processes: 4,
		Limits: Limits{
			Principal: Rate{RequestsPerSecond: 200, Burst: 1000},
			Tenant:    Rate{RequestsPerSecond: 1000, Burst: 4000},
			Resolve:   Rate{RequestsPerSecond: 10000, Burst: 20000},
			Changes:   Rate{RequestsPerSecond: 2, Burst: 50},

			Concurrent: 256,
		},
		Quotas: Quotas{Servers: 10_000, Tools: 200_000, Connections: 1000, DefinitionBytes: 1 << 30},
		Probe:  Probe{Interval: 5 * time.Minute, Concurrency: 16, SlowConcurrency: 256, PerHost: 4, DegradeAfter: 1, RecoverAfter: 1},
		Retention: Retention{
			Snapshots: 90 * 24 * time.Hour, Probes: 30 * 24 * time.Hour, IdempotencyKeys: 7 * 24 * time.Hour, Operations: 30 * 24 * time.Hour,
			Events: 30 * 24 * time.Hour,
		},
		Events:                  Events{Source: "/countersign", NATS: NATS{Prefix: "countersign"}, NATSInbound: NATSInbound{Prefix: "countersign-inbound", Consumer: "countersign"}},
		Audit:                   Audit{SealInterval: 10 * time.Second},
		Console:                 Console{Enabled: true, BasePath: "/"},
		WorkloadIdentity:        WorkloadIdentity{TokenLifetime: 5 * time.Minute},
		Log:                     Log{Level: "info", Format: "json"},
		HandshakeTimeoutSeconds: 10,
		ShutdownDelay:           2 * time.Second,
		ShutdownTimeout:         20 * time.Second,
	}
}

// Options say how the database is opened.
func (d Database) Options(log *slog.Logger) db.Options {
	return db.Options{
		URL: string(d.URL), SystemURL: string(d.SystemURL), MigrateURL: string(d.MigrateURL), AppRole: d.AppRole, SystemRole: d.SystemRole, Logger: log,
	}
}

// listKeys hold lists of words, which the environment separates by commas.
var listKeys = []string{
	"hosts", "outbound.allow_networks", "outbound.connection_networks", "auth.allow_networks", "secrets.vault.allow_networks", "audit.public_keys",
	"oauth.registration_issuers", "events.kafka.brokers", "console.scopes", "console.connect_origins",
}

// Load reads the configuration: base, then the file if there is one, then the
// environment, then the flags that were given. Unknown keys are refused.
func Load(base Config, path string, flags map[string]any) (Config, error) {
	k := koanf.New(".")
	if err := k.Load(structs.Provider(base, "koanf"), nil); err != nil {
		return base, err
	}
	if path != "" {
		if err := k.Load(file.Provider(path), yaml.Parser()); err != nil {
			return base, fmt.Errorf("configuration file %s: %w", path, err)
		}
	}
	known := keys(k)
	if err := k.Load(env.Provider(".", env.Opt{Prefix: Prefix, TransformFunc: func(name, value string) (string, any) {
		key, ok := known[strings.ToLower(strings.TrimPrefix(name, Prefix))]
		if !ok {
			return "", nil // of the client, or not ours
		}
		if slices.Contains(listKeys, key) {
			return key, strings.Split(value, ",")
		}
		return key, value
	}}), nil); err != nil {
		return base, err
	}
	if err := k.Load(confmap.Provider(flags, "."), nil); err != nil {
		return base, err
	}
	var c Config
	var read mapstructure.Metadata
	err := k.UnmarshalWithConf("", &c, koanf.UnmarshalConf{DecoderConfig: &mapstructure.DecoderConfig{
		Result: &c, Metadata: &read, WeaklyTypedInput: true, TagName: "koanf",
		DecodeHook: mapstructure.StringToTimeDurationHookFunc(),
	}})
	if err == nil && len(read.Unused) > 0 {
		slices.Sort(read.Unused)
		err = fmt.Errorf("there is no key %s; docs/configuration.md has all", strings.Join(read.Unused, ", "))
	}
	if err == nil {
		err = c.validate()
	}
	if err != nil && path != "" {
		if r, ok := errors.AsType[*commandError](err); ok {
			if raw, read := os.ReadFile(path); read == nil && r.line(raw) > 0 {
				return base, fmt.Errorf("configuration (file %s, line %d): %w", path, r.line(raw), err)
			}
		}
		return base, fmt.Errorf("configuration (file %s): %w", path, err)
	}
	if err != nil {
		return base, fmt.Errorf("configuration: %w", err)
	}
	return c, nil
}

// keys maps the environment's spelling of each known key to the key.
func keys(k *koanf.Koanf) map[string]string {
	out := map[string]string{}
	for _, key := range k.Keys() {
		out[strings.ReplaceAll(key, ".", "_")] = key
	}
	return out
}

func (c Config) validate() error {
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if c.InternalListen != "" {
		if _, _, err := net.SplitHostPort(c.InternalListen); err != nil {
			return fmt.Errorf("internal_listen: %w", err)
		}
	}
	if c.Telemetry.Listen != "" {
		if _, _, err := net.SplitHostPort(c.Telemetry.Listen); err != nil {
			return fmt.Errorf("telemetry.listen: %w", err)
		}
	}
	if c.HandshakeTimeoutSeconds < 1 || c.HandshakeTimeoutSeconds > 300 {
		return fmt.Errorf("handshake_timeout_seconds must be 1 to 300, not %d", c.HandshakeTimeoutSeconds)
	}
	if err := c.Probe.validate(); err != nil {
		return err
	}
	if err := c.Retention.validate(); err != nil {
		return err
	}
	if (c.Worker.Deployment == "") != (c.Worker.Build == "") {
		return fmt.Errorf("worker.deployment and worker.build go together")
	}
	if c.ShutdownTimeout < time.Second || c.ShutdownTimeout > 10*time.Minute {
		return fmt.Errorf("shutdown_timeout must be 1s to 10m, not %s", c.ShutdownTimeout)
	}
	if c.Processes < 1 || c.Processes > 256 {
		return fmt.Errorf("processes must be 1 to 256, not %d", c.Processes)
	}
	for _, check := range []func() error{c.TLS.validate, c.Limits.validate, c.Quotas.validate, c.Temporal.validate, c.Audit.validate, c.OAuth.validate, c.WorkloadIdentity.validate, c.Events.validate, c.validateConsole} {
		if err := check(); err != nil {
			return err
		}
	}
	if _, err := c.AllowList(); err != nil {
		return err
	}
	if _, err := c.Networks(); err != nil {
		return err
	}
	if _, err := c.ConnectionNetworks(); err != nil {
		return err
	}
	if err := c.Secrets.validate(); err != nil {
		return err
	}
	_, err := c.Auth.Networks()
	return err
}

// Networks parses the allow-list of networks.
func (c Config) Networks() ([]netip.Prefix, error) {
	return prefixes("outbound.allow_networks", c.Outbound.AllowNetworks)
}

// ConnectionNetworks parses the networks that connections may open.
func (c Config) ConnectionNetworks() ([]netip.Prefix, error) {
	return prefixes("outbound.connection_networks", c.Outbound.ConnectionNetworks)
}

func prefixes(key string, list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range list {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		out = append(out, p)
	}
	return out, nil
}
