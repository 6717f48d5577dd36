package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

type assignment = *registryv1.ToolAssignment

var assignments = view[assignment]{plural: "assignments", name: assignment.GetAssignmentId, columns: []column[assignment]{
	{title: "AGENT", text: assignment.GetAgent},
	{title: "TOOL ID", text: assignment.GetToolId},
	{title: "WORKSPACE", text: assignment.GetWorkspace},
	{title: "AVAILABLE", text: func(a assignment) string { return yesNo(a.GetAvailable()) }},
	{title: "CALLABLE", text: func(a assignment) string { return yesNo(a.GetCallable()) }},
	{title: "WHY NOT", text: assignment.GetDenialReason},
	{title: "ID", wide: true, text: assignment.GetAssignmentId},
	{title: "CREATED BY", wide: true, text: assignment.GetCreatedBy},
	{title: "CREATED", wide: true, text: func(a assignment) string { return when(a.GetCreateTime()) }},
}}

func newAssignmentsCommand(c *cli) *cobra.Command {
	command := &cobra.Command{
		Use: "assignments", Aliases: []string{"assignment"},
		Short: "Which agent has which tool",
		Long: `Which agent has which tool, by its canonical id, in one workspace or everywhere.
It counts when an executor names the agent that is to call; a tool that is away
can be assigned, and is callable once it is back.`,
	}
	group(command)
	command.AddCommand(listAssignmentsCommand(c), createAssignmentCommand(c), deleteAssignmentCommand(c))
	return command
}

func listAssignmentsCommand(c *cli) *cobra.Command {
	var pages paging
	var agent, tool, workspace string
	command := &cobra.Command{
		Use: "list", Short: "List which agent has which tool", Args: cobra.NoArgs,
		Example: `  countersign assignments list --agent support-bot`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := c.within(cmd.Context(), callTimeout)
			defer cancel()
			api, err := c.connect()
			if err != nil {
				return err
			}
			all, err := c.assignments(ctx, api, &pages, agent, tool, workspace, cmd.Flags().Changed("workspace"))
			if err != nil {
				return err
			}
			return showList(c, assignments, all)
		},
	}
	command.Flags().StringVar(&agent, "agent", "", "of that `AGENT`")
	command.Flags().StringVar(&tool, "tool", "", "of the tool of that `ID`")
	command.Flags().StringVar(&workspace, "workspace", "", "for the workspace of that `LABEL`; empty: for everywhere")
	completeWith(command, "tool", c.completeTools)
	pages.addFlags(command.Flags())
	return command
}

// assignments lists those that the flags ask for.
func (c *cli) assignments(ctx context.Context, api *api, pages *paging, agent, tool, workspace string, inWorkspace bool) ([]assignment, error) {
	var terms []string
	for _, term := range []struct {
		field, value string
		given        bool
	}{{"agent", agent, agent != ""}, {"tool_id", tool, tool != ""}, {"workspace", workspace, inWorkspace}} {
		if term.given {
			terms = append(terms, term.field+" = "+quoted(term.value))
		}
	}
	return collect(ctx, c, pages, func(ctx context.Context, size int32, token string) (page[assignment], error) {
		r, err := api.catalog.ListToolAssignments(ctx, &registryv1.ListToolAssignmentsRequest{
			PageSize: size, PageToken: token, Filter: strings.Join(terms, " AND "),
		})
		return page[assignment]{r.GetAssignments(), r.GetNextPageToken(), r.GetTotalSize()}, err
	})
}

func createAssignmentCommand(c *cli) *cobra.Command {
	var workspace string
	command := &cobra.Command{
		Use: "create AGENT TOOL-ID", Short: "Give an agent a tool", Args: cobra.ExactArgs(2),
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, args []string) error {
			r, err := api.catalog.CreateToolAssignment(ctx, &registryv1.CreateToolAssignmentRequest{Agent: args[0], ToolId: args[1], Workspace: workspace})
			if err != nil {
				return err
			}
			a := r.GetAssignment()
			if err := showRow(c, assignments, a); err != nil {
				return err
			}
			if !a.GetAvailable() {
				c.notef("the tool is not there now; it is assigned all the same")
			}
			return nil
		}),
	}
	command.Flags().StringVar(&workspace, "workspace", "", "only in the workspace of that `LABEL`")
	return command
}

func deleteAssignmentCommand(c *cli) *cobra.Command {
	var workspace string
	command := &cobra.Command{
		Use: "delete AGENT TOOL-ID", Short: "Take a tool away from an agent", Args: cobra.ExactArgs(2),
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, args []string) error {
			found, err := c.assignments(ctx, api, &paging{limit: 1}, args[0], args[1], workspace, true)
			if err != nil {
				return err
			}
			if len(found) == 0 {
				return failf(registry.ReasonAssignmentNotFound, "agent %s does not have the tool %s there", args[0], args[1]).
					withNext("countersign assignments list --agent %s", args[0])
			}
			if _, err := api.catalog.DeleteToolAssignment(ctx, &registryv1.DeleteToolAssignmentRequest{AssignmentId: found[0].GetAssignmentId()}); err != nil {
				return err
			}
			c.notef("agent %s no longer has the tool %s%s", args[0], args[1], orNothing(" in ", workspace))
			return nil
		}),
	}
	command.Flags().StringVar(&workspace, "workspace", "", "that of the workspace of that `LABEL`; empty: that for everywhere")
	return command
}
