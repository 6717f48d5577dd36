package main

import (
	"crypto/rand"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

func discoverCommand(c *cli) *cobra.Command {
	var (
		patience time.Duration
		key      string
		wait     waiting
	)
	command := &cobra.Command{
		Use:   "discover NAME",
		Short: "Read anew what a server offers",
		Long: `Starts a discovery, or joins the one that runs, and waits for its end. A failed
discovery changes nothing of the catalog and ends with exit code 1. When it is
not done within --wait-for, the exit code is 6 and it goes on.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeServers,
		RunE: func(cmd *cobra.Command, args []string) error {
			request := &registryv1.DiscoverMcpCapabilitiesRequest{ServerId: args[0]}
			asked := cmd.Flags().Changed("wait-for")
			if asked {
				request.Wait = durationpb.New(patience)
			}
			if patience < 0 || patience > 30*time.Second {
				return usagef("--wait-for %s: 0s to 30s", patience)
			}
			if err := wait.check(); err != nil {
				return err
			}
			if key == "" {
				key = rand.Text()
			}
			ctx, cancel := c.within(cmd.Context(), wait.usual()+patience)
			defer cancel()
			api, err := c.connect()
			if err != nil {
				return err
			}
			response, err := api.servers.DiscoverMcpCapabilities(keyed(ctx, key), request)
			if err != nil {
				return c.repeatable(err, key)
			}
			if wait.word != "" {
				return c.showAwaited(ctx, api, response.GetServer(), wait)
			}
			return c.showDiscovery(response, asked && patience > 0, patience)
		},
	}
	command.Flags().DurationVar(&patience, "wait-for", 0, "wait so long for its end, 30s at most; 0s not at all (default 10s)")
	command.Flags().StringVar(&key, "idempotency-key", "", "`KEY` of this request (default a new one)")
	wait.addFlag(command)
	return command
}

func (c *cli) showDiscovery(r *registryv1.DiscoverMcpCapabilitiesResponse, mustEnd bool, patience time.Duration) error {
	s, d := r.GetServer(), r.GetServer().GetDiscovery()
	err := c.show(r, []string{s.GetName()}, func(t *sheet) {
		t.field("Server", s.GetName())
		t.field("State", word(s.GetState()))
		t.field("Health", some(", ", healthWord(s.GetHealth()), s.GetHealth().GetSummary()))
		t.field("Discovery", discoveryLine(d))
		t.field("Review", word(s.GetReview().GetStatus()))
		t.field("Run", r.GetRun().GetRunId())
		t.field("Temporal", r.GetRun().GetTemporalUrl())
	})
	switch {
	case err != nil:
		return err
	case !r.GetDone() && mustEnd:
		return failf(registry.ReasonDeadline, "the discovery of %s is still under way after %s", s.GetName(), patience).
			withNext("countersign server describe %s", s.GetName())
	case !r.GetDone():
		c.notef("the discovery is still under way")
		c.nextf("countersign server describe %s", s.GetName())
		return nil
	case d.GetStatus() == discoveryFailed:
		return (&failure{
			Exit: exitFailure, Reason: registry.Reason(d.GetReason()),
			Message: "the discovery of " + s.GetName() + " failed: " + d.GetMessage(),
		}).withNext("%s", some("; ", s.GetHealth().GetNextStep(), nextCommand(s)))
	}
	c.nextf("%s", nextCommand(s))
	return nil
}
