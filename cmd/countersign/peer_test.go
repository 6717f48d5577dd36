package main

import (
	"context"
	"fmt"
	"net/http"
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

// demanding is an MCP server that wants the token "t0ken-value" or that key, and
// repeats what it was shown.
func demanding(w http.ResponseWriter, r *http.Request) {
	token, key := r.Header.Get("Authorization"), r.Header.Get("X-Key")
	if token != "Bearer t0ken-value" && key != "t0ken-value" {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "not "+token+key, http.StatusUnauthorized)
		return
	}
	script := mcptest.Script{}
	script.List("tools/list", mcptest.Items(fmt.Sprintf(`{"name":"a","description":"you said %s%s","inputSchema":{"type":"object"}}`, token, key)))
	mcptest.Handler(script).ServeHTTP(w, r)
}
