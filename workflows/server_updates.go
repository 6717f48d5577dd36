package workflows

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"countersign/activities"
	"countersign/registry"
)

// listen sets every handler. None of them waits for the network or for a
// child's end.
func (s *server) listen(ctx workflow.Context) error {
	handlers := []struct {
		name    string
		handler any
	}{
		{UpdateRegister, s.onRegister},
		{UpdateEdit, s.onEdit},
		{UpdateDiscover, s.onDiscover},
		{UpdateSetEnabled, s.onSetEnabled},
		{UpdateRequireApproval, s.onRequireApproval},
		{UpdateRetire, s.onRetire},
	}
	for _, h := range handlers {
		if err := workflow.SetUpdateHandler(ctx, h.name, h.handler); err != nil {
			return err
		}
	}
	for _, verb := range append(slices.Clone(decisions), DecisionWithdrawApproval) {
		err := workflow.SetUpdateHandler(ctx, verb, func(ctx workflow.Context, in activities.DecideInput) (activities.ServerOutput, error) {
			return s.onDecide(ctx, registry.Verb(verb), in)
		})
		if err != nil {
			return err
		}
	}
	if err := workflow.SetQueryHandler(ctx, QueryStatus, func() (registry.Server, error) { return s.State.Server, nil }); err != nil {
		return err
	}
	return workflow.SetQueryHandler(ctx, QueryReview, func() (registry.Review, error) { return s.State.Server.Review, nil })
}

// onRegister completes when the registration is recorded. The transaction
// decides; a loser or a replay does not become this workflow's server.
func (s *server) onRegister(ctx workflow.Context, in activities.RegisterInput) (activities.RegisterOutput, error) {
	s.asked = true
	if err := s.lock.Lock(ctx); err != nil {
		return activities.RegisterOutput{}, err
	}
	defer s.lock.Unlock()
	if s.State.Server.State == registry.StateRetired {
		return activities.RegisterOutput{}, registry.Errorf(registry.ReasonServerClosing, "the retired server of this name is just ending").
			WithNext("try again at once")
	}
	out, err := do(ctx, committing, "record "+in.Registration.Name, act.Register, in)
	if err != nil {
		s.refused = true
		return activities.RegisterOutput{}, err
	}
	switch {
	case s.registered():
	case out.Live:
		s.take(ctx, out.Current) // with its first discovery numbered
	default:
		s.refused = true // a replay of a registration whose server is retired
	}
	return out, nil
}

func (s *server) onDecide(ctx workflow.Context, verb registry.Verb, in activities.DecideInput) (activities.ServerOutput, error) {
	in.Ruling.Verb, in.Operation.Name, in.Operation.Origin = verb, string(verb), registry.OriginAPI
	in.Token = ""
	var out activities.ServerOutput
	now, err := s.change(ctx, in.ServerID, func() (server registry.Server, err error) {
		out, err = do(ctx, committing, string(verb)+" by "+in.Operation.Actor.Subject, act.Decide, in)
		return out.Server, err
	})
	out.Server = now
	return out, err
}

func (s *server) onEdit(ctx workflow.Context, in activities.EditInput) (activities.ServerOutput, error) {
	var before string
	now, err := s.change(ctx, in.ServerID, func() (registry.Server, error) {
		before = s.State.Server.TargetDigest // now that no other edit is under way
		out, err := do(ctx, committing, "edit", act.Edit, in)
		return out.Server, err
	})
	if err == nil && now.TargetDigest != before {
		if !now.LaunchPending() {
			s.State.Discover = in.Operation.Actor.Subject
		}
		if s.stopChild != nil {
			s.stopChild() // it looks at the old target
		}
	}
	return activities.ServerOutput{Server: now}, err
}

func (s *server) onSetEnabled(ctx workflow.Context, in activities.SetEnabledInput) (activities.ServerOutput, error) {
	now, err := s.change(ctx, in.ServerID, func() (registry.Server, error) {
		what := "switch " + in.Tool
		if len(in.Tools) > 0 {
			what = fmt.Sprintf("switch %d tools", len(in.Tools))
		}
		out, err := do(ctx, committing, what, act.SetEnabled, in)
		return out.Server, err
	})
	return activities.ServerOutput{Server: now}, err
}

func (s *server) onRequireApproval(ctx workflow.Context, in activities.RequireApprovalInput) (activities.ServerOutput, error) {
	now, err := s.change(ctx, in.ServerID, func() (registry.Server, error) {
		out, err := do(ctx, committing, fmt.Sprintf("approval of each call of %d tools", len(in.Tools)), act.RequireApproval, in)
		return out.Server, err
	})
	return activities.ServerOutput{Server: now}, err
}

func (s *server) onRetire(ctx workflow.Context, in activities.RetireInput) (activities.ServerOutput, error) {
	now, err := s.change(ctx, in.ServerID, func() (registry.Server, error) {
		out, err := do(ctx, committing, "retire", act.Retire, in)
		return out.Server, err
	})
	return activities.ServerOutput{Server: now}, err
}

// onDiscover completes when the discovery has started, or tells which one runs.
func (s *server) onDiscover(ctx workflow.Context, in activities.BeginDiscoveryInput) (activities.BeginDiscoveryOutput, error) {
	if err := s.lock.Lock(ctx); err != nil {
		return activities.BeginDiscoveryOutput{}, err
	}
	defer s.lock.Unlock()
	if err := s.meant(in.ServerID); err != nil {
		return activities.BeginDiscoveryOutput{}, err
	}
	return s.begin(ctx, in)
}
