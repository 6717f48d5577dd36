package config

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
)

// Console says whether the api serves the web console, and how people sign in
// there.
type Console struct {
	Enabled  bool     `koanf:"enabled"`
	BasePath string   `koanf:"base_path"` // where a proxy shows the installation
	Issuer   string   `koanf:"issuer"`    // one of auth.issuers; empty: people paste a token
	ClientID string   `koanf:"client_id"` // a public client there
	Scopes   []string `koanf:"scopes"`    // empty: openid
	Audience string   `koanf:"audience"`  // for issuers that want to be told (a parameter of theirs); empty: not sent
	// ConnectOrigins are what the pages may ask besides us and the issuer.
	ConnectOrigins []string `koanf:"connect_origins"`
}

// basePath is a path that can stand in an HTML attribute as it is.
var basePath = regexp.MustCompile(`^/(?:[A-Za-z0-9_~-][A-Za-z0-9._~-]*/)*$`)

func (c Config) validateConsole() error {
	one := c.Console
	if !basePath.MatchString(one.BasePath) {
		return fmt.Errorf("console.base_path must be a path that begins and ends with a slash, such as /registry/, not %q", one.BasePath)
	}
	if (one.Issuer == "") != (one.ClientID == "") {
		return fmt.Errorf("console.issuer and console.client_id go together")
	}
	if one.Issuer != "" && !slices.ContainsFunc(c.Auth.Issuers, func(i Issuer) bool { return i.Issuer == one.Issuer }) {
		return fmt.Errorf("console.issuer must be the issuer of one of auth.issuers, not %q", one.Issuer)
	}
	for _, origin := range one.ConnectOrigins {
		if got, err := originOf(origin); err != nil || got != origin {
			return fmt.Errorf("console.connect_origins must be origins such as https://id.example.com, not %q", origin)
		}
	}
	return nil
}

// Origins are what the console's pages ask besides where they come from.
func (c Console) Origins() []string {
	out := slices.Clone(c.ConnectOrigins)
	if origin, err := originOf(c.Issuer); err == nil && !slices.Contains(out, origin) {
		out = append([]string{origin}, out...)
	}
	return out
}

func originOf(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	if u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || regexp.MustCompile(`[^A-Za-z0-9.:\[\]-]`).MatchString(u.Host) {
		return "", fmt.Errorf("%q has no origin", address)
	}
	return u.Scheme + "://" + u.Host, nil
}
