// Command temporal is a Temporal server on Postgres in a process of its own, for
// the tests of several processes: it authenticates nobody and listens on
// loopback only.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"countersign/embedded"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:7233", "address of the frontend")
	postgres := flag.String("postgres", "", "postgres://user:password@host:port/database")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *listen, *postgres); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1) //nolint:gocritic // nothing else is to be done at the end
	}
}

func serve(ctx context.Context, listen, postgres string) error {
	s, err := embedded.Start(ctx, embedded.Options{
		Listen: listen, Postgres: postgres, Logger: slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, "ready")
	<-ctx.Done()
	return s.Stop()
}
