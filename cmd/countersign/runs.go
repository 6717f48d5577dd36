package main

import (
	"context"

	"github.com/spf13/cobra"

	registryv1 "countersign/proto/countersign/registry/v1"
)

type workflowRun = *registryv1.Run

var runs = view[workflowRun]{
	plural: "runs",
	name:   workflowRun.GetRunId,
	columns: []column[workflowRun]{
		{title: "TYPE", text: workflowRun.GetType},
		{title: "STATUS", text: workflowRun.GetStatus},
		{title: "STARTED", text: func(r workflowRun) string { return when(r.GetStartTime()) }},
		{title: "ENDED", text: func(r workflowRun) string { return when(r.GetCloseTime()) }},
		{title: "WORKFLOW", wide: true, text: workflowRun.GetWorkflowId},
		{title: "RUN", text: workflowRun.GetRunId},
		{title: "TEMPORAL UI", text: workflowRun.GetTemporalUrl},
	},
}

func runsCommand(c *cli) *cobra.Command {
	var pages paging
	command := &cobra.Command{
		Use: "runs NAME", Short: "List the workflow runs of a server, newest first, with links into the Temporal UI",
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeServers,
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, args []string) error {
			all, err := collect(ctx, c, &pages, func(ctx context.Context, size int32, token string) (page[workflowRun], error) {
				r, err := api.servers.ListMcpServerRuns(ctx, &registryv1.ListMcpServerRunsRequest{ServerId: args[0], PageSize: size, PageToken: token})
				return page[workflowRun]{items: r.GetRuns(), next: r.GetNextPageToken()}, err
			})
			if err != nil {
				return err
			}
			return showList(c, runs, all)
		}),
	}
	pages.addFlags(command.Flags())
	return command
}
