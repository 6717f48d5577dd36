package main

import "github.com/spf13/cobra"

func newApprovalsCommand(c *cli) *cobra.Command {
	command := &cobra.Command{Use: "approvals", Aliases: []string{"approval"}, Short: "What waits for approvers, and what they said"}
	group(command)
	command.AddCommand(withdrawCommand(c))
	return command
}
