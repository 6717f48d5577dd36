package main

import (
	"context"

	"github.com/spf13/cobra"

	registryv1 "countersign/proto/countersign/registry/v1"
)

type capability = *registryv1.Capability

var capabilities = view[capability]{plural: "capabilities", name: capability.GetName, columns: []column[capability]{
	{title: "SERVER", text: capability.GetServerName},
	{title: "KIND", text: capability.GetKind},
	{title: "NAME", text: capability.GetName},
	{title: "TOOL ID", text: capability.GetToolId},
	{title: "CLASS", text: func(c capability) string { return word(c.GetDeclaredClass()) }},
	{title: "CLASSIFICATION", text: capability.GetClassification},
	{title: "SERVER ID", wide: true, text: capability.GetServerId},
}}

func newCapabilitiesCommand(c *cli) *cobra.Command {
	var (
		pages paging
		scope string
	)
	command := &cobra.Command{
		Use: "capabilities", Short: "List what the exposed servers offer: bound and callable items only", Args: cobra.NoArgs,
		Long: `Lists what the servers offer that this tenant exposes: tools, resources and
prompts that are bound and callable now. A resource that was approved for one
workspace is shown to that one only.`,
		Example: "  countersign capabilities --scope research",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := c.within(cmd.Context(), callTimeout)
			defer cancel()
			api, err := c.connect()
			if err != nil {
				return err
			}
			all, err := collect(ctx, c, &pages, func(ctx context.Context, size int32, token string) (page[capability], error) {
				r, err := api.registry.ListCapabilities(ctx, &registryv1.ListCapabilitiesRequest{Scope: scope, PageSize: size, PageToken: token})
				return page[capability]{r.GetCapabilities(), r.GetNextPageToken(), 0}, err
			})
			if err != nil {
				return err
			}
			return showList(c, capabilities, all)
		},
	}
	command.Flags().StringVar(&scope, "scope", "", "`LABEL` of the workspace that asks; empty: what is for the whole tenant")
	pages.addFlags(command.Flags())
	return command
}
