package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	registryv1 "countersign/proto/countersign/registry/v1"
)

// completionTimeout is how long a shell waits for names from the API.
const completionTimeout = time.Second

// completeWith makes a function complete the values of a flag.
func completeWith(command *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := command.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // the command has no such flag
	}
}

// completeWords makes a flag complete to one of some words.
func completeWords(command *cobra.Command, flag string, all []string) {
	completeWith(command, flag, cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp))
}

// completeServers completes the name of a server as the only argument.
func (c *cli) completeServers(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.completions(cmd, func(ctx context.Context, a *api) (names []string, err error) {
		r, err := a.servers.ListMcpServers(ctx, &registryv1.ListMcpServersRequest{PageSize: 200})
		for _, s := range r.GetServers() {
			names = append(names, s.GetName())
		}
		return names, err
	})
}

// completeTool completes the id of a tool as the only argument.
func (c *cli) completeTool(cmd *cobra.Command, args []string, text string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.completeTools(cmd, args, text)
}

// completeTools completes ids of tools.
func (c *cli) completeTools(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return c.completions(cmd, func(ctx context.Context, a *api) (ids []string, err error) {
		r, err := a.catalog.ListTools(ctx, &registryv1.ListToolsRequest{PageSize: 200})
		for _, t := range r.GetTools() {
			ids = append(ids, t.GetToolId())
		}
		return ids, err
	})
}

// completions asks the API, for a second at most and without a word about what
// goes wrong.
func (c *cli) completions(cmd *cobra.Command, ask func(context.Context, *api) ([]string, error)) ([]cobra.Completion, cobra.ShellCompDirective) {
	c.quiet = true
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	a, err := c.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, err := ask(ctx, a)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for i, name := range names {
		names[i] = printable(name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeContexts completes the name of a context.
func (c *cli) completeContexts(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	c.quiet = true
	f, err := c.loadContexts()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, s := range f.Contexts {
		names = append(names, s.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
