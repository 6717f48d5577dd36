// Command countersign is the product and its command line client: the client
// talks to the API of a running Countersign and nothing else.
//
// Standard output carries results only, in the form that -o asks for; notes,
// questions and errors go to standard error. "countersign help exit-codes"
// lists the exit codes. Whatever strangers wrote is escaped before a terminal
// sees it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	return execute(ctx, newCLI(), os.Args[1:])
}
