package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	registryv1 "countersign/proto/countersign/registry/v1"
)

type impacted = *registryv1.ImpactedTool

var impactColumns = []column[impacted]{
	{title: "TOOL ID", text: impacted.GetToolId},
	{title: "SERVER", text: impacted.GetServerName},
	{title: "AGENTS", text: func(t impacted) string {
		var agents []string
		for _, a := range t.GetAgents() {
			agents = append(agents, some("@", a.GetAgent(), a.GetWorkspace()))
		}
		return strings.Join(agents, " ")
	}},
}

func impactCommand(c *cli) *cobra.Command {
	var choice toolChoice
	command := &cobra.Command{
		Use: "impact [ID...]", Short: "Say what would stop: the tools that can be called now, and who has them",
		Long: `Says which of the chosen tools can be called now and which agents have them: that
is what stops when the tools, or their server, are taken away.`,
		Example:           "  countersign tools impact --of demo\n  countersign tools impact --class publication",
		ValidArgsFunction: c.completeTools,
		RunE: func(cmd *cobra.Command, args []string) error {
			filter, err := choice.some(args)
			if err != nil {
				return err
			}
			api, err := c.connect()
			if err != nil {
				return err
			}
			ctx, cancel := c.within(cmd.Context(), callTimeout)
			defer cancel()
			r, err := api.catalog.GetToolImpact(ctx, &registryv1.GetToolImpactRequest{Filter: filter, Search: choice.search, ToolIds: args})
			if err != nil {
				return err
			}
			return c.showImpact(r)
		},
	}
	choice.addFlags(command)
	return command
}

// dryRun shows what taking a server away would stop.
func (c *cli) dryRun(ctx context.Context, name string) error {
	api, err := c.connect()
	if err != nil {
		return err
	}
	ctx, cancel := c.within(ctx, callTimeout)
	defer cancel()
	return c.impactOf(ctx, api, name)
}

// impactOf shows what would stop with a server.
func (c *cli) impactOf(ctx context.Context, api *api, name string) error {
	s, err := api.getServer(ctx, name)
	if err != nil {
		return err
	}
	r, err := api.catalog.GetToolImpact(ctx, &registryv1.GetToolImpactRequest{Filter: "server_id = " + quoted(s.GetServerId())})
	if err != nil {
		return err
	}
	return c.showImpact(r)
}

func (c *cli) showImpact(r *registryv1.GetToolImpactResponse) error {
	all, err := encode(r)
	if err != nil {
		return err
	}
	ids := make([]string, len(r.GetTools()))
	for i, t := range r.GetTools() {
		ids[i] = t.GetToolId()
	}
	return c.show(all, ids, func(s *sheet) {
		if len(r.GetTools()) == 0 {
			s.linef("Nothing would stop: none of these tools can be called now.")
			return
		}
		s.linef("%d callable tools would stop, which %d agents have.", len(r.GetTools()), len(r.GetAgents()))
		s.gap()
		writeTable(s, impactColumns, r.GetTools())
	})
}
