package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// bulkTimeout is how long a change of many servers may take.
const bulkTimeout = 2 * time.Minute

// switched is what became of one tool.
type switched struct{ tool, server, outcome string }

var switchedColumns = []column[switched]{
	{title: "TOOL ID", text: func(s switched) string { return s.tool }},
	{title: "SERVER", text: func(s switched) string { return s.server }},
	{title: "OUTCOME", text: func(s switched) string { return s.outcome }},
}

func enableCommand(c *cli, use, short string, enabled bool) *cobra.Command {
	var choice toolChoice
	var dryRun bool
	command := &cobra.Command{
		Use: use + " [ID...]", Short: short,
		Long: short + `. Tools are named by their ids, chosen by
flags, or both: then those of the named ones that the flags choose. --dry-run
says what would change. Each server changes by itself; what fails at one keeps
none of the others.`,
		Example:           "  countersign tools " + use + " demo.echo\n  countersign tools " + use + " --of demo --class read --dry-run",
		ValidArgsFunction: c.completeTools,
		RunE: func(cmd *cobra.Command, args []string) error {
			filter, err := choice.some(args)
			if err != nil {
				return err
			}
			api, err := c.connect()
			if err != nil {
				return err
			}
			ctx, cancel := c.within(cmd.Context(), bulkTimeout)
			defer cancel()
			chosen := filter != "" || choice.search != ""
			if len(args) == 1 && !chosen && !dryRun {
				return c.enableOne(ctx, api, args[0], enabled)
			}
			request := &registryv1.SetToolsEnabledRequest{Filter: filter, Search: choice.search, ToolIds: args, Enabled: enabled, DryRun: dryRun}
			if chosen && !dryRun && !c.yes { // who typed the ids knows how many
				if request, err = c.confirmSwitch(ctx, cmd.Context(), api, request); err != nil {
					return err
				}
			}
			r, err := api.catalog.SetToolsEnabled(ctx, request)
			if err != nil {
				return err
			}
			return c.showSwitched(r, enabled, dryRun)
		},
	}
	choice.addFlags(command)
	command.Flags().BoolVar(&dryRun, "dry-run", false, "only say what would change")
	return command
}

// confirmSwitch asks before a change of tools that were chosen, and gives the
// request for exactly those that were counted.
func (c *cli) confirmSwitch(ctx, asking context.Context, api *api, request *registryv1.SetToolsEnabledRequest) (*registryv1.SetToolsEnabledRequest, error) {
	request.DryRun = true
	r, err := api.catalog.SetToolsEnabled(ctx, request)
	if err != nil {
		return nil, err
	}
	exact := &registryv1.SetToolsEnabledRequest{Enabled: request.GetEnabled()}
	servers := 0
	for _, s := range r.GetServers() {
		if len(s.GetToolIds()) > 0 {
			servers++
		}
		exact.ToolIds = append(exact.GetToolIds(), s.GetToolIds()...)
	}
	if len(exact.GetToolIds()) == 0 {
		return request, nil // nothing to change, and nothing to ask
	}
	question := fmt.Sprintf("Switch %d tools of %d servers %s?", len(exact.GetToolIds()), servers, onOff(request.GetEnabled()))
	return exact, c.confirm(asking, question)
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// showSwitched shows what became of each tool that was to be switched. That
// some failed is a failure of the command, after all that was done.
func (c *cli) showSwitched(r *registryv1.SetToolsEnabledResponse, enabled, dryRun bool) error {
	var rows []switched
	var names []string
	var failed *registryv1.ServerToolsEnabled
	for _, s := range r.GetServers() {
		outcome := "switched " + onOff(enabled)
		switch {
		case s.GetReason() != "":
			outcome, failed = "failed: "+s.GetReason(), s
		case dryRun:
			outcome = "would be switched " + onOff(enabled)
		}
		for _, id := range s.GetToolIds() {
			rows = append(rows, switched{id, s.GetServerName(), outcome})
			if s.GetReason() == "" {
				names = append(names, id)
			}
		}
	}
	err := c.show(r, names, func(s *sheet) {
		if len(rows) > 0 {
			writeTable(s, switchedColumns, rows)
		}
	})
	if err != nil {
		return err
	}
	c.notef("%d changed, %d so already, %d failed", r.GetChangedTools(), r.GetUnchangedTools(), r.GetFailedTools())
	for _, id := range r.GetUnknownToolIds() {
		c.notef("no live server has a tool %q", id)
	}
	switch {
	case failed != nil:
		f := failf(registry.Reason(failed.GetReason()), "%d tools were not switched: %s", r.GetFailedTools(), failed.GetMessage())
		if f.Exit == exitOK {
			f.Exit = exitFailure
		}
		return f.withNext("run the same command again; what is done stays done")
	case len(r.GetUnknownToolIds()) > 0:
		return failf(registry.ReasonToolNotFound, "%d of the tools are unknown", len(r.GetUnknownToolIds())).withNext("countersign tools list")
	}
	return nil
}

func (c *cli) enableOne(ctx context.Context, api *api, id string, enabled bool) error {
	r, err := api.catalog.SetToolEnabled(ctx, &registryv1.SetToolEnabledRequest{ToolId: id, Enabled: enabled})
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
}

func requireApprovalCommand(c *cli) *cobra.Command {
	var off bool
	command := &cobra.Command{
		Use: "require-approval ID", Short: "Say that each call of a tool needs a person's approval first",
		Long: `Says that whoever calls the tool must ask a person first, each time; executors
learn it when they resolve the tool. It survives every refresh. --off takes it back.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeTool,
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, args []string) error {
			r, err := api.catalog.SetToolRequiresApproval(ctx, &registryv1.SetToolRequiresApprovalRequest{ToolId: args[0], RequiresApproval: !off})
			if err != nil {
				return err
			}
			return showRow(c, tools, r.GetTool())
		}),
	}
	command.Flags().BoolVar(&off, "off", false, "calls need no approval of their own any more")
	return command
}
