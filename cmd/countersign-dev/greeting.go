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
	fmt.Fprintf(w, `Tokens of every role of the tenants %q and %q: %s/tokens.json, new with each start.
To be somebody for longer: countersign login --server %s

`, firstTenant, secondTenant, g.DataDir, g.API)
	fmt.Fprintf(w, `Try, in another terminal:

  export COUNTERSIGN_SERVER=%s COUNTERSIGN_TOKEN=%s
  go run ./cmd/countersign server register demo --url %s --auth none --exception-reason "demo on loopback" --wait verified
  go run ./cmd/countersign server approve demo --all --class read --exception-expires 24h --yes
  go run ./cmd/countersign tools resolve demo.hash_compute -o json

`, g.API, g.Tokens[firstTenant][string(registry.RolePlatformAdmin)], g.Demo)
}

func demoStop(mcp string) string { return mcp[:len(mcp)-len("/mcp")] + "/demo/stop" }
