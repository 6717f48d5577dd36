package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/spf13/cobra"

	"countersign/cmd/internal/app"
	"countersign/cmd/internal/config"
	"countersign/cmd/internal/doctor"
	"countersign/db"
	"countersign/registry"
	"countersign/worker"
)

// newServeCommand is the product's processes: apis and workers, as many as
// wanted, around one Postgres and one Temporal.
func newServeCommand() *cobra.Command {
	var role, file string
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the API, the worker, or both",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return serve(c.Context(), role, file, changedFlags(c))
		},
	}
	f := c.Flags()
	f.StringVar(&role, "role", "all", "all, api or worker")
	f.StringVar(&file, "config", os.Getenv(config.Prefix+"CONFIG"), "configuration file (COUNTERSIGN_CONFIG)")
	configFlags(c)
	return c
}

// configFlags are the configuration keys that have a flag.
func configFlags(c *cobra.Command) {
	f := c.Flags()
	f.String("listen", "", "address of the API")
	f.String("database", "", "sqlite:PATH or postgres://…")
	f.Bool("migrate-on-start", false, "bring the database to this version first")
}

var flagKeys = map[string]string{
	"listen": "listen", "database": "database.url", "migrate-on-start": "database.migrate_on_start",
}

func changedFlags(c *cobra.Command) map[string]any {
	set := map[string]any{}
	for flag, key := range flagKeys {
		if f := c.Flags().Lookup(flag); f != nil && f.Changed {
			set[key] = f.Value.String()
		}
	}
	return set
}

func serve(ctx context.Context, role, file string, flags map[string]any) error {
	load := func() (config.Config, error) { return config.Load(config.Default(), file, flags) }
	conf, err := load()
	if err != nil {
		return usagef("%s", err.Error())
	}
	log := app.Logger(conf.Log)
	log.LogAttrs(ctx, slog.LevelInfo, "configuration", slog.Any("config", conf))
	a := app.App{Config: conf, Reload: load, Log: log, Worker: role != "api"}
	switch role {
	case "all", "api":
		if a.Auth, err = app.Authenticator(conf, log); err != nil {
			return err
		}
		if a.Listener, err = net.Listen("tcp", conf.Listen); err != nil {
			return fmt.Errorf("the API cannot listen: %w", err)
		}
		defer a.Listener.Close()
		if conf.InternalListen != "" {
			if a.InternalListener, err = net.Listen("tcp", conf.InternalListen); err != nil {
				return fmt.Errorf("the API for executors cannot listen: %w", err)
			}
			defer a.InternalListener.Close()
		}
	case "worker":
	default:
		return usagef("--role must be all, api or worker, not %q", role)
	}
	if a.Telemetry, err = app.NewTelemetry(ctx, conf.Telemetry, role); err != nil {
		return err
	}
	defer a.Telemetry.Close(ctx)
	if a.DB, err = openDatabase(ctx, conf, log); err != nil {
		return err
	}
	defer a.DB.Close()
	if a.Worker {
		if err := a.DB.System().Check(ctx); err != nil {
			return err
		}
	}
	if a.Codec, err = app.Codec(ctx, conf); err != nil {
		return err
	}
	if a.Audit, err = app.Audit(ctx, conf); err != nil {
		return err
	}
	if a.Mint, err = app.Mint(ctx, conf); err != nil {
		return err
	}
	if a.Worker && a.Audit.Signer == nil {
		log.LogAttrs(ctx, slog.LevelWarn, "no audit.signing_key is configured: the audit trail has no checkpoints, which show a cut tail")
	}
	address := temporalAddress(conf)
	address.Codec = a.Codec
	if a.Telemetry.Traces {
		address.Spans = a.Telemetry.Spans
	}
	if a.Temporal, a.Namespace, err = worker.Dial(address, app.Quiet(log)); err != nil {
		return err
	}
	defer a.Temporal.Close()
	if a.Listener != nil {
		if a.Fallback, err = app.Console(conf, a.Namespace); err != nil {
			return err
		}
		a.Examine = doctor.ForAPI(conf, a.DB, log)
	}
	a.Ready = func() {
		log.LogAttrs(ctx, slog.LevelInfo, "ready", slog.String("role", role), slog.String("listen", conf.Listen), slog.Bool("tls", conf.TLS.Enabled()))
	}
	return a.Run(ctx)
}

func temporalAddress(conf config.Config) worker.Address {
	return worker.Address{HostPort: conf.Temporal.Address, Namespace: conf.Temporal.Namespace}
}

// openDatabase opens the database and refuses another schema than this
// binary's, and one that would not keep tenants apart.
func openDatabase(ctx context.Context, conf config.Config, log *slog.Logger) (*db.DB, error) {
	if conf.Database.URL == "" {
		return nil, registry.Errorf(registry.ReasonInvalidArgument, "no database is configured").
			WithNext("set database.url (COUNTERSIGN_DATABASE_URL) to sqlite:PATH or postgres://…")
	}
	store, err := db.Open(ctx, conf.Database.Options(log))
	if err != nil {
		return nil, err
	}
	if conf.Database.MigrateOnStart {
		_, err = store.Up(ctx)
	}
	if err == nil {
		err = store.Check(ctx)
	}
	if err != nil {
		store.Close()
		return nil, err
	}
	return store, nil
}
