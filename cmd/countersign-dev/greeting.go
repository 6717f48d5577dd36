package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"countersign/console"
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

  Console      %s
  API          %s
  Temporal UI  %s
  Temporal     %s
  Demo server  %s  (stop it with: curl -X POST %s)
               %s, without a token
               (let a tool change with: curl -X POST %s)
  Data         %s

`, g.Ready.Seconds(), g.API+console.Path, g.API, g.UI, g.Temporal, g.Demo, beside(g.Demo, "/demo/stop"), beside(g.Demo, "/open/mcp"), beside(g.Demo, "/demo/drift"), g.DataDir)
	fmt.Fprintf(w, `Tokens of every role of the tenants %q and %q: %s/tokens.json, new with each start.
To be somebody for longer: countersign login --server %s

`, firstTenant, secondTenant, g.DataDir, g.API)
	fmt.Fprintf(w, `Try, in another terminal:

  export COUNTERSIGN_SERVER=%s COUNTERSIGN_TOKEN=%s
  go run ./cmd/countersign server register demo --connection demo --auth oauth2 --wait verified
  go run ./cmd/countersign server approve demo --all --class read --yes
  go run ./cmd/countersign tools resolve demo.hash_compute -o json

`, g.API, g.Tokens[firstTenant][string(registry.RolePlatformAdmin)])
}

// beside is another path of the demo server.
func beside(mcp, path string) string { return strings.TrimSuffix(mcp, "/mcp") + path }
