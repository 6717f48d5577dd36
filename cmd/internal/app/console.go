package app

import (
	"net/http"

	"countersign/cmd/internal/config"
	"countersign/console"
)

// Console makes the web console as the configuration says, with links to the
// Temporal namespace; nil when it is not wanted.
func Console(conf config.Config, namespace string) (http.Handler, error) {
	c := conf.Console
	if !c.Enabled {
		return nil, nil //nolint:nilnil // no console is no failure
	}
	scopes := c.Scopes
	if len(scopes) == 0 {
		scopes = []string{"openid"}
	}
	return console.New(console.Options{
		Base: c.BasePath, Connect: c.Origins(),
		Config: console.Config{
			Issuer: c.Issuer, ClientID: c.ClientID, Scopes: scopes, Audience: c.Audience, Version: ReadBuild().Version,
			TemporalUI: conf.Temporal.UIURL, TemporalNamespace: namespace,
		},
	})
}
