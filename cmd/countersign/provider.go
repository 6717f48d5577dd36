package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	registryv1 "countersign/proto/countersign/registry/v1"
)

func newProviderCommand(c *cli) *cobra.Command {
	command := &cobra.Command{
		Use: "provider", Aliases: []string{"providers"},
		Short: "Where servers and tools come from: MCP servers, and extensions that declare several",
		Long: `Where servers and tools come from. A provider of the family mcp is one server; a plain
registration makes it silently. One of the family aep is an extension, whose descriptor
declares servers and contributes tools of theirs.

  countersign provider create utilities --aep https://ext.example --extension countersign.utilities --auth oauth2
  countersign provider get utilities            # its servers and contributions, and what is wrong with each
  countersign provider refresh utilities
  countersign provider disable utilities        # none of its tools resolves

Each server of an extension has a life of its own: it is reviewed and approved as any
other, and retired when the extension declares it no more.`,
	}
	group(command)
	command.AddCommand(
		createProviderCommand(c), updateProviderCommand(c), getProviderCommand(c), listProvidersCommand(c), testProviderCommand(c),
		refreshProviderCommand(c), switchProviderCommand(c, true), switchProviderCommand(c, false), deleteProviderCommand(c),
	)
	return command
}

type provider = *registryv1.ToolProvider

var providers = view[provider]{plural: "providers", name: provider.GetName, columns: []column[provider]{
	{title: "NAME", text: provider.GetName},
	{title: "FAMILY", text: func(p provider) string { return word(p.GetFamily()) }},
	{title: "ENABLED", text: func(p provider) string { return strconv.FormatBool(p.GetEnabled()) }},
	{title: "REFRESH", text: func(p provider) string { return word(p.GetRefresh().GetStatus()) }},
	{title: "SERVERS", text: func(p provider) string { return strconv.Itoa(int(p.GetServerCount())) }},
	{title: "CONTRIBUTIONS", text: func(p provider) string { return strconv.Itoa(int(p.GetContributionCount())) }},
	{title: "REFRESHED", text: func(p provider) string { return when(p.GetRefresh().GetSucceedTime()) }},
	{title: "BASE URL", wide: true, text: func(p provider) string { return p.GetAep().GetBaseUrl() }},
	{title: "EXTENSION", wide: true, text: func(p provider) string { return p.GetAep().GetExtensionId() }},
}}

// completeProviders completes the name of a provider as the only argument.
func (c *cli) completeProviders(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.completions(cmd, func(ctx context.Context, a *api) (names []string, err error) {
		r, err := a.providers.ListToolProviders(ctx, &registryv1.ListToolProvidersRequest{PageSize: 200})
		for _, p := range r.GetProviders() {
			names = append(names, p.GetName())
		}
		return names, err
	})
}

// providerFlags say what a provider is.
type providerFlags struct {
	base, extension, url, connection, auth, reason, policy, description string
}

func (f *providerFlags) add(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&f.base, "aep", "", "`URL` of an AEP extension: its descriptor is at /.well-known/aep of it")
	flags.StringVar(&f.extension, "extension", "", "`ID` that the extension's descriptor must name")
	flags.StringVar(&f.url, "url", "", "`URL` of the one MCP server, instead of an extension")
	flags.StringVar(&f.connection, "connection", "", "`NAME` of a connection to the one MCP server, instead of its URL")
	flags.StringVar(&f.auth, "auth", "", "as whom servers are reached: oauth2, workload_identity or none")
	flags.StringVar(&f.reason, "reason", "", "why they may be reached without authentication")
	flags.StringVar(&f.policy, "policy", "", "`NAME[@VERSION]` of the governance policy (default the built-in one)")
	flags.StringVar(&f.description, "description", "", "for people")
}

func (f *providerFlags) authentication() (registryv1.McpAuthentication, error) {
	if f.auth == "" {
		return 0, nil
	}
	return parseAuthentication(f.auth)
}

func createProviderCommand(c *cli) *cobra.Command {
	var (
		f   providerFlags
		key string
	)
	command := &cobra.Command{
		Use: "create NAME (--aep URL --extension ID | --url URL | --connection NAME) --auth KIND", Short: "Make a provider, and look at what it has",
		Long: `Makes a provider, and begins to look at what it has. The same --idempotency-key with
the same values makes one provider, however often the command runs; without the flag a
key is made.`,
		Example: `  countersign provider create utilities --aep https://ext.example --extension countersign.utilities --auth oauth2
  countersign provider create search --url https://search.example/mcp --auth workload_identity`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, args []string) error {
			auth, err := f.authentication()
			if err != nil {
				return err
			}
			request := &registryv1.CreateToolProviderRequest{Name: args[0], Description: f.description}
			switch {
			case (f.base != "" || f.extension != "") && (f.url != "" || f.connection != ""):
				return usagef("--aep and --extension are of an extension, --url and --connection of one MCP server: give one of both")
			case f.base != "":
				request.Config = &registryv1.CreateToolProviderRequest_Aep{Aep: &registryv1.AepProviderConfig{
					BaseUrl: f.base, ExtensionId: f.extension, Authentication: auth, ExceptionReason: f.reason, GovernancePolicyRef: f.policy,
				}}
			case f.url != "" || f.connection != "":
				request.Config = &registryv1.CreateToolProviderRequest_Mcp{Mcp: &registryv1.McpProviderConfig{
					EndpointUrl: f.url, EndpointRef: f.connection, Authentication: auth, ExceptionReason: f.reason, GovernancePolicyRef: f.policy,
				}}
			default:
				return usagef("one of --aep, --url and --connection is required")
			}
			if key == "" {
				key = rand.Text()
			}
			response, err := api.providers.CreateToolProvider(keyed(ctx, key), request)
			if err != nil {
				return c.repeatable(err, key)
			}
			if err := showRow(c, providers, response.GetProvider()); err != nil {
				return err
			}
			c.nextf("countersign provider get %s", args[0])
			return nil
		}),
	}
	f.add(command)
	command.Flags().StringVar(&key, "idempotency-key", "", "`KEY` of this provider (default a new one)")
	return command
}

// providerPaths are the fields of an update, by flag, of each family.
var providerPaths = map[registryv1.ToolProviderFamily]map[string]string{
	registryv1.ToolProviderFamily_TOOL_PROVIDER_FAMILY_AEP: {
		"aep": "aep.base_url", "extension": "aep.extension_id", "auth": "aep.authentication", "reason": "aep.exception_reason",
		"policy": "aep.governance_policy_ref", "description": "description",
	},
	registryv1.ToolProviderFamily_TOOL_PROVIDER_FAMILY_MCP: {
		"url": "mcp.endpoint_url", "connection": "mcp.endpoint_ref", "policy": "mcp.governance_policy_ref", "description": "description",
	},
}

func updateProviderCommand(c *cli) *cobra.Command {
	var (
		f    providerFlags
		etag string
	)
	command := &cobra.Command{
		Use: "update NAME", Short: "Change a provider; what was found, approved and enabled stays",
		Long: `Changes a provider. What was found, approved and enabled stays what it is; a refresh
follows by itself where the change calls for one. How servers are authenticated and
governed counts for those that are registered from now on. Of a provider that is one
server this is an edit of the server.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeProviders,
	}
	command.RunE = c.call(callTimeout, func(ctx context.Context, api *api, args []string) error {
		auth, err := f.authentication()
		if err != nil {
			return err
		}
		now, err := api.providers.GetToolProvider(ctx, &registryv1.GetToolProviderRequest{Name: args[0]})
		if err != nil {
			return err
		}
		request := &registryv1.UpdateToolProviderRequest{Name: args[0], Description: f.description, Etag: etag, UpdateMask: &fieldmaskpb.FieldMask{}}
		family := now.GetProvider().GetFamily()
		for _, flag := range []string{"aep", "extension", "url", "connection", "auth", "reason", "policy", "description"} {
			if !command.Flags().Changed(flag) {
				continue
			}
			path, known := providerPaths[family][flag]
			if !known {
				return usagef("--%s is not for a provider of the family %s", flag, word(family))
			}
			request.UpdateMask.Paths = append(request.UpdateMask.Paths, path)
		}
		if len(request.GetUpdateMask().GetPaths()) == 0 {
			return usagef("nothing to change: give at least one of --aep, --extension, --url, --connection, --auth, --reason, --policy, --description")
		}
		if family == registryv1.ToolProviderFamily_TOOL_PROVIDER_FAMILY_MCP {
			request.Config = &registryv1.UpdateToolProviderRequest_Mcp{Mcp: &registryv1.McpProviderConfig{
				EndpointUrl: f.url, EndpointRef: f.connection, GovernancePolicyRef: f.policy,
			}}
		} else {
			request.Config = &registryv1.UpdateToolProviderRequest_Aep{Aep: &registryv1.AepProviderConfig{
				BaseUrl: f.base, ExtensionId: f.extension, Authentication: auth, ExceptionReason: f.reason, GovernancePolicyRef: f.policy,
			}}
		}
		response, err := api.providers.UpdateToolProvider(ctx, request)
		if err != nil {
			return err
		}
		return showRow(c, providers, response.GetProvider())
	})
	f.add(command)
	command.Flags().StringVar(&etag, "etag", "", "change it only if it still has this `ETAG`")
	return command
}

func listProvidersCommand(c *cli) *cobra.Command {
	var (
		pages  paging
		family string
	)
	command := &cobra.Command{
		Use: "list", Short: "List providers by name", Args: cobra.NoArgs,
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, _ []string) error {
			request := &registryv1.ListToolProvidersRequest{}
			if family != "" {
				var err error
				if request.Family, err = parseWord[registryv1.ToolProviderFamily]("--family", family); err != nil {
					return err
				}
			}
			all, err := collect(ctx, c, &pages, func(ctx context.Context, size int32, token string) (page[provider], error) {
				request.PageSize, request.PageToken = size, token
				r, err := api.providers.ListToolProviders(ctx, request)
				return page[provider]{r.GetProviders(), r.GetNextPageToken(), r.GetTotalSize()}, err
			})
			if err != nil {
				return err
			}
			return showList(c, providers, all)
		}),
	}
	command.Flags().StringVar(&family, "family", "", "only those of `FAMILY` mcp or aep")
	pages.addFlags(command.Flags())
	return command
}

func switchProviderCommand(c *cli, enabled bool) *cobra.Command {
	var etag string
	verb, short := "disable", "Deny all tools of a provider; nothing else changes"
	if enabled {
		verb, short = "enable", "Let the tools of a provider resolve again"
	}
	command := &cobra.Command{
		Use: verb + " NAME", Short: short, Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeProviders,
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, args []string) error {
			var p provider
			if enabled {
				r, err := api.providers.EnableToolProvider(ctx, &registryv1.EnableToolProviderRequest{Name: args[0], Etag: etag})
				if err != nil {
					return err
				}
				p = r.GetProvider()
			} else {
				r, err := api.providers.DisableToolProvider(ctx, &registryv1.DisableToolProviderRequest{Name: args[0], Etag: etag})
				if err != nil {
					return err
				}
				p = r.GetProvider()
			}
			return showRow(c, providers, p)
		}),
	}
	command.Flags().StringVar(&etag, "etag", "", verb+" it only if it still has this `ETAG`")
	return command
}

func deleteProviderCommand(c *cli) *cobra.Command {
	var etag string
	var dryRun bool
	command := &cobra.Command{
		Use: "delete NAME", Short: "Delete a provider that has no live server", Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeProviders,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !dryRun {
				if err := c.confirm(cmd.Context(), fmt.Sprintf("Delete provider %s?", args[0])); err != nil {
					return err
				}
			}
			ctx, cancel := c.within(cmd.Context(), callTimeout)
			defer cancel()
			api, err := c.connect()
			if err != nil {
				return err
			}
			_, err = api.providers.DeleteToolProvider(ctx, &registryv1.DeleteToolProviderRequest{Name: args[0], Etag: etag, DryRun: dryRun})
			switch {
			case err != nil:
				return err
			case dryRun:
				c.notef("provider %s would be deleted: it has no live server", args[0])
			default:
				c.notef("provider %s is deleted", args[0])
			}
			return nil
		},
	}
	command.Flags().StringVar(&etag, "etag", "", "delete it only if it still has this `ETAG`")
	command.Flags().BoolVar(&dryRun, "dry-run", false, "only say whether it can be deleted")
	return command
}

func refreshProviderCommand(c *cli) *cobra.Command {
	var patience time.Duration
	command := &cobra.Command{
		Use: "refresh NAME", Short: "Look anew at what a provider has",
		Long: `Starts a refresh, or joins the one that runs, and waits for its end. A failed refresh
changes nothing and ends with exit code 1. When it is not done within --wait-for, the
exit code is 6 and it goes on.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeProviders,
	}
	command.RunE = func(cmd *cobra.Command, args []string) error {
		request := &registryv1.RefreshToolProviderRequest{Name: args[0]}
		asked := cmd.Flags().Changed("wait-for")
		if asked {
			request.Wait = durationpb.New(patience)
		}
		if patience < 0 || patience > 30*time.Second {
			return usagef("--wait-for %s: 0s to 30s", patience)
		}
		ctx, cancel := c.within(cmd.Context(), callTimeout+patience)
		defer cancel()
		api, err := c.connect()
		if err != nil {
			return err
		}
		response, err := api.providers.RefreshToolProvider(ctx, request)
		if err != nil {
			return err
		}
		return c.showRefresh(response, asked && patience > 0, patience)
	}
	command.Flags().DurationVar(&patience, "wait-for", 0, "wait so long for its end, 30s at most; 0s not at all (default 10s)")
	return command
}
