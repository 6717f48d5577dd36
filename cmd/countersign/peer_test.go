package main

import (
	"context"
	"fmt"
	"os"

	"countersign/mcptest"
)

// peer is an MCP server over standard input and output for the scripts: peer
// FILE behaves as the file of docs/fault-server.md says. It writes a variable of
// its environment to standard error, for tests of what it is given.
func peer() {
	file, err := mcptest.Load(os.Args[1])
	if err == nil {
		fmt.Fprintln(os.Stderr, "the secret is", os.Getenv("PEER_SECRET"))
		var code int
		if code, err = file.Serve(context.Background(), mcptest.Process{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}); err == nil {
			os.Exit(code)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(2)
}
