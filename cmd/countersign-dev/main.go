// Command countersign-dev is the whole product in one process: Temporal and its
// UI, SQLite, the api, a worker and a demo MCP server. For a laptop; everything
// listens on loopback.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"countersign/cmd/internal/app"
	"countersign/cmd/internal/config"
	"countersign/cmd/internal/doctor"
	"countersign/db"
	"countersign/embedded"
	"countersign/worker"
	"countersign/workflows"
)

func main() { os.Exit(start()) }

func start() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := command(os.Stdout).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return 0
}

// options are the flags.
type options struct {
	listen, temporalListen, uiListen, demoListen string
	dataDir, configFile                          string
	probeInterval                                time.Duration
}

func command(out io.Writer) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:           "countersign-dev",
		Short:         "Countersign with everything embedded, for a laptop",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(c *cobra.Command, _ []string) error { return run(c.Context(), o, c, out) },
	}
	f := c.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:8080", "address of the API")
	f.StringVar(&o.temporalListen, "temporal-listen", "127.0.0.1:7233", "address of the Temporal frontend")
	f.StringVar(&o.uiListen, "temporal-ui-listen", "127.0.0.1:8233", "address of the Temporal UI")
	f.StringVar(&o.demoListen, "demo-listen", "127.0.0.1:8090", "address of the demo MCP server")
	f.StringVar(&o.dataDir, "data-dir", ".countersign", "where data survives restarts")
	f.DurationVar(&o.probeInterval, "probe-interval", 5*time.Minute, "how often servers are probed")
	f.StringVar(&o.configFile, "config", "", "configuration file, for what the flags do not say")
	return c
}

// defaults are those of a development process: servers on loopback may be
// dialled, and servers without authentication registered.
func defaults() config.Config {
	c := config.Default()
	c.Log = config.Log{Level: "info", Format: "text"}
	c.ShutdownTimeout = 5 * time.Second // who presses Ctrl-C waits for it
	c.Outbound.AllowNetworks = loopback
	c.AllowNoneAuthenticationExceptions = true
	c.ShutdownDelay = 0
	c.Limits = config.Limits{}
	return c
}

func run(ctx context.Context, o options, c *cobra.Command, out io.Writer) error {
	start := time.Now()
	load := func() (config.Config, error) { return config.Load(defaults(), o.configFile, flagged(c)) }
	conf, err := load()
	if err != nil {
		return err
	}
	if conf.TLS.Enabled() {
		return errors.New("the development process serves loopback, without TLS: take tls out of the configuration")
	}
	if err := os.MkdirAll(o.dataDir, 0o700); err != nil {
		return err
	}
	log := app.Logger(conf.Log)

	// Ports first, so that one that is taken is said before anything starts.
	listener, err := listen("API", conf.Listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	var internal net.Listener
	if conf.InternalListen != "" {
		if internal, err = listen("API for executors", conf.InternalListen); err != nil {
			return err
		}
		defer internal.Close()
	}
	demoListener, err := listen("demo server", o.demoListen)
	if err != nil {
		return err
	}
	defer demoListener.Close()

	if conf.Database.URL == "" {
		conf.Database.URL = config.DSN("sqlite:" + filepath.Join(o.dataDir, "countersign.db"))
	}
	store, err := db.Open(ctx, conf.Database.Options(log))
	if err != nil {
		return err
	}
	defer store.Close()
	if _, err := store.Up(ctx); err != nil {
		return err
	}
	if err := store.Check(ctx); err != nil {
		return err
	}
	mcp := demoURL(demoListener.Addr())
	people, trusted, err := devIssuer(o.dataDir, listener.Addr(), mcp)
	if err != nil {
		return err
	}
	if conf.Secrets, err = letDemo(conf.Secrets, people); err != nil {
		return err
	}
	seeded, err := seed(ctx, store, trusted.Issuer, mcp)
	if err != nil {
		return err
	}
	tokens, err := devTokens(people, filepath.Join(o.dataDir, "tokens.json"))
	if err != nil {
		return err
	}
	conf.Auth = trusting(conf.Auth, trusted)
	conf.Console = signingIn(conf.Console, trusted)
	authenticator, err := app.Authenticator(conf, log)
	if err != nil {
		return err
	}
	auditKeys, err := devAudit(ctx, conf, filepath.Join(o.dataDir, "audit.key"))
	if err != nil {
		return err
	}
	mint, err := devMint(ctx, conf, "http://"+listener.Addr().String(), filepath.Join(o.dataDir, "workload.key"))
	if err != nil {
		return err
	}
	temporal, err := embedded.Start(ctx, embedded.Options{
		DatabaseFile: filepath.Join(o.dataDir, "temporal.db"), Listen: o.temporalListen, UIListen: o.uiListen,
		SearchAttributes: worker.SearchAttributes(), Logger: app.Quiet(log),
	})
	if err != nil {
		return err
	}
	defer func() {
		if err := temporal.Stop(); err != nil {
			log.LogAttrs(ctx, slog.LevelError, "Temporal did not stop well", slog.Any("error", err))
		}
	}()
	conf.Temporal.UIURL = temporal.UIURL()
	codec, err := app.Codec(ctx, conf)
	if err != nil {
		return err
	}
	tells, err := app.NewTelemetry(ctx, conf.Telemetry, "dev")
	if err != nil {
		return err
	}
	defer tells.Close(ctx)
	at := worker.Address{HostPort: temporal.Address(), Namespace: "default", Codec: codec}
	if tells.Traces {
		at.Spans = tells.Spans
	}
	engine, namespace, err := worker.Dial(at, app.Quiet(log))
	if err != nil {
		return err
	}
	defer engine.Close()
	pages, err := devPages(conf, namespace, people)
	if err != nil {
		return err
	}

	demo := &http.Server{Handler: demoServer(people, trusted.Issuer, mcp), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := demo.Serve(demoListener); !errors.Is(err, http.ErrServerClosed) {
			log.LogAttrs(ctx, slog.LevelError, "the demo server ended", slog.Any("error", err))
		}
	}()
	defer demo.Close()

	ready := func() {
		if err := seeded.finish(ctx, workflows.NewClient(engine, namespace, "")); err != nil {
			log.LogAttrs(ctx, slog.LevelError, "the connection for the demo server is not up to date", slog.Any("error", err))
		}
		greet(out, greeting{
			API: "http://" + listener.Addr().String(), UI: temporal.UIURL(), Temporal: temporal.Address(),
			Demo: mcp, DataDir: o.dataDir, Tokens: tokens,
			Ready: time.Since(start),
		})
	}
	examined := conf
	examined.Temporal.Address = temporal.Address()
	return app.App{
		Examine: doctor.ForAPI(examined, store, app.Quiet(log)),
		Config:  conf, Reload: load, DB: store, Temporal: engine, Namespace: namespace, Codec: codec, Auth: authenticator, Audit: auditKeys, Mint: mint,
		Listener: listener, InternalListener: internal, Worker: true, AcceptUnsigned: true, Fallback: pages, Ready: ready, Log: log, Telemetry: tells,
	}.Run(ctx)
}

// flagged gives the configuration keys whose flags were set.
func flagged(c *cobra.Command) map[string]any {
	set := map[string]any{}
	for flag, key := range map[string]string{"listen": "listen", "probe-interval": "probe.interval"} {
		if f := c.Flags().Lookup(flag); f.Changed {
			set[key] = f.Value.String()
		}
	}
	return set
}

func listen(what, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("the %s cannot listen on %s: another process does; countersign-dev --help says how to give other addresses", what, address)
	}
	if err != nil {
		return nil, fmt.Errorf("the %s cannot listen on %s: %w", what, address, err)
	}
	return l, nil
}
