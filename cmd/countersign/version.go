package main

import (
	"github.com/spf13/cobra"

	"countersign/cmd/internal/app"
)

func newVersionCommand(c *cli) *cobra.Command {
	command := &cobra.Command{
		Use: "version", Short: "Say which version this is", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := app.ReadBuild()
			return c.show(b, []string{b.Version}, func(s *sheet) {
				s.linef("countersign %s", some(", ", b.Version, b.Revision, b.Go, b.Platform))
			})
		},
	}
	c.addOutputFlag(command.Flags())
	return command
}
