package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	registryv1 "countersign/proto/countersign/registry/v1"
)

func newWhoAmICommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "whoami", Short: "Say who you are to Countersign, and what your token may be used for", Args: cobra.NoArgs,
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, _ []string) error {
			who, err := api.identity.WhoAmI(ctx, &registryv1.WhoAmIRequest{})
			if err != nil {
				return err
			}
			return c.showWho(who)
		}),
	}
}

func (c *cli) showWho(who *registryv1.WhoAmIResponse) error {
	return c.show(who, []string{who.GetSubject()}, func(s *sheet) {
		s.field("Subject", who.GetSubject())
		s.field("Tenant", who.GetTenant())
		s.field("Roles", orElse("none", strings.Join(who.GetRoles(), ", ")))
		s.field("Scopes", orElse("none", strings.Join(who.GetScopes(), ", ")))
		s.field("Issuer", orElse("the installation's own file of tokens", who.GetIssuer()))
		if end := who.GetExpireTime(); end != nil {
			s.field("Token ends", end.AsTime().Format("2006-01-02 15:04:05 MST"))
		}
		if s.wide {
			s.field("May call", strings.Join(who.GetPermissions(), ", "))
		}
	})
}

// orElse gives a text, or what stands for there being none.
func orElse(none, text string) string {
	if text == "" {
		return none
	}
	return text
}
