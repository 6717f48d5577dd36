package registry_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/registry"
)

func types(c registry.Changes) []registry.EventType {
	var out []registry.EventType
	for _, e := range c.Events {
		out = append(out, e.Type)
	}
	return out
}

// payload gives the payload of the one event of a type.
func payload[P any](t *testing.T, c registry.Changes, kind registry.EventType) P {
	t.Helper()
	for _, e := range c.Events {
		if e.Type == kind {
			return e.Payload.(P)
		}
	}
	t.Fatalf("there is no %s: %v", kind, types(c))
	panic("unreachable")
}

// The three events of R160 have these fields, to the byte.
func TestTheThreeEventsAreExactlyTheirs(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]registry.Event{
		`{"type":"tool-execution.mcp-servers.v1.mcp-server-registered","payload":{"serverId":"s","tenantId":"t","direction":"consumed","transport":"streamable_http","authentication":"workload_identity"}}`: {
			Type: registry.EventServerRegistered, Payload: registry.ServerRegistered{
				ServerID: "s", TenantID: "t", Direction: registry.DirectionConsumed, Transport: registry.TransportStreamableHTTP,
				Authentication: registry.AuthWorkloadIdentity,
			},
		},
		`{"type":"tool-execution.mcp-servers.v1.mcp-server-state-changed","payload":{"serverId":"s","tenantId":"t","fromState":"verified","toState":"active"}}`: {
			Type: registry.EventServerStateChanged, Payload: registry.ServerStateChanged{
				ServerID: "s", TenantID: "t", FromState: registry.StateVerified, ToState: registry.StateActive,
			},
		},
		`{"type":"tool-execution.mcp-servers.v1.mcp-capabilities-discovered","payload":{"serverId":"s","tenantId":"t","tools":4,"resources":3,"prompts":2,"unbound":1}}`: {
			Type: registry.EventCapabilitiesDiscovered, Payload: registry.CapabilitiesDiscovered{
				ServerID: "s", TenantID: "t", Tools: 4, Resources: 3, Prompts: 2, Unbound: 1,
			},
		},
	} {
		got, err := json.Marshal(e)
		if err != nil || string(got) != want {
			t.Errorf("%s, want %s (%v)", got, want, err)
		}
	}
}

func TestEveryTypeOfEventIsInTheTable(t *testing.T) {
	t.Parallel()
	seen := map[registry.EventType]bool{}
	for _, k := range append(registry.EventKinds(), registry.InboundEventKinds()...) {
		if seen[k.Type] || k.About == "" || k.Payload == nil {
			t.Errorf("%+v", k)
		}
		seen[k.Type] = true
	}
	if !registry.KnownEvent(registry.EventTest) || registry.KnownEvent(registry.EventAssetReleaseRevoked) {
		t.Error("what is known is what is sent")
	}
}

func TestWhatPeopleDecideIsTold(t *testing.T) {
	t.Parallel()
	l := newLife(t, nil)
	l.sees("a", "b")
	asked := payload[registry.ReviewRequested](t, l.last, registry.EventReviewRequested)
	if asked.Digest != l.r.Server.Review.Digest || asked.RequestedBy != "ann" || asked.EndsAt.IsZero() {
		t.Errorf("%+v", asked)
	}
	l.approves("a")
	want := []registry.EventType{registry.EventServerStateChanged, registry.EventDecisionRecorded, registry.EventBindingsChanged}
	if got := types(l.last); !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	if d := payload[registry.DecisionRecorded](t, l.last, registry.EventDecisionRecorded); d.Verb != registry.VerbApprove || d.Subject != "ann" || d.Digest != asked.Digest {
		t.Errorf("%+v", d)
	}
	bound := payload[registry.BindingsChanged](t, l.last, registry.EventBindingsChanged)
	if diff := cmp.Diff(registry.BindingsChanged{
		ServerID: l.r.Server.ServerID, TenantID: "default", Bound: 1,
		Changes: []registry.BindingChange{{Kind: registry.KindTool, Name: "a", ToolID: "demo.a", Bound: true}},
	}, bound); diff != "" {
		t.Error(diff)
	}

	l.must(func(time.Time) error { return l.r.SetAllEnabled([]string{"a", "b"}, true) })
	switched := payload[registry.ToolsSwitched](t, l.last, registry.EventToolsSwitched)
	if switched.Switch != registry.SwitchEnabled || !switched.On || switched.Count != 1 || !slices.Equal(switched.Tools, []string{"demo.b"}) {
		t.Errorf("%+v", switched)
	}
	l.must(func(time.Time) error { return l.r.SetAllEnabled([]string{"a", "b"}, true) })
	if len(l.last.Events) != 0 {
		t.Errorf("what is so already was told: %v", types(l.last))
	}
}

func TestDriftIsTold(t *testing.T) {
	t.Parallel()
	l := newLife(t, nil)
	l.sees("a", "b", "c")
	approved := l.r.Server.SnapshotDigest
	l.approves("a", "b", "c")
	l.sees("a:2", "b", "d")
	drift := payload[registry.DriftDetected](t, l.last, registry.EventDriftDetected)
	if diff := cmp.Diff(registry.DriftDetected{
		ServerID: l.r.Server.ServerID, TenantID: "default", ApprovedSnapshot: approved, Snapshot: l.r.Server.SnapshotDigest, New: 1, Changed: 1, Unavailable: 1,
	}, drift); diff != "" {
		t.Error(diff)
	}
	unbound := payload[registry.BindingsChanged](t, l.last, registry.EventBindingsChanged)
	if unbound.Unbound != 1 || unbound.Changes[0].Name != "a" || unbound.Changes[0].Reason != registry.ReasonSchemaChanged {
		t.Errorf("%+v", unbound)
	}
	l.sees("a:2", "b", "d")
	if len(l.last.Events) != 0 {
		t.Errorf("a quiet look made events: %v", types(l.last))
	}
}

func TestAnEventNamesAtMostSoMany(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range registry.MaxEventItems + 5 {
		names = append(names, "t"+string(rune('a'+i/26))+string(rune('a'+i%26)))
	}
	l := newLife(t, nil)
	l.sees(names...)
	l.approves(names...)
	told := payload[registry.BindingsChanged](t, l.last, registry.EventBindingsChanged)
	if told.Bound != len(names) || len(told.Changes) != registry.MaxEventItems {
		t.Errorf("%d bound, %d named", told.Bound, len(told.Changes))
	}
	l.must(func(time.Time) error { return l.r.SetAllEnabled(names, false) })
	if s := payload[registry.ToolsSwitched](t, l.last, registry.EventToolsSwitched); s.Count != len(names) || len(s.Tools) != registry.MaxEventItems {
		t.Errorf("%d switched, %d named", s.Count, len(s.Tools))
	}
}

func TestExceptionsAreTold(t *testing.T) {
	t.Parallel()
	l := newLife(t, func(g *registry.Registration) {
		g.Authentication, g.ExceptionReason = registry.AuthNoneException, "a test"
	})
	l.sees("a")
	ends := t0.Add(48 * time.Hour)
	ruling := approval(l.r.Server.Review.Digest, "a")
	ruling.Approval.ExceptionExpiresAt = ends
	l.must(func(now time.Time) error { return l.r.Decide(ruling, l.op("approve"), now) })
	if g := payload[registry.ExceptionGranted](t, l.last, registry.EventExceptionGranted); !g.EndsAt.Equal(ends) || g.Subject != "ann" {
		t.Errorf("%+v", g)
	}
	l.must(func(now time.Time) error { return l.r.ExpireException(ends, now) })
	if g := payload[registry.ExceptionExpiring](t, l.last, registry.EventExceptionExpired); !g.EndsAt.Equal(ends) {
		t.Errorf("%+v", g)
	}
}
