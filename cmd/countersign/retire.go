package main

import (
	"fmt"

	"github.com/spf13/cobra"

	registryv1 "countersign/proto/countersign/registry/v1"
)

func retireCommand(c *cli) *cobra.Command {
	var (
		comment string
		dryRun  bool
	)
	command := &cobra.Command{
		Use: "retire NAME", Short: "Retire a server for ever",
		Long: `Retires a server for ever, or withdraws one that was never active. Nothing of it
is callable afterwards, and its name is free at once.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeServers,
		RunE: func(cmd *cobra.Command, args []string) error {
			if dryRun {
				return c.dryRun(cmd.Context(), args[0])
			}
			api, err := c.connect()
			if err != nil {
				return err
			}
			request := &registryv1.RetireMcpServerRequest{ServerId: args[0], Comment: comment}
			if !c.yes {
				ctx, cancel := c.within(cmd.Context(), callTimeout)
				defer cancel()
				s, err := api.getServer(ctx, args[0])
				if err != nil {
					return err
				}
				question := fmt.Sprintf("Retire server %s (%s, %s, %d callable tools) for ever?",
					s.GetName(), s.GetServerId(), word(s.GetState()), s.GetCounts().GetCallableTools())
				if err := c.confirm(cmd.Context(), question); err != nil {
					return err
				}
				request.ServerId = s.GetServerId() // the one that was shown, not a later one of its name
			}
			ctx, cancel := c.within(cmd.Context(), callTimeout)
			defer cancel()
			response, err := api.servers.RetireMcpServer(ctx, request)
			if err != nil {
				return err
			}
			return c.showServer(response.GetServer())
		},
	}
	command.Flags().StringVar(&comment, "comment", "", "`TEXT`: why")
	command.Flags().BoolVar(&dryRun, "dry-run", false, "only say which tools would stop, and who has them")
	return command
}
