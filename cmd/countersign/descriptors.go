package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	registryv1 "countersign/proto/countersign/registry/v1"
)

type descriptor = *registryv1.ToolDescriptor

var descriptors = view[descriptor]{plural: "descriptors", name: descriptorName, columns: []column[descriptor]{
	{title: "DESCRIPTOR", text: descriptorName},
	{title: "CLASS", text: func(d descriptor) string { return word(d.GetClass()) }},
	{title: "STATUS", text: func(d descriptor) string { return word(d.GetStatus()) }},
	{title: "ACTIVE", text: func(d descriptor) string { return yesNo(d.GetActive()) }},
	{title: "HEALTH", text: func(d descriptor) string { return healthWord(d.GetHealth()) }},
	{title: "TOOLS", text: func(d descriptor) string { return strconv.Itoa(int(d.GetTools())) }},
	{title: "DESCRIPTION", text: func(d descriptor) string { return cut(d.GetDescription(), 60) }},
	{title: "CREATED BY", wide: true, text: descriptor.GetCreatedBy},
	{title: "CREATED", wide: true, text: func(d descriptor) string { return when(d.GetCreateTime()) }},
}}

// descriptorName is id and version as people type them.
func descriptorName(d descriptor) string {
	return d.GetDescriptorId() + "@" + strconv.FormatInt(d.GetVersion(), 10)
}

// parseDescriptor reads ID@VERSION. The version is 0 when there is none.
func parseDescriptor(text string) (id string, version int64, err error) {
	id, after, found := strings.Cut(text, "@")
	if !found {
		return id, 0, nil
	}
	version, err = strconv.ParseInt(after, 10, 64)
	if err != nil || version < 1 {
		return "", 0, usagef("%q is not ID@VERSION", text)
	}
	return id, version, nil
}

func newDescriptorsCommand(c *cli) *cobra.Command {
	command := &cobra.Command{
		Use: "descriptors", Aliases: []string{"descriptor"},
		Short: "What approvals bind tools to: versions with a side-effect class",
		Long: `What approvals bind tools to: descriptors, with an id, versions and a side-effect
class. An approval that names none publishes one under the tool's own id. Others
are drafted, published and one day deprecated; what a version says never changes.`,
	}
	group(command)
	command.AddCommand(listDescriptorsCommand(c), describeDescriptorCommand(c), createDescriptorCommand(c),
		changeDescriptorCommand(c, "publish", "Publish a draft, so that approvals can name it",
			func(ctx context.Context, a *api, id string, version int64) (descriptor, error) {
				r, err := a.catalog.PublishToolDescriptor(ctx, &registryv1.PublishToolDescriptorRequest{DescriptorId: id, Version: version})
				return r.GetDescriptor_(), err
			}),
		changeDescriptorCommand(c, "deprecate", "End that approvals can name a version; what is bound to it stays so",
			func(ctx context.Context, a *api, id string, version int64) (descriptor, error) {
				r, err := a.catalog.DeprecateToolDescriptor(ctx, &registryv1.DeprecateToolDescriptorRequest{DescriptorId: id, Version: version})
				return r.GetDescriptor_(), err
			}))
	return command
}

func listDescriptorsCommand(c *cli) *cobra.Command {
	var pages paging
	var filter string
	command := &cobra.Command{
		Use: "list", Short: "List versions of descriptors", Args: cobra.NoArgs,
		Example: `  countersign descriptors list --filter 'status = draft'`,
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, _ []string) error {
			all, err := collect(ctx, c, &pages, func(ctx context.Context, size int32, token string) (page[descriptor], error) {
				r, err := api.catalog.ListToolDescriptors(ctx, &registryv1.ListToolDescriptorsRequest{PageSize: size, PageToken: token, Filter: filter})
				return page[descriptor]{r.GetDescriptors(), r.GetNextPageToken(), r.GetTotalSize()}, err
			})
			if err != nil {
				return err
			}
			return showList(c, descriptors, all)
		}),
	}
	command.Flags().StringVar(&filter, "filter", "", "`EXPRESSION` of descriptor_id, class, status and server_id, compared by =, != and : (contains), joined by AND")
	pages.addFlags(command.Flags())
	return command
}

func describeDescriptorCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "describe ID[@VERSION]", Aliases: []string{"get"}, Short: "Show a version of a descriptor, by default the latest", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, version, err := parseDescriptor(args[0])
			if err != nil {
				return err
			}
			ctx, cancel := c.within(cmd.Context(), callTimeout)
			defer cancel()
			api, err := c.connect()
			if err != nil {
				return err
			}
			r, err := api.catalog.GetToolDescriptor(ctx, &registryv1.GetToolDescriptorRequest{DescriptorId: id, Version: version})
			if err != nil {
				return err
			}
			d := r.GetDescriptor_()
			return c.show(d, []string{descriptorName(d)}, func(s *sheet) { writeDescriptor(s, d) })
		},
	}
}

func writeDescriptor(s *sheet, d descriptor) {
	s.field("Descriptor", descriptorName(d))
	s.field("Class", word(d.GetClass()))
	s.field("Status", word(d.GetStatus()))
	s.field("Active", yesNo(d.GetActive()))
	s.field("Health", some(", ", healthWord(d.GetHealth()), d.GetHealth().GetSummary()))
	s.field("Bound tools", strconv.Itoa(int(d.GetTools())))
	s.field("Schema hash", d.GetSchemaHash())
	s.field("Approved of", d.GetServerId())
	s.field("Created", some(" by ", when(d.GetCreateTime()), d.GetCreatedBy()))
	s.field("Published", some(" by ", when(d.GetPublishTime()), d.GetPublishedBy()))
	s.field("Deprecated", some(" by ", when(d.GetDeprecateTime()), d.GetDeprecatedBy()))
	s.field("Description", d.GetDescription())
}

func createDescriptorCommand(c *cli) *cobra.Command {
	var class, description string
	command := &cobra.Command{
		Use: "create ID --class CLASS", Short: "Draft the next version of a descriptor", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if class == "" {
				return usagef("--class is required: %s", classWords())
			}
			value, err := parseWord[registryv1.SideEffectClass]("--class", class)
			if err != nil {
				return err
			}
			ctx, cancel := c.within(cmd.Context(), callTimeout)
			defer cancel()
			api, err := c.connect()
			if err != nil {
				return err
			}
			r, err := api.catalog.CreateToolDescriptor(ctx, &registryv1.CreateToolDescriptorRequest{DescriptorId: args[0], Class: value, Description: description})
			if err != nil {
				return err
			}
			if err := showRow(c, descriptors, r.GetDescriptor_()); err != nil {
				return err
			}
			c.nextf("countersign descriptors publish %s", descriptorName(r.GetDescriptor_()))
			return nil
		},
	}
	command.Flags().StringVar(&class, "class", "", "`CLASS`: what a tool that is bound to it may do: "+classWords())
	command.Flags().StringVar(&description, "description", "", "`TEXT`: what it is")
	completeWords(command, "class", words[registryv1.SideEffectClass]())
	return command
}

func changeDescriptorCommand(c *cli, use, short string, change func(context.Context, *api, string, int64) (descriptor, error)) *cobra.Command {
	return &cobra.Command{
		Use: use + " ID@VERSION", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, version, err := parseDescriptor(args[0])
			if err != nil {
				return err
			}
			if version == 0 {
				return usagef("%q names no version: ID@VERSION", args[0])
			}
			ctx, cancel := c.within(cmd.Context(), callTimeout)
			defer cancel()
			api, err := c.connect()
			if err != nil {
				return err
			}
			d, err := change(ctx, api, id, version)
			if err != nil {
				return err
			}
			return showRow(c, descriptors, d)
		},
	}
}
