package workflows

import (
	"fmt"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"countersign/activities"
	"countersign/registry"
)

// pending says whether a signal waits.
func (s *server) pending(ctx workflow.Context) bool {
	if workflow.GetSignalChannel(ctx, SignalProbe).Len() > 0 {
		return true
	}
	for _, verb := range decisions {
		if workflow.GetSignalChannel(ctx, verb).Len() > 0 {
			return true
		}
	}
	return workflow.GetSignalChannel(ctx, SignalPolicy).Len() > 0 || workflow.GetSignalChannel(ctx, SignalConnection).Len() > 0
}

// receive takes one signal and does what it says.
func (s *server) receive(ctx workflow.Context) error {
	if err := s.lock.Lock(ctx); err != nil {
		return err
	}
	defer s.lock.Unlock()
	if s.State.Server.State == registry.StateRetired {
		return nil
	}
	var raw converter.RawValue
	if workflow.GetSignalChannel(ctx, SignalProbe).ReceiveAsync(&raw) {
		return s.onProbe(ctx, raw)
	}
	if workflow.GetSignalChannel(ctx, SignalPolicy).ReceiveAsync(&raw) {
		return s.onPolicy(ctx, raw)
	}
	if workflow.GetSignalChannel(ctx, SignalConnection).ReceiveAsync(&raw) {
		return s.onConnection(ctx, raw)
	}
	for _, verb := range decisions {
		if workflow.GetSignalChannel(ctx, verb).ReceiveAsync(&raw) {
			return s.onSignal(ctx, registry.Verb(verb), raw)
		}
	}
	return nil
}

// onPolicy holds what is bound against the policy, of which a version was
// published. It can only take away, so it does no harm when a stranger asks.
func (s *server) onPolicy(ctx workflow.Context, raw converter.RawValue) error {
	var in PolicySignal
	if decode(raw, &in) != nil || in.Digest == "" {
		return nil //nolint:nilerr // a stranger's
	}
	out, err := do(ctx, committing, "hold it against policy "+in.Ref, act.Reevaluate, activities.ReevaluateInput{
		Tenant: s.Tenant, ServerID: s.State.Server.ServerID, Digest: in.Digest,
	})
	return s.own(ctx, out.Server, err)
}

// onConnection takes the newest version of the connection that the server uses:
// whatever the table has is what somebody was allowed to write, so it does no
// harm when a stranger asks. Another target unbinds, and is discovered.
func (s *server) onConnection(ctx workflow.Context, raw converter.RawValue) error {
	var in ConnectionSignal
	if decode(raw, &in) != nil || in.Name == "" || in.Version <= 0 {
		return nil //nolint:nilerr // a stranger's
	}
	before := s.State.Server.TargetDigest
	out, err := do(ctx, committing, fmt.Sprintf("take connection %s@%d", in.Name, in.Version), act.TakeConnection, activities.TakeConnectionInput{
		Tenant: s.Tenant, ServerID: s.State.Server.ServerID, Name: in.Name, Version: in.Version,
	})
	if err := s.own(ctx, out.Server, err); err != nil {
		return err
	}
	if s.State.Server.TargetDigest != before {
		s.State.Discover = out.By
		if s.stopChild != nil {
			s.stopChild() // it looks at the old target
		}
	}
	return nil
}

// onProbe applies a changed outcome of the sweep.
func (s *server) onProbe(ctx workflow.Context, raw converter.RawValue) error {
	var probe registry.Probe
	readable := decode(raw, &probe) == nil
	if !readable || probe.ServerID != s.State.Server.ServerID || !probe.Changes(&s.State.Server) {
		return nil // a stranger's, of another server, or told already
	}
	wanted := probe.WantsDiscovery(&s.State.Server)
	out, err := do(ctx, committing, "probe: "+string(probe.Outcome), act.ApplyProbe, activities.ApplyProbeInput{Probe: probe})
	if err := s.own(ctx, out.Server, err); err != nil {
		return err
	}
	if (wanted || probe.WantsDiscovery(&s.State.Server)) && s.number == 0 {
		s.State.Discover = registry.System("probe").Subject
	}
	return nil
}

// onSignal carries a decision that came as a plain signal. Whether it counts
// is the activity's to say: it knows whether unsigned ones do.
func (s *server) onSignal(ctx workflow.Context, verb registry.Verb, raw converter.RawValue) error {
	s.signals++
	operation := registry.Operation{
		ID:     fmt.Sprintf("signal/%s/%d", workflow.GetInfo(ctx).WorkflowExecution.RunID, s.signals),
		Origin: registry.OriginSignalUnsigned,
	}
	var in activities.DecideInput
	if err := decode(raw, &in); err != nil {
		operation.Name, operation.Actor = "refuse", registry.Actor{Subject: "unknown"}
		_, err := do(ctx, committing, "refuse an unreadable "+string(verb), act.RefuseDecision, activities.RefuseInput{
			Tenant: s.Tenant, ServerID: s.State.Server.ServerID, Operation: operation,
			Ruling: registry.Ruling{Verb: verb}, Reason: registry.ReasonMalformedSignal,
		})
		return s.own(ctx, registry.Server{}, err)
	}
	operation.Name, operation.Actor = string(verb), in.Operation.Actor
	if operation.Actor.Subject == "" {
		operation.Actor.Subject = "unknown"
	}
	s.remember(operation.ID)
	in.Tenant, in.Operation, in.Ruling.Verb = s.Tenant, operation, verb
	if in.ServerID == "" {
		in.ServerID = s.State.Server.ServerID
	}
	if in.ServerID != s.State.Server.ServerID {
		_, err := do(ctx, committing, "refuse a "+string(verb)+" of another server", act.RefuseDecision, activities.RefuseInput{
			Tenant: s.Tenant, ServerID: s.State.Server.ServerID, Operation: operation, Ruling: in.Ruling, Reason: registry.ReasonServerNotFound,
		})
		return s.own(ctx, registry.Server{}, err)
	}
	// A refusal is recorded by the transaction; a signal has nobody to answer.
	out, err := do(ctx, committing, string(verb)+" by signal", act.DecideBySignal, in)
	return s.own(ctx, out.Server, err)
}

func decode(raw converter.RawValue, into any) error {
	return converter.GetDefaultDataConverter().FromPayload(raw.Payload(), into)
}
