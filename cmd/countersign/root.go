package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"countersign/registry"
)

// rootCommand puts the program together. Commands of the client take the
// client's flags, before or behind the command's name; the others do not.
func rootCommand(c *cli) *cobra.Command {
	root := &cobra.Command{
		Use:   "countersign",
		Short: "A governed registry of MCP servers",
		Long: `Countersign is a governed registry of MCP servers: nothing is callable until
somebody countersigned it, and what changes after that is no longer callable.`,
		SilenceErrors:    true,
		SilenceUsage:     true,
		TraverseChildren: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			c.began = true // what fails from here on is not a fault of usage
			return c.checkFlags()
		},
	}
	group(root)
	c.addFlags(root.Flags())

	client := []*cobra.Command{
		newServerCommand(c),
		newConnectionCommand(c),
		newProviderCommand(c),
		newApprovalsCommand(c),
		newToolsCommand(c),
		newCapabilitiesCommand(c),
		newDescriptorsCommand(c),
		newAssignmentsCommand(c),
		newPolicyCommand(c),
		newExpiringCommand(c),
		newAuditCommand(c),
		newEventsCommand(c),
		newConfigCommand(c),
		newLoginCommand(c),
		newLogoutCommand(c),
		newWhoAmICommand(c),
		newOpenCommand(c),
	}
	for _, command := range client {
		c.addFlags(command.PersistentFlags())
		completeWords(command, "output", formats())
		completeWith(command, "context", c.completeContexts)
	}
	others := []*cobra.Command{
		newServeCommand(),
		newMigrateCommand(),
		newDoctorCommand(c), newReconcileCommand(c), newRolloutCommand(),
		newCaptureCommand(c), newDiffCommand(c),
		newVersionCommand(c),
		exitCodesTopic(),
	}
	root.AddCommand(slices.Concat(client, others)...)
	return root
}

// execute runs the program once and returns its exit code.
func execute(ctx context.Context, c *cli, args []string) int {
	root := rootCommand(c) //nolint:contextcheck // the commands get it from ExecuteContextC
	root.SetArgs(args)
	root.SetIn(c.stdin)
	root.SetOut(c.stdout)
	root.SetErr(c.stderr)
	command, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return exitOK
	case ctx.Err() != nil:
		return c.report(&failure{Exit: exitInterrupted, Message: "interrupted"})
	case !c.began:
		if c.output == formatTable {
			c.output = wantedForm(args)
		}
		message := err.Error()
		if strings.HasPrefix(message, "accepts ") || strings.HasPrefix(message, "requires ") { // counts of cobra, which say not of what
			message += ": " + command.UseLine()
		}
		return c.report(usagef("%s", message).withNext("%s --help", command.CommandPath()))
	}
	f := c.failureOf(err)
	name := "NAME"
	if about := command.Flags().Args(); len(about) > 0 {
		name = about[0]
	}
	f.Next = inCommands(f.Next, name)
	if from, to := f.Facts["from_digest"], f.Facts["to_digest"]; f.Reason == registry.ReasonSuperseded && from != "" && from != to {
		f.Next = fmt.Sprintf("countersign server diff %s %s %s", name, from, to)
	}
	if f.Next == "" && f.Exit == exitUsage && f.Reason != "" {
		f.Next = command.CommandPath() + " --help"
	}
	return c.report(f)
}

// wantedForm finds the form of the result in arguments that could not be
// understood, so that the error has it as well.
func wantedForm(args []string) string {
	for i, arg := range args {
		for _, flag := range []string{"-o", "--output"} {
			form, found := strings.CutPrefix(arg, flag)
			if form = strings.TrimPrefix(form, "="); form == "" && i+1 < len(args) {
				form = args[i+1]
			}
			if found && slices.Contains(formats(), form) {
				return form
			}
		}
	}
	return formatTable
}

// group makes a command that only holds others: alone it shows its help, and
// it says which ones there are when it does not have the one asked for.
func group(command *cobra.Command) {
	command.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		text := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
		if cmd.SuggestionsMinimumDistance <= 0 {
			cmd.SuggestionsMinimumDistance = 2
		}
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			text += "; did you mean " + strings.Join(near, " or ") + "?"
		}
		return usagef("%s", text)
	}
	command.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}
