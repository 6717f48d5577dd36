package main

import (
	"context"

	"github.com/spf13/cobra"

	registryv1 "countersign/proto/countersign/registry/v1"
)

func withdrawCommand(c *cli) *cobra.Command {
	var comment, digest string
	command := &cobra.Command{
		Use: "withdraw NAME", Short: "Take your own approval back, while more of them are needed",
		Long: `Takes your own approval of what is under review back, as long as the governance
policy wants more of them. To withdraw twice is no fault. What enough people
approved is in force: "countersign server quarantine" takes it out of use.
Without --digest the digest that is under review now is meant.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeServers,
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, args []string) error {
			request := &registryv1.WithdrawApprovalRequest{ServerId: args[0], Digest: digest, Comment: comment}
			if digest == "" {
				s, err := api.getServer(ctx, args[0])
				if err != nil {
					return err
				}
				if s.GetReview().GetDigest() == "" {
					return nothingToReview(s.GetName())
				}
				request.ServerId, request.Digest = s.GetServerId(), s.GetReview().GetDigest()
			}
			response, err := api.approvals.WithdrawApproval(ctx, request)
			if err != nil {
				return err
			}
			return c.showServer(response.GetServer())
		}),
	}
	command.Flags().StringVar(&comment, "comment", "", "`TEXT`: why")
	command.Flags().StringVar(&digest, "digest", "", "`DIGEST` of the review that was approved")
	return command
}
