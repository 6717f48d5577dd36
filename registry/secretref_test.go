package registry_test

import (
	"strings"
	"testing"

	"countersign/registry"
)

func TestSecretReferences(t *testing.T) {
	t.Parallel()
	for ref, good := range map[string]bool{
		"env:TOKEN":                          true,
		"env:_t0":                            true,
		"env:" + strings.Repeat("A", 128):    true,
		"env:" + strings.Repeat("A", 129):    false,
		"env:":                               false,
		"env:0A":                             false,
		"env:A-B":                            false,
		"env:A B":                            false,
		"env:A\n":                            false,
		"env:Ä":                              false,
		"env: A":                             false,
		"ENV:A":                              false,
		"env":                                false,
		"":                                   false,
		":":                                  false,
		"TOKEN":                              false,
		"file:token":                         true,
		"file:github/token.txt":              true,
		"file:a:b":                           true,
		"file:..data/token":                  true,
		"file:...":                           true,
		"file:" + strings.Repeat("a", 255):   true,
		"file:" + strings.Repeat("a", 256):   false,
		"file:":                              false,
		"file:.":                             false,
		"file:..":                            false,
		"file:/etc/shadow":                   false,
		"file:a/../b":                        false,
		"file:../b":                          false,
		"file:a/..":                          false,
		"file:./a":                           false,
		"file:a//b":                          false,
		"file:a/":                            false,
		`file:a\b`:                           false,
		`file:..\b`:                          false,
		"file:a\x00b":                        false,
		"file:a\nb":                          false,
		"file:a\u202eb":                      false,
		"file:a\xffb":                        false,
		"plain:text":                         false,
		"vault:a#b":                          false,
		"vault:kv/a#b":                       true,
		"vault:kv/team-a/mcp.search#token":   true,
		"vault:kv/a":                         false,
		"vault:kv/a#":                        false,
		"vault:kv/../a#b":                    false,
		"vault:kv/./a#b":                     false,
		"vault:/kv/a#b":                      false,
		"vault:kv//a#b":                      false,
		"vault:kv/a/#b":                      false,
		"vault:kv/a#b#c":                     false,
		"vault:kv/a?version=1#b":             false,
		"vault:kv/%2e%2e/a#b":                false,
		"vault:kv/a b#c":                     false,
		"ghp_0123456789abcdef0123456789abcd": false,
		"https://user:password@h/":           false,
	} {
		parsed, err := registry.ParseSecretRef(ref)
		if (err == nil) != good {
			t.Errorf("%q: %v", ref, err)
		}
		if err == nil {
			if parsed.String() != ref {
				t.Errorf("%q became %q", ref, parsed)
			}
			continue
		}
		e, ok := registry.AsError(err)
		if !ok || e.Reason != registry.ReasonSecretRefInvalid || e.Next == "" {
			t.Errorf("%q: %v", ref, err)
		}
		// What is no reference may be a secret itself.
		if _, name, _ := strings.Cut(ref, ":"); len(name) > 3 && strings.Contains(e.Message+e.Next, name) {
			t.Errorf("%q is repeated: %v", ref, e)
		}
	}
}
