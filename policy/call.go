package policy

import (
	"time"

	"countersign/registry"
)

// Call is what is put to the policy before a tool is called.
type Call struct {
	Server    *Server
	ToolID    string // canonical
	Tool      string // as the server names it
	Class     registry.Class
	Agent     string // empty: none was named
	Workspace string
	Now       time.Time // the database's
}

// Call says whether a call is allowed. A policy that fails denies. It does no I/O and takes microseconds.
func (p *Policy) Call(in Call) registry.CallVerdict {
	v := registry.CallVerdict{Bundle: p.Digest(), Policy: p.Ref()}
	if p == nil || in.Server == nil {
		v.Reason, v.Message = registry.ReasonPolicyError, "there is no policy, so nothing can be called"
		return v
	}
	if len(p.calls) == 0 {
		v.Allowed = true
		return v
	}
	budget := uint64(callBudget)
	item := Item{Name: in.Tool, ID: in.ToolID, Class: in.Class}
	f := &facts{server: in.Server, item: &item, agent: in.Agent, workspace: in.Workspace, now: in.Now, zone: p.zone, bounded: callBounds.hold(&in)}
	for i, rule := range p.calls {
		denies, err := rule.holds(f, &budget)
		switch {
		case err != nil:
			v.Reason, v.Rule = registry.ReasonPolicyError, p.bundle.Calls[i].Name
			v.Message = "rule " + v.Rule + " failed: " + err.Error()
			return v
		case denies:
			v.Reason, v.Rule, v.Message = registry.ReasonPolicyDenied, p.bundle.Calls[i].Name, p.bundle.Calls[i].Deny
			return v
		}
	}
	v.Allowed = true
	return v
}
