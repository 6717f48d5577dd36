package secrets_test

import (
	"strings"
	"testing"

	"countersign/registry"
	"countersign/secrets"
)

func TestVariablesAlsoHoldWhatIsNoSecret(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-value"
	for text, want := range map[string]registry.Reason{
		"env:TOKEN":                              "",
		"file:a/b":                               "",
		"plain:":                                 "",
		"plain:8080":                             "",
		"plain:env:TOKEN":                        "",
		"plain: a\n=\u202e":                      "",
		"plain:" + strings.Repeat("x", 16<<10):   "",
		"plain:" + strings.Repeat("x", 16<<10+1): registry.ReasonInvalidArgument,
		"plain:" + secret + "\x00":               registry.ReasonInvalidArgument,
		"plain:" + secret + "\xff":               registry.ReasonInvalidArgument,
		"Plain:" + secret:                        registry.ReasonSecretRefInvalid,
		secret:                                   registry.ReasonSecretRefInvalid,
		"":                                       registry.ReasonSecretRefInvalid,
	} {
		err := secrets.CheckVariable(text)
		e, ok := registry.AsError(err)
		if ok != (want != "") || ok && e.Reason != want {
			t.Errorf("%.20q: %v", text, err)
		}
		if ok && strings.Contains(e.Message+e.Next, secret) {
			t.Errorf("it is repeated: %+v", e)
		}
	}
}
