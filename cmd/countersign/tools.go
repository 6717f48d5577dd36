package main

import (
	"context"
	"strconv"
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
		facetsCommand(c),
		impactCommand(c),
		enableCommand(c, "enable", "Switch tools on; this does not bind them", true),
		enableCommand(c, "disable", "Switch tools off", false),
		requireApprovalCommand(c),
		resolveCommand(c),
	)
	return command
}

func listToolsCommand(c *cli) *cobra.Command {
	var pages paging
	var choice toolChoice
	var order string
	var retired bool
	command := &cobra.Command{
		Use: "list", Short: "List and search tools", Args: cobra.NoArgs,
		Example: `  countersign tools list --of demo --bound
  countersign tools list --search 'compute hash'
  countersign tools list --filter 'server = "demo" AND bound = true'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := choice.expression()
			if err != nil {
				return err
			}
			ctx, cancel := c.within(cmd.Context(), callTimeout)
			defer cancel()
			api, err := c.connect()
			if err != nil {
				return err
			}
			all, err := collect(ctx, c, &pages, func(ctx context.Context, size int32, token string) (page[tool], error) {
				r, err := api.catalog.ListTools(ctx, &registryv1.ListToolsRequest{
					PageSize: size, PageToken: token, Filter: filter, Search: choice.search, OrderBy: order, ShowRetired: retired,
				})
				return page[tool]{r.GetTools(), r.GetNextPageToken(), r.GetTotalSize()}, err
			})
			if err != nil {
				return err
			}
			return showList(c, tools, all)
		},
	}
	choice.addFlags(command)
	command.Flags().StringVar(&order, "order-by", "", "`FIELD`: tool_id or first_seen_time, with \" desc\" behind it for the reverse; or relevance, of a search")
	command.Flags().BoolVar(&retired, "show-retired", false, "tools of retired servers too")
	pages.addFlags(command.Flags())
	return command
}

type facetRow struct{ field, value, count string }

var facetColumns = []column[facetRow]{
	{title: "FIELD", text: func(r facetRow) string { return r.field }},
	{title: "VALUE", text: func(r facetRow) string { return r.value }},
	{title: "TOOLS", text: func(r facetRow) string { return r.count }},
}

func facetsCommand(c *cli) *cobra.Command {
	var choice toolChoice
	var fields []string
	var retired bool
	command := &cobra.Command{
		Use: "facets", Short: "Count tools by server, class, and whether they are enabled, bound, callable and so on",
		Args: cobra.NoArgs, Example: `  countersign tools facets --search hash --by server,class`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := choice.expression()
			if err != nil {
				return err
			}
			ctx, cancel := c.within(cmd.Context(), callTimeout)
			defer cancel()
			api, err := c.connect()
			if err != nil {
				return err
			}
			r, err := api.catalog.ListToolFacets(ctx, &registryv1.ListToolFacetsRequest{
				Filter: filter, Search: choice.search, ShowRetired: retired, Facets: fields,
			})
			if err != nil {
				return err
			}
			var rows []facetRow
			var names []string
			for _, f := range r.GetFacets() {
				for _, v := range f.GetValues() {
					rows = append(rows, facetRow{f.GetField(), v.GetValue(), strconv.Itoa(int(v.GetCount()))})
					names = append(names, f.GetField()+"="+v.GetValue())
				}
				if n := f.GetOtherValues(); n > 0 {
					c.notef("%s has %d more values", f.GetField(), n)
				}
			}
			return c.show(r, names, func(s *sheet) {
				writeTable(s, facetColumns, rows)
				s.linef("%d tools", r.GetTotalSize())
			})
		},
	}
	choice.addFlags(command)
	command.Flags().StringSliceVar(&fields, "by", nil, "`FIELDS`, by comma: server, provider, class, enabled, available, bound, callable, quarantined, requires_approval (default all)")
	command.Flags().BoolVar(&retired, "show-retired", false, "tools of retired servers too")
	return command
}

func getToolCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "describe ID", Aliases: []string{"get"}, Short: "Show a tool with its definition", Args: cobra.ExactArgs(1),
		ValidArgsFunction: c.completeTool,
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, args []string) error {
			r, err := api.catalog.GetTool(ctx, &registryv1.GetToolRequest{ToolId: args[0]})
			if err != nil {
				return err
			}
			t := r.GetTool()
			return c.show(t, []string{t.GetToolId()}, func(s *sheet) { describeTool(s, t) })
		}),
	}
}

func describeTool(s *sheet, t tool) {
	s.field("Tool", t.GetToolId())
	s.field("Server", some(", ", t.GetServerName(), t.GetServerId()))
	s.field("Name", t.GetName())
	s.field("Callable", some(", ", yesNo(t.GetCallable()), some(": ", t.GetDenialReason(), t.GetDenialDetail())))
	s.field("Enabled", yesNo(t.GetEnabled()))
	if t.GetRequiresApproval() {
		s.field("Each call", "needs an approval")
	}
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
