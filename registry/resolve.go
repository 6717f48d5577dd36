package registry

import "time"

// ResolveFacts is all that decides whether a tool may be called, as committed
// now.
type ResolveFacts struct {
	Tool            *Tool // nil: the tenant has none of this id
	Server          *Server
	ProviderEnabled bool
	Binding         *ToolBinding     // nil: never approved
	Capabilities    *CapabilityModel // of the server; nil: none switches anything off
	Now             time.Time        // the database's clock
	Agent           string           // who is to call it; empty: nobody is named
	Assigned        bool             // that agent has the tool
}

// off gives the capability that switches the tool off, if one does.
func (f *ResolveFacts) off() string {
	if f.Capabilities == nil {
		return ""
	}
	return f.Capabilities.Blocks(f.Tool.ExternalID)
}

// Denial is why a tool may not be called. A denial is an answer.
type Denial struct {
	Reason Reason `json:"reason"`
	Detail string `json:"detail,omitempty"`
}

// conditions are R70's, in the order in which a denial is reported (Appendix
// B, R72): the first that does not hold is the answer.
var conditions = []struct {
	reason Reason
	denies func(f *ResolveFacts) bool
	detail func(f *ResolveFacts) string
	value  func(f *ResolveFacts) string // what there is, whether it holds or not
}{
	{ReasonToolNotFound, func(f *ResolveFacts) bool { return f.Tool == nil || f.Server == nil }, nil, toolValue},
	{ReasonProviderDisabled, func(f *ResolveFacts) bool { return !f.ProviderEnabled }, nil, providerValue},
	{ReasonServerRetired, func(f *ResolveFacts) bool { return f.Server.State == StateRetired }, nil, retiredValue},
	{ReasonAuthExceptionExpired, func(f *ResolveFacts) bool {
		return f.Server.Causes.Has(CauseAuthExceptionExpired) || f.Server.Exception.Expired(f.Now)
	}, nil, exceptionValue},
	{ReasonServerQuarantined, func(f *ResolveFacts) bool { return f.Server.Causes.Has(CauseQuarantined) }, nil, quarantineValue},
	{
		ReasonServerDegraded, func(f *ResolveFacts) bool { return f.Server.State == StateDegraded },
		func(f *ResolveFacts) string { return string(f.Server.Causes.Worst()) }, causesValue,
	},
	{
		ReasonServerNotActive, func(f *ResolveFacts) bool { return f.Server.State != StateActive },
		func(f *ResolveFacts) string { return string(f.Server.State) }, stateValue,
	},
	{ReasonToolDisabled, func(f *ResolveFacts) bool { return !f.Tool.Enabled }, nil, enabledValue},
	{
		ReasonToolUnavailable, func(f *ResolveFacts) bool { return !f.Tool.Available || f.off() != "" },
		func(f *ResolveFacts) string {
			switch {
			case f.Tool.Verdict != "":
				return string(f.Tool.Verdict)
			case f.Tool.Available:
				return "capability:" + f.off() // R86
			}
			return "not offered since " + f.Tool.LastSeenAt.UTC().Format(time.RFC3339)
		},
		availableValue,
	},
	{ReasonApprovalExpired, func(f *ResolveFacts) bool {
		return f.Binding != nil && (f.Binding.Bound && f.Binding.Ended(f.Now) || !f.Binding.Bound && f.Binding.UnboundBy == ReasonApprovalExpired)
	}, nil, lastingValue},
	{ReasonSchemaChanged, func(f *ResolveFacts) bool {
		return f.Binding != nil && (!f.Binding.Bound || !f.Binding.Holds(f.Tool.Digests, f.Server.TargetDigest))
	}, func(f *ResolveFacts) string { return string(f.Binding.UnboundBy) }, unchangedValue},
	{ReasonToolUnbound, func(f *ResolveFacts) bool { return f.Binding == nil || !f.Binding.DeclaredClass.Valid() }, nil, boundValue},
	{ReasonNotAssigned, func(f *ResolveFacts) bool { return f.Agent != "" && !f.Assigned }, nil, assignedValue},
}

// Resolve says whether the tool may be called: nil, or the one reason why not.
func Resolve(f ResolveFacts) *Denial {
	for _, c := range conditions {
		if !c.denies(&f) {
			continue
		}
		d := &Denial{Reason: c.reason}
		if c.detail != nil {
			d.Detail = c.detail(&f)
		}
		return d
	}
	return nil
}

// DenialOrder lists the reasons in the order in which they are reported.
func DenialOrder() []Reason {
	out := make([]Reason, len(conditions))
	for i, c := range conditions {
		out[i] = c.reason
	}
	return out
}
