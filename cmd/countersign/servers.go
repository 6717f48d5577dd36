package main

import (
	"context"

	"github.com/spf13/cobra"

	registryv1 "countersign/proto/countersign/registry/v1"
)

func getServerCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "get NAME", Short: "Show a server in one line, or whole by -o json or yaml", Args: cobra.ExactArgs(1),
		ValidArgsFunction: c.completeServers,
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, args []string) error {
			s, err := api.getServer(ctx, args[0])
			if err != nil {
				return err
			}
			return showRow(c, servers, s)
		}),
	}
}

func listServersCommand(c *cli) *cobra.Command {
	var pages paging
	var filter, order string
	var retired bool
	command := &cobra.Command{
		Use: "list", Short: "List servers", Args: cobra.NoArgs,
		Example: `  countersign server list --filter 'state = "degraded" AND labels.team = "search"' --order-by "update_time desc"`,
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, _ []string) error {
			all, err := collect(ctx, c, &pages, func(ctx context.Context, size int32, token string) (page[server], error) {
				r, err := api.servers.ListMcpServers(ctx, &registryv1.ListMcpServersRequest{
					PageSize: size, PageToken: token, Filter: filter, OrderBy: order, ShowRetired: retired,
				})
				return page[server]{r.GetServers(), r.GetNextPageToken(), r.GetTotalSize()}, err
			})
			if err != nil {
				return err
			}
			return showList(c, servers, all)
		}),
	}
	command.Flags().StringVar(&filter, "filter", "", "`EXPRESSION` of name, state, direction, transport, authentication, review, owner, connection and labels.KEY, compared by =, != and : (contains), joined by AND")
	command.Flags().StringVar(&order, "order-by", "", "`FIELD`: name, create_time or update_time, with \" desc\" behind it for the reverse")
	command.Flags().BoolVar(&retired, "show-retired", false, "retired servers too")
	pages.addFlags(command.Flags())
	return command
}

// getServer asks for one server.
func (a *api) getServer(ctx context.Context, name string) (server, error) {
	response, err := a.servers.GetMcpServer(ctx, &registryv1.GetMcpServerRequest{ServerId: name})
	return response.GetServer(), err
}
