package main

import (
	"net/url"

	"github.com/spf13/cobra"

	"countersign/console"
)

// opened is the address of a page of the console.
type opened struct {
	URL string `json:"url"`
}

func newOpenCommand(c *cli) *cobra.Command {
	var noBrowser bool
	command := &cobra.Command{
		Use:   "open [SERVER]",
		Short: "Open the web console, or a server's page in it, in a browser",
		Long: `Opens the web console of the API in a browser, and says its address. One signs in
there by oneself; no token goes with the address.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			where, err := c.connection()
			if err != nil {
				return err
			}
			page := opened{where.server + console.Path}
			if len(args) == 1 {
				page.URL += "servers/" + url.PathEscape(args[0])
			}
			if !noBrowser && browse(cmd.Context(), page.URL) != nil {
				c.notef("no browser can be opened here; the address is:")
			}
			return c.show(page, []string{page.URL}, func(s *sheet) { s.linef("%s", page.URL) })
		},
	}
	command.Flags().BoolVar(&noBrowser, "no-browser", false, "only say the address")
	command.ValidArgsFunction = c.completeServers
	return command
}
