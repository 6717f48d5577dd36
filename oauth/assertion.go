package oauth

import (
	"context"
	"strings"

	"countersign/registry"
	"countersign/secrets"
)

// Fixed is a token that was resolved for this use, such as a projected one of
// Kubernetes, which is read anew for each.
func Fixed(value secrets.Value) Assertion {
	return func(context.Context, string) (secrets.Value, error) {
		text := strings.TrimSpace(value.Reveal())
		if text == "" || len(text) > maxToken || strings.Trim(strings.TrimRight(text, "="), b64token) != "" {
			return secrets.Value{}, registry.Errorf(registry.ReasonSecretRefUnresolved, "what is to stand for us is no token").
				With("phase", phase).WithNext("have the operator put the workload's token where its reference says")
		}
		return secrets.Secret(text), nil
	}
}
