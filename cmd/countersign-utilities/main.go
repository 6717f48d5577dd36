// Command countersign-utilities is a sample extension: a server of its own that
// speaks AEP and MCP and has three deterministic tools. The development process
// has the same one as its demo server.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"countersign/mcptest"
)

func main() { os.Exit(start()) }

func start() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(os.Stdout).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return 0
}

func command(out io.Writer) *cobra.Command {
	var listen string
	c := &cobra.Command{
		Use:           "countersign-utilities",
		Short:         "A sample AEP extension with three deterministic MCP tools",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(c *cobra.Command, _ []string) error { return run(c.Context(), listen, out) },
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:8091", "`ADDRESS` to listen on; it lets everybody in, so one of loopback")
	return c
}

// run serves until the context is over.
func run(ctx context.Context, listen string, out io.Writer) error {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mcptest.NewDemo(), ReadHeaderTimeout: 10 * time.Second}
	stopped := context.AfterFunc(ctx, func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(ending)
	})
	defer stopped()
	base := "http://" + listener.Addr().String()
	fmt.Fprintf(out, "AEP  %s/.well-known/aep\nMCP  %s/mcp\n", base, base)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
