package registry_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/registry"
)

// Never probed, not probed because of its state, unknown, withheld and empty are
// five answers, and none of them is "probed".
func TestWhatProbesKnowIsSixAnswers(t *testing.T) {
	t.Parallel()
	empty, err := registry.ToolsDigest(nil, registry.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	active := registry.Server{State: registry.StateActive, TargetDigest: "t", ToolsDigest: "tools"}
	degraded := active
	degraded.State, degraded.Causes = registry.StateDegraded, registry.CauseSet{registry.CauseHandshake}
	with := func(state registry.State) registry.Server {
		s := active
		s.State = state
		return s
	}
	since := time.Unix(1_700_000_000, 0).UTC()
	probe := func(outcome registry.Outcome, reason registry.Reason, edit ...func(*registry.Probe)) *registry.Probe {
		p := &registry.Probe{Outcome: outcome, Reason: reason, TargetDigest: "t", ToolsDigest: "tools", Since: since, Message: "so it was"}
		for _, e := range edit {
			e(p)
		}
		return p
	}
	ok := func(edit ...func(*registry.Probe)) *registry.Probe { return probe(registry.OutcomeOK, "", edit...) }
	for name, tt := range map[string]struct {
		server registry.Server
		last   *registry.Probe
		want   string
	}{
		"good":                      {active, ok(), "ok healthy probed []"},
		"never":                     {active, nil, "never_probed healthy never_probed []"},
		"reached elsewhere before":  {active, ok(func(p *registry.Probe) { p.TargetDigest = "u" }), "never_probed healthy never_probed []"},
		"registered":                {with(registry.StateRegistered), nil, "never_discovered unknown not_probed []"},
		"verified":                  {with(registry.StateVerified), ok(), "verified healthy not_probed [AssetMaintainer PlatformAdmin]"},
		"retired":                   {with(registry.StateRetired), ok(), "retired unknown not_probed []"},
		"ours":                      {active, probe(registry.OutcomeDependency, registry.ReasonSecretRefUnresolved), "secret_reference_unresolved unknown unknown [installation_operator]"}, //nolint:dupword // the level, and what probes know
		"asks for patience":         {active, probe(registry.OutcomeDeferred, registry.ReasonRateLimited), "rate_limited healthy withheld []"},
		"failed, not long enough":   {active, probe(registry.OutcomeFailed, registry.ReasonDNS), "dns degraded withheld [AssetMaintainer PlatformAdmin]"},
		"fails":                     {degraded, probe(registry.OutcomeFailed, registry.ReasonTimeout), "timeout unhealthy probed [server_operator installation_operator]"},
		"good, not long enough":     {degraded, ok(), "recovering unhealthy withheld []"},
		"ours while it is degraded": {degraded, probe(registry.OutcomeDependency, registry.ReasonDependency), "handshake unhealthy unknown [server_operator]"},
		"offers nothing":            {active, ok(func(p *registry.Probe) { p.ToolsDigest = empty }), "no_tools healthy empty []"},
	} {
		t.Run(name, func(t *testing.T) {
			h := registry.HealthOf(&tt.server, tt.last)
			if got := fmt.Sprintf("%s %s %s %v", h.Reason, h.Level, h.Probing, h.Who); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if (len(h.Who) > 0) && h.Next == "" || h.Summary == "" || h.Probing.Means() == "" {
				t.Errorf("%+v", h)
			}
			if tt.last != nil && tt.last.TargetDigest == "t" && tt.server.State.Probed() && h.Reason != "handshake" && h.Since != since {
				t.Errorf("since %s", h.Since)
			}
		})
	}
}

// Who can act is said of everything that somebody is to do.
func TestWhatIsToBeDoneHasSomebodyWhoCan(t *testing.T) {
	t.Parallel()
	for _, reason := range []registry.Reason{
		registry.ReasonUnreachable, registry.ReasonTimeout, registry.ReasonTLS, registry.ReasonDNS, registry.ReasonAuthRequired, registry.ReasonNotMCP,
		registry.ReasonBlockedAddress, registry.ReasonUnknownCommand, registry.ReasonCommandChanged, registry.ReasonLaunchPending,
		registry.ReasonProcessLimit, registry.ReasonSandboxUnavailable, registry.ReasonUnsupportedVersion, registry.ReasonQuotaExceeded,
		registry.ReasonTooLarge, registry.ReasonRateLimited, registry.ReasonDependency, registry.ReasonSecretRefUnresolved, registry.ReasonInvalidClient,
	} {
		for _, h := range []registry.Health{
			registry.HealthOf(&registry.Server{State: registry.StateActive, Discovery: registry.DiscoveryRun{Status: registry.DiscoveryFailed, Reason: reason}}, nil),
			registry.HealthOfTest(reason, "it was so", 0, time.Time{}),
		} {
			if h.Next == "" || len(h.Who) == 0 {
				t.Errorf("%s: %+v", reason, h)
			}
		}
	}
}

// What a test says of a fault is what a probe would have come to.
func TestATestSaysWhatAProbeSays(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0).UTC()
	server := registry.Server{State: registry.StateDegraded, Causes: registry.CauseSet{registry.CauseHandshake}}
	tested := registry.HealthOfTest(registry.ReasonTimeout, "no answer", 0, at)
	probed := registry.HealthOf(&server, &registry.Probe{Outcome: registry.OutcomeFailed, Reason: registry.ReasonTimeout, Message: "no answer", Since: at})
	tested.Next, probed.Next = "", "" // of the probe it is that it goes on by itself
	if diff := cmp.Diff(probed, tested); diff != "" {
		t.Error(diff)
	}
	server = registry.Server{State: registry.StateActive}
	probed = registry.HealthOf(&server, &registry.Probe{Outcome: registry.OutcomeOK, ToolsDigest: "x", Since: at})
	if diff := cmp.Diff(probed, registry.HealthOfTest("", "", 3, at)); diff != "" {
		t.Error(diff)
	}
	empty, err := registry.ToolsDigest(nil, registry.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	probed = registry.HealthOf(&server, &registry.Probe{Outcome: registry.OutcomeOK, ToolsDigest: empty, Since: at})
	if diff := cmp.Diff(probed, registry.HealthOfTest("", "", 0, at)); diff != "" {
		t.Error(diff)
	}
	for reason, want := range map[registry.Reason]registry.Level{
		registry.ReasonDependency: registry.LevelUnknown, registry.ReasonRateLimited: registry.LevelHealthy, registry.ReasonMalformedList: registry.LevelDegraded,
	} {
		if h := registry.HealthOfTest(reason, "", 0, at); h.Level != want {
			t.Errorf("%s: %+v", reason, h)
		}
	}
}

func TestFlappingIsSaid(t *testing.T) {
	t.Parallel()
	server := registry.Server{State: registry.StateActive}
	steady := registry.HealthOf(&server, &registry.Probe{Outcome: registry.OutcomeOK, ToolsDigest: "x", Flaps: 4})
	comes := registry.HealthOf(&server, &registry.Probe{Outcome: registry.OutcomeOK, ToolsDigest: "x", Flaps: 14})
	if steady.Summary == comes.Summary {
		t.Errorf("%q", comes.Summary)
	}
}
