package main

import (
	"context"
	"strings"

	"golang.org/x/net/http/httpguts"

	"countersign/mcpclient"
	"countersign/registry"
	"countersign/secrets"
)

// captureHeaders resolves what a captured server is shown; nil: nothing. References
// are those of connections, to what the person at this machine has.
func (c *cli) captureHeaders(ctx context.Context, f *captureFlags) (*mcpclient.Headers, error) {
	refs, err := parseHeaders(f.headers)
	if err != nil || len(refs) == 0 && f.bearer == "" {
		return nil, err
	}
	resolver := secrets.Resolver{Sources: map[string]secrets.Source{
		registry.SchemeEnv:  secrets.Env(func(name string) (string, bool) { value := c.getenv(name); return value, value != "" }),
		registry.SchemeFile: secrets.Files("."),
	}}
	values := make(map[string]secrets.Value, len(refs)+1)
	add := func(flag, name, ref, prefix string) error {
		if _, err := registry.ParseSecretRef(ref); err != nil {
			return noReference(flag)
		}
		value, err := resolver.Resolve(ctx, ref)
		if e, ok := registry.AsError(err); ok {
			return usagef("--%s %s: %s", flag, ref, why(e))
		}
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value.Reveal()) {
			return usagef("--%s %s: the name or the value has characters that a header cannot have", flag, ref)
		}
		for given := range values {
			if strings.EqualFold(given, name) {
				return usagef("--%s: the header %s is given twice", flag, name)
			}
		}
		values[name] = secrets.Secret(prefix + value.Reveal())
		return nil
	}
	for name, ref := range refs {
		if err := add("header", name, ref, ""); err != nil {
			return nil, err
		}
	}
	if f.bearer != "" {
		if err := add("bearer", "Authorization", f.bearer, "Bearer "); err != nil {
			return nil, err
		}
	}
	return mcpclient.NewHeaders(values), nil
}

// why says to somebody at this machine why a secret is not to be had.
func why(e *registry.Error) string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return e.Message
}
