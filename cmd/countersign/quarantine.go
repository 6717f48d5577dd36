package main

import (
	"fmt"

	"github.com/spf13/cobra"

	registryv1 "countersign/proto/countersign/registry/v1"
)

func quarantineCommand(c *cli) *cobra.Command {
	var (
		comment string
		dryRun  bool
	)
	command := &cobra.Command{
		Use: "quarantine NAME --comment TEXT", Short: "Take everything of a server out of use at once",
		Long: `Takes everything of an active server out of use at once: from the next question on
no executor may call anything of it. Only an approval of what the server is then
undoes it.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeServers,
		RunE: func(cmd *cobra.Command, args []string) error {
			if dryRun {
				return c.dryRun(cmd.Context(), args[0])
			}
			if comment == "" {
				return usagef("--comment TEXT is required: why, for those who have to undo it")
			}
			api, err := c.connect()
			if err != nil {
				return err
			}
			ctx, cancel := c.within(cmd.Context(), callTimeout)
			defer cancel()
			if !c.yes {
				s, err := api.getServer(ctx, args[0])
				if err != nil {
					return err
				}
				question := fmt.Sprintf("Stop %d callable tools of server %s?", s.GetCounts().GetCallableTools(), s.GetName())
				if err := c.confirm(cmd.Context(), question); err != nil {
					return err
				}
			}
			response, err := api.servers.QuarantineMcpServer(ctx, &registryv1.QuarantineMcpServerRequest{ServerId: args[0], Comment: comment})
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
