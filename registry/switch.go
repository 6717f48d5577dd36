package registry

import "fmt"

// SetEnabled sets an administrator's switch of one tool (R62, R63).
func (r *Record) SetEnabled(tool string, enabled bool) error {
	return r.SetAllEnabled([]string{tool}, enabled)
}

// SetAllEnabled sets the switches of tools, named as their server names them.
// Those that are so already stay untouched; nothing is switched when one of
// them does not exist.
func (r *Record) SetAllEnabled(tools []string, enabled bool) error {
	verb := "disabled"
	if enabled {
		verb = "enabled"
	}
	return r.flip(SwitchEnabled, verb, tools, enabled, func(t *Tool) *bool { return &t.Enabled })
}

// RequireApproval sets whether each call of the tools needs a person's approval
// first (R66).
func (r *Record) RequireApproval(tools []string, required bool) error {
	verb := "each call goes without approval:"
	if required {
		verb = "each call requires approval:"
	}
	return r.flip(SwitchRequiresApproval, verb, tools, required, func(t *Tool) *bool { return &t.RequiresApproval })
}

// flip sets one switch of tools.
func (r *Record) flip(which ToolSwitch, verb string, names []string, to bool, of func(*Tool) *bool) error {
	s := &r.Server
	if s.State == StateRetired {
		return Errorf(ReasonServerRetired, "server %s is retired", s.Name)
	}
	for _, name := range names {
		if r.Tools[name] == nil {
			return Errorf(ReasonToolNotFound, "server %s has no tool %q", s.Name, name)
		}
	}
	var changed []string
	for _, name := range names {
		tool := r.Tools[name]
		if is := of(tool); *is != to {
			*is = to
			r.changes.Tools[name] = true
			changed = append(changed, tool.ToolID)
		}
	}
	switch len(changed) {
	case 0:
		return nil
	case 1:
		r.note(verb + " " + changed[0])
	default:
		r.note(fmt.Sprintf("%s %d tools", verb, len(changed)))
		r.changes.Detail = struct {
			Tools []string `json:"tools"`
		}{changed}
	}
	r.emit(EventToolsSwitched, ToolsSwitched{
		ServerID: s.ServerID, TenantID: s.TenantID, Switch: which, On: to, Count: len(changed), Tools: changed[:min(len(changed), MaxEventItems)],
	})
	r.touch()
	return nil
}
