package activities

import (
	"countersign/registry"
)

// target is where a server is met now. A command must be approved and still be
// what the operator's allow-list has.
func (a *Activities) target(s *registry.Server, c registry.Connection, pinned *registry.Command) (registry.Target, error) {
	if s.Transport != registry.TransportStdio {
		return registry.TargetOf(s, c, nil), nil
	}
	if s.LaunchPending() {
		return registry.TargetOf(s, c, pinned), s.MayLaunch(registry.Command{})
	}
	now, err := a.command(s.TenantID, s.CommandRef)
	if err != nil {
		return registry.TargetOf(s, c, pinned), err
	}
	return registry.TargetOf(s, c, &now), s.MayLaunch(now)
}

func (a *Activities) command(tenant, ref string) (registry.Command, error) {
	if a.Command == nil {
		return registry.Command{}, registry.Errorf(registry.ReasonUnknownCommand, "there is no command %q: the operator's allow-list is empty", ref).
			WithNext("have the operator add it to commands in the configuration of the workers")
	}
	return a.Command(tenant, ref)
}
