package registry_test

import (
	"strings"
	"testing"
	"time"

	"countersign/registry"
)

func TestWhatIsWrongWithAProvider(t *testing.T) {
	t.Parallel()
	good := registry.ProviderConfig{
		BaseURL: "https://ext.example/base", ExtensionID: "acme.tools", Authentication: registry.AuthOAuth2, GovernancePolicyRef: "default",
	}
	if err := registry.CheckProvider("tools", good, registry.Installation{}); err != nil {
		t.Fatal(err)
	}
	open := good
	open.Authentication, open.ExceptionReason = registry.AuthNoneException, "a demo"
	if err := open.Check(registry.Installation{AllowNoneExceptions: true}); err != nil {
		t.Error(err)
	}
	if err := open.Check(registry.Installation{}); registry.ReasonOf(err) != registry.ReasonNoneExceptionForbidden {
		t.Error(err)
	}
	secret := good
	secret.BaseURL = "https://user:pass@ext.example"
	if err := secret.Check(registry.Installation{}); registry.ReasonOf(err) != registry.ReasonSecretInRequest {
		t.Error(err)
	}
	for field, spoil := range map[string]func(*registry.ProviderConfig){
		"aep.base_url":              func(c *registry.ProviderConfig) { c.BaseURL = "ftp://x" },
		"aep.extension_id":          func(c *registry.ProviderConfig) { c.ExtensionID = "a\u202eb" },
		"aep.authentication":        func(c *registry.ProviderConfig) { c.Authentication = "" },
		"aep.exception_reason":      func(c *registry.ProviderConfig) { c.ExceptionReason = "why" },
		"aep.governance_policy_ref": func(c *registry.ProviderConfig) { c.GovernancePolicyRef = "@" },
		"description":               func(c *registry.ProviderConfig) { c.Description = strings.Repeat("x", 5000) },
	} {
		bad := good
		spoil(&bad)
		e, ours := registry.AsError(bad.Check(registry.Installation{}))
		if !ours || e.Reason != registry.ReasonInvalidArgument || len(e.Fields) != 1 || e.Fields[0].Path != field {
			t.Errorf("%s: %+v", field, e)
		}
	}
	if e, ours := registry.AsError(registry.CheckProvider("a.b", good, registry.Installation{})); !ours || e.Fields[0].Path != "name" {
		t.Errorf("%+v", e)
	}
}

func TestARefreshIsBegunOrJoined(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := registry.Provider{Config: 1, Refresh: registry.ProviderRefresh{Status: registry.RefreshNever}}
	steps := []struct {
		running int64
		config  int64
		begins  bool
		number  int64
	}{
		{0, 1, true, 1}, {1, 1, false, 1}, {0, 1, true, 2}, {2, 5, true, 3}, {3, 5, false, 3},
	}
	for i, step := range steps {
		p.Config = step.config
		if begins := p.Begin("ann", step.running, now); begins != step.begins || p.Refresh.Number != step.number || p.Refresh.Config != step.config {
			t.Errorf("step %d: %v, %+v", i, begins, p.Refresh)
		}
	}
	p.Refresh.Fail(registry.Errorf(registry.ReasonDescriptorInvalid, "x").WithField("a", "b"), now)
	if p.Refresh.Status != registry.RefreshFailed || len(p.Refresh.Faults) != 1 {
		t.Errorf("%+v", p.Refresh)
	}
	if !p.Begin("bob", 3, now) || p.Refresh.Faults != nil || p.Refresh.Reason != "" || p.Refresh.RequestedBy != "bob" {
		t.Errorf("after a failure: %+v", p.Refresh)
	}
}
