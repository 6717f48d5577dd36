package policy_test

import (
	"testing"

	"countersign/policy"
	"countersign/registry"
)

// The digest is in the records of what was approved under the built-in bundle. A change of the document is a new version
// of it.
const defaultDigest = "sha256:71c3fb5fec1a0030dcd5273b91676a93f0430d97d3aaeea70f7290d5212a71dd"

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
