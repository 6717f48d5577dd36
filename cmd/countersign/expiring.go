package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	registryv1 "countersign/proto/countersign/registry/v1"
)

type expiring = *registryv1.Expiring

var expirings = view[expiring]{plural: "things that expire", name: expiring.GetServerName, columns: []column[expiring]{
	{title: "ENDS", text: func(e expiring) string { return when(e.GetEndTime()) }},
	{title: "WHAT", text: expiring.GetKind},
	{title: "SERVER", text: expiring.GetServerName},
	{title: "BOUND", text: func(e expiring) string { return strconv.Itoa(int(e.GetBound())) }},
	{title: "BY", text: expiring.GetBy},
	{title: "DUE", wide: true, text: func(e expiring) string { return when(e.GetDueTime()) }},
	{title: "DECISION", wide: true, text: expiring.GetDecisionId},
	{title: "DIGEST", wide: true, text: expiring.GetDigest},
}}

func newExpiringCommand(c *cli) *cobra.Command {
	var (
		pages  paging
		within string
	)
	command := &cobra.Command{
		Use: "expiring", Short: "List what ends by itself: exceptions, approvals and requests, the next first", Args: cobra.NoArgs,
		Long: `Lists what ends by itself unless somebody does something: exceptions of servers
without authentication (renew-exception), approvals that a policy lets expire, and
requests for approval that nobody decided.`,
		Example: "  countersign expiring --within 30d",
		RunE: func(cmd *cobra.Command, _ []string) error {
			request := &registryv1.ListExpiringRequest{}
			if within != "" {
				period, err := parsePeriod(within)
				if err != nil || period <= 0 {
					return usagef("--within %q: a time is needed, such as 720h or 30d", within)
				}
				request.Within = durationpb.New(period)
			}
			ctx, cancel := c.within(cmd.Context(), callTimeout)
			defer cancel()
			api, err := c.connect()
			if err != nil {
				return err
			}
			all, err := collect(ctx, c, &pages, func(ctx context.Context, size int32, token string) (page[expiring], error) {
				request.PageSize, request.PageToken = size, token
				r, err := api.approvals.ListExpiring(ctx, request)
				return page[expiring]{r.GetExpiring(), r.GetNextPageToken(), r.GetTotalSize()}, err
			})
			if err != nil {
				return err
			}
			return showList(c, expirings, all)
		},
	}
	command.Flags().StringVar(&within, "within", "", "only what ends within this `TIME`, such as 720h or 30d")
	pages.addFlags(command.Flags())
	return command
}
