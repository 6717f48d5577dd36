package mcpclient_test

import (
	"testing"

	"countersign/mcpclient"
	"countersign/registry"
)

func TestASandboxIsTried(t *testing.T) {
	if err := mcpclient.TrySandbox(t.Context(), registry.SandboxBubblewrap, nil); err != nil {
		t.Error(err)
	}
	t.Setenv("PATH", t.TempDir())
	for _, kind := range []registry.Sandbox{registry.SandboxBubblewrap, registry.SandboxPodman} {
		if err := mcpclient.TrySandbox(t.Context(), kind, nil); registry.ReasonOf(err) != registry.ReasonSandboxUnavailable {
			t.Errorf("without the program of %s: %v", kind, err)
		}
	}
}
