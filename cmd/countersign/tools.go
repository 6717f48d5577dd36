package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	registryv1 "countersign/proto/countersign/registry/v1"
)

type tool = *registryv1.Tool

var tools = view[tool]{plural: "tools", name: tool.GetToolId, columns: toolColumns("TOOL ID", tool.GetToolId)}

// toolColumns is the table of tools, with its first column.
func toolColumns(title string, text func(tool) string) []column[tool] {
	return []column[tool]{
		{title: title, text: text},
		{title: "CLASS", text: func(t tool) string { return word(t.GetDeclaredClass()) }},
		{title: "ENABLED", text: func(t tool) string { return yesNo(t.GetEnabled()) }},
		{title: "AVAILABLE", text: func(t tool) string { return yesNo(t.GetAvailable()) }},
		{title: "BOUND", text: func(t tool) string { return yesNo(t.GetBound()) }},
		{title: "CALLABLE", text: func(t tool) string { return yesNo(t.GetCallable()) }},
		{title: "WHY NOT", text: whyNot},
		{title: "SERVER", wide: true, text: tool.GetServerName},
		{title: "NAME", wide: true, text: tool.GetName},
		{title: "DESCRIPTOR", wide: true, text: descriptorOf},
		{title: "LAST SEEN", wide: true, text: func(t tool) string { return when(t.GetLastSeenTime()) }},
		{title: "DESCRIPTION", wide: true, text: func(t tool) string { return cut(t.GetDescription(), 60) }},
	}
}

// whyNot says in a code why a tool cannot be called; its quarantine says more
// than that it is unavailable.
func whyNot(t tool) string {
	return some(", ", t.GetDenialReason(), orNothing("quarantined: ", t.GetQuarantineReason()))
}

func descriptorOf(t tool) string {
	return some("@", t.GetDescriptorId(), t.GetDescriptorVersion())
}

func newToolsCommand(c *cli) *cobra.Command {
	command := &cobra.Command{
		Use: "tools", Aliases: []string{"tool"},
		Short: "The catalog of all tools, and whether they may be called",
		Long: `The catalog of all tools, and whether they may be called. A tool is callable when
an administrator enabled it, its server offers it, an approval binds it as it is,
and its server is active. ID is a tool's id, such as demo.hash_compute.`,
	}
	group(command)
	command.AddCommand(
		listToolsCommand(c),
		getToolCommand(c),
		enableCommand(c, "enable", "Switch a tool on; this does not bind it", true),
		enableCommand(c, "disable", "Switch a tool off", false),
		resolveCommand(c),
	)
	return command
}

func listToolsCommand(c *cli) *cobra.Command {
	var pages paging
	var filter, order string
	var retired bool
	command := &cobra.Command{
		Use: "list", Short: "List tools", Args: cobra.NoArgs,
		Example: `  countersign tools list --filter 'server = "demo" AND bound = true'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := c.within(cmd.Context(), callTimeout)
			defer cancel()
			api, err := c.connect()
			if err != nil {
				return err
			}
			all, err := collect(ctx, c, &pages, func(ctx context.Context, size int32, token string) (page[tool], error) {
				r, err := api.catalog.ListTools(ctx, &registryv1.ListToolsRequest{
					PageSize: size, PageToken: token, Filter: filter, OrderBy: order, ShowRetired: retired,
				})
				return page[tool]{r.GetTools(), r.GetNextPageToken(), r.GetTotalSize()}, err
			})
			if err != nil {
				return err
			}
			return showList(c, tools, all)
		},
	}
	command.Flags().StringVar(&filter, "filter", "", "`EXPRESSION` of tool_id, name, server_id, server, provider, enabled, available and bound, compared by =, != and : (contains), joined by AND")
	command.Flags().StringVar(&order, "order-by", "", "`FIELD`: tool_id or first_seen_time, with \" desc\" behind it for the reverse")
	command.Flags().BoolVar(&retired, "show-retired", false, "tools of retired servers too")
	pages.addFlags(command.Flags())
	return command
}

func getToolCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "get ID", Short: "Show a tool with its definition", Args: cobra.ExactArgs(1),
		ValidArgsFunction: c.completeTool,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.within(cmd.Context(), callTimeout)
			defer cancel()
			api, err := c.connect()
			if err != nil {
				return err
			}
			r, err := api.catalog.GetTool(ctx, &registryv1.GetToolRequest{ToolId: args[0]})
			if err != nil {
				return err
			}
			t := r.GetTool()
			return c.show(t, []string{t.GetToolId()}, func(s *sheet) { describeTool(s, t) })
		},
	}
}

func describeTool(s *sheet, t tool) {
	s.field("Tool", t.GetToolId())
	s.field("Server", some(", ", t.GetServerName(), t.GetServerId()))
	s.field("Name", t.GetName())
	s.field("Callable", some(", ", yesNo(t.GetCallable()), some(": ", t.GetDenialReason(), t.GetDenialDetail())))
	s.field("Enabled", yesNo(t.GetEnabled()))
	s.field("Available", yesNo(t.GetAvailable()))
	s.field("Bound", yesNo(t.GetBound()))
	s.field("Class", word(t.GetDeclaredClass()))
	s.field("Descriptor", descriptorOf(t))
	s.field("Quarantined", some(": ", t.GetQuarantineReason(), t.GetQuarantineDetail()))
	s.field("Schema hash", t.GetDigests().GetContract())
	s.field("Changed", strings.Join(drift(t), ", "))
	s.field("First seen", when(t.GetFirstSeenTime()))
	s.field("Last seen", when(t.GetLastSeenTime()))
	writeDefinition(s, "", t)
}

func enableCommand(c *cli, use, short string, enabled bool) *cobra.Command {
	return &cobra.Command{
		Use: use + " ID", Short: short, Args: cobra.ExactArgs(1),
		ValidArgsFunction: c.completeTool,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.within(cmd.Context(), callTimeout)
			defer cancel()
			api, err := c.connect()
			if err != nil {
				return err
			}
			r, err := api.catalog.SetToolEnabled(ctx, &registryv1.SetToolEnabledRequest{ToolId: args[0], Enabled: enabled})
			if err != nil {
				return err
			}
			t := r.GetTool()
			if err := showRow(c, tools, t); err != nil {
				return err
			}
			switch {
			case enabled && t.GetQuarantineReason() != "":
				c.notef("the tool is in quarantine and cannot be approved: %s", some(": ", t.GetQuarantineReason(), t.GetQuarantineDetail()))
				c.nextf("mend it at the server, then: countersign server discover %s", t.GetServerName())
			case enabled && !t.GetBound():
				c.nextf("countersign server approve %s --tool %s=CLASS", t.GetServerName(), typed(t))
			default:
				c.nextf("countersign tools resolve %s", t.GetToolId())
			}
			return nil
		},
	}
}

// typed is what a person would type for a tool: its name, or its id where the
// name is not made of characters that every shell takes as they are.
func typed(t tool) string {
	plain := func(r rune) bool {
		return r == '_' || r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
	}
	if strings.IndexFunc(t.GetName(), func(r rune) bool { return !plain(r) }) < 0 {
		return t.GetName()
	}
	return t.GetToolId()
}
