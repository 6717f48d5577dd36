package main

import (
	"context"

	"github.com/spf13/cobra"

	registryv1 "countersign/proto/countersign/registry/v1"
)

type resolution = *registryv1.ResolveToolResponse

var resolutions = []column[resolution]{
	{title: "TOOL ID", text: resolution.GetToolId},
	{title: "CALLABLE", text: func(r resolution) string { return yesNo(r.GetCallable()) }},
	{title: "REASON", text: resolution.GetReason},
	{title: "CLASS", text: func(r resolution) string { return word(r.GetRouting().GetDeclaredClass()) }},
	{title: "SERVER", text: func(r resolution) string { return r.GetRouting().GetServerName() }},
	{title: "MESSAGE", text: resolution.GetMessage},
}

func resolveCommand(c *cli) *cobra.Command {
	var exitCode bool
	var by caller
	var why explaining
	command := &cobra.Command{
		Use: "resolve ID...", Short: "Ask whether tools may be called now, and where and how",
		Long: `Asks what an executor asks before each call. Several tools are resolved together:
one that may not be called withholds the routing of all. A no is an answer, so
the exit code is 0; with --exit-code it is 7.

With --explain each condition of one tool is shown: whether it holds, since when,
who can change it and how. With --at that is told of a time in the past.`,
		Example: "  countersign tools resolve demo.hash_compute\n  countersign tools resolve demo.hash_compute --explain --agent bot\n  countersign tools resolve demo.hash_compute --at 2h",
		Args:    cobra.RangeArgs(1, 200), ValidArgsFunction: c.completeTools,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.within(cmd.Context(), callTimeout)
			defer cancel()
			api, err := c.connect()
			if err != nil {
				return err
			}
			if why.asked || why.at != "" {
				callable, err := c.explainTool(ctx, api, args, by, why.at)
				return notCallable(err, exitCode && !callable)
			}
			resolve := c.resolveAll
			if len(args) == 1 {
				resolve = c.resolveOne
			}
			callable, err := resolve(ctx, api, args, by)
			return notCallable(err, exitCode && !callable)
		},
	}
	command.Flags().BoolVar(&why.asked, "explain", false, "show every condition: whether it holds, since when, and who can change it")
	command.Flags().StringVar(&why.at, "at", "", "explain what was at `TIME` in the past, such as 2026-05-01T12:00:00Z or 2h (ago), from the records")
	command.Flags().StringVar(&by.agent, "agent", "", "`AGENT` that is to call them, and must have them")
	command.Flags().StringVar(&by.workspace, "workspace", "", "`LABEL` of the workspace that the agent works in")
	command.Flags().BoolVar(&exitCode, "exit-code", false, "end with exit code 7 when a tool may not be called")
	return command
}

// caller is who is to call a tool.
type caller struct{ agent, workspace string }

func (c *cli) resolveOne(ctx context.Context, a *api, ids []string, by caller) (callable bool, err error) {
	r, err := a.registry.ResolveTool(ctx, &registryv1.ResolveToolRequest{ToolId: ids[0], Agent: by.agent, Workspace: by.workspace})
	if err != nil {
		return false, err
	}
	return r.GetCallable(), c.show(r, ids, func(s *sheet) { describeResolution(s, r) })
}

func (c *cli) resolveAll(ctx context.Context, a *api, ids []string, by caller) (callable bool, err error) {
	r, err := a.registry.BatchResolveTools(ctx, &registryv1.BatchResolveToolsRequest{ToolIds: ids, Agent: by.agent, Workspace: by.workspace})
	if err != nil {
		return false, err
	}
	return r.GetCallable(), c.show(r, ids, func(s *sheet) {
		writeTable(s, resolutions, r.GetResolutions())
		if !r.GetCallable() {
			s.linef("not all of them may be called, so no routing is given")
		}
	})
}

func describeResolution(s *sheet, r resolution) {
	s.field("Tool", r.GetToolId())
	s.field("Callable", yesNo(r.GetCallable()))
	if !r.GetCallable() {
		s.field("Reason", some(": ", r.GetReason(), r.GetDetail()))
		s.field("Message", r.GetMessage())
	}
	if r.GetRequiresApproval() {
		s.field("Each call", "needs an approval")
	}
	h := r.GetHealth()
	s.field("Health", some(", ", healthWord(h), h.GetSummary()))
	whatNext(s, h)
	to := r.GetRouting()
	if to == nil {
		return
	}
	s.field("Server", some(", ", to.GetServerName(), to.GetServerId()))
	s.field("Call", to.GetToolName())
	s.field("Class", word(to.GetDeclaredClass()))
	s.field("Transport", some(", ", word(to.GetTransport()), orNothing("protocol ", to.GetProtocolVersion())))
	s.field("URL", to.GetEndpointUrl())
	s.field("Dial address", to.GetDialAddress())
	s.field("Command", to.GetCommandRef())
	s.field("Authentication", word(to.GetAuthentication()))
	s.field("Connection", to.GetEndpointRef())
	s.field("Descriptor", some("@", to.GetDescriptorId(), to.GetDescriptorVersion()))
	s.field("Schema hash", to.GetSchemaHash())
	s.field("Policy", to.GetGovernancePolicyRef())
}
