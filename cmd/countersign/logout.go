package main

import (
	"slices"

	"github.com/spf13/cobra"
)

func newLogoutCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "logout",
		Short: "Forget the token of a context, and end the sign-in at its issuer",
		Long: `Forgets the token that login kept in the current context, or in that of --context,
and tells the issuer to renew it no more. The context itself stays.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := c.within(cmd.Context(), callTimeout)
			defer cancel()
			f, err := c.loadContexts()
			if err != nil {
				return err
			}
			name := c.context
			if name == "" {
				name = f.Current
			}
			if name == "" {
				c.notef("there is no current context")
				return nil
			}
			saved, err := f.find(name)
			if err != nil {
				return err
			}
			if saved.Login == nil {
				c.notef("nobody is signed in to context %s", name)
				return nil
			}
			old := *saved.Login
			saved.Token, saved.Login = "", nil
			f.Contexts[slices.IndexFunc(f.Contexts, func(s savedContext) bool { return s.Name == name })] = saved
			if err := c.saveContexts(f); err != nil {
				return err
			}
			c.notef("signed out of context %s", name)
			if old.Refresh == "" {
				return nil
			}
			transport, err := c.transport(saved, c.context != "", true)
			if err != nil {
				return err
			}
			if err := revoke(speaking(ctx, transport), old); err != nil {
				c.notef("warning: %s was not told: %s", old.Issuer, c.failureOf(err).Message)
			}
			return nil
		},
	}
}
