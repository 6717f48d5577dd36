package main

import (
	"context"

	"github.com/spf13/cobra"

	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

func rejectCommand(c *cli) *cobra.Command {
	var reason, digest string
	command := &cobra.Command{
		Use: "reject NAME --reason TEXT", Short: "Reject what is under review",
		Long: `Rejects what is under review; the server stays where it is. Without --digest the
digest that is under review now is rejected.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeServers,
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return usagef("--reason TEXT is required: why it is rejected")
			}
			ctx, cancel := c.within(cmd.Context(), callTimeout)
			defer cancel()
			api, err := c.connect()
			if err != nil {
				return err
			}
			request := &registryv1.RejectMcpServerRequest{ServerId: args[0], Digest: digest, Comment: reason}
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
			response, err := api.servers.RejectMcpServer(ctx, request)
			if err != nil {
				return err
			}
			s := response.GetServer()
			if n := s.GetCounts().GetCallableTools(); n > 0 {
				c.notef("still callable, as approved before: %d of its tools; `countersign tools disable ID` takes one away, `countersign server retire %s` all", n, s.GetName())
			}
			return c.showServer(s)
		},
	}
	command.Flags().StringVar(&reason, "reason", "", "`TEXT`: why")
	command.Flags().StringVar(&digest, "digest", "", "`DIGEST` of the review that is rejected")
	return command
}

func requestReviewCommand(c *cli) *cobra.Command {
	var comment string
	command := &cobra.Command{
		Use: "request-review NAME", Short: "Ask for a decision on what a server is now, again if need be",
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeServers,
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, args []string) error {
			response, err := api.servers.RequestReview(ctx, &registryv1.RequestReviewRequest{ServerId: args[0], Comment: comment})
			if err != nil {
				return err
			}
			return c.showServer(response.GetServer())
		}),
	}
	command.Flags().StringVar(&comment, "comment", "", "`TEXT`: why")
	return command
}

func nothingToReview(name string) error {
	return failf(registry.ReasonNothingToReview, "no approval of server %s is pending", name).
		withNext("countersign server request-review %s", name)
}
