package mcpclient_test

import (
	"slices"
	"testing"

	"countersign/mcpclient"
	"countersign/mcptest"
	"countersign/registry"
)

// TestAServerThatClaimsAuthenticationIsAskedWithout (R22), before any credential is
// shown; one that answers is told of.
func TestAServerThatClaimsAuthenticationIsAskedWithout(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		enforced, lists, credential bool
		claims                      registry.Authentication
		open                        bool
	}{
		"it refuses":                     {true, false, true, registry.AuthOAuth2, false},
		"it refuses its lists only":      {true, true, true, registry.AuthWorkloadIdentity, false},
		"it answers":                     {false, false, true, registry.AuthOAuth2, true},
		"it answers, and we have none":   {false, false, false, registry.AuthOAuth2, true},
		"it answers, and claims no such": {false, false, true, registry.AuthNoneException, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script := mcptest.Script{}
			script.List("tools/list", mcptest.Items(`{"name":"a"}`))
			if on := "*"; tt.enforced {
				if tt.lists {
					on = "tools/list"
				}
				script.Fault(on, wants("t0ken"))
			}
			s := mcptest.New(t, script)
			c := client(nil)
			if tt.credential {
				c = (&pass{tokens: []string{"t0ken"}}).client(nil)
			}
			c.AskBare = true
			to := target(s.URL)
			to.Authentication = tt.claims
			surface, report, err := c.Discover(t.Context(), to, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			if slices.Contains(surface.Quirks, registry.QuirkAuthNotEnforced) != tt.open {
				t.Errorf("%v", surface.Quirks)
			}
			asked := slices.ContainsFunc(report.Steps, func(s mcpclient.Step) bool { return s.Name == "without credentials" && s.OK != tt.open })
			if asked != (tt.credential && tt.claims != registry.AuthNoneException) {
				t.Errorf("%+v", report.Steps)
			}
			if first := s.Calls()[0].Header.Get("Authorization"); asked && first != "" {
				t.Errorf("it was shown %q first", first)
			}
		})
	}
}
