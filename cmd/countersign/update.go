package main

import (
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	registryv1 "countersign/proto/countersign/registry/v1"
)

// patchFields are the flags of update and the fields that they change.
var patchFields = []struct{ flag, field string }{
	{"description", "description"},
	{"owner", "owner"},
	{"label", "labels"},
	{"product-version", "product_version"},
	{"policy", "governance_policy_ref"},
	{"url", "endpoint_url"},
	{"dial-address", "dial_address"},
	{"connection", "endpoint_ref"},
	{"command-ref", "command_ref"},
}

func updateCommand(c *cli) *cobra.Command {
	var (
		patch  registryv1.ServerPatch
		labels []string
		etag   string
		wait   waiting
	)
	command := &cobra.Command{
		Use:   "update NAME",
		Short: "Change what the flags name",
		Long: `Changes what the flags name and nothing else. Another --url or --dial-address
unbinds every tool of the server and starts a discovery: nothing is callable
until somebody approved it again. So does --connection, which takes the newest
version of a connection, when that is another target; and --command-ref, when the operator's
command differs from the one that the server has: its launch is approved first.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeServers,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			mask := &fieldmaskpb.FieldMask{}
			for _, f := range patchFields {
				if cmd.Flags().Changed(f.flag) {
					mask.Paths = append(mask.Paths, f.field)
				}
			}
			if len(mask.GetPaths()) == 0 {
				return usagef("nothing to change: give at least one of --description, --owner, --label, --product-version, --policy, --url, --dial-address, --connection and --command-ref")
			}
			if len(labels) == 1 && labels[0] == "" {
				labels = nil // an empty label: none at all
			}
			if patch.Labels, err = parseLabels(labels); err != nil {
				return err
			}
			if err := wait.check(); err != nil {
				return err
			}
			ctx, cancel := c.within(cmd.Context(), wait.usual())
			defer cancel()
			api, err := c.connect()
			if err != nil {
				return err
			}
			response, err := api.servers.UpdateMcpServer(ctx, &registryv1.UpdateMcpServerRequest{
				ServerId: args[0], Server: &patch, UpdateMask: mask, Etag: etag,
			})
			if err != nil {
				return err
			}
			return c.showAwaited(ctx, api, response.GetServer(), wait)
		},
	}
	flags := command.Flags()
	flags.StringVar(&patch.Description, "description", "", "`TEXT` for people")
	flags.StringVar(&patch.Owner, "owner", "", "`NAME` of who answers for it")
	flags.StringArrayVar(&labels, "label", nil, "`KEY=VALUE`; all labels are replaced by those given, an empty one removes all")
	flags.StringVar(&patch.ProductVersion, "product-version", "", "`VERSION` of the product behind the server")
	flags.StringVar(&patch.GovernancePolicyRef, "policy", "", "`NAME` of the governance policy bundle")
	flags.StringVar(&patch.EndpointUrl, "url", "", "another `URL`; unbinds every tool")
	flags.StringVar(&patch.DialAddress, "dial-address", "", "another `HOST:PORT` to connect to; unbinds every tool")
	flags.StringVar(&patch.EndpointRef, "connection", "", "take the newest version of the connection `NAME`; unbinds every tool if it is another target")
	flags.StringVar(&patch.CommandRef, "command-ref", "", "take the operator's command `NAME` as it is now; unbinds every tool if it differs")
	flags.StringVar(&etag, "etag", "", "change it only if it still has this `ETAG`")
	completeWith(command, "connection", c.completeConnection)
	wait.addFlag(command)
	return command
}
