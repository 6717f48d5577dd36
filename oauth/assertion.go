package oauth

import (
	"context"
	"os"
	"strings"

	"countersign/registry"
	"countersign/secrets"
)

// Fixed is a token that was resolved for this use.
func Fixed(value secrets.Value) Assertion {
	return func(context.Context, string) (secrets.Value, error) {
		return secrets.Secret(strings.TrimSpace(value.Reveal())), nil
	}
}

// File is a token that somebody else keeps fresh in a file, as Kubernetes does with
// projected service account tokens. It is read for each use, so that a new one counts
// from then on. The path is the operator's.
func File(path string) Assertion {
	return func(context.Context, string) (secrets.Value, error) {
		fault := func(why string) error {
			return registry.Errorf(registry.ReasonSecretRefUnresolved, "the workload's token cannot be read: %s", why).
				With("phase", phase).WithNext("see that the projected token is mounted where the configuration says, and readable")
		}
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxToken {
			return secrets.Value{}, fault("there is no such file, or it is too large")
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return secrets.Value{}, fault("the file cannot be read")
		}
		text := strings.TrimSpace(string(raw))
		if text == "" || strings.Trim(strings.TrimRight(text, "="), b64token) != "" {
			return secrets.Value{}, fault("the file holds no token")
		}
		return secrets.Secret(text), nil
	}
}
