package policy_test

import (
	"testing"

	"countersign/policy"
	"countersign/registry"
)

// The digest is in the records of what was approved under the built-in bundle. A change of the document is a new version
// of it.
const defaultDigest = "sha256:8d398056298c1b588728c8bfc9ab926145e6dddaa8a0759b51d481d9597ae71d"

func TestTheBuiltInBundleIsWhatItWas(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	if p.Digest() != defaultDigest || p.Ref() != "default@1" {
		t.Errorf("the built-in bundle is %s with digest %s, it was default@1 with %s", p.Ref(), p.Digest(), defaultDigest)
	}
	if p.Bundle().Name != registry.PolicyDefault {
		t.Errorf("the built-in bundle is called %s, servers name %s", p.Bundle().Name, registry.PolicyDefault)
	}
}

func TestTheBuiltInBundlePassesItsTests(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	results := policy.Test(p, p.Bundle().Tests)
	for _, r := range results {
		if !r.Passed() {
			t.Errorf("%s: %q", r.Case, r.Diffs)
		}
	}
	if len(results) < 15 {
		t.Errorf("the built-in bundle has %d tests", len(results))
	}
}
