// Command faulty is an MCP server that misbehaves as a script file says, to
// point clients at. docs/fault-server.md describes the scripts.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"countersign/mcptest"
)

const usage = `An MCP server that misbehaves as a script says.

  faulty -script FILE [-listen 127.0.0.1:0] [-record FILE]   over HTTP; prints its URL
  faulty -script FILE -stdio [-record FILE]                  over stdin and stdout
  faulty -list                                               the scripts that come with it

FILE is a path, or the name of a script that comes with it.
`

func main() { os.Exit(start()) } //nolint:forbidigo // a program

func start() int {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], orphanFlag) {
		return orphan(os.Args[1:])
	}
	code, err := run(context.Background(), os.Args[1:], os.Stdout) //nolint:forbidigo // a program
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 2
	}
	return code
}

func run(ctx context.Context, args []string, out io.Writer) (int, error) {
	flags := flag.NewFlagSet("faulty", flag.ContinueOnError)
	flags.Usage = func() { _, _ = io.WriteString(flags.Output(), usage) }
	script := flags.String("script", "", "")
	listen := flags.String("listen", "127.0.0.1:0", "")
	stdio := flags.Bool("stdio", false, "")
	record := flags.String("record", "", "")
	list := flags.Bool("list", false, "")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0, nil
	} else if err != nil {
		return 2, nil // flag has said why
	}
	if *list {
		return 0, printList(out)
	}
	if *script == "" || flags.NArg() > 0 {
		flags.Usage()
		return 2, nil
	}
	file, err := open(*script)
	if err != nil {
		return 0, err
	}
	if *stdio != (file.Transport == mcptest.OverStdio) {
		return 0, fmt.Errorf("%s is a script for %s; -stdio goes with those for stdio", *script, file.Transport)
	}
	var log io.Writer
	if *record != "" {
		f, err := os.OpenFile(*record, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return 0, fmt.Errorf("record: %w", err)
		}
		defer func() { _ = f.Close() }()
		log = f
	}
	if *stdio {
		return serveStdio(ctx, file, log)
	}
	return 0, serveHTTP(ctx, file, *listen, log, out)
}

// open reads a file, or a script that comes with the program.
func open(name string) (*mcptest.File, error) {
	if filepath.Ext(name) == "" && !strings.ContainsRune(name, os.PathSeparator) {
		return mcptest.Fixture(name)
	}
	return mcptest.Load(name)
}

func printList(out io.Writer) error {
	for _, name := range mcptest.Fixtures() {
		file, err := mcptest.Fixture(name)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(out, "%-28s %-6s %s\n", name, file.Transport, file.About)
	}
	return nil
}

func serveHTTP(ctx context.Context, file *mcptest.File, address string, log, out io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	server, err := file.Listen(address, log)
	if err != nil {
		return err
	}
	defer server.Close()
	_, _ = fmt.Fprintln(out, server.URL)
	if server.Canary != nil {
		_, _ = fmt.Fprintln(out, "canary", server.Canary.URL)
	}
	<-ctx.Done()
	return nil
}

func serveStdio(ctx context.Context, file *mcptest.File, log io.Writer) (int, error) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	signal.Ignore(syscall.SIGPIPE) // a client that left is seen as an error
	go func() {
		for got := range signals {
			mcptest.RecordSignal(log, got)
			if number, ok := got.(syscall.Signal); ok && !file.IgnoresTerm() {
				signal.Reset(got)
				_ = syscall.Kill(os.Getpid(), number) // dies of it, as a process without a handler
			}
		}
	}()
	code, err := file.Serve(ctx, mcptest.Process{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Log: log, Fork: fork,
		Exit: os.Exit, //nolint:forbidigo // a program
	})
	if err != nil {
		return 0, fmt.Errorf("serve: %w", err)
	}
	return code, nil
}
