// Command conformance is what the public conformance suite for MCP clients starts in each of its scenarios, with the
// URL of a server as the last argument. It meets that server as the product meets every server: a discovery, then a
// probe with what the discovery learnt, both by [mcpclient.Client]. What the suite says about a client of an issuer is
// used as it is in a connection. docs/conformance.md says what comes of it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"

	"countersign/mcpclient"
	"countersign/outbound"
	"countersign/registry"
)

func main() {
	suite := scenario{name: os.Getenv("MCP_CONFORMANCE_SCENARIO"), context: os.Getenv("MCP_CONFORMANCE_CONTEXT")}
	err := run(context.Background(), suite, os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// run meets the server and says in one line what it found. The suite runs its servers on this machine.
func run(ctx context.Context, suite scenario, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("the URL of a server is missing")
	}
	guard := outbound.NewGuard(outbound.Options{
		AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
	})
	client := &mcpclient.Client{Guard: guard, Limits: registry.DefaultLimits, Version: "conformance"}
	target := registry.Target{Transport: registry.TransportStreamableHTTP, URL: args[len(args)-1]}
	if err := suite.authorize(ctx, guard, client, target); err != nil {
		return fmt.Errorf("credentials: %w", err)
	}
	surface, report, err := client.Discover(ctx, target, "", nil)
	if err != nil {
		return fmt.Errorf("discovery: %w", err)
	}
	probe, err := client.Probe(ctx, target, report.Era)
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	if probe.ProtocolVersion != surface.ProtocolVersion || len(probe.Tools) != len(surface.Tools) {
		return fmt.Errorf("the probe saw %s with %d tools, the discovery %s with %d",
			probe.ProtocolVersion, len(probe.Tools), surface.ProtocolVersion, len(surface.Tools))
	}
	if err := testify(ctx, guard, target, suite.name, surface); err != nil {
		return fmt.Errorf("calls: %w", err)
	}
	fmt.Fprintf(out, "%s: %d tools, %d resources, %d templates, %d prompts\n", surface.ProtocolVersion,
		len(surface.Tools), len(surface.Resources), len(surface.Templates), len(surface.Prompts))
	return nil
}
