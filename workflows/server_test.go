package workflows_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"countersign/activities"
	"countersign/registry"
	"countersign/workflows"
)

func unreachable() error { return registry.Errorf(registry.ReasonUnreachable, "connection refused") }

func (p *play) probe(outcome registry.Outcome) {
	s := p.server("demo")
	p.n++
	p.env.SignalWorkflow(workflows.SignalProbe, registry.Probe{
		TenantID: "default", ServerID: serverID, Window: p.env.Now().UTC(), Outcome: outcome, TargetDigest: s.TargetDigest,
		ToolsDigest: s.ToolsDigest, At: time.Now().UTC(),
	})
}

func TestTheWholeLifeOfAServer(t *testing.T) {
	t.Parallel()
	p := newHouse(t).play()
	p.at(0, p.register)
	p.at(time.Second, func() { p.is(registry.StateVerified); p.approve("a", "b") })
	p.at(2*time.Second, func() { p.is(registry.StateActive); p.probe(registry.OutcomeFailed) })
	p.at(3*time.Second, func() { p.is(registry.StateDegraded); p.probe(registry.OutcomeOK) })
	p.at(4*time.Second, func() { p.is(registry.StateActive); p.retire() })
	p.run()
	p.is(registry.StateRetired)
}

func TestAWorkflowWithoutARegistrationEnds(t *testing.T) {
	t.Parallel()
	p := newHouse(t).play()
	p.run()
	if at := time.Until(p.env.Now()); at > time.Hour {
		t.Errorf("it waited %s", at)
	}
}

func TestARefusedRegistrationEndsTheWorkflow(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	if _, err := h.acts.Register(t.Context(), registration()); err != nil {
		t.Fatal(err)
	}
	p := h.play()
	p.at(0, func() {
		in := registration()
		in.Key, in.Operation.ID, in.Registration.ServerID = "other", "op-other", "srv_0190b8a0000070008000000000000002"
		p.update(workflows.UpdateRegister, "op-other", in, func(_ any, err error) {
			e, ok := registry.AsError(workflowsError(err))
			if !ok || e.Reason != registry.ReasonServerExists || e.Fact("server_id") != serverID {
				t.Errorf("%v", err)
			}
		})
	})
	p.run()
}

// workflowsError reads an update's error as the client does.
func workflowsError(err error) error { return workflows.ErrorOf(err) }

func TestAFailedFirstDiscoveryIsTriedAgainWithGrowingPauses(t *testing.T) {
	t.Parallel()
	p := newHouse(t).play()
	p.peer.fails(registry.Errorf(registry.ReasonTLS, "certificate expired")) // permanent: one look each
	p.at(0, p.register)
	p.at(30*time.Second, func() {
		p.is(registry.StateRegistered)
		if s := p.server("demo"); s.Discovery.Reason != registry.ReasonTLS {
			t.Errorf("%+v", s.Discovery)
		}
	})
	looks := func(want int) func() {
		return func() {
			if got := p.peer.seen(); got != want {
				t.Errorf("%d looks, want %d", got, want)
			}
		}
	}
	p.at(59*time.Second, looks(1))
	p.at(90*time.Second, looks(2))
	p.at(200*time.Second, looks(3)) // 1 + 2 minutes
	p.at(240*time.Second, func() { p.peer.offers("a") })
	p.at(8*time.Minute, func() { looks(4)(); p.is(registry.StateVerified); p.retire() })
	p.run()
}

func TestADeadServerIsLookedAtThreeTimesInOneDiscovery(t *testing.T) {
	t.Parallel()
	p := newHouse(t).play()
	p.peer.fails(unreachable())
	p.at(0, p.register)
	p.at(30*time.Second, func() {
		if got := p.peer.seen(); got != 3 {
			t.Errorf("%d looks, want 3", got)
		}
		p.retire()
	})
	p.run()
}

func TestAnApprovalRequestExpires(t *testing.T) {
	t.Parallel()
	p := newHouse(t).play()
	p.at(0, p.register)
	p.at(registry.ReviewTTL+time.Minute, func() {
		s := p.server("demo")
		if s.Review.Status != registry.ReviewExpired || s.State != registry.StateVerified {
			t.Errorf("%s %+v", s.State, s.Review)
		}
		p.retire()
	})
	p.run()
}

// R25, C8.
func TestAnExceptionExpiresByItsTimer(t *testing.T) {
	t.Parallel()
	p := newHouse(t).play()
	expiry := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	start := p.env.Now()
	p.at(0, func() {
		in := registration()
		in.Registration.Authentication, in.Registration.ExceptionReason = registry.AuthNoneException, "a demo"
		p.update(workflows.UpdateRegister, "op-register", in, nil)
	})
	p.at(time.Second, func() {
		in := p.approval("a")
		in.Ruling.Approval.ExceptionExpiresAt = expiry
		p.update(workflows.DecisionApprove, in.Operation.ID, in, nil)
	})
	p.at(2*time.Second, func() { p.is(registry.StateActive) })
	p.at(expiry.Sub(start)+time.Second, func() {
		p.is(registry.StateDegraded)
		if s := p.server("demo"); !s.Causes.Has(registry.CauseAuthExceptionExpired) {
			t.Errorf("%v", s.Causes)
		}
		p.retire()
	})
	p.run()
}

func TestUnsignedSignalsCountOnlyWhereTheyAreAccepted(t *testing.T) {
	t.Parallel()
	for _, accepted := range []bool{true, false} {
		h := newHouse(t)
		h.acts.AcceptUnsigned = accepted
		p := h.play()
		p.at(0, p.register)
		p.at(time.Second, func() { p.env.SignalWorkflow(workflows.DecisionApprove, p.approval("a")) })
		p.at(2*time.Second, func() {
			want := registry.StateVerified
			if accepted {
				want = registry.StateActive
			}
			p.is(want)
			p.env.SignalWorkflow(workflows.DecisionReject, "not a decision")
			stranger := p.approval("a")
			stranger.ServerID = "srv_0190b8a0000070008000000000000009"
			p.env.SignalWorkflow(workflows.DecisionApprove, stranger)
		})
		p.at(3*time.Second, p.retire)
		p.run()
		decisions, err := h.db.Tenant("default").Decisions(t.Context(), serverID)
		if err != nil {
			t.Fatal(err)
		}
		var got []registry.Reason
		for _, d := range decisions {
			if d.Origin != registry.OriginSignalUnsigned {
				t.Errorf("origin %s", d.Origin)
			}
			got = append(got, d.Reason)
		}
		want := []registry.Reason{registry.ReasonUnsignedSignal, registry.ReasonMalformedSignal, registry.ReasonServerNotFound}
		if accepted {
			want[0] = ""
		}
		if len(got) != 3 {
			t.Fatalf("accepted %v: %v", accepted, got)
		}
		for _, w := range want {
			if !slices.Contains(got, w) {
				t.Errorf("accepted %v: %v lacks %q", accepted, got, w)
			}
		}
	}
}

// R54, R147.
func TestOneDiscoveryAtATimeAndRetireEndsIt(t *testing.T) {
	t.Parallel()
	p := newHouse(t).play()
	p.peer.hold = make(chan struct{})
	var numbers []int64
	discover := func() {
		op := p.op("discover")
		p.update(workflows.UpdateDiscover, op.ID, activities.BeginDiscoveryInput{Tenant: "default", ServerID: serverID, Operation: op, Key: op.ID, BodyHash: "h"},
			func(out any, err error) {
				if err != nil {
					t.Error(err)
					return
				}
				numbers = append(numbers, out.(activities.BeginDiscoveryOutput).Number)
			})
	}
	p.at(0, p.register)
	p.at(time.Second, func() { discover(); discover() })
	p.at(2*time.Second, p.retire)
	p.run()
	if len(numbers) != 2 || numbers[0] != 1 || numbers[1] != 1 {
		t.Errorf("discoveries %v, want the running one twice", numbers)
	}
	p.is(registry.StateRetired)
	if s := p.server("demo"); s.SnapshotDigest != "" {
		t.Error("a late discovery reached the retired server")
	}
}

func TestUpdatesForARetiredNamesakeAreRefused(t *testing.T) {
	t.Parallel()
	p := newHouse(t).play()
	p.at(0, p.register)
	p.at(time.Second, func() {
		in := p.approval("a")
		in.ServerID = "srv_0190b8a0000070008000000000000009"
		p.update(workflows.DecisionApprove, in.Operation.ID, in, func(_ any, err error) {
			if registry.ReasonOf(workflowsError(err)) != registry.ReasonServerNotFound {
				t.Errorf("%v", err)
			}
		})
	})
	p.at(2*time.Second, p.retire)
	p.run()
}

// R149, H21: everything is carried over.
func TestContinueAsNewCarriesTheServerOver(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	p := h.play()
	p.at(0, p.register)
	p.at(time.Second, func() { p.approve("a") })
	p.at(2*time.Second, func() { p.env.SetCurrentHistoryLength(100); p.probe(registry.OutcomeDependency) })
	p.env.ExecuteWorkflow(workflows.ServerWorkflow, workflows.ServerInput{Tenant: "default", Name: "demo", MaxHistory: 50})
	err := p.env.GetWorkflowError()
	var next *workflow.ContinueAsNewError
	if !errors.As(err, &next) {
		t.Fatalf("%v", err)
	}
	var in workflows.ServerInput
	if err := converter.GetDefaultDataConverter().FromPayloads(next.Input, &in); err != nil {
		t.Fatal(err)
	}
	if in.State.Server.ServerID != serverID || in.MaxHistory != 50 || in.State.Server.State != registry.StateActive {
		t.Errorf("%+v", in)
	}
	// The next run takes decisions where the last one stopped.
	q := h.play()
	in.MaxHistory = 0
	q.at(time.Second, func() { q.probe(registry.OutcomeFailed) })
	q.at(1500*time.Millisecond, func() { q.is(registry.StateDegraded); q.probe(registry.OutcomeOK) })
	q.at(2*time.Second, func() { q.is(registry.StateActive); q.retire() })
	q.env.ExecuteWorkflow(workflows.ServerWorkflow, in)
	if err := q.env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
}
