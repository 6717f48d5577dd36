package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	registryv1 "countersign/proto/countersign/registry/v1"
)

func newConnectionCommand(c *cli) *cobra.Command {
	command := &cobra.Command{
		Use: "connection", Aliases: []string{"connections"},
		Short: "How servers are reached over HTTP and as whom, in versions that servers share",
		Long: `How servers are reached over HTTP and as whom. A connection has a name and versions
that never change; each server that names it pins one. Secrets are references: the
registry never has them.

  countersign connection create search --url https://search.example/mcp --header Authorization=vault:kv/search#bearer
  countersign connection test search
  countersign server register search --connection search --auth oauth2
  countersign connection update search --header Authorization=vault:kv/search#new   # unbinds what uses it

An update makes the next version. Each server takes it by itself; when it is then
reached elsewhere or as somebody else, nothing of it is callable until somebody
approved it again. A new value behind the same reference is no update.`,
	}
	group(command)
	command.AddCommand(
		createConnectionCommand(c), getConnectionCommand(c), listConnectionsCommand(c), describeConnectionCommand(c), updateConnectionCommand(c),
		connectionVersionsCommand(c), testConnectionCommand(c), deleteConnectionCommand(c),
	)
	return command
}

// reach is one version of a connection.
type reach = *registryv1.Connection

var reaches = view[reach]{plural: "connections", name: reach.GetName, columns: []column[reach]{
	{title: "NAME", text: reach.GetName},
	{title: "VERSION", text: func(r reach) string { return strconv.Itoa(int(r.GetVersion())) }},
	{title: "URL", text: func(r reach) string { return r.GetSpec().GetBaseUrl() }},
	{title: "AUTH", text: func(r reach) string { return word(r.GetSpec().GetAuthKind()) }},
	{title: "SERVERS", text: reachUsers},
	{title: "CREATED", text: func(r reach) string { return when(r.GetCreateTime()) }},
	{title: "CREATED BY", wide: true, text: reach.GetCreatedBy},
	{title: "DIAL ADDRESS", wide: true, text: func(r reach) string { return r.GetSpec().GetDialAddress() }},
	{title: "DESCRIPTION", wide: true, text: func(r reach) string { return cut(r.GetSpec().GetDescription(), 60) }},
}}

// reachUsers counts the servers at this version, and those that are at another.
func reachUsers(r reach) string {
	if others := r.GetUsers() - r.GetServers(); others > 0 {
		return fmt.Sprintf("%d, %d at another version", r.GetServers(), others)
	}
	return strconv.Itoa(int(r.GetServers()))
}

// completeConnections completes the name of a connection as the only argument.
func (c *cli) completeConnections(cmd *cobra.Command, args []string, text string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.completeConnection(cmd, args, text)
}

// completeConnection completes names of connections.
func (c *cli) completeConnection(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return c.completions(cmd, func(ctx context.Context, a *api) (names []string, err error) {
		r, err := a.connections.ListConnections(ctx, &registryv1.ListConnectionsRequest{PageSize: 200})
		for _, one := range r.GetConnections() {
			names = append(names, one.GetName())
		}
		return names, err
	})
}

// getConnection asks for a version of a connection, by NAME or NAME@VERSION.
func (a *api) getConnection(ctx context.Context, ref string) (reach, error) {
	request := &registryv1.GetConnectionRequest{Name: ref}
	if name, number, found := strings.Cut(ref, "@"); found {
		version, err := strconv.ParseInt(number, 10, 32)
		if err != nil || version < 1 {
			return nil, usagef("%q is no connection: NAME or NAME@VERSION is needed", ref)
		}
		request.Name, request.Version = name, int32(version)
	}
	response, err := a.connections.GetConnection(ctx, request)
	return response.GetConnection(), err
}

// showReach writes a connection that was changed.
func (c *cli) showReach(r reach) error {
	if err := showRow(c, reaches, r); err != nil {
		return err
	}
	for _, warning := range r.GetWarnings() {
		c.notef("warning: %s", warning)
	}
	return nil
}

func createConnectionCommand(c *cli) *cobra.Command {
	var (
		flags reachFlags
		key   string
	)
	command := &cobra.Command{
		Use: "create NAME --url URL", Short: "Make a connection, which servers can then name",
		Long: `Makes a connection, which servers can then name. Nothing is dialled: connection test
does that. The same --idempotency-key with the same values makes one connection,
however often the command runs; without the flag a key is made.`,
		Example: `  countersign connection create search --url https://search.example/mcp --header Authorization=env:SEARCH_BEARER
  countersign connection create wiki --url https://wiki.example/mcp --auth client_credentials --issuer https://login.example \
    --client-id countersign --secret-ref vault:kv/wiki#secret --scope wiki.read
  countersign connection create inside --url https://tools.corp.example/mcp --network 10.20.0.0/16 --ca-file corp.pem \
    --client-certificate file:corp/tls.crt --client-key file:corp/tls.key`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("url") {
				return usagef("--url is required")
			}
			spec, _, err := flags.spec(cmd)
			if err != nil {
				return err
			}
			if key == "" {
				key = rand.Text()
			}
			ctx, cancel := c.within(cmd.Context(), callTimeout)
			defer cancel()
			api, err := c.connect()
			if err != nil {
				return err
			}
			response, err := api.connections.CreateConnection(keyed(ctx, key), &registryv1.CreateConnectionRequest{Name: args[0], Spec: spec})
			if err != nil {
				return c.repeatable(err, key)
			}
			if err := c.showReach(response.GetConnection()); err != nil {
				return err
			}
			c.nextf("countersign connection test %s", args[0])
			return nil
		},
	}
	flags.add(command)
	command.Flags().StringVar(&key, "idempotency-key", "", "`KEY` of this connection (default a new one)")
	return command
}

func getConnectionCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "get NAME[@VERSION]", Short: "Show a connection in one line, or whole by -o json or yaml", Args: cobra.ExactArgs(1),
		ValidArgsFunction: c.completeConnections,
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, args []string) error {
			r, err := api.getConnection(ctx, args[0])
			if err != nil {
				return err
			}
			return showRow(c, reaches, r)
		}),
	}
}

func listConnectionsCommand(c *cli) *cobra.Command {
	var pages paging
	command := &cobra.Command{
		Use: "list", Short: "List connections by name, the newest version of each", Args: cobra.NoArgs,
		Long: `Lists connections by name, the newest version of each. Those that registrations by a
plain URL made belong to their servers and are not listed.`,
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, _ []string) error {
			all, err := collect(ctx, c, &pages, func(ctx context.Context, size int32, token string) (page[reach], error) {
				r, err := api.connections.ListConnections(ctx, &registryv1.ListConnectionsRequest{PageSize: size, PageToken: token})
				return page[reach]{r.GetConnections(), r.GetNextPageToken(), r.GetTotalSize()}, err
			})
			if err != nil {
				return err
			}
			return showList(c, reaches, all)
		}),
	}
	pages.addFlags(command.Flags())
	return command
}

func connectionVersionsCommand(c *cli) *cobra.Command {
	var pages paging
	command := &cobra.Command{
		Use: "versions NAME", Short: "List all versions of a connection, the newest first", Args: cobra.ExactArgs(1),
		Long: `Lists all versions of a connection, the newest first, also when it was deleted: what
was approved under a version can always be looked up.`,
		ValidArgsFunction: c.completeConnections,
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, args []string) error {
			all, err := collect(ctx, c, &pages, func(ctx context.Context, size int32, token string) (page[reach], error) {
				r, err := api.connections.ListConnectionVersions(ctx, &registryv1.ListConnectionVersionsRequest{Name: args[0], PageSize: size, PageToken: token})
				return page[reach]{r.GetVersions(), r.GetNextPageToken(), r.GetTotalSize()}, err
			})
			if err != nil {
				return err
			}
			versions := reaches
			versions.name = reach.GetRef
			return showList(c, versions, all)
		}),
	}
	pages.addFlags(command.Flags())
	return command
}

func describeConnectionCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "describe NAME[@VERSION]", Short: "Say all about a connection: where it leads, as whom, what it trusts", Args: cobra.ExactArgs(1),
		ValidArgsFunction: c.completeConnections,
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, args []string) error {
			r, err := api.getConnection(ctx, args[0])
			if err != nil {
				return err
			}
			return c.show(r, []string{r.GetRef()}, func(t *sheet) { describeReach(t, r) })
		}),
	}
}

func describeReach(t *sheet, r reach) {
	spec := r.GetSpec()
	t.field("Name", r.GetName())
	t.field("Version", strconv.Itoa(int(r.GetVersion())))
	if !r.GetNewest() {
		t.field("Superseded", "there is a later version")
	}
	if r.GetDeleted() {
		t.field("Deleted", "yes")
	}
	t.field("Of the server", r.GetServerId())
	t.field("Description", spec.GetDescription())
	for _, warning := range r.GetWarnings() {
		t.field("Warning", warning)
	}
	t.gap()
	t.field("URL", spec.GetBaseUrl())
	t.field("Dial address", spec.GetDialAddress())
	t.field("Opens networks", strings.Join(spec.GetAllowedNetworks(), ", "))
	if bundle := spec.GetCaBundle(); bundle != "" {
		t.field("Trusts", fmt.Sprintf("%d certificates of its own, and not the machine's", strings.Count(bundle, "-----BEGIN CERTIFICATE-----")))
	}
	t.field("Our certificate", some(", key ", spec.GetClientCertificateRef(), spec.GetClientKeyRef()))
	t.gap()
	t.field("Authorised by", word(spec.GetAuthKind()))
	for _, name := range slices.Sorted(maps.Keys(spec.GetHeaders())) {
		t.field("Header", name+" from "+spec.GetHeaders()[name])
	}
	t.field("Issuer", spec.GetIssuer())
	t.field("Token endpoint", spec.GetTokenEndpoint())
	t.field("Client", spec.GetClientId())
	t.field("Secret", spec.GetSecretRef())
	t.field("Scopes", strings.Join(spec.GetScopes(), " "))
	t.field("Scopes to step up to", strings.Join(spec.GetStepUpScopes(), " "))
	t.gap()
	t.field("Servers", reachUsers(r))
	t.field("Created", some(" by ", when(r.GetCreateTime()), r.GetCreatedBy()))
	t.field("Etag", r.GetEtag())
}

func updateConnectionCommand(c *cli) *cobra.Command {
	var (
		flags     reachFlags
		key, etag string
	)
	command := &cobra.Command{
		Use: "update NAME", Short: "Make the next version of a connection, with what the flags name",
		Long: `Makes the next version of a connection: what the flags name changes and nothing else.
Each server that uses it takes the new version by itself. Anything but the
description unbinds every tool of those servers and starts their discovery: nothing
of them is callable until somebody approved it again. So it asks first.

An empty value takes something away: --header "" all headers, --network "" all
networks, --ca-file "" the certificates.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeConnections,
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, mask, err := flags.spec(cmd)
			if err != nil {
				return err
			}
			if len(mask.GetPaths()) == 0 {
				return usagef("nothing to change: give at least one of %s", strings.Join(flags.names(), ", "))
			}
			api, err := c.connect()
			if err != nil {
				return err
			}
			ctx, cancel := c.within(cmd.Context(), callTimeout)
			defer cancel()
			now, err := api.getConnection(ctx, args[0])
			if err != nil {
				return err
			}
			flags.follow(cmd, now, mask)
			if n := now.GetUsers(); n > 0 && !slices.Equal(mask.GetPaths(), []string{"description"}) {
				question := fmt.Sprintf("Change connection %s, and unbind what is approved of %s?", now.GetRef(), counted(n, "server"))
				if err := c.confirm(cmd.Context(), question); err != nil {
					return err
				}
			}
			if etag == "" {
				etag = now.GetEtag() // of the version that was looked at, not of a later one
			}
			if key == "" {
				key = rand.Text()
			}
			ctx, cancel = c.within(cmd.Context(), callTimeout) // the question may have taken a while
			defer cancel()
			response, err := api.connections.UpdateConnection(keyed(ctx, key), &registryv1.UpdateConnectionRequest{
				Name: args[0], Spec: spec, UpdateMask: mask, Etag: etag,
			})
			if err != nil {
				return c.repeatable(err, fmt.Sprintf("%s --etag '%s'", key, etag)) // the same body: an etag read anew may be that of this update
			}
			r := response.GetConnection()
			if err := c.showReach(r); err != nil {
				return err
			}
			if n := r.GetUsers(); n > 0 {
				c.notef("%s take it now, each by itself", counted(n, "server"))
				c.nextf(`countersign server list --filter 'connection = "%s"'`, r.GetName())
			}
			return nil
		},
	}
	flags.add(command)
	command.Flags().StringVar(&etag, "etag", "", "change it only if it still has this `ETAG`")
	command.Flags().StringVar(&key, "idempotency-key", "", "`KEY` of this update (default a new one)")
	return command
}

// counted is a number of things.
func counted(n int32, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func testConnectionCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "test NAME", Short: "Try a handshake and the lists through a connection, step by step; changes nothing",
		Long: `Tries a handshake and the lists through the newest version of a connection, step by
step, with its credentials, and changes nothing. The exit code is 1 when a step fails.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeConnections,
		RunE: c.call(waitTimeout, func(ctx context.Context, api *api, args []string) error {
			r, err := api.connections.TestConnection(ctx, &registryv1.TestConnectionRequest{Name: args[0]})
			if err != nil {
				return err
			}
			return c.showTest(args[0], r.GetReport())
		}),
	}
}

func deleteConnectionCommand(c *cli) *cobra.Command {
	var etag string
	var dryRun bool
	command := &cobra.Command{
		Use: "delete NAME", Aliases: []string{"retire"}, Short: "Delete a connection that no live server uses", Args: cobra.ExactArgs(1),
		Long: `Deletes a connection that no live server uses. Its versions stay, for what was
approved under them; a connection made later under its name goes on counting.`,
		ValidArgsFunction: c.completeConnections,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !dryRun {
				if err := c.confirm(cmd.Context(), fmt.Sprintf("Delete connection %s?", args[0])); err != nil {
					return err
				}
			}
			ctx, cancel := c.within(cmd.Context(), callTimeout)
			defer cancel()
			api, err := c.connect()
			if err != nil {
				return err
			}
			r, err := api.connections.DeleteConnection(ctx, &registryv1.DeleteConnectionRequest{Name: args[0], Etag: etag, DryRun: dryRun})
			switch {
			case err != nil:
				return err
			case dryRun:
				c.notef("connection %s would be deleted: no live server uses it; %s would stay in the records", args[0], counted(r.GetConnection().GetVersion(), "version"))
			default:
				c.notef("connection %s is deleted", args[0])
			}
			return nil
		},
	}
	command.Flags().StringVar(&etag, "etag", "", "delete it only if it still has this `ETAG`")
	command.Flags().BoolVar(&dryRun, "dry-run", false, "only say whether it can be deleted")
	return command
}
