package main

import (
	"fmt"
	"io"
	"time"

	"countersign/registry"
)

// greeting is what the process says when it is ready.
type greeting struct {
	API, UI, Temporal, Demo, DataDir string
	Tokens                           tokenSet
	Fresh                            bool
	Ready                            time.Duration
}

func greet(w io.Writer, g greeting) {
	fmt.Fprintf(w, `Countersign is ready (%.1f s).

  API          %s
  Temporal UI  %s
  Temporal     %s
  Demo server  %s  (stop it with: curl -X POST %s)
  Data         %s

`, g.Ready.Seconds(), g.API, g.UI, g.Temporal, g.Demo, demoStop(g.Demo), g.DataDir)
	if g.Fresh {
		fmt.Fprintf(w, "Tokens of tenant %q, kept with those of %q in %s/tokens.json:\n\n", firstTenant, secondTenant, g.DataDir)
		for _, role := range registry.Roles() {
			fmt.Fprintf(w, "  %-16s %s\n", role, g.Tokens[firstTenant][string(role)])
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, `Try, in another terminal:

  export COUNTERSIGN_SERVER=%s COUNTERSIGN_TOKEN=%s
  go run ./cmd/countersign server register demo --url %s --auth none --exception-reason "demo on loopback" --wait verified
  go run ./cmd/countersign server approve demo --all --class read --exception-expires 24h --yes
  go run ./cmd/countersign tools resolve demo.hash_compute -o json

`, g.API, g.Tokens[firstTenant][string(registry.RolePlatformAdmin)], g.Demo)
}

func demoStop(mcp string) string { return mcp[:len(mcp)-len("/mcp")] + "/demo/stop" }
